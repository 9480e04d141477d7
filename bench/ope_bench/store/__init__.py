"""The store: every outcome of every run, in one SQLite file."""

from __future__ import annotations

from ope_bench.store.freshness import Freshness, Retry
from ope_bench.store.results import Result, Run, Seconds
from ope_bench.store.store import Store

__all__ = ["Freshness", "Result", "Retry", "Run", "Seconds", "Store"]
