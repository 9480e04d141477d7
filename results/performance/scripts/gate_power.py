"""How often the gate sees a degradation.

    python results/performance/scripts/gate_power.py --rows 600 --replicates 60

First simulated rows whose errors all grew alike, over shapes of errors, numbers of replicates and
correlations before and after: how often the mean square alone sees it, as gates judged once, and
how often either test does, as they judge now. Then real degradations of real estimators on a real
environment, shown as the gate shows them. With --write both become sections of that page and the
simulated figures a part of the JSON file beside it.
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

from ope_bench import Environment, Problem, Truth
from ope_bench.gate.baseline import Pair, PairedRow
from ope_bench.gate.verdict import judge
from ope_bench.gate.verdict_tables import detail
from ope_bench.plugins.registry import Kind
from ope_bench.plugins.spec import PluginSpec, resolve
from ope_bench.statistics.paired_tests import signed_ranks, swap_test
from ope_bench.suites.suite import parse_selector
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.trial import Workspace, build, run_trial

GROWTHS = (0.1, 0.3, 1.0)

TITLE = "The gate: how often it closes without cause, and what it sees"

DEGRADATIONS = (
    ("ipw without its clip", "ipw[clip=10]", "ipw"),
    ("ipw, clip 10 -> 9", "ipw[clip=10]", "ipw[clip=9]"),
    ("ipws clipped at 1", "ipws", "ipws[clip=1]"),
    ("eipw clipped at 2", "eipw", "eipw[clip=2]"),
    ("epws, 3 trees", "epws", "epws[classifier_params={max_iter: 3}]"),
    ("epws, 30 trees for 60", *(f"epws[classifier_params={{max_iter: {n}}}]" for n in (60, 30))),
    ("epws, context dropped", "epws", "epws"),
    ("ipw -> ipws (better)", "ipw", "ipws"),
)
"""What changed, before and after; in ``context dropped`` the estimator sees constant contexts."""


def power(
    shape: str, correlation: float, n: int, growth: float, rows: int, rng: np.random.Generator
) -> dict[str, float]:
    """Shares of rows called worse: by mean squares alone, now, and now as the only row."""
    before, after = drawn(shape, correlation, (rows, n), rng)
    after *= 1 + growth
    # A fifth of the swaps that a gate draws is enough for shares of rows.
    by_square = swap_test(
        np.square(after),
        np.square(before),
        null_ratio=1 + MARGIN,
        level=5 * LEVEL * rows / (2 * ROWS),
    ).p_greater
    by_rank, _ = signed_ranks(after, before, null_ratio=np.sqrt(1 + MARGIN))
    either = np.minimum(by_square, by_rank)
    return {
        "mean_square_alone": float((by_square <= LEVEL / ROWS).mean()),
        "gate": float((either <= LEVEL / (2 * ROWS)).mean()),
        "only_row": float((either <= LEVEL / 2).mean()),
    }


def simulated(rows: int) -> Iterator[dict[str, Any]]:
    """Every cell of the tables."""
    rng = np.random.default_rng(20261121)
    for growth in GROWTHS:
        for shape in SHAPES:
            for n in SIZES:
                for correlation in CORRELATIONS:
                    shares = power(shape, correlation, n, growth, rows, rng)
                    yield {
                        "growth": growth,
                        "errors": shape,
                        "replicates": n,
                        "correlation": correlation,
                        **shares,
                    }


def power_tables(cells: list[dict[str, Any]], rows: int) -> str:
    """A table for each growth."""
    parts = [
        f"""
Simulated: share of rows called worse in percent; level {LEVEL}, margin {MARGIN} on the mean
squared error, {rows:,} rows a cell. In each cell: by the mean square alone, as one of {ROWS} rows
that changed, the others without harm / by the mean square or the typical error, as gates judge, as
one of {ROWS} / the same as the only row that changed. The correlation is that of the normal scores
of the errors before and after.
""".strip()
    ]
    heads = ["errors, replicates", *(f"correlation {one}" for one in CORRELATIONS)]
    for growth in GROWTHS:
        lines = []
        for shape in SHAPES:
            for n in SIZES:
                found = [
                    one
                    for one in cells
                    if (one["growth"], one["errors"], one["replicates"]) == (growth, shape, n)
                ]
                names = ("mean_square_alone", "gate", "only_row")
                words = (" / ".join(f"{100 * one[name]:.0f}" for name in names) for one in found)
                lines.append([f"{shape}, {n}", *words])
        parts.append(f"All errors {100 * growth:.0f} % larger:\n\n{table(heads, lines)}")
    return "\n\n".join(parts)


class Blind(Environment):
    """Another environment's problems with a constant context; everything else as it is."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """The problem without what contexts tell."""
        problem, truth = self.inner.sample(
            world_rng=world_rng, logged_rng=logged_rng, target_rng=target_rng
        )
        blank = {"context": np.zeros_like(problem.context)}
        blank["target_context"] = np.zeros_like(problem.target_context)
        return replace(problem, **blank), truth


def real(replicates: int, environment: str) -> str:
    """Real estimators, made worse or better."""
    rows = []
    for name, before, after in DEGRADATIONS:
        then = outcomes(environment, before, replicates)
        now = outcomes(environment, after, replicates, blind="dropped" in name)
        (found,) = judge([_row(then, now)], "expected")
        ratio = "-" if found.ratio is None else f"x{found.ratio:.3f}"
        rows.append([name, found.verdict.value, ratio, detail(found)])
    told = f"Real changes on `{environment}`, {replicates} replicates, each alone."
    return f"{told}\n\n{table(('change', 'verdict', 'MSE', 'what it rests on'), rows)}"


def outcomes(
    environment: str, estimator: str, replicates: int, *, blind: bool = False
) -> list[TrialRecord]:
    """Records of one estimator; a blind one gets the same data without their contexts."""
    world_spec, method_spec = spec("environment", environment), spec("estimator", estimator)
    world = build(world_spec)
    if blind:
        world = Blind(world)
    workspace = Workspace()
    return [
        run_trial(Trial(world_spec, method_spec, replicate), workspace, environment=world)
        for replicate in range(replicates)
    ]


def spec(kind: Kind, text: str) -> PluginSpec:
    """What a selector names."""
    selector = parse_selector(text)
    return resolve(kind, selector.reference, selector.params)


def _row(then: list[TrialRecord], now: list[TrialRecord]) -> PairedRow:
    trial = then[0].trial
    pairs = (Pair(a, b.trial, b) for a, b in zip(then, now, strict=True))
    return PairedRow(trial.environment, trial.estimator, trial.device, tuple(pairs))


def main() -> None:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=600, help="simulated rows a cell; 0 for none")
    parser.add_argument("--replicates", type=int, default=60, help="of real changes; 0 for none")
    parser.add_argument("--environment", default="saito-toy[n_actions=50,n_samples=500]")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="a page of results")
    given = parser.parse_args()
    sections = []
    if given.rows:
        cells = list(simulated(given.rows))
        sections.append(("Code that is worse", power_tables(cells, given.rows)))
        if given.write:
            note(given.write, "power", {"rows": given.rows, "cells": cells})
    if given.replicates:
        sections.append(("Real changes", real(given.replicates, given.environment)))
    for heading, body in sections:
        if given.write:
            put(given.write, TITLE, heading, body)
        else:
            print(f"## {heading}\n\n{body}\n")


if __name__ == "__main__":
    main()
