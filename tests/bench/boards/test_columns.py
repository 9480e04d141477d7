"""The registry of columns: built-in ones, those of plugins, and what goes wrong with them."""

import json
import logging
import math
import sys

import pytest

from ope_bench.base.errors import ParameterError, UsageError
from ope_bench.boards.board import Row, Withheld
from ope_bench.boards.built_in_columns import (
    COLUMNS,
    GROUP,
    JSON_COLUMNS,
    LAYOUTS,
    ColumnRegistry,
    as_json,
    has_doubtful_weights,
    row_warnings,
    select_columns,
)
from ope_bench.boards.columns import BoardColumn
from ope_bench.boards.leaderboard import boards
from ope_bench.contracts.plugins import STANDARD_ERROR_WITHHELD
from ope_bench.statistics.weight_checks import (
    DOUBTFUL_WEIGHTS,
    LARGEST_SHARE,
    SMALLEST_MEAN,
)
from ope_bench.trials.status import Status
from support.distributions import write_distribution

MODULE = """
from ope_bench import BoardColumn

bandwidth = BoardColumn.from_diagnostic("bandwidth", title="h", boards=("rmse",))
share = BoardColumn(
    key="bias_share",
    explanation="bias over RMSE",
    value=lambda row: row.errors.bias / row.rmse.value,
    format="percent",
    boards=("rmse", "time"),
)
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put a distribution on sys.path, as pip would leave it; gives a registry that sees it."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(name="acme-columns", source=MODULE, **points):
        write_distribution(tmp_path, name, GROUP, points, source)
        return ColumnRegistry()

    yield make
    for module in [name for name in sys.modules if name.startswith("acme_")]:
        del sys.modules[module]


@pytest.fixture
def board(record):
    """A board of two rows, one of which has a diagnostic."""
    records = [
        record("a", 0, 0.1, diagnostics={"bandwidth": 1.0}),
        record("a", 1, 0.3, diagnostics={"bandwidth": 4.0}),
        record("b", 0, 0.2),
    ]
    return boards(records)[0]


def test_every_column_reads_every_row_whatever_is_missing(record, normal_row):
    records = [
        *normal_row("good", diagnostics={"log_ratio_rmse": 0.1, "auc": 0.6}),
        *(record("broken", r, status=Status.CRASH) for r in range(3)),
        record("absent", status=Status.UNAVAILABLE),
    ]
    (found,) = boards(records)
    for column in COLUMNS.values():
        values = [column.value(found if column.of_board else row) for row in found.rows]
        assert json.dumps(values, allow_nan=False), column.key


def test_every_key_of_the_layouts_is_a_column():
    for layout in LAYOUTS.values():
        keys = [*layout.shown, *layout.further, layout.headline, layout.measure]
        assert set(keys) <= set(COLUMNS)
        assert len(set(layout.shown + layout.further)) == len(layout.shown + layout.further)


def test_every_column_is_explained_and_its_mark_is_a_flag():
    for column in COLUMNS.values():
        assert column.explanation
        assert not column.explanation.endswith(".")
        if column.mark:
            assert COLUMNS[column.mark.flag].format == "flag"


def test_json_has_the_keys_of_its_columns_in_their_order(board):
    told = as_json(board)
    assert [list(row) for row in told["rows"]] == [[c.key for c in JSON_COLUMNS]] * 2


def test_a_row_has_doubtful_weights_by_its_mean_share_or_by_its_median_mean(record):
    beyond, under = math.nextafter(LARGEST_SHARE, 1), math.nextafter(SMALLEST_MEAN, 0)
    cases = {
        "share": (beyond, 1.0, True),
        "mean": (0.01, under, True),
        "neither": (LARGEST_SHARE, SMALLEST_MEAN, False),
        "no weights": (None, None, False),
    }
    records = [
        record(name, r, max_weight_share=share, diagnostics={"mean_weight": mean})
        for name, (share, mean, _) in cases.items()
        for r in range(2)
    ]
    # One odd replicate of three does not make a row doubtful by its mean weight.
    records.append(record("neither", 2, max_weight_share=0.0, diagnostics={"mean_weight": 0.1}))
    (board,) = boards(records)
    marked = {row.estimator: has_doubtful_weights(row) for row in board.rows}
    assert marked == {name: doubtful for name, (_, _, doubtful) in cases.items()}
    assert {row.estimator for row in board.rows if DOUBTFUL_WEIGHTS in row_warnings(row)} == {
        "share",
        "mean",
    }
    assert {line["estimator"] for line in as_json(board)["rows"] if line["warnings"]} == {
        "share",
        "mean",
    }


def test_withheld_standard_errors_are_counted_and_their_reasons_told(record):
    why = [{STANDARD_ERROR_WITHHELD: reason} for reason in ("rare", "often", "often")]
    records = [record("a", r, diagnostics=facts) for r, facts in enumerate(why)]
    records += [record("a", 3, standard_error=0.1, diagnostics=why[0]), record("b")]
    (board,) = boards(records)
    by_id = {row.estimator: row for row in board.rows}
    assert by_id["a"].withheld == Withheld(count=3, reasons=("often", "rare"))
    assert by_id["b"].withheld == Withheld()
    (told,) = row_warnings(by_id["a"])
    assert told == "standard error withheld in 3 of 4 trials: often; rare"


def test_diagnostics_are_summed_up_over_the_replicates_that_have_them(board):
    row = next(row for row in board.rows if row.estimator == "a")
    summary = row.diagnostics["bandwidth"]
    told = (summary.count, summary.mean, summary.median, summary.minimum, summary.maximum)
    assert told == (2, 2.5, 2.5, 1.0, 4.0)
    for statistic, value in (("mean", 2.5), ("maximum", 4.0)):
        column = BoardColumn.from_diagnostic("bandwidth", statistic=statistic)
        assert {row.estimator: column.value(row) for row in board.rows} == {"a": value, "b": None}


def test_a_plugin_adds_columns_to_the_boards_that_it_names(install, board):
    registry = install(first="bandwidth", second="share")
    assert [column.key for column in registry.plugins] == ["bandwidth", "bias_share"]
    assert [column.key for column in registry.shown(board)][-2:] == ["bandwidth", "bias_share"]
    assert [column.key for column in registry.layout("time")][-1] == "bias_share"
    assert [column.key for column in registry.layout("positivity")][-1] == "access"
    values = {row.estimator: registry.columns["bandwidth"].value(row) for row in board.rows}
    assert values == {"a": 2.5, "b": None}


def test_a_column_that_no_row_has_is_left_out(install, record):
    registry = install(first="bandwidth")
    (found,) = boards([record("a")])
    assert "bandwidth" not in [column.key for column in registry.shown(found)]


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("import a_module_that_nobody_has", "x", "ModuleNotFoundError: No module named"),
        ("raise SystemExit(3)", "x", "SystemExit: 3"),
        (MODULE, "absent", "AttributeError"),
        ("x = 7", "x", "it is not an ope_bench.BoardColumn"),
        (MODULE + "x = BoardColumn(key='A b', value=len)", "x", "a key may have small letters"),
        (MODULE + "x = BoardColumn(key='rmse', value=len)", "x", "key 'rmse' is taken by ope-ben"),
        (MODULE + "bandwidth2 = bandwidth", "bandwidth2", "taken by acme-columns 1.2"),
    ],
)
def test_a_broken_column_costs_one_line_and_no_other_column(
    install, board, caplog, source, target, reason
):
    points = {"first": "bandwidth"} if "bandwidth =" in source and "x =" not in source else {}
    registry = install(source=source, **points, broken=target)
    with caplog.at_level(logging.WARNING):
        keys = [column.key for column in registry.shown(board)]
        registry.shown(board)
    assert [key for key in keys if key in LAYOUTS["rmse"].shown]
    (line,) = caplog.messages
    assert reason in line
    assert "\n" not in line
    assert "'broken' (acme-columns 1.2, acme_columns:" in line


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("row.no_such_figure", "AttributeError"),
        ("'a text'", "str, which its format 'number' cannot show"),
        ("[1.0, 2.0, 3.0]", "list"),
        ("object()", "object"),
    ],
)
def test_a_column_that_cannot_read_a_row_is_empty_and_told_of_once(
    install, board, caplog, value, kind
):
    source = f"{MODULE}\nx = BoardColumn(key='x', value=lambda row: {value}, boards=('rmse',))"
    registry = install(source=source, bad="x")
    with caplog.at_level(logging.WARNING):
        assert "x" not in [column.key for column in registry.shown(board)]
        assert [registry.columns["x"].value(row) for row in board.rows] == [None, None]
    (line,) = caplog.messages
    assert kind in line


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("__import__('numpy').float64(0.5)", 0.5),
        ("float('nan')", None),
        ("(0.1, 0.2)", (0.1, 0.2)),
        ("(0.1, float('inf'))", None),
        ("3", 3),
    ],
)
def test_values_of_plugins_are_plain_and_finite(install, board, value, read):
    source = f"{MODULE}\nx = BoardColumn(key='x', value=lambda row: {value})"
    registry = install(source=source, good="x")
    assert registry.columns["x"].value(board.rows[0]) == read


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"key": "help"}, "must not be 'help'"),
        ({"key": "Rmse"}, "small letters"),
        ({"value": 3}, "function of a row"),
        ({"format": "euros"}, "unknown format 'euros'; known: number, percent"),
        ({"boards": ("rmse", "speed")}, "unknown board 'speed'; known: rmse, positivity"),
    ],
)
def test_a_wrong_column_is_refused_with_what_is_right(facts, reason):
    with pytest.raises(ParameterError, match=reason):
        BoardColumn(**({"key": "x", "value": lambda row: 1} | facts))


def test_columns_are_selected_in_the_order_that_is_asked_for():
    keys = ["bias", "estimator", "rmse"]
    assert [column.key for column in select_columns(keys)] == keys


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["rsme"], "unknown column 'rsme'; did you mean 'rmse'. Columns: rank, estimator, "),
        (["qqqqqq"], "unknown column 'qqqqqq'. Columns: rank, estimator, "),
        ([""], "unknown column ''. Columns: rank, "),
        (["rmse", "bias", "rmse"], "column 'rmse' is named twice"),
    ],
)
def test_an_unknown_column_gets_the_nearest_key_and_the_list(keys, message):
    with pytest.raises(UsageError, match=message) as told:
        select_columns(keys)
    assert "\n" not in str(told.value)


def test_the_public_names_are_these_classes():
    import ope_bench

    assert ope_bench.BoardColumn is BoardColumn
    assert ope_bench.Row is Row
