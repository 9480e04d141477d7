"""The rule ``slope``: the narrowest interval that agrees with all wider ones."""

from __future__ import annotations

import math

import numpy as np

from ope_bench import FloatArray

__all__ = ["NORMAL_QUANTILE", "slope"]

NORMAL_QUANTILE = 1.959963984540054
"""Half-width of a 95 % interval in standard errors."""


def slope(estimate: FloatArray, half_width: FloatArray, *, in_order: bool = False) -> int:
    """Return the index of the last candidate, by falling width, that agrees with all before it.

        |V̂_j - V̂_i| <= c_i + (√6 - 1) c_j   for every kept j that is wider than i

    The widest interval comes first: it belongs to the candidate with the least bias. Bias is
    supposed to grow while width falls. Candidates are kept as long as each agrees with all that
    were kept before; the first that does not ends the search, and the last kept one is returned.
    Candidates of equal width stay in the order given, from no bias on. Where width does not fall
    as bias grows, as with a kernel on rewards without noise, a biased candidate may come first.
    A candidate of infinite width agrees with all others. If every width is infinite, nothing
    speaks for a candidate, and the first one given is returned.

    Parameters
    ----------
    estimate : (k,)
    half_width : (k,), half the width of each candidate's interval; not negative, infinite where
        too few data carry the estimate for its spread to be known.
    in_order : the candidates are a ladder, from the least bias on, and are walked as given.

    References
    ----------
    Adaptive estimator selection for off-policy evaluation (Su, Srinath and Krishnamurthy, 2020),
    section 3. Improved estimator selection for off-policy evaluation (Tucker and Lee, 2021), for
    the constant √6 - 1.

    Note: public implementations differ in the constant, in whether the search goes on after a
    candidate that does not agree, and one walks from narrow to wide, which always returns a
    candidate without regard to its bias.

    >>> slope(np.array([0.0, 0.1, 5.0]), np.array([1.0, 0.5, 0.2]))
    1
    >>> slope(np.array([5.0, 0.1, 0.0]), np.array([0.2, 0.5, 1.0]), in_order=True)
    0
    """
    if np.isinf(half_width).all():
        return 0
    ladder = np.zeros_like(half_width) if in_order else half_width
    order = np.argsort(-ladder, kind="stable")
    value, width = estimate[order], half_width[order]
    reach = width[:, None] + (math.sqrt(6.0) - 1.0) * width[None, :]
    agrees = np.abs(value[:, None] - value[None, :]) <= reach
    wider = np.tri(len(order), k=-1, dtype=bool)
    kept = np.logical_and.accumulate((agrees | ~wider).all(axis=1))
    return int(order[np.count_nonzero(kept) - 1])
