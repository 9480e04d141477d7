"""Compositions, ratios by classification, calibration, and how they are judged."""

from __future__ import annotations

import numpy as np
import pytest

from ope_bench.data import Column, Problem, Schema
from ope_bench.errors import ParameterError
from ope_bench.memo import Memo
from ope_bench.seeding import DataSeed
from ope_bench.view import Access, View
from ope_estimators.density_ratio.calibration import calibrated, calibrator
from ope_estimators.density_ratio.composition import compose, separate
from ope_estimators.density_ratio.judgement import (
    area_under_curve,
    expected_calibration_error,
    judged,
)
from ope_estimators.density_ratio.log_odds import log_odds
from ope_estimators.density_ratio.settings import ratio_model
from ope_estimators.nuisance.learners import classifier

TREE = "sklearn.tree.DecisionTreeClassifier"
BINARY = Column("categorical", (0.0, 1.0))


def problem_of(c, g, c1, g1, *, schema=None, shared=False) -> Problem:
    c, g, c1, g1 = (np.asarray(a, float).reshape(len(a), -1) for a in (c, g, c1, g1))
    n, m = len(c), len(c1)
    return Problem(
        context=c,
        action=np.zeros(n, int),
        embedding=g,
        reward=np.zeros(n),
        target_context=c1,
        target_action=np.zeros(m, int),
        target_embedding=g1,
        n_actions=1,
        schema=schema,
        shared_contexts=shared,
    )


def view_of(problem: Problem, seed: int = 0) -> View:
    return View(problem, Access.SAMPLES, seed=DataSeed("test", seed, 0), memo=Memo())


def fitted(problem: Problem, seed: int = 0, **changes):
    settings = {
        "composition": "concat",
        "classifier": "logistic",
        "classifier_params": None,
        "cross_fit": 5,
        "calibration": "none",
        "clip": None,
    }
    return view_of(problem, seed).fitted(ratio_model(**settings | changes))


def gaussians(n, m, seed=0, shift=1.0):
    """Logged g ~ N(0, 1), target g ~ N(shift, 1); log-ratio shift g - shift² / 2."""
    rng = np.random.default_rng(seed)
    c, c1 = rng.normal(size=n), rng.normal(size=m)
    return problem_of(c, rng.normal(size=n), c1, shift + rng.normal(size=m))


# --- compositions


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


def test_target_rows_given_twice_leave_in_sample_frequencies_as_they_are(tiny):
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


def test_a_saturated_classifier_gives_the_exact_ratio_of_frequencies(tiny):
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
    """Of the learnt ratio, where the classifier's family is closed under the map."""
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
    """One neighbour remembers: in-sample it is sure of everything, held out it must guess."""
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


def labelled(slope, shift, n=20_000):
    rng = np.random.default_rng(0)
    score = rng.normal(size=n) * 2
    label = (rng.random(n) < 1 / (1 + np.exp(-(slope * score + shift)))).astype(int)
    return score, label


def test_platt_finds_slope_and_shift_and_temperature_the_slope_alone():
    score, label = labelled(0.5, 0.4)
    at = np.array([0.0, 1.0])
    low, high = calibrator("platt", score, label)(at)
    assert (high - low, low) == (pytest.approx(0.5, abs=0.03), pytest.approx(0.4, abs=0.05))
    score, label = labelled(0.5, 0.0)
    assert calibrator("temperature", score, label)(at).tolist() == [
        0.0,
        pytest.approx(0.5, abs=0.03),
    ]


def test_isotonic_never_decreases_and_follows_a_bent_map():
    rng = np.random.default_rng(0)
    score = rng.uniform(-3, 3, 30_000)
    odds = np.where(score < 0, -1.0, 1.0)
    label = (rng.random(len(score)) < 1 / (1 + np.exp(-odds))).astype(int)
    mapped = calibrator("isotonic", score, label)(np.linspace(-4, 4, 81))
    assert (np.diff(mapped) >= 0).all()
    assert np.isfinite(mapped).all()
    assert mapped[20] == pytest.approx(-1.0, abs=0.2)
    assert mapped[60] == pytest.approx(1.0, abs=0.2)


def test_separable_scores_still_calibrate_to_finite_odds():
    score = np.array([-2.0, -1.0, 1.0, 2.0])
    label = np.array([0, 0, 1, 1])
    for kind in ("platt", "temperature", "isotonic"):
        assert np.isfinite(calibrator(kind, score, label)(score)).all()


