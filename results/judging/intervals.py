"""The page of the suites of intervals, in words made from the trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from judging.interval_choice import HOLDS, Choice, Found, choices, document, least_of
from judging.interval_trials import Cell, IntervalTrials, Method, Setting
from ope_bench.contracts.arrays import FloatArray
from ope_bench.report.text.formats import figure
from ope_bench.statistics.coverage import LEVEL, Share, wilson
from ope_bench.statistics.value_intervals.weights import SMALLEST_EFFECTIVE

__all__ = ["LIMITS", "interval_choice", "intervals_page", "smallest_limit"]

NORMAL = ("ipw", "ipws", "dr", "sndr")

LIMITS = (0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)
"""Limits of the rows over the largest weight that are compared."""

EFFECTIVE_LIMITS = (10.0, 30.0, 100.0, 300.0, 500.0, 1000.0, 3000.0)
"""Limits of the effective sample size of the logged weights that are compared."""

TRUSTED = 0.9
"""Coverage that intervals above a limit need in every setting for it to separate."""

FEW = 50
"""Intervals above a limit from which a setting counts."""

HEAD = f"""\
# Intervals that hold

Made by `python results/write.py` from the trials in this folder and in
[`intervals-models`](../intervals-models/leaderboard.md), which
`results/regenerate intervals intervals-models` makes; no figure was typed. Nominal coverage is
{LEVEL:.0%}. The logging policy avoids the good actions: the rows that carry the weight are rare,
and their rewards are above the others. Bounded rewards are 0 or 1 and their range is known,
unbounded ones are Gaussian around a linear mean, which the reward model of `dr` and `sndr`
contains. All boards: [leaderboard](leaderboard.md),
[with resamples](../intervals-models/leaderboard.md).
"""

WHICH = f"""\
## Which interval when

`ope-bench estimate` quotes this table. An interval *holds* if it covers at least {HOLDS:.0%} in
every setting of its class, two points being left to chance and to finite logs; the narrowest that
holds is named, by the geometric mean of median widths. Widths are relative: to bets (`ipw`) for
bounded rewards, to empirical likelihood for unbounded ones. *Moderate* weights: by both policies,
at every logged context, none is above 1/{SMALLEST_EFFECTIVE} of the number of rows. *Estimated*
policies: the bootstrap of `ipws-star`; the standard errors of `edr` are judged
[elsewhere](../performance/standard-errors.md).
"""

GUARANTEED = """\
## Guaranteed intervals

Lowest coverage of all settings, with its Wilson interval. They are called guaranteed because a
theorem says so; here no setting contradicts it.
"""

DOUBT = f"""\
## When intervals that rest on the logged weights cannot be trusted

