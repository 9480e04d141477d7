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
from ope_bench.gate.judging import Rules, judge
from ope_bench.gate.pairing import Pair, PairedRow
from ope_bench.records import Trial, TrialRecord
from ope_bench.resolve import resolve
from ope_bench.statistics.bootstrap import heavy_tailed
from ope_bench.statistics.paired import holm, swap_test
from ope_bench.trial import build

ROWS = 60
LEVEL = 0.01
MARGIN = 0.02

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
    """Share of gates that close, over rows not marked and over rows marked heavy-tailed."""
    draw = DISTRIBUTIONS[kind]
    closed = {"light": 0, "heavy": 0}
    tried = {"light": 0, "heavy": 0}
    waiting: dict[str, list[np.ndarray]] = {"light": [], "heavy": []}
    while tried["light"] < gates and tried["light"] + tried["heavy"] < 3 * gates:
        before = np.square(draw(rng, (4 * ROWS, replicates)))
        after = np.square(draw(rng, (4 * ROWS, replicates)))
        heavy = heavy_tailed(before) | heavy_tailed(after)
        for name, mask in (("light", ~heavy), ("heavy", heavy)):
            waiting[name] += list(np.stack([after[mask], before[mask]], axis=1))
            while len(waiting[name]) >= ROWS:
                board = np.stack([waiting[name].pop() for _ in range(ROWS)])
                p = swap_test(board[:, 0], board[:, 1], null_ratio=1 + MARGIN, level=LEVEL)
                closed[name] += bool((holm(p.p_greater) <= Rules().level).any())
                tried[name] += 1
    told = [
        f"{name} {closed[name]}/{tried[name]} ({100 * closed[name] / tried[name]:.2f} %)"
        if tried[name]
        else f"{name} -"
        for name in ("light", "heavy")
    ]
    return f"{kind:<14} n={replicates:<4} {told[0]:<26} {told[1]}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gates", type=int, default=1000, help="a distribution, fresh seeds")
    parser.add_argument("--same", type=int, default=200, help="gates with the same seeds")
    parser.add_argument("--replicates", type=int, nargs="+", default=[20, 100])
    given = parser.parse_args()
    print(f"same seeds: {same_seeds(given.same)} of {given.same} gates closed")
    rng = np.random.default_rng(20250101)
    print(f"fresh seeds, {ROWS} rows a gate, level {LEVEL}, margin {MARGIN}:")
    for replicates in given.replicates:
        for kind in DISTRIBUTIONS:
            print(fresh_seeds(kind, replicates, given.gates, rng), flush=True)


if __name__ == "__main__":
    main()
