"""Compositions, ratios by classification, calibration, and how they are judged."""

from __future__ import annotations

import numpy as np
import pytest

from ope_bench.contracts.data import Column, Schema
from ope_estimators.density_ratio.judgement import (
    expected_calibration_error,
    ratio_diagnostics,
)
from ope_estimators.density_ratio.log_odds import log_odds
from ope_estimators.density_ratio.settings import ratio_model
from ope_estimators.features.composition import compose, separate
from ope_estimators.learning.learners import classifier
from support import tiny_worlds as tiny
from support.ratio_problems import fitted, gaussians, problem_of, view_of

TREE = "sklearn.tree.DecisionTreeClassifier"
BINARY = Column("categorical", (0.0, 1.0))


def test_concat_keeps_numbers_and_codes_categories_without_redundancy():
    schema = Schema((Column("categorical", (0.0, 1.0, 2.0)),), (Column(),))
    given = problem_of([0, 1, 2], [0.1, 0.2, 0.3], [2, 2, 0], [1.0, 2.0, 3.0], schema=schema)
    features = compose(view_of(given), "concat")
    assert features.logged.tolist() == [[0.1, 0, 0], [0.2, 1, 0], [0.3, 0, 1]]
    assert features.target.tolist() == [[1.0, 0, 1], [2.0, 0, 1], [3.0, 0, 0]]
    assert features.discrete.tolist() == [False, True, True]


def test_tensor_is_the_product_of_all_pairs_and_tensor_bias_keeps_the_embedding():
    rng = np.random.default_rng(0)
    c, g, c1, g1 = (rng.normal(size=(7, d)) for d in (2, 3, 2, 3))
    view = view_of(problem_of(c, g, c1, g1))
    for rows, (gg, cc) in zip(("logged", "target"), ((g, c), (g1, c1)), strict=True):
        tensor = getattr(compose(view, "tensor"), rows)
        biased = getattr(compose(view, "tensor-bias"), rows)
        want = np.stack([np.outer(a, b).ravel() for a, b in zip(gg, cc, strict=True)])
        np.testing.assert_allclose(tensor, want)
        np.testing.assert_allclose(biased[:, 0::3], gg)
        np.testing.assert_allclose(np.sort(np.delete(biased, [0, 3, 6], axis=1)), np.sort(want))


def test_the_printed_composition_cannot_tell_contexts_apart_by_scale():
    one = problem_of([2.0], [3.0], [1.0], [1.0])
    other = problem_of([3.0], [2.0], [1.0], [1.0])
    pair = [compose(view_of(p), "tensor").logged for p in (one, other)]
    assert np.array_equal(*pair)
    pair = [compose(view_of(p), "concat").logged for p in (one, other)]
    assert not np.array_equal(*pair)


def test_constant_columns_are_left_out_and_one_of_zeros_stays_where_all_are_constant():
    given = problem_of(np.ones(4), np.full((4, 2), 3.0), np.ones(4), np.full((4, 2), 3.0))
    for composition in ("concat", "tensor", "tensor-bias"):
        assert compose(view_of(given), composition).pooled.tolist() == [[0.0]] * 8
    given = problem_of(np.ones(4), np.arange(4), np.ones(4), np.arange(4))
    assert compose(view_of(given), "concat").pooled.shape == (8, 1)
    embedding, context = separate(view_of(given))
    assert embedding.pooled.shape == (8, 1)
    assert context.pooled.shape == (8, 0)


def test_repeated_values_are_found_whatever_the_schema_says_and_shared_contexts_are_not():
    rng = np.random.default_rng(0)
    c = rng.normal(size=40)
    atoms = rng.normal(size=4)
    given = problem_of(c, rng.choice(atoms, 40), c, rng.choice(atoms, 40), shared=True)
    assert compose(view_of(given), "concat").discrete.tolist() == [True, False]


def binary_context(n, seed):
    """C in {0, 1}; the target's embedding moves up by 1 where C = 0, down where C = 1."""
    rng = np.random.default_rng(seed)
    c = rng.integers(0, 2, n).astype(float)
    g = rng.normal(size=n)
    g1 = rng.normal(size=n) + np.where(c == 0, 1.0, -1.0)
    schema = Schema((BINARY,), (Column(),))
    return problem_of(c, g, c, g1, schema=schema, shared=True)


def test_the_printed_composition_loses_the_context_where_it_is_zero():
    given = binary_context(4000, 0)
    zero = given.context[:, 0] == 0
    g = given.embedding[:, 0]
    truth = np.where(zero, g - 0.5, -g - 0.5)
    for composition in ("concat", "tensor", "tensor-bias"):
        ratio = fitted(given, classifier="hist-gbm", composition=composition, cross_fit=2)
        # The mean of g weighted to the target is +1 where C = 0 and -1 where C = 1.
        up = float((ratio.weights * g)[zero].mean() / ratio.weights[zero].mean())
        down = float((ratio.weights * g)[~zero].mean() / ratio.weights[~zero].mean())
        error = float(np.sqrt(np.mean((ratio.logged - truth)[zero] ** 2)))
        if composition == "tensor":
            # One log-ratio a fold: of where C is 0, nothing is left.
            assert len(np.unique(ratio.logged[zero])) <= 2
            assert abs(up) < 0.1
            assert error > 0.8
        else:
            assert up == pytest.approx(1.0, abs=0.15)
            assert error < 0.6
        assert down == pytest.approx(-1.0, abs=0.15)


