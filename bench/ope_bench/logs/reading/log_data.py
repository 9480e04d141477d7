"""Logged decisions as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.schema import Schema
from ope_bench.errors import UsageError, did_you_mean
from ope_bench.logs.reading.spec import LogSpec
from ope_bench.logs.reading.targets import Target

__all__ = ["LogData"]


@dataclass(frozen=True, eq=False, kw_only=True)
class LogData:
    """Logged decisions as arrays, and the policies to evaluate on them.

    Parameters
    ----------
    context : (n, d_context)
    action : (n,), codes
    reward : (n,)
    schema : kinds of the columns of context and embedding.
    context_names : (d_context,), the table's column of each.
    actions : names of the actions, by code; numbers sort as numbers.
    propensity : (n,) or None
    embedding : (n_actions, d_embedding), what describes each action; None without items.
    unit : (n,) or None
    time : (n,), rank of each row's time, or None
    logging : (n, n_actions), the logging policy's probabilities, or None
    targets : the policies to evaluate, by name.
    notes : what was done about missing values.
    reward_range : smallest and largest reward, or None
    spec : what the user named; None in a worker.
    """

    context: FloatArray
    action: IntArray
    reward: FloatArray
    schema: Schema
    context_names: tuple[str, ...]
    actions: tuple[str, ...]
    propensity: FloatArray | None = None
    embedding: FloatArray | None = None
    unit: IntArray | None = None
    time: IntArray | None = None
    logging: sparse.csr_array | None = None
    targets: Mapping[str, Target] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reward_range: tuple[float, float] | None = None
    spec: LogSpec | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.reward)

    @property
    def n_units(self) -> int:
        """Number of units; rows where the log names none."""
        return self.n if self.unit is None else len(np.unique(self.unit))

    @property
    def target_form(self) -> str:
        """The forms in which the policies were given."""
        return ", ".join(dict.fromkeys(target.form for target in self.targets.values()))

    def policy_name(self, name: str | None) -> str:
        """Return the name of a policy to evaluate, of the only one where None is given.

        Raises
        ------
        UsageError : there is no such policy, or there are several to choose from.
        """
        known = list(self.targets)
        if name is None and len(known) == 1:
            return known[0]
        if name is None:
            msg = f"the log has {len(known)} policies ({', '.join(known)}); name one of them"
            raise UsageError(msg)
        if name not in known:
            hint = did_you_mean(name, known)
            msg = f"the log has no policy '{name}'{hint}; it has: {', '.join(known)}"
            raise UsageError(msg)
        return name

    def weights(self, name: str) -> FloatArray | None:
        """Return the importance weights of a policy, None where they are unknown: (n,)."""
        wanted = self.targets[name].of_logged(self.action)
        return None if wanted is None or self.propensity is None else wanted / self.propensity

    def facts(self) -> dict[str, Any]:
        """Return what every output says of the log."""
        return {
            "rows": self.n,
            "units": self.n_units,
            "actions": len(self.actions),
            "propensity": self.propensity is not None,
            "target_form": self.target_form,
        }

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value!r}" for name, value in self.facts().items())
        return f"Log({facts})"
