"""Seconds of trials that were never run here: a shipped table, scaled to this machine.

``reference_seconds.json`` holds, by environment and sizes of a setting, the processor seconds that
each estimator of the shipped suites took on one machine, in units of that machine's
`calibration_seconds`. ``python tests/benchmarks/reference_seconds.py`` makes it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, NamedTuple

from ope_bench.plugins.resolution import complete_params
from ope_bench.plugins.spec import PluginSpec
from ope_bench.suites.selector import selector_of

__all__ = ["Cost", "ReferenceTable", "sizes_of", "reference_table"]

TABLE = "reference_seconds.json"
ROWS = "n_samples"


def sizes_of(environment: PluginSpec) -> dict[str, int]:
    """Return the parameters of a setting that say how large its problems are: the integers.

    Seeds are integers too, and no sizes.
    """
    params = complete_params("environment", environment.reference, environment.params)
    return {
        name: value
        for name, value in sorted(params.items())
        if isinstance(value, int) and not isinstance(value, bool) and "seed" not in name
    }


class Cost(NamedTuple):
    """The time of a trial, in units of `calibration_seconds`.

    Parameters
    ----------
    own, whole : without and with fits that it shares with others on the same data.
    exact : measured for this estimator in a setting of these sizes; otherwise scaled from the
        nearest setting, or from the slowest known parameters of the estimator.
    """

    own: float
    whole: float
    exact: bool

    def times(self, factor: float) -> Cost:
        """Return the cost multiplied by a factor."""
        return Cost(self.own * factor, self.whole * factor, self.exact)


@dataclass(frozen=True)
class _Setting:
    environment: str
    sizes: Mapping[str, int]
    sampling: float
    costs: Mapping[str, Sequence[float]]

    @cached_property
    def slowest(self) -> Mapping[str, Sequence[float]]:
        """The slowest costs of each estimator, whatever its parameters."""
        found: dict[str, Sequence[float]] = {}
        for text, cost in self.costs.items():
            name = text.partition("[")[0]
            found[name] = max(found.get(name, (0.0, 0.0)), cost, key=max)
        return found

    def distance(self, environment: str, sizes: Mapping[str, int]) -> float:
        """Return how far the sizes are: the sum of the absolute logarithms of their ratios."""
        shared = self.sizes.keys() & sizes.keys()
        apart = sum(abs(math.log((1 + sizes[n]) / (1 + self.sizes[n]))) for n in shared)
        return apart + (self.environment != environment)

    def scale(self, sizes: Mapping[str, int]) -> float:
        """Return the ratio of the numbers of rows: most estimators cost as much a row."""
        rows, mine = sizes.get(ROWS), self.sizes.get(ROWS)
        return rows / mine if rows and mine else 1.0


class ReferenceTable:
    """Costs of trials by environment, sizes of the setting and estimator.

    Parameters
    ----------
    document : the content of the table's file.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._settings = [_Setting(**one) for one in document["settings"]]
        self._known: dict[tuple[str, str], Cost | None] = {}
        self._nearest: dict[str, list[_Setting]] = {}

    def sampling(self, environment: PluginSpec) -> float:
        """Return the cost of sampling one problem, 0 for an unknown environment."""
        for setting in self._by_distance(environment):
            if setting.environment == environment.id:
                return setting.sampling * setting.scale(sizes_of(environment))
        return 0.0

    def cost(self, environment: PluginSpec, estimator: PluginSpec) -> Cost | None:
        """Return the cost of a trial, None for an estimator that is not in the table."""
        cell = environment.identity_json, estimator.identity_json
        if cell not in self._known:
            self._known[cell] = self._cost(environment, estimator)
        return self._known[cell]

    def _cost(self, environment: PluginSpec, estimator: PluginSpec) -> Cost | None:
        text, sizes = selector_of(estimator), sizes_of(environment)
        nearest = self._by_distance(environment)
        for setting in nearest:
            if text in setting.costs:
                own, whole = setting.costs[text]
                exact = setting.environment == environment.id and setting.sizes == sizes
                return Cost(own, whole, exact).times(setting.scale(sizes))
        for setting in nearest:
            if estimator.id in setting.slowest:
                own, whole = setting.slowest[estimator.id]
                return Cost(own, whole, False).times(setting.scale(sizes))
        return None

    def _by_distance(self, environment: PluginSpec) -> list[_Setting]:
        key = environment.identity_json
        if key not in self._nearest:
            name, sizes = environment.id, sizes_of(environment)
            self._nearest[key] = sorted(
                self._settings, key=lambda setting: setting.distance(name, sizes)
            )
        return self._nearest[key]


@cache
def reference_table() -> ReferenceTable:
    """Return the shipped table."""
    text = (files("ope_bench.cli.running") / TABLE).read_text(encoding="utf-8")
    return ReferenceTable(json.loads(text))
