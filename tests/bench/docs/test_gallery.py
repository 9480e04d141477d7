"""The gallery has every script; that they run, the tests of the site show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gallery_pages import FOLDER, ORDER, ScriptError, _run


def test_every_script_is_in_the_gallery() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == set(ORDER)
    assert len(ORDER) == 10
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[(\w+)\.py\]", text, re.MULTILINE) == list(ORDER)


# Python 3.12 warns where the process that forks has threads, as one of pytest-xdist has.
@pytest.mark.filterwarnings(r"ignore:.*fork\(\):DeprecationWarning")
def test_a_script_that_fails_is_an_error(tmp_path: Path) -> None:
    script = tmp_path / "broken.py"
    script.write_text("raise SystemExit(3)")
    with pytest.raises(ScriptError, match="code 3"):
        _run(script)