def test_calibration_of_a_fold_does_not_see_the_fold():
    score, label = labelled(1.0, 0.0, n=100)
    fold = np.arange(100) % 4
    flipped = np.where(fold == 0, 1 - label, label)
    for kind in ("platt", "temperature", "isotonic"):
        pair = [calibrated(kind, score, y, fold)[fold == 0] for y in (label, flipped)]
        np.testing.assert_array_equal(*pair)


def test_calibration_without_folds_is_refused():
    with pytest.raises(ParameterError, match="needs cross_fit of at least 2"):
        fitted(gaussians(20, 20), calibration="platt", cross_fit=0)


@pytest.mark.parametrize("kind", ["platt", "temperature", "isotonic"])
def test_calibration_mends_an_overconfident_classifier(kind):
    given = gaussians(1000, 1000)
    settings = {"classifier": "gbm", "classifier_params": {"max_depth": 6, "n_estimators": 40}}
    raw, mended = (fitted(given, calibration=k, cross_fit=3, **settings) for k in ("none", kind))
    assert mended.diagnostics["log_loss"] < raw.diagnostics["log_loss"]
    assert mended.diagnostics["ece"] < raw.diagnostics["ece"]


# --- judgement


def test_auc_counts_pairs():
    rng = np.random.default_rng(0)
    low, high = rng.integers(0, 5, 30).astype(float), rng.integers(1, 7, 20).astype(float)
    pairs = [(b > a) + 0.5 * (b == a) for a in low for b in high]
    assert area_under_curve(low, high) == pytest.approx(np.mean(pairs))


def test_calibration_error_is_zero_for_right_frequencies_and_large_for_wrong_ones():
    odds = np.repeat([-np.log(3.0), np.log(3.0)], 400)
    label = np.concatenate([np.repeat([1, 0], [100, 300]), np.repeat([1, 0], [300, 100])])
    assert expected_calibration_error(odds, label, bins=2) == pytest.approx(0.0)
    assert expected_calibration_error(-odds, label, bins=2) == pytest.approx(0.5)


def test_equal_weights_are_judged_as_telling_nothing():
    facts = judged(np.zeros(30), np.repeat([0, 1], [10, 20]))
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


def _scored(scale: float, best: float, *, rows: int = 1600) -> tuple[np.ndarray, np.ndarray]:
    """Scores of that scale whose labels follow ``best`` times the score."""
    rng = np.random.default_rng(0)
    score = scale * rng.standard_normal(rows)
    label = (rng.random(rows) < 1 / (1 + np.exp(-best * score))).astype(np.int64)
    return score, label


@pytest.mark.parametrize("kind", ["temperature", "platt"])
@pytest.mark.parametrize(("scale", "best"), [(5, 0.0), (10, 0.1), (0.1, 10)])
def test_calibration_finds_the_slope_that_an_optimiser_finds(
    kind: str, scale: float, best: float
) -> None:
    from scipy.optimize import minimize

    score, label = _scored(scale, best)

    def loss(theta: np.ndarray) -> float:
        shift = theta[1] if kind == "platt" else 0.0
        return float(np.logaddexp(0, (1 - 2 * label) * (theta[0] * score + shift)).mean())

    found = calibrator(kind, score, label)
    shift = float(found(np.zeros(1))[0])
    slope = float(found(np.ones(1))[0]) - shift
    free = minimize(loss, [best, 0.0][: 1 + (kind == "platt")], method="Nelder-Mead")
    assert loss(np.array([slope, shift])) < free.fun + 1e-4


@pytest.mark.parametrize("kind", ["temperature", "platt", "isotonic"])
@pytest.mark.parametrize("sizes", [(8000, 2000), (2000, 8000)])
def test_calibration_leaves_the_odds_of_the_classes_out(kind: str, sizes: tuple[int, int]) -> None:
    """Scores that are the true log-ratio stay so when one class is four times larger."""
    rng = np.random.default_rng(0)
    n, m = sizes
    x = np.concatenate([rng.normal(size=n), rng.normal(0.7, size=m)])
    truth = 0.7 * x - 0.245
    fold = np.arange(n + m) % 5
    mapped = calibrated(kind, truth, np.repeat([0, 1], [n, m]), fold)
    assert abs(float((mapped - truth).mean())) < 0.05


@pytest.mark.parametrize("kind", ["temperature", "platt", "isotonic"])
def test_calibration_makes_votes_of_all_trees_finite(kind: str) -> None:
    score, label = _scored(2, 1)
    score[:3] = [np.inf, -np.inf, np.inf]
    assert np.isfinite(calibrator(kind, score, label)(score)).all()
