"""`ab`: closed forms, equal policies, checks of probabilities, forms of logs, mistakes."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest
from scipy.special import stdtrit

from ope_bench import UsageError, ab
from ope_bench.cli.app import invoke
from ope_bench.statistics.policy_difference import TwoLogs

A, B, Q = np.array([0.4, 0.35, 0.25]), np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.12, 0.15])
COLUMNS = {"probability_a": "pa", "probability_b": "pb", "reward": "r"}
TRUTH = float((A - B) @ Q)


def draw(rows_a, rows_b, seed=0, a=A, b=B):
    """Draw two logs without context as mappings of columns."""
    rng = np.random.default_rng(seed)
    logs = []
    for rows, own in ((rows_a, a), (rows_b, b)):
        action = rng.choice(3, rows, p=own)
        logs.append(
            {
                "item": np.array(list("uvw"))[action],
                "pa": a[action],
                "pb": b[action],
                "r": (rng.random(rows) < Q[action]).astype(float),
                "x": rng.standard_normal(rows),
            }
        )
    return logs


def two(logs, **other):
    """Return the two logs as arrays."""
    rows = [len(one["r"]) for one in logs]
    both = {key: np.concatenate([one[key] for one in logs]) for key in ("pa", "pb", "r")}
    n = sum(rows)
    given = {"a": both["pa"], "b": both["pb"], "reward": both["r"]} | other
    given = {
        "row_weight": np.ones(n),
        "unit": np.arange(n),
        "in_a": np.arange(n) < rows[0],
    } | given
    return TwoLogs(**given)


def exact_error(rows_a, rows_b):
    """Return the standard deviation of the difference, by summing over actions and rewards."""
    n = rows_a + rows_b
    g = (A - B) / ((rows_a * A + rows_b * B) / n)
    variance = 0.0
    for rows, own in ((rows_a, A), (rows_b, B)):
        mean = float(own @ (g * Q))
        variance += rows * (float(own @ (g**2 * Q)) - mean**2)
    return math.sqrt(variance) / n


@pytest.mark.parametrize("rows", [(2000, 2000), (3000, 1000)])
def test_the_value_is_the_formula_and_its_error_that_of_enumeration(rows):
    found, errors = [], []
    for seed in range(150):
        logs = draw(rows[0], rows[1], seed=seed)
        value, error, _ = two(logs).difference()
        found.append(value)
        errors.append(error)
    g = (A - B) / ((rows[0] * A + rows[1] * B) / sum(rows))
    by_hand = sum(
        float((g["uvw".index(item)]) * r)
        for one in logs
        for item, r in zip(one["item"], one["r"], strict=True)
    )
    assert found[-1] == pytest.approx(by_hand / sum(rows), rel=1e-12)
    exact = exact_error(*rows)
    assert np.mean(errors) == pytest.approx(exact, rel=0.03)
    assert np.std(found) == pytest.approx(exact, rel=0.15)
    assert np.mean(found) == pytest.approx(TRUTH, abs=4 * exact / math.sqrt(150))


def test_the_golden_deviations():
    assert exact_error(2000, 2000) == pytest.approx(0.0011, abs=0.00006)
    assert exact_error(3000, 1000) == pytest.approx(0.00104, abs=0.00006)


def test_equal_rewards_have_means_that_differ_by_exactly_nothing():
    """Not by the 1e-16 of rounding, with an interval that leaves 0 out."""
    rng = np.random.default_rng(0)
    logs = []
    for n in (49, 61):
        p = rng.uniform(0.2, 0.8, n)
        logs.append({"reward": np.full(n, 0.7), "p_a": p, "p_b": 1 - p})
    found = ab(*logs, probability_a="p_a", probability_b="p_b", reward="reward")
    means = found.difference["difference_of_means"]
    assert (means["value"], means["low"], means["high"]) == (0, 0, 0)


def test_equal_policies_differ_by_exactly_nothing():
    logs = draw(500, 300, b=A)
    for context in ([], ["x"]):
        found = ab(*logs, **COLUMNS, context=context, action="item")
        assert [found.difference[key] for key in ("value", "low", "high")] == [0.0, 0.0, 0.0]
        assert found.sequence == {"low": 0.0, "high": 0.0}
        assert found.rows_needed == 0
        assert found.better is None


def test_probabilities_that_differ_by_rounding_are_equal():
    logs = draw(300, 300, a=B, b=B)
    for one in logs:
        one["pb"] = one["pa"] * (1 + 2e-16)
    found = ab(*logs, action="item", **COLUMNS)
    assert (found.difference["value"], found.better) == (0.0, None)


def test_without_any_check_no_policy_wins():
    a, b = np.array([0.001, 0.999]), np.array([0.999, 0.001])
    logs = [
        {"item": ["u"] * 20, "pa": [p] * 20, "pb": [q] * 20, "r": [r] * 20}
        for p, q, r in ((a[0], b[0], 1.0), (b[0], a[0], 0.0))
    ]
    found = ab(*logs, action="item", **COLUMNS)
    assert not found.checks
    assert found.better is None
    assert "Cannot tell" in found.opening()


def test_arms_by_a_column_are_the_two_logs():
    logs = draw(300, 200)
    joined = {key: np.concatenate([one[key] for one in logs]) for key in logs[0]}
    joined["who"] = np.array(["new"] * 300 + ["old"] * 200)
    order = np.random.default_rng(1).permutation(500)
    one = ab({key: values[order] for key, values in joined.items()}, arm="who", **COLUMNS)
    apart = ab(*logs, **COLUMNS)
    assert one.difference["value"] == pytest.approx(apart.difference["value"], rel=1e-12)
    assert [arm["name"] for arm in one.arms] == ["new", "old"]
    assert [arm["name"] for arm in apart.arms] == ["A", "B"]


def test_swapped_logs_and_columns_turn_the_sign():
    first, second = draw(400, 300, seed=3)
    turned = COLUMNS | {"probability_a": "pb", "probability_b": "pa"}
    there, back = ab(first, second, **COLUMNS), ab(second, first, **turned)
    for key, other in (("value", "value"), ("low", "high"), ("high", "low")):
        assert there.difference[key] == pytest.approx(-back.difference[other], rel=1e-9)


def test_a_row_of_weight_two_is_that_row_twice():
    logs = draw(300, 300, seed=4)
    for one in logs:
        one["w"] = np.tile([1.0, 2.0], 150)
        one["u"] = np.arange(300)
    twice = [{key: np.repeat(one[key], one["w"].astype(int)) for key in one} for one in logs]
    for number, one in enumerate(logs):
        one["u"] = one["u"] + 1000 * number
        twice[number]["u"] = twice[number]["u"] + 1000 * number
    weighted = ab(*logs, **COLUMNS, weight="w", unit="u")
    doubled = ab(*twice, **COLUMNS, unit="u")
    for key in ("value", "low", "high"):
        assert weighted.difference[key] == pytest.approx(doubled.difference[key], rel=1e-9)
    assert weighted.sequence == {"low": None, "high": None}


def test_rows_of_one_unit_widen_the_interval():
    logs = draw(300, 300, seed=5)
    copies = [{key: np.repeat(values, 4) for key, values in one.items()} for one in logs]
    for number, one in enumerate(copies):
        one["u"] = np.repeat(np.arange(300), 4) + 1000 * number
    alone, naive = ab(*logs, **COLUMNS), ab(*copies, **COLUMNS)
    right = ab(*copies, **COLUMNS, unit="u")
    assert right.difference["high"] == pytest.approx(alone.difference["high"], rel=1e-9)
    assert naive.difference["high"] < right.difference["high"]


def test_a_model_of_the_reward_takes_what_the_context_explains():
    logs = draw(1500, 1500, seed=6)
    for one in logs:
        one["r"] = one["r"] + 20.0 + 3.0 * one["x"]
    plain = ab(*logs, **COLUMNS)
    modeled = ab(*logs, **COLUMNS, context=["x"])
    width = [one.difference["high"] - one.difference["low"] for one in (plain, modeled)]
    assert width[1] < width[0] / 20
    assert modeled.difference["low"] < TRUTH < modeled.difference["high"]
    assert any("--context" in one for one in plain.notes)


def test_the_sequence_holds_at_every_look_and_is_wider():
    missed = 0
    for seed in range(12):
        logs = draw(900, 300, seed=seed)
        for rows in (50, 300):
            part = [
                {k: v[: rows * m] for k, v in one.items()}
                for one, m in zip(logs, (3, 1), strict=True)
            ]
            found = two(part).sequence((0.0, 1.0))
            missed += not found.low <= TRUTH <= found.high
            value, error, _ = two(part).difference()
            assert found.low < value - 1.96 * error
            assert found.high > value + 1.96 * error
    assert missed <= 1


def test_few_rewards_widen_the_interval_and_none_decides_nothing():
    logs = draw(300, 300, seed=7)
    for one in logs:
        one["r"] = np.zeros(300)
    silent = ab(*logs, **COLUMNS)
    assert silent.difference["low"] is None
    assert silent.rows_needed is None
    assert "Cannot tell" in silent.opening()
    logs[0]["r"][np.flatnonzero(logs[0]["item"] == "u")[:2]] = 1.0
    arrays = two(logs)
    _, error, _ = arrays.difference()
    assert error >= np.linalg.norm(arrays.g) * arrays.reward.std() / 600 * (1 - 1e-12)


def test_rows_needed_bring_the_wanted_width():
    logs = draw(500, 500, seed=8)
    found = ab(*logs, **COLUMNS)
    assert found.rows_needed == 3000
    low, high = found.difference["low"], found.difference["high"]
    wanted = ab(*logs, **COLUMNS, width=(high - low) / 1.5)
    assert wanted.rows_needed == math.ceil(1000 * 1.5**2 - 1000)
    assert ab(*logs, **COLUMNS, width=1.0).rows_needed == 0
    with pytest.raises(UsageError, match="width: 1e-300"):
        ab(*logs, **COLUMNS, width=1e-300)


WRONG = {
    "the other's": lambda p, one: one["pb"],
    "constant": lambda p, one: np.full(len(p), 1 / 3),
    "half": lambda p, one: p / 2,
    "more": lambda p, one: p * 1.2,
    "squared": lambda p, one: p**2,
}


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("arm", [0, 1])
def test_a_wrong_column_in_one_log_fails_a_check_and_no_policy_wins(kind, arm):
    own = ("pa", "pb")[arm]
    for seed in range(5):
        logs = draw(2000, 2000, seed=seed, b=np.array([0.2, 0.2, 0.6]))
        logs[arm][own] = np.minimum(WRONG[kind](logs[arm][own], logs[1 - arm] | logs[arm]), 1)
        if kind == "the other's" and arm == 1:
            logs[1]["pb"] = logs[1]["pa"]
        found = ab(*logs, **COLUMNS, action="item")
        assert not all(one["passed"] for one in found.checks), (kind, seed)
        assert found.better is None


def test_right_columns_pass_in_19_of_20_logs():
    failed = 0
    for seed in range(40):
        found = ab(*draw(2000, 2000, seed=seed), **COLUMNS, action="item", context=["x"])
        failed += not all(one["passed"] for one in found.checks)
    assert failed <= 5


def test_other_decisions_in_one_log_fail_the_check_of_contexts():
    logs = draw(2000, 2000)
    logs[0]["x"] = logs[0]["x"] + 0.3
    found = ab(*logs, **COLUMNS, context=["x"])
    assert [one["name"] for one in found.checks if not one["passed"]] == ["context"]


def test_an_effect_beyond_the_actions_is_found():
    logs = draw(2000, 2000)
    logs[1]["r"] = logs[1]["r"] + 0.1
    found = ab(*logs, **COLUMNS, action="item")
    failed = [one["name"] for one in found.checks if not one["passed"]]
    assert failed == ["rewards beyond the actions"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write both logs as files of different kinds."""
    logs = draw(400, 300, seed=9)
    monkeypatch.chdir(tmp_path)
    with open("first.csv", "w", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(logs[0])
        writer.writerows(zip(*(one.tolist() for one in logs[0].values()), strict=True))
    lines = [
        dict(zip(logs[1], row, strict=True))
        for row in zip(*map(list, logs[1].values()), strict=True)
    ]
    with open("second.jsonl", "w") as file:
        file.writelines(
            json.dumps({k: getattr(v, "item", lambda v=v: v)() for k, v in one.items()}) + "\n"
            for one in lines
        )
    return logs


OPTIONS = ["--probability-a", "pa", "--probability-b", "pb", "--reward", "r"]


def test_the_command_reads_any_form_and_its_document_has_the_keys(files, capsys):
    named = ["ab", "first.csv", "second.jsonl", *OPTIONS, "--action", "item", "--context", "x"]
    assert invoke([*named, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document) == [
        *("schema", "arms", "difference", "sequence", "rows_needed", "checks")
    ]
    assert [one["name"] for one in document["arms"]] == ["first", "second"]
    assert set(document["difference"]) == {"value", "low", "high", "difference_of_means"}
    assert set(document["checks"][0]) == {"name", "value", "limit", "passed"}
    given = ab(*files, **COLUMNS, action="item", context=["x"])
    assert document["difference"]["value"] == pytest.approx(given.difference["value"], rel=1e-12)
    assert invoke(named) == 0
    assert "first minus second" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["first.csv", *OPTIONS], "--arm"),
        (["first.csv", "second.jsonl", *OPTIONS, "--arm", "item"], "--arm"),
        (["first.csv", *OPTIONS, "--arm", "item"], "3 values"),
        (["first.csv", "second.jsonl", *OPTIONS[:4]], "--reward"),
        (["first.csv", "second.jsonl", *OPTIONS[:3], "q", *OPTIONS[4:]], "'q'"),
        (["first.csv", "second.jsonl", *OPTIONS, "--width", "0"], "width"),
        (["first.csv", "second.jsonl", *OPTIONS, "--level", "95"], "level"),
        (["first.csv", "second.jsonl", *OPTIONS, "--reward-range", "2,3"], "reward_range"),
        (["first.csv", "second.jsonl", *OPTIONS, "--context", "pa"], "'pa'"),
        (["first.csv", "third.csv", *OPTIONS], "third.csv: no such file"),
        (["first.csv", ".", *OPTIONS], "folder"),
    ],
)
def test_a_mistake_is_one_line(files, capsys, arguments, said):
    assert invoke(["ab", *arguments]) == 2
    message = capsys.readouterr().err
    assert said in message
    assert message.count("\n") == 1


