"""Logs of rules and of honest loggers: how often missing support is found, and where it is not.

    python results/performance/scripts/rule_loggers.py --write results/performance/log-check.md

Contexts of 4, 16 and 64 columns, a third of them categorical. Six rules (a threshold, two
signs that are alike, a tree, a lookup, a linear rule, the largest of linear scores) log ten
logs each, in three forms: a table with estimated propensities, a column of actions, and a
table with propensities of 1. The new policy takes another rule's choice in half of the rows.
Honest loggers are softmaxes of linear scores, rules with exploration, and recommenders.
Interrupted, it goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sections import put, table

from ope_bench import FloatArray, IntArray, Log, TargetPolicy
from ope_bench.logs.checks import SOME_UNSUPPORTED, support_findings
from ope_bench.logs.finding import Check
from ope_bench.logs.support import fit_logger
from ope_bench.statistics.coverage import wilson

RULES = ("threshold", "two signs", "tree", "lookup", "linear", "largest score")
ROWS, COLUMNS, ACTIONS = (1_000, 3_000, 10_000), (4, 16, 64), (2, 3, 6)
LEAST_USUAL = 60.0


class Rows:
    """Contexts of d columns, the last third of them categories of four levels."""

    def __init__(self, rng: np.random.Generator, n: int, d: int) -> None:
        self.n, self.numbers = n, d - d // 3
        self.level = rng.integers(4, size=(n, d // 3))
        self.x = rng.normal(size=(n, self.numbers))
        self.all = np.column_stack(
            [self.x, *((self.level == one).astype(np.float64) for one in range(4))]
        )

    def frame(self) -> dict[str, Any]:
        frame: dict[str, Any] = {f"x{j}": self.x[:, j] for j in range(self.numbers)}
        return frame | {
            f"c{j}": np.array(["a", "b", "c", "d"])[self.level[:, j]]
            for j in range(self.level.shape[1])
        }


def rule(rng: np.random.Generator, kind: str, rows: Rows, k: int) -> IntArray:
    """Return the choices of a rule of that kind among k actions: (n,)."""
    x = rows.x
    if kind == "threshold":
        ends = np.quantile(x[:, rng.integers(x.shape[1])], np.sort(rng.uniform(0.2, 0.8, k - 1)))
        return rng.permutation(k)[np.searchsorted(ends, x[:, rng.integers(x.shape[1])])]
    if kind == "two signs":
        i, j = rng.choice(x.shape[1], 2, replace=False)
        a, b = rng.choice(k, 2, replace=False)
        return np.where((x[:, i] > 0.3 * rng.normal()) ^ (x[:, j] > 0.3 * rng.normal()), a, b)
    if kind == "tree":
        leaf = np.zeros(rows.n, dtype=np.int64)
        for _ in range(3):
            leaf = 2 * leaf + (x[:, rng.integers(x.shape[1])] > 0.4 * rng.normal())
        return np.append(np.arange(k), rng.integers(k, size=8))[rng.permutation(8)][leaf]
    if kind == "lookup":
        second = rows.level[:, -1] if rows.level.shape[1] > 1 else (x[:, 0] > 0).astype(int)
        return rng.permutation(np.arange(16) % k).reshape(4, 4)[rows.level[:, 0], second]
    score = rows.all @ rng.normal(size=(rows.all.shape[1], k))
    if kind == "linear":
        ends = np.quantile(score[:, 0], np.sort(rng.uniform(0.2, 0.8, k - 1)))
        return rng.permutation(k)[np.searchsorted(ends, score[:, 0])]
    return score.argmax(axis=1)


def draw(policy: FloatArray, rng: np.random.Generator) -> IntArray:
    above = policy.cumsum(axis=1) < rng.random(len(policy))[:, None]
    return above.sum(axis=1).clip(max=policy.shape[1] - 1)


def world(case: dict[str, Any]) -> tuple[Rows, FloatArray, FloatArray, np.random.Generator]:
    """Return contexts, the logging policy and the new one."""
    rng = np.random.default_rng([case["seed"], 50])
    n, d, k = case["n"], case["d"], case["k"]
    rows = Rows(rng, n, d)
    every = np.arange(n)
    if case["kind"] == "recommender":
        taste = rng.normal(size=(k, rows.numbers))
        score = rows.x @ taste.T / 2 + 1.5 * np.log(1 / (1 + rng.permutation(k)))
        logging = np.exp(score - score.max(axis=1, keepdims=True))
        logging /= logging.sum(axis=1, keepdims=True)
        new = logging**1.3
        return rows, logging, new / new.sum(axis=1, keepdims=True), rng
    if case["kind"] == "softmax":
        score = rows.all @ rng.normal(size=(rows.all.shape[1], k))
        logging = np.exp(case["slope"] * score / score.std())
        logging /= logging.sum(axis=1, keepdims=True)
        base = draw(logging, rng)
    else:
        base = rule(rng, case["kind"], rows, k)
        logging = np.full((n, k), case["explore"] / k)
        logging[every, base] += 1 - case["explore"]
    other = rule(rng, RULES[int(rng.integers(len(RULES)))], rows, k)
    # Actions that no row logs are found by counting; these are not.
    seen = np.unique(base)
    other = seen[other % len(seen)]
    new = np.zeros((n, k))
    new[every, np.where(rng.random(n) < 0.5, other, base)] = 1.0
    return rows, logging, new, rng


def judged(case: dict[str, Any]) -> dict[str, Any]:
    """Return what the checks of support say of a log in each form, and the truth."""
    rows, logging, new, rng = world(case)
    action = draw(logging, rng)
    frame = rows.frame() | {"a": action, "r": rng.random(rows.n)}
    names = [name for name in frame if name[0] in "xc"]
    known = logging[np.arange(rows.n), action]
    forms = ("estimated", "action", "one") if case["explore"] == 0 else ("known", "estimated")
    found, fitted = {}, None
    for form in case.get("forms", forms):
        p = {"known": known, "one": np.ones(rows.n)}.get(form)
        given = frame if p is None else frame | {"p": p}
        log = Log.from_frame(
            given,
            context=names,
            categorical=[name for name in names if name[0] == "c"],
            action="a",
            reward="r",
            propensity={"estimated": "estimated", "action": None}.get(form, "p"),
            target=TargetPolicy(action=draw(new, rng)) if form == "action" else
            TargetPolicy(table=new),
            actions=range(case["k"]),
        )  # fmt: skip
        begun = time.process_time()
        # The forms have the same contexts and logged actions, and so the same model of them.
        fitted = fitted or fit_logger(log)
        checks = list(support_findings(log, fitted))
        support = next(one for one in checks if one.check is Check.SUPPORT)
        size = next((one.value for one in checks if one.check is Check.SUPPORT_SIZE), None)
        found[form] = {
            "mass": support.value,
            "refused": support.decisive,
            "usual": size,
            "trusted": not any(one.passed is False for one in checks),
            "named": " was logged in " in support.message or "was never logged" in support.message,
            "seconds": round(time.process_time() - begun, 2),
        }
    share = logging.mean(axis=0)
    return case | {
        "lacking": float((new * (logging == 0)).sum(axis=1).mean()),
        "rare": float((new * (logging < 0.05 * share)).sum(axis=1).mean()),
        "forms": found,
    }


def cases(first: int) -> Iterator[dict[str, Any]]:
    """Yield all logs, so that what is done when it is interrupted has all kinds.

    Parameters
    ----------
    first : seed of the first log; seeds below 6,000 settled the statistic.
    """
    for seed in range(20):
        for at, kind in enumerate(RULES):
            d = COLUMNS[(seed + at) % 3]
            shape = {
                "d": max(d, 16) if kind == "linear" else d,
                "n": ROWS[(seed + at // 2) % 3],
                "k": ACTIONS[(seed // 3 + at) % 3],
            }
            if seed < 10:
                yield {"kind": kind, "seed": first + seed, "explore": 0.0, **shape}
        d, kind = COLUMNS[seed % 3], RULES[seed % 4]
        for explore, n in ((0.05, 3_000), (0.1, 3_000), (0.02, 10_000)):
            part = {"d": d, "n": n, "k": ACTIONS[seed % 2], "forms": ("known",)}
            yield {"kind": kind, "seed": first + 100 + seed, "explore": explore, **part}
        if seed < 12:
            slope = (1.0, 2.0, 3.0, 4.0)[seed % 4]
            part = {"d": COLUMNS[seed // 4 % 3], "n": 3_000, "k": ACTIONS[seed % 2]}
            yield {
                "kind": "softmax",
                "seed": first + 200 + seed,
                "explore": 1.0,
                "slope": slope,
                **part,
            }
        if seed < 8:
            part = {"d": 4, "n": 3_000, "k": (500, 2_000)[seed % 2], "forms": ("known",)}
            yield {"kind": "recommender", "seed": first + 300 + seed, "explore": 1.0, **part}


def share(found: list[Any], of: Callable[[Any], bool]) -> str:
    """Return how many of some logs, with Wilson's interval."""
    count = sum(map(of, found))
    if not found:
        return "-"
    one = wilson(count, len(found))
    return f"{count} of {len(found)} ({one.low:.0%} to {one.high:.0%})"


