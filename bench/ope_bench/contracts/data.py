"""The data between environments, estimators and harness: Schema, Problem, Truth.

All are frozen; shapes, dtypes and finiteness are validated once, on construction.
n is the number of logged rows, m the number of target rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, cast

import numpy as np
import numpy.typing as npt

from ope_bench.base.errors import DataError, UnavailableError
from ope_bench.contracts.arrays import (
    FloatArray,
    IntArray,
    check_rewards,
    finite_number,
    row_chunks,
    validate_array,
)
from ope_bench.contracts.embeddings import EmbeddingDistribution
from ope_bench.contracts.policies import DiscretePolicy, Policy


@dataclass(frozen=True)
class Column:
    """One column of a context or an embedding.

    Parameters
    ----------
    kind : ``continuous``; ``categorical`` (codes without order); ``atoms`` (numbers with
        meaning, but only finitely many distinct rows, as embeddings of a few items).
    categories : the possible codes of a categorical column.
    """

    kind: Literal["continuous", "categorical", "atoms"] = "continuous"
    categories: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.kind == "categorical" and not self.categories:
            msg = "a categorical column needs its categories"
            raise DataError(msg)


@dataclass(frozen=True)
class Schema:
    """Kinds of the columns of context and embedding: categorical, atoms or continuous."""

    context: tuple[Column, ...]
    embedding: tuple[Column, ...]

    @classmethod
    def continuous(cls, d_context: int, d_embedding: int) -> Schema:
        """Build a schema in which all columns are continuous."""
        return cls((Column(),) * d_context, (Column(),) * d_embedding)


BoolArray = npt.NDArray[np.bool_]

ROW_ARRAYS = (
    "context",
    "action",
    "embedding",
    "reward",
    "propensity",
    "unit",
    "predicted_reward",
    "predicted_reward_wanted",
    "row_weight",
    "slot",
    "prefix_propensity",
    "joint_propensity",
    "position_marginals",
    "stratum",
    "action_mask",
)
"""Fields of `Problem` with one entry per logged row."""

TruthKind = Literal["empirical", "expected"]
"""Name of the field of `Truth` that errors are measured against."""

_ROWS_WITHOUT_TABLE = 200
"""Most logged rows at which a policy that has no table is checked, action by action."""

_ROUNDING = 1e-3
"""How far sums of probabilities may be from 1: tables of policies may have few digits."""

_LARGEST_UNIT = 1 << 62
"""Largest unit number; larger ones are for rows that a view numbers itself."""


@dataclass(frozen=True, eq=False)
class Problem:
    """One off-policy evaluation problem: logs, a target sample if any, and the known policies.

    Parameters
    ----------
    context : (n, d_context)
    action : (n,), integers in [0, n_actions), or floats where ``n_actions`` is None
    embedding : (n, d_embedding)
    reward : (n,), reward of each logged round
    target_context : (m, d_context)
    target_action : (m,)
    target_embedding : (m, d_embedding); the three are None where there is no target sample
    schema : kinds of the columns; all continuous where None
    n_actions : number of actions, None for continuous ones
    propensity : (n,), the logging policy's probability (or density) of the logged action
    logging_policy, target_policy : None where the environment does not know them
    action_embedding : (n_actions, d_embedding) where embeddings are deterministic
    embedding_distribution : p(g|a), where known
    shared_contexts : row i of both samples has the same context (then m = n)
    unit : (n,), integers; rows of the same unit depend on each other, rows of different units do
        not. Folds never split a unit, and standard errors count units. None: each row is its own
        unit.
    target_unit : (m,), units of the target rows; a number that is also in ``unit`` is the same
        unit. None: the logged units where contexts are shared, else each row is its own unit.
    predicted_reward : (n, n_actions), predicted rewards of each action at each logged row,
        made elsewhere and from other data than these rows: ``regressor=given`` uses it.
    predicted_reward_wanted : (n, n_actions), the same at the later time whose value is wanted,
        with each row's context: of estimators for rewards that drift.
    reward_range : the smallest and the largest reward that the environment can give, where it
        knows them: a fact of the environment, not the range of the rewards in the logs.
    row_weight : (n,), positive: for how many rows each logged row stands, where the log keeps some
        rows with a probability only; None for one each. A row of weight 2 is that row twice.
    slot : (n,), integers: place of each row's item in its list, from 0, where rows are the items
        of ranked lists; the rows of one list are one unit, and ``propensity`` is the probability
        of the item at its slot.
    prefix_propensity : (n, 2), probability under the logging and under the target policy of the
        items of the row's list from its first slot to the row's.
    joint_propensity : (n, 2), the same of the whole list.
    position_marginals : (n, length, 2), the same of the row's item at each slot.
    stratum : (n,), integers from 0: which of several loggers chose each row's action. The rows of
        each are independent of those of the others, ``propensity`` is that of the row's logger.
    stratum_policies : the policy of each logger.
    action_mask : (n, n_actions), whether each action was available at each logged row; None where
        all were. Policies give no mass to others.
    unavailable : why data are missing and what would give them, by the name of the view's
        attribute, for example ``target_action`` or ``propensity``; an attribute that is named
        here is withheld from every view.

    Raises
    ------
    DataError : an array has the wrong shape or kind, or holds a value that is not finite; or a
        reward is outside its range.
    """

    context: FloatArray
    action: IntArray | FloatArray
    embedding: FloatArray
    reward: FloatArray
    target_context: FloatArray | None
    target_action: IntArray | FloatArray | None
    target_embedding: FloatArray | None
    n_actions: int | None
    schema: Schema | None = None
    propensity: FloatArray | None = None
    logging_policy: Policy | None = None
    target_policy: Policy | None = None
    action_embedding: FloatArray | None = None
    embedding_distribution: EmbeddingDistribution | None = None
    shared_contexts: bool = False
    unit: IntArray | None = None
    target_unit: IntArray | None = None
    reward_range: tuple[float, float] | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)
    predicted_reward: FloatArray | None = None
    row_weight: FloatArray | None = None
    slot: IntArray | None = None
    prefix_propensity: FloatArray | None = None
    joint_propensity: FloatArray | None = None
    position_marginals: FloatArray | None = None
    stratum: IntArray | None = None
    stratum_policies: tuple[Policy, ...] | None = None
    action_mask: BoolArray | None = None
    predicted_reward_wanted: FloatArray | None = None

    def __post_init__(self) -> None:
        n = np.shape(self.reward)
        if len(n) != 1 or n[0] == 0:
            msg = f"reward has shape {n}; expected (n,) with at least one row"
            raise DataError(msg)
        validate = self._validate
        validate("context", (n[0], "d_context"))
        validate("embedding", (n[0], "d_embedding"))
        validate("reward", n)
        bounds: dict[str, object] = {}
        if self.n_actions is not None:
            bounds = {"dtype": np.int64, "low": 0, "high": self.n_actions - 1}
        validate("action", n, **bounds)
        m = self._check_target(bounds)
        self._check_optional(n)
        if self.schema is None:
            widths = self.context.shape[1], self.embedding.shape[1]
            object.__setattr__(self, "schema", Schema.continuous(*widths))
        self._check_schema()
        if self.shared_contexts:
            if not np.array_equal(self.context, self.target_sample[0]):
                msg = "shared_contexts is set, but context and target_context differ"
                raise DataError(msg)
            # One array, for policies remember what they computed for an array.
            object.__setattr__(self, "target_context", self.context)
        self._check_units(n, m)
        if self.reward_range is not None:
            limits = check_rewards(self.reward, self.reward_range)
            object.__setattr__(self, "reward_range", limits)

    @cached_property
    def row_units(self) -> tuple[IntArray, IntArray]:
        """Units of logged and target rows, numbered if the problem has none: (n,), (m,).

        Target rows of shared contexts are in the units of their logged rows; other rows without a
        unit become units of their own. Without a target sample m is 0.
        """
        n = len(self.reward)
        m = 0 if self.target_action is None else len(self.target_action)
        unit = np.arange(n) if self.unit is None else self.unit
        target = self.target_unit
        if target is None:
            first = n if self.unit is None else int(unit.max()) + 1
            target = unit if self.shared_contexts else np.arange(first, first + m)
        for numbers in (unit, target):
            numbers.flags.writeable = False
        return unit, target

    def weight_range(self, entries: int | None = None) -> tuple[float, float]:
        """Return the smallest and the largest π1(a|x) / π0(a|x) at the logged contexts.

        Over the actions that the logging policy can take; (0, inf) where not both policies are
        known, discrete ones.

        Parameters
        ----------
        entries : at the first contexts alone, so that about as many ratios are computed.
        """
        logging, target = self.logging_policy, self.target_policy
        if not (isinstance(logging, DiscretePolicy) and isinstance(target, DiscretePolicy)):
            return 0.0, math.inf
        low, high = math.inf, 0.0
        n = len(self.context) if entries is None else max(1, entries // logging.n_actions)
        context = self.context if n >= len(self.context) else self.context[:n]
        chunks = row_chunks(len(context), logging.n_actions)
        for rows in chunks:
            # The whole array itself, of which policies may remember something.
            part = context if len(chunks) == 1 else context[rows]
            below, above = logging.table(part), target.table(part)
            able = below > 0
            ratio = above / below if able.all() else above[able] / below[able]
            low, high = min(low, float(ratio.min())), max(high, float(ratio.max()))
        return low, high

    def check_policies(self, most: int | None = None) -> None:
        """Check propensities, the policies at logged rows, and the target policy at its own.

        A policy without a table is asked for the probability of each action at 200 rows at most.

        Parameters
        ----------
        most : rows at which both policies are checked, None for all. Those of several loggers are
            checked at all rows.

        Raises
        ------
        DataError : a propensity of a finite set of actions is above 1; a policy has another number
            of actions than the problem, a negative probability, or rows that do not sum to 1.
        """
        if self.n_actions is None:
            return
        if self.propensity is not None and (self.propensity > 1.0 + _ROUNDING).any():
            row = int(np.argmax(self.propensity))
            msg = f"propensity[{row}] is {self.propensity[row]:g}; expected a probability"
            raise DataError(msg)
        for name in ("logging_policy", "target_policy"):
            if (policy := getattr(self, name)) is not None:
                self._check_policy(name, policy, most)
        if self.target_policy is not None and self.has_target_sample and not self.shared_contexts:
            self._check_policy("target_policy", self.target_policy, most, "target_context")
        for k, policy in enumerate(self.stratum_policies or ()):
            self._check_policy(f"stratum_policies[{k}]", policy, None)

    def _check_policy(
        self, name: str, policy: Policy, most: int | None, where: str = "context"
    ) -> None:
        contexts = getattr(self, where)
        actions = np.arange(self.n_actions or 0)

        def by_probability(context: FloatArray) -> FloatArray:
            pairs = np.repeat(np.arange(len(context)), len(actions))
            found = policy.probability(context[pairs], np.tile(actions, len(context)))
            return np.asarray(found, dtype=np.float64).reshape(len(context), -1)

        # Of the class: a policy that lacks an attribute looks for similar names.
        if getattr(type(policy), "known_where_logged", False):
            return  # the mean of rows of equal contexts is no distribution
        has_table = isinstance(policy, DiscretePolicy)
        table_of = policy.table if isinstance(policy, DiscretePolicy) else by_probability
        n = len(contexts)
        count = min(n, n if most is None else most, n if has_table else _ROWS_WITHOUT_TABLE)
        checked = np.arange(count) * (n - 1) // max(1, count - 1)
        for part in row_chunks(count, len(actions)):
            rows = checked[part]
            try:
                table = table_of(contexts[rows])
            except UnavailableError:  # of a policy known at the logged actions alone
                return
            shape = (len(rows), self.n_actions)
            if table.shape != shape:
                what = f"{name}.table" if has_table else f"{name}.probability of each action"
                msg = (
                    f"{what} of {len(rows)} rows has shape {table.shape}; expected {shape}, "
                    f"as n_actions is {self.n_actions}"
                )
                raise DataError(msg)
            total = table.sum(axis=1)
            wrong = ~(table >= 0).all(axis=1) | ~(np.abs(total - 1.0) <= _ROUNDING)
            if wrong.any():
                at = int(np.argmax(wrong))
                msg = (
                    f"{name} at {where}[{rows[at]}]: its probabilities sum to {total[at]:g}, the "
                    f"smallest is {table[at].min():g}; expected a distribution over actions"
                )
                raise DataError(msg)
            mask = self.action_mask if where == "context" else None
            if mask is not None and (table[~mask[rows]] > 0).any():
                msg = f"{name} gives mass to actions that action_mask says were unavailable"
                raise DataError(msg)

    @cached_property
    def logging_average(self) -> float:
        """The mean logged reward, weighted where rows have weights."""
        if self.row_weight is None:
            return float(self.reward.mean())
        return float(np.average(self.reward, weights=self.row_weight))

    @property
    def has_target_sample(self) -> bool:
        """Return whether there is a target sample."""
        return self.target_action is not None

    @property
    def target_sample(self) -> tuple[FloatArray, IntArray | FloatArray, FloatArray]:
        """Context (m, d_context), action (m,) and embedding (m, d_embedding) of the target rows.

        Raises
        ------
        UnavailableError : there is no target sample.
        """
        if self.target_context is None or self.target_action is None:
            raise UnavailableError(self.reason("target_action"))
        return self.target_context, self.target_action, cast(FloatArray, self.target_embedding)

    def reason(self, name: str) -> str:
        """Return why an attribute of the view is missing, and what would give it."""
        default = "target sample" if name.startswith("target_") else name
        default = name if name == "target_policy" else default
        return self.unavailable.get(name, f"the environment has no {default}")

    def _check_target(self, bounds: Mapping[str, object]) -> tuple[int, ...]:
        """Validate the target sample and return its shape, (m,); (0,) if there is none."""
        names = ("target_context", "target_action", "target_embedding")
        missing = [name for name in names if getattr(self, name) is None]
        if len(missing) == len(names):
            if self.shared_contexts or self.target_unit is not None:
                name = "shared_contexts" if self.shared_contexts else "target_unit"
                msg = f"{name} is given, but there is no target sample"
                raise DataError(msg)
            return (0,)
        if missing:
            msg = f"{missing[0]} is None; give all of {', '.join(names)}, or none"
            raise DataError(msg)
        m = np.shape(cast(FloatArray, self.target_action))
        if len(m) != 1 or m[0] == 0:
            msg = f"target_action has shape {m}; expected (m,) with at least one row"
            raise DataError(msg)
        self._validate("target_context", (m[0], self.context.shape[1]))
        self._validate("target_embedding", (m[0], self.embedding.shape[1]))
        self._validate("target_action", m, **bounds)
        return m

    def _check_optional(self, n: tuple[int, ...]) -> None:
        """Validate arrays that some problems have: of actions, rows, lists and loggers."""
        n_actions = self.n_actions or 0
        described = "n_actions" if self.n_actions is None else self.n_actions
        policies = None if self.stratum_policies is None else len(self.stratum_policies) - 1
        whole, share = {"dtype": np.int64, "low": 0}, {"low": 0.0, "high": 1.0 + _ROUNDING}
        shapes: dict[str, tuple[tuple[int | str, ...], Mapping[str, object]]] = {
            "propensity": (n, {"low": 0.0}),
            "action_embedding": ((described, self.embedding.shape[1]), {}),
            "predicted_reward": ((n[0], n_actions), {}),
            "predicted_reward_wanted": ((n[0], n_actions), {}),
            "row_weight": (n, {"low": 0.0}),
            "slot": (n, whole),
            "prefix_propensity": ((n[0], 2), share),
            "joint_propensity": ((n[0], 2), share),
            "position_marginals": ((n[0], "length", 2), share),
            "stratum": (n, {**whole, "high": policies}),
            "action_mask": ((n[0], n_actions), {"low": 0.0, "high": 1.0}),
        }
        positive = {
            "propensity": ", but that action was logged; expected > 0",
            "row_weight": "; expected > 0, or the row left out",
            "prefix_propensity": ", but that list was logged; expected > 0",
            "joint_propensity": ", but that list was logged; expected > 0",
        }
        for name, (shape, limits) in shapes.items():
            if getattr(self, name) is not None:
                self._validate(name, shape, **limits)
        for name, why in positive.items():
            values = getattr(self, name)
            # Of lists, the first column is under the logging policy.
            of_list = np.ndim(values) == 2
            logged = values[:, 0] if of_list else values
            if values is not None and (logged == 0).any():
                msg = f"{name}[{np.argmin(logged)}{', 0' * of_list}] is 0{why}"
                raise DataError(msg)
        if self.slot is not None and self.unit is None:
            msg = "slot is given without unit; the rows of one list need one unit"
            raise DataError(msg)
        if self.stratum_policies is not None and self.stratum is None:
            msg = "stratum_policies is given without stratum; give each row's stratum"
            raise DataError(msg)
        if self.action_mask is not None:
            mask = self.action_mask.astype(np.bool_)
            mask.flags.writeable = False
            object.__setattr__(self, "action_mask", mask)
            logged = mask[np.arange(n[0]), cast(IntArray, self.action)]
            if not logged.all():
                row = int(np.argmin(logged))
                msg = f"action[{row}] is {self.action[row]}; action_mask says it was unavailable"
                raise DataError(msg)

    def _check_units(self, n: tuple[int, ...], m: tuple[int, ...]) -> None:
        limits = {"dtype": np.int64, "low": -_LARGEST_UNIT, "high": _LARGEST_UNIT}
        if self.unit is not None:
            self._validate("unit", n, **limits)
        if self.target_unit is None:
            return
        if self.unit is None:
            msg = "target_unit is given without unit; give both, or neither"
            raise DataError(msg)
        self._validate("target_unit", m, **limits)
        if self.shared_contexts and not np.array_equal(self.unit, self.target_unit):
            msg = "shared_contexts is set, but unit and target_unit differ"
            raise DataError(msg)

    def _validate(self, name: str, shape: tuple[int | str, ...], **limits: object) -> None:
        array = validate_array(name, getattr(self, name), shape, **limits)  # type: ignore[arg-type]
        object.__setattr__(self, name, array)

    def _check_schema(self) -> None:
        schema = cast(Schema, self.schema)
        for name, columns, width in (
            ("context", schema.context, self.context.shape[1]),
            ("embedding", schema.embedding, self.embedding.shape[1]),
        ):
            if len(columns) != width:
                msg = f"schema names {len(columns)} {name} columns; the array has {width}"
                raise DataError(msg)


@dataclass(frozen=True)
class Truth:
    """The true value of the target policy, visible to the runner alone.

    Parameters
    ----------
    expected : the target policy's value: expected reward per round.
    expected_se : Monte Carlo standard error of ``expected``; 0 where it is exact.
    empirical : mean reward of this replicate's target sample, the paper's V_s.

    Attributes
    ----------
    known : False for `unknown` alone.
    """

    expected: float
    expected_se: float
    empirical: float
    known: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        for name in ("expected", "expected_se", "empirical"):
            value = finite_number(f"truth: {name}", getattr(self, name))
            object.__setattr__(self, name, value)

    @classmethod
    def unknown(cls) -> Truth:
        """Return the truth of a user's own log, which nobody knows; records then hold None."""
        truth = cls(0.0, 0.0, 0.0)
        object.__setattr__(truth, "known", False)
        return truth

    @property
    def facts(self) -> dict[str, float | None]:
        """The fields of a record."""
        fields = ("expected", "expected_se", "empirical")
        return {f"truth_{name}": getattr(self, name) if self.known else None for name in fields}
