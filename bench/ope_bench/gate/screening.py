"""Classify rows that need no statistical test: missing, changed data, failing, identical."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.data import TruthKind
from ope_bench.gate.pairing import PairedRow
from ope_bench.gate.verdict import Judgement, Rules, Verdict, Way
from ope_bench.statistics.distribution import root_mean_square
from ope_bench.trials.record import TrialRecord
from ope_bench.trials.status import Severity, Status

__all__ = ["RowCase", "screen", "join_reasons"]


@dataclass
class RowCase:
    """A row while it is being judged.

    Parameters
    ----------
    judgement : the judgement so far.
    before, after : errors of the baseline and of its repetition, (n,).
    p_worse, p_better : one-sided p-values by what is compared, not adjusted.
    failure_reason : the numbers of failures before and after, in words.
    tested : whether statistical tests must decide.
    """

    judgement: Judgement
    before: FloatArray = field(default_factory=lambda: np.empty(0))
    after: FloatArray = field(default_factory=lambda: np.empty(0))
    p_worse: dict[Way, float] = field(default_factory=dict)
    p_better: dict[Way, float] = field(default_factory=dict)
    failure_reason: str = ""
    tested: bool = False


ROUNDING = 1e-9
"""Relative differences at or below this count as rounding."""


def screen(row: PairedRow, truth: TruthKind, rules: Rules) -> RowCase:
    """Judge a row as far as possible without a test."""

    def closed(verdict: Verdict, reason: str) -> RowCase:
        return RowCase(replace(base, verdict=verdict, reason=reason))

    base = Judgement(row, Verdict.SAME, "; ".join(row.notes))
    if row.gone:
        return closed(Verdict.MISSING, row.gone)
    if row.incomparable:
        return closed(Verdict.INCOMPARABLE, row.incomparable)
    missing = sum(pair.after is None for pair in row.pairs)
    if missing or not row.pairs:
        return closed(Verdict.MISSING, f"{missing} of {len(row.pairs)} trials have no outcome")
    done = [(pair.before, pair.after) for pair in row.pairs if pair.after is not None]
    changed = sum(before.answer != after.answer for before, after in done)
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
        return RowCase(base)
    if not rules.fresh and _rounding_only(done):
        reason = join_reasons(base.reason, "differs by rounding only")
        return RowCase(replace(base, verdict=Verdict.DRIFTED, reason=reason))
    case = RowCase(base, before, after, tested=True)
    if rules.fresh:
        p, case.failure_reason = _failure_rate(done)
        if p is not None:
            case.p_worse[Way.FAILURES] = p
    return case


def _close(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= ROUNDING * max(abs(one), abs(other))


def _moved_data(done: Sequence[tuple[TrialRecord, TrialRecord]]) -> str:
    """Say whether the data changed although the environment's version did not; empty if not."""
    for before, after in done:
        for name in ("truth_expected", "truth_empirical", "logging_average"):
            then, now = getattr(before, name), getattr(after, name)
            # A trial whose worker died has no truth on record.
            if then is not None and now is not None and not _close(then, now):
                spec = before.trial.environment
                return (
                    f"the data changed ({name} of replicate {before.trial.replicate}: {then!r} "
                    f"-> {now!r}), but {spec.id} is still version {spec.version}"
                )
    return ""


def _worsened(done: Sequence[tuple[TrialRecord, TrialRecord]], rules: Rules) -> str:
    """Describe new failures; on fresh data, only kinds that the baseline's row never had."""
    kinds: dict[str, list[int]] = {}
    known = {before.status for before, _ in done}
    for before, after in done:
        worse = after.status.severity > before.status.severity
        if rules.fresh:
            worse = after.status not in known and after.status.severity > Severity.WARNING
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
    """Return the errors before and after, without pairs that both failed.

    A failed trial counts as one that estimates the logging average.
    """
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
    """Return errors of each side; a failure counts as the logging average. Empty if all failed."""
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
    return root_mean_square(errors) if len(errors) else None


def _improved(before: FloatArray, after: FloatArray) -> float | None:
    if not len(before):
        return None
    sign = np.sign(np.abs(before) - np.abs(after))
    return float((1 + sign).mean() / 2)


def join_reasons(*parts: str) -> str:
    """Join the parts that are not empty."""
    return "; ".join(part for part in parts if part)


def _failure_rate(done: Sequence[tuple[TrialRecord, TrialRecord]]) -> tuple[float | None, str]:
    """Return the one-sided p-value of "fails more often than before", by Fisher's exact test."""
    from scipy.stats import fisher_exact

    n = len(done)
    then = sum(before.status is not Status.OK for before, _ in done)
    now = sum(after.status is not Status.OK for _, after in done)
    if then == now == 0:
        return None, ""
    table = np.array([[now, n - now], [then, n - then]])
    p = float(fisher_exact(table, alternative="greater").pvalue)
    return p, f"fails in {now} of {n}, before in {then}"
