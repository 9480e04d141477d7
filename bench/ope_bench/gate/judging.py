"""What became of each row: pure functions of paired records.

The statistic was chosen by simulation (tests/benchmarks): a t-test on the log ratio of mean
squared errors raises several times too many alarms at the small levels that a board of many rows
needs; the studentised swap test is exact where errors are exchangeable, heavy tails included. On
fresh data nothing is paired, and errors are dealt out anew over both sides instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ope_bench.board import TruthKind
from ope_bench.gate.examining import Case, examined, joined
from ope_bench.gate.pairing import PairedRow
from ope_bench.gate.verdict import Judgement, Rules, Verdict
from ope_bench.statistics.bootstrap import jointly_heavy_tailed
from ope_bench.statistics.paired import holm, swap_test
from ope_bench.statistics.unpaired import permutation_test

__all__ = ["Judgement", "Rules", "Verdict", "judge"]

LARGEST = 700.0
"""Logarithms beyond this have no exponential."""


def judge(
    rows: Sequence[PairedRow], truth: TruthKind, rules: Rules | None = None
) -> list[Judgement]:
    """Judge all rows together: their p-values are adjusted for one another.

    Parameters
    ----------
    rows : with the outcomes that there are.
    truth : what errors are measured against.
    rules : margin, level, looks.
    """
    rules = rules or Rules()
    cases = [examined(row, truth, rules) for row in rows]
    open_cases = [case for case in cases if case.tested]
    _test(open_cases, rules)
    adjusted = holm(np.array([case.p_worse for case in open_cases]))
    adjusted_better = holm(np.array([case.p_better for case in open_cases]))
    family = len(open_cases)
    for case, p, p_better in zip(open_cases, adjusted, adjusted_better, strict=True):
        case.judgement = _decided(case, float(p), float(p_better), family, rules)
    return [case.judgement for case in cases]


def _test(cases: Sequence[Case], rules: Rules) -> None:
    """The p-values of the rows, those with equally many errors in one call."""
    level = rules.level / rules.looks
    test = permutation_test if rules.fresh else swap_test
    by_size: dict[tuple[int, int], list[Case]] = {}
    for case in cases:
        by_size.setdefault((len(case.before), len(case.after)), []).append(case)
    for sizes, members in by_size.items():
        if 0 in sizes:
            continue
        before = np.square(np.stack([case.before for case in members]))
        after = np.square(np.stack([case.after for case in members]))
        share = level * len(members) / len(cases)
        worse = test(after, before, null_ratio=1 + rules.margin, level=share)
        better = test(after, before, null_ratio=1 / (1 + rules.margin), level=share)
        heavy = jointly_heavy_tailed(before, after)
        for index, case in enumerate(members):
            case.p_worse = float(worse.p_greater[index])
            case.p_better = float(better.p_less[index])
            log_ratio, error = float(worse.log_ratio[index]), float(worse.standard_error[index])
            degrees = sum(sizes) - 2 if rules.fresh else sizes[0] - 1
            case.judgement = _with_ratio(
                case.judgement, log_ratio, error, bool(heavy[index]), degrees
            )
    for case in cases:
        if case.failure_p is not None:
            # Two ways to be worse share the row's p-value.
            case.p_worse = min(1.0, 2 * min(case.p_worse, case.failure_p))


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


def _decided(case: Case, p: float, p_better: float, family: int, rules: Rules) -> Judgement:
    level = rules.level / rules.looks
    judged = replace(case.judgement, p=p, p_better=p_better)
    seen = _detectable(judged, family, level, rules.margin, fresh=rules.fresh)
    judged = replace(judged, detectable=seen)
    ratio = judged.ratio if judged.ratio is not None else _endless(judged)
    if p <= level:
        reason = judged.reason
        if case.failure_p is not None and 2 * case.failure_p == case.p_worse:
            reason = joined(reason, case.failure_reason)
        return replace(judged, verdict=Verdict.WORSE, reason=reason)
    if p_better <= level:
        return replace(judged, verdict=Verdict.BETTER)
    harmless = Verdict.ALIKE if rules.fresh else Verdict.DRIFTED
    if ratio is None:
        reason = joined(judged.reason, "no errors to compare")
        return replace(judged, verdict=harmless, reason=reason)
    if rules.fresh:
        return replace(judged, verdict=harmless)
    if ratio > 1 + rules.margin or (rules.symmetric and ratio != 1):
        return replace(judged, verdict=Verdict.UNDECIDED)
    return replace(judged, verdict=harmless)


def _endless(judged: Judgement) -> float | None:
    """The ratio where one side has no error at all."""
    if judged.n == 0 or judged.rmse_before is None:
        return None
    return math.inf if judged.rmse_before == 0 and judged.rmse_after else 1.0


def _detectable(
    judged: Judgement, family: int, level: float, margin: float, *, fresh: bool = False
) -> float | None:
    """Growth that the test would find with probability .8, by the t approximation."""
    from scipy.special import ndtri, stdtrit

    n, standard_error = judged.n, judged.standard_error
    # No p-value is below one over the number of swaps, or of ways to deal 2n errors out.
    arrangements = math.comb(2 * n, n) if fresh else 2**n
    if standard_error is None or 1 / arrangements > level / max(family, 1):
        return None
    degrees = 2 * n - 2 if fresh else n - 1
    critical = float(stdtrit(degrees, 1 - level / max(family, 1)))
    exponent = math.log1p(margin) + (critical + float(ndtri(0.8))) * standard_error
    return math.expm1(exponent) if exponent < LARGEST else None
