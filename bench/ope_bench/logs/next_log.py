"""What to log next: a logging policy, and the width of the interval that its log gives.

Of all logging policies the one proportional to π1 sqrt(E[r² | x, a]) makes the variance of `ipw`
least. Here the mean square depends on the action alone, so that whoever logs needs one factor for
each action; it is mixed with today's policy, which keeps the log useful for other policies. Then

    n Var(ipw) = E[Z(x)] E_ρ[r²] - V²,   Z(x) = sum_a π1(a|x)² / π(a|x),   ρ = π1² / (π Z)

where the recommended estimator says what the squared rewards would be under ρ.

References
----------
"Data-efficient policy evaluation through behavior policy search" (Hanna, Thomas, Stone and Niekum,
2017); for strata it is Neyman's allocation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from ope_bench.base.errors import UsageError
from ope_bench.execution import Executor
from ope_bench.logs.estimation import run_on_log
from ope_bench.logs.log_data import LogData, stored_log
from ope_bench.logs.recommendation import NORMAL_95
from ope_bench.logs.targets import Target
from ope_bench.plugins.spec import PluginSpec

SHARE = 0.2
"""Share of rows that are logged as today."""

_PRIOR_ROWS = 10.0
"""Rows of the average mean square that every action has beside its own."""


@dataclass(frozen=True, kw_only=True)
class NextLog:
    """A logging policy, and what a log of it would tell.

    Probabilities are ``share`` of today's and the rest of those of the new policy times the
    action's factor, which sum to one in every row.

    Parameters
    ----------
    share : of today's.
    today : ``logging``, today's policy where it is known; else ``actions``, the log's shares.
    factors : by action; the mean of the new policy's is one.
    rows : of the next log.
    width : of the normal 95 % interval of `ipw` on it.
    """

    share: float
    today: str
    factors: Mapping[str, float]
    rows: int
    width: float

    def sentence(self) -> str:
        """Return what to do in one sentence."""
        most = sorted(self.factors.items(), key=lambda pair: -pair[1])[:2]
        named = ", ".join(f"{action} x{factor:.2g}" for action, factor in most)
        return (
            f"Log next: the new policy's probabilities times a factor for each action ({named}, "
            f"...), {self.share:.0%} of the rows as today; the 95 % interval of ipw on "
            f"{self.rows:,} such rows would be {self.width:.3g} wide."
        )


def next_log(
    log: LogData,
    name: str,
    estimator: PluginSpec,
    value: float,
    *,
    share: float = SHARE,
    executor: Executor | None = None,
) -> NextLog | None:
    """Return the logging policy to use next; None without the new policy's probabilities.

    Parameters
    ----------
    log : the log.
    name : of the policy to evaluate.
    estimator : the recommended one.
    value : its estimate of the policy's value.
    share : of rows to be logged as today, above 0.
    executor : where the estimator runs; this process where None.

    Raises
    ------
    UsageError : the share is not above 0 and at most 1.
    """
    if not 0 < share <= 1:
        msg = f"share {share:g} of rows that are logged as today is not above 0 and at most 1"
        raise UsageError(msg)
    policy = log.targets[name].whole(len(log.actions))
    if policy is None:
        return None
    count, squares = (
        np.bincount(log.action, weight, minlength=len(log.actions)).astype(np.float64)
        for weight in (log.weight, log.reward_terms * log.reward)
    )
    mean_square = (squares + _PRIOR_ROWS * squares.sum() / log.n) / (count + _PRIOR_ROWS)
    mass = np.asarray(policy.mean(axis=0)).reshape(-1)
    factor = np.sqrt(mean_square)
    if not factor @ mass > 0:
        return None
    factor /= factor @ mass
    entries = policy.tocoo()
    row, action, old = entries.row, entries.col, entries.data
    new = old * factor[action]
    new /= np.bincount(row, new, minlength=log.n)[row]
    today = (count / count.sum())[action]
    if log.logging is not None:
        today = np.asarray(log.logging[row, action]).reshape(-1)
    terms = np.square(old) / ((1 - share) * new + share * today)
    total = np.bincount(row, terms, minlength=log.n)
    under = sparse.csr_array((terms / total[row], (row, action)), shape=policy.shape)
    asked = Target(name, "table", matrix=under)
    squared = replace(log, reward=np.square(log.reward), reward_range=None, targets={name: asked})
    with stored_log(squared) as folder:
        pairs = [(estimator, None)]
        found = run_on_log(squared, pairs, folder, 0, executor, lambda event: None)
    square = found[name][0].estimate
    if square is None:
        return None
    variance = max(float(np.average(total, weights=log.weight)) * square - value**2, 0.0)
    return NextLog(
        share=share,
        today="actions" if log.logging is None else "logging",
        factors={one: float(number) for one, number in zip(log.actions, factor, strict=True)},
        rows=log.n,
        width=2 * NORMAL_95 * math.sqrt(variance / log.n),
    )
