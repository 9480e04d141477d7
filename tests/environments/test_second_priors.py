"""Version 2 of drawn worlds: each prior by its moments, loggers by their definitions, truths."""

import json
import math
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from ope_bench import ParameterError, Tabular, evaluate, stream
from ope_environments.damaged.environment import Damaged
from ope_environments.drawn_worlds.adaptive import DRAWS, AdaptiveLogger, draw_schedule
from ope_environments.drawn_worlds.contexts import draw_positions, draw_vectors
from ope_environments.drawn_worlds.environment import DrawnWorlds
from ope_environments.drawn_worlds.rules import draw_exploration, draw_rule
from ope_environments.drawn_worlds.scores import draw_score, standardized
from ope_environments.drawn_worlds.second_priors import SHARES
from ope_environments.drawn_worlds.signal import draw_signal
from ope_environments.populations.population import bernoulli


def environment(**params):
    return DrawnWorlds(priors=2, **params)


def drawn(seed=0, **params):
    return environment(**params).sample(
        world_rng=stream("unused", seed),
        logged_rng=stream("logs", seed),
        target_rng=stream("target", seed),
    )


@pytest.fixture(scope="module")
def every():
    """Facts of 300 worlds of few actions, which are drawn quickly."""
    return [environment(world=k, n_actions=3)._drawn().facts for k in range(1, 301)]


def near(count, share, n):
    return abs(count - n * share) < 4.5 * math.sqrt(n * share * (1 - share))


# What a kind is turned into where kinds depend on each other.
MOVED = {
    "contexts": {
        "few": 0.45 * 0.75,
        "many": 0.25 + 0.25 * 0.60,
        "vectors": 0.15,
        "positions": 0.15 * 0.75,
    },
    "known": {"policy": 0.30 * 0.90, "propensity": 0.55 + 0.30 * 0.10, "samples": 0.15},
}


def test_kinds_come_in_the_shares_of_the_priors(every):
    for name in SHARES.keys() - {"phases"}:
        shares = MOVED.get(name, SHARES[name])
        assert sum(shares.values()) == pytest.approx(1)
        for kind, share in shares.items():
            count = sum(one[f"world_{name}"] == kind for one in every)
            assert near(count, share, 300), (name, kind, count)
    phases = [one["world_phases"] for one in every if "world_phases" in one]
    assert near(len(phases), 0.2, 300)
    assert near(phases.count("averaged"), 0.5, len(phases))


def test_sizes_are_log_uniform_and_trials_have_few_actions():
    rows, trials, many = [], [], []
    for k in range(1, 61):
        facts = environment(world=k)._drawn().facts
        rows.append(math.log(facts["world_rows"]))
        (trials if facts["world_effects"] == "weak" else many).append(facts["world_actions"])
    middle, spread = math.log(math.sqrt(500 * 20_000)), math.log(40) / math.sqrt(12)
    assert abs(np.mean(rows) - middle) < 4 * spread / math.sqrt(60)
    assert set(trials) <= {2, 3, 4, 5}
    middle, spread = math.log(math.sqrt(3 * 500)), math.log(500 / 3) / math.sqrt(12)
    assert abs(np.mean(np.log(many)) - middle) < 4 * spread / math.sqrt(len(many))


def test_the_signal_has_its_prior_where_rewards_can_have_it(every):
    # What is drawn is the share at equal odds: loggers that hardly explore see another one.
    share = [
        one["world_signal"]
        for one in every
        if one["world_reward"] in ("gaussian", "heavy-tailed", "bounded", "zero-inflated")
        and one["world_logging"] in ("softmax", "uniform", "segments", "epsilon-greedy")
    ]
    assert len(share) > 50
    logit = np.log(share) - np.log1p(-np.array(share))
    # Two uniform distributions in the shares .85 and .15.
    ends = [(math.log(0.002 / 0.998), math.log(19)), (math.log(0.08 / 0.92), math.log(2 / 3))]
    center = np.mean(ends, axis=1)
    middle = center @ (0.85, 0.15)
    second = center**2 + np.diff(ends)[:, 0] ** 2 / 12
    spread = math.sqrt(second @ (0.85, 0.15) - middle**2)
    assert abs(logit.mean() - middle) < 4 * spread / math.sqrt(len(share))
    assert logit.std() == pytest.approx(spread, rel=0.2)
    without = [one for one in every if one["world_reward"] == "deterministic"]
    assert all(one["world_signal"] == 1 for one in without)


