"""The leaderboard: who errs least over settings, among estimators that may know the same.

``tracks.yaml`` has the tracks. Figures of an estimator depend on it, the reference and the panel
alone, never on who else enters; only ranges of ranks do.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from operator import or_
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ope_bench.base.canonical import plain
from ope_bench.base.errors import OpeBenchError
from ope_bench.base.units import counted
from ope_bench.boards.columns import count, number, percent, seconds, text
from ope_bench.boards.over_settings import OverSettings
from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.plugins import SIGNAL
from ope_bench.contracts.view import Access
from ope_bench.outcomes import Outcomes
from ope_bench.plugins.spec import PluginSpec, distinct_labels, resolve
from ope_bench.statistics.ranks import mean_interval, rank_ranges
from ope_bench.trials.status import Status
from ope_bench.trials.trial import build

NEAR = 1.25
"""Factor over the panel's best error up to which an estimator counts as near it."""

NORMAL_95 = 1.96

STRATA = {"weak": (-np.inf, 0.05), "middle": (0.05, 0.25), "strong": (0.25, np.inf)}
"""Strata of settings by their signal."""


@dataclass(frozen=True)
class Track:
    """Estimators that may know the same, on the settings where all of that is known.

    Parameters
    ----------
    name : of the track.
    granted : what its estimators may use beyond samples.
    reference : the estimator over whose RMSE all others' is divided.
    panel : estimators of which the best in a setting is what others are compared with.
    probe : the estimator that is unavailable exactly where a setting does not count. Where it did
        not run, all have to be available that need everything granted.
    """

    name: str
    granted: Access
    reference: str
    panel: tuple[str, ...]
    probe: str

    def holds(self, setting: SettingAnswers) -> bool:
        """Return whether everything granted is known in a setting."""
        probe, every = setting.answers.get(self.probe), setting.answers.values()
        told = [probe] if probe else [one for one in every if not self.granted & ~one.needs]
        return bool(told) and all(one.available for one in told)

    def estimators(self, settings: Iterable[SettingAnswers]) -> list[str]:
        """Return the estimators of the trials that need no more than is granted, by name."""
        needs = {name: one.needs for setting in settings for name, one in setting.answers.items()}
        return sorted(name for name, need in needs.items() if not need & ~self.granted)


@dataclass(frozen=True)
class Rule:
    """The content of ``tracks.yaml``."""

    fallback: str
    sources: Mapping[str, str]
    tracks: tuple[Track, ...]


@cache
def rule() -> Rule:
    """Return the rule of the leaderboard."""
    import yaml

    told = yaml.safe_load(Path(__file__).with_name("tracks.yaml").read_text(encoding="utf-8"))
    tracks = tuple(
        Track(**{**one, "granted": access_from(one["granted"]), "panel": tuple(one["panel"])})
        for one in told["tracks"]
    )
    return Rule(told["fallback"], told["sources"], tracks)


def access_from(words: Iterable[str]) -> Access:
    """Return the access that words name."""
    return reduce(or_, (Access[word.upper()] for word in words), Access.SAMPLES)


@dataclass(frozen=True, eq=False)
class Answers:
    """What one estimator said in one setting, by data set.

    Parameters
    ----------
    value : (n,), estimates; the fallback's where there is none.
    standard_error : (n,), NaN without one.
    held : (n,), whether its own 95 % interval held the value; NaN without one.
    failed : (n,), whether there was no answer.
    seconds : (n,), processor time of its fit.
    needs : what it uses beyond samples.
    available : whether it could run on every data set.
    """

    value: FloatArray
    standard_error: FloatArray
    held: FloatArray
    failed: FloatArray
    seconds: FloatArray
    needs: Access = Access.SAMPLES
    available: bool = True


