"""Settings of the whole process that libraries keep; none is imported here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ope_bench.trials.process.setting import Setting

__all__ = ["LIBRARY_SETTINGS"]

_TORCH_FLAGS = (
    ("cudnn_enabled", "cuDNN"),
    ("cudnn_benchmark", "cuDNN's search for algorithms"),
    ("cudnn_deterministic", "cuDNN's determinism"),
    ("cudnn_allow_tf32", "the precision of cuDNN"),
    ("cublas_allow_tf32", "the precision of cuBLAS"),
    ("cublas_allow_fp16_reduced_precision_reduction", "the precision of cuBLAS in half floats"),
    ("cublas_allow_bf16_reduced_precision_reduction", "the precision of cuBLAS in bfloat16"),
    ("mkldnn_enabled", "oneDNN"),
)
"""Flags that torch._C reads by ``_get_NAME`` and sets by ``_set_NAME``, and their names in notes.
The functions of torch.backends take several microseconds each."""


def _torch(torch: Any) -> Iterator[Setting]:
    yield Setting("torch's default type", torch.get_default_dtype, torch.set_default_dtype)
    yield Setting("torch's gradient mode", torch.is_grad_enabled, torch.set_grad_enabled)
    yield Setting(
        "torch's default device",
        lambda: torch.empty(0).device,
        # None removes what was set; the name of the CPU would set it.
        lambda wanted: torch.set_default_device(None if wanted.type == "cpu" else wanted),
    )
    yield Setting(
        "torch's matmul precision",
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    )
    yield Setting("torch's threads", torch.get_num_threads, torch.set_num_threads)
    yield Setting(
        "torch's deterministic algorithms",
        lambda: (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        lambda wanted: torch.use_deterministic_algorithms(wanted[0], warn_only=wanted[1]),
    )
    yield Setting(
        "torch's detection of anomalies",
        torch.is_anomaly_enabled,
        torch.autograd.set_detect_anomaly,
    )
    yield Setting("torch's inference mode", torch.is_inference_mode_enabled)
    yield Setting(
        "torch's autocast",
        lambda: torch.is_autocast_enabled("cpu"),
        lambda wanted: torch.set_autocast_enabled("cpu", wanted),
    )
    for flag, name in _TORCH_FLAGS:
        read, restore = (getattr(torch._C, f"_{verb}_{flag}", None) for verb in ("get", "set"))
        if read is not None:
            yield Setting(name, read, restore)


def _sklearn(sklearn: Any) -> Iterator[Setting]:
    yield Setting(
        "scikit-learn's configuration",
        sklearn.get_config,
        lambda wanted: sklearn.set_config(**wanted),
    )


def _special(special: Any) -> Iterator[Setting]:
    yield Setting(
        "the errors of scipy.special",
        special.geterr,
        lambda wanted: special.seterr(**wanted),
    )


def _decimal(decimal: Any) -> Iterator[Setting]:
    names = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")

    def read() -> tuple[Any, ...]:
        # As a pickle has it, read at once: these six, the flags, and the signals that are traps.
        *numbers, _, traps = decimal.getcontext().__reduce__()[1]
        return (*numbers, traps)

    def restore(wanted: tuple[Any, ...]) -> None:
        context = decimal.getcontext()
        for name, value in zip(names, wanted, strict=False):
            setattr(context, name, value)
        context.traps.update({signal: signal in wanted[-1] for signal in context.traps})

    yield Setting("the context of decimal numbers", read, restore)


def _multiprocessing(multiprocessing: Any) -> Iterator[Setting]:
    def read() -> str:
        # To ask otherwise settles the method.
        chosen = multiprocessing.get_start_method(allow_none=True)
        return str(chosen or multiprocessing.get_all_start_methods()[0])

    yield Setting(
        "the start method of multiprocessing",
        read,
        lambda wanted: multiprocessing.set_start_method(wanted, force=True),
    )


LIBRARY_SETTINGS: dict[str, Callable[[Any], Iterator[Setting]]] = {
    "decimal": _decimal,
    "multiprocessing": _multiprocessing,
    "scipy.special": _special,
    "sklearn": _sklearn,
    "torch": _torch,
}
"""By the name of the module: given that, its settings."""
