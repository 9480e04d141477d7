"""A suite's salt makes every data seed another, and travels with its trials."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ope_bench.base.errors import SuiteError
from ope_bench.gate import baseline
from ope_bench.store import Store
from ope_bench.store.export import rows_of
from ope_bench.suites.manifest import plan
from ope_bench.suites.suite import Suite, adhoc, read_suite
from ope_bench.trials.record import TrialRecord
from ope_bench.trials.trial import Workspace, run_trial

WORLDS = (
    "saito-toy[n_samples=60,n_actions=4]",
    "saito-toy[n_samples=60,n_actions=4,worlds=fixed]",
    "population[world=3,n_samples=60]",
    "damaged[environment='population[world=151,n_samples=60,known=policy]',drawn=true]",
    "damaged[environment='population[world=3,n_samples=60]']",
)


def _suite(salt: str = "") -> Suite:
    return replace(adhoc(WORLDS, ["logging-average"]), replicates=1, salt=salt)


def _records(salt: str) -> list[TrialRecord]:
    return [run_trial(trial, Workspace()) for trial in plan(_suite(salt)).trials]


@pytest.fixture(scope="module")
def salted() -> dict[str, list[TrialRecord]]:
    return {salt: _records(salt) for salt in ("", "a", "b")}


def test_each_salt_has_keys_data_and_truths_of_its_own(
    salted: dict[str, list[TrialRecord]],
) -> None:
    for records in zip(*salted.values(), strict=True):
        assert {record.status.value for record in records} == {"ok"}
        for fact in ("key", "truth_expected", "estimate"):
            assert len({getattr(record, fact) for record in records}) == 3, fact
        assert len({record.trial.data_key for record in records}) == 3


def test_without_a_salt_keys_are_what_they_were() -> None:
    (trial, *_) = plan(_suite()).trials
    assert trial.key == "8dcf55bb06370a10ff64b48dd6f10c402db38a72f92af148067ed970c7ba2e85"


def test_worlds_and_faults_are_drawn_with_the_salt(salted: dict[str, list[TrialRecord]]) -> None:
    facts = [sorted(map(str, records[3].diagnostics.items())) for records in salted.values()]
    assert len(set(map(tuple, facts))) == 3
    sizes = [records[2].diagnostics["world_actions"] for records in salted.values()]
    assert len(set(sizes)) > 1


def test_an_environment_that_wraps_another_has_its_data_under_a_salt(
    salted: dict[str, list[TrialRecord]],
) -> None:
    for records in salted.values():
        assert records[2].truth_expected == records[4].truth_expected
        assert records[2].estimate == records[4].estimate


def test_store_export_and_baseline_keep_the_salt(
    salted: dict[str, list[TrialRecord]], tmp_path: Path
) -> None:
    records = [record for some in salted.values() for record in some]
    with Store.open(tmp_path / "store.sqlite", write=True) as store:
        run = store.begin_run(suite="salted", truth="expected")
        for record in records:
            store.add(record, run)
        store.end_run(run, 0)
        found = {record.key: record.trial for record in store.records()}
        assert found == {record.key: record.trial for record in records}
        assert [trial.key for trial in found.values()] == list(found)
        rows = {row["key"]: row["salt"] for row in rows_of(store.results())}
        data = [key for outcomes in store.outcomes() for key in outcomes.data_key.tolist()]
    assert rows == {key: trial.salt for key, trial in found.items()}
    assert len(set(data)) == len(records)
    names = baseline.SpecNames.of(records)
    again = list(baseline.records_of(baseline.lines_of(records, names), names))
    assert {one.key for one in again} == set(found)


def test_a_suite_file_names_a_salt(tmp_path: Path) -> None:
    text = "schema: 1\nenvironments: [saito-toy]\nestimators: [ipw]\n"
    path = tmp_path / "mine.yaml"
    path.write_text(text + "salt: abc\n")
    assert read_suite(path).salt == "abc"
    assert {trial.salt for trial in plan(read_suite(path)).trials} == {"abc"}
    path.write_text(text + "salt: ''\n")
    with pytest.raises(SuiteError, match=r"mine\.yaml:4"):
        read_suite(path)