def test_the_action_explains_all_of_the_signal_in_half_of_the_worlds_with_large_effects(every):
    large = np.array([one["world_own_share"] for one in every if one["world_effects"] == "large"])
    assert near((large == 1).sum(), 0.5, len(large))
    some = large[large < 1]
    assert some.min() >= 0.1
    assert abs(some.mean() - 0.55) < 4 * 0.9 / math.sqrt(12 * len(some))
    weak = np.array([one["world_own_share"] for one in every if one["world_effects"] == "weak"])
    spread = math.log(10) / math.sqrt(12 * len(weak))
    assert abs(np.log(weak).mean() - math.log(math.sqrt(0.01 * 0.1))) < 4 * spread


def test_many_contexts_have_a_log_uniform_number_of_columns_and_users_of_rows(every):
    many = [one["world_columns"] for one in every if one["world_contexts"] == "many"]
    # Beside the numbers: up to two categories, and a mark of missing values in a quarter.
    assert 7 <= min(many) <= max(many) <= 67
    middle, spread = math.log(math.sqrt(7 * 64)), math.log(64 / 7) / math.sqrt(12 * len(many))
    assert middle - 4 * spread < np.log(many).mean() < middle + 0.15 + 4 * spread
    few = [one["world_columns"] for one in every if one["world_contexts"] == "few"]
    assert 1 <= min(few) <= max(few) <= 9
    # The kind and these numbers follow one draw: drawn users are the upper quarter of the prior,
    # and drawn vectors lie between .70 and .85 of theirs. Given kinds have all of it.
    rows = [one["world_rows_per_user"] for one in every if one["world_users"] == "several-rows"]
    assert 2 * 10**0.75 <= min(rows) <= max(rows) <= 20
    width = [one["world_columns"] for one in every if one["world_contexts"] == "vectors"]
    assert 42 <= min(width) <= max(width) <= 52
    given = [environment(world=k, n_actions=3, users="several-rows", contexts="vectors")
             for k in range(1, 31)]  # fmt: skip
    facts = [one._drawn().facts for one in given]
    logs = np.log([one["world_rows_per_user"] for one in facts])
    assert abs(logs.mean() - math.log(math.sqrt(2 * 20))) < 4 * math.log(10) / math.sqrt(12 * 30)
    columns = np.log([one["world_columns"] for one in facts])
    assert abs(columns.mean() - math.log(32)) < 4 * math.log(4) / math.sqrt(12 * 30)


def test_weak_middle_and_strong_signals_have_15_percent_of_the_worlds_or_more():
    # The signal as leaderboards have it, from the committed trials of worlds 1 to 100.
    file = Path(__file__).resolve().parents[2] / "results" / "choice" / "trials.parquet"
    table = pq.read_table(file, columns=["environment_params", "signal"]).to_pydict()
    found = defaultdict(list)
    for params, signal in zip(table["environment_params"], table["signal"], strict=True):
        if signal is not None:
            found[json.loads(params)["world"]].append(signal)
    median = np.array([np.median(one) for one in found.values()])
    assert len(median) == 100
    for inside in (median < 0.05, (median >= 0.05) & (median <= 0.25), median > 0.25):
        assert inside.mean() >= 0.15


def test_base_rates_of_binary_rewards_reach_a_thousandth(every):
    rate = np.log([one["world_mean_reward"] for one in every if one["world_reward"] == "binary"])
    spread = math.log(500) / math.sqrt(12)
    middle = math.log(math.sqrt(0.001 * 0.5))
    # The logger prefers what pays, so that the rate among logged rows is a little higher.
    assert middle - 0.3 < rate.mean() < middle + 0.9
    assert rate.std() == pytest.approx(spread, rel=0.25)
    assert np.exp(rate.min()) < 0.002


