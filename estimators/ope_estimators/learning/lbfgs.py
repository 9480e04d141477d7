"""The optimizer of classifiers by penalized likelihood: scipy's L-BFGS-B, from zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ope_bench import FloatArray

__all__ = ["minimized"]

LINE_SEARCH_STEPS = 50


def minimized(
    objective: Callable[[FloatArray], tuple[float, FloatArray]],
    size: int,
    *,
    max_iter: int,
    tol: float,
    rounding: float,
) -> Any:
    """Return scipy's result of a minimization that begins at zero.

    Parameters
    ----------
    objective : value and gradient, (size,), at a point, (size,).
    size : number of coefficients.
    max_iter : most iterations.
    tol : largest entry of the gradient at which the search ends.
    rounding : relative change of the value at which it ends.
    """
    from scipy.optimize import minimize

    return minimize(
        objective,
        np.zeros(size),
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": max_iter,
            "maxls": LINE_SEARCH_STEPS,
            "gtol": tol,
            "ftol": rounding,
        },
    )
