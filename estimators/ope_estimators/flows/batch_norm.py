"""Batch normalization as an invertible map of a flow."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributions import Transform, constraints
from zuko.lazy import LazyTransform

__all__ = ["BatchNorm"]

EPSILON = 1e-5
"""Added to variances."""

KEPT = 0.9
"""Share of the remembered moments that a training batch leaves."""


class BatchNorm(LazyTransform):  # type: ignore[misc]  # zuko has no types
    """Standardize columns by a batch's moments in training, by remembered ones afterwards.

        y = exp(γ) (x - m) / sqrt(v + ε) + β,   log |det dy/dx| = sum_j γ_j - log(v_j + ε) / 2

    m, v are mean and variance of the batch in training; running means of these are remembered. A
    batch of one row has no variance and is mapped by what is remembered.

    Parameters
    ----------
    features : number of columns.

    References
    ----------
    Masked Autoregressive Flow for Density Estimation (Papamakarios, Pavlakou and Murray, 2017),
    section 3.4 and appendix B.
    """

    mean: torch.Tensor
    variance: torch.Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.log_scale = torch.nn.Parameter(torch.zeros(features))
        self.shift = torch.nn.Parameter(torch.zeros(features))
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("variance", torch.ones(features))

    def forward(self, c: torch.Tensor | None = None) -> Transform:
        """Return the map, which is the same for every context."""
        return _Standardize(self)

    def affine(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what is subtracted from rows (k, d) and the logarithm of their factor: (d,)."""
        mean, variance = self.mean, self.variance
        if self.training and len(x) > 1:
            mean, variance = x.mean(dim=0), x.var(dim=0, unbiased=False)
            with torch.no_grad():
                self.mean.lerp_(mean, 1 - KEPT)
                self.variance.lerp_(variance, 1 - KEPT)
        return mean, self.log_scale - (variance + EPSILON).log() / 2


class _Standardize(Transform):
    """The map of a `BatchNorm`."""

    domain = constraints.real_vector
    codomain = constraints.real_vector
    bijective = True

    def __init__(self, layer: BatchNorm) -> None:
        super().__init__()
        self.layer = layer

    def call_and_ladj(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_factor = self.layer.affine(x)
        mapped = (x - mean) * log_factor.exp() + self.layer.shift
        return mapped, log_factor.sum().expand(x.shape[:-1])

    def _call(self, x: torch.Tensor) -> torch.Tensor:
        return self.call_and_ladj(x)[0]

    def _inverse(self, y: torch.Tensor) -> torch.Tensor:
        mean, log_factor = self.layer.affine(y[:1])
        return (y - self.layer.shift) * (-log_factor).exp() + mean

    def log_abs_det_jacobian(self, x: torch.Tensor, y: Any) -> torch.Tensor:
        return self.call_and_ladj(x)[1]
