"""What the weighting estimators share: averages of weighted rewards, and support in samples."""

from __future__ import annotations

import math

import numpy as np

from ope_bench.arrays import FloatArray
from ope_bench.data import Diagnostic
from ope_bench.errors import PositivityViolation
from ope_bench.view import View

__all__ = ["clipped", "never_logged", "self_normalized", "standard_error"]


def clipped(weights: FloatArray, limit: float | None) -> tuple[FloatArray, dict[str, Diagnostic]]:
    """Weights no larger than ``limit``, None leaving them alone, and what it did.

    The diagnostics are the mean weight (one in expectation, were it not for missing support) and,
    with a limit, the share of rows that it touched.
    """
    diagnostics: dict[str, Diagnostic] = {"mean_weight": float(weights.mean())}
    if limit is not None:
        diagnostics |= {"clip": limit, "clipped_share": float((weights > limit).mean())}
        weights = np.minimum(weights, limit)
    return weights, diagnostics


def standard_error(terms: FloatArray) -> float | None:
    """Standard error of the mean of independent terms; None for a single one."""
    n = len(terms)
    return float(terms.std(ddof=1)) / math.sqrt(n) if n > 1 else None


def self_normalized(
    weights: FloatArray, reward: FloatArray, *, unsupported_mass: float | None = None
) -> tuple[float, float | None]:
    """sum(w r) / sum(w) and its standard error, linearised in both sums (the delta method).

    Raises
    ------
    PositivityViolation : all weights are zero.
    """
    total = float(weights.sum())
    if total == 0:
        msg = f"all {len(weights)} weights are 0: nothing that the target policy does was logged"
        raise PositivityViolation(msg, unsupported_mass=unsupported_mass)
    # Shares first: the products then stay finite where the weights are very large.
    share = weights / total
    value = float(share @ reward)
    n = len(weights)
    if n == 1:
        return value, None
    return value, float(np.sqrt(n / (n - 1) * np.sum((share * (reward - value)) ** 2)))


def never_logged(view: View) -> float | None:
    """Share of the target sample whose action was never logged; None for continuous actions."""
    if view.n_actions is None:
        return None
    logged = np.zeros(view.n_actions, dtype=bool)
    logged[view.action] = True
    return float((~logged[view.target_action]).mean())
