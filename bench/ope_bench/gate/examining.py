"""What can be said of a row without a test: what is missing, moved, failing or just the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ope_bench.arrays import FloatArray
from ope_bench.board import TruthKind
from ope_bench.gate.pairing import PairedRow
from ope_bench.gate.verdict import Judgement, Rules, Verdict
from ope_bench.records import Status, TrialRecord

__all__ = ["Case", "examined", "joined"]


@dataclass
class Case:
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

ROUNDING = 1e-9
"""Relative differences below this are rounding, not quality."""


def examined(row: PairedRow, truth: TruthKind, rules: Rules) -> Case:
    """All that can be said without a test."""

    def closed(verdict: Verdict, reason: str) -> Case:
        return Case(replace(base, verdict=verdict, reason=reason))

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
    before, after = _separate_errors(done, truth) if rules.fresh else _errors(done, truth)
    base = replace(base, n=min(len(before), len(after)))
    base = replace(base, rmse_before=_rmse(before), rmse_after=_rmse(after))
    if not rules.fresh:
        base = replace(base, changed=changed, improved=_improved(before, after))
        moved = _moved_data(done)
        if moved:
            return closed(Verdict.FAILED, moved)
    worsened = _worsened(done, rules)
    if worsened:
        return closed(Verdict.FAILED, worsened)
    if changed == 0:
        return Case(base)
    if not rules.fresh and _rounding_only(done):
        reason = joined(base.reason, "differs by rounding only")
        return Case(replace(base, verdict=Verdict.DRIFTED, reason=reason))
    case = Case(base, before, after, tested=True)
    if rules.fresh:
        case.failure_p, case.failure_reason = _failure_rate(done)
    return case


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
) -> tuple[FloatArray, FloatArray]:
    """Errors then and now, failures at the logging average's; pairs that both failed left out."""
    rows = []
    for before, after in done:
        if before.status is not Status.OK and after.status is not Status.OK:
            continue
        then, now = _error(before, after, truth), _error(after, before, truth)
        if then is not None and now is not None:
            rows.append((then, now))
    table = np.array(rows, dtype=np.float64).reshape(len(rows), 2)
    return table[:, 0], table[:, 1]


def _separate_errors(
    done: Sequence[tuple[TrialRecord, TrialRecord]], truth: TruthKind
) -> tuple[FloatArray, FloatArray]:
    """Errors of either side, failures at the logging average's; none where all failed."""
    sides = []
    for records in zip(*done, strict=True):
        known = [error for one in records if (error := _error(one, one, truth)) is not None]
        sides.append(np.array(known, dtype=np.float64))
    finite = any(Status.OK in (before.status, after.status) for before, after in done)
    return (sides[0], sides[1]) if finite else (np.empty(0), np.empty(0))


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


def joined(*parts: str) -> str:
    """The parts that say something."""
    return "; ".join(part for part in parts if part)


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
