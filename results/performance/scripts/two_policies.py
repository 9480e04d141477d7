"""How often intervals of `ope-bench ab` hold, what it decides, and which mistakes its checks find.

    nice -n 15 python results/performance/scripts/two_policies.py --write results/ab/README.md

Worlds are drawn from nothing else: contexts of eight kinds, described by three numbers; 2 to 30
actions; a softmax policy A, and B, whose scores are A's and noise; rewards that are 0 or 1 at a
rate of .01 to .5, or normal, and that depend on context and action. Truth is a sum over contexts
and actions. Nothing of `ope_bench` was set on worlds with these seeds.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ope_bench import Log, estimate, stream
from ope_bench.base.canonical import plain
from ope_bench.contracts.arrays import FloatArray
from ope_bench.logs.problem import normal_interval
from ope_bench.logs.rewards import conditions_of
from ope_bench.logs.segments import simultaneous_means
from ope_bench.statistics.coverage import wilson
from ope_bench.statistics.policy_difference import FEW_REWARDED, TwoLogs

KINDS = 8
FIRST, WORLDS = 11_000, 200
COUNTED = 400


@dataclass(frozen=True)
class World:
    """Two policies (KINDS, actions), mean rewards, and the numbers that describe a context."""

    a: FloatArray
    b: FloatArray
    mean: FloatArray
    features: FloatArray
    normal: bool

    @property
    def truth(self) -> float:
        """V_A - V_B."""
        return float(((self.a - self.b) * self.mean).sum() / KINDS)


def softmax(score: FloatArray) -> FloatArray:
    """Return probabilities of scores: (KINDS, actions)."""
    weight = np.exp(score - score.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def draw_world(seed: int, *, rate: float | None = None, far: float | None = None) -> World:
    """Draw a world; a rate of 0 has normal rewards."""
    rng = stream("two policies", seed)
    actions = int(rng.choice([2, 3, 5, 10, 30]))
    features = rng.standard_normal((KINDS, 3))
    score = features @ rng.standard_normal((3, actions)) * rng.choice([0.2, 0.7])
    noise = rng.standard_normal((KINDS, actions))
    far = float(rng.choice([0.1, 0.3, 1.0])) if far is None else far
    rate = float(rng.choice([0.0, 0.01, 0.1, 0.5])) if rate is None else rate
    quality = 0.5 * noise * rng.choice([0.0, 0.3, 1.0]) + 0.3 * rng.standard_normal(noise.shape)
    quality += 0.5 * features[:, :1]
    mean = 1.0 + quality if rate == 0 else rate * np.exp(quality) / np.exp(quality).mean()
    other = softmax(score + far * noise)
    return World(softmax(score), other, np.clip(mean, -5, 1 if rate else 5), features, rate == 0)


@dataclass(frozen=True)
class Drawn:
    """Two logs and what is known beside them."""

    logs: TwoLogs
    action: Any
    features: FloatArray
    kind: Any


def draw_logs(
    world: World, rows: tuple[int, int], rng: np.random.Generator, of_unit: int = 1
) -> Drawn:
    """Draw a log of each policy.

    Parameters
    ----------
    rows : of A and of B.
    of_unit : rows of a unit, which share context and a part of the reward.
    """
    n = sum(rows)
    in_a = np.arange(n) < rows[0]
    unit = np.arange(n) // of_unit
    kind = rng.integers(KINDS, size=unit[-1] + 1)[unit]
    uniform = rng.random(n)
    own = np.where(in_a[:, None], world.a[kind], world.b[kind])
    action = np.minimum((uniform[:, None] > own.cumsum(axis=1)).sum(axis=1), own.shape[1] - 1)
    mean = world.mean[kind, action]
    shared = rng.random(unit[-1] + 1)[unit] if of_unit > 1 else rng.random(n)
    alone = np.where(rng.random(n) < 0.5, shared, rng.random(n))
    reward = (alone < mean).astype(np.float64)
    if world.normal:
        reward = mean + rng.standard_normal(n)
    logs = TwoLogs(
        in_a=in_a,
        a=world.a[kind, action],
        b=world.b[kind, action],
        reward=reward,
        row_weight=np.ones(n),
        unit=unit,
    )
    noisy = world.features[kind]
    return Drawn(logs, action, noisy, kind)


def share(hits: Sequence[Any]) -> str:
    """Return a share with Wilson's interval."""
    if not len(hits):
        return "-"
    one = wilson(int(np.sum(hits)), len(hits))
    return f"{one.value:.3f} ({one.low:.3f} to {one.high:.3f})"


