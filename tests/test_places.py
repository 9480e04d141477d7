"""CONTRIBUTING says where a thing lives: its files hold the names that it gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.paths import ROOT

TEXT = (ROOT / ".github/CONTRIBUTING.md").read_text(encoding="utf-8")
SECTION = TEXT.partition("## Where a thing lives\n")[2].partition("\n## ")[0]
LINES = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in SECTION.splitlines()
    if line.startswith("|")
][2:]
DEFINED = {
    ".py": r"^\s*(?:(?:class|def) {name}\b|{name}: )",
    ".sql": r"^CREATE TABLE (?:IF NOT EXISTS )?{name}\b",
    ".yaml": r"^{name}:",
}


def test_there_are_ten_lines() -> None:
    assert len(LINES) == 10


@pytest.mark.parametrize(("what", "file", "name", "touch"), LINES)
def test_a_file_defines_the_name_that_stands_for_it(
    what: str, file: str, name: str, touch: str
) -> None:
    path = ROOT / file.strip("`")
    text = path.read_text(encoding="utf-8")
    pattern = DEFINED[path.suffix].format(name=re.escape(name.strip("`")))
    assert len(re.findall(pattern, text, re.M | re.I)) == 1, (what, name)
    # Further files and names of the last column exist as well.
    for word in re.findall(r"`([^` ]+)[^`]*`", touch):
        places = [ROOT / word, path.parent / word]
        assert any(one.exists() for one in places) or word in _near(path), word


def _near(path: Path) -> str:
    """Return the code of a file's folder."""
    return "".join(one.read_text(encoding="utf-8") for one in path.parent.glob("*.py"))
