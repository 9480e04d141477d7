"""Choosing among estimators: identities, failures, what candidates see, and the rules by hand."""

from __future__ import annotations

import importlib.util
import itertools
import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from ope_bench import (
    Access,
    AccessError,
    Estimate,
    Estimator,
    NestedEstimator,
    PositivityViolation,
    UnavailableError,
    View,
    params,
)
from ope_bench.base.errors import ParameterError
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import FitCache
from ope_bench.plugins.spec import resolve
from ope_estimators.selection.anchored import anchored_score
from ope_estimators.selection.candidates import Candidate
from ope_estimators.selection.select import Select
from ope_estimators.selection.spread import Spread, covariance, resample
from ope_estimators.tuning.slope import NORMAL_QUANTILE
from support import tiny_worlds as tiny

RULES = ("anchored", "slope", "ocv", "ocv-terms", "first")
SEED = DataSeed("tiny", 0, 0)


def a_problem(n: int = 60, seed: int = 0, **facts: Any) -> Any:
    return tiny.small().sample(n, np.random.default_rng(seed), **facts)


def answer(estimator: Estimator, problem: Any, **facts: Any) -> Estimate:
    view = View(
        problem,
        estimator.access,
        seed=SEED,
        fit_cache=FitCache(),
        optional=estimator.optional_access,
        **facts,
    )
    rng = SEED.estimator("select")
    return estimator.fit(view, rng=rng, device="cpu").estimate(view)


def alone(text: str, problem: Any) -> Estimate:
    """The estimate in a trial of its own."""
    nested = NestedEstimator.of(text)
    estimator = nested.estimator
    view = View(problem, estimator.access, seed=SEED, fit_cache=FitCache())
    estimator.fit(view, rng=SEED.estimator(nested.id), device="cpu")
    return estimator.estimate(view)


@params
class Constant(Estimator):
    """A value, with terms or without."""

    value: float = 1.0
    with_terms: bool = False

    def estimate(self, view: View) -> Estimate:
        terms = np.full(view.n, self.value) if self.with_terms else None
        return Estimate(self.value, terms=terms)


class Raising(Estimator):
    """It has a mistake."""

    def estimate(self, view: View) -> Estimate:
        msg = "a mistake"
        raise ValueError(msg)


class Infinite(Estimator):
    """It gives no finite value."""

    def estimate(self, view: View) -> Estimate:
        return Estimate(math.inf)


class Unsupported(Estimator):
    """It finds no support."""

    def estimate(self, view: View) -> Estimate:
        msg = "nothing in common"
        raise PositivityViolation(msg, unsupported_mass=0.5, fallback=3.0)


class OutOfMemory(Estimator):
    """It needs too much."""

    def estimate(self, view: View) -> Estimate:
        raise MemoryError


class Peeking(Estimator):
    """It reads the propensities without declaring them, and hides that."""

    def estimate(self, view: View) -> Estimate:
        try:
            return Estimate(float(view.propensity.mean()))
        except AccessError:
            return Estimate(0.0)


class Spy(Estimator):
    """It notes what it can reach of a view."""

    access = Access.PROPENSITY
    seen: ClassVar[dict[str, Any]] = {}  # read by the test

    def estimate(self, view: View) -> Estimate:
        guarded = ("propensity", "logging_policy", "target_policy", "embedding_distribution")
        reached = [name for name in guarded if view._granted.get(name) is not None]
        texts = " ".join(map(str, vars(view)))
        type(self).seen = {"access": view.access, "reached": reached, "names": texts}
        return Estimate(float(view.propensity.mean()))


class Drawing(Estimator):
    """It uses its random stream, and has no terms."""

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Drawing:
        self.draw_ = float(rng.normal())
        return self

    def estimate(self, view: View) -> Estimate:
        return Estimate(self.draw_ + float(view.reward.mean()))


