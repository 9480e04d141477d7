"""Weights of the logged rows, fitted from both samples without a classifier."""

from __future__ import annotations

from dataclasses import dataclass, field

from ope_bench import Diagnostic, FloatArray

__all__ = ["SampleWeights"]


@dataclass(frozen=True, eq=False)
class SampleWeights:
    """Weights of the logged rows, and the same function at the target rows where there is one.

    Parameters
    ----------
    logged : (n,), one on average where the ratio is right.
    target : (m,), or None where weights are defined at the logged rows only.
    diagnostics : chosen parameters.
    """

    logged: FloatArray
    target: FloatArray | None
    diagnostics: dict[str, Diagnostic] = field(default_factory=dict)
