"""Verdicts of the gate, and the rules by which a row is judged."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np

from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.data import TruthKind
from ope_bench.gate.baseline import PairedRow
from ope_bench.statistics.error_distribution import (
    jointly_heavy_tailed,
    root_mean_square,
    special_function,
    squares,
)
from ope_bench.statistics.paired_tests import (
    LARGEST_LOG,
    detectable_growth,
    holm,
    signed_ranks,
    swap_test,
)
from ope_bench.trials.record import ANSWER_FIELDS, TrialRecord
from ope_bench.trials.status import Status

# Verdicts of the gate, the rules they follow, and the judgement of a row.


class Verdict(enum.StrEnum):
    """Result of the comparison of a row with its baseline, the worst first.

    A row that changed without getting worse has *drifted*.
    """

    MISSING = "missing"
    FAILED = "failed"
    WORSE = "worse"
    UNDECIDED = "undecided"
    INCOMPARABLE = "incomparable"
    BETTER = "better"
    DRIFTED = "drifted"
    SAME = "same"

    @property
    def fails(self) -> bool:
        """Return whether this verdict fails the gate."""
        return self in (Verdict.WORSE, Verdict.FAILED, Verdict.MISSING)


class Test(enum.StrEnum):
    """The tests of a row's errors; a row is worse if any of them shows it."""

    __test__ = False  # not a class of tests to pytest

    MEAN_SQUARE = "mean square"
    TYPICAL = "typical error"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rules by which rows are judged.

    Parameters
    ----------
    margin : growth of the mean squared error that is tolerated, and of the square of the typical
        error.
    level : family-wise error of "worse" over all tests of all changed rows, and of "better".
    symmetric : a comparison, not a gate: a smaller error needs significance as a larger one does.
    same_arithmetic : equal code gave equal bits before and after; else numbers are equal if they
        differ by rounding alone.
    """

    margin: float = 0.02
    level: float = 0.01
    symmetric: bool = False
    same_arithmetic: bool = True


@dataclass(frozen=True)
class Judgement:
    """The verdict on one row and what led to it; None where a figure does not exist.

    Parameters
    ----------
    n : number of replicates compared.
    changed : replicates whose outcome is not equal: bit-identical, or by other arithmetic up to
        rounding.
    rmse_before, rmse_after : with failures at the logging average's error.
    ratio, ratio_low, ratio_high : of mean squared errors, after over before; 95 % interval,
        none for heavy-tailed rows.
    typical_ratio : of median absolute errors, after over before.
    standard_error : of the log ratio of mean squared errors.
    p : one-sided, of "worse than the margin", adjusted for all tests of all changed rows; the
        smallest of the row's tests.
    p_mean_square, p_typical : the same of the one test.
    p_better : the same of "better".
    found_by : the tests that show what the verdict says; empty where it rests on no test.
    detectable : smallest growth of the mean squared error that would have been called worse
        four times in five, by the mean square alone.
    improved : share of the replicates with a smaller error now, equal ones counting half.
    broken : beginning of the key of a trial that fails now and did not before; "" if none does.
    """

    row: PairedRow
    verdict: Verdict
    reason: str = ""
    _: KW_ONLY
    n: int = 0
    changed: int = 0
    rmse_before: float | None = None
    rmse_after: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    typical_ratio: float | None = None
    standard_error: float | None = None
    p: float | None = None
    p_mean_square: float | None = None
    p_typical: float | None = None
    p_better: float | None = None
    detectable: float | None = None
    improved: float | None = None
    heavy_tailed: bool = False
    found_by: tuple[Test, ...] = ()
    broken: str = ""


# Classify rows that need no statistical test: missing, changed data, failing, identical.


@dataclass
class RowCase:
    """A row while it is being judged.

    Parameters
    ----------
    judgement : the judgement so far.
    before, after : errors of the baseline and of its repetition, (n,).
    p_worse, p_better : one-sided p-values by test, not adjusted.
    tested : whether statistical tests must decide.
    """

    judgement: Judgement
    before: FloatArray = field(default_factory=lambda: np.empty(0))
    after: FloatArray = field(default_factory=lambda: np.empty(0))
    p_worse: dict[Test, float] = field(default_factory=dict)
    p_better: dict[Test, float] = field(default_factory=dict)
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
    changed = sum(
        before.answer != after.answer
        and (rules.same_arithmetic or not rounding_only(before, after))
        for before, after in done
    )
    before, after = _errors(done, truth)
    base = replace(base, n=len(before), changed=changed)
    if len(before):
        base = replace(
            base,
            rmse_before=root_mean_square(before),
            rmse_after=root_mean_square(after),
            improved=float((1 + np.sign(np.abs(before) - np.abs(after))).mean() / 2),
        )
    if failure := _moved_data(done):
        return closed(Verdict.FAILED, failure)
    if worsened := [x for x in done if x[1].status.severity > x[0].status.severity]:
        base = replace(base, broken=worsened[0][1].key[:12])
        return closed(Verdict.FAILED, _worsened(worsened))
    if changed == 0:
        return RowCase(base)
    if all(rounding_only(*pair) for pair in done):
        reason = join_reasons(base.reason, "differs by rounding only")
        return closed(Verdict.DRIFTED, reason)
    return RowCase(base, before, after, tested=True)


def rounding_only(before: TrialRecord, after: TrialRecord) -> bool:
    """Return whether two outcomes differ by rounding at most."""
    numbers = (name for name in ANSWER_FIELDS if name != "status")
    return before.status is after.status and all(
        alike(getattr(before, name), getattr(after, name)) for name in numbers
    )


def alike(one: Any, other: Any) -> bool:
    """Return whether plain values are equal, numbers up to rounding."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=ROUNDING)
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _moved_data(done: Sequence[tuple[TrialRecord, TrialRecord]]) -> str:
    """Return a note if the data changed although the environment's version did not, else ""."""
    for before, after in done:
        for name in ("truth_expected", "truth_empirical", "logging_average"):
            then, now = getattr(before, name), getattr(after, name)
            # A trial whose worker died has no truth on record.
            if then is not None and now is not None and not alike(then, now):
                spec = before.trial.environment
                return (
                    f"the data changed ({name} of replicate {before.trial.replicate}: {then!r} "
                    f"-> {now!r}), but {spec.id} is still version {spec.version}"
                )
    return ""


