"""What the gate says of rows before any test, with the figures worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ope_bench.gate.baseline import Pair, PairedRow
from ope_bench.gate.verdict import (
    ROUNDING,
    Judgement,
    Rules,
    Verdict,
    _with_ratio,
    judge,
    screen,
)
from ope_bench.statistics.paired_tests import LARGEST_LOG
from ope_bench.trials.status import Status


def row_of(before, after):
    first = before[0].trial
    pairs = tuple(Pair(then, now.trial, now) for then, now in zip(before, after, strict=True))
    return PairedRow(first.environment, first.estimator, first.device, pairs)


def screened(before, after, rules=None):
    return screen(row_of(before, after), "empirical", rules or Rules())


def errors_of(record, errors, **facts):
    return [record(replicate=r, error=error, **facts) for r, error in enumerate(errors)]


def test_smaller_errors_are_improvements_and_equal_ones_half(record):
    case = screened(
        errors_of(record, [0.4, -0.4, 0.5, 0.3, -0.25]),
        errors_of(record, [0.2, 0.2, 0.75, 0.3, 0.25]),
    )
    assert case.judgement.improved == (1 + 1 + 0 + 0.5 + 0.5) / 5
    assert (case.judgement.n, case.judgement.changed) == (5, 4)
    assert case.judgement.rmse_before == pytest.approx(math.sqrt(0.1445))
    assert case.judgement.rmse_after == pytest.approx(math.sqrt(0.159))
    assert case.tested


@pytest.mark.parametrize(("change", "rounding"), [(0.9, True), (1.1, False)])
def test_rounding_is_a_relative_difference_of_a_billionth(record, change, rounding):
    before = errors_of(record, [999.0, -0.5])
    grown = [replace(one, estimate=one.estimate * (1 + change * ROUNDING)) for one in before]
    case = screened(before, grown)
    assert (case.judgement.verdict is Verdict.DRIFTED) is rounding
    assert case.tested is not rounding


@pytest.mark.parametrize(("change", "equal"), [(0.9, True), (1.1, False)])
def test_by_other_arithmetic_numbers_are_equal_up_to_rounding(record, change, equal):
    before = errors_of(record, [999.0, -0.5], standard_error=0.1)
    for name in ("estimate", "standard_error"):
        grown = [replace(before[0], **{name: getattr(before[0], name) * (1 + change * ROUNDING)})]
        case = screened(before, [*grown, before[1]], Rules(same_arithmetic=False))
        assert case.judgement.changed == (not equal)
        assert case.tested is not equal


def test_another_interval_is_no_rounding(record):
    before = errors_of(record, [0.5, 0.4], interval_low=-1.0, interval_high=1.0)
    case = screened(before, [replace(before[0], interval_high=1.1), before[1]])
    assert (case.judgement.changed, case.tested) == (1, True)
    (judged,) = judge(
        [row_of(before, [replace(before[0], interval_high=1.1), before[1]])], "empirical"
    )
    assert judged.verdict is Verdict.DRIFTED


def test_a_value_of_zero_is_close_to_zero_alone(record):
    before = errors_of(record, [-1.0, 0.5])
    after = [replace(before[0], estimate=1e-300), before[1]]
    assert screened(before, after).tested
    again = [replace(before[0], estimate=-0.0, standard_error=None), before[1]]
    assert not screened(before, again).tested


def test_one_missing_standard_error_is_no_rounding(record):
    before = errors_of(record, [0.5, 0.4], standard_error=0.1)
    case = screened(before, [replace(before[0], standard_error=None), before[1]])
    assert case.tested


@pytest.mark.parametrize("name", ["truth_expected", "truth_empirical", "logging_average"])
def test_moved_data_are_named_with_replicate_and_version(record, name):
    before = errors_of(record, [0.5, 0.4])
    after = [before[0], replace(before[1], **{name: 0.75})]
    found = screened(before, after).judgement
    assert found.verdict is Verdict.FAILED
    assert f"the data changed ({name} of replicate 1: " in found.reason
    assert "-> 0.75), but toy is still version 1" in found.reason
    lost = [before[0], replace(before[1], **{name: None})]
    assert "the data changed" not in screened(before, lost).judgement.reason


def test_failures_count_as_the_logging_average_unless_both_failed(record):
    before = errors_of(record, [0.25, 0.5, 0.75])
    after = errors_of(record, [0.2, 0.5, 0.75])
    failed = {"status": Status.POSITIVITY, "estimate": None}
    before[1:] = [replace(one, **failed) for one in before[1:]]
    after[2] = replace(after[2], **failed)
    case = screened(before, after)
    # The logging average is 0.5 and the truth 1.
    assert case.before.tolist() == pytest.approx([0.25, -0.5])
    assert case.after.tolist() == pytest.approx([0.2, 0.5])


def test_a_side_without_truth_or_logging_average_has_its_partners(record):
    lost = {"truth_empirical": None, "logging_average": None, "status": Status.POSITIVITY}
    before = [replace(record(error=0.1), estimate=None, **lost)]
    case = screened(before, [record(error=0.25)])
    assert (case.before.tolist(), case.after.tolist()) == ([-0.5], [0.25])


def test_rows_without_any_error_are_drifted_with_probability_one(record):
    """Both failed, in another way of the same severity."""
    before = [record(replicate=r, status=Status.ERROR) for r in range(3)]
    after = [record(replicate=r, status=Status.TIMEOUT) for r in range(3)]
    (found,) = judge([row_of(before, after)], "empirical")
    assert (found.verdict, found.reason) == (Verdict.DRIFTED, "no errors to compare")
    assert (found.p, found.p_better, found.detectable, found.n) == (1.0, 1.0, None, 0)
    assert found.improved is None


def test_kinds_of_new_failures_are_named_with_their_exceptions(record):
    before = [record(replicate=r) for r in range(6)]
    kinds = [Status.ERROR, Status.ERROR, Status.POSITIVITY, Status.OK, Status.CRASH, Status.OK]
    after = [
        record(replicate=r, status=status, error_type="Boom") for r, status in enumerate(kinds)
    ]
    after[4] = replace(after[4], error_message="out of range")
    judgement = screened(before, after).judgement
    assert judgement.reason == (
        "ok -> error (Boom) in 2 (replicates 0, 1): Boom; "
        "ok -> positivity in 1 (replicate 2): Boom; "
        "ok -> crash (Boom) in 1 (replicate 4): out of range"
    )
    assert judgement.broken == after[0].trial.key[:12]


def test_rows_that_failed_throughout_have_no_error(record):
    before = [record(replicate=r, status=Status.POSITIVITY) for r in range(2)]
    found = screened(before, before).judgement
    assert (found.n, found.rmse_before, found.rmse_after) == (0, None, None)


JUDGED = Judgement(None, Verdict.SAME, n=20)  # type: ignore[arg-type]


def test_the_interval_of_the_ratio_has_the_quantiles_of_students_distribution():
    found = _with_ratio(JUDGED, math.log(2), 0.1, heavy=False)
    # t(0.975, 19) = 2.093024
    assert found.ratio == pytest.approx(2.0)
    assert found.ratio_low == pytest.approx(2 * math.exp(-0.2093024), rel=1e-6)
    assert found.ratio_high == pytest.approx(2 * math.exp(0.2093024), rel=1e-6)
    assert (found.standard_error, found.heavy_tailed) == (0.1, False)


@pytest.mark.parametrize(
    ("log_ratio", "error", "heavy", "n", "known"),
    [
        pytest.param(0.5, 0.1, True, 20, (True, True, False), id="heavy tails"),
        pytest.param(0.5, math.inf, False, 20, (True, False, False), id="no spread"),
        pytest.param(0.5, 0.1, False, 1, (True, False, False), id="one replicate"),
        pytest.param(0.5, 0.1, False, 2, (True, True, True), id="two replicates"),
        pytest.param(math.inf, 0.1, False, 20, (False, False, False), id="from nothing"),
        pytest.param(-LARGEST_LOG, 0.1, False, 20, (False, False, False), id="to nothing"),
        pytest.param(-690.0, 5.0, False, 20, (True, True, False), id="too wide"),
        pytest.param(math.nan, 0.1, False, 20, (False, False, False), id="no number"),
    ],
)
def test_figures_of_the_ratio_that_do_not_exist_are_none(log_ratio, error, heavy, n, known):
    judged = replace(JUDGED, n=n)
    found = _with_ratio(judged, log_ratio, error, heavy=heavy)
    figures = (found.ratio, found.standard_error, found.ratio_low)
    assert tuple(one is not None for one in figures) == known
    assert (found.ratio_low is None) == (found.ratio_high is None)
    assert found.heavy_tailed is heavy


def test_the_typical_ratio_is_that_of_the_medians(record):
    before, after = [0.1, -0.2, 0.3, 0.4, -5.0], [0.1, 0.1, -0.15, 0.2, 9.0]
    (found,) = judge([row_of(errors_of(record, before), errors_of(record, after))], "empirical")
    assert found.typical_ratio == pytest.approx(0.15 / 0.3)
    none = errors_of(record, [0.0, 0.0, 0.0, 0.0, 1.0])
    (found,) = judge([row_of(none, errors_of(record, after))], "empirical")
    assert found.typical_ratio is None
    assert found.ratio == pytest.approx(np.square(after).sum())


def test_rounding_ends_at_a_billionth():
    assert ROUNDING == 1e-9


def test_pairs_without_truth_or_logging_average_on_either_side_have_no_error(record):
    before, after = errors_of(record, [0.1, 0.2, 0.25]), errors_of(record, [0.2, 0.3, 0.5])
    before[0], after[0] = (replace(one, truth_empirical=None) for one in (before[0], after[0]))
    failed = {"status": Status.POSITIVITY, "estimate": None, "logging_average": None}
    before[1], after[1] = replace(before[1], **failed), replace(after[1], logging_average=None)
    case = screened(before, after)
    assert case.tested
    assert (case.before.tolist(), case.after.tolist()) == ([0.25], [0.5])
    assert case.judgement.n == 1
