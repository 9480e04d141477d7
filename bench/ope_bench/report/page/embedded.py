"""Which trials a page holds, and what it says of the others."""

from __future__ import annotations

import itertools

from ope_bench.report.content import ReportData

__all__ = ["MOST_TRIALS", "embedded_settings", "left_out"]

MOST_TRIALS = 150_000
"""Most trials in a page: about 7 MB. Boards and their figures are always of all trials."""


def embedded_settings(content: ReportData) -> int:
    """Return how many settings, in the page's order, have at most `MOST_TRIALS` trials together.

    A setting's trials are in the page all or not at all, so that no chart shows a part of them.
    """
    counted = itertools.accumulate(_sizes(content))
    return sum(total <= MOST_TRIALS for total in counted)


def left_out(content: ReportData) -> str:
    """Say which trials the page does not hold and where they are; empty if it holds all."""
    sizes, shown = _sizes(content), embedded_settings(content)
    if shown == len(sizes):
        return ""
    return (
        f"The boards are of all {sum(sizes):,} trials. The trials themselves are in this page for "
        f"the first {shown:,} of {len(sizes):,} settings, {sum(sizes[:shown]):,} trials. "
        f"`ope-bench export --store {content.store} --to trials.csv` writes all of them; "
        "`ope-bench report` with --suite or --run makes a page of some."
    )


def _sizes(content: ReportData) -> list[int]:
    """Return the number of trials of each setting."""
    return [setting.size for setting in content.settings]
