"""Rules of `select` by worlds that are made from the view, and what those worlds see."""

from __future__ import annotations

import numpy as np
import pytest

from ope_bench import Access, NestedEnvironment, NestedEstimator, Problem, View, evaluate
from ope_bench.base.errors import UnavailableError, UsageError
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import FitCache
from ope_bench.testing.problems import problem
from ope_estimators.selection.candidates import run_candidates
from ope_estimators.selection.select import Select
from ope_estimators.selection.worlds import MAKERS, worlds_score

KNOWN = Access.PROPENSITY | Access.TARGET_POLICY
CANDIDATES = ["ipws", "dm[regressor=ridge]", "logging-average"]


def view_of(given: Problem, access: Access = KNOWN) -> View:
    return View(given, access, seed=DataSeed("x", 0, 0), fit_cache=FitCache())


@pytest.fixture(scope="module")
def given() -> Problem:
    return problem("discrete actions", seed=0, n=160)


@pytest.mark.parametrize("rule", MAKERS)
def test_scores_are_geometric_means_of_errors_on_the_worlds(given, rule):
    view = view_of(given)
    outcomes = run_candidates([NestedEstimator.of(one) for one in CANDIDATES], view, "cpu")
    score, runs = worlds_score(outcomes.working, view, rule, 2, "cpu")
    logs = []
    for selector in MAKERS[rule]:
        for world in NestedEnvironment.all_of(selector, view):
            squares = np.zeros(3)
            for replicate in range(2):
                made, value = world.sample(replicate)
                estimates = [NestedEstimator.of(one).run(made).value for one in CANDIDATES]
                squares += np.square(np.array(estimates) - value)
            logs.append(np.log(np.sqrt(squares / 2)))
    assert len(logs) == {"pseudo-reward": 5, "redrawn": 2, "resample": 5, "worlds": 12}[rule]
    assert runs == 2 * 3 * len(logs)
    assert score == pytest.approx(np.exp(np.mean(logs, axis=0)))


def test_the_candidate_with_the_least_error_is_chosen(given):
    view = view_of(given)
    select = Select(CANDIDATES, by="redrawn", n_data_sets=3)
    view = view_of(given, select.access)
    estimate = select.fit(view, rng=np.random.default_rng(0), device="cpu").estimate(view)
    score = {one: estimate.diagnostics[f"score[{one}]"] for one in map(text, CANDIDATES)}
    assert estimate.diagnostics["chosen"] == min(score, key=score.get)
    assert estimate.value == estimate.diagnostics[f"value[{estimate.diagnostics['chosen']}]"]


def text(selector: str) -> str:
    return NestedEstimator.of(selector).text


def test_worlds_are_the_same_whenever_they_are_made(given):
    view = view_of(given)
    (selector,) = MAKERS["pseudo-reward"]
    first, again = (NestedEnvironment.all_of(selector, view)[0].sample(1) for _ in range(2))
    assert np.array_equal(first[0].reward, again[0].reward)
    other = NestedEnvironment.all_of(selector, view)[0].sample(2)
    assert not np.array_equal(first[0].reward, other[0].reward)


def test_a_world_shows_what_the_view_grants_and_no_more(given):
    (selector,) = MAKERS["redrawn"]
    made, _ = NestedEnvironment.all_of(selector, view_of(given))[0].sample(0)
    assert made.access == KNOWN
    assert len(made.propensity) == made.n
    with pytest.raises(AttributeError, match=r"needs Access\.LOGGING_POLICY"):
        _ = made.logging_policy
    sampled, _ = NestedEnvironment.all_of(selector, view_of(given, Access.SAMPLES))[0].sample(0)
    with pytest.raises(AttributeError, match=r"needs Access\.PROPENSITY"):
        _ = sampled.propensity
    assert sampled.target_action.shape == (sampled.m,)


def test_worlds_that_cannot_be_made_are_left_out_or_the_reason_is_told(given):
    view = view_of(given, Access.SAMPLES)
    outcomes = run_candidates([NestedEstimator.of("dm-star[regressor=ridge]")], view, "cpu")
    with pytest.raises(UnavailableError, match="no propensity"):
        worlds_score(outcomes.working, view, "resample", 1, "cpu")
    _, runs = worlds_score(outcomes.working, view, "worlds", 1, "cpu")
    assert runs == 7
    with pytest.raises(UnavailableError, match="makes no worlds from other data"):
        NestedEnvironment.all_of("saito-toy", view)
    with pytest.raises(UsageError, match="did you mean 'logs'"):
        NestedEnvironment.all_of("log", view)


def test_drawn_embeddings_stay_with_their_actions():
    """On saito-toy an action's embedding is drawn anew in each row."""
    quoted = ", ".join(f"'{one}'" for one in ("ipws", "dm[regressor=ridge]"))
    record = evaluate(
        f"select[candidates=[{quoted}],by=redrawn,n_data_sets=1]",
        "saito-toy[n_samples=120,n_actions=5]",
        replicates=1,
    )[0]
    assert record.status == "ok", record.error_message
    assert record.diagnostics["reruns"] == 4
