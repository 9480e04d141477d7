"""Kernels, bandwidths, the printed pairing and the ratio of smoothed densities."""

from __future__ import annotations

import numpy as np
import pytest

from ope_bench.base.errors import UnavailableError
from ope_bench.contracts.data import Column, Problem, Schema
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import Access, FitCache, View
from ope_estimators.density_ratio.kernels import (
    bandwidth_of,
    median_distance,
    profile,
    silverman,
)
from ope_estimators.density_ratio.pairing import pair_kernel, paired_rows
from ope_estimators.density_ratio.smoothed import smoothed_ratio


def view_of(n, m, *, shared=False, seed=0, d=2, binary=False) -> View:
    rng = np.random.default_rng(seed)
    c, c1 = (
        rng.integers(0, 2, (k, 1)).astype(float) if binary else rng.normal(size=(k, 2))
        for k in (n, m)
    )
    columns = (Column("categorical", (0.0, 1.0)),) if binary else (Column(),) * 2
    problem = Problem(
        context=c,
        action=np.zeros(n, int),
        embedding=rng.normal(size=(n, d)),
        reward=np.zeros(n),
        target_context=c if shared else c1,
        target_action=np.zeros(m, int),
        target_embedding=rng.normal(size=(m, d)) + 0.5,
        n_actions=1,
        schema=Schema(columns, (Column(),) * d),
        shared_contexts=shared,
    )
    return View(problem, Access.SAMPLES, seed=DataSeed("test", seed, 0), fit_cache=FitCache())


def test_kernels_are_one_at_zero_and_fall():
    squared = np.linspace(0, 4, 50)
    for kernel in ("rbf", "epanechnikov", "triangular", "cosine"):
        values = profile(kernel, squared)
        assert values[0] == 1.0
        assert (np.diff(values) <= 0).all()
        assert (values >= 0).all()
    assert profile("rbf", np.array([1.0]))[0] == pytest.approx(np.exp(-0.5))


def test_the_median_skips_distances_of_zero():
    atoms = np.repeat([[0.0, 0.0], [3.0, 4.0]], [60, 3], axis=0)
    assert median_distance(atoms) == 5.0
    assert median_distance(np.ones((9, 2))) == 1.0
    rng = np.random.default_rng(0)
    points = rng.normal(size=(60, 3))
    apart = [np.linalg.norm(a - b) for i, a in enumerate(points) for b in points[:i]]
    assert median_distance(points) == pytest.approx(np.median(apart))


def test_a_subsample_stands_for_many_points():
    points = np.random.default_rng(0).normal(size=(30_000, 1))
    # The distance of two standard normals is |N(0, 2)|, whose median is 0.9539.
    assert median_distance(points) == pytest.approx(0.9539, rel=0.05)


def test_silverman_is_the_normal_reference_rule():
    points = np.random.default_rng(0).normal(size=(1000, 1)) * 3
    assert silverman(points) == pytest.approx(1.06 * points.std() * 1000**-0.2, rel=2e-3)
    assert silverman(np.ones((5, 2))) == 1.0
    assert bandwidth_of(0.3, points) == 0.3


def test_one_draw_pairs_row_with_row_and_needs_equal_sizes():
    rows = paired_rows(view_of(6, 6), 1, np.random.default_rng(0))
    assert rows.tolist() == [[0], [1], [2], [3], [4], [5]]
    with pytest.raises(UnavailableError, match="set target_draws to 2 or more"):
        paired_rows(view_of(6, 7), 1, np.random.default_rng(0))


def test_more_draws_come_from_the_nearest_contexts():
    view = view_of(20, 30)
    rows = paired_rows(view, 4, np.random.default_rng(0))
    both = np.concatenate([view.context, view.target_context])
    scaled = both / both.std(axis=0)
    for i in range(20):
        distance = np.linalg.norm(scaled[20:] - scaled[i], axis=1)
        assert set(rows[i]) == set(np.argsort(distance)[:4])


def test_shared_contexts_pair_every_row_with_its_twin_first():
    view = view_of(50, 50, shared=True)
    rows = paired_rows(view, 3, np.random.default_rng(0))
    assert rows[:, 0].tolist() == list(range(50))
    view = view_of(50, 50, shared=True, binary=True)
    rows = paired_rows(view, 3, np.random.default_rng(0))
    assert rows[:, 0].tolist() == list(range(50))


def test_equal_contexts_share_their_partners_out():
    view = view_of(400, 400, binary=True)
    rows = paired_rows(view, 5, np.random.default_rng(0))
    assert (view.target_context[rows, 0] == view.context).all()
    assert len(np.unique(rows)) > 300


def test_the_pair_kernel_is_a_mean_over_partners():
    view = view_of(9, 12)
    rows = paired_rows(view, 3, np.random.default_rng(0))
    g, h = view.embedding, view.target_embedding
    for kernel in ("rbf", "epanechnikov"):
        have = pair_kernel(kernel, 1.7, g, h, rows)
        for i in range(9):
            squared = [np.sum(((h[j] - g[i]) / 1.7) ** 2) for j in rows[i]]
            want = np.mean(
                [np.exp(-s / 2) if kernel == "rbf" else max(0.0, 1 - s) for s in squared]
            )
            assert have[i] == pytest.approx(want)


def test_the_smoothed_ratio_is_a_ratio_of_kernel_density_estimates():
    from scipy.stats import gaussian_kde

    view = view_of(80, 120, d=1)
    # A constant context smooths nothing: what is left are two univariate estimates.
    object.__setattr__(view, "context", np.ones((80, 2)))
    object.__setattr__(view, "target_context", np.ones((120, 2)))
    ratio = smoothed_ratio(view, "rbf", 0.4)
    at = np.concatenate([view.embedding, view.target_embedding])[:, 0]

    def density(sample):
        kde = gaussian_kde(sample[:, 0], bw_method=0.4 / sample[:, 0].std(ddof=1))
        return kde(at)

    want = np.log(density(view.target_embedding) / density(view.embedding))
    np.testing.assert_allclose(np.concatenate([ratio.logged, ratio.target]), want, atol=1e-9)


def test_the_smoothed_ratio_smooths_no_binary_context():
    view = view_of(200, 200, d=1, binary=True)
    ratio = smoothed_ratio(view, "rbf", "silverman")
    c, c1 = view.context[:, 0], view.target_context[:, 0]
    width = silverman(np.concatenate([view.embedding, view.target_embedding]))
    row = int(np.argmax(c == 1))
    g = view.embedding[row, 0]

    def density(sample, context):
        near = np.exp(-0.5 * ((sample[:, 0] - g) / width) ** 2)
        return (near * (context == 1)).mean()

    want = np.log(density(view.target_embedding, c1) / density(view.embedding, c))
    assert ratio.logged[row] == pytest.approx(want, abs=1e-6)


def test_a_narrow_kernel_gives_bounded_finite_log_ratios():
    for kernel in ("rbf", "epanechnikov"):
        ratio = smoothed_ratio(view_of(50, 50), kernel, 1e-6)
        assert np.isfinite(ratio.weights).all()
        assert np.isfinite(ratio.target_weights).all()
