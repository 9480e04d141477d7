"""Packages that ope-bench, its extras and plugins need; exceptions of plugins, and their cures.

A plugin's modules are imported before timing starts; the error for a missing one has the command
that installs it. The class of an exception may be a plugin's, whose methods say nothing or raise.
"""

from __future__ import annotations

import errno
import importlib
import importlib.util
import math
import re
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ope_bench.base.errors import SignalExit, UnavailableError


def class_name(exc: BaseException) -> str:
    """Return the name of an exception's class, whatever its metaclass says.

    >>> class_name(KeyError())
    'KeyError'
    """
    return str(type.__dict__["__name__"].__get__(type(exc)))


def message_of(exc: BaseException) -> str:
    """Return an exception's message, or that it cannot be read."""
    try:
        return str(exc)
    except (KeyboardInterrupt, SignalExit):
        raise
    except BaseException as failure:  # SystemExit, too
        return f"(its message cannot be read: {class_name(failure)})"


def traceback_of(exc: BaseException) -> str:
    """Return an exception's traceback, or that it cannot be read."""
    try:
        return "".join(traceback.format_exception(exc))
    # Formatting reads attributes of the exception and of its class.
    except Exception as failure:
        return f"(its traceback cannot be read: {class_name(failure)})"


# Each library reports in its own words that memory ran out.
_SIGNS = (
    "MemoryError",
    "Cannot allocate memory",
    "out of memory",
    "bad_alloc",
    "DefaultCPUAllocator",
    # Python's own threads.
    "can't allocate lock",
    # Rust, which ends the process after this message.
    "memory allocation of",
    # OpenBLAS, which ends the process after this message.
    "Memory allocation still failed",
)

_OF_VALUES = (ValueError, TypeError, LookupError, ArithmeticError, AssertionError, AttributeError)

_LOADER_SIGNS = ("failed to map segment", "cannot map zero-fill pages")
"""The dynamic loader's messages, also used for libraries without permission to execute."""


def ran_out_of_memory(exc: BaseException) -> bool:
    """Return whether an exception, or one that caused it, is a failed allocation.

    >>> ran_out_of_memory(RuntimeError("std::bad_alloc"))
    True
    """
    seen: set[int] = set()
    link: BaseException | None = exc
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        # By name, so that torch need not be imported.
        if isinstance(link, MemoryError) or class_name(link) == "OutOfMemoryError":
            return True
        if isinstance(link, OSError) and link.errno == errno.ENOMEM:
            return True
        # What a plugin says of a value is no report of a library.
        of_library = isinstance(link, Exception) and not isinstance(link, _OF_VALUES)
        if of_library and is_out_of_memory(message_of(link)):
            return True
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return False


def is_out_of_memory(text: str) -> bool:
    """Return whether a library's message means that memory ran out."""
    signs = _SIGNS + (_LOADER_SIGNS if limited_bytes() < math.inf else ())
    return any(sign in text for sign in signs)


def limited_bytes() -> float:
    """Return the bytes that this process may allocate; infinite without a limit."""
    try:
        import resource
    except ImportError:
        return math.inf
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return math.inf if soft == resource.RLIM_INFINITY else float(soft)


# Packages, and the commands that install them.

CORE = {
    "numpy": "numpy",
    "scipy": "scipy",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
    "pydantic": "pydantic",
    "typer": "typer",
    "rich": "rich",
    "threadpoolctl": "threadpoolctl",
    "psutil": "psutil",
    "polars": "polars",
    "cloudpickle": "cloudpickle",
}
"""Required packages of ope-bench: module to distribution."""

EXTRAS: dict[str, dict[str, str]] = {
    "xgboost": {"xgboost": "xgboost"},
    "flow": {"torch": "torch", "zuko": "zuko"},
    "dask": {"distributed": "distributed"},
    "report": {"altair": "altair", "vl_convert": "vl-convert-python"},
    "parquet": {},
}
"""Packages of the extra ``all``: extra to module to distribution.

The installed package's metadata has the distributions but not their modules, and the distribution
of a missing module cannot be looked up. A test compares this table with pyproject.toml.
"""

NUMERICAL = ("numpy", "scipy", "scikit-learn")
"""Distributions on which every result depends."""

LEARNERS = EXTRAS["flow"] | EXTRAS["xgboost"]
"""Optional packages on which results depend: module to distribution."""

_EXTRA_OF = {
    "dask": "dask",  # comes with distributed
    "obp": "obp",  # no part of ``all``, because its pins conflict with theirs
} | {module: extra for extra, modules in EXTRAS.items() for module in modules}


APART = {"obp": "in an environment of its own, since it needs older versions of others"}
"""Notes on installing an extra, by module."""


def pip_line(module: str) -> str:
    """Return the command that installs the package of ``module``.

    >>> pip_line("zuko.flows")
    'pip install "ope-bench[flow]"'
    """
    top = module.partition(".")[0]
    if top in _EXTRA_OF:
        apart = APART.get(top, "")
        return f'pip install "ope-bench[{_EXTRA_OF[top]}]"{apart and f" {apart}"}'
    return f"pip install {CORE.get(top, top)}"


