"""An estimator under examination: its answers on small problems, and what it did meanwhile."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ope_bench.data import Estimate, Problem
from ope_bench.errors import AccessError, PositivityViolation, UnavailableError
from ope_bench.estimator import Estimator
from ope_bench.memo import Memo
from ope_bench.requirements import import_all
from ope_bench.seeding import DataSeed
from ope_bench.testing.checks import CheckFailed, NotApplicable
from ope_bench.testing.problems import SUPPORTED, problem
from ope_bench.testing.small import small
from ope_bench.view import View

__all__ = ["Answer", "Examined", "WatchedView", "answer"]


class WatchedView(View):
    """A view that remembers which guarded attributes were read."""

    touched: set[str]

    def _guarded(self, name: str) -> object:
        self.__dict__.setdefault("touched", set()).add(name)
        return super()._guarded(name)


@dataclass(frozen=True, eq=False)
class Answer:
    """What came of one fit and estimate.

    Parameters
    ----------
    estimator : the fitted one.
    view : what it was given.
    estimate : None where it raised PositivityViolation.
    violation : that exception.
    changed : arrays of the problem that were not the same afterwards.
    """

    estimator: Estimator
    view: WatchedView
    estimate: Estimate | None
    violation: PositivityViolation | None = None
    changed: tuple[str, ...] = ()

    @property
    def touched(self) -> set[str]:
        """Guarded attributes that were read."""
        found: set[str] = self.view.__dict__.get("touched", set())
        return found


def answer(estimator: Estimator, given: Problem, world: str, *, seed: int = 0) -> Answer:
    """Fit and estimate.

    Raises
    ------
    NotApplicable : the estimator is unavailable in this world.
    CheckFailed : it raised anything else but PositivityViolation.
    """
    streams = DataSeed("conformance", seed, 0)
    try:
        import_all(estimator.requires)
        view = WatchedView(given, estimator.access, seed=streams, memo=Memo())
    except UnavailableError as exc:
        msg = f"{world}: {exc}"
        raise NotApplicable(msg) from exc
    step, before = "fit", _hashes(given)
    try:
        estimator.fit(view, rng=streams.estimator("conformance"), device="cpu")
        step = "estimate"
        estimate = estimator.estimate(view)
    except UnavailableError as exc:
        msg = f"{world}: {exc}"
        raise NotApplicable(msg) from exc
    except PositivityViolation as exc:
        return Answer(estimator, view, None, exc, _changes(before, given))
    except AccessError as exc:
        msg = f"{world}: {step}: {exc}; add the flag to the class attribute `access`"
        raise CheckFailed(msg) from exc
    except Warning:
        # The author's own warning filters speak here, under pytest.
        raise
    except Exception as exc:
        msg = f"{world}: {step} raised {type(exc).__name__}: {exc}{_hint(exc)}"
        raise CheckFailed(msg) from exc
    if not isinstance(estimate, Estimate):
        msg = (
            f"{world}: estimate returned {type(estimate).__name__}; return "
            "ope_bench.Estimate(value, ...)"
        )
        raise CheckFailed(msg)
    return Answer(estimator, view, estimate, None, _changes(before, given))


def _changes(before: dict[str, str], given: Problem) -> tuple[str, ...]:
    after = _hashes(given)
    return tuple(name for name in before if before[name] != after[name])


def _hashes(given: Problem) -> dict[str, str]:
    """A hash of every array of the problem, and of the policies' and embeddings' own arrays."""
    parts = dict(vars(given))
    for name in ("logging_policy", "target_policy", "embedding_distribution"):
        parts |= {f"{name}.{inner}": value for inner, value in vars(getattr(given, name)).items()}
    return {
        name: hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        for name, value in parts.items()
        if isinstance(value, np.ndarray)
    }


def _hint(exc: Exception) -> str:
    if isinstance(exc, ValueError) and "read-only" in str(exc):
        return "; the view's arrays are shared with others: copy before writing"
    return ""


class Examined:
    """An estimator and its answers; each answer is made once.

    Parameters
    ----------
    estimator : never fitted itself; every answer comes from a fresh copy.
    """

    def __init__(self, estimator: Estimator) -> None:
        self.cls = type(estimator)
        self.params: dict[str, Any] = small(estimator)
        self._answers: dict[tuple[str, int], Answer | NotApplicable] = {}

    def make(self) -> Estimator:
        """A fresh, unfitted copy."""
        return self.cls(**self.params)

    def fresh(self, world: str, *, seed: int = 0) -> Answer:
        """A new answer on the world's problem; ``seed`` is the estimator's alone."""
        return answer(self.make(), problem(world), world, seed=seed)

    def answer(self, world: str, *, seed: int = 0) -> Answer:
        """The answer, made now or kept."""
        key = world, seed
        if key not in self._answers:
            try:
                self._answers[key] = self.fresh(world, seed=seed)
            except NotApplicable as exc:
                self._answers[key] = exc
        found = self._answers[key]
        if isinstance(found, NotApplicable):
            raise found
        return found

    def answers(self, worlds: tuple[str, ...]) -> Iterator[tuple[str, Answer]]:
        """Answers in those of the worlds where it is available.

        Raises
        ------
        NotApplicable : there is none, with the reasons.
        """
        reasons = []
        for world in worlds:
            try:
                yield world, self.answer(world)
            except NotApplicable as exc:
                reasons.append(str(exc))
        if len(reasons) == len(worlds):
            raise NotApplicable("; ".join(reasons))

    @cached_property
    def home(self) -> str:
        """The first supported world in which it is available."""
        for world, _ in self.answers(SUPPORTED):
            return world
        raise NotApplicable("; ".join(SUPPORTED))

    def value(self, given: Answer, world: str) -> float:
        """The estimate's value. Raises CheckFailed where it refused."""
        if given.estimate is None:
            msg = f"{world}: raised PositivityViolation ({given.violation}), but support is good"
            raise CheckFailed(msg)
        return given.estimate.value
