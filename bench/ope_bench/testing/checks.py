"""Run checks: as pytest parameters, as pairs of name and callable, or as a list of results.

A check is a function of a plugin under test; its name is a sentence.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import pickle
import random
import re
import signal
import subprocess
import sys
import threading
import time
import unittest
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Generic, Literal, NoReturn, TypeVar

import numpy as np

from ope_bench.base.canonical import canonical_json
from ope_bench.base.errors import ParameterError, UsageError, did_you_mean
from ope_bench.contracts.parameters import Parametrized, hints_of, signature, validated
from ope_bench.contracts.plugins import Environment
from ope_bench.plugins.registry import GROUPS, imported_packages, registry
from ope_bench.plugins.requirements import CORE, explain, message_of, pip_line, traceback_of
from ope_bench.trials.isolation import random_states_restored, seed_global_states, thread_limit
from ope_bench.trials.process_settings import ProcessSettings

P = TypeVar("P", bound=Parametrized)
S = TypeVar("S", bound="UnderTest[Any]")
Check = Callable[[S], None]
"""A function named by a sentence; CheckFailed says with numbers what is wrong and what to do."""

N_SAMPLES = 400
"""Rows that environments sample, unless their ``check_params`` say otherwise."""

TIMED_OUT = "it took longer than"
ON_TIMEOUT = "set smaller parameters in the class attribute `check_params`, or give --timeout"

Result = Literal["passed", "failed", "advice", "skipped", "expected failure", "unexpected pass"]


class CheckFailed(AssertionError):  # noqa: N818  reads as a sentence in a test report
    """The plugin does not satisfy the check.

    Parameters
    ----------
    message : what is wrong, where, and what to do.
    reason : the part of it that other checks may share; the message by default.
    """

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class CheckAdvice(CheckFailed):
    """A failure of a built-in, advice to other plugins; pytest passes over it."""


class CheckTimeout(BaseException):
    """A check took longer than its limit; no ``except Exception`` of a plugin may catch it."""


class NotApplicable(unittest.SkipTest):
    """The check does not apply to this plugin, or cannot be run here."""


def require(holds: object, message: str) -> None:
    """Raise CheckFailed with the message unless the condition holds."""
    if not holds:
        raise CheckFailed(message)


def applies(holds: object, message: str) -> None:
    """Raise NotApplicable with the message unless the condition holds."""
    if not holds:
        raise NotApplicable(message)


def advise(cls: type, holds: object, message: str) -> None:
    """Raise CheckFailed for a built-in class, else CheckAdvice, unless the condition holds."""
    if not holds:
        target = f"{cls.__module__}:{cls.__qualname__}"
        plugins = (plugin for kind in GROUPS for plugin in registry().plugins(kind))
        built_ins = {one.target for one in plugins if one.reference.startswith("ope-bench:")}
        raise (CheckFailed if target in built_ins else CheckAdvice)(message)


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    Parameters
    ----------
    name : name of the check.
    result : one of the words of `Result`; ``failed`` and ``unexpected pass`` are bad.
    message : what is wrong or missing and what to do, or the reason of a skip or an expected
        failure.
    seconds : duration of the check.
    reason : the part of the message that checks that fail for one reason share.
    """

    name: str
    result: Result
    message: str = ""
    seconds: float = 0.0
    reason: str = ""

    @property
    def timed_out(self) -> bool:
        """Return whether it was stopped; further checks would be, too."""
        return self.result == "failed" and self.message.startswith(TIMED_OUT)

    @property
    def bad(self) -> bool:
        """Return whether the plugin, or the failures that it declares, must change."""
        return self.result in ("failed", "unexpected pass")


