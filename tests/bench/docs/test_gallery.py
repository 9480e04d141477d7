"""The gallery's scripts run, and say what their pages promise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gallery_pages import FOLDER, ORDER, ScriptError, _run, example


def test_every_script_is_in_the_gallery() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == set(ORDER)
    assert len(ORDER) == 8
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[(\w+)\.py\]", text, re.MULTILINE) == list(ORDER)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("first_run", r"1\* dr "),
        ("sweep", r"eipws has the smallest RMSE in all 3 settings"),
        ("own_log", r"ipws +0\.2[6-9]\d"),
        ("several_policies", r"dr +bold +timid +\+0\.0"),
        ("write_an_estimator", r"clipped-ipw clip=50"),
        ("write_an_environment", r"RMSE by n_actions +2 +50"),
        ("paper", r"\\bottomrule"),
        ("gate", r"- saito-toy / mine .* worse"),
    ],
)
def test_a_script_says_what_it_shows(name: str, says: str) -> None:
    found = example(name)
    assert found.title
    assert found.text
    assert re.search(says, found.output), found.output
    assert bool(found.figure) is ("figure.svg" in found.code)


def test_a_script_that_fails_is_an_error(tmp_path: Path) -> None:
    script = tmp_path / "broken.py"
    script.write_text("raise SystemExit(3)")
    with pytest.raises(ScriptError, match="code 3"):
        _run(script)
