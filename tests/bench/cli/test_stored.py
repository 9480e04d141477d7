"""What is stored: boards, exports, merged and foreign stores."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from bench.cli.conftest import Cli

Tiny = Callable[[str], str]


def test_a_leaderboard_shows_the_newest_run_and_with_all_the_store(cli: Cli, tiny: Tiny) -> None:
    for size, name in ((5, "Average"), (6, "Missing")):
        cli(
            *("run", "--env", tiny(f"Coins[n_samples={size}]"), "--est", tiny(name)),
            *("--replicates", "2", "--executor", "inprocess"),
        )
    newest, whole = cli("leaderboard"), cli("leaderboard", "--all")
    assert "shown: the newest run; --all shows 1 other run too" in newest.err
    assert "has an RMSE" not in newest.out
    assert "missing" in newest.out
    assert "RMSE by n_samples" in whole.out
    assert "Only average has an RMSE" in whole.out
    assert not whole.err
    assert len(cli("leaderboard", "--format", "json").json["boards"]) == 2


def test_boards_of_a_store_follow_their_filters(cli: Cli, run: Callable[..., Any]) -> None:
    run("Average[shift=[0,1]]", "Missing", environment="Coins[n_samples=[5,6]]")
    boards = cli("leaderboard", "--format", "json").json
    assert boards["schema"] == 1
    assert len(boards["boards"]) == 2
    first = boards["boards"][0]
    promised = "by environment environment_params environment_origin truth truth_se rows"
    assert set(promised.split()) <= set(first)
    promised = (
        "rank estimator label params access device origin replicates finite rmse rmse_low"
        " rmse_high heavy_tailed log10_rmse score imputed bias sd median_absolute_error tied"
        " status positivity_rate failure_rate unsupported_mass observed_unsupported_mass"
        " ess_fraction max_weight_share fit_seconds estimate_seconds"
    )
    assert set(promised.split()) <= set(first["rows"][0])
    few = ("leaderboard", "--env", "coins[n_samples=5]", "--est", "average", "--format", "json")
    chosen = cli(*few).json["boards"]
    assert [len(board["rows"]) for board in chosen] == [2]
    told = "no run of suite 'other' in ope-bench.sqlite; it holds adhoc"
    for verb in (("leaderboard",), ("export", "--to", "other.csv"), ("report", "-o", "o.html")):
        refused = cli(*verb, "--suite", "other")
        assert (refused.code, refused.out) == (2, "")
        assert told in refused.err
    assert not Path("other.csv").exists()
    assert cli("leaderboard", "--by", "time", "--format", "json").json["boards"] == []
    for form in ("markdown", "csv", "latex"):
        assert "average" in cli("leaderboard", "--format", form).out


def test_two_kinds_of_truth_give_two_boards(cli: Cli, tiny: Tiny, tmp_path: Path) -> None:
    for truth in ("empirical", "expected"):
        suite = {
            "schema": 1,
            "truth": truth,
            "environments": [tiny("Coins")],
            "estimators": [tiny("Average")],
            "replicates": 2,
        }
        (tmp_path / f"{truth}.yaml").write_text(json.dumps(suite))
        cli("run", f"{truth}.yaml", "--executor", "inprocess")
    boards = cli("leaderboard", "--format", "json").json["boards"]
    assert {board["truth"] for board in boards} == {"empirical", "expected"}


def test_exports_hold_the_promised_columns_and_agree(cli: Cli, run: Callable[..., Any]) -> None:
    import csv

    import pyarrow.parquet as pq

    from ope_bench.store.export import COLUMNS

    run("Average", "Broken")
    for name in ("x.csv", "x.jsonl", "x.parquet"):
        assert cli("export", "--to", name).code == 0
    lines = [json.loads(line) for line in Path("x.jsonl").read_text().splitlines()]
    table = pq.read_table("x.parquet")
    with Path("x.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(COLUMNS) == table.column_names == list(rows[0]) == list(lines[0])
    assert [row["key"] for row in rows] == table["key"].to_pylist() == [r["key"] for r in lines]
    estimates = [line["estimate"] for line in lines]
    assert table["estimate"].to_pylist() == estimates
    assert [float(row["estimate"]) if row["estimate"] else None for row in rows] == estimates
    assert {line["status"] for line in lines} == {"ok", "error"}
    assert lines[0]["environment_params"]["worlds"] == "redrawn"
    assert cli("export", "--to", "no/such/folder/x.csv").code == 2


def test_a_parquet_export_is_written_and_read_without_pyarrow(
    cli: Cli, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("Average", "Broken")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert cli("export", "--to", "x.parquet").code == 0
    again = ("export", "--store", "x.parquet", "--to")
    assert cli(*again, "y.parquet").code == cli(*again, "y.csv").code == 0
    assert cli("export", "--to", "x.csv").code == 0
    assert Path("x.csv").read_bytes() == Path("y.csv").read_bytes()


def test_a_store_can_be_merged_and_pruned(cli: Cli, run: Callable[..., Any]) -> None:
    run("Average", more=("--store", "other.sqlite"))
    run("Average[shift=1]")
    assert cli("store", "merge", "other.sqlite", "--format", "json").json["added"] == 3
    assert cli("store", "merge", "other.sqlite", "--format", "json").json["added"] == 0
    run("Average", more=("--retry", "all"))
    assert cli("store", "prune", "--format", "json").json["dropped"] == 3
    said = cli("store", "info")
    assert "run       " in said.out


def test_the_environment_names_the_store(
    run: Callable[..., Any], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPE_BENCH_STORE", "elsewhere.sqlite")
    assert run("Average").json["store"] == "elsewhere.sqlite"
    assert Path("elsewhere.sqlite").exists()
    assert len(cli("leaderboard", "--format", "json").json["boards"]) == 1


def test_a_file_that_is_no_store_is_refused_and_left_alone(run: Callable[..., Any]) -> None:
    Path("notes.txt").write_text("not a store\n" * 100)
    said = run("Average", more=("--store", "notes.txt"))
    assert (said.code, said.out) == (2, "")
    assert Path("notes.txt").read_text() == "not a store\n" * 100


@pytest.mark.parametrize(
    ("option", "given", "meant"),
    [("--est", "ipss", "ips"), ("--env", "saito-toi", "saito-toy"), ("--est", "drr", "dr")],
)
def test_a_misspelled_filter_is_named(
    cli: Cli, run: Callable[..., Any], option: str, given: str, meant: str
) -> None:
    run("Average", environment="Coins[n_samples=5]")
    told = cli("leaderboard", option, given)
    assert told.code == 2
    assert f"'{given}'" in told.err
    assert f"did you mean '{meant}'" in told.err
    assert cli("leaderboard", option, meant).code == 0