@pytest.mark.parametrize("kind", sorted(SHARES["reward"]))
@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_rewards_have_the_mean_and_variance_that_are_told_and_the_share_of_signal(kind, share):
    score = standardized(stream("score").standard_normal((400, 5)))
    made = draw_signal(kind, score, share, stream("rewards", 3))
    some = made.mean[:20].ravel()
    draws = np.stack([made.noise(some, stream("noise", k)) for k in range(4000)])
    variance = made.variance(some)
    # A rare reward is seen a few times at most.
    slack = 0.002 * draws.max()
    assert (np.abs(draws.mean(axis=0) - some) < 6 * np.sqrt(variance / 4000) + slack).all()
    if kind != "heavy-tailed":
        assert draws.var(axis=0).mean() == pytest.approx(variance.mean(), rel=0.1, abs=1e-5)
    if made.limits is not None:
        assert made.limits[0] <= draws.min() <= draws.max() <= made.limits[1]
    explained = made.mean.var() / (made.mean.var() + made.variance(made.mean).mean())
    if kind == "deterministic":
        assert explained == 1
    elif kind != "binary" or share < 0.9:
        assert explained == pytest.approx(share, rel=0.1)


def test_a_base_rate_is_kept_whatever_the_signal():
    score = standardized(stream("score").standard_normal((2000, 50)))
    for share in (0.005, 0.2, 0.8):
        for number in range(4):
            # The first number that the stream gives is the logarithm of the rate.
            rate = math.exp(stream("base", number).uniform(math.log(0.001), math.log(0.5)))
            made = draw_signal("binary", score, share, stream("base", number))
            assert made.mean.mean() == pytest.approx(rate, rel=0.15)


@pytest.mark.parametrize("world", range(1, 25))
def test_the_value_is_the_mean_over_contexts_and_actions_within_support_and_outside(world):
    made = environment(world=world, n_actions=6)._drawn()
    population = made.population
    n, actions = len(population.context), np.arange(6)
    inside = outside = mass = 0.0
    for row in range(n):
        context = np.repeat(population.context[[row]], 6, axis=0)
        q = population.reward_at(np.full(6, row), actions)
        below = population.logging.probability(context, actions)
        above = population.target.probability(context, actions)
        played = below > 0
        assert below.sum() == pytest.approx(1, abs=1e-12)
        assert above.sum() == pytest.approx(1, abs=1e-12)
        # Importance weighting reaches what the logger plays and nothing else.
        inside += float((below * (above / np.where(played, below, 1)) * q)[played].sum())
        outside += float((above * q)[~played].sum())
        mass += float(above[~played].sum())
    assert population.expected == pytest.approx((inside + outside) / n, rel=1e-10, abs=1e-12)
    assert made.facts["world_unsupported"] == pytest.approx(mass / n, abs=1e-10)


@pytest.mark.parametrize("world", [3, 5, 56])
def test_rows_of_equal_contexts_have_one_policy(world):
    made = environment(world=world, logging="rule", contexts="few", n_actions=3)._drawn()
    population = made.population
    assert len(np.unique(population.context, axis=0)) < len(population.context)
    table = population.target.table(population.context)
    rows, actions = np.divmod(np.arange(3 * len(table)), 3)
    q = population.reward_at(rows, actions).reshape(-1, 3)
    assert population.expected == pytest.approx((table * q).sum(axis=1).mean(), abs=1e-12)
    logged = population.logging.table(population.context)
    unsupported = table[logged == 0].sum() / len(table)
    assert made.facts["world_unsupported"] == pytest.approx(unsupported, abs=1e-12)


@pytest.mark.parametrize("logging", ["thompson", "decreasing"])
@pytest.mark.parametrize("dial", [{"users": 3}, {"retention": 0.5}, {"exploration": 0.05}])
def test_damaged_logs_of_loggers_that_learn_show_no_policy(logging, dial):
    world = "population[world=5,priors=2,n_samples=600,n_actions=6,known=policy"
    world += f",target_form=probabilities,logging={logging},users=one-row]"
    problem, _ = Damaged(environment=world, **dial).sample(
        world_rng=stream("w", 0), logged_rng=stream("l", 0), target_rng=stream("t", 0)
    )
    if problem.logging_policy is None:
        assert "learns" in problem.unavailable["logging_policy"]
    else:
        told = problem.logging_policy.probability(problem.context, problem.action)
        np.testing.assert_allclose(told, problem.propensity, rtol=1e-9)
    assert problem.propensity is not None


