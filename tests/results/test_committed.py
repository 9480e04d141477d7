"""What is committed under results/ comes again from the code: trials, boards, verdicts."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from judging.pages.regret import GONE
from judging.trials.committed import boards_of, folders_with_boards
from judging.trials.rows import rows_of

from ope_bench.base.canonical import canonical_json
from ope_bench.execution import Finished
from ope_bench.execution.local import LocalExecutor
from ope_bench.execution.machine import machine_facts, same_arithmetic
from ope_bench.gate.verdict import ROUNDING
from ope_bench.plugins.spec import resolve
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Device, Status
from ope_bench.trials.trial import build
from support.paths import RESULTS

FOLDERS = sorted(
    path.parent for path in RESULTS.rglob("trials.parquet") if "submissions" not in path.parts
)
IDS = [folder.relative_to(RESULTS).as_posix() for folder in FOLDERS]
WITH_BOARDS = folders_with_boards(RESULTS)
"""All but those of the leaderboard over worlds, whose page `test_leaderboard.py` makes again."""
CELL = ("environment", "estimator", "device", "environment_params", "params")
TRIAL = ("key", "replicate", "seed", "fit_cpu_seconds")
ANSWER = ("status", "estimate", "truth_expected", "truth_empirical")
SAMPLED = 3
CHEAP = 0.5
"""Seconds of fitting above which a trial is not drawn: the test is about bits, not patience."""


def _rows(folder: Path, *columns: str) -> list[dict[str, Any]]:
    """Some columns of all trials; to read what is not looked at takes most of the time."""
    return rows_of(folder, *columns)


def _sample(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A few cheap trials of different estimators, whatever their status; drawn by key."""
    drawn: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["key"]):
        # A block of replicates is trained whole.
        if (row["fit_cpu_seconds"] or 0.0) * Device(row["device"]).block_size < CHEAP:
            drawn.setdefault(row["estimator"], row)
    return list(drawn.values())[:SAMPLED]


def _is_gone(row: dict[str, Any]) -> bool:
    """Whether the trial is of a rule that was removed; its numbers stay readable."""
    return row["estimator"] == "select" and json.loads(row["params"])["by"] in GONE


def _trial(row: dict[str, Any]) -> Trial:
    return Trial(
        resolve("environment", row["environment"], json.loads(row["environment_params"])),
        resolve("estimator", row["estimator"], json.loads(row["params"])),
        row["replicate"],
        seed=row["seed"],
        device=Device(row["device"]),
    )


def _outdated(row: dict[str, Any]) -> bool:
    """Whether the row's trial is of an older version of its environment, which cannot be run."""
    trial = _trial(row)
    if trial.key == row["key"]:
        return False
    params = json.loads(row["environment_params"])
    worlds = params.pop("worlds", "redrawn")
    environment = replace(trial.environment, params=params, worlds=worlds)
    return any(
        replace(trial, environment=replace(environment, version=version)).key == row["key"]
        for version in range(1, trial.environment.version)
    )


def _lacks_data(found: TrialRecord, row: dict[str, Any]) -> bool:
    """Whether a package with the environment's data is not installed here."""
    missing = found.status is Status.UNAVAILABLE and row["status"] != "unavailable"
    return missing and "pip install" in (found.error_message or "")


def _setting(row: dict[str, Any]) -> tuple[str, str]:
    return row["environment"], row["environment_params"]


def _plain(params: str) -> str:
    return canonical_json(json.loads(params))


def _rmse(rows: list[dict[str, Any]]) -> float:
    return float(
        np.sqrt(np.mean([(row["estimate"] - row["truth_expected"]) ** 2 for row in rows]))
    )


@pytest.fixture(scope="module")
def workers() -> Iterator[LocalExecutor]:
    """Portable workers, whose bits do not depend on this machine and its environment."""
    with LocalExecutor() as executor:
        yield executor


def test_every_suite_of_the_paper_has_its_results() -> None:
    paper = {name.partition("/")[2] for name in IDS if name.startswith("paper/")}
    assert paper == {
        "actions", "samples", "failures", "behance", "appendix-actions", "appendix-samples",
        "behance-resampled", "flow-adapted",
    }  # fmt: skip


