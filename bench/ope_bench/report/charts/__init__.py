"""What each chart looks like: one definition for the page and for figures in files.

A chart names the data it draws (``table``) and holds none, so that the page can hand it the rows
which its filters leave. Sizes, fonts and what each method looks like belong to who shows it.

===========  ==================================================================
sweep        RMSE against a parameter
board        one setting's rows: RMSE with intervals, single errors
cdf          the distribution of squared error
positivity   who failed where, and what the logs support
cost         error against time, time by device
ranks        a critical-difference diagram
encodings    what they share
===========  ==================================================================
"""

from __future__ import annotations

from collections.abc import Callable

from ope_bench.report.charts.board import errors, intervals
from ope_bench.report.charts.cdf import cdf
from ope_bench.report.charts.cost import pareto, times
from ope_bench.report.charts.encodings import Chart
from ope_bench.report.charts.positivity import positivity
from ope_bench.report.charts.ranks import ranks
from ope_bench.report.charts.sweep import sweep

__all__ = [
    "CHARTS",
    "Chart",
    "cdf",
    "errors",
    "intervals",
    "pareto",
    "positivity",
    "ranks",
    "sweep",
    "times",
]

CHARTS: dict[str, Callable[[], Chart]] = {
    "intervals": intervals,
    "positivity": positivity,
    "pareto": pareto,
    "times": times,
    "cdf": cdf,
    "errors": errors,
    "ranks": ranks,
    "sweep": sweep,
    "sweep_log10": lambda: sweep(measure="log10_rmse"),
    "sweep_linear": lambda: sweep(logarithmic=False),
    "sweep_log10_linear": lambda: sweep(measure="log10_rmse", logarithmic=False),
}
"""Every chart that the page may draw, by the name that it uses."""