class UnderTest(Generic[P]):
    """A plugin under test: its class, and small parameters with which checks are quick.

    Parameters that were left at their defaults are those of the class's ``check_params``.

    Parameters
    ----------
    plugin : an object, which is copied.
    expected_failures : reasons by check name, in addition to those that its class declares.
    """

    def __init__(self, plugin: P, expected_failures: Mapping[str, str] | None = None) -> None:
        self.cls: type[Any] = type(plugin)
        self.computed: dict[tuple[object, ...], Any] = {}
        self.expected_failures = {**self.cls.expected_failures, **(expected_failures or {})}
        # A constructor's mistake may break the repr.
        try:
            self.label = repr(plugin)
        except Exception:
            self.label = self.cls.__name__
        self.params: dict[str, Any] = plugin.get_params(deep=False)
        quick = dict(self.cls.check_params)
        if isinstance(plugin, Environment) and "n_samples" in self.params:
            quick.setdefault("n_samples", N_SAMPLES)
        for name, parameter in signature(self.cls).items():
            value = self.params[name]
            if name in quick and (value is parameter.default or value == parameter.default):
                self.params[name] = quick[name]

    def make(self) -> P:
        """Return a fresh copy."""
        made: P = self.cls(**self.params)
        return made

    def explain_exception(self, exc: Exception) -> str:
        """Return an exception's message with what to do and the plugin's line that raised it."""
        file = getattr(sys.modules.get(self.cls.__module__), "__file__", None)
        return explain(message_of(exc), traceback_of(exc), file)


class Checks(Generic[S]):
    """All checks of all given plugins.

    Iterating gives ``(name, callable)``; as a decorator it parametrizes a pytest function that
    takes ``check``; `outcomes` runs them. A check that passes although its failure was declared
    counts as failed.

    Parameters
    ----------
    cases : the plugins.
    checks : the functions, in the order of running.

    Raises
    ------
    UsageError : an expected failure names an unknown check.
    """

    def __init__(self, cases: Sequence[S], checks: Sequence[Check[S]]) -> None:
        self.cases = cases
        self.checks = checks
        known = [check.__name__ for check in checks]
        for case in cases:
            for name in case.expected_failures:
                if name not in known:
                    msg = f"{case.label} expects '{name}' to fail; no check has that name"
                    raise UsageError(msg + did_you_mean(name, known))

    def __iter__(self) -> Iterator[tuple[str, Callable[[], None]]]:
        for name, case, check in self._named():
            yield name, _bound(check, case)

    def __call__(self, test: Callable[..., Any]) -> Callable[..., Any]:
        """Parametrize a pytest function over the checks."""
        import pytest

        parameters = []
        for name, case, check in self._named():
            reason = case.expected_failures.get(check.__name__)
            marks = []
            bound = _bound(check, case, strict=reason is not None)
            if reason is not None:
                marks.append(pytest.mark.xfail(strict=True, raises=CheckFailed, reason=reason))
            parameters.append(pytest.param(bound, id=name, marks=marks))
        marked: Callable[..., Any] = pytest.mark.parametrize("check", parameters)(test)
        return marked

    def outcomes(self, timeout: float | None = None) -> Iterator[CheckResult]:
        """Run the checks and yield their results; one that takes too long is the last.

        Parameters
        ----------
        timeout : seconds for each check, as for `runs`.
        """
        for _, run in self.runs(timeout):
            result = run()
            yield result
            if result.timed_out:
                return

    def runs(
        self, timeout: float | None = None
    ) -> Iterator[tuple[str, Callable[[], CheckResult]]]:
        """Yield the name of each check and what runs it.

        Parameters
        ----------
        timeout : seconds for each check, None for no limit; in the main thread of a system that
            has interval timers, elsewhere there is no limit.
        """
        for name, case, check in self._named():
            yield name, partial(_result, name, check, case, timeout)

    def _named(self) -> Iterator[tuple[str, S, Check[S]]]:
        for case in self.cases:
            prefix = "" if len(self.cases) == 1 else f"{case.label}-"
            for check in self.checks:
                yield prefix + check.__name__, case, check


