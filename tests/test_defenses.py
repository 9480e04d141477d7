"""The table of what is defended names tests that exist, each in the file that it links to."""

from __future__ import annotations

import re

import pytest

from support.paths import ROOT

PAGE = ROOT / "bench" / "docs" / "defenses.md"
NAMED = re.findall(r"\[(test_\w+)\]\(\.\./\.\./([\w/.]+)\)", PAGE.read_text(encoding="utf-8"))


def test_every_line_of_the_tables_names_a_test() -> None:
    rows = [
        line
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and not line.startswith(("| what", "| ---"))
    ]
    assert len(rows) == len(NAMED) > 30


@pytest.mark.parametrize(("name", "path"), NAMED)
def test_the_named_test_is_in_the_linked_file(name: str, path: str) -> None:
    assert f"\ndef {name}(" in (ROOT / path).read_text(encoding="utf-8")
