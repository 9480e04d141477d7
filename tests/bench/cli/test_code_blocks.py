"""Commands and code on the pages are run: here, by another test, or it is said why not."""

from __future__ import annotations

import contextlib
import csv
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
import types
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import MagicMock

import numpy as np
import pytest

from ope_bench import check_log_format
from ope_bench.logs.log_file import read_log_file
from support.paths import ROOT

if TYPE_CHECKING:
    from bench.cli.conftest import Cli

BLOCK = re.compile(r"^```(sh|python|yaml)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
DOCS = ROOT / "bench" / "docs"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

RUN_BY = {
    "README": "tests/bench/cli/test_readme_commands.py",
    "run": "tests/bench/cli/test_readme_commands.py",
    "gate": "tests/bench/cli/test_readme_commands.py",
    "own-logs": "tests/bench/cli/test_readme_own_log.py",
    "own-log-tables": "tests/bench/cli/test_readme_own_log.py",
    "large-logs": "tests/bench/logs/test_streamed.py",
    "suites": "tests/test_project_files.py",
    "write-an-estimator": "tests/bench/cli/scaffold/test_new_package_to_leaderboard.py",
    "write-an-environment": "tests/bench/cli/scaffold/test_new_package_to_leaderboard.py",
}
"""Pages whose blocks another test reads and runs."""

NOT_RUN = {
    "git clone": "the address is a placeholder",
    "pip install": "it changes the environment of the tests; its files and extras are checked",
    "python -m sphinx": "test_site.py builds the site; its options are checked",
    "dask scheduler": "test_dask.py starts schedulers and workers; its options are checked",
    "dask worker": "as dask scheduler",
    "ope-bench doctor": "test_doctor.py",
    "ope-bench run paper-actions": "test_readme_commands.py, without its trials",
    "ope-bench store merge": "test_shard.py",
    "ope-bench submit": "it needs an installed package: test_submissions.py",
    "ope-bench verify": "as ope-bench submit",
    "SLURMCluster": "it is not installed: a stand-in has its arguments, dask reads the worker's",
    "KubeCluster": "as SLURMCluster",
}
"""Commands of the pages that no test runs as they are, by their beginning, and why."""


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


def _lines(page: str) -> list[list[str]]:
    """The words of the commands of a page, one a line of it."""
    text = "".join(blocks(page, "sh")).replace(" && ", "\n")
    lines = [shlex.split(line, comments=True) for line in text.splitlines()]
    return [words[:-1] if words[-1] == "&" else words for words in lines if words]


def _check_options(words: list[str]) -> None:
    """Let a program that is not run here read its options."""
    if words[0] == "dask":
        _dask_reads(words[1:])
    elif words[0] == "pip":
        asked = re.findall(r"\[(.+)\]", words[-1])
        known = PROJECT["project"]["optional-dependencies"]
        assert {*",".join(asked).split(",")} - {""} <= {*known}, words
        assert all((ROOT / words[at + 1]).is_file() for at, one in enumerate(words) if one == "-c")
    elif words[0] == "python":
        sphinx = pytest.importorskip("sphinx.cmd.build", reason="the extra docs is not installed")
        given = sphinx.get_parser().parse_args(words[3:])
        assert (ROOT / given.confdir / "conf.py").is_file()


def _dask_reads(words: list[str]) -> None:
    name, *options = words
    main = pytest.importorskip(f"distributed.cli.dask_{name}").main
    main.make_context(name, list(options))


def _elsewhere(page: str, cli: Cli, folder: Path) -> list[list[str]]:
    """Check or run each command of a page; return those that ran."""
    ran = []
    for words in _lines(page):
        line = shlex.join(words)
        if any(line.startswith(one) for one in NOT_RUN):
            _check_options(words)
        elif words[0] == "ope-bench":
            said = cli(*words[1:])
            assert said.code == 0, said.err
            ran.append(words)
        elif words[0] == "git":
            subprocess.run(words, cwd=folder, check=True, capture_output=True)
            ran.append(words)
        else:
            assert words[0] in ("export", "cd"), line
    return ran


def _install(cli: Cli, folder: Path) -> None:
    assert _elsewhere("install", cli, folder) == []


def _enter(cli: Cli, folder: Path) -> None:
    checkout = folder / "ope-bench"
    entry = checkout / "results" / "submissions" / "my-ipw"
    entry.mkdir(parents=True)
    (entry / "submission.yaml").touch()
    for words in ("init", "config user.name me", "config user.email me@example.org"):
        subprocess.run(["git", *words.split()], cwd=checkout, check=True, capture_output=True)
    with contextlib.chdir(checkout):
        ran = _elsewhere("enter-the-leaderboard", cli, checkout)
    assert [words[1] for words in ran] == ["new", "add", "commit"]
    assert (folder / "my-ipw" / "pyproject.toml").is_file()


def _clusters(cli: Cli, folder: Path) -> None:
    dask = pytest.importorskip("dask.config", reason="the extra dask is not installed")
    assert _elsewhere("clusters", cli, folder) == []
    (job,) = (one for one in blocks("clusters", "sh") if "#SBATCH" in one)
    # sbatch takes no file without a first line of this kind, nor options below a command.
    first, *options, command = job.strip().splitlines()
    assert first.startswith("#!/")
    assert all(re.fullmatch(r"#SBATCH --[a-z-]+=\S+", one) for one in options)
    assert command.startswith("ope-bench ")
    given = [word for words in _lines("clusters") if words[0] == "export" for word in words[1:]]
    asked = dask.collect_env(dict(word.split("=") for word in given))
    from distributed.security import Security

    with dask.set(dask.merge(dask.global_config, asked)):
        read = Security()
    names = ("require_encryption", "tls_ca_file", "tls_client_key", "tls_worker_key")
    found = [getattr(read, name) for name in names]
    assert found == [True, "ca.pem", "key.pem", "key.pem"]
    made = {}
    for code in blocks("clusters", "python"):
        module, name = re.findall(r"from (\S+) import (\w+)", code)[0]
        assert name in NOT_RUN
        made[name] = MagicMock()
        stand_in = types.SimpleNamespace(**{name: made[name]})
        with pytest.MonkeyPatch.context() as patched:
            patched.setitem(sys.modules, module.partition(".")[0], MagicMock())
            patched.setitem(sys.modules, module, stand_in)
            patched.setattr("builtins.input", lambda *_: "")
            exec(code, {})
    slurm, pods = (made[name].call_args.kwargs for name in ("SLURMCluster", "KubeCluster"))
    _dask_reads(["worker", "tcp://127.0.0.1:1", *slurm["worker_extra_args"]])
    _dask_reads([*pods["worker_command"][1:], "tcp://127.0.0.1:1"])
    quantities = [one for part in pods["resources"].values() for one in part.values()]
    assert all(re.fullmatch(r"\d+(m|[KMGT]i?)?", one) for one in quantities)
    assert made["SLURMCluster"].return_value.adapt.called


HERE: dict[str, Callable[[Cli, Path], None]] = {
    "ab": _two_logs,
    "clusters": _clusters,
    "enter-the-leaderboard": _enter,
    "install": _install,
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
    assert code == {*RUN_BY, *HERE}
    for page, test in RUN_BY.items():
        text = (ROOT / test).read_text(encoding="utf-8")
        assert page in text, f"{test} does not read {page}"


def test_no_block_without_a_language_holds_a_command() -> None:
    words = {line.split()[0] for line in NOT_RUN} | {"ope-bench"}
    for path in (ROOT / "README.md", *DOCS.glob("*.md")):
        inside: str | None = None
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("```"):
                inside = None if inside is not None else line.removeprefix("```")
            elif inside == "" and line.split():
                assert line.split()[0] not in words, f"{path.name}: {line}"


def test_what_is_not_run_is_on_a_page() -> None:
    pages = "".join(
        body for path in DOCS.glob("*.md") for _, body in BLOCK.findall(path.read_text("utf-8"))
    )
    assert [one for one in NOT_RUN if one not in pages] == []


@pytest.mark.slow
@pytest.mark.parametrize("page", HERE)
def test_the_commands_and_the_code_of_a_page_work(page: str, cli: Cli, tmp_path: Path) -> None:
    HERE[page](cli, tmp_path)
