"""The rule ``ocv``: off-policy cross-validation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ope_bench import FloatArray, IntArray

__all__ = ["SPLITS", "cross_validate", "validation_risk"]

SPLITS = 10
"""Random splits of the rows."""


def cross_validate(
    estimate: Callable[[int, IntArray], float],
    validate: FloatArray,
    errors: tuple[FloatArray, float],
    unit: IntArray,
    rng: np.random.Generator,
) -> int:
    """Return the index of the candidate with the least `validation_risk`; parameters as there."""
    return int(np.argmin(validation_risk(estimate, validate, errors, unit, rng)))


def validation_risk(
    estimate: Callable[[int, IntArray], float],
    validate: FloatArray | Callable[[IntArray], float],
    errors: tuple[FloatArray, float],
    unit: IntArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Return each candidate's error in predicting an unbiased held-out estimate: (k,).

        mean_s L_ks + se_s(L_ks),   L_ks = (V̂_k(training rows of s) - φ(other rows))²

    Each of the `SPLITS` splits is a random order of the units; candidate k is estimated on the
    first ones, a share se_k² / (se_k² + se_φ²) of them, so that both sides have the same
    variance, or half of them where a standard error is infinite. One standard error is added to
    the mean loss.

    Parameters
    ----------
    estimate : the estimate of candidate k on some rows.
    validate : φ, an unbiased estimate, of importance weighting or doubly robust: a function of
        the held-out rows, or terms of all rows whose mean it is, (n,).
    errors : standard errors on all rows, of each candidate, (k,), and of φ.
    unit : (n,), rows that depend on each other stay together; at least two units.
    rng : draws the splits.

    References
    ----------
    Cross-validated off-policy evaluation (Cief, Kveton and Kompan, 2025), algorithm 1.
    """
    units, place = np.unique(unit, return_inverse=True)
    training = _training_units(np.square(errors[0]), errors[1] ** 2, len(units))
    loss = np.empty((len(training), SPLITS))
    for split in range(SPLITS):
        rank = rng.permutation(len(units))[place.reshape(-1)]
        order = np.argsort(rank, kind="stable")
        start = np.searchsorted(rank[order], training)
        if callable(validate):
            ends, place_of = np.unique(start, return_inverse=True)
            held_out = np.array([validate(order[end:]) for end in ends])[place_of.reshape(-1)]
        else:
            held_out = _means_after(validate[order], start)
        predicted = [estimate(k, order[:end]) for k, end in enumerate(start)]
        loss[:, split] = np.square(np.array(predicted) - held_out)
    risk: FloatArray = loss.mean(axis=1) + loss.std(axis=1, ddof=1) / np.sqrt(SPLITS)
    return risk


def _training_units(variance: FloatArray, validation: float, n_units: int) -> IntArray:
    """Return units that each candidate is estimated on; at least one is left on either side."""
    total = variance + validation
    known = (total > 0) & np.isfinite(total)
    share = np.divide(variance, total, out=np.full(len(variance), 0.5), where=known)
    units: IntArray = np.clip(np.rint(share * n_units), 1, n_units - 1).astype(np.int64)
    return units


def _means_after(terms: FloatArray, start: IntArray) -> FloatArray:
    """Return the mean of the terms from each start on."""
    rest = terms.sum() - np.cumsum(terms)[start - 1]
    means: FloatArray = rest / (len(terms) - start)
    return means
