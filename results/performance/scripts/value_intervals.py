"""Coverage and width of intervals of a policy's value on the overlaps of published figures.

    python results/performance/scripts/value_intervals.py --write results/performance/intervals.md

Ten arms, rewards of zeros and ones with probabilities from .05 to .60, 1,000 rows; the target
policy plays the best arm with probability 1/2, the logging policy with 1/10 (mild), 1/100 (heavy)
or 1/1000 (rare). Also processor times for a million rows, and the distance from the intervals of
``vw-estimators``, where that package is installed. With --write each becomes a section.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.special import fdtr
from sections import put, table

from ope_bench import (
    Interval,
    betting_interval,
    betting_interval_of_terms,
    empirical_likelihood_interval,
    largest_shortfall,
    logarithmic_interval,
)
from ope_bench.statistics.coverage import Share, wilson

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))

from support.authors_release import MODULE, largest_difference
from support.rare_arm import OVERLAPS, RareArm

Make = Callable[[np.ndarray, np.ndarray, RareArm], tuple[float, float]]
Z = 1.959963984540054
EQUAL = np.arange(1, 26) / 26
PUBLISHED_LOGS = 400
"""All published coverages are multiples of 1/400, rounded to three digits."""
RELEASE_LOGS = 100

COVERAGE = f"""\
Nominal 95 %, {{logs:,}} logs of {{rows:,}} rows: coverage with Wilson's 95 % interval, mean width,
and what was published for the same figures. In parentheses, by how many standard errors the
published coverage differs, if it is of {PUBLISHED_LOGS} logs: all published ones are multiples of
1/{PUBLISHED_LOGS}. The publication names the overlaps and not the policies; these policies were
found by its widths."""

RELEASE = f"""\
Largest distance of the ends of empirical likelihood intervals over {RELEASE_LOGS} random logs of
5 to 200 rows, half of them with an unknown largest weight, from those of the package
`vw-estimators`."""


def _ends(found: Interval) -> tuple[float, float]:
    return found.low, found.high


def _normal(terms: np.ndarray) -> tuple[float, float]:
    reach = Z * terms.std(ddof=1) / np.sqrt(len(terms))
    return terms.mean() - reach, terms.mean() + reach


def _delta(weight: np.ndarray, reward: np.ndarray) -> tuple[float, float]:
    value = (weight * reward).sum() / weight.sum()
    reach = Z * np.sqrt(np.square(weight * (reward - value)).sum()) / weight.sum()
    return value - reach, value + reach


def _likelihood(
    weight: np.ndarray, reward: np.ndarray, limits: tuple[float, float], level: float = 0.95
) -> tuple[float, float]:
    return _ends(
        empirical_likelihood_interval(
            weight, reward, reward_range=(0, 1), weight_range=limits, level=level
        )
    )


def _level_by_chi_square(n: int) -> float:
    """Level at which the quantile of F(1, n) is that of chi-square at 95 %."""
    return float(fdtr(1, n, Z**2))


KINDS: dict[str, tuple[Make, tuple[str, str, str]]] = {
    "normal, IPW": (lambda w, r, _: _normal(w * r), (".930", ".945", ".497")),
    "delta method, self-normalized": (lambda w, r, _: _delta(w, r), (".945", ".912", ".412")),
    "empirical likelihood, weight range known": (
        lambda w, r, world: _likelihood(w, r, world.weight_range),
        (".955 / .105", ".950 / .340", "1.00 / .712"),
    ),
    "the same, cut by chi-square": (
        lambda w, r, world: _likelihood(w, r, world.weight_range, _level_by_chi_square(len(w))),
        ("", "", ""),
    ),
    "the same, smallest weight taken to be 0": (
        lambda w, r, world: _likelihood(w, r, (0.0, world.weight_range[1])),
        ("", "", ""),
    ),
    "empirical likelihood, weight range unknown": (
        lambda w, r, _: _likelihood(w, r, (0.0, math.inf)),
        ("", "", ""),
    ),
    "bets at equal distances": (
        lambda w, r, _: _ends(betting_interval(w, r, reward_range=(0, 1), bets=EQUAL)),
        ("1.00 / .211", "1.00 / .441", "1.00 / .536"),
    ),
    "bets in geometric progression (default)": (
        lambda w, r, _: _ends(betting_interval(w, r, reward_range=(0, 1))),
        ("", "", ""),
    ),
    "logarithmic smoothing": (
        lambda w, r, _: _ends(logarithmic_interval(w, r, reward_range=(0, 1))),
        ("", "", ""),
    ),
}
"""Kinds of intervals, each with published coverage (and width) by overlap."""


def figures(rows: int, logs: int, rng: np.random.Generator) -> Iterator[list[str]]:
    """Coverage with its interval, misses, and mean width, by kind and overlap."""
    held: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for position, overlap in enumerate(OVERLAPS):
        world = RareArm(overlap)
        drawn = [world.logs(rows, rng) for _ in range(logs)]
        for kind, (make, published) in KINDS.items():
            ends = np.array([make(weight, reward, world) for weight, reward in drawn])
            low, high = ends.T
            share = wilson(int(((low <= world.value) & (world.value <= high)).sum()), logs)
            held[kind].append(
                f"{share.value:.3f} [{share.low:.3f}, {share.high:.3f}], "
                f"width {(high - low).mean():.3f}{_beside(published[position], share)}"
            )
    for kind, cells in held.items():
        yield [kind, *cells]


def _beside(published: str, share: Share) -> str:
    """What was published, and how many standard errors its coverage lies from this one."""
    if not published or share.value is None:
        return ""
    both = published.split(" / ")
    # No log of either simulation may have missed.
    p = min(share.value, 1 - 0.5 / share.total)
    error = math.sqrt(p * (1 - p) * (1 / share.total + 1 / PUBLISHED_LOGS))
    distance = (float(both[0]) - share.value) / error
    width = f", width {both[1]}" if len(both) > 1 else ""
    return f"; published {both[0]} ({distance:+.1f}){width}"


def times(n: int) -> Iterator[list[str]]:
    """Processor seconds of one interval, with continuous rewards and with zeros and ones."""
    rng = np.random.default_rng(0)
    weight = rng.exponential(size=n)
    kinds: dict[str, Callable[[np.ndarray], Interval]] = {
        "empirical likelihood": lambda r: empirical_likelihood_interval(
            weight, r, reward_range=(0, 1), weight_range=(0, 50)
        ),
        "bets": lambda r: betting_interval(weight, r, reward_range=(0, 1)),
        "bets on doubly robust terms": lambda r: betting_interval_of_terms(
            weight * r, weight * (1 - r), largest_shortfall(n), reward_range=(0, 1)
        ),
        "logarithmic smoothing": lambda r: logarithmic_interval(weight, r, reward_range=(0, 1)),
    }
    rewards = rng.random(n), (rng.random(n) < 0.3).astype(float)
    for kind, make in kinds.items():
        cells = []
        for reward in rewards:
            begun = time.process_time()
            make(reward)
            cells.append(f"{time.process_time() - begun:.2f}")
        yield [kind, *cells]


def beside_the_release() -> list[str] | None:
    """The release's version and the largest distance from it; None where it is not installed."""
    try:
        release = importlib.import_module(MODULE)
    except ImportError:
        sys.stderr.write("vw-estimators is not installed: no comparison with it\n")
        return None
    with warnings.catch_warnings():
        # Its class of sums returns NumPy's floats from __float__.
        warnings.simplefilter("ignore", DeprecationWarning)
        worst = largest_difference(release, RELEASE_LOGS)
    return [f"vw-estimators {importlib.metadata.version('vw-estimators')}", f"{worst:.1e}"]


