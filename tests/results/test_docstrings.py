"""An estimator that errs more than `ipws` on every committed board says so, and no other does."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Sequence

import pytest
from judging.trials.committed import boards_of, folders_with_boards

from ope_bench.boards.board import Row
from ope_bench.plugins.registry import registry
from support.paths import RESULTS

RIVAL = "ipws"
SENTENCE = "On every committed board with both it errs more than `IPWS`"


def _boards() -> list[Sequence[Row]]:
    """The rows of the boards of errors that have the rival."""
    boards = [board for folder in folders_with_boards(RESULTS) for board in boards_of(folder)]
    found = [board.rows for board in boards if board.by == "rmse"]
    return [rows for rows in found if any(row.estimator == RIVAL for row in rows)]


def _never_better() -> set[str]:
    """Estimators whose best row is behind the rival's on all boards that have both."""
    behind: dict[str, list[bool]] = defaultdict(list)
    for rows in _boards():
        best: dict[str, float] = {}
        for row in rows:
            if row.score is not None:
                best[row.estimator] = min(row.score, best.get(row.estimator, row.score))
        for estimator, score in best.items():
            behind[estimator].append(score > best[RIVAL])
    return {estimator for estimator, comparisons in behind.items() if all(comparisons)}


@pytest.fixture(scope="module")
def never_better() -> set[str]:
    return _never_better()


def test_some_estimators_are_compared_at_all() -> None:
    assert len(_boards()) > 40


@pytest.mark.parametrize(
    "estimator",
    [one.id for one in registry().plugins("estimator") if one.reference.startswith("ope-bench:")],
)
def test_the_docstring_says_whether_it_is_worse_everywhere(
    estimator: str, never_better: set[str]
) -> None:
    words = " ".join(inspect.getdoc(registry().find("estimator", estimator).cls).split())
    assert (SENTENCE in words) == (estimator in never_better)
