"""Estimates at the ends of what a double holds are rows of every board, file and comparison."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ope_bench.cli.app import invoke
from ope_bench.logs.problem import effective_size
from support.paths import SUPPORT, TINY_PLUGINS
from support.small_logs import LOG_FILE, log_of_columns, write_csv

EXTREME = f"{SUPPORT / 'extreme_plugins.py'}:Extreme"

SETTINGS = (
    *("value: 1e+200", "value: 1.7e+308", "value: -1.7e+308", "value: 5e-324"),
    *("standard_error: 1e+308", "weight: 1e+308", "weight: 1e+154", "weight: 1e+152"),
    *("diagnostic: 1.7e+308", "power: 308", "fallback: 1.7e+308", "fallback: -1.7e+308"),
)

READERS: dict[str, tuple[str, ...]] = {
    **{
        by: ("leaderboard", "--by", by)
        for by in ("rmse", "positivity", "time", "ratio", "balance", "selection", "regret")
    },
    **{form: ("leaderboard", "--format", form) for form in ("json", "markdown", "csv", "latex")},
    "report": ("report", "-o", "report.html"),
    "csv-file": ("export", "--to", "trials.csv"),
    "jsonl-file": ("export", "--to", "trials.jsonl"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a suite of extreme estimators, which has run."""
    place = tmp_path_factory.mktemp("extreme")
    rows = "".join(f'  - "{EXTREME}": {{{one}}}\n' for one in SETTINGS)
    (place / "extreme.yaml").write_text(
        "schema: 1\ntitle: Extreme numbers\nreplicates: 4\n"
        f'environments:\n  - "{TINY_PLUGINS}:Coins"\n'
        f'estimators:\n{rows}  - "{TINY_PLUGINS}:Average"\n'
    )
    done = ope_bench(place, "run", "extreme.yaml", "--jobs", "1", "--store", "s.sqlite")
    assert done.returncode == 0, done.stderr
    return place


@dataclass(frozen=True)
class Said:
    """What one command line answered."""

    returncode: int
    stdout: str
    stderr: str


