"""An estimator under test: its results on small problems, and side effects of computing them."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from ope_bench.contracts.data import Problem
from ope_bench.contracts.estimate import Estimate
from ope_bench.contracts.estimator import Estimator
from ope_bench.contracts.fit_cache import FitCache
from ope_bench.contracts.random.seeding import DataSeed
from ope_bench.contracts.view import View
from ope_bench.errors import PositivityViolation, UnavailableError
from ope_bench.plugins.exception_text import class_name, message_of, traceback_of
from ope_bench.plugins.mistakes import explain
from ope_bench.plugins.requirements import import_all
from ope_bench.testing.checks import CheckFailed, NotApplicable
from ope_bench.testing.problems import SUPPORTED, problem
from ope_bench.testing.small import check_parameters

__all__ = ["Answer", "EstimatorUnderTest", "WatchedView", "answer"]


class WatchedView(View):
    """A view that records which guarded attributes were read."""

    read_attributes: set[str]

    def _guarded(self, name: str) -> object:
        self.__dict__.setdefault("read_attributes", set()).add(name)
        return super()._guarded(name)

    def _copy(self) -> Self:
        # What nested estimators read counts as read by the estimator.
        self.__dict__.setdefault("read_attributes", set())
        return super()._copy()


@dataclass(frozen=True, eq=False)
class Answer:
    """The result of one fit and estimate.

    Parameters
    ----------
    estimator : the fitted estimator.
    view : the view that it received.
    seed : source of its random streams and those of shared fits.
    fits : cache of shared fits.
    estimate : None if it raised PositivityViolation.
    violation : the PositivityViolation that it raised, or None.
    changed : names of the problem's arrays that it changed.
    """

    estimator: Estimator
    view: WatchedView
    seed: DataSeed
    fits: FitCache
    estimate: Estimate | None
    violation: PositivityViolation | None = None
    changed: tuple[str, ...] = ()

    @property
    def read_attributes(self) -> set[str]:
        """The guarded attributes that were read."""
        found: set[str] = self.view.__dict__.get("read_attributes", set())
        return found


def answer(estimator: Estimator, data: Problem, name: str, *, seed: int = 0) -> Answer:
    """Fit and estimate on a problem.

    Raises
    ------
    NotApplicable : the estimator is unavailable for this problem.
    CheckFailed : it raised another exception than PositivityViolation.
    """
    streams, fits = DataSeed("conformance", seed, 0), FitCache()
    try:
        import_all(estimator.requires)
        view = WatchedView(
            data,
            estimator.access,
            seed=streams,
            fit_cache=fits,
            optional=estimator.optional_access,
        )
    except UnavailableError as exc:
        msg = f"{name}: {exc}"
        raise NotApplicable(msg) from exc
    step, before = "fit", _hashes(data)
    try:
        estimator.fit(view, rng=streams.estimator("conformance"), device="cpu")
        step = "estimate"
        estimate = estimator.estimate(view)
    except UnavailableError as exc:
        msg = f"{name}: {exc}"
        raise NotApplicable(msg) from exc
    except PositivityViolation as exc:
        return Answer(estimator, view, streams, fits, None, exc, _changes(before, data))
    except Warning:
        # Under pytest, the author's warning filters turn warnings into errors.
        raise
    except Exception as exc:
        why = _explained(exc, estimator)
        raise _failed(name, why, f"{step} raised {class_name(exc)}: ") from exc
    if not isinstance(estimate, Estimate):
        what = f"estimate returned {type(estimate).__name__}; expected ope_bench.Estimate"
        raise _failed(name, explain(what))
    return Answer(estimator, view, streams, fits, estimate, None, _changes(before, data))


def _changes(before: dict[str, str], data: Problem) -> tuple[str, ...]:
    after = _hashes(data)
    return tuple(name for name in before if before[name] != after[name])


def _hashes(data: Problem) -> dict[str, str]:
    """Hash every array of the problem, of its policies and of its embedding distribution."""
    parts = dict(vars(data))
    for name in ("logging_policy", "target_policy", "embedding_distribution"):
        parts |= {f"{name}.{inner}": value for inner, value in vars(getattr(data, name)).items()}
    return {
        name: hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        for name, value in parts.items()
        if isinstance(value, np.ndarray)
    }


def _failed(name: str, reason: str, before: str = "") -> CheckFailed:
    """Return the failure on a problem, with the reason that other problems may share."""
    return CheckFailed(f"{name}: {before}{reason}", reason=reason)


def _explained(exc: Exception, estimator: Estimator) -> str:
    file = getattr(sys.modules.get(type(estimator).__module__), "__file__", None)
    return explain(message_of(exc), traceback_of(exc), file)


class EstimatorUnderTest:
    """An estimator and its results, each computed once.

    Parameters
    ----------
    estimator : never fitted itself; every result comes from a fresh copy.
    """

    def __init__(self, estimator: Estimator) -> None:
        self.cls = type(estimator)
        self.params: dict[str, Any] = check_parameters(estimator)
        self._answers: dict[tuple[str, int], Answer | NotApplicable] = {}

    def make(self) -> Estimator:
        """Return a fresh, unfitted copy."""
        return self.cls(**self.params)

    def fresh(self, name: str, *, seed: int = 0) -> Answer:
        """Compute a new result on a problem; ``seed`` affects the estimator alone."""
        return answer(self.make(), problem(name), name, seed=seed)

    def answer(self, name: str, *, seed: int = 0) -> Answer:
        """Return the result on a problem, computed once."""
        key = name, seed
        if key not in self._answers:
            try:
                self._answers[key] = self.fresh(name, seed=seed)
            except NotApplicable as exc:
                self._answers[key] = exc
        found = self._answers[key]
        if isinstance(found, NotApplicable):
            raise found
        return found

    def answers(self, names: tuple[str, ...]) -> Iterator[tuple[str, Answer]]:
        """Yield the results on those of the problems for which the estimator is available.

        Raises
        ------
        NotApplicable : it is available for none; the message has the reasons.
        """
        reasons = []
        for name in names:
            try:
                yield name, self.answer(name)
            except NotApplicable as exc:
                reasons.append(str(exc))
        if len(reasons) == len(names):
            raise NotApplicable("; ".join(reasons))

    @cached_property
    def home(self) -> str:
        """The first problem with full support for which the estimator is available."""
        for name, _ in self.answers(SUPPORTED):
            return name
        raise NotApplicable("; ".join(SUPPORTED))

    def value(self, result: Answer, name: str) -> float:
        """Return the estimate's value.

        Raises
        ------
        CheckFailed : there is none, after a PositivityViolation, or it is not finite.
        """
        if result.estimate is None:
            msg = f"{name}: raised PositivityViolation in spite of support: {result.violation}"
            raise CheckFailed(msg)
        value = result.estimate.value
        if not math.isfinite(value):
            raise _failed(name, explain(f"the estimate is {value}"))
        return value
