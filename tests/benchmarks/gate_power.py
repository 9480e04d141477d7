"""How often the gate sees a degradation.

    python tests/benchmarks/gate_power.py --rows 2000

First a table over the correlation of the paired errors and the growth of the RMSE, at 100
replicates, for three families: the row is the only one that changed; it is one of 60 that
changed, the others without harm; all 60 rows degraded alike; and what the best test for normal
errors would see. Then real degradations of real estimators on a real environment, shown as the
gate shows them. With --write both become a section of that page.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sections import put, table

from ope_bench import Environment, Problem, Truth
from ope_bench.gate.judging import judge
from ope_bench.gate.pairing import Pair, PairedRow
from ope_bench.records import PluginSpec, Trial, TrialRecord
from ope_bench.registry import Kind
from ope_bench.report.verdicts import detail
from ope_bench.resolve import resolve
from ope_bench.selector import parse_selector
from ope_bench.statistics.paired import holm, swap_test
from ope_bench.trial import Workspace, build, run_trial

LEVEL, MARGIN, FAMILY = 0.01, 0.02, 60
REPLICATES = 100
CORRELATIONS = (1.0, 0.999, 0.99, 0.95, 0.9)
GROWTHS = (0.05, 0.10, 0.20)

DEGRADATIONS = (
    ("ipw without its clip", "ipw[clip=10]", "ipw"),
    ("ipw, clip 10 -> 9", "ipw[clip=10]", "ipw[clip=9]"),
    ("eipw clipped at 2", "eipw", "eipw[clip=2]"),
    ("epws, 3 trees", "epws", "epws[classifier_params={max_iter: 3}]"),
    ("epws, 30 trees for 60", *(f"epws[classifier_params={{max_iter: {n}}}]" for n in (60, 30))),
    ("epws, context dropped", "epws", "epws"),
    ("ipw -> ipws (better)", "ipw", "ipws"),
)
"""What changed, before and after; in ``context dropped`` the estimator sees constant contexts."""


def power(rho: float, growth: float, rows: int, rng: np.random.Generator) -> list[float]:
    """Share of rows called worse: alone, one of 60 changed, all 60 degraded."""
    before = rng.normal(size=(rows, REPLICATES))
    noise = rng.normal(size=before.shape)
    after = (1 + growth) * (rho * before + np.sqrt(1 - rho**2) * noise)
    test = swap_test(
        np.square(after), np.square(before), null_ratio=1 + MARGIN, level=LEVEL * rows / FAMILY
    )
    p = test.p_greater
    boards = p[: rows // FAMILY * FAMILY].reshape(-1, FAMILY)
    together = np.array([holm(board) <= LEVEL for board in boards])
    return [
        float((p <= LEVEL).mean()),
        float((p <= LEVEL / FAMILY).mean()),
        float(together.mean()),
    ]


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
        (found,) = judge([_row(then, now)], "empirical")
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


def best(rho: float, growth: float, rows: int, rng: np.random.Generator) -> float:
    """What the best test for normal errors calls worse, as one of 60.

    Pitman and Morgan: the variances of two normals are equal where sum and difference are
    uncorrelated, and of all unbiased tests none sees more. The gate's test assumes no normality.
    """
    from scipy.stats import t

    before = rng.normal(size=(rows, REPLICATES))
    after = rho * before + np.sqrt(1 - rho**2) * rng.normal(size=before.shape)
    after *= (1 + growth) / np.sqrt(1 + MARGIN)
    total, gap = after + before, after - before
    r = (total * gap).sum(axis=1)
    r /= np.sqrt((total**2).sum(axis=1) * (gap**2).sum(axis=1))
    degrees = REPLICATES - 1
    # At correlation 1 sum and difference are the same line.
    with np.errstate(divide="ignore"):
        statistic = r * np.sqrt(degrees / np.maximum(1 - r**2, 0))
    return float((statistic > t.isf(LEVEL / FAMILY, degrees)).mean())


def main() -> None:
    """Print both tables, or write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1200, help="simulated rows a cell; 0 for none")
    parser.add_argument("--replicates", type=int, default=100, help="of real changes; 0 for none")
    parser.add_argument("--environment", default="saito-toy[n_actions=50,n_samples=500]")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="a page of results")
    given = parser.parse_args()
    parts = []
    if given.rows:
        parts.append(simulated(given.rows))
    if given.replicates:
        parts.append(real(given.replicates, given.environment))
    body = "\n\n".join(parts)
    if given.write:
        title = "The gate: how often it closes without cause, and what it sees"
        put(given.write, title, "Code that is worse", body)
    else:
        print(body)


def simulated(rows: int) -> str:
    """Simulated rows."""
    rng = np.random.default_rng(20250101)
    lines = []
    for rho in CORRELATIONS:
        cells = [str(rho)]
        for growth in GROWTHS:
            shares = [*power(rho, growth, rows, rng), best(rho, growth, 20_000, rng)]
            cells.append(" / ".join(f"{100 * share:.1f}" for share in shares))
        lines.append(cells)
    heads = ["correlation", *(f"RMSE {100 * growth:+.0f} %" for growth in GROWTHS)]
    return f"""
Simulated: share of rows called worse in percent, {REPLICATES} replicates, level {LEVEL}, margin
{MARGIN} on the mean squared error, normal errors of that correlation before and after. In each
cell: as the only row that changed / as one of {FAMILY} that changed, the others without harm /
all {FAMILY} degraded alike / the most that any unbiased test for normal errors calls, as one of
{FAMILY} (Pitman and Morgan). {rows:,} rows a cell.

{table(heads, lines)}
""".strip()


if __name__ == "__main__":
    main()
