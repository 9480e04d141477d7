"""Bootstrap intervals of estimators, all fits included, a base of estimators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, replace
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Lt

from ope_bench import UNIT_RESAMPLES, Estimate, Estimator, Interval, View, bootstrap_interval

__all__ = ["Bootstrapped"]


class Bootstrapped(Estimator):
    """Mixin before an estimator: ``interval: bootstrap`` gives an interval beside its estimate.

    Parameters
    ----------
    interval : ``bootstrap``, the quantiles of the estimates on units drawn with replacement, with
        all models fitted anew; ``asymptotic``, no interval but that of the standard error.
    level : of the interval.
    resamples : number of bootstrap samples, the same ones for every estimator; the estimate then
        takes as much longer.
    """

    added_parameters: ClassVar[Mapping[str, Any]] = {
        "interval": "asymptotic",
        "level": 0.95,
        "resamples": UNIT_RESAMPLES,
    }

    _: KW_ONLY
    interval: Literal["asymptotic", "bootstrap"] = "asymptotic"
    level: Annotated[float, Gt(0), Lt(1)] = 0.95
    resamples: Annotated[int, Ge(2)] = UNIT_RESAMPLES

    def estimate(self, view: View) -> Estimate:
        """Return the estimate, with an interval where the parameters ask for one."""
        found = super().estimate(view)  # type: ignore[safe-super]  # of the class after this one
        if self.interval == "asymptotic":
            return found
        return replace(found, interval=self._bootstrap(view))

    def _bootstrap(self, view: View) -> Interval | None:
        """Return the bootstrap interval of the same estimator; None if too many resamples fail."""
        values = self.get_params(deep=False) | {"interval": "asymptotic"}
        return bootstrap_interval(
            type(self)(**values), view, level=self.level, resamples=self.resamples
        )
