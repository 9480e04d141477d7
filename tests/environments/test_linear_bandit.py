"""`linear-bandit`: rewards, policies and values against closed forms and another generator."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import chisquare, norm
from sklearn.linear_model import LogisticRegression

from ope_bench import evaluate
from ope_bench.base.errors import ParameterError
from ope_bench.contracts.data import Problem, Truth
from ope_bench.contracts.policies import EpsilonGreedy, Softmax, Uniform
from ope_environments.learned.classifier_policy import ClassifierPolicy
from ope_environments.linear_bandit.environment import LinearBandit, MeanReward
from ope_environments.synthetic.linear_score import ActionScore

Draw = Callable[..., tuple[Problem, Truth]]
N = 40_000
SETTINGS: list[dict[str, Any]] = [
    {},
    {"reward": "logistic"},
    {"reward": "logistic", "logging_beta": -2.0, "slope_std": 3.0},
    {"target": "softmax", "target_beta": 2.0, "logging": "epsilon-greedy"},
    {"reward": "logistic", "target": "epsilon-greedy", "logging": "uniform"},
    {"target": "epsilon-greedy", "target_beta": -1.0, "shared_contexts": True},
]


def world(environment: LinearBandit, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Intercepts (n_actions,) and slopes (n_actions, d_context), from the embedding."""
    told = LinearBandit(**{**environment.get_params(), "embedding": "weights"})
    rng = np.random.default_rng
    problem, _ = told.sample(world_rng=rng([0, seed]), logged_rng=rng(1), target_rng=rng(2))
    assert problem.action_embedding is not None
    return problem.action_embedding[:, 0], problem.action_embedding[:, 1:]


