"""The store keeps what it is given and refuses, in one line, what is not its own."""

from __future__ import annotations

import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ope_bench.base.errors import StoreError
from ope_bench.store import Freshness, Store
from ope_bench.trials.record import Trial, TrialRecord, facts_from, plain_facts
from ope_bench.trials.status import Status
from support.stored_records import METHOD, WORLD, begin, filled, record, trial


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ope-bench.sqlite"


def test_a_record_comes_back_as_it_went_in(path: Path) -> None:
    everything = record(
        status=Status.POSITIVITY,
        standard_error=1e-300,
        fallback=0.1 + 0.2,
        truth_expected=-0.0,
        truth_expected_se=0.0,
        truth_empirical=1 / 3,
        logging_average=1e308,
        unsupported_mass=0.25,
        observed_unsupported_mass=0.5,
        n_logged_actions=9,
        n_target_actions=10,
        ess_fraction=0.1,
        max_weight_share=0.9,
        fit_seconds=1.5,
        fit_cpu_seconds=1.25,
        estimate_seconds=0.5,
        shared_seconds=0.125,
        peak_rss_bytes=1 << 40,
        gpu_peak_bytes=0,
        exclusive=True,
        diagnostics={"a": 0.1, "b": "π", "c": None, "d": True, "e": 7},
        access=("propensity", "target_policy"),
        origin="ope-bench 0.1.0",
        environment_origin="acme 1 (surrogate)",
        error_type="PositivityViolation",
        error_message="line one\nline two \U0001f3b2",
        traceback="Traceback",
        output_tail="\0 odd \x1b[0m",
        note="changed the locale",
        interval_low=-0.5,
        interval_high=0.75,
        interval_level=0.9,
        interval_kind="guaranteed",
    )
    left_out = [f.name for f in fields(TrialRecord) if getattr(everything, f.name) is None]
    assert not left_out, "the test must set every field"
    plain = record(trial(1))
    filled(path, everything, plain)
    with Store.open(path) as store:
        found = {one.key: one for one in store.records()}
    assert found == {everything.key: everything, plain.key: plain}


@settings(max_examples=100)
@given(
    st.dictionaries(
        st.text(max_size=5),
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=20),
        max_size=4,
    ),
    st.text(st.characters(exclude_categories=[]), max_size=20),
    st.floats(allow_nan=False),
)
def test_facts_become_plain_values_and_facts_again(
    diagnostics: dict[str, Any], message: str, estimate: float
) -> None:
    facts = {"diagnostics": diagnostics, "error_message": message, "estimate": estimate}
    again = facts_from(plain_facts(facts))
    assert again["diagnostics"] == diagnostics
    assert again["estimate"] == estimate
    assert again["error_message"] == message.encode("utf-8", "backslashreplace").decode()


def test_the_newest_run_counts_and_runs_can_be_asked_for(path: Path) -> None:
    first = filled(path, record(estimate=1.0), record(trial(1), estimate=2.0))
    second = filled(path, record(estimate=3.0), suite="other")
    with Store.open(path) as store:
        assert sorted(r.estimate or 0 for r in store.records()) == [2.0, 3.0]
        assert sorted(r.estimate or 0 for r in store.records(run=first)) == [1.0, 2.0]
        assert [r.estimate for r in store.records(suite="other")] == [3.0]
        assert [run.id for run in store.runs()] == [first, second]
        assert not list(store.records(suite="unknown"))
        with pytest.raises(StoreError, match="no run begins with 'nope'"):
            list(store.records(run="nope"))