@pytest.mark.parametrize("by", RULES)
@pytest.mark.parametrize(
    "text",
    ["ipws", "dr[cross_fit=2,regressor=ridge]", "sg-ipw[lambda_=ocv]", "dm[regressor=ridge]"],
)
def test_one_candidate_gives_its_own_estimate_bit_for_bit(by, text):
    problem = a_problem()
    chosen, own = answer(Select([text], by=by), problem), alone(text, problem)
    assert chosen.value == own.value
    assert chosen.standard_error == own.standard_error
    assert own.weights is None or np.array_equal(chosen.weights, own.weights)
    assert chosen.diagnostics["chosen"] == text


@pytest.mark.parametrize("by", RULES)
def test_the_estimate_is_that_of_the_chosen_candidate_alone(by):
    problem = a_problem()
    candidates = ["ipw", "ipws", "sg-ipw[lambda_=ocv]", "logging-average"]
    found = answer(Select(list(candidates), by=by), problem)
    name = str(found.diagnostics["chosen"])
    assert found.value == alone(name, problem).value
    assert found.diagnostics[f"value[{name}]"] == found.value


def test_first_takes_the_first_that_works_and_runs_no_later_one():
    found = answer(Select([Raising(), "ipws", OutOfMemory()], by="first"), a_problem())
    assert found.diagnostics["chosen"] == "ipws"
    assert found.diagnostics["failure[raising]"] == "error: ValueError: a mistake"


@pytest.mark.parametrize("by", RULES)
def test_a_failure_costs_the_selection_that_candidate_only(by):
    failing = [Raising(), Infinite(), Unsupported(), Peeking()]
    found = answer(Select([*failing, "ipws"], by=by), a_problem())
    assert found.value == alone("ipws", a_problem()).value
    reasons = [str(found.diagnostics[f"failure[{name}]"]) for name in
               ("raising", "infinite", "unsupported", "peeking")]  # fmt: skip
    starts = ("error: ValueError", "nonfinite", "positivity", "error: AccessError")
    assert all(text.startswith(start) for text, start in zip(reasons, starts, strict=True))


@pytest.mark.parametrize("by", RULES)
def test_logs_without_a_target_sample_are_enough_for_candidates_that_need_none(by):
    names = ("target_context", "target_action", "target_embedding")
    problem = a_problem()
    alone = replace(problem, **dict.fromkeys(names))
    with_terms = ["ipws", "dr[regressor=ridge]", "sg-ipw[normalize=true]"]
    assert answer(Select(with_terms, by=by), alone).value == pytest.approx(
        answer(Select(with_terms, by=by), problem).value, rel=1e-12
    )
    refitted = answer(Select([*with_terms, "dm[regressor=ridge]"], by=by, n_resamples=4), alone)
    assert np.isfinite(refitted.value)
    assert not any(name.startswith("failure") for name in refitted.diagnostics)


def test_when_all_fail_the_selection_fails_as_the_gravest_of_them():
    problem = a_problem()
    with pytest.raises(PositivityViolation) as caught:
        answer(Select([Unsupported()]), problem)
    assert (caught.value.unsupported_mass, caught.value.fallback) == (0.5, 3.0)
    assert math.isnan(answer(Select([Infinite(), Unsupported()]), problem).value)
    with pytest.raises(RuntimeError, match="raising: error: ValueError: a mistake"):
        answer(Select([Unsupported(), Raising(), Infinite()]), problem)
    bare = a_problem()
    object.__setattr__(bare, "propensity", None)
    with pytest.raises(UnavailableError, match="the environment has no propensity"):
        answer(Select(["ipws"]), bare)


def test_memory_that_runs_out_is_no_failure_of_a_candidate():
    with pytest.raises(MemoryError):
        answer(Select([OutOfMemory(), "ipws"]), a_problem())


def test_a_candidate_that_lacks_data_is_left_out_and_others_are_not():
    bare = a_problem()
    object.__setattr__(bare, "propensity", None)
    found = answer(Select(["ipws", "dm[regressor=ridge]"], by="slope"), bare)
    assert found.diagnostics["chosen"] == "dm[regressor=ridge]"
    assert "no propensity" in str(found.diagnostics["failure[ipws]"])


