"""Damaged logs: each fault against its definition, and worlds that stay what they are."""

import inspect
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, nbinom

from ope_bench import (
    DataError,
    ParameterError,
    UnavailableError,
    UsageError,
    evaluate,
    stream,
)
from ope_bench.plugins.spec import resolve
from ope_bench.suites.manifest import specs_of
from ope_bench.trials.record import Trial
from ope_bench.trials.sealing import Seal
from ope_environments.damaged import logged_rows
from ope_environments.damaged.environment import Damaged
from ope_environments.damaged.faults import DAMAGES, MOST, chances, drawn_faults

ARRAYS = ("context", "action", "embedding", "reward", "propensity", "target_action", "unit")
TOY = "saito-toy[n_actions=10,n_samples=2000]"
BINARY = "linear-bandit[n_samples=4000,reward=logistic]"


def drawn(environment=TOY, seed=0, **params):
    return Damaged(environment, **params).sample(
        world_rng=stream("world", seed),
        logged_rng=stream("logs", seed),
        target_rng=stream("target", seed),
    )


def test_without_a_fault_the_logs_are_those_of_the_environment():
    for text in (TOY, "multiclass", "population[world=5]", "randomized", "saito-mips"):
        made = Damaged(text)
        rngs = [
            {f"{name}_rng": stream(name) for name in ("world", "logged", "target")}
            for _ in range(2)
        ]
        clean, truth = made.wrapped.sample(**rngs[0])
        damaged, same = made.sample(**rngs[1])
        assert truth == same
        for name in ARRAYS:
            np.testing.assert_array_equal(getattr(clean, name), getattr(damaged, name))


def test_streams_are_those_of_the_environment_that_is_damaged():
    inner = resolve("environment", "saito-toy", {"n_actions": 10})
    outer = resolve("environment", "damaged", {"environment": "saito-toy[n_actions=10]"})
    twice = resolve(
        "environment", "damaged", {"environment": f"damaged[environment={TOY!r},drift=1]"}
    )
    ipw = resolve("estimator", "ipw")
    seeds = [Trial(one, ipw, 3).data_seed for one in (inner, outer, twice)]
    assert seeds[0] == seeds[1] == seeds[2]
    assert Trial(inner, ipw, 3).key != Trial(outer, ipw, 3).key


def test_clean_and_damaged_trials_share_rows():
    rows = evaluate(
        "dm", ["saito-toy", "damaged[environment=saito-toy,propensity=rounded]"], replicates=1
    )
    clean, damaged = (row.estimate for row in rows)
    assert clean == damaged


@pytest.mark.parametrize(
    ("kind", "strength"),
    [("items", 0.3), ("rounded", 2), ("clipped", 0.08), ("constant", None), ("monte-carlo", 50)],
)
def test_a_wrong_propensity_is_that_of_its_definition(kind, strength):
    clean, _ = drawn()
    damaged, _ = drawn(propensity=kind, strength=strength)
    p, q = clean.propensity, damaged.propensity
    np.testing.assert_array_equal(clean.reward, damaged.reward)
    assert damaged.logging_policy is None
    assert q.min() > 0
    assert q.max() <= 1
    if kind == "items":
        ratio = np.array([np.unique((q / p)[clean.action == a].round(9)) for a in range(10)][:10])
        off = ratio[np.abs(ratio - 1) > 1e-6]
        assert 1 <= len(off) <= 6
        assert ((np.maximum(off, 1 / off) > 2) & (np.maximum(off, 1 / off) < 5)).all()
    elif kind == "rounded":
        np.testing.assert_allclose(q, np.maximum(np.round(p, 2), 0.01))
    elif kind == "clipped":
        np.testing.assert_array_equal(q, np.where(p < 0.08, 0.08, p))
        assert (q > p).any()
    elif kind == "constant":
        assert (q == 0.1).all()
    else:
        np.testing.assert_allclose(q * 50, np.round(q * 50))
        assert q.min() == 1 / 50
        assert abs((q - p)[p > 0.2].mean()) < 4 * math.sqrt(0.25 / 50 / (p > 0.2).sum())


