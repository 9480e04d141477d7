"""Commands and code on the pages are run: here, by another test, or it is said why not."""

from __future__ import annotations

import csv
import re
import runpy
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ope_bench import check_log_format
from ope_bench.logs.log_file import read_log_file
from support.paths import ROOT

if TYPE_CHECKING:
    from bench.cli.conftest import Cli

BLOCK = re.compile(r"^```(sh|python|yaml)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
DOCS = ROOT / "bench" / "docs"

RUN_BY = {
    "README": "tests/bench/cli/test_readme_commands.py",
    "run": "tests/bench/cli/test_readme_commands.py",
    "gate": "tests/bench/cli/test_readme_commands.py",
    "clusters": "tests/bench/cli/test_readme_commands.py",
    "own-logs": "tests/bench/cli/test_readme_own_log.py",
    "own-log-tables": "tests/bench/cli/test_readme_own_log.py",
    "large-logs": "tests/bench/logs/test_streamed.py",
    "suites": "tests/test_project_files.py",
    "write-an-estimator": "tests/bench/cli/scaffold/test_new_package_to_leaderboard.py",
    "write-an-environment": "tests/bench/cli/scaffold/test_new_package_to_leaderboard.py",
}
"""Pages whose blocks another test reads and runs."""

NOT_RUN = {
    "install": "pip and the build of the site, which the jobs of CI run",
    "enter-the-leaderboard": "git and pip change the checkout; test_submissions.py has submit",
}
"""Pages whose blocks no test runs, and why. The clusters' schedulers are not here either."""


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    return [body for kind, body in BLOCK.findall(text) if kind == language]


def run_all(page: str, cli: Cli, *more: str) -> list[str]:
    """Run the commands of a page; return what they printed."""
    lines = "".join(blocks(page, "sh")).strip().splitlines()
    printed = []
    for line in lines:
        program, *words = shlex.split(line, comments=True)
        assert program == "ope-bench"
        said = cli(*words, *more)
        assert said.code == 0, f"{line}\n{said.err}"
        printed.append(said.out)
    return printed


def _two_logs(cli: Cli, folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    columns = {
        "policy": np.repeat(["new", "old"], 200),
        "item": rng.choice(["red", "blue"], 400),
        "click": rng.integers(0, 2, 400),
        "p_new": np.full(400, 0.5),
        "p_old": np.full(400, 0.5),
    }
    pq.write_table(pa.table(columns), folder / "both.parquet")
    rows = list(zip(*columns.values(), strict=True))
    for name, half in (("new", rows[:200]), ("old", rows[200:])):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([list(columns), *half])
    files, arms = run_all("ab", cli)
    assert files.splitlines()[0] == arms.splitlines()[0]


def _suites(cli: Cli, folder: Path) -> None:
    assert all("trials" in said for said in run_all("choose", cli, "--dry-run"))


def _import(cli: Cli, folder: Path) -> None:
    (code,) = blocks("log-import", "python")
    (folder / "shop.py").write_text(code, encoding="utf-8")
    made = runpy.run_path(str(folder / "shop.py"))["Shop"]
    check_log_format(made())
    example = cli("log", "import", "growthbook", "export.jsonl", "-o", "invented", "--example")
    assert example.code == 0, example.err
    run_all("log-import", cli)


def _propensities(cli: Cli, folder: Path) -> None:
    (code,) = blocks("log-propensities", "python")
    *before, last = code.strip().splitlines()
    names: dict[str, object] = {}
    exec("\n".join(before), names)
    call, _, shown = last.partition("  # ")
    expected = [float(one) for one in shown.split(", ")]
    assert eval(call, names) == pytest.approx(expected, abs=1e-6)


def _all_keys(cli: Cli, folder: Path) -> None:
    (text,) = blocks("own-log-file", "yaml")
    (folder / "log.yaml").write_text(text, encoding="utf-8")
    for name in re.findall(r"\w+\.(?:csv|parquet)", text):
        (folder / name).touch()
    assert read_log_file(folder / "log.yaml").largest_unit == 50


def _several_policies(cli: Cli, folder: Path) -> None:
    assert cli("log", "example", ".").code == 0
    log = (folder / "shop.yaml").read_text(encoding="utf-8")
    policies = "target: {new: {table: target.csv}, bold: {table: bold.csv}}"
    both = re.sub(r"^target:.*", policies, log, flags=re.MULTILINE)
    assert both != log
    (folder / "shop.yaml").write_text(both, encoding="utf-8")
    lines = (folder / "target.csv").read_text(encoding="utf-8").splitlines()
    (folder / "bold.csv").write_text("\n".join(lines), encoding="utf-8")
    shortlist, by_device = run_all("own-log-checks", cli)
    assert "unresolved" in shortlist or "certified" in shortlist
    assert "phone" in by_device


HERE: dict[str, Callable[[Cli, Path], None]] = {
    "ab": _two_logs,
    "choose": _suites,
    "log-import": _import,
    "log-propensities": _propensities,
    "own-log-file": _all_keys,
    "own-log-checks": _several_policies,
}
"""Pages whose blocks are run here, by what makes their files and looks at what they print."""


def test_every_page_with_code_is_run_or_says_why_not() -> None:
    pages = {"README": ROOT / "README.md"} | {path.stem: path for path in DOCS.glob("*.md")}
    code = {name for name, path in pages.items() if BLOCK.search(path.read_text("utf-8"))}
    assert code - {*RUN_BY, *NOT_RUN, *HERE} == set()
    assert {*RUN_BY, *NOT_RUN, *HERE} - code == set()
    for page, test in RUN_BY.items():
        text = (ROOT / test).read_text(encoding="utf-8")
        assert page in text, f"{test} does not read {page}"


@pytest.mark.slow
@pytest.mark.parametrize("page", HERE)
def test_the_commands_and_the_code_of_a_page_work(page: str, cli: Cli, tmp_path: Path) -> None:
    HERE[page](cli, tmp_path)
