"""The names of a new plugin, all made from its id and checked before anything is written."""

from __future__ import annotations

import importlib.util
import keyword
import re
from dataclasses import dataclass

from ope_bench.errors import UsageError
from ope_bench.registry import Kind, registry

__all__ = ["Names", "names_for"]

_ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_ACRONYMS = frozenset(("dm", "dr", "edm", "epw", "ips", "ipw", "ipws", "mips", "ope", "sn"))


@dataclass(frozen=True)
class Names:
    """What one plugin is called in the places where it has a name.

    Parameters
    ----------
    kind : environment or estimator.
    id : in suites and on boards, and of the distribution: ``my-ipw``.
    package : what Python imports: ``my_ipw``.
    cls : the class: ``MyIPW``.
    """

    kind: Kind
    id: str
    package: str
    cls: str


def names_for(kind: Kind, plugin_id: str) -> Names:
    """The names that follow from an id.

    Raises
    ------
    UsageError : it is no name, or the name is taken.

    >>> names_for("estimator", "my-ipw").cls
    'MyIPW'
    """
    if not _ID.fullmatch(plugin_id):
        msg = (
            f"'{plugin_id}' is no name for an {kind}; use small letters, digits and single "
            "hyphens, beginning with a letter, as in my-ipw"
        )
        raise UsageError(msg)
    package = plugin_id.replace("-", "_")
    taken = [
        plugin.origin
        for known in ("environment", "estimator")
        for plugin in registry().plugins(known)
        if plugin.id == plugin_id
    ]
    if taken:
        msg = f"'{plugin_id}' is the name of a plugin of {taken[0]}; choose another"
        raise UsageError(msg)
    if keyword.iskeyword(package) or importlib.util.find_spec(package) is not None:
        msg = f"Python already knows something called '{package}'; choose another name"
        raise UsageError(msg)
    words = plugin_id.split("-")
    cls = "".join(word.upper() if word in _ACRONYMS else word.capitalize() for word in words)
    return Names(kind, plugin_id, package, cls)
