"""Branches that no estimate of a usual problem reaches, each against what it must give."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from ope_bench import Access, View
from ope_bench.contracts.data import Column, Schema
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import FitCache
from ope_bench.testing.problems import problem
from ope_estimators.actions.weighting.ipw_star import IPWStar
from ope_estimators.density_ratio.calibration import calibrated, calibrator
from ope_estimators.density_ratio.capacity import default_params
from ope_estimators.density_ratio.log_odds import log_odds
from ope_estimators.density_ratio.smoothed import _contexts
from ope_estimators.embedded.known.edm import EDM
from ope_estimators.embedded.learned.edr import EDR
from ope_estimators.embedded.learned.fedr import FEDR
from ope_estimators.features.composition import _declared, _few_values, _or_constant, _varying

CATEGORIES = Column("categorical", (0.0, 1.0, 2.0))


def test_draws_of_edm_come_from_as_many_seeds_as_a_generator_takes() -> None:
    asked: list[int] = []

    class Generator:
        def integers(self, high: int) -> int:
            asked.append(high)
            return 7

    given = problem("discrete actions", n=20)
    access = Access.TARGET_POLICY | Access.EMBEDDING_DISTRIBUTION
    view = View(given, access, seed=DataSeed("toy", 0, 0), fit_cache=FitCache(), device="cpu")
    fitted = EDM("ridge").fit(view, rng=Generator(), device="cpu")  # type: ignore[arg-type]
    assert (asked, fitted.draw_seed_) == ([2**63], 7)


@pytest.mark.parametrize(
    ("rows", "rounds", "depth", "leaves"),
    [
        (100, 50, 4, 8),
        (1_125, 50, 4, 9),
        (2_000, 50, 4, 16),
        (4_000, 63, 4, 31),
        (4_001, 63, 5, 31),
        (16_000, 100, 5, 31),
    ],
)
def test_boosting_grows_with_the_cube_root_of_the_sample(
    rows: int, rounds: int, depth: int, leaves: int
) -> None:
    xgboost, hist = (default_params(name, rows) for name in ("xgboost", "hist-gbm"))
    assert (xgboost["n_estimators"], xgboost["max_depth"]) == (rounds, depth)
    assert (hist["max_iter"], hist["max_leaf_nodes"]) == (rounds, leaves)
    assert default_params("logistic", rows) == {"degree": 2}
    assert default_params("gbm", rows) == {}


def contexts(columns: tuple[Column, ...], *samples: Any) -> Any:
    logged, target = (np.asarray(sample, dtype=float) for sample in samples)
    schema = Schema(context=columns, embedding=(Column(),))
    return _contexts(SimpleNamespace(context=logged, target_context=target, schema=schema))  # type: ignore[arg-type]


def test_kernels_keep_categories_apart_and_scale_the_columns_after_them() -> None:
    rows = [[0.0, -1.0], [1.0, 1.0], [2.0, -1.0], [0.0, 1.0]]
    scaled = contexts((CATEGORIES, Column()), rows, rows)
    # Three categories take two columns, the first category none.
    assert scaled.shape == (8, 3)
    np.testing.assert_array_equal(scaled[:4, :2], 1e3 * np.array([[0, 0], [1, 0], [0, 1], [0, 0]]))
    # A continuous column has equal distances on both sides, far below those of categories.
    assert scaled[1, 2] == -scaled[0, 2] > 0
    assert scaled[1, 2] < 100
    single = contexts((Column("categorical", (0.0,)), Column()), rows[:1] * 3, rows[1:2])
    assert single.shape == (4, 2)


def test_categories_are_kept_apart_wherever_their_columns_are() -> None:
    rows = np.array([[5.0, 2, 0, 9, 1], [7.0, 1, 0, 8, 0], [6.0, 0, 0, 7, 2]])
    columns = (Column(), CATEGORIES, Column("categorical", (0.0,)), Column(), CATEGORIES)
    scaled = contexts(columns, rows, rows)
    indicators = [[0, 1, 1, 1, 0], [1, 0, 1, 0, 0], [0, 0, 1, 0, 1]]
    np.testing.assert_array_equal(scaled[:3, [1, 2, 3, 5, 6]], 1e3 * np.array(indicators))
    assert (np.ptp(scaled[:, [0, 4]], axis=0) < 100).all()


def test_the_unit_of_a_context_does_not_matter() -> None:
    rows = np.random.default_rng(0).normal(size=(20, 2))
    both = (Column(), Column())
    scaled, other = (contexts(both, unit * rows, unit * rows[:5]) for unit in (1.0, [1.0, 1e3]))
    np.testing.assert_allclose(scaled, other)


def test_a_calibration_takes_the_share_of_the_classes_out() -> None:
    rng = np.random.default_rng(0)
    score = rng.normal(size=400)
    prior = np.log(3.0)
    label = (rng.random(400) < expit(2.0 * score - 0.5 + prior)).astype(np.int64)
    fitted = calibrator("platt", score, label, prior=prior)(score)
    # The equations of the maximum, whose penalty is faint: residuals are orthogonal to the terms.
    residual = expit(fitted + prior) - label
    assert abs(residual.mean()) < 1e-5
    assert abs((residual * score).mean()) < 1e-5


def test_separable_scores_keep_a_finite_slope() -> None:
    score, label = np.array([-1.0, 1.0] * 20), np.array([0, 1] * 20)
    slope = calibrator("temperature", score, label)(np.array([1.0]))[0]
    # The penalty's pull is that of the last residual: 1e-6 (a - 1) = 1 / (1 + exp(a)).
    assert 1e-6 * (slope - 1.0) == pytest.approx(expit(-slope), rel=1e-3)


def test_a_slope_grows_by_at_most_two_in_each_of_two_hundred_steps() -> None:
    """The best slope, about 520, is further from 1."""
    score, label = 2e-3 * np.array([-1.0, 1.0] * 20), np.array([0, 1] * 20)
    slope = calibrator("temperature", score, label)(np.array([1.0]))[0]
    assert slope == pytest.approx(401.0)


@pytest.mark.parametrize("kind", ["platt", "temperature"])
def test_odds_beyond_fifty_count_as_fifty(kind) -> None:
    """Unanimous votes of trees are infinite."""
    fitted = calibrator(kind, SCORE, LABEL)
    sure, more, infinite, less = fitted(np.array([50.0, 60.0, np.inf, 49.0]))
    assert sure == more == infinite > less
    votes = np.array([-np.inf, np.inf, -np.inf, np.inf, 0.0])
    label = np.array([0, 1, 1, 1, 0])
    bounded = calibrator(kind, np.clip(votes, -50.0, 50.0), label)(SCORE)
    np.testing.assert_array_equal(calibrator(kind, votes, label)(SCORE), bounded)


def test_a_continuous_column_that_does_not_vary_is_no_division_by_zero() -> None:
    scaled = contexts((Column(),), [[3.0], [3.0]], [[3.0]])
    assert np.isfinite(scaled).all()


def test_without_contexts_there_is_nothing_to_scale() -> None:
    assert contexts((), np.empty((3, 0)), np.empty((2, 0))).shape == (5, 0)


SCORE = np.array([-2.0, -0.5, 0.5, 3.0])
LABEL = np.array([0, 1, 0, 1])


def test_no_calibration_leaves_scores_as_they_are() -> None:
    fold = np.array([0, 1, 0, 1])
    assert calibrated("none", SCORE, LABEL, fold) is SCORE
    for kind, label in (("none", LABEL), ("platt", np.ones(4, dtype=np.int64))):
        assert calibrator(kind, SCORE, label)(SCORE) is SCORE  # type: ignore[arg-type]
    assert not np.array_equal(calibrator("platt", SCORE, LABEL)(SCORE), SCORE)


def test_log_odds_prefer_the_margin_that_a_model_has() -> None:
    one = np.zeros((2, 1))
    margin = SimpleNamespace(decision_function=lambda x: np.array([1.0, 2.0]))
    np.testing.assert_array_equal(log_odds(margin, one), [1.0, 2.0])
    booster = SimpleNamespace(
        get_booster=None, predict=lambda x, output_margin: np.array([3.0, 4.0 * output_margin])
    )
    np.testing.assert_array_equal(log_odds(booster, one), [3.0, 4.0])
    forest = SimpleNamespace(predict_proba=lambda x: np.array([[0.25, 0.75], [0.0, 1.0]]))
    np.testing.assert_allclose(log_odds(forest, one), [np.log(3.0), np.inf])


def test_a_column_is_dropped_only_if_it_is_constant_over_both_samples() -> None:
    #              constant, once, in both, differs between the samples
    logged = np.array([[1.0, 0.0, 0.0, 5.0], [1.0, 9.0, 1.0, 5.0], [1.0, 0.0, 2.0, 5.0]])
    target = np.array([[1.0, 0.0, 0.0, 6.0], [1.0, 0.0, 1.0, 5.0]])
    kept = _varying(logged, target, np.array([True, False, True, False]))
    np.testing.assert_array_equal(kept.logged, logged[:, 1:])
    np.testing.assert_array_equal(kept.target, target[:, 1:])
    np.testing.assert_array_equal(kept.discrete, [False, True, False])


def test_without_columns_there_is_one_of_zeros() -> None:
    none = np.empty((3, 0))
    features = _or_constant(none, none[:2], np.empty(0, dtype=bool))
    np.testing.assert_array_equal(features.pooled, np.zeros((5, 1)))
    assert features.discrete.tolist() == [True]


def test_a_column_repeats_its_values_if_a_quarter_of_the_rows_differ() -> None:
    pooled = np.stack([np.arange(16) % 4, np.arange(16) % 5], axis=1).astype(float)
    np.testing.assert_array_equal(_few_values(pooled[:8], pooled[8:]), [True, False])


def test_a_logged_action_of_estimated_probability_zero_has_weight_zero() -> None:
    estimator = IPWStar()
    given = problem("discrete actions", n=4)
    view = View(
        given, Access.SAMPLES, seed=DataSeed("toy", 0, 0), fit_cache=FitCache(), device="cpu"
    )
    counts: list[float] = []

    def policy(*probability: float) -> Any:
        def answer(context: Any, action: Any, *, laplace: float) -> Any:
            counts.append(laplace)
            return np.array(probability)

        return SimpleNamespace(probability=answer)

    estimator.target_ = policy(0.5, 0.5, 0.0, 0.0)
    estimator.logging_ = policy(0.25, 0.0, 0.5, 0.0)
    np.testing.assert_array_equal(estimator._ratio(view), [2.0, 0.0, 0.0, 0.0])
    smoothed = IPWStar(on_missing="laplace", laplace=3.0)
    smoothed.target_, smoothed.logging_ = estimator.target_, estimator.logging_
    smoothed._ratio(view)
    assert counts == [0.0, 0.0, 3.0, 3.0]


def test_defaults_of_the_doubly_robust_estimators() -> None:
    assert (EDR().clip, EDR().regressor, EDR().self_normalized) == (1e3, "mixed", True)
    assert (FEDR().clip, FEDR().flow) == (1e3, "maf")
    assert EDR(cross_fit=0).reward_model().cross_fit == 1
    assert EDR(cross_fit=3).reward_model().cross_fit == 3


def test_categories_are_declared_discrete_in_each_of_their_columns() -> None:
    flags = _declared((CATEGORIES, Column(), Column("atoms"), Column("categorical", (0.0,))))
    assert flags.tolist() == [True, True, False, True, True]


def test_the_pseudo_count_is_one_unless_another_is_asked_for() -> None:
    assert (IPWStar().laplace, IPWStar().on_missing, IPWStar().clip) == (1.0, "fail", None)


def test_boosted_trees_of_xgboost_learn_slowly_from_leaves_of_ten() -> None:
    assert default_params("xgboost", 2_000) == {
        "n_estimators": 50,
        "max_depth": 4,
        "learning_rate": 0.1,
        "min_child_weight": 10,
    }


def test_isotonic_odds_have_half_a_row_of_each_label_more() -> None:
    """Blocks of one, two and one rows, with none, one and one of label 1."""
    at = np.array([-np.inf, -2.0, 0.0, 1.75, 3.0, 99.0])
    score = np.array([-2.0, -0.5, 0.5, 3.0])
    mapped = calibrator("isotonic", score, LABEL, prior=0.25)(at)
    third = np.log(3.0)
    expected = np.array([-third, -third, 0.0, third / 2, third, third]) - 0.25
    np.testing.assert_allclose(mapped, expected)


@pytest.mark.parametrize("label", [0, 1])
def test_a_fold_whose_others_have_one_class_keeps_its_scores(label: int) -> None:
    labels = np.array([label, label, 1 - label])
    fold = np.array([0, 0, 1])
    mapped = calibrated("platt", SCORE[:3], labels, fold)
    np.testing.assert_array_equal(mapped, SCORE[:3])
