"""Errors of integrals over a Gaussian policy, beside the standard errors of estimates.

    python tests/benchmarks/gaussian_expectation.py --write results/performance/environments.md

A reward model is fitted to logs of `gaussian` and integrated over the target policy's actions by
several rules; the mean over rows is compared with the exact one. Of trees the exact integral is a
sum over the intervals between their thresholds; of other models it is a rule with a tiny step.
The second table is of whole estimates: `dr` with the former rule and with today's.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr
from sections import put, table

from ope_bench import FloatArray, PairFunction, Problem, Truth, evaluate
from ope_environments.gaussian import gaussian_policy
from ope_environments.gaussian.gaussian import Gaussian
from ope_environments.gaussian.gaussian_policy import GaussianPolicy
from ope_estimators.learning.learners import regressor

Rule = Callable[[GaussianPolicy, FloatArray, PairFunction], FloatArray]

MODELS: dict[str, dict[str, Any]] = {
    "gbm": {},
    "random-forest": {"n_estimators": 20},
    "mlp": {},
    "quadratic": {},
}
TREES = ("gbm", "random-forest")
FORMER = "Gauss-Hermite, 32"
TODAY = "trapezoidal, step 0.25, shifted"


def gauss_hermite(policy: GaussianPolicy, context: FloatArray, f: PairFunction) -> FloatArray:
    """The former rule: 32 nodes, the same in all contexts of one mean."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(32)
    mean, out = policy.mean(context), np.zeros(len(context))
    for node, weight in zip(nodes, weights / weights.sum(), strict=True):
        out += weight * f(context, mean + policy.std * node)  # type: ignore[arg-type]
    return out


def midpoints(policy: GaussianPolicy, context: FloatArray, f: PairFunction) -> FloatArray:
    """200 quantiles of equal mass, the same in all contexts of one mean."""
    from scipy.special import ndtri

    mean, out = policy.mean(context), np.zeros(len(context))
    for node in ndtri((np.arange(200) + 0.5) / 200):
        out += f(context, mean + policy.std * node) / 200  # type: ignore[arg-type]
    return out


def trapezoidal(step: float, shifted: bool = True) -> Rule:
    """Equally spaced nodes; with a shift of each context's own it is the shipped rule."""

    def rule(policy: GaussianPolicy, context: FloatArray, f: PairFunction) -> FloatArray:
        reach = round(gaussian_policy.REACH / step)
        shift = gaussian_policy._shift(context) if shifted else np.full(len(context), 0.25)
        mean = policy.mean(context)
        out, total = np.zeros(len(context)), np.zeros(len(context))
        for k in range(-reach, reach + 1):
            node = step * (k + shift)
            weight = np.exp(-0.5 * node**2)
            out += weight * f(context, mean + policy.std * node)  # type: ignore[arg-type]
            total += weight
        return out / total

    return rule


RULES: dict[str, Rule] = {
    FORMER: gauss_hermite,
    "quantile midpoints, 200": midpoints,
    "trapezoidal, step 0.5, shifted": trapezoidal(0.5),
    "trapezoidal, step 0.25, not shifted": trapezoidal(0.25, shifted=False),
    TODAY: GaussianPolicy.expect,
    "trapezoidal, step 0.125, shifted": trapezoidal(0.125),
}


class FormerRule(Gaussian):
    """`gaussian` whose target policy is integrated by the former rule."""

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
        target = problem.target_policy
        assert isinstance(target, GaussianPolicy)
        former = _Former(target.intercept, target.coefficients, target.std)
        return replace(problem, target_policy=former), truth


class _Former(GaussianPolicy):
    def expect(self, context: FloatArray, f: PairFunction) -> FloatArray:
        return gauss_hermite(self, context, f)


def drawn(environment: Gaussian, replicate: int) -> Problem:
    """The data of one replicate."""
    world, logged, target = (np.random.default_rng([replicate, k]) for k in range(3))
    return environment.sample(world_rng=world, logged_rng=logged, target_rng=target)[0]


def thresholds(model: Any, column: int) -> FloatArray:
    """Where trees split on a column: sorted."""
    trees = [one.tree_ for one in np.ravel(model.estimators_)]
    return np.unique(np.concatenate([tree.threshold[tree.feature == column] for tree in trees]))


