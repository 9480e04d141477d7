"""The result of evaluating policies on a log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ope_bench.logs.charts.values import plot_values
from ope_bench.logs.result_rows import EstimateRow, EstimateValues
from ope_bench.logs.result_tables import html, tables
from ope_bench.plugins.requirements import import_all
from ope_bench.report.text.renderers.terminal import render_text

__all__ = ["Estimates"]


class Estimates(EstimateValues):
    """The result of `estimate`; shown, it is a table for each policy."""

    def __iter__(self) -> Iterator[EstimateRow]:
        return (row for target in self.targets for row in target.rows)

    def __getitem__(self, estimator: str) -> EstimateRow:
        """Return the first row of an estimator, by id or label."""
        for row in self:
            if estimator in (row.label, row.estimator):
                return row
        raise KeyError(estimator)

    def to_pandas(self) -> Any:
        """Return one row for each policy and estimator as a pandas DataFrame."""
        import_all(["pandas"])
        import pandas as pd

        rows = [
            {"target": target.name, **asdict(row), "unsupported_mass": target.unsupported_mass}
            for target in self.targets
            for row in target.rows
        ]
        return pd.DataFrame(rows)

    def plot(self, target: str | None = None) -> Any:
        """Return values and intervals of one policy, the first by default, as an Altair chart.

        Raises
        ------
        UsageError : the extra ``report`` is not installed.
        KeyError : there is no such policy.
        """
        by_name = {one.name: one for one in self.targets}
        name = next(iter(by_name)) if target is None else target
        return plot_values(by_name[name].rows, self.logging_average, name)

    def __repr__(self) -> str:
        return "\n".join(render_text(table).rstrip() + "\n" for table in tables(self)).rstrip()

    def _repr_html_(self) -> str:
        return html(self)
