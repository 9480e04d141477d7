"""The rows of an evaluation: shown as boards, sliced as a list, read as a data frame."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self, SupportsIndex, overload

from ope_bench.boards.board import Board, By
from ope_bench.boards.leaderboard import boards
from ope_bench.contracts.data import TruthKind
from ope_bench.report.notebook.failures import failure_table
from ope_bench.report.notebook.html_table import render_html
from ope_bench.report.notebook.result_html import result_html
from ope_bench.report.text.renderers.terminal import render_text
from ope_bench.report.text.result import render_result
from ope_bench.trials.record import TrialRecord
from ope_bench.trials.status import Status

__all__ = ["Failures", "Results"]

WIDTH = 100


class _Records(list[TrialRecord]):
    """A list of records whose parts are such lists."""

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> TrialRecord: ...
    @overload
    def __getitem__(self, index: slice, /) -> Self: ...
    def __getitem__(self, index: Any, /) -> Any:
        found = super().__getitem__(index)
        return type(self)(found) if isinstance(index, slice) else found

    def __add__(self, other: Iterable[TrialRecord]) -> Self:  # type: ignore[override]
        return type(self)([*self, *other])


class Failures(_Records):
    """Records without an estimate; shown, they are a table of reasons."""

    def __repr__(self) -> str:
        if not self:
            return "no failures"
        return render_text(failure_table(self), width=WIDTH).rstrip()

    def _repr_html_(self) -> str:
        return render_html(failure_table(self)) if self else "no failures"


class Results(_Records):
    """The rows of an evaluation; shown, they are their boards, failures and findings."""

    def boards(self, by: By = "rmse", truth: TruthKind = "expected") -> list[Board]:
        """Return the leaderboards of these rows."""
        return boards(self, by=by, truth=truth)

    @property
    def failures(self) -> Failures:
        """The rows without an estimate, with reasons and what to do."""
        return Failures(one for one in self if one.status is not Status.OK)

    def to_pandas(self) -> Any:
        """Return one line for each row as a pandas DataFrame.

        Parameters that differ between rows are columns: ``env_n_actions`` of the environment,
        ``est_clip`` of the estimator; ``environment_params`` and ``params`` have all.

        Raises
        ------
        UnavailableError : pandas is not installed.
        """
        from ope_bench.api.frame import frame

        return frame(self)

    def plot(self, *, truth: TruthKind = "expected") -> Any:
        """Return an Altair chart: RMSE against the parameter that varies, or rows of one setting.

        Raises
        ------
        UsageError : the extra ``report`` is not installed, or no row has an estimate.
        """
        from ope_bench.api.plotting import plot

        return plot(self, truth)

    def __repr__(self) -> str:
        if not self:
            return "no rows"
        failures = self.failures
        parts = [render_result(self.boards(), width=WIDTH)]
        return "\n\n".join([*parts, repr(failures)] if failures else parts)

    def _repr_html_(self) -> str:
        return result_html(self.boards(), failure_table(self)) if self else "no rows"
