"""The option --columns: exactly these columns in every format, those of plugins among them."""

import csv
import io
import json
import sys

import pytest

from ope_bench.boards.built_in_columns import COLUMNS, GROUP, LAYOUTS, column_registry
from ope_bench.boards.over_settings import SelectionBoard
from support.distributions import write_distribution

PLUGIN = """
from ope_bench import BoardColumn

thrice = BoardColumn(key="thrice", explanation="three times the RMSE",
                     value=lambda row: 3 * row.rmse.value, boards=("rmse",))
"""


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    """One column of a plugin, and a broken one."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    points = {"thrice": "thrice", "broken": "absent"}
    write_distribution(folder, "acme-thrice", GROUP, points, PLUGIN)
    column_registry.cache_clear()
    yield
    column_registry.cache_clear()
    sys.modules.pop("acme_thrice", None)


@pytest.fixture
def shown(cli, tiny):
    """Print the board of a store with two estimators on two settings."""
    run = cli(
        *("run", "--env", tiny("Coins[bias=[0.2,0.8]]")),
        *("--est", tiny("Average[shift=[0.0,0.1]]")),
        *("--replicates", "4", "--executor", "inprocess"),
    )
    assert run.code == 0
    return lambda *arguments: cli("leaderboard", *arguments)


def test_text_has_exactly_these_columns_in_this_order(shown):
    told = shown("--columns", "estimator,bias,rmse")
    heads = [line.split() for line in told.out.splitlines() if line.startswith("estimator")]
    assert heads == [["estimator", "bias", "RMSE"]] * 2
    assert "interval" not in told.out
    assert "access:" not in told.out


def test_no_column_is_left_out_however_narrow_the_terminal(shown, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    keys = ["estimator", "bias", "rmse", "score", "median_absolute_error", "sd", "worst", "cvar"]
    lines = shown("--columns", ",".join(keys)).out.splitlines()
    head = next(line for line in lines if line.startswith("estimator"))
    assert head.split() == [COLUMNS[key].title for key in keys]


def test_csv_has_exactly_these_keys_in_full_precision(shown):
    told = shown("--columns", "setting,rmse,label,access,rmse_interval", "--format", "csv")
    lines = list(csv.DictReader(io.StringIO(told.out)))
    whole = list(csv.DictReader(io.StringIO(shown("--format", "csv").out)))
    assert list(lines[0]) == ["setting", "rmse", "label", "access", "rmse_interval"]
    assert [line["rmse"] for line in lines] == [line["rmse"] for line in whole]
    assert {line["setting"] for line in lines} == {"coins bias=0.2", "coins bias=0.8"}


@pytest.mark.parametrize(("form", "sign"), [("markdown", " | "), ("latex", " & ")])
def test_documents_have_exactly_these_columns(shown, form, sign):
    out = shown("--columns", "rmse,estimator", "--format", form).out
    assert f"RMSE{sign}estimator" in out
    assert sign.join(["RMSE", "estimator", ""]) not in out.replace(" |\n", "\n")


def test_a_wrong_column_is_one_line_with_a_guess_and_the_list(shown):
    told = shown("--columns", "estimator,rsme")
    assert told.code == 2
    assert told.out == ""
    (line,) = told.err.splitlines()
    assert "--columns: unknown column 'rsme'; did you mean 'rmse'? Columns: rank, " in line
    assert all(key in line for key in COLUMNS)


def test_json_takes_no_columns(shown):
    told = shown("--columns", "rmse", "--format", "json")
    assert (told.code, told.out) == (2, "")
    assert "JSON always has all columns" in told.err


def test_help_explains_the_columns_that_a_board_shows_without_a_store(cli):
    told = cli("leaderboard", "--columns", "help")
    assert told.code == 0
    words = " ".join(told.out.split())
    shown = {key for layout in LAYOUTS.values() for key in layout.shown}
    assert all(f"{key} " in words for key in shown)
    assert max(map(len, told.out.splitlines())) <= 80
    document = cli("leaderboard", "--columns", "help", "--format", "json").json
    explained = {row["key"]: row["explanation"] for row in document["rows"]}
    assert explained.keys() == shown < COLUMNS.keys()
    assert all(explained[key] == COLUMNS[key].explanation for key in shown)


def test_help_by_selection_explains_the_columns_of_choices(cli):
    document = cli(
        "leaderboard", "--by", "selection", "--columns", "help", "--format", "json"
    ).json
    keys = [one.key for one in SelectionBoard.columns if one.key in SelectionBoard.layout]
    assert [row["key"] for row in document["rows"]] == keys


def test_selection_boards_take_columns_too(cli, tiny):
    assert (
        "unknown column 'rmse'" in cli("leaderboard", "--by", "selection", "--columns", "rmse").err
    )


def test_a_plugins_column_is_shown_everywhere_and_a_broken_one_costs_a_line(
    plugins, shown, caplog
):
    column_registry.cache_clear()
    caplog.clear()
    assert "thrice" in shown("--boards").out
    (line,) = caplog.messages
    assert line.startswith("column 'broken' (acme-thrice 1.2, acme_thrice:absent) left out: ")
    assert "| thrice |" in shown("--format", "markdown").out
    lines = list(csv.DictReader(io.StringIO(shown("--format", "csv").out)))
    assert [float(one["thrice"]) for one in lines] == [3 * float(one["rmse"]) for one in lines]
    assert "thrice" not in shown("--by", "positivity").out
    assert "thrice" in shown("--by", "positivity", "--columns", "estimator,thrice").out
    assert "thrice" not in json.dumps(shown("--format", "json").json)
    assert "three times the RMSE" in shown("--columns", "help").out


def csv_rows(said):
    return list(csv.DictReader(io.StringIO(said.out)))


def exported(cli, tmp_path):
    cli("export", "--to", "all.jsonl")
    lines = (tmp_path / "all.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_mean_squares_and_relative_errors_are_means_over_data_sets(shown, cli, tmp_path):
    rows = csv_rows(shown("--columns", "est_shift,env_bias,mse,relative_ee", "--format", "csv"))
    trials = exported(cli, tmp_path)
    assert len(rows) == 4
    for row in rows:
        own = [
            one
            for one in trials
            if one["params"]["shift"] == float(row["est_shift"])
            and one["environment_params"]["bias"] == float(row["env_bias"])
        ]
        errors = [one["estimate"] - one["truth_expected"] for one in own]
        truths = [one["truth_expected"] for one in own]
        assert float(row["mse"]) == pytest.approx(sum(e * e for e in errors) / 4)
        relative = [abs(e / v) for e, v in zip(errors, truths, strict=True)]
        assert float(row["relative_ee"]) == pytest.approx(sum(relative) / 4)


def test_an_average_is_over_all_data_sets_of_a_parameter(shown, cli, tmp_path):
    found = shown("--average", "bias", "--format", "json").json["boards"]
    (board,) = [one for one in found if one["truth"] == "expected"]
    assert "bias" not in board["environment_params"]
    trials = exported(cli, tmp_path)
    for row in board["rows"]:
        own = [one for one in trials if one["params"] == row["params"]]
        errors = [one["estimate"] - one["truth_expected"] for one in own]
        assert row["replicates"] == len(own) == 8
        assert row["rmse"] ** 2 == pytest.approx(sum(e * e for e in errors) / 8)


def test_an_average_over_no_parameter_is_refused(shown):
    told = shown("--average", "biases")
    assert told.code == 2
    assert "'bias'" in told.err
