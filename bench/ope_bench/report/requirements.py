"""Requirements of reports: the extra ``report``."""

from __future__ import annotations

from ope_bench.errors import UsageError

__all__ = ["needs_extra"]


def needs_extra() -> None:
    """Raise a UsageError if charts cannot be made.

    Raises
    ------
    UsageError : the extra ``report`` is not installed.
    """
    try:
        import altair  # noqa: F401  to know before anything is read
        import vl_convert  # noqa: F401
    except ImportError as exc:
        msg = 'reports need an extra: pip install "ope-bench[report]"'
        raise UsageError(msg) from exc
