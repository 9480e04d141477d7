"""Settings of the whole process that change numbers or outcomes of other trials.

They are read and compared, never set: a worker whose trial changed one is replaced.
"""

from __future__ import annotations

import contextlib
import gc
import locale
import os
import signal
import socket
import sys
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import numpy as np

from ope_bench.plugins.registry import FILE_FOLDERS

try:
    import resource
except ImportError:  # not on this platform
    resource = None  # type: ignore[assignment]

SET_BY_IMPORTS = (b"KMP_", b"TORCHINDUCTOR_", b"TRITON_")
"""Beginnings of environment variables that scikit-learn and torch set as they are imported. They
concern the loading of OpenMP and folders of compiled code, and change no numbers."""

_Readings = dict[str, Callable[[], Any]]
"""Functions that read settings, by the name of the setting in a note; compared by ``==``."""


class ProcessSettings:
    """The settings of this process as they are now, to be compared later.

    Settings of a library that is not imported yet are those right after its import: see `watched`.
    """

    def __init__(self) -> None:
        self._readings = _PYTHON.copy()
        self._before = _values(self._readings)
        self._environment = _environment().copy()
        self._missing = set(_LIBRARIES)
        self._add_libraries()

    def changes(self) -> tuple[str, ...]:
        """Return the names of the settings that have changed."""
        # A library that came by a way which no import shows: its settings are taken as they are.
        self._add_libraries()
        names: list[str] = []
        variables = _environment()
        if variables != self._environment:
            changed = {name for name, _ in variables.items() ^ self._environment.items()}
            words = [
                os.fsdecode(name)
                for name in changed
                if not os.fsencode(name).startswith(SET_BY_IMPORTS)
            ]
            # Those that an import has set stay; later calls compare with them.
            self._environment = variables.copy()
            if words:
                names.append(f"environment variables ({', '.join(sorted(words))})")
        now = _values(self._readings)
        if now != self._before:
            pairs = zip(self._readings, now, self._before, strict=True)
            names += [name for name, value, before in pairs if value != before]
        return tuple(names)

    def watched(
        self, imported: Callable[[str], None] = lambda name: None
    ) -> contextlib.AbstractContextManager[object]:
        """Notice the settings of libraries that the block imports first, at their import.

        Parameters
        ----------
        imported : called with the library's name before its importer goes on.
        """
        if not self._missing:
            return contextlib.nullcontext()

        def ready(name: str) -> None:
            self._add_libraries()
            imported(name)

        return _ImportWatch(self._missing, ready)

    def _add_libraries(self) -> None:
        for library in tuple(self._missing):
            module = sys.modules.get(library)
            # Half imported, it may lack what is read here.
            if module is None or getattr(module.__spec__, "_initializing", False):
                continue
            self._missing.remove(library)
            readings = _LIBRARIES[library](module)
            self._readings |= readings
            self._before += _values(readings)


def _values(readings: _Readings) -> list[Any]:
    values = []
    for read in readings.values():
        try:
            values.append(read())
        # After some changes a setting cannot be read any more: a folder has been removed.
        except Exception as exc:
            values.append(type(exc))
    return values


class _ImportWatch:
    """A finder that finds nothing itself, but calls back when certain modules are loaded.

    It acts within a ``with`` block.
    """

    def __init__(self, names: Collection[str], ready: Callable[[str], None]) -> None:
        self._names = names
        self._ready = ready

    def __enter__(self) -> None:
        sys.meta_path.insert(0, self)

    def __exit__(self, *exc: object) -> None:
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self._names:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                break
        else:
            return None
        loader = spec.loader
        execute: Any = getattr(loader, "exec_module", None)

        def exec_module(module: Any) -> None:
            with contextlib.suppress(AttributeError):
                del loader.exec_module
            execute(module)
            # Not done yet as the import system sees it; the module itself is complete.
            spec._initializing = False
            self._ready(name)

        if execute is not None:
            with contextlib.suppress(AttributeError):
                loader.exec_module = exec_module
        return spec


def _environment() -> dict[Any, Any]:
    # The mapping behind os.environ holds bytes and is compared a hundred times faster.
    data: dict[Any, Any] | None = getattr(os.environ, "_data", None)
    return dict(os.environ) if data is None else data


# Of Python, the system and NumPy


def _umask() -> int:
    mask = os.umask(0o77)
    os.umask(mask)
    return mask


# Neither folded by the compiler nor equal to a constant of it.
_ONE, _PART, _SMALLEST, _LARGE = map(float, ("1", "6e-17", "2.2250738585072014e-308", "1e100"))


def _rounding() -> tuple[float, ...]:
    """Return sums and a product that show the rounding mode and whether tiny numbers are zero."""
    # The product is made large again, for one that counts as zero also compares as zero.
    return (_ONE + _PART, -_ONE - _PART, _ONE - _PART / 4, _SMALLEST * 0.5 * _LARGE)


