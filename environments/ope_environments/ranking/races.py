"""Rank marginals of Plackett-Luce lists, as races of exponential clocks."""

from __future__ import annotations

from functools import cache

import numpy as np

from ope_bench import FloatArray, row_chunks

__all__ = ["race"]

NODES = 160
"""Nodes of the integral; the integrand is analytic in the logarithm of time."""

EARLIEST, LATEST = 1e-10, 40.0
"""First and last time, in mean waits for the next item when all, and when only the last, race."""


def race(rate: FloatArray, factor: FloatArray | None, length: int) -> FloatArray:
    """Return P(item a is at slot k), times the factors of all items before it: (c, length, A).

        ∫ λ_a e^(-λ_a t) [z^k] prod_(b != a) (1 - p_b(t) + z g_b p_b(t)) dt,
        p_b(t) = 1 - e^(-λ_b t)

    In a Plackett-Luce list items come in the order of independent exponential clocks. Exactly k
    others rang before a is the coefficient of z^k of a product over items; a factor g_b of each
    item before, as a user's chance to go on after it, enters that product. The integral is by
    Gauss-Legendre nodes in log t.

    Parameters
    ----------
    rate : (c, A), the weights λ of the items in c contexts; 0 for items that are not available.
    factor : (c, A), g; None for one.
    length : number of slots.

    >>> np.round(race(np.array([[1.0, 3.0]]), None, 2), 6).tolist()
    [[[0.25, 0.75], [0.75, 0.25]]]
    """
    n_actions = rate.shape[1]
    out = np.empty((len(rate), length, n_actions))
    for rows in row_chunks(len(rate), NODES * length * n_actions):
        gain = None if factor is None else factor[rows]
        out[rows] = _race(rate[rows], gain, length)
    return out


def _race(rate: FloatArray, factor: FloatArray | None, length: int) -> FloatArray:
    node, weight = _nodes()
    total = rate.sum(axis=1)
    least = np.where(rate > 0, rate, np.inf).min(axis=1)
    low, high = np.log(EARLIEST / total), np.log(LATEST / least)
    half = 0.5 * (high - low)
    time = np.exp(0.5 * (high + low)[:, None] + half[:, None] * node)
    hazard = time[:, :, None] * rate[:, None, :]
    waiting = np.exp(-hazard)
    rung = -np.expm1(-hazard) if factor is None else -np.expm1(-hazard) * factor[:, None, :]
    n_actions = rate.shape[1]
    after = np.zeros((n_actions + 1, *time.shape, length))
    after[-1, ..., 0] = 1.0
    for a in range(n_actions - 1, 0, -1):
        after[a] = _times(after[a + 1], waiting[..., a], rung[..., a])
    before = np.zeros((*time.shape, length))
    before[..., 0] = 1.0
    out = np.empty((len(rate), length, n_actions))
    measure = weight * half[:, None]
    for a in range(n_actions):
        density = measure * hazard[..., a] * waiting[..., a]
        for k in range(length):
            others = np.einsum("ctj,ctj->ct", before[..., : k + 1], after[a + 1][..., k::-1])
            out[:, k, a] = np.einsum("ct,ct->c", density, others)
        before = _times(before, waiting[..., a], rung[..., a])
    return out


def _times(polynomial: FloatArray, constant: FloatArray, slope: FloatArray) -> FloatArray:
    """Multiply polynomials in z by (constant + slope z), cut at their length."""
    out = polynomial * constant[..., None]
    out[..., 1:] += polynomial[..., :-1] * slope[..., None]
    return out


@cache
def _nodes() -> tuple[FloatArray, FloatArray]:
    node, weight = np.polynomial.legendre.leggauss(NODES)
    return node, weight
