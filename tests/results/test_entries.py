"""Entries of others on the board: clones, names, tries and marks change nobody else's place."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from judging.pages.blocks import runs
from judging.pages.entries import Entry, entries_of, entries_section

from ope_bench.base.errors import SuiteError
from ope_bench.gate.submission import Figures, append_attempt
from support.paths import RESULTS
from support.submissions import begin


def _figures(estimator: str, ratio: float, failures: float = 0.0) -> dict[str, Any]:
    return {
        "estimator": estimator,
        "id": estimator,
        "params": {},
        "track": "propensities",
        "reference": "ipws",
        "ratio": ratio,
        "low": ratio * 0.9,
        "high": ratio * 1.1,
        "log_se": 0.02,
        "settings": 300,
        "failures": failures,
    }


def _enter(
    home: Path,
    name: str,
    *ratios: float,
    own: float = 0.9,
    day: int = 1,
    marks: tuple[str, ...] = ("verified",),
    failures: float = 0.0,
) -> None:
    folder = home / name
    folder.mkdir(parents=True)
    (folder / "submission.yaml").write_text("schema: 1\n")
    facts = {"runs": [{"machine": {}}], "status": {}, "figures": [_figures(name, own)]}
    (folder / "run.json").write_text(json.dumps(facts))
    for number, ratio in enumerate(ratios):
        begun = begin(home, name, f"{name}{number}", f"2026-12-{day:02}T00:00:{number:02}Z")
        figures = [Figures(**_figures(name, ratio, failures))]
        append_attempt(home, replace(begun, figures=figures, marks=list(marks)))


def _places(entries: list[Entry]) -> dict[str, int | None]:
    return {one.name: one.rank for one in entries}


def _board(home: Path) -> None:
    _enter(home, "better", 0.70, own=0.71)
    _enter(home, "near", 0.72, own=0.73)
    _enter(home, "worse", 1.30, own=1.31)


def test_entries_that_cannot_be_told_apart_share_a_rank(tmp_path: Path) -> None:
    _board(tmp_path)
    assert _places(entries_of(tmp_path)) == {"better": 1, "near": 1, "worse": 2}


def test_fifty_clones_are_one_line_and_move_nobody(tmp_path: Path) -> None:
    _board(tmp_path)
    before = _places(entries_of(tmp_path))
    for number in range(50):
        # Verified on seeds of their own, so that their figures there differ.
        _enter(tmp_path, f"clone-{number}", 0.69 + number / 1e4, own=0.71, day=2)
    after = entries_of(tmp_path)
    assert _places(after) == before
    assert [one.alike for one in after] == [50, 0, 0]


def test_names_decide_nothing(tmp_path: Path) -> None:
    for home, names in ((tmp_path / "a", "xyz"), (tmp_path / "b", "zyx")):
        for day, (name, ratio) in enumerate(zip(names, (0.8, 0.8, 1.2), strict=True), start=1):
            _enter(home, f"{name}-entry", ratio, own=ratio + day / 100, day=day)
        found = entries_of(home)
        assert [one.name[0] for one in found] == list(names)
        assert [one.rank for one in found] == [1, 1, 2]


def test_first_and_latest_stand_and_the_best_of_many_does_not(tmp_path: Path) -> None:
    _enter(tmp_path, "tries", 0.9, 0.3, 1.1)
    (entry,) = entries_of(tmp_path)
    figures = (entry.first["ratio"], entry.latest["ratio"], entry.tries)
    assert figures == (0.9, 1.1, 3)
    line = entries_section(tmp_path).splitlines()[-1]
    assert "| 0.90 | 1.10 (0.99 to 1.21) | 3 |" in line
    assert "0.30" not in line


def test_a_try_that_was_never_finished_counts(tmp_path: Path) -> None:
    _enter(tmp_path, "stopped", 0.9)
    begin(tmp_path, "stopped", "another")
    assert entries_of(tmp_path)[0].tries == 2


def test_marked_entries_have_no_rank(tmp_path: Path) -> None:
    _board(tmp_path)
    _enter(tmp_path, "tuned", 0.2, own=0.1, marks=("verified", "tuned on public seeds"))
    _enter(tmp_path, "ours", 0.2, own=0.2, marks=("verified", "out of competition"))
    _enter(tmp_path, "claims", own=0.01)
    places = _places(entries_of(tmp_path))
    assert [places[name] for name in ("tuned", "ours", "claims")] == [None] * 3
    assert [places[name] for name in ("better", "worse")] == [1, 2]
    assert "own report" in entries_section(tmp_path)


def test_an_entry_that_fails_on_most_data_sets_has_no_rank(tmp_path: Path) -> None:
    _board(tmp_path)
    _enter(tmp_path, "half", 0.5, own=0.4, failures=0.5)
    _enter(tmp_path, "most", 0.4, own=0.3, failures=0.51)
    assert _places(entries_of(tmp_path)) == {
        "half": 1,
        "better": 2,
        "near": 2,
        "worse": 3,
        "most": None,
    }
    assert "fails on most data sets" in entries_section(tmp_path)


def test_a_board_is_made_of_a_whole_chain_of_attempts_alone(tmp_path: Path) -> None:
    _enter(tmp_path, "tries", 0.9, 1.1)
    path = tmp_path / "attempts.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:1], lines[1].replace("0.9", "0.8"), *lines[2:]]) + "\n")
    with pytest.raises(SuiteError, match=r"attempts\.jsonl:3"):
        entries_of(tmp_path)


def _round(folder: Path, action: str, name: str, *more: str, keep: str = "") -> str:
    """Call a copy of the script of rounds; return what it prints, errors too."""
    home = folder / "results" / "submissions"
    if not home.exists():
        home.mkdir(parents=True)
        for file in ("rounds.py", "rounds.yaml"):
            shutil.copy(RESULTS / "submissions" / file, home)
    command = [
        sys.executable,
        str(home / "rounds.py"),
        action,
        name,
        "--keep",
        keep or name,
        *more,
    ]
    done = subprocess.run(command, cwd=folder.parent, check=False, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_a_round_publishes_hashes_and_keeps_its_secrets_elsewhere(tmp_path: Path) -> None:
    home, outside = tmp_path / "clone" / "results" / "submissions", tmp_path
    ends = ("--secrets", "3", "--ends", "2027-03-31")
    assert "outside" in _round(tmp_path / "clone", "open", "first", *ends, keep="clone/kept")
    for name in ("first", "second"):
        assert "commit rounds.yaml" in _round(tmp_path / "clone", "open", name, *ends)
    text = (home / "rounds.yaml").read_text()
    for name in ("first", "second"):
        kept = (outside / name).read_text().split()
        hashes = [hashlib.sha256(one.encode()).hexdigest() for one in kept]
        opened = yaml.safe_load(text)["rounds"][name]
        assert opened["secrets"] == hashes
        assert str(opened["ends"]) == "2027-03-31"
        assert not any(one in text for one in kept)
        assert (outside / name).stat().st_mode & 0o077 == 0


def test_secrets_are_used_once_and_those_left_are_published_at_the_end(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    _round(clone, "open", "first", "--secrets", "2", "--ends", "2027-03-31")
    one, other = (tmp_path / "first").read_text().split()
    assert _round(clone, "next", "first").startswith(one)
    home = clone / "results" / "submissions"
    begin(home, "a", one)
    assert _round(clone, "next", "first").startswith(other)
    (tmp_path / "wrong").write_text("abc\n")
    assert "does not hold" in _round(clone, "next", "first", keep="wrong")
    assert "commit unused-first.txt" in _round(clone, "close", "first")
    assert (home / "unused-first.txt").read_text() == f"{other}\n"


def test_runs_of_entries_are_none_of_ours(tmp_path: Path) -> None:
    _board(tmp_path / "submissions")
    (tmp_path / "quick").mkdir()
    shutil.copy(RESULTS / "quick" / "run.json", tmp_path / "quick")
    assert len(runs(tmp_path, "").splitlines()) == 3


def test_what_runs_took_is_a_bound_where_one_of_them_is_unknown(tmp_path: Path) -> None:
    def run(name: str, revision: str, finished: float | None = 90.0) -> dict[str, Any]:
        machine = {"git": {"revision": revision}, "cores": 2, "cpu": "a"}
        return {
            "id": name, "suite": "s", "machine": machine, "started": 30.0, "finished": finished
        }  # fmt: skip

    def told(parts: list[dict[str, Any]], makers: Sequence[str]) -> list[str]:
        (tmp_path / "s").mkdir(exist_ok=True)
        (tmp_path / "s" / "run.json").write_text(json.dumps({"runs": parts, "records": 2}))
        path = tmp_path / "s" / "trials.parquet"
        pq.write_table(pa.Table.from_pylist([{"made_by": one} for one in makers]), path)
        os.utime(path, (0, len(makers)))  # what was read once is kept
        (row,) = runs(tmp_path, "").splitlines()[2:]
        return [cell.strip() for cell in row.strip("| ").split("|")][2:5:2]

    first, second = run("one", "1234567890"), run("two", "abcdefghij")
    assert told([first], ["one"]) == ["1.0", "1234567"]
    assert told([first, second], ["one", "two"]) == ["2.0", "abcdefg, 1 before"]
    assert told([first], ["one", "lost", "one"]) == ["at least 1.0", "1234567"]
    killed = run("two", "1234567890", None)
    assert told([first, killed], ["one"]) == ["at least 1.0", "1234567"]
