"""A baseline's rows and the trials that repeat them, and two sets of records side by side."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ope_bench.base.errors import UsageError
from ope_bench.gate import baseline as pairing
from ope_bench.gate.baseline import (
    Baseline,
    SuiteFacts,
    identity_of,
    map_given_parameters,
    pair_records,
    paired_rows,
    with_outcomes,
)


@pytest.fixture
def asked(monkeypatch):
    """What today's registry is asked for; its answer is the spec of the baseline."""
    calls, asked_specs = [], []

    def resolve(kind, reference, params, *, label=""):
        calls.append((kind, reference, dict(params), label))
        params = {name: value for name, value in params.items() if name != "worlds"}
        spec = next(one for one in asked_specs if (one.kind, one.id) == (kind, reference))
        return replace(spec, params=params)

    monkeypatch.setattr(pairing, "resolve", resolve)
    return calls, asked_specs


def baseline_of(asked, records, replicates=3, given=None):
    asked[1].extend(one.trial.environment for one in records)
    asked[1].extend(one.trial.estimator for one in records)
    return Baseline(SuiteFacts("toy", "empirical", replicates), tuple(records), given=given or {})


def fixed(record):
    """The same record on a setting whose one world is drawn once."""
    environment = replace(record.trial.environment, worlds="fixed")
    return replace(record, trial=replace(record.trial, environment=environment))


def test_a_row_of_one_replicate_is_a_row(asked, record):
    (row,) = paired_rows(baseline_of(asked, [record()]))
    assert [pair.before.trial.replicate for pair in row.pairs] == [0]
    assert (row.environment.id, row.estimator.id, row.device) == ("toy", "ipw", "cpu")


def test_replicates_beyond_the_suites_are_read_and_not_run(asked, record):
    records = [record(replicate=r) for r in range(6)]
    random.Random(0).shuffle(records)
    (row,) = paired_rows(baseline_of(asked, records, replicates=4))
    assert [pair.before.trial.replicate for pair in row.pairs] == [0, 1, 2, 3]
    assert all(pair.trial == pair.before.trial for pair in row.pairs)


def test_settings_estimators_and_devices_are_rows_of_their_own(asked, record):
    variants = [{}, {"estimator": "dm"}, {"n": 20}, {"device": "cuda"}, {"params": {"clip": 2}}]
    records = [record(replicate=r, **facts) for r in range(2) for facts in variants]
    rows = paired_rows(baseline_of(asked, records))
    assert [len(row.pairs) for row in rows] == [2] * 5


def test_only_an_environment_is_asked_for_with_its_worlds(asked, record):
    (row,) = paired_rows(baseline_of(asked, [fixed(record(params={"clip": 2}))]))
    environments = [params for kind, _, params, _ in asked[0] if kind == "environment"]
    assert environments == [{"n": 10, "worlds": "fixed"}] * len(environments)
    assert ("estimator", "ipw", {"clip": 2}, "") in asked[0]
    assert row.incomparable == row.gone == ""


def test_the_same_spec_is_resolved_once(asked, record):
    records = [record(name, r) for name in ("ipw", "dm") for r in range(3)]
    paired_rows(baseline_of(asked, records))
    estimators = sorted(reference for kind, reference, *_ in asked[0] if kind == "estimator")
    assert estimators == ["dm", "ipw"]


def test_given_parameters_of_today_are_those_that_today_knows(asked, record):
    first = record(params={"clip": 2, "old": 1})
    setting, method = first.trial.environment, first.trial.estimator
    noted = {identity_of(method): ("clip", "old"), identity_of(setting): ("n",)}
    given = baseline_of(asked, [first, record("dm")], given=noted)
    rows = paired_rows(given)
    gone = replace(rows[0], pairs=tuple(replace(one, trial=None) for one in rows[0].pairs))
    assert map_given_parameters(given, rows) == noted
    assert map_given_parameters(given, [gone]) == {}
    changed = replace(method, params={"clip": 2, "new": 3})
    trial = replace(rows[0].pairs[0].trial, estimator=changed)
    today = replace(rows[0], pairs=(replace(rows[0].pairs[0], trial=trial),))
    assert map_given_parameters(given, [today]) == {
        identity_of(changed): ("clip",),
        identity_of(setting): ("n",),
    }


