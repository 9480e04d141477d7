"""Outcomes by column say what the records say."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from ope_bench.outcomes import OF_RECORD, OF_STORE, OF_TRIAL, STATUSES, Outcomes
from ope_bench.plugins.spec import PluginSpec
from ope_bench.trials.record import TrialRecord
from ope_bench.trials.status import Device, Status
from support.stored_records import METHOD, record, trial

RECORDS = [
    record(trial(3, seed=7), diagnostics={"a": 1.5}, access=("propensity",), exclusive=True),
    record(trial(1, device=Device.CUDA), Status.ERROR, estimate=None, error_type="ValueError"),
    record(trial(0, threads=2), interval_low=-1.0, interval_kind="asymptotic", peak_rss_bytes=9),
]


def values(column: Any) -> list[Any]:
    return [None if isinstance(one, float) and math.isnan(one) else one for one in column.tolist()]


def test_every_column_has_the_values_of_the_records() -> None:
    outcomes = Outcomes.of(RECORDS)
    assert {*OF_TRIAL, *OF_RECORD, *OF_STORE, "run", "code", "part"} == {
        one.name for one in fields(Outcomes)
    }
    assert [STATUSES[number] for number in outcomes.status] == [one.status for one in RECORDS]
    for name in set(OF_RECORD) - {"status"}:
        assert values(getattr(outcomes, name)) == [getattr(one, name) for one in RECORDS], name
    for name in OF_TRIAL:
        told = [getattr(one.trial, name) for one in RECORDS]
        assert values(getattr(outcomes, name)) == told, name


@pytest.mark.parametrize("count", [0, 1, 2])
def test_tuples_stay_tuples_however_many_there_are(count: int) -> None:
    records = [record(trial(n), access=("a", "b")) for n in range(count)]
    assert Outcomes.of(records).access.tolist() == [("a", "b")] * count


def test_the_last_of_equal_keys_counts() -> None:
    first, second, other = (
        record(trial(n), estimate=e) for n, e in ((0, 1.0), (0, 2.0), (1, 3.0))
    )
    newest = Outcomes.of([first, second, other]).newest()
    assert dict(zip(newest.key, newest.estimate, strict=True)) == {first.key: 2.0, other.key: 3.0}
    assert newest.key.tolist() == sorted(newest.key)


def test_rows_are_told_apart_by_estimator_device_and_threads() -> None:
    other = PluginSpec("estimator", "dm", "dm", {}, origin="ope-bench 0.1.0")
    elsewhere = replace(METHOD, origin="ope-bench 0.2.0")
    trials = [
        *(trial(0), trial(1, other), trial(2)),
        *(trial(3, elsewhere), trial(4, device=Device.CUDA), trial(5, threads=2)),
    ]
    outcomes = Outcomes.of(record(one) for one in trials)
    rows = [row.replicate.tolist() for row in outcomes.by_row()]
    assert rows == [[0, 2, 3], [1], [4], [5]]
    rows = [row.replicate.tolist() for row in outcomes.by_row(threads=False)]
    assert rows == [[0, 2, 3, 5], [1], [4]]


def test_settings_are_told_apart_by_what_enters_keys() -> None:
    worlds = [
        PluginSpec("environment", "toy", "toy", {"n": n}, origin=o) for n in "21" for o in "ab"
    ]
    records: list[TrialRecord] = [record(replace(trial(0), environment=one)) for one in worlds]
    found = [group.environment.tolist() for group in Outcomes.by_setting(records)]
    assert found == [worlds[:2], worlds[2:]]


def test_a_choice_of_specs_keeps_their_trials() -> None:
    other = PluginSpec("estimator", "dm", "dm")
    outcomes = Outcomes.of(record(trial(n, [METHOD, other][n % 2])) for n in range(4))
    assert outcomes.where("estimator", lambda spec: spec.id == "dm").replicate.tolist() == [1, 3]
    assert len(outcomes.where("environment", lambda _: False)) == 0
    assert outcomes.where("environment", lambda _: True) is outcomes


def test_a_reason_counts_as_withheld_only_without_a_standard_error() -> None:
    from ope_bench import STANDARD_ERROR_WITHHELD

    facts = {STANDARD_ERROR_WITHHELD: "too few"}
    records = [
        record(trial(0), diagnostics=facts),
        record(trial(1), diagnostics=facts, standard_error=0.1),
        record(trial(2)),
    ]
    assert Outcomes.of(records).withheld() == ["too few"]
    assert [one.withheld for one in records] == ["too few", None, None]


def test_a_number_that_does_not_exist_is_no_number() -> None:
    outcomes = Outcomes.of([record(estimate=None)])
    assert np.isnan(outcomes.estimate).all()
    assert np.isnan(outcomes.n_logged_actions).all()


def test_parts_that_come_one_after_another_are_joined() -> None:
    whole = Outcomes.of(RECORDS)
    parts = (whole.take(slice(at, at + 1)) for at in range(len(RECORDS)))
    joined = Outcomes.joined(parts, len(RECORDS) + 5)
    for name, column in vars(joined).items():
        assert values(column) == values(getattr(whole, name)), name
        assert len(column) == len(RECORDS)
