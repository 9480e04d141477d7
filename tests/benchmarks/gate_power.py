"""How often the gate sees a degradation.

    python tests/benchmarks/gate_power.py --rows 2000

First a table over the correlation of the paired errors and the growth of the RMSE, at 100
replicates, for three families: the row is the only one that changed; it is one of 60 that
changed, the others without harm; all 60 rows degraded alike. Then real degradations of real
estimators on a real environment, shown as the gate shows them.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np

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
    before = rng.normal(size=(rows, 100))
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


def real(replicates: int, environment: str) -> None:
    """Real estimators, made worse or better."""
    for name, before, after in DEGRADATIONS:
        then = outcomes(environment, before, replicates)
        now = outcomes(environment, after, replicates, blind="dropped" in name)
        (found,) = judge([_row(then, now)], "empirical")
        ratio = "-" if found.ratio is None else f"MSE x{found.ratio:.3f}"
        print(f"{name:<24} {found.verdict:<10} {ratio:<12} {detail(found)}", flush=True)


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
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1200, help="simulated rows a cell; 0 for none")
    parser.add_argument("--replicates", type=int, default=100, help="of real changes; 0 for none")
    parser.add_argument("--environment", default="saito-toy[n_actions=50,n_samples=500]")
    given = parser.parse_args()
    if given.rows:
        table(given.rows)
    if given.replicates:
        print(f"real changes on {given.environment}, {given.replicates} replicates")
        real(given.replicates, given.environment)


def table(rows: int) -> None:
    """Simulated rows."""
    rng = np.random.default_rng(20250101)
    print("share called worse (alone | one of 60 changed | all 60 degraded), 100 replicates")
    print("correlation  " + "".join(f"RMSE +{100 * g:<16.0f}" for g in GROWTHS))
    for rho in CORRELATIONS:
        cells = (power(rho, growth, rows, rng) for growth in GROWTHS)
        words = (" | ".join(f"{share:.3f}" for share in cell) for cell in cells)
        print(f"{rho:<12} " + "  ".join(words), flush=True)


if __name__ == "__main__":
    main()
