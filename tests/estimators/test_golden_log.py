"""Every estimator of actions on six rows, against values worked out outside of this code base.

A new estimator adds a line to `GOLDEN`. The log and the reward model are in support/golden_log.py.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest

from ope_bench.plugins.registry import registry
from ope_estimators.structure.pc_ipw import PolicyConvolution, convolved_ratios
from support import golden_log as golden
from support import tiny_worlds as tiny

GOLDEN: list[tuple[str, dict[str, Any], float]] = [
    ("ipw", {}, 1.333333),
    ("ipws", {}, 0.956175),
    ("ipw", {"normalize": True}, 0.956175),
    ("ipw", {"clip": 2.0}, 0.75),
    ("ipw", {"clip": sqrt(6.0)}, 0.899830),
    ("ipw", {"clip": "root-n"}, 0.899830),
    ("dm", {}, 0.48),
    ("dr", {}, 1.087222),
    ("sndr", {}, 0.915458),
    ("switch", {"threshold": 2.0}, 0.498333),
    ("switch-dr", {"threshold": 2.0}, 0.528889),
    ("dr-eb", {}, 0.776205),
    ("dr-os", {"lambda_": 4.0}, 0.653029),
    ("dr-ps", {"clip": 2.0}, 0.828889),
    ("sg-dr", {"lambda_": 0.1}, 0.971172),
    ("sg-dr", {"lambda_": 0.5}, 0.793280),
    ("cab", {"threshold": 2.0}, 0.945),
    ("tmle", {}, 0.945605),
    ("tmle", {"form": "covariate"}, 0.935593),
    ("tmle", {"link": "linear"}, 0.915458),
    ("sg-ipw", {"lambda_": 0.1}, 1.069314),
    ("sg-ipw", {"lambda_": 0.5}, 0.656878),
    ("ix-ipw", {"gamma": 0.1}, 0.898810),
    ("es-ipw", {"alpha": 0.5}, 0.610963),
    ("es-ipw", {"alpha": 0.5, "form": "ratio"}, 0.809405),
    ("ls-ipw", {}, 0.836484),
    ("ls-ipw", {"lambda_": 1 / sqrt(6.0)}, 0.836484),
    ("lse-ipw", {"lambda_": -0.1}, 1.192161),
    ("lse-ipw", {"lambda_": -1.0}, 0.507629),
    ("beta-ipw", {}, 0.933021),
    ("el-ipw", {}, 0.943700),
    ("el-ipw", {"divergence": "likelihood"}, 0.928249),
    ("ipw-re", {}, 1.333333),
    ("offcem", {"clusters": [0, 0, 1]}, 0.973056),
    ("mdr", {"reward": "action"}, 0.973056),
    ("mr", {"regressor": "linear", "cross_fit": 1}, 1.333333),
    ("group-ipw", {"clusters": 3}, 1.333333),
    ("pc-ipw", {"bandwidth": 0.0}, 1.333333),
    ("eipw", {}, 1.111111),
    ("eipws", {}, 0.941176),
]
"""Id, parameters, value to six digits. Of clusters that are embeddings, MIPS is cluster IPS."""

STANDARD_ERRORS = [
    ("ipw", {}, 0.768597),
    # The catalogue's delta method has no factor n / (n - 1); ours has it, so that equal weights
    # give the standard error of a mean.
    ("ipws", {}, 0.040794 * sqrt(6 / 5)),
]


def made(reference: str, params: dict[str, Any]) -> Any:
    return registry().find("estimator", f"ope-bench:{reference}").cls(**params)


@pytest.mark.parametrize(("reference", "params", "value"), GOLDEN)
def test_the_value_is_that_of_the_golden_log(reference, params, value):
    assert golden.run(made(reference, params)).value == pytest.approx(value, abs=6e-7)


@pytest.mark.parametrize(("reference", "params", "error"), STANDARD_ERRORS)
def test_the_standard_error_is_that_of_the_golden_log(reference, params, error):
    found = golden.run(made(reference, params)).standard_error
    assert found == pytest.approx(error, abs=6e-7)


def test_the_effective_sample_size_is_that_of_the_golden_log():
    weights = golden.run(made("ipw", {})).weights
    assert weights.sum() ** 2 / (weights**2).sum() == pytest.approx(2.459920, abs=6e-7)


def test_the_baseline_of_beta_ipw_is_that_of_the_golden_log():
    diagnostics = golden.run(made("beta-ipw", {})).diagnostics
    assert diagnostics["baseline"] == pytest.approx(1.014877, abs=6e-7)
    assert diagnostics["fallback"] is None


NO_MEAN_OF_REWARDS = {
    *("lse-ipw", "beta-ipw", "dm", "dr", "sndr", "switch", "switch-dr", "dr-os", "dr-ps"),
    *("dr-eb", "sg-dr", "cab", "tmle", "offcem", "mdr"),
}


def test_the_weights_reported_are_those_that_were_used():
    """Where an estimate is the mean of weighted rewards, the weights say so."""
    for reference, params, value in GOLDEN:
        estimate = golden.run(made(reference, params))
        total = len(golden.REWARD)
        if "normalize" in params or reference in ("ipws", "eipws"):
            total = estimate.weights.sum()
        if reference in NO_MEAN_OF_REWARDS:
            continue
        mean = estimate.weights @ golden.REWARD / total
        assert mean == pytest.approx(value, abs=6e-7), reference


def test_policy_convolution_by_a_given_matrix_is_that_of_the_golden_log():
    estimator = PolicyConvolution()
    view = tiny.view_of(golden.problem(), estimator.access)
    matrix = np.array([[0.8, 0.2, 0.0], [0.2, 0.8, 0.0], [0.0, 0.0, 1.0]])
    found = (convolved_ratios(view, tiny.GivenMatrix(matrix), 1) * golden.REWARD).mean()
    assert found == pytest.approx(1.243464, abs=6e-7)


def test_a_constant_model_by_import_path_serves_as_reward_model():
    """With the mean reward for every action, DR is the mean reward plus weighted residuals."""
    weight = golden.TARGET[golden.CONTEXT, golden.ACTION]
    weight = weight / golden.LOGGING[golden.CONTEXT, golden.ACTION]
    mean = golden.REWARD.mean()
    expected = {"dm": mean, "dr": mean + (weight * (golden.REWARD - mean)).mean()}
    for reference, value in expected.items():
        params = {"regressor": "sklearn.dummy.DummyRegressor", "cross_fit": 1}
        found = tiny.run(made(reference, params), golden.problem()).value
        assert found == pytest.approx(value, rel=1e-12)


def test_the_log_is_that_of_the_catalogue():
    assert np.allclose(golden.LOGGING.sum(axis=1), 1)
    assert np.allclose(golden.TARGET.sum(axis=1), 1)
    problem = golden.problem()
    rows = [*zip(problem.context[:, 0], problem.action, problem.reward, strict=True)]
    assert rows == [(0, 0, 0), (0, 1, 1), (0, 2, 1), (1, 0, 1), (1, 2, 0), (1, 2, 1)]
