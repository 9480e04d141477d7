"""What crosses the boundaries: Problem, Truth, Estimate and their Schema.

All frozen; shapes, dtypes and finiteness are checked here, once.
n is the number of logged rows, m of target rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

import numpy as np

from ope_bench.arrays import FloatArray, IntArray, checked
from ope_bench.embeddings import EmbeddingDistribution
from ope_bench.errors import DataError
from ope_bench.policies import Policy

__all__ = ["Column", "Diagnostic", "Estimate", "Problem", "Schema", "Truth"]

Diagnostic = float | int | str | bool | None


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
    """Which columns of context and embedding are categorical, atoms or continuous."""

    context: tuple[Column, ...]
    embedding: tuple[Column, ...]

    @classmethod
    def continuous(cls, d_context: int, d_embedding: int) -> Schema:
        """All columns continuous."""
        return cls((Column(),) * d_context, (Column(),) * d_embedding)


@dataclass(frozen=True, eq=False)
class Problem:
    """One off-policy evaluation problem: logs, a target sample, and what is known of them.

    Parameters
    ----------
    context : (n, d_context)
    action : (n,), integers in [0, n_actions), or floats where ``n_actions`` is None
    embedding : (n, d_embedding)
    reward : (n,), reward of each logged round
    target_context : (m, d_context)
    target_action : (m,)
    target_embedding : (m, d_embedding)
    schema : kinds of the columns; all continuous where None
    n_actions : number of actions, None for continuous ones
    propensity : (n,), the logging policy's probability (or density) of the logged action
    logging_policy, target_policy : None where the environment does not know them
    action_embedding : (n_actions, d_embedding) where embeddings are deterministic
    embedding_distribution : p(g|a), where known
    shared_contexts : row i of both samples has the same context (then m = n)

    Raises
    ------
    DataError : an array has the wrong shape or kind, or holds a value that is not finite.
    """

    context: FloatArray
    action: IntArray | FloatArray
    embedding: FloatArray
    reward: FloatArray
    target_context: FloatArray
    target_action: IntArray | FloatArray
    target_embedding: FloatArray
    n_actions: int | None
    schema: Schema | None = None
    propensity: FloatArray | None = None
    logging_policy: Policy | None = None
    target_policy: Policy | None = None
    action_embedding: FloatArray | None = None
    embedding_distribution: EmbeddingDistribution | None = None
    shared_contexts: bool = False

    def __post_init__(self) -> None:
        n, m = np.shape(self.reward), np.shape(self.target_action)
        if len(n) != 1 or n[0] == 0:
            msg = f"reward has shape {n}; expected (n,) with at least one row"
            raise DataError(msg)
        if len(m) != 1 or m[0] == 0:
            msg = f"target_action has shape {m}; expected (m,) with at least one row"
            raise DataError(msg)
        door = self._door
        door("context", (n[0], "d_context"))
        door("embedding", (n[0], "d_embedding"))
        door("reward", n)
        door("target_context", (m[0], self.context.shape[1]))
        door("target_embedding", (m[0], self.embedding.shape[1]))
        if self.n_actions is None:
            door("action", n)
            door("target_action", m)
        else:
            bounds = {"dtype": np.int64, "low": 0, "high": self.n_actions - 1}
            door("action", n, **bounds)
            door("target_action", m, **bounds)
        if self.propensity is not None:
            door("propensity", n, low=0.0)
            if (self.propensity == 0).any():
                row = int(np.argmin(self.propensity))
                msg = f"propensity[{row}] is 0, but that action was logged; expected > 0"
                raise DataError(msg)
        if self.action_embedding is not None:
            n_actions = "n_actions" if self.n_actions is None else self.n_actions
            door("action_embedding", (n_actions, self.embedding.shape[1]))
        if self.schema is None:
            widths = self.context.shape[1], self.embedding.shape[1]
            object.__setattr__(self, "schema", Schema.continuous(*widths))
        self._check_schema()
        if self.shared_contexts and not np.array_equal(self.context, self.target_context):
            msg = "shared_contexts is set, but context and target_context differ"
            raise DataError(msg)

    def _door(self, name: str, shape: tuple[int | str, ...], **limits: object) -> None:
        array = checked(name, getattr(self, name), shape, **limits)  # type: ignore[arg-type]
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
    """What only the runner sees.

    Parameters
    ----------
    expected : the target policy's value: expected reward per round.
    expected_se : Monte Carlo standard error of ``expected``; 0 where it is exact.
    empirical : mean reward of this replicate's target sample, the paper's V_s.
    """

    expected: float
    expected_se: float
    empirical: float

    def __post_init__(self) -> None:
        for name in ("expected", "expected_se", "empirical"):
            value = float(getattr(self, name))
            if not math.isfinite(value):
                msg = f"truth: {name} is {value}; expected a finite number"
                raise DataError(msg)
            object.__setattr__(self, name, value)


@dataclass(frozen=True, eq=False)
class Estimate:
    """What an estimator says.

    Parameters
    ----------
    value : estimated expected reward per round under the target policy.
    standard_error : of ``value``, where the estimator offers one.
    weights : (n,), importance weight of each logged row, before self-normalization.
    diagnostics : plain numbers and words for the store.
    target_weights : (m,), the weight function at the target rows, where a ratio was learnt.
    weight_space : whether the weights estimate the ratio of action or embedding densities;
        lets the runner compare them with the true ratio where the environment knows it.
    """

    value: float
    standard_error: float | None = None
    weights: FloatArray | None = None
    diagnostics: Mapping[str, Diagnostic] = field(default_factory=dict)
    target_weights: FloatArray | None = None
    weight_space: Literal["action", "embedding"] | None = None

    def __post_init__(self) -> None:
        for name in ("value", "standard_error"):
            given = getattr(self, name)
            if name == "standard_error" and given is None:
                continue
            if isinstance(given, bool | str) or np.ndim(given) != 0 or np.iscomplexobj(given):
                msg = f"{name} is {type(given).__name__}; expected one real number"
                raise DataError(msg)
            try:
                object.__setattr__(self, name, float(given))
            except (TypeError, ValueError) as exc:
                msg = f"{name} is {type(given).__name__}; expected one real number"
                raise DataError(msg) from exc
        for name in ("weights", "target_weights"):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, np.asarray(given, dtype=np.float64))
                if np.ndim(given) != 1:
                    msg = f"{name} has shape {np.shape(given)}; expected one weight a row"
                    raise DataError(msg)
        object.__setattr__(self, "diagnostics", _plain(self.diagnostics))


def _plain(diagnostics: Mapping[str, Diagnostic]) -> dict[str, Diagnostic]:
    plain: dict[str, Diagnostic] = {}
    for name, value in diagnostics.items():
        if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
            value = value.item()
        if isinstance(value, float) and not math.isfinite(value):
            value = None
        if not (value is None or isinstance(value, float | int | str | bool)):
            msg = f"diagnostics[{name!r}] is {type(value).__name__}; expected a number or a word"
            raise DataError(msg)
        plain[str(name)] = value
    return plain
