"""EPW and EPWS: exact where the ratio is, wrong where the printed kernel makes them so."""

from __future__ import annotations

import numpy as np
import pytest

from ope_bench.base.errors import PositivityViolation, UnavailableError
from ope_bench.contracts.data import Problem
from ope_estimators.actions.weighting.weighted_mean import self_normalized_mean
from ope_estimators.density_ratio.pairing import pair_kernel
from ope_estimators.embedded.learned.epw import EPW
from ope_estimators.embedded.learned.epw_paper import EPWPaper
from ope_estimators.embedded.learned.epws import EPWS
from ope_estimators.embedded.learned.epws_paper import EPWSPaper
from support import tiny_worlds as tiny

TREE = "sklearn.tree.DecisionTreeClassifier"
SATURATED = {"classifier": TREE, "cross_fit": 0, "clip": None, "calibration": "none"}
"""In-sample, on discrete data, a full tree gives the frequencies themselves."""

QUICK = {"classifier": "logistic"}


def gaussian(n, rng, *, shift=0.7, reward=np.square, m=None) -> Problem:
    """No context; logged g ~ N(0, 1), target g ~ N(shift, 1)."""
    m = n if m is None else m
    g = rng.normal(size=(n, 1))
    return Problem(
        context=np.ones((n, 1)),
        action=np.zeros(n, int),
        embedding=g,
        reward=reward(g[:, 0]),
        target_context=np.ones((m, 1)),
        target_action=np.zeros(m, int),
        target_embedding=rng.normal(size=(m, 1)) + shift,
        n_actions=1,
    )


@pytest.mark.parametrize("cls", [EPW, EPWS])
def test_the_exact_ratio_gives_the_exact_value(cls):
    world = tiny.through_embedding()
    estimate = tiny.run(cls(**SATURATED), world.population())
    assert estimate.value == pytest.approx(world.value, abs=1e-12)


def test_rewards_that_bypass_the_embedding_bias_them_by_a_finite_sum():
    """Without the action in the embedding, the limit is E_0[w(x, g) q(x, a)]."""
    world = tiny.small()
    limit = world.expectation(world.pi0, world.q * world.embedding_weights[:, None, :])
    estimate = tiny.run(EPW(**SATURATED), world.population())
    assert estimate.value == pytest.approx(limit, abs=1e-12)
    assert abs(limit - world.value) > 0.01


def test_estimates_follow_from_their_own_weights():
    given = tiny.through_embedding().sample(60, np.random.default_rng(0))
    plain, normal = (tiny.run(cls(**QUICK), given) for cls in (EPW, EPWS))
    assert plain.value == pytest.approx(np.mean(plain.weights * given.reward))
    assert normal.value == pytest.approx(np.average(given.reward, weights=normal.weights))
    np.testing.assert_array_equal(plain.weights, normal.weights)
    assert plain.weight_space == normal.weight_space == "embedding"
    assert len(plain.target_weights) == len(given.target_action)
    # The error of the ratio is left out of what a weighted mean's own spread says.
    assert plain.standard_error is None
    assert normal.standard_error is None


def test_epw_and_epws_share_one_fit():
    view = tiny.view_of(tiny.through_embedding().sample(60, np.random.default_rng(0)))
    rng = np.random.default_rng(0)
    one, two = (cls(**QUICK).fit(view, rng=rng, device="cpu") for cls in (EPW, EPWS))
    assert one.ratio_ is two.ratio_
    assert sum(".RatioModel(" in key for key in view.fitted_keys()) == 1


def test_shifted_rewards_shift_the_self_normalized_estimate_alone():
    world = tiny.through_embedding()
    given = world.sample(80, np.random.default_rng(0))
    shifted = world.but(q=world.q + 5.0).sample(80, np.random.default_rng(0))
    before, after = (tiny.run(EPWS(**QUICK), p).value for p in (given, shifted))
    assert after == pytest.approx(before + 5.0)


def test_identical_samples_weigh_every_row_alike():
    given = gaussian(2000, np.random.default_rng(0), shift=0.0)
    estimate = tiny.run(EPWS(), given)
    assert estimate.value == pytest.approx(float(given.reward.mean()), abs=0.1)


