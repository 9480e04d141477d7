import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri, stdtrit

from ope_bench import evaluate
from ope_bench.gate.baseline import Pair, PairedRow, pair_records
from ope_bench.gate.verdict import (
    Judgement,
    RowCase,
    Rules,
    Test,
    Verdict,
    _decided,
    _detectable,
    judge,
)
from ope_bench.gate.verdict_tables import detail, judgement_json
from ope_bench.statistics.paired_tests import LARGEST_LOG, swap_test
from ope_bench.trials.status import Status


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
        _detectable(Judgement(None, Verdict.SAME, n=n, standard_error=float(one)), 1, Rules())
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


@pytest.mark.parametrize(
    ("failed", "told"),
    [
        (1, "1 (replicate 0)"),
        (2, "2 (replicates 0, 1)"),
        (3, "3 (replicates 0, 1, 2)"),
        (4, "4 (replicates 0, 1, 2, ...)"),
    ],
)
def test_up_to_three_replicates_are_named(judged, record, failed, told):
    before = [record(replicate=r) for r in range(30)]
    after = [
        record(replicate=r, status=Status.CRASH if r < failed else Status.OK) for r in range(30)
    ]
    assert judged(before, after).reason.endswith(f"in {told}")


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


def exploding(record, typical, first, replicates=60):
    """Errors of a typical size, and three explosions that make nearly all of the mean square."""
    errors = typical * np.random.default_rng(first).uniform(0.5, 1.5, size=replicates)
    errors[first : first + 3] = (8.0, 10.0, 13.0)
    return [record(replicate=r, error=float(one)) for r, one in enumerate(errors)]


def test_a_typical_error_twice_as_large_is_worse_however_heavy_the_tails(judged, record):
    before, after = exploding(record, 0.2, 0), exploding(record, 0.5, 3)
    found = judged(before, after)
    assert found.verdict is Verdict.WORSE
    assert found.found_by == (Test.TYPICAL,)
    assert found.p == found.p_typical <= 0.01 < found.p_mean_square
    assert found.typical_ratio > 2
    assert "by typical error (x" in detail(found)
    assert judgement_json("row", found)["found_by"] == ("typical error",)


def test_a_degradation_that_an_audit_saw_pass_closes_the_gate():
    """IPWS clipped at 1: its RMSE grows by half, its typical error more than doubles."""
    world = "saito-toy[n_actions=50]"
    then, now = (evaluate([one], world, replicates=60) for one in ("ipws", "ipws[clip=1]"))
    pairs = tuple(Pair(a, b.trial, b) for a, b in zip(then, now, strict=True))
    trial = then[0].trial
    (found,) = judge(
        [PairedRow(trial.environment, trial.estimator, trial.device, pairs)], "expected"
    )
    assert found.verdict is Verdict.WORSE
    assert Test.TYPICAL in found.found_by
    assert found.typical_ratio > 2


def test_more_seldom_explosions_of_the_same_size_are_worse_by_the_mean_square(judged, record):
    before = [record(replicate=r, error=0.1 + 0.001 * r) for r in range(100)]
    # Every other error halves, every other one is ten times as large.
    after = [
        replace(one, estimate=1 + (one.estimate - 1) * (10 if one.trial.replicate % 2 else 0.5))
        for one in before
    ]
    found = judged(before, after)
    assert found.verdict is Verdict.WORSE
    assert Test.MEAN_SQUARE in found.found_by


def test_what_one_way_shows_better_and_the_other_worse_is_worse_to_a_gate_only(judged, record):
    # Nine of ten errors grow from .1 to .2; the tenth shrinks from 30 to .2.
    before = [record(replicate=r, error=0.1 if r % 10 else 30 + r) for r in range(200)]
    after = [record(replicate=r, error=0.2 + 0.0001 * r) for r in range(200)]
    found = judged(before, after)
    assert (found.verdict, found.found_by) == (Verdict.WORSE, (Test.TYPICAL,))
    assert "better by mean square" in found.reason
    compared = judged(before, after, Rules(margin=0.0, level=0.025, symmetric=True))
    assert compared.verdict is Verdict.UNDECIDED
    assert compared.reason == "worse by typical error; better by mean square"


