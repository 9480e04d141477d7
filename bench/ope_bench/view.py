"""The View: all that an estimator sees of a problem, and the flags that open more."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from ope_bench.arrays import FloatArray, IntArray
from ope_bench.data import Problem, Schema
from ope_bench.embeddings import EmbeddingDistribution
from ope_bench.errors import AccessError, UnavailableError
from ope_bench.memo import Found, Memo
from ope_bench.policies import Policy
from ope_bench.seeding import DataSeed

__all__ = ["Access", "BatchedNuisance", "Nuisance", "View", "nuisance_key"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Access(enum.Flag):
    """What an estimator needs beyond the two samples."""

    SAMPLES = 0
    PROPENSITY = enum.auto()
    _LOGGING_POLICY = enum.auto()
    TARGET_POLICY = enum.auto()
    EMBEDDING_DISTRIBUTION = enum.auto()
    LOGGING_POLICY = _LOGGING_POLICY | PROPENSITY

    def words(self) -> list[str]:
        """Lower-case names, for boards.

        >>> (Access.TARGET_POLICY | Access.LOGGING_POLICY).words()
        ['propensity', 'logging_policy', 'target_policy']
        """
        names = {"PROPENSITY": Access.PROPENSITY, "LOGGING_POLICY": Access._LOGGING_POLICY}
        names |= {"TARGET_POLICY": Access.TARGET_POLICY}
        names |= {"EMBEDDING_DISTRIBUTION": Access.EMBEDDING_DISTRIBUTION}
        held = [name.lower() for name, flag in names.items() if flag in self]
        return held or ["samples"]


class Nuisance(Protocol[T_co]):
    """A fit that estimators share: a frozen dataclass of plain values that can fit itself.

    Its ``repr`` is its identity: equal reprs on the same data are the same fit.
    """

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> T_co:
        """The fitted model, from a view that grants samples only."""


class BatchedNuisance(Nuisance[T_co], Protocol[T_co]):
    """A shared fit that can be made for many replicates at once.

    Same data, streams and schedule as ``fit``, hence the same distribution of fits; rounding
    differs, and what training makes of that.
    """

    def begin(self, view: View, *, rng: np.random.Generator, device: str) -> Any:
        """What concerns one replicate alone, before training; it should let go of the view."""

    def complete(self, begun: Sequence[Any], *, device: str) -> Sequence[T_co | Exception]:
        """The fits of all that were begun, or why one of them failed, in the same order."""


def nuisance_key(spec: Nuisance[Any], device: str) -> str:
    """What a shared fit is known by, and what its stream derives from."""
    return f"{type(spec).__module__}.{spec!r}@{device}"


_GUARDED = {
    "propensity": Access.PROPENSITY,
    "logging_policy": Access.LOGGING_POLICY,
    "target_policy": Access.TARGET_POLICY,
    "embedding_distribution": Access.EMBEDDING_DISTRIBUTION,
}


class View:
    """What an estimator is given: the two samples, and what its access flags open.

    A withheld attribute is not in the object at all; touching it raises AccessError and is
    remembered, so that swallowing the exception does not help.

    Parameters
    ----------
    problem : whose samples are shown; the view keeps no reference to it.
    access : what is granted.
    seed : whence the streams of shared fits derive.
    memo : where shared fits are kept.
    device : where shared fits are trained.

    Attributes
    ----------
    context : (n, d_context)
    action : (n,)
    embedding : (n, d_embedding)
    reward : (n,)
    target_context : (m, d_context)
    target_action : (m,)
    target_embedding : (m, d_embedding)
    schema : kinds of the columns
    n_actions : None for continuous actions
    action_embedding : (n_actions, d_embedding) or None
    shared_contexts : row i of both samples has the same context

    Raises
    ------
    UnavailableError : the environment lacks what ``access`` asks for.
    """

    context: FloatArray
    action: IntArray
    embedding: FloatArray
    reward: FloatArray
    target_context: FloatArray
    target_action: IntArray
    target_embedding: FloatArray
    schema: Schema
    n_actions: int | None
    action_embedding: FloatArray | None
    shared_contexts: bool

    def __init__(
        self,
        problem: Problem,
        access: Access,
        *,
        seed: DataSeed,
        memo: Memo,
        device: str = "cpu",
    ) -> None:
        for name in (*View.__annotations__,):
            setattr(self, name, getattr(problem, name))
        granted: dict[str, object] = {}
        for name, flag in _GUARDED.items():
            if flag in access:
                granted[name] = getattr(problem, name)
                if granted[name] is None:
                    msg = f"the environment has no {name}"
                    raise UnavailableError(msg)
        self._granted = granted
        self._seed = seed
        self._memo = memo
        self._device = device
        self.access = access
        self.violations: list[str] = []
        self.shared_wall_seconds = 0.0
        self.shared_cpu_seconds = 0.0

    @property
    def n(self) -> int:
        """Number of logged rows."""
        return len(self.reward)

    @property
    def m(self) -> int:
        """Number of target rows."""
        return len(self.target_action)

    @property
    def propensity(self) -> FloatArray:
        """The logging policy's probability of the logged action: (n,)."""
        return cast(FloatArray, self._guarded("propensity"))

    @property
    def logging_policy(self) -> Policy:
        """The logging policy."""
        return cast(Policy, self._guarded("logging_policy"))

    @property
    def target_policy(self) -> Policy:
        """The target policy."""
        return cast(Policy, self._guarded("target_policy"))

    @property
    def embedding_distribution(self) -> EmbeddingDistribution:
        """p(g|a)."""
        return cast(EmbeddingDistribution, self._guarded("embedding_distribution"))

    def fitted(self, spec: Nuisance[T_co]) -> T_co:
        """The nuisance fit that ``spec`` describes, made now or found in the worker's memo.

        Its seconds are charged to this trial either way.
        """
        entry, found = self._memo.get(nuisance_key(spec, self._device), self._fit(spec))
        if found:
            self.shared_wall_seconds += entry.wall_seconds
            self.shared_cpu_seconds += entry.cpu_seconds
        if entry.error is not None:
            raise entry.error.with_traceback(entry.origin)
        return cast(T_co, entry.value)

    def begun(self, spec: BatchedNuisance[Any], found: Found) -> Any:
        """The fit that ``spec`` describes, begun for a batch; ``found`` is charged."""
        return self._on_samples(
            lambda plain, rng: spec.begin(plain, rng=rng, device=self._device), spec, found
        )

    def _fit(self, spec: Nuisance[T_co]) -> Callable[[Found], T_co]:
        def make(found: Found) -> T_co:
            model = self._on_samples(
                lambda plain, rng: spec.fit(plain, rng=rng, device=self._device), spec, found
            )
            # What the fit itself found ready-made counts as if it had been made.
            self.shared_wall_seconds += found.wall_seconds
            self.shared_cpu_seconds += found.cpu_seconds
            return model

        return make

    def _on_samples(
        self, work: Callable[[View, np.random.Generator], T], spec: Nuisance[Any], found: Found
    ) -> T:
        """Do some work of a shared fit.

        It sees samples only, so that no access leaks from one trial to another.
        """
        plain = View.__new__(View)
        plain.__dict__.update(self.__dict__)
        plain._granted = {}
        plain.access = Access.SAMPLES
        plain.shared_wall_seconds = plain.shared_cpu_seconds = 0.0
        try:
            return work(plain, self._seed.nuisance(nuisance_key(spec, self._device)))
        finally:
            found.wall_seconds += plain.shared_wall_seconds
            found.cpu_seconds += plain.shared_cpu_seconds

    def _guarded(self, name: str) -> object:
        if name not in self._granted:
            self.violations.append(name)
            msg = f"view.{name} needs Access.{name.upper()}, which the estimator does not declare"
            raise AccessError(msg)
        return self._granted[name]