def test_a_larger_target_sample_does_not_shift_the_estimate():
    rng = np.random.default_rng(0)
    values = [
        tiny.run(EPW(**QUICK), gaussian(n, rng, reward=lambda g: 1 + g, m=m)).value
        for n, m in ((3000, 1000), (1500, 6000))
    ]
    assert values == [pytest.approx(1.7, abs=0.15)] * 2


# --- the printed kernel


def limit_of_the_printed_form(m, s, h):
    """m² + v, 1 / v = 1 / s² + 1 / (s² + h²): what q = g² under π1 = N(m, s²) tends to."""
    return m**2 + 1 / (1 / s**2 + 1 / (s**2 + h**2))


@pytest.mark.parametrize(
    ("m", "s", "h"), [(0.7, 1.0, 1.0), (0.7, 1.0, 0.3), (-0.4, 0.8, 2.0), (0.7, 1.0, 50.0)]
)
def test_the_printed_form_tends_to_a_wrong_limit_even_with_the_true_ratio(m, s, h):
    rng = np.random.default_rng(0)
    n = 400_000
    g, other = rng.normal(size=(n, 1)), rng.normal(m, s, size=(n, 1))
    weights = np.exp(0.5 * g**2 - 0.5 * ((g - m) / s) ** 2)[:, 0] / s
    closeness = pair_kernel("rbf", h, g, other, np.arange(n)[:, None])
    reward = g[:, 0] ** 2
    printed = self_normalized_mean(weights * closeness, reward)
    plain = self_normalized_mean(weights, reward)
    assert printed == pytest.approx(limit_of_the_printed_form(m, s, h), abs=0.02)
    assert plain == pytest.approx(m**2 + s**2, abs=0.02)


def test_the_wrong_limit_is_far_from_the_truth_and_only_a_wide_kernel_is_right():
    assert limit_of_the_printed_form(0.7, 1.0, 1.0) == pytest.approx(1.1567, abs=1e-4)
    assert limit_of_the_printed_form(0.7, 1.0, 1e6) == pytest.approx(1.49, abs=1e-6)


def test_the_estimator_itself_goes_to_the_printed_limit_and_without_kernel_to_the_value():
    given = gaussian(40_000, np.random.default_rng(0))
    settings = {"classifier": "logistic", "cross_fit": 2, "clip": None}
    printed = tiny.run(EPWS(kernel="rbf", bandwidth=1.0, **settings), given)
    averaged = tiny.run(EPWS(kernel="rbf", bandwidth=1.0, target_draws=50, **settings), given)
    plain = tiny.run(EPWS(**settings), given)
    assert printed.value == pytest.approx(1.1567, abs=0.05)
    assert averaged.value == pytest.approx(1.1567, abs=0.05)
    assert plain.value == pytest.approx(1.49, abs=0.06)
    assert printed.diagnostics["bandwidth"] == 1.0


def test_the_corrected_kernel_goes_to_the_value_as_it_narrows():
    given = gaussian(4000, np.random.default_rng(0))
    errors = [
        abs(
            tiny.run(EPWS(kernel="rbf", kernel_form="ek-is", bandwidth=h), given).value
            - given.reward @ np.exp(0.7 * given.embedding[:, 0] - 0.245) / len(given.reward)
        )
        for h in (2.0, 0.2)
    ]
    assert errors[0] > 0.4
    assert errors[1] < 0.15


def test_averaging_over_draws_removes_the_noise_of_a_single_one():
    spread = []
    for draws in (1, 8):
        values = [
            tiny.run(
                EPWS(kernel="rbf", bandwidth=0.5, target_draws=draws, **QUICK),
                gaussian(300, np.random.default_rng(seed)),
            ).value
            for seed in range(25)
        ]
        spread.append(np.std(values))
    assert spread[1] < spread[0]


