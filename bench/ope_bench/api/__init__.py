"""Run a benchmark in one call, and show its results: for notebooks and scripts."""

from __future__ import annotations

from ope_bench.api.evaluation import evaluate
from ope_bench.api.results import Results

__all__ = ["Results", "evaluate"]
