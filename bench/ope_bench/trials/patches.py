"""Patches: attributes of NumPy, Python's own modules and the harness that a trial assigns.

Modules note assignments as they happen, also those that are put back. Classes are compared after
the trial, for a metaclass of their own would clash with those of plugins: the public ones of
NumPy, of Python's modules and of the contracts, and those of the data.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
import types
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

_ROOTS = ("builtins", "json", "numpy", "ope_bench", "ope_estimators", "ope_environments", "random")
"""Modules that are watched, with all modules in them."""

_WITH_CLASSES = ("json", "numpy.ma", "random")
"""Modules whose public classes are compared, beside those of the contracts."""

_OF_IMPORTS = (
    *("__cached__", "__file__", "__loader__", "__package__", "__path__", "__spec__"),
    # Every extension in Rust that takes arrays, such as that of Polars, sets it on first use.
    "_RUST_NUMPY_BORROW_CHECKING_API",
)

_OF_PYTHON = ("__annotations__", "__annotations_cache__", "__slotnames__")
"""What Python adds to a class on first use."""

_GONE = object()

_classes: dict[type, dict[str, object]] = {}
"""Classes that are compared, each with its attributes as they are."""

_views: list[Iterable[object]] = []
"""Their values, as they are whenever they are asked for."""

_held: list[object] = []
"""All these values when they were last as they should be."""

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
    public = dir(sys.modules["ope_bench"])
    for name, module in tuple(sys.modules.items()):
        if f"{name}.".startswith(f"{root}.") and type(module) is types.ModuleType:
            module.__class__ = _Module
            contracts = name.startswith("ope_bench.contracts.")
            if contracts or name in _WITH_CLASSES:
                classes = [one for one in vars(module).values() if isinstance(one, type)]
                own = [one for one in classes if one.__module__.startswith(name)]
                watch_classes(one for one in own if one.__name__ in public or not contracts)


def watch_classes(classes: Iterable[type]) -> None:
    """Compare classes, of data for example; those of C refuse assignments."""
    for cls in classes:
        if cls not in _classes and "__module__" in vars(cls):
            _classes[cls] = dict(vars(cls))
            _views.append(vars(cls).values())
    _held[:] = chain.from_iterable(_views)


@contextlib.contextmanager
def patches_noted() -> Iterator[list[str]]:
    """Note what the block patches: names, once it has ended; then all is as it was before."""
    for root in _ROOTS:
        if type(sys.modules.get(root)) is types.ModuleType:
            _watch(root)
    names = list[str]()
    _noted.append({})
    try:
        yield names
    finally:
        noted = _noted.pop()
        same = _same()
        if not same:
            noted |= dict(_changed())
        for (owner, name), was in noted.items():
            names.append(f"{owner.__name__}.{name}")
            if was is not _GONE:
                setattr(owner, name, was)
            elif name in vars(owner):
                delattr(owner, name)
        if not same:
            _classes.update((cls, dict(vars(cls))) for cls in tuple(_classes))
            _held[:] = chain.from_iterable(_views)


def _same() -> bool:
    try:
        # Identity comes first, so that equality is a matter of microseconds.
        return [*chain.from_iterable(_views)] == _held
    # Arrays are neither equal nor not.
    except Exception:
        return False


def _changed() -> Iterator[tuple[tuple[Any, str], object]]:
    """Yield the attributes of classes that have changed, each with its value before."""
    for cls, before in _classes.items():
        now, ours = vars(cls), cls.__module__.startswith("ope_bench.")
        for name in now.keys() | before.keys():
            was = before.get(name, _GONE)
            # Private ones of others may be caches.
            cache = name in _OF_PYTHON or (re.match("_[^_]", name) and not ours)
            if now.get(name, _GONE) is not was and not cache:
                yield (cls, name), was