# --- ratios


def test_the_ratio_of_two_gaussians_is_found():
    given = gaussians(4000, 4000)
    ratio = fitted(given, classifier_params={"degree": 1})
    np.testing.assert_allclose(ratio.logged, given.embedding[:, 0] - 0.5, atol=0.25)
    np.testing.assert_allclose(ratio.target, given.target_embedding[:, 0] - 0.5, atol=0.4)
    assert ratio.diagnostics["mean_weight"] == pytest.approx(1.0, abs=0.1)
    assert abs(ratio.diagnostics["mean_weight_z"]) < 4


@pytest.mark.parametrize(("n", "m"), [(6000, 1000), (1000, 6000)])
def test_samples_of_different_sizes_do_not_shift_the_weights(n, m):
    given = gaussians(n, m)
    ratio = fitted(given, classifier_params={"degree": 1})
    shift = float(np.mean(ratio.logged - (given.embedding[:, 0] - 0.5)))
    # Uncorrected odds would be off by log 6 = 1.79.
    assert abs(shift) < 0.15
    assert ratio.diagnostics["mean_weight"] == pytest.approx(1.0, abs=0.12)


def test_target_rows_given_twice_leave_in_sample_frequencies_as_they_are():
    given = tiny.through_embedding().population()
    once = fitted(given, classifier=TREE, cross_fit=0)
    view = view_of(given)
    twice = problem_of(
        view.context,
        view.embedding,
        np.tile(view.target_context, (2, 1)),
        np.tile(view.target_embedding, (2, 1)),
    )
    np.testing.assert_allclose(fitted(twice, classifier=TREE, cross_fit=0).logged, once.logged)


def test_a_saturated_classifier_gives_the_exact_ratio_of_frequencies():
    world = tiny.through_embedding()
    given = world.population()
    ratio = fitted(given, classifier=TREE, cross_fit=0)
    x = given.context[:, 0].astype(int)
    g = (given.embedding[:, 0] < 0).astype(int)
    np.testing.assert_allclose(ratio.weights, world.embedding_weights[x, g])
    assert ratio.weights.mean() == pytest.approx(1.0)
    y = given.target_context[:, 0].astype(int)
    h = (given.target_embedding[:, 0] < 0).astype(int)
    np.testing.assert_allclose(ratio.target_weights, world.embedding_weights[y, h])


def test_weights_do_not_change_under_an_invertible_affine_map():
    """Of the learned ratio, where the classifier's family is closed under the map."""
    rng = np.random.default_rng(0)
    c, g, c1, g1 = (rng.normal(size=(1500, 2)) for _ in range(4))
    g1 = g1 * 0.8 + 0.5
    turn = np.array([[2.0, 1.0], [-0.5, 0.7]])
    plain = fitted(problem_of(c, g, c1, g1), classifier_params={"C": 1e6})
    moved = fitted(
        problem_of(c, g @ turn + 3.0, c1, g1 @ turn + 3.0), classifier_params={"C": 1e6}
    )
    np.testing.assert_allclose(moved.logged, plain.logged, atol=2e-2)


def test_the_true_ratio_does_not_change_under_an_invertible_map():
    """Densities of z = sinh(x) and of x differ by a factor that both policies share."""
    from scipy.stats import norm

    x = np.linspace(-3, 3, 101)
    z = np.sinh(x)
    slope = 1 / np.sqrt(1 + z**2)
    before = norm.pdf(x, 0.7, 0.8) / norm.pdf(x)
    after = norm.pdf(np.arcsinh(z), 0.7, 0.8) * slope / (norm.pdf(np.arcsinh(z)) * slope)
    np.testing.assert_allclose(after, before, rtol=1e-12)
    # And so does the weighted mean of any function of the point, estimated from samples of z.
    draws = np.sinh(np.random.default_rng(0).normal(size=400_000))
    weights = norm.pdf(np.arcsinh(draws), 0.7, 0.8) / norm.pdf(np.arcsinh(draws))
    assert float((weights * np.arcsinh(draws)).mean()) == pytest.approx(0.7, abs=0.01)


def test_no_row_is_weighted_by_a_classifier_that_has_seen_it_or_its_twin():
    """One neighbor remembers: in-sample it is sure of everything, held out it must guess."""
    rng = np.random.default_rng(0)
    c = rng.normal(size=300)
    given = problem_of(c, np.zeros(300), c, np.zeros(300), shared=True)
    nearest = "sklearn.neighbors.KNeighborsClassifier"
    params = {"n_neighbors": 1}
    out = fitted(given, classifier=nearest, classifier_params=params, clip=10.0)
    assert 0.3 < np.mean(out.logged > 0) < 0.7
    # Twins in the same fold get the same score: a leak would give opposite ones.
    np.testing.assert_array_equal(out.logged, out.target)