def reference(
    environment: LinearBandit, n: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Context, action, reward and the mean rewards, row by row as the docstring says."""
    intercept, slopes = world(environment)
    columns: dict[str, list[Any]] = {"context": [], "action": [], "reward": [], "mean": []}
    for _ in range(n):
        x = rng.normal(size=environment.d_context)
        score = np.array([b + t @ x for b, t in zip(intercept, slopes, strict=True)])
        mean = 1 / (1 + np.exp(-score)) if environment.reward == "logistic" else score
        if environment.logging == "uniform":
            probability = np.full(len(mean), 1 / len(mean))
        elif environment.logging == "softmax":
            probability = np.exp(environment.logging_beta * mean)
            probability /= probability.sum()
        else:
            probability = np.full(len(mean), environment.logging_epsilon / len(mean))
            probability[mean.argmax()] += 1 - environment.logging_epsilon
        action = rng.choice(len(mean), p=probability)
        if environment.reward == "logistic":
            reward = float(rng.binomial(1, mean[action]))
        else:
            reward = rng.normal(mean[action], environment.reward_std)
        for name, value in zip(columns, (x, action, reward, mean), strict=True):
            columns[name].append(value)
    return {name: np.array(values) for name, values in columns.items()}


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_weighted_logs_and_target_rewards_have_the_value_as_their_mean(
    draw: Draw, check: SimpleNamespace, settings: dict[str, Any]
) -> None:
    environment = LinearBandit(n_samples=N, **settings)
    problem, truth = draw(environment)
    check.weigh_to_the_value(problem, truth)
    intercept, slopes = world(environment)
    q = intercept + problem.target_context @ slopes.T
    if environment.reward == "logistic":
        q = 1.0 / (1.0 + np.exp(-q))
    played = q[np.arange(N), problem.target_action]
    error = math.hypot(played.std() / math.sqrt(N), truth.expected_se)
    assert abs(played.mean() - truth.expected) < 4.0 * error


@pytest.mark.parametrize("settings", SETTINGS[:3], ids=str)
def test_an_offset_is_added_to_rewards_and_value_and_to_nothing_else(
    draw: Draw, settings: dict[str, Any]
) -> None:
    plain, value = draw(LinearBandit(n_samples=50, **settings))
    moved, moved_value = draw(LinearBandit(n_samples=50, reward_offset=-3.0, **settings))
    np.testing.assert_allclose(moved.reward, plain.reward - 3.0)
    np.testing.assert_array_equal(moved.action, plain.action)
    np.testing.assert_array_equal(moved.propensity, plain.propensity)
    np.testing.assert_array_equal(moved.target_action, plain.target_action)
    assert moved_value.expected == pytest.approx(value.expected - 3.0)
    assert moved_value.empirical == pytest.approx(value.empirical - 3.0)
    assert moved_value.expected_se == value.expected_se


@pytest.mark.parametrize("settings", SETTINGS[1:5], ids=str)
def test_logs_are_those_of_another_generator(draw: Draw, settings: dict[str, Any]) -> None:
    """Means of rewards and of their squares, and counts of actions."""
    environment = LinearBandit(n_samples=N, n_actions=4, d_context=2, **settings)
    problem, _ = draw(environment)
    other = reference(environment, 4_000, np.random.default_rng(5))
    for power in (1, 2):
        one, two = problem.reward**power, other["reward"] ** power
        error = math.hypot(one.std() / math.sqrt(N), two.std() / math.sqrt(len(two)))
        assert abs(one.mean() - two.mean()) < 4.0 * error
    for column in range(2):
        one, two = problem.context[:, column], other["context"][:, column]
        moments = [(x * problem_reward).mean() for x, problem_reward in (
            (one, problem.reward), (two, other["reward"]))]  # fmt: skip
        spread = (two * other["reward"]).std() / math.sqrt(len(two))
        assert abs(moments[0] - moments[1]) < 5.0 * spread
    share = np.bincount(problem.action, minlength=4) / N
    counts = np.bincount(other["action"], minlength=4)
    assert chisquare(counts, share * counts.sum()).pvalue > 1e-4


def test_a_uniform_target_of_linear_rewards_has_the_mean_intercept_as_value(draw: Draw) -> None:
    environment = LinearBandit(n_actions=7)
    _, truth = draw(environment)
    assert truth.expected == pytest.approx(world(environment)[0].mean(), abs=1e-14)
    assert truth.expected_se == 0.0


@pytest.mark.parametrize("slope_std", [0.0, 1.0, 30.0])
def test_a_uniform_target_of_logistic_rewards_is_integrated_to_rounding(slope_std: float) -> None:
    """Against adaptive quadrature over the score, whose distribution is normal."""
    environment = LinearBandit(n_actions=3, reward="logistic", slope_std=slope_std)
    intercept, slopes = world(environment)
    mean = MeanReward(ActionScore(np.column_stack([intercept, slopes]).T), logistic=True)
    for b, theta, found in zip(intercept, slopes, mean.over_contexts(), strict=True):
        s = math.sqrt(theta @ theta)

        def integrand(z: float, b: float = b, s: float = s) -> float:
            return float(norm.pdf(z) / (1.0 + math.exp(-(b + s * z))))

        at = [-b / s] if s > 0 and abs(b / s) < 9 else None
        exact = quad(integrand, -9, 9, epsabs=1e-12, limit=500, points=at)[0]
        assert found == pytest.approx(exact, abs=1e-10)


def test_values_of_other_targets_are_those_of_one_dimension(draw: Draw) -> None:
    """Two actions, one column: E max(s0, s1) of two jointly normal scores (Clark, 1961)."""
    environment = LinearBandit(
        n_actions=2, d_context=1, target="epsilon-greedy", target_epsilon=0.1, truth_contexts=2**16
    )
    _, truth = draw(environment)
    (b0, b1), (t0, t1) = world(environment)[0], world(environment)[1][:, 0]
    spread = abs(t0 - t1)
    alpha = (b0 - b1) / spread
    largest = b0 * norm.cdf(alpha) + b1 * norm.cdf(-alpha) + spread * norm.pdf(alpha)
    exact = 0.9 * largest + 0.1 * (b0 + b1) / 2
    assert truth.expected_se < 1e-3
    assert abs(truth.expected - exact) < 5.0 * truth.expected_se + 1e-12


def test_a_softmax_target_of_one_column_is_integrated(draw: Draw) -> None:
    environment = LinearBandit(
        n_actions=3, d_context=1, reward="logistic", target="softmax", target_beta=4.0
    )
    _, truth = draw(environment)
    intercept, slopes = world(environment)

    def integrand(x: float) -> float:
        mean = 1.0 / (1.0 + np.exp(-(intercept + slopes[:, 0] * x)))
        weight = np.exp(4.0 * mean)
        return float(norm.pdf(x) * (weight @ mean) / weight.sum())

    exact = quad(integrand, -9, 9)[0]
    assert abs(truth.expected - exact) < 5.0 * truth.expected_se + 1e-12
    assert 0.0 < truth.expected_se < 1e-3


def test_policies_are_of_the_mean_reward(draw: Draw) -> None:
    settings = {"logging": "softmax", "logging_beta": 2.0, "target": "epsilon-greedy"}
    environment = LinearBandit(n_samples=50, reward="logistic", slope_std=2.0, **settings)  # type: ignore[arg-type]
    problem, _ = draw(environment)
    intercept, slopes = world(environment)
    q = 1.0 / (1.0 + np.exp(-(intercept + problem.context @ slopes.T)))
    weight = np.exp(2.0 * q)
    logging, target = problem.logging_policy, problem.target_policy
    assert isinstance(logging, Softmax)
    assert isinstance(target, EpsilonGreedy)
    expected = weight / weight.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(logging.table(problem.context), expected, rtol=1e-12)
    np.testing.assert_array_equal(target.greedy(problem.context), q.argmax(axis=1))
    uniform, _ = draw(LinearBandit(n_samples=5))
    assert isinstance(uniform.target_policy, Uniform)


def test_a_negative_inverse_temperature_prefers_the_worst(draw: Draw) -> None:
    environment = LinearBandit(n_samples=50, target="epsilon-greedy", target_beta=-1.0)
    problem, _ = draw(environment)
    intercept, slopes = world(environment)
    score = intercept + problem.context @ slopes.T
    assert isinstance(problem.target_policy, EpsilonGreedy)
    np.testing.assert_array_equal(
        problem.target_policy.greedy(problem.context), score.argmin(axis=1)
    )


def test_more_actions_begin_with_the_same_ones(draw: Draw) -> None:
    few, many = (world(LinearBandit(n_actions=n)) for n in (3, 9))
    for one, other in zip(few, many, strict=True):
        np.testing.assert_array_equal(one, other[:3])
    first, _ = draw(LinearBandit(n_samples=20))
    second, _ = draw(LinearBandit(n_samples=20, target="softmax", shared_contexts=True))
    for name in ("context", "action", "reward", "propensity"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    np.testing.assert_array_equal(second.context, second.target_context)


def test_embeddings_are_one_hot_or_what_rewards_are_made_of(draw: Draw) -> None:
    problem, _ = draw(LinearBandit(n_samples=30, n_actions=4))
    np.testing.assert_array_equal(problem.embedding, np.eye(4)[problem.action])
    told, _ = draw(LinearBandit(n_samples=30, n_actions=4, embedding="weights", reward_std=0.0))
    np.testing.assert_array_equal(told.action, problem.action)
    score = told.embedding[:, 0] + (told.context * told.embedding[:, 1:]).sum(axis=1)
    np.testing.assert_allclose(told.reward, score, atol=1e-12)


def test_one_model_an_action_is_right_and_one_common_slope_is_not() -> None:
    """The trap of the docstring: additive regressions are misspecified under a softmax logger."""
    names = (
        "dm[regressor=ridge]",
        "dm[regressor=ridge,action_features=separate]",
    )
    environment = LinearBandit(n_samples=2_000, logging_beta=2.0)
    results = evaluate(names, environment, replicates=5)
    common, separate = (
        math.sqrt(np.mean([(r.estimate - r.truth_expected) ** 2 for r in results[k::2]]))
        for k in range(2)
    )
    assert separate < 0.5 * common


LEARNED: dict[str, Any] = {
    "reward": "logistic",
    "target": "learned",
    "logging_beta": 2.0,
    "n_actions": 4,
    "target_classifier": "sklearn.linear_model.LogisticRegression",
    "target_classifier_params": {"C": 100, "max_iter": 10_000},
}


def learned_by_hand(n: int, temper: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Contexts and the table of a target that is learned from n rows, all of them weighted."""
    plain = LinearBandit(n_samples=5, reward="logistic", logging_beta=2.0, n_actions=4)
    intercept, slopes = world(plain)
    rng = np.random.default_rng([0, 0])
    rng.standard_normal((4, 6))
    (rng,) = rng.spawn(1)
    x = rng.standard_normal((n, 5))
    q = 1 / (1 + np.exp(-(intercept + x @ slopes.T)))
    logging = np.exp(2.0 * q) / np.exp(2.0 * q).sum(axis=1, keepdims=True)
    action = (logging.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1)
    reward = (rng.random(n) < q[np.arange(n), action]).astype(float)
    weight = reward / logging[np.arange(n), action]
    model = LogisticRegression(C=100, max_iter=10_000).fit(x, action, sample_weight=weight)
    new = np.random.default_rng(3).standard_normal((50, 5))
    share = model.predict_proba(new)
    if temper is None:
        return new, 0.95 * np.eye(4)[share.argmax(axis=1)] + 0.05 / 4
    return new, np.exp(temper * share) / np.exp(temper * share).sum(axis=1, keepdims=True)


@pytest.mark.parametrize("temper", [1.0, 3.0, None])
def test_a_target_is_learned_from_rewards_over_propensities(
    draw: Draw, temper: float | None
) -> None:
    environment = LinearBandit(n_samples=5, target_log=800, target_softmax=temper, **LEARNED)
    target = draw(environment)[0].target_policy
    assert isinstance(target, ClassifierPolicy)
    context, expected = learned_by_hand(800, temper)
    np.testing.assert_allclose(target.table(context), expected, atol=2e-4)


def test_all_targets_of_a_world_have_the_same_log(draw: Draw) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"target_log": 200},
        {"target_softmax": None},
        {"target": "uniform"},
        {"target": "softmax"},
    ]
    problems = [draw(LinearBandit(**{**LEARNED, **one}))[0] for one in changes]
    for problem in problems[1:]:
        np.testing.assert_array_equal(problem.reward, problems[0].reward)
        np.testing.assert_array_equal(problem.action, problems[0].action)
    values = {draw(LinearBandit(**{**LEARNED, **one}))[1].expected for one in changes}
    assert len(values) == 5


