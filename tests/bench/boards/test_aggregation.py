"""Records of one row aggregated: errors, imputed failures, warnings, shares, costs.

The fixture's truth is 1 and its logging average .5, hence the naive error -.5.
"""

import math
import random

import numpy as np
import pytest

from ope_bench.boards.board import ReplicateFacts, aggregate, errors_of
from ope_bench.outcomes import Outcomes
from ope_bench.trials.status import Status


def statistics(records, truth="expected", others=()):
    facts = ReplicateFacts.of(Outcomes.of([*records, *others]), truth)
    return aggregate(Outcomes.of(records), facts)


def errors(records, truth="expected"):
    outcomes = Outcomes.of(records)
    return errors_of(outcomes, ReplicateFacts.of(outcomes, truth)).tolist()


def test_what_a_dead_trial_does_not_know_its_neighbors_on_the_same_data_do(record):
    unknown = {"truth_expected": None, "truth_empirical": None, "logging_average": None}
    dead = record("ipw", 0, status=Status.CRASH, **unknown)
    alone = ReplicateFacts.of(Outcomes.of([dead]), "expected")
    assert np.isnan(alone.naive).all()
    assert alone.naive_square is None
    neighbor = record("dm", 0)
    for order in ([dead, neighbor], [neighbor, dead]):
        facts = ReplicateFacts.of(Outcomes.of(order), "expected")
        assert facts.naive[facts.at(Outcomes.of([dead]))].tolist() == [-0.5]
    found = statistics([dead], others=[neighbor])
    assert found.imputed == {dead.trial.data_key: -0.5}
    assert found.values.imputed == 1


def test_errors_are_measured_against_the_truth_asked_for(record):
    one = record("ipw", 0, 0.25, truth_empirical=1.5)
    for truth, error in (("expected", 0.25), ("empirical", -0.25)):
        assert errors([one], truth) == pytest.approx([error])
        assert statistics([one], truth).errors.tolist() == pytest.approx([error])


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.OK])
def test_no_other_status_has_an_error_whatever_it_says(record, status):
    one = record("ipw", 0, status=status, estimate=3.0)
    assert math.isnan(*errors([one]))


@pytest.mark.parametrize("estimate", [math.nan, math.inf, -math.inf, None])
def test_no_error_is_infinite_or_no_number(record, estimate):
    one = record("ipw", 0, estimate=estimate)
    assert math.isnan(*errors([one]))


def test_failures_are_imputed_and_unavailable_trials_do_not_count(record):
    records = [
        record("ipw", 0, 0.1),
        record("ipw", 1, 0.3),
        record("ipw", 2, status=Status.ERROR),
        record("ipw", 3, status=Status.POSITIVITY),
        record("ipw", 4, status=Status.UNAVAILABLE),
    ]
    found = statistics(records)
    figures = found.values
    assert found.errors.tolist() == pytest.approx([0.1, 0.3])
    assert list(found.imputed.values()) == pytest.approx([0.1, 0.3, -0.5, -0.5])
    assert (found.tried, figures.replicates, figures.imputed) == (4, 5, 2)
    assert (figures.failure.count, figures.failure.total) == (2, 4)
    assert (figures.positivity.count, figures.positivity.total) == (1, 4)
    assert figures.status == {"ok": 2, "error": 1, "positivity": 1, "unavailable": 1}
    assert figures.errors.bias == pytest.approx(0.2)


def test_the_area_is_the_mean_of_what_squared_errors_leave_of_the_naive_square(record):
    errors = [0.0, 0.3, -0.4, 2.0]
    found = statistics([record("ipw", number, error) for number, error in enumerate(errors)])
    left = [max(0.25 - error**2, 0.0) for error in errors]
    assert found.values.error_cdf_area == pytest.approx(np.mean(left) / 0.25)


def test_the_root_mean_square_of_the_truth_is_over_finite_trials(record):
    records = [
        record("ipw", 0, truth_expected=3.0),
        record("ipw", 1, truth_expected=4.0),
        record("ipw", 2, status=Status.ERROR, truth_expected=100.0),
    ]
    assert statistics(records).values.truth_rms == pytest.approx(math.sqrt(12.5))


# Status, absolute error of the estimate or fallback.
RIGHT, WRONG = (Status.POSITIVITY, 0.8), (Status.POSITIVITY, 0.2)
MISSED, FINE = (Status.OK, 0.8), (Status.OK, 0.2)
MUTE = (Status.POSITIVITY, None)


