"""Nested candidates on the command line: a run, its resumption, and boards of regret."""

from __future__ import annotations

import csv
import io

import pytest

WRITTEN = "select[candidates=[ipws, 'sg-ipw[normalize=true]'],by=slope]"


@pytest.fixture
def ran(cli):
    def run():
        return cli(
            "run", "--env", "saito-toy[n_samples=[60,80]]", "--est", WRITTEN, "--est", "ipws",
            "--est", "sg-ipw[normalize=true]", "--replicates", "3", "--executor", "inprocess",
            "--format", "json",
        ).json  # fmt: skip

    return run


def test_a_run_with_nested_candidates_resumes(cli, ran):
    first, second = ran(), ran()
    assert (first["executed"], second["executed"], second["reused"]) == (18, 0, 18)
    board = cli("leaderboard", "--format", "json", "--est", WRITTEN).json["boards"][0]
    assert board["rows"][0]["params"]["candidates"] == ["ipws", "sg-ipw[normalize=true]"]


def test_regret_in_every_format(cli, ran):
    ran()
    asked = "leaderboard", "--by", "regret"
    (board,) = cli(*asked, "--format", "json").json["boards"]
    assert board["by"] == "regret"
    assert len(board["settings"]) == 2
    (row,) = (row for row in board["rows"] if row["estimator"] == "select")
    # Its candidates are the fixed choices of the board.
    assert row["own_regret"] == pytest.approx(row["regret"])
    lines = list(csv.DictReader(io.StringIO(cli(*asked, "--format", "csv").out)))
    assert [float(line["regret"]) for line in lines] == [
        pytest.approx(row["regret"], rel=1e-3) for row in board["rows"]
    ]
    assert "| select" in cli(*asked, "--format", "markdown").out
    assert "regret over 2 settings | expected truth" in cli(*asked).out
    assert "own_regret" in cli(*asked, "--columns", "help").out
    assert "unknown column 'rmse'" in cli(*asked, "--columns", "rmse").err
