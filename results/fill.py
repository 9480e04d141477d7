"""Fills committed trials with what exports of older releases lacked, and checks every board.

    python results/fill.py [FOLDER...]

- versions of environments from keys; runs from run.json; labels, access and origins from boards;
- means over replicates of a board's line that no trial has: they stand in the row of the first;
- logged averages, and estimates that a positivity warning withheld: by running such trials again;
- the diagnostic of the signal of a log, which trials of `dr` record since: by running them again.

A trial that runs again must give the committed value, status and truth. What ran stands in
build/fill.jsonl, from which an interrupted call goes on. A folder is written only if its boards
come again: estimates to the bit, other figures to 1e-12.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from boards_before import records_of
from seal import seal

from ope_bench.base.canonical import canonical_json, plain
from ope_bench.boards.leaderboard import boards, boards_document
from ope_bench.boards.tracks import SIGNAL
from ope_bench.plugins.spec import resolve
from ope_bench.store import Result, Run, Store
from ope_bench.store.export import rows_of, writer_for
from ope_bench.store.exported import _runs, trial_of
from ope_bench.trials.record import RECORD, Trial, TrialRecord, facts_from
from ope_bench.trials.status import Device
from ope_bench.trials.trial import Workspace, build, run_trial

RESULTS = Path(__file__).resolve().parent
CACHE = RESULTS.parent / "build" / "fill.jsonl"
SIGNALS = ("field", "field-real", "field-trials")
_EXPORTED = {one.name for one in RECORD if one.exported}
_ROUNDING = 1e-9
_CLOSE = 1e-12

MOVED = {"fit_seconds", "estimate_seconds", "seconds"}
"""Figures that may be others: committed boards had times of trials that were run anew since."""

TOO_MANY = {"intervals", "density-ratio"}
"""Folders whose logged averages stay unknown: no page shows what needs them."""

WARNINGS = {"error_cdf_area", "warnings_judged", "warning_precision", "warning_recall"}
"""Figures that go, or come, where what they compare with was not known."""


class Again:
    """Trials that run again, from the cache where they did."""

    def __init__(self) -> None:
        self.workspace, self.last = Workspace(), ""
        lines = CACHE.read_text(encoding="utf-8").splitlines() if CACHE.exists() else []
        every = (json.loads(one) for one in lines)
        self.known = {one["key"]: one for one in every if one["status"] != "unavailable"}

    def facts(self, trial: Trial, known: TrialRecord) -> Mapping[str, Any]:
        """Return what a trial gives; that of a record on the same data must agree.

        Raises
        ------
        ValueError : it does not.
        """
        if trial.key not in self.known:
            if trial.data_key != self.last:
                self.workspace.clear()
                self.last = trial.data_key
            found = run_trial(trial, self.workspace)
            self.known[trial.key] = told = {
                "key": trial.key,
                "status": found.status.value,
                "estimate": found.estimate,
                "fallback": found.fallback,
                "average": found.logging_average,
                "truth": found.truth_expected,
                "signal": found.diagnostics.get(SIGNAL),
            }
            CACHE.parent.mkdir(exist_ok=True)
            with CACHE.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(told) + "\n")
        told = self.known[trial.key]
        same = [_near(told["truth"], known.truth_expected)]
        if trial.key == known.key:
            same += [told["status"] == known.status.value, _near(told["estimate"], known.estimate)]
        if not all(same):
            msg = f"{trial}: {told} is not {known}"
            raise ValueError(msg)
        return told


def _near(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=_ROUNDING, abs_tol=1e-12)


def filled(folder: Path, again: Again) -> tuple[list[Result], list[Run]]:
    """Return the trials of a folder with all their columns, and the runs."""
    path = folder / "trials.parquet"
    runs, rows = _runs(path, None), pq.read_table(path).to_pylist()
    has_boards = (folder / "leaderboard.json").exists()
    known: list[TrialRecord | None] = [None] * len(rows)
    if has_boards:
        known = [*records_of(folder)]
    averages = any(row["estimator"] == "logging-average" for row in rows)
    truths_se = _truths_se(folder) if has_boards else {}
    found = []
    for row, told in zip(rows, known, strict=True):
        trial = trial_of(row)
        run = runs.setdefault(
            row["run_id"], Run(id=row["run_id"], suite=row["suite"], truth="expected")
        )
        record = TrialRecord(trial, **facts_from({k: v for k, v in row.items() if k in _EXPORTED}))
        if told is not None:
            names = _EXPORTED - {"shared_seconds", "error_type", "error_message", "note"}
            facts = {name: vars(told)[name] for name in names if vars(told)[name] is not None}
            label = told.trial.estimator.label
            trial = replace(trial, estimator=replace(trial.estimator, label=label))
            record = replace(record, trial=trial, **facts)
            setting = canonical_json(dict(trial.environment.params))
            record = replace(record, truth_expected_se=truths_se.pop(setting, None))
        else:
            version = run.machine.get("plugins", {}).get("ope-bench")
            access = (build(trial.estimator).access.words(),)
            origin = f"ope-bench {version}" if version else ""
            record = replace(record, access=tuple(access[0]), origin=origin)
            record = replace(record, environment_origin=origin)
        record = _run_again(folder, record, again, averages=averages or not has_boards)
        found.append(Result(record, run, run.id, None))
    return whole_numbers(found), [*runs.values()]


def whole_numbers(results: list[Result]) -> list[Result]:
    """Return results whose numbers of actions are whole, with the mean that the first has."""
    cells: dict[tuple[str, str, str], list[int]] = {}
    for place, one in enumerate(results):
        trial = one.record.trial
        cell = trial.environment.identity_json, trial.estimator.identity_json, trial.device.value
        cells.setdefault(cell, []).append(place)
    for places in cells.values():
        for name in ("n_logged_actions", "n_target_actions"):
            mean = getattr(results[places[0]].record, name)
            some = [x for x in places if results[x].record.truth_expected is not None]
            if mean is None or mean == int(mean):
                continue
            total = mean * len(some)
            if abs(total - round(total)) > 1e-6:
                sys.stdout.write(f"{name}: {mean} of {len(some)} trials\n")
            low, more = divmod(round(total), len(some))
            for count, place in enumerate(some):
                record = replace(results[place].record, **{name: low + (count < more)})
                results[place] = replace(results[place], record=record)
    return results


def _run_again(folder: Path, record: TrialRecord, again: Again, *, averages: bool) -> TrialRecord:
    trial, status = record.trial, record.status.value
    if not averages and folder.name not in TOO_MANY:
        average = replace(trial, estimator=_resolved("logging-average"), device=Device("cpu"))
        record = replace(record, logging_average=again.facts(average, record)["average"])
    if (folder / "leaderboard.json").exists() and status == "positivity":
        record = replace(record, fallback=again.facts(trial, record)["fallback"])
    if folder.name in SIGNALS and trial.estimator.id == "dr" and status == "ok":
        signal = again.facts(trial, record)["signal"]
        if signal is not None:
            record = replace(record, diagnostics={**record.diagnostics, SIGNAL: signal})
    return record


@cache
def _resolved(estimator: str) -> Any:
    return resolve("estimator", estimator)


def _document(folder: Path) -> Any:
    return json.loads((folder / "leaderboard.json").read_text(encoding="utf-8"))


def _truths_se(folder: Path) -> dict[str, float]:
    return {
        canonical_json(one["environment_params"]): one["truth_se"]
        for one in _document(folder)["boards"]
        if one["truth_se"] is not None
    }


def differences(told: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the figures of committed boards that do not come again."""
    if len(told["boards"]) != len(found["boards"]):
        yield "number of boards"
    for old, new in zip(told["boards"], found["boards"], strict=True):
        where = f"{old['environment']} {old['label']}"
        names = [row["label"] for row in old["rows"]], [row["label"] for row in new["rows"]]
        if names[0] != names[1]:
            yield f"{where}: other rows, or another order"
            continue
        for one, other in zip(old["rows"], new["rows"], strict=True):
            yield from _lines(f"{where}: {one['label']}", one, other)
        yield from _lines(where, *({**x, "rows": 0} for x in (old, new)))
    for old, new in zip(told.get("across") or (), found.get("across") or (), strict=True):
        for one, other in zip(old["rows"], new["rows"], strict=True):
            yield from _lines(f"across: {one['label']}", one, other)


