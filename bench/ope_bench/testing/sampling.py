"""An environment under test, and the statistics of its checks."""

from __future__ import annotations

import hashlib
import math
import sys
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.data import Problem, Truth
from ope_bench.contracts.environment import Environment
from ope_bench.contracts.random.seeding import DataSeed
from ope_bench.errors import DataError, UnavailableError
from ope_bench.plugins.exception_text import class_name, message_of, traceback_of
from ope_bench.plugins.mistakes import explain
from ope_bench.plugins.requirements import import_all
from ope_bench.testing.checks import CheckFailed, NotApplicable
from ope_bench.testing.small import check_parameters

__all__ = ["EnvironmentUnderTest", "Sample", "array_digests", "chi_square_p", "z_of_means"]


class Sample(NamedTuple):
    """One sampled problem with its truth."""

    problem: Problem
    truth: Truth


class EnvironmentUnderTest:
    """An environment and samples of it, each drawn once.

    Parameters
    ----------
    environment : the environment, which is copied with small parameters.
    """

    def __init__(self, environment: Environment) -> None:
        self.cls = type(environment)
        self.params: dict[str, Any] = check_parameters(environment)
        self._drawn: dict[tuple[int, int, int], Sample] = {}

    def make(self) -> Environment:
        """Return a fresh copy."""
        return self.cls(**self.params)

    def fresh(self, definition: int = 0, logged: int = 0, target: int = 0) -> Sample:
        """Draw a new sample; the numbers select the three random streams.

        Raises
        ------
        NotApplicable : the environment is unavailable here.
        CheckFailed : it raised another exception or returned a wrong type.
        """
        made = self.make()
        try:
            import_all(made.requires)
            drawn = made.sample(
                world_rng=DataSeed("conformance", definition, 0).world(),
                logged_rng=DataSeed("conformance", logged, 0).logged(),
                target_rng=DataSeed("conformance", target, 0).target(),
            )
        except UnavailableError as exc:
            raise NotApplicable(str(exc)) from exc
        except DataError as exc:
            msg = f"sample built an invalid problem: {self._explained(exc)}"
            raise CheckFailed(msg) from exc
        except Warning:
            raise
        except Exception as exc:
            msg = f"sample raised {class_name(exc)}: {self._explained(exc)}"
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

    def _explained(self, exc: Exception) -> str:
        file = getattr(sys.modules.get(self.cls.__module__), "__file__", None)
        return explain(message_of(exc), traceback_of(exc), file)

    def draw(self, definition: int = 0, logged: int = 0, target: int = 0) -> Sample:
        """Return the sample of three streams, drawn once."""
        key = definition, logged, target
        if key not in self._drawn:
            self._drawn[key] = self.fresh(*key)
        return self._drawn[key]

    def need(self, *names: str) -> Problem:
        """Return the first problem; NotApplicable if it lacks one of ``names``."""
        problem = self.draw().problem
        missing = [name for name in names if getattr(problem, name) is None]
        if missing:
            msg = f"the environment does not know {', '.join(missing)}"
            raise NotApplicable(msg)
        return problem


def array_digests(problem: Problem, prefix: str = "") -> dict[str, str]:
    """Hash each array field whose name starts with ``prefix``."""
    return {
        field.name: hashlib.sha256(value.tobytes()).hexdigest()
        for field in fields(problem)
        if field.name.startswith(prefix)
        and isinstance(value := getattr(problem, field.name), np.ndarray)
    }


def chi_square_p(counts: FloatArray, expected: FloatArray) -> tuple[float, float, int]:
    """Return p-value, statistic and degrees of freedom; bins with less than 5 expected are pooled.

    Counts whose probabilities vary from row to row have a smaller variance than multinomial ones,
    so that the p-value is conservative.

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
    """Return the mean difference and its distance from zero in standard errors."""
    mean = float(difference.mean())
    error = float(difference.std(ddof=1)) / math.sqrt(len(difference))
    return mean, mean / max(error, floor * max(1.0, abs(mean)))
