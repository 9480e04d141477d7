"""Judge each row of a gate: pure functions of paired records.

The statistic was chosen by simulation (tests/benchmarks/gate_power.py): a t-test on the log ratio
of mean squared errors raises several times too many alarms at the small levels that a board of
many rows needs; the studentised swap test is exact where errors are exchangeable, heavy tails
included. On fresh data nothing is paired, so errors are randomly permuted between the two sides
instead.

With heavy tails a mean square has no power: its few largest squares hide a typical error twice
as large. So every row is tested twice, by its mean square and by the ranks of its absolute errors,
and all tests of all rows share the level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.data import TruthKind
from ope_bench.gate.pairing import PairedRow
from ope_bench.gate.screening import RowCase, join_reasons, screen
from ope_bench.gate.verdict import Judgement, Rules, Verdict, Way
from ope_bench.statistics.distribution import squares
from ope_bench.statistics.paired import holm, swap_test
from ope_bench.statistics.tails import jointly_heavy_tailed
from ope_bench.statistics.typical import rank_sums, signed_ranks
from ope_bench.statistics.unpaired import permutation_test

__all__ = ["decide", "judge"]

LARGEST = 700.0
"""Logarithms beyond this have no exponential."""


def judge(
    rows: Sequence[PairedRow], truth: TruthKind, rules: Rules | None = None
) -> list[Judgement]:
    """Judge all rows; the p-values are adjusted for all tests of all rows.

    Parameters
    ----------
    rows : baseline rows paired with the outcomes known so far.
    truth : what errors are measured against.
    rules : margin, level and number of looks.
    """
    rules = rules or Rules()
    return decide([screen(row, truth, rules) for row in rows], rules)


def decide(cases: Sequence[RowCase], rules: Rules) -> list[Judgement]:
    """Judge all screened rows; those that are open are tested, and get their judgement.

    Parameters
    ----------
    cases : the rows, see `ope_bench.gate.screening.screen`.
    rules : margin, level and number of looks.
    """
    open_cases = [case for case in cases if case.tested]
    _test(open_cases, rules)
    worse = _adjusted([case.p_worse for case in open_cases])
    better = _adjusted([case.p_better for case in open_cases])
    tests = sum(map(len, worse))
    for case, p_worse, p_better in zip(open_cases, worse, better, strict=True):
        case.judgement = _decided(case, p_worse, p_better, tests, rules)
    return [case.judgement for case in cases]


def _adjusted(by_row: Sequence[Mapping[Way, float]]) -> list[dict[Way, float]]:
    """Adjust the p-values of all rows and ways together, by Holm's method."""
    adjusted = iter(holm(np.array([p for row in by_row for p in row.values()])))
    return [{way: float(next(adjusted)) for way in row} for row in by_row]


def _test(cases: Sequence[RowCase], rules: Rules) -> None:
    """Compute the p-values of the rows; rows with equally many errors share one call."""
    level = rules.level / rules.looks
    by_size: dict[tuple[int, int], list[RowCase]] = {}
    for case in cases:
        by_size.setdefault((len(case.before), len(case.after)), []).append(case)
    for sizes, members in by_size.items():
        if 0 in sizes:
            continue
        before = np.stack([case.before for case in members])
        after = np.stack([case.after for case in members])
        _compare_typical(members, after, before, rules)
        _compare_mean_squares(members, after, before, rules, level * len(members) / len(cases))


def _compare_typical(
    cases: Sequence[RowCase], after: FloatArray, before: FloatArray, rules: Rules
) -> None:
    """Test absolute errors by their ranks."""
    test = rank_sums if rules.fresh else signed_ranks
    # The margin refers to squared errors.
    margin = math.sqrt(1 + rules.margin)
    worse, better = test(after, before, null_ratio=margin)
    if margin != 1:
        _, better = test(after, before, null_ratio=1 / margin)
    after_medians, before_medians = (np.median(np.abs(side), axis=1) for side in (after, before))
    for index, case in enumerate(cases):
        case.p_worse[Way.TYPICAL] = float(worse[index])
        case.p_better[Way.TYPICAL] = float(better[index])
        if before_medians[index] > 0:
            ratio = float(after_medians[index] / before_medians[index])
            case.judgement = replace(case.judgement, typical_ratio=ratio)


def _compare_mean_squares(
    cases: Sequence[RowCase], after: FloatArray, before: FloatArray, rules: Rules, level: float
) -> None:
    """Test mean squared errors, and note their ratio."""
    test = permutation_test if rules.fresh else swap_test
    after, before = squares(after, before)
    margin = 1 + rules.margin
    worse = better = test(after, before, null_ratio=margin, level=level)
    if margin != 1:
        better = test(after, before, null_ratio=1 / margin, level=level)
    heavy = jointly_heavy_tailed(before, after)
    degrees = after.shape[1] + before.shape[1] - 2 if rules.fresh else after.shape[1] - 1
    for index, case in enumerate(cases):
        case.p_worse[Way.MEAN_SQUARE] = float(worse.p_greater[index])
        case.p_better[Way.MEAN_SQUARE] = float(better.p_less[index])
        log_ratio, error = float(worse.log_ratio[index]), float(worse.standard_error[index])
        case.judgement = _with_ratio(case.judgement, log_ratio, error, bool(heavy[index]), degrees)


