"""The result of an evaluation as a notebook shows it: sweep or board, failures, findings."""

from __future__ import annotations

import html
from collections.abc import Sequence

from ope_bench.boards.board import Board
from ope_bench.boards.summary import summaries
from ope_bench.report.notebook.html_table import render_html
from ope_bench.report.text.boards import board_table, summary_table
from ope_bench.report.text.findings import findings
from ope_bench.report.text.overview import overview_table
from ope_bench.report.text.render import FEWEST_SETTINGS
from ope_bench.report.text.table import Table

__all__ = ["result_html"]


def result_html(boards: Sequence[Board], failures: Table) -> str:
    """Return the result of boards by RMSE of one kind of truth.

    Parameters
    ----------
    boards : one for each setting.
    failures : see `ope_bench.report.notebook.failures.failure_table`.
    """
    tables = [overview_table(boards)] if len(boards) > 1 else [*map(board_table, boards)]
    if len(boards) >= FEWEST_SETTINGS:
        tables += [summary_table(summary) for summary in summaries(boards)]
    if failures.rows:
        tables.append(failures)
    sentences = "".join(f"<li>{html.escape(line)}</li>" for line in findings(boards))
    return "".join(map(render_html, tables)) + f"<ul>{sentences}</ul>"