def _worsened(done: Sequence[tuple[TrialRecord, TrialRecord]]) -> str:
    """Describe new failures by kind, each with the reason of its first."""
    kinds: dict[str, list[TrialRecord]] = {}
    for before, after in done:
        kind = f"{before.status} -> {after.status}"
        if after.error_type and after.status is not Status.POSITIVITY:
            kind += f" ({after.error_type})"
        kinds.setdefault(kind, []).append(after)
    words = []
    for kind, some in kinds.items():
        which = [str(one.trial.replicate) for one in some[:3]] + ["..."] * (len(some) > 3)
        reason = f": {some[0].reason}" if some[0].reason else ""
        words.append(
            f"{kind} in {len(some)} (replicate{'s' * (len(some) > 1)} {', '.join(which)}){reason}"
        )
    return "; ".join(words)


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


def _error(record: TrialRecord, partner: TrialRecord, truth: TruthKind) -> float | None:
    name = f"truth_{truth}"
    # Both are on the same data, so one's truth and logging average are the other's.
    value = getattr(record, name)
    if value is None:
        value = getattr(partner, name)
    said = record.estimate if record.status is Status.OK else record.logging_average
    if said is None:
        said = partner.logging_average
    return None if value is None or said is None else said - value


def join_reasons(*parts: str) -> str:
    """Join the parts that are not empty."""
    return "; ".join(part for part in parts if part)


# Judge each row of a gate: pure functions of paired records.


def judge(
    rows: Sequence[PairedRow], truth: TruthKind, rules: Rules | None = None
) -> list[Judgement]:
    """Judge all rows; the p-values are adjusted for all tests of all rows.

    Parameters
    ----------
    rows : baseline rows paired with the outcomes known so far.
    truth : what errors are measured against.
    rules : margin and level.
    """
    rules = rules or Rules()
    return decide([screen(row, truth, rules) for row in rows], rules)


def decide(cases: Sequence[RowCase], rules: Rules) -> list[Judgement]:
    """Judge all screened rows; those that are open are tested, and get their judgement.

    Parameters
    ----------
    cases : the rows, see `ope_bench.gate.verdict.screen`.
    rules : margin and level.
    """
    open_cases = [case for case in cases if case.tested]
    # Rows with equally many errors share one call.
    by_size: dict[int, list[RowCase]] = {}
    for case in open_cases:
        by_size.setdefault(len(case.before), []).append(case)
    for size, members in by_size.items():
        if size:
            _test_errors(members, rules, rules.level * len(members) / len(open_cases))
    worse = _adjusted([case.p_worse for case in open_cases])
    better = _adjusted([case.p_better for case in open_cases])
    tests = sum(map(len, worse))
    for case, p_worse, p_better in zip(open_cases, worse, better, strict=True):
        case.judgement = _decided(case, p_worse, p_better, tests, rules)
    return [case.judgement for case in cases]


def _adjusted(by_row: Sequence[Mapping[Test, float]]) -> list[dict[Test, float]]:
    """Adjust the p-values of all tests of all rows together, by Holm's method."""
    adjusted = iter(holm(np.array([p for row in by_row for p in row.values()])))
    return [{test: float(next(adjusted)) for test in row} for row in by_row]


