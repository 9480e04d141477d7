"""The store: every outcome of every run, in one SQLite file."""

from __future__ import annotations

from ope_bench.store.store import Freshness, Result, Retry, Run, Store

__all__ = ["Freshness", "Result", "Retry", "Run", "Store"]
