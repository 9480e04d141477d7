"""A policy's value from a whole randomized trial, with its standard error."""

from __future__ import annotations

import math

import numpy as np

from ope_bench import FloatArray, IntArray, UnavailableError

__all__ = ["stratified_value"]


def stratified_value(
    weight: FloatArray, outcome: FloatArray, stratum: IntArray, unit: IntArray
) -> tuple[float, float]:
    """Estimate a policy's value, self-normalized within strata: (value, standard error).

        V_s = sum_{i in s} w_i y_i / sum_{i in s} w_i,   V = sum_s (N_s / N) V_s

    The standard error is that of the linearized estimate, summed by unit: with

        psi_i = (N_s / N) w_i (y_i - V_s) / sum_{j in s} w_j + (V_s - V) / N

    it is sqrt(G / (G - 1) sum_u (sum_{i in u} psi_i)**2) over G units. The second term counts the
    strata's own spread: the error is that for new units of the same kind, in new proportions.

    *Assumptions*: within a stratum, arms were drawn with the probabilities in the weights; units
    are independent.

    *Fails when* strata are so small that a stratum's sum of weights varies much: the bias of V_s
    is of the order of one over its rows.

    Parameters
    ----------
    weight : (n,), the policy's probability of each row's arm over the trial's.
    outcome : (n,)
    stratum : (n,), from 0.
    unit : (n,)

    Raises
    ------
    UnavailableError : no row of a stratum has an arm that the policy plays.

    >>> value, error = stratified_value(np.array([2.0, 0, 2, 0]), np.array([1.0, 9, 0, 9]),
    ...                                 np.zeros(4, dtype=int), np.arange(4))
    >>> value, round(error, 4)
    (0.5, 0.4082)
    """
    n = len(outcome)
    _, stratum, rows = np.unique(stratum, return_inverse=True, return_counts=True)
    total = np.bincount(stratum, weight)
    if (total <= 0).any():
        msg = (
            "randomized: a stratum has no row whose arm the target policy plays; use fewer "
            "strata, a larger epsilon, or an arm that was drawn in all of them"
        )
        raise UnavailableError(msg)
    of_stratum = np.bincount(stratum, weight * outcome) / total
    value = float(rows @ of_stratum) / n
    term = (rows / total)[stratum] * weight * (outcome - of_stratum[stratum])
    term += of_stratum[stratum] - value
    of_unit = np.bincount(np.unique(unit, return_inverse=True)[1].reshape(-1), term)
    units = len(of_unit)
    if units < 2:
        msg = "randomized: all rows are of one unit, so that the truth has no standard error"
        raise UnavailableError(msg)
    return value, math.sqrt(units / (units - 1) * float(np.square(of_unit).sum())) / n