def exact(
    name: str, model: Any, policy: GaussianPolicy, context: FloatArray, f: PairFunction
) -> FloatArray:
    """The integral itself; for trees, where the policy's mean is the same in all contexts."""
    if name not in TREES:
        return trapezoidal(1 / 32)(policy, context, f)
    cuts = thresholds(model, context.shape[1])
    mean = float(policy.mean(context[:1])[0])
    cdf = np.concatenate([[0.0], ndtr((cuts - mean) / policy.std), [1.0]])
    points = np.concatenate([[cuts[0] - 1.0], (cuts[1:] + cuts[:-1]) / 2, [cuts[-1] + 1.0]])
    out = np.zeros(len(context))
    for mass, point in zip(np.diff(cdf), points, strict=True):
        if mass > 0:
            out += mass * f(context, np.full(len(context), point))  # type: ignore[arg-type]
    return out


def errors(name: str, environment: Gaussian, replicates: int) -> dict[str, FloatArray]:
    """Error of the mean over rows, by rule and data set."""
    found: dict[str, list[float]] = {rule: [] for rule in RULES}
    for replicate in range(replicates):
        problem = drawn(environment, replicate)
        policy = problem.target_policy
        assert isinstance(policy, GaussianPolicy)
        model = regressor(name, seed=replicate, params=MODELS[name])
        model.fit(np.column_stack([problem.context, problem.action]), problem.reward)

        def f(x: FloatArray, a: FloatArray, model: Any = model) -> FloatArray:
            values: FloatArray = model.predict(np.column_stack([x, a]))
            return values

        truth = exact(name, model, policy, problem.context, f).mean()  # type: ignore[arg-type]
        for rule, integrate in RULES.items():
            value = integrate(policy, problem.context, f).mean()  # type: ignore[arg-type]
            found[rule].append(float(value - truth))
    return {rule: np.array(values) for rule, values in found.items()}


def integrals(environment: Gaussian, replicates: int) -> Iterator[list[str]]:
    """One line a model: its standard error, and the error of each rule."""
    for name in MODELS:
        few = max(2, replicates // 4) if name == "random-forest" else replicates
        told = evaluate(
            [f"dr[regressor={name},regressor_params={_yaml(MODELS[name])}]"],
            environment,
            replicates=few,
        )
        scale = float(np.median([record.standard_error for record in told]))
        by_rule = errors(name, environment, few)
        cells = (_rms(error) for error in by_rule.values())
        yield [name, str(few), f"{scale:.3f}", *(f"{x:.2g} ({x / scale:.1%})" for x in cells)]


def estimates(replicates: int) -> Iterator[list[str]]:
    """RMSE, standard error and coverage of `dr` with both rules."""
    for target_std in (0.5, 1.0):
        cells = []
        for cls in (FormerRule, Gaussian):
            told = evaluate(["dr"], cls(target_std=target_std), replicates=replicates, seed=1)
            error = np.array([record.estimate - record.truth_expected for record in told])
            se = np.array([record.standard_error for record in told])
            covered = float((np.abs(error) <= 1.96 * se).mean())
            cells += [f"{_rms(error):.4f}", f"{np.median(se):.4f}", f"{covered:.3f}"]
        yield [f"{target_std:g}", *cells]


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _yaml(params: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{name}: {value}" for name, value in params.items()) + "}"


def main() -> None:
    """Measure, print, and write if asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--replicates", type=int, default=24)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--whole", type=int, default=60, help="replicates of whole estimates")
    parser.add_argument("--write", type=Path, help="page whose section is written")
    given = parser.parse_args()
    first = (
        f"`gaussian`, {given.rows} rows, target_std 0.5, models with their defaults (the forest "
        "has 20 trees). Root mean square, over data sets, of the error of the mean of E q̂(x, a) "
        "over rows; in brackets as a share of `dr`'s median standard error, with the same model."
    )
    second = (
        f"`dr` with its defaults, {given.whole} data sets of 1,000 rows: RMSE, median standard "
        "error and coverage of its nominal 95 % interval, with the former rule and with today's."
    )
    parts = [
        first,
        table(
            ["model", "data sets", "`dr`'s standard error", *RULES],
            integrals(Gaussian(n_samples=given.rows), given.replicates),
        ),
        second,
        table(
            ["target_std", *(f"{what}, {when}" for when in ("former", "now")
                   for what in ("RMSE", "standard error", "coverage"))],
            estimates(given.whole),
        ),
    ]  # fmt: skip
    body = "\n\n".join(parts)
    print(body)
    if given.write:
        put(given.write, "What environments hold", "Expectations over a Gaussian policy", body)


if __name__ == "__main__":
    main()