@pytest.mark.parametrize("kind", ["stale", "temperature"])
def test_propensities_of_another_policy_belong_to_a_policy(kind):
    clean, _ = drawn()
    damaged, _ = drawn(propensity=kind)
    table = clean.logging_policy.table(clean.context)
    other = np.sqrt(table)
    if kind == "stale":
        world = stream("world", 0)
        streams = {"logged_rng": stream("logs", 0), "target_rng": stream("target", 0)}
        Damaged(TOY).wrapped.sample(world_rng=world, **streams)
        other = table * np.exp(0.5 * world.standard_normal(10))
    expected = (other / other.sum(axis=1, keepdims=True))[np.arange(2000), clean.action]
    np.testing.assert_allclose(damaged.propensity, expected)
    assert np.abs(damaged.propensity - clean.propensity).max() > 0.05


def bias_of_weight(p, chance_of, counts):
    """Return E[p / q] - 1 for a logged propensity q that is a function of a count."""
    k, q = np.transpose(counts)
    return float((chance_of(k) * p / q).sum()) - 1


def test_draws_until_a_hit_give_unbiased_weights_and_a_floor_does_not():
    for p, expected in ((0.01, 0.125), (0.003, 0.38)):
        draws = binom(1024, p)
        counts = [(k, max(k, 1) / 1024) for k in range(200)]
        assert bias_of_weight(p, draws.pmf, counts) == pytest.approx(expected, abs=0.01)
        misses = nbinom(10, p)
        counts = [(k, 10 / (10 + k)) for k in range(int(misses.ppf(1 - 1e-13)))]
        assert bias_of_weight(p, misses.pmf, counts) == pytest.approx(0, abs=1e-6)
    clean, _ = drawn(n_samples=20_000)
    for kind, strength, low, high in (
        ("draws-until", 3, -0.03, 0.03),
        ("monte-carlo", 20, 0.1, 1.0),
    ):
        damaged, _ = drawn(n_samples=20_000, propensity=kind, strength=strength)
        ratio = clean.propensity / damaged.propensity - 1
        assert low < ratio[clean.propensity < 0.2].mean() < high


def test_missing_propensities_are_withheld_with_a_reason():
    problem, _ = drawn(propensity="missing")
    assert problem.propensity is None
    (record,) = evaluate("ipw", [f"damaged[environment={TOY!r},propensity=missing]"], replicates=1)
    assert record.status == "unavailable"
    assert "no propensities" in record.error_message


WORLDS = ("population[world=3,known=policy]", "population[world=12,known=policy]", BINARY)


@pytest.mark.parametrize("environment", WORLDS)
@pytest.mark.parametrize("share", [0.05, 0.3])
def test_support_removes_the_share_that_is_asked_and_contexts_keep_their_distribution(
    environment, share
):
    clean: Any
    damaged: Any
    clean, _ = drawn(environment, n_samples=6000)
    made = Damaged(environment, n_samples=6000, support=share)
    damaged, _ = made.sample(
        world_rng=stream("world", 0), logged_rng=stream("logs", 0), target_rng=stream("target", 0)
    )
    table = damaged.logging_policy.table(damaged.context)
    refused = table == 0
    rows = np.arange(6000)
    assert not refused[rows, damaged.action].any()
    # At most one action is refused in some contexts and not in others.
    assert sum(len(set(column)) == 2 for column in refused.T) <= 1
    mass = damaged.target_policy.table(damaged.context)[refused].sum() / 6000
    # Trials have a sealed copy.
    for one in (damaged, Seal(damaged).problem):
        assert made.examine(one, None)["damage_removed"] == pytest.approx(mass, rel=1e-9)
    # It is exact over the contexts of the first log, of which those of this one are a sample.
    target = clean.target_policy.table(clean.context)
    first = target[damaged.logging_policy.table(clean.context) == 0].sum() / 6000
    assert first == pytest.approx(share, abs=0.002)
    assert mass == pytest.approx(share, abs=0.03)
    np.testing.assert_allclose(damaged.propensity, table[rows, damaged.action])
    np.testing.assert_allclose(table.sum(axis=1), 1)
    old = np.where(refused, 0, clean.logging_policy.table(damaged.context))
    np.testing.assert_allclose(table, old / old.sum(axis=1, keepdims=True), atol=1e-12)
    error = np.nanstd(clean.context, axis=0) * math.sqrt(2 / 6000)
    gap = np.nanmean(damaged.context, axis=0) - np.nanmean(clean.context, axis=0)
    assert (np.abs(gap) < 4.5 * error + 1e-12).all()
    # What the policies say of the actions that are left is what the logs hold.
    played = np.bincount(damaged.action, minlength=table.shape[1]) / 6000
    assert np.abs(played - table.mean(axis=0)).max() < 5 * math.sqrt(0.25 / 6000)