@dataclass(frozen=True, eq=False)
class SettingAnswers:
    """One setting of an environment, with the answers of all estimators.

    Parameters
    ----------
    source : what is drawn as a whole: a world, or a table or trial of which there are settings.
    number : of the drawn world; None for others.
    facts : of the setting, by name.
    truth : (n,)
    answers : by estimator.
    signal : median over the data sets of `SIGNAL`; None where nothing tells it.
    key : identity of the environment and its data sets.
    """

    source: str
    number: int | None
    facts: Mapping[str, Any]
    truth: FloatArray
    answers: dict[str, Answers] = field(default_factory=dict)
    signal: float | None = None
    key: tuple[str, ...] = ()
    _logs: dict[tuple[str, str], float] = field(default_factory=dict, init=False, repr=False)

    def errors(self, estimator: str, reference: str = "") -> FloatArray:
        """(n,) estimate less value; without an answer the larger of two errors.

        They are the fallback's and, if there is one, the reference's: refusing never pays.
        """
        own, other = self.answers[estimator], self.answers.get(reference)
        error = own.value - self.truth
        if other is None:
            return error
        return with_failures(error, own.failed, other.value - self.truth)

    def log_rmse(self, estimator: str, reference: str = "") -> float:
        """Logarithm of the RMSE; errors below 1e-12 count as that. Asked a hundred times."""
        if (estimator, reference) not in self._logs:
            self._logs[estimator, reference] = log_rmse(self.errors(estimator, reference))
        return self._logs[estimator, reference]

    @property
    def stratum(self) -> str | None:
        """The stratum of its signal; None where that is not known."""
        return None if self.signal is None else stratum_of(self.signal)


def with_failures(errors: FloatArray, failed: FloatArray, others: FloatArray) -> FloatArray:
    """Return errors in which a failure has the larger one: the fallback's, or the reference's.

    Parameters
    ----------
    errors : (n,) estimate less value, where there is no answer the fallback's.
    failed : (n,) 1 where there is no answer, 0 elsewhere.
    others : (n,) errors of the reference.
    """
    return np.where((failed > 0) & (np.abs(others) > np.abs(errors)), others, errors)


def stratum_of(signal: float) -> str:
    """Return the stratum of a log's out-of-fold R2."""
    return next(name for name, (low, high) in STRATA.items() if low <= signal < high)


def log_rmse(errors: FloatArray) -> float:
    """Return the logarithm of the root of the mean square; errors below 1e-12 count as that."""
    return 0.5 * float(np.log(max(float(np.square(errors).mean()), 1e-24)))


# Settings from the outcomes of stores and exports.


def settings_of(parts: Iterable[Iterable[Outcomes]]) -> list[SettingAnswers]:
    """Return the settings of which the fallback has all answers, by source.

    Parameters
    ----------
    parts : outcomes of each store, one setting after another. What a part without the fallback has
        counts in all settings whose data sets it covers; of two parts with the same trial the
        first counts.
    """
    settings = itertools.chain.from_iterable(parts)
    return settings_of_rows([*one.newest().by_row(threads=False)] for one in settings)


def settings_of_rows(parts: Iterable[Sequence[Outcomes]]) -> list[SettingAnswers]:
    """Return what `settings_of` does, of trials that are split by row.

    Parameters
    ----------
    parts : the rows of each setting of each store; those of an estimator and device are joined.
    """
    found: dict[str, list[dict[str, Outcomes]]] = {}
    specs: dict[str, tuple[PluginSpec, str]] = {}
    frequency: Counter[str] = Counter()
    for rows in parts:
        cells: dict[str, Outcomes] = {}
        for row in rows:
            spec, device = row.estimator[0], row.device[0]
            name = f"{spec.identity_json} {device}"
            specs.setdefault(name, (spec, device))
            frequency[name] += 1
            if name in cells:
                both = (cells[name], row)
                row = Outcomes.joined(both, sum(map(len, both))).newest()
            cells[name] = row.by_data()
        if rows:
            found.setdefault(rows[0].environment[0].identity_json, []).append(cells)
    # The most frequent first.
    names = _names({name: specs[name] for name, _ in frequency.most_common()})
    fallback = next((one for one, name in names.items() if name == rule().fallback), "")
    settings = []
    for pools in found.values():
        groups: dict[tuple[str, ...], list[dict[str, Outcomes]]] = {}
        for cells in pools:
            if fallback in cells:
                groups.setdefault(tuple(cells[fallback].data_key.tolist()), []).append(cells)
        others = [cells for cells in pools if fallback not in cells]
        # A part without a fallback comes in its place: before all others if it is the first.
        for data, its in groups.items():
            ordered = [cells for cells in pools if cells in its or cells in others]
            average = its[0][fallback]
            if average.has(Status.OK).all():
                settings.append(_setting(data, average, ordered, names))
    return sorted(settings, key=lambda one: one.source)


