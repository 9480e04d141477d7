"""The store: records of all runs in one SQLite file, and which of them are current."""

from __future__ import annotations

from ope_bench.store.reader import Freshness, Result, Run, Seconds
from ope_bench.store.store import Store

__all__ = ["Freshness", "Result", "Run", "Seconds", "Store"]
