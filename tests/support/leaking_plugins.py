"""A plugin file: estimators and environments that change settings of their whole process."""

import ctypes
import decimal
import gc
import importlib
import locale
import os
import random
import resource
import signal
import socket
import sys
import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from ope_bench import Environment, Estimate, Estimator, Problem, Truth, View, params

HELD: list[Any] = []


def _torch() -> Any:
    return importlib.import_module("torch")


def _inference() -> None:
    HELD.append(_torch().inference_mode())
    HELD[-1].__enter__()


def _sklearn() -> Any:
    return importlib.import_module("sklearn")


def _alarm(with_handler: bool) -> None:
    if with_handler:
        signal.signal(signal.SIGALRM, lambda number, frame: 1 / 0)
    signal.setitimer(signal.ITIMER_REAL, 0.05)


def _lower(limit: int, value: int) -> None:
    resource.setrlimit(limit, (value, resource.getrlimit(limit)[1]))


def _locale() -> None:
    # The only one that is everywhere beside the one in force.
    now = locale.setlocale(locale.LC_ALL)
    locale.setlocale(locale.LC_ALL, "C" if now != "C" else "C.UTF-8")


def _numpy_generator() -> None:
    np.random.set_bit_generator(np.random.PCG64(1))  # type: ignore[attr-defined]


def _special() -> None:
    importlib.import_module("scipy.special").seterr(all="raise")


def _decimal() -> None:
    decimal.getcontext().prec = 3
    decimal.getcontext().traps[decimal.Inexact] = True


def _rounding_up() -> None:
    ctypes.CDLL("libm.so.6").fesetround(0x800)


def _start_method() -> None:
    importlib.import_module("multiprocessing").set_start_method("spawn", force=True)


# What it does, and how a record's note calls it; None where the harness undoes it unseen.
LEAKS: dict[str, tuple[Callable[[], Any], str | None]] = {
    "torch-dtype": (
        lambda: _torch().set_default_dtype(_torch().float64),
        "torch's default type",
    ),
    "torch-grad": (lambda: _torch().set_grad_enabled(False), "torch's gradient mode"),
    "torch-device": (lambda: _torch().set_default_device("meta"), "torch's default device"),
    "torch-precision": (
        lambda: _torch().set_float32_matmul_precision("medium"),
        "torch's matmul precision",
    ),
    "torch-threads": (lambda: _torch().set_num_threads(3), "torch's threads"),
    "torch-deterministic": (
        lambda: _torch().use_deterministic_algorithms(True),
        "torch's deterministic algorithms",
    ),
    "torch-anomaly": (
        lambda: _torch().autograd.set_detect_anomaly(True),
        "torch's detection of anomalies",
    ),
    "torch-autocast": (lambda: _torch().set_autocast_enabled("cpu", True), "torch's autocast"),
    "torch-inference": (
        _inference,
        "torch's inference mode",
    ),
    "torch-denormal": (lambda: _torch().set_flush_denormal(True), "the rounding of numbers"),
    "torch-seed": (lambda: _torch().manual_seed(3), None),
    "sklearn": (
        lambda: _sklearn().set_config(transform_output="pandas"),
        "scikit-learn's configuration",
    ),
    "scipy-special": (_special, "the errors of scipy.special"),
    "numpy-errors": (lambda: np.seterr(all="raise"), None),
    "numpy-print": (lambda: np.set_printoptions(precision=1), "NumPy's print options"),
    "numpy-seed": (lambda: np.random.seed(3), None),  # noqa: NPY002  on purpose
    "numpy-generator": (_numpy_generator, "the kind of NumPy's global generator"),
    "random-seed": (lambda: random.seed(3), None),
    "warnings": (lambda: warnings.simplefilter("error"), None),
    "environment-cleared": (os.environ.clear, "environment variables"),
    "environment-set": (
        lambda: os.environ.update(OMP_NUM_THREADS="7"),
        "environment variables (OMP_NUM_THREADS)",
    ),
    "folder": (lambda: os.chdir("/"), "the working directory"),
    "umask": (lambda: os.umask(0o777), "the file mode mask"),
    "alarm": (lambda: _alarm(False), "an alarm or timer"),
    "alarm-handler": (lambda: _alarm(True), "signal handlers, an alarm or timer"),
    "blocked-signals": (
        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]),
        "blocked signals",
    ),
    "recursion": (lambda: sys.setrecursionlimit(150), "the recursion limit"),
    "search-path": (sys.path.clear, "the module search path"),
    "open-files": (lambda: _lower(resource.RLIMIT_NOFILE, 16), "resource limits"),
    "hard-limit": (
        lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (30, 30)),
        "resource limits",
    ),
    "affinity": (
        lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
        "the cores to run on",
    ),
    "locale": (_locale, "the locale"),
    "decimal": (_decimal, "the context of decimal numbers"),
    "garbage": (gc.disable, "the garbage collector"),
    "tracing": (lambda: sys.settrace(lambda *_: None), "the tracing of calls"),
    "switch-interval": (lambda: sys.setswitchinterval(1.0), "the switch interval"),
    "integer-digits": (lambda: sys.set_int_max_str_digits(640), "the longest printed integer"),
    "sockets": (lambda: socket.setdefaulttimeout(1e-9), "the timeout of sockets"),
    "rounding": (_rounding_up, "the rounding of numbers"),
    "start-method": (_start_method, "the start method of multiprocessing"),
}


@params
class Leaking(Estimator):
    """Changes settings, several joined by "+", and answers."""

    leak: str = "folder"

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        for leak in self.leak.split("+"):
            LEAKS[leak][0]()
        return self

    def estimate(self, view: View) -> Estimate:
        return Estimate(0.5)


@params
class LeakingCoins(Environment):
    """Changes a setting while it is sampled, and draws its rewards from a global generator."""

    leak: str = "torch-dtype"

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        LEAKS[self.leak][0]()
        zeros, actions = np.zeros((50, 1)), np.zeros(50, dtype=np.int64)
        problem = Problem(
            context=zeros,
            action=actions,
            embedding=zeros,
            reward=np.random.random(50),  # noqa: NPY002  on purpose
            target_context=zeros,
            target_action=actions,
            target_embedding=zeros,
            n_actions=1,
        )
        return problem, Truth(0.5, 0.0, 0.5)


@params
class Drawing(Estimator):
    """Draws from torch's global generator, which it imports as late as possible."""

    requires_torch: bool = False

    @property
    def requires(self) -> tuple[str, ...]:
        return ("torch",) if self.requires_torch else ()

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        self.drawn_ = float(_torch().rand(1))
        return self

    def estimate(self, view: View) -> Estimate:
        return Estimate(float(view.reward.mean()) + self.drawn_)


class Averaging(Estimator):
    """Averages the rewards."""

    def estimate(self, view: View) -> Estimate:
        return Estimate(float(view.reward.mean()))


class Holding(Estimator):
    """Leaves more than half of the files open that a process may usually have."""

    def estimate(self, view: View) -> Estimate:
        HELD.extend(open(os.devnull, "rb") for _ in range(600))  # noqa: SIM115  on purpose
        return Estimate(0.5)