def _names(specs: Mapping[str, tuple[PluginSpec, str]]) -> dict[str, str]:
    """Return each estimator's name: the id of one at its defaults, else its label.

    Where none is at today's defaults, the first has the id: those of older trials were others.
    """
    usual: dict[str, str] = {}
    for spec, _ in specs.values():
        usual.setdefault(spec.id, spec.identity_json)
        with contextlib.suppress(OpeBenchError):
            if resolve("estimator", spec.id).identity_json == spec.identity_json:
                usual[spec.id] = spec.identity_json
    labels = distinct_labels([spec for spec, _ in specs.values()])
    names = {}
    for (key, (spec, device)), label in zip(specs.items(), labels, strict=True):
        name = spec.id if usual[spec.id] == spec.identity_json else spec.label or label
        names[key] = name if device == "cpu" else f"{name} ({device})"
    return names


def _setting(
    data: Sequence[str],
    average: Outcomes,
    pools: Sequence[Mapping[str, Outcomes]],
    names: Mapping[str, str],
) -> SettingAnswers:
    spec, place = average.environment[0], {key: at for at, key in enumerate(data)}
    facts: dict[str, Any] = next((one for one in average.diagnostics if one), {})
    setting = SettingAnswers(
        source_of(spec),
        facts.get("world"),
        facts,
        average.truth_expected,
        signal=_signal(pools),
        key=(spec.identity_json, *data),
    )
    for cells in pools:
        for key, row in cells.items():
            if names[key] in setting.answers or (need := access_of(row)) is None:
                continue
            kept = row.take(np.array([one in place for one in row.data_key.tolist()], np.bool_))
            if kept.data_key.tolist() == list(data):
                setting.answers[names[key]] = _answers(kept, average.estimate, need)
    return setting


def source_of(spec: PluginSpec) -> str:
    """Return the source of a setting."""
    name = rule().sources.get(spec.id)
    return spec.id if name is None else f"{spec.id} {spec.params.get(name)}"


def _signal(pools: Sequence[Mapping[str, Outcomes]]) -> float | None:
    """Return the median signal over data sets, as estimators of the project tell it."""
    told = [
        float(value)
        for cells in pools
        for row in cells.values()
        # Exports of older versions lack the origin.
        if row.estimator[0].origin.partition(" ")[0] in ("ope-bench", "")
        for value in row.diagnostics.values(SIGNAL)
        if isinstance(value, int | float)
    ]
    return float(np.median(told)) if told else None


def access_of(row: Outcomes) -> Access | None:
    """Return what an estimator uses beyond samples; None where it is not known."""
    words = row.access[0]
    if not words:
        # An export of an older version.
        try:
            access: Access = build(row.estimator[0]).access
        except OpeBenchError:
            return None
        return access
    return access_from(words)


def _answers(row: Outcomes, average: FloatArray, needs: Access) -> Answers:
    ok, truth = row.has(Status.OK), row.truth_expected
    reach = NORMAL_95 * row.standard_error
    own = ~(np.isnan(row.interval_low) | np.isnan(row.interval_high))
    low = np.where(own, row.interval_low, row.estimate - reach)
    high = np.where(own, row.interval_high, row.estimate + reach)
    none = ~ok | np.isnan(low)
    held = np.where(none, np.nan, (low <= truth) & (truth <= high))
    return Answers(
        np.where(ok, row.estimate, average),
        np.where(ok, row.standard_error, np.nan),
        held,
        (~ok).astype(float),
        row.fit_cpu_seconds,
        needs,
        not row.has(Status.UNAVAILABLE).any(),
    )


