from dataclasses import replace

import numpy as np
import pytest

from ope_bench.gate.judging import Judgement, Rules, Verdict, _detectable, judge
from ope_bench.gate.pairing import Pair, PairedRow, matched
from ope_bench.records import Status
from ope_bench.statistics.paired import swap_test


@pytest.fixture
def row():
    """A row of paired records."""

    def make(before, after, **facts):
        first = before[0].trial
        pairs = tuple(
            Pair(then, then.trial if now is None else now.trial, now)
            for then, now in zip(before, after, strict=True)
        )
        return PairedRow(first.environment, first.estimator, first.device, pairs, **facts)

    return make


@pytest.fixture
def judged(row):
    """The verdict on one row alone."""

    def make(before, after, rules=None, **facts):
        (found,) = judge([row(before, after, **facts)], "empirical", rules)
        return found

    return make


def scaled(records, factor):
    """The same trials with errors scaled."""
    return [
        replace(one, estimate=1.0 + factor * (one.estimate - 1.0)) if one.estimate else one
        for one in records
    ]


def test_bit_identical_rows_are_the_same_and_no_part_of_the_family(row, normal_row):
    same = [normal_row(f"e{i}", stream=i) for i in range(50)]
    rows = [row(one, one) for one in same]
    worse = normal_row("worse", stream=99)
    alone = judge([row(worse, scaled(worse, 1.3))], "empirical")[0]
    amid = judge([*rows, row(worse, scaled(worse, 1.3))], "empirical")
    assert {one.verdict for one in amid[:-1]} == {Verdict.SAME}
    assert amid[-1].p == alone.p
    assert amid[-1].verdict is Verdict.WORSE


def test_a_five_percent_degradation_of_every_error_is_caught(judged, normal_row):
    found = judged(normal_row(), scaled(normal_row(), 1.05))
    assert found.verdict is Verdict.WORSE
    assert found.ratio == pytest.approx(1.05**2)
    assert found.changed == found.n == 100


def test_growth_within_the_margin_passes(judged, normal_row):
    assert judged(normal_row(), scaled(normal_row(), 1.009)).verdict is Verdict.DRIFTED


def test_an_improvement_is_told(judged, normal_row):
    found = judged(normal_row(), scaled(normal_row(), 0.8))
    assert found.verdict is Verdict.BETTER
    assert found.improved == 1.0


def test_an_unproven_growth_is_undecided_and_says_what_could_have_been_seen(judged, normal_row):
    before = normal_row(replicates=100)
    noise = np.random.default_rng(1).normal(size=100)
    after = [
        replace(one, estimate=one.estimate + 0.05 * float(z))
        for one, z in zip(before, noise, strict=True)
    ]
    found = judged(before, after)
    assert found.verdict is Verdict.UNDECIDED
    assert 1.02 < found.ratio < 1 + found.detectable
    assert found.ratio_low < found.ratio < found.ratio_high


def test_the_detectable_change_is_detected_four_times_in_five():
    rng = np.random.default_rng(0)
    n, rho = 100, 0.99
    e0 = rng.normal(size=(400, n))
    e1 = rho * e0 + np.sqrt(1 - rho**2) * rng.normal(size=e0.shape)
    # A huge level: the first ten thousand swaps will do.
    errors = swap_test(np.square(e1), np.square(e0), level=1e6).standard_error
    detectable = [
        _detectable(Judgement(None, Verdict.SAME, n=n, standard_error=float(one)), 1, 0.01, 0.02)
        for one in errors
    ]
    grown = np.square(e1) * (1 + np.median(detectable))
    p = swap_test(grown, np.square(e0), null_ratio=1.02, level=1e6).p_greater
    assert (p <= 0.01).mean() == pytest.approx(0.8, abs=0.08)


def test_rounding_is_no_change_of_quality(judged, normal_row):
    before = normal_row()
    after = [replace(one, estimate=one.estimate * (1 + 1e-13)) for one in before]
    found = judged(before, after)
    assert found.verdict is Verdict.DRIFTED
    assert "rounding" in found.reason
    assert found.p is None


def test_a_changed_standard_error_alone_is_noted(judged, normal_row):
    before = normal_row(standard_error=0.1)
    found = judged(before, normal_row(standard_error=0.2))
    assert (found.verdict, found.ratio) == (Verdict.DRIFTED, 1.0)


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (Status.OK, Status.CRASH),
        (Status.OK, Status.POSITIVITY),
        (Status.OK, Status.UNAVAILABLE),
        (Status.POSITIVITY, Status.ERROR),
        (Status.ERROR, Status.UNAVAILABLE),
    ],
)
def test_one_worsened_status_fails_the_row(judged, normal_row, record, then, now):
    before = [*normal_row(replicates=30), record(replicate=30, status=then)]
    after = [*normal_row(replicates=30), record(replicate=30, status=now, error_type="Boom")]
    found = judged(before, after)
    assert found.verdict is Verdict.FAILED
    assert f"{then} -> {now}" in found.reason
    assert "replicate 30" in found.reason


