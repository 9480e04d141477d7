"""What a page says of each suite: its settings, what they show, how far its runs are."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ope_bench.boards.board import Board
from ope_bench.boards.summary import Summary
from ope_bench.errors import OpeBenchError
from ope_bench.plugins.registry import registry
from ope_bench.report.content import ReportData, Setting, summaries_of
from ope_bench.report.text.findings import findings
from ope_bench.suites.discovery import suite_files

__all__ = ["Group", "docstrings_of", "groups_of", "outcomes_of_runs"]


@dataclass(frozen=True, kw_only=True)
class Group:
    """The settings of one suite, or of all.

    Parameters
    ----------
    suite : its name; empty for all settings of several suites.
    title : of a suite that a distribution ships, else empty.
    settings : places of its settings in the report.
    sentences : what its boards show, for each kind of truth.
    across : summaries over its settings, by name.
    """

    suite: str
    title: str
    settings: tuple[int, ...]
    sentences: tuple[str, ...]
    across: tuple[tuple[str, Summary], ...]


def groups_of(content: ReportData) -> list[Group]:
    """Return a group of each suite, the suite of the newest run first, and one of everything.

    A setting belongs to every suite of which it has a trial.

    Parameters
    ----------
    content : the data of the report.
    """
    members: dict[str, list[int]] = {run.suite: [] for run in reversed(content.runs)}
    suite_of = {run.id: run.suite for run in content.runs}
    for place, setting in enumerate(content.settings):
        runs = {run for group in setting.trials for run in group.selected_by.tolist()}
        for suite in {suite_of[run] for run in runs}:
            members.setdefault(suite, []).append(place)
    titles = {one.id: one.title for one in suite_files()}
    groups = [
        _group(content, suite, titles.get(suite, ""), places)
        for suite, places in members.items()
        if places
    ]
    if len(groups) > 1:
        groups.append(_group(content, "", "", range(len(content.settings))))
    return groups


def _group(content: ReportData, suite: str, title: str, places: Collection[int]) -> Group:
    settings = [content.settings[place] for place in places]
    return Group(
        suite=suite,
        title=title,
        settings=tuple(places),
        sentences=tuple(_sentences(content, settings)),
        across=summaries_of(settings),
    )


def _sentences(content: ReportData, settings: Sequence[Setting]) -> list[str]:
    """Say what boards show, with the labels that the page uses."""
    by_truth: dict[str, list[Board]] = {}
    for setting in settings:
        rows = [
            replace(row, label=content.methods[method].label)
            for row, method in zip(setting.board.rows, setting.methods, strict=True)
        ]
        board = replace(setting.board, label=setting.label, rows=tuple(rows))
        by_truth.setdefault(board.truth, []).append(board)
    return [
        sentence if len(by_truth) == 1 else f"Against the {truth} truth: {sentence}"
        for truth, boards in by_truth.items()
        for sentence in findings(boards)
    ]


def outcomes_of_runs(content: ReportData) -> Counter[str]:
    """Count the trials of each run that have an outcome, reused ones too, by the run's id.

    A trial of several runs counts for the newest.
    """
    return Counter(
        run
        for setting in content.settings
        for group in setting.trials
        for run in group.selected_by.tolist()
    )


def docstrings_of(content: ReportData) -> dict[str, str]:
    """Return the docstrings of the report's estimators that are installed, by id."""
    wanted = {method.estimator for method in content.methods}
    known: dict[str, str] = {}
    for plugin in registry().plugins("estimator"):
        if plugin.id not in wanted:
            continue
        try:
            known[plugin.id] = inspect.getdoc(plugin.cls) or ""
        except OpeBenchError:
            # The package is broken or lacks a dependency; its numbers are still shown.
            continue
    return known
