"""Weights from samples alone: known ratios, exact balance, constraints, optimality."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from ope_bench.base.errors import PositivityViolation, UnavailableError
from ope_bench.contracts import arrays
from ope_bench.contracts.data import Problem
from ope_estimators.density_ratio import kliep, matching
from ope_estimators.density_ratio.basis import basis_functions, standardized
from ope_estimators.density_ratio.kernels import median_distance
from ope_estimators.density_ratio.kliep import most_likely, squared_distances
from ope_estimators.density_ratio.matching import (
    EnergyWeights,
    least_quadratic,
    means_of_rows,
    paired,
    project,
    project_quickly,
    squared,
)
from ope_estimators.density_ratio.riesz import LeastSquaresRatio
from ope_estimators.embedded.balancing.energy_balancing import EnergyBalancing
from ope_estimators.embedded.balancing.entropy_balancing import EntropyBalancing
from ope_estimators.embedded.balancing.kliep import KLIEP
from ope_estimators.embedded.balancing.kmm import KMM
from ope_estimators.embedded.balancing.riesz import Riesz
from ope_estimators.embedded.balancing.rulsif import RuLSIF
from support import tiny_worlds as tiny

FAMILY: list[Any] = [
    Riesz(),
    Riesz(basis="linear"),
    Riesz(basis="fourier"),
    Riesz(basis="forest"),
    RuLSIF(),
    KLIEP(),
    KMM(),
    EntropyBalancing(),
    EnergyBalancing(),
]
EVERY = pytest.mark.parametrize("estimator", FAMILY, ids=repr)


def shifted_normals(n: int = 1500, shift: float = 0.5, seed: int = 0) -> Problem:
    """Embeddings N(0, 1) in the logs and N(shift, 1) in the target sample; reward is its sine."""
    rng = np.random.default_rng(seed)
    logged, target = rng.normal(size=(n, 1)), rng.normal(shift, 1.0, size=(n, 1))
    return Problem(
        context=np.zeros((n, 1)),
        action=logged[:, 0],
        embedding=logged,
        reward=np.sin(logged[:, 0]),
        target_context=np.zeros((n, 1)),
        target_action=target[:, 0],
        target_embedding=target,
        n_actions=None,
    )


def weights_of(estimator: Any, problem: Problem) -> np.ndarray:
    """The weights that are used, reported or not."""
    view = tiny.view_of(problem, estimator.access)
    estimator.fit(view, rng=np.random.default_rng(0), device="cpu")
    weights: np.ndarray = estimator.weights_.logged
    return weights


def truth(problem: Problem, shift: float = 0.5) -> np.ndarray:
    return np.exp(shift * problem.embedding[:, 0] - shift**2 / 2)


@EVERY
def test_the_ratio_of_two_normal_densities_is_found(estimator):
    problem = shifted_normals()
    known = truth(problem)
    assert (known**2).mean() == pytest.approx(1.284025, rel=0.1)
    if isinstance(estimator, RuLSIF):
        known = known / (0.1 * known + 0.9)
    found = tiny.run(estimator, problem)
    weights = estimator.weights_.logged
    off = np.square(weights - known).mean() / np.square(known - 1).mean()
    # The worst of the bases leaves a quarter of the variance; weights of one leave all of it.
    # Energy weights are uneven from row to row, and right on average over neighbors only.
    assert off < 0.25 or isinstance(estimator, EnergyBalancing)
    exact = (known * problem.reward).mean() / known.mean()
    assert found.value == pytest.approx(exact, abs=0.06)
    assert found.value == pytest.approx(weights @ problem.reward / weights.sum())
    assert abs(found.value - problem.reward.mean()) > 0.15


@pytest.mark.parametrize("basis", ["linear", "fourier", "nystroem"])
def test_without_a_penalty_means_of_the_basis_are_balanced_exactly(basis):
    """Bases whose functions are not all 0 in the logs; leaves may be."""
    view = tiny.view_of(shifted_normals(400))
    fit = LeastSquaresRatio(basis, 0.0, 0.0).fit(view, rng=np.random.default_rng(7), device="cpu")
    logged, target = basis_functions(basis, *standardized(view), np.random.default_rng(7))
    balance = (fit.logged[:, None] * logged).mean(axis=0)
    np.testing.assert_allclose(balance, target.mean(axis=0), atol=1e-6)


def test_nystroem_is_the_gaussian_kernel_of_the_median_distance():
    """With as many functions as rows the projection is the kernel itself."""
    rng = np.random.default_rng(5)
    pooled = 3.0 * rng.standard_normal((40, 2))
    parts = basis_functions("nystroem", pooled[:25], pooled[25:], np.random.default_rng(7))
    values = np.concatenate(parts)[:, 1:]
    square = np.square(pooled[:, None] - pooled).sum(axis=2)
    width = np.median(np.sqrt(square[np.triu_indices(40, 1)]))
    np.testing.assert_allclose(values @ values.T, np.exp(-0.5 * square / width**2), atol=1e-6)


def test_least_squares_solve_their_equation():
    problem = shifted_normals(300)
    x, t = standardized(tiny.view_of(problem))
    phi, psi = (np.column_stack([np.ones(300), part]) for part in (x, t))
    for beta in (0.0, 0.3):
        gram = (1 - beta) * phi.T @ phi / 300 + beta * psi.T @ psi / 300 + 0.7 * np.eye(2)
        alpha = phi @ np.linalg.solve(gram, psi.mean(axis=0))
        estimator: Any = (
            RuLSIF(beta=beta, basis="linear", penalty=0.7)
            if beta
            else Riesz(basis="linear", penalty=0.7)
        )
        expected = np.clip(alpha, 0, 1 / beta) if beta else alpha
        np.testing.assert_allclose(weights_of(estimator, problem), expected, rtol=1e-9)


def test_negative_weights_are_counted_and_not_reported():
    estimate = tiny.run(Riesz(basis="linear", penalty=0.0), shifted_normals(300, 1.5))
    weights = weights_of(Riesz(basis="linear", penalty=0.0), shifted_normals(300, 1.5))
    assert estimate.weights is None
    assert estimate.diagnostics["negative_share"] == (weights < 0).mean() > 0
    assert tiny.run(KLIEP(), shifted_normals(50)).diagnostics["negative_share"] == 0


def test_held_out_loss_takes_a_large_penalty_where_there_is_nothing_to_learn():
    none, much = (
        tiny.run(Riesz(), shifted_normals(200, shift)).diagnostics["penalty"]
        for shift in (0.0, 1.5)
    )
    assert none > much


@pytest.mark.parametrize("beta", [0.1, 0.5])
def test_relative_ratios_are_bounded(beta):
    weights = tiny.run(RuLSIF(beta=beta, penalty=1e-6), shifted_normals(400, 3.0)).weights
    assert weights.min() >= 0
    assert weights.max() <= 1 / beta
    assert weights.max() > 0.8 / beta


@pytest.mark.parametrize("moments", [1, 2])
def test_entropy_balancing_is_exact(moments):
    problem = tiny.small().sample(300, np.random.default_rng(1))
    estimate = tiny.run(EntropyBalancing(moments=moments), problem)
    x, t = standardized(tiny.view_of(problem))
    if moments == 2:
        i, j = np.triu_indices(x.shape[1])
        x, t = np.hstack([x, x[:, i] * x[:, j]]), np.hstack([t, t[:, i] * t[:, j]])
    share = estimate.weights / estimate.weights.sum()
    np.testing.assert_allclose(share @ x, t.mean(axis=0), atol=1e-8)
    # Logarithms of the weights are linear in the functions.
    design = np.column_stack([np.ones(300), x])
    log = np.log(estimate.weights)
    fit = design @ np.linalg.lstsq(design, log, rcond=None)[0]
    np.testing.assert_allclose(fit, log, atol=1e-8)


def test_means_outside_of_the_logs_cannot_be_balanced():
    with pytest.raises(PositivityViolation, match="lies outside of what was logged"):
        tiny.run(EntropyBalancing(), shifted_normals(50, 20.0))


def test_parameters_that_run_away_until_no_step_is_found_are_a_failure_of_overlap(monkeypatch):
    """In one of 41,580 trials of drawn worlds the least squares of a step did not converge."""

    def diverges(*_, **__):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(np.linalg, "lstsq", diverges)
    with pytest.raises(PositivityViolation, match="lies outside of what was logged"):
        tiny.run(EntropyBalancing(), shifted_normals(50, 0.5))


@pytest.mark.parametrize(
    ("spread", "functions", "many_rows"), [(1.0, 6, 100), (1.0, 6, 1), (1.0, 60, 1), (1e-3, 60, 1)]
)
def test_the_largest_likelihood_keeps_its_constraint_and_its_conditions(
    spread, functions, many_rows, monkeypatch
):
    """Functions that hardly vary, too, among which small steps would wander."""
    monkeypatch.setattr(kliep, "MANY_ROWS", many_rows)
    rng = np.random.default_rng(2)
    logged, target = (spread * np.abs(rng.normal(size=(80, functions))) + 0.01 for _ in range(2))
    theta = most_likely(logged, target)
    assert theta.min() >= 0
    assert (logged @ theta).mean() == pytest.approx(1.0, rel=1e-9)
    # Karush, Kuhn, Tucker: no coefficient would raise the likelihood at the cost of others.
    slope = (target / (target @ theta)[:, None]).mean(axis=0) / logged.mean(axis=0)
    assert slope.max() <= 1.0 + 1e-4
    share = theta * logged.mean(axis=0)
    np.testing.assert_allclose(slope[share > 1e-2], 1.0, atol=1e-2)


def test_components_alike_that_few_rows_have_do_not_stop_the_likelihood():
    rng = np.random.default_rng(0)
    rare = 1e7 * (rng.random((500, 1)) < 0.02) * rng.random((500, 1))
    component = np.hstack([rng.random((500, 3)) + 1e-3, np.tile(rare, 12)])
    share = np.r_[np.full(3, 1 / 3), np.full(12, 1e-9)]
    share /= share.sum()
    before = np.log(component @ share).mean()
    growth = 1 / (component @ share) @ component / len(component)
    after = kliep.newton_step(component, share, growth)
    assert after.sum() == pytest.approx(1.0)
    assert np.log(component @ after).mean() > before


def test_kernel_mean_matching_keeps_its_bounds():
    problem = shifted_normals(200, 2.0)
    weights = tiny.run(KMM(bound=3.0), problem).weights
    assert weights.min() >= 0
    assert weights.max() == pytest.approx(3.0, abs=1e-9)
    slack = (200**0.5 - 1) / 200**0.5
    assert abs(weights.sum() - 200) <= 200 * slack + 1e-6


def test_kernel_means_are_nearer_than_those_of_the_true_ratio():
    problem = shifted_normals(300)
    x, t = standardized(tiny.view_of(problem))
    width = median_distance(np.concatenate([x, t]))

    def distance(weights: np.ndarray) -> float:
        near = [np.exp(-cdist(a, b, "sqeuclidean") / (2 * width**2)) for a, b in ((x, x), (x, t))]
        return float(
            weights @ near[0] @ weights / 300**2 - 2 * weights @ near[1].mean(axis=1) / 300
        )

    found = tiny.run(KMM(), problem).weights
    assert distance(found) <= min(distance(truth(problem)), distance(np.ones(300)))


def test_energy_weights_are_nearer_than_any_others_tried():
    problem = shifted_normals(200)
    x, t = standardized(tiny.view_of(problem))
    to_target, among = cdist(x, t).mean(axis=1), cdist(x, x)

    def distance(weights: np.ndarray) -> float:
        return float(2 * weights @ to_target / 200 - weights @ among @ weights / 200**2)

    found = np.array(tiny.run(EnergyBalancing(), problem).weights)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(200, abs=1e-6)
    least = distance(found)
    rng = np.random.default_rng(3)
    assert least < distance(np.ones(200))
    assert least < distance(truth(problem) / truth(problem).mean())
    for _ in range(50):
        other = 0.9 * found + 0.1 * 200 * rng.dirichlet(np.ones(200))
        assert least <= distance(other) + 1e-9


def test_a_quadratic_with_a_known_minimum():
    matrix = np.diag([1.0, 2.0, 4.0])
    # Within the bounds the minimum is Q^-1 c; the sum is free between 0 and 10.
    free = least_quadratic(matrix.dot, np.array([1.0, 1.0, 1.0]), 5.0, 0.0, 10.0)
    np.testing.assert_allclose(free, [1.0, 0.5, 0.25], atol=1e-6)
    # With sum 3: a_i = (1 + m) / q_i, (1 + m) (1.75) = 3.
    bound = least_quadratic(matrix.dot, np.array([1.0, 1.0, 1.0]), 5.0, 3.0, 3.0)
    np.testing.assert_allclose(bound, 3 / 1.75 * np.array([1.0, 0.5, 0.25]), atol=1e-6)


def test_weights_of_all_pairs_are_the_minimum():
    # Distances, as of the energy: positive semidefinite on vectors that sum to 0.
    rng = np.random.default_rng(6)
    rows, others = rng.normal(size=(40, 3)), rng.normal(loc=0.5, size=(30, 3))
    matrix, means = -cdist(rows, rows) / 40, -cdist(rows, others).mean(axis=1)
    product, linear = paired(lambda one, other: -cdist(one, other), rows, others)
    vector = rng.normal(size=40)
    np.testing.assert_allclose(product(vector), matrix @ vector, rtol=1e-12)
    np.testing.assert_array_equal(linear, means)
    whole = least_quadratic(product, linear, 40.0, 40.0, 40.0)
    # At the minimum the gradient is the same wherever a weight is within its bounds.
    gradient = matrix @ whole - means
    inside = (whole > 1e-3) & (whole < 40.0)
    assert inside.sum() > 5
    np.testing.assert_allclose(gradient[inside], gradient[inside].mean(), atol=1e-6)


def test_means_over_pairs_of_rows_keep_to_chunks(monkeypatch):
    monkeypatch.setattr(arrays, "CHUNK_ENTRIES", 60)
    rng, sizes = np.random.default_rng(7), []

    def table(rows, others):
        sizes.append(len(rows) * len(others))
        return cdist(rows, others)

    rows, others = rng.normal(size=(25, 2)), rng.normal(size=(10, 2))
    means = means_of_rows(table, rows, others)
    np.testing.assert_array_equal(means, cdist(rows, others).mean(axis=1))
    assert max(sizes) <= 600


def test_distances_from_centers_do_not_depend_on_the_width(monkeypatch):
    calls = []

    def counted(rows, centres):
        calls.append(len(rows))
        return squared_distances(rows, centres)

    monkeypatch.setattr(kliep, "squared_distances", counted)
    tiny.run(KLIEP(), shifted_normals(50))
    assert len(calls) == 2


def test_distances_from_centers_are_those_of_all_rows_at_once(monkeypatch):
    rng = np.random.default_rng(8)
    table, centres = rng.normal(size=(25, 9)), rng.normal(size=(7, 9))
    for rows in (table, np.asfortranarray(table)[:24]):
        whole = np.square(rows[:, None, :] - centres).sum(axis=2)
        for block in (2, 3, 4, 23, 100):
            monkeypatch.setattr(kliep, "BLOCK", block)
            found = squared_distances(rows, centres)
            np.testing.assert_array_equal(found, whole)
            assert found.flags.c_contiguous == whole.flags.c_contiguous


def test_a_projection_written_out():
    np.testing.assert_allclose(project(np.array([2.0, -1.0, 0.5]), 1.0, 0.0, 9.0), [1.0, 0.0, 0.5])
    np.testing.assert_allclose(project(np.array([2.0, 1.0]), 5.0, 1.0, 1.0), [1.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(project(np.array([0.5, 0.1]), 5.0, 2.0, 3.0), [1.2, 0.8], atol=1e-9)


@pytest.mark.parametrize("limits", [(1e9, 40.0, 40.0), (2.0, 30.0, 35.0), (0.9, 44.0, 45.0)])
def test_the_quick_projection_is_the_projection(limits):
    rng = np.random.default_rng(7)
    for scale in (0.1, 1.0, 30.0):
        point = 1.0 + scale * rng.normal(size=50)
        np.testing.assert_allclose(
            project_quickly(point, *limits), project(point, *limits), atol=1e-7
        )


@pytest.mark.parametrize("estimator", [KMM(), EnergyBalancing()], ids=["kmm", "energy"])
def test_landmarks_that_are_all_rows_give_the_estimate_of_all_pairs(estimator, monkeypatch):
    problem = shifted_normals(60)
    exact = tiny.run(estimator, problem).value
    monkeypatch.setattr(matching, "PAIRED_ROWS", 20)
    assert tiny.run(estimator, problem).value == pytest.approx(exact, abs=2e-3)
    # Few landmarks: another kernel, and yet nearer to it than the logged mean is.
    monkeypatch.setattr(matching, "LANDMARKS", 30)
    monkeypatch.setattr(matching, "KERNEL_LANDMARKS", 30)
    few = tiny.run(estimator, problem).value
    assert few != exact
    assert abs(few - exact) < abs(problem.reward.mean() - exact) / 2


def test_passes_over_all_pairs_bring_energy_weights_to_those_of_all_pairs(monkeypatch):
    """Of many dimensions few landmarks hold little, and the passes make up for it."""
    rng = np.random.default_rng(6)
    logged, target = rng.normal(size=(300, 12)), rng.normal(size=(250, 12)) + 0.4
    view = SimpleNamespace(n=300, m=250)

    def weigh():
        return EnergyWeights().weigh(view, logged, target, np.random.default_rng(0)).logged

    exact = weigh()
    monkeypatch.setattr(matching, "PAIRED_ROWS", 20)
    monkeypatch.setattr(matching, "LANDMARKS", 40)
    gaps = []
    for passes in (0, 4, 12):
        monkeypatch.setattr(matching, "PASSES", passes)
        weights = weigh()
        assert weights.sum() == pytest.approx(300)
        gaps.append(float(np.abs(weights - exact).mean()))
    assert gaps[2] < gaps[1] / 2 < gaps[0] / 4


def test_one_product_of_matrices_has_the_squared_distances():
    rng = np.random.default_rng(3)
    rows, others = rng.normal(size=(40, 3)), rng.normal(size=(50, 3))
    expected = cdist(rows, others, "sqeuclidean")
    np.testing.assert_allclose(squared(rows, others), expected, atol=1e-12)
    assert (squared(rows, rows) >= 0).all()


def test_too_many_rows_are_refused(monkeypatch):
    monkeypatch.setattr(matching, "MOST_ROWS", 20)
    for estimator in (KMM(), EnergyBalancing()):
        with pytest.raises(UnavailableError, match="at most 20 rows a sample, these are 30"):
            tiny.run(estimator, shifted_normals(30))
        assert np.isfinite(tiny.run(estimator, shifted_normals(20)).value)


@EVERY
def test_rewards_shift_and_scale_the_estimate(estimator):
    problem = tiny.small().sample(80, np.random.default_rng(4))
    before = tiny.run(estimator, problem).value
    changed = replace(problem, reward=3.0 * problem.reward + 7.0)
    assert tiny.run(estimator, changed).value == pytest.approx(3.0 * before + 7.0, rel=1e-9)


def test_bases_begin_with_a_constant():
    rng = np.random.default_rng(5)
    for basis in ("linear", "fourier", "nystroem", "forest"):
        logged, target = basis_functions(
            basis, rng.normal(size=(30, 2)), rng.normal(size=(20, 2)), rng
        )
        assert len(logged) == 30
        assert len(target) == 20
        assert (logged[:, 0] == 1).all()
        assert logged.shape[1] > 2


def test_pivots_find_the_minimum_over_weights_that_are_not_negative():
    rng = np.random.default_rng(3)
    table, diagonal = rng.normal(size=(300, 12)) / 300**0.5, np.full(300, 1e-3)
    linear = table @ rng.normal(size=12) + 0.1 * rng.normal(size=300)
    weights = matching.pivoted(table, diagonal, linear)
    assert weights is not None
    slope = table @ (table.T @ weights) + diagonal * weights - linear
    assert 20 < (weights > 0).sum() < 280
    assert np.abs(slope[weights > 0]).max() < 1e-9
    assert slope[weights == 0].min() > -1e-9


def test_on_landmarks_a_bound_that_the_minimum_passes_is_kept(monkeypatch):
    monkeypatch.setattr(matching, "PAIRED_ROWS", 0)
    problem = shifted_normals(200, 2.0)
    free, bounded = (tiny.run(KMM(bound=bound), problem).weights for bound in (1000.0, 3.0))
    assert free.max() > 3.0
    assert 2.0 < bounded.max() <= 3.0 + 1e-9