def test_a_policy_that_chose_with_probability_nothing_is_refused():
    logs = draw(50, 50)
    logs[0]["pa"] = np.where(np.arange(50) == 3, 0.0, logs[0]["pa"])
    with pytest.raises(UsageError, match=r"row 3.*'pa'.*swapped"):
        ab(*logs, **COLUMNS)


def test_few_units_that_carry_the_error_widen_the_interval():
    logs = draw(2000, 2000, seed=8)
    found, heavy = two(logs), two(logs, reward=two(logs).reward + 0.0)
    _, error, carry = found.difference()
    parts = found.by_unit(found.g * found.reward)[1]
    assert error == pytest.approx(math.sqrt(parts @ parts) / 4000)
    assert carry == pytest.approx(1 + (parts @ parts) ** 2 / (parts**4).sum())
    heavy.reward[0] = 400.0
    assert heavy.difference()[2] < 3 < 100 < carry
    ends = ab(*logs, **COLUMNS).difference
    assert (ends["high"] - ends["low"]) / 2 == pytest.approx(stdtrit(carry - 1, 0.975) * error)


def test_one_row_tells_no_error_and_the_sequence_stays_in_the_range():
    first, second = draw(2, 300, seed=9)
    found = ab(first, second, **COLUMNS)
    assert -1 <= found.sequence["low"] < found.sequence["high"] <= 1
    single = {key: values[:1] for key, values in first.items()}
    with pytest.raises(UsageError, match="one row"):
        ab(single, second, **COLUMNS)
    users = {"u": np.zeros(2)}, {"u": np.arange(300.0)}
    with pytest.raises(UsageError, match="one unit"):
        ab(first | users[0], second | users[1], **COLUMNS, unit="u")