Normal intervals of {", ".join(f"`{one}`" for one in NORMAL)}, all settings together. *Lowest* is
the lowest coverage of a setting with at least {FEW} intervals above the limit. A limit separates
if that is at least {TRUSTED:.0%}. Rows over the largest weight that the policies allow is the
least effective sample size that they make possible; it is known before any reward, from both
policies.
"""

BY_LOGS = (
    "By the effective sample size of the logged weights, which is large where the rows of the "
    "largest weights are missing:"
)


def intervals_page(results: Path) -> str:
    """Return the page of the folder results/intervals.

    Parameters
    ----------
    results : the folder results/.
    """
    trials = IntervalTrials(results)
    found = choices(trials)
    parts = [HEAD, _which(found), _findings(trials), _guaranteed(trials), _doubt(trials)]
    parts += _tables(trials)
    return "\n".join(parts)


def interval_choice(results: Path) -> str:
    """Return the table of choices as JSON, which the package ships."""
    return document(choices(IntervalTrials(results)))


def _which(found: Sequence[Choice]) -> str:
    lines = [
        "| rewards | policies | weights | use | lowest coverage | width | also hold |",
        "|---|---|---|---|---:|---:|---|",
    ]
    for choice in found:
        best = choice.best
        others = [one for one in choice.found if one.holds and one is not best]
        words = (choice.rewards, choice.policies, choice.weights)
        lines.append(f"| {' | '.join((*words, *_told(best), _list(others)))} |")
    return "\n".join([WHICH, *lines, ""])


def _told(best: Found | None) -> tuple[str, str, str]:
    if best is None:
        return "**none holds**", "", ""
    where = f"{best.coverage:.3f} ({best.where})"
    return f"**{best.method}**", where, f"{best.width:.2f}"


def _list(others: Sequence[Found]) -> str:
    return "; ".join(f"{one.method} ({one.width:.2f})" for one in others)


def _findings(trials: IntervalTrials) -> str:
    likelihood = Method("empirical-likelihood", "ipw")
    cells = _pooled(trials)
    above, below, _ = _above(cells, lambda cell: cell.least, SMALLEST_EFFECTIVE)
    wider = f"Where weights are large and rewards bounded, bets are {_beside(trials, likelihood)}"
    split = f"{above.mean():.3f} where the rows over the largest weight are at least"
    rest = f"{SMALLEST_EFFECTIVE}, and {below.mean():.3f} where they are fewer."
    resampled = _lowest(trials, Method("bootstrap", "ipws"))
    lines = [
        f"- {_lowest(trials, likelihood)} {wider} times as wide.",
        *(f"- {_lowest(trials, Method('normal', one))}" for one in NORMAL),
        f"- Normal intervals cover {split} {rest}",
        f"- {resampled} Resamples hold no row that the logs lack.",
    ]
    return "\n".join(["## Findings", "", *lines, ""])


def _lowest(trials: IntervalTrials, method: Method) -> str:
    """A sentence on the setting where a method covers least."""
    cells = trials.of(method, trials.settings)
    share, where = min((cell.coverage.value or 0.0, setting) for setting, cell in cells)
    words = f"{method.kind[0].upper()}{method.kind[1:]}, `{method.estimator}`"
    return (
        f"{words}: coverage is at least {share:.3f} in {len(cells)} settings, lowest at "
        f"{where.overlap} overlap and {where.n:,} rows of {where.rewards} rewards."
    )


def _beside(trials: IntervalTrials, method: Method) -> str:
    """Widths of bets over those of a method where weights are large: geometric mean and range."""
    bets = Method("guaranteed", "ipw")
    ratios = [
        trials.cells[bets, setting].width / cell.width
        for setting, cell in trials.of(method, trials.settings)
        if setting.rewards == "bounded" and least_of(trials, setting) < SMALLEST_EFFECTIVE
    ]
    mean = float(np.exp(np.log(ratios).mean()))
    return f"{mean:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _guaranteed(trials: IntervalTrials) -> str:
    lines = ["| interval | settings | lowest coverage | where |", "|---|---:|---|---|"]
    for method in trials.methods():
        if method.kind != "guaranteed":
            continue
        cells = trials.of(method, trials.settings)
        share, where = min(
            ((cell.coverage, setting) for setting, cell in cells),
            key=lambda one: one[0].value or 0.0,
        )
        lines.append(f"| {method} | {len(cells)} | {_share(share)} | {where} |")
    return "\n".join([GUARANTEED, *lines, ""])


def _share(share: Share) -> str:
    return f"{share.value:.3f} [{share.low:.3f}, {share.high:.3f}]"


def _pooled(trials: IntervalTrials) -> list[Cell]:
    """The normal intervals of each estimator in each setting."""
    return [
        cell
        for estimator in NORMAL
        for _, cell in trials.of(Method("normal", estimator), trials.settings)
    ]


def _above(
    cells: Sequence[Cell], of: Callable[[Cell], FloatArray], limit: float
) -> tuple[FloatArray, FloatArray, float]:
    """Which intervals above a limit hold, which below, and the lowest share of a setting above."""
    above = [cell.held[of(cell) >= limit] for cell in cells]
    below = [cell.held[of(cell) < limit] for cell in cells]
    shares = [float(held.mean()) for held in above if len(held) >= FEW]
    return np.concatenate(above), np.concatenate(below), min(shares, default=np.nan)


def smallest_limit(results: Path) -> float | None:
    """The smallest of `LIMITS` that separates; None where none does."""
    cells = _pooled(IntervalTrials(results))
    lowest = {limit: _above(cells, lambda cell: cell.least, limit)[2] for limit in LIMITS}
    return next((limit for limit in LIMITS if lowest[limit] >= TRUSTED), None)


def _doubt(trials: IntervalTrials) -> str:
    cells = _pooled(trials)
    by_policies = _limits(cells, lambda cell: cell.least, LIMITS)
    by_logs = _limits(cells, lambda cell: cell.effective, EFFECTIVE_LIMITS)
    return "\n".join(
        [
            DOUBT,
            "By the rows over the largest weight that the policies allow:",
            "",
            *by_policies,
            "",
            BY_LOGS,
            "",
            *by_logs,
            "",
        ]
    )


def _limits(
    cells: Sequence[Cell], of: Callable[[Cell], FloatArray], limits: Sequence[float]
) -> list[str]:
    lines = [
        "| limit | above it | coverage above | lowest | coverage below | separates |",
        "|---:|---:|---:|---:|---:|---|",
    ]
    for limit in limits:
        above, below, lowest = _above(cells, of, limit)
        share = len(above) / (len(above) + len(below))
        told = (
            f"{limit:g}",
            f"{share:.0%}",
            _mean(above),
            f"{lowest:.3f}" if np.isfinite(lowest) else "",
            _mean(below),
            "yes" if lowest >= TRUSTED else "no",
        )
        lines.append(f"| {' | '.join(told)} |")
    return lines


def _mean(held: FloatArray) -> str:
    return f"{held.mean():.3f}" if len(held) else ""


def _tables(trials: IntervalTrials) -> list[str]:
    """Coverage and median width of every method in every setting."""
    parts = []
    for rewards in ("bounded", "unbounded"):
        settings = [one for one in trials.settings if one.rewards == rewards]
        heads = ["interval", *(str(one) for one in settings)]
        least = [figure(least_of(trials, one), 2) for one in settings]
        lines = [
            f"| {' | '.join(heads)} |",
            f"|---|{'---:|' * len(settings)}",
            f"| rows over the largest weight | {' | '.join(least)} |",
            *(
                f"| {method} | {' | '.join(_cell(trials, method, one) for one in settings)} |"
                for method in trials.methods()
                if trials.of(method, settings)
            ),
        ]
        words = (
            f"## Coverage / median width, {rewards} rewards\n\nBy overlap and number of rows.\n"
        )
        parts += [words, *lines, ""]
    return parts


def _cell(trials: IntervalTrials, method: Method, setting: Setting) -> str:
    cell = trials.cells.get((method, setting))
    if cell is None:
        return ""
    share = wilson(int(cell.held.sum()), len(cell.held)).value or 0.0
    return f"{share:.3f} / {cell.width:.2g}"
