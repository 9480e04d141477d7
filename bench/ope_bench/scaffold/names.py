"""The names of a new plugin, derived from its id and validated before any file is written."""

from __future__ import annotations

import importlib.util
import keyword
import re
from dataclasses import dataclass

from ope_bench.errors import UsageError
from ope_bench.plugins.registry import Kind, registry

__all__ = ["Names", "names_for"]

_ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_ACRONYMS = frozenset(("dm", "dr", "edm", "epw", "ips", "ipw", "ipws", "mips", "ope", "sn"))


@dataclass(frozen=True)
class Names:
    """The names of one plugin: id, package and class.

    Parameters
    ----------
    kind : environment or estimator.
    id : name in suites, on boards and of the distribution: ``my-ipw``.
    package : import package: ``my_ipw``.
    cls : name of the class: ``MyIPW``.
    """

    kind: Kind
    id: str
    package: str
    cls: str


def names_for(kind: Kind, plugin_id: str, cls: str = "") -> Names:
    """Derive the names from an id.

    Parameters
    ----------
    kind : environment or estimator.
    plugin_id : the id.
    cls : name of the class; by default derived from the id.

    Raises
    ------
    UsageError : the id is not valid, or the name is taken.

    >>> names_for("estimator", "my-ipw").cls
    'MyIPW'
    """
    if not _ID.fullmatch(plugin_id):
        msg = (
            f"'{plugin_id}' is not a valid {kind} name; use small letters, digits and single "
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
        msg = f"'{package}' is a keyword or an installed module of Python; choose another"
        raise UsageError(msg)
    words = plugin_id.split("-")
    derived = "".join(word.upper() if word in _ACRONYMS else word.capitalize() for word in words)
    return Names(kind, plugin_id, package, cls or derived)
