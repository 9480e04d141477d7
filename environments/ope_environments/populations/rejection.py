"""Rejection sampling: logs of another policy out of logs with known propensities.

Rewards and contexts stay as they are; only the choice of rows makes the actions follow another
policy. From a randomized experiment this makes an observational study whose true effect the whole
experiment tells; from any log with known propensities, a log whose logging policy is another one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_bench import DataError, FloatArray, IntArray, require_one_per_row

__all__ = ["Accepted", "accept", "tilt"]

ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Accepted:
    """Rows that rejection sampling accepted.

    Parameters
    ----------
    rows : (k,), their indices, ascending.
    propensity : (k,), the other policy's probability of their actions.
    """

    rows: IntArray
    propensity: FloatArray


def accept(
    propensity: FloatArray,
    wanted: FloatArray,
    rng: np.random.Generator,
    *,
    bound: float | None = None,
    unit: IntArray | None = None,
) -> Accepted:
    """Accept rows such that their actions follow another policy.

    Row i is accepted with probability

        wanted_i / (bound propensity_i)

    Given its context, an accepted row's action then has the other policy's probabilities. Contexts
    keep their distribution where the other policy plays only actions that the logging policy can
    play: then every context is accepted with probability 1 / bound.

    Parameters
    ----------
    propensity : (n,), known probability of each row's action under the policy that logged it.
    wanted : (n,), its probability under the other policy, in the same context.
    rng : draws one uniform number a row, or a unit.
    bound : at least the largest wanted / propensity over all contexts and actions. By default the
        largest among the rows; acceptance then depends a little on the sample.
    unit : (n,); rows of a unit share their uniform number: a unit whose rows have one common
        assignment is accepted or rejected as a whole. Every row by itself still has the stated
        probability.

    Raises
    ------
    DataError : a propensity is not positive, a probability negative, or a ratio above the bound.

    References
    ----------
    RCT Rejection Sampling for Causal Estimation Evaluation (Keith, Feldman, Jurgens, Bragg and
    Bhattacharya, 2023), algorithm 2.

    >>> found = accept(np.full(4, 0.5), np.array([1.0, 0, 1, 0]), np.random.default_rng(0))
    >>> found.rows.tolist(), found.propensity.tolist()
    ([0, 2], [1.0, 1.0])
    """
    n = len(propensity)
    require_one_per_row("wanted", wanted, n)
    if not (propensity > 0).all():
        msg = f"propensity[{int(np.argmin(propensity))}] is not positive, but the row was logged"
        raise DataError(msg)
    if (wanted < 0).any():
        msg = f"wanted[{int(np.argmin(wanted))}] is negative; expected probabilities"
        raise DataError(msg)
    ratio = wanted / propensity
    largest = float(ratio.max(initial=0.0))
    bound = largest if bound is None else bound
    if largest > bound * (1 + ROUNDING):
        msg = f"wanted / propensity is {largest:g} in row {int(np.argmax(ratio))}, above {bound:g}"
        raise DataError(msg)
    if unit is None:
        uniform = rng.random(n)
    else:
        require_one_per_row("unit", unit, n)
        place = np.unique(unit, return_inverse=True)[1].reshape(-1)
        uniform = rng.random(int(place.max(initial=-1)) + 1)[place]
    rows = np.flatnonzero(uniform * bound < ratio)
    return Accepted(rows, wanted[rows])


def tilt(share: FloatArray, score: FloatArray, skew: float) -> FloatArray:
    """Return shares of actions, skewed by context: (n, n_actions).

        p(a|x) proportional to share(a|x) exp(skew score(x, a))

    No skew gives the shares themselves; actions without a share never get one.

    Parameters
    ----------
    share : (n_actions,) or (n, n_actions), known probabilities, those of an experiment's arms.
    score : (n, n_actions), what makes an action more likely in a context.
    skew : how much; negative values make it less likely.

    >>> tilt(np.array([0.5, 0.5]), np.array([[0.0, np.log(3)]]), 1.0).round(6)
    array([[0.25, 0.75]])
    """
    played = np.broadcast_to(share > 0, score.shape)
    if not played.any(axis=1).all():
        msg = f"row {int(np.argmin(played.any(axis=1)))} has no action with a share; give it one"
        raise DataError(msg)
    scaled = np.where(played, skew * score, -np.inf)
    weight = share * np.exp(scaled - scaled.max(axis=1, keepdims=True))
    tilted: FloatArray = weight / weight.sum(axis=1, keepdims=True)
    return tilted
