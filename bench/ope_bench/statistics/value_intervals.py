"""Intervals of a policy's value from one data set."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ope_bench.base.errors import DataError
from ope_bench.contracts.arrays import FloatArray, IntArray, check_rewards
from ope_bench.contracts.plugins import Interval
from ope_bench.statistics.weight_checks import relative_sizes, unit_means

# Intervals of a policy's value by empirical likelihood, from importance weights and rewards.

LARGEST_ROOT = 1e70
"""Larger weights have no fourth powers that could be summed."""


@dataclass(frozen=True)
class _Means:
    """Means over n units and one more: of the weights, and of w (r - r_0) for a reward r_0.

    The unit more has reward r_0, so that only its weight counts.
    """

    weight: float
    weight_square: float
    gain: float
    gain_square: float
    product: float

    @classmethod
    def of(cls, weight: FloatArray, gain: FloatArray, added: float) -> _Means:
        n = len(weight) + 1
        return cls(
            (float(weight.sum()) + added) / n,
            (float(weight @ weight) + added * added) / n,
            float(gain.sum()) / n,
            float(gain @ gain) / n,
            float(weight @ gain) / n,
        )

    @property
    def variance(self) -> float:
        """Variance of the weights; 0 where it is rounding."""
        variance = self.weight_square - self.weight**2
        return variance if variance > 1e-12 * self.weight_square else 0.0


def empirical_likelihood_interval(
    weight: FloatArray,
    reward: FloatArray,
    *,
    reward_range: tuple[float, float],
    weight_range: tuple[float, float] = (0.0, math.inf),
    unit: IntArray | None = None,
    level: float = 0.95,
) -> Interval:
    """Return the interval of E[w r] by the Cressie-Read divergence of power -2.

    Probabilities p of the n rows and of one row more satisfy sum p = 1 and sum p w = 1. The
    interval holds every sum p w r for which

        sum ((n + 1) p - 1)² <= its least value + F(1, n)

    for a row more of any weight and reward at the ends of their ranges, the quantile F being that
    of an F distribution. It holds the weighted average whose probabilities are nearest to equal
    ones. With all weights 1 it is an interval of a mean. Ends are inside the reward range.

    Parameters
    ----------
    weight, reward : (n,)
    reward_range : smallest and largest possible reward.
    weight_range : smallest and largest ratio of the policies at one row; infinite where it is
        unknown, which makes wider intervals. The range of a unit's sum follows from the sizes of
        the units that were seen. It is widened to hold the weights that were seen.
    unit : (n,), rows of one unit count as one observation; each row is its own where None.
    level : nominal level, reached as n grows.

    References
    ----------
    Empirical likelihood for contextual bandits (Karampatziakis, Langford and Mineiro, 2020),
    section 4 and appendix. The release ``vw-estimators`` 0.2.2 gives the same ends, but takes the
    smallest reward as upper end where no row more satisfies the constraint; here that end is the
    largest reward.

    >>> found = empirical_likelihood_interval(
    ...     np.ones(100), np.tile([0.0, 1.0], 50), reward_range=(0, 1), weight_range=(1, 1))
    >>> round(found.low, 3), round(found.high, 3)
    (0.396, 0.604)
    """
    from scipy.special import fdtri

    weight, weighted = unit_means(weight, weight * reward, unit)
    n = len(weight)
    smallest, largest = relative_sizes(unit)
    weights = (
        min(smallest * weight_range[0], float(weight.min())),
        max(largest * weight_range[1], float(weight.max())),
    )
    if float(weight.max()) > LARGEST_ROOT or LARGEST_ROOT < weights[1] < math.inf:
        # One such row is all that the others weigh against: nothing is told.
        return Interval(*reward_range, level, "empirical-likelihood")
    least = _least(weight, weights[1] if weight.sum() < n else weights[0])
    phi = -(least + float(fdtri(1, n, level))) / (2 * (1 + n))
    lowest, highest = reward_range
    low = lowest + _lower_end(weight, weighted - lowest * weight, weights, phi)
    high = highest - _lower_end(weight, highest * weight - weighted, weights, phi)
    low = min(max(low, lowest), highest)
    return Interval(low, max(low, min(high, highest)), level, "empirical-likelihood")


def _least(weight: FloatArray, added: float) -> float:
    """Return the smallest divergence from equal probabilities, times n + 1."""
    n = len(weight)
    if math.isinf(added):
        return 1 + 1 / n
    means = _Means.of(weight, np.zeros(n), added)
    return (1 + n) * _ratio((means.weight - 1) ** 2, means.variance)


def _lower_end(
    weight: FloatArray, gain: FloatArray, weights: tuple[float, float], phi: float
) -> float:
    """Return the smallest sum p w (r - r_0), over units more of reward r_0 and extreme weight.

    -inf where no probabilities are near enough.

    Parameters
    ----------
    weight : (n,)
    gain : (n,), w (r - r_0).
    weights : smallest and largest weight.
    phi : minus half of the largest divergence, over n + 1.
    """
    ends = []
    for added in weights:
        if math.isinf(added):
            end = _unbounded_end(weight, gain, phi)
        else:
            end = _bounded_end(_Means.of(weight, gain, added), phi)
        if end is not None:
            ends.append(end)
    return min(ends, default=-math.inf)


def _bounded_end(means: _Means, phi: float) -> float | None:
    """Return the end with a unit more of finite weight; None where no probabilities are near."""
    covariance = means.product - means.weight * means.gain
    excess = 1 - means.weight
    center = means.gain + _ratio(excess * covariance, means.variance)
    spread = _ratio(covariance**2, means.variance) - (means.gain_square - means.gain**2)
    return _end(center, spread, phi + 0.5 * _ratio(excess**2, means.variance))


def _unbounded_end(weight: FloatArray, gain: FloatArray, phi: float) -> float | None:
    """Return the end as the weight of the unit more grows without bound."""
    n, total = len(weight), float(gain.sum())
    spread = total**2 / (n * (1 + n)) - float(gain @ gain) / (1 + n)
    return _end(total / n, spread, phi + 1 / (2 * n))


def _end(center: float, spread: float, slack: float) -> float | None:
    """Return center - sqrt(2 spread slack), both of which are at most 0 up to rounding."""
    if slack > 0:
        return None
    return center - math.sqrt(2 * max(0.0, spread * slack))


def _ratio(value: float, variance: float) -> float:
    """Return the quotient, 0 where all weights are equal."""
    return value / variance if variance > 0 else 0.0


# Intervals of a policy's value that cover at least their level at every number of rows.

BETS = 25
"""Number of shares of the wealth that are bet at the same time by default."""

LARGEST_BET, LARGEST_RAISED_BET = 0.5, 0.9
"""Largest share that is bet by default, on products and on terms raised by their shortfall.