@pytest.mark.parametrize(
    ("outcomes", "warned", "judged", "precision", "recall"),
    [
        ([FINE], 0, 0, None, None),
        ([RIGHT], 1, 1, 1.0, 1.0),
        ([WRONG], 1, 1, 0.0, None),
        ([MISSED], 0, 0, None, 0.0),
        ([RIGHT, RIGHT, WRONG, MISSED, FINE], 3, 3, 2 / 3, 2 / 3),
        ([MUTE], 1, 0, None, None),
        ([MUTE, RIGHT, MISSED], 2, 1, 1.0, None),
    ],
)
def test_a_warning_is_right_where_the_naive_estimate_is_nearer(
    record, outcomes, warned, judged, precision, recall
):
    records = []
    for number, (status, size) in enumerate(outcomes):
        said = None if size is None else 1.0 + size
        name = "fallback" if status is Status.POSITIVITY else "estimate"
        records.append(record("ipw", number, status=status, **{name: said}))
    found = statistics(records).values.warnings
    assert (found.warned, found.judged) == (warned, judged)
    assert found.precision == pytest.approx(precision)
    assert found.recall == pytest.approx(recall)


def test_coverage_is_of_the_expected_truth_whatever_errors_are_measured_against(record):
    records = [
        # 1.96 standard errors are 0.196: the first two intervals hold 1, the third holds 2.
        record("ipw", 0, 0.1, standard_error=0.1, truth_empirical=2.0),
        record("ipw", 4, -0.1, standard_error=0.1, truth_empirical=2.0),
        record("ipw", 1, 0.9, standard_error=0.1, truth_empirical=2.0),
        record("ipw", 2, 0.0, standard_error=None),
        record("ipw", 3, status=Status.ERROR, standard_error=0.1),
    ]
    for truth in ("expected", "empirical"):
        found = statistics(records, truth).values.coverage
        assert (found.share.count, found.share.total) == (2, 3)
        assert found.width == pytest.approx(2 * 0.1 * 1.959964, rel=1e-6)


def test_seconds_are_those_of_finished_trials_that_ran_alone(record):
    def seconds(fit, estimate, **facts):
        return {"fit_seconds": fit, "estimate_seconds": estimate, "exclusive": True} | facts

    records = [
        record("ipw", 0, **seconds(1.0, 10.0, peak_rss_bytes=1)),
        record("ipw", 1, **seconds(2.0, 30.0, peak_rss_bytes=5)),
        record("ipw", 2, **seconds(4.0, 20.0)),
        record("ipw", 3, **seconds(5.0, None)),
        record("ipw", 4, **seconds(100.0, 100.0, exclusive=False, peak_rss_bytes=7)),
        record("ipw", 5, status=Status.ERROR, **seconds(100.0, 100.0)),
    ]
    cost = statistics(records).values.cost
    # 1, 2, 4, 5; 10, 20, 30; their sums 11, 24, 32; 1, 5, 7 bytes.
    assert (cost.fit_seconds, cost.estimate_seconds, cost.seconds) == (3.0, 20.0, 24.0)
    assert cost.peak_rss_bytes == 5.0
    shared = [record("ipw", 0, **seconds(1.0, 1.0, exclusive=False))]
    assert statistics(shared).values.cost.fit_seconds is None


def test_support_is_averaged_over_the_replicates_that_know_it(record):
    records = [
        record("ipw", 0, ess_fraction=0.25, max_weight_share=0.5),
        record("ipw", 1, ess_fraction=0.75),
        record("ipw", 2),
    ]
    support = statistics(records).values.support
    assert (support.ess_fraction, support.max_weight_share) == (0.5, 0.5)
    assert support.unsupported_mass is None


def test_diagnostics_are_summarized_where_they_are_finite_numbers(record):
    values = [1.0, 2.0, 6.0, math.nan, math.inf, "word", None]
    records = [
        record("ipw", number, diagnostics={"clip": value, f"only {number}": 3})
        for number, value in enumerate(values)
    ]
    found = statistics(records).values.diagnostics
    clip = found["clip"]
    assert (clip.count, clip.mean, clip.median) == (3, 3.0, 2.0)
    assert (clip.minimum, clip.maximum) == (1.0, 6.0)
    assert found["only 2"].count == 1


def test_the_order_of_records_does_not_matter(record):
    errors = np.random.default_rng(0).normal(size=20)
    records = [record("ipw", number, float(error)) for number, error in enumerate(errors)]
    records += [record("ipw", 20 + number, status=Status.ERROR) for number in range(3)]
    expected = statistics(records)
    for order in range(3):
        shuffled = records[:]
        random.Random(order).shuffle(shuffled)
        found = statistics(shuffled)
        assert found.errors.tolist() == expected.errors.tolist() == pytest.approx(errors)
        assert list(found.imputed.items()) == list(expected.imputed.items())
        assert found.values == expected.values
