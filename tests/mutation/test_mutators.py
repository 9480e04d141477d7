"""The mutation script changes one place at a time, and its tables name what exists."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from mutation.mutators import mutants_of
from mutation.pinned import PINNED
from mutation.run import drawn, drawn_of_all, pinned
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
        for name in (path, *tests):
            file, _, test = name.removeprefix("--deselect=").partition("::")
            text = (ROOT / file).read_text(encoding="utf-8")
            assert not test or f"def {test}(" in text, name
    for path, part, change in EQUIVALENT:
        source = (ROOT / path).read_text(encoding="utf-8")
        lines = source.splitlines()
        every = [*mutants_of(source), *pinned().get(path, [])]
        made = [one for one in every if part in lines[one.line - 1]]
        assert change in {one.change for one in made}, (path, part, change)


def test_pinned_changes_can_be_made_and_have_tests() -> None:
    found = pinned()
    assert sum(map(len, found.values())) == len(PINNED)
    assert found.keys() <= TARGETS.keys()
    for mutants in found.values():
        for mutant in mutants:
            ast.parse(mutant.source)


def test_a_draw_over_several_files_is_the_same_each_time_and_of_the_asked_size() -> None:
    paths = [path for path in CATALOGUE if "/selection/" in path and "select.py" not in path]
    drawn = drawn_of_all(paths, 20)
    assert sum(map(len, drawn.values())) == 20
    assert 3 < len(drawn) <= len(paths)
    assert drawn == drawn_of_all(paths, 20)


def test_what_other_draws_had_is_left_out() -> None:
    path = next(path for path in TARGETS if path.endswith("/reward.py"))
    others = [("first", 5), ("second", 3)]
    seen = {one for seed, most in others for one in drawn(path, most, seed)}
    unseen = drawn(path, 100, "third", without=others)
    assert len(drawn(path, 5, "first")) == 5
    assert {*unseen} == {*drawn(path, 100, "third")} - seen
    assert seen & {*drawn(path, 100, "third")}
