"""An export is a store: what is read from it is what the store holds."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ope_bench.base.errors import StoreError
from ope_bench.cli.app import invoke
from ope_bench.plugins.spec import PluginSpec
from ope_bench.store import Store
from ope_bench.store.export import COLUMNS, rows_of, writer_for
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Device, Status
from support.stored_records import METHOD, begin, record

WORLD = PluginSpec(
    "environment",
    "./toys.py:Toy",
    "toy",
    {"n": [1, 2], "name": "ä"},
    label="a toy",
    worlds="fixed",
    version=3,
    origin="toys 1.0",
)
NAMED = replace(METHOD, label="mine", params={"clip": 2.5})


def _records() -> list[TrialRecord]:
    trials = [
        Trial(WORLD, NAMED, 0, seed=4, device=Device.CPU_BATCH, threads=3, salt="s"),
        Trial(WORLD, NAMED, 1, seed=4),
        Trial(replace(WORLD, version=2, label=""), METHOD, 0),
    ]
    facts = {
        "fallback": 0.25,
        "truth_expected": 0.5,
        "truth_expected_se": 0.01,
        "truth_empirical": 0.75,
        "logging_average": 0.125,
        "unsupported_mass": 0.1,
        "n_logged_actions": 4,
        "ess_fraction": 0.3,
        "shared_seconds": 0.5,
        "exclusive": True,
        "diagnostics": {"zeta": 1.5, "alpha": "word", "flag": True},
        "access": ("propensity", "reward"),
        "note": "set a seed",
        "interval_low": 0.1,
        "interval_high": 0.9,
        "interval_level": 0.9,
        "interval_kind": "guaranteed",
    }
    origins = {"origin": METHOD.origin, "environment_origin": "toys 1.0 (surrogate)"}
    failed = {"estimate": None, "error_type": "E", "error_message": "=1+1", **origins}
    return [
        record(trials[0], **facts, **origins),
        record(trials[1], Status.ERROR, **failed),
        record(trials[2], code_digest="other", **origins),
    ]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two runs of two kinds of truth, the second of which reuses a trial of the first."""
    path = tmp_path / "a.sqlite"
    first, second, third = _records()
    with Store.open(path, write=True) as opened:
        facts = {"machine": {"cpu": "x", "arithmetic": {"mode": "portable"}}, "plan": "p"}
        run = begin(opened, suite="one", truth="expected", command="ope-bench run", **facts)
        opened.add(first, run, estimator_digest="own")
        opened.add(second, run)
        opened.end_run(run, 0)
        again = begin(opened, suite="two", truth="empirical")
        opened.reuse([first], again)
        opened.add(third, again)
        opened.end_run(again, 1)
    return path


def _exported(store: Path, name: str) -> Path:
    to = store.with_name(name)
    with Store.open(store) as opened:
        writer_for(to)(to, rows_of(opened.results()), opened.runs())
    return to


def test_what_is_read_from_an_export_is_what_the_store_holds(store: Path) -> None:
    with Store.open(store) as one, Store.open(_exported(store, "b.parquet")) as other:
        assert list(other.results()) == list(one.results())
        assert other.runs() == one.runs()
        assert {*map(str, (x.record.trial.device for x in other.results()))} == {
            "cpu",
            "cpu-batch",
        }
        for ours, theirs in zip(one.outcomes(), other.outcomes(), strict=True):
            for column in fields(ours):
                values = (list(getattr(x, column.name)) for x in (ours, theirs))
                assert [*map(str, next(values))] == [*map(str, next(values))], column.name


def test_an_export_of_an_export_has_the_same_bytes(store: Path) -> None:
    first = _exported(store, "b.parquet")
    assert _exported(first, "c.parquet").read_bytes() == first.read_bytes()


@pytest.mark.parametrize("by", ["rmse", "positivity", "coverage", "regret"])
def test_boards_of_an_export_are_those_of_its_store(
    store: Path, by: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = []
    for path in (store, _exported(store, "b.parquet")):
        assert invoke(["leaderboard", "--store", str(path), "--by", by, "--format", "json"]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]
    assert json.loads(told[0])["boards"]


def test_an_export_of_an_older_version_is_read_with_the_version_that_its_keys_name(
    store: Path, tmp_path: Path
) -> None:
    spec = PluginSpec("environment", "damaged", "damaged", {"drawn": True}, version=1)
    path = tmp_path / "old.sqlite"
    with Store.open(path, write=True) as opened:
        run = begin(opened, truth="expected", machine={"cpu": "y"})
        opened.add(record(Trial(spec, METHOD, 0)), run)
        (made,) = opened.runs()
    new = _exported(path, "new.parquet")
    older = list(COLUMNS)[: list(COLUMNS).index("threads")]
    table = pq.read_table(new).select([*older[:11], "status", "estimate"])
    pq.write_table(table.replace_schema_metadata(None), tmp_path / "trials.parquet")
    with Store.open(tmp_path / "trials.parquet") as opened:
        (found,) = opened.results()
        assert found.record.trial.environment.identity == spec.identity
        assert found.record.key == found.record.trial.key
        assert found.record.estimate == 0.5
        assert [run.suite for run in opened.runs()] == [made.suite]
    # The facts of its runs may lie beside it.
    facts = {"runs": [vars(made) | {"truth": "empirical", "unknown": 1}]}
    (tmp_path / "run.json").write_text(json.dumps(facts), encoding="utf-8")
    with Store.open(tmp_path / "trials.parquet") as opened:
        assert [(run.truth, run.machine) for run in opened.runs()] == [("empirical", {"cpu": "y"})]
    wrong = {"planned": "12", "machine": 5, "suite": None, "truth": "mine", "exit_code": True}
    for key, value in wrong.items():
        told = {"runs": [vars(made) | {key: value}]}
        (tmp_path / "run.json").write_text(json.dumps(told), encoding="utf-8")
        with (
            pytest.raises(StoreError, match=rf"trials\.parquet.* runs\.0\.{key}: expected"),
            Store.open(tmp_path / "trials.parquet"),
        ):
            pass


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda path: None, "no export"),
        (lambda path: path.write_text("x"), "is not an export"),
        (
            lambda path: pq.write_table(pa.table({"key": ["a"]}), path),
            "lacks the column code_digest",
        ),
        (lambda path: path.mkdir(), "no export"),
    ],
)
def test_what_is_no_export_is_refused_in_a_line(tmp_path: Path, made, told: str) -> None:
    path = tmp_path / "x.parquet"
    made(path)
    with pytest.raises(StoreError, match=told):
        Store.open(path)


def test_an_export_is_not_written(store: Path) -> None:
    with pytest.raises(StoreError, match="only read"):
        Store.open(_exported(store, "b.parquet"), write=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [("params", "[]"), ("params", "{"), ("device", "tpu"), ("status", "fine"), ("key", None)],
)
def test_values_that_no_export_has_are_refused(store: Path, name: str, value: object) -> None:
    path = _exported(store, "b.parquet")
    table = pq.read_table(path)
    place = table.column_names.index(name)
    column = pa.array([value] * len(table), pa.string())
    pq.write_table(table.set_column(place, name, column), path)
    with pytest.raises(StoreError, match="not an export"):
        Store.open(path)


def test_a_store_loads_no_reader_of_tables():
    """Each run imports it; tables are read and written where one is asked for."""
    code = (
        "import ope_bench.store, sys; print([x for x in sys.modules if 'ope_bench.reader' in x])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