def test_access_is_that_of_candidates_and_anchor_together():
    assert Select(["dm"], by="slope").access == Access.TARGET_POLICY
    assert Select(["edr", "logging-average"]).access == Access.SAMPLES
    both = Access.PROPENSITY | Access.TARGET_POLICY
    assert Select(["ipws", "edr"]).access == both
    assert Select(["edr"], anchor="ipws").access == both
    assert Select(["edr"], by="slope", anchor="ipws").access == Access.SAMPLES


def test_a_candidate_sees_no_more_than_it_declares():
    answer(Select([Spy(), "ipws"], by="slope", n_resamples=3), a_problem())
    # The last run was on a resample: access is the same, and no name tells of the truth.
    assert Spy.seen["access"] == Access.PROPENSITY
    assert Spy.seen["reached"] == ["propensity"]
    assert "truth" not in Spy.seen["names"]


def test_candidates_without_terms_are_computed_anew_and_the_cost_is_told():
    found = answer(Select(["ipws", Drawing()], by="slope", n_resamples=7), a_problem())
    assert found.diagnostics["reruns"] == 7
    with_terms = answer(Select(["ipws", "ipw"], by="slope"), a_problem())
    assert with_terms.diagnostics["reruns"] == 0


def candidates_of(texts: list[Any], view: View) -> list[Candidate]:
    nested = [NestedEstimator.of(text) for text in texts]
    return [Candidate(one, one.run(view)) for one in nested]


def view_of(problem: Any) -> View:
    access = Access.PROPENSITY | Access.TARGET_POLICY
    return View(problem, access, seed=SEED, fit_cache=FitCache())


