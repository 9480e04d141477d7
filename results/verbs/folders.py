"""What lies in a folder of results beside its trials: boards, figures, counts and digests."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from judging.trials.committed import boards_of
from judging.trials.rows import rows_of

from ope_bench.base.canonical import sha256
from ope_bench.cli.app import invoke
from ope_bench.report.boards import render

RESULTS = Path(__file__).resolve().parents[1]
SEALED = ("leaderboard.md", "trials.parquet")
ONE_PAGE = ("field", "choice", "advice")
"""Suites whose names begin so have one page of all worlds, and no boards."""


def folder_of(suite: str) -> Path:
    """Return where the results of a suite lie."""
    part = suite.removeprefix("paper-")
    return RESULTS / "paper" / part if part != suite else RESULTS / suite


def show(suite: str) -> None:
    """Write boards, figures and digests of a suite's committed trials."""
    folder = folder_of(suite)
    if not suite.startswith(ONE_PAGE):
        write(folder / "leaderboard.md", render(boards_of(folder), "markdown"))
        draw(folder)
    seal(folder)


def seal(folder: Path) -> None:
    """Write counts and digests of a folder's files; runs of other suites are left out."""
    path = folder / "run.json"
    facts = json.loads(path.read_text(encoding="utf-8"))
    trials = rows_of(folder, "status", "suite")
    status, suites = Counter(row["status"] for row in trials), {row["suite"] for row in trials}
    facts["runs"] = [run for run in facts["runs"] if run["suite"] in suites]
    facts["records"] = facts["trials"] = status.total()
    facts["status"] = dict(sorted(status.items()))
    facts["sha256"] = {name: sha256(folder / name) for name in SEALED if (folder / name).is_file()}
    path.write_text(json.dumps(facts, ensure_ascii=False) + "\n", encoding="utf-8")


def write(path: Path, text: str) -> None:
    """Write a text that ends in one line end."""
    path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")


def shown() -> set[Path]:
    """Return the figures that committed pages show."""
    pages = [RESULTS.parent / "README.md", *RESULTS.rglob("*.md")]
    return {
        (page.parent / link).resolve()
        for page in pages
        for link in re.findall(r"\]\(([^)\s]+\.svg)\)", page.read_text(encoding="utf-8"))
    }


def draw(folder: Path) -> None:
    """Draw the figures of a folder that pages show; `ope-bench report` draws all."""
    figures = folder / "figures"
    wanted = [path for path in shown() if path.parent == figures.resolve()]
    shutil.rmtree(figures, ignore_errors=True)
    if not wanted:
        return
    with tempfile.TemporaryDirectory() as scratch:
        given = ["--store", str(folder / "trials.parquet"), "--figures", scratch]
        code = invoke(["report", *given])
        if code:
            sys.exit(code)
        figures.mkdir()
        for one in wanted:
            shutil.copyfile(Path(scratch) / one.name, one)