def _lines(where: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    for name, value in one.items():
        if not _alike(value, other.get(name)):
            gone = name in WARNINGS and None in (value, other.get(name) or None)
            word = "moved" if name in MOVED or gone else "DIFFERS"
            yield f"{word} {where}: {name} {value} {other.get(name)}"


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_CLOSE, abs_tol=1e-15)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[k], other[k]) for k in one)
    return bool(one == other)


def check(folder: Path, path: Path) -> list[str]:
    """Return what of the old trials, and of the boards, is not in a new file."""
    before = pq.read_table(folder / "trials.parquet").to_pylist()
    after = {row["key"]: row for row in pq.read_table(path).to_pylist()}
    if len(after) != len(before):
        return [f"DIFFERS {len(before)} trials, now {len(after)}"]
    found = []
    for row in before:
        for name, value in row.items():
            now = after[row["key"]][name]
            if name == "diagnostics":
                value, now = json.loads(value), json.loads(now)
                if folder.name in SIGNALS and row["estimator"] == "dr":
                    now.pop(SIGNAL, None)
            elif name in ("params", "environment_params"):
                value, now = json.loads(value), json.loads(now)
            if value != now and not (name == "salt" and not value and not now):
                found.append(f"DIFFERS {row['key']}: {name} {value} {now}")
    if (folder / "leaderboard.json").exists():
        told = _document(folder)
        first = told["boards"][0]
        with Store.open(path) as store:
            records = [*store.records()]
        again = boards_document(boards(records, by=first["by"], truth=first["truth"]))
        found += differences(told, plain(again))
    return found


