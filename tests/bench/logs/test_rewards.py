"""Several rewards of one log: each result is that of the reward alone; statements about all."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

import ope_bench
from ope_bench import Log, UsageError
from ope_bench.cli.app import invoke
from ope_bench.logs.rewards import conditions_of, statements

ESTIMATORS = ["ipws", "dm[regressor=ridge]"]
KEYS = "context: [x]\naction: model\npropensity: p\ntarget: {table: new.csv}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A router's log: a new policy raises quality and cost."""
    to = tmp_path_factory.mktemp("router")
    rng = np.random.default_rng(1)
    n, share = 900, np.array([0.4, 0.3, 0.3])
    x, action = rng.standard_normal(n), rng.choice(3, n, p=share)
    quality = rng.random(n) < 1 / (1 + np.exp(-(0.3 * x + np.array([0.0, 0.5, 1.0])[action])))
    cost = np.array([0.2, 0.1, 0.5])[action] * rng.gamma(4, 0.25, n)
    new = np.where(x > 0, 1, 2)
    columns = {"x": x, "model": [f"m{k}" for k in action], "p": share[action]}
    columns |= {"quality": quality.astype(int), "cost": cost, "day": np.arange(n) % 2}
    pl.DataFrame(columns).write_csv(to / "router.csv")
    chances = {f"m{k}": 0.1 / 3 + 0.9 * (new == k) for k in range(3)}
    pl.DataFrame(chances).write_csv(to / "new.csv")
    for name, reward in (("both", "[quality, cost]"), ("quality", "quality"), ("cost", "cost")):
        text = f"schema: 1\ntable: router.csv\nreward: {reward}\n{KEYS}"
        (to / f"{name}.yaml").write_text(text, encoding="utf-8")
    return to


def without_seconds(result: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(result.as_json()))
    for target in document["targets"]:
        for row in target["rows"]:
            del row["seconds"]
    return document


def test_each_reward_has_the_numbers_that_it_has_alone(folder):
    both = Log.read(folder / "both.yaml")
    together: Any = ope_bench.estimate(both, ESTIMATORS)
    assert list(together.results) == ["quality", "cost"]
    for name in ("quality", "cost"):
        alone = ope_bench.estimate(Log.read(folder / f"{name}.yaml"), ESTIMATORS)
        assert without_seconds(together[name]) == without_seconds(alone)
    assert {line["reward"] for line in together.records()} == {"quality", "cost"}
    assert [table.title.partition(" | ")[0] for table in together.tables()] == ["quality", "cost"]
    checked: Any = both.check()
    assert checked["cost"].as_json() == Log.read(folder / "cost.yaml").check().as_json()


def test_advice_says_higher_and_the_statement_holds_where_every_condition_does(folder, capsys):
    def run(require: str) -> tuple[int, dict[str, Any]]:
        file = str(folder / "both.yaml")
        code = invoke(["advise", file, "--require", require, "--format", "json", "--jobs", "1"])
        return code, json.loads(capsys.readouterr().out)

    code, document = run("quality >= today, cost <= today")
    assert code == 1
    (said,) = document["require"]
    assert [one["holds"] for one in said["conditions"]] == [True, False]
    assert not said["holds"]
    assert [one["reward"] for one in document["rewards"]] == ["quality", "cost"]
    answers = [(one["reward"], one["target"], one["verdict"]) for one in document["answers"]]
    assert answers == [(one, "target", "trust") for one in ("quality", "cost")]
    ends = document["rewards"][1]
    assert ends["lift"]["low"] > 0
    result = ope_bench.advise(Log.read(folder / "both.yaml"))
    assert "higher? Higher" in result.opening()
    assert "better" not in result.opening()
    high = ends["recommended"]["high"]
    for limit, holds in ((high + 1e-6, True), (high - 1e-6, None), (0.0, False)):
        made = conditions_of(f"quality >= today, cost <= {limit}", ["quality", "cost"])
        (statement,) = statements(result, "quality", made)
        assert list(statement.conditions.values()) == [True, holds]
        assert statement.holds == (holds is True)


def test_of_several_policies_and_rewards_the_first_is_the_highest(folder):
    text = (folder / "both.yaml").read_text(encoding="utf-8")
    two = "target: {a: {table: new.csv}, b: {table: new.csv}}"
    path = folder / "two.yaml"
    path.write_text(text.replace("target: {table: new.csv}", two), encoding="utf-8")
    result = ope_bench.advise(Log.read(path))
    assert result.opening().count("may be the highest") == 2
    assert "best" not in result.opening()
    made = conditions_of("quality >= today, cost <= 9", ["quality", "cost"])
    found = statements(result, "quality", made)
    assert [(one.policy, one.holds) for one in found] == [("a", True), ("b", True)]


def test_without_conditions_nothing_is_stated(folder, capsys):
    assert invoke(["advise", str(folder / "cost.yaml"), "--jobs", "1"]) == 0
    assert "holds" not in capsys.readouterr().out.partition("\n\n")[0]
    assert invoke(["advise", str(folder / "cost.yaml"), "--jobs", "1", "--require", "better"]) == 0
    out = capsys.readouterr().out.partition("\n\n")[0]
    assert "holds" not in out
    asked = ["--require", "cost >= today, cost >= 0"]
    assert invoke(["advise", str(folder / "cost.yaml"), "--jobs", "1", *asked]) == 0
    out = capsys.readouterr().out.partition("\n\n")[0]
    assert "target: holds (cost >= today: yes, cost >= 0: yes)" in " ".join(out.split())