def _test_errors(cases: Sequence[RowCase], rules: Rules, level: float) -> None:
    """Test absolute errors by their ranks and mean squares by swaps, and note their ratios.

    Parameters
    ----------
    cases : rows with equally many errors.
    rules : margin of squared errors.
    level : of these rows together.
    """
    before = np.stack([case.before for case in cases])
    after = np.stack([case.after for case in cases])
    squared = squares(after, before)
    margin, typical_margin = 1 + rules.margin, math.sqrt(1 + rules.margin)
    typical_worse, typical_better = signed_ranks(after, before, null_ratio=typical_margin)
    worse = better = swap_test(*squared, null_ratio=margin, level=level)
    if margin != 1:
        _, typical_better = signed_ranks(after, before, null_ratio=1 / typical_margin)
        better = swap_test(*squared, null_ratio=1 / margin, level=level)
    heavy = jointly_heavy_tailed(*squared[::-1])
    after_medians, before_medians = (np.median(np.abs(side), axis=1) for side in (after, before))
    for index, case in enumerate(cases):
        case.p_worse[Test.TYPICAL] = float(typical_worse[index])
        case.p_better[Test.TYPICAL] = float(typical_better[index])
        case.p_worse[Test.MEAN_SQUARE] = float(worse.p_greater[index])
        case.p_better[Test.MEAN_SQUARE] = float(better.p_less[index])
        log_ratio, error = float(worse.log_ratio[index]), float(worse.standard_error[index])
        case.judgement = _with_ratio(case.judgement, log_ratio, error, bool(heavy[index]))
        if before_medians[index] > 0:
            ratio = float(after_medians[index] / before_medians[index])
            case.judgement = replace(case.judgement, typical_ratio=ratio)


def _with_ratio(
    judged: Judgement, log_ratio: float, standard_error: float, heavy: bool
) -> Judgement:
    """Note the ratio of mean squares and, where it can be trusted, its interval."""
    judged = replace(judged, heavy_tailed=heavy)
    if not abs(log_ratio) < LARGEST_LOG:
        return judged
    judged = replace(judged, ratio=math.exp(log_ratio))
    if judged.n < 2 or not math.isfinite(standard_error):
        return judged
    judged = replace(judged, standard_error=standard_error)
    reach = float(special_function("stdtrit")(judged.n - 1, 0.975)) * standard_error
    # The t interval does not hold for heavy tails.
    if heavy or not abs(log_ratio) + reach < LARGEST_LOG:
        return judged
    low, high = math.exp(log_ratio - reach), math.exp(log_ratio + reach)
    return replace(judged, ratio_low=low, ratio_high=high)


def _decided(
    case: RowCase,
    p_worse: Mapping[Test, float],
    p_better: Mapping[Test, float],
    tests: int,
    rules: Rules,
) -> Judgement:
    """Return the verdict on one row; worse by any test is worse to a gate."""
    judged = replace(
        case.judgement,
        p=min(p_worse.values(), default=1.0),
        p_mean_square=p_worse.get(Test.MEAN_SQUARE),
        p_typical=p_worse.get(Test.TYPICAL),
        p_better=min(p_better.values(), default=1.0),
    )
    judged = replace(judged, detectable=_detectable(judged, tests, rules))

    def decided(verdict: Verdict, *reasons: str, found_by: tuple[Test, ...] = ()) -> Judgement:
        reason = join_reasons(*reasons)
        return replace(judged, verdict=verdict, reason=reason, found_by=found_by)

    reason, ratio = judged.reason, judged.ratio
    worse, better = (
        tuple(test for test in Test if adjusted.get(test, 1.0) <= rules.level)
        for adjusted in (p_worse, p_better)
    )
    improved = f"better by {' and '.join(better)}"
    if worse and better and rules.symmetric:
        worsened = f"worse by {' and '.join(worse)}"
        return decided(Verdict.UNDECIDED, worsened, reason, improved)
    if worse:
        return decided(Verdict.WORSE, reason, improved if better else "", found_by=worse)
    if better and ratio is not None and ratio > 1 + rules.margin:
        # A mean square that grew, though not significantly, must not pass as an improvement.
        return decided(Verdict.UNDECIDED, reason, improved)
    if better:
        return decided(Verdict.BETTER, reason, found_by=better)
    if judged.n == 0:
        return decided(Verdict.DRIFTED, reason, "no errors to compare")
    if ratio is None:
        # One side's errors are all zero, or both sides'.
        ratio = math.inf if judged.rmse_before == 0 and judged.rmse_after else 1.0
    if ratio > 1 + rules.margin or (rules.symmetric and ratio != 1):
        return decided(Verdict.UNDECIDED, reason)
    return decided(Verdict.DRIFTED, reason)


def _detectable(judged: Judgement, tests: int, rules: Rules) -> float | None:
    """Return the growth of the mean square that the t approximation finds with probability 0.8."""
    n, error, level = judged.n, judged.standard_error, rules.level / max(tests, 1)
    # The smallest p-value is one over the number of swaps.
    known = error is not None and 1 / 2**n <= level
    return detectable_growth(error or 0.0, n, level, rules.margin) if known else None
