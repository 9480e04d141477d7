"""How much there is to read: pages of results stay short, and long tables are folded."""

from __future__ import annotations

import re
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[2] / "results"
MOST = 27_500
BOARDS = ("leaderboard.md",)


def pages() -> list[Path]:
    """Pages with prose: all but the boards of single suites, and what belongs to scripts."""
    return [
        path
        for path in sorted(RESULTS.rglob("*.md"))
        if (path.name not in BOARDS or path.parent == RESULTS) and path.parent.name != "scripts"
    ]


def unfolded(text: str) -> str:
    return re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)


def words(path: Path) -> int:
    """Hand-written and generated, folded or not, without tables, code and targets of links."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("|")]
    plain = re.sub(r"\]\([^)]*\)|<[^>]+>", "]", " ".join(lines))
    return len(re.findall(r"\b[A-Za-z][A-Za-z'’-]*", plain))


def test_the_prose_of_all_pages_is_bounded():
    assert 5_000 < sum(map(words, pages())) <= MOST


def test_the_leaderboard_has_at_most_700_words_and_opens_with_a_sentence_a_stratum_and_a_table():
    page = RESULTS / "leaderboard.md"
    assert words(page) <= 700
    head = page.read_text(encoding="utf-8").partition("\n## ")[0]
    marks = ("Predictions ", "- **weak**", "- **middle**", "- **strong**", "\n|")
    places = [head.index(mark) for mark in marks]
    assert places == sorted(places)
    assert head.count("\n\n|") == 1
    assert re.findall(r"(?m)^## (Weak|Middle|Strong)$", page.read_text(encoding="utf-8")) == [
        "Weak", "Middle", "Strong",
    ]  # fmt: skip


def test_pages_of_findings_show_at_most_25_000_words_with_tables_and_each_3_000():
    """What a reader sees before unfolding; measurements of speed lie in performance/."""
    seen = {
        path.relative_to(RESULTS).as_posix(): len(unfolded(path.read_text("utf-8")).split())
        for path in pages()
        if path.parent.name != "performance"
    }
    assert sum(seen.values()) <= MOST, seen
    assert max(seen.values()) <= 3_000, seen