def _with_ratio(
    judged: Judgement, log_ratio: float, standard_error: float, heavy: bool, degrees: int
) -> Judgement:
    from scipy.special import stdtrit

    judged = replace(judged, heavy_tailed=heavy)
    if not abs(log_ratio) < LARGEST:
        return judged
    judged = replace(judged, ratio=math.exp(log_ratio))
    if judged.n < 2 or not math.isfinite(standard_error):
        return judged
    judged = replace(judged, standard_error=standard_error)
    reach = float(stdtrit(degrees, 0.975)) * standard_error
    if heavy or not abs(log_ratio) + reach < LARGEST:
        return judged
    return replace(
        judged,
        ratio_low=math.exp(log_ratio - reach),
        ratio_high=math.exp(log_ratio + reach),
    )


def _decided(
    case: RowCase,
    p_worse: Mapping[Way, float],
    p_better: Mapping[Way, float],
    tests: int,
    rules: Rules,
) -> Judgement:
    level = rules.level / rules.looks
    judged = replace(
        case.judgement,
        p=min(p_worse.values(), default=1.0),
        p_mean_square=p_worse.get(Way.MEAN_SQUARE),
        p_typical=p_worse.get(Way.TYPICAL),
        p_better=min(p_better.values(), default=1.0),
    )
    detectable = _detectable(judged, tests, level, rules.margin, fresh=rules.fresh)
    judged = replace(judged, detectable=detectable)
    worse, better = (_shown(ways, level) for ways in (p_worse, p_better))
    if worse or better:
        return _proven(judged, worse, better, case.failure_reason, rules)
    ratio = judged.ratio if judged.ratio is not None else _infinite_ratio(judged)
    harmless = Verdict.INDISTINGUISHABLE if rules.fresh else Verdict.DRIFTED
    if ratio is None:
        reason = join_reasons(judged.reason, "no errors to compare")
        return replace(judged, verdict=harmless, reason=reason)
    if rules.fresh:
        return replace(judged, verdict=harmless)
    if ratio > 1 + rules.margin or (rules.symmetric and ratio != 1):
        return replace(judged, verdict=Verdict.UNDECIDED)
    return replace(judged, verdict=harmless)


def _shown(adjusted: Mapping[Way, float], level: float) -> tuple[Way, ...]:
    """Return the ways with a p-value at or below the level, in a fixed order."""
    return tuple(way for way in Way if adjusted.get(way, 1.0) <= level)


def _proven(
    judged: Judgement,
    worse: tuple[Way, ...],
    better: tuple[Way, ...],
    failure_reason: str,
    rules: Rules,
) -> Judgement:
    """Return the verdict where a test is significant; for a gate, worse in any way is worse."""
    reason = judged.reason
    if Way.FAILURES in worse:
        reason = join_reasons(reason, failure_reason)
    if worse and better:
        reason = join_reasons(reason, f"better by {' and '.join(better)}")
        if rules.symmetric:
            reason = join_reasons(f"worse by {' and '.join(worse)}", reason)
            return replace(judged, verdict=Verdict.UNDECIDED, reason=reason)
    larger = judged.ratio is not None and judged.ratio > 1 + rules.margin
    if not worse and larger and not rules.fresh:
        # A mean square that grew, though not significantly, must not pass as an improvement.
        reason = join_reasons(reason, f"better by {' and '.join(better)}")
        return replace(judged, verdict=Verdict.UNDECIDED, reason=reason)
    verdict = Verdict.WORSE if worse else Verdict.BETTER
    return replace(judged, verdict=verdict, reason=reason, found_by=worse or better)


def _infinite_ratio(judged: Judgement) -> float | None:
    """Return the RMSE ratio when one side's RMSE is zero."""
    if judged.n == 0 or judged.rmse_before is None:
        return None
    return math.inf if judged.rmse_before == 0 and judged.rmse_after else 1.0


def _detectable(
    judged: Judgement, tests: int, level: float, margin: float, *, fresh: bool = False
) -> float | None:
    """Return the growth of the mean square that the t approximation finds with probability 0.8."""
    from scipy.special import ndtri, stdtrit

    n, standard_error = judged.n, judged.standard_error
    # The smallest p-value is one over the number of swaps, or of ways to split 2n errors in two.
    arrangements = math.comb(2 * n, n) if fresh else 2**n
    if standard_error is None or 1 / arrangements > level / max(tests, 1):
        return None
    degrees = 2 * n - 2 if fresh else n - 1
    critical = float(stdtrit(degrees, 1 - level / max(tests, 1)))
    exponent = math.log1p(margin) + (critical + float(ndtri(0.8))) * standard_error
    return math.expm1(exponent) if exponent < LARGEST else None
