"""Tables along one parameter of the environment, and parameters as columns."""

from __future__ import annotations

import csv
import io

import pytest

from ope_bench.base.errors import UsageError
from ope_bench.boards.built_in_columns import select_columns
from ope_bench.boards.columns import parameter_column
from ope_bench.boards.leaderboard import boards
from ope_bench.plugins.spec import PluginSpec
from ope_bench.report.boards import (
    parameter_sweeps,
    render,
    sweep_json,
    sweep_table,
)
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status


def record(name, replicate, error, *, clip=None, **params):
    trial = Trial(
        PluginSpec("environment", "toy", "toy", params),
        PluginSpec("estimator", name, name, {"clip": clip}),
        replicate,
    )
    ok = error is not None
    return TrialRecord(
        trial,
        "digest",
        Status.OK if ok else Status.POSITIVITY,
        estimate=1.0 + error if ok else None,
        truth_expected=1.0,
        truth_expected_se=0.0,
        truth_empirical=1.0,
        logging_average=0.5,
        origin="acme 1",
        environment_origin="acme 1",
        access=("samples",),
    )


@pytest.fixture
def found():
    """One sweep of n with noise 1, one with noise 2; noise 3 at one n only."""
    return boards(
        [
            record(name, r, error, n=n, noise=noise)
            for n, noise in ((100, 1), (20, 1), (3, 1), (20, 2), (3, 2), (3, 3))
            for name, error in (("good", 0.01 * n), ("bad", 0.02 * n if n < 100 else None))
            for r in range(4)
        ]
    )


def test_a_sweep_has_settings_that_differ_in_the_parameter_alone(found):
    sweeps = parameter_sweeps(found, "n")
    assert [[value for value, _ in sweep.at] for sweep in sweeps] == [[3, 20, 100], [3, 20]]
    assert [sweep.fixed for sweep in sweeps] == [{"noise": 1}, {"noise": 2}]


def test_its_cells_are_scores_with_failures(found):
    table = sweep_table(parameter_sweeps(found, "n")[0])
    assert [column.title for column in table.columns] == ["estimator", "3", "20", "100"]
    texts = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert texts == {
        "good": ["0.0300", "0.200", "1.00"],
        "bad": ["0.0600", "0.400", "!100%"],
    }
    assert table.title == "toy noise=1 | RMSE by n | expected truth | 4 replicates"
    assert any("share of trials that failed" in note for note in table.notes)


def test_its_cells_can_hold_other_figures(found):
    columns = select_columns(["rmse", "bias", "replicates"])
    table = sweep_table(parameter_sweeps(found, "n")[1], columns)
    assert [cell.text for cell in table.rows[0][1:]] == ["0.0300 0.0300 4", "0.200 0.200 4"]


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
def test_every_format_shows_every_value_of_a_sweep(found, form):
    text = render(parameter_sweeps(found, "n"), form)
    for value in ("0.0300", "0.200", "0.400"):
        assert value in text


def test_csv_is_one_line_for_each_estimator_and_value(found):
    text = render(parameter_sweeps(found, "n"), "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 2 * (3 + 2)
    values = {(row["label"], row["env_n"]): row["rmse"] for row in rows[:6]}
    assert float(values["good", "20"]) == pytest.approx(0.2)
    assert values["bad", "100"] == ""


def test_json_has_the_boards_by_value(found):
    document = sweep_json(parameter_sweeps(found, "n"))
    first = document["sweeps"][0]
    assert (document["schema"], first["parameter"], first["fixed"]) == (1, "n", {"noise": 1})
    assert [one["value"] for one in first["at"]] == [3, 20, 100]
    assert first["at"][1]["rows"][0]["rmse"] == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("parameter", "words"),
    [
        ("noize", "no environment has a parameter 'noize'; did you mean 'noise'?"),
        ("x", "no environment has a parameter 'x' (there are n, noise)"),
    ],
)
def test_an_unknown_parameter_is_told(found, parameter, words):
    with pytest.raises(UsageError) as error:
        parameter_sweeps(found, parameter)
    assert words in str(error.value)


def test_a_parameter_that_nothing_varies_alone_is_told(found):
    chosen = ({"n": 3, "noise": 1}, {"n": 20, "noise": 2})
    apart = [board for board in found if board.environment_params in chosen]
    assert len(apart) == 2
    with pytest.raises(UsageError, match="no two settings differ in 'noise' alone; n, noise vary"):
        parameter_sweeps(apart, "noise")


def test_parameters_are_columns_of_csv():
    both = [(n, clip) for n in (1, 2) for clip in (5, None)]
    records = [record("a", r, 0.1, clip=clip, n=n) for n, clip in both for r in (0, 1)]
    records += [record("b", r, 0.1, n=3, other="x") for r in (0, 1)]
    rows = list(csv.DictReader(io.StringIO(render(boards(records), "csv"))))
    assert [row["env_n"] for row in rows] == ["1", "1", "2", "2", "3"]
    assert sorted(row["est_clip"] for row in rows) == ["", "", "", "5", "5"]
    assert {row["env_other"] for row in rows} == {"", "x"}


def test_other_keys_are_no_parameters():
    assert parameter_column("rmse") is None
    assert parameter_column("env_") is None
    assert parameter_column("env_n_actions").title == "n actions"