def _bound(check: Check[S], subject: S, *, strict: bool = False) -> Callable[[], None]:
    """Return a call of the check; without ``strict`` it passes over advice."""

    def run() -> None:
        passed_over = () if strict else (CheckAdvice,)
        # One thread, as in trials: many threads are slow on small problems, and change sums.
        with thread_limit(1), contextlib.suppress(*passed_over):
            check(subject)

    run.__name__ = check.__name__
    run.__doc__ = check.__doc__
    return run


def _result(name: str, check: Check[S], case: S, timeout: float | None) -> CheckResult:
    """Run one check."""
    start = time.perf_counter()
    expected = case.expected_failures.get(check.__name__)
    result: Result = "passed"
    message = reason = ""
    try:
        # Warnings are no failures here; under pytest the author's filters decide.
        with warnings.catch_warnings(), time_limit(timeout):
            warnings.simplefilter("ignore")
            _bound(check, case, strict=True)()
    except NotApplicable as exc:
        result, message = "skipped", str(exc)
    except CheckTimeout:
        result, message = "failed", f"{TIMED_OUT} {timeout:g} s; {ON_TIMEOUT}"
    except CheckFailed as exc:
        result, message, reason = "failed", str(exc), exc.reason
        if expected is not None:
            result, message, reason = "expected failure", expected, ""
        elif isinstance(exc, CheckAdvice):
            result = "advice"
    else:
        if expected is not None:
            result = "unexpected pass"
            message = f"it was declared to fail ({expected}); remove the declaration"
    return CheckResult(name, result, message, time.perf_counter() - start, reason or message)


