"""A class in a file, to be copied into a new package."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ope_bench.contracts.parameters.declaration import signature
from ope_bench.contracts.parameters.validation import validated
from ope_bench.errors import ParameterError, UsageError
from ope_bench.plugins.imported_packages import imported_packages
from ope_bench.plugins.registry import Kind, registry
from ope_bench.plugins.requirements import CORE, pip_line

__all__ = ["PluginSource", "read_source"]


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
    return PluginSource(
        kind, cls.__name__, _without_script(text), _variant(cls), _dependencies(cls, packages)
    )


def _without_script(text: str) -> str:
    """Return a module without ``if __name__ == "__main__":``."""
    lines = text.splitlines(keepends=True)
    for node in reversed(ast.parse(text).body):
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            del lines[node.lineno - 1 : node.end_lineno]
    return "".join(lines).rstrip() + "\n"


def _variant(cls: type) -> dict[str, Any]:
    """Return another value of the first parameter that is a number, twice or half its default."""
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


def _dependencies(cls: type, packages: set[str]) -> tuple[str, ...]:
    own = {*CORE, "annotated_types", "typing_extensions", "ope_bench"}
    asked = {name.partition(".")[0] for name in cls().requires} | packages
    others = sorted(asked - own - set(sys.stdlib_module_names))
    lines = (pip_line(name).removeprefix("pip install ").lstrip('"') for name in others)
    return tuple(dict.fromkeys(re.split(r'["\s]', line)[0] for line in lines))
