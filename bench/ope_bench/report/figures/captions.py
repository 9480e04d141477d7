"""Captions of figures: what the axes, points, bands and arrows are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ope_bench.boards.board import Board


__all__ = ["CAPTIONS", "caption", "with_caption"]

CAPTIONS: Mapping[str, str] = {
    "sweep": "Points are RMSEs, bands their 95 % intervals, left out where few data sets "
    "determine the RMSE. A hollow point is a row some of whose trials failed: its RMSE is over "
    "the others. A line ends where every trial fails.",
    "intervals": "Points are RMSEs, bars their 95 % intervals, ticks median absolute errors, "
    "which a few large errors do not move. A hollow point is a row in which few data sets "
    "determine the RMSE.",
    "errors": "Each tick is the error of one data set, estimate minus truth. The axis is linear "
    "near 0 and logarithmic beyond; errors beyond its ends stand there.",
    "cdf": "The share of trials whose squared error is below the axis's value. A curve that ends "
    "below 100 % is of an estimator some of whose trials failed; one that is missing lies beyond "
    "the axis.",
    "pareto": "RMSE against the median time of fit and estimate. The dashed line joins the "
    "estimators that no other beats in both; hollow points did not run on the CPU.",
    "times": "Median times of fit and of estimate.",
    "positivity": "The share of trials that failed, by estimator and setting; below, the share of "
    "the target policy's actions without support, by the true logging policy and as logged.",
    "coverage": "The share of intervals that hold the value, with its 95 % interval (Wilson), "
    "against the median width, a point for each estimator and setting. The dashed line is what "
    "intervals claim.",
    "ranks": "Mean ranks over settings. Bars join estimators whose mean ranks do not differ "
    "significantly (Nemenyi, 5 %, settings taken as independent).",
}
"""What a chart shows, by kind of figure."""

CUT = "The axis ends below the largest values, which arrows name."


def caption(kind: str, subject: str, boards: Sequence[Board], *, cut: bool = False) -> str:
    """Return the caption of a figure.

    Parameters
    ----------
    kind : kind of figure, a key of ``CAPTIONS``.
    subject : what it is about.
    boards : the boards whose rows it shows.
    cut : whether an axis ends below some values.
    """
    counts = sorted({row.replicates for board in boards for row in board.rows})
    truths = sorted({board.truth for board in boards})
    data = ""
    if counts:
        n = "-".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
        data = f" {n} data set{'' if n == '1' else 's'} a setting."
    yardstick = {"expected": "the target policy's value", "empirical": "the target sample's mean"}
    against = " and ".join(yardstick[truth] for truth in truths)
    errors = (
        f" Errors are against {against}." if against and kind not in ("times", "coverage") else ""
    )
    return f"{subject}.{data}{errors} {CAPTIONS[kind]}" + (f" {CUT}" if cut else "")


def with_caption(svg: str, text: str) -> str:
    """Return an SVG with its caption as description, which readers aloud and searches find."""
    head, tag, rest = svg.partition(">")
    return f"{head}{tag}<desc>{escape(text)}</desc>{rest}" if tag else svg
