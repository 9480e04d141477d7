"""The summary of a run is that of its records, read by column."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ope_bench.boards.leaderboard import boards
from ope_bench.cli.session import BOARDS_SHOWN, Failures, RunSummary
from ope_bench.plugins.spec import PluginSpec
from ope_bench.store import Store
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Severity, Status


def records(settings: int) -> list[TrialRecord]:
    """Every status, errors of several types, messages of several lines, notes, labels."""
    found = []
    for n in range(settings):
        world = PluginSpec("environment", "toy", "toy", {"n_actions": 2 + n})
        for place, label in enumerate(("", "mine")):
            method = PluginSpec("estimator", f"file{place}.py:A", f"a{place}", label=label)
            for replicate, status in enumerate(Status):
                fine = status is Status.OK
                found.append(
                    TrialRecord(
                        Trial(world, method, replicate),
                        "digest",
                        status,
                        estimate=1.0 if fine else None,
                        truth_expected=1.1,
                        truth_empirical=1.2,
                        logging_average=0.4,
                        error_type=None if fine else ("ValueError", "KeyError")[n % 2],
                        error_message=None if n == 2 or fine else f"no  such\nvalue {replicate}",
                        traceback='File "file0.py", line 3, in estimate' if n else None,
                        note="changed the locale" if replicate % 3 == 1 else None,
                    )
                )
    return found


@pytest.mark.parametrize("settings", [1, BOARDS_SHOWN + 1])
def test_it_is_that_of_the_records(tmp_path: Path, settings: int) -> None:
    with Store.open(tmp_path / "s.sqlite", write=True) as store:
        run = store.begin_run(suite="toy", truth="expected")
        for one in records(settings):
            store.add(one, run)
        store.end_run(run, 0)
        summary = RunSummary.of(store, run, "expected", boards=True)
        reader = store.reader(run=run)
        places = [place for setting in reader.by_setting().values() for place in setting]
        kept = [result.record for _, result in reader.results(places)]
        alone = RunSummary.of(store, run, "expected", boards=False)
    failures: dict[object, Failures] = {}
    notes: Counter[object] = Counter()
    for record in kept:
        name = record.trial.estimator.label or record.trial.estimator.id
        if record.note:
            notes[name, record.note] += 1
        if record.status.severity > Severity.WARNING:
            kind = (name, record.status, record.error_type)
            failures.setdefault(kind, Failures(record.key, record.reason)).count += 1
    assert list(summary.failures.items()) == list(failures.items())
    assert len({one.message for one in failures.values()}) > 3
    assert list(summary.notes.items()) == list(notes.items())
    assert summary.questions == ["rmse", "positivity"]
    assert (alone.failures, alone.notes, alone.boards) == (failures, notes, [])
    by_rmse = boards(kept, truth="expected")
    further = boards(kept, by="positivity", truth="expected")
    assert summary.boards == (by_rmse + further if settings == 1 else by_rmse)
