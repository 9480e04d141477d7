"""Rules that choose a hyper-parameter: against loops written out, and on worlds they must see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ope_bench import ParameterError, params
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import FitCache, View
from ope_environments.saito.toy import SaitoToy
from ope_estimators.actions.doubly_robust.cab import CAB
from ope_estimators.actions.doubly_robust.dr_os import DROS
from ope_estimators.actions.doubly_robust.dr_ps import DRPS
from ope_estimators.actions.doubly_robust.residual_weighted import ResidualWeighted
from ope_estimators.actions.doubly_robust.sg_dr import SGDR
from ope_estimators.actions.doubly_robust.switch import Switch
from ope_estimators.actions.weighting.es_ipw import ESIPW
from ope_estimators.actions.weighting.ipw import IPW, ClippedWeights
from ope_estimators.actions.weighting.ipws import IPWS
from ope_estimators.actions.weighting.ix_ipw import IXIPW
from ope_estimators.actions.weighting.ls_ipw import LSIPW
from ope_estimators.actions.weighting.lse_ipw import LSEIPW
from ope_estimators.actions.weighting.sg_ipw import SGIPW
from ope_estimators.tuning.cross_validation import SPLITS, cross_validate, validation_risk
from ope_estimators.tuning.estimated_mse import least_mse
from ope_estimators.tuning.slope import slope
from support import tiny_worlds as tiny


@params
class TunedDR(ResidualWeighted, ClippedWeights):
    """Clipped weights of residuals."""


TUNED: list[tuple[Any, str]] = [
    (IPW, "clip"),
    (IPWS, "clip"),
    (SGIPW, "lambda_"),
    (IXIPW, "gamma"),
    (ESIPW, "alpha"),
    (LSIPW, "lambda_"),
    (LSEIPW, "lambda_"),
    (TunedDR, "clip"),
    (DRPS, "clip"),
    (DROS, "lambda_"),
    (SGDR, "lambda_"),
]
EVERY = pytest.mark.parametrize(
    ("cls", "name"), TUNED, ids=lambda one: getattr(one, "__name__", one)
)
EXTRA: dict[Any, dict[str, Any]] = {
    cls: {"regressor": "linear", "cross_fit": 2} for cls in (TunedDR, DRPS, DROS, SGDR)
}
NEUTRAL = {"clip": 1e9, "gamma": 0.0, "alpha": 1.0}


def problem(seed: int = 0, n: int = 300) -> Any:
    """Little overlap: weights up to ten."""
    world = tiny.small().but(
        pi0=np.array([[0.88, 0.05, 0.07], [0.07, 0.05, 0.88]]),
        pi1=np.array([[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]]),
    )
    return world.sample(n, np.random.default_rng(seed))


def made(cls: Any, name: str, value: Any) -> Any:
    return cls(**EXTRA.get(cls, {}), **{name: value})


def candidates(cls: Any, name: str, data: Any) -> np.ndarray:
    """The grid that the rules of a class choose from."""
    estimator = made(cls, name, "mse")
    view = tiny.view_of(data, estimator.access)
    estimator.fit(view, rng=np.random.default_rng(0), device="cpu")
    return estimator._candidates(estimator._rows(view))


def at(cls: Any, name: str, value: float, data: Any) -> Any:
    """The estimate with one candidate; LSE takes no 0 and no grid has one."""
    return tiny.run(made(cls, name, value), data)


@EVERY
def test_grids_begin_with_the_weights_as_they_are(cls, name):
    data = problem()
    grid = candidates(cls, name, data)
    assert len(grid) == 30
    first = at(cls, name, grid[0], data)
    none = {LSEIPW: -1e-9, DROS: 1e12}.get(cls, 0.0)
    neutral = at(cls, name, NEUTRAL.get(name, none), data)
    # The first candidate of DROS is where the paper's grid begins, a percent off.
    close = 1e-2 if cls is DROS else 1e-3
    assert first.value == pytest.approx(neutral.value, rel=close)
    last = at(cls, name, grid[-1], data)
    assert last.standard_error < 0.7 * first.standard_error


@pytest.mark.parametrize("cls", [IPW, IPWS])
def test_limits_go_from_the_largest_weight_to_a_quantile_of_the_positive_ones(cls):
    world = tiny.small().but(
        pi0=np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]),
        pi1=np.array([[0.2, 0.8, 0.0], [0.0, 0.5, 0.5]]),
    )
    data = world.sample(300, np.random.default_rng(0))
    weight = data.target_policy.probability(data.context, data.action) / data.propensity
    assert (weight == 0).any()
    grid = candidates(cls, "clip", data)
    positive = weight[weight > 0]
    assert grid[0] == pytest.approx(positive.max())
    assert grid[-1] == pytest.approx(np.quantile(positive, 0.05))
    assert grid[-1] < 1


@EVERY
def test_the_mse_rule_minimizes_squared_error_and_squared_difference(cls, name):
    data = problem()
    chosen = at(cls, name, "mse", data)
    grid = candidates(cls, name, data)
    outcomes = [at(cls, name, value, data) for value in grid]
    whole = at(cls, name, 1e12, data) if cls is DROS else outcomes[0]
    risk = [e.standard_error**2 + (e.value - whole.value) ** 2 for e in outcomes]
    best = int(np.argmin(risk))
    assert chosen.value == pytest.approx(outcomes[best].value, rel=1e-12)
    assert chosen.diagnostics[name.rstrip("_")] == pytest.approx(grid[best], rel=1e-12)


@EVERY
def test_the_slope_rule_keeps_candidates_while_intervals_agree(cls, name):
    data = problem()
    chosen = at(cls, name, "slope", data)
    grid = candidates(cls, name, data)
    outcomes = [at(cls, name, value, data) for value in grid]
    ladder = sorted(outcomes, key=lambda e: -e.standard_error)
    kept = [ladder[0]]
    for one in ladder[1:]:
        width = 1.959963984540054
        if not all(
            abs(one.value - other.value)
            <= width * (one.standard_error + (6**0.5 - 1) * other.standard_error)
            for other in kept
        ):
            break
        kept.append(one)
    assert chosen.value == pytest.approx(kept[-1].value, rel=1e-12)


@EVERY
def test_cross_validation_chooses_from_the_grid_by_its_own_stream(cls, name):
    data = problem()
    grid = candidates(cls, name, data)
    one, same, other = (
        tiny.run(made(cls, name, "ocv"), data, seed=seed).diagnostics[name.rstrip("_")]
        for seed in (0, 0, 1)
    )
    assert one == same
    assert min(abs(grid - one)) <= 1e-12 * abs(one)
    assert min(abs(grid - other)) <= 1e-12 * abs(other)


@EVERY
@pytest.mark.parametrize("rule", ["mse", "slope", "ocv"])
def test_one_row_and_one_unit_take_the_first_candidate(cls, name, rule):
    data = problem(n=2)
    single = replace(data, unit=np.zeros(2, dtype=int), target_unit=np.ones(2, dtype=int))
    for one in (problem(n=1), single):
        estimate = at(cls, name, rule, one)
        assert np.isfinite(estimate.value)
        assert estimate.standard_error is None


@EVERY
@pytest.mark.parametrize("rule", ["mse", "slope", "ocv"])
def test_rules_survive_equal_policies_and_weights_of_zero(cls, name, rule):
    world = tiny.small()
    same = world.but(pi1=world.pi0).sample(30, np.random.default_rng(1))
    assert np.isfinite(at(cls, name, rule, same).value)
    apart = world.but(
        pi0=np.array([[0.5, 0.5, 0.0]] * 2), pi1=np.array([[0.0, 0.0, 1.0]] * 2)
    ).sample(30, np.random.default_rng(2))
    if cls is not IPWS:
        assert np.isfinite(at(cls, name, rule, apart).value)


# --- the rules themselves


def test_the_least_mse_weighs_spread_against_bias():
    error, bias = np.array([2.0, 1.0, 0.5, 0.1]), np.array([0.0, 0.5, 1.5, 3.0])
    assert least_mse(error, bias) == 1
    assert least_mse(error, -bias) == 1
    assert least_mse(error, 0 * bias) == 3
    assert least_mse(np.ones(3), np.zeros(3)) == 0


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]])
def test_slope_walks_from_wide_to_narrow_whatever_the_order_given(order):
    # The bias grows from 0 to 5; the third interval is the last that agrees with the first.
    estimate, width = np.array([0.0, 0.3, 0.8, 5.0]), np.array([2.0, 1.0, 0.5, 0.2])
    chosen = slope(estimate[order], width[order])
    assert order[chosen] == 2


def test_slope_in_the_wrong_direction_would_return_the_narrowest():
    """The ladder begins with the widest interval; begun at the narrow end it never learns."""
    estimate, width = np.array([5.0, 0.0]), np.array([0.1, 1.0])
    assert slope(estimate, width) == 1


def test_slope_stops_at_the_first_that_does_not_agree():
    estimate, width = np.array([0.0, 9.0, 0.0]), np.array([1.0, 0.9, 0.1])
    assert slope(estimate, width) == 0


def test_slope_compares_with_every_kept_one_and_not_the_last_alone():
    # Each step agrees with the one before; the third is too far from the first.
    factor = 6**0.5 - 1
    estimate = np.array([0.0, 1.5, 2.6])
    width = np.array([1.0, 0.9, 0.1])
    assert abs(estimate[2] - estimate[1]) <= width[2] + factor * width[1]
    assert abs(estimate[2] - estimate[0]) > width[2] + factor * width[0]
    assert slope(estimate, width) == 1


def test_an_infinite_width_is_wider_than_all_and_agrees_with_all():
    estimate, width = np.array([0.0, 9.0, 1.0, 5.0]), np.array([0.1, np.inf, 2.0, np.inf])
    assert slope(estimate, width) == 0
    assert slope(estimate, np.array([np.inf, np.inf, np.inf, 0.1])) == 3
    assert slope(estimate, np.full(4, np.inf)) == 0


def test_equal_candidates_keep_their_order():
    assert slope(np.zeros(3), np.zeros(3)) == 2
    assert slope(np.array([0.0, 1.0]), np.zeros(2)) == 0


@given(
    st.lists(
        st.tuples(st.floats(-5, 5), st.floats(0, 3)),
        min_size=1,
        max_size=8,
        unique_by=lambda p: p[1],
    )
)
def test_what_slope_returns_agrees_with_all_wider_ones(pairs):
    estimate, width = (np.array(part) for part in zip(*pairs, strict=True))
    chosen = slope(estimate, width)
    factor = 6**0.5 - 1
    wider = width > width[chosen]
    gap = np.abs(estimate[wider] - estimate[chosen])
    assert (gap <= width[chosen] + factor * width[wider] + 1e-12).all()


def test_cross_validation_is_its_formula():
    """Means of two columns as candidates; the splits drawn again from the same stream."""
    rng = np.random.default_rng(3)
    n = 60
    columns = np.stack([rng.normal(1.0, 3.0, n), rng.normal(0.8, 0.5, n)])
    error = columns.std(axis=1, ddof=1) / np.sqrt(n)
    seen: list[int] = []

    def estimate(k: int, rows: np.ndarray) -> float:
        seen.append(len(rows))
        return float(columns[k, rows].mean())

    given = estimate, columns[0], (error, float(error[0])), np.arange(n)
    found = cross_validate(*given, np.random.default_rng(4))
    stream = np.random.default_rng(4)
    losses = np.empty((2, SPLITS))
    for split in range(SPLITS):
        order = np.argsort(stream.permutation(n))
        for k in range(2):
            size = round(n * error[k] ** 2 / (error[k] ** 2 + error[0] ** 2))
            train, rest = order[:size], order[size:]
            losses[k, split] = (columns[k, train].mean() - columns[0, rest].mean()) ** 2
    risk = losses.mean(axis=1) + losses.std(axis=1, ddof=1) / SPLITS**0.5
    np.testing.assert_allclose(validation_risk(*given, np.random.default_rng(4)), risk)
    assert found == int(np.argmin(risk))
    # Candidates as noisy as the validation get half of the rows, quiet ones few.
    assert set(seen[::2]) == {30}
    assert set(seen[1::2]) == {2}


def test_the_one_standard_error_is_added_to_the_loss():
    """A candidate whose loss is smaller in the mean but wildly uneven loses."""
    n = 40
    rng = np.random.default_rng(5)
    wild = iter([0.0] * (SPLITS - 1) + [2.5])
    steady = 0.8
    found = cross_validate(
        lambda k, rows: next(wild) if k == 0 else steady,
        1e-6 * rng.normal(size=n),
        (np.ones(2), 1.0),
        np.arange(n),
        np.random.default_rng(6),
    )
    mean = 2.5**2 / SPLITS
    assert mean < steady**2 < mean + (2.5**2 / SPLITS**0.5) / SPLITS**0.5
    assert found == 1


def test_cross_validation_never_splits_a_unit():
    unit = np.repeat(np.arange(12), 5)
    sizes: list[int] = []

    def estimate(k: int, rows: np.ndarray) -> float:
        counts = np.bincount(unit[rows], minlength=12)
        assert set(counts) <= {0, 5}
        sizes.append(len(rows))
        return 0.0

    error = np.array([1.0, 0.0, 1e9])
    cross_validate(estimate, np.ones(60), (error, 1.0), unit, np.random.default_rng(7))
    # One unit at least on either side, however little or much a candidate varies.
    assert sizes[:3] == [30, 5, 55]


# --- what they are for


def errors(cls: Any, settings: list[dict[str, Any]]) -> np.ndarray:
    """RMSE over replicates of `saito-toy` with many actions, by parameters."""
    world = SaitoToy(n_actions=100, n_samples=300)
    squares = np.zeros(len(settings))
    for replicate in range(30):
        seed = DataSeed("tuning", 0, replicate)
        data, truth = world.sample(
            world_rng=seed.world(), logged_rng=seed.logged(), target_rng=seed.target()
        )
        for k, one in enumerate(settings):
            estimator = cls(**one)
            view = View(data, estimator.access, seed=seed, fit_cache=FitCache())
            estimator.fit(view, rng=np.random.default_rng(replicate), device="cpu")
            squares[k] += (estimator.estimate(view).value - truth.expected) ** 2
    return np.sqrt(squares / 30)


@pytest.mark.parametrize("rule", ["mse", "slope", "ocv"])
def test_tuned_shrinkage_is_no_worse_than_half_again_the_best_end(rule):
    none, full, tuned = errors(
        SGIPW,
        [
            {"lambda_": 0.0, "normalize": True},
            {"lambda_": 1.0, "normalize": True},
            {"lambda_": rule, "normalize": True},
        ],
    )
    assert tuned < max(none, full)
    assert tuned < 1.5 * min(none, full)


# --- a ladder that the user gives


@EVERY
def test_slope_walks_a_given_ladder_in_its_order(cls, name):
    data = problem()
    top = NEUTRAL.get(name, 0.0)
    values = (top, 0.3, 0.7) if name in ("alpha", "lambda_", "gamma") else (top, 3.0, 1.0)
    if cls is LSEIPW:
        values = (-1e-6, -0.5, -2.0)
    if cls is DROS:
        values = (1e9, 3.0, 0.5)
    kept = []
    for value in values:
        one = at(cls, name, value, data)
        width = 1.959963984540054
        if not all(
            abs(one.value - other.value)
            <= width * (one.standard_error + (6**0.5 - 1) * other.standard_error)
            for other in kept
        ):
            break
        kept.append(one)
    chosen = tiny.run(made(cls, name, "slope").set_params(ladder=values), data)
    assert chosen.value == pytest.approx(kept[-1].value, rel=1e-12)
    # A single value is chosen by every rule.
    for rule in ("mse", "slope", "ocv"):
        only = tiny.run(made(cls, name, rule).set_params(ladder=values[1:2]), data)
        assert only.value == pytest.approx(at(cls, name, values[1], data).value, rel=1e-12)


@pytest.mark.parametrize("cls", [Switch, CAB])
def test_blended_estimators_take_a_ladder(cls):
    data = problem()
    model = {"regressor": "linear", "cross_fit": 2}
    only = tiny.run(cls(threshold="slope", ladder=(2.0,), **model), data)
    assert only.value == tiny.run(cls(threshold=2.0, **model), data).value


def test_a_ladder_without_a_rule_is_refused():
    with pytest.raises(ParameterError, match=r"ladder is for clip=mse\|slope\|ocv"):
        tiny.run(IPW(clip=2.0, ladder=(1.0,)), problem())