# The board of a track.


@dataclass(frozen=True)
class Line:
    """One estimator of a track.

    Parameters
    ----------
    estimator : its name.
    ratio, low, high : geometric mean over sources of its RMSE over the reference's, with the 95 %
        interval of a mean of logarithms.
    median, ninth : median and 90th percentile of that ratio over sources.
    near : share of settings in which it errs at most `NEAR` times as much as the panel's best.
    failures : share of its trials without an answer.
    coverage : share of its 95 % intervals that held the value, None without intervals.
    seconds : median processor time of a fit; NaN where no trial has one.
    settings : on how many settings it ran.
    rank_low, rank_high : the ranks that the data leave open, for all estimators at once; None
        where it ran on a part of the settings.
    rank : the first of them.
    """

    estimator: str
    ratio: float
    low: float
    high: float
    median: float
    ninth: float
    near: float
    failures: float
    coverage: float | None
    seconds: float
    settings: int
    rank: int | None = None
    rank_low: int | None = None
    rank_high: int | None = None

    device: ClassVar[str] = "cpu"
    codes: ClassVar[int] = 1

    @property
    def label(self) -> str:
        """The name."""
        return self.estimator

    def as_json(self) -> dict[str, Any]:
        """Return the figures as plain JSON."""
        facts = plain(vars(self))
        return {"estimator": facts.pop("estimator"), **facts}


def by_source(settings: Sequence[SettingAnswers], figures: Sequence[float]) -> FloatArray:
    """Return the mean of a figure over the settings of each source: (n_sources,)."""
    found: dict[str, list[float]] = {}
    for setting, figure in zip(settings, figures, strict=True):
        found.setdefault(setting.source, []).append(figure)
    return np.array([np.mean(one) for one in found.values()])


def log_ratios(settings: Sequence[SettingAnswers], estimator: str, other: str) -> FloatArray:
    """Return log RMSE of one estimator less that of a reference, by source: (n_sources,)."""
    ran = [one for one in settings if estimator in one.answers and other in one.answers]
    return by_source(ran, [one.log_rmse(estimator, other) - one.log_rmse(other) for one in ran])


def line_of(track: Track, settings: Sequence[SettingAnswers], estimator: str) -> Line:
    """Return an estimator's figures; they depend on it, the reference and the panel alone."""
    ran = [one for one in settings if estimator in one.answers]
    answers = [one.answers[estimator] for one in ran]
    base = track.reference
    own = np.array([one.log_rmse(estimator, base) for one in ran])
    panel = [[one.log_rmse(x, base) for x in track.panel if x in one.answers] for one in ran]
    best = np.array([min(one) for one in panel])
    held = np.concatenate([one.held for one in answers])
    spent = np.concatenate([one.seconds for one in answers])
    ratios = log_ratios(ran, estimator, base)
    mean, low, high = mean_interval(ratios)
    return Line(
        estimator,
        ratio=float(np.exp(mean)),
        low=float(np.exp(low)),
        high=float(np.exp(high)),
        median=float(np.exp(np.median(ratios))),
        ninth=float(np.exp(np.quantile(ratios, 0.9))),
        near=float((own - best <= np.log(NEAR)).mean()),
        failures=float(np.concatenate([one.failed for one in answers]).mean()),
        coverage=float(np.nanmean(held)) if np.isfinite(held).any() else None,
        seconds=float(np.nanmedian(spent)) if np.isfinite(spent).any() else float("nan"),
        settings=len(ran),
    )


