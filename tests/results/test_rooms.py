"""The rooms of results/judging import one way, and their modules run in no circle."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter

from support.paths import ROOT

JUDGING = ROOT / "results" / "judging"
ORDER = ("trials", "claims", "pages", "advice")
"""Each room imports itself and those before it."""


def _name(module: str) -> str:
    """Return the module that a dotted name leads to; the name may be one of its members."""
    found = module
    while not (JUDGING.parent / f"{found.replace('.', '/')}.py").is_file() and "." in found:
        found = found.rpartition(".")[0]
    return found


def _imports() -> dict[str, set[str]]:
    """Return for each module of judging what of judging it imports."""
    found = {}
    for path in JUDGING.rglob("*.py"):
        names = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
        module = ".".join(path.relative_to(JUDGING.parent).with_suffix("").parts)
        found[module] = {_name(one) for one in names if one.startswith("judging.")}
    return found


def test_every_module_of_judging_is_in_a_room() -> None:
    folders = {path.parent.name for path in JUDGING.rglob("*.py") if path.parent != JUDGING}
    assert folders == {*ORDER}
    assert [path.name for path in JUDGING.glob("*.*")] == ["__init__.py"]


def test_a_room_imports_those_before_it_alone() -> None:
    imports = _imports()
    assert sum(map(len, imports.values())) > 40
    against = [
        f"{module} imports {other}"
        for module, others in imports.items()
        for other in others
        if ORDER.index(other.split(".")[1]) > ORDER.index(module.split(".")[1])
    ]
    assert not against


def test_modules_of_judging_import_in_no_circle() -> None:
    assert len([*TopologicalSorter(_imports()).static_order()]) == len(_imports())
