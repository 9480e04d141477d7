"""Calibration of scores: what is found, what stays finite, what a fold may see."""

from __future__ import annotations

import numpy as np
import pytest

from ope_bench.base.errors import ParameterError
from ope_estimators.density_ratio.calibration import calibrated, calibrator
from support.ratio_problems import fitted, gaussians


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


def test_each_fold_is_calibrated_on_all_others():
    rng = np.random.default_rng(4)
    score, label, fold = rng.normal(size=300), rng.integers(2, size=300), np.arange(300) % 3
    found = calibrated("platt", score, label, fold)
    for one in range(3):
        rest = fold != one
        prior = np.log(label[rest].sum() / (1 - label[rest]).sum())
        expected = calibrator("platt", score[rest], label[rest], prior=prior)(score[~rest])
        assert found[~rest].tolist() == expected.tolist()


def test_calibration_without_folds_is_refused():
    with pytest.raises(ParameterError, match="needs cross_fit of at least 2"):
        fitted(gaussians(20, 20), calibration="platt", cross_fit=0)


def test_calibration_mends_an_overconfident_classifier():
    given = gaussians(1000, 1000)
    settings = {"classifier": "gbm", "classifier_params": {"max_depth": 6, "n_estimators": 40}}
    raw, *mended = (
        fitted(given, calibration=kind, cross_fit=3, **settings).diagnostics
        for kind in ("none", "platt", "temperature", "isotonic")
    )
    for facts in mended:
        assert facts["log_loss"] < raw["log_loss"]
        assert facts["ece"] < raw["ece"]


# --- judgement


def _scored(scale: float, best: float, *, rows: int = 1600) -> tuple[np.ndarray, np.ndarray]:
    """Scores of that scale whose labels follow ``best`` times the score."""
    rng = np.random.default_rng(0)
    score = scale * rng.standard_normal(rows)
    label = (rng.random(rows) < 1 / (1 + np.exp(-best * score))).astype(np.int64)
    return score, label


@pytest.mark.parametrize("kind", ["temperature", "platt"])
@pytest.mark.parametrize(("scale", "best"), [(5, 0.0), (10, 0.1), (0.1, 10)])
def test_calibration_finds_the_slope_that_an_optimizer_finds(
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


@pytest.mark.parametrize(("scale", "best"), [(5, 0.0), (10, 0.1)])
def test_a_step_that_overshoots_is_shortened_though_the_shift_stays(
    scale: float, best: float
) -> None:
    """Mirrored rows have no shift, so that its step is zero from the beginning."""
    score, label = _scored(scale, best)
    score, label = np.concatenate([score, -score]), np.concatenate([label, 1 - label])
    platt, temperature = (
        calibrator(kind, score, label)(np.array([0.0, 1.0])) for kind in ("platt", "temperature")
    )
    assert platt == pytest.approx(temperature, abs=1e-6)
