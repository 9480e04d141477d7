"""Verdicts of tools on logs whose answer is known: what they say, and what it costs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from draws import verdicts
from draws.outside_worlds import FAULTS, LOGGERS, outside_log
from judging.advice.verdicts import (
    TOOLS,
    difference,
    lift_of,
    readme_sentence,
    sure,
    verdict_pages,
)

from ope_bench import FloatArray
from support.paths import ROOT

LOG: dict[str, Any] = {
    "truth": 1.2,
    "today": 1.0,
    "deviation": 2.0,
    "error": 0.0,
    "average": 1.0,
    "rows": 2_000,
    "size": 1_700.0,
    "better": "better",
    "ipws": [1.1, 0.9, 1.3],
}
RIVAL = "interval of `ipws` above today's"


def said(**changed: Any) -> dict[str, str]:
    return {tool: answer(LOG | changed) for tool, answer in TOOLS.items()}


def committed() -> list[dict[str, Any]]:
    every = json.loads((ROOT / "results/verdicts/logs.json").read_text(encoding="utf-8"))
    return [one for one in every if one.get("deviation")]


def one_log(lift: float, ours: str, ipws: tuple[float, float, float], **changed: Any) -> Any:
    """Return a log with today's 1 and a deviation of 2, as the file has it."""
    return {
        **LOG,
        "kind": "drawn",
        "which": [7, "clean"],
        "source": "priors",
        "name": "world 7",
        "logger": "softmax",
        "faults": [],
        "signal": 0.5,
        "truth": 1.0 + 2.0 * lift,
        "better": ours,
        "ipws": list(ipws),
        "lift": [0.1, -0.2, 0.4],
        "verdict": "caution",
        "seconds": 1.0,
        "ipws_seconds": 0.0,
        **changed,
    }


UP, DOWN, NEAR = (1.2, 1.1, 1.3), (0.8, 0.7, 0.9), (1.1, 0.9, 1.3)
MADE = [
    *[one_log(-0.25, "worse", DOWN, faults=["late"]) for _ in range(6)],
    *[
        one_log(-0.25, "cannot tell", UP, faults=["late"]) for _ in range(9)
    ],  # the rival ships what is worse
    *[one_log(0.5, "cannot tell", UP) for _ in range(12)],  # and what advise misses
    *[one_log(0.5, "better", NEAR) for _ in range(4)],
    one_log(0.75, "worse", UP, name="said the contrary"),
    # Not known: neither its cost nor its answer counts.
    *[one_log(0.3, "cannot tell", UP, error=1.0) for _ in range(10)],
]


def page_of(logs: list[Any], folder: Path) -> str:
    (folder / "verdicts").mkdir()
    (folder / "verdicts" / "logs.json").write_text(json.dumps(logs))
    return verdict_pages(folder)[folder / "verdicts" / "README.md"]


@pytest.fixture
def page(tmp_path: Path) -> str:
    return page_of(MADE, tmp_path)


def test_each_tool_looks_at_its_own_figure() -> None:
    assert list(said().values()) == ["ship", "ship", "test", "ship", "test", "ship"]
    assert list(said(ipws=[1.1, 1.05, 1.3], size=1_500.0).values())[2:4] == ["ship", "test"]
    assert list(said(ipws=[0.7, 0.6, 0.8], better="worse").values())[:4] == ["stop"] * 4
    assert list(said(size=900.0, rows=1_000).values())[3] == "test"
    assert list(said(ipws=None, size=None, better="cannot tell").values())[:4] == ["test"] * 4


def test_a_lift_is_in_deviations_and_sure_beyond_two_errors() -> None:
    assert lift_of(LOG) == pytest.approx(0.1)
    assert sure(LOG)
    assert not sure(LOG | {"error": 0.11})
    assert not sure(LOG | {"truth": 1.01})