def is_installed(module: str) -> bool:
    """Return whether a module can be found, without importing it.

    >>> is_installed("numpy.linalg"), is_installed("no_such_module")
    (True, False)
    """
    try:
        return importlib.util.find_spec(module.partition(".")[0]) is not None
    # Another process may not find a module that this one imported without a specification.
    except ValueError:
        return False


def installed_version(distribution: str) -> str | None:
    """Return the installed version of a distribution, None where it is not installed."""
    from importlib import metadata  # slow to import, and not needed for a plugin's modules

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def import_all(modules: Iterable[str]) -> None:
    """Import every module.

    Raises
    ------
    UnavailableError : one is missing (with the pip command) or cannot be imported.
    MemoryError : memory ran out while one was imported.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as exc:
            missing = exc.name or module
            msg = f"needs '{missing.partition('.')[0]}': {pip_line(missing)}"
            raise UnavailableError(msg) from exc
        # Packages with incompatible versions raise exceptions of any class.
        except Exception as exc:
            reason = f"{type(exc).__name__}: {exc}"
            if ran_out_of_memory(exc):
                msg = f"no memory left to import '{module}' ({reason})"
                raise MemoryError(msg) from exc
            msg = f"needs '{module}', which cannot be imported here: {reason}"
            raise UnavailableError(msg) from exc


# Typical mistakes of plugins: what to do about an exception, and the line that raised it.

_HARNESS = str(Path(__file__).resolve().parents[1])

_CHAINED = re.compile(r"\n\n(?:During handling of|The above exception)[^\n]*\n\n")
_FRAME = re.compile(r'^  File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<name>.+)$', re.M)

_OTHER_SIGNATURE = r"(got an unexpected keyword argument|missing \d+ required|takes)"

_CURES = {
    r"read-only": "the view's arrays are shared with others: copy before writing",
    r"which the estimator does not declare|read undeclared view\.": (
        "add the flag to the class attribute `access`"
    ),
    r"Cannot cast ufunc .* to dtype\('u?int": (
        "an array of integers cannot hold the result: write x = x * y instead of x *= y"
    ),
    rf"fit\(\) {_OTHER_SIGNATURE}": "write def fit(self, view, *, rng, device)",
    rf"estimate\(\) {_OTHER_SIGNATURE}": "write def estimate(self, view)",
    rf"sample\(\) {_OTHER_SIGNATURE}": (
        "write def sample(self, *, world_rng, logged_rng, target_rng)"
    ),
    r"No module named '(?P<module>\w+)": (
        "list '{module}' in the attribute `requires`, so that a trial without it is unavailable; "
        "to install it: {pip}"
    ),
    r"^the estimate is (nan|-?inf)": (
        "an estimate is a finite number; raise ope_bench.PositivityViolation where there is none"
    ),
    r"^estimate returned (?!NoneType)\w+; expected": "return ope_bench.Estimate(value, ...)",
    r"^estimate returned NoneType": "end it with return ope_bench.Estimate(value, ...)",
    r"'NoneType' object cannot be interpreted as an integer": (
        "view.n_actions is None where actions are continuous"
    ),
    r"sample must return \(Problem, Truth\)": "end it with return problem, truth",
}
"""What to do, by what the message says."""


def explain(message: str, traceback: str | None = None, file: str | None = None) -> str:
    """Return an exception's message with what to do, and the plugin's line that raised it.

    Parameters
    ----------
    message : of the exception.
    traceback : its traceback as text, if there is one.
    file : the plugin's file, if known.

    >>> explain("assignment destination is read-only")
    "assignment destination is read-only; the view's arrays are shared with others: copy before \
writing"
    """
    text = " ".join(message.split())
    for pattern, cure in _CURES.items():
        match = re.search(pattern, text)
        if match:
            module = match.groupdict().get("module", "")
            what = cure.format(module=module, pip=pip_line(module))
            text = f"{text}; {what}" if what not in text else text
            break
    place = place_of(traceback or "", file)
    return f"{text} ({place})" if place else text


def place_of(traceback: str, file: str | None = None) -> str:
    """Return where a plugin raised: ``my.py:29, in estimate``; empty if no line is its own.

    That is the innermost frame in the plugin's file, or else in the file of the first frame that
    is no part of the harness.

    Parameters
    ----------
    traceback : of the last exception, with those that caused it.
    file : the plugin's file, if known.
    """
    last = _CHAINED.split(traceback)[-1]
    frames = [one for one in _FRAME.finditer(last) if not one["file"].startswith(_HARNESS)]
    if not frames:
        return ""
    own = [one for one in frames if file is not None and one["file"] == file]
    inner = (own or [one for one in frames if one["file"] == frames[0]["file"]])[-1]
    return f"{Path(inner['file']).name}:{inner['line']}, in {inner['name']}"


def data_frame(rows: Iterable[object]) -> Any:
    """Return rows as a pandas DataFrame.

    Raises
    ------
    UnavailableError : pandas is not installed.
    """
    import_all(["pandas"])
    import pandas as pd

    return pd.DataFrame(rows)
