"""Standard errors that `weighted-ipw` and `blue` withhold: how often they would hold.

    python results/performance/scripts/logger_errors.py \\
        --write results/performance/standard-errors.md

Both weigh estimates by shares that are estimated from the same rows. Counted is how often value ±
1.96 standard errors holds the value in small logs of three loggers and of one, with errors that
take shares as given, and with the jackknife's and the bootstrap's, which estimate them anew.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
from sections import put, table

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))

from ope_bench import Problem, Tabular
from ope_bench.contracts.arrays import FloatArray
from ope_estimators.loggers.weighted_ipw import WeightedIPW
from ope_estimators.selection.blue import Blue, blue_weights
from support import tiny_lists

LOGGERS = np.array([[0.8, 0.1, 0.1], [0.85, 0.1, 0.05], [0.2, 0.2, 0.6]])
TARGET = np.array([0.1, 0.2, 0.7])
RATES = np.array([0.2, 0.3, 0.4])
"""Reward rates of the three actions."""

EQUAL, UNEQUAL, ONE = (1 / 3, 1 / 3, 1 / 3), (0.9, 0.05, 0.05), (1.0, 0.0, 0.0)
CASES = (
    (60, EQUAL, 1.0),
    (600, EQUAL, 0.1),
    (600, UNEQUAL, 1.0),
    (600, UNEQUAL, 0.1),
    (60, ONE, 0.2),
    (600, ONE, 0.1),
)
"""Rows, shares of the loggers, and what rates are multiplied by."""

CANDIDATES = ("ipw", "balanced-ipw")
ALONE = ("ipw", "dr[regressor=ridge]")
"""What is combined of one logger."""

REACH, DRAWN = 1.96, 100


def log(n: int, shares: tuple[float, ...], rate: float, rng: np.random.Generator) -> Problem:
    """Draw a log; every logger with a share has a row."""
    used = np.flatnonzero(shares)
    stratum = rng.choice(len(shares), n, p=shares)
    stratum[: len(used)] = used
    action = (LOGGERS[stratum].cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1)
    reward = (rng.random(n) < rate * RATES[action]).astype(float)

    def policy(chances: FloatArray) -> Tabular:
        return Tabular(chances[None], lambda context: np.zeros(len(context), dtype=int))

    log = Problem(
        rng.normal(size=(n, 1)), action, np.eye(3)[action], reward, None, None, None, 3,
        propensity=LOGGERS[stratum, action], target_policy=policy(TARGET),
    )  # fmt: skip
    if len(used) > 1:
        policies = tuple(map(policy, LOGGERS))
        return replace(log, stratum=stratum, stratum_policies=policies)
    return replace(log, logging_policy=policy(LOGGERS[0]))


def errors_of(terms: FloatArray, rng: np.random.Generator) -> list[float]:
    """Return standard errors of the combination of candidates with these terms, (k, n).

    That of given weights, the jackknife's, and the bootstrap's.
    """
    n = terms.shape[1]
    products = (terms[:, None] * terms).reshape(-1, n)

    def values(counts: FloatArray) -> FloatArray:
        """Return blue's values where rows count as often as told: (k,)."""
        means = counts @ terms.T / counts.sum(axis=1, keepdims=True)
        squares = (counts @ products.T).reshape(-1, len(terms), len(terms))
        total = counts.sum(axis=1)[:, None, None]
        spread = squares - total * means[:, :, None] * means[:, None]
        # `blue_weights`, of all at once.
        raw = np.linalg.pinv(spread, rcond=1e-10, hermitian=True).sum(axis=2)
        total = raw.sum(axis=1, keepdims=True)
        weight = np.divide(raw, total, out=np.full_like(raw, 1 / len(terms)), where=total > 0)
        found: FloatArray = (weight * means).sum(axis=1)
        return found

    centered = terms - terms.mean(axis=1, keepdims=True)
    given = blue_weights(centered @ centered.T) @ centered
    without = values(1.0 - np.eye(n))
    drawn = values(rng.multinomial(n, np.full(n, 1.0 / n), DRAWN).astype(float))
    return [
        float(np.sqrt(np.square(given).sum() / (n * (n - 1)))),
        float(np.sqrt((n - 1) / n * np.square(without - without.mean()).sum())),
        float(np.std(drawn, ddof=1)),
    ]


def lines(replicates: int, seed: int) -> Iterable[list[str]]:
    """Return one line a case: biases, and the share of logs that each error held."""
    for number, (n, shares, rate) in enumerate(CASES):
        several, truth = shares is not ONE, rate * float(TARGET @ RATES)
        held: list[list[bool]] = []
        bias = []
        for k in range(replicates):
            rng = np.random.default_rng([seed, number, k])
            given = log(n, shares, rate, rng)
            names = CANDIDATES if several else ALONE
            alone = [tiny_lists.run(Blue([one]), given).terms for one in names]
            blue = tiny_lists.run(Blue([*names]), given)
            weighted = tiny_lists.run(WeightedIPW(), given) if several else blue
            own = float(np.std(weighted.terms, ddof=1) / np.sqrt(n))
            values = [weighted.value, *[blue.value] * 3]
            errors = [own, *errors_of(np.stack(alone), rng)]
            pairs = zip(values, errors, strict=True)
            held.append([abs(value - truth) <= REACH * error for value, error in pairs])
            bias.append([weighted.value - truth, blue.value - truth])
        found, off = np.mean(held, axis=0), np.mean(bias, axis=0)
        loggers = "1" if not several else f"3, {' '.join(f'{one:.2g}' for one in shares)}"
        yield [
            f"{n}, {loggers}, {truth:.3f}",
            *([f"{off[0]:+.3f}", f"{found[0]:.2f}"] if several else ["", ""]),
            f"{off[1]:+.3f}",
            *(f"{one:.2f}" for one in found[1:]),
        ]


def main() -> None:
    """Measure, print, and write if asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, help="page whose section is written")
    given = parser.parse_args()
    heads = [
        "rows, loggers and their shares, value",
        "`weighted-ipw`: bias",
        "shares given",
        "`blue`: bias",
        "weights given",
        "jackknife",
        "bootstrap",
    ]
    target = ", ".join(map(str, TARGET))
    several, alone = (" and ".join(f"`{one}`" for one in ids) for ids in (CANDIDATES, ALONE))
    body = (
        f"Coverage of value ± {REACH} standard errors in {given.replicates} logs of three actions "
        f"(two errors of it are at most {given.replicates**-0.5:.2f}), target ({target}), rewards "
        f"of zeros and ones. `blue` combines {several}, of one logger {alone}; the jackknife and "
        "the bootstrap estimate its weights anew, of the terms that its candidates have. None of "
        "these errors is stated: where few rows carry the weight, shares and weights follow them, "
        "which biases the value, and none of these errors knows it.\n\n"
        f"{table(heads, lines(given.replicates, given.seed))}"
    )
    print(body)
    if given.write:
        heading = "Shares of loggers and weights of candidates that are estimated"
        put(given.write, "What standard errors hold", heading, body)


if __name__ == "__main__":
    main()
