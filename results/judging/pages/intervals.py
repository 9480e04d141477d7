"""The page of the suites of intervals: which interval to use when, mechanically, and in words."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from judging.pages.page import opening, table
from judging.trials.rows import ends_of, rows_of
from ope_bench.contracts.arrays import FloatArray
from ope_bench.report.tables import figure
from ope_bench.statistics import weight_checks as checks
from ope_bench.statistics.coverage import LEVEL, Share, wilson

HOLDS = 0.93
"""Coverage in every setting of a class from which an interval is said to hold the value."""

ESTIMATED = "ipws-star"
"""The estimator that is told no policy."""

BETS = "guaranteed, mirrored"
"""Bets whose upper end is the lower end of what rewards lack: `ipw` has it in every setting."""

NORMAL = ("ipw", "ipws", "dr", "sndr")

LIMITS = (0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)
"""Limits of n / max weight that are compared."""

EFFECTIVE_LIMITS = (10.0, 30.0, 100.0, 300.0, 500.0, 1000.0, 3000.0)
"""Limits of the effective sample size of the logged weights that are compared."""

TRUSTED = 0.9
"""Coverage that intervals above a limit need in every setting for it to separate."""

FEW = 50
"""Intervals above a limit from which a setting counts."""

BY_POLICIES = "By n / max weight, over the weights that the policies allow:"

BY_LOGS = (
    "By the effective sample size of the logged weights, which is large where the rows of the "
    "largest weights are missing:"
)

FOLDERS = ("intervals", "intervals-models")

OVERLAPS = ("mild", "heavy", "rare")

BETAS = {"logistic": (-4.0, -8.0, -12.0), "linear": (-0.7, -1.2, -2.0)}
"""The logging policy's inverse temperature at each overlap, by the kind of the rewards."""


@dataclass(frozen=True, order=True)
class LogShape:
    """Rewards, overlap and number of rows."""

    rewards: str
    place: int
    n: int

    @property
    def overlap(self) -> str:
        """Overlap of the policies."""
        return OVERLAPS[self.place]

    def __str__(self) -> str:
        return f"{self.overlap}, {self.n:,}"


@dataclass(frozen=True, order=True)
class Method:
    """An estimator and the kind of its interval."""

    kind: str
    estimator: str

    def __str__(self) -> str:
        return f"{self.kind}, `{self.estimator}`"


@dataclass(frozen=True, eq=False)
class Cell:
    """The intervals of one method on the data sets of one setting.

    Parameters
    ----------
    low, high : (k,), their ends.
    truth : (k,), the values that they are to hold.
    effective : (k,), effective sample size of the logged weights.
    least : (k,), n / max weight, over those that the policies allow; NaN where unknown.
    """

    low: FloatArray
    high: FloatArray
    truth: FloatArray
    effective: FloatArray
    least: FloatArray

    @property
    def held(self) -> FloatArray:
        """1 for intervals that hold their value, 0 for others: (k,)."""
        return ((self.low <= self.truth) & (self.truth <= self.high)).astype(np.float64)

    @property
    def coverage(self) -> Share:
        """Share of them that hold their value."""
        return wilson(int(self.held.sum()), len(self.held))

    @property
    def width(self) -> float:
        """Median width."""
        return float(np.median(self.high - self.low))


class IntervalTrials:
    """The trials of both suites.

    Parameters
    ----------
    results : the folder results/.

    Raises
    ------
    LookupError : trials are missing.
    """

    def __init__(self, results: Path) -> None:
        params = cache(json.loads)

        @cache
        def method(estimator: str, text: str) -> Method:
            kind = params(text).get("interval", "asymptotic")
            if params(text).get("upper_end") == "mirrored":
                kind = BETS
            return Method("normal" if kind == "asymptotic" else kind, estimator)

        @cache
        def setting(text: str) -> LogShape:
            reward, beta = params(text)["reward"], params(text)["logging_beta"]
            rewards = "bounded" if reward == "logistic" else "unbounded"
            return LogShape(rewards, BETAS[reward].index(beta), params(text)["n_samples"])

        cells: dict[tuple[Method, LogShape], list[tuple[float, ...]]] = {}
        normal = float(ndtri((1 + LEVEL) / 2))
        names = (checks.EFFECTIVE_SAMPLE_SIZE, checks.LEAST_EFFECTIVE)
        # Diagnostics of one estimator on the same data are the same, whatever its interval.
        facts_of = cache(lambda text: [json.loads(text).get(name, np.nan) for name in names])
        for row in (row for folder in FOLDERS for row in rows_of(results / folder)):
            low, high = ends_of(row, normal)
            if not math.isnan(low):
                facts = facts_of(row["diagnostics"])
                key = method(row["estimator"], row["params"]), setting(row["environment_params"])
                cells.setdefault(key, []).append((low, high, row["truth_expected"], *facts))
        self.cells = {key: Cell(*np.array(found).T) for key, found in cells.items()}
        self.settings = sorted({one for _, one in self.cells})

    def methods(self) -> list[Method]:
        """All methods, by kind."""
        return sorted({method for method, _ in self.cells})

    def of(self, method: Method, settings: Sequence[LogShape]) -> list[tuple[LogShape, Cell]]:
        """The cells of a method in those of the settings where it was run."""
        return [(one, self.cells[method, one]) for one in settings if (method, one) in self.cells]