def text_of(done: list[dict[str, Any]]) -> str:
    """Return the section."""
    rules = [one for one in done if one["explore"] == 0]
    runs = [(one, form, said) for one in rules for form, said in one["forms"].items()]
    enough = [
        (one, said)
        for one, form, said in runs
        if one["lacking"] > 0.12 and (form == "one" or (said["usual"] or 0) >= LEAST_USUAL)
    ]
    lines = []
    for kind in RULES:
        own = [said for one, _, said in runs if one["kind"] == kind]
        big = [(one, said) for one, said in enough if one["kind"] == kind]
        off = [abs(said["mass"] - one["lacking"]) for one, said in big]
        lines.append([
            kind, str(len(own)), share(own, lambda said: said["trusted"]),
            share(big, lambda pair: pair[1]["mass"] > 0.1),
            f"{np.mean(off):.3f}" if off else "-",
        ])  # fmt: skip
    honest = []
    for name, form, pick in (
        *(
            (f"{explore:.0%} exploration, {n:,} rows", "known",
             lambda one, explore=explore: one["explore"] == explore)
            for explore, n in ((0.05, 3_000), (0.1, 3_000), (0.02, 10_000))
        ),
        ("softmax of slopes 1 to 4", "known", lambda one: one["kind"] == "softmax"),
        ("softmax, little of the policy rare", "estimated",
         lambda one: one["kind"] == "softmax" and one["rare"] < 0.05),
        ("softmax, more of it rare", "estimated",
         lambda one: one["kind"] == "softmax" and one["rare"] >= 0.05),
        ("recommenders of 500 and 2,000 items", "known",
         lambda one: one["kind"] == "recommender"),
    ):  # fmt: skip
        own = [one["forms"][form] for one in done if form in one["forms"] and pick(one)]
        honest.append([
            name, form, share(own, lambda said: said["mass"] > 0.1),
            share(own, lambda said: said["mass"] > SOME_UNSUPPORTED),
        ])  # fmt: skip
    named = share([said for _, said in enough], lambda said: said["named"])
    firsts = [next(iter(one["forms"].values()))["seconds"] for one in done]
    return (
        f"{len(rules)} logs of rules without exploration, each in three forms (estimated "
        "propensities and a table; a column of actions; propensities of 1). *Found*: over 10 % "
        "without support, where over 12 % has none and a tenth of the policy would have 60 "
        "matches by chance, or propensities are given; *off*: mean distance of the mass from the "
        f"truth there. The sentence names contexts in {named} of those found by the model. A log "
        f"took {np.median(firsts):.1f} s at the median, {max(firsts):.1f} at most.\n\n"
        + table(["rule", "runs", "support passed", "found", "off"], lines)
        + "\n\nHonest loggers, refused (over 10 %) and not trusted (over 3 %):\n\n"
        + table(["logger", "propensities", "refused", "not trusted"], honest)
        + "\n\nA softmax that gives much of the new policy under a twentieth of its usual share "
        "looks like a rule without its propensities; so does exploration of 5 % and less."
    )


def main() -> int:
    """Judge all logs, and print or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="PAGE.md")
    parser.add_argument("--first", type=int, default=6_000, help="seed of the first logs")
    parser.add_argument("--seconds", type=float, default=600.0, help="of the processor, at most")
    parser.add_argument("--store", type=Path, default=Path("rule-loggers.jsonl"))
    given = parser.parse_args()
    done = {}
    if given.store.is_file():
        for line in given.store.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            done[one["kind"], one["seed"], one["explore"]] = one
    with given.store.open("a", encoding="utf-8") as store:
        for case in cases(given.first):
            key = case["kind"], case["seed"], case["explore"]
            if key not in done and time.process_time() < given.seconds:
                done[key] = judged(case)
                store.write(json.dumps(done[key]) + "\n")
                store.flush()
    text = text_of(list(done.values()))
    if given.write:
        put(given.write, "What `log check` finds", "Rules and honest loggers", text)
    else:
        sys.stdout.write(f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
