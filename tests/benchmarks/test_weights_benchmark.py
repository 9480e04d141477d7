"""Seconds of probabilities, marginals and weights on ten thousand rows."""

from dataclasses import replace

import numpy as np
import pytest

from ope_bench import View
from ope_bench.contracts.embeddings import DeterministicEmbedding, FiniteEmbedding
from ope_bench.contracts.policies import EpsilonGreedy, Softmax, Tabular, Uniform
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import FitCache
from ope_environments.saito.mips import SaitoMIPS
from ope_environments.synthetic.linear_score import ActionScore, LinearGreedy, LinearSoftmax
from ope_estimators.actions.weighting.ipw import IPW
from ope_estimators.actions.weighting.ipws import IPWS
from ope_estimators.embedded.known.eipw import EIPW

ROWS, ACTIONS = 10_000, 1_000
RNG = np.random.default_rng(0)
SCORE = ActionScore(RNG.normal(size=(11, ACTIONS)))

POLICIES = {
    "uniform": Uniform(ACTIONS),
    "softmax": Softmax(SCORE, ACTIONS, beta=-1.0),
    "epsilon-greedy": EpsilonGreedy(SCORE, ACTIONS, epsilon=0.1),
    "softmax of affine scores": LinearSoftmax(SCORE, beta=-1.0),
    "greedy on affine scores": LinearGreedy(SCORE, epsilon=0.1),
    "tabular": Tabular(
        np.full((4, ACTIONS), 1.0 / ACTIONS), lambda x: (x[:, 0] > 0).astype(np.int64)
    ),
}


@pytest.fixture(scope="module")
def problem():
    streams = map(np.random.default_rng, range(3))
    names = ("world_rng", "logged_rng", "target_rng")
    environment = SaitoMIPS(n_actions=ACTIONS, n_samples=ROWS)
    return environment.sample(**dict(zip(names, streams, strict=True)))[0]


@pytest.mark.parametrize("policy", POLICIES)
def test_probabilities_of_given_actions(policy, problem, benchmark):
    def probability():
        # A copy, because a greedy policy remembers contexts that cannot change.
        return POLICIES[policy].probability(problem.context.copy(), problem.action)

    found = benchmark.pedantic(probability, rounds=3, warmup_rounds=1)
    assert found.shape == (ROWS,)


@pytest.mark.parametrize("policy", POLICIES)
def test_drawing_actions(policy, problem, benchmark):
    def draw():
        return POLICIES[policy].draw(problem.context.copy(), np.random.default_rng(0))

    action, _ = benchmark.pedantic(draw, rounds=3, warmup_rounds=1)
    assert action.shape == (ROWS,)


@pytest.mark.parametrize("embedding", ["factored", "finite", "deterministic"])
@pytest.mark.parametrize("policy", ["softmax", "epsilon-greedy"])
def test_marginals_of_embeddings(policy, embedding, problem, benchmark):
    distribution = problem.embedding_distribution
    rows = problem.embedding
    if embedding == "finite":
        distribution = FiniteEmbedding(np.arange(10.0)[:, None], distribution.tables[0])
        rows = rows[:, :1]
    elif embedding == "deterministic":
        action_embedding = RNG.integers(0, 2, (ACTIONS, 5)).astype(float)
        distribution = DeterministicEmbedding(action_embedding)
        rows = action_embedding[problem.action]

    def marginal():
        return distribution.marginal(POLICIES[policy], problem.context.copy(), rows)

    found = benchmark.pedantic(marginal, rounds=3, warmup_rounds=1)
    assert (found > 0).all()


@pytest.mark.parametrize("estimator", [IPW, IPWS, EIPW])
def test_weighted_means_with_exact_weights(estimator, problem, benchmark):
    def view():
        cold = replace(problem, context=problem.context.copy())
        return (View(cold, estimator.access, seed=DataSeed("w", 0, 0), fit_cache=FitCache()),), {}

    def estimate(given):
        return estimator().fit(given, rng=RNG, device="cpu").estimate(given)

    found = benchmark.pedantic(estimate, setup=view, rounds=3)
    assert np.isfinite(found.value)