@pytest.mark.parametrize("given", ["1", "a,b", "0,1,2", "1,0"])
def test_a_range_that_is_none_is_refused(given, tmp_path, capsys):
    first, second = draw(60, 60)
    paths = []
    for name, log in (("a", first), ("b", second)):
        paths.append(str(tmp_path / f"{name}.csv"))
        with open(paths[-1], "w", newline="") as file:
            csv.writer(file).writerows([list(log), *zip(*log.values(), strict=True)])
    options = ["--probability-a", "pa", "--probability-b", "pb", "--reward", "r"]
    assert invoke(["ab", *paths, *options, "--reward-range", given]) == 2
    assert "range" in capsys.readouterr().err


def test_actions_that_are_rare_have_no_check_and_it_is_said():
    logs = draw(100, 100)
    for one in logs:
        one["item"] = np.arange(100)
    found = ab(*logs, **COLUMNS, action="item")
    assert "no action is frequent enough for a check of its own" in found.notes


@pytest.mark.parametrize("context", [["*"], ["item"], ["who"], ["r"], ["pa"]])
def test_what_is_known_after_the_choice_is_no_context(context):
    logs = draw(60, 60)
    joined = {key: np.concatenate([one[key] for one in logs]) for key in logs[0]}
    joined["who"] = np.repeat(["new", "old"], 60)
    with pytest.raises(UsageError, match="leave it out"):
        ab(joined, arm="who", **COLUMNS, action="item", context=context)