def holds(found: tuple[float, float | None, float], truth: float) -> bool:
    """Return whether an interval of 95 % holds; an interval that is withheld does."""
    value, error, carry = found
    low, high = normal_interval(value, error, 0.95, carry)
    return low is None or high is None or low - 1e-15 <= truth <= high + 1e-15


def sure(found: tuple[float, float | None, float]) -> bool:
    """Return whether an interval leaves 0 out."""
    return found[1] is not None and not holds(found, 0.0)


# Mistakes in A's probabilities, in A's log alone.


def mistakes(world: World, drawn: Drawn, rng: np.random.Generator) -> Mapping[str, FloatArray]:
    """Return what each mistake makes of the column of A's probabilities."""
    logs = drawn.logs
    in_a, right = logs.in_a, logs.a
    actions = world.a.shape[1]
    greedy = np.where(world.a.argmax(axis=1)[drawn.kind] == drawn.action, 0.95, 0.05 / actions)
    shuffled = right.copy()
    shuffled[in_a] = rng.permutation(right[in_a])
    sharper = world.a**2
    sharper /= sharper.sum(axis=1, keepdims=True)
    wrong = {
        "B's column in its place": logs.b,
        "1 / number of actions": np.full(len(right), 1 / actions),
        "rows shuffled": shuffled,
        "greedy: .95 for the likeliest action": greedy,
        "squared and scaled (another temperature)": sharper[drawn.kind, drawn.action],
        "half of it": right / 2,
        "nine tenths of it": right * 0.9,
        "a tenth more": np.minimum(right * 1.1, 1.0),
        "rounded to one digit": np.maximum(np.round(right, 1), 0.05),
        "averaged over contexts": world.a.mean(axis=0)[drawn.action],
    }
    return {name: np.where(in_a, one, right) for name, one in wrong.items()}


def judged(
    logs: TwoLogs, action: Any, features: FloatArray
) -> tuple[tuple[float, float | None, float], bool]:
    """Return the difference and whether a check fails."""
    predicted = logs.predict(features)
    found, limit = logs.checks(action, features, predicted)
    return logs.difference(predicted), max(found.values()) > limit