@pytest.mark.parametrize("world", [3, 8, 20])
def test_a_rules_truth_is_the_mean_reward_of_a_sample_of_the_new_policy(world):
    params = {"world": world, "logging": "rule", "reward": "gaussian", "n_actions": 4}
    population = environment(users="one-row", **params)._drawn().population
    rng = stream("rollout", world)
    row = rng.integers(len(population.context), size=100_000)
    chance = population.target.table(population.context)[row]
    action = (rng.random((len(row), 1)) > chance.cumsum(axis=1)[:, :-1]).sum(axis=1)
    reward = population.reward_at(row, action)
    off = reward.mean() - population.expected
    assert abs(off) < 4.5 * reward.std() / math.sqrt(len(row)) + 1e-12
    # The logger's own value lies elsewhere, so that the two are not mistaken for each other.
    logged = population.logging.table(population.context)[row]
    other = (rng.random((len(row), 1)) > logged.cumsum(axis=1)[:, :-1]).sum(axis=1)
    assert abs(population.reward_at(row, other).mean() - population.expected) > 3 * abs(off)


def test_exploration_of_rules_is_nothing_or_a_thousandth_to_a_twentieth():
    found = np.array([draw_exploration(stream("rule", k)) for k in range(1000)])
    assert near((found == 0).sum(), 0.4, 1000)
    some = np.log(found[found > 0])
    assert math.log(0.001) <= some.min()
    assert some.max() <= math.log(0.05)
    assert abs(some.mean() - math.log(math.sqrt(0.001 * 0.05))) < 4 * math.log(50) / math.sqrt(
        12 * len(some)
    )


@pytest.mark.parametrize("seed", range(12))
def test_a_rule_plays_one_action_or_one_list_in_each_part_and_explores_as_told(seed):
    design = stream("design", seed).standard_normal((500, 4))
    score = standardized(stream("score", seed).standard_normal((500, 20)))
    table = draw_rule(design, score, 0.02, stream("rule", seed))
    np.testing.assert_allclose(table.sum(axis=1), 1)
    assert table.min() == pytest.approx(0.02 / 20)
    played = table > 0.02 / 20 + 1e-12
    width = played.sum(axis=1)
    assert len(set(width)) == 1
    np.testing.assert_allclose(table[played], 0.98 / width[0] + 0.001)
    again = draw_rule(design, score, 0.0, stream("rule", seed))
    np.testing.assert_array_equal(again > 0, played)
    assert 1 <= len(np.unique(played, axis=0)) <= 8


def test_rules_without_exploration_log_nothing_else():
    seen = 0
    for world in range(1, 40):
        made = environment(world=world, logging="rule", n_actions=12)._drawn()
        if made.facts["world_exploration"] > 0:
            continue
        problem, _ = drawn(world=world, logging="rule", n_actions=12, known="policy")
        table = problem.logging_policy.table(problem.context)
        assert (table[np.arange(len(table)), problem.action] == problem.propensity).all()
        assert (table > 0).sum(axis=1).max() <= 6
        outside = made.facts["world_unsupported"]
        # Some targets tilt the logging policy.
        assert outside == 0 if made.facts["world_target"].endswith("-change") else outside > 0
        assert outside < 1
        seen += 1
    assert 6 <= seen <= 28


def adaptive(kind="decreasing", averaged=False, exploration=(1.0, 0.3, 0.05)):
    """Two groups, three actions with means 0 to 2; in the second group the other way round."""
    context = stream("context").standard_normal((50, 2))
    group = (context[:, 0] > 0).astype(np.int64)
    return (
        AdaptiveLogger(
            kind=kind,
            exploration=np.array(exploration),
            group=group,
            find=lambda rows: np.abs(rows[:, :1] - context[:, 0]).argmin(axis=1),
            n_actions=3,
            reward_at=lambda row, action: np.where(group[row] == 0, action, 2.0 - action),
            noise=lambda mean, rng: mean + 0.1 * rng.standard_normal(len(mean)),
            averaged=averaged,
        ),
        context,
    )


