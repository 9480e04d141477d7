"""Self-normalized inverse propensity weighting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Gt, Lt

from ope_bench import UNIT_RESAMPLES, IntervalKind, params
from ope_estimators.baseline.weighting.clipped_weights import ClippedWeights
from ope_estimators.baseline.weighting.weighted_intervals import WeightedIntervals

__all__ = ["IPWS"]


@params
class IPWS(WeightedIntervals, ClippedWeights):
    """Logged rewards averaged with weights that sum to one.

        V̂ = sum_i w_i r_i / sum_i w_i,   w_i = π1(a_i|x_i) / π0(a_i|x_i)

    A ratio of two means: consistent, with a bias of order 1/n, within the range of the rewards,
    and shifted by c when all rewards are. Its variance is mostly, not always, below that of
    `IPW`. The standard error is the delta method's, times sqrt(k / (k - 1)) for k units (rows,
    where there are none); there is none where a single unit has weight.

    Assumptions: known propensities; π0(a|x) > 0 wherever π1(a|x) > 0.
    Fails when: the policies overlap little. Where π0 is 0 and π1 is not, it estimates the value
    of the target policy restricted to what is logged. All weights zero: PositivityViolation.

    Parameters
    ----------
    clip : largest weight; larger ones are cut, and the sum is that of the clipped weights. A
        number; ``root-n``, the square root of the number of units (rows, where there are none);
        ``mse``, ``slope`` or ``ocv`` to choose among 30 limits; None for no limit.
    interval : ``asymptotic``, ``empirical-likelihood``, ``guaranteed`` or ``bootstrap``.
    reward_range : smallest and largest possible reward, where the environment does not declare
        them: ``guaranteed`` needs a range, ``empirical-likelihood`` else takes that of the logs.
    level : of the interval.
    resamples : number of bootstrap samples.

    References
    ----------
    The self-normalized estimator for counterfactual learning (Swaminathan and Joachims, 2015).

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(IPWS(), "saito-toy", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    added_parameters: ClassVar[Mapping[str, Any]] = {
        "interval": "asymptotic",
        "reward_range": None,
        "level": 0.95,
        "resamples": UNIT_RESAMPLES,
    }

    interval: IntervalKind = "asymptotic"
    reward_range: tuple[float, float] | None = None
    level: Annotated[float, Gt(0), Lt(1)] = 0.95
    resamples: Annotated[int, Ge(2)] = UNIT_RESAMPLES

    @property
    def _normalized(self) -> bool:
        return True
