"""The exceptions that ope-bench raises on purpose.

OpeBenchError
├── UsageError              a user's mistake: one line on stderr, exit code 2
│   ├── ParameterError      a parameter is unknown, of the wrong type or out of range
│   ├── PluginError         an id is unknown, ambiguous, or its plugin cannot be loaded
│   ├── SuiteError          a suite file is wrong (file, line, what to do)
│   └── StoreError          a store is missing, newer, locked, not writable, or no store
├── DataError               arrays that do not fit the contract (an environment's or plugin's bug)
├── AccessError             an estimator read data that its access does not cover
├── UnavailableError        data, a device or a package that a trial needs is missing
└── PositivityViolation     no finite estimate: the logs do not support the target policy

The message says what is wrong, where, and what to do.
"""

from __future__ import annotations

import collections.abc
import inspect
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial, wraps
from numbers import Integral, Real
from types import UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin

ROUNDING = 1e-6
"""Tolerance for rounding: a share computed from floats may lie this far outside of 0 and 1."""


class OpeBenchError(Exception):
    """Base of all exceptions of ope-bench."""


class UsageError(OpeBenchError):
    """A user's mistake; the command line prints its message on one line and exits with 2."""


class ParameterError(UsageError):
    """A parameter is unknown, of the wrong type, or out of range."""


class PluginError(UsageError):
    """An id is unknown, ambiguous, or its plugin cannot be loaded."""


class SuiteError(UsageError):
    """A suite file is wrong."""


class StoreError(UsageError):
    """A store is missing, newer than this version, locked, not writable, or no store at all."""


class DataError(OpeBenchError, ValueError):
    """An array does not fit the contract."""


class AccessError(OpeBenchError, AttributeError):
    """An estimator read data that its declared access does not cover."""


class UnavailableError(OpeBenchError):
    """Data, a device or a package that a trial needs is missing."""


class PositivityViolation(OpeBenchError):  # noqa: N818  a result of the field, not an error of ours
    """No finite estimate exists: the logs do not support the target policy.

    A result, not a bug: the trial's status is ``positivity``.

    Parameters
    ----------
    message : what was missing.
    unsupported_mass : share of the target policy's mass without support, if known.
    fallback : the estimate without the refusal; a board shows whether the refusal was right.

    Raises
    ------
    DataError : mass or fallback is not a number, or the mass is not a share.
    """

    def __init__(
        self,
        message: str,
        *,
        unsupported_mass: float | None = None,
        fallback: float | None = None,
    ) -> None:
        super().__init__(message)
        for name, given in (("unsupported_mass", unsupported_mass), ("fallback", fallback)):
            if given is not None and not _is_number(given):
                msg = (
                    f"{name} of a PositivityViolation is {type(given).__name__}; expected a number"
                )
                raise DataError(msg)
        if unsupported_mass is not None and not -ROUNDING <= unsupported_mass <= 1 + ROUNDING:
            msg = f"unsupported_mass = {unsupported_mass:g} is no share: expected 0 to 1"
            raise DataError(msg)
        self.unsupported_mass = unsupported_mass
        self.fallback = fallback

    def __reduce__(self) -> tuple[object, ...]:
        make = partial(
            PositivityViolation, unsupported_mass=self.unsupported_mass, fallback=self.fallback
        )
        return make, (str(self),)


def _is_number(value: object) -> bool:
    """Return whether a value is one real number, of NumPy's types too."""
    if isinstance(value, bool | str | bytes) or getattr(value, "ndim", 0) != 0:
        return False
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False
    return True


class SignalExit(SystemExit):
    """A signal that ends the command; no plugin's failure, whatever was imported."""


USER_EXITS = (KeyboardInterrupt, SignalExit)
"""Exceptions that end an import without a fault of the plugin."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'epws'?"``, or the empty string where no known name is similar.

    >>> did_you_mean("ipv", ["ipw", "dm"])
    "; did you mean 'ipw'?"
    """
    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean '{near[0]}'?" if near else ""


def no_attribute(thing: object, name: str) -> str:
    """Return the message that an object has no such attribute, with a similar one or all.

    >>> no_attribute(1j, "reel")
    "a complex has no attribute 'reel'; did you mean 'real'?"
    >>> no_attribute(1j, "phase")
    "a complex has no attribute 'phase' (it has conjugate, imag, real)"
    """
    if name.startswith("__"):
        return f"no attribute '{name}'"  # a protocol asks, such as that of copies
    public = [one for one in dir(thing) if not one.startswith("_")]
    hint = did_you_mean(name, public) or f" (it has {', '.join(public)})"
    what = type(thing).__name__
    article = "an" if what[:1] in "AEIOUaeiou" else "a"
    return f"{article} {what} has no attribute '{name}'{hint}"


_P = ParamSpec("_P")
_R = TypeVar("_R")


def short_errors(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Raise a user's mistake from the function itself, without the frames below it."""

    @wraps(function)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except UsageError as exc:
            raise exc.with_traceback(None) from None
        except (TypeError, AttributeError):
            if msg := _unfit_argument(function, args, kwargs):
                raise UsageError(msg) from None
            raise

    return wrapped


def _unfit_argument(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> str:
    """Return which argument is of another type than its annotation says; empty where none is."""
    try:
        given = inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError as exc:
        return f"{function.__name__}: {exc}"
    for name, value in given.items():
        written = str(function.__annotations__.get(name, "Any"))
        try:
            # The harness's own text; names that only type checkers import are unknown here.
            hint = eval(written, function.__globals__)  # noqa: S307
        except NameError:
            continue
        if not _fits(value, hint):
            return (
                f"{name}: {reprlib.repr(value)} is no {written.replace(' | ', ' or ')}; give one"
            )
    return ""


def _fits(value: object, hint: Any) -> bool:
    """Return whether a value is of an annotation's type, as far as that can be told."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in parts)
    if origin in (collections.abc.Sequence, collections.abc.Iterable):
        if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
            return False
        return isinstance(value, origin) and all(_fits(one, parts[0]) for one in value)
    if origin is tuple:
        return isinstance(value, tuple | list) and len(value) == len(parts)
    if isinstance(value, bool) and hint in (float, int):
        return False
    hint = {float: Real, int: Integral, Any: object, None: type(None)}.get(hint, hint)
    return not isinstance(hint, type) or isinstance(value, hint)
