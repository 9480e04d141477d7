"""All that follows from a status follows from its one definition."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from ope_bench.report.page.html import SEVERITY
from ope_bench.store import Store
from ope_bench.trials.status import Severity, Status
from support.paths import ROOT


def test_a_run_breaks_on_failures_and_on_no_other_outcome() -> None:
    assert {status.value for status in Status if status.broken} == {
        "error",
        "nonfinite",
        "timeout",
        "memory",
        "crash",
    }


def test_severity_orders_results_failures_and_trials_that_did_not_run() -> None:
    assert Status.OK.severity < Status.POSITIVITY.severity < Status.ERROR.severity
    assert len({status.severity for status in Status if status.broken}) == 1
    assert max(Status, key=lambda status: status.severity) is Status.UNAVAILABLE
    assert [status for status in Status if not status.tried] == [Status.UNAVAILABLE]


def test_a_limit_is_named_as_the_option_that_raises_it() -> None:
    assert {status.value: status.limit for status in Status if status.limit} == {
        "timeout": "timeout",
        "memory": "memory",
    }
    assert not any(status.is_answer for status in Status if status.limit)


@pytest.mark.parametrize("status", Status)
def test_two_stores_conflict_only_where_both_hold_an_answer(
    status: Status, tmp_path: Path, record: Any
) -> None:
    other = Status.ERROR if status is Status.OK else Status.OK
    for name, word in (("here", status), ("there", other)):
        with Store.open(tmp_path / name, write=True) as store:
            run = store.begin_run(suite="quick", truth="expected")
            store.add(record(status=word), run)
    with (
        Store.open(tmp_path / "here", write=True) as here,
        Store.open(tmp_path / "there") as there,
    ):
        assert len(here.conflicts(there)) == status.is_answer


def test_the_page_of_commands_names_the_outcomes_that_break_a_run() -> None:
    text = (ROOT / "bench" / "docs" / "cli.md").read_text(encoding="utf-8")
    (listed,) = re.findall(r"\| 3 \| `run`: trials ended in (.*?) \(", text)
    assert set(re.split(", | or ", listed)) == {s.value for s in Status if s.broken}


def test_the_page_has_a_style_for_every_severity() -> None:
    style = files("ope_bench.report.page").joinpath("page.css").read_text(encoding="utf-8")
    for severity in Severity:
        assert re.search(rf"\.{SEVERITY[severity]}\b[^}}]*{{ color:", style), severity
