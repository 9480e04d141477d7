"""Boards and verdicts for readers: terminal, Markdown, LaTeX, CSV, charts, one HTML page."""

from __future__ import annotations

from importlib.util import find_spec

from ope_bench.base.errors import UsageError


def needs_extra() -> None:
    """Raise a UsageError if charts cannot be made.

    Raises
    ------
    UsageError : the extra ``report`` is not installed.
    """
    # Not imported: pages have their charts from a cache, and altair takes a quarter of a second.
    if any(find_spec(name) is None for name in ("altair", "vl_convert")):
        msg = 'reports need an extra: pip install "ope-bench[report]"'
        raise UsageError(msg)
