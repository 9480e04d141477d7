"""How often the gate closes on code that is no worse.

    python results/performance/scripts/gate_false_alarms.py --gates 500 --same 100

Gates with the same seeds and unchanged code (every trial really run twice, on a small suite), and
simulated boards of 60 rows that all changed, on the same data, for errors of several shapes,
correlations before and after, and numbers of replicates. In the simulated rows the errors have
grown by exactly the margin, the most that may pass. With --write the figures
become a section of that page and a part of the JSON file beside it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from gate_errors import CORRELATIONS, LEVEL, MARGIN, ROWS, SHAPES, SIZES, drawn, note
from sections import put, table

from ope_bench import evaluate
from ope_bench.gate.baseline import Pair, PairedRow
from ope_bench.gate.verdict import judge
from ope_bench.plugins.spec import resolve
from ope_bench.statistics.paired_tests import signed_ranks, swap_test
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.trial import build

BATCH = 6000
PROMISING = 2.0
"""Rows whose statistic of the mean squares is below this are not rearranged at all."""

TITLE = "The gate: how often it closes without cause, and what it sees"


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
    shape: str, correlation: float, n: int, gates: int, rng: np.random.Generator
) -> tuple[int, int, int]:
    """Rows called worse by the mean square, by the typical error, and by either.

    A gate closes if the smallest p-value of its 60 rows, two a row, is at most the level over 120.
    """
    threshold = LEVEL / (2 * ROWS)
    found = np.zeros(3, dtype=int)
    for _ in range(-(-gates * ROWS // BATCH)):
        before, after = drawn(shape, correlation, (BATCH, n), rng)
        after *= np.sqrt(1 + MARGIN)
        by_square = _mean_squares(np.square(after), np.square(before)) <= threshold
        chosen = _ranked_higher(after, before)
        by_rank = np.zeros(BATCH, dtype=bool)
        if chosen.any():
            p, _ = signed_ranks(after[chosen], before[chosen], null_ratio=np.sqrt(1 + MARGIN))
            by_rank[chosen] = p <= threshold
        found += [by_square.sum(), by_rank.sum(), (by_square | by_rank).sum()]
    return int(found[0]), int(found[1]), int(found[2])


def _mean_squares(after: np.ndarray, before: np.ndarray) -> np.ndarray:
    """The p-values of the gate's test, 1 for rows that are far from any alarm."""
    promising = _studentized(after / (1 + MARGIN), before) > PROMISING
    p = np.ones(len(after))
    if promising.any():
        share = LEVEL * promising.sum() / (2 * ROWS)
        told = swap_test(after[promising], before[promising], null_ratio=1 + MARGIN, level=share)
        p[promising] = told.p_greater
    return p


def _studentized(after: np.ndarray, before: np.ndarray) -> np.ndarray:
    """The statistic of the gate's test of mean squares."""
    n, m1, m0 = after.shape[1], after.mean(axis=1), before.mean(axis=1)
    one, other = after / m1[:, None] - 1, before / m0[:, None] - 1
    error = np.sqrt(((one - other) ** 2).sum(axis=1) / (n * (n - 1)))
    # At correlation 1 before and after are the same but for the margin.
    return np.divide(np.log(m1 / m0), error, out=np.zeros(len(after)), where=error > 1e-12)


def _ranked_higher(after: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Rows whose rank statistic is two standard deviations above its mean, or more."""
    a, b = np.abs(after) / np.sqrt(1 + MARGIN), np.abs(before)
    n = a.shape[1]
    ranks = np.abs(a - b).argsort(axis=1).argsort(axis=1) + 1
    mean, variance = n * (n + 1) / 4, n * (n + 1) * (2 * n + 1) / 24
    return np.asarray((ranks * (a > b)).sum(axis=1) > mean + 2 * np.sqrt(variance))


def simulated(gates: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Every cell of the table."""
    batches = -(-gates * ROWS // BATCH)
    for shape in SHAPES:
        for n in SIZES:
            for correlation in CORRELATIONS:
                found = alarms(shape, correlation, n, gates, rng)
                rows = batches * BATCH
                yield {
                    "errors": shape,
                    "replicates": n,
                    "correlation": correlation,
                    "rows": rows,
                    "mean_square": found[0],
                    "typical_error": found[1],
                    "either": found[2],
                }


def _of(cells: list[dict[str, Any]], **wanted: object) -> list[dict[str, Any]]:
    return [one for one in cells if all(one[name] == value for name, value in wanted.items())]


def _cell(cells: list[dict[str, Any]]) -> str:
    """Share of gates that close, were all their rows like these, and alarms either way."""
    total = {
        name: sum(one[name] for one in cells)
        for name in ("rows", "mean_square", "typical_error", "either")
    }
    closed = 1 - (1 - total["either"] / total["rows"]) ** ROWS
    return f"{100 * closed:.1f} % ({total['mean_square']} + {total['typical_error']})"


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gates", type=int, default=500, help="a cell")
    parser.add_argument("--same", type=int, default=100, help="gates with the same seeds")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="a page of results")
    given = parser.parse_args()
    cells = list(simulated(given.gates, np.random.default_rng(20261121)))
    closed = same_seeds(given.same)
    lines = [
        [f"{shape}, {n}", *(_cell([one]) for one in _of(cells, errors=shape, replicates=n))]
        for shape in SHAPES
        for n in SIZES
    ]
    lines.append(["all", *(_cell(_of(cells, correlation=one)) for one in CORRELATIONS)])
    heads = ["errors, replicates", *(f"correlation {one}" for one in CORRELATIONS)]
    body = f"""
{closed} of {given.same} gates closed on unchanged code with the same seeds.

Simulated boards of {ROWS} rows that all changed, level {LEVEL}, margin {MARGIN} on the mean
squared error; all errors have grown by exactly the margin, the most that may pass. In each cell
the share of gates that close, and in brackets the rows called worse by the mean square and by the
typical error, of {cells[0]["rows"]:,} a cell and nine times as many in the last line. The
correlation is that of the normal scores of the errors before and after; at 1 both are the same but
for the margin. The gate promises {100 * LEVEL:.0f} % at most.

{table(heads, lines)}
"""
    if given.write:
        put(given.write, TITLE, "Code that is no worse", body)
        same = {"gates": given.same, "closed": closed}
        note(
            given.write, "false_alarms", {"rows_a_gate": ROWS, "same_seeds": same, "cells": cells}
        )
    else:
        print(body)


if __name__ == "__main__":
    main()