def greedy_share(group, rows, action, reward, exploration):
    """Compute the policy of a phase after some rows in another way: a table (2, 3)."""
    table = np.empty((2, 3))
    for g in range(2):
        means = []
        for a in range(3):
            mine = [reward[i] for i in range(rows) if group[i] == g and action[i] == a]
            means.append((sum(mine) + reward[:rows].mean()) / (len(mine) + 1))
        best = max(range(3), key=means.__getitem__)
        table[g] = [exploration / 3 + (1 - exploration) * (a == best) for a in range(3)]
    return table


def test_a_logger_with_decreasing_exploration_follows_its_rule_and_averages_it():
    logger, context = adaptive()
    row = stream("rows").integers(50, size=300)
    log = logger(row, stream("log"))
    assert log.policy is None
    group = logger.group[row]
    tables = [np.full((2, 3), 1 / 3)]
    for rows, exploration in ((100, 0.3), (200, 0.05)):
        tables.append(greedy_share(group, rows, log.action, log.reward, exploration))
    phase = np.arange(300) // 100
    expected = np.array(tables)[phase, group, log.action]
    np.testing.assert_allclose(log.propensity, expected, atol=1e-12)
    assert (tables[2].argmax(axis=1) == [2, 0]).all()
    averaged, _ = adaptive(averaged=True)
    again = averaged(row, stream("log"))
    np.testing.assert_array_equal(again.action, log.action)
    np.testing.assert_array_equal(again.reward, log.reward)
    mean = np.mean(tables, axis=0)
    np.testing.assert_allclose(again.propensity, mean[group, log.action], atol=1e-12)
    np.testing.assert_allclose(again.policy.table(context), mean[logger.group], atol=1e-12)


@pytest.mark.parametrize("kind", ["thompson", "decreasing"])
def test_weights_by_propensities_of_the_time_are_unbiased(kind):
    exploration = (1.0, 0.1, 0.1, 0.1)
    logger, _ = adaptive(kind, exploration=exploration)
    target = np.array([0.2, 0.3, 0.5])
    group = logger.group
    truth = np.mean([target @ (np.arange(3) if g == 0 else 2 - np.arange(3)) for g in group])
    found, played = [], []
    for seed in range(400):
        rng = stream("log", seed)
        row = rng.integers(50, size=80)
        log = logger(row, rng)
        found.append((target[log.action] / log.propensity * log.reward).mean())
        played.append(log.reward[60:].mean() - log.reward[:20].mean())
    assert abs(np.mean(found) - truth) < 4 * np.std(found) / math.sqrt(400)
    # It learns: later phases earn more.
    assert np.mean(played) > 0.5


def test_thompson_sampling_plays_the_share_of_draws_in_which_an_action_is_best():
    logger, _ = adaptive("thompson", exploration=(1.0, 0.0, 0.0))
    log = logger(stream("rows").integers(50, size=60), stream("log"))
    steps = log.propensity[20:] * DRAWS
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-9)
    assert steps.min() >= 1
    # With one observation of each action in a group, the best has this probability.
    group, action = np.repeat([0, 1], 3), np.tile([0, 1, 2], 2)
    reward = np.array([0.0, 0.5, 1.0, 0.0, 0.0, 1.0])
    shares = np.mean(
        [logger._best(group, action, reward, stream("posterior", k)) for k in range(300)], axis=0
    )
    draws = stream("independent").standard_normal((200_000, 3)) * reward.std() / math.sqrt(2)
    means = (reward[:3] + reward.mean()) / 2
    expected = np.bincount((draws + means).argmax(axis=1), minlength=3) / 200_000
    np.testing.assert_allclose(shares[0], expected, atol=0.015)


def test_a_logger_without_rewards_so_far_plays_all_alike():
    logger, _ = adaptive("thompson")
    nothing = logger._best(np.zeros(5, int), np.zeros(5, int), np.zeros(5), stream("log"))
    np.testing.assert_array_equal(nothing, np.full((2, 3), 1 / 3))
    log = logger(np.array([4]), stream("log"))
    assert log.propensity.tolist() == [1 / 3]


