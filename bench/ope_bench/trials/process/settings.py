"""Settings of the whole process that change numbers or outcomes of other trials.

They are compared after each part of a trial that runs a plugin's code, and put back.
"""

from __future__ import annotations

import contextlib
import gc
import locale
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_bench.trials.process.library_settings import LIBRARY_SETTINGS
from ope_bench.trials.process.setting import Setting, difference_of

__all__ = ["Leftovers", "ProcessSettings"]

try:
    import resource
except ImportError:  # not on this platform
    resource = None  # type: ignore[assignment]

LIMITS = ("CPU", "DATA", "FSIZE", "NOFILE", "NPROC", "STACK", "AS")

SET_BY_IMPORTS = (b"KMP_", b"TORCHINDUCTOR_", b"TRITON_")
"""Beginnings of environment variables that scikit-learn and torch set as they are imported. They
concern the loading of OpenMP and folders of compiled code; they are put back without a note."""

# Neither folded by the compiler nor equal to a constant of it.
_ONE, _PART, _SMALLEST, _LARGE = map(float, ("1", "6e-17", "2.2250738585072014e-308", "1e100"))


@dataclass(frozen=True)
class Leftovers:
    """Changes that some code has left in the process.

    Parameters
    ----------
    names : of the settings.
    lasting : some could not be put back.
    """

    names: tuple[str, ...] = ()
    lasting: bool = False

    def __bool__(self) -> bool:
        return bool(self.names)


_NOTHING = Leftovers()


class ProcessSettings:
    """The settings of this process as they are now, to be found again later.

    Settings of a library that is not imported yet are those right after its import: see `watched`.
    """

    def __init__(self) -> None:
        self._settings: list[Setting] = []
        self._reads: list[Callable[[], Any]] = []
        self._before: list[Any] = []
        self._missing = set(LIBRARY_SETTINGS)
        self._environment = _environment().copy()
        self._add(_OF_PYTHON)
        self._add_libraries()

    def restore(self) -> Leftovers:
        """Put back what has changed, and tell what that was."""
        # A library that came by a way which no import shows: its settings are taken as they are.
        self._add_libraries()
        names: list[str] = []
        lasting = False
        if _environment() != self._environment:
            names += self._restore_environment()
        if self._unchanged():
            return Leftovers(tuple(names)) if names else _NOTHING
        for setting, before in zip(self._settings, self._before, strict=True):
            if not _is_now(setting, before):
                names.append(setting.name)
                lasting |= not _put_back(setting, before)
        return Leftovers(tuple(names), lasting)

    def _unchanged(self) -> bool:
        """Return whether all settings but the environment are as before; every trial asks that."""
        try:
            return [read() for read in self._reads] == self._before
        except Exception:
            return False

    def _restore_environment(self) -> list[str]:
        changed = difference_of(self._environment, _environment())
        words = sorted(
            os.fsdecode(name)
            for name in changed
            if not os.fsencode(name).startswith(SET_BY_IMPORTS)
        )
        _set_environment(self._environment)
        return [f"environment variables ({', '.join(words)})"] if words else []

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
            self._add(LIBRARY_SETTINGS[library](module))

    def _add(self, settings: Iterable[Setting]) -> None:
        for setting in settings:
            with contextlib.suppress(Exception):
                self._before.append(setting.read())
                self._settings.append(setting)
                self._reads.append(setting.read)


def _put_back(setting: Setting, before: Any) -> bool:
    if setting.restore is not None:
        with contextlib.suppress(Exception):
            setting.restore(before)
    return _is_now(setting, before)


def _is_now(setting: Setting, before: Any) -> bool:
    try:
        return bool(setting.read() == before)
    # What cannot be read any more has changed.
    except Exception:
        return False


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
                self._hook(name, spec)
                return spec
        return None

    def _hook(self, name: str, spec: Any) -> None:
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


def _environment() -> dict[Any, Any]:
    # The mapping behind os.environ holds bytes and is compared a hundred times faster.
    data: dict[Any, Any] | None = getattr(os.environ, "_data", None)
    return dict(os.environ) if data is None else data


def _set_environment(wanted: dict[Any, Any]) -> None:
    for name in difference_of(_environment(), wanted):
        key = os.fsdecode(name)
        if name in wanted:
            os.environ[key] = os.fsdecode(wanted[name])
        else:
            del os.environ[key]
    if hasattr(time, "tzset"):
        time.tzset()


def _folder() -> str | None:
    """Return the working directory, None where it has been removed."""
    try:
        return os.getcwd()
    except OSError:
        return None


def _umask() -> int:
    mask = os.umask(0o77)
    os.umask(mask)
    return mask


def _signal_numbers() -> list[int]:
    return sorted(map(int, signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))


_SIGNALS = _signal_numbers()
# The functions in C: those of `signal` turn every answer into an enumeration, which takes 0.2 ms.
_in_c: Any = sys.modules["_signal"]
_handler_of = _in_c.getsignal
_mask_signals = getattr(_in_c, "pthread_sigmask", None)


