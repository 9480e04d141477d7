from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ope_bench.base.errors import StoreError
from ope_bench.execution import machine
from ope_bench.execution.machine import worker_arithmetic
from ope_bench.store import Store

if TYPE_CHECKING:
    from bench.cli.conftest import Cli

Tiny = Callable[[str], str]


def test_the_document_of_a_run_has_the_promised_keys(run: Callable[..., Any]) -> None:
    said = run("Average")
    told = said.json
    assert said.code == 0
    promised = {"schema", "suite", "store", "planned", "reused", "executed", "status"}
    assert promised | {"seconds", "exit_code"} <= set(told)
    assert (told["schema"], told["suite"], told["store"]) == (1, "adhoc", "ope-bench.sqlite")
    assert (told["planned"], told["reused"], told["executed"]) == (3, 0, 3)
    assert told["status"]["ok"] == 3
    assert sum(told["status"].values()) == 3
    assert told["exit_code"] == 0


@pytest.mark.parametrize(
    ("estimators", "code"),
    [
        (["Average"], 0),
        (["Average", "Missing"], 0),
        (["Average", "Broken"], 3),
        (["Infinite"], 3),
    ],
)
def test_only_broken_trials_make_a_run_fail(
    run: Callable[..., Any], estimators: list[str], code: int
) -> None:
    said = run(*estimators)
    assert (said.code, said.json["exit_code"]) == (code, code)
    assert f"exit    {code}: " in said.err
    assert run(*estimators).code == code, "reused trials count, too"
    assert run(*estimators, more=("--allow-failures",)).code == 0


def test_what_is_stored_is_reused_and_retry_runs_it_again(run: Callable[..., Any]) -> None:
    run("Average", "Broken")
    again = run("Average", "Broken").json
    assert (again["reused"], again["executed"]) == (6, 0)
    failed = run("Average", "Broken", more=("--retry", "failed")).json
    assert (failed["reused"], failed["executed"]) == (3, 3)
    every = run("Average", "Broken", more=("--retry", "all")).json
    assert (every["reused"], every["executed"]) == (0, 6)
    assert run("Average", more=("--replicates", "5")).json["executed"] == 2


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "no such file or folder"),
        (os.mkfifo, "neither a file nor a folder"),
    ],
)
def test_a_wrong_input_path_is_a_usage_error(
    make: Callable[[Path], None], words: str, cli: Cli, tmp_path: Path
) -> None:
    path = tmp_path / "logs.csv"
    make(path)
    for more in ((), ("--dry-run",)):
        said = cli("run", "--env", f"logs[path={path}]", "--est", "ipw", *more)
        assert (said.code, said.out) == (2, "")
        assert said.err == f"ope-bench: environment 'logs': {path}: {words}\n"


@pytest.mark.parametrize("executor", ["inprocess", "local"])
def test_an_environment_that_cannot_be_sampled_is_no_estimators_failure(
    cli: Cli, tmp_path: Path, executor: str
) -> None:
    wrong = ("--env", f"logs[path={tmp_path}]", "--executor", executor, "--jobs", "1")
    both = ("--env", "gaussian[n_samples=50]", "--est", "ipw", "--est", "ipws")
    said = cli("run", *wrong[: 4 if executor == "inprocess" else 6], *both)
    assert (said.code, said.out) == (2, "")
    (line,) = said.err.splitlines()
    assert line.startswith("ope-bench: environment 'logs': ")
    assert "expected a file" in line
    told = cli("store", "info", "--format", "json").json
    assert [run["exit_code"] for run in told["runs"]] == [2]
    # The other environment's first data set may have been stored; of the wrong one nothing is.
    cli("export", "--to", "x.jsonl")
    assert "logs" not in Path("x.jsonl").read_text()


@pytest.mark.usefixtures("here")
def test_a_failure_tells_how_to_see_it_again(cli: Cli, run: Callable[..., Any]) -> None:
    said = run("Broken")
    assert "error     3 x broken: broken on purpose" in said.err
    (line,) = [line for line in said.err.splitlines() if "ope-bench rerun " in line]
    prefix = line.rpartition(" ")[2]
    again = cli("rerun", prefix)
    assert again.code == 3
    assert "bit-equal (same code)" in again.out
    assert "RuntimeError: broken on purpose" in again.out
    assert "spam on stdout" in again.out


def test_a_rerun_compares_and_stores_nothing(cli: Cli, run: Callable[..., Any]) -> None:
    run("Average")
    cli("export", "--to", "x.jsonl")
    first = Path("x.jsonl").read_text().splitlines()[0]
    before = cli("store", "info", "--format", "json").json
    told = cli("rerun", json.loads(first)["key"], "--format", "json").json
    assert told["bit_equal"] is True
    assert told["stored"]["estimate"] == told["fresh"]["estimate"]
    after = cli("store", "info", "--format", "json").json
    assert before == after
    assert cli("rerun", "ffffffffffff").code == 2
    assert cli("rerun", "").code == 2