def test_schedules_begin_with_chance_and_end_with_little():
    for kind in ("thompson", "decreasing"):
        every = [draw_schedule(kind, stream(kind, k)) for k in range(200)]
        assert {len(one) for one in every} == set(range(4, 13))
        assert all(one[0] == 1 for one in every)
        last = np.array([one[-1] for one in every])
        if kind == "thompson":
            assert near((last == 0).sum(), 0.25, 200)
            assert last.max() <= 0.1
        else:
            assert 0.005 <= last.min() < 0.01 < 0.03 < last.max() <= 0.05
            assert all((np.diff(one) < 0).all() for one in every)


@pytest.mark.parametrize("kind", ["thompson", "decreasing"])
def test_logs_of_a_logger_that_learns_show_its_average_or_no_policy(kind):
    params = {"world": 5, "logging": kind, "n_actions": 5, "n_samples": 4000}
    problem, _ = drawn(known="policy", **params)
    np.testing.assert_array_equal(
        problem.propensity, problem.logging_policy.probability(problem.context, problem.action)
    )
    share = np.bincount(problem.action, minlength=5) / 4000
    table = problem.logging_policy.table(problem.context).mean(axis=0)
    assert np.abs(share - table).max() < 5 * math.sqrt(0.25 / 4000)
    of_time, _ = drawn(phases="of-time", known="propensity", **params)
    assert of_time.logging_policy is None
    assert "logging_policy" in of_time.unavailable
    np.testing.assert_array_equal(of_time.action, problem.action)
    assert np.unique(of_time.propensity[:300]).tolist() == [0.2]
    facts = environment(known="policy", **params)._drawn().facts
    assert facts["world_phases"] == "averaged"
    facts = environment(known="policy", phases="of-time", **params)._drawn().facts
    assert facts["world_known"] == "propensity"


def test_users_have_the_rows_and_the_likeness_that_are_told():
    params = {"world": 4, "users": "several-rows", "reward": "gaussian", "signal": 0.9}
    params |= {"effects": "none", "structure": "items", "contexts": "few"}
    made = environment(n_samples=20_000, **params)._drawn()
    problem, _ = drawn(n_samples=20_000, **params)
    users, at, count = np.unique(problem.unit, return_inverse=True, return_counts=True)
    expected = made.facts["world_rows_per_user"]
    assert 2 <= expected <= 20
    assert count.mean() == pytest.approx(expected, rel=0.1)
    assert count.var() == pytest.approx(expected * (expected - 1), rel=0.25)
    first = np.unique(at, return_index=True)[1]
    np.testing.assert_array_equal(problem.context, problem.context[first][at])
    # What is left of the signal is the user's own: rows of a user are alike.
    mean = np.bincount(at, problem.reward) / count
    within = ((problem.reward - mean[at]) ** 2).sum() / (20_000 - len(users))
    assert 1 - within / problem.reward.var() == pytest.approx(0.9, abs=0.03)
    again = drawn(seed=1, n_samples=2000, **params)[0]
    assert not set(again.unit) & set(users)
    assert drawn(world=4, users="one-row", n_samples=50)[0].unit is None


def test_contexts_are_vectors_or_have_a_place():
    vectors, columns = draw_vectors(400, stream("vectors"))
    assert 16 <= vectors.shape[1] == len(columns) <= 64
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1)
    # Topics: the nearest other row is nearer than among vectors without direction.
    similar = vectors @ vectors.T - 2 * np.eye(400)
    assert np.median(similar.max(axis=1)) > 0.5
    place, column = draw_positions(600, stream("places"))
    assert set(place) == set(column.categories)
    assert 3 <= len(column.categories) <= 8


def test_the_place_lowers_the_reward():
    params = {"world": 6, "contexts": "positions", "effects": "none", "structure": "items"}
    made = environment(reward="gaussian", signal=0.9, users="one-row", **params)._drawn()
    place = made.population.context[:, -1].astype(int)
    q = made.population.reward_at(np.arange(len(place)), np.zeros(len(place), int))
    found = np.corrcoef(q, -np.log(place))[0, 1] ** 2
    assert 0.07 < found < 0.65