def advice(**chosen: float | None) -> Any:
    return SimpleNamespace(doubted=False, recommended=SimpleNamespace(**chosen))


@pytest.mark.parametrize(
    ("text", "ends", "holds"),
    [
        ("r >= today", (0.0, 0.2), True), ("r >= today", (-0.01, 0.2), None),
        ("r >= today", (-0.2, -0.01), False), ("r <= today", (-0.2, 0.0), True),
        ("r <= today", (-0.2, 0.01), None), ("r <= today", (0.01, 0.2), False),
    ],
)  # fmt: skip
def test_a_condition_holds_where_the_whole_interval_does(text, ends, holds):
    (condition,) = conditions_of(text, ["r"])
    found = advice(lift_low=ends[0], lift_high=ends[1], low=None, high=None)
    assert condition.holds(found) is holds
    found.doubted = True
    assert condition.holds(found) is None
    assert condition.holds(advice(lift_low=None, lift_high=None)) is None
    assert condition.holds(SimpleNamespace(doubted=False, recommended=None)) is None


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("better", "quality >= today"), ("quality > today", "quality >= today"),
        ("quality >= nan", "quality >= today"), ("qualty >= today", "'quality'"),
        ("quality >= today,", "quality >= today"), ("quality >= 0,2", "'2'"), ("", "quality"),
    ],
)  # fmt: skip
def test_what_is_no_condition_is_answered_by_one(text, hint):
    with pytest.raises(UsageError, match=hint):
        conditions_of(text, ["quality", "cost"])


def test_names_of_rewards_may_hold_commas_and_quotes():
    rewards = ["cost, usd", "quality"]
    for text in ("cost, usd <= .2, quality >= today", '"cost, usd"<=.2,quality>=today'):
        first, second = conditions_of(text, rewards)
        assert (first.reward, first.sign, first.limit) == ("cost, usd", -1, 0.2)
        assert (second.reward, second.sign, second.limit) == ("quality", 1, None)


def test_the_page_shows_all_rewards_and_segments(folder, tmp_path):
    page = tmp_path / "page.html"
    file, common = str(folder / "both.yaml"), ["--report", str(page), "--jobs", "1", "--by", "day"]
    for command in (["advise", file], ["estimate", file, "--est", "ipws"]):
        assert invoke([*command, *common]) == 0
        text = page.read_text(encoding="utf-8")
        headings = re.findall("<h2>([^<]*)</h2>", text)
        for reward in ("quality", "cost"):
            assert any(one.startswith(f"{reward}: ") for one in headings)
        assert headings.count("The log") == 1
        assert text.count("target by day") == 2
        names = re.findall('<section id="([^"]*)"', text)
        charts = re.findall('data-chart="([^"]*)"', text)
        assert len(set(names)) == len(names)
        assert len(set(charts)) == len(charts) > 3


def test_a_row_without_one_reward_is_left_out_of_all(folder, tmp_path):
    table = pl.read_csv(folder / "router.csv", infer_schema=False)
    gaps = pl.Series(range(table.height)) % 10 == 3
    holes = table.with_columns(cost=pl.when(gaps).then(None).otherwise(pl.col("cost")))
    new = pl.read_csv(folder / "new.csv").to_numpy()
    names = {"context": ["x"], "action": "model", "propensity": "p"}
    target = {"actions": ["m0", "m1", "m2"], "target": new}
    log = Log.from_frame(holes, **names, **target, reward=["quality", "cost"], drop_missing=True)
    assert log.n == table.height - int(gaps.sum())
    with pytest.raises(UsageError, match="cost"):
        Log.from_frame(holes, **names, **target, reward=["quality", "cost"])


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"reward": ["quality", "quality"]}, "both reward and reward"),
        ({"reward": []}, "reward: names no column"),
        ({"reward": ["quality", "x"]}, "both context and reward"),
        ({"reward": ["quality", "cost"], "reward_range": (0, 1)}, "reward_range"),
        ({"reward": ["quality", "costs"]}, "cost"),
    ],
)
def test_rewards_that_cannot_be_are_refused(folder, keys, what):
    table = pl.read_csv(folder / "router.csv")
    with pytest.raises(UsageError, match=what):
        Log.from_frame(table, context=["x"], action="model", target={"action": "model"}, **keys)


def test_where_one_reward_is_needed_the_log_says_which_there_are(folder):
    log = Log.read(folder / "both.yaml")
    for need in (
        lambda: log.problem(None, np.random.default_rng(0)),
        lambda: ope_bench.shortlist(log),
    ):
        with pytest.raises(UsageError, match=r"quality.*cost"):
            need()


def test_options_of_a_table_take_several_rewards_and_save_them(folder, tmp_path, capsys):
    to = folder / "saved.yaml"
    options = ["--context", "x", "--action", "model", "--reward", "quality,cost"]
    options += ["--propensity", "p", "--target-table", str(folder / "new.csv")]
    assert invoke(["log", "check", str(folder / "router.csv"), *options, "--save", str(to)]) == 0
    assert Log.read(to).spec.rewards == ("quality", "cost")
    assert "quality | " in capsys.readouterr().out
