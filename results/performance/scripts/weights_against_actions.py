"""IPW and SNIPW against the number of actions, propensities given: neither should notice it.

    python results/performance/scripts/weights_against_actions.py

Ten thousand logged rows whose propensities, and whose target policy's probabilities, are looked
up: what then is left to do does not depend on the number of actions. Beside it the same with a
target policy that is greedy on a score of every action, which has to be searched once for each
context, and again once it is known.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import interleaved
import numpy as np
from statement import Page, facts_now

from ope_bench.contracts.data import Problem
from ope_bench.contracts.policies import Tabular
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import FitCache, View
from ope_environments.synthetic.linear_score import ActionScore, LinearGreedy
from ope_estimators.actions.weighting.ipw import IPW
from ope_estimators.actions.weighting.ipws import IPWS

ROWS, CODES = 10_000, 4
ACTIONS = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
MOST_SEARCHED = 10_000
ESTIMATORS = {"IPW": IPW(), "SNIPW": IPWS()}


def problem_of(n_actions: int, *, greedy: bool) -> Problem:
    """Logs of a uniform policy; 4 different contexts, or as many as rows."""
    rng = np.random.default_rng(0)
    context = rng.normal(size=(ROWS, 10))
    if greedy:
        target: Any = LinearGreedy(ActionScore(rng.normal(size=(11, n_actions))), 0.1)
    else:
        context[:, 0] = rng.integers(CODES, size=ROWS)
        likely = rng.dirichlet(np.ones(n_actions), size=CODES)
        target = Tabular(likely, lambda given: given[:, 0].astype(np.int64))
    action = rng.integers(n_actions, size=ROWS)
    return Problem(
        context=context,
        action=action,
        embedding=np.zeros((ROWS, 1)),
        reward=rng.normal(size=ROWS),
        target_context=context,
        target_action=action,
        target_embedding=np.zeros((ROWS, 1)),
        n_actions=n_actions,
        propensity=np.full(ROWS, 1.0 / n_actions),
        target_policy=target,
    )


def estimate(name: str, problem: Problem) -> float:
    """One estimate, the view included."""
    estimator = ESTIMATORS[name]
    view = View(problem, estimator.access, seed=DataSeed("actions", 0, 0), fit_cache=FitCache())
    return estimator.estimate(view).value


def compare(rounds: int) -> list[dict[str, Any]]:
    """A row for each estimator and way to the probabilities: times over that of ten actions."""
    rows = []
    for how in ("looked up", "greedy, searched", "greedy, known"):
        greedy = how != "looked up"
        sizes = [size for size in ACTIONS if not greedy or size <= MOST_SEARCHED]
        problems = {size: problem_of(size, greedy=greedy) for size in sizes}
        for name in ESTIMATORS:

            def once(size: int, name: str = name, how: str = how) -> dict[str, Any]:
                def given() -> Problem:
                    if "searched" in how:
                        return problem_of(size, greedy=True)
                    return problems[size]  # noqa: B023  used within this turn of the loop

                given_problem = given()
                if "searched" not in how:
                    estimate(name, given_problem)
                return interleaved.measured(
                    lambda problem: estimate(name, problem), given, seconds=0.05, most=30
                )

            sides = {str(size): lambda size=size: once(size) for size in sizes}
            found = interleaved.in_turns(sides, seconds=1e9, most=rounds)
            first = found[str(sizes[0])]
            for size in sizes:
                ratios = interleaved.ratios(first, found[str(size)], ["cpu_seconds"])
                spent = [run["cpu_seconds"] for run in found[str(size)]]
                rows.append(
                    {
                        "estimator": name,
                        "how": how,
                        "n_actions": size,
                        "cpu_seconds": interleaved.spread(spent),
                        "ratio": ratios["cpu_seconds"],
                    }
                )
                print(line(rows[-1]), flush=True)
    return rows


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    spent = 1e6 * row["cpu_seconds"]["median"]
    cells = [row["estimator"], row["how"], f"{row['n_actions']:,}", f"{spent:,.0f}"]
    return f"| {' | '.join([*cells, interleaved.told(row['ratio'])])} |"


INTRO = (
    "# IPW and SNIPW against the number of actions\n\n"
    f"{ROWS:,} logged rows with given propensities. Microseconds of the processor for an"
    " estimate, the view included, and over those of ten actions: median (lowest to highest)"
    f" over rounds in turns. *Looked up*: the target policy is a table of {CODES} contexts, so"
    " that a probability is a gather; what grows with a million actions are misses of the"
    " processor's caches, and for SNIPW the flags of logged actions behind its warning."
    " *Greedy*: the best of all actions is searched for in every context, or known from"
    " before."
)


def tables(report: dict[str, Any]) -> str:
    """The table of one machine."""
    return "\n".join(
        [
            "| estimator | target policy | actions | µs | over ten actions |",
            "|:---|:---|---:|---:|---:|",
            *map(line, report["rows"]),
        ]
    )


PAGE = Page(INTRO, tables)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--output", type=Path, help="FOLDER/NAME of the two files written")
    given = parser.parse_args()
    command = f"python results/performance/scripts/{Path(__file__).name} --rounds {given.rounds}"
    report: dict[str, Any] = {"command": command, **facts_now()}
    report["rows"] = compare(given.rounds)
    if given.output:
        PAGE.write(given.output, report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
