"""How often `shortlist` drops the best policy, and how often the winner's interval holds.

    python results/performance/scripts/shortlist_errors.py --output results/advice/shortlist.json

Logs of 3,000 rows of drawn worlds with twelve actions that are in no suite: the first ones from
901 on in which the candidates' values range over half of the rewards' deviation. Candidates are
the logging policy's probabilities times exp(b g + e) of each action, mixed with a tenth of it: g
the action's mean reward, standardized, b uniform in [-2, 2] and e normal, so that some are much
worse than others; their values are exact. The estimates of all candidates of a log come from the
same fits by matrix products, for 5, 50 and 500 candidates (the first ones of the same list); on
the first log of each world they are compared with those of `ope_bench.shortlist`, and on the first
world with 50 and 500 candidates, too. Intervals and statuses are those of
`ope_bench.logs.shortlist`.

Writes a line of JSON for each world and number of policies: counts of logs, the median number of
policies that are left, also with Bonferroni's quantile, and the mean measures of the board of
policy selection, of the choice by value and of adopting who is certified. Interrupted, it goes on
where it was.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from scipy.special import ndtri

from ope_bench import DiscretePolicy, Estimator, Log, Problem, TargetPolicy, View, stream
from ope_bench import shortlist as shortlist_of
from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.random import DataSeed
from ope_bench.contracts.view import FitCache
from ope_bench.logs import shortlist
from ope_bench.logs.estimation import ENVIRONMENT
from ope_bench.logs.recommendation import recommendations
from ope_bench.statistics.ranks import selection
from ope_environments.drawn_worlds.environment import DrawnWorlds
from ope_estimators.actions.direct.dm import DM
from ope_estimators.actions.doubly_robust.sndr import SNDR

ROWS, ACTIONS, ALPHA = 3000, 12, 0.05
COUNTS = (5, 50, 500)
WORLDS = (916, 920, 925, 930, 936, 944, 946, 948)
"""The first from 901 on in which the candidates' values differ by half the rewards' deviation."""

SEED = DataSeed(ENVIRONMENT, 0, 0)


def candidates(logging: FloatArray, quality: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the probabilities of all candidates: (policies, n_contexts, n_actions)."""
    tilt = rng.uniform(-2.0, 2.0, COUNTS[-1])[:, None] * quality
    tilt += rng.standard_normal(tilt.shape)
    tilted = logging * np.exp(tilt)[:, None, :]
    tilted /= tilted.sum(axis=2, keepdims=True)
    return np.asarray(0.9 * tilted + 0.1 * logging)


class Sample:
    """One log, and the estimates of all candidates on it.

    Parameters
    ----------
    problem : the log.
    at : (n,), the context of each row.
    context : (n_contexts, d)
    """

    def __init__(self, problem: Problem, at: IntArray, context: FloatArray) -> None:
        self.problem, self._at, self._context = problem, at, context
        self._cache = FitCache()

    def _model(self, estimator: Estimator) -> Any:
        """Return the fitted reward model of an estimator."""
        view = View(self.problem, estimator.access, seed=SEED, fit_cache=self._cache)
        fitted: Any = estimator.fit(
            view, rng=SEED.estimator(type(estimator).__name__), device="cpu"
        )
        return fitted.reward_

    def estimates(self, tables: FloatArray) -> tuple[dict[str, FloatArray], FloatArray]:
        """Return the value of each candidate by dm, ipws and sndr, and the terms of sndr: (k, n).

        As `DM`, `IPWS` and `SNDR` say them, for all candidates at once.
        """
        at, action, reward = self._at, self.problem.action, self.problem.reward
        contexts, n = len(self._context), len(at)
        weight = tables[:, at, action] / self.problem.propensity
        relative = weight / weight.mean(axis=1, keepdims=True)
        everywhere = self._model(DM()).everywhere(self._context, ACTIONS).reshape(contexts, -1)
        direct = np.einsum(
            "kca,ca,c->k", tables, everywhere, np.bincount(at, minlength=contexts) / n
        )
        reward_model = self._model(SNDR())
        baseline = np.empty_like(weight)
        for model, rows in reward_model.parts():
            q = model.everywhere(self._context, ACTIONS).reshape(contexts, -1)
            baseline[:, rows] = np.einsum("kca,ca->kc", tables, q)[:, at[rows]]
        residual = reward - reward_model.logged(self.problem.context, action)
        ratio = (relative @ residual) / n
        terms = baseline + relative * (residual - ratio[:, None])
        values = {
            "dm": direct,
            "ipws": relative @ reward / n,
            "sndr": baseline.mean(axis=1) + ratio,
        }
        return values, terms

    def decided(
        self, values: Mapping[str, FloatArray], terms: FloatArray, count: int, bonferroni: bool
    ) -> shortlist.Shortlist:
        """Return the shortlist of the first candidates."""
        rule, reward = recommendations()["known"], self.problem.reward
        names = [f"p{k}" for k in range(count)]
        known = {
            name: np.array([values[one][k] for one in (rule.center, *rule.panel)])
            for k, name in enumerate(names)
        }
        known[shortlist.LOGGED] = np.full(1 + len(rule.panel), reward.mean())
        parts = dict(zip(names, terms, strict=False)) | {shortlist.LOGGED: reward}
        unit = np.arange(len(reward))
        given = rule, names, shortlist.LOGGED, known, parts, unit, ALPHA
        if not bonferroni:
            return shortlist.decide(*given)
        with mock.patch.object(shortlist, "simultaneous", _bonferroni):
            return shortlist.decide(*given)

    def log(self, tables: FloatArray) -> Log:
        """Return the log as a user has it, with candidates."""
        problem = self.problem
        frame: dict[str, Any] = {f"x{j}": column for j, column in enumerate(problem.context.T)}
        names = list(frame)
        kinds = zip(names, problem.schema.context, strict=True)
        frame |= {"action": problem.action, "reward": problem.reward, "p": problem.propensity}
        return Log.from_frame(
            frame,
            context=names,
            action="action",
            reward="reward",
            propensity="p",
            categorical=[name for name, column in kinds if column.kind == "categorical"],
            target={f"p{k}": TargetPolicy(table=one[self._at]) for k, one in enumerate(tables)},
        )


