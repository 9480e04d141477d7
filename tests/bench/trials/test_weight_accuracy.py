"""The comparison of estimated weights with the true ratio."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ope_bench.contracts.data import Problem
from ope_bench.contracts.embeddings import FiniteEmbedding
from ope_bench.contracts.plugins import Estimate
from ope_bench.contracts.policies import Tabular
from ope_bench.trials.weights import KnownDivergence, weight_accuracy


def code(context):
    return context[:, 0].astype(np.int64)


PI0 = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
PI1 = np.array([[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]])
TABLE = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
ATOMS = np.array([[0.0], [1.0]])


def problem(n=300, m=200, seed=0, **changes) -> Problem:
    rng = np.random.default_rng(seed)

    def rows(policy, k):
        x = rng.integers(0, 2, k)
        a = np.array([rng.choice(3, p=policy[i]) for i in x])
        g = np.array([rng.choice(2, p=TABLE[i]) for i in a])
        return x, a, g

    x, a, g = rows(PI0, n)
    y, b, h = rows(PI1, m)
    arrays = {
        "context": x[:, None].astype(float),
        "action": a,
        "embedding": ATOMS[g],
        "reward": rng.normal(size=n) + g,
        "target_context": y[:, None].astype(float),
        "target_action": b,
        "target_embedding": ATOMS[h],
        "n_actions": 3,
        "propensity": PI0[x, a],
        "logging_policy": Tabular(PI0, code),
        "target_policy": Tabular(PI1, code),
        "embedding_distribution": FiniteEmbedding(ATOMS, TABLE),
    }
    return Problem(**arrays | changes)


def true_weights(given, space):
    pairs = []
    for context, action, embedding in (
        (given.context, given.action, given.embedding),
        (given.target_context, given.target_action, given.target_embedding),
    ):
        x, g = code(context), embedding[:, 0].astype(int)
        if space == "action":
            pairs.append(PI1[x, action] / PI0[x, action])
        else:
            pairs.append((PI1 @ TABLE)[x, g] / (PI0 @ TABLE)[x, g])
    return pairs


def estimate(weights, target=None, space="embedding"):
    return Estimate(0.0, weights=weights, target_weights=target, weight_space=space)


@pytest.mark.parametrize("space", ["action", "embedding"])
def test_the_true_ratio_has_no_error_and_no_regret(space):
    given = problem()
    w, w1 = true_weights(given, space)
    facts = weight_accuracy(given, estimate(w, w1, space))
    errors = ("log_ratio_rmse", "target_log_ratio_rmse", "kl_error")
    for name in (*errors, "log_loss_regret", "bias_bound"):
        assert facts[name] == pytest.approx(0.0, abs=1e-7)
    assert facts["weight_bias"] == pytest.approx(0.0, abs=1e-12)
    assert facts["true_mean_weight"] == pytest.approx(w.mean())
    assert (
        facts["kl_estimate"] == pytest.approx(facts["kl_true"]) == pytest.approx(np.log(w1).mean())
    )
    second = float(np.mean((given.reward * w) ** 2)) / len(w)
    assert facts["variance_bound"] == pytest.approx(second)
    assert facts["weight_variance"] <= facts["variance_bound"]


def test_errors_are_those_of_the_definitions():
    given = problem()
    w, w1 = true_weights(given, "embedding")
    rng = np.random.default_rng(1)
    v, v1 = w * np.exp(rng.normal(size=len(w))), w1 * np.exp(rng.normal(size=len(w1)))
    facts = weight_accuracy(given, estimate(v, v1))
    assert facts["log_ratio_rmse"] == pytest.approx(np.sqrt(np.mean(np.log(v / w) ** 2)))
    assert facts["target_log_ratio_rmse"] == pytest.approx(np.sqrt(np.mean(np.log(v1 / w1) ** 2)))
    assert facts["weight_bias"] == pytest.approx(np.mean(given.reward * (v - w)))
    assert facts["weight_variance"] == pytest.approx(np.var(given.reward * v) / len(v))

    def kl(true, guess):
        p, q = true / (1 + true), guess / (1 + guess)
        return np.mean(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)))

    regret = 0.5 * kl(w, v) + 0.5 * kl(w1, v1)
    assert facts["log_loss_regret"] == pytest.approx(regret)
    kappa, y = math.sqrt(regret), given.reward
    root = math.sqrt(0.5)
    assert facts["bias_bound"] == pytest.approx(2 / root * kappa * np.mean(np.abs(y)))
    bound = np.mean(y**2 * w**2 + 4 / root * kappa * y**2 * w + 4 / 0.5 * kappa**2 * y**2)
    assert facts["variance_bound"] == pytest.approx(bound / len(y))


def test_regret_is_half_the_bregman_divergence_that_the_lemmas_start_from():
    """regret = E_0[B_h(w, ŵ)] / 2 with h(z) = z log z - (1 + z) log(1 + z), h''(1) = 1/2."""

    def h(z):
        return z * np.log(z) - (1 + z) * np.log1p(z)

    def slope(z):
        return np.log(z) - np.log1p(z)

    rng = np.random.default_rng(0)
    p0 = rng.dirichlet(np.ones(6))
    p1 = rng.dirichlet(np.ones(6))
    w = p1 / p0
    v = w * np.exp(rng.normal(size=6))
    bregman = h(w) - h(v) - slope(v) * (w - v)
    eta, guess = w / (1 + w), v / (1 + v)
    kl = eta * np.log(eta / guess) + (1 - eta) * np.log((1 - eta) / (1 - guess))
    assert np.sum(0.5 * (p0 + p1) * kl) == pytest.approx(0.5 * np.sum(p0 * bregman))
    step = 1e-4
    assert (h(1 + step) - 2 * h(1.0) + h(1 - step)) / step**2 == pytest.approx(0.5, abs=1e-5)


def test_the_printed_bias_bound_is_no_bound_where_weights_are_large():
    """h is flatter beyond 1 than at 1: an error there costs less regret than the lemma takes."""
    policy0, policy1 = np.array([[0.99, 0.01]]), np.array([[0.01, 0.99]])
    n = 4000
    action = (np.arange(n) >= 0.99 * n).astype(int)
    given = Problem(
        context=np.zeros((n, 1)),
        action=action,
        embedding=action[:, None].astype(float),
        reward=action.astype(float),
        target_context=np.zeros((n, 1)),
        target_action=1 - action,
        target_embedding=(1.0 - action)[:, None],
        n_actions=2,
        propensity=policy0[0][action],
        logging_policy=Tabular(policy0, code),
        target_policy=Tabular(policy1, code),
    )
    w = (policy1 / policy0)[0]
    v = np.array([w[0], w[1] * 1.5])
    facts = weight_accuracy(given, estimate(v[action], v[1 - action], "action"))
    assert facts["weight_bias"] == pytest.approx(0.495)
    assert facts["bias_bound"] < facts["weight_bias"]


def test_a_closed_form_divergence_is_preferred_to_its_estimate():
    class Knowing(FiniteEmbedding):
        def divergence(self):
            return 1.25

    given = problem(embedding_distribution=Knowing(ATOMS, TABLE))
    assert isinstance(given.embedding_distribution, KnownDivergence)
    w, w1 = true_weights(given, "embedding")
    assert weight_accuracy(given, estimate(w, w1))["kl_true"] == 1.25
    w, w1 = true_weights(given, "action")
    assert weight_accuracy(given, estimate(w, w1, "action"))["kl_true"] != 1.25


def test_nothing_is_said_where_nothing_is_known():
    given = problem()
    w, w1 = true_weights(given, "embedding")
    assert weight_accuracy(given, Estimate(0.0)) == {}
    assert weight_accuracy(given, Estimate(0.0, weights=w)) == {}
    assert weight_accuracy(problem(embedding_distribution=None), estimate(w, w1)) == {}
    assert weight_accuracy(problem(target_policy=None), estimate(w, w1)) == {}
    assert weight_accuracy(problem(target_policy=None), estimate(w, w1, "action")) == {}
    assert weight_accuracy(problem(logging_policy=None), estimate(w, w1)) == {}


def test_without_target_weights_only_logged_rows_are_compared():
    given = problem()
    w, _ = true_weights(given, "embedding")
    assert set(weight_accuracy(given, estimate(w))) == {
        "log_ratio_rmse",
        "true_mean_weight",
        "weight_bias",
        "weight_variance",
    }
    known = problem(logging_policy=None, embedding_distribution=None)
    w, w1 = true_weights(known, "action")
    facts = weight_accuracy(known, estimate(w, w1, "action"))
    assert facts["log_ratio_rmse"] == pytest.approx(0.0, abs=1e-12)
    assert "kl_true" not in facts


ODD = [np.nan, np.inf, -1.0, 0.0, 1e-320, 1e308]


@pytest.mark.parametrize("weight", ODD)
@pytest.mark.parametrize("at_target", ODD)
def test_odd_weights_give_finite_facts_or_none(weight, at_target):
    given = problem(20, 10)
    w, w1 = true_weights(given, "embedding")
    w[0], w1[0] = weight, at_target
    # Weights that are no numbers come with a value that is none.
    value = 0.0 if np.isfinite([weight, at_target]).all() else np.nan
    facts = weight_accuracy(
        given,
        replace(estimate(np.ones(20), np.ones(10)), value=value, weights=w, target_weights=w1),
    )
    assert all(math.isfinite(value) for value in facts.values())
    assert all(type(value) is float for value in facts.values())


@pytest.mark.parametrize("lengths", [(19, 10), (20, 9), (1, 1), (0, 0)])
def test_weights_of_the_wrong_length_are_left_alone(lengths):
    facts = weight_accuracy(problem(20, 10), estimate(np.ones(lengths[0]), np.ones(lengths[1])))
    assert ("log_ratio_rmse" in facts) == (lengths[0] == 20)
    assert "kl_estimate" not in facts


def test_an_environment_that_raises_costs_the_comparison_only():
    class Broken(FiniteEmbedding):
        def marginal(self, *_):
            raise ZeroDivisionError

    given = problem(embedding_distribution=Broken(ATOMS, TABLE))
    assert weight_accuracy(given, estimate(np.ones(300), np.ones(200))) == {}


def test_the_true_ratio_is_computed_once_a_problem():
    calls = []

    class Counting(FiniteEmbedding):
        def marginal(self, *args):
            calls.append(1)
            return super().marginal(*args)

    given = problem(embedding_distribution=Counting(ATOMS, TABLE))
    for _ in range(3):
        weight_accuracy(given, estimate(np.ones(300), np.ones(200)))
    assert len(calls) == 4
    weight_accuracy(replace(given), estimate(np.ones(300), np.ones(200)))
    assert len(calls) == 8


def test_too_many_pairs_are_not_summed(monkeypatch):
    monkeypatch.setattr("ope_bench.trials.weights.MOST_ENTRIES", 100)
    assert weight_accuracy(problem(), estimate(np.ones(300), np.ones(200))) == {}


@pytest.mark.parametrize("space", ["action", "embedding"])
def test_the_ratio_at_target_rows_is_computed_once_and_for_weights_there_alone(space):
    asked = []

    def noted(context):
        asked.append(len(context))
        return code(context)

    given = problem(target_policy=Tabular(PI1, noted))
    w, w1 = true_weights(given, space)
    assert weight_accuracy(given, estimate(w, None, space))
    assert 300 in asked
    assert 200 not in asked
    for _ in range(2):
        assert weight_accuracy(given, estimate(w, w1, space))["kl_error"] < 1e-12
    assert asked.count(200) == 1
