"""Batched devices on the command line and in suite files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from bench.cli.conftest import Cli

from support.paths import BLOCK_PLUGINS as PLUGINS

PLACE = ("--executor", "inprocess", "--format", "json")


def test_a_batched_device_leaves_out_who_has_nothing_to_batch_and_says_so(cli: Cli) -> None:
    asked = ("--env", f"{PLUGINS}:Numbers", "--est", f"{PLUGINS}:Together")
    more = ("--est", f"{PLUGINS}:Alone", "--replicates", "2", "--device", "cpu-batch")
    said = cli("run", *asked, *more, *PLACE)
    assert (said.code, said.json["planned"], said.json["status"]["ok"]) == (0, 2, 2)
    assert "1 estimator does not run on cpu-batch" in said.err
    assert "alone (only cpu, cuda)" in said.err
    empty = cli("run", *asked[:2], *more, *PLACE)
    assert empty.code == 4
    assert "try --device cpu" in empty.err


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "both.yaml"
    path.write_text(
        f"""\
schema: 1
replicates: 3
devices: [cpu, cpu-batch]
environments: ["{PLUGINS}:Numbers"]
estimators:
  - "{PLUGINS}:Together"
  - "{PLUGINS}:Together": {{how: raise, which: 7}}
exclude:
  - {{estimator: {{how: raise}}, device: cpu}}
""",
        encoding="utf-8",
    )
    return path


def test_a_suite_names_batched_devices_and_boards_keep_them_apart(cli: Cli, suite: Path) -> None:
    said = cli("run", str(suite), *PLACE)
    assert (said.code, said.json["planned"]) == (0, 9)
    (board,) = cli("leaderboard", "--format", "json").json["boards"]
    shown = ((row["params"]["how"], row["device"], row["replicates"]) for row in board["rows"])
    assert sorted(shown) == [("", "cpu", 3), ("", "cpu-batch", 3), ("raise", "cpu-batch", 3)]
    again = cli("run", str(suite), "--replicates", "4", *PLACE).json
    assert (again["reused"], again["executed"]) == (9, 3)


def test_a_batched_trial_run_again_gives_the_same_bits(cli: Cli, suite: Path) -> None:
    cli("run", str(suite), "--device", "cpu-batch", *PLACE)
    rows = cli("export", "--to", "trials.jsonl")
    assert rows.code == 0
    lines = Path("trials.jsonl").read_text(encoding="utf-8").splitlines()
    keys = {one["device"]: one["key"] for one in map(json.loads, lines)}
    said = cli("rerun", keys["cpu-batch"][:12])
    assert said.code == 0
    assert "bit-equal (same code)" in said.out


def test_an_unknown_device_is_refused_with_those_there_are(cli: Cli, suite: Path) -> None:
    suite.write_text(suite.read_text().replace("device: cpu}", "device: gpu-batch}"))
    said = cli("run", str(suite), *PLACE)
    assert said.code == 2
    assert "cpu, cuda, cpu-batch" in said.err.replace("\n", " ")