def test_outcomes_are_filled_in_by_key(asked, record):
    records = [record(replicate=r) for r in range(4)]
    (row,) = paired_rows(baseline_of(asked, records, replicates=4))
    done = {one.key: replace(one, estimate=5.0) for one in records[1:3]}
    filled = with_outcomes(row, done)
    estimates = [one.after and one.after.estimate for one in filled.pairs]
    assert estimates == [None, 5.0, 5.0, None]
    lost = replace(row, pairs=tuple(replace(one, trial=None) for one in row.pairs))
    assert [one.after for one in with_outcomes(lost, done).pairs] == [None] * 4


def test_records_with_a_partner_are_rows_in_order_and_others_are_left_out(record):
    before = [record(name, r) for r in (2, 0, 3, 1) for name in ("ipw", "dm")]
    after = {one.key: one for one in before if (one.trial.estimator.id, one.trial.replicate) !=
             ("dm", 3)}  # fmt: skip
    rows = pair_records(before, after)
    found = {row.estimator.id: [one.before.trial.replicate for one in row.pairs] for row in rows}
    assert found == {"ipw": [0, 1, 2, 3], "dm": [0, 1, 2]}
    assert all(one.after is after[one.before.key] for row in rows for one in row.pairs)


def test_changes_of_parameters_are_noted_and_an_environment_keeps_its_own(monkeypatch, record):
    """The suite sets ``kept`` alone; all others have today's defaults."""
    today = {"estimator": {"clip": 5, "new": 1}, "environment": {"n": 20, "more": True}}

    def resolve(kind, reference, params, *, label=""):
        spec = first.trial.estimator if kind == "estimator" else first.trial.environment
        params = {name: value for name, value in params.items() if name not in ("worlds", "old")}
        return replace(spec, params={**today[kind], **params})

    monkeypatch.setattr(pairing, "resolve", resolve)
    first = record(params={"clip": 2, "kept": 3, "old": 4})
    specs = first.trial.estimator, first.trial.environment
    given = {identity_of(specs[0]): ("kept",), identity_of(specs[1]): ()}
    (row,) = paired_rows(Baseline(SuiteFacts("toy", "empirical", 3), (first,), given=given))
    assert row.notes == (
        "toy has a new parameter more=True",
        f"toy: default n 10 -> 20; {pairing.KEPT}",
        "ipw has a new parameter new=1",
        "ipw has no parameter old any more (was 4)",
        "ipw: default clip 2 -> 5",
    )
    (again,) = row.pairs
    assert again.trial.estimator.params == {"clip": 5, "new": 1, "kept": 3}
    assert again.trial.environment.params == {"n": 10, "more": True}


def test_a_spec_that_is_no_more_leaves_its_row_without_trials(monkeypatch, record):
    def resolve(kind, reference, params, *, label=""):
        if kind == "estimator":
            msg = "nobody knows it"
            raise UsageError(msg)
        return first.trial.environment

    monkeypatch.setattr(pairing, "resolve", resolve)
    first = record()
    (row,) = paired_rows(Baseline(SuiteFacts("toy", "empirical", 3), (first,), given={}))
    assert (row.gone, row.notes) == ("nobody knows it", ())
    assert [pair.trial for pair in row.pairs] == [None]


def test_another_version_of_the_environment_is_named(monkeypatch, record):
    first = record()

    def resolve(kind, reference, params, *, label=""):
        spec = first.trial.estimator if kind == "estimator" else first.trial.environment
        return replace(spec, version=spec.version + (kind == "environment"))

    monkeypatch.setattr(pairing, "resolve", resolve)
    (row,) = paired_rows(Baseline(SuiteFacts("toy", "empirical", 3), (first,), given={}))
    then = first.trial.environment.version
    assert row.incomparable == f"toy is now version {then + 1}, the baseline has {then}"