def table(head: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table."""
    text = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    return "\n".join([*text, *("| " + " | ".join(map(str, line)) + " |" for line in lines)])


CELLS: Mapping[str, tuple[float, tuple[int, int], int]] = {
    "rate .5, 250 + 250 rows": (0.5, (250, 250), 1),
    "rate .1, 2,000 + 2,000": (0.1, (2000, 2000), 1),
    "rate .1, 3,000 + 1,000": (0.1, (3000, 1000), 1),
    "rate .1, 3,900 + 100": (0.1, (3900, 100), 1),
    "rate .01, 2,000 + 2,000": (0.01, (2000, 2000), 1),
    "rate .01, 250 + 250": (0.01, (250, 250), 1),
    "normal, 2,000 + 2,000": (0.0, (2000, 2000), 1),
    "rate .1, 2,000 + 2,000 in units of 5": (0.1, (2000, 2000), 5),
}


def cover(name: str, k: int) -> dict[str, Any]:
    """Judge the intervals on one pair of logs of a cell."""
    rate, rows, of_unit = CELLS[name]
    world = draw_world(FIRST + k % WORLDS, rate=rate)
    drawn = draw_logs(world, rows, stream("intervals", name, k), of_unit)
    logs = drawn.logs
    alone, modeled = logs.difference(), logs.difference(logs.predict(drawn.features))
    means = logs.difference_of_means()
    equal = replace(logs, b=logs.a)
    return {
        "plain": holds(alone, world.truth),
        "modeled": holds(modeled, world.truth),
        "means": holds(means, world.truth),
        "saved": (means[1] / modeled[1]) ** 2 if modeled[1] else None,
        "zero": equal.difference(equal.predict(drawn.features))[:2] == (0.0, 0.0),
    }


def look(name: str, k: int) -> dict[str, Any]:
    """Return whether the sequence holds at three looks together."""
    ratio = int(name[0])
    world = draw_world(FIRST + k % WORLDS, rate=0.1)
    logs = draw_logs(world, (ratio * 400, 400), stream("looks", k, ratio)).logs
    held = True
    for looked in (50, 150, 400):
        rows = [np.flatnonzero(logs.in_a)[: looked * ratio], np.flatnonzero(~logs.in_a)[:looked]]
        kept = np.concatenate(rows)
        names = ("in_a", "a", "b", "reward", "row_weight")
        part: Any = {one: getattr(logs, one)[kept] for one in names}
        one = TwoLogs(**part, unit=np.arange(len(kept))).sequence((0.0, 1.0))
        held = held and one is not None and one.low <= world.truth <= one.high
    return {"held": held}


def decide(_: str, k: int) -> dict[str, Any]:
    """Judge right and wrong probabilities on the two pairs of logs of a world."""
    world = draw_world(FIRST + 1000 + k // 2)
    drawn = draw_logs(world, (2000, 2000), stream("decision", k))
    found, fails = judged(drawn.logs, drawn.action, drawn.features)
    null = replace(world, mean=np.repeat(world.mean[:, :1], world.a.shape[1], axis=1))
    same = draw_logs(null, (2000, 2000), stream("null", k))
    nothing, stop = judged(same.logs, same.action, same.features)
    wrong: dict[str, Any] = {}
    result = {
        "fails": fails,
        "go": sure(found) and not fails,
        "means": sure(drawn.logs.difference_of_means()),
        "false": sure(found) and not fails and found[0] * world.truth <= 0,
        "null": sure(nothing) and not stop,
        "wrong": wrong,
    }
    for name, column in mistakes(world, drawn, stream("wrong", k)).items():
        found, stop = judged(replace(drawn.logs, a=column), drawn.action, drawn.features)
        bias = abs(found[0] - world.truth) / found[1] if found[1] else 0.0
        false = sure(found) and found[0] * world.truth <= 0
        wrong[name] = [stop, bias, false, false and not stop]
    return result


def divide(name: str, k: int) -> dict[str, Any]:
    """Return whether the intervals of `ipws` hold in all segments of one log."""
    count = int(name.split()[0])
    world = draw_world(FIRST + k % WORLDS, rate=0.1)
    drawn = draw_logs(world, (4000, 10), stream("segments", k, count))
    weight = drawn.logs.b / drawn.logs.a
    rows = np.flatnonzero(drawn.logs.in_a)
    kind = drawn.kind[rows]
    weight, reward = weight[rows], drawn.logs.reward[rows]
    value = float(weight @ reward / weight.sum())
    terms = value + weight * (reward - value) / weight.mean()
    truth = (world.b * world.mean).sum(axis=1)
    inside = [truth[one * KINDS // count : (one + 1) * KINDS // count] for one in range(count)]
    found = simultaneous_means(terms, kind * count // KINDS, count, np.arange(len(rows)), 0.95)
    held = []
    for at, ((mean, half), one) in enumerate(zip(found, inside, strict=True)):
        size = np.abs(weight * reward)[kind * count // KINDS == at]
        if size.sum() ** 2 >= FEW_REWARDED * (size @ size) > 0:
            held.append(abs(mean - float(one.mean())) <= half)
    return {"held": all(held), "alone": held}


def both(_: str, k: int) -> dict[str, Any]:
    """Judge the intervals of two rewards of one log, and statements about both."""
    world = draw_world(FIRST + k % WORLDS, rate=0.1)
    rng = stream("rewards", k)
    drawn = draw_logs(world, (4000, 10), rng)
    rows = np.flatnonzero(drawn.logs.in_a)
    price = np.arange(world.a.shape[1]) / world.a.shape[1]
    action = drawn.action[rows]
    columns = {
        "x": drawn.features[rows, 0],
        "action": action,
        "quality": drawn.logs.reward[rows],
        "cost": price[action] * rng.exponential(size=len(rows)),
        "p": drawn.logs.a[rows],
        "q": drawn.logs.b[rows],
    }
    log = Log.from_frame(
        columns,
        context=["x"],
        action="action",
        reward=["quality", "cost"],
        propensity="p",
        target="q",
    )
    found: Any = estimate(log, ["ipws"])
    truths = {
        "quality": float((world.b * world.mean).sum() / KINDS),
        "cost": float((world.b * price).sum() / KINDS),
    }
    answers = {name: found[name]["ipws"] for name in truths}
    held = [
        one.low is None or one.low <= truths[name] <= one.high for name, one in answers.items()
    ]
    # The quality is at its limit, so that the statement is wrong by however little.
    limit = truths["quality"]
    text = f"quality >= {limit!r}, cost <= {truths['cost'] + 1!r}"
    stated = [
        one.holds(SimpleNamespace(recommended=answers[one.reward], doubted=False))
        for one in conditions_of(text, list(truths))
    ]
    return {"alone": held, "stated": all(stated)}


SEGMENTS = ("2 segments", "8 segments")
REWARDS = "two rewards"
LOOKS = ("1 : 1", "3 : 1")
JUDGES = (
    dict.fromkeys(CELLS, cover)
    | dict.fromkeys(LOOKS, look)
    | dict.fromkeys(SEGMENTS, divide)
    | {"decisions": decide, REWARDS: both}
)


def page(found: Mapping[str, Sequence[dict[str, Any]]]) -> str:
    """Return the page of what was found."""
    covered, zero = [], []
    for name in CELLS:
        rows = found[name]
        saved = [one["saved"] for one in rows if one["saved"] is not None]
        median = f"{np.median(saved):.1f} ({np.quantile(saved, 0.1):.1f})"
        kinds = [share([one[key] for one in rows]) for key in ("plain", "modeled", "means")]
        covered.append([name, len(rows), *kinds, median])
        zero += [one["zero"] for one in rows]
    looks = [
        [name, len(found[name]), share([one["held"] for one in found[name]])] for name in LOOKS
    ]
    rows = found["decisions"]
    mistaken = []
    for name in rows[0]["wrong"]:
        stop, bias, false, passed = map(
            np.array, zip(*(one["wrong"][name] for one in rows), strict=True)
        )
        biased = stop[bias > 3]
        mistaken.append(
            [
                name,
                share(stop),
                f"{np.median(bias):.1f}",
                f"{biased.mean():.3f} of {len(biased)}" if len(biased) else "-",
                f"{false.mean():.3f}",
                f"{passed.mean():.3f}",
            ]
        )
    head = ["by probabilities", "with `--context`", "difference of means"]
    saved_head = "rows saved, median (lowest tenth)"
    wrong_head = ["A's column in A's log", "a check fails", "errors from the truth, median"]
    wrong_head += ["found where over 3 errors away", "wrong sign, sure", "and no check fails"]
    return PAGE.format(
        covered=table(["rewards and rows", "logs", *head, saved_head], covered),
        zero="exactly 0, with an interval from 0 to 0, in all" if all(zero) else "NOT 0 in all",
        logs=f"{len(zero):,}",
        sequence=table(["rows of A : B", "logs", "holds at 3 looks together"], looks),
        segments=table(
            ["4,000 rows", "logs", "all hold", "of single ones"],
            [
                [
                    name,
                    len(found[name]),
                    share([one["held"] for one in found[name]]),
                    share([hit for one in found[name] for hit in one["alone"]]),
                ]
                for name in SEGMENTS
                if found[name]
            ],
        ),
        rewards=table(
            ["4,000 rows", "logs", "quality", "cost", "stated at the limit"],
            [
                [
                    "quality and cost",
                    len(found[REWARDS]),
                    *(share([one["alone"][at] for one in found[REWARDS]]) for at in range(2)),
                    share([one["stated"] for one in found[REWARDS]]),
                ]
            ],
        ),
        found=share([stop for one in rows for stop, *_ in one["wrong"].values()]),
        worlds=math.ceil(len(rows) / 2),
        pairs=len(rows),
        wrong=table(wrong_head, mistaken),
        **{
            key: share([one[key] for one in rows])
            for key in ("fails", "go", "means", "false", "null")
        },
    )


def main() -> None:
    """Simulate what the store lacks, and print or write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="PAGE.md")
    parser.add_argument("--logs", type=int, default=COUNTED, help="of each cell")
    parser.add_argument("--store", type=Path, default=Path("two-policies.jsonl"))
    given = parser.parse_args()
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in JUDGES}
    if given.store.is_file():
        for line in given.store.read_text(encoding="utf-8").splitlines():
            name, result = json.loads(line)
            found[name].append(result)
    with given.store.open("a", encoding="utf-8") as store:
        # Some of each in turn, so that what is there when it is interrupted has all of them.
        for end in range(STEP, given.logs + STEP, STEP):
            for name, judge in JUDGES.items():
                # What takes milliseconds is known better.
                times = 5 if judge is cover else 1
                for k in range(len(found[name]), times * min(end, given.logs)):
                    found[name].append(plain(judge(name, k)))
                    store.write(json.dumps([name, found[name][-1]]) + "\n")
                store.flush()
    if given.write:
        given.write.parent.mkdir(exist_ok=True)
        given.write.write_text(page(found), encoding="utf-8")
    else:
        print(page(found))


