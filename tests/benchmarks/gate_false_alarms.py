"""How often the gate closes on unchanged code.

    python tests/benchmarks/gate_false_alarms.py --gates 2000

Two figures: gates with the same seeds (every trial really run twice, on a small suite), and gates
with fresh seeds over a simulated board of 60 rows, for each of several error distributions, rows
that the board would mark heavy-tailed judged apart.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from ope_bench import evaluate
from ope_bench.gate.judging import judge
from ope_bench.gate.pairing import Pair, PairedRow
from ope_bench.records import Trial, TrialRecord
from ope_bench.resolve import resolve
from ope_bench.statistics.bootstrap import jointly_heavy_tailed
from ope_bench.statistics.paired import swap_test
from ope_bench.trial import build

ROWS = 60
LEVEL = 0.01
MARGIN = 0.02
BATCH = 6000
PROMISING = 2.0

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


def fresh_seeds(kind: str, replicates: int, gates: int, rng: np.random.Generator) -> str:
    """Share of gates that close, over rows not marked and over rows marked heavy-tailed.

    A gate closes if the smallest p-value of its 60 rows is at most the level over 60. Rows whose
    statistic is far below what that takes are not swapped at all.
    """
    draw = DISTRIBUTIONS[kind]
    alarms = {"light": 0, "heavy": 0}
    rows = {"light": 0, "heavy": 0}
    for _ in range(-(-gates * ROWS // BATCH)):
        before = np.square(draw(rng, (BATCH, replicates)))
        after = np.square(draw(rng, (BATCH, replicates)))
        heavy = jointly_heavy_tailed(after / (1 + MARGIN), before)
        promising = studentised(after / (1 + MARGIN), before) > PROMISING
        for name, mask in (("light", ~heavy), ("heavy", heavy)):
            rows[name] += int(mask.sum())
            chosen = mask & promising
            if chosen.any():
                share = LEVEL * chosen.sum() / ROWS
                test = swap_test(after[chosen], before[chosen], null_ratio=1 + MARGIN, level=share)
                alarms[name] += int((test.p_greater <= LEVEL / ROWS).sum())
    told = []
    for name in ("light", "heavy"):
        if rows[name] < BATCH // 10:
            told.append(f"{name} -")
            continue
        rate = 1 - (1 - alarms[name] / rows[name]) ** ROWS
        told.append(f"{name} {100 * rate:.2f} % ({alarms[name]} of {rows[name]} rows)")
    return f"{kind:<14} n={replicates:<4} {told[0]:<34} {told[1]}"


def studentised(after: np.ndarray, before: np.ndarray) -> np.ndarray:
    """The statistic of the swap test."""
    n, m1, m0 = after.shape[1], after.mean(axis=1), before.mean(axis=1)
    spread = after / m1[:, None] - before / m0[:, None]
    return np.log(m1 / m0) / np.sqrt(np.square(spread).sum(axis=1) / (n * (n - 1)))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gates", type=int, default=1000, help="a distribution, fresh seeds")
    parser.add_argument("--same", type=int, default=200, help="gates with the same seeds")
    parser.add_argument("--replicates", type=int, nargs="+", default=[20, 100])
    given = parser.parse_args()
    print(f"same seeds: {same_seeds(given.same)} of {given.same} gates closed")
    rng = np.random.default_rng(20250101)
    print(f"fresh seeds: gates of {ROWS} rows that close, level {LEVEL}, margin {MARGIN}")
    for replicates in given.replicates:
        for kind in DISTRIBUTIONS:
            print(fresh_seeds(kind, replicates, given.gates, rng), flush=True)


if __name__ == "__main__":
    main()
