"""What copies of rows do to estimators on `multiclass`.

    python tests/benchmarks/multiclass_twins.py --write results/performance/environments.md

Three ways to draw contexts from the evaluation rows, with the same estimators: with replacement
and every draw a row of its own (as version 1 of the environment drew, on one split); with
replacement and copies of a row one unit; and as the environment draws now. One line an estimator:
RMSE against the expected value with its standard error, and how often value ± 1.96 standard
errors covers it. ``twins`` is the share of logged rows whose context, action and reward are those
of another row.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from sections import put, table

from ope_bench import Environment, Problem, Truth, evaluate
from ope_environments.multiclass.environment import Multiclass
from ope_environments.populations.population import Population

ESTIMATORS = (
    "edm-star",
    "edm-star[cross_fit=5]",
    "edr",
    "epw",
    "epws",
    "epws-paper",
    "dr",
    "ipw-star",
)


class WithReplacement(Multiclass):
    """One split for all replicates; every draw is a row of its own."""

    units = False

    def population(self, world_rng: np.random.Generator) -> Population:
        population = super().population(np.random.default_rng(0))
        n = len(population.context)
        # Rows with probabilities are drawn with replacement and are no units.
        return replace(population, share=np.full(n, 1.0 / n))

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        problem, truth = super().sample(
            world_rng=world_rng, logged_rng=logged_rng, target_rng=target_rng
        )
        if not self.units:
            return problem, truth
        rows = np.concatenate([problem.context, problem.target_context])
        unit = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
        n = len(problem.reward)
        return replace(problem, unit=unit[:n], target_unit=unit[n:]), truth


class WithUnits(WithReplacement):
    """The same draws; copies of a row are one unit."""

    units = True


def twins(environment: Environment) -> float:
    """Share of the logged rows that equal another one."""
    streams = (np.random.default_rng(seed) for seed in range(3))
    names = "world_rng", "logged_rng", "target_rng"
    problem, _ = environment.sample(**dict(zip(names, streams, strict=True)))
    rows = np.column_stack([problem.context, problem.action, problem.reward])
    _, group, count = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    return float((count[group.reshape(-1)] > 1).mean())


def measured(environment: Environment, replicates: int, seed: int) -> dict[str, str]:
    """RMSE ± standard error, and coverage, by estimator."""
    results = evaluate(ESTIMATORS, environment, replicates=replicates, seed=seed)
    shown = {}
    for k, name in enumerate(ESTIMATORS):
        records = results[k :: len(ESTIMATORS)]
        ok = [record for record in records if record.estimate is not None]
        errors = np.array([record.estimate - record.truth_expected for record in ok])
        rmse = float(np.sqrt(np.mean(errors**2)))
        spread = float(np.std(errors**2, ddof=1)) / np.sqrt(len(ok)) / (2 * rmse)
        shown[name] = f"{rmse:.3f} ± {spread:.3f}"
        inside = [
            abs(error) <= 1.96 * record.standard_error
            for error, record in zip(errors, ok, strict=True)
            if record.standard_error is not None
        ]
        if inside:
            shown[name] += f" ({np.mean(inside):.2f})"
        if len(ok) < len(records):
            shown[name] += f" [{len(records) - len(ok)} failed]"
    return shown


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dataset", default="breast_cancer")
    parser.add_argument("--rows", type=int, default=140)
    parser.add_argument("--replicates", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path, help="page whose section is written")
    given = parser.parse_args()
    columns = {
        "with replacement, no units": WithReplacement,
        "with replacement, units": WithUnits,
        "now": Multiclass,
    }
    worlds = {
        name: cls(dataset=given.dataset, n_samples=given.rows) for name, cls in columns.items()
    }
    figures = {
        name: measured(world, given.replicates, given.seed) for name, world in worlds.items()
    }
    rows = [["twins", *(f"{twins(world):.0%}" for world in worlds.values())]]
    rows += [[name, *(column[name] for column in figures.values())] for name in ESTIMATORS]
    words = (
        f"`multiclass` on {given.dataset}, {given.rows} logged rows, {given.replicates} data "
        "sets: RMSE against the expected value ± its standard error, and in brackets the "
        "coverage of value ± 1.96 standard errors. Rows drawn with replacement and every draw "
        "a row of its own, as version 1 of the environment drew; the same draws with copies of "
        "a row as one unit; as the environment draws now. `twins`: share of the logged rows "
        "whose context, action and reward are those of another row. Regressions look better "
        "with twins than they are: folds hold copies of the rows that their models were "
        "fitted on."
    )
    body = f"{words}\n\n{table(['estimator', *worlds], rows)}"
    print(body)
    if given.write:
        put(given.write, "What environments hold", "Copies of rows", body)


if __name__ == "__main__":
    main()