def test_differences_are_those_of_advise_less_the_rival_where_the_answer_is_known() -> None:
    false, missed, cost = (
        difference(one, MADE, RIVAL) for one in ("false ships", "missed", "cost")
    )
    assert false is not None
    assert missed is not None
    assert cost is not None
    assert (false.n, missed.n, cost.n) == (15, 17, 32)
    assert false.mean == pytest.approx(-9 / 15)
    assert missed.mean == pytest.approx((13 - 4) / 17)
    # advise loses 12 * .5 + .75, the rival 9 * .25 + 4 * .5.
    assert cost.mean == pytest.approx((6.75 - 4.25) / 32)
    assert false.low < false.mean < false.high
    assert false.p == pytest.approx(2 / 2**9)
    assert false.beyond
    assert missed.p == pytest.approx(2 * sum([1, 17, 136, 680, 2380]) / 2**17)


def test_few_logs_that_differ_are_not_beyond_chance() -> None:
    few = [*MADE[:6] * 10, *MADE[6:10]]
    one = difference("false ships", few, RIVAL)
    assert one is not None
    assert one.high < 0
    assert one.p == pytest.approx(0.125)
    assert not one.beyond


def test_the_page_says_where_advise_is_beaten_and_by_how_much(page: str) -> None:
    beaten, folded = page.split("**Where `advise` is beaten**")[1].split("<details>")[:2]
    assert f"- missed, {RIVAL}: all logs +0.53" in beaten
    assert ", 5 kinds more" in beaten
    assert "false ships" not in beaten
    assert f"| cost | {RIVAL} | all logs | 32 | +0.078 " in folded
    assert "| false ships |" not in folded.split("</details>")[0]


@pytest.mark.parametrize(
    ("rivals", "missed", "fewer", "few"),
    [(9, 12, "shown", "not shown"), (0, 1, "not shown", "not shown"), (9, 0, "shown", "shown")],
)
def test_the_page_says_first_whether_what_was_wanted_is_shown(
    tmp_path: Path, rivals: int, missed: int, fewer: str, few: str
) -> None:
    logs = [
        *MADE[:6],
        *MADE[6:15][:rivals],
        *[one_log(0.5, "cannot tell", UP) for _ in range(missed)],  # 1 of 21: -.05 to .15
        *[one_log(0.5, "better", UP) for _ in range(20)],
        *[
            one_log(0.5, "cannot tell", UP, logger="exploring rule") for _ in range(9)
        ],  # not judged
    ]
    begin = page_of(logs, tmp_path).split("<details>")[0]
    assert re.findall(r"are ((?:not )?shown)", begin) == [fewer, few]


def test_the_page_counts_what_it_divides_by(page: str) -> None:
    assert "42 logs, of 32 of which" in page
    rows = {line.split(" | ")[0]: line.split(" | ") for line in page.splitlines()}
    ours = next(row for name, row in rows.items() if name == "| `advise`")
    assert [ours[1][:7], ours[2][:8]] == ["0 of 15", "13 of 17"]
    theirs = next(row for name, row in rows.items() if name == f"| {RIVAL}")
    assert [theirs[1][:7], theirs[2][:7]] == ["9 of 15", "4 of 17"]
    assert theirs[4:6] == [f"{9 * 0.25 / 32:.3f}", f"{4 * 0.5 / 32:.3f}"]
    assert "| asks, of 42 | cost of false ships, of 32 | cost of missed, of 32 |" in page


def test_the_page_names_what_was_wrongly_said_alone(page: str) -> None:
    wrong = page.split("## Where `advise` said the contrary")[1].split("## ")[0]
    assert "| said the contrary | softmax | – | -0.2 to 0.4 | 1.5 | caution |" in wrong
    assert "world 7" not in wrong


