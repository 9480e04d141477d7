"""Coverage of `ope-bench estimate` on 200 logs of worlds on which no interval was tuned.

    python results/performance/scripts/own_log_intervals.py --write results/performance/own-logs.md

Each log is drawn from an environment whose value is known, exported as a user would have it (a
frame of decisions, items, and both policies as tables), and estimated with each kind of interval.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from sections import put, table

from ope_bench import Log, estimate
from ope_bench.contracts.data import Problem
from ope_bench.contracts.plugins import IntervalKind
from ope_bench.contracts.random import DataSeed
from ope_bench.statistics.coverage import wilson
from ope_bench.suites.manifest import specs_of
from ope_bench.trials.trial import build

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))

from support.small_logs import log_of

GREEDY = "epsilon-greedy"
WORLDS = (
    "logs[n_samples=500,target=softmax,reward_model=boosting]",
    "multiclass[dataset=digits,n_samples=400]",
    f"linear-bandit[n_samples=500,n_actions=20,reward=logistic,logging={GREEDY},target={GREEDY}]",
)
KINDS: dict[IntervalKind, tuple[str, ...]] = {
    "asymptotic": ("ipw", "ipws", "dr[regressor=ridge]", "sndr[regressor=ridge]"),
    "empirical-likelihood": ("ipws",),
    "guaranteed": ("ipw",),
    "bootstrap": ("ipws",),
}
"""Estimators that are asked for each kind."""


def logs_of(world: str, count: int) -> Iterator[tuple[Log, float]]:
    """Draw logs of a world, each with the value of its policy."""
    (spec,) = specs_of("environment", world)
    environment = build(spec)
    for replicate in range(count):
        seed = DataSeed(spec.id, 1, replicate)
        problem, truth = environment.sample(
            world_rng=seed.world(), logged_rng=seed.logged(), target_rng=seed.target()
        )
        yield exported(problem), truth.expected


def exported(problem: Problem) -> Log:
    """Return a problem as a user's log, its range of rewards included."""
    log = log_of(problem)
    return Log(**{**vars(log), "reward_range": problem.reward_range})


def lines(count: int) -> Iterator[list[str]]:
    """Coverage and mean width by world, kind and estimator, and what `estimate` says of kinds."""
    share = -(-count // len(WORLDS))
    for world in WORLDS:
        held: Counter[tuple[str, str]] = Counter()
        offered: Counter[tuple[str, str]] = Counter()
        width: dict[tuple[str, str], float] = defaultdict(float)
        said: Counter[str] = Counter()
        for log, value in logs_of(world, share):
            for kind, selectors in KINDS.items():
                result = estimate(log, list(selectors), interval=kind)
                said.update(note for note in result.notes if note.startswith("interval:"))
                for row in result:
                    if row.low is not None and row.high is not None and row.interval == kind:
                        key: tuple[str, str] = kind, row.estimator
                        offered[key] += 1
                        width[key] += row.high - row.low
                        held[key] += row.low <= value <= row.high
        for key, of in offered.items():
            found = wilson(held[key], of)
            yield [
                f"`{world}`",
                key[0],
                f"`{key[1]}`",
                f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}] of {of}",
                f"{width[key] / of:.3f}",
            ]
        for note, times in said.most_common(1):
            yield [f"`{world}`", "`estimate` says", "", note, f"{times} times"]


def main() -> int:
    """Read the arguments, count, and print or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="PAGE.md")
    parser.add_argument("--logs", type=int, default=201)
    given = parser.parse_args()
    heads = ["world", "interval", "estimator", "coverage of 95 %, with Wilson's interval", "width"]
    found = table(heads, lines(given.logs))
    text = (
        f"{given.logs} logs of three worlds that are in no suite of intervals, exported as a "
        "user's logs and estimated as by `ope-bench estimate --interval KIND`. Last of each "
        "world: which interval `estimate` advises for such a log, from results/intervals."
    )
    if given.write:
        put(given.write, "Own logs", "Coverage", f"{text}\n\n{found}")
    else:
        sys.stdout.write(f"{text}\n\n{found}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