def ope_bench(place: Path, *arguments: str) -> Said:
    """Run one command line, whose warnings are errors here and in its workers."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(place),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.MonkeyPatch.context() as patch,
    ):
        # A warning made an error in a worker is an error of its trial.
        patch.setenv("PYTHONWARNINGS", "error::RuntimeWarning")
        return Said(invoke([*arguments]), out.getvalue(), err.getvalue())


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_shows_them_without_a_warning(reader: str, folder: Path) -> None:
    done = ope_bench(folder, *READERS[reader], "--store", "s.sqlite")
    assert (done.returncode, done.stderr.count("Warning")) == (0, 0), done.stderr


def test_a_second_run_reuses_them(folder: Path) -> None:
    arguments = ("extreme.yaml", "--jobs", "1", "--store", "s.sqlite", "--format", "json")
    done = ope_bench(folder, "run", *arguments)
    told = json.loads(done.stdout)
    assert (told["exit_code"], told["executed"]) == (0, 0), done.stderr
    assert told["reused"] == 4 * (len(SETTINGS) + 1)


def test_the_rmse_of_a_huge_error_is_its_size(folder: Path) -> None:
    done = ope_bench(folder, *READERS["json"], "--store", "s.sqlite")
    (board,) = json.loads(done.stdout)["boards"]
    by_value = {row["params"].get("value"): row["rmse"] for row in board["rows"]}
    assert by_value[1e200] == pytest.approx(1e200)
    assert by_value[-1.7e308] == pytest.approx(1.7e308)


def test_they_can_be_compared_and_gated(folder: Path) -> None:
    saved = ("--suite", "extreme.yaml", "--store", "s.sqlite")
    for command in (
        ("compare", "s.sqlite", "s.sqlite"),
        ("baseline", "save", "b.json", *saved),
        ("baseline", "show", "b.json"),
        ("gate", "b.json", "--jobs", "1", "--store", "gate.sqlite"),
    ):
        done = ope_bench(folder, *command)
        assert (done.returncode, done.stderr.count("Warning")) == (0, 0), (command, done.stderr)


def test_an_integer_that_no_double_holds_is_an_error_of_its_trial(tmp_path: Path) -> None:
    arguments = ("--replicates", "1", "--jobs", "1", "--store", "s.sqlite", "--format", "json")
    estimators = [f"{EXTREME}[power={power}]" for power in (309, 400, 5_000)]
    chosen = [word for one in estimators for word in ("--est", one)]
    done = ope_bench(tmp_path, "run", "--env", f"{TINY_PLUGINS}:Coins", *chosen, *arguments)
    assert json.loads(done.stdout)["status"]["error"] == 3, done.stderr
    assert "no double can hold" in done.stderr
    board = ope_bench(tmp_path, "leaderboard", "--store", "s.sqlite")
    assert (board.returncode, board.stderr) == (0, "")


CHANGES: tuple[dict[str, float], ...] = (
    *({"p": 1e-300, "r": 1e200}, {"p": 5e-324}, {"r": -1.7e308}),
    *({"p": 1e-300}, {"p": 3e-308}, {"r": 1e200}),
)


@pytest.mark.parametrize(
    ("verb", "change"),
    [
        *(("log check", change) for change in CHANGES),
        # They fit models, which takes a second; what they read is the same.
        *product(("estimate", "advise", "shortlist"), CHANGES[:3]),
    ],
    ids=str,
)
def test_a_log_with_one_extreme_number_is_answered(
    verb: str, change: dict[str, float], tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    action = rng.integers(3, size=200)
    columns: dict[str, list[Any]] = {
        "x": rng.integers(4, size=200).tolist(),
        "z": rng.normal(size=200).tolist(),
        "a": action.tolist(),
        "r": rng.normal(action).tolist(),
        "p": [1 / 3] * 200,
        "q": np.array([0.5, 0.25, 0.25])[action].tolist(),
        "u": [1 / 3] * 200,
    }
    for name, value in change.items():
        columns[name][7] = value
    write_csv(tmp_path / "d.csv", columns)
    text = LOG_FILE.replace("x0, x1", "x, z")
    (tmp_path / "log.yaml").write_text(
        text.replace("{probability: q}", "\n  new: {probability: q}\n  other: {probability: u}")
    )
    arguments = ["--est", "ipw", "--est", "ipws"] if verb == "estimate" else []
    done = ope_bench(tmp_path, *verb.split(), "log.yaml", *arguments)
    refused = change.get("p") == 5e-324  # one over it is no number
    # An estimator whose own sums overflow warns, which is an error of its trial here.
    assert done.returncode in ((2,) if refused else (0, 3)), done.stderr
    assert ("line 9, column 'p'" in done.stderr) == refused, done.stderr
    assert "Traceback" not in done.stderr


def test_effective_sample_sizes_do_not_depend_on_the_unit_of_the_weights() -> None:
    rng = np.random.default_rng(0)
    columns = {"x": rng.normal(size=9), "a": np.arange(9) % 3, "r": rng.normal(size=9)}
    columns |= {"p": np.full(9, 0.5), "q": rng.random(9)}
    weights = columns["q"] / 0.5
    expected = weights.sum() ** 2 / np.square(weights).sum()
    for scale in (1.0, 2.0**-900):
        log = log_of_columns(columns | {"p": columns["p"] * scale}, target="q")
        assert effective_size(log, "target") == expected
    assert effective_size(log_of_columns(columns | {"q": np.zeros(9)}, target="q"), "target") == 0


def test_the_share_of_a_column_that_explains_the_reward_does_not_depend_on_its_unit() -> None:
    rng = np.random.default_rng(0)
    x = np.arange(60) % 4
    reward, half = x + rng.normal(size=60), np.full(60, 0.5)
    columns = {"x": x, "a": np.arange(60) % 3, "p": half, "q": half}
    found = []
    for scale in (1.0, 2.0**700):
        log = log_of_columns(columns | {"r": reward * scale}, target="q")
        found += [one.value for one in log.check().findings if "variance" in one.message]
    assert found[0] == found[1] > 0.3
