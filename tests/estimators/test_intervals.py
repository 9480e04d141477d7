"""Intervals that estimators make when asked, and what they are made from."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from ope_bench import (
    STANDARD_ERROR_WITHHELD,
    AccessError,
    DataError,
    UnavailableError,
    betting_interval,
    bootstrap_interval,
    empirical_likelihood_interval,
    evaluate,
    logarithmic_interval,
)
from ope_bench.contracts.view import Access
from ope_bench.statistics.weight_checks import unit_resamples
from ope_estimators.actions.direct.dm import DM
from ope_estimators.actions.doubly_robust.dr import DR
from ope_estimators.actions.doubly_robust.dr_os import DROS
from ope_estimators.actions.doubly_robust.mrdr import MRDR
from ope_estimators.actions.doubly_robust.sndr import SNDR
from ope_estimators.actions.weighting.el_ipw import ELIPW
from ope_estimators.actions.weighting.ipw import IPW
from ope_estimators.actions.weighting.ipw_star import IPWStar
from ope_estimators.actions.weighting.ipws import IPWS
from ope_estimators.actions.weighting.ipws_star import IPWSStar
from ope_estimators.actions.weighting.ix_ipw import IXIPW
from ope_estimators.actions.weighting.ls_ipw import LSIPW
from ope_estimators.actions.weighting.lse_ipw import LSEIPW
from ope_estimators.actions.weighting.sg_ipw import SGIPW
from ope_estimators.embedded.known.eipw import EIPW
from ope_estimators.embedded.known.eipws import EIPWS
from ope_estimators.embedded.learned.edr import EDR
from ope_estimators.structure.mdr import MDR
from support import tiny_worlds as tiny

WORLD = tiny.small()
RANGE = (-0.5, 3.5)
WEIGHTED = Access.PROPENSITY | Access.TARGET_POLICY


def _problem(seed: int = 0, n: int = 80, **changes):
    return replace(WORLD.sample(n, np.random.default_rng(seed)), **changes)


def _weights(problem):
    context = problem.context[:, 0].astype(int)
    return WORLD.weights[context, problem.action]


@pytest.mark.parametrize(
    ("estimator", "guaranteed"),
    [
        (IPW, betting_interval),
        (IPWS, betting_interval),
        (SGIPW, betting_interval),
        (ELIPW, betting_interval),
        (LSIPW, logarithmic_interval),
    ],
)
def test_the_interval_is_that_of_weights_rewards_range_and_units(estimator, guaranteed):
    unit = np.repeat(np.arange(40), 2)
    problem = _problem(reward_range=RANGE, unit=unit, target_unit=unit)
    weight, reward = _weights(problem), problem.reward
    asked = {"interval": "guaranteed", "level": 0.7}
    of_units = {"reward_range": RANGE, "level": 0.7, "unit": unit, "largest_unit": 2}
    mirrored = estimator(**asked, largest_unit=2, upper_end="mirrored")
    found = tiny.run(mirrored, problem)
    assert found.interval == guaranteed(weight, reward, **of_units)
    bets = guaranteed is betting_interval
    more = {}
    if bets:
        more["largest_weight"] = WORLD.weights.max(axis=1)[problem.context[:, 0].astype(int)]
        mixed = tiny.run(estimator(**asked, largest_unit=2), problem)
        assert mixed.interval == guaranteed(weight, reward, **of_units, **more)
        assert mixed.interval.high != found.interval.high
        unknown = replace(problem, logging_policy=None)
        assert tiny.run(estimator(**asked, largest_unit=2), unknown).interval == found.interval
    lacking = tiny.run(estimator(**asked), problem)
    assert (lacking.interval, lacking.standard_error) == (None, None)
    assert "largest_unit" in lacking.diagnostics[STANDARD_ERROR_WITHHELD]
    assert lacking.value == found.value
    alone = tiny.run(estimator(**asked), _problem(reward_range=RANGE)).interval
    assert alone == guaranteed(weight, reward, reward_range=RANGE, level=0.7, **more)
    likely = tiny.run(estimator(interval="empirical-likelihood", level=0.8), problem).interval
    assert likely == empirical_likelihood_interval(
        weight,
        reward,
        reward_range=RANGE,
        weight_range=(float(WORLD.weights.min()), float(WORLD.weights.max())),
        unit=unit,
        level=0.8,
    )
    assert tiny.run(estimator(), problem).interval is None


@pytest.mark.parametrize("kind", ["empirical-likelihood", "guaranteed"])
def test_clipping_moves_the_estimate_and_not_the_interval(kind):
    problem = _problem(reward_range=RANGE)
    plain, clipped = (tiny.run(IPW(clip=clip, interval=kind), problem) for clip in (None, 0.5))
    assert plain.value != clipped.value
    assert plain.interval == clipped.interval


@pytest.mark.parametrize("kind", ["empirical-likelihood", "guaranteed"])
def test_a_range_that_is_given_counts_and_rewards_outside_it_are_named(kind):
    problem = _problem()
    wide = tiny.run(IPW(interval=kind, reward_range=(-5, 9)), problem).interval
    declared = replace(problem, reward_range=(-5, 9))
    assert wide == tiny.run(IPW(interval=kind), declared).interval
    narrow = tiny.run(IPW(interval=kind, reward_range=RANGE), declared).interval
    assert narrow is not None
    assert wide is not None
    assert narrow.width < wide.width
    row = int(np.argmax(problem.reward > 2))
    with pytest.raises(DataError, match=rf"reward\[{row}\] is .*, outside the declared"):
        tiny.run(IPW(interval=kind, reward_range=(-0.5, 2.0)), problem)


def test_no_range_is_guessed_for_a_guarantee():
    with pytest.raises(UnavailableError, match=r"give reward_range=\[\[LOW,HIGH\]\]"):
        tiny.run(IPW(interval="guaranteed"), _problem())
    problem = _problem()
    seen = (float(problem.reward.min()), float(problem.reward.max()))
    found = tiny.run(IPW(interval="empirical-likelihood"), problem).interval
    given = tiny.run(IPW(interval="empirical-likelihood", reward_range=seen), problem).interval
    assert found == given


def test_the_weight_range_is_that_of_the_policies_and_needs_their_access():
    problem = _problem(n=500)
    view = tiny.view_of(problem, WEIGHTED)
    assert view.weight_range() == (WORLD.weights.min(), WORLD.weights.max())
    unknown = tiny.view_of(replace(problem, logging_policy=None), WEIGHTED)
    assert unknown.weight_range() == (0.0, math.inf)
    for access in (Access.SAMPLES, Access.PROPENSITY, Access.TARGET_POLICY):
        with pytest.raises(AccessError):
            tiny.view_of(problem, access).weight_range()
    ((resample, _),) = unit_resamples(view, 1)
    assert resample.weight_range() == view.weight_range()


@pytest.mark.parametrize("shared", [False, True])
def test_a_resample_holds_whole_units_of_both_samples(shared):
    rng = np.random.default_rng(0)
    unit = rng.permutation(np.repeat(np.arange(20), 4))
    target = unit if shared else unit + 12
    problem = replace(WORLD.sample(80, rng, shared=shared), unit=unit, target_unit=target)
    view = tiny.view_of(problem, WEIGHTED)
    for drawn, _ in unit_resamples(view, 5):
        times = np.bincount(drawn.fold_unit, minlength=32) / 4
        assert (times == np.round(times)).all()
        both = range(12, 20) if not shared else range(20)
        target_times = np.bincount(drawn.target_fold_unit, minlength=32) / 4
        assert all(times[number] == target_times[number] for number in both)
        assert max(times) > 1
        assert (np.unique(drawn.unit, return_counts=True)[1] == 4).all()
        known = {*zip(drawn.unit, drawn.fold_unit, strict=True)}
        known |= {*zip(drawn.target_unit, drawn.target_fold_unit, strict=True)}
        # As many draws as units; each is of one unit, in both samples.
        assert len({number for number, _ in known}) == len(known) == (20 if shared else 32)
        for number in np.flatnonzero(times):
            rows = drawn.fold_unit == number
            expected = np.sort(np.tile(problem.reward[unit == number], int(times[number])))
            assert np.array_equal(np.sort(drawn.reward[rows]), expected)
        if shared:
            assert np.array_equal(drawn.context, drawn.target_context)
        weight = drawn.target_policy.probability(drawn.context, drawn.action) / drawn.propensity
        assert np.allclose(weight, WORLD.weights[drawn.context[:, 0].astype(int), drawn.action])


def test_samples_without_common_units_are_resampled_each_for_itself():
    view = tiny.view_of(_problem())
    for drawn, _ in unit_resamples(view, 3):
        assert (drawn.n, drawn.m) == (view.n, view.m)
        assert len(np.unique(drawn.fold_unit)) < view.n
        assert len({*drawn.unit, *drawn.target_unit}) == view.n + view.m


def test_copies_of_a_unit_count_one_by_one_in_standard_errors():
    problem = _problem(n=300)
    for estimator in (IPW(), IPWS()):
        known = tiny.run(estimator, problem).standard_error
        drawn = unit_resamples(tiny.view_of(problem, WEIGHTED), 30)
        errors = [estimator.estimate(view).standard_error for view, _ in drawn]
        assert np.mean(errors) == pytest.approx(known, rel=0.05)


@pytest.mark.parametrize("estimator", [SGIPW(), IPW(clip="root-n"), IXIPW(), LSIPW(), LSEIPW()])
def test_resamples_of_equal_rows_give_the_parameter_of_the_log(estimator):
    rows = np.zeros(40, int), np.full(40, 2), np.zeros(40, int)
    problem = WORLD.problem(*rows, np.ones(40), rows)
    known = tiny.run(estimator, problem)
    for drawn, rng in unit_resamples(tiny.view_of(problem, WEIGHTED), 3):
        found = clone(estimator).fit(drawn, rng=rng, device="cpu").estimate(drawn)
        assert found.diagnostics == known.diagnostics


def test_the_bootstrap_interval_of_equal_rows_is_their_estimate():
    rows = np.zeros(40, int), np.full(40, 2), np.zeros(40, int)
    problem = WORLD.problem(*rows, np.ones(40), rows)
    found = tiny.run(SGIPW(interval="bootstrap"), problem)
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((found.value, found.value))


@pytest.mark.parametrize("kind", ["bootstrap", "empirical-likelihood"])
def test_a_single_unit_has_no_interval_of_the_logged_spread(kind):
    one = np.zeros(80, int)
    for problem in (_problem(n=1), _problem(unit=one, target_unit=one)):
        declared = replace(problem, reward_range=RANGE)
        assert tiny.run(IPW(interval=kind), declared).interval is None
        sure = IPW(interval="guaranteed", largest_unit=80)
        assert tiny.run(sure, declared).interval is not None
    assert bootstrap_interval(IPW(), tiny.view_of(problem, WEIGHTED)) is None


@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_rewards_that_are_all_equal_tell_no_range(reward):
    asked = IPW(interval="empirical-likelihood")
    problem = _problem(reward=np.full(80, reward))
    assert tiny.run(asked, problem).interval is None
    declared = tiny.run(asked, replace(problem, reward_range=(0.0, 1.0))).interval
    assert declared is not None
    assert declared.width > 0


def test_resamples_are_the_same_for_all_estimators_and_their_fits_are_new():
    problem = _problem()
    first, second = (tiny.view_of(problem, access) for access in (WEIGHTED, Access.SAMPLES))
    pairs = zip(unit_resamples(first, 3), unit_resamples(second, 3), strict=True)
    for (one, _), (other, _) in pairs:
        assert np.array_equal(one.reward, other.reward)
        assert one.fitted_keys() == frozenset()
    fit = DM("ridge")
    fit.fit(tiny.view_of(problem, fit.access), rng=np.random.default_rng(0), device="cpu")
    view = tiny.view_of(problem, fit.access)
    fit.fit(view, rng=np.random.default_rng(0), device="cpu")
    before = view.fitted_keys()
    models = []
    for drawn, rng in unit_resamples(view, 2):
        again = DM("ridge").fit(drawn, rng=rng, device="cpu")
        models.append(again.estimate(drawn).value)
    assert models[0] != models[1]
    assert view.fitted_keys() == before


def test_a_bootstrap_interval_has_the_quantiles_of_the_resamples():
    problem = _problem(n=300)
    view = tiny.view_of(problem, WEIGHTED)
    values = []
    for drawn, _ in unit_resamples(view, 200):
        rows = drawn.context[:, 0].astype(int), drawn.action
        values.append(float((WORLD.weights[rows] * drawn.reward).mean()))
    low, high = np.quantile(values, [0.05, 0.95])
    found = tiny.run(IPW(interval="bootstrap", level=0.9), problem)
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high))
    assert (found.interval.level, found.interval.kind) == (0.9, "bootstrap")
    assert found.standard_error is not None
    # About the normal interval on a smooth world of this size.
    assert found.interval.width == pytest.approx(2 * 1.645 * found.standard_error, rel=0.2)


@pytest.mark.parametrize(
    "estimator",
    [
        IPW(clip=1.5),
        IPWS(),
        IPW(clip="root-n", normalize=True),
        SGIPW(normalize=True),
        LSIPW(),
        ELIPW(divergence="likelihood"),
    ],
)
def test_resampled_weights_give_what_resampled_logs_give(estimator):
    unit = np.repeat(np.arange(30), 2)
    problem = _problem(n=60, unit=unit, target_unit=unit)
    general = bootstrap_interval(estimator, tiny.view_of(problem, WEIGHTED), level=0.8)
    assert general is not None
    estimator.set_params(interval="bootstrap", level=0.8)
    found = tiny.run(estimator, problem).interval
    assert found is not None
    assert (found.low, found.high) == pytest.approx((general.low, general.high), rel=1e-12)


def test_a_bootstrap_whose_resamples_fail_gives_no_interval():
    problem = WORLD.sample(6, np.random.default_rng(0))
    silent = replace(WORLD, pi1=np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]))
    one = silent.problem(
        np.zeros(6, int), np.array([2, 0, 0, 0, 0, 0]), np.zeros(6, int), problem.reward,
        (np.zeros(1, int), np.full(1, 2), np.zeros(1, int)),
    )  # fmt: skip
    view = tiny.view_of(one, WEIGHTED)
    # The row with weight is missing from (5/6)^6 of the resamples.
    assert bootstrap_interval(IPWS(), view, resamples=50) is None


@pytest.mark.parametrize(
    "estimator",
    [
        DR("ridge", cross_fit=2),
        MRDR("ridge", cross_fit=2),
        SNDR("ridge", cross_fit=2),
        DROS(regressor="ridge", cross_fit=2),
        EIPW(),
        EIPWS(clip=3.0),
        MDR(regressor="ridge", cross_fit=2),
        IPWStar(),
        IPWSStar(),
        EDR(classifier="logistic", regressor="ridge", cross_fit=2),
    ],
)
def test_estimators_with_fits_offer_the_bootstrap_around_their_estimate(estimator):
    problem = _problem(n=200)
    view = tiny.view_of(problem, estimator.access)
    plain = tiny.run(estimator, problem)
    assert plain.interval is None
    asked = clone(estimator).set_params(interval="bootstrap", level=0.6, resamples=12)
    found = tiny.run(asked, problem)
    assert (found.value, found.standard_error) == (plain.value, plain.standard_error)
    assert found.diagnostics == plain.diagnostics
    if isinstance(estimator, EDR) and plain.standard_error is None:
        assert found.interval is None
    else:
        # Every fit is made anew on the resamples that all estimators share.
        assert found.interval == bootstrap_interval(estimator, view, level=0.6, resamples=12)
        assert found.interval is not None
        assert found.interval.width > 0


def test_the_number_of_resamples_is_a_parameter_and_the_first_ones_stay():
    problem = _problem(n=100)
    view = tiny.view_of(problem, WEIGHTED)
    few, more = (
        [part.reward.sum() for part, _ in unit_resamples(view, count)] for count in (5, 9)
    )
    assert more[:5] == few
    widths = {
        tiny.run(IPW(interval="bootstrap", resamples=count), problem).interval
        for count in (20, 200)
    }
    assert len(widths) == 2
    assert tiny.run(IPW(interval="bootstrap"), problem).interval in widths


def test_logs_without_a_target_sample_are_resampled():
    problem = replace(
        _problem(n=40), target_context=None, target_action=None, target_embedding=None
    )
    found = tiny.run(IPWS(interval="bootstrap"), problem).interval
    assert found is not None
    assert found.width > 0


def test_a_trial_without_a_range_is_unavailable_and_says_what_to_give():
    (found,) = evaluate("ipw[interval=guaranteed]", "linear-bandit[n_samples=50]", replicates=1)
    assert found.status == "unavailable"
    assert "reward_range" in (found.error_message or "")
    (bounded,) = evaluate(
        "ipw[interval=guaranteed]", "linear-bandit[n_samples=50,reward=logistic]", replicates=1
    )
    assert bounded.interval is not None
    assert bounded.interval.kind == "guaranteed"
