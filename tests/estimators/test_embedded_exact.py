"""Embedded estimators with known densities: exact expectations, identities, limits."""

from __future__ import annotations

import numpy as np
import pytest

from ope_bench.base.errors import DataError, PositivityViolation
from ope_bench.contracts.data import Problem
from ope_estimators.actions.weighting.ipw import IPW
from ope_estimators.actions.weighting.ipws import IPWS
from ope_estimators.embedded.known.edm import EDM
from ope_estimators.embedded.known.edm_paper import EDMPaper
from ope_estimators.embedded.known.eipw import EIPW
from ope_estimators.embedded.known.eipws import EIPWS
from ope_estimators.embedded.learned.edm_star import EDMStar
from ope_estimators.embedded.learned.mips import MIPS
from support import tiny_worlds as tiny

SATURATED = {"regressor": "sklearn.tree.DecisionTreeRegressor"}
"""Exact where rows repeat: the mean of each leaf."""

LOOSE = {"classifier_params": {"C": 1e6}}


@pytest.fixture
def world():
    return tiny.through_embedding()


@pytest.fixture
def as_telling():
    """Embeddings that name the action."""
    world = tiny.small()
    q = np.repeat(world.q[:, :, :1], 3, axis=2)
    atoms = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]])
    return world.but(table=np.eye(3), atoms=atoms, q=q, deterministic=True)


def test_eipw_is_unbiased_over_all_samples(world):
    mean = sum(p * tiny.run(EIPW(), sample).value for p, sample in world.every_sample(2))
    assert mean == pytest.approx(world.value, abs=1e-12)


def test_eipw_squared_standard_error_is_unbiased_over_all_samples(world):
    outcomes = [(p, tiny.run(EIPW(), sample)) for p, sample in world.every_sample(2)]
    variance = sum(p * (e.value - world.value) ** 2 for p, e in outcomes)
    claimed = sum(p * e.standard_error**2 for p, e in outcomes)
    assert claimed == pytest.approx(variance, rel=1e-12)


@pytest.mark.parametrize("estimator", [EIPW(), EIPWS(), EDM(**SATURATED), EDMStar(**SATURATED)])
def test_they_tend_to_the_value(world, estimator):
    assert tiny.run(estimator, world.population()).value == pytest.approx(world.value, abs=1e-12)


def test_eipw_is_off_where_the_reward_knows_more_than_the_embedding():
    world = tiny.small()
    # E over g, x of w(x, g) E0[r|x, g], which needs actions to be exchangeable given g.
    limit = world.expectation(
        world.pi0, np.broadcast_to(world.embedding_weights[:, None, :], world.q.shape) * world.q
    )
    assert tiny.run(EIPW(), world.population()).value == pytest.approx(limit, abs=1e-12)
    assert abs(limit - world.value) > 0.01


def test_weights_average_to_one_and_vary_less_than_those_of_actions(world):
    population = world.population()
    embedded, plain = tiny.run(EIPW(), population), tiny.run(IPW(), population)
    assert embedded.weights.mean() == pytest.approx(1.0, abs=1e-12)
    assert (embedded.weights**2).mean() < (plain.weights**2).mean()
    assert embedded.weight_space == "embedding"


@pytest.mark.parametrize("cls", [EIPW, EIPWS, MIPS])
def test_equal_policies_give_the_mean_reward(world, cls):
    problem = world.but(pi1=world.pi0).sample(50, np.random.default_rng(0))
    assert tiny.run(cls(), problem).value == pytest.approx(problem.reward.mean(), rel=1e-12)


def test_embeddings_that_name_the_action_give_ipw(as_telling):
    problem = as_telling.sample(60, np.random.default_rng(1))
    assert tiny.run(EIPW(), problem).value == pytest.approx(tiny.run(IPW(), problem).value)
    assert tiny.run(MIPS(), problem).value == pytest.approx(tiny.run(IPW(), problem).value)
    assert tiny.run(EIPWS(), problem).value == pytest.approx(tiny.run(IPWS(), problem).value)


@pytest.mark.parametrize("deterministic", [True, False])
def test_one_embedding_for_all_gives_the_mean_reward(deterministic):
    world = tiny.small()
    same = world.but(
        table=np.ones((3, 1)),
        atoms=np.zeros((1, 2)),
        q=world.q[:, :, :1],
        deterministic=deterministic,
        categorical=True,
    )
    population = same.population()
    mean = population.reward.mean()
    assert tiny.run(EIPW(), population).value == pytest.approx(mean, abs=1e-12)
    assert tiny.run(EIPWS(), population).value == pytest.approx(mean, abs=1e-12)
    # sum_a w(x, a) π̂0(a|x) is one as far as π̂0 is right.
    assert tiny.run(MIPS(**LOOSE), population).value == pytest.approx(mean, rel=1e-3)


def test_mips_finds_the_marginal_weights(world):
    # Two contexts and two embeddings as categories: a logistic model of pairs is saturated.
    params = {"classifier_params": {"C": 1e6, "degree": 2}}
    population = world.but(categorical=True).population()
    exact, estimated = tiny.run(EIPW(), population), tiny.run(MIPS(**params), population)
    assert estimated.weights == pytest.approx(exact.weights, rel=0.01)
    assert estimated.value == pytest.approx(world.value, rel=0.01)