def test_support_of_a_target_that_is_known_by_a_sample_is_that_of_its_rows():
    text = "population[world=3,known=policy,target_form=sample]"
    made = Damaged(text, n_samples=6000, support=0.2)
    problem: Any
    problem, _ = made.sample(
        world_rng=stream("world", 0), logged_rng=stream("logs", 0), target_rng=stream("target", 0)
    )
    table = problem.logging_policy.table(problem.target_context)
    share = (table[np.arange(6000), problem.target_action] == 0).mean()
    assert share == pytest.approx(0.2, abs=0.002)
    assert made.examine(problem, None)["damage_removed"] == pytest.approx(share)


RULE = "population[priors=2,world={},logging=rule,known=policy,target_form=probabilities]"


@pytest.mark.parametrize("world", [2, 3, 5, 7, 9, 10, 16, 18])
def test_support_removes_its_share_from_rules_and_leaves_them_a_twentieth(world):
    made: Any = Damaged(RULE.format(world), n_samples=1500, support=0.1)
    streams = {f"{name}_rng": stream(name, world) for name in ("world", "logged", "target")}
    problem: Any
    problem, _ = made.sample(**streams)
    population = made.wrapped._drawn().population
    context = population.context
    before, after = population.logging.table(context), problem.logging_policy.table(context)
    gone = (before > 0) & (after == 0)
    left = (before * ~gone).sum(axis=1)
    assert gone.any()
    assert left.min() >= 0.05
    np.testing.assert_allclose(after, before * ~gone / left[:, None], atol=1e-12)
    # The rule's own action is refused nowhere.
    assert not gone[np.arange(len(context)), before.argmax(axis=1)].any()
    share = (population.target.table(context) * gone).sum() / len(context)
    assert share == pytest.approx(0.1, abs=0.02)
    of_log = problem.target_policy.table(problem.context)
    was, now = (
        population.logging.table(problem.context),
        problem.logging_policy.table(problem.context),
    )
    removed = (of_log * ((was > 0) & (now == 0))).sum() / 1500
    assert made.examine(problem, None)["damage_removed"] == pytest.approx(removed, rel=1e-9)


@pytest.mark.parametrize(("world", "share"), [(4, 0.1), (8, 0.6), (13, 0.3), (6, 0.3)])
def test_a_share_that_a_rule_cannot_lose_is_refused_with_its_own_gap(world, share, monkeypatch):
    # No second log is drawn.
    monkeypatch.setattr(logged_rows, "MOST_LOGS", 1)
    made = Damaged(RULE.format(world), n_samples=2000, support=share)
    clean: Any
    with pytest.raises(UnavailableError, match="own gap is") as caught:
        made.sample(**{f"{name}_rng": stream(name) for name in ("world", "logged", "target")})
    clean, _ = made.wrapped.sample(
        **{f"{name}_rng": stream(name) for name in ("world", "logged", "target")}
    )
    gap = clean.target_policy.table(clean.context)[clean.logging_policy.table(clean.context) == 0]
    told = float(str(caught.value).split("own gap is ")[1].split(". ")[0])
    assert told == pytest.approx(gap.sum() / 2000, abs=1e-3)
    assert (told > 0) == (world != 6)


@pytest.mark.parametrize("world", [26, 69, 136, 172, 194])
def test_the_gap_of_the_logger_is_not_counted_as_removed(world):
    # Rules of lists without exploration can lose a part of a list.
    made = Damaged(RULE.format(world), n_samples=1000, support=0.05)
    problem, _ = made.sample(world_rng=stream("w"), logged_rng=stream("l"), target_rng=stream("t"))
    facts = made.examine(problem, None)
    assert facts["world_unsupported"] > 0.15
    assert facts["damage_removed"] == pytest.approx(0.05, abs=0.02)


def test_where_the_first_order_leaves_too_little_the_reverse_one_is_taken():
    # Of two actions, each can be refused alone: one of them has the larger mass.
    text = "population[world={},known=policy,n_actions=2,logging=uniform,target=deterministic]"
    for world in range(1, 8):
        made = Damaged(text.format(world), n_samples=1000, support=0.45)
        problem, _ = made.sample(
            world_rng=stream("w"), logged_rng=stream("l"), target_rng=stream("t")
        )
        assert made.examine(problem, None)["damage_removed"] == pytest.approx(0.45, abs=0.06)


