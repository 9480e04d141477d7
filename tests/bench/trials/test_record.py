"""A record by itself: its warnings, as text and as JSON."""

import json

import numpy as np
import pytest

from ope_bench import (
    ESTIMATE_WARNING,
    STANDARD_ERROR_WITHHELD,
    Access,
    Estimate,
    Estimator,
    Interval,
    evaluate,
)
from ope_bench.statistics.weight_checks import (
    DOUBTFUL_WEIGHTS,
    LARGEST_SHARE,
    LEAST_EFFECTIVE,
    RARE_WEIGHTS,
    SMALLEST_EFFECTIVE,
    SMALLEST_MEAN,
)
from ope_bench.testing.problems import Given
from ope_bench.trials.record import OUTSIDE
from ope_bench.trials.trial import build

N = 40


def record_of(estimate):
    """The record of a trial whose estimator answers with this."""
    members = {"estimate": lambda self, view: estimate}
    [record] = evaluate(type("Odd", (Estimator,), members)(), Given(n_samples=N), replicates=1)
    return record


def weights(share):
    """Weights of which one has this share of the sum."""
    return np.array([share, *[(1 - share) / (N - 1)] * (N - 1)])


@pytest.mark.parametrize(
    ("share", "mean", "warned"),
    [
        (LARGEST_SHARE - 0.01, 1.0, False),
        (LARGEST_SHARE + 0.01, 1.0, True),
        (LARGEST_SHARE - 0.01, SMALLEST_MEAN - 0.01, True),
        (LARGEST_SHARE - 0.01, SMALLEST_MEAN + 0.01, False),
        (LARGEST_SHARE - 0.01, 3.0, False),
    ],
)
def test_a_record_warns_where_few_rows_carry_the_weight(share, mean, warned):
    record = record_of(Estimate(1.0, 0.5, weights(share), {"mean_weight": mean}))
    expected = [DOUBTFUL_WEIGHTS] if warned else []
    assert list(record.warnings) == record.as_json()["warnings"] == expected
    assert (DOUBTFUL_WEIGHTS in str(record)) is warned


def test_a_record_tells_why_a_standard_error_was_withheld():
    record = record_of(Estimate(1.0, None, diagnostics={STANDARD_ERROR_WITHHELD: "no idea"}))
    assert record.warnings == ("standard error withheld: no idea",)
    assert str(record).splitlines()[1:] == ["  standard error withheld: no idea"]
    shown = record_of(Estimate(1.0, 0.5, diagnostics={STANDARD_ERROR_WITHHELD: "no idea"}))
    assert shown.warnings == ()


def test_a_record_tells_what_the_estimator_warns_of():
    record = record_of(Estimate(1.0, 0.5, diagnostics={ESTIMATE_WARNING: "no idea"}))
    assert record.warnings == ("no idea",)
    assert str(record).splitlines()[1:] == ["  no idea"]


def test_without_a_mean_weight_the_largest_share_decides():
    assert record_of(Estimate(1.0, 0.5, weights(0.05))).warnings == ()
    assert record_of(Estimate(1.0, 0.5, weights(0.5))).warnings == (DOUBTFUL_WEIGHTS,)
    word = record_of(Estimate(1.0, 0.5, weights(0.05), {"mean_weight": "low"}))
    assert word.warnings == ()


@pytest.mark.parametrize("kind", ["asymptotic", "empirical-likelihood", "guaranteed", "bootstrap"])
def test_intervals_that_count_on_rows_beyond_the_logs_are_not_doubted(kind):
    doubtful = {LEAST_EFFECTIVE: SMALLEST_EFFECTIVE - 0.1, "mean_weight": 0.3}
    interval = Interval(0.5, 1.5, kind=kind)
    record = record_of(Estimate(1.0, 0.5, weights(0.5), doubtful, interval=interval))
    resting = kind in ("asymptotic", "bootstrap")
    assert record.warnings == ((DOUBTFUL_WEIGHTS, RARE_WEIGHTS) if resting else ())
    assert f"95 % {kind} interval 0.5 to 1.5" in str(record)


def test_a_record_warns_where_the_policies_allow_large_weights():
    for least, warned in ((SMALLEST_EFFECTIVE - 0.1, True), (SMALLEST_EFFECTIVE, False)):
        facts = {LEAST_EFFECTIVE: least, "mean_weight": 1.0}
        record = record_of(Estimate(1.0, 0.5, weights(0.05), facts))
        assert (RARE_WEIGHTS in record.warnings) is warned
        assert (RARE_WEIGHTS in str(record)) is warned


def test_an_estimate_outside_its_own_interval_is_told():
    inside, outside = (
        record_of(Estimate(value, interval=Interval(0.5, 1.5, kind="guaranteed")))
        for value in (1.5, 1.6)
    )
    assert inside.warnings == ()
    assert outside.warnings == (OUTSIDE,)


def test_the_json_of_a_record_says_what_was_asked_and_what_came_of_it():
    record = record_of(Estimate(1.25, 0.5))
    told = json.loads(json.dumps(record.as_json(), allow_nan=False))
    assert (told["estimate"], told["standard_error"], told["status"]) == (1.25, 0.5, "ok")
    assert (told["key"], told["replicate"]) == (record.key, 0)
    assert told["environment_params"]["n_samples"] == N
    assert str(record) == "odd on given, replicate 0: 1.25 ± 0.5 (ok)"


def test_a_failed_trial_is_one_line_with_its_reason():
    record = record_of(Estimate(np.nan, 0.5))
    assert record.warnings == ()
    assert "no estimate (nonfinite)" in str(record)
    assert "the estimate is nan" in str(record)


def _weighted(access, space="action"):
    """The record of importance weighting on a world whose policies are known."""

    def estimate(self, view):
        ratio = view.target_policy.probability(view.context, view.action) / view.propensity
        return Estimate(float((ratio * view.reward).mean()), 0.1, ratio, weight_space=space)

    members = {"estimate": estimate, "access": access}
    where = "linear-bandit[n_samples=60,logging_beta=-2]"
    [record] = evaluate(type("Weighted", (Estimator,), members)(), where, replicates=1)
    return record


def test_records_tell_the_effective_sample_size_and_the_least_that_policies_allow():
    record = _weighted(Access.PROPENSITY | Access.TARGET_POLICY)
    seed = record.trial.data_seed
    problem, _ = build(record.trial.environment).sample(
        world_rng=seed.world(), logged_rng=seed.logged(), target_rng=seed.target()
    )
    tables = [
        policy.table(problem.context) for policy in (problem.target_policy, problem.logging_policy)
    ]
    ratio = tables[0] / tables[1]
    weight = ratio[np.arange(60), problem.action]
    facts = record.diagnostics
    effective = weight.sum() ** 2 / (weight @ weight)
    assert facts["effective_sample_size"] == pytest.approx(effective)
    assert record.ess_fraction == pytest.approx(effective / 60)
    assert facts[LEAST_EFFECTIVE] == pytest.approx(60 / ratio.max())
    assert problem.weight_range(entries=30) == (
        pytest.approx(ratio[:3].min()),
        pytest.approx(ratio[:3].max()),
    )


def test_weights_of_embeddings_and_of_samples_alone_have_no_least_size():
    assert (
        LEAST_EFFECTIVE
        not in _weighted(Access.PROPENSITY | Access.TARGET_POLICY, "embedding").diagnostics
    )
    record = record_of(Estimate(1.0, 0.5, weights(0.05), weight_space="action"))
    assert LEAST_EFFECTIVE not in record.diagnostics
    assert record.diagnostics["effective_sample_size"] > 0
