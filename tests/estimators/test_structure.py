"""Estimators that pool actions: limits, exact expectations, folds, shared fits, refusals."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ope_bench import STANDARD_ERROR_WITHHELD, Softmax, Tabular, problem_rows
from ope_bench.base.errors import ParameterError, UnavailableError
from ope_bench.contracts.data import Problem
from ope_environments.gaussian.gaussian import Gaussian
from ope_estimators.actions.direct.dm import DM
from ope_estimators.actions.direct.dm_star_paper import DMStarPaper
from ope_estimators.actions.doubly_robust.dr import DR
from ope_estimators.actions.weighting.ipw import IPW
from ope_estimators.actions.weighting.ipws import IPWS
from ope_estimators.embedded.known.eipw import EIPW
from ope_estimators.embedded.learned.mips import MIPS
from ope_estimators.nuisance import action_smoothing, policy
from ope_estimators.nuisance.action_clusters import ActionClusters, pooled_weights
from ope_estimators.nuisance.action_smoothing import Smoothing, action_smoother, usual_bandwidths
from ope_estimators.structure.chips import CHIPS
from ope_estimators.structure.group_ipw import GroupIPW
from ope_estimators.structure.learned_mips import LearnedMIPS, reward_coefficients
from ope_estimators.structure.mdr import MDR
from ope_estimators.structure.mr import MarginalRatio
from ope_estimators.structure.offcem import OffCEM
from ope_estimators.structure.pc_ipw import PolicyConvolution, convolved_ratios
from ope_estimators.tuning.slope import slope
from support import golden_log as golden
from support import tiny_worlds as tiny

MODEL: dict[str, Any] = {"regressor": "linear", "cross_fit": 3}
CONSTANT: dict[str, Any] = {"regressor": "sklearn.dummy.DummyRegressor", "cross_fit": 1}
FAMILY: list[Any] = [
    MDR(**MODEL),
    MDR(reward="action", **MODEL),
    OffCEM(**MODEL),
    OffCEM(clusters=[0, 1, 0], **MODEL),
    OffCEM(reward="pairwise", **MODEL),
    GroupIPW(**MODEL),
    GroupIPW(clusters=2, **MODEL),
    LearnedMIPS(),
    MarginalRatio(**MODEL),
    MarginalRatio(form="outcome", **MODEL),
    PolicyConvolution(),
    PolicyConvolution(smoothing="knn", bandwidth=2.0, normalize=True),
    PolicyConvolution(smoothing="tree"),
]
EVERY = pytest.mark.parametrize("estimator", FAMILY, ids=repr)


def sample(n: int = 60, seed: int = 0) -> Problem:
    return tiny.small().sample(n, np.random.default_rng(seed))


def with_target_rows(problem: Problem, index: Any) -> Problem:
    """The problem with some of its target rows, repeated or not; None for no target sample."""
    names = ("target_context", "target_action", "target_embedding")
    rows = {name: None if index is None else getattr(problem, name)[index] for name in names}
    return replace(problem, **rows)


def fitted_on(estimator: Any, problem: Problem) -> Any:
    view = tiny.view_of(problem, estimator.access)
    estimator.fit(view, rng=np.random.default_rng(0), device="cpu")
    return view


# --- limits


def test_one_cluster_is_the_direct_method_plus_the_mean_residual():
    estimator = OffCEM(clusters=1, **MODEL)
    view = fitted_on(estimator, sample())
    residual = view.reward - estimator.reward_.logged(view.context, view.action)
    direct = tiny.run(DM(**MODEL), sample()).value
    assert estimator.estimate(view).value == pytest.approx(direct + residual.mean(), rel=1e-12)


def test_a_cluster_for_each_action_is_the_doubly_robust_estimator():
    known = tiny.run(DR(**MODEL), sample())
    made = tiny.run(OffCEM(clusters=[2, 0, 1], **MODEL), sample())
    assert made.value == pytest.approx(known.value, rel=1e-12)
    assert made.standard_error == pytest.approx(known.standard_error, rel=1e-12)


def test_the_standard_error_is_withheld_where_clusters_do_not_explain_the_reward():
    """A model of nothing and one cluster for actions of different rewards."""
    nothing = {
        "regressor": "sklearn.dummy.DummyRegressor",
        "regressor_params": {"strategy": "constant", "constant": 0.0},
    }
    log = golden.problem(
        *(part[np.arange(1200) % 6] for part in (golden.CONTEXT, golden.ACTION, golden.REWARD))
    )
    together = tiny.run(OffCEM(clusters=1, **nothing), log)
    apart = tiny.run(OffCEM(clusters=[0, 1, 2], **nothing), log)
    within = apart.value - together.value
    assert together.diagnostics["within_clusters"] == pytest.approx(within, rel=1e-9)
    assert together.standard_error is None
    assert "clusters" in together.diagnostics[STANDARD_ERROR_WITHHELD]
    assert apart.diagnostics["within_clusters"] == pytest.approx(0.0, abs=1e-12)
    assert apart.standard_error > 0


def test_a_model_of_zero_leaves_the_weighting_of_embeddings():
    nothing = {
        "regressor": "sklearn.dummy.DummyRegressor",
        "regressor_params": {"strategy": "constant", "constant": 0.0},
    }
    for reward in ("embedding", "action"):
        made = tiny.run(MDR(reward=reward, **nothing), sample())
        known = tiny.run(EIPW(), sample())
        assert made.value == pytest.approx(known.value, rel=1e-12)
        assert made.standard_error == pytest.approx(known.standard_error, rel=1e-12)


def test_one_group_is_the_mean_reward():
    for estimator in (GroupIPW(clusters=1, **MODEL), GroupIPW(clusters=7, **CONSTANT)):
        assert tiny.run(estimator, sample()).value == pytest.approx(sample().reward.mean())


@pytest.mark.parametrize("smoothing", ["kernel", "knn", "tree"])
def test_no_smoothing_is_ipw_and_all_of_it_the_mean_reward(smoothing):
    none = 1.0 if smoothing == "knn" else 0.0
    problem = replace(tiny.small().but(deterministic=False).sample(60, np.random.default_rng(1)))
    known = tiny.run(IPW(), problem)
    made = tiny.run(PolicyConvolution(smoothing=smoothing, bandwidth=none), problem)
    assert made.value == pytest.approx(known.value, rel=1e-12)
    assert made.standard_error == pytest.approx(known.standard_error, rel=1e-10)
    normalized = PolicyConvolution(smoothing=smoothing, bandwidth=none, normalize=True)
    assert tiny.run(normalized, problem).value == pytest.approx(
        tiny.run(IPWS(), problem).value, rel=1e-12
    )
    everything = PolicyConvolution(smoothing=smoothing, bandwidth=1e6)
    assert tiny.run(everything, problem).value == pytest.approx(problem.reward.mean(), rel=1e-9)


@pytest.mark.parametrize("form", ["ratio", "outcome"])
def test_binary_rewards_in_sample_give_ipw(form):
    problem = replace(sample(), reward=(sample().reward > 1.0).astype(float))
    estimator = MarginalRatio(regressor="linear", form=form, cross_fit=1)
    assert tiny.run(estimator, problem).value == pytest.approx(
        tiny.run(IPW(), problem).value, rel=1e-12
    )


def test_a_classifier_that_names_each_action_gives_ipw():
    tree = "sklearn.tree.DecisionTreeClassifier"
    made, known = tiny.run(LearnedMIPS(tree), sample()), tiny.run(IPW(), sample())
    np.testing.assert_allclose(made.weights, known.weights, rtol=1e-12)
    assert made.value == pytest.approx(known.value, rel=1e-12)


# --- exact expectations


def test_weights_of_embeddings_mend_any_model_where_rewards_go_through_them():
    world = tiny.through_embedding()
    found = tiny.run(MDR(**CONSTANT), world.population())
    assert found.value == pytest.approx(world.value, abs=1e-12)


def test_offcem_on_the_population_is_its_formula():
    world, cluster = tiny.small(), np.array([0, 1, 0])
    problem = world.population()
    mean = problem.reward.mean()
    pool = cluster[:, None] == cluster
    weight = (world.pi1 @ pool) / (world.pi0 @ pool)
    exact = mean + world.expectation(world.pi0 * weight, world.q - mean)
    found = tiny.run(OffCEM(clusters=[0, 1, 0], **CONSTANT), problem)
    assert found.value == pytest.approx(exact, abs=1e-12)
    assert abs(exact - world.value) > 0.005


def test_groups_are_bins_of_the_predicted_reward_in_each_context():
    estimator = GroupIPW(clusters=2, **MODEL)
    problem = sample(200, seed=2)
    view = fitted_on(estimator, problem)
    world, x = tiny.small(), problem.context[:, 0].astype(int)
    weight = np.empty(200)
    for i in range(200):
        pairs = np.full(3, i), np.arange(3)
        q = estimator.reward_.pairs(view.context, *pairs)
        middle = (q.max() + q.min()) / 2
        upper = q >= middle
        pool = upper == upper[problem.action[i]]
        weight[i] = world.pi1[x[i], pool].sum() / world.pi0[x[i], pool].sum()
    estimate = estimator.estimate(view)
    np.testing.assert_allclose(estimate.weights, weight, rtol=1e-12)
    terms = weight * problem.reward
    assert estimate.value == pytest.approx(terms.mean(), rel=1e-12)
    assert estimate.standard_error == pytest.approx(terms.std(ddof=1) / 200**0.5, rel=1e-12)
    assert len(np.unique(weight)) > 2


def test_convolution_moves_probability_along_the_rows_of_the_matrix():
    """An asymmetric matrix: its transpose would give something else."""
    world = tiny.small()
    matrix = np.array([[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.1, 0.4, 0.5]])
    problem = world.population()
    view = tiny.view_of(problem, PolicyConvolution().access)
    x = problem.context[:, 0].astype(int)
    exact = ((world.pi1 @ matrix) / (world.pi0 @ matrix))[x, problem.action]
    found = convolved_ratios(view, tiny.GivenMatrix(matrix), 1)[0]
    np.testing.assert_allclose(found, exact, rtol=1e-12)


def matrix_of(smoothing: Smoothing, features: np.ndarray, bandwidth: float) -> np.ndarray:
    """S from its columns, which come in two chunks."""
    smoother = action_smoother(smoothing, features, np.array([9.0, bandwidth]))
    parts = [list(smoother.columns(np.array(some)))[1] for some in ([2, 0], [1])]
    return np.vstack(parts)[[1, 2, 0]].T


def test_smoothing_matrices_written_out():
    features = np.array([[0.0], [1.0], [3.0]])
    median = 2.0
    squares = np.square(features - features.T)
    kernel = np.exp(-squares / (2 * (0.5 * median) ** 2))
    np.testing.assert_allclose(
        matrix_of("kernel", features, 0.5), kernel / kernel.sum(axis=1, keepdims=True)
    )
    np.testing.assert_allclose(
        matrix_of("knn", features, 2.0), [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]]
    )
    np.testing.assert_allclose(
        matrix_of("tree", features, 0.6), [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]]
    )
    for smoothing in ("kernel", "knn", "tree"):
        for width in usual_bandwidths(smoothing, 3):
            assert matrix_of(smoothing, features, width).sum(axis=1) == pytest.approx(1.0)


def test_of_many_actions_the_median_distance_is_that_of_some(monkeypatch):
    features = np.array([[0.0], [1.0], [10.0], [30.0], [31.0]])
    monkeypatch.setattr(action_smoothing, "MOST_FOR_MEDIAN", 2)
    # Every third: the distance of 0 and 30 is the only one.
    near = np.exp(-np.square(features - features.T) / (2 * 30.0**2))
    exact = near / near.sum(axis=1, keepdims=True)
    smoother = action_smoother("kernel", features, np.array([1.0]))
    np.testing.assert_allclose(next(smoother.columns(np.arange(5))).T, exact)


@pytest.mark.parametrize("smoothing", ["knn", "tree"])
def test_too_many_pairs_of_actions_are_refused(smoothing, monkeypatch):
    monkeypatch.setattr(action_smoothing, "MOST_PAIRS", 9)
    features = np.arange(4.0)[:, None]
    assert matrix_of(smoothing, features[:3], 1.0).shape == (3, 3)
    with pytest.raises(UnavailableError, match=r"4 actions \(at most 9 pairs\); set smoothing"):
        action_smoother(smoothing, features, np.array([1.0]))


def test_kernels_hold_no_matrix_of_actions_by_actions():
    features = np.random.default_rng(11).normal(size=(1500, 2))
    tracemalloc.start()
    smoother = action_smoother("kernel", features, np.array([0.0, 1.0]))
    for _ in smoother.columns(np.arange(20)):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Twice the distances of all pairs, of which the median is taken.
    assert peak < 2.5 * 8 * 1500**2 / 2


def test_slope_chooses_the_bandwidth_from_the_ladder():
    problem = sample(300, seed=3)
    ladder = usual_bandwidths("kernel", 3)
    outcomes = [tiny.run(PolicyConvolution(bandwidth=float(width)), problem) for width in ladder]
    value = np.array([one.value for one in outcomes])
    error = np.array([one.standard_error for one in outcomes])
    chosen = tiny.run(PolicyConvolution(), problem).diagnostics["bandwidth"]
    assert chosen == ladder[slope(value, 1.959963984540054 * error)]


# --- parts


def test_clusters_follow_embeddings():
    atoms = np.array([[0.0, 0.0], [10.0, 0.0], [0.1, 0.0]])
    world = tiny.small().but(
        atoms=atoms, table=np.eye(3), deterministic=True, q=np.ones((2, 3, 3))
    )
    view = tiny.view_of(world.sample(20, np.random.default_rng(4)))
    two = view.fitted(ActionClusters(2))
    assert two[0] == two[2] != two[1]
    assert len(set(view.fitted(ActionClusters(3)))) == 3
    same = tiny.view_of(
        world.but(atoms=atoms[[0, 1, 0]]).sample(20, np.random.default_rng(4))
    ).fitted(ActionClusters(3))
    assert same[0] == same[2] != same[1]


def test_clusters_are_one_for_each_action():
    with pytest.raises(ParameterError, match=r"2 entries; expected one for each action, 3"):
        tiny.run(OffCEM(clusters=[0, 1], **MODEL), sample())


def test_weights_of_pools_that_differ_from_row_to_row():
    problem = sample(30, seed=5)
    view = tiny.view_of(problem, OffCEM().access)
    table = np.random.default_rng(6).integers(0, 2, size=(30, 3))
    found = pooled_weights(view, lambda rows: table[rows])
    world, x = tiny.small(), problem.context[:, 0].astype(int)
    for i in range(30):
        pool = table[i] == table[i, problem.action[i]]
        exact = world.pi1[x[i], pool].sum() / world.pi0[x[i], pool].sum()
        assert found[i] == pytest.approx(exact, rel=1e-12)


def test_learned_embeddings_are_ridge_coefficients_and_0_for_unseen_actions():
    rng = np.random.default_rng(7)
    context, action = rng.normal(2.0, 3.0, size=(50, 2)), rng.integers(0, 2, 50)
    reward = rng.normal(size=50)
    table = reward_coefficients(context, action, reward, 3)
    assert not table[2].any()
    scaled = (context - context.mean(axis=0)) / context.std(axis=0)
    own = np.column_stack([np.ones(50), scaled])[action == 1]
    # The penalty as three more rows of reward 0.
    rows = np.vstack([own, np.eye(3)])
    target = np.concatenate([(reward - reward.mean())[action == 1], np.zeros(3)])
    np.testing.assert_allclose(table[1], np.linalg.lstsq(rows, target, rcond=None)[0])


def test_marginal_ratios_are_fitted_on_other_units():
    """The nearest reward belongs to the own unit, whose weights must not be used."""
    problem = sample(60, seed=8)
    unit = np.repeat(np.arange(12), 5)
    rng = np.random.default_rng(9)
    problem = replace(
        problem, unit=unit, target_unit=100 + np.arange(60), reward=unit + 0.01 * rng.random(60)
    )
    weight = np.array(tiny.run(IPW(), problem).weights)
    params: dict[str, Any] = {
        "regressor": "sklearn.neighbors.KNeighborsRegressor",
        "regressor_params": {"n_neighbors": 1},
    }
    in_sample = tiny.run(MarginalRatio(cross_fit=1, **params), problem).weights
    np.testing.assert_allclose(in_sample, weight)
    # Weights replaced by the number of the unit: none is predicted from its own.
    marked = replace(problem, propensity=1.0 / (1.0 + unit) * (problem.propensity * weight))
    held_out = tiny.run(MarginalRatio(cross_fit=3, **params), marked).weights
    assert not np.isclose(held_out, 1.0 + unit).any()


# --- promises


@EVERY
def test_scaled_rewards_scale_the_estimate(estimator):
    before = tiny.run(estimator, sample())
    scaled = tiny.run(estimator, replace(sample(), reward=3.0 * sample().reward))
    assert scaled.value == pytest.approx(3.0 * before.value, rel=1e-6)


@EVERY
def test_order_of_rows_does_not_matter(estimator):
    given = estimator.get_params()
    if "cross_fit" in given:
        given |= {"cross_fit": 1}
    one_model = type(estimator)(**given)
    order = np.random.default_rng(10).permutation(60)
    logged = ("context", "action", "embedding", "reward", "propensity")
    problem = sample()
    moved = replace(problem, **{name: getattr(problem, name)[order] for name in logged})
    value = tiny.run(one_model, problem).value
    assert tiny.run(one_model, moved).value == pytest.approx(value, rel=1e-6)


@EVERY
def test_one_row_has_a_value_and_no_standard_error(estimator):
    estimate = tiny.run(estimator, sample(1))
    assert np.isfinite(estimate.value)
    assert estimate.standard_error is None


@pytest.mark.parametrize(
    "estimator", [OffCEM(), GroupIPW(), LearnedMIPS(), PolicyConvolution()], ids=repr
)
def test_continuous_actions_are_refused(estimator):
    names = "world_rng", "logged_rng", "target_rng"
    streams = {name: np.random.default_rng(0) for name in names}
    problem, _ = Gaussian(n_samples=10).sample(**streams)
    with pytest.raises(UnavailableError, match="actions are continuous"):
        tiny.run(estimator, problem)


# --- logs without a target sample


@pytest.mark.parametrize(
    "estimator",
    [*FAMILY, MIPS("softmax"), DM("linear", action_features="embedding")],
    ids=repr,
)
def test_logs_without_a_target_sample_have_an_estimate(estimator):
    assert np.isfinite(tiny.run(estimator, with_target_rows(sample(), None)).value)


def test_a_classifier_of_logged_actions_does_not_depend_on_the_target_sample(monkeypatch):
    problem = sample()
    monkeypatch.setattr(policy, "MAX_TABLE", 60 * 3)
    large = with_target_rows(problem, np.arange(61) % 60)
    values = {
        tiny.run(MIPS("softmax"), one).value
        for one in (problem, large, with_target_rows(problem, None))
    }
    assert len(values) == 1
    with pytest.raises(UnavailableError, match="the sample has too many actions"):
        fitted_on(DMStarPaper(), large)


def test_chips_of_one_cluster_and_of_clusters_of_rows_on_the_golden_log():
    """One cluster: π1 = (.4, .15, .45), π0 = (.35, .25, .4), so (.6 + 2 * 1.125 + 8/7) / 6."""
    one = golden.run(CHIPS(clusters=1))
    assert one.value == pytest.approx(0.665476, abs=5e-7)
    each = golden.run(CHIPS(clusters=2))
    assert each.value == pytest.approx(golden.run(IPW()).value, abs=1e-12)
    assert golden.run(CHIPS()).value == pytest.approx(one.value, abs=1e-12)
    twice = replace(golden.problem(), row_weight=np.array([1.0, 1, 2, 1, 1, 1]))
    rows = np.array([0, 1, 2, 2, 3, 4, 5])
    written = problem_rows(golden.problem(), rows, np.arange(6))
    for number in (1, 2):
        found, out = (golden.run(CHIPS(clusters=number), log) for log in (twice, written))
        assert found.value == pytest.approx(out.value, abs=1e-12)


def test_chips_clusters_contexts_that_are_near_each_other():
    rng = np.random.default_rng(0)
    x = np.repeat([0.0, 50.0], 40) + rng.normal(0, 0.1, 80)
    rows = (x > 25).astype(int)
    log = golden.problem(rows, rng.integers(3, size=80), rng.random(80))
    near = replace(
        log,
        context=x[:, None],
        schema=None,
        target_context=None,
        target_action=None,
        target_embedding=None,
        logging_policy=Tabular(golden.LOGGING, lambda c: (c[:, 0] > 25).astype(int)),
        target_policy=Tabular(golden.TARGET, lambda c: (c[:, 0] > 25).astype(int)),
    )
    found = golden.run(CHIPS(clusters=2), near)
    assert found.value == pytest.approx(golden.run(IPW(), near).value, abs=1e-12)
    assert found.diagnostics["clusters"] == 2


def test_chips_weighs_by_the_mean_policies_of_a_cluster_whose_contexts_differ():
    """Three clusters far apart, policies that vary within: means written out again."""
    rng = np.random.default_rng(4)
    place = rng.integers(3, size=90)
    x = 50.0 * place[:, None] + rng.normal(size=(90, 1))
    score = rng.normal(size=(1, 3))
    both = [np.exp(k * np.sin(x) @ score) for k in (0.5, -1.0)]
    logging, target = (one / one.sum(axis=1, keepdims=True) for one in both)
    action, reward = rng.integers(3, size=90), rng.normal(size=90)
    none = dict.fromkeys(("schema", "target_context", "target_action", "target_embedding"))
    policies = {
        "logging_policy": Softmax(lambda c: 0.5 * np.sin(c) @ score, 3),
        "target_policy": Softmax(lambda c: -np.sin(c) @ score, 3),
    }
    log = golden.problem(np.zeros(90, int), action, reward)
    log = replace(log, context=x, propensity=logging[np.arange(90), action], **policies, **none)
    terms = np.empty(90)
    for c in range(3):
        rows = place == c
        ratio = target[rows].mean(axis=0) / logging[rows].mean(axis=0)
        terms[rows] = ratio[action[rows]] * reward[rows]
    found = golden.run(CHIPS(clusters=3), log)
    assert found.value == pytest.approx(terms.mean(), abs=1e-12)
    assert found.standard_error == pytest.approx(terms.std(ddof=1) / np.sqrt(90), abs=1e-12)
    rows = golden.run(CHIPS(clusters=90), log)
    assert rows.value == pytest.approx(golden.run(IPW(), log).value, abs=1e-12)
    assert rows.value != pytest.approx(found.value)


def test_chips_clusters_a_row_of_weight_k_as_k_rows():
    rng = np.random.default_rng(1)
    log = golden.problem(rng.integers(2, size=60), rng.integers(3, size=60), rng.random(60))
    context, weight = rng.normal(size=(60, 2)), rng.integers(1, 6, 60) ** 2
    policies = {
        "logging_policy": Tabular(golden.LOGGING, lambda c: (c[:, 0] > 0).astype(int)),
        "target_policy": Tabular(golden.TARGET, lambda c: (c[:, 0] > 0).astype(int)),
    }
    none = dict.fromkeys(("schema", "target_context", "target_action", "target_embedding"))
    log = replace(log, context=context, **policies, **none)
    written = problem_rows(log, np.repeat(np.arange(60), weight), np.empty(0, dtype=int))
    found = golden.run(CHIPS(clusters=4), replace(log, row_weight=weight.astype(float)))
    assert found.value == pytest.approx(golden.run(CHIPS(clusters=4), written).value, abs=1e-12)