def test_a_larger_mean_square_never_passes_as_an_improvement(judged, record):
    before = [record(replicate=r, error=0.2 + 0.0001 * r) for r in range(60)]
    after = [record(replicate=r, error=0.1 if r else 9.0) for r in range(60)]
    found = judged(before, after)
    assert found.ratio > 1
    assert found.p_better < 0.01
    assert found.verdict is Verdict.UNDECIDED
    assert "better by typical error" in found.reason


def test_a_typical_error_within_the_root_of_the_margin_passes(judged, normal_row):
    before = normal_row()
    assert judged(before, scaled(before, 1.009)).p_typical == 1.0
    found = judged(before, scaled(before, 1.011))
    assert (found.verdict, found.found_by) == (Verdict.WORSE, (Test.MEAN_SQUARE, Test.TYPICAL))


def test_all_tests_of_all_rows_share_the_level(row, normal_row):
    # All 8 errors of a row grow: each test says 2^-8, and 4 tests of 2 rows adjust that to 2^-6.
    rows = [normal_row(name, replicates=8, stream=i) for i, name in enumerate(["a", "b"])]
    found = judge([row(one, scaled(one, 1.3)) for one in rows], "empirical")
    assert [one.p for one in found] == [2**-6] * 2
    assert {one.verdict for one in found} == {Verdict.UNDECIDED}


def test_a_comparison_needs_proof_on_both_sides(judged, normal_row):
    rules = Rules(margin=0.0, level=0.025, symmetric=True)
    nearly = judged(normal_row(), normal_row(scale=0.0999), rules)
    assert nearly.verdict in (Verdict.BETTER, Verdict.UNDECIDED)
    assert judged(normal_row(), normal_row(), rules).verdict is Verdict.SAME


def test_records_are_matched_by_what_they_ask(record):
    before = [record(replicate=r) for r in range(3)]
    after = {one.key: one for one in [record(replicate=r) for r in range(1, 5)]}
    rows = pair_records(before, after)
    assert [len(one.pairs) for one in rows] == [2]


def test_no_rows_give_no_judgements():
    assert judge([], "empirical") == []


def test_a_p_value_at_the_level_is_significant():
    # Exact p-values are multiples of one over the number of swaps, so that this happens.
    case = RowCase(Judgement(None, Verdict.SAME, n=20, ratio=1.5))
    for p, found_by in ((0.05, (Test.TYPICAL,)), (np.nextafter(0.05, 1), ())):
        found = _decided(case, {Test.TYPICAL: p}, {}, 1, Rules(level=0.05))
        assert found.found_by == found_by
        assert found.verdict is (Verdict.WORSE if found_by else Verdict.UNDECIDED)


def test_the_detectable_growth_by_its_formula():
    judged = Judgement(None, Verdict.SAME, n=20, standard_error=0.1)
    reach = stats.t.ppf(1 - 0.01 / 3, 19) + stats.norm.ppf(0.8)
    expected = 1.02 * np.exp(0.1 * reach) - 1
    assert _detectable(judged, 3, Rules(level=0.01, margin=0.02)) == pytest.approx(expected)


@pytest.mark.parametrize(("tests", "fewest"), [(1, 7), (5, 9)])
def test_nothing_is_detectable_with_too_few_ways_to_swap(tests, fewest):
    # 1/2**7 is below 0.01, 1/2**9 below a fifth of it; with one replicate less the smallest
    # p-value is above.
    for n, known in ((fewest - 1, False), (fewest, True)):
        judged = Judgement(None, Verdict.SAME, n=n, standard_error=0.1)
        assert (_detectable(judged, tests, Rules(level=0.01)) is not None) is known