def test_the_clip_holds_and_is_reported():
    given = gaussians(400, 400, shift=3.0)
    loose, tight = (fitted(given, clip=clip, cross_fit=0) for clip in (None, 2.0))
    assert loose.diagnostics["clipped_share"] == 0
    assert np.abs(tight.logged).max() <= np.log(2.0) + 1e-12
    share = np.mean(np.abs(loose.logged) > np.log(2.0))
    assert tight.diagnostics["clipped_share"] == pytest.approx(share)


def test_infinite_odds_stay_finite_without_a_clip():
    given = gaussians(100, 100, shift=8.0)
    ratio = fitted(given, classifier="random-forest", classifier_params={"n_estimators": 5})
    assert np.isfinite(ratio.weights).all()
    assert np.isfinite(ratio.target_weights).all()


@pytest.mark.parametrize("name", ["logistic", "gbm", "hist-gbm", "xgboost", "random-forest"])
def test_log_odds_agree_with_probabilities_for_every_classifier(name):
    if name == "xgboost":
        pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    y = (x[:, 0] + rng.normal(size=300) > 0).astype(int)
    model = classifier(name, seed=0).fit(x, y)
    with np.errstate(divide="ignore"):
        p = model.predict_proba(x).astype(float)
        want = np.log(p[:, 1]) - np.log(p[:, 0])
    np.testing.assert_allclose(log_odds(model, x), want, atol=1e-4)


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 2), (3, 20), (20, 20)])
@pytest.mark.parametrize("cross_fit", [0, 5])
def test_few_rows_give_finite_weights(shape, cross_fit):
    n, m = shape
    rng = np.random.default_rng(0)
    given = problem_of(*(rng.normal(size=k) for k in (n, n, m, m)))
    for name in ("logistic", "hist-gbm"):
        ratio = fitted(given, classifier=name, cross_fit=cross_fit, clip=1e3)
        assert np.isfinite(ratio.logged).all()
        assert ratio.logged.shape == (n,)
        assert ratio.target.shape == (m,)


# --- calibration


def test_auc_counts_pairs():
    rng = np.random.default_rng(0)
    low, high = rng.integers(0, 5, 30).astype(float), rng.integers(1, 7, 20).astype(float)
    pairs = [(b > a) + 0.5 * (b == a) for a in low for b in high]
    label = np.repeat([0, 1], [len(low), len(high)])
    facts = ratio_diagnostics(np.concatenate([low, high]), label)
    assert facts["auc"] == pytest.approx(np.mean(pairs))


def test_ratios_that_are_no_numbers_have_no_auc():
    with np.errstate(invalid="ignore"):
        facts = ratio_diagnostics(np.array([0.0, np.nan, 1.0]), np.array([0, 0, 1]))
    assert facts["auc"] is None


def test_calibration_error_is_zero_for_right_frequencies_and_large_for_wrong_ones():
    odds = np.repeat([-np.log(3.0), np.log(3.0)], 400)
    label = np.concatenate([np.repeat([1, 0], [100, 300]), np.repeat([1, 0], [300, 100])])
    assert expected_calibration_error(odds, label, bins=2) == pytest.approx(0.0)
    assert expected_calibration_error(-odds, label, bins=2) == pytest.approx(0.5)


def test_equal_weights_are_judged_as_telling_nothing():
    facts = ratio_diagnostics(np.zeros(30), np.repeat([0, 1], [10, 20]))
    assert facts["log_loss"] == pytest.approx(np.log(2))
    assert facts["auc"] == 0.5
    assert facts["mean_weight"] == 1.0
    assert facts["mean_weight_z"] is None
    assert facts["ece"] == pytest.approx(0.0)


def test_equal_settings_share_one_fit_and_different_ones_do_not():
    view = view_of(gaussians(40, 40))
    settings = {"composition": "concat", "classifier": "logistic", "calibration": "none"}
    a, b, c = (
        view.fitted(ratio_model(classifier_params=p, cross_fit=k, clip=None, **settings))
        for p, k in (({"C": 1.0, "degree": 1}, 0), ({"degree": 1, "C": 1.0}, 1), (None, 2))
    )
    assert a is b
    assert a is not c


def test_calibrations_and_clips_of_one_classifier_share_its_scores():
    view = view_of(gaussians(60, 60))
    models = [
        ratio_model(
            composition="concat",
            classifier="logistic",
            classifier_params=None,
            cross_fit=5,
            calibration=kind,
            clip=clip,
        )
        for kind, clip in (("none", None), ("temperature", 10.0))
    ]
    raw, mended = (view.fitted(model) for model in models)
    # A temperature multiplies each fold's scores by one number.
    slope = mended.logged / raw.logged
    assert len(np.unique(np.round(slope[np.abs(mended.logged) < np.log(10)], 8))) <= 5
