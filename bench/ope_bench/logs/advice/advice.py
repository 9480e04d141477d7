"""The result of `advise`."""

from __future__ import annotations

from typing import Any

from ope_bench.logs.advice.advice_tables import advice_tables
from ope_bench.logs.advice.advice_values import AdviceValues
from ope_bench.logs.charts.values import plot_values
from ope_bench.logs.result_tables import notebook_html
from ope_bench.plugins.requirements import import_all
from ope_bench.report.text.renderers.terminal import render_text

__all__ = ["Advice"]


class Advice(AdviceValues):
    """The result of `advise`; shown, it is three tables."""

    def to_pandas(self) -> Any:
        """Return one row for each candidate as a pandas DataFrame."""
        import_all(["pandas"])
        import pandas as pd

        return pd.DataFrame(self.ranked())

    def plot(self) -> Any:
        """Return the candidates' values and intervals as an Altair chart, the chosen one marked.

        Raises
        ------
        UsageError : the extra ``report`` is not installed.
        """
        chosen = self.recommended.label if self.recommended is not None else None
        return plot_values(self.rows, self.logging_average, self.target, chosen)

    def __repr__(self) -> str:
        return "\n\n".join(render_text(table).rstrip() for table in advice_tables(self))

    def _repr_html_(self) -> str:
        return notebook_html(advice_tables(self))
