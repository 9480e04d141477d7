"""Patches: attributes of NumPy, Python's own modules and the harness that a trial assigns.

Modules note assignments as they happen, also those that are put back. Classes of the contracts and
of the data are compared after the trial, for a metaclass of their own would clash with those of
plugins.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

_ROOTS = ("builtins", "json", "numpy", "ope_bench", "random")
"""Modules that are watched, with all modules in them."""

_OF_IMPORTS = (
    *("__cached__", "__file__", "__loader__", "__package__", "__path__", "__spec__"),
    # Every extension in Rust that takes arrays, such as that of Polars, sets it on first use.
    "_RUST_NUMPY_BORROW_CHECKING_API",
)

_GONE = object()

_noted: list[dict[tuple[Any, str], object]] = []
"""What was assigned during the trial that runs now, if any, and the values before."""


class _Module(types.ModuleType):
    """A module that notes assignments to its attributes."""

    def __setattr__(self, name: str, value: object) -> None:
        inner = f"{self.__name__}.{name}"
        if sys.modules.get(inner, _GONE) is value:
            _watch(inner)  # it was imported, with modules of its own
        else:
            _note(self, name)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        _note(self, name)
        super().__delattr__(name)

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)


def _note(module: types.ModuleType, name: str) -> None:
    if _noted and name not in _OF_IMPORTS:
        _noted[-1].setdefault((module, name), vars(module).get(name, _GONE))


def _watch(root: str) -> None:
    """Watch a module and all modules in it."""
    for name, module in tuple(sys.modules.items()):
        if f"{name}.".startswith(f"{root}.") and type(module) is types.ModuleType:
            module.__class__ = _Module


@cache
def _classes() -> dict[type, dict[str, object]]:
    """Watch the modules; return the contracts' classes, each with its attributes as they are."""
    for root in _ROOTS:
        _watch(root)
    public = dir(sys.modules["ope_bench"])
    return {
        value: dict(vars(value))
        for name, module in tuple(sys.modules.items())
        if name.startswith("ope_bench.contracts.")
        for value in vars(module).values()
        if isinstance(value, type)
        and value.__module__ == name
        and value.__name__ in public
        # Nobody calls methods of a protocol's own.
        and not getattr(value, "_is_protocol", False)
    }


def watch_classes(classes: Iterable[type]) -> None:
    """Compare classes of the data, too, but for private attributes, which may be their caches."""
    for cls in classes:
        root = cls.__module__.partition(".")[0]
        if root != "numpy" and root not in sys.stdlib_module_names:
            _classes().setdefault(cls, _public(vars(cls)))


def _public(held: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in held.items() if name[0] != "_"}


@contextlib.contextmanager
def patches_noted() -> Iterator[list[str]]:
    """Note what the block patches: names, once it has ended; then all is as it was before."""
    classes, names = _classes(), list[str]()
    _noted.append({})
    try:
        yield names
    finally:
        noted = _noted.pop()
        for cls, before in tuple(classes.items()):
            now: Mapping[str, object] = vars(cls)
            if "__module__" not in before:  # of the data
                now = _public(now)
            # Identity comes first, so that equality is a matter of a microsecond.
            if now != before:
                changed = {one for one in before if now.get(one, _GONE) is not before[one]}
                # Python makes some of its own on first use.
                changed |= {one for one in now.keys() - before.keys() if not one.startswith("__")}
                noted |= {(cls, name): before.get(name, _GONE) for name in changed}
                if not changed:
                    classes[cls] = dict(now)
        for (owner, name), was in noted.items():
            names.append(f"{owner.__name__}.{name}")
            if was is not _GONE:
                setattr(owner, name, was)
            elif name in vars(owner):
                delattr(owner, name)