@pytest.mark.parametrize("kernel", ["rbf", "epanechnikov"])
def test_a_kernel_that_underflows_everywhere_is_a_violation_with_a_fallback(kernel):
    given = gaussian(50, np.random.default_rng(0))
    with pytest.raises(PositivityViolation, match="kernel is 0 for all 50 pairs") as caught:
        tiny.run(EPWS(kernel=kernel, bandwidth=1e-6, **QUICK), given)
    assert caught.value.fallback == pytest.approx(tiny.run(EPWS(**QUICK), given).value)


def test_the_printed_pairing_needs_equal_sizes():
    given = gaussian(30, np.random.default_rng(0), m=40)
    with pytest.raises(UnavailableError, match="30 and 40 rows"):
        tiny.run(EPWSPaper(), given)
    assert np.isfinite(tiny.run(EPWSPaper(target_draws=3), given).value)


def test_paired_weights_are_not_passed_off_as_a_ratio():
    given = gaussian(50, np.random.default_rng(0))
    estimate = tiny.run(EPWS(kernel="rbf", **QUICK), given)
    assert estimate.weight_space is None
    assert estimate.value == pytest.approx(np.average(given.reward, weights=estimate.weights))


# --- the printed forms


def test_the_printed_forms_are_the_plain_ones_with_other_defaults():
    given = tiny.through_embedding().sample(50, np.random.default_rng(0))
    settings = {
        "composition": "concat",
        "classifier": "gbm",
        "cross_fit": 0,
        "calibration": "none",
        "clip": None,
    }
    assert tiny.run(EPWPaper(), given).value == tiny.run(EPW(**settings), given).value
    kernel = EPWS(kernel="rbf", **settings)
    assert tiny.run(EPWSPaper(), given).value == tiny.run(kernel, given).value


def test_in_sample_weights_are_more_extreme_than_held_out_ones():
    given = gaussian(300, np.random.default_rng(0), shift=0.0)
    inside, outside = (
        tiny.run(EPW(classifier="gbm", calibration="none", cross_fit=k), given) for k in (0, 5)
    )
    # Equal samples: every log-loss below log 2 is self-deceit.
    assert inside.diagnostics["log_loss"] < np.log(2) - 0.05
    assert outside.diagnostics["log_loss"] > np.log(2)


@pytest.mark.parametrize("cls", [EPW, EPWS, EPWPaper, EPWSPaper])
@pytest.mark.parametrize("rows", [1, 2, 20])
def test_few_rows_give_a_finite_estimate(cls, rows):
    given = gaussian(rows, np.random.default_rng(0))
    assert np.isfinite(tiny.run(cls(), given).value)


@pytest.mark.parametrize("cls", [EPW, EPWS, EPWPaper, EPWSPaper])
def test_constant_embeddings_give_the_logging_average_of_equal_weights(cls):
    rng = np.random.default_rng(0)
    n = 40
    given = Problem(
        context=np.zeros((n, 1)),
        action=np.zeros(n, int),
        embedding=np.ones((n, 1)),
        reward=rng.normal(size=n),
        target_context=np.zeros((n, 1)),
        target_action=np.zeros(n, int),
        target_embedding=np.ones((n, 1)),
        n_actions=1,
    )
    assert tiny.run(cls(), given).value == pytest.approx(float(given.reward.mean()))


WITHOUT_EXTRAS = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "zuko", "xgboost"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from ope_bench import evaluate
from ope_estimators.embedded.learned.epw import EPW
from ope_estimators.embedded.learned.fepws import FEPWS
ests = [EPW("concat", "logistic"), EPW("concat", "xgboost"), EPW("concat", "mlp"), FEPWS()]
for row in evaluate(ests, "saito-toy", replicates=1):
    print(row.status.value, "|", row.error_message)
"""


def test_without_torch_and_xgboost_the_rest_works_and_they_come_with_a_pip_line():
    import subprocess
    import sys

    command = [sys.executable, "-c", WITHOUT_EXTRAS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    lines = done.stdout.splitlines()
    assert [line.split(" | ")[0] for line in lines] == ["ok"] + ["unavailable"] * 3
    assert "ope-bench[xgboost]" in lines[1]
    assert "ope-bench[flow]" in lines[2]
    assert "ope-bench[flow]" in lines[3]
