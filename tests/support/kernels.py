"""An estimator that tells the size of OpenBLAS's blocks in its process."""

from __future__ import annotations

import os

import numpy as np

from ope_bench import Estimate, Estimator, View


class BlockSize(Estimator):
    """Mean logged reward, after a product that needs the kernels of matrices."""

    def estimate(self, view: View) -> Estimate:
        size = os.environ.get("OPENBLAS_L2_SIZE")
        np.ones((500, 500)) @ np.ones((500, 27))
        found = {} if size is None else {"size": float(size)}
        return Estimate(float(np.mean(view.reward)), diagnostics=found)
