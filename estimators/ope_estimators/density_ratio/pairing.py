"""The pair kernel of the paper: each logged embedding against target embeddings of its context."""

from __future__ import annotations

import numpy as np

from ope_bench import FloatArray, IntArray, UnavailableError, View
from ope_estimators.density_ratio.kernels import Kernel, profile
from ope_estimators.features.composition import encode

__all__ = ["paired_rows", "pair_kernel"]


def paired_rows(view: View, draws: int, rng: np.random.Generator) -> IntArray:
    """Select target rows as draws of G' given each logged context: (n, draws).

    One draw is the pairing as printed, row i with row i. The samples do not have several draws per
    context, so the target rows with the nearest contexts are used (in standard deviations; ties in
    random order), row i itself among them where both samples share contexts. Permuted target rows
    would be wrong: they are draws given other contexts.

    Raises
    ------
    UnavailableError : one draw, but the samples have different sizes.
    """
    if draws == 1:
        if view.n != view.m:
            msg = (
                f"the kernel pairs row i of both samples, but they have {view.n} and {view.m} "
                "rows; set target_draws to 2 or more to pair by nearest contexts"
            )
            raise UnavailableError(msg)
        return np.arange(view.n, dtype=np.int64)[:, None]
    from scipy.spatial import cKDTree

    logged = encode(view.context, view.schema.context)
    target = encode(view.target_context, view.schema.context)
    spread = np.concatenate([logged, target]).std(axis=0)
    spread[spread == 0] = 1.0
    jitter = 1e-6 * rng.standard_normal((max(view.n, view.m), 1))
    # The jitter column breaks ties; shared contexts share it, so that row i selects row i first.
    logged = np.hstack([logged / spread, jitter[: view.n]])
    target = np.hstack([target / spread, jitter[: view.m]])
    _, rows = cKDTree(target).query(logged, k=min(draws, view.m))
    return np.asarray(rows, dtype=np.int64).reshape(view.n, -1)


def pair_kernel(
    kernel: Kernel, width: float, logged: FloatArray, target: FloatArray, rows: IntArray
) -> FloatArray:
    """Return the mean over j of K((G'_{rows[i, j]} - G_i) / h): (n,).

    Parameters
    ----------
    logged : (n, d_embedding)
    target : (m, d_embedding)
    rows : (n, draws), as `paired_rows` gives them
    """
    total = np.zeros(len(logged))
    for column in rows.T:
        squared: FloatArray = np.square((target[column] - logged) / width).sum(axis=1)
        total += profile(kernel, squared)
    mean: FloatArray = total / rows.shape[1]
    return mean
