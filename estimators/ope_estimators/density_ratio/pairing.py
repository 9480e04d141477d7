"""The printed kernel: each logged embedding against target embeddings of the same context."""

from __future__ import annotations

import numpy as np

from ope_bench.arrays import FloatArray, IntArray
from ope_bench.errors import UnavailableError
from ope_bench.view import View
from ope_estimators.density_ratio.composition import encode
from ope_estimators.density_ratio.kernels import Kernel, profile

__all__ = ["partners", "pair_kernel"]


def partners(view: View, draws: int, rng: np.random.Generator) -> IntArray:
    """Rows of the target sample that stand for draws of G' given each logged context: (n, draws).

    One draw is the pairing as printed, row i with row i. More than one per context are not in the
    samples: the target rows with the nearest contexts stand in (in standard deviations; ties in
    random order), row i itself among them where both samples share contexts. Permuted target rows
    would not do: they are draws of another context's embedding.

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
    # The jitter's own column breaks ties; shared contexts share it, so that i finds i first.
    logged = np.hstack([logged / spread, jitter[: view.n]])
    target = np.hstack([target / spread, jitter[: view.m]])
    _, rows = cKDTree(target).query(logged, k=min(draws, view.m))
    return np.asarray(rows, dtype=np.int64).reshape(view.n, -1)


def pair_kernel(
    kernel: Kernel, width: float, logged: FloatArray, target: FloatArray, rows: IntArray
) -> FloatArray:
    """mean over j of K((G'_{rows[i, j]} - G_i) / h): (n,).

    Parameters
    ----------
    logged : (n, d_embedding)
    target : (m, d_embedding)
    rows : (n, draws), as `partners` gives them
    """
    total = np.zeros(len(logged))
    for column in rows.T:
        squared: FloatArray = np.square((target[column] - logged) / width).sum(axis=1)
        total += profile(kernel, squared)
    mean: FloatArray = total / rows.shape[1]
    return mean
