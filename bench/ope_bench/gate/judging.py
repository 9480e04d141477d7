"""What became of each row: pure functions of paired records.

The statistic was chosen by simulation (tests/benchmarks): a t-test on the log ratio of mean
squared errors raises several times too many alarms at the small levels that a board of many rows
needs; the studentised swap test is exact for unchanged code on fresh data, heavy tails included.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ope_bench.arrays import FloatArray
from ope_bench.gate.pairing import PairedRow
from ope_bench.leaderboard import TruthKind
from ope_bench.records import Status, TrialRecord
from ope_bench.statistics.bootstrap import jointly_heavy_tailed
from ope_bench.statistics.paired import holm, swap_test

__all__ = ["Judgement", "Rules", "Verdict", "judge"]


class Verdict(enum.StrEnum):
    """What became of a row."""

    SAME = "same"
    DRIFTED = "drifted"
    BETTER = "better"
    WORSE = "worse"
    UNDECIDED = "undecided"
    FAILED = "failed"
    MISSING = "missing"
    INCOMPARABLE = "incomparable"

    @property
    def mark(self) -> str:
        """One letter for tables."""
        return _MARKS[self]

    @property
    def fails(self) -> bool:
        """Whether the gate closes on it."""
        return self in (Verdict.WORSE, Verdict.FAILED, Verdict.MISSING)


_MARKS = {
    Verdict.SAME: "=",
    Verdict.DRIFTED: "~",
    Verdict.BETTER: "+",
    Verdict.WORSE: "-",
    Verdict.UNDECIDED: "!",
    Verdict.FAILED: "x",
    Verdict.MISSING: "x",
    Verdict.INCOMPARABLE: "!",
}


@dataclass(frozen=True)
class Rules:
    """By what rows are judged.

    Parameters
    ----------
    margin : growth of the mean squared error that is let pass.
    level : family-wise error of "worse" over all changed rows, and of "better".
    looks : how often rows may be looked at; each look spends its part of the level.
    fresh : before and after are on different data.
    symmetric : a comparison rather than a gate: a smaller error needs proof as a larger one does.
    """

    margin: float = 0.02
    level: float = 0.01
    looks: int = 1
    fresh: bool = False
    symmetric: bool = False


@dataclass(frozen=True)
class Judgement:
    """The verdict on one row and what led to it; None where a figure does not exist.

    Parameters
    ----------
    n : replicates compared.
    changed : replicates whose outcome is not bit-identical.
    rmse_before, rmse_after : with failures at the logging average's error.
    ratio, ratio_low, ratio_high : of mean squared errors, after over before; 95 % interval,
        none for heavy-tailed rows.
    standard_error : of the log ratio.
    p : one-sided, of "worse than the margin", adjusted for all changed rows.
    p_better : the same of "better".
    detectable : smallest growth of the mean squared error that would have been called worse
        four times in five.
    improved : share of the replicates with a smaller error now, equal ones counting half.
    """

    row: PairedRow
    verdict: Verdict
    reason: str = ""
    n: int = 0
    changed: int = 0
    rmse_before: float | None = None
    rmse_after: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    standard_error: float | None = None
    p: float | None = None
    p_better: float | None = None
    detectable: float | None = None
    improved: float | None = None
    heavy_tailed: bool = False


@dataclass
class _Case:
    """A row under judgement."""

    judgement: Judgement
    before: FloatArray = field(default_factory=lambda: np.empty(0))
    after: FloatArray = field(default_factory=lambda: np.empty(0))
    p_worse: float = 1.0
    p_better: float = 1.0
    failure_p: float | None = None
    failure_reason: str = ""
    tested: bool = False


SEVERITY = {
    Status.OK: 0,
    Status.POSITIVITY: 1,
    Status.NONFINITE: 2,
    Status.ERROR: 2,
    Status.TIMEOUT: 2,
    Status.MEMORY: 2,
    Status.CRASH: 2,
    Status.UNAVAILABLE: 3,
}
"""A status of higher severity is worse; an unavailable trial compares nothing at all."""

LARGEST = 700.0
"""Logarithms beyond this have no exponential."""

ROUNDING = 1e-9
"""Relative differences below this are rounding, not quality."""


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
    cases = [_examined(row, truth, rules) for row in rows]
    open_cases = [case for case in cases if case.tested]
    _test(open_cases, rules)
    adjusted = holm(np.array([case.p_worse for case in open_cases]))
    adjusted_better = holm(np.array([case.p_better for case in open_cases]))
    family = len(open_cases)
    for case, p, p_better in zip(open_cases, adjusted, adjusted_better, strict=True):
        case.judgement = _decided(case, float(p), float(p_better), family, rules)
    return [case.judgement for case in cases]


def _examined(row: PairedRow, truth: TruthKind, rules: Rules) -> _Case:
    """All that can be said without a test."""

    def closed(verdict: Verdict, reason: str) -> _Case:
        return _Case(replace(base, verdict=verdict, reason=reason))

    base = Judgement(row, Verdict.SAME, "; ".join(row.notes))
    if row.gone:
        return closed(Verdict.MISSING, row.gone)
    if row.incomparable:
        return closed(Verdict.INCOMPARABLE, row.incomparable)
    missing = sum(pair.after is None for pair in row.pairs)
    if missing or not row.pairs:
        return closed(Verdict.MISSING, f"{missing} of {len(row.pairs)} trials have no outcome")
    done = [(pair.before, pair.after) for pair in row.pairs if pair.after is not None]
    changed = sum(not _identical(before, after) for before, after in done)
    before, after, both = _errors(done, truth)
    base = replace(base, n=len(both), changed=changed)
    base = replace(base, rmse_before=_rmse(before), rmse_after=_rmse(after))
    base = replace(base, improved=_improved(before, after))
    if not rules.fresh:
        moved = _moved_data(done)
        if moved:
            return closed(Verdict.FAILED, moved)
    worsened = _worsened(done, rules)
    if worsened:
        return closed(Verdict.FAILED, worsened)
    if changed == 0:
        return _Case(base)
    if not rules.fresh and _rounding_only(done):
        reason = _joined(base.reason, "differs by rounding only")
        return _Case(replace(base, verdict=Verdict.DRIFTED, reason=reason))
    case = _Case(base, before, after, tested=True)
    if rules.fresh:
        case.failure_p, case.failure_reason = _failure_rate(done)
    return case


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _identical(before: TrialRecord, after: TrialRecord) -> bool:
    return (before.status, before.estimate, before.standard_error, before.fallback) == (
        after.status,
        after.estimate,
        after.standard_error,
        after.fallback,
    )


def _close(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= ROUNDING * max(abs(one), abs(other))


def _moved_data(done: Sequence[tuple[TrialRecord, TrialRecord]]) -> str:
    """Whether the data themselves changed although the environment's version did not."""
    for before, after in done:
        for name in ("truth_expected", "truth_empirical", "logging_average"):
            then, now = getattr(before, name), getattr(after, name)
            # A worker that died knows no data.
            if then is not None and now is not None and not _close(then, now):
                spec = before.trial.environment
                return (
                    f"the data changed ({name} of replicate {before.trial.replicate}: {then!r} "
                    f"-> {now!r}), but {spec.id} is still version {spec.version}"
                )
    return ""