@pytest.mark.parametrize("logging", ["thompson", "decreasing"])
@pytest.mark.parametrize("more", [{}, {"jitter": 0.2}, {"users": 3}, {"exploration": 0.5}])
def test_support_removes_its_share_from_loggers_that_learn(logging, more):
    world = (
        f"population[world=5,priors=2,known=policy,logging={logging},n_actions=8,users=one-row]"
    )
    made = Damaged(world, n_samples=1500, support=0.2, **more)
    problem, _ = made.sample(world_rng=stream("w"), logged_rng=stream("l"), target_rng=stream("t"))
    assert made.examine(problem, None)["damage_removed"] == pytest.approx(0.2, abs=0.04)


def test_drawn_faults_of_the_first_priors_remove_whole_actions_as_they_did():
    inner = "population[known=policy,n_samples=400,n_actions=6,logging=softmax,world={}]"
    ratio = {1: [], 2: []}
    for world in range(151, 211):
        for priors, found in ratio.items():
            made = Damaged(inner.format(world), drawn=True, priors=priors)
            share = made._as_drawn.support
            if share == 0:
                continue
            try:
                problem, _ = made.sample(
                    world_rng=stream("w"), logged_rng=stream("l"), target_rng=stream("t")
                )
            except UnavailableError:
                continue
            found.append(made.examine(problem, None)["damage_removed"] / share)
    assert max(ratio[1]) > 2
    assert min(ratio[1]) > 0.7
    # Contexts of the log are not quite those of the first log, whose share is exact.
    assert max(np.abs(np.array(ratio[2]) - 1)) < 0.7
    assert abs(np.median(ratio[2]) - 1) < 0.1


@pytest.mark.parametrize("exploration", [0.0, 0.1])
def test_a_rule_plays_the_likeliest_action_but_for_its_exploration(exploration):
    clean, truth = drawn(n_samples=4000)
    damaged, same = drawn(exploration=exploration, n_samples=4000)
    assert truth == same
    before = clean.logging_policy.table(damaged.context)
    expected = exploration * before
    rows = np.arange(4000)
    expected[rows, before.argmax(axis=1)] += 1 - exploration
    np.testing.assert_allclose(damaged.propensity, expected[rows, damaged.action], atol=1e-12)
    np.testing.assert_allclose(damaged.logging_policy.table(damaged.context), expected)
    likeliest = (damaged.action == before.argmax(axis=1)).mean()
    share = 1 - exploration + exploration * before.max(axis=1).mean()
    assert abs(likeliest - share) < 5 * math.sqrt(0.25 / 4000)
    gap = damaged.context.mean(axis=0) - clean.context.mean(axis=0)
    assert (np.abs(gap) < 5 * clean.context.std(axis=0) * math.sqrt(2 / 4000)).all()


def test_a_rule_on_equal_actions_plays_one_that_the_world_draws():
    text = "population[world=3,known=policy,logging=uniform,n_actions=5]"
    chosen = {
        int(drawn(text, seed, n_samples=50, exploration=0.0)[0].action[0]) for seed in range(8)
    }
    assert len(chosen) > 1
    assert len(set(drawn(text, n_samples=50, exploration=0.0)[0].action)) == 1


@pytest.mark.parametrize("environment", [TOY, "population[world=3,known=policy]"])
def test_near_copies_differ_in_one_number_and_in_nothing_else(environment):
    clean, _ = drawn(environment, n_samples=2000)
    damaged, truth = drawn(environment, n_samples=2000, jitter=0.25)
    assert truth == drawn(environment, n_samples=2000)[1]
    differ = damaged.context[1:] != damaged.context[:-1]
    copy = (differ.sum(axis=1) <= 1) & (damaged.action[1:] == damaged.action[:-1])
    copy &= damaged.reward[1:] == damaged.reward[:-1]
    assert abs(copy.sum() - 400) < 5 * math.sqrt(1600 * 0.25 * 0.75) + 10
    column = np.flatnonzero(differ[copy].any(axis=0))
    assert len(column) == 1
    step = (damaged.context[1:] - damaged.context[:-1])[copy, column[0]]
    assert step.std() == pytest.approx(0.05 * clean.context[:, column[0]].std(), rel=0.2)
    # Policies know the rows that the copies are of.
    rows = np.arange(2000)
    table = damaged.logging_policy.table(damaged.context)
    np.testing.assert_allclose(table[rows, damaged.action], damaged.propensity)
    assert not (damaged.context[1:] == damaged.context[:-1]).all(axis=1)[copy].any()