@contextlib.contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise CheckTimeout in the block after some seconds, where the system can.

    Parameters
    ----------
    seconds : None for no limit.
    """
    main = threading.current_thread() is threading.main_thread()
    if seconds is None or not main or not hasattr(signal, "setitimer"):
        yield
        return

    def expire(number: int, frame: FrameType | None) -> NoReturn:
        raise CheckTimeout

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


Subject = UnderTest[Any]
T = TypeVar("T")

# Checks of parameters and copies, for estimators and environments.


def check_constructor_only_stores_annotated_parameters(subject: Subject) -> None:
    """`__init__` must store each annotated argument under its own name and do nothing else."""
    cls = subject.cls
    require(
        not hasattr(cls, "__post_init__"),
        "the class has `__post_init__`; constructors only store parameters, so leave all work to "
        "fit or sample",
    )
    with _valid_parameters("defaults and check_params must satisfy the annotations"):
        parameters = signature(cls)
        hints = hints_of(cls) if parameters else {}
        validated(cls, subject.params)
    bare = [name for name in parameters if name not in hints]
    require(
        not bare,
        f"parameters without annotation: {', '.join(bare)}; the annotation is what suite files "
        "are checked against, for example `clip: Annotated[float, Gt(0)] = 10.0`",
    )
    defaults = {name: p.default for name, p in parameters.items() if p.default is not p.empty}
    for params in (subject.params, subject.params | defaults):
        made = cls(**params)
        for name, given in params.items():
            require(hasattr(made, name), f"__init__ must store `self.{name} = {name}`")
            stored = getattr(made, name)
            require(
                stored is given or stored == given,
                f"self.{name} is {stored!r}, but {given!r} was given; __init__ must store "
                "arguments unchanged and leave all work to fit or sample",
            )
    more = sorted(set(vars(made)) - set(parameters))
    require(
        not more,
        f"__init__ also sets {', '.join(more)}; set it where the work is done, with a name that "
        "ends in `_`",
    )


@contextlib.contextmanager
def _valid_parameters(cure: str) -> Iterator[None]:
    try:
        yield
    except ParameterError as exc:
        msg = f"{exc}; {cure}"
        raise CheckFailed(msg) from exc


def check_added_parameters_are_parameters(subject: Subject) -> None:
    """`added_parameters` must name parameters, with values that they accept."""
    cls, added = subject.cls, dict(subject.cls.added_parameters)
    applies(added, "the class lists no added_parameters")
    with _valid_parameters("correct added_parameters"):
        validated(cls, subject.params | added)


def check_parameters_survive_json(subject: Subject) -> None:
    """Parameters must be unchanged after storing them as JSON."""
    before = validated(subject.cls, subject.params)
    try:
        stored = canonical_json(before)
    except (TypeError, ValueError) as exc:
        msg = f"parameters cannot be stored as JSON: {exc}; use numbers, strings, lists, mappings"
        raise CheckFailed(msg) from exc
    after = canonical_json(validated(subject.cls, json.loads(stored)))
    require(
        after == stored,
        f"parameters change in the store: {stored} became {after}",
    )


def check_clone_and_set_params_copy_parameters(subject: Subject) -> None:
    """Copies made by `clone` and by `set_params` must have the same parameters."""
    from sklearn.base import clone

    made = subject.make()
    want = made.get_params(deep=False)
    copies: dict[str, Any] = {
        "set_params(**get_params())": subject.make().set_params(**want),
        "sklearn.base.clone": clone(made),
    }
    for how, copy in copies.items():
        have = copy.get_params(deep=False)
        require(
            canonical_json(have) == canonical_json(want),
            f"{how} gives {have}; expected {want}",
        )
    try:
        made.set_params(no_such_parameter=1)
    except ParameterError:
        return
    msg = "set_params(no_such_parameter=1) raises nothing; keep the base class's set_params"
    raise CheckFailed(msg)


def check_nested_parameters_can_be_set(subject: Subject) -> None:
    """`set_params(outer__inner=...)` must set parameters of objects that are parameters."""
    made = subject.make()
    nested = {name: value for name, value in made.get_params().items() if "__" in name}
    applies(nested, "no parameter is an object with parameters of its own")
    made.set_params(**nested)
    have = made.get_params()
    wrong = [name for name, value in nested.items() if have[name] is not value]
    require(not wrong, f"set_params does not set {', '.join(wrong)}")


def check_class_can_be_pickled(subject: Subject) -> None:
    """A pickled copy must have the same parameters; workers receive plugins by pickle."""
    copy = pickled_copy(subject, subject.make())
    require(
        canonical_json(copy.get_params(deep=False)) == canonical_json(subject.params),
        f"the pickled copy has parameters {copy.get_params(deep=False)}",
    )


def pickled_copy(subject: Subject, made: T) -> T:
    """Return a copy made by pickle, as another process receives it."""
    importable(subject.cls)
    try:
        copy: T = pickle.loads(pickle.dumps(made))  # noqa: S301  our own bytes
    except Exception as exc:
        msg = f"pickle raised {type(exc).__name__}: {exc}; store no lambdas or open files in it"
        raise CheckFailed(msg) from exc
    return copy


def importable(cls: type) -> None:
    """Raise NotApplicable for a class that other processes cannot import."""
    where = cls.__module__
    here = getattr(sys.modules.get(where), cls.__name__, None) is cls
    applies(
        where != "__main__" and "<locals>" not in cls.__qualname__ and here,
        f"{cls.__qualname__} is defined in {where}, which other processes cannot import",
    )


# Checks of docstrings.

REFERENCE = re.compile(r"[^()]*\([^()]*\b(?:19|20)\d\d[a-z]?\)")


def formula_of(cls: type) -> str:
    """Return the docstring's first indented line with an equals sign, or the empty string.

    >>> class Mean:
    ...     '''The mean.
    ...
    ...         V = mean r
    ...
    ...     Assumptions: none.
    ...     '''
    >>> formula_of(Mean)
    'V = mean r'
    """
    for line in inspect.cleandoc(cls.__doc__ or "").splitlines()[1:]:
        if line.startswith("    ") and " = " in line and ">>>" not in line and " : " not in line:
            return line.strip()
    return ""


def check_docstring_starts_with_one_line(subject: Subject) -> None:
    """The first line must be a complete sentence; `list` and `show` print it."""
    lines = inspect.cleandoc(subject.cls.__doc__ or "").splitlines()
    require(lines and lines[0].strip(), "the class has no docstring; say in one line what it is")
    advise(
        subject.cls,
        lines[0].endswith(".") and (len(lines) == 1 or not lines[1].strip()),
        f"the docstring's first line is {lines[0]!r}; make it one sentence, then an empty line",
    )


def check_docstring_has_formula_assumptions_and_reference(subject: Subject) -> None:
    """A docstring has a formula, assumptions, failure modes and the source paper."""
    text = inspect.cleandoc(subject.cls.__doc__ or "")
    missing = [
        what
        for what, there in (
            ("a formula (an indented line with ` = `)", formula_of(subject.cls)),
            ("`Assumptions:`", "assumptions" in text.lower()),
            ("`Fails when:`", "fails when" in text.lower()),
            ("a reference as `Title (Authors, year)`", REFERENCE.search(text)),
        )
        if not there
    ]
    message = f"the docstring of {subject.cls.__name__} lacks {', '.join(missing)}"
    advise(subject.cls, not missing, message)


def check_docstring_describes_every_parameter(subject: Subject) -> None:
    """A docstring describes each parameter, in the class or a base class."""
    texts = [cls.__doc__ or "" for cls in subject.cls.__mro__]
    missing = [
        name
        for name in signature(subject.cls)
        if not any(re.search(rf"\b{name}\b", text) for text in texts)
    ]
    advise(
        subject.cls,
        not missing,
        f"the docstring does not mention {', '.join(missing)}; add `name : what it does` under "
        "Parameters",
    )


# Compute a plugin's numbers in a new process.

SECONDS = 300

_CHILD = """
import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
files = pickle.load(sys.stdin.buffer)
if files:
    from ope_bench.plugins.registry import registry
    for kind, reference in files:
        registry().find(kind, reference).cls
