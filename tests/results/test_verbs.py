"""The door of results: its verbs, what each calls, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from draws import coverage
from verbs import __main__ as door
from verbs import check, folders, keep, run, write

from support.paths import ROOT


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is called, in its order; nothing runs."""
    made: list[str] = []

    def call(*words: str, to: Path | None = None) -> None:
        made.append(" ".join(words))

    monkeypatch.setattr(folders, "RESULTS", tmp_path)
    monkeypatch.setattr(run, "call", call)
    monkeypatch.setattr(folders, "show", lambda suite: made.append(f"show {suite}"))
    monkeypatch.setattr(run, "draw", lambda name, words: made.append(f"draw {[name, *words]}"))
    monkeypatch.setattr(keep, "remake", lambda suite, **_: made.append(f"keep {suite}"))

    def written(words: list[str]) -> int:
        made.append(f"write {words}")
        return 0

    monkeypatch.setattr(write, "main", written)
    return made


def test_help_names_every_verb_on_one_screen() -> None:
    command = [ROOT / "results" / "regenerate", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) <= 24
    for path in (ROOT / "results" / "verbs").glob("[a-z]*.py"):
        is_verb = "\ndef main(" in path.read_text(encoding="utf-8")
        assert is_verb == any(line.startswith(f"  {path.stem}") for line in lines), path.stem
    assert set(run.DRAWS) <= {word.strip(",") for line in lines for word in line.split()}


def test_a_suite_runs_and_its_folder_is_written_and_then_the_pages(calls: list[str]) -> None:
    assert door.main(["run", "paper-actions"]) == 0
    verbs = [one.split()[0] for one in calls]
    assert verbs == ["run", "store", "export", "show", "write"]
    assert all("--store results-paper.sqlite" in one for one in calls[:3])
    assert (folders.RESULTS / "paper" / "actions").is_dir()


def test_a_first_word_that_is_no_verb_is_a_name_for_run(calls: list[str]) -> None:
    assert door.main(["field-trials", "full"]) == 0
    drawn = calls.index("draw ['other-rows', 'field-trials']")
    assert calls[drawn - 1] == "show field-trials"
    assert "--by time" in calls[-2]
    assert not [one for one in calls[drawn:] if one.startswith("export")]


def test_all_stands_for_every_suite_that_has_a_folder(calls: list[str]) -> None:
    door.main(["run", "all"])
    ran = {one.split()[1] for one in calls if one.startswith("run ")}
    trials = {path.parent for path in (ROOT / "results").rglob("trials.parquet")}
    missing = {
        folder.name
        for folder in trials - {ROOT / "results" / "others"}
        if "submissions" not in folder.parts and not {folder.name, f"paper-{folder.name}"} & ran
    }
    assert not missing
    assert "draw ['verdicts']" in calls


def test_words_behind_a_draw_are_its_own(calls: list[str]) -> None:
    door.main(["run", "coverage", "--estimated"])
    assert calls == ["draw ['coverage', '--estimated']", "write []"]


def test_every_draw_is_a_module_with_a_door() -> None:
    found = {path.stem.replace("_", "-") for path in Path(coverage.__file__).parent.glob("*.py")}
    assert {*run.DRAWS} == found - {"--init--", "outside-worlds"}


def test_keep_runs_what_is_missing_alone(calls: list[str]) -> None:
    door.main(["run", "--keep", "--jobs", "2", "quick"])
    assert calls == ["keep quick", "write []"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["run", "quik"], "quik"),
        (["run", "--jobs", "2", "quick"], "--keep"),
        (["write", "nonsuch"], "nonsuch"),
        (["run", "predictions"], "register or judge"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_runs(words: list[str], named: str) -> None:
    command = [sys.executable, ROOT / "results" / "verbs", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode
    assert named in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_check_names_what_write_then_mends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, plot = tmp_path / "page.md", tmp_path / "figures" / "claim-old.svg"
    plot.parent.mkdir()
    plot.touch()
    monkeypatch.setattr(write, "texts", lambda: {page: "said"})
    monkeypatch.setattr(check, "RESULTS", tmp_path / "results")
    assert door.main(["check"]) == 1
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == [
        "page.md",
        "figures/claim-old.svg",
    ]
    assert not page.exists()
    assert door.main(["write"]) == 0
    assert page.read_text() == "said"
    assert not plot.exists()
    assert door.main(["check"]) == 0
