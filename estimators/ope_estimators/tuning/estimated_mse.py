"""The rule ``mse``: least estimated mean squared error."""

from __future__ import annotations

import numpy as np

from ope_bench import FloatArray

__all__ = ["least_mse"]


def least_mse(standard_error: FloatArray, bias: FloatArray) -> int:
    """Return the index of the candidate with the least squared standard error plus squared bias.

        argmin_k  se_k² + bias_k²

    The first of several equal candidates, so that candidates stand in the order from no bias to
    little variance.

    Parameters
    ----------
    standard_error : (k,)
    bias : (k,), estimated or an upper bound. The difference from an unbiased estimate on the
        same rows contains its noise: the rule then prefers too little bias, not too much.

    References
    ----------
    Doubly robust off-policy evaluation with shrinkage (Su, Dimakopoulou, Krishnamurthy and
    Dudík, 2020), section 5. Optimal and adaptive off-policy evaluation in contextual bandits
    (Wang, Agarwal and Dudík, 2017), section 4.

    >>> least_mse(np.array([3.0, 1.0, 0.1]), np.array([0.0, 1.0, 2.0]))
    1
    """
    return int(np.argmin(np.square(standard_error) + np.square(bias)))