def test_one_failure_turned_into_another_of_its_kind_passes(judged, normal_row, record):
    before = [*normal_row(replicates=30), record(replicate=30, status=Status.ERROR)]
    after = [*normal_row(replicates=30), record(replicate=30, status=Status.TIMEOUT)]
    assert judged(before, after).verdict is Verdict.DRIFTED


def test_an_estimator_that_warns_no_more_and_errs_more_is_worse(judged, record):
    before = [record(replicate=r, status=Status.POSITIVITY) for r in range(30)]
    after = [record(replicate=r, error=2.0 + 0.01 * r) for r in range(30)]
    assert judged(before, after).verdict is Verdict.WORSE


def test_an_estimator_that_warns_no_more_and_errs_less_is_better(judged, record):
    before = [record(replicate=r, status=Status.POSITIVITY) for r in range(30)]
    after = [record(replicate=r, error=0.1 + 0.001 * r) for r in range(30)]
    assert judged(before, after).verdict is Verdict.BETTER


def test_a_missing_outcome_is_missing(judged, normal_row):
    before = normal_row(replicates=5)
    found = judged(before, [*before[:4], None])
    assert found.verdict is Verdict.MISSING
    assert "1 of 5" in found.reason
    assert judged(before, before, gone="unknown estimator").verdict is Verdict.MISSING


def test_another_version_of_the_environment_is_not_compared(judged, normal_row):
    found = judged(normal_row(), scaled(normal_row(), 9.0), incomparable="version 2")
    assert (found.verdict, found.reason) == (Verdict.INCOMPARABLE, "version 2")


def test_other_data_under_the_same_version_fail(judged, normal_row):
    after = [replace(one, logging_average=0.6) for one in normal_row()]
    found = judged(normal_row(), after)
    assert found.verdict is Verdict.FAILED
    assert "still version 1" in found.reason


def test_all_zero_errors_then_and_now_and_from_zero_to_something(judged, record):
    zeros = [record(replicate=r, error=0.0) for r in range(30)]
    some = [record(replicate=r, error=0.01) for r in range(30)]
    assert judged(zeros, zeros).verdict is Verdict.SAME
    assert judged(zeros, some).verdict is Verdict.WORSE
    assert judged(some, zeros).verdict is Verdict.BETTER


def test_one_replicate_proves_nothing(judged, record):
    found = judged([record(error=0.1)], [record(error=0.5)])
    assert (found.verdict, found.detectable) == (Verdict.UNDECIDED, None)


def test_rows_that_failed_throughout_then_and_now_are_the_same(judged, record):
    broken = [record(replicate=r, status=Status.ERROR) for r in range(5)]
    assert judged(broken, broken).verdict is Verdict.SAME


def test_heavy_tailed_rows_have_no_interval_but_a_verdict(judged, normal_row, record):
    before = [*normal_row(), record(replicate=100, error=30.0)]
    found = judged(before, scaled(before, 1.1))
    assert found.heavy_tailed
    assert found.ratio_low is None
    assert found.verdict is Verdict.WORSE


def test_on_fresh_data_more_failures_are_tested_not_assumed(judged, record):
    def failing(share, seed):
        rng = np.random.default_rng(seed)
        return [
            record(
                replicate=r,
                seed=seed,
                error=0.1 * float(rng.normal()),
                status=Status.POSITIVITY if rng.random() < share else Status.OK,
            )
            for r in range(100)
        ]

    rules = Rules(fresh=True)
    assert not judged(failing(0.3, 1), failing(0.3, 2), rules).verdict.fails
    found = judged(failing(0.05, 1), failing(0.6, 2), rules)
    assert found.verdict is Verdict.WORSE
    crashed = [record(replicate=r, seed=2, status=Status.CRASH) for r in range(100)]
    assert judged(failing(0.3, 1), crashed, rules).verdict is Verdict.FAILED


def test_two_looks_spend_half_the_level_each(judged, normal_row):
    # All 7 errors grow: p = 2^-7, between half the level and the level.
    before = normal_row(replicates=7)
    after = scaled(before, 1.3)
    once, twice = judged(before, after), judged(before, after, Rules(looks=2))
    assert once.p == twice.p == 2**-7
    assert (once.verdict, twice.verdict) == (Verdict.WORSE, Verdict.UNDECIDED)


def test_a_comparison_needs_proof_on_both_sides(judged, normal_row):
    rules = Rules(margin=0.0, level=0.025, symmetric=True)
    nearly = judged(normal_row(), normal_row(scale=0.0999), rules)
    assert nearly.verdict in (Verdict.BETTER, Verdict.UNDECIDED)
    assert judged(normal_row(), normal_row(), rules).verdict is Verdict.SAME


def test_records_are_matched_by_what_they_ask(record):
    before = [record(replicate=r) for r in range(3)]
    after = {one.key: one for one in [record(replicate=r) for r in range(1, 5)]}
    rows, alone = matched(before, after)
    assert [len(one.pairs) for one in rows] == [2]
    assert alone == 1


def test_no_rows_give_no_judgements():
    assert judge([], "empirical") == []
