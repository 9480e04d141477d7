"""What the statistics of boards and pages promise, and what they hold.

    python results/performance/scripts/error_statistics.py \\
        --write results/performance/statistics.md

Simulated errors of several shapes, whose mean squares are known: the coverage of the RMSE
intervals that boards show; the share of rows that boards mark as heavy-tailed; how often the test
of mean squares tells apart two estimators of equal mean square; how often a slope is found where
there is none. With --write each becomes a section of that page.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
from judging.claims.comparisons import rmse_slope, typical_slope
from sections import put, table

from ope_bench.statistics.error_distribution import rmse_intervals
from ope_bench.statistics.paired_tests import signed_ranks, swap_test

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

SIZES = (10, 20, 50, 100, 200)
LEVEL = 0.05
RESAMPLES = 3_999

SHAPES: dict[str, tuple[Draw, float]] = {
    "normal": (lambda rng, size: rng.normal(size=size), 1.0),
    "biased: normal + 2 sd": (lambda rng, size: 2.0 + rng.normal(size=size), 5.0),
    "uniform": (lambda rng, size: rng.uniform(-1.0, 1.0, size=size), 1 / 3),
    "exponential": (lambda rng, size: rng.exponential(size=size) - 1.0, 1.0),
    "student t, 5": (lambda rng, size: rng.standard_t(5, size=size), 5 / 3),
    "student t, 3": (lambda rng, size: rng.standard_t(3, size=size), 3.0),
    "lognormal": (
        lambda rng, size: rng.lognormal(size=size) - np.exp(0.5),
        (math.e - 1.0) * math.e,
    ),
}
"""Shapes of errors, each with its mean square."""

PAIRS: dict[str, tuple[str, str]] = {
    "exchangeable, half of the error shared": ("shared", "shared"),
    "normal, student t 5": ("normal", "student t, 5"),
    "normal, student t 3": ("normal", "student t, 3"),
    "mostly bias, exponential": ("mostly bias", "exponential"),
    "normal, lognormal": ("normal", "lognormal"),
}
"""A steady estimator and one of another shape and the same mean square."""


def coverage(rows: int, rng: np.random.Generator) -> Iterator[list[str]]:
    """Coverage of the interval, width of log RMSE and share marked, by shape and size."""
    for name, (draw, mean_square) in SHAPES.items():
        cells = []
        for n in SIZES:
            found = rmse_intervals(draw(rng, (rows, n)), resamples=RESAMPLES)
            truth = np.sqrt(mean_square)
            held = (found.low <= truth) & (truth <= found.high)
            marked = found.heavy_tailed
            cells.append(f"{_share(held)} ({marked.mean():.0%}, {_share(held[~marked])})")
        yield [name, *cells]


def equal_mean_squares(rows: int, rng: np.random.Generator) -> Iterator[list[str]]:
    """How often either test tells two estimators of one mean square apart, and which way."""
    for name, (steady, other) in PAIRS.items():
        cells = []
        for n in SIZES[:-1]:
            one, two = _pair(steady, other, rng, (rows, n))
            test = swap_test(np.square(one), np.square(two))
            ranks = signed_ranks(one[: rows // 4], two[: rows // 4])
            cells.append(
                " ".join(
                    f"{np.mean(p <= LEVEL / 2):.1%} / {np.mean(q <= LEVEL / 2):.1%}{end}"
                    for (p, q), end in (
                        ((test.p_greater, test.p_less), ";"),
                        (ranks, ""),
                    )
                )
            )
        yield [name, *cells]


def flat_slopes(runs: int, rng: np.random.Generator) -> Iterator[list[str]]:
    """How often a slope is found in four settings whose errors are all alike."""
    axis = np.array([500.0, 1_000.0, 2_000.0, 4_000.0])
    for name in ("normal", "student t, 3", "lognormal"):
        for shared in (False, True):
            cells = []
            for n in SIZES[:-1]:
                found = np.zeros((runs, 2))
                for run in range(runs):
                    errors = SHAPES[name][0](rng, (4, n))
                    if shared:
                        # What makes a data set hard makes it hard at every setting.
                        errors = errors * np.exp(0.5 * rng.normal(size=n))
                    found[run] = rmse_slope(errors, axis).p, typical_slope(errors, axis).p
                rejected = (found <= LEVEL).mean(axis=0)
                cells.append(f"{rejected[0]:.1%}; {rejected[1]:.1%}")
            yield [f"{name}{', shared difficulty' if shared else ''}", *cells]


def _pair(
    steady: str, other: str, rng: np.random.Generator, size: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Errors of both, of mean square one."""
    if steady == "shared":
        common = rng.normal(size=size)
        return common + rng.normal(size=size), common + rng.normal(size=size)
    draw, mean_square = SHAPES[other]
    heavy = draw(rng, size) / np.sqrt(mean_square)
    if steady == "mostly bias":
        return np.sqrt(0.91) + 0.3 * rng.normal(size=size), heavy
    return rng.normal(size=size), heavy


def _share(held: np.ndarray) -> str:
    return f"{held.mean():.3f}" if len(held) else "-"


def main() -> None:
    """Simulate, print, and write if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000, help="simulated rows a cell")
    parser.add_argument("--write", type=Path, help="page whose sections are written")
    given = parser.parse_args()
    rng = np.random.default_rng(20261121)
    heads = [f"n = {n}" for n in SIZES]
    sections = [
        (
            "Intervals of the RMSE",
            (
                "Coverage of the nominal 95 % interval that boards show, by shape of the errors"
                " and number of replicates. In brackets the share of rows that boards mark as "
                "heavy-tailed, and the coverage over the rows without the mark: lower where "
                "tails are heavy, since a sample without its tail looks light. So every "
                "interval is shown."
            ),
            table(["errors", *heads], coverage(given.rows, rng)),
        ),
        (
            "Two estimators of equal mean square",
            (
                "How often a two-sided test at 5 % finds a difference between a steady "
                "estimator and another of the same mean square: steady called worse / steady "
                "called better. First the swap test of mean squares, which should do so in 2.5 "
                "% either way; behind the semicolon the signed ranks of absolute errors, whose "
                "question is another one: who is closer on most data sets. There the steady "
                "estimator is truly worse in all lines but the first."
            ),
            table(["errors", *heads[:-1]], equal_mean_squares(given.rows, rng)),
        ),
        (
            "Slopes where there is none",
            (
                "How often a test at 5 % finds a slope along four settings of equal error: "
                "slope of log RMSE by the jackknife; behind the semicolon the median slope of "
                "log absolute error by signed ranks."
            ),
            table(["errors", *heads[:-1]], flat_slopes(max(100, given.rows // 4), rng)),
        ),
    ]
    for heading, words, body in sections:
        print(f"## {heading}\n\n{words}\n\n{body}\n")
        if given.write:
            put(given.write, "What statistics of errors hold", heading, f"{words}\n\n{body}")


if __name__ == "__main__":
    main()