def _worsened(done: Sequence[tuple[TrialRecord, TrialRecord]], rules: Rules) -> str:
    """New failures, in words; on fresh data only those that the row never had."""
    kinds: dict[str, list[int]] = {}
    known = {before.status for before, _ in done}
    for before, after in done:
        worse = SEVERITY[after.status] > SEVERITY[before.status]
        if rules.fresh:
            worse = after.status not in known and SEVERITY[after.status] > 1
        if worse:
            kind = f"{before.status} -> {after.status}" if not rules.fresh else after.status.value
            if after.error_type and after.status is not Status.POSITIVITY:
                kind += f" ({after.error_type})"
            kinds.setdefault(kind, []).append(after.trial.replicate)
    return "; ".join(f"{kind} in {_replicates(which)}" for kind, which in kinds.items())


def _replicates(which: Sequence[int]) -> str:
    shown = ", ".join(map(str, which[:3])) + (", ..." if len(which) > 3 else "")
    return f"{len(which)} (replicate{'s' if len(which) > 1 else ''} {shown})"


def _rounding_only(done: Sequence[tuple[TrialRecord, TrialRecord]]) -> bool:
    return all(
        before.status is after.status
        and _close(before.estimate, after.estimate)
        and _close(before.standard_error, after.standard_error)
        for before, after in done
    )


def _errors(
    done: Sequence[tuple[TrialRecord, TrialRecord]], truth: TruthKind
) -> tuple[FloatArray, FloatArray, list[int]]:
    """Errors then and now, failures at the logging average's; pairs that both failed left out."""
    rows = []
    used = []
    for index, (before, after) in enumerate(done):
        if before.status is not Status.OK and after.status is not Status.OK:
            continue
        then, now = _error(before, after, truth), _error(after, before, truth)
        if then is not None and now is not None:
            rows.append((then, now))
            used.append(index)
    table = np.array(rows, dtype=np.float64).reshape(len(rows), 2)
    return table[:, 0], table[:, 1], used


def _error(record: TrialRecord, partner: TrialRecord, truth: TruthKind) -> float | None:
    name = f"truth_{truth}"
    value = getattr(record, name)
    same_data = record.trial.seed == partner.trial.seed
    if value is None and same_data:
        value = getattr(partner, name)
    said = record.estimate if record.status is Status.OK else record.logging_average
    if said is None and same_data:
        said = partner.logging_average
    return None if value is None or said is None else said - value