def test_rewards_come_after_exponential_times():
    clean, truth = drawn(BINARY, n_samples=20_000)
    damaged, same = drawn(BINARY, n_samples=20_000, late=0.1)
    assert truth == same
    left = 1 - (np.arange(20_000) + 0.5) / 20_000
    for part in (slice(19_000, 20_000), slice(16_000, 18_000), slice(0, 5000)):
        came = damaged.reward[part].sum() / clean.reward[part].sum()
        expected = (1 - np.exp(-left[part] / 0.1)).mean()
        assert came == pytest.approx(expected, abs=5 * math.sqrt(0.25 / clean.reward[part].sum()))
    assert set(np.unique(damaged.reward - clean.reward)) == {-1.0, 0.0}


@pytest.mark.parametrize(("n", "users"), [(100, 60), (100, 150), (37, 10), (10, 50)])
def test_rows_with_large_rewards_are_drawn_as_often_where_users_do_not_divide_them(n, users):
    world = "population[world=3,known=policy,reward=gaussian]"
    gap = []
    for seed in range(60):
        problem, _ = drawn(world, seed, n_samples=n, users=users)
        clean, _ = drawn(world, seed + 1000, n_samples=4 * n)
        assert len(problem.reward) == n
        gap.append((problem.reward.mean() - clean.reward.mean()) / clean.reward.std())
    # Leaving out the rows that fill no user moved this by -.13 and more.
    assert abs(np.mean(gap)) < 4 * np.std(gap) / math.sqrt(60)


@pytest.mark.parametrize("environment", [TOY, BINARY])
def test_drift_moves_the_mean_by_its_share_of_the_deviation(environment):
    clean, truth = drawn(environment, n_samples=20_000)
    damaged, same = drawn(environment, n_samples=20_000, drift=0.5)
    assert truth == same
    shift = damaged.reward - clean.reward
    end = shift[-5000:].mean()
    expected = 0.5 * clean.reward.std() * 0.875
    assert end == pytest.approx(expected, rel=0.12)
    assert abs(shift[:1000].mean()) < 0.05 * clean.reward.std()
    if damaged.reward_range is not None:
        assert set(np.unique(damaged.reward)) <= {0.0, 1.0}


@pytest.mark.parametrize("environment", [TOY, BINARY])
def test_rows_of_a_user_are_alike_and_each_row_is_as_likely_as_before(environment):
    values, spread = [], []
    for seed in range(40):
        problem, _ = drawn(environment, seed=seed, n_samples=500, users=10, named=True)
        assert len(problem.reward) == 500
        counts = np.unique(problem.unit, return_counts=True)[1]
        assert counts.max() <= 10
        assert len(counts) in (50, 51)
        means = [problem.reward[problem.unit == one].mean() for one in np.unique(problem.unit)]
        values.append(problem.reward.mean())
        spread.append(np.var(means) / (problem.reward.var() / 10))
        unnamed = drawn(environment, seed=seed, n_samples=500, users=10)[0]
        assert len(np.unique(unnamed.row_units[0])) == 500
    assert np.mean(spread) > 2.5
    clean = [drawn(environment, seed=seed, n_samples=500)[0].reward.mean() for seed in range(40)]
    gap = np.subtract(values, clean)
    assert abs(gap.mean()) < 4 * gap.std() / math.sqrt(40)


def test_copies_stand_below_their_rows():
    problem, _ = drawn(duplicates=0.25)
    n = len(problem.reward)
    assert n == 2000
    same = (problem.context[1:] == problem.context[:-1]).all(axis=1)
    same &= problem.reward[1:] == problem.reward[:-1]
    # Of 1,600 rows a quarter is written twice.
    assert abs(same.sum() - 400) < 5 * math.sqrt(1600 * 0.25 * 0.75)
    assert problem.unit is None or len(np.unique(problem.unit)) == n