def test_the_sentence_of_the_readme_is_that_of_the_logs_and_of_the_page() -> None:
    logs = committed()
    sentence = readme_sentence(logs)
    for path in ("README.md", "results/verdicts/README.md"):
        assert sentence in " ".join((ROOT / path).read_text(encoding="utf-8").split()), path
    known = [one for one in logs if sure(one)]
    worse = [one for one in known if lift_of(one) < 0]
    better = [one for one in known if lift_of(one) > 0]
    missed = sum(one["better"] != "better" for one in better)
    asks = sum(one["better"] not in ("better", "worse") for one in logs)
    figures = [len(worse), round(100 * missed / len(better)), len(better)]
    assert re.findall(r"\d+", sentence)[:4] == [
        str(one) for one in [*figures, round(100 * asks / len(logs))]
    ]
    assert ("called none better" in sentence) == all(one["better"] != "better" for one in worse)


def simulated(number: int, policy: FloatArray, world: Any) -> tuple[float, float]:
    """Play a policy in a drawn world and return the mean reward with its standard error."""
    rng = np.random.default_rng(number)
    row = rng.integers(len(policy), size=300_000)
    ends = policy.cumsum(axis=1)
    action = (ends[row] < rng.random(len(row))[:, None]).sum(axis=1).clip(max=policy.shape[1] - 1)
    reward = world.noise(world.reward_at(row, action), rng)
    return float(reward.mean()), float(reward.std() / np.sqrt(len(row)))


def known(number: int) -> dict[str, Any]:
    return verdicts.known("drawn", (number, "faulty"))


def test_todays_value_is_that_of_the_rule_that_logged() -> None:
    """Exploration makes a rule of world 60,082's logger: 9 in 10 logged rows are of its action."""
    environment: Any = verdicts._environment(60_082)
    world = environment.wrapped._drawn().population
    policy = world.logging.table(world.context)
    damaged: Any = verdicts._environment(60_082, drawn=True)
    share = damaged.examine(None, None)["damage_exploration"]
    rule = np.zeros_like(policy)
    rule[np.arange(len(policy)), policy.argmax(axis=1)] = 1.0
    mean, error = simulated(1, share * policy + (1 - share) * rule, world)
    one = known(60_082)
    assert abs(one["today"] - mean) < 4 * error
    assert one["error"] == 0.0
    assert one["deviation"] == pytest.approx(error * np.sqrt(300_000), rel=0.02)
    plain = float(damaged.examine(None, None)["world_mean_reward"])
    assert abs(plain - mean) > 4 * error  # the former logger earned something else


@pytest.mark.parametrize("number", [60_131, 60_137])
def test_todays_value_is_not_the_mean_of_a_log_that_lost_rows(number: int) -> None:
    """Rows of the clean world, refused one by one where support was taken, earn today's value."""
    damaged: Any = verdicts._environment(number, drawn=True)
    dials = damaged.examine(None, None)
    log, _ = verdicts._environment(number, support=dials["damage_support"]).sample(
        **verdicts._streams(number)
    )
    mean, error = float(log.reward.mean()), float(log.reward.std() / np.sqrt(len(log.reward)))
    today, log = known(number)["today"], verdicts._drawn(number, True)[0]
    assert abs(today - mean) < 4 * error
    assert abs(float(log.reward.mean()) - today) > 10 * error


def test_a_hidden_cause_moves_rewards_to_the_new_policys_value() -> None:
    """World 60,186 has clicks: half of them are of the cause, whose mean is the value."""
    one = known(60_186)
    damaged: Any = verdicts._environment(60_186, drawn=True)
    odds = damaged.examine(None, None)["damage_confounding"]
    log, truth = verdicts._environment(60_186, confounding=odds, n_samples=15_000).sample(
        **verdicts._streams(60_186)
    )
    error = log.reward.std() / np.sqrt(len(log.reward))
    assert abs(log.reward.mean() - one["today"]) < 4 * error
    assert one["truth"] == truth.expected
    assert one["deviation"] == pytest.approx(log.reward.std(), rel=0.03)


