"""ope-bench: a pluggable benchmark suite for off-policy evaluation estimators.

A plugin author needs the names below and nothing deeper. They are imported on first use, so
that ``import ope_bench`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ope_bench.api import evaluate
    from ope_bench.data import Column, Estimate, Problem, Schema, Truth
    from ope_bench.embeddings import DeterministicEmbedding, FiniteEmbedding
    from ope_bench.environment import Environment
    from ope_bench.errors import PositivityViolation, UnavailableError
    from ope_bench.estimator import Estimator
    from ope_bench.policies import EpsilonGreedy, Softmax, Tabular, Uniform
    from ope_bench.view import Access, View

__all__ = [
    "Access",
    "Column",
    "DeterministicEmbedding",
    "Environment",
    "EpsilonGreedy",
    "Estimate",
    "Estimator",
    "FiniteEmbedding",
    "PositivityViolation",
    "Problem",
    "Schema",
    "Softmax",
    "Tabular",
    "Truth",
    "UnavailableError",
    "Uniform",
    "View",
    "evaluate",
]

__version__ = "0.1.0"

_HOMES = {
    "Access": "view",
    "Column": "data",
    "DeterministicEmbedding": "embeddings",
    "Environment": "environment",
    "EpsilonGreedy": "policies",
    "Estimate": "data",
    "Estimator": "estimator",
    "FiniteEmbedding": "embeddings",
    "PositivityViolation": "errors",
    "Problem": "data",
    "Schema": "data",
    "Softmax": "policies",
    "Tabular": "policies",
    "Truth": "data",
    "UnavailableError": "errors",
    "Uniform": "policies",
    "View": "view",
    "evaluate": "api",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(importlib.import_module(f"ope_bench.{_HOMES[name]}"), name)
    msg = f"module 'ope_bench' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
