"""How much there is to read: pages of results stay short, and long tables are folded."""

from __future__ import annotations

import re
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[2] / "results"
MOST = 27_500
BOARDS = ("leaderboard.md",)


def pages() -> list[Path]:
    """Pages with prose: all but the boards of single suites."""
    return [
        path
        for path in sorted(RESULTS.rglob("*.md"))
        if path.name not in BOARDS or path.parent == RESULTS
    ]


def unfolded(text: str) -> str:
    return re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)


def test_the_prose_of_all_pages_is_bounded():
    """Hand-written and generated, folded or not, without tables, code and targets of links."""
    count = 0
    for path in pages():
        text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        lines = [line for line in text.splitlines() if not line.lstrip().startswith("|")]
        plain = re.sub(r"\]\([^)]*\)|<[^>]+>", "]", " ".join(lines))
        count += len(re.findall(r"\b[A-Za-z][A-Za-z'’-]*", plain))
    assert 5_000 < count <= MOST


def test_pages_of_findings_show_at_most_25_000_words_with_tables_and_each_3_000():
    """What a reader sees before unfolding; measurements of speed lie in performance/."""
    seen = {
        path.relative_to(RESULTS).as_posix(): len(unfolded(path.read_text("utf-8")).split())
        for path in pages()
        if path.parent.name != "performance"
    }
    assert sum(seen.values()) <= MOST, seen
    assert max(seen.values()) <= 3_000, seen
