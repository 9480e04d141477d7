"""The packages that a module's source imports."""

from __future__ import annotations

import ast

__all__ = ["imported_packages"]


def imported_packages(source: str | bytes, cls: str | None = None) -> set[str]:
    """Return the top-level packages that a module imports, but for type checkers.

    Parameters
    ----------
    source : of the module.
    cls : a class of it; imports in its other classes are not counted. None for all of them.

    >>> sorted(imported_packages("import a.b\\nfrom c import d\\nfrom . import e"))
    ['a', 'c']
    """
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
            continue
        if cls is not None and isinstance(node, ast.ClassDef) and node.name != cls:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
        waiting += ast.iter_child_nodes(node)
    return found
