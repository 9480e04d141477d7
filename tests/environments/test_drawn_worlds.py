"""Drawn worlds: exact truths, dials that move alone, and what a world's logs tell."""

import hashlib
import math

import numpy as np
import pytest

from ope_bench import Truth, UnavailableError, stream
from ope_environments.drawn_worlds.environment import DrawnWorlds
from ope_environments.drawn_worlds.first_priors import CONTEXTS, SHARES
from ope_environments.drawn_worlds.rewards import draw_rewards

WORLDS = range(1, 41)


def drawn(seed=0, **params):
    return DrawnWorlds(**params).sample(
        world_rng=stream("unused", seed),
        logged_rng=stream("logs", seed),
        target_rng=stream("target", seed),
    )


@pytest.mark.parametrize(
    ("world", "digest"),
    [
        (1, "3a98b4319f411c6f"),
        (2, "694f8885efbe0b37"),
        (3, "f27c44a16c23eba3"),
        (5, "bf93e24a08334b7a"),
        (6, "61ad476609ef0ff9"),
        (8, "deb86cf8c88aa78e"),
        (151, "41f97e470be62925"),
        (299, "3ab477d4c481ba57"),
    ],
)
def test_the_first_priors_give_the_data_that_committed_trials_are_of(world, digest):
    # Recorded when there was one version of the priors; numbers in single precision, since other
    # processors round the last bits of exp otherwise.
    problem, truth = drawn(world=world)
    found = hashlib.sha256(problem.action.tobytes() + problem.target_action.tobytes())
    values = [truth.expected, truth.empirical]
    for numbers in (problem.context, problem.embedding, problem.reward, values):
        found.update(np.asarray(numbers).astype(np.float32).tobytes())
    assert found.hexdigest()[:16] == digest
    assert "world_priors" not in DrawnWorlds(world=world)._drawn().facts


@pytest.mark.parametrize("world", range(1, 13))
def test_the_value_is_the_mean_over_contexts_and_actions(world):
    made = DrawnWorlds(world=world)._drawn()
    population = made.population
    actions = np.arange(population.target.n_actions)
    total = 0.0
    for row in range(CONTEXTS):
        context = np.repeat(population.context[[row]], len(actions), axis=0)
        q = population.reward_at(np.full(len(actions), row), actions)
        total += float(population.target.probability(context, actions) @ q)
    assert population.expected == pytest.approx(total / CONTEXTS, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("world", [2, 4, 5, 6, 8])
def test_the_value_is_that_of_the_target_sample(world):
    _, truth = drawn(world=world, n_samples=100_000)
    rewards = drawn(world=world, n_samples=100_000)[0].reward
    assert isinstance(truth, Truth)
    assert abs(truth.empirical - truth.expected) < 5 * rewards.std() / math.sqrt(100_000)


@pytest.mark.parametrize("world", [1, 3, 4, 7])
def test_importance_weighting_is_unbiased_where_the_logging_policy_plays_all(world):
    made = DrawnWorlds(world=world)._drawn().population
    row = np.repeat(np.arange(CONTEXTS), made.logging.n_actions)
    action = np.tile(np.arange(made.logging.n_actions), CONTEXTS)
    below = made.logging.probability(made.context[row], action)
    above = made.target.probability(made.context[row], action)
    assert below.min() > 0
    weighted = below * (above / below) * made.reward_at(row, action)
    assert weighted.sum() / CONTEXTS == pytest.approx(made.expected, rel=1e-10)


@pytest.mark.parametrize("kind", list(SHARES["reward"]))
def test_rewards_have_the_mean_that_is_told(kind):
    score = stream("score").standard_normal((50, 4))
    mean, noise = draw_rewards(kind, score, stream("rewards", kind))
    draws = np.stack([noise(mean.ravel(), stream("noise", k)) for k in range(4000)])
    error = draws.std(axis=0) / math.sqrt(4000)
    assert np.abs((draws.mean(axis=0) - mean.ravel()) / np.maximum(error, 1e-9)).max() < 6


def test_a_fixed_dial_moves_no_other():
    free = DrawnWorlds(world=5)._drawn().facts
    fixed = DrawnWorlds(world=5, reward="gaussian", logging="uniform")._drawn().facts
    same = ("world_rows", "world_actions", "world_structure", "world_embedding", "world_target")
    assert {name: free[name] for name in same} == {name: fixed[name] for name in same}
    assert (fixed["world_reward"], fixed["world_logging"]) == ("gaussian", "uniform")
    actions = DrawnWorlds(world=5, n_actions=7)._drawn()
    assert actions.facts["world_actions"] == 7
    assert actions.facts["world_rows"] == free["world_rows"]


def test_a_world_is_the_same_in_every_replicate_and_its_logs_are_not():
    one, truth = drawn(0, world=9, n_samples=300)
    other, again = drawn(1, world=9, n_samples=300)
    assert truth.expected == again.expected
    assert not np.array_equal(one.reward, other.reward) or not np.array_equal(
        one.context, other.context
    )


def test_kinds_come_in_the_shares_of_the_priors():
    facts = [DrawnWorlds(world=k, n_actions=3)._drawn().facts for k in range(1, 301)]
    for name, shares in SHARES.items():
        for kind, share in shares.items():
            count = sum(one[f"world_{name}"] == kind for one in facts)
            assert abs(count - 300 * share) < 4.5 * math.sqrt(300 * share * (1 - share))
    rows = np.log([one["world_rows"] for one in facts])
    assert rows.min() >= np.log(500)
    assert rows.max() <= np.log(20_001)
    assert abs(rows.mean() - (np.log(500) + np.log(20_000)) / 2) < 0.25


@pytest.mark.parametrize(
    ("known", "held"),
    [("policy", (True, True)), ("propensity", (True, False)), ("samples", (False, False))],
)
def test_a_world_tells_what_is_known_and_why_not_more(known, held):
    problem, _ = drawn(world=3, n_samples=50, known=known)
    assert (problem.propensity is not None, problem.logging_policy is not None) == held
    for name, there in zip(("propensity", "logging_policy"), held, strict=True):
        assert (name in problem.unavailable) is not there


def test_a_target_that_is_known_by_a_sample_has_no_probabilities():
    problem, _ = drawn(world=3, n_samples=50, target_form="sample")
    assert problem.target_policy is None
    assert problem.has_target_sample
    assert "target_policy" in problem.unavailable


def test_overlap_is_that_of_very_many_rows():
    problem, _ = drawn(world=5, n_samples=400_000, known="policy", target_form="probabilities")
    weight = problem.target_policy.probability(problem.context, problem.action)
    weight = weight / problem.propensity
    facts = DrawnWorlds(world=5)._drawn().facts
    share = weight.sum() ** 2 / (weight**2).sum() / len(weight)
    assert share == pytest.approx(facts["world_ess_fraction"], rel=0.15)


def test_facts_are_stored_with_every_trial():
    from ope_bench import evaluate

    result = evaluate(
        ["ipw", "dm[regressor=ridge]"], "population[world=2,n_samples=300]", replicates=2
    )
    frame = [record.diagnostics for record in result]
    assert {one["world_reward"] for one in frame} == {"binary"}
    assert {one["world"] for one in frame} == {2}


def test_whoever_needs_more_than_a_world_tells_is_unavailable():
    from ope_bench import evaluate

    (record,) = evaluate("ipw", "population[world=2,n_samples=100,known=samples]", replicates=1)
    assert record.status == "unavailable"
    assert "propensities" in record.error_message
    assert issubclass(UnavailableError, Exception)