def test_weights_of_retained_rows_give_back_what_was_left_out():
    clean, truth = drawn(BINARY, n_samples=50_000)
    kept, same = drawn(BINARY, n_samples=50_000, retention=0.1, weighted=True)
    assert truth == same
    assert set(np.unique(kept.row_weight)) == {1.0, 10.0}
    np.testing.assert_array_equal(kept.row_weight == 10, kept.reward == 0)
    weighted = np.average(kept.reward, weights=kept.row_weight)
    assert weighted == pytest.approx(clean.reward.mean(), abs=0.01)
    assert kept.reward.mean() > clean.reward.mean() + 0.2
    assert drawn(BINARY, retention=0.1)[0].row_weight is None


@pytest.mark.parametrize("odds", [1.5, 4.0])
def test_the_odds_given_the_hidden_cause_are_within_the_limit_and_reach_it(odds):
    factor = 1 / math.sqrt(2 * odds - 1)
    worst = 0.0
    for share in np.linspace(0.001, 0.999, 200):
        given = np.array(
            [share / (share + factor * (1 - share)), factor * share / (factor * share + 1 - share)]
        )
        logged = given.mean()
        # One action with the whole share, and one with nearly nothing of it.
        for part in (1.0, 1e-6):
            ratio = given * part / (1 - given * part) / (logged * part / (1 - logged * part))
            worst = max(worst, ratio.max(), (1 / ratio).max())
    assert worst <= odds * (1 + 1e-9)
    assert worst > odds * 0.98


def test_a_hidden_cause_leaves_contexts_propensities_and_the_value():
    text = "population[world=3,known=policy,reward=binary]"
    clean, truth = drawn(text, n_samples=20_000)
    damaged, same = drawn(text, n_samples=20_000, confounding=3.0)
    assert truth == same
    table = damaged.logging_policy.table(damaged.context)
    np.testing.assert_allclose(table.sum(axis=1), 1)
    np.testing.assert_allclose(damaged.propensity, table[np.arange(20_000), damaged.action])
    played = np.bincount(damaged.action, minlength=table.shape[1]) / 20_000
    assert np.abs(played - table.mean(axis=0)).max() < 5 * math.sqrt(0.25 / 20_000)
    gap = np.nanmean(damaged.context, axis=0) - np.nanmean(clean.context, axis=0)
    assert (
        np.abs(gap) < 4.5 * np.nanstd(clean.context, axis=0) * math.sqrt(2 / 20_000) + 1e-12
    ).all()


@pytest.mark.parametrize("environment", [TOY, BINARY])
def test_rewards_given_a_hidden_cause_have_the_value_as_center(environment):
    value = 0.3
    change = logged_rows.confounded(2.0, value, stream("half"))
    problem, _ = drawn(environment, n_samples=50_000)
    changed, keep = change(problem, stream("cause"))
    # Whatever the context, a row is accepted with the probability that is the factor.
    assert keep.mean() == pytest.approx(1 / math.sqrt(3), abs=5 * math.sqrt(0.25 / 50_000))
    expected = problem.reward.mean()
    if problem.reward_range is not None:
        expected = 0.5 * expected + 0.5 * value
        assert set(np.unique(changed.reward)) <= {0.0, 1.0}
    error = 5 * changed.reward.std() / math.sqrt(50_000)
    assert changed.reward.mean() == pytest.approx(expected, abs=error)
    # The cause moves both the reward and the action.
    assert abs(np.corrcoef(changed.reward[keep], changed.action[keep])[0, 1]) < 0.9


def test_late_rewards_are_0():
    clean, _ = drawn()
    damaged, _ = drawn(delay=0.1)
    assert (damaged.reward[-200:] == 0).all()
    np.testing.assert_array_equal(damaged.reward[:-200], clean.reward[:-200])


def test_the_facts_of_a_trial_name_the_dials():
    text = "damaged[environment='population[world=3]',drift=0.2,propensity=items]"
    (record,) = evaluate("logging-average", [text], replicates=1)
    facts = record.diagnostics
    assert facts["damages"] == 2
    assert facts["damage_propensity"] == "items"
    assert facts["damage_drift"] == 0.2
    assert facts["world"] == 3


