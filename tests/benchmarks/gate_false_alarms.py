"""How often the gate closes on code that is no worse.

    python tests/benchmarks/gate_false_alarms.py --gates 300 --same 200

Three figures: gates with the same seeds and unchanged code (every trial really run twice, on a
small suite); simulated boards of 60 rows that all changed without harm, on the same data; and the
same on fresh data. The simulated ones for several error distributions, rows that a board would
mark heavy-tailed judged apart. With --write they become a section of that page.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from sections import put, table

from ope_bench import evaluate
from ope_bench.gate.judging import judge
from ope_bench.gate.pairing import Pair, PairedRow
from ope_bench.records import Trial, TrialRecord
from ope_bench.resolve import resolve
from ope_bench.statistics.bootstrap import jointly_heavy_tailed
from ope_bench.statistics.paired import swap_test
from ope_bench.statistics.rearrangement import RatioTest
from ope_bench.statistics.unpaired import permutation_test
from ope_bench.trial import build

ROWS = 60
LEVEL = 0.01
MARGIN = 0.02
BATCH = 6000
PROMISING = 2.0

Counts = list[tuple[int, int]]

DISTRIBUTIONS = {
    "normal": lambda rng, size: rng.normal(size=size),
    "biased": lambda rng, size: 1 + 0.3 * rng.normal(size=size),
    "laplace": lambda rng, size: rng.laplace(size=size),
    "exponential": lambda rng, size: rng.exponential(size=size) - 1,
    "student t, 5": lambda rng, size: rng.standard_t(5, size=size),
    "student t, 3": lambda rng, size: rng.standard_t(3, size=size),
    "student t, 2": lambda rng, size: rng.standard_t(2, size=size),
    "lognormal": lambda rng, size: rng.lognormal(sigma=1.0, size=size),
    "cauchy": lambda rng, size: rng.standard_cauchy(size=size),
}


def same_seeds(gates: int) -> int:
    """Gates that closed although nothing changed; every gate runs all trials anew."""
    closed = 0
    world = build(resolve("environment", "saito-toy", {"n_samples": 50}))
    for gate in range(gates):
        runs = [
            evaluate(["ipws", "eipw", "dm-star"], world, replicates=2, seed=gate) for _ in range(2)
        ]
        rows: dict[str, list[tuple[TrialRecord, TrialRecord]]] = {}
        for before, after in zip(*runs, strict=True):
            rows.setdefault(before.trial.estimator.id, []).append((before, after))
        judged = judge([_row(pairs) for pairs in rows.values()], "empirical")
        closed += any(one.verdict != "same" for one in judged)
    return closed


def _row(pairs: list[tuple[TrialRecord, TrialRecord]]) -> PairedRow:
    trial: Trial = pairs[0][0].trial
    return PairedRow(
        trial.environment,
        trial.estimator,
        trial.device,
        tuple(Pair(replace(before), after.trial, after) for before, after in pairs),
    )


def alarms(
    kind: str, replicates: int, gates: int, rng: np.random.Generator, *, fresh: bool
) -> Counts:
    """Alarms and rows, of rows not marked and of rows marked heavy-tailed.

    A gate closes if the smallest p-value of its 60 rows is at most the level over 60. Rows whose
    statistic is far below what that takes are not rearranged at all. On the same data half of an
    error is common to both sides.
    """
    draw = DISTRIBUTIONS[kind]
    test: Callable[..., RatioTest] = permutation_test if fresh else swap_test
    found = {"light": 0, "heavy": 0}
    rows = {"light": 0, "heavy": 0}
    size = (BATCH, replicates)
    for _ in range(-(-gates * ROWS // BATCH)):
        common = 0.0 if fresh else draw(rng, size)
        before = np.square(common + draw(rng, size))
        after = np.square(common + draw(rng, size))
        heavy = jointly_heavy_tailed(after / (1 + MARGIN), before)
        promising = studentised(after / (1 + MARGIN), before, fresh=fresh) > PROMISING
        for name, mask in (("light", ~heavy), ("heavy", heavy)):
            rows[name] += int(mask.sum())
            chosen = mask & promising
            if chosen.any():
                share = LEVEL * chosen.sum() / ROWS
                told = test(after[chosen], before[chosen], null_ratio=1 + MARGIN, level=share)
                found[name] += int((told.p_greater <= LEVEL / ROWS).sum())
    return [(found[name], rows[name]) for name in ("light", "heavy")]


def cell(alarms: int, rows: int) -> str:
    """The share of gates that close, were all their rows like these."""
    if rows < BATCH // 10:
        return "-"
    rate = 1 - (1 - alarms / rows) ** ROWS
    return f"{100 * rate:.2f} % ({alarms} of {rows:,})"


def studentised(after: np.ndarray, before: np.ndarray, *, fresh: bool) -> np.ndarray:
    """The statistic of the gate's test."""
    n, m1, m0 = after.shape[1], after.mean(axis=1), before.mean(axis=1)
    one, other = after / m1[:, None] - 1, before / m0[:, None] - 1
    spread = one**2 + other**2 if fresh else (one - other) ** 2
    return np.log(m1 / m0) / np.sqrt(spread.sum(axis=1) / (n * (n - 1)))


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gates", type=int, default=1000, help="a distribution")
    parser.add_argument("--same", type=int, default=200, help="gates with the same seeds")
    parser.add_argument("--replicates", type=int, default=100)
    parser.add_argument("--write", type=Path, metavar="PAGE", help="a page of results")
    given = parser.parse_args()
    rng = np.random.default_rng(20250101)
    counts: dict[str, Counts] = {}
    for kind in DISTRIBUTIONS:
        paired, unpaired = (
            alarms(kind, given.replicates, given.gates, rng, fresh=fresh)
            for fresh in (False, True)
        )
        counts[kind] = [*paired, *unpaired]
    columns = zip(*counts.values(), strict=True)
    counts["all"] = [(sum(a for a, _ in one), sum(n for _, n in one)) for one in columns]
    rows = [[kind, *(cell(a, n) for a, n in cells)] for kind, cells in counts.items()]
    heads = ("errors", "same data, light", "heavy", "fresh data, light", "heavy")
    body = f"""
{same_seeds(given.same)} of {given.same} gates closed on unchanged code with the same seeds.

Simulated boards of {ROWS} rows that all changed without harm, {given.replicates} replicates a row,
level {LEVEL}, margin {MARGIN} on the mean squared error: the share of gates that close, and alarms
of rows. On the same data half of an error is common to both sides; on fresh data nothing is.
*Light* are rows that a board would not mark heavy-tailed, *heavy* those that it would.

{table(heads, rows)}
"""
    if given.write:
        put(
            given.write,
            "The gate: how often it closes without cause, and what it sees",
            "Code that is no worse",
            body,
        )
    else:
        print(body)


if __name__ == "__main__":
    main()
