import json
from dataclasses import replace
from itertools import product

import pytest

from ope_bench.boards.over_settings import selection_boards
from ope_bench.outcomes import Outcomes
from ope_bench.plugins.spec import PluginSpec
from ope_bench.trials.status import Status


def selection_boards_of(records):
    return selection_boards(Outcomes.by_setting(records))


@pytest.fixture
def policies(record):
    """Three target policies of values 1, 2 and 3 on the same logs, estimated by ``said``."""

    def make(estimator, said, replicates=2, **facts):
        made = []
        for n, estimate in zip((1, 2, 3), said, strict=True):
            for r in range(replicates):
                one = record(estimator, r, n=n, truth_expected=float(n), **facts)
                made.append(replace(one, estimate=estimate))
        return made

    return make


def test_estimators_are_ranked_by_the_regret_of_their_choice(policies):
    records = [*policies("wrong", (3.0, 2.0, 1.0)), *policies("right", (0.1, 0.2, 0.3))]
    (board,) = selection_boards_of(records)
    assert set(board.policies) == {"toy n=1", "toy n=2", "toy n=3"}
    best, worst = board.rows
    assert (best.estimator, best.regret, best.spearman, best.replicates) == ("right", 0, 1, 2)
    assert (worst.regret, worst.relative_regret, worst.kendall) == (2, 1, -1)
    # The logging average is .5: all three policies beat it, "right" adopts none of them.
    assert (best.type_one, best.type_two) == (None, 1)
    assert json.dumps(board.as_json(), allow_nan=False)


def test_policies_whose_estimate_failed_cannot_be_chosen(policies):
    records = policies("ipw", (1.0, 2.0, 9.0))
    records[-1] = replace(records[-1], status=Status.ERROR, estimate=None)
    records[-2] = replace(records[-2], status=Status.ERROR, estimate=None)
    (board,) = selection_boards_of(records)
    assert board.rows[0].regret == 1.0


def test_boards_on_other_logs_of_one_environment_can_be_told_apart(record):
    records = []
    for size, beta, replicate in product((10, 20), (0.1, 0.2), (0, 1)):
        toy = PluginSpec("environment", "toy", "toy", {"n": size, "beta": beta})
        one = record("ipw", replicate, truth_expected=beta, logging_average=1.0 / size)
        records.append(replace(one, trial=replace(one.trial, environment=toy)))
    boards = selection_boards_of(records)
    assert sorted(sorted(board.policies) for board in boards) == [
        ["toy n=10 beta=0.1", "toy n=10 beta=0.2"],
        ["toy n=20 beta=0.1", "toy n=20 beta=0.2"],
    ]


def test_settings_with_other_logs_are_no_group(policies, record):
    records = [record(n=1), record(n=2, logging_average=0.7), record(n=3, logging_average=None)]
    assert selection_boards_of(records) == []
    assert selection_boards_of([]) == []


def test_one_estimate_a_replicate_is_no_choice(policies):
    records = policies("ipw", (1.0, 2.0, 3.0), replicates=1)
    only_one = [records[0]] + [
        replace(one, status=Status.CRASH, estimate=None) for one in records[1:]
    ]
    (board,) = selection_boards_of(only_one)
    assert (board.rows[0].replicates, board.rows[0].regret) == (0, None)


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "csv"])
def test_boards_render_in_every_format(policies, form):
    from ope_bench.report.boards import render

    found = selection_boards_of(policies("a_b", (3.0, 2.0, 1.0)))
    text = render(found, form)
    assert text.count("\n") > 1
    assert max(map(len, text.splitlines())) <= 80 or form != "text"
    assert render([], form) == ""
