"""A name is exported by the module that defines it; mypy refuses to import it from elsewhere."""

from __future__ import annotations

import ast

import pytest

from support.paths import ROOT

PACKAGES = ("bench/ope_bench", "estimators/ope_estimators", "environments/ope_environments")
FRONTS = {"__init__.py", "output.py"}
"""Of a package, and of what verbs print with: these gather names on purpose."""

MODULES = [
    path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    if path.name not in FRONTS and "templates" not in path.parts
]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_exports_what_it_imports(package: str) -> None:
    strays = []
    for path in MODULES:
        if not path.is_relative_to(ROOT / package):
            continue
        body = ast.parse(path.read_text(encoding="utf-8")).body
        imported = {
            alias.asname or alias.name
            for statement in body
            if isinstance(statement, ast.Import | ast.ImportFrom)
            for alias in statement.names
        }
        for statement in body:
            match statement:
                case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=names)):
                    exported = {str(ast.literal_eval(name)) for name in names}
                    strays += [f"{path.name}: {name}" for name in sorted(exported & imported)]
    assert not strays


SHARED = {"GaussianEmbedding", "GaussianPolicy", "StreamedSums"}
"""Doubles of the conformance checks; a class of the protocol that it follows."""


def test_a_class_of_a_plugin_shares_its_name_with_no_other() -> None:
    """But for estimators of Open Bandit Pipeline, which are named as those that they check."""
    homes: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    several = {
        name: places
        for name, found in homes.items()
        if (places := [one for one in found if "/obp/" not in one])[1:]
        and not all(one.startswith("bench/") for one in places)
    }
    assert several.keys() <= SHARED, several
