"""The README's section "Add your estimator", executed line by line."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def section(title):
    text = README.read_text(encoding="utf-8")
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    assert found, f"README.md has no section {title!r}"
    return found[1]


def test_every_command_of_the_section_works(shell):
    """A Python block that begins with `# NAME.py` is that file; lines of an sh block are run."""
    ran = 0
    for language, body in BLOCK.findall(section("Add your estimator")):
        if language == "python":
            name = re.match(r"# (\w+\.py)\n", body)
            assert name, f"a block without a file name: {body[:60]}"
            (shell.folder / name[1]).write_text(body, encoding="utf-8")
        elif language == "sh":
            for line in body.strip().splitlines():
                printed = shell(line.partition("  #")[0])
                ran += 1
    assert ran >= 8
    # The last one is the leaderboard, and the estimator is on it.
    assert "MyIPW" in printed or "my-ipw" in printed
