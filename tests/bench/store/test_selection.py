"""What a store selects is read in parts, and by column says what its records say."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ope_bench.base.errors import StoreError
from ope_bench.outcomes import OF_STORE, Outcomes
from ope_bench.store import Store
from ope_bench.store import reader as reader_module
from ope_bench.store.file import connect
from ope_bench.store.reader import Reader
from ope_bench.trials.record import Trial
from ope_bench.trials.status import Status
from support.stored_records import METHOD, WORLD, filled, record, trial


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ope-bench.sqlite"


def test_outcomes_by_column_are_those_of_the_results(path: Path) -> None:
    worlds = [replace(WORLD, params={"n_actions": n}) for n in (2, 3)]
    trials = [Trial(world, METHOD, number, seed=5) for number in range(3) for world in worlds]
    facts = {"diagnostics": {"a": 1.5, "b": "word"}, "access": ("propensity",), "exclusive": True}
    filled(path, *(record(one, estimate=float(n), **facts) for n, one in enumerate(trials)))
    labelled = Trial(worlds[0], replace(METHOD, label="mine"), 0, seed=5)
    filled(path, record(labelled, Status.ERROR, estimate=None), truth="expected")
    with Store.open(path) as store:
        for truth, of in ((None, None), ("empirical", "empirical"), ("expected", "expected")):
            reader = store.reader()
            settings = [reader.results(places) for places in reader.by_setting().values()]
            found = [[one for _, one in g if of in (None, one.run.truth)] for g in settings]
            groups = [[one.record for one in group] for group in found if group]
            told = list(store.outcomes(truth=truth))
            assert len(told) == len(groups)
            for columns, records in zip(told, groups, strict=True):
                expected = Outcomes.of(records)
                known = {one.id for one in store.runs()}
                assert {*columns.made_by, *columns.selected_by} <= known
                of_store = {name: getattr(expected, name) for name in (*OF_STORE, "run")}
                for name, column in vars(replace(columns, **of_store)).items():
                    other = getattr(expected, name)
                    if name == "diagnostics":
                        assert column.tolist() == other.tolist()
                    else:
                        exact = column.dtype == np.float64
                        assert np.array_equal(column, other, equal_nan=exact), name


def test_results_of_one_trial_under_two_truths_come_in_the_order_of_their_runs(
    path: Path,
) -> None:
    one = trial()
    for truth in ("expected", "empirical"):
        filled(path, record(one), truth=truth)
    with Store.open(path) as store:
        runs = [run.id for run in store.runs()]
        assert [result.run.id for result in store.results()] == sorted(runs)
        assert len(set(runs)) == 2


def test_outcomes_that_another_program_removed_meanwhile_are_left_out(path: Path) -> None:
    worlds = [replace(WORLD, params={"n_actions": n}) for n in (2, 3)]
    trials = [Trial(world, METHOD, number) for world in worlds for number in range(3)]
    filled(path, *(record(one) for one in trials))
    gone = {trials[1].key, *(one.key for one in trials[3:])}
    with Store.open(path) as store:
        reader = store.reader()
        with sqlite3.connect(path) as other:
            other.executemany("DELETE FROM record WHERE key = ?", [(key,) for key in gone])
        other.close()
        (found,) = reader.outcomes()
        assert set(found.key) == {one.key for one in trials} - gone
        assert {one.record.key for _, one in reader.results()} == set(found.key)


def test_outcomes_are_read_a_part_at_a_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = {"error_message": "no such value", "traceback": "line 1", "estimate": None}
    filled(
        path,
        *(record(trial(n), diagnostics={"a": float(n)}) for n in range(5)),
        *(record(trial(n), Status.ERROR, **failed) for n in range(5, 8)),
    )
    with Store.open(path) as store:
        (whole,) = store.outcomes()
        sizes = []
        read = Reader._rows

        def counted(self, columns, places):
            sizes.append(len(places))
            return read(self, columns, places)

        monkeypatch.setattr(Reader, "_rows", counted)
        monkeypatch.setattr(reader_module, "COLUMNS_AT_ONCE", 3)
        (parts,) = store.outcomes()
    assert sizes == [3, 3, 2]
    for name, column in vars(whole).items():
        assert repr(column.tolist()) == repr(getattr(parts, name).tolist()), name
    for texts in (parts.error_message, parts.traceback, parts.environment_origin):
        assert len({id(text) for text in texts if text is not None}) == 1


def test_part_of_a_record_has_its_columns_and_defaults(path: Path) -> None:
    other = replace(METHOD, params={"clip": 2.0})
    trials = [*(trial(n) for n in range(3)), *(trial(n, other) for n in range(2))]
    filled(path, *(record(one, Status.ERROR, estimate=None, fallback=1.5) for one in trials))
    with Store.open(path) as store:
        reader = store.reader()
        rows = reader.by_row()
        assert sorted(map(len, rows.values())) == [2, 3]
        for (world, method), places in rows.items():
            found = list(reader.results(places, ("status", "estimate", "fallback")))
            assert [place for place, _ in found] == list(places)
            for (_, some), (_, whole) in zip(found, reader.results(places), strict=True):
                part = some.record
                assert (part.key, some.run) == (whole.record.key, whole.run)
                assert part.trial.environment.identity_json == world
                assert part.trial.estimator.identity_json == method
                assert (part.status, part.estimate, part.fallback) == (Status.ERROR, None, 1.5)
                assert part.standard_error is None


def test_pages_of_the_file_are_not_mapped_into_memory(path: Path) -> None:
    filled(path, record(trial(0)))
    with contextlib.closing(connect(path, write=False)) as db:
        assert db.execute("PRAGMA mmap_size").fetchone() == (0,)


@pytest.mark.parametrize("damaged", ["[1]", "{}, {}", "1", "{"])
def test_diagnostics_that_are_no_object_are_damage(damaged: str, path: Path) -> None:
    filled(path, record(trial(0)), record(trial(1)))
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE record SET diagnostics = ? WHERE id = 1", (damaged,))
        db.commit()
    with Store.open(path) as store, pytest.raises(StoreError, match=r"ope-bench\.sqlite"):
        list(store.outcomes())