def test_a_learned_target_samples_around_its_value(check: SimpleNamespace, draw: Draw) -> None:
    environment = LinearBandit(n_samples=4000, target_log=500, **LEARNED)
    problem, truth = draw(environment)
    check.weigh_to_the_value(problem, truth)
    assert 0 < truth.expected_se < 1e-3


def test_rewards_that_may_be_negative_teach_no_target(draw: Draw) -> None:
    with pytest.raises(ParameterError, match="reward = 'logistic'"):
        draw(LinearBandit(target="learned"))


def test_the_value_at_the_logs_is_the_mean_over_their_contexts(draw: Draw) -> None:
    settings: dict[str, Any] = {"reward": "logistic", "target": "softmax", "target_beta": 2.0,
                                "n_samples": 300, "reward_offset": 1.5}  # fmt: skip
    problem, truth = draw(LinearBandit(truth_at="logs", **settings))
    intercept, slopes = world(LinearBandit(reward="logistic"))
    total = 0.0
    for x in problem.context:
        q = 1 / (1 + np.exp(-(intercept + slopes @ x)))
        weight = np.exp(2.0 * q)
        total += weight @ q / weight.sum()
    assert truth.expected == pytest.approx(1.5 + total / 300, abs=1e-12)
    assert truth.expected_se == 0.0
    assert truth.expected != draw(LinearBandit(**settings))[1].expected


def test_uniform_coefficients_are_standardized_and_mostly_shared() -> None:
    """Of the published score's variance 17/3, intercepts are 2/3, own slopes 5/3, shared 10/3."""
    shares = []
    for seed in range(60):
        score = LinearBandit(coefficients="uniform", n_actions=200)._mean_reward(
            np.random.default_rng(seed)
        )
        weights = score.score.weights
        assert weights[0].mean() == pytest.approx(0.0, abs=1e-12)
        assert np.square(weights).sum(axis=0).mean() == pytest.approx(1.0)
        own = weights - weights.mean(axis=1, keepdims=True)
        parts = np.square(own).mean(axis=1)
        shares.append([parts[0], parts[1:].sum(), np.square(weights.mean(axis=1)).sum()])
    unit = np.array(shares) / np.array(shares)[:, :1]
    np.testing.assert_allclose(unit.mean(axis=0), [1.0, 2.5, 5.0], rtol=0.12)
