"""Access flags: what an estimator may see beyond the samples."""

from __future__ import annotations

import enum
from functools import cache

__all__ = ["Access"]


class Access(enum.Flag):
    """The data that an estimator needs beyond the two samples."""

    SAMPLES = 0
    PROPENSITY = enum.auto()
    _LOGGING_POLICY = enum.auto()
    TARGET_POLICY = enum.auto()
    EMBEDDING_DISTRIBUTION = enum.auto()
    LOGGING_POLICY = _LOGGING_POLICY | PROPENSITY

    def words(self) -> list[str]:
        """Return the lower-case names of the flags, for boards.

        >>> (Access.TARGET_POLICY | Access.LOGGING_POLICY).words()
        ['propensity', 'logging_policy', 'target_policy']
        """
        return list(_words(self))


@cache
def _words(access: Access) -> tuple[str, ...]:
    names = {"PROPENSITY": Access.PROPENSITY, "LOGGING_POLICY": Access._LOGGING_POLICY}
    names |= {"TARGET_POLICY": Access.TARGET_POLICY}
    names |= {"EMBEDDING_DISTRIBUTION": Access.EMBEDDING_DISTRIBUTION}
    held = tuple(name.lower() for name, flag in names.items() if flag in access)
    return held or ("samples",)
