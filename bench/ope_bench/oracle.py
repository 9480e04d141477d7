"""Estimated weights against the true ratio, where the environment knows it."""

from __future__ import annotations

from ope_bench.data import Estimate, Problem

__all__ = ["compare"]


def compare(problem: Problem, estimate: Estimate) -> dict[str, float]:
    """Nothing to compare yet."""
    return {}