def test_a_run_states_its_arithmetic_and_a_rerun_repeats_it(
    cli: Cli, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("Average", more=("--arithmetic", "native"))
    (stored,) = cli("store", "info", "--format", "json").json["runs"]
    assert stored["machine"]["arithmetic"] == worker_arithmetic("native")
    assert stored["machine"]["arithmetic"]["mode"] == "native"
    assert "native (" in cli("store", "info").out
    cli("export", "--to", "x.jsonl")
    key = json.loads(Path("x.jsonl").read_text().splitlines()[0])["key"]
    told = cli("rerun", key, "--format", "json").json
    assert (told["bit_equal"], told["same_arithmetic"], told["equal"]) == (True, True, True)
    monkeypatch.setattr(machine, "worker_arithmetic", lambda mode: {"mode": mode})
    assert cli("rerun", key, "--format", "json").json["same_arithmetic"] is False


def test_an_empty_plan_exits_with_4_and_creates_nothing(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    said = run("Average", more=("--device", "cuda"))
    assert (said.code, said.json["planned"]) == (4, 0)
    assert "the plan is empty: 1 estimator does not run on cuda: average (only cpu)" in said.err
    assert "try --device cpu" in said.err
    assert "the plan is empty" in said.json["reason"]
    assert list(tmp_path.iterdir()) == []
    foreseen = run("Average", more=("--device", "cuda", "--dry-run"))
    assert (foreseen.code, foreseen.json["reason"]) == (4, said.json["reason"])


def test_estimators_without_the_device_are_named_and_the_rest_runs(
    run: Callable[..., Any],
) -> None:
    said = run("Average", "Anywhere", more=("--device", "cuda"))
    # Where nothing could run, that is no result.
    assert (said.code, said.json["status"]["unavailable"]) == (4, said.json["planned"])
    assert "left out: 1 estimator does not run on cuda: average (only cpu)" in said.err


def test_a_missing_module_that_the_command_line_asks_for_is_refused(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    said = run("NeedsNothingThatExists")
    assert said.code == 2
    assert said.out == ""
    assert "pip install a_module_that_nobody_has" in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_missing_module_in_a_suite_leaves_the_rest_to_run(
    cli: Cli, tiny: Tiny, tmp_path: Path
) -> None:
    suite = {
        "schema": 1,
        "environments": [tiny("Coins")],
        "estimators": [tiny("NeedsNothingThatExists"), tiny("Average")],
        "replicates": 2,
    }
    (tmp_path / "mine.yaml").write_text(json.dumps(suite))
    said = cli("run", "mine.yaml", "--executor", "inprocess", "--format", "json")
    assert said.code == 0
    assert said.json["suite"] == "mine"
    assert said.json["status"]["unavailable"] == 2
    assert "will be unavailable; to install it: pip install" in said.err
    told = [line for line in said.err.splitlines() if line.startswith("unavailable")]
    assert len(told) == 1
    assert told[0].startswith("unavailable 2 x ")
    assert "reproduce:" not in said.err


def test_flags_replace_what_a_suite_says(cli: Cli, tiny: Tiny, tmp_path: Path) -> None:
    suite = {"schema": 1, "environments": [tiny("Coins")], "estimators": [tiny("Average")]}
    (tmp_path / "mine.yaml").write_text(json.dumps(suite))
    told = cli(
        *("run", "mine.yaml", "--est", tiny("Average[shift=[1,2]]"), "--replicates", "7"),
        *("--seed", "3", "--dry-run", "--format", "json"),
    ).json
    assert told["planned"] == 14
    assert [cell["estimator"] for cell in told["cells"]] == [
        tiny("Average[shift=1.0]"),
        tiny("Average[shift=2.0]"),
    ]


def test_a_dry_run_foresees_and_touches_nothing(
    run: Callable[..., Any], cli: Cli, tmp_path: Path
) -> None:
    told = run("Slow[seconds=0.05]", more=("--dry-run",)).json
    assert (told["planned"], told["stored"], told["to_run"]) == (3, 0, 3)
    assert told["predicted_seconds"] is None
    assert list(tmp_path.iterdir()) == []
    run("Slow[seconds=0.05]")
    told = run("Slow[seconds=0.05]", more=("--dry-run", "--replicates", "9")).json
    assert (told["planned"], told["stored"], told["to_run"]) == (9, 3, 6)
    assert 0.2 < told["predicted_seconds"] < 3
    assert told["exit_code"] == 0


def test_boards_of_a_run_are_printed_in_80_columns(cli: Cli, tiny: Tiny) -> None:
    said = cli(
        *("run", "--env", tiny("Coins"), "--est", tiny("Average"), "--est", tiny("Missing")),
        *("--replicates", "3", "--executor", "inprocess", "--timing"),
    )
    assert said.code == 0
    for question in ("by rmse", "by positivity", "by time"):
        assert question in said.out
    assert "store   ope-bench.sqlite" in said.err
    assert all(len(line.rstrip()) <= 80 for line in said.out.splitlines())


@pytest.mark.usefixtures("here")
def test_of_a_large_run_only_boards_by_rmse_are_printed_and_failures_are_counted(
    cli: Cli, tiny: Tiny
) -> None:
    said = cli(
        *("run", "--env", tiny("Coins[n_samples=[5,6,7,8,9]]"), "--est", tiny("Average")),
        *("--est", tiny("Missing"), "--est", tiny("Broken"), "--replicates", "2"),
        *("--executor", "inprocess", "--boards"),
    )
    assert said.code == 3
    assert said.out.count("by rmse") == 5
    assert said.out.count("RMSE by n_samples") == 1
    assert said.out.count("access: - samples only") == 1
    assert "by positivity" not in said.out
    assert "also    ope-bench leaderboard --by positivity" in said.err
    (told,) = (line for line in said.err.splitlines() if line.startswith("error "))
    assert told.startswith("error     10 x ")
    (again,) = (line for line in said.err.splitlines() if "reproduce:" in line)
    key = again.rpartition(" ")[2]
    assert "broken on purpose" in cli("rerun", key).out


def test_a_sweep_comes_first_then_findings_and_no_board_is_shown_unasked(
    cli: Cli, tiny: Tiny
) -> None:
    said = cli(
        *("run", "--env", tiny("Coins[n_samples=[5,6]]"), "--est", tiny("Average")),
        *("--est", tiny("Missing"), "--replicates", "2", "--executor", "inprocess"),
    )
    assert said.out.startswith("RMSE by n_samples")
    assert "by rmse" not in said.out
    assert "2 replicates a setting" in said.out.splitlines()[-2:][0] + said.out
    assert "also    ope-bench leaderboard --boards" in said.err
    again = cli("leaderboard")
    assert again.out == said.out
    assert cli("leaderboard", "--boards").out.count("by rmse") == 2


def test_plugins_that_print_do_not_spoil_the_document(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(
        "import os\n"
        "from ope_bench import Estimate, Estimator\n"
        "print('loud at import')\n"
        "os.system('echo loud child')\n"
        "class Loud(Estimator):\n"
        "    def estimate(self, view):\n"
        "        print('loud')\n"
        "        return Estimate(0.0)\n"
    )
    code = "from ope_bench.cli import main; main()"
    done = subprocess.run(
        [
            *(sys.executable, "-c", code, "run", "--env", "gaussian[n_samples=5]"),
            *("--est", "./loud.py:Loud", "--replicates", "1", "--jobs", "1", "--format", "json"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert json.loads(done.stdout)["status"]["ok"] == 1, done.stderr
    assert "loud child" in done.stderr


def test_workers_find_a_plugin_file_by_its_absolute_path(cli: Cli, tiny: Tiny) -> None:
    said = cli(
        *("run", "--env", tiny("Coins"), "--est", tiny("Average"), "--est", tiny("Dying")),
        *("--replicates", "2", "--jobs", "2", "--format", "json"),
    )
    assert said.code == 3
    assert said.json["status"]["ok"] == 2
    assert said.json["status"]["crash"] == 2


def stored(path: Path) -> int:
    """The records of a store that may not be there yet."""
    with contextlib.suppress(StoreError), Store.open(path) as store:
        return store.info().records
    return 0


def test_ctrl_c_exits_with_130_and_keeps_what_is_finished(tiny: Tiny, tmp_path: Path) -> None:
    code = "from ope_bench.cli import main; main()"
    command = [sys.executable, "-c", code, "run", "--env", tiny("Coins")]
    command += ["--est", tiny("Slow"), "--replicates", "200", "--jobs", "1", "--format", "json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        deadline = time.monotonic() + 120
        while not stored(tmp_path / "ope-bench.sqlite") and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
    told = json.loads(out)
    assert process.returncode == told["exit_code"] == 130, err
    assert 0 < told["executed"] < 200
    assert "run again to resume" in err


def test_what_a_run_found_is_the_last_thing_printed(tiny: Tiny, tmp_path: Path) -> None:
    words = f"--env {tiny('Coins')} --est {tiny('Average')} --replicates 2 --executor inprocess"
    done = subprocess.run(
        [sys.executable, "-m", "ope_bench", "run", *words.split()],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    ending = next(place for place, line in enumerate(lines) if line.startswith("exit "))
    assert any("2 replicates a setting" in line for line in lines[ending + 1 :])
    assert not any("2 replicates a setting" in line for line in lines[:ending])