def board_of(track: Track, settings: Sequence[SettingAnswers]) -> list[Line]:
    """Return the estimators of a track, best first, those that ran on a part of it last.

    Equal figures are shown in the order of names.
    """
    inside = [one for one in settings if track.holds(one)]
    lines = [line_of(track, inside, estimator) for estimator in track.estimators(inside)]
    lines.sort(key=lambda line: (line.settings < len(inside), line.ratio, line.estimator))
    whole = [line.estimator for line in lines if line.settings == len(inside)]
    logs = np.array([log_ratios(inside, name, track.reference) for name in whole])
    ranges = dict(zip(whole, rank_ranges(logs), strict=True)) if whole else {}
    return [
        replace(line, rank=low, rank_low=low, rank_high=high)
        for line in lines
        for low, high in [ranges.get(line.estimator, (None, None))]
    ]


@dataclass(frozen=True, kw_only=True)
class TrackBoard(OverSettings):
    """The estimators of a track on all its settings, or on those of a stratum.

    Parameters
    ----------
    track, reference : see `Track`.
    stratum : ``all``, or one of `STRATA`.
    settings, sources : numbers of them.
    """

    track: str
    reference: str
    stratum: str
    settings: int
    sources: int
    rows: tuple[Line, ...]

    columns = (
        text("track", "", "what its estimators may know", of_board=True),
        text("stratum", "", "settings by signal of the log", of_board=True),
        count("rank", "", "first rank that the data leave open, for all estimators at once"),
        number("estimator", "", "estimator", lambda row: row.estimator, format="estimator"),
        number("ratio", "error", "RMSE over the reference's, geometric mean over sources"),
        number("interval", "95 %", "interval of the error", lambda row: (row.low, row.high)),
        number("median", "", "median of the error over sources", drop=4),
        number("ninth", "90 %", "90th percentile of the error over sources", drop=3),
        percent("near", "near best", "share of settings within 1.25 of the panel's best", drop=4),
        percent("failures", "fails", "share of trials without an answer", drop=5),
        percent("coverage", "", "share of its 95 % intervals that held the value", drop=2),
        seconds(
            "seconds",
            "fit",
            "median processor time of a fit",
            lambda row: row.seconds if row.seconds >= 0 else None,
            drop=1,
        ),
        count("settings", "n", "settings on which it ran", drop=6),
        count("rank_low", "rank from", "first rank that the data leave open", drop=7),
        count("rank_high", "to", "last rank that the data leave open"),
    )
    layout = (
        *("rank", "rank_high", "estimator", "ratio", "interval", "median", "ninth", "near"),
        *("failures", "coverage", "seconds", "settings", "rank_low"),
    )
    explained = ("rank", "rank_high", "ratio", "near", "settings")

    @property
    def title(self) -> str:
        """Heading of the board's table."""
        part = "" if self.stratum == "all" else f" | {self.stratum} signal"
        counts = f"{counted(self.settings, 'setting')} of {counted(self.sources, 'source')}"
        return f"{self.track}{part} | {counts} | over {self.reference}"


def track_boards(settings: Sequence[SettingAnswers]) -> list[TrackBoard]:
    """Return each track's boards that have rows: of all settings, and of each stratum."""
    found = []
    for track in rule().tracks:
        inside = [one for one in settings if track.holds(one) and track.reference in one.answers]
        for stratum in ("all", *STRATA):
            part = inside if stratum == "all" else [x for x in inside if x.stratum == stratum]
            if not part:
                continue
            found.append(
                TrackBoard(
                    track=track.name,
                    reference=track.reference,
                    stratum=stratum,
                    settings=len(part),
                    sources=len({one.source for one in part}),
                    rows=tuple(board_of(track, part)),
                )
            )
    return found


def tracks_document(boards: Sequence[TrackBoard]) -> dict[str, Any]:
    """Return the boards as plain JSON; every stratum of a track is there."""
    tracks = []
    for track in rule().tracks:
        its = {board.stratum: board for board in boards if board.track == track.name}
        strata = [
            {
                "stratum": name,
                "settings": its[name].settings if name in its else 0,
                "sources": its[name].sources if name in its else 0,
                "rows": [row.as_json() for row in its[name].rows] if name in its else [],
            }
            for name in ("all", *STRATA)
        ]
        tracks.append({"track": track.name, "reference": track.reference, "strata": strata})
    return {"schema": 1, "tracks": tracks}