def _bonferroni(
    influence: FloatArray, alpha: float, *, versus_last: bool = False
) -> tuple[float, FloatArray]:
    """Return the normal quantile of as many intervals, and the errors of the differences."""
    k = influence.shape[1]
    gram = influence.T @ influence
    spread = np.maximum(np.add.outer(np.diag(gram), np.diag(gram)) - 2 * gram, 0.0)
    intervals = k - 1 if versus_last else k * (k - 1) / 2
    return float(ndtri(1 - alpha / 2 / intervals)), np.sqrt(spread)


def judged(number: int, logs: int) -> list[dict[str, Any]]:
    """Return the figures of one world, a line for each number of candidates."""
    world = DrawnWorlds(
        world=number,
        n_samples=ROWS,
        n_actions=ACTIONS,
        embedding="absent",
        known="policy",
        target_form="probabilities",
    )
    population = world._drawn().population
    context, policy = population.context, population.logging
    assert isinstance(policy, DiscretePolicy)
    rows = np.arange(len(context))
    mean = np.stack([population.reward_at(rows, np.full(len(rows), a)) for a in range(ACTIONS)], 1)
    logging, average = policy.table(context), mean.mean(axis=0)
    quality = (average - average.mean()) / (average.std() or 1.0)
    tables = candidates(logging, quality, stream("candidates", number))
    truth = np.einsum("kca,ca->k", tables, mean) / len(context)
    earned = float((logging * mean).sum() / len(context))
    index = {row.tobytes(): k for k, row in enumerate(context)}
    found: dict[int, list[dict[str, float]]] = {count: [] for count in COUNTS}
    product: dict[int, float] = {}
    for replicate in range(logs):
        rngs = {f"{n}_rng": stream(n, number, replicate) for n in ("world", "logged", "target")}
        problem, _ = world.sample(**rngs)
        sample = Sample(
            problem, np.array([index[row.tobytes()] for row in problem.context]), context
        )
        values, terms = sample.estimates(tables)
        for count in COUNTS:
            made = sample.decided(values, terms, count, bonferroni=False)
            wide = sample.decided(values, terms, count, bonferroni=True)
            found[count].append(_figures(made, wide, truth[:count], earned))
            if replicate == 0 and (count == COUNTS[0] or number == WORLDS[0]):
                log = sample.log(tables[:count])
                begun = time.process_time()
                own = {row.name: row for row in shortlist_of(log).policies}
                product[count] = round(time.process_time() - begun, 1)
                apart = max(abs(one.value - own[one.name].value) for one in made.policies)
                assert apart < 1e-6 * np.ptp(problem.reward), apart
                assert all(one.status == own[one.name].status for one in made.policies)
    lines = []
    for count in COUNTS:
        table = {name: [one[name] for one in found[count]] for name in found[count][0]}
        counted = ("best_dropped", "winner_held", "wrongly_certified")
        line: dict[str, Any] = {"world": number, "policies": count, "logs": logs}
        line |= {name: int(sum(table.pop(name))) for name in counted}
        line |= {f"median_{name}": float(np.median(table.pop(name))) for name in ("kept", "wide")}
        known = {name: [v for v in column if v is not None] for name, column in table.items()}
        line |= {name: round(float(np.mean(c)), 4) if c else None for name, c in known.items()}
        lines.append(line | {"product_seconds": product.get(count)})
    return lines


def _figures(
    made: shortlist.Shortlist, wide: shortlist.Shortlist, truth: FloatArray, earned: float
) -> dict[str, Any]:
    """Return what one shortlist got right."""
    order = [int(row.name[1:]) for row in made.policies]
    by_policy = dict(zip(order, made.policies, strict=True))
    rows = [by_policy[k] for k in range(len(order))]
    winner = made.winner or {}
    certified = np.array([row.status == "certified" for row in rows])
    chosen = selection(np.array([row.value for row in rows]), truth, reference=earned)
    adopted = selection(np.array([row.low for row in rows]), truth - earned, reference=0.0)
    return {
        "best_dropped": rows[int(truth.argmax())].status == "dominated",
        "winner_held": winner["low"] <= truth[int(winner["name"][1:])] <= winner["high"],
        "wrongly_certified": bool((certified & (truth <= earned)).any()),
        "kept": sum(row.status != "dominated" for row in rows),
        "wide": sum(row.status != "dominated" for row in wide.policies),
        "relative_regret": chosen.relative_regret,
        "spearman": chosen.spearman,
        "type_one": chosen.type_one,
        "type_two": chosen.type_two,
        "certified_type_one": adopted.type_one,
        "certified_type_two": adopted.type_two,
    }


def main() -> None:
    """Judge the worlds of the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=60)
    parser.add_argument("--worlds", type=int, nargs="+", default=WORLDS)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    found = json.loads(given.output.read_text()) if given.output.is_file() else []
    done = {one["world"] for one in found}
    for number in given.worlds:
        if number not in done:
            found += judged(number, given.logs)
            lines = ",\n".join(map(json.dumps, found))
            given.output.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