def main() -> int:
    """Read the arguments, simulate, and print or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="PAGE.md")
    parser.add_argument("--logs", type=int, default=10_000, help="simulated logs of each overlap")
    parser.add_argument("--only", nargs="+", choices=("coverage", "time", "release"))
    parser.add_argument("--rows", type=int, default=1_000)
    given = parser.parse_args()
    # The first call imports SciPy.
    betting_interval(np.ones(10), np.full(10, 0.5), reward_range=(0, 1))
    asked = given.only or ("coverage", "time", "release")
    parts = {}
    if "coverage" in asked:
        drawn = figures(given.rows, given.logs, np.random.default_rng(0))
        words = COVERAGE.format(logs=given.logs, rows=given.rows)
        parts["Coverage and width"] = words, table(["interval", *OVERLAPS], drawn)
    if "time" in asked:
        parts["Time of one interval"] = (
            "Processor seconds for a million rows on one thread, exponential weights.",
            table(["interval", "continuous rewards", "zeros and ones"], times(1_000_000)),
        )
    if "release" in asked and (distance := beside_the_release()) is not None:
        rows = table(["release", "largest distance"], [distance])
        parts["Beside the authors' release"] = RELEASE, rows
    for heading, (text, rows) in parts.items():
        if given.write:
            put(given.write, "Intervals of a policy's value", heading, f"{text}\n\n{rows}")
        else:
            sys.stdout.write(f"## {heading}\n\n{text}\n\n{rows}\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