@dataclass(frozen=True)
class Found:
    """What one method does in a class of settings.

    Parameters
    ----------
    method : estimator and kind.
    coverage : the lowest of all settings, and ``where``.
    where : that setting.
    width : geometric mean of median widths over those of the yardstick, in the same settings.
    whole : whether it was run in all settings of the class.
    """

    method: Method
    coverage: float
    where: LogShape
    width: float
    whole: bool

    @property
    def holds(self) -> bool:
        """Whether it holds the value in all settings of the class."""
        return self.coverage >= HOLDS and self.whole


@dataclass(frozen=True)
class Choice:
    """A class of settings and what was found there, the narrowest that hold first.

    Parameters
    ----------
    rewards : ``bounded``, in a known range, or ``unbounded``.
    policies : ``known`` or ``estimated``.
    weights : ``moderate``, none above a fifth of the rows by the policies, or ``large``.
    settings : of the class.
    found : each method.
    """

    rewards: str
    policies: str
    weights: str
    settings: tuple[LogShape, ...]
    found: tuple[Found, ...]

    @property
    def best(self) -> Found | None:
        """The narrowest that holds the value; None where none does."""
        return next((one for one in self.found if one.holds), None)


def least_of(trials: IntervalTrials, setting: LogShape) -> float:
    """Median of n / max weight in a setting, over the weights that the policies allow."""
    cell = trials.cells[Method("normal", "ipw"), setting]
    return float(np.median(cell.least))


def choices(trials: IntervalTrials) -> list[Choice]:
    """All classes."""
    found = []
    for rewards, yardstick in (("bounded", BETS), ("unbounded", "empirical-likelihood")):
        for weights in ("moderate", "large"):
            settings = tuple(
                one
                for one in trials.settings
                if one.rewards == rewards
                and (least_of(trials, one) >= checks.SMALLEST_EFFECTIVE) == (weights == "moderate")
            )
            for policies in ("known", "estimated"):
                own = [
                    _found(trials, method, Method(yardstick, "ipw"), settings)
                    for method in trials.methods()
                    if (method.estimator == ESTIMATED) == (policies == "estimated")
                    and trials.of(method, settings)
                ]
                own.sort(key=lambda one: (not one.holds, one.width))
                found.append(Choice(rewards, policies, weights, settings, tuple(own)))
    return found


def _found(
    trials: IntervalTrials, method: Method, yardstick: Method, settings: Sequence[LogShape]
) -> Found:
    cells = trials.of(method, settings)
    coverage, where = min((cell.coverage.value or 0.0, setting) for setting, cell in cells)
    ratios = [math.log(cell.width / trials.cells[yardstick, one].width) for one, cell in cells]
    width = math.exp(sum(ratios) / len(ratios))
    return Found(method, coverage, where, width, len(cells) == len(settings))


def intervals_page(trials: IntervalTrials) -> str:
    """The page of the folder results/intervals."""
    parts = [
        opening("intervals", level=LEVEL),
        _which(trials),
        _findings(trials),
        _guaranteed(trials),
        _doubt(trials),
    ]
    return "\n".join([*parts, *_tables(trials)])


def _which(trials: IntervalTrials) -> str:
    head = ["rewards", "policies", "weights", "use", "lowest coverage", "width", "also hold"]
    rows = []
    for choice in choices(trials):
        best, told = choice.best, ["**none holds**", "", ""]
        if best is not None:
            where = f"{best.coverage:.3f} ({best.where})"
            told = [f"**{best.method}**", where, f"{best.width:.2f}"]
        others = (one for one in choice.found if one.holds and one is not best)
        also = "; ".join(f"{one.method} ({one.width:.2f})" for one in others)
        rows.append([choice.rewards, choice.policies, choice.weights, *told, also])
    text = opening("which interval", holds=HOLDS, least=checks.SMALLEST_EFFECTIVE)
    return f"{text}\n{table(head, rows)}\n"