@pytest.mark.parametrize("folder", FOLDERS, ids=IDS)
def test_a_sample_of_the_trials_gives_the_stored_numbers_again(
    folder: Path, workers: LocalExecutor
) -> None:
    rows = [row for row in _rows(folder, *CELL, *TRIAL, *ANSWER) if not _is_gone(row)]
    runs = json.loads((folder / "run.json").read_text(encoding="utf-8"))["runs"]
    same = same_arithmetic(machine_facts("portable"), *(run["machine"] for run in runs))
    first = {_setting(row): row for row in reversed(rows)}
    outdated = {setting for setting, row in first.items() if _outdated(row)}
    absent: list[str] = []
    current = [row for row in rows if _setting(row) not in outdated]
    sample = {row["key"]: row for row in _sample(current)}
    trials = [_trial(row) for row in sample.values()]
    assert [trial.key for trial in trials] == list(sample)
    for event in workers.run(trials):
        if not isinstance(event, Finished):
            continue
        found, row = event.record, sample[event.record.key]
        if _lacks_data(found, row):
            absent.append(row["environment"])
            continue
        assert found.status.value == row["status"], (row["estimator"], found.error_message)
        if same:
            assert found.truth_expected == row["truth_expected"]
            assert found.truth_empirical == row["truth_empirical"]
            assert found.estimate == row["estimate"], row["estimator"]
        elif row["estimate"] is not None:
            assert found.truth_expected == pytest.approx(row["truth_expected"], rel=ROUNDING)
            if "torch" in build(found.trial.estimator).requires:
                # Training is chaotic: rounding elsewhere gives another, equally good flow.
                cell = [
                    one
                    for one in rows
                    if one["status"] == "ok"
                    and all(
                        one[k] == row[k] for k in ("environment_params", "estimator", "params")
                    )
                ]
                assert abs(found.estimate - row["estimate"]) < 3 * _rmse(cell)
            else:
                assert found.estimate == pytest.approx(row["estimate"], rel=ROUNDING)
    if absent:
        pytest.skip(f"data that {', '.join(sorted(set(absent)))} needs are not installed here")
    if outdated:
        names = ", ".join(sorted({environment for environment, _ in outdated}))
        pytest.skip(
            f"the trials of {names} are of an older version of that environment and are not run; "
            "all others gave their numbers. `results/regenerate run` makes them anew"
        )


@pytest.mark.parametrize("folder", WITH_BOARDS, ids=[folder.name for folder in WITH_BOARDS])
def test_boards_say_what_the_trials_say(folder: Path) -> None:
    """RMSE and failures of every row, computed here from the exported trials alone."""
    cells: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in _rows(folder, *CELL, *ANSWER):
        cells.setdefault(tuple(row[name] for name in CELL), []).append(row)
    lines = {
        (
            board.environment,
            line.estimator,
            line.device,
            canonical_json(board.environment_params),
            canonical_json(line.params),
        ): (line, f"truth_{board.truth}")
        for board in boards_of(folder)
        for line in board.rows
    }
    assert len(lines) == len(cells)
    for (environment, estimator, device, setting, params), cell in cells.items():
        known = json.loads(setting)
        known.pop("worlds", None)
        line, truth = lines[environment, estimator, device, canonical_json(known), _plain(params)]
        ok = [row for row in cell if row["status"] == "ok"]
        assert (len(cell), len(ok)) == (line.replicates, line.finite)
        if ok:
            errors = np.array([row["estimate"] - row[truth] for row in ok])
            assert line.rmse.value == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-9)


@pytest.mark.parametrize("folder", FOLDERS, ids=IDS)
def test_no_row_mixes_two_codes(folder: Path) -> None:
    cell = [*CELL, "threads"]
    trials = pq.read_table(folder / "trials.parquet", columns=[*cell, "code_digest"])
    codes = trials.group_by(cell).aggregate([("code_digest", "count_distinct")])
    mixed = [row for row in codes.to_pylist() if row["code_digest_count_distinct"] > 1]
    assert mixed == []


KEEPS = ("results/regenerate run --keep", "results/remake.py")
"""The command that keeps committed trials, and its name in older runs."""


@pytest.mark.parametrize("folder", FOLDERS, ids=IDS)
def test_runs_were_whole_and_their_code_committed(folder: Path) -> None:
    told = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    rows = pq.read_metadata(folder / "trials.parquet").num_rows
    assert told["trials"] == sum(told["status"].values()) == rows
    for name, digest in told["sha256"].items():
        found = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        assert found == digest, f"{name}: results/regenerate write {folder.name}"
    for run in told["runs"]:
        # Files of results that `run --keep` has just written make its tree dirty.
        assert run["command"].startswith(KEEPS) or not run["machine"]["git"]["dirty"]
    # One that was killed before has no end; the last one went on with its trials, and did all.
    last = told["runs"][-1]
    assert last["finished"] is not None
    assert last["exit_code"] == 0


@pytest.mark.slow
def test_verdicts_and_tables_are_what_the_committed_trials_give() -> None:
    done = subprocess.run(
        [sys.executable, str(RESULTS / "verbs"), "check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
