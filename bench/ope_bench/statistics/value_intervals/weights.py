"""When importance weights are such that intervals built on them hold the value too rarely."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "DOUBTFUL_WEIGHTS",
    "EFFECTIVE_SAMPLE_SIZE",
    "LARGEST_SHARE",
    "LEAST_EFFECTIVE",
    "RARE_WEIGHTS",
    "SMALLEST_EFFECTIVE",
    "SMALLEST_MEAN",
    "doubtful_weights",
    "weight_warnings",
]

EFFECTIVE_SAMPLE_SIZE = "effective_sample_size"
"""Name of the diagnostic with the number of equal rows that the weights are worth."""

LEAST_EFFECTIVE = "least_effective_sample_size"
"""Name of the diagnostic with the number of rows over the largest weight that policies allow."""

SMALLEST_EFFECTIVE = 5
"""Value of that diagnostic below which intervals that rest on the logged weights are doubtful.

Logs mostly lack the rows of the largest weights, and then look better than others: no limit of the
effective sample size of the logged weights does as well. ``results/intervals`` has both.
"""

HOLDING = ("empirical-likelihood", "guaranteed")
"""Kinds of intervals that count on rows which are not in the logs."""

RARE_WEIGHTS = (
    f"the policies allow weights of over 1/{SMALLEST_EFFECTIVE} of the number of rows: normal and "
    f"bootstrap intervals hold the value too rarely, {' and '.join(HOLDING)} ones do not"
)
"""What is said where that diagnostic is below its limit, on boards as on single records."""

LARGEST_SHARE = 0.1
"""Share of the weight in one logged row above which weights are doubtful."""

SMALLEST_MEAN = 0.8
"""Mean weight, one in expectation, below which weights are doubtful."""

DOUBTFUL_WEIGHTS = (
    f"one logged row carries over {LARGEST_SHARE:.0%} of the weight, or the weights average "
    f"under {SMALLEST_MEAN}: a standard error is too small"
)
"""What is said of doubtful weights, on boards as on single records."""


def doubtful_weights(largest_share: float | None, mean: float | None) -> bool:
    """Return whether few logged rows decide the estimate, as far as the weights tell.

    Either one row carries much of the weight, or the weights average far below one: the logs then
    lack the rows that would have carried it. The limits are those of
    ``results/performance/standard-errors.md``.

    Parameters
    ----------
    largest_share : largest weight over the sum of weights.
    mean : of the weights before they are changed, the diagnostic ``mean_weight``; None where an
        estimator does not report it.

    >>> doubtful_weights(0.02, 0.97), doubtful_weights(0.3, 1.1), doubtful_weights(0.02, 0.2)
    (False, True, True)
    """
    return (largest_share is not None and largest_share > LARGEST_SHARE) or (
        mean is not None and mean < SMALLEST_MEAN
    )


def weight_warnings(
    largest_share: float | None,
    mean: float | None,
    least: float | None,
    kinds: Iterable[str] = (),
) -> tuple[str, ...]:
    """Return what a reader of an interval must know of the weights that it rests on.

    Parameters
    ----------
    largest_share, mean : as for `doubtful_weights`.
    least : the diagnostic `LEAST_EFFECTIVE`, None where it is unknown.
    kinds : of the intervals; none: that of the standard error.

    >>> weight_warnings(0.3, 1.1, 40.0) == (DOUBTFUL_WEIGHTS,)
    True
    >>> weight_warnings(0.02, 0.97, 0.3) == (RARE_WEIGHTS,)
    True
    >>> weight_warnings(0.3, 0.2, 0.3, ["guaranteed"])
    ()
    """
    kinds = tuple(kinds)
    if kinds and all(kind in HOLDING for kind in kinds):
        return ()
    found = (
        (DOUBTFUL_WEIGHTS, doubtful_weights(largest_share, mean)),
        (RARE_WEIGHTS, least is not None and least < SMALLEST_EFFECTIVE),
    )
    return tuple(text for text, applies in found if applies)