@pytest.mark.parametrize(
    ("n", "before", "after", "verdict"),
    [
        (3, 0.0, 1.0, Verdict.UNDECIDED),
        (3, 0.0, 0.0, Verdict.DRIFTED),
        (3, 2.0, 1.0, Verdict.DRIFTED),
        (0, None, None, Verdict.DRIFTED),
    ],
)
def test_a_row_without_a_ratio_grew_where_there_was_no_error_before(n, before, after, verdict):
    judged = Judgement(None, Verdict.SAME, n=n, rmse_before=before, rmse_after=after)
    found = _decided(RowCase(judged), {}, {}, 1, Rules())
    assert (found.verdict, found.reason == "no errors to compare") == (verdict, n == 0)


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (1.5, Verdict.UNDECIDED),
        (1 + Rules().margin, Verdict.BETTER),
        (1.0, Verdict.BETTER),
        (None, Verdict.BETTER),
    ],
)
def test_a_mean_square_that_grew_is_no_improvement_by_typical_errors(ratio, verdict):
    case = RowCase(Judgement(None, Verdict.SAME, n=20, ratio=ratio))
    assert _decided(case, {}, {Test.TYPICAL: 0.001}, 1, Rules()).verdict is verdict


@pytest.mark.parametrize(
    ("factor", "verdict"), [(0.991, Verdict.DRIFTED), (0.989, Verdict.BETTER)]
)
def test_an_improvement_within_the_margin_is_none(judged, normal_row, factor, verdict):
    # Squares count: 0.991² is above 1 / 1.02, 0.989² below.
    assert judged(normal_row(), scaled(normal_row(), factor)).verdict is verdict


def test_rows_of_one_size_are_tested_at_their_share_of_the_level(monkeypatch, row, normal_row):
    asked = []

    def spying(after, before, **given):
        asked.append((*after.shape, given["level"]))
        return swap_test(after, before, **given)

    monkeypatch.setattr("ope_bench.gate.verdict.swap_test", spying)
    sizes = {"a": 8, "b": 8, "c": 6}
    rows = [normal_row(name, replicates=n, stream=n) for name, n in sizes.items()]
    judge([row(one, scaled(one, 1.3)) for one in rows], "empirical", Rules(level=0.015))
    shares = [(2, 8, pytest.approx(0.01)), (1, 6, pytest.approx(0.005))]
    assert asked == [shares[0], shares[0], shares[1], shares[1]]


@pytest.mark.parametrize(
    ("above", "symmetric", "verdict"),
    [
        (False, False, Verdict.DRIFTED),
        (True, False, Verdict.UNDECIDED),
        (False, True, Verdict.UNDECIDED),
    ],
)
def test_a_ratio_at_the_margin_is_harmless_to_a_gate(above, symmetric, verdict):
    rules = Rules(symmetric=symmetric)
    ratio = 1 + rules.margin
    ratio = math.nextafter(ratio, 2) if above else ratio
    case = RowCase(Judgement(None, Verdict.SAME, n=20, ratio=ratio))
    found = _decided(case, {}, {}, 1, rules)
    assert found.verdict is verdict
    assert (found.p, found.p_better) == (1.0, 1.0)


def test_equal_mean_squares_are_no_difference_to_a_comparison():
    case = RowCase(Judgement(None, Verdict.SAME, n=20, ratio=1.0))
    assert _decided(case, {}, {}, 1, Rules(symmetric=True)).verdict is Verdict.DRIFTED


def test_the_interval_of_a_ratio_counts_pairs(row, record):
    errors = np.random.default_rng(0).uniform(0.2, 0.4, (2, 20))
    sides = [
        [record(replicate=r, error=float(one)) for r, one in enumerate(side)] for side in errors
    ]
    (found,) = judge([row(*sides)], "empirical")
    reach = stats.t.ppf(0.975, 19) * found.standard_error
    assert found.ratio_low == pytest.approx(found.ratio * np.exp(-reach), rel=1e-9)
    assert found.ratio_high == pytest.approx(found.ratio * np.exp(reach), rel=1e-9)


def test_a_detectable_growth_that_no_number_holds_is_unknown():
    factor = float(stdtrit(19, 0.99)) + float(ndtri(0.8))
    error = next(one for one in LARGEST_LOG / factor * (1 + np.arange(-9, 9) * 2**-53)
                 if one * factor == LARGEST_LOG)  # fmt: skip
    for standard_error, known in ((error, False), (0.99 * error, True)):
        judged = Judgement(None, Verdict.SAME, n=20, standard_error=float(standard_error))
        assert (_detectable(judged, 1, Rules(level=0.01, margin=0.0)) is not None) is known