Raised terms of a good reward model vary little around their mean, against which large bets win.
"""

BLOCK = 8
"""Factors that are multiplied before a logarithm is taken."""

CHUNK = 1 << 12
"""Rows at a time."""

STEP = 0.02
"""First distance from the logarithm of the average at which the end is looked for."""

LEAST = -700.0
"""Logarithm below which a mean is taken to be 0."""


def betting_interval(
    weight: FloatArray,
    reward: FloatArray,
    *,
    reward_range: tuple[float, float],
    unit: IntArray | None = None,
    level: float = 0.95,
    bets: FloatArray | None = None,
    largest_unit: int | None = None,
    largest_weight: FloatArray | None = None,
) -> Interval:
    """Return the interval of E[w r] by a mixture of constant bets.

    With rewards scaled to [0, 1] and X = w r, a gambler who bets a share c against a mean m has

        W(m) = mean over c of prod_i (1 - c + c X_i / m)

    at the end, whose expectation is at most 1 if the mean is m or less: by Markov's inequality
    the means with W(m) < 2 / (1 - level) are a one-sided interval of level (1 + level) / 2. The
    upper end is that of 1 - r, mirrored. For units u of n_u <= B rows and sums S_u of X factors
    are 1 + c (S_u / m - n_u) / B, since S_u - m n_u has mean 0 at the value, however much the size
    tells of the rewards.

    Where the largest weight of each context is known, half of the wealth at the upper end is that
    of bets on w r itself, which do without the spread of the weights:

        mean over λ of prod_i (1 + λ (m - Y_i)),   Y_i = w_i r_i, but 1 where the context allows
                                                   weights above .9 / λ

    1 is no less than the mean of w r in such a context, so that no context needs a bound.

    Parameters
    ----------
    weight, reward : (n,)
    reward_range : smallest and largest possible reward.
    unit : (n,), rows of one unit count as one observation; each row is its own where None.
    level : the interval covers at least with this probability.
    bets : (k,), the shares c, in (0, 1) and chosen without regard to the rewards; where None, 25
        in geometric progression up to 1/2, which are narrower than 25 at equal distances.
    largest_unit : B, the most rows that a unit can have, known before the rows; needed where units
        have several.
    largest_weight : (n,), the largest ratio of the policies over the actions of each row's
        context; infinite or None where it is unknown.

    Raises
    ------
    DataError : a reward is outside the range, or a unit has more rows than ``largest_unit``.

    References
    ----------
    Estimating means of bounded random variables by betting (Waudby-Smith and Ramdas, 2024).
    Anytime-valid off-policy inference for contextual bandits (Waudby-Smith, Wu, Ramdas,
    Karampatziakis and Mineiro, 2022), for importance weights.

    >>> found = betting_interval(np.ones(1000), np.full(1000, 0.5), reward_range=(0, 1))
    >>> round(found.low, 3), round(found.high, 3)
    (0.494, 0.506)
    """
    low, high = check_rewards(reward, reward_range)
    scaled = (reward - low) / (high - low)
    rows = _Units.of(unit, len(reward), largest_unit)
    share = _bets(rows.count, LARGEST_BET) if bets is None else bets
    more = _bets(rows.count, LARGEST_RAISED_BET) if bets is None else bets
    ends = _ends_by_bets(rows, weight, scaled, largest_weight, (share, more), level)
    return _interval(ends, (low, high), level)


ANYTIME_BETS = np.geomspace(1e-4, LARGEST_BET, BETS)
"""Shares of the wealth that are bet whatever the number of rows, known before the first."""


def confidence_sequence(
    weight: FloatArray,
    reward: FloatArray,
    *,
    reward_range: tuple[float, float],
    unit: IntArray | None = None,
    level: float = 0.95,
    difference: bool = False,
    largest_unit: int | None = None,
    largest_weight: FloatArray | None = None,
) -> Interval:
    """Return the interval of E[w r], or of E[w r] - E[r], that holds after every row together.

    The wealth of `betting_interval` with bets that do not depend on n is a martingale at the true
    mean: by Ville's inequality it ever exceeds 2 / (1 - level) with a probability of at most
    (1 - level) / 2. For the difference, X = 1 + (w - 1) r has the mean one plus the difference,
    and 1 + (w - 1) (1 - r) one minus it, because weights average one.

    Parameters
    ----------
    weight, reward, reward_range, unit, level, largest_unit, largest_weight : as for
        `betting_interval`, rows in their order; of units it holds after every unit.
    difference : from the logging policy's value.

    References
    ----------
    Anytime-valid off-policy inference for contextual bandits (Waudby-Smith, Wu, Ramdas,
    Karampatziakis and Mineiro, 2022).

    >>> found = confidence_sequence(np.ones(1000), np.full(1000, 0.5), reward_range=(0, 1))
    >>> round(found.low, 3), round(found.high, 3)
    (0.493, 0.507)
    """
    low, high = check_rewards(reward, reward_range)
    scaled = (reward - low) / (high - low)
    rows = _Units.of(unit, len(reward), largest_unit)
    if not difference:
        bets = ANYTIME_BETS, ANYTIME_BETS
        ends = _ends_by_bets(rows, weight, scaled, largest_weight, bets, level)
        return replace(_interval(ends, (low, high), level), kind="anytime")
    threshold = math.log(2 / (1 - level))
    first, last = (
        (high - low) * (_by_bets(rows, 1.0 + (weight - 1.0) * one, ANYTIME_BETS, threshold) - 1.0)
        for one in (scaled, 1.0 - scaled)
    )
    return Interval(min(first, -last), max(first, -last), level, "anytime")


def largest_shortfall(n: int) -> float:
    """Return k, by how much a doubly robust term may be below 0: sqrt(n) / 16 for n rows.

    A large k leaves the reward model whole, a small one allows large bets. Bets have to be large
    where n is small, so that k grows with n; it is known before the rewards.

    >>> largest_shortfall(1024)
    2.0
    """
    return math.sqrt(n) / 16


def betting_interval_of_terms(
    lower: FloatArray,
    upper: FloatArray,
    shortfall: float,
    *,
    reward_range: tuple[float, float],
    unit: IntArray | None = None,
    level: float = 0.95,
    largest_unit: int | None = None,
) -> Interval:
    """Return the interval of a value by bets on terms that are bounded below.

    Doubly robust terms can be so. With rewards scaled to [0, 1], the terms φ_i >= -k have at most
    the value V as mean, given the rows before. A gambler who bets λ <= 1 / (k + m) against a mean
    m has prod_i (1 + λ (φ_i - m)), which is the wealth of `betting_interval` for X = φ + k, the
    mean m + k and the share c = λ (k + m). The upper end comes from terms of the rewards 1 - r.

    Parameters
    ----------
    lower, upper : (n,), φ of the scaled rewards and of one minus them.
    shortfall : k, no less than any -φ_i.
    reward_range, unit, level, largest_unit : as for `betting_interval`.

    References
    ----------
    Anytime-valid off-policy inference for contextual bandits (Waudby-Smith, Wu, Ramdas,
    Karampatziakis and Mineiro, 2022), section 2, for φ = w (r - min(q̂, k/w)) +
    sum_a π1(a|x) min(q̂(x, a), k/w(x, a)).

    >>> found = betting_interval_of_terms(
    ...     np.full(1000, 0.5), np.full(1000, 0.5), 1.0, reward_range=(0, 1))
    >>> round(found.low, 3), round(found.high, 3)
    (0.489, 0.511)
    """
    threshold = math.log(2 / (1 - level))
    # Products that are 0 in exact arithmetic may round to less.
    raised = np.maximum(lower + shortfall, 0.0), np.maximum(upper + shortfall, 0.0)
    rows = _Units.of(unit, len(lower), largest_unit)
    share = _bets(rows.count, LARGEST_RAISED_BET)
    ends = [_by_bets(rows, one, share, threshold) - shortfall for one in raised]
    return _interval((ends[0], ends[1]), reward_range, level)


def logarithmic_interval(
    weight: FloatArray,
    reward: FloatArray,
    *,
    reward_range: tuple[float, float],
    unit: IntArray | None = None,
    level: float = 0.95,
    lambda_: float | None = None,
    largest_unit: int | None = None,
) -> Interval:
    """Return the interval of E[w r] by logarithmic smoothing.

        V >= [exp(mean ln(1 + λ w r) - ln(2 / (1 - level)) / n) - 1] / λ

    for rewards scaled to [0, 1]; the upper end is that of 1 - r, mirrored. That is the mean m with
    prod_i (1 + λ w r) / (1 + λ m) = 2 / (1 - level). For units the factors are
    1 + λ (S_u - m n_u) / (B + λ B m), as for `betting_interval`.

    Parameters
    ----------
    weight, reward, reward_range, unit, level, largest_unit : as for `betting_interval`.
    lambda_ : λ, chosen without regard to the rewards; 1 / sqrt(n) where None.

    References
    ----------
    Logarithmic smoothing for pessimistic off-policy evaluation, selection and learning (Sakhi,
    Aouali, Alquier and Chopin, 2024), equation 13.

    >>> found = logarithmic_interval(np.ones(1000), np.full(1000, 0.5), reward_range=(0, 1))
    >>> round(found.low, 3), round(found.high, 3)
    (0.382, 0.618)
    """
    from scipy.optimize import brentq

    low, high = check_rewards(reward, reward_range)
    scaled = (reward - low) / (high - low)
    rows = _Units.of(unit, len(reward), largest_unit)
    both = np.stack([rows.sums(weight * scaled), rows.sums(weight * (1.0 - scaled))])
    n, size, threshold = rows.count, rows.size, math.log(2 / (1 - level))
    scale = 1 / math.sqrt(n) if lambda_ is None else lambda_
    ends = np.expm1(np.log1p(scale * both).mean(axis=1) - threshold / n) / scale
    if size is not None:

        def excess(mean: float, sums: FloatArray) -> float:
            """Return by how much the logarithm of the product, which falls, is too large."""
            factors = scale * (sums - mean * size) / (1 + scale * mean)
            return float(np.log1p(factors).sum()) - threshold

        for place, sums in enumerate(both):
            inside = excess(1.0, sums) < 0 < excess(0.0, sums)
            outside = float(excess(1.0, sums) >= 0)
            ends[place] = brentq(excess, 0.0, 1.0, args=(sums,)) if inside else outside
    return _interval((float(ends[0]), float(ends[1])), (low, high), level)


@dataclass(frozen=True)
class _Units:
    """The units of rows, for sums over their rows.

    Parameters
    ----------
    row : (n,), number of each row's unit; None where each row is its own.
    size : (k,), rows of each unit over the largest number that is possible; 1 without units.
    largest : that number.
    count : k.
    """

    row: IntArray | None
    size: FloatArray | None
    largest: int
    count: int

    @classmethod
    def of(cls, unit: IntArray | None, n: int, largest: int | None) -> _Units:
        _, row, size = (
            (None, None, np.ones(1))
            if unit is None
            else np.unique(unit, return_inverse=True, return_counts=True)
        )
        most = int(size.max())
        if row is None or (most == 1 and largest in (None, 1)):
            return cls(None, None, 1, n)
        if largest is None or most > largest:
            msg = f"a unit has {most} rows; largest_unit is {largest}: give the most there can be"
            raise DataError(msg)
        return cls(row.reshape(-1), size / largest, largest, len(size))

    def sums(self, values: FloatArray) -> FloatArray:
        """Sum over the rows of each unit, relative to the largest unit: (k,)."""
        if self.row is None:
            return values
        return np.bincount(self.row, values, self.count) / self.largest


def _ends_by_bets(
    units: _Units,
    weight: FloatArray,
    scaled: FloatArray,
    largest_weight: FloatArray | None,
    bets: tuple[FloatArray, FloatArray],
    level: float,
) -> tuple[float, float]:
    """Return the lower ends of the scaled value and of one minus it."""
    threshold, (share, more) = math.log(2 / (1 - level)), bets
    first = _by_bets(units, weight * scaled, share, threshold)
    if largest_weight is None or not np.isfinite(largest_weight).any():
        return first, _by_bets(units, weight * (1.0 - scaled), share, threshold)
    limit = np.maximum(largest_weight, weight)
    capped = np.empty((len(more), units.count))
    for row, one in zip(capped, more, strict=True):
        row[:] = -units.sums(np.where(limit <= LARGEST_RAISED_BET / one, weight * scaled, 1.0))
    size = 1.0 if units.size is None else units.size

    def other(mean: float) -> float:
        """Return the logarithm of the wealth of bets on w r."""
        return _log_mean_exp(_log_wealth(capped, more, (mean - 1.0) * size))

    return first, _by_bets(units, weight * (1.0 - scaled), share, threshold, other)


def _interval(
    ends: tuple[float, float], reward_range: tuple[float, float], level: float
) -> Interval:
    """Return the interval of lower ends of the scaled value and of one minus it."""
    low, high = reward_range
    below, above = (min(1.0, max(0.0, end)) for end in ends)
    first, last = low + (high - low) * below, low + (high - low) * (1.0 - above)
    # Weights that average far from one can make both ends pass each other.
    return Interval(min(first, last), max(first, last), level, "guaranteed")


def _by_bets(
    units: _Units,
    rows: FloatArray,
    share: FloatArray,
    threshold: float,
    other: Callable[[float], float] | None = None,
) -> float:
    """Return the mean below which the wealth exceeds exp(threshold).

    Parameters
    ----------
    units, rows : (n,), products of the rows, summed by unit.
    share : what is bet.
    threshold : logarithm of the wealth at the end.
    other : logarithm of a wealth that falls with the mean, which then has half of the money.
    """
    from scipy.optimize import brentq

    products = units.sums(rows)
    average = float(products.mean() if units.size is None else products.sum() / units.size.sum())
    if average <= 0 and other is None:
        return 0.0
    zeros = 0 if units.size is not None else int((products == 0).sum())
    positive = products[products > 0] if units.size is None else products

    def excess(log_mean: float) -> float:
        values = positive / math.exp(log_mean)
        gain = zeros * np.log1p(-share) + _log_wealth(values, share, units.size)
        if other is None:
            return _log_mean_exp(gain) - threshold
        both = np.array([_log_mean_exp(gain), other(math.exp(log_mean))])
        return _log_mean_exp(both) - threshold

    # The end lies below the average, but for what the other wealth says.
    high, step = 0.0 if other else math.log(average), STEP
    if other and excess(high) >= 0:
        return 1.0
    low = high - step
    while excess(low) < 0:
        step *= 4
        high, low = low, low - step
        if low < LEAST:
            return 0.0
    return math.exp(float(brentq(excess, low, high, xtol=1e-9)))


def _log_mean_exp(gain: FloatArray) -> float:
    most = float(gain.max())
    return most + math.log(float(np.exp(gain - most).mean()))


def _bets(n: int, largest: float) -> FloatArray:
    """Return shares of the wealth in geometric progression, known before the rewards: (BETS,).

    The best share falls with the square root of n and with the spread of the products.
    """
    return np.geomspace(min(0.05, 0.1 / math.sqrt(n)), largest, BETS)


def _log_wealth(
    values: FloatArray, share: FloatArray, size: FloatArray | float | None = None
) -> FloatArray:
    """Return sum_i ln(1 - c s_i + c x_i) for each share c, one logarithm for a block of factors.

    Parameters
    ----------
    values : (k,), x; or (d, k), one row for each of the d shares.
    size : (k,), s, or one for all; 1 where None.
    """
    gain = np.zeros(len(share))
    # Chunks that stay in the processor's cache.
    for first in range(0, values.shape[-1], CHUNK):
        part = values[..., first : first + CHUNK]
        factors = share[:, None] * part
        rest = size[first : first + CHUNK] if isinstance(size, np.ndarray) else size
        factors += 1.0 - share[:, None] * (1.0 if rest is None else rest)
        whole = part.shape[-1] // BLOCK * BLOCK
        blocks = factors[:, :whole].reshape(len(share), BLOCK, -1)
        with np.errstate(over="ignore"):
            products = np.multiply.reduce(blocks, axis=1)
            total = np.log(products).sum(axis=1) + np.log(factors[:, whole:]).sum(axis=1)
        # A product of large factors overflows.
        exact = np.isfinite(total)
        total[~exact] = np.log(factors[~exact]).sum(axis=1)
        gain += total
    return gain
