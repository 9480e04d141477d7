"""Links between the Markdown pages of this repository lead somewhere."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from support.paths import ROOT

LINK = re.compile(r"\]\(([^()\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def _pages() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return listed.stdout.splitlines()


PAGES = _pages()


@cache
def _anchors(page: Path) -> set[str]:
    """The names that GitHub gives to a page's headings, and those that the page gives."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    given = set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    return given | {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain
    }


def _broken(page: Path) -> list[str]:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    wrong = []
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (
            anchor and target.suffix == ".md" and anchor not in _anchors(target)
        ):
            wrong.append(link)
    return wrong


@pytest.mark.skipif(not PAGES, reason="not a git checkout")
@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_lead_somewhere(page: str) -> None:
    assert _broken(ROOT / page) == []


def test_a_link_to_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One `word`: two\n[a](#one-word-two) [b](other.md) [c](page.md#none) [d](https://x.org)\n"
        "```\n[e](nowhere)\n```\n"
    )
    assert _broken(page) == ["other.md", "page.md#none"]
