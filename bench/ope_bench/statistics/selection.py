"""Quality of policy selection: choosing among target policies by their estimated values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_bench.contracts.arrays import FloatArray

__all__ = ["Selection", "selection"]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Measures of one ranking of candidate policies; None where undefined.

    Parameters
    ----------
    spearman, kendall : rank correlation of estimates and values.
    regret : value of the best policy minus the value of the one with the best estimate.
    relative_regret : ``regret`` over the range of the values.
    type_one : share of the policies no better than the reference that would be adopted.
    type_two : share of the policies better than the reference that would be rejected.
    """

    spearman: float | None
    kendall: float | None
    regret: float | None
    relative_regret: float | None
    type_one: float | None
    type_two: float | None


def selection(
    estimate: FloatArray, value: FloatArray, *, reference: float | None = None
) -> Selection:
    """Measure the selection of policies by their estimated values.

    A policy is adopted if its estimate exceeds ``reference``. Among estimates that tie for the
    best, the mean of the policies' values counts, the expectation of a uniform draw.

    Parameters
    ----------
    estimate, value : (policies,); policies whose estimate is NaN cannot be chosen, and are
        left out of the correlations.
    reference : value of the policy in use, the logging policy.

    References
    ----------
    "Towards assessing and benchmarking risk-return tradeoff of off-policy evaluation" (Kiyohara,
    Kishimoto, Kawakami, Kobayashi, Nakata and Saito, 2024), section 2.2.

    >>> chosen = selection(np.array([1.0, 3.0, 2.0]), np.array([1.0, 2.0, 3.0]), reference=1.5)
    >>> chosen.spearman, chosen.regret, chosen.type_one, chosen.type_two
    (0.5, 1.0, 0.0, 0.0)
    """
    known = np.isfinite(estimate)
    regret = relative = one = two = None
    if known.any():
        best = estimate[known] == estimate[known].max()
        regret = float(value.max() - value[known][best].mean())
        spread = float(value.max() - value.min())
        relative = regret / spread if spread > 0 else None
    if reference is not None and known.any():
        better = value > reference
        adopted = known & (np.where(known, estimate, -np.inf) > reference)
        one = float(adopted[~better].mean()) if (~better).any() else None
        two = float((~adopted)[better].mean()) if better.any() else None
    spearman, kendall = _correlations(estimate[known], value[known])
    return Selection(
        spearman=spearman,
        kendall=kendall,
        regret=regret,
        relative_regret=relative,
        type_one=one,
        type_two=two,
    )


def _correlations(estimate: FloatArray, value: FloatArray) -> tuple[float | None, float | None]:
    from scipy.stats import kendalltau, spearmanr

    # Rank correlations of constant rows are undefined.
    if len(estimate) < 2 or np.ptp(estimate) == 0 or np.ptp(value) == 0:
        return None, None
    spearman = float(spearmanr(estimate, value).statistic)
    return round(spearman, 15), round(float(kendalltau(estimate, value).statistic), 15)
