"""ope-bench: a pluggable benchmark suite for off-policy evaluation estimators.

A plugin author needs the names below and nothing deeper; the built-in plugins use no others.
They are imported on first use, so that ``import ope_bench`` costs next to nothing: the stub
``__init__.pyi``, which type checkers read, is also the table that `__getattr__` reads.
"""

from __future__ import annotations

import importlib
from functools import cache

__version__ = "0.1.0"


@cache
def _modules() -> dict[str, str]:
    """Return the module of each public name, from the stub."""
    import ast
    from pathlib import Path

    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_bytes()).body
    imports = (node for node in stub if isinstance(node, ast.ImportFrom))
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def __getattr__(name: str) -> object:
    if name == "__all__":
        return sorted(_modules())
    # Python asks for names like __path__ that no module has; those need no reading.
    if not name.startswith("__") and name in _modules():
        return getattr(importlib.import_module(_modules()[name]), name)
    msg = f"module 'ope_bench' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return [*_modules(), "__version__"]