STEP = 20

PAGE = """# What `ope-bench ab` decides

Two policies, a log of each, and both policies' probabilities of each logged action
([how to](../../bench/docs/ab.md)). Worlds: 2 to 30 actions, eight kinds of context, policies near
and far from each other, seeds that chose nothing. Shares have Wilson's intervals of 95 %.

## Intervals of 95 %

{covered}

Quantiles are Student's with as many units as carry the error, chosen on worlds of other seeds.
Rows saved: the squared ratio of the standard errors, difference of means over `ab` with
`--context`. With equal policies `ab` says {zero} of {logs} logs.

The sequence, by bets (rewards in [0, 1]):

{sequence}

## Decisions with right probabilities

{worlds} worlds, {pairs} pairs of logs, 2,000 + 2,000 rows, `--action` and `--context` given.

- A check fails: {fails}.
- Decided: {go}; by the difference of means: {means}.
- Decided for the worse policy: {false}.
- Decided where every action has the same reward: {null}.

## Wrong probabilities

The same logs of 4,000 rows, with a mistake in A's column in A's log alone. Over all kinds a check
fails in {found}; with right probabilities in {fails}.

{wrong}

The difference is one of ratios: a column that is wrong by the same factor in both policies does
not move it. A decision is stated only where no check fails, so that the last column is what is
left of wrong decisions.

## Segments

The intervals of `--by`, of 95 % for all segments at once, of `ipws`, of policy B on A's log; none
is given under 20 effective rewarded rows.

{segments}

## Several rewards

Intervals of `ipws` of two rewards of one log, each of 95 %, and how often `--require` states
`quality >= LIMIT, cost <= LIMIT` where the quality is exactly at its limit: at most .05 is right.

{rewards}

`python results/performance/scripts/two_policies.py --write results/ab/README.md`
"""

if __name__ == "__main__":
    main()