module = pickle.load(sys.stdin.buffer)
try:
    function, arguments = pickle.load(sys.stdin.buffer)
except ModuleNotFoundError as exc:
    if not exc.name or not (module + ".").startswith(exc.name + "."):
        raise
    sys.exit(UNKNOWN)
sys.stdout.write("answer " + function(*arguments))
"""

_UNKNOWN = 44
"""Exit code of a new process that cannot import the plugin's module."""


def in_fresh_process(cls: type, function: Callable[..., str], *arguments: Any) -> str:
    """Return ``function(*arguments)``, computed in a new interpreter with the same path.

    Parameters
    ----------
    cls : the plugin's class, which the new process must be able to import.
    function : a function of an importable module; returns one line.

    Raises
    ------
    NotApplicable : the new process cannot import the class.
    CheckFailed : the new process fails.
    """
    importable(cls)
    # Kind and reference of a class that the new process must load from a file.
    files = []
    if cls.__module__.startswith("ope_bench_file_"):
        kind = "environment" if issubclass(cls, Environment) else "estimator"
        path = Path(str(sys.modules[cls.__module__].__file__)).resolve()
        files.append((kind, f"{path}:{cls.__name__}"))
    output = (sys.path, files, cls.__module__, (function, arguments))
    try:
        completed = subprocess.run(  # noqa: S603  our own interpreter and code
            [sys.executable, "-c", f"UNKNOWN = {_UNKNOWN}\n{_CHILD}"],
            input=b"".join(pickle.dumps(part) for part in output),
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        msg = f"in a new process it did not finish within {SECONDS} s"
        raise CheckFailed(msg) from exc
    applies(
        completed.returncode != _UNKNOWN,
        f"{cls.__qualname__} is defined in {cls.__module__}, which a new process cannot import",
    )
    # The plugin may have printed before.
    _, found, line = completed.stdout.decode(errors="replace").rpartition("answer ")
    if completed.returncode or not found:
        last = completed.stderr.decode(errors="replace").strip().splitlines()[-1:]
        msg = f"in a new process it fails (exit {completed.returncode}): {''.join(last)}"
        raise CheckFailed(msg)
    return line


# Check that a plugin declares the packages that it imports.

_ALWAYS = {*CORE, "annotated_types", "typing_extensions", "ope_bench"}
"""Packages that are there wherever ope-bench is."""


def check_imported_packages_are_declared(subject: Subject) -> None:
    """Packages that the class's module imports must be in `requires`, or be those of ope-bench.

    Without that, a missing package is an error of each trial instead of "unavailable" with the
    line that installs it, and the time of the import counts as the time of fit.
    """
    module = sys.modules.get(subject.cls.__module__)
    file = getattr(module, "__file__", None)
    path = Path(file or "")
    applies(path.suffix == ".py", "the source of the class's module is not known")
    applies(not path.name.startswith("test_"), "the class is part of a test")
    own = subject.cls.__module__.partition(".")[0]
    declared = {name.partition(".")[0] for name in subject.make().requires}
    unknown = sorted(
        name
        for name in imported_packages(path.read_text(encoding="utf-8"), subject.cls.__name__)
        if name not in sys.stdlib_module_names
        and name not in _ALWAYS | declared | {own}
        # Not one that lies beside the file.
        and not (path.parent / f"{name}.py").is_file()
        and not (path.parent / name).is_dir()
    )
    lines = "; ".join(dict.fromkeys(map(pip_line, unknown)))
    require(
        not unknown,
        f"{path.name} imports {', '.join(unknown)}, which `requires` does not list: write "
        f"requires = ({', '.join(repr(name) for name in unknown)},) in the class, so that without "
        f"it trials are unavailable and say: {lines}",
    )


# Detect changes of global random states and process settings by a block of code.

_SEED = 1_234_567_891
"""A seed that no plugin uses by chance, so that seeding is detected like drawing."""


def _random_states() -> dict[str, bytes]:
    states: dict[str, object] = {
        "random": random.getstate(),
        "numpy.random": np.random.get_state(legacy=False),  # noqa: NPY002
    }
    if torch := sys.modules.get("torch"):
        states["torch"] = torch.get_rng_state().numpy()
    return {name: pickle.dumps(state) for name, state in states.items()}


@contextlib.contextmanager
def untouched_global_random_state(instead: str) -> Iterator[None]:
    """Raise CheckFailed if the block draws from or seeds a global random state.

    The states are restored afterwards.

    Parameters
    ----------
    instead : the generator to use instead, for the message.
    """
    with random_states_restored():
        seed_global_states(_SEED)
        before = _random_states()
        yield
        after = _random_states()
    changed = [name for name, state in before.items() if after[name] != state]
    require(
        not changed,
        f"the global random state of {', '.join(changed)} was changed; draw from {instead} "
        "only (torch: a Generator or `torch.random.fork_rng()`, seeded from it)",
    )


@contextlib.contextmanager
def unchanged_process_settings() -> Iterator[None]:
    """Raise CheckFailed if the block left a setting of the whole process changed."""
    settings = ProcessSettings()
    with settings.watched():
        yield
    changed = settings.changes()
    require(
        not changed,
        f"{', '.join(changed)} changed and did not change back; use a context manager, or "
        "`try` and `finally`",
    )


PARAMETER_CHECKS = (
    check_constructor_only_stores_annotated_parameters,
    check_parameters_survive_json,
    check_added_parameters_are_parameters,
    check_clone_and_set_params_copy_parameters,
    check_nested_parameters_can_be_set,
    check_class_can_be_pickled,
    check_imported_packages_are_declared,
    check_docstring_starts_with_one_line,
    check_docstring_describes_every_parameter,
)
"""Checks of the class alone, for estimators and environments; they run first."""
