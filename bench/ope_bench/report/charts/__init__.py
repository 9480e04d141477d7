"""Charts: one definition for the page and for figures in files.

A chart names its data (``table``) and contains none, so that the page can provide filtered rows.
Sizes, fonts and the style of each estimator are set by the page or the writer of figures.

===========  ==================================================================
sweep        RMSE against a parameter
board        one setting's rows: RMSE with intervals, single errors
cdf          the distribution of squared error
positivity   failures by setting, and support of the logs
cost         error against time, time by device
coverage     coverage of intervals against their width
ranks        a critical-difference diagram
axes         logarithmic axes and their ends
marks        arrows for what an axis cuts, names beside lines and points
encodings    common encodings
===========  ==================================================================
"""

from __future__ import annotations

from collections.abc import Callable

from ope_bench.report.charts.board import errors, intervals
from ope_bench.report.charts.cdf import cdf
from ope_bench.report.charts.cost import pareto, times
from ope_bench.report.charts.coverage import coverage
from ope_bench.report.charts.encodings import Chart
from ope_bench.report.charts.positivity import positivity
from ope_bench.report.charts.ranks import ranks
from ope_bench.report.charts.sweep import sweep

__all__ = [
    "CHARTS",
    "Chart",
    "cdf",
    "coverage",
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
    "coverage": coverage,
    "cdf": cdf,
    "errors": errors,
    "ranks": ranks,
    "sweep": sweep,
    "sweep_log10": lambda: sweep(measure="log10_rmse"),
    "sweep_linear": lambda: sweep(logarithmic=False),
    "sweep_log10_linear": lambda: sweep(measure="log10_rmse", logarithmic=False),
}
"""The charts of the page, by name."""
