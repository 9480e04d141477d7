"""``ope-bench new``: a new plugin package, from templates."""

from __future__ import annotations

import ast
import importlib.util
import json
import keyword
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any

import typer

from ope_bench.base.console import Format, json_stdout, write
from ope_bench.base.errors import ParameterError, UsageError
from ope_bench.cli import options
from ope_bench.plugins.registry import Kind, imported_packages, registry
from ope_bench.plugins.requirements import CORE, pip_line

# The names of a new plugin, derived from its id and validated before any file is written.

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


# A class in a file, to be copied into a new package.


@dataclass(frozen=True)
class PluginSource:
    """The module of a class, and what tests and suite of its package need to know.

    Parameters
    ----------
    kind : environment or estimator.
    cls : name of the class.
    module : source of the module, without what it does as a script.
    variant : a second set of parameters for tests and suite; empty without one.
    dependencies : requirements of packages that the module imports beyond ope-bench's own.
    """

    kind: Kind
    cls: str
    module: str
    variant: Mapping[str, Any]
    dependencies: tuple[str, ...]

    def tokens(self, plugin_id: str) -> dict[str, str]:
        """Return the texts of the templates that depend on the class."""
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.variant.items())
        instances = [f"{self.cls}()", *([f"{self.cls}({arguments})"] if arguments else [])]
        given = ", ".join(f"{name}: {json.dumps(v)}" for name, v in self.variant.items())
        own = [f"  - {plugin_id}"]
        if given:
            label = f', as: "{self.cls}, {arguments}"' if self.kind == "estimator" else ""
            own.append(f"  - {plugin_id}: {{{given}{label}}}")
        estimators = ["  - logging-average", "  - ipw"]
        environments = ["  - saito-toy: {n_actions: [10, 50], n_samples: 1000}"]
        if self.kind == "estimator":
            estimators += own
            evaluated = f'[{self.cls}(), "ipw"], "saito-toy[n_actions=10,n_samples=500]"'
        else:
            environments = own
            evaluated = f'["ipw", "logging-average"], {self.cls}()'
        return {
            "@instances@": ", ".join(instances),
            "@environments@": "\n".join(environments),
            "@estimators@": "\n".join(estimators),
            "@evaluated@": evaluated,
        }


def read_source(kind: Kind, reference: str) -> PluginSource:
    """Read the class that ``path.py:Class`` names.

    Raises
    ------
    UsageError : it is no class in a file, cannot be loaded, needs parameters without a default, or
        imports other files of its folder.
    """
    # Here, because `--help` imports this module, and contracts import NumPy.
    from ope_bench.contracts.parameters import signature

    path, _, _ = reference.rpartition(":")
    if not path.endswith(".py"):
        msg = f"--from {reference}: write ./my.py:Class"
        raise UsageError(msg)
    cls = registry().find(kind, reference).cls
    required = [name for name, one in signature(cls).items() if one.default is one.empty]
    if required:
        msg = f"--from {reference}: give '{required[0]}' a default, so that tests can make it"
        raise UsageError(msg)
    file = Path(path)
    text = file.read_text(encoding="utf-8")
    packages = imported_packages(text)
    beside = sorted(
        package
        for package in packages
        if (file.parent / f"{package}.py").is_file() or (file.parent / package).is_dir()
    )
    if beside:
        msg = (
            f"--from {reference}: it imports {beside[0]}, a file of its folder; move that into it"
        )
        raise UsageError(msg)
    lines = text.splitlines(keepends=True)
    for node in reversed(ast.parse(text).body):
        # What the module does as a script has no place in a package.
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            del lines[node.lineno - 1 : node.end_lineno]
    own = {*CORE, "annotated_types", "typing_extensions", "ope_bench"}
    asked = {name.partition(".")[0] for name in cls().requires} | packages
    others = sorted(asked - own - set(sys.stdlib_module_names))
    pip_lines = (pip_line(name).removeprefix("pip install ").lstrip('"') for name in others)
    dependencies = tuple(dict.fromkeys(re.split(r'["\s]', line)[0] for line in pip_lines))
    module = "".join(lines).rstrip() + "\n"
    return PluginSource(kind, cls.__name__, module, _variant(cls), dependencies)


def _variant(cls: type) -> dict[str, Any]:
    """Return another value of the first parameter that is a number, twice or half its default."""
    from ope_bench.contracts.parameters import signature, validated

    for name, parameter in signature(cls).items():
        default = parameter.default
        if isinstance(default, bool) or not isinstance(default, int | float) or not default:
            continue
        for value in (2 * default, default / 2 if isinstance(default, float) else default // 2):
            try:
                validated(cls, {name: value})
            except ParameterError:
                continue
            return {name: value}
    return {}


# Write a plugin package from the templates.

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
    templates = files("ope_bench.cli.scaffold") / "templates"
    dependencies = ["ope-bench", *(source.dependencies if source else ())]
    tokens = {
        "@id@": names.id,
        "@package@": names.package,
        "@class@": names.cls,
        "@kind@": names.kind,
        "@dependencies@": ", ".join(f'"{name}"' for name in dependencies),
        **(source.tokens(names.id) if source else {}),
    }
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
        shutil.rmtree(root, ignore_errors=True)
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


def _filled(text: str, tokens: Mapping[str, str]) -> str:
    for token, value in tokens.items():
        text = text.replace(token, value)
    return text


# ``ope-bench new``: write a new plugin package.


def new_command(
    kind: Annotated[Kind, typer.Argument(help="Kind of plugin.")],
    name: Annotated[str, typer.Argument(help="Its id, for example my-ipw.")],
    into: Annotated[
        Path, typer.Option("--into", help="The folder in which NAME is created.")
    ] = Path(),
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="./MY.py:CLASS", help="Copy this class into the package."),
    ] = None,
    output: options.FormatOption = Format.TEXT,
) -> int:
    """Write a package for a new estimator or environment.

    It can be installed at once and holds a working example, or a class of yours, a test with the
    conformance checks, a suite, a workflow and a README.
    """
    with json_stdout(output) as emit:
        copied = read_source(kind, source) if source is not None else None
        names = names_for(kind, name, copied.cls if copied else "")
        files = write_package(names, into, copied)
        folder = into / names.id
        emit(
            {
                "schema": 1,
                "kind": names.kind,
                "id": names.id,
                "package": names.package,
                "class": names.cls,
                "path": str(folder),
                "files": [str(path) for path in files],
            }
        )
    if output is Format.TEXT:
        write("\n".join(map(str, files)))
        write(f"\nNext: pip install -e {folder} && ope-bench check {names.id}")
    return 0