def _handlers() -> tuple[Any, ...]:
    return tuple(map(_handler_of, _SIGNALS))


def _set_handlers(wanted: tuple[Any, ...]) -> None:
    for number, now, before in zip(_SIGNALS, _handlers(), wanted, strict=True):
        if now is not before:
            signal.signal(number, before)


def _timers() -> tuple[tuple[bool, float], ...]:
    timers = map(signal.getitimer, _CLOCKS)
    return tuple([(remaining > 0, period) for remaining, period in timers])


def _stop_timers(wanted: tuple[tuple[bool, float], ...]) -> None:
    for which, now, before in zip(_CLOCKS, _timers(), wanted, strict=True):
        if now != before and not before[0]:
            signal.setitimer(which, 0.0)


_CLOCKS = tuple(
    getattr(signal, name)
    for name in ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF")
    if hasattr(signal, name)
)


def _limits() -> tuple[tuple[int, int], ...]:
    return tuple(map(resource.getrlimit, _LIMIT_NUMBERS))


def _set_limits(wanted: tuple[tuple[int, int], ...]) -> None:
    for number, now, before in zip(_LIMIT_NUMBERS, _limits(), wanted, strict=True):
        if now != before:
            resource.setrlimit(number, before)


_LIMIT_NUMBERS = tuple(
    getattr(resource, f"RLIMIT_{name}") for name in LIMITS if hasattr(resource, f"RLIMIT_{name}")
)


def _set_search_path(wanted: list[str]) -> None:
    sys.path[:] = wanted


def _floating_point() -> tuple[float, ...]:
    """Return sums and a product that show the rounding mode and whether tiny numbers are zero."""
    # The product is made large again, for one that counts as zero also compares as zero.
    return (_ONE + _PART, -_ONE - _PART, _ONE - _PART / 4, _SMALLEST * 0.5 * _LARGE)


def _garbage() -> tuple[Any, ...]:
    return (gc.isenabled(), gc.get_threshold())


def _set_garbage(wanted: tuple[Any, ...]) -> None:
    (gc.enable if wanted[0] else gc.disable)()
    gc.set_threshold(*wanted[1])


def _tracing() -> tuple[Any, ...]:
    return (sys.gettrace(), sys.getprofile())


def _set_tracing(wanted: tuple[Any, ...]) -> None:
    sys.settrace(wanted[0])
    sys.setprofile(wanted[1])


def _settings_of_python() -> Iterator[Setting]:
    yield Setting("the working directory", _folder, os.chdir)
    yield Setting("the module search path", lambda: list(sys.path), _set_search_path)
    yield Setting("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit)
    yield Setting("signal handlers", _handlers, _set_handlers)
    yield Setting("an alarm or timer", _timers, _stop_timers)
    yield Setting("the rounding of numbers", _floating_point)
    yield Setting("the garbage collector", _garbage, _set_garbage)
    yield Setting("the tracing of calls", _tracing, _set_tracing)
    yield Setting("the locale", _locale, _set_locale)
    yield Setting("the switch interval", sys.getswitchinterval, sys.setswitchinterval)
    yield Setting(
        "the longest printed integer", sys.get_int_max_str_digits, sys.set_int_max_str_digits
    )
    yield Setting("the timeout of sockets", socket.getdefaulttimeout, socket.setdefaulttimeout)
    yield Setting("the file mode mask", _umask, os.umask)
    if resource is not None:
        yield Setting("resource limits", _limits, _set_limits)
    if _mask_signals is not None:
        yield Setting(
            "blocked signals",
            lambda: _mask_signals(signal.SIG_BLOCK, ()),
            lambda wanted: _mask_signals(signal.SIG_SETMASK, wanted),
        )
    if hasattr(os, "sched_getaffinity"):
        yield Setting(
            "the cores to run on",
            lambda: os.sched_getaffinity(0),
            lambda wanted: os.sched_setaffinity(0, wanted),
        )
    if hasattr(os, "getpriority"):
        yield Setting(
            "the priority",
            lambda: os.getpriority(os.PRIO_PROCESS, 0),
            lambda wanted: os.setpriority(os.PRIO_PROCESS, 0, wanted),
        )
    yield Setting(
        "NumPy's print options",
        np.get_printoptions,
        lambda wanted: np.set_printoptions(**wanted),
    )
    generators: Any = np.random
    if hasattr(generators, "get_bit_generator"):  # since NumPy 1.24
        yield Setting(
            "the kind of NumPy's global generator",
            generators.get_bit_generator,
            generators.set_bit_generator,
        )


def _locale() -> str:
    return _setlocale(locale.LC_ALL, None)


_setlocale: Callable[..., str] = getattr(sys.modules.get("_locale"), "setlocale", locale.setlocale)


def _set_locale(wanted: str) -> None:
    locale.setlocale(locale.LC_ALL, wanted)


_OF_PYTHON = tuple(_settings_of_python())
