"""Results made again from their committed trials: what is kept, and what runs anew."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from verbs import folders, keep

from ope_bench.store import Store
from ope_bench.suites.manifest import plan
from ope_bench.suites.suite import read_suite

SUITE = """schema: 1
title: Two settings of two estimators
replicates: 2
seed: 0
environments:
  - saito-toy: {n_samples: 50, n_actions: [3, 4]}
estimators: [logging-average, ipw, {ipw: {clip: 2.5}}]
"""

WRONG = 17.0
"""No estimate of any trial; where it stands afterwards, the committed trial was kept."""

Estimates = dict[tuple[str, str], set[float]]
"""Estimates by id and parameters of an estimator."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of results of a small suite of the field."""
    path = tmp_path / "field-small.yaml"
    path.write_text(SUITE, encoding="utf-8")
    monkeypatch.setattr(folders, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(keep, "find_suite", lambda name: read_suite(path, name))
    made: Path = folders.folder_of("field-small")
    made.mkdir(parents=True)
    return made


def _made_again(folder: Path, anew: Collection[str] = ()) -> Estimates:
    keep.remake("field-small", jobs=1, run_missing=True, anew=anew)
    found: Estimates = {}
    for row in pq.read_table(folder / "trials.parquet").to_pylist():
        found.setdefault((row["estimator"], row["params"]), set()).add(row["estimate"])
    return found


def _spoil(folder: Path, **more: list[str]) -> None:
    """Replace all committed estimates, and forget the store from which they came.

    Parameters
    ----------
    more : values of further columns that are replaced.
    """
    path = folder / "trials.parquet"
    table = pq.read_table(path)
    for name, values in {"estimate": [WRONG] * len(table), **more}.items():
        place = table.column_names.index(name)
        wrong = pa.array(values, table.schema.field(name).type)
        table = table.set_column(place, name, wrong)
    pq.write_table(table, path)
    keep.store_of("field-small").unlink()


def test_suites_of_the_field_keep_committed_trials_and_run_anew_what_is_named(
    folder: Path,
) -> None:
    first = _made_again(folder)
    assert [len(values) for values in first.values()] == [4, 4, 4]
    # One page shows all suites of the field: none has boards of its own.
    assert not (folder / "leaderboard.md").exists()
    _spoil(folder)
    kept = {name: {WRONG} for name in first}
    assert _made_again(folder) == kept
    clipped = {name: values for name, values in first.items() if "2.5" in name[1]}
    assert len(clipped) == 1
    assert _made_again(folder, ["2.5"]) == kept | clipped
    weighted = {name: values for name, values in first.items() if name[0] == "ipw"}
    assert _made_again(folder, ["ipw"]) == kept | weighted
    facts = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert facts["trials"] == facts["status"]["ok"] == 12
    assert [run["planned"] for run in facts["runs"]] == [12, 4, 8]


def test_each_trial_names_the_run_that_made_it_after_an_interruption(folder: Path) -> None:
    manifest = plan(read_suite(folder.parents[1] / "field-small.yaml", "field-small"))
    keep.run_trials(manifest, manifest.trials[:3], jobs=1)
    _made_again(folder)
    runs = [run["id"] for run in json.loads((folder / "run.json").read_text())["runs"]]
    rows = pq.read_table(folder / "trials.parquet").to_pylist()
    assert [row["run_id"] for row in rows] == [row["made_by"] for row in rows]
    assert [sum(row["run_id"] == run for row in rows) for run in runs] == [3, 9]
    with Store.open(folder / "trials.parquet") as store:
        assert {run.id for run in store.runs() if run.machine} == {*runs}


def test_what_gains_data_sets_runs_anew_where_its_code_has_changed(folder: Path) -> None:
    first = _made_again(folder)
    rows = pq.read_table(folder / "trials.parquet").to_pylist()
    former = ["former" if row["estimator"] == "ipw" else row["code_digest"] for row in rows]
    _spoil(folder, code_digest=former)
    suite = folder.parents[1] / "field-small.yaml"
    # Code alone is no reason: the same key means the same numbers.
    assert _made_again(folder) == {name: {WRONG} for name in first}
    suite.write_text(SUITE.replace("replicates: 2", "replicates: 3"), encoding="utf-8")
    for (name, _), values in _made_again(folder).items():
        assert (len(values), WRONG in values) == ((6, False) if name == "ipw" else (3, True))
    rows = pq.read_table(folder / "trials.parquet").to_pylist()
    assert "former" not in {row["code_digest"] for row in rows}
    # Where nothing may run, nothing is lost.
    _spoil(folder, code_digest=["former"] * len(rows))
    suite.write_text(SUITE.replace("replicates: 2", "replicates: 4"), encoding="utf-8")
    keep.remake("field-small", jobs=1, run_missing=False)
    assert len(pq.read_table(folder / "trials.parquet")) == len(rows)