@pytest.mark.parametrize(("effects", "low", "high"), [("none", 0, 0), ("weak", 0.01, 0.1)])
def test_the_action_explains_the_share_of_the_signal_that_is_told(effects, low, high):
    for world in range(1, 7):
        made = environment(
            world=world, effects=effects, reward="gaussian", users="one-row", contexts="few"
        )._drawn()
        population = made.population
        actions = population.target.n_actions
        row = np.arange(len(population.context))
        q = np.stack([population.reward_at(row, np.full(len(row), a)) for a in range(actions)], 1)
        share = ((q - q.mean(axis=1, keepdims=True)) ** 2).mean() / q.var()
        own = made.facts["world_own_share"]
        assert low <= own <= high
        # The context alone explains a part of the action's own score, too.
        assert share <= own * 1.6 + 1e-12
        if effects == "weak":
            assert actions in (2, 3, 4, 5)


def test_networks_are_neither_linear_nor_rough():
    design = stream("design").standard_normal((4000, 8))
    score = standardized(draw_score("network", design, 1, None, stream("network")))[:, 0]
    linear = np.column_stack([np.ones(4000), design])
    rest = score - linear @ np.linalg.lstsq(linear, score, rcond=None)[0]
    assert 0.05 < rest.var() < 0.97
    moved = np.concatenate([design, design + 0.01])
    pair = draw_score("network", moved, 1, None, stream("network"))[:, 0]
    assert np.abs(pair[:4000] - pair[4000:]).mean() < 0.1 * pair.std()
    facts = [environment(world=k, structure="network")._drawn().facts for k in range(1, 13)]
    assert all(one["world_columns"] >= 7 for one in facts)


def test_the_signal_of_a_world_is_that_of_its_rows():
    made = environment(world=12, n_actions=5, reward="gaussian", signal=0.4, users="one-row")
    problem, _ = drawn(
        world=12, n_actions=5, reward="gaussian", signal=0.4, users="one-row", n_samples=200_000
    )
    population = made._drawn().population
    row = population.logging.code(problem.context)
    q = population.reward_at(row, problem.action)
    assert q.var() / problem.reward.var() == pytest.approx(
        made._drawn().facts["world_signal"], rel=0.03
    )
    assert problem.reward.mean() == pytest.approx(
        made._drawn().facts["world_mean_reward"], abs=0.02 * problem.reward.std()
    )


def test_a_fixed_dial_moves_no_other():
    free = environment(world=5)._drawn().facts
    fixed = environment(world=5, reward="gaussian", logging="rule", signal=0.5)._drawn().facts
    same = ("world_rows", "world_actions", "world_structure", "world_users", "world_target")
    assert {name: free[name] for name in same} == {name: fixed[name] for name in same}
    assert (fixed["world_reward"], fixed["world_logging"]) == ("gaussian", "rule")


def test_facts_are_stored_with_every_trial_and_faults_beside_them():
    inner = "population[world=3,priors=2,n_samples=300,n_actions=5,known=policy]"
    (record,) = evaluate(
        "logging-average", [f"damaged[environment='{inner}',drift=0.2]"], replicates=1
    )
    facts = record.diagnostics
    assert facts["world_priors"] == 2
    assert facts["damage_drift"] == 0.2
    assert {"world_signal", "world_unsupported", "world_ess_fraction"} <= facts.keys()


@pytest.mark.parametrize("world", range(151, 163))
def test_drawn_faults_can_be_had_of_every_kind_of_world(world):
    made = Damaged(
        f"population[world={world},priors=2,known=policy,n_samples=300,n_actions=4]", drawn=True
    )
    problem, _ = made.sample(
        world_rng=stream("world"), logged_rng=stream("logs"), target_rng=stream("target")
    )
    assert len(problem.reward) == 300


def test_kinds_of_the_other_version_are_refused():
    with pytest.raises(ParameterError, match=r"priors=1.*softmax"):
        DrawnWorlds(logging="rule")._drawn()
    with pytest.raises(ParameterError, match="signal"):
        DrawnWorlds(signal=0.2)._drawn()
    with pytest.raises(ParameterError, match=r"priors=2.*network"):
        environment(structure="none")._drawn()


def test_rewards_of_zeros_and_ones_are_declared():
    problem, _ = drawn(world=2, reward="binary", n_samples=100)
    assert problem.reward_range == (0.0, 1.0)
    assert set(problem.reward) <= {0.0, 1.0}
    assert bernoulli(np.array([0.0, 1.0]), stream("coin")).tolist() == [0.0, 1.0]
    assert isinstance(environment(world=2)._drawn().population.logging, Tabular)
