"""Support in context: rules are found with the contexts that they lack, honest loggers are not."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from ope_bench import Log, TargetPolicy, advise
from ope_bench.logs import support
from ope_bench.logs.checks import check_log
from ope_bench.logs.finding import Check, Finding
from ope_bench.logs.support import choices, fit_logger, mean_bound, unsupported_rows


def columns(n: int, d: int, seed: int) -> tuple[np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng


def log_of(x: np.ndarray, a: np.ndarray, target: Any, p: Any = None, **given: Any) -> Log:
    """A log of number columns x0, x1, ..., whose rewards are noise."""
    frame = {f"x{j}": x[:, j] for j in range(x.shape[1])}
    frame |= {"a": a, "r": np.random.default_rng(1).random(len(a))}
    if isinstance(p, np.ndarray):
        frame["p"] = p
        given["propensity"] = "p"
    elif p is not None:
        given["propensity"] = p
    frame |= given.pop("more", {})
    names = [name for name in frame if name[0] in "xc"]
    return Log.from_frame(
        frame, context=names, action="a", reward="r", target=target,
        actions=[str(one) for one in np.unique(a)], **given,
    )  # fmt: skip


def of(log: Log, check: Check) -> Finding | None:
    return next((one for one in check_log(log).findings if one.check is check), None)


def mixed(rule: np.ndarray, other: np.ndarray, n_actions: int) -> np.ndarray:
    """A policy that follows the rule in nine of ten rows of the table, else the other rule."""
    table = np.zeros((len(rule), n_actions))
    table[np.arange(len(rule)), other] = 1.0
    return table


RULES = {
    "threshold": lambda x: (x[:, 1] > 0.3).astype(int),
    "both signs alike": lambda x: ((x[:, 0] > 0) ^ (x[:, 2] > 0)).astype(int),
    "linear in 16 columns": lambda x: (x @ np.linspace(-1, 1, 16) > 0).astype(int),
    "largest of linear scores": lambda x: (x[:, :4] @ np.eye(4)[:, :3]).argmax(axis=1) % 3,
}


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("form", ["estimated", "action", "one"])
def test_a_rule_is_found_in_every_form_with_its_mass(kind, form):
    x, rng = columns(3000, 16, 3)
    rule = RULES[kind](x)
    other = np.where(rng.random(3000) < 0.4, rng.permutation(rule), rule)
    lacking = float((other != rule).mean())
    table = mixed(rule, other, int(rule.max()) + 1)
    target = TargetPolicy(action=other) if form == "action" else TargetPolicy(table=table)
    p = {"estimated": "estimated", "action": None, "one": np.ones(3000)}[form]
    found = of(log_of(x, rule, target, p), Check.SUPPORT)
    assert found.value == pytest.approx(lacking, abs=0.04)
    assert found.decisive


def test_a_rule_of_two_of_many_columns_is_found():
    x, rng = columns(2000, 64, 3)
    rule = ((x[:, 3] > 0) ^ (x[:, 20] > 0.2)).astype(int)
    other = np.where(rng.random(2000) < 0.4, 1 - rule, rule)
    findings = check_log(log_of(x, rule, TargetPolicy(action=other))).findings
    found = {one.check: one for one in findings}
    assert found[Check.SUPPORT].value == pytest.approx((other != rule).mean(), abs=0.02)
    # One of several columns is not: 64 columns need 6,400 rows.
    size = found[Check.SUPPORT_SIZE]
    assert size.value == pytest.approx(60 * 2000 / 6400)
    assert not size.passed


def test_a_rule_of_a_large_log_is_found_at_its_threshold():
    # Rows from which forests tell 64 values of a column apart.
    rng = np.random.default_rng(7)
    n = 24_000
    x = rng.normal(size=(n, 2))
    a = (x[:, 0] > 0.123).astype(int)
    new = np.where(rng.random(n) < 0.3, 1 - a, a)
    frame = {"x": x[:, 0], "y": x[:, 1], "a": a, "r": rng.random(n), "new": new}
    log = Log.from_frame(
        frame, context=["x", "y"], action="a", reward="r", target={"action": "new"}
    )
    found = unsupported_rows(log, "target", fit_logger(log), None)
    assert found.mass == pytest.approx(np.mean(new != a), abs=0.015)


def test_the_sentence_names_the_contexts_that_are_missing():
    x, rng = columns(3000, 3, 0)
    rule = (x[:, 1] > 0.3).astype(int)
    new = np.where(rng.random(3000) < 0.4, 1, rule)
    names = np.array(["old", "new"])
    log = log_of(x, names[rule], TargetPolicy(action=names[new]))
    message = of(log, Check.SUPPORT).message
    said = message.partition("usual. ")[2]
    assert said.startswith("new where ")
    limit = float(said.split("x1 is under ")[1].split(" ")[0])
    assert limit == pytest.approx(0.3, abs=0.03)
    assert "was never logged" in said
    assert f"{(new != rule).mean():.0%} of the new policy's decisions" in said


def test_the_sentence_names_categories_by_their_words():
    x, rng = columns(1500, 1, 0)
    device = np.where(rng.random(1500) < 0.5, "phone", "desktop")
    rule = np.where(device == "phone", "new", "old")
    log = log_of(x, rule, TargetPolicy(action=np.full(1500, "old")), more={"c0": device})
    message = of(log, Check.SUPPORT).message
    assert re.search("old where c0 is (phone|not desktop) was never logged", message)
    assert log.condition("c0", 1.0) == "c0 is phone"
    log = log_of(x, rule, TargetPolicy(action=rule), more={"x1": np.where(x[:, 0] > 1, np.nan, 1)})
    assert log.condition("x1", 1.0) == "x1 is missing"


def test_a_logger_that_explores_seldom_is_doubted_and_not_refused():
    """It takes the other action in 1.5 % of its decisions, 3 % of what would be usual."""
    x, rng = columns(4000, 2, 3)
    rule = (x[:, 0] > 0).astype(int)
    a = np.where(rng.random(4000) < 0.015, 1 - rule, rule)
    found = of(log_of(x, a, TargetPolicy(action=1 - rule)), Check.SUPPORT)
    assert found.value > 0.3
    assert (found.passed, found.decisive) == (False, False)


@pytest.mark.parametrize("slope", [1.0, 2.0])
def test_loggers_that_explore_are_not_called_rules(slope):
    x, rng = columns(3000, 8, 5)
    chance = np.exp(slope * x[:, :3])
    chance /= chance.sum(axis=1, keepdims=True)
    a = (chance.cumsum(axis=1) < rng.random((3000, 1))).sum(axis=1)
    target = TargetPolicy(table=np.full((3000, 3), 1 / 3))
    p = chance[np.arange(3000), a]
    for given in (p, "estimated"):
        assert of(log_of(x, a, target, given), Check.SUPPORT).passed
    assert of(log_of(x, a, target, p), Check.EXPLORATION).passed


def test_exploration_of_five_percent_with_propensities_is_support():
    x, rng = columns(3000, 4, 6)
    greedy = (x[:, 0] > 0).astype(int)
    a = np.where(rng.random(3000) < 0.05, 1 - greedy, greedy)
    p = np.where(a == greedy, 0.95, 0.05)
    target = TargetPolicy(action=1 - greedy)
    assert of(log_of(x, a, target, p), Check.SUPPORT).passed
    # The same rows with propensities of 1: the mean weight is known to be wrong.
    found = of(log_of(x, a, target, np.ones(3000)), Check.SUPPORT)
    assert found.decisive
    # Without propensities one percent looks like none, and the advice names the other cause.
    few = np.where(rng.random(3000) < 0.01, 1 - greedy, greedy)
    said = of(log_of(x, few, target), Check.SUPPORT).message
    assert "If the logger explores, give its propensities" in said


def test_rows_of_one_user_do_not_read_as_a_rule_of_the_logger():
    """An A/B test by user, 20 rows each, and no unit named."""
    x, rng = columns(150, 3, 7)
    arm = rng.integers(2, size=150)
    rows = np.repeat(np.arange(150), 20)
    target = TargetPolicy(action=rng.integers(2, size=3000))
    assert of(log_of(x[rows], arm[rows], target), Check.SUPPORT).passed


def test_groups_of_many_actions_show_what_single_ones_cannot():
    x, rng = columns(6000, 2, 8)
    cell = (x[:, 0] > 0) * 2 + (x[:, 1] > 0)
    a = cell * 25 + rng.integers(25, size=6000)
    new = np.where(rng.random(6000) < 0.4, rng.permutation(cell), cell)
    target = TargetPolicy(action=new * 25 + rng.integers(25, size=6000))
    found = of(log_of(x, a, target), Check.SUPPORT)
    assert found.value == pytest.approx((new != cell).mean(), abs=0.06)
    fair = TargetPolicy(action=cell * 25 + rng.integers(25, size=6000))
    assert of(log_of(x, a, fair), Check.SUPPORT).value < 0.03


def test_the_mass_is_the_longest_run_by_a_plain_loop():
    x, rng = columns(1500, 3, 9)
    rule = (x[:, 0] > 0).astype(int)
    a = np.where(rng.random(1500) < 0.02, 1 - rule, rule)
    log = log_of(x, a, TargetPolicy(action=rng.integers(2, size=1500)))
    fitted = fit_logger(log)
    found = unsupported_rows(log, "target", fitted, None)
    new = choices(log.targets["target"], fitted.rows, len(log.actions))
    share = np.bincount(log.action)[new] / log.n
    score = fitted.probability[np.arange(log.n), new] / share
    # Ties are in another order, so that the run is the same up to them.
    matches = usual = longest = 0
    for k, row in enumerate(np.argsort(score, kind="stable"), start=1):
        matches += new[row] == log.action[row]
        usual += share[row]
        if chi2.ppf(0.95, 2 * (matches + 1)) / 2 <= 0.05 * usual:
            longest = k
    assert 0.2 < found.mass < 0.6
    assert found.mass == pytest.approx(longest / log.n, abs=0.02)
    assert found.findable == pytest.approx(0.1 * share.sum())


def test_the_halves_do_not_share_units():
    x, rng = columns(600, 2, 10)
    user = rng.integers(60, size=600)
    log = log_of(x, rng.integers(2, size=600), TargetPolicy(action=rng.integers(2, size=600)),
                 unit="u", more={"u": user})  # fmt: skip
    fitted = fit_logger(log)
    assert set(user[fitted.half == 0]).isdisjoint(user[fitted.half == 1])
    assert 0.3 < fitted.half.mean() < 0.7


def test_a_long_log_has_one_model_which_learns_from_other_units(monkeypatch):
    x, rng = columns(6000, 4, 11)
    rule = (x[:, 1] > 0.3).astype(int)
    user = np.arange(6000) // 3
    log = log_of(x, rule, TargetPolicy(action=rng.integers(2, size=6000)), unit="u",
                 more={"u": user})  # fmt: skip
    monkeypatch.setattr(support, "MOST_ROWS", 3000)
    monkeypatch.setattr(support, "_TRAIN_ROWS", 1000)
    drawn, predict = [], support._predict

    def remember(*given: Any) -> Any:
        drawn.append(given[2:4])
        return predict(*given)

    monkeypatch.setattr(support, "_predict", remember)
    fitted = fit_logger(log)
    ((train, test),) = drawn
    assert len(fitted.rows) == len(test) == pytest.approx(3000, abs=100)
    assert len(train) == pytest.approx(1000, abs=100)
    others = np.setdiff1d(np.arange(6000), fitted.rows)
    assert len(set(user[fitted.rows]) & set(user[others])) < len(set(user[fitted.rows]))
    found = unsupported_rows(log, "target", fitted, None)
    assert found.mass == pytest.approx(0.5, abs=0.05)
    assert set(found.rows) <= set(fitted.rows)


@pytest.mark.parametrize(("count", "n"), [(1, 400), (5, 2000), (40, 1000)])
def test_the_bound_of_equal_weights_is_that_of_a_poisson_count(count, n):
    weights = np.zeros(n)
    weights[:count] = 3.0
    assert mean_bound(weights) == pytest.approx(3 * chi2.ppf(0.99, 2 * (count + 1)) / 2 / n)
    assert mean_bound(np.zeros(n)) == 0.0


def test_choices_are_drawn_by_the_policys_probabilities():
    rng = np.random.default_rng(11)
    row = np.array([0.0, 0.2, 0.0, 0.5, 0.3])
    log = log_of(rng.normal(size=(9000, 1)), np.arange(9000) % 5,
                 TargetPolicy(table=np.tile(row, (9000, 1))))  # fmt: skip
    rows = np.arange(0, 9000, 2)
    drawn = choices(log.targets["target"], rows, len(log.actions))
    assert np.bincount(drawn, minlength=5) / 4500 == pytest.approx(row, abs=0.03)
    assert not np.bincount(drawn, minlength=5)[[0, 2]].any()


def test_a_log_too_small_to_see_support_is_not_trusted_without_propensities():
    x, rng = columns(300, 2, 12)
    a = rng.integers(2, size=300)
    log = log_of(x, a, TargetPolicy(action=rng.integers(2, size=300)))
    found = of(log, Check.SUPPORT_SIZE)
    assert found.passed is False
    assert found.value == pytest.approx(15, abs=2)
    assert advise(log, candidates=["dm-star[regressor=ridge]"]).verdict != "trust"


def test_a_holdout_that_always_gets_one_item_is_named_as_the_cause():
    """The platform logs p = 1 for a quarter of the users; mixed probabilities are right."""
    rng = np.random.default_rng(7)
    n = 6000
    segment, hold = rng.integers(0, 3, n), rng.random(n) < 0.25
    table = np.array([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
    new = np.tile([0.1, 0.3, 0.6], (3, 1))
    a = np.array(
        [0 if h else rng.choice(3, p=table[s]) for h, s in zip(hold, segment, strict=True)]
    )
    p = np.where(hold, 1.0, table[segment, a])
    mix = 0.25 * (a == 0) + 0.75 * table[segment, a]
    click = (rng.random(n) < np.array([0.3, 0.45, 0.6])[a]).astype(int)
    frame = {"s": segment, "a": a, "r": click, "q": new[segment, a], "p": p, "mix": mix}
    given = {"context": ["s"], "categorical": ["s"], "action": "a", "reward": "r", "target": "q"}
    found = advise(Log.from_frame(frame, propensity="p", **given))
    assert found.verdict == "run-an-experiment"
    assert "holdout" in found.recommended.first_action
    assert found.recommended.value is None
    assert "25% of the rows" in next(
        one.message for one in found.checks if one.check is Check.SUPPORT
    )
    # Nearly 1 is what a steep logger has somewhere.
    steep = Log.from_frame(frame | {"p": np.where(hold, 0.9995, p)}, propensity="p", **given)
    assert of(steep, Check.SUPPORT).passed is False
    assert "holdout" not in of(steep, Check.SUPPORT).message
    right = advise(Log.from_frame(frame, propensity="mix", **given))
    assert right.recommended.value == pytest.approx(0.5, abs=0.03)
    assert not [one for one in right.checks if one.decisive]


def test_a_rule_is_never_trusted_even_where_the_new_policy_is_the_rule():
    x, _ = columns(2000, 2, 13)
    rule = (x[:, 0] > 0).astype(int)
    log = log_of(x, rule, TargetPolicy(table=np.eye(2)[rule]), np.ones(2000))
    assert of(log, Check.EXPLORATION).passed is False
    assert advise(log, candidates=["ipws"]).verdict == "caution"