def _of_python() -> _Readings:
    # The functions in C: those of `signal` and `locale` make enumerations or aliases of every
    # answer, which takes 0.2 ms.
    in_c: Any = sys.modules["_signal"]
    signals = sorted(map(int, signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))
    clocks = [
        getattr(signal, name)
        for name in ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF")
        if hasattr(signal, name)
    ]
    set_locale = getattr(sys.modules.get("_locale"), "setlocale", locale.setlocale)
    generators: Any = np.random
    readings: _Readings = {
        "the working directory": os.getcwd,
        "the module search path": lambda: [one for one in sys.path if one not in FILE_FOLDERS],
        "the recursion limit": sys.getrecursionlimit,
        "signal handlers": lambda: [*map(in_c.getsignal, signals)],
        "an alarm or timer": lambda: [
            (remaining > 0, period) for remaining, period in map(signal.getitimer, clocks)
        ],
        "the rounding of numbers": _rounding,
        "the garbage collector": lambda: (gc.isenabled(), gc.get_threshold()),
        "the tracing of calls": lambda: (sys.gettrace(), sys.getprofile()),
        "the locale": lambda: set_locale(locale.LC_ALL, None),
        "the switch interval": sys.getswitchinterval,
        "the longest printed integer": sys.get_int_max_str_digits,
        "the timeout of sockets": socket.getdefaulttimeout,
        "the file mode mask": _umask,
        "NumPy's print options": np.get_printoptions,
        "the kind of NumPy's global generator": generators.get_bit_generator,
    }
    if resource is not None:
        names = ("CPU", "DATA", "FSIZE", "NOFILE", "NPROC", "STACK", "AS")
        found = [getattr(resource, f"RLIMIT_{name}", None) for name in names]
        limits = [number for number in found if number is not None]
        readings["resource limits"] = lambda: [*map(resource.getrlimit, limits)]
    if hasattr(in_c, "pthread_sigmask"):
        readings["blocked signals"] = partial(in_c.pthread_sigmask, signal.SIG_BLOCK, ())
    if hasattr(os, "sched_getaffinity"):
        readings["the cores to run on"] = partial(os.sched_getaffinity, 0)
    if hasattr(os, "getpriority"):
        readings["the priority"] = partial(os.getpriority, os.PRIO_PROCESS, 0)
    return readings


_PYTHON = _of_python()


# Of libraries, none of which is imported here

_TORCH_FLAGS = {
    "cudnn_enabled": "cuDNN",
    "cudnn_benchmark": "cuDNN's search for algorithms",
    "cudnn_deterministic": "cuDNN's determinism",
    "cudnn_allow_tf32": "the precision of cuDNN",
    "cublas_allow_tf32": "the precision of cuBLAS",
    "cublas_allow_fp16_reduced_precision_reduction": "the precision of cuBLAS in half floats",
    "cublas_allow_bf16_reduced_precision_reduction": "the precision of cuBLAS in bfloat16",
    "mkldnn_enabled": "oneDNN",
}
"""Flags that torch._C reads by ``_get_NAME``, and their names in notes. The functions of
torch.backends take several microseconds each."""


def _torch(torch: Any) -> _Readings:
    flags = {name: getattr(torch._C, f"_get_{flag}", None) for flag, name in _TORCH_FLAGS.items()}
    return {
        "torch's default type": torch.get_default_dtype,
        "torch's gradient mode": torch.is_grad_enabled,
        "torch's default device": lambda: torch.empty(0).device,
        "torch's matmul precision": torch.get_float32_matmul_precision,
        "torch's threads": torch.get_num_threads,
        "torch's deterministic algorithms": lambda: (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        "torch's detection of anomalies": torch.is_anomaly_enabled,
        "torch's inference mode": torch.is_inference_mode_enabled,
        "torch's autocast": lambda: torch.is_autocast_enabled("cpu"),
        **{name: read for name, read in flags.items() if read is not None},
    }


def _of_decimals(decimal: Any) -> tuple[Any, ...]:
    # As a pickle has it, read at once: numbers, the flags, and the signals that are traps.
    *numbers, _, traps = decimal.getcontext().__reduce__()[1]
    return (*numbers, traps)


_LIBRARIES: dict[str, Callable[[Any], _Readings]] = {
    "decimal": lambda decimal: {"the context of decimal numbers": lambda: _of_decimals(decimal)},
    "multiprocessing": lambda library: {
        # Without ``allow_none`` the question would settle the method.
        "the start method of multiprocessing": lambda: (
            library.get_start_method(allow_none=True) or library.get_all_start_methods()[0]
        )
    },
    "scipy.special": lambda special: {"the errors of scipy.special": special.geterr},
    "sklearn": lambda sklearn: {"scikit-learn's configuration": sklearn.get_config},
    "torch": _torch,
}
"""Readings of a library's settings, by the name of its module."""