def fill(folder: Path, again: Again) -> bool:
    """Fill the trials of a folder; return whether all that was known comes again."""
    results, runs = filled(folder, again)
    with tempfile.TemporaryDirectory() as scratch:
        first, last = Path(scratch) / "first.parquet", Path(scratch) / "trials.parquet"
        writer_for(first)(first, rows_of(results), runs)
        with Store.open(first) as store:
            writer_for(last)(last, rows_of(store.results()), store.runs())
        problems = check(folder, last)
        for one in problems[:20]:
            sys.stdout.write(f"{folder.name}: {one}\n")
        good = not any(one.startswith("DIFFERS") for one in problems)
        sizes = [one.stat().st_size for one in (folder / "trials.parquet", last)]
        sys.stdout.write(f"{folder.name}: {good} {sizes} {len(problems)}\n")
        sys.stdout.flush()
        if good and "--write" in sys.argv:
            (folder / "trials.parquet").write_bytes(last.read_bytes())
            _sealed(folder)
    return good


def _sealed(folder: Path) -> None:
    path, name = RESULTS / "verified.json", folder.relative_to(RESULTS).as_posix()
    agreed, before = json.loads(path.read_text(encoding="utf-8")), folder / "run.json"
    digest = json.loads(before.read_text(encoding="utf-8")).get("sha256", {}).get("trials.parquet")
    seal(folder)
    now = json.loads(before.read_text(encoding="utf-8"))["sha256"]["trials.parquet"]
    if name in agreed and agreed[name]["trials.parquet"] == digest:
        agreed[name]["trials.parquet"] = now
        text = json.dumps(agreed, indent=1, sort_keys=True)
        path.write_text(text + "\n", encoding="utf-8")


def main() -> int:
    """Fill the folders that are named, or all."""
    names = [one for one in sys.argv[1:] if one != "--write"]
    folders = [RESULTS / name for name in names] or [
        path.parent for path in sorted(RESULTS.rglob("trials.parquet"))
    ]
    again = Again()
    done = [fill(one, again) for one in folders]
    return int(not all(done))


if __name__ == "__main__":
    sys.exit(main())