def test_what_is_true_of_a_log_comes_again() -> None:
    every = committed()
    wanted = (
        lambda one: one["source"] == "outside" and not one["faults"],
        lambda one: one["source"] == "priors" and "support" in one["faults"],
        lambda one: one["source"] == "priors" and "confounding" in one["faults"],
    )
    for holds in wanted:
        one = next(one for one in every if holds(one))
        for name, value in verdicts.known(one["kind"], one["which"]).items():
            # NumPy's sums differ in the last digits between processors with and without AVX-512.
            close = pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
            assert one[name] == close, name


def test_worlds_whose_logger_is_known_are_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "_logger", lambda number: pytest.fail(f"drew {number}"))
    monkeypatch.setattr(verdicts, "EACH", 2)
    first = verdicts.FIRST_WORLD
    kinds = {first + place: kind for place, kind in enumerate(["rule", "softmax", "softmax"] * 2)}
    worlds = [which for kind, which in verdicts.cases(loggers=kinds) if kind == "drawn"]
    assert sorted(sort for _, sort in worlds) == ["clean"] * 2 + ["faulty"] * 2 + ["ruled"] * 2


@pytest.mark.parametrize("logger", LOGGERS)
def test_a_world_of_numpy_has_the_values_that_its_log_shows(logger: str) -> None:
    one = outside_log(7, logger, None)
    gain, p, arm = (one.frame[name] for name in ("gain", "p", "arm"))
    error = gain.std() / np.sqrt(len(gain))
    assert abs(gain.mean() - one.today) < 4 * error
    assert 0 < one.error < error
    np.testing.assert_allclose(one.new_policy.sum(axis=1), 1.0)
    if logger in ("rule", "estimated rule"):  # which lack support
        assert set(p) == {1.0}
        assert one.given["propensity"] == ("p" if logger == "rule" else "estimated")
    else:
        weight = one.new_policy[np.arange(len(arm)), arm] / p
        spread = (weight * gain).std() / np.sqrt(len(gain))
        assert abs((weight * gain).mean() - one.truth) < 4 * spread
        assert abs(weight.mean() - 1) < 4 * weight.std() / np.sqrt(len(gain))
    assert 0 <= one.signal <= 1


def test_a_rule_that_explores_logs_how_often_it_did() -> None:
    for number in range(5):
        p = outside_log(number, "exploring rule", None).frame["p"]
        sure, seldom = p.max(), p.min()
        actions = round(1 + (1 - sure) / seldom)  # 1 - e + e / k, and e / k
        assert 0.01 <= actions * seldom <= 0.05
        assert (p == sure).mean() > 0.9


def test_a_third_of_numpys_worlds_have_loggers_that_are_rules_or_learn() -> None:
    numbers = [which for kind, which in verdicts.cases(loggers=AllRules()) if kind == "outside"]
    assert numbers == list(
        range(verdicts.FIRST_OUTSIDE, verdicts.FIRST_OUTSIDE + verdicts.OUTSIDE)
    )
    ruled = [one // 3 % len(verdicts.OUTSIDE_RULED) for one in numbers if one % 3 == 0]
    assert len(ruled) == verdicts.OUTSIDE // 3
    assert {ruled.count(place) for place in range(5)} == {len(ruled) // 5}


class AllRules(dict[int, str]):
    """Loggers of all worlds, as if known."""

    def get(self, number: int, default: Any = None) -> str:  # type: ignore[override]
        return "rule" if number % 2 else "softmax"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_changes_the_log_and_not_its_truth(fault: str) -> None:
    right, wrong = outside_log(8, "softmax", None), outside_log(8, "softmax", fault)
    if fault != "hidden cause":  # which is a part of the world
        assert (right.truth, right.today) == (wrong.truth, wrong.today)
        assert right.deviation == wrong.deviation
    assert right.given != wrong.given or any(
        not np.array_equal(right.frame[name], wrong.frame[name]) for name in right.frame
    )
    assert len(wrong.new_policy) == len(wrong.frame["gain"])