def test_variances_from_terms_are_squared_standard_errors_by_unit_too():
    problem = a_problem(40)
    for unit in (None, np.arange(40) // 3):
        object.__setattr__(problem, "unit", unit)
        view = view_of(problem)
        some = candidates_of(["ipw", "ipws", "dr[regressor=ridge]", "sndr[regressor=ridge]"], view)
        spread = covariance(some, view, n_resamples=2, seed=0)
        errors = [one.estimate.standard_error for one in some]
        assert np.sqrt(spread.variance) == pytest.approx(errors, rel=1e-12)


def with_one_weighted_row() -> Any:
    """Sixty logged rows, of which one has the only action that the target policy takes."""
    world = tiny.small().but(
        pi0=np.array([[0.98, 0.02, 0.0]] * 2), pi1=np.array([[0.0, 1.0, 0.0]] * 2)
    )
    samples = (world.sample(60, np.random.default_rng(seed)) for seed in itertools.count())
    return next(one for one in samples if (one.action == 1).sum() == 1)


def test_one_weighted_unit_has_no_standard_error_that_is_self_normalized():
    problem = with_one_weighted_row()
    repeated = replace(
        problem,
        **{
            name: np.repeat(getattr(problem, name), 2, axis=0)
            for name in ("context", "action", "embedding", "reward", "propensity")
        },
        unit=np.repeat(np.arange(60), 2),
    )
    for data in (problem, repeated):
        for text in ("ipws", "ipws-star", "sndr[regressor=ridge]", "sg-ipw[normalize=true]"):
            estimate = alone(text, data)
            assert np.isfinite(estimate.value)
            assert estimate.standard_error is None
        assert alone("ipw", data).standard_error > 0


@pytest.mark.parametrize("by", ["anchored", "slope", "ocv"])
def test_an_estimate_from_one_weighted_row_does_not_win_by_a_spread_of_zero(by):
    problem = with_one_weighted_row()
    for other in ("logging-average", "dm[regressor=ridge]"):
        found = answer(Select(["ipws", other], by=by), problem).diagnostics
        assert found["chosen"] == other
        assert found["score[ipws]"] is None
    every = answer(Select(["ipws", "ipw"], by=by), problem).diagnostics
    assert every["chosen"] == "ipws"


def test_resampled_covariances_tend_to_those_of_all_resamples():
    """Four rows have 256 resamples: enumerate them."""
    view = view_of(a_problem(4, seed=3))
    means = Candidate(NestedEstimator.of(Mean()), NestedEstimator.of(Mean()).run(view))
    squares = Candidate(NestedEstimator.of("ipw"), NestedEstimator.of("ipw").run(view))
    terms = squares.estimate.terms
    values = np.array(
        [
            (view.reward[list(rows)].mean(), terms[list(rows)].mean())
            for rows in itertools.product(range(4), repeat=4)
        ]
    )
    exact = np.cov(values.T, ddof=0)
    spread = covariance([means, squares], view, n_resamples=3000, seed=1)
    assert spread.reruns == 3000
    assert spread.covariance == pytest.approx(exact, rel=0.12, abs=0.02 * np.abs(exact).max())


class Mean(Estimator):
    """The mean reward, without terms."""

    def estimate(self, view: View) -> Estimate:
        return Estimate(float(view.reward.mean()))


def test_resamples_keep_units_whole_and_shared_contexts_together():
    problem = a_problem(12, shared=True)
    object.__setattr__(problem, "unit", np.repeat([5, 9, 2, 7], 3))
    view = view_of(problem)
    logged, target, unit, target_unit = resample(view, np.random.default_rng(0))
    assert np.array_equal(logged, target)
    counts = np.bincount(logged, minlength=12).reshape(4, 3)
    assert (counts == counts[:, :1]).all()
    assert counts.sum() == 12
    drawn = view.rows(logged, target)
    assert drawn.shared_contexts
    assert np.array_equal(drawn.propensity, view.propensity[logged])
    assert np.array_equal(drawn.unit, view.unit[logged])
    assert unit.tolist() == target_unit.tolist() == np.repeat(range(4), 3).tolist()


def test_anchored_score_is_the_formula():
    values = np.array([1.0, 2.0, 4.0])
    matrix = np.array([[1.0, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.3, 2.0]])
    first = 1.0 + max(0.0, 9.0 - (1.0 + 2.0 - 0.2))
    second = 0.5 + max(0.0, 4.0 - (0.5 + 2.0 - 0.6))
    assert anchored_score(values, Spread(matrix)) == pytest.approx([first, second])
    near = np.array([4.1, 3.9, 4.0])
    # Differences within their noise are no bias.
    assert anchored_score(near, Spread(matrix)) == pytest.approx([1.0, 0.5])


@pytest.mark.parametrize("anchor", [Raising(), Mean()])
def test_an_anchor_that_fails_or_has_no_terms_leaves_the_first_candidate(anchor):
    found = answer(Select(["ipw", "ipws"], anchor=anchor), a_problem()).diagnostics
    assert found["anchor"] is None
    assert found["chosen"] == "ipw"
    assert any(name.startswith("anchor_failure") for name in found)


def test_anchored_leaves_a_biased_candidate_however_narrow():
    found = answer(Select([Constant(50.0, True), "ipws"], anchor="ipw"), a_problem())
    assert found.diagnostics["chosen"] == "ipws"


@pytest.mark.parametrize(("away", "chosen"), [(0.5, "ipws"), (2.0, "constant")])
def test_slope_walks_the_given_order(away, chosen):
    """The narrow candidate is given first."""
    problem = a_problem()
    wide = answer(NestedEstimator.of("ipws").estimator, problem)
    narrow = Constant(wide.value + away * NORMAL_QUANTILE * wide.standard_error, True)
    found = answer(Select([narrow, "ipws"], by="slope"), problem)
    assert found.diagnostics["chosen"].partition("[")[0] == chosen


@pytest.mark.parametrize("by", ["minimax", "slope-widths", "opera"])
def test_rules_that_lost_are_gone(by):
    with pytest.raises(ParameterError, match="by"):
        resolve("estimator", "select", {"by": by})


def test_ocv_prefers_what_predicts_the_unbiased_mean():
    found = answer(Select([Constant(50.0, True), "ipws"], by="ocv", anchor="ipw"), a_problem(200))
    assert found.diagnostics["chosen"] == "ipws"
    assert found.diagnostics["anchor"] == "ipw"


def scores(found):
    return {k: v for k, v in found.diagnostics.items() if k.startswith("score[")}


def test_ocv_is_ocv_of_terms_where_nothing_is_fitted():
    terms, refitted = (
        answer(Select(["ipw", "logging-average"], by=by, anchor="ipw"), a_problem(80))
        for by in ("ocv-terms", "ocv")
    )
    assert scores(refitted) == pytest.approx(scores(terms), rel=1e-9)
    assert (terms.diagnostics["reruns"], refitted.diagnostics["reruns"] > 0) == (0, True)


def test_ocv_refits_candidates_and_the_validator_on_parts_of_the_rows():
    """Terms of a fit on all rows have seen what they are to predict."""
    model = "dr[cross_fit=1,regressor=gbm]"
    terms, refitted = (
        scores(answer(Select([model, "ipws"], by=by, anchor=model), a_problem(80)))
        for by in ("ocv-terms", "ocv")
    )
    assert terms.keys() == refitted.keys()
    assert terms != pytest.approx(refitted, rel=1e-3)


class Sizes(Constant):
    """Notes the numbers of rows that it is run on."""

    seen: ClassVar[list[int]] = []

    def estimate(self, view):
        self.seen.append(view.n)
        return super().estimate(view)


def test_both_sides_of_a_split_are_all_rows():
    Sizes.seen.clear()
    answer(Select([Sizes(1.0, True), "ipw"], by="ocv", anchor=Sizes(1.0, True)), a_problem(40))
    # Without any variance the halves are equal; beside it, `ipw` has all rows but one.
    assert Sizes.seen[0] == 40
    assert set(Sizes.seen[1:]) == {20, 1}


def test_one_unit_cannot_be_split_for_ocv_alone():
    problem = replace(a_problem(), unit=np.zeros(60, dtype=np.int64))
    found = answer(Select(["ipw", "ipws"], by="ocv", anchor="ipw"), problem)
    assert (found.diagnostics["chosen"], found.diagnostics["anchor"]) == ("ipw", None)
    other = answer(Select(["ipw", "ipws"], by="anchored", anchor="ipw"), problem)
    assert other.diagnostics["anchor"] == "ipw"


def test_only_modules_that_are_installed_are_asked_for(monkeypatch):
    candidates = Select(["ipws", "dm[regressor=ridge]", "epw[classifier=xgboost]"])
    every = {name for one in candidates.nested for name in one.requires}
    assert "xgboost" in every
    assert len(every) > 1
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "xgboost" else object()
    )
    assert set(candidates.requires) == every - {"xgboost"}


