"""The registry of columns for charts and the page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from ope_bench.boards.columns.built_in import COLUMNS
from ope_bench.boards.columns.column import BoardColumn
from ope_bench.boards.columns.layouts import LAYOUTS
from ope_bench.boards.columns.registry import column_registry

__all__ = ["describe_columns", "describe_layouts", "figure_columns", "page_columns"]

OF_ESTIMATORS = ("estimator", "label", "params", "access", "device", "origin")
"""Columns that a report stores once per estimator."""

BESIDE_FIGURES = ("estimator", "access", "device", "status")
"""Columns of the page whose values are not statistics of a row."""


def figure_columns() -> list[BoardColumn]:
    """Return the columns whose values a report stores for each row of a board."""
    return [
        column
        for column in column_registry().columns.values()
        if not (
            column.of_board or column.key in OF_ESTIMATORS or column.format in ("status", "json")
        )
    ]


def page_columns() -> dict[str, dict[str, Any]]:
    """Return the columns that the page can show, by key."""
    columns = [*(COLUMNS[key] for key in BESIDE_FIGURES), *figure_columns()]
    return {one["key"]: one for one in describe_columns(columns)}


def describe_columns(columns: Iterable[BoardColumn]) -> list[dict[str, Any]]:
    """Return the description of each column for the page."""
    return [
        {
            "key": column.key,
            "title": column.title,
            "explanation": column.explanation,
            "format": column.format,
            "number": column.numeric,
            "hide_empty": column.hide_empty,
            "mark": asdict(column.mark) if column.mark else None,
        }
        for column in columns
    ]


def describe_layouts() -> dict[str, dict[str, Any]]:
    """Return the layout of each board, by measure."""
    return {
        by: {
            "title": layout.title,
            "headline": layout.headline,
            "shown": [column.key for column in column_registry().layout(by)],
            "further": list(layout.further),
        }
        for by, layout in LAYOUTS.items()
    }
