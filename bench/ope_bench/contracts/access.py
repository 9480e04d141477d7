"""Access flags: what an estimator may see beyond the samples."""

from __future__ import annotations

import enum
from functools import cache

__all__ = ["REQUIRED_ACCESS", "Access", "granted_attributes", "grants_weights"]


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


REQUIRED_ACCESS = {
    "propensity": Access.PROPENSITY,
    "logging_policy": Access.LOGGING_POLICY,
    "target_policy": Access.TARGET_POLICY,
    "embedding_distribution": Access.EMBEDDING_DISTRIBUTION,
}
"""The access that attributes of a view require beyond the samples."""


@cache
def granted_attributes(access: Access) -> tuple[str, ...]:
    """Return the names of the attributes that an access grants beyond the samples."""
    return tuple(name for name, flag in REQUIRED_ACCESS.items() if flag in access)


@cache
def grants_weights(access: Access) -> bool:
    """Return whether an access suffices for the importance weights of the logged actions."""
    return Access.PROPENSITY | Access.TARGET_POLICY in access
