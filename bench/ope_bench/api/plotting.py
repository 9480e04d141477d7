"""Charts of an evaluation, in the style of figures for papers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ope_bench.contracts.data import TruthKind
from ope_bench.errors import UsageError
from ope_bench.report.content import ReportData
from ope_bench.report.figures.figures import Figure, figures
from ope_bench.report.figures.files import figure_spec, looks_of
from ope_bench.report.requirements import needs_extra
from ope_bench.store import Run
from ope_bench.trials.outcomes import Outcomes
from ope_bench.trials.record import TrialRecord

__all__ = ["plot"]

SCALE = 1.8
"""Size on a screen over size in print."""


def plot(records: Iterable[TrialRecord], truth: TruthKind) -> Any:
    """Return an Altair chart: RMSE against the parameter that varies, or of one setting's rows.

    Raises
    ------
    UsageError : the extra ``report`` is not installed, or no row has an estimate.
    """
    needs_extra()
    import altair as alt

    run = Run(id="", suite="", truth=truth)
    content = ReportData.of(Path(), {truth: Outcomes.by_setting(records)}, [run])
    short, looks = looks_of(content)
    figure = _first(figures(content, short, kinds=("sweep", "intervals")))
    spec = figure_spec(figure, looks)
    # The figure is sized for print.
    spec |= {name: SCALE * spec[name] for name in ("width", "height")}
    return alt.LayerChart.from_dict(spec)


def _first(found: Iterable[Figure]) -> Figure:
    for figure in found:
        return figure
    msg = "nothing to plot: no row has an estimate"
    raise UsageError(msg)
