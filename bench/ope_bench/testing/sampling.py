"""An environment under examination, and the statistics that its checks need."""

from __future__ import annotations

import hashlib
import math
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from ope_bench.arrays import FloatArray
from ope_bench.data import Problem, Truth
from ope_bench.environment import Environment
from ope_bench.errors import DataError, UnavailableError
from ope_bench.requirements import import_all
from ope_bench.seeding import DataSeed
from ope_bench.testing.checks import CheckFailed, NotApplicable
from ope_bench.testing.small import small

__all__ = ["ExaminedEnvironment", "Sample", "array_digests", "chi_square_p", "z_of_means"]


class Sample(NamedTuple):
    """One draw."""

    problem: Problem
    truth: Truth


class ExaminedEnvironment:
    """An environment and draws from it; draws of one world are made once.

    Parameters
    ----------
    environment : copied, with small parameters.
    """

    def __init__(self, environment: Environment) -> None:
        self.cls = type(environment)
        self.params: dict[str, Any] = small(environment)
        self._drawn: dict[tuple[int, int, int], Sample] = {}

    def make(self) -> Environment:
        """A fresh copy."""
        return self.cls(**self.params)

    def fresh(self, world: int = 0, logged: int = 0, target: int = 0) -> Sample:
        """A new draw; the numbers choose the three streams.

        Raises
        ------
        NotApplicable : the environment is unavailable here.
        CheckFailed : it raised anything else, or returned something else.
        """
        made = self.make()
        try:
            import_all(made.requires)
            drawn = made.sample(
                world_rng=DataSeed("conformance", world, 0).world(),
                logged_rng=DataSeed("conformance", logged, 0).logged(),
                target_rng=DataSeed("conformance", target, 0).target(),
            )
        except UnavailableError as exc:
            raise NotApplicable(str(exc)) from exc
        except DataError as exc:
            msg = f"sample built an invalid problem: {exc}"
            raise CheckFailed(msg) from exc
        except Warning:
            raise
        except Exception as exc:
            msg = f"sample raised {type(exc).__name__}: {exc}"
            raise CheckFailed(msg) from exc
        if not (
            isinstance(drawn, tuple)
            and len(drawn) == 2
            and isinstance(drawn[0], Problem)
            and isinstance(drawn[1], Truth)
        ):
            msg = f"sample returned {type(drawn).__name__}; return (Problem, Truth)"
            raise CheckFailed(msg)
        return Sample(*drawn)

    def draw(self, world: int = 0, logged: int = 0, target: int = 0) -> Sample:
        """The draw, made now or kept."""
        key = world, logged, target
        if key not in self._drawn:
            self._drawn[key] = self.fresh(*key)
        return self._drawn[key]

    def need(self, *names: str) -> Problem:
        """The first draw's problem. Raises NotApplicable where it lacks one of ``names``."""
        problem = self.draw().problem
        missing = [name for name in names if getattr(problem, name) is None]
        if missing:
            msg = f"the environment does not know {', '.join(missing)}"
            raise NotApplicable(msg)
        return problem


def array_digests(problem: Problem, prefix: str = "") -> dict[str, str]:
    """A hash of each array field whose name starts with ``prefix``."""
    return {
        field.name: hashlib.sha256(value.tobytes()).hexdigest()
        for field in fields(problem)
        if field.name.startswith(prefix)
        and isinstance(value := getattr(problem, field.name), np.ndarray)
    }


def chi_square_p(counts: FloatArray, expected: FloatArray) -> tuple[float, float, int]:
    """p-value, statistic and degrees of freedom, bins with fewer than 5 expected pooled.

    Counts whose probabilities vary from row to row scatter less than multinomial ones, so that
    the p-value errs towards large.

    >>> round(chi_square_p(np.array([48.0, 52.0]), np.array([50.0, 50.0]))[0], 3)
    0.689
    """
    from scipy.stats import chi2

    order = np.argsort(expected)[::-1]
    counts, expected = counts[order], expected[order]
    kept = int((expected >= 5).sum())
    if kept < len(expected):
        counts = np.append(counts[:kept], counts[kept:].sum())
        expected = np.append(expected[:kept], expected[kept:].sum())
        if len(expected) > 1 and expected[-1] < 5:
            counts = np.append(counts[:-2], counts[-2:].sum())
            expected = np.append(expected[:-2], expected[-2:].sum())
    freedom = len(expected) - 1
    if freedom < 1:
        return 1.0, 0.0, 0
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return float(chi2.sf(statistic, freedom)), statistic, freedom


def z_of_means(difference: FloatArray, floor: float = 1e-12) -> tuple[float, float]:
    """Mean of the differences and how many of its standard errors it is from zero."""
    mean = float(difference.mean())
    error = float(difference.std(ddof=1)) / math.sqrt(len(difference))
    return mean, mean / max(error, floor * max(1.0, abs(mean)))