def test_what_was_written_last_counts_whatever_the_clock_said(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = 86_400.0
    clock = time.time()
    monkeypatch.setattr(time, "time", lambda: clock)
    filled(path, record(status=Status.ERROR, estimate=None))
    monkeypatch.setattr(time, "time", lambda: clock - day)
    filled(path, record(estimate=2.0))
    with Store.open(path, write=True) as store:
        assert [one.estimate for one in store.records()] == [2.0]
        assert store.find(record().key).estimate == 2.0
        fresh = store.current([trial()], Freshness(lambda _: "c0de"))
        assert [one.estimate for one in fresh.values()] == [2.0]
        store.reuse(fresh.values(), run := begin(store))
        assert [one.estimate for one in store.records(run=run)] == [2.0]
        other = path.with_name("other.sqlite")
        # Another machine, whose clock was set back between its two runs of the next trial.
        for shift, estimate in ((0.0, 5.0), (-2 * day, 6.0)):
            monkeypatch.setattr(time, "time", lambda shift=shift: clock + shift)
            filled(other, record(trial(1), estimate=estimate))
        with Store.open(other) as theirs:
            store.merge(theirs)
        assert sorted(one.estimate or 0.0 for one in store.records()) == [2.0, 6.0]
        assert store.prune()
        assert sorted(one.estimate or 0.0 for one in store.records()) == [2.0, 6.0]
    with Store.open(path, write=True) as store:
        fresh = store.current([trial(), trial(1)], Freshness(lambda _: "c0de"))
        assert sorted(one.estimate or 0.0 for one in fresh.values()) == [2.0, 6.0]


def test_a_clock_set_back_during_a_run_does_not_end_it_before_it_began(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = time.time()
    with Store.open(path, write=True) as store:
        monkeypatch.setattr(time, "time", lambda: clock)
        run = begin(store)
        monkeypatch.setattr(time, "time", lambda: clock - 86_400.0)
        store.end_run(run, 0)
        (stored,) = store.runs()
    assert stored.finished is not None
    assert 0 <= stored.finished - stored.started < 3_600


def test_two_suites_with_different_truth_give_two_results(path: Path) -> None:
    filled(path, record())
    filled(path, record(), suite="other", truth="expected")
    with Store.open(path) as store:
        assert sorted(result.run.truth for result in store.results()) == ["empirical", "expected"]
        assert len(list(store.records())) == 1


def test_a_reused_record_belongs_to_several_runs_under_their_own_labels(path: Path) -> None:
    given_one = record(trial(method=replace(METHOD, label="mine")))
    first = filled(path, given_one)
    with Store.open(path, write=True) as store:
        planned = trial(method=replace(METHOD, label="yours"))
        fresh = store.current([planned], Freshness(lambda _: "c0de"))
        second = begin(store, suite="other", machine={"cpu": "another"})
        store.reuse(fresh.values(), second)
        labels = {
            result.run.id: result.record.trial.estimator.label
            for run in (first, second)
            for result in store.results(run=run)
        }
        assert labels == {first: "mine", second: "yours"}
        assert [result.made_by for result in store.results(run=second)] == [first]
        assert store.machines_of_reused(second) == [({}, 1)]
        assert store.info().records == 1


@pytest.mark.parametrize(
    ("stored", "limits", "now", "reused"),
    [
        ({}, {}, {}, True),
        ({"code_digest": "old"}, {}, {}, False),
        ({"status": Status.ERROR}, {}, {}, True),
        ({"status": Status.ERROR}, {}, {"retry": "failed"}, False),
        ({"status": Status.POSITIVITY}, {}, {"retry": "failed"}, True),
        ({}, {}, {"retry": "all"}, False),
        ({"status": Status.UNAVAILABLE}, {}, {}, False),
        ({"status": Status.TIMEOUT}, {"timeout": 5.0}, {"timeout": 5.0}, True),
        ({"status": Status.TIMEOUT}, {"timeout": 5.0}, {"timeout": 1.0}, True),
        ({"status": Status.TIMEOUT}, {"timeout": 5.0}, {"timeout": 6.0}, False),
        ({"status": Status.TIMEOUT}, {"timeout": 5.0}, {}, False),
        ({"status": Status.MEMORY}, {"memory": 5}, {"memory": 5}, True),
        ({"status": Status.MEMORY}, {"memory": 5}, {"memory": 6}, False),
        ({"status": Status.MEMORY}, {}, {}, True),
        ({}, {"timeout": 5.0}, {"timeout": 6.0}, True),
        ({}, {}, {"exclusive": lambda _: True}, False),
        ({"exclusive": True}, {}, {"exclusive": lambda _: True}, True),
        ({"exclusive": True}, {}, {}, True),
    ],
)
def test_a_stored_record_is_reused_only_while_it_is_current(
    stored: dict[str, Any], limits: dict[str, Any], now: dict[str, Any], reused: bool, path: Path
) -> None:
    one = record(**stored)
    with Store.open(path, write=True) as store:
        store.add(one, begin(store), **limits)
        found = store.current([trial(), trial(1)], Freshness(lambda _: "c0de", **now))
    assert found == ({one.key: one} if reused else {})


def code(digest: str) -> Freshness:
    return Freshness(lambda _: digest)


def test_the_newest_record_of_the_current_code_is_the_one_reused(path: Path) -> None:
    with Store.open(path, write=True) as store:
        run = begin(store)
        for digest, estimate in (("a", 1.0), ("b", 2.0), ("a", 3.0), ("b", 4.0)):
            store.add(record(code_digest=digest, estimate=estimate), run)
        for digest, estimate in (("a", 3.0), ("b", 4.0)):
            (found,) = store.current([trial()], code(digest)).values()
            assert found.estimate == estimate
        store.add(record(code_digest="a", status=Status.UNAVAILABLE), run)
        assert not store.current([trial()], code("a"))


def test_a_key_is_found_by_its_beginning(path: Path) -> None:
    one = record()
    filled(path, one, record(trial(1)))
    with Store.open(path) as store:
        assert store.find(one.key[:12]) == one
        assert store.find(one.key[:12].upper()) == one
        with pytest.raises(StoreError, match="no key begins with 'zz'"):
            store.find("zz")
        with pytest.raises(StoreError, match="2 keys begin with ''"):
            store.find("")


def test_seconds_are_those_of_the_cell(path: Path) -> None:
    filled(
        path,
        record(fit_seconds=1.0, estimate_seconds=1.0),
        record(trial(1), fit_seconds=3.0, estimate_seconds=1.0, shared_seconds=2.0),
        record(trial(2), status=Status.CRASH),
    )
    with Store.open(path) as store:
        other = replace(METHOD, params={"clip": 1.0})
        found = store.seconds([trial(7), trial(7, other)])
    assert found == {trial(7).key: (2.0, 3.0)}


def test_pruning_drops_what_newer_runs_replaced(path: Path) -> None:
    filled(path, record(estimate=1.0), record(trial(1), estimate=2.0))
    filled(path, record(estimate=3.0))
    with Store.open(path, write=True) as store:
        before = list(store.records())
        assert store.prune() == 1
        assert list(store.records()) == before
        assert store.info().records == 2
        assert store.prune() == 0


def test_pruning_that_cannot_shrink_the_file_says_what_is_deleted(path: Path) -> None:
    filled(path, record(estimate=1.0))
    filled(path, record(estimate=3.0))
    with Store.open(path, write=True) as store:
        # SQLite refuses VACUUM while a query is open.
        rows = store._db.execute("SELECT 1 UNION SELECT 2")
        rows.fetchone()
        with pytest.raises(StoreError, match=r"VACUUM.*; 1 outcomes are deleted"):
            store.prune()
        rows.close()
        assert store.prune() == 0


def test_merging_takes_over_what_is_new(path: Path, tmp_path: Path) -> None:
    filled(path, record(estimate=1.0), machine={"cpu": "a"})
    other = tmp_path / "other.sqlite"
    labelled = replace(METHOD, label="named")
    filled(other, record(trial(1, labelled), estimate=2.0), machine={"cpu": "b"})
    with Store.open(other) as theirs, Store.open(path, write=True) as ours:
        assert ours.merge(theirs) == 1
        assert ours.merge(theirs) == 0
        results = {result.record.estimate: result for result in ours.results()}
        assert results[2.0].record.trial.estimator.label == "named"
        assert results[2.0].run.machine == {"cpu": "b"}
        assert results[1.0].run.machine == {"cpu": "a"}


def test_results_come_in_an_order_of_content(path: Path, tmp_path: Path) -> None:
    records = [record(trial(replicate)) for replicate in range(20)]
    other = tmp_path / "other.sqlite"
    filled(path, *records)
    filled(other, *records[::-1])
    with Store.open(path) as one, Store.open(other) as two:
        assert [r.key for r in one.records()] == [r.key for r in two.records()]


def test_more_trials_than_one_query_asks_for_are_all_looked_up(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = [trial(number) for number in range(7)]
    filled(path, *(record(one) for one in trials[:5]))
    monkeypatch.setattr("ope_bench.store.store.KEYS_AT_ONCE", 3)
    with Store.open(path) as store:
        found = store.current(iter(trials), Freshness(lambda _: "c0de"))
    assert set(found) == {one.key for one in trials[:5]}


def test_results_are_handed_out_while_others_are_still_in_the_file(path: Path) -> None:
    filled(path, *(record(trial(number)) for number in range(3)))
    with Store.open(path) as store:
        results = store.results()
        first = next(results)
        again = {one.record.key for one in store.results()}
        assert {first.record.key, *(one.record.key for one in results)} == again


def test_results_come_setting_by_setting_whichever_version_of_a_plugin_made_them(
    path: Path,
) -> None:
    worlds = [replace(WORLD, params={"n_actions": n}, origin=o) for n in (2, 3) for o in "ab"]
    trials = [Trial(world, METHOD, number) for number in range(2) for world in worlds]
    filled(path, *(record(one, estimate=float(n)) for n, one in enumerate(trials)))
    with Store.open(path) as store:
        reader = store.reader()
        found = [
            [one.record for _, one in reader.results(places)]
            for places in reader.by_setting().values()
        ]
        together = [one.record for one in store.results()]
    assert [{one.trial.environment.params["n_actions"] for one in group} for group in found] == [
        {2},
        {3},
    ]
    assert sorted((one for group in found for one in group), key=lambda one: one.key) == together
