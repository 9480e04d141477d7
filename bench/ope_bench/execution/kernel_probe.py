"""Products, eigenvalues and a solution with known answers, by the BLAS of a new process.

Some releases of OpenBLAS multiply wrongly, or die of SIGSEGV, where fixed kernels meet a block
size that is not theirs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np


def main() -> None:
    """Print what is wrong, or "right", as the last line of standard output."""
    sys.stdout.write(f"\n{next(wrong_results(), 'right')}\n")


def wrong_results() -> Iterator[str]:
    """Yield the results of NumPy and SciPy that are wrong."""
    import scipy.linalg  # SciPy carries a BLAS of its own

    rng = np.random.default_rng(0)
    blas = scipy.linalg.blas
    # The first crashes OpenBLAS 0.3.34 with Haswell kernels on processors with AVX-512.
    for place, (m, k, n) in enumerate([(500, 500, 27), *rng.integers(1, 501, (30, 3)).tolist()]):
        # Small integers, of which floats hold every partial sum in any order.
        left, right = rng.integers(-8, 9, (m, k)), rng.integers(-8, 9, (n, k)).T
        # The product times a vector is known without the product (Freivalds, 1977).
        vector = rng.integers(1, 1 << 20, n)
        known = left @ (right @ vector)
        kind = np.float32 if place % 3 == 2 else np.float64
        multiply = blas.sgemm if kind is np.float32 else blas.dgemm
        a, b = left.astype(kind), right.astype(kind)
        for name, product in (("numpy", np.matmul(a, b)), ("scipy", multiply(1.0, a, b))):
            if not np.array_equal(product.astype(np.int64) @ vector, known):
                yield f"{name}: wrong product {m} x {k} by {k} x {n} ({kind.__name__})"
    square = rng.integers(-8, 9, (120, 120))
    solution = rng.integers(-8, 9, 120)
    regular = (square + 500 * np.eye(120, dtype=np.int64)).astype(np.float64)
    symmetric = (square + square.T).astype(np.float64)
    for name, linalg in (("numpy", np.linalg), ("scipy", scipy.linalg)):
        if not np.allclose(linalg.solve(regular, regular @ solution), solution):
            yield f"{name}: wrong solution of 120 equations"
        values, vectors = linalg.eigh(symmetric)
        if not np.allclose(symmetric @ vectors, vectors * values, atol=1e-8):
            yield f"{name}: wrong eigenvectors of a 120 x 120 matrix"