def _findings(trials: IntervalTrials) -> str:
    likelihood, bets = Method("empirical-likelihood", "ipw"), Method(BETS, "ipw")
    above, below, _ = _above(_pooled(trials), lambda cell: cell.least, checks.SMALLEST_EFFECTIVE)
    ratios = [
        trials.cells[bets, setting].width / cell.width
        for setting, cell in trials.of(likelihood, trials.settings)
        if setting.rewards == "bounded" and least_of(trials, setting) < checks.SMALLEST_EFFECTIVE
    ]
    mean = float(np.exp(np.log(ratios).mean()))
    return opening(
        "findings",
        likelihood=_lowest(trials, likelihood),
        wider=f"{mean:.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
        normal="\n".join(f"- {_lowest(trials, Method('normal', one))}" for one in NORMAL),
        above=above.mean(),
        below=below.mean(),
        least=checks.SMALLEST_EFFECTIVE,
        resampled=_lowest(trials, Method("bootstrap", "ipws")),
    )


def _lowest(trials: IntervalTrials, method: Method) -> str:
    """A sentence on the setting where a method covers least."""
    cells = trials.of(method, trials.settings)
    share, where = min((cell.coverage.value or 0.0, setting) for setting, cell in cells)
    words = f"{method.kind[0].upper()}{method.kind[1:]}, `{method.estimator}`"
    return (
        f"{words}: coverage is at least {share:.3f} in {len(cells)} settings, lowest at "
        f"{where.overlap} overlap and {where.n:,} rows of {where.rewards} rewards."
    )


def _guaranteed(trials: IntervalTrials) -> str:
    rows = []
    for method in (one for one in trials.methods() if one.kind.startswith("guaranteed")):
        cells = trials.of(method, trials.settings)
        found = ((cell.coverage, setting) for setting, cell in cells)
        share, where = min(found, key=lambda one: one[0].value or 0.0)
        told = f"{share.value:.3f} [{share.low:.3f}, {share.high:.3f}]"
        rows.append([str(method), str(len(cells)), told, str(where)])
    head = ["interval", "settings", "lowest coverage", "where"]
    return f"{opening('guaranteed intervals')}\n{table(head, rows)}\n"


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


def smallest_limit(trials: IntervalTrials) -> float | None:
    """The smallest of `LIMITS` that separates; None where none does."""
    cells = _pooled(trials)
    lowest = {limit: _above(cells, lambda cell: cell.least, limit)[2] for limit in LIMITS}
    return next((limit for limit in LIMITS if lowest[limit] >= TRUSTED), None)


def _doubt(trials: IntervalTrials) -> str:
    cells = _pooled(trials)
    normal = ", ".join(f"`{one}`" for one in NORMAL)
    parts = [opening("doubt", normal=normal, few=FEW, trusted=TRUSTED)]
    for words, limits, of in (
        (BY_POLICIES, LIMITS, lambda cell: cell.least),
        (BY_LOGS, EFFECTIVE_LIMITS, lambda cell: cell.effective),
    ):
        rows = []
        for limit in limits:
            above, below, lowest = _above(cells, of, limit)
            told = [f"{held.mean():.3f}" if len(held) else "" for held in (above, below)]
            least = f"{lowest:.3f}" if np.isfinite(lowest) else ""
            share = f"{len(above) / (len(above) + len(below)):.0%}"
            separates = "yes" if lowest >= TRUSTED else "no"
            rows.append([f"{limit:g}", share, told[0], least, told[1], separates])
        head = ["limit", "above it", "coverage above", "lowest", "coverage below", "separates"]
        parts.append(f"{words}\n\n{table(head, rows)}\n")
    return "\n".join(parts)


def _tables(trials: IntervalTrials) -> list[str]:
    """Coverage and median width of every method in every setting."""
    parts = []
    for rewards in ("bounded", "unbounded"):
        settings = [one for one in trials.settings if one.rewards == rewards]
        least = [figure(least_of(trials, one), 2) for one in settings]
        rows = [["n / max weight", *least]]
        for method in trials.methods():
            of = {
                setting: f"{cell.coverage.value or 0.0:.3f} / {cell.width:.2g}"
                for setting, cell in trials.of(method, settings)
            }
            rows += [[str(method), *(of.get(one, "") for one in settings)]] if of else []
        title = f"Coverage / median width by overlap and number of rows, {rewards} rewards"
        heads = ["interval", *map(str, settings)]
        parts += [f"<details><summary>{title}</summary>\n", table(heads, rows, "lr")]
        parts += ["\n</details>\n"]
    return parts
