"""Claims as data: read from ``results/claims/*.yaml`` and judged by committed trials.

A file is a page. Its ``trials`` say what is committed, its ``estimators`` which are compared, and
each of its ``claims`` has a statement, a source, and under ``forms`` the comparisons that bear on
it.
A comparison is a mapping whose first key is one of `COMPARISONS`:

    errs less: [EIPW, EIPWS]     # of `estimators`
    than: [IPW, DM]              # every one of the former with every one of these
    trials: actions              # of the page; default: the claim's
    at: [10, 100]                # settings; default: all
    outside: [heavy, rare]       # settings that the source does not assume; true: all of them
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

from judging.claims import errors
from judging.claims.limits import limit_lines
from judging.claims.line import Line
from judging.trials.rows import Estimator, Trials


@dataclass(frozen=True)
class Claim:
    """One claim and its evidence.

    Parameters
    ----------
    claim : the statement.
    short : a few words for it, which stand in the abstract.
    source : authors, year and section, or "ours".
    forms : lines of evidence for each form of the claim.
    reading : what the figures mean; no figure of its own.
    data : folders of the trials.
    assumes : what the source assumes that some lines do not have.
    figure : path beside the page, if one shows it.
    aside : lines that bear on it without being judged.
    without : a verdict that no line can change, and why.
    but : what keeps every verdict from being about the source's own experiment.
    """

    claim: str
    short: str
    source: str
    forms: Mapping[str, Sequence[Line]]
    reading: str = ""
    data: Sequence[str] = ()
    assumes: str = ""
    figure: str | None = None
    aside: Sequence[Line] = ()
    without: tuple[Literal["by construction", "not judged"], str] | None = None
    but: str = ""


@dataclass(frozen=True)
class Page:
    """The claims of one file.

    Parameters
    ----------
    opening : heading and what stands below the abstract.
    claims : as judged, errors against the value.
    columns : forms that have a column of their own in the summary.
    beside : the same claims by number, errors against V_s, where they are judged so too.
    """

    heading: str
    opening: str
    claims: Sequence[Claim]
    columns: Sequence[str] = ()
    beside: Mapping[int, Claim] | None = None


@dataclass(frozen=True)
class _Comparison:
    """One entry below a form: what is compared, and where."""

    of: Sequence[Estimator]
    than: Sequence[Estimator]
    settings: Sequence[Any]
    words: Mapping[str, Any]

    def pairs(self) -> Iterator[tuple[Estimator, ...]]:
        return itertools.product(self.of, self.than) if self.than else itertools.product(self.of)


Rule = Callable[[Trials, _Comparison], Iterable[Line]]


def _in_each_setting(rule: Callable[..., Line], **options: Any) -> Rule:
    """A rule of one estimator, and of the one beside it if there is one, at one setting."""
    return lambda trials, one: (
        rule(trials, *estimators, setting, **options)
        for estimators in one.pairs()
        for setting in one.settings
    )


def _of_each(rule: Callable[..., Iterable[Line]], *options: Any) -> Rule:
    """A rule of one estimator that finds its settings by itself."""
    return lambda trials, one: itertools.chain.from_iterable(
        rule(trials, estimator, *options) for estimator in one.of
    )


def _along(rule: Callable[..., Line], **options: Any) -> Rule:
    """A rule of one estimator, or of one and the one beside it, over all settings."""
    return lambda trials, one: (
        rule(trials, *estimators, settings=one.settings, **options) for estimators in one.pairs()
    )


def _better(trials: Trials, one: _Comparison) -> Iterator[Line]:
    for first, second in one.pairs():
        yield from errors.better(trials, first, second, one.settings)


def _never_far(trials: Trials, one: _Comparison) -> Iterator[Line]:
    for estimator, setting in itertools.product(one.of, one.settings):
        rivals = [rival for rival in one.than if rival != estimator]
        yield errors.never_far(trials, estimator, rivals, setting, one.words["limit"])


def _fails_from(trials: Trials, one: _Comparison) -> Iterator[Line]:
    """Whether estimators fail nearly always from a setting on, and before it do not."""
    for estimator, setting in itertools.product(one.of, one.settings):
        from_there = setting >= one.words["from"]
        yield errors.fails(trials, estimator, setting, limit=one.words["limit"], above=from_there)


COMPARISONS: Mapping[str, Rule] = {
    "errs less": _better,
    "varies less": _in_each_setting(errors.less_spread),
    "performs well": _in_each_setting(errors.performs_well),
    "never far": _never_far,
    "is unbiased": _in_each_setting(errors.bias),
    "answers": _in_each_setting(errors.fails),
    "fails from": _fails_from,
    "covers": _in_each_setting(errors.covers),
    "error falls": _along(errors.falls),
    "error grows": _along(errors.falls, upwards=True),
    "error stays": _along(errors.stays),
    "error does not fall": _along(errors.stays, at_least=True),
    "lead grows": _along(errors.falls),
    "bias within bound": _of_each(errors.within_bound, "weight_bias", "bias_bound", "bias"),
    "spread within bound": _of_each(
        errors.within_bound, "weight_variance", "variance_bound", "sd"
    ),
    "error within bounds": _of_each(errors.within_both_bounds),
    "limit is the value": _of_each(limit_lines),
}
"""How a comparison is judged, by the key that names it."""


class _File:
    """One file of claims, with trials read once."""

    def __init__(self, path: Path, results: Path, measure: str) -> None:
        self.path, self._results, self._measure = path, results, measure
        self.told: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        self._trials: dict[str, list[tuple[str | None, Trials]]] = {}

    def claim(self, told: Mapping[str, Any]) -> Claim:
        """Judge one claim."""
        own = dict(told)
        self._used: dict[str, None] = {}
        estimators = {**self.told["estimators"], **own.pop("estimators", {})}
        given = {"trials": own.pop("trials", None), "outside": own.pop("outside", [])}
        forms = {
            form: self._lines(entries, estimators, given)
            for form, entries in own.pop("forms").items()
        }
        aside = self._lines(own.pop("aside", []), estimators, given)
        without = tuple(own.pop("without", ())) or None
        return Claim(forms=forms, aside=aside, data=tuple(self._used), without=without, **own)

    def _lines(
        self, entries: Iterable[Any], estimators: Mapping[str, Any], given: Mapping[str, Any]
    ) -> list[Line]:
        lines: list[Line] = []
        for entry in _flat(entries):
            words, kind = {**given, **entry}, next(iter(entry))
            if kind == "simulated":
                text = (self._results / entry["simulated"]).read_text(encoding="utf-8")
                measured = (Line(**line) for line in json.loads(text)["lines"])
                lines += [line for line in measured if line.what == entry["what"]]
                continue
            if kind not in COMPARISONS:
                msg = f"{self.path}: no comparison {kind!r}; there are {', '.join(COMPARISONS)}"
                raise LookupError(msg)
            of, than = (self._estimators(estimators, words.get(key, [])) for key in (kind, "than"))
            outside = words["outside"]
            for label, one in self._trials_of(words["trials"]):
                comparison = _Comparison(of, than, words.get("at") or one.settings, words)
                places = set()
                if not isinstance(outside, bool):
                    places = {errors.axis_of(one, setting) for setting in _flat(outside)}
                for line in COMPARISONS[kind](one, comparison):
                    inside = outside is not True and line.where not in places
                    lines.append(replace(line, where=label or line.where, inside=inside))
        return lines

    def _estimators(self, named: Mapping[str, Any], names: Any) -> list[Estimator]:
        estimators = []
        for name in _flat([names]):
            if name not in named:
                msg = f"{self.path}: no estimator {name!r} among its estimators"
                raise LookupError(msg)
            told = named[name]
            ((estimator, params),) = told.items() if isinstance(told, dict) else [(told, {})]
            estimators.append(Estimator.of(estimator, name, **params))
        return estimators

    def _trials_of(self, names: Any) -> list[tuple[str | None, Trials]]:
        """Trials by their names, with what their column is called if not by their settings."""
        found = []
        for name in _flat([names]):
            told = {"measure": self._measure, **self.told["trials"][name]}
            folder, each = told.pop("folder"), told.pop("each", {})
            self._used[folder] = None
            if name not in self._trials:
                alone = {f"{axis} = {one:,}": {axis: one} for axis in each for one in each[axis]}
                parts: list[tuple[str | None, dict[str, Any]]] = [
                    (label, told | {"only": only}) for label, only in alone.items()
                ]
                self._trials[name] = [
                    (label, Trials(self._results / folder, **words))
                    for label, words in parts or [(None, told)]
                ]
            found += self._trials[name]
        return found


def _flat(entries: Any) -> Iterator[Any]:
    """Entries of nested lists, one after the other."""
    for entry in entries:
        if isinstance(entry, list):
            yield from _flat(entry)
        else:
            yield entry


@cache
def read_page(name: str, results: Path) -> Page:
    """Judge the claims of ``results/claims/NAME.yaml``.

    Raises
    ------
    LookupError : a comparison, an estimator, a setting or trials that there are not.
    """
    path = results / "claims" / f"{name}.yaml"
    file = _File(path, results, "expected")
    told = file.told
    claims = [file.claim(one) for one in told["claims"]]
    beside = None
    if judged := told.get("beside"):
        other = _File(path, results, "empirical")
        beside = {
            number: other.claim(one)
            for number, one in enumerate(told["claims"], 1)
            if one.get("trials") in judged
        }
    return Page(told["heading"], told["opening"], claims, told.get("columns", []), beside)