def test_constant_and_huge_rewards_are_answered():
    logs = draw(300, 300)
    for one in logs:
        one["r"] = np.full(300, 3.0)
    found = ab(*logs, **COLUMNS, context=["x"])
    assert found.difference["value"] == 0
    assert found.difference["low"] is None
    logs[0]["r"] = np.full(300, 1e200)
    with pytest.raises(UsageError, match="divide"):
        ab(*logs, **COLUMNS)


def test_a_mistake_in_the_second_log_is_named_once():
    logs = [one | {"e": [[0.0] * (2 + k)] * 60} for k, one in enumerate(draw(60, 60))]
    with pytest.raises(UsageError) as caught:
        ab(*logs, **COLUMNS, context=["e"])
    assert str(caught.value).count("the frame") < 3


@pytest.mark.parametrize("rows", [(2, 300), (40, 7)])
def test_the_difference_of_means_has_the_error_of_unequal_variances(rows):
    first, second = (one["r"] + one["x"] for one in draw(rows[0], rows[1], seed=11))
    logs = draw(rows[0], rows[1], seed=11)
    for one, reward in zip(logs, (first, second), strict=True):
        one["r"] = reward
    value, error, carry = two(logs).difference_of_means()
    by_hand = math.sqrt(first.var(ddof=1) / rows[0] + second.var(ddof=1) / rows[1])
    assert value == pytest.approx(first.mean() - second.mean())
    assert error == pytest.approx(by_hand)
    assert 1 < carry - 1 < sum(rows)


def test_the_spread_of_all_rewards_is_carried_by_all_units():
    reward = np.zeros(600)
    reward[np.abs(two(draw(300, 300, seed=12)).g).argsort()[:4]] = 1.0
    found = two(draw(300, 300, seed=12), reward=reward)
    _, error, carry = found.difference()
    assert error == pytest.approx(np.linalg.norm(found.g) * reward.std() / 600)
    assert error > found.mean(found.g * reward)[1]
    assert carry == 600
