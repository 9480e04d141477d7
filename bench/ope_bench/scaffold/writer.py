"""Write a plugin package from the templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from ope_bench.errors import UsageError
from ope_bench.scaffold.names import Names
from ope_bench.scaffold.source import PluginSource

__all__ = ["write_package"]

_SUFFIX = ".tmpl"
"""Suffix of templates, so that imports, type checkers and test collection ignore them."""


def write_package(names: Names, parent: Path, source: PluginSource | None = None) -> list[Path]:
    """Write the package's folder, ``parent / names.id``.

    Parameters
    ----------
    names : of the plugin.
    parent : the folder in which the package's folder is created.
    source : the class to copy; without one, the package has a working example.

    Returns
    -------
    The written files, in order.

    Raises
    ------
    UsageError : the folder exists already, or cannot be created.
    """
    root = parent / names.id
    templates = files("ope_bench.scaffold") / "templates"
    tokens = _tokens(names, source)
    try:
        root.mkdir(parents=True)
        written = []
        for part in ("both", "from" if source else names.kind):
            for relative, template in _walk(templates / part):
                path = root / _filled(relative.removesuffix(_SUFFIX), tokens)
                path.parent.mkdir(parents=True, exist_ok=True)
                text = _filled(template.read_text(encoding="utf-8"), tokens)
                path.write_text(text, encoding="utf-8")
                written.append(path)
        if source:
            path = root / "src" / names.package / f"{names.kind}.py"
            path.write_text(source.module, encoding="utf-8")
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
        # Wheels omit hidden files, so templates have names without the dot.
        name = entry.name.replace("dot-", ".", 1)
        if entry.is_dir():
            yield from _walk(entry, f"{inside}{name}/")
        elif name.endswith(_SUFFIX):
            yield inside + name, entry


def _tokens(names: Names, source: PluginSource | None) -> dict[str, str]:
    dependencies = ["ope-bench", *(source.dependencies if source else ())]
    return {
        "@id@": names.id,
        "@package@": names.package,
        "@class@": names.cls,
        "@kind@": names.kind,
        "@dependencies@": ", ".join(f'"{name}"' for name in dependencies),
        **(source.tokens(names.id) if source else {}),
    }


def _filled(text: str, tokens: Mapping[str, str]) -> str:
    for token, value in tokens.items():
        text = text.replace(token, value)
    return text