def test_without_a_working_anchor_the_first_candidate_is_chosen_and_the_reason_told():
    found = answer(Select(["ipw", "ipws"], anchor=Raising()), a_problem())
    assert found.diagnostics["chosen"] == "ipw"
    assert found.diagnostics["anchor"] is None
    assert found.diagnostics["anchor_failure[raising]"] == "error: ValueError: a mistake"
    no_terms = answer(Select(["ipw", "ipws"], anchor=Constant()), a_problem())
    assert no_terms.diagnostics["anchor_failure[constant]"] == "it has no terms"


def test_all_samples_of_two_rows_give_a_candidates_value():
    """By enumeration: whatever is drawn, the estimate is one of the candidates'."""
    world = tiny.small()
    for _, problem in itertools.islice(world.every_sample(2), 0, None, 37):
        found = answer(Select(["ipw", "logging-average"], by="slope"), problem)
        values = [alone(text, problem).value for text in ("ipw", "logging-average")]
        assert found.value in values


def test_candidates_share_fits_and_pay_for_each_once():
    problem = a_problem()
    select = Select(["dr[regressor=ridge]", "sndr[regressor=ridge]"], by="slope")
    cache = FitCache()
    view = View(problem, select.access, seed=SEED, fit_cache=cache, optional=select.access)
    select.fit(view, rng=SEED.estimator("select"), device="cpu")
    # The model, and its average over the target policy.
    assert len(cache.keys()) == 2
    # Made within this trial's own time: nothing is charged on top.
    assert view.shared_wall_seconds == 0
    again = View(problem, select.access, seed=SEED, fit_cache=cache, optional=select.access)
    select.fit(again, rng=SEED.estimator("select"), device="cpu")
    both = sum(entry.wall_seconds for entry in cache._entries.values())
    assert again.shared_wall_seconds == both