def test_mistakes_are_named(monkeypatch):
    with pytest.raises(ParameterError, match="did you mean 'saito-toy'"):
        resolve("environment", "damaged", {"environment": "saito-tony"})
    with pytest.raises(ParameterError, match="worlds"):
        resolve("environment", "damaged", {"environment": "saito-toy[worlds=fixed]"})
    with pytest.raises(UnavailableError, match="logging policy"):
        drawn("population[world=3,known=propensity]", support=0.1)
    monkeypatch.setattr(logged_rows, "MOST_LOGS", 1)
    with pytest.raises(UnavailableError, match="weaken"):
        drawn(TOY, support=0.5)
    problem, _ = drawn()
    with pytest.raises(DataError, match=r"row_weight\[0\]"):
        replace(problem, row_weight=np.zeros(2000))


def test_a_grid_within_a_nested_environment_is_a_grid_of_the_outer_one():
    inner = "saito-toy[n_actions=[2,3],n_samples=2000]"
    both = specs_of("environment", f"damaged[environment='{inner}',drift=[0.1,1]]")
    assert [(one.params["environment"], one.params["drift"]) for one in both] == [
        ("saito-toy[n_actions=2,n_samples=2000]", 0.1),
        ("saito-toy[n_actions=2,n_samples=2000]", 1.0),
        ("saito-toy[n_actions=3,n_samples=2000]", 0.1),
        ("saito-toy[n_actions=3,n_samples=2000]", 1.0),
    ]
    with pytest.raises(UsageError, match="n_action"):
        specs_of("environment", 'damaged[environment="saito-toy[n_action=[2,3]]"]')


DRAWN = [f"population[world={world},known=policy]" for world in range(2000)]


def test_drawn_faults_come_as_often_as_their_priors_say():
    every = [drawn_faults(one) for one in DRAWN]
    known = {"named", "weighted", "strength", "known"}
    assert {len(one.keys() - known - {"propensity"}) for one in every} == set(range(MOST + 1))
    # P(a fault | at least one), of which at most three are kept.
    none = np.prod([1 - chance for chance in chances(1).values()])
    for name, chance in chances(1).items():
        if name == "propensity":
            continue
        seen = sum(
            getattr(Damaged, name) != one.get(name, getattr(Damaged, name)) for one in every
        )
        expected = 2000 * chance / (1 - none)
        assert 0.85 * expected < seen < 1.1 * expected
    missing = sum(one.get("propensity") == "missing" for one in every)
    assert missing == pytest.approx(300, abs=60)
    assert drawn_faults("a") == drawn_faults("a") != drawn_faults("b")


def test_the_second_priors_have_the_new_faults_too():
    every = [drawn_faults(one, priors=2) for one in DRAWN]
    none = np.prod([1 - chance for chance in chances(2).values()])
    for name in ("exploration", "jitter", "late", "support", "duplicates"):
        seen = sum(name in one for one in every)
        expected = 2000 * DAMAGES[name].chance / (1 - none)
        assert 0.7 * expected < seen < 1.05 * expected
    assert all(0 <= one.get("exploration", 0) <= 0.05 for one in every)
    made = Damaged("population[known=policy,n_samples=400,world=7]", drawn=True, priors=2)
    assert not made._as_drawn._by_first_priors


def test_drawn_faults_are_those_given_by_hand_and_told():
    made = Damaged("population[world=151,known=policy,n_samples=300]", drawn=True)
    text = str(made.environment)
    faults = drawn_faults(text)
    rngs = [{f"{name}_rng": stream(name) for name in ("world", "logged", "target")} for _ in "ab"]
    one, truth = made.sample(**rngs[0])
    other, same = Damaged(text, **faults).sample(**rngs[1])
    assert truth == same
    for name in ("context", "action", "reward"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    facts = made.examine(one, None)
    assert facts["damages"] == len(Damaged(text, **faults)._on)
    known = "samples" if one.propensity is None else "propensity"
    assert facts["world_known"] == ("policy" if one.logging_policy is not None else known)


def test_every_fault_is_a_parameter_with_a_line_and_one_place():
    """And says what it does, so that no list of names stands beside `DAMAGES`."""
    assert sorted(one.place for one in DAMAGES.values()) == list(range(1, len(DAMAGES) + 1))
    for name, damage in DAMAGES.items():
        assert name in Damaged(TOY).get_params(deep=False)
        assert f"\n{name}  " in inspect.getdoc(Damaged)
        assert (damage.keeps is None) != (damage.changes is None)
    in_order = sorted(DAMAGES, key=lambda name: DAMAGES[name].place)
    text = " ".join(Damaged.__doc__.split())
    assert f"The order of faults is {', '.join(in_order)};" in text