def _rmse(errors: FloatArray) -> float | None:
    return float(np.sqrt(np.square(errors).mean())) if len(errors) else None


def _improved(before: FloatArray, after: FloatArray) -> float | None:
    if not len(before):
        return None
    sign = np.sign(np.abs(before) - np.abs(after))
    return float((1 + sign).mean() / 2)


def _failure_rate(done: Sequence[tuple[TrialRecord, TrialRecord]]) -> tuple[float | None, str]:
    """One-sided p of "fails more often now", by Fisher's exact test; for fresh data."""
    from scipy.stats import fisher_exact

    n = len(done)
    then = sum(before.status is not Status.OK for before, _ in done)
    now = sum(after.status is not Status.OK for _, after in done)
    if then == now == 0:
        return None, ""
    table = np.array([[now, n - now], [then, n - then]])
    p = float(fisher_exact(table, alternative="greater").pvalue)
    return p, f"fails in {now} of {n}, before in {then}"


def _test(cases: Sequence[_Case], rules: Rules) -> None:
    """The p-values of the rows, those with equally many pairs in one call."""
    level = rules.level / rules.looks
    by_size: dict[int, list[_Case]] = {}
    for case in cases:
        by_size.setdefault(len(case.before), []).append(case)
    for n, members in by_size.items():
        if n == 0:
            continue
        before = np.square(np.stack([case.before for case in members]))
        after = np.square(np.stack([case.after for case in members]))
        share = level * len(members) / len(cases)
        worse = swap_test(after, before, null_ratio=1 + rules.margin, level=share)
        better = swap_test(after, before, null_ratio=1 / (1 + rules.margin), level=share)
        heavy = jointly_heavy_tailed(before, after)
        for index, case in enumerate(members):
            case.p_worse = float(worse.p_greater[index])
            case.p_better = float(better.p_less[index])
            log_ratio, error = float(worse.log_ratio[index]), float(worse.standard_error[index])
            case.judgement = _with_ratio(case.judgement, log_ratio, error, bool(heavy[index]))
    for case in cases:
        if case.failure_p is not None:
            # Two ways to be worse share the row's p-value.
            case.p_worse = min(1.0, 2 * min(case.p_worse, case.failure_p))


def _with_ratio(
    judged: Judgement, log_ratio: float, standard_error: float, heavy: bool
) -> Judgement:
    from scipy.special import stdtrit

    judged = replace(judged, heavy_tailed=heavy)
    if not abs(log_ratio) < LARGEST:
        return judged
    judged = replace(judged, ratio=math.exp(log_ratio))
    if judged.n < 2 or not math.isfinite(standard_error):
        return judged
    judged = replace(judged, standard_error=standard_error)
    reach = float(stdtrit(judged.n - 1, 0.975)) * standard_error
    if heavy or not abs(log_ratio) + reach < LARGEST:
        return judged
    return replace(
        judged,
        ratio_low=math.exp(log_ratio - reach),
        ratio_high=math.exp(log_ratio + reach),
    )


def _decided(case: _Case, p: float, p_better: float, family: int, rules: Rules) -> Judgement:
    level = rules.level / rules.looks
    judged = replace(case.judgement, p=p, p_better=p_better)
    judged = replace(judged, detectable=_detectable(judged, family, level, rules.margin))
    ratio = judged.ratio if judged.ratio is not None else _endless(judged)
    if p <= level:
        reason = judged.reason
        if case.failure_p is not None and 2 * case.failure_p == case.p_worse:
            reason = _joined(reason, case.failure_reason)
        return replace(judged, verdict=Verdict.WORSE, reason=reason)
    if p_better <= level:
        return replace(judged, verdict=Verdict.BETTER)
    if ratio is None:
        return replace(
            judged, verdict=Verdict.DRIFTED, reason=_joined(judged.reason, "no errors to compare")
        )
    if ratio > 1 + rules.margin or (rules.symmetric and ratio != 1):
        return replace(judged, verdict=Verdict.UNDECIDED)
    return replace(judged, verdict=Verdict.DRIFTED)


def _endless(judged: Judgement) -> float | None:
    """The ratio where one side has no error at all."""
    if judged.n == 0 or judged.rmse_before is None:
        return None
    return math.inf if judged.rmse_before == 0 and judged.rmse_after else 1.0


def _detectable(judged: Judgement, family: int, level: float, margin: float) -> float | None:
    """Growth that the test would find with probability .8, by the t approximation."""
    from scipy.special import ndtri, stdtrit

    n, standard_error = judged.n, judged.standard_error
    # With n pairs no p-value is below 2^-n.
    if standard_error is None or 2.0**-n > level / max(family, 1):
        return None
    critical = float(stdtrit(n - 1, 1 - level / max(family, 1)))
    exponent = math.log1p(margin) + (critical + float(ndtri(0.8))) * standard_error
    return math.expm1(exponent) if exponent < LARGEST else None
