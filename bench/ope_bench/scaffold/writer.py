"""Writing a plugin package from the templates."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from ope_bench.errors import UsageError
from ope_bench.scaffold.names import Names

__all__ = ["write_package"]

_SUFFIX = ".tmpl"
"""Templates are no Python modules, for import, type checkers or test collection."""


def write_package(names: Names, parent: Path) -> list[Path]:
    """Write the folder ``parent / names.id``.

    Returns
    -------
    The files, in the order in which they were written.

    Raises
    ------
    UsageError : the folder exists already, or cannot be made.
    """
    root = parent / names.id
    templates = files("ope_bench.scaffold") / "templates"
    try:
        root.mkdir(parents=True)
        written = []
        for part in ("both", names.kind):
            for relative, template in _walk(templates / part):
                path = root / _filled(relative.removesuffix(_SUFFIX), names)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(
                    _filled(template.read_text(encoding="utf-8"), names), encoding="utf-8"
                )
                written.append(path)
    except FileExistsError as exc:
        msg = f"{root} exists already; nothing was written: choose another name or folder"
        raise UsageError(msg) from exc
    except OSError as exc:
        msg = f"cannot write {root}: {exc.strerror or exc}"
        raise UsageError(msg) from exc
    return written


def _walk(folder: Traversable, inside: str = "") -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        # Packagers leave hidden files out, so that their names are written out here.
        name = entry.name.replace("dot-", ".", 1)
        if entry.is_dir():
            yield from _walk(entry, f"{inside}{name}/")
        elif name.endswith(_SUFFIX):
            yield inside + name, entry


def _filled(text: str, names: Names) -> str:
    for token, value in (
        ("@id@", names.id),
        ("@package@", names.package),
        ("@class@", names.cls),
        ("@kind@", names.kind),
    ):
        text = text.replace(token, value)
    return text
