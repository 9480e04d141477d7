"""The mutation script changes one place at a time, and its tables name what exists."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from mutation.mutators import mutants_of
from mutation.run import drawn_of_all
from mutation.targets import CATALOGUE, EQUIVALENT, TARGETS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("a < b", ["a < b -> a <= b"]),
        ("if a:\n    b()", ["if a -> if not a"]),
        ("x: Annotated[int, Ge(1)] = 2", ["2 -> 3"]),
        ("@dataclass(frozen=True)\nclass A:\n    n = 0.0", ["0.0 -> 1.0"]),
        ("any(a)", ["any(a) -> all(a)"]),
        ("np.minimum(a, b)", ["np.minimum(a, b) -> np.maximum(a, b)"]),
        ("-a * b", ["-a -> a", "-a * b -> -a / b"]),
        ("not (a and b)", ["a and b -> a or b", "not (a and b) -> a and b"]),
        ("True", ["True -> False"]),
        ("'word'", []),
    ],
)
def test_each_change_is_one_place(source: str, changes: list[str]) -> None:
    found = mutants_of(source)
    assert sorted(mutant.change for mutant in found) == sorted(changes)
    before = ast.unparse(ast.parse(source))
    assert all(mutant.source != before for mutant in found)


def test_targets_name_files_that_exist_and_changes_that_can_be_made() -> None:
    for path, tests in (TARGETS | CATALOGUE).items():
        assert all((ROOT / name).is_file() for name in (path, *tests)), path
    for path, change in EQUIVALENT:
        made = {one.change for one in mutants_of((ROOT / path).read_text(encoding="utf-8"))}
        assert change in made, (path, change)


def test_a_draw_over_several_files_is_the_same_each_time_and_of_the_asked_size() -> None:
    paths = [path for path in CATALOGUE if "/selection/" in path and "select.py" not in path]
    drawn = drawn_of_all(paths, 20)
    assert sum(map(len, drawn.values())) == 20
    assert 3 < len(drawn) <= len(paths)
    assert drawn == drawn_of_all(paths, 20)
