"""The view: the samples that every estimator sees, the access flags that grant more, shared fits.

A shared fit's random stream derives from its description, so a cached fit and a new one agree bit
for bit; its seconds are charged to every trial that uses it.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, cast

import numpy as np

from ope_bench.base.errors import AccessError, UnavailableError, no_attribute
from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.data import ROW_ARRAYS, BoolArray, Problem, Schema
from ope_bench.contracts.embeddings import EmbeddingDistribution
from ope_bench.contracts.policies import Policy
from ope_bench.contracts.random import DataSeed

# --- access flags


class Access(enum.Flag):
    """The data that an estimator needs beyond the two samples."""

    SAMPLES = 0
    PROPENSITY = enum.auto()
    _LOGGING_POLICY = enum.auto()
    TARGET_POLICY = enum.auto()
    EMBEDDING_DISTRIBUTION = enum.auto()
    PREDICTED_REWARD = enum.auto()
    PREFIX_PROPENSITY = enum.auto()
    JOINT_PROPENSITY = enum.auto()
    POSITION_MARGINALS = enum.auto()
    STRATUM = enum.auto()
    STRATUM_POLICIES = enum.auto()
    ACTION_MASK = enum.auto()
    PREDICTED_REWARD_WANTED = enum.auto()
    LOGGING_POLICY = _LOGGING_POLICY | PROPENSITY

    def words(self) -> list[str]:
        """Return the lower-case names of the flags, for boards.

        >>> (Access.TARGET_POLICY | Access.LOGGING_POLICY).words()
        ['propensity', 'logging_policy', 'target_policy']
        """
        return [*_words(self)]


_REQUIRED_ACCESS = {
    name.lower(): flag
    # A flag's value exceeds those of the flags that it grants too.
    for name, flag in sorted(Access.__members__.items(), key=lambda one: one[1].value)
    if flag and not name.startswith("_")
}
"""The access that attributes of a view require beyond the samples."""


@cache
def _words(access: Access) -> tuple[str, ...]:
    # The public flag of the logging policy grants propensities too.
    named = _REQUIRED_ACCESS | {"logging_policy": Access._LOGGING_POLICY}
    return tuple(name for name, flag in named.items() if flag in access) or ("samples",)


@cache
def _granted_attributes(access: Access) -> tuple[str, ...]:
    """Return the names of the attributes that an access grants beyond the samples."""
    return tuple(name for name, flag in _REQUIRED_ACCESS.items() if flag in access)


_WEIGHTS = Access.PROPENSITY | Access.TARGET_POLICY
"""The access that importance weights of the logged actions need."""


# --- the cache of shared fits


@dataclass(frozen=True)
class CachedFit:
    """A cached fit and the seconds that it took.

    Parameters
    ----------
    value : the fit; None where there is an error.
    wall_seconds, cpu_seconds : time of the fit, without the fits that it used.
    error : why there is no fit; raised in every trial that requests it.
    origin : traceback of the error, kept apart because each raise would extend the error's own.
    inner : keys of all fits that it used, and that these used.
    """

    value: Any
    wall_seconds: float
    cpu_seconds: float
    error: BaseException | None = None
    origin: TracebackType | None = None
    inner: frozenset[str] = frozenset()
    held: list[tuple[str, Any]] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        # All trials on the data share the fit.
        held = getattr(self.value, "__dict__", {}).items()
        object.__setattr__(self, "held", [item for item in held if item[1] is not None])
        for _, array in self.held:
            if isinstance(array, np.ndarray):
                array.flags.writeable = False


@dataclass
class ReusedCost:
    """Seconds that cached fits would have cost; charged to the trial that reused them."""

    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0


class FitCache:
    """Cached fits on one data set, by key."""

    def __init__(self) -> None:
        self._entries: dict[str, CachedFit] = {}

    def get(self, key: str, make: Callable[[set[str]], Any]) -> CachedFit:
        """Return the entry of a key, made now if there is none.

        Parameters
        ----------
        key : identifies the fit.
        make : makes the fit, and adds the keys of the fits that it used to its argument.
        """
        if key in self._entries:
            return self._entries[key]
        before, inner = self.keys(), set[str]()
        wall, cpu = time.perf_counter(), time.process_time()
        value = make(inner)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        made = self.cost(inner - before)
        self._entries[key] = CachedFit(
            value, wall - made.wall_seconds, cpu - made.cpu_seconds, inner=frozenset(inner)
        )
        return self._entries[key]

    def cost(self, keys: Iterable[str]) -> ReusedCost:
        """Return the seconds of some fits together."""
        entries = [self._entries[key] for key in keys]
        return ReusedCost(
            sum(entry.wall_seconds for entry in entries),
            sum(entry.cpu_seconds for entry in entries),
        )

    def keys(self) -> frozenset[str]:
        """Return the keys of all cached fits."""
        return frozenset(self._entries)

    def changed(self) -> list[str]:
        """Return the keys of fits whose attributes a trial has replaced."""
        pairs = ((key, one.value, item) for key, one in self._entries.items() for item in one.held)
        return [key for key, fit, (name, was) in pairs if vars(fit).get(name) is not was]

    def put(self, key: str, entry: CachedFit) -> None:
        """Store a fit that was made elsewhere."""
        self._entries[key] = entry


# --- the view


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Nuisance(Protocol[T_co]):
    """A fit shared by estimators: a frozen dataclass of plain values with a method ``fit``.

    The ``repr`` identifies the fit: on the same data, equal reprs mean the same fit. A fit is made
    from samples only, unless its class names further data in a class attribute ``access``: then it
    is for those estimators that declare them too.
    """

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> T_co:
        """Return the fitted model, from a view that grants ``access``, samples only without it."""


class BatchedNuisance(Nuisance[T_co], Protocol[T_co]):
    """A shared fit that can be trained for many replicates at once.

    Data, streams and schedule are those of ``fit``, hence the same distribution of fits; single
    fits differ, because training amplifies differences in rounding.
    """

    def begin(self, view: View, *, rng: np.random.Generator, device: str) -> Any:
        """Prepare one replicate for training; the result should hold no reference to the view."""

    def complete(self, prepared: Sequence[Any], *, device: str) -> Sequence[T_co | Exception]:
        """Train all prepared replicates; return the fits or their errors, in the same order."""


def nuisance_key(spec: Nuisance[Any], device: str) -> str:
    """Return the key of a shared fit, from which its random stream derives too."""
    return f"{type(spec).__module__}.{spec!r}@{device}"


_LOGGED_ARRAYS = ("context", "action", "embedding", "reward", "unit", "fold_unit")
_TARGET_ARRAYS = (
    "target_context",
    "target_action",
    "target_embedding",
    "target_unit",
    "target_fold_unit",
)


class View:
    """The data that an estimator receives: the two samples, and what its access flags grant.

    A withheld attribute is not stored in the object; reading it raises AccessError and is
    recorded, so that catching the exception does not hide it.

    Parameters
    ----------
    problem : source of the samples; the view keeps no reference to it.
    access : the granted flags.
    seed : source of the random streams of shared fits.
    fit_cache : cache of shared fits.
    device : device on which shared fits are trained.
    optional : the part of ``access`` that the environment may lack; reading it then raises
        UnavailableError.

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
    reward_range : smallest and largest possible reward, where the environment knows them
    unit : (n,), integers: rows of one unit depend on each other; 0, 1, ... if the problem has no
        units
    target_unit : (m,), units of the target rows: a number that is in ``unit`` is the same unit
    fold_unit, target_fold_unit : (n,), (m,), units that folds must not separate: ``unit`` and
        ``target_unit``, but in a resample all copies of a unit have one number here
    row_weight : (n,), for how many rows each logged row stands, or None; see `Problem`
    slot : (n,), place of each row in its list, where rows are the items of lists, or None
    has_units : the problem defines units
    has_action_mask : actions have rows at which they were not available
    has_target_sample : there is a target sample
    propensity : (n,), probability of each logged action under the logging policy
    logging_policy, target_policy : the policies
    embedding_distribution : the embedding distribution p(g|a)
    predicted_reward : (n, n_actions), predicted reward of every action at each logged row, from
        elsewhere
    predicted_reward_wanted : (n, n_actions), the same at the time whose value is wanted
    prefix_propensity : (n, 2), probability of each list up to the row's slot, logging and target
        policy
    joint_propensity : (n, 2), probability of each row's whole list, logging and target policy
    position_marginals : (n, length, 2), probability of each row's item at every slot, both
        policies
    stratum : (n,), which logger chose each row's action
    stratum_policies : the policy of each logger
    action_mask : (n, n_actions), whether each action was available at each logged row

    Raises
    ------
    UnavailableError : the environment does not have the data that ``access`` names, and it is not
        optional; reading an attribute that the environment does not have raises it as well.
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
    reward_range: tuple[float, float] | None
    unit: IntArray
    target_unit: IntArray
    fold_unit: IntArray
    target_fold_unit: IntArray
    row_weight: FloatArray | None
    slot: IntArray | None
    has_units: bool
    has_action_mask: bool
    has_target_sample: bool
    # Granted by access flags, and read by `__getattr__`.
    propensity: FloatArray
    logging_policy: Policy
    target_policy: Policy
    embedding_distribution: EmbeddingDistribution
    predicted_reward: FloatArray
    predicted_reward_wanted: FloatArray
    prefix_propensity: FloatArray
    joint_propensity: FloatArray
    position_marginals: FloatArray
    stratum: IntArray
    stratum_policies: tuple[Policy, ...]
    action_mask: BoolArray

    def __init__(
        self,
        problem: Problem,
        access: Access,
        *,
        seed: DataSeed,
        fit_cache: FitCache,
        device: str = "cpu",
        optional: Access = Access.SAMPLES,
    ) -> None:
        self._reasons = dict(problem.unavailable)
        if not problem.has_target_sample:
            self._reasons |= {name: problem.reason(name) for name in _TARGET_ARRAYS}
        reasons, data = self._reasons, vars(problem)
        self.__dict__ |= {one: getattr(problem, one) for one in _COPIED if one not in reasons}
        self.has_units = problem.unit is not None
        self.has_action_mask = problem.action_mask is not None
        self.unit, target_unit = problem.row_units
        self.fold_unit = self.unit
        if problem.has_target_sample:
            self.target_unit = self.target_fold_unit = target_unit
        self._granted: dict[str, object] = {}
        self._grant(data | {"weight_range": problem.weight_range}, access, optional)
        self._seed = seed
        self._fit_cache = fit_cache
        self._device = device
        self._charged: set[str] = set()
        self._shared = ReusedCost()

    def _grant(self, data: Mapping[str, object], access: Access, optional: Access) -> None:
        """Hold what an access grants of some data; none of it was read yet."""
        granted = {name: data[name] for name in _granted_attributes(access)}
        _refuse_missing(granted, optional, self._reasons)
        if _WEIGHTS in access:
            granted["weight_range"] = data["weight_range"]
        self._granted, self.access = granted, access
        self.violations: list[str] = []

    if not TYPE_CHECKING:  # a type checker shall know missing attributes as missing

        def __getattr__(self, name: str) -> Any:
            """Return granted data, raise why data are missing, or name a similar attribute."""
            if name in _REQUIRED_ACCESS:
                return self._guarded(name)
            reasons = self.__dict__.get("_reasons", {})
            if name in reasons:
                raise UnavailableError(reasons[name])
            raise AttributeError(no_attribute(self, name))

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *_REQUIRED_ACCESS]

    @property
    def n(self) -> int:
        """Number of logged rows."""
        return len(self.reward)

    @property
    def device(self) -> str:
        """Device on which shared fits are trained."""
        return self._device

    @property
    def m(self) -> int:
        """Number of target rows. Raises UnavailableError where there is no target sample."""
        return len(self.target_action)

    @property
    def shared_wall_seconds(self) -> float:
        """Wall seconds of fits that were found in the cache; they are charged to this trial."""
        return self._shared.wall_seconds

    @property
    def shared_cpu_seconds(self) -> float:
        """CPU seconds of fits that were found in the cache; they are charged to this trial."""
        return self._shared.cpu_seconds

    def weight_range(self) -> tuple[float, float]:
        """Return the smallest and the largest possible importance weight.

        That is of π1(a|x) / π0(a|x) over the logged contexts and all actions, or (0, inf) where
        the environment does not know both policies. Needs the access that weights need.
        """
        if "weight_range" not in self._granted:
            self._guarded("target_policy" if self.access & Access.PROPENSITY else "propensity")
        return cast("Callable[[], tuple[float, float]]", self._granted["weight_range"])()

    def fitted(self, spec: Nuisance[T_co]) -> T_co:
        """Return the nuisance fit that ``spec`` describes, from the worker's cache or made now.

        Its seconds are charged to this trial in both cases, once. Raises AccessError where
        ``spec.access`` names data that this view does not grant.
        """
        # Before the cache is asked: another trial's fit may hold what this one must not see.
        for name, flag in _REQUIRED_ACCESS.items():
            if flag in getattr(spec, "access", Access.SAMPLES):
                self._guarded(name)
        key, found = nuisance_key(spec, self._device), self._fit_cache.keys()
        fit = partial(spec.fit, device=self._device)
        entry = self._fit_cache.get(key, partial(self._on_granted, fit, spec))
        used = entry.inner | {key}
        # Those made now are in the time that is measured of this trial.
        reused = self._fit_cache.cost((used & found) - self._charged)
        self._shared.wall_seconds += reused.wall_seconds
        self._shared.cpu_seconds += reused.cpu_seconds
        self._charged |= used
        if entry.error is not None:
            raise entry.error.with_traceback(entry.origin)
        return cast(T_co, entry.value)

    def fitted_keys(self) -> frozenset[str]:
        """Return the keys of shared fits made so far on this view's data; see `nuisance_key`."""
        return self._fit_cache.keys()

    def begin_batched(self, spec: BatchedNuisance[Any], inner: set[str]) -> Any:
        """Prepare a fit for batched training; add the keys of fits that it used to ``inner``."""
        return self._on_granted(partial(spec.begin, device=self._device), spec, inner)

    def restricted(self, access: Access, *, optional: Access = Access.SAMPLES) -> Self:
        """Return a view of the same data that grants no more than ``access``.

        Estimators that run other estimators hand it to them. Shared fits, their random streams
        and their cost are those of this view; violations are recorded in the new view alone.

        Parameters
        ----------
        access : the granted flags; this view must grant them too.
        optional : as for the constructor.

        Raises
        ------
        UnavailableError : the environment does not have the data, and it is not optional.
        AccessError : this view does not grant it.
        """
        beyond = access & ~self.access
        if beyond:
            msg = f"a view cannot grant {', '.join(beyond.words())}, which it was not granted"
            raise AccessError(msg)
        part = self._copy()
        part._grant(self._granted, access, optional)
        return part

    def rows(
        self,
        logged: IntArray,
        target: IntArray,
        unit: IntArray | None = None,
        target_unit: IntArray | None = None,
    ) -> Self:
        """Return a view of some rows, repeated or in another order: a resample or a part.

        Copies of a row keep its ``fold_unit``, so that folds do not separate them. Access is that
        of this view. Shared fits are made anew on these rows, by the same random streams.

        Parameters
        ----------
        logged, target : indices of logged and of target rows. Where contexts are shared, they
            remain so if both are equal.
        unit, target_unit : units of the new rows, as of `DrawnRows`: copies of a unit are then
            independent units, which standard errors and numbers of units count one by one. None
            for the units that the rows have here.
        """
        part = self._copy()
        for names, index in ((_LOGGED_ARRAYS, logged), (_TARGET_ARRAYS, target)):
            for name in names:
                if name not in self._reasons:
                    part.__dict__[name] = _read_only(getattr(self, name)[index])
        if self.row_weight is not None:
            part.row_weight = cast(FloatArray, _read_only(self.row_weight[logged]))
        if self.slot is not None:
            part.slot = cast(IntArray, _read_only(self.slot[logged]))
        for name, numbers in (("unit", unit), ("target_unit", target_unit)):
            if numbers is not None and name not in self._reasons:
                part.__dict__[name] = _read_only(numbers)
        part._granted = {
            name: _read_only(cast(FloatArray, value)[logged])
            if name in ROW_ARRAYS and value is not None
            else value
            for name, value in self._granted.items()
        }
        part.shared_contexts = self.shared_contexts and np.array_equal(logged, target)
        repeated = any(len(np.unique(index)) < len(index) for index in (logged, target))
        part.has_units = self.has_units or repeated
        part._fit_cache = FitCache()
        # The time of these fits is measured as that of the estimator.
        part._shared, part._charged = ReusedCost(), set()
        part.violations = []
        return part

    def estimator_rng(self, estimator: str) -> np.random.Generator:
        """Return the random stream of the estimator with that id, as in a trial of its own."""
        return self._seed.estimator(estimator)

    def _copy(self) -> Self:
        part = type(self).__new__(type(self))
        part.__dict__.update(self.__dict__)
        return part

    def _on_granted(
        self,
        work: Callable[..., T],
        spec: Nuisance[Any],
        inner: set[str],
    ) -> T:
        """Run a part of a shared fit on what its specification is granted.

        Further access of this trial must not leak into fits that other trials reuse.
        """
        plain = self.restricted(getattr(spec, "access", Access.SAMPLES))
        plain.violations = self.violations
        plain._shared, plain._charged = ReusedCost(), set()
        result = work(plain, rng=self._seed.nuisance(nuisance_key(spec, self._device)))
        inner |= plain._charged
        return result

    def _guarded(self, name: str) -> object:
        if name not in self._granted:
            if name not in self.violations:
                self.violations.append(name)
            msg = f"view.{name} needs Access.{name.upper()}, which the estimator does not declare"
            raise AccessError(msg)
        _refuse_missing({name: self._granted[name]}, Access.SAMPLES, self._reasons)
        return self._granted[name]


_COPIED = tuple(
    name
    for name in View.__annotations__
    if name not in ("unit", "target_unit", "fold_unit", "target_fold_unit")
    and name not in ("has_units", "has_action_mask", *_REQUIRED_ACCESS)
)


def _refuse_missing(
    held: Mapping[str, object], optional: Access, reasons: Mapping[str, str]
) -> None:
    """Raise UnavailableError for the first value that is missing and not optional."""
    for name, value in held.items():
        flag = _REQUIRED_ACCESS[name]
        # The logging policy alone may be optional, where its propensities are not.
        if value is None and (flag & ~Access.PROPENSITY or flag) not in optional:
            raise UnavailableError(reasons.get(name, f"the environment has no {name}"))


def _read_only(array: FloatArray | IntArray) -> FloatArray | IntArray:
    array.flags.writeable = False
    return array