def test_mips_counts_only_actions_that_share_the_logged_embedding():
    world = tiny.small()
    paired = world.but(
        table=np.array([[1.0, 0], [0, 1.0], [0, 1.0]]), deterministic=True, categorical=True
    )
    population = paired.population()
    estimate = tiny.run(MIPS(classifier_params={"C": 1e6, "degree": 2}), population)
    exact = tiny.run(EIPW(), population)
    # Action 0 is alone with its embedding, and its weight is known without a model.
    alone = population.action == 0
    assert estimate.weights[alone] == pytest.approx(exact.weights[alone], rel=1e-12)
    assert estimate.weights[~alone] == pytest.approx(exact.weights[~alone], rel=0.01)


def test_mips_sets_the_weight_of_unsupported_actions_to_zero(world):
    deficient = world.but(pi0=np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]), categorical=True)
    problem = deficient.sample(300, np.random.default_rng(2))
    estimate = tiny.run(MIPS(), problem)
    assert np.isfinite(estimate.weights).all()
    assert np.isfinite(estimate.value)


def test_the_printed_edm_tends_to_the_sum_of_both_densities_products(world):
    target = world.pi1 @ world.table
    limit = world.expectation(
        world.pi0, np.broadcast_to(target[:, None, :], world.q.shape) * world.q
    )
    estimate = tiny.run(EDMPaper(**SATURATED), world.population())
    assert estimate.value == pytest.approx(limit, abs=1e-12)
    assert abs(limit - world.value) > 0.1


def test_edm_sums_draws_or_actions_to_the_same_as_atoms(world, as_telling, monkeypatch):
    sampled = world.population()
    exact = tiny.run(EDM(**SATURATED), sampled)
    assert exact.diagnostics["summed_over"] == "atoms"
    named = as_telling.population()
    listed = tiny.run(EDM(**SATURATED), named)
    assert listed.diagnostics["summed_over"] == "atoms"
    monkeypatch.setattr("ope_estimators.embedded.known.integral.MAX_ATOMS", 0)
    drawn = tiny.run(EDM(**SATURATED, draws=100), sampled)
    assert drawn.diagnostics["summed_over"] == "draws"
    # 1,000 contexts of 100 draws, rewards between 0.5 and 3.
    assert drawn.value == pytest.approx(exact.value, abs=4 * 1.25 / np.sqrt(100_000))
    by_action = tiny.run(EDM(**SATURATED), named)
    assert by_action.diagnostics["summed_over"] == "actions"
    assert by_action.value == pytest.approx(listed.value, abs=1e-12)


def test_edm_repeats_itself_when_asked_twice(world, monkeypatch):
    monkeypatch.setattr("ope_estimators.embedded.known.integral.MAX_ATOMS", 0)
    edm = EDM(**SATURATED, draws=2)
    view = tiny.view_of(world.sample(30, np.random.default_rng(3)), edm.access)
    edm.fit(view, rng=np.random.default_rng(0), device="cpu")
    assert edm.estimate(view).value == edm.estimate(view).value


@pytest.mark.parametrize(("cls", "n"), [(EIPW, 200), (EIPWS, 400)])
def test_intervals_cover_and_are_no_wider_than_needed(world, cls, n):
    rng = np.random.default_rng(4)
    outcomes = [tiny.run(cls(), world.sample(n, rng)) for _ in range(1000)]
    value = np.array([e.value for e in outcomes])
    error = np.array([e.standard_error for e in outcomes])
    # Three binomial standard errors of 1,000 trials are 0.021.
    assert 0.927 < (abs(value - world.value) <= 1.96 * error).mean() < 0.971
    w = np.broadcast_to(world.embedding_weights[:, None, :], world.q.shape)
    center = 0.0 if cls is EIPW else world.value
    second = world.expectation(world.pi0, w**2 * ((world.q - center) ** 2 + world.noise**2))
    exact = np.sqrt((second - (world.value - center) ** 2) / n)
    assert np.sqrt((error**2).mean()) == pytest.approx(exact, rel=0.04)
    assert value.std() == pytest.approx(exact, rel=0.08)


def test_rewards_shift_eipws_and_order_of_rows_does_not_matter(world):
    problem = world.sample(40, np.random.default_rng(5))
    order = np.random.default_rng(6).permutation(40)
    logged = ("context", "action", "embedding", "reward", "propensity")
    moved = Problem(**(vars(problem) | {name: getattr(problem, name)[order] for name in logged}))
    shifted = Problem(**(vars(problem) | {"reward": problem.reward + 3.0}))
    for cls in (EIPW, EIPWS):
        assert tiny.run(cls(), moved).value == pytest.approx(tiny.run(cls(), problem).value)
    assert tiny.run(EIPWS(), shifted).value == pytest.approx(
        tiny.run(EIPWS(), problem).value + 3.0
    )


def test_disjoint_embeddings_are_zero_for_eipw_and_a_violation_for_eipws(as_telling):
    apart = as_telling.but(
        pi0=np.array([[0.5, 0.5, 0.0]] * 2), pi1=np.array([[0.0, 0.0, 1.0]] * 2)
    ).sample(20, np.random.default_rng(7))
    assert tiny.run(EIPW(), apart).value == 0.0
    with pytest.raises(PositivityViolation, match="all 20 weights are 0"):
        tiny.run(EIPWS(), apart)


def test_a_logged_embedding_of_marginal_zero_is_the_environments_bug(as_telling):
    problem = as_telling.sample(5, np.random.default_rng(8))
    impossible = as_telling.but(pi0=np.array([[0.0, 0.0, 1.0]] * 2)).sample(
        5, np.random.default_rng(8)
    )
    mixed = Problem(**(vars(problem) | {"logging_policy": impossible.logging_policy}))
    with pytest.raises(DataError, match="the logging policy's marginal of embedding"):
        tiny.run(EIPW(), mixed)
