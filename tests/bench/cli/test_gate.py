"""baseline, gate and compare on a plugin file that is edited between runs."""

import importlib
import json
import re
import shutil
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from ope_bench.execution import runner
from ope_bench.gate.baseline import load
from ope_bench.gate.baseline import save as save_file
from ope_bench.plugins import spec as provenance
from ope_bench.plugins.registry import FILE_MODULE, registry
from support.paths import ROOT

PLUGIN = """
import numpy as np
from ope_bench import Environment, Estimate, Estimator, Problem, Schema, Truth

class Coins(Environment):
    version = 1
    def __init__(self, n_samples: int = 20) -> None:
        self.n_samples = n_samples
    def sample(self, *, world_rng, logged_rng, target_rng):
        zeros = np.zeros((self.n_samples, 1))
        problem = Problem(
            context=zeros, action=np.zeros(self.n_samples, dtype=int), embedding=zeros,
            reward=logged_rng.normal(size=self.n_samples), target_context=zeros,
            target_action=np.zeros(self.n_samples, dtype=int), target_embedding=zeros,
            schema=Schema.continuous(1, 1), n_actions=1,
        )
        return problem, Truth(0.0, 0.0, 0.0)

class Mean(Estimator):
    def estimate(self, view):
        return Estimate(FACTOR * float(view.reward.mean()))

class Other(Estimator):
    def estimate(self, view):
        return Estimate(float(view.reward[0]))
"""

SUITE = """
schema: 1
title: coins
truth: expected
replicates: 12
environments: [./plug.py:Coins]
estimators: [./plug.py:Mean, ./plug.py:Other]
"""


def forget(folder):
    """Forget what was imported of plugin files in a folder."""
    # Bytecode is kept by second and size, which both may be those of the text before.
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    for name in [name for name in sys.modules if name.startswith(FILE_MODULE)]:
        del sys.modules[name]
    importlib.invalidate_caches()
    for module in (provenance, runner):
        for thing in vars(module).values():
            if hasattr(thing, "cache_clear"):
                thing.cache_clear()
    registry.cache_clear()


@pytest.fixture
def edit(tmp_path):
    """Write the plugin, and forget what was imported of it before."""

    def write(factor):
        (tmp_path / "plug.py").write_text(PLUGIN.replace("FACTOR", str(factor)))
        (tmp_path / "s.yaml").write_text(SUITE)
        forget(tmp_path)

    write("1.0")
    return write


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder for the files of `saved`, which are made once."""
    return tmp_path_factory.mktemp("saved")


@pytest.fixture
def saved(cli, edit, kept, here):
    """A baseline of the unedited plugin, and the store that it came from."""
    files = [Path("b.json"), Path("s.sqlite")]
    if not (kept / "b.json").is_file():
        assert cli("run", "s.yaml", "--store", "s.sqlite", "--jobs", "1").code == 0
        said = cli("baseline", "save", "b.json", "--suite", "s.yaml", "--store", "s.sqlite")
        assert said.code == 0, said.err
        for path in reversed(files):
            shutil.copy(path, kept)
    for path in files:
        shutil.copy(kept / path, path)
    return files[0]


def test_a_gate_repeats_the_arithmetic_of_its_baseline(cli, edit):
    run = ("run", "s.yaml", "--store", "s.sqlite", "--jobs", "1")
    assert cli(*run, "--arithmetic", "native").code == 0
    save = ("baseline", "save", "b.json", "--suite", "s.yaml", "--store", "s.sqlite")
    assert cli(*save).code == 0
    edit("(1 + 1e-12)")
    gate = ("gate", "b.json", "--store", "g.sqlite", "--jobs", "1", "--format", "json")
    verdicts = cli(*gate).json["verdicts"]
    assert (verdicts["drifted"], verdicts["same"]) == (1, 1)
    (stored,) = cli("store", "info", "--store", "g.sqlite", "--format", "json").json["runs"]
    assert stored["machine"]["arithmetic"]["mode"] == "native"
    compare = ("compare", "s.sqlite", "g.sqlite", "--format", "json")
    assert cli(*compare).json["same_arithmetic"] is True

    baseline = load(Path("b.json"))
    save_file(Path("b.json"), replace(baseline, machine={**baseline.machine, "arithmetic": None}))
    said = cli(*gate)
    assert said.json["verdicts"]["same"] == 2
    assert any("rounding" in notice for notice in said.json["notices"])
    compare = ("compare", "b.json", "g.sqlite", "--format", "json")
    assert cli(*compare).json["same_arithmetic"] is False


def test_a_margin_with_which_nothing_is_worse_is_refused_and_others_are_in_the_verdict(
    cli, edit, saved
):
    gate = ("gate", "b.json", "--store", "g.sqlite", "--jobs", "1")
    for margin in ("inf", "nan", "1e999", "1e308", "1000000", "10.1", "-0.1"):
        said = cli(*gate, "--margin", margin)
        assert said.code == 2
        assert "--margin" in said.err
    assert cli(*gate, "--margin", "0.5", "--format", "json").json["margin"] == 0.5
    said = cli(*gate, "--margin", "10", "--reuse")
    (verdict,) = [one for one in said.err.splitlines() if one.startswith("verdict")]
    assert "margin 10" in verdict


def test_from_a_saved_baseline_to_a_closed_gate_and_an_accepted_change(cli, edit, saved):
    same = cli("gate", "b.json", "--store", "g.sqlite", "--jobs", "1", "--format", "json")
    assert same.code == 0, same.err
    assert same.json["verdicts"] == {"same": 2}
    assert same.json["outcomes"] == same.json["planned"] == 24

    edit("1.5")
    worse = cli("gate", "b.json", "--store", "g.sqlite", "--jobs", "1", "--format", "json")
    assert worse.code == 1, worse.err
    verdicts = {row["estimator"]: row["verdict"] for row in worse.json["rows"]}
    assert verdicts == {"mean": "worse", "other": "same"}

    told = cli("compare", "b.json", "g.sqlite", "--format", "json")
    assert told.code == 0
    assert {row["verdict"] for row in told.json["rows"]} == {"worse", "same"}

    refused = cli("baseline", "accept", "b.json", "--reason", " ", "--store", "g.sqlite")
    assert refused.code == 2
    accepted = cli("baseline", "accept", "b.json", "--reason", "why not", "--store", "g.sqlite")
    assert accepted.code == 0, accepted.err
    shown = cli("baseline", "show", "b.json", "--format", "json").json
    assert [one["reason"] for one in shown["history"]] == ["saved", "why not"]
    assert shown["history"][1]["changes"] == {"worse": 1, "same": 1}
    assert cli("gate", "b.json", "--store", "g.sqlite", "--jobs", "1").code == 0


def test_show_prints_history_and_boards(cli, saved):
    said = cli("baseline", "show", "b.json")
    assert said.code == 0
    assert "suite 's', 24 trials, 12 replicates, expected truth" in said.out
    assert "saved" in said.out
    assert "by rmse" in said.out


def test_a_store_that_lacks_trials_makes_no_baseline(cli, saved):
    more = ("--replicates", "17", "--store", "s.sqlite")
    said = cli("baseline", "save", "c.json", "--suite", "s.yaml", *more)
    assert said.code == 2
    assert "lacks 10 of the 34 trials" in said.err
    assert "--replicates 17" in said.err
    assert not Path("c.json").exists()


def test_numbers_of_code_that_has_changed_make_no_baseline(cli, edit, saved):
    edit("1.5")
    said = cli("baseline", "save", "c.json", "--suite", "s.yaml", "--store", "s.sqlite")
    assert said.code == 2
    assert "of code that has changed since" in said.err


def test_another_file_is_never_written_over(cli, saved):
    Path("notes.txt").write_text("mine")
    said = cli("baseline", "save", "notes.txt", "--suite", "s.yaml", "--store", "s.sqlite")
    assert said.code == 2
    assert Path("notes.txt").read_text() == "mine"


def test_all_trials_run_anew_unless_reuse_is_asked_for(cli, saved):
    anew = cli("gate", "b.json", "--store", "s.sqlite", "--jobs", "1", "--format", "json")
    told = {name: anew.json[name] for name in ("planned", "asked", "executed", "reused")}
    assert told == {"planned": 24, "asked": 24, "executed": 24, "reused": 0}
    assert "24 of 24 trials run" in anew.err.splitlines()[-1]
    reused = cli("gate", "b.json", "--store", "s.sqlite", "--jobs", "1", "--reuse")
    assert reused.code == 0
    assert "0 of 24 trials run, 24 reused" in reused.err.splitlines()[-1]


def test_a_changed_environment_variable_closes_the_gate_on_the_store_of_the_baseline(
    cli, edit, here, monkeypatch
):
    # No digest of code sees the variable.
    edit("float(__import__('os').environ.get('FACTOR_NOW', '1'))")
    assert cli("run", "s.yaml", "--store", "s.sqlite", "--jobs", "1").code == 0
    assert cli("baseline", "save", "b.json", "--suite", "s.yaml", "--store", "s.sqlite").code == 0
    monkeypatch.setenv("FACTOR_NOW", "1.5")
    gate = ("gate", "b.json", "--store", "s.sqlite", "--jobs", "1")
    assert cli(*gate, "--reuse").code == 0
    assert cli(*gate).code == 1


def test_an_estimator_with_another_default_is_told_and_judged(cli, edit, saved):
    text = Path("plug.py").read_text()
    mean = "class Mean(Estimator):"
    taking = f"{mean}\n    def __init__(self, factor: float = FACTOR) -> None:"
    taking += "\n        self.factor = factor\n"

    def write(default):
        edit("self.factor")
        body = Path("plug.py").read_text().replace(mean, taking.replace("FACTOR", str(default)))
        Path("plug.py").write_text(body)

    assert mean in text
    write(1.0)
    assert cli("run", "s.yaml", "--store", "s.sqlite", "--jobs", "1").code == 0
    assert cli("baseline", "save", "b.json", "--suite", "s.yaml", "--store", "s.sqlite").code == 0
    write(1.5)
    said = cli("gate", "b.json", "--store", "s.sqlite", "--jobs", "1", "--format", "json")
    assert said.code == 1
    (row,) = [one for one in said.json["rows"] if one["verdict"] == "worse"]
    assert row["reason"] == "mean: default factor 1.0 -> 1.5"
    assert cli("baseline", "accept", "b.json", "--reason", "r", "--store", "s.sqlite").code == 0
    write(2.0)
    again = cli("gate", "b.json", "--store", "s.sqlite", "--jobs", "1")
    assert (again.code, "default factor 1.5 -> 2.0" in again.err) == (1, True)


def test_a_run_of_named_plugins_becomes_a_baseline_that_needs_no_suite(cli, edit, here):
    plugins = ("--env", "./plug.py:Coins[n_samples=30]", "--est", "./plug.py:Mean")
    asked = (*plugins, "--replicates", "12", "--seed", "4", "--timeout", "50s")
    assert cli("run", *asked, "--store", "s.sqlite", "--jobs", "1").code == 0
    said = cli("baseline", "save", "new/folder/b.json", *asked, "--store", "s.sqlite")
    assert said.code == 0, said.err
    header = json.loads(Path("new/folder/b.json").read_text().splitlines()[0])
    assert header["suite"]["name"] == "adhoc"
    assert (header["suite"]["replicates"], header["suite"]["timeout"]) == (12, 50.0)
    assert list(header["given"]["environments"].values()) == [["n_samples"]]
    Path("s.yaml").unlink()
    gate = cli(
        "gate", "new/folder/b.json", "--store", "g.sqlite", "--jobs", "1", "--format", "json"
    )
    assert (gate.code, gate.json["verdicts"], gate.json["executed"]) == (0, {"same": 1}, 12)


def test_a_baseline_of_what_has_not_run_names_the_run_that_is_missing(cli, edit, here):
    asked = ["--env", "./plug.py:Coins", "--est", "./plug.py:Mean", "--seed", "4"]
    asked += ["--set", "./plug.py:Coins.n_samples=3"]
    asked += ["--replicates", "25"]
    said = cli("baseline", "save", "b.json", *asked, "--store", "s.sqlite")
    assert said.code == 2
    cli("run", "s.yaml", "--store", "s.sqlite", "--jobs", "1")
    said = cli("baseline", "save", "b.json", *asked, "--store", "s.sqlite")
    run = "ope-bench run --env ./plug.py:Coins --est ./plug.py:Mean"
    run += " --set ./plug.py:Coins.n_samples=3 --replicates 25 --seed 4"
    assert f"`{run} --store s.sqlite` first" in said.err


def test_a_baseline_of_nothing_named_is_one_clear_line(cli):
    said = cli("baseline", "save", "b.json")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "--suite, or --env and --est" in said.err


@pytest.mark.parametrize("form", ["text", "json", "markdown", "junit", "github"])
def test_a_missing_baseline_is_an_error_unless_allowed(cli, form):
    for more in ([], ["--require-baseline"], ["--require-baseline", "--allow-missing"]):
        refused = cli("gate", "none.json", *more, "--format", form)
        assert refused.code == 2
        assert "there is no baseline none.json" in refused.err
    said = cli("gate", "none.json", "--allow-missing", "--format", form)
    assert said.code == 0
    assert "there is no baseline none.json" in said.err
    if form == "json":
        assert said.json["exit_code"] == 0
    if form == "junit":
        (case,) = ET.fromstring(said.out).findall("testcase/skipped")
        assert "there is no baseline" in case.get("message")


@pytest.mark.parametrize("content", [None, "{}\n"])
def test_a_gate_that_cannot_begin_is_an_error_in_junit_and_in_annotations(cli, content):
    if content is not None:
        Path("b.json").write_text(content)
    said = cli("gate", "b.json", "--format", "junit")
    suite = ET.fromstring(said.out)
    assert (said.code, suite.get("errors"), suite.get("failures")) == (2, "1", "0")
    (error,) = suite.findall("testcase/error")
    assert "baseline" in error.get("message")
    told = cli("gate", "b.json", "--format", "github")
    assert (told.code, told.out.startswith("::error title=ope-bench gate::")) == (2, True)


def test_the_table_is_added_to_the_summary_of_github_and_a_failure_changes_no_verdict(
    cli, saved, monkeypatch
):
    gate = ("gate", "b.json", "--store", "s.sqlite", "--reuse", "--format", "github")
    for path, words in (("summary.md", ""), ("none/summary.md", "No such file or directory")):
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", path)
        said = cli(*gate)
        assert said.code == 0, said.err
        assert words in said.err
    assert "same" in Path("summary.md").read_text()


def test_a_foreign_baseline_is_one_clear_line(cli):
    Path("b.json").write_text("{}\n")
    for verb in (["gate", "b.json"], ["baseline", "show", "b.json"]):
        said = cli(*verb)
        assert said.code == 2
        assert said.err.count("\n") == 1
        assert "not an ope-bench baseline" in said.err
    assert not Path("ope-bench.sqlite").exists()


def test_comparing_what_does_not_exist_or_shares_nothing_is_one_clear_line(cli, saved):
    said = cli("compare", "b.json", "nothing.sqlite")
    assert said.code == 2
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_compare_of_a_baseline_with_its_own_store_finds_all_the_same(cli, saved, form):
    said = cli("compare", "b.json", "s.sqlite", "--format", form)
    assert said.code == 0
    assert "2 same" in said.out


@pytest.mark.slow
def test_the_page_shows_what_the_gate_says(cli, here, monkeypatch):
    """The block under "Read red" of gate.md, from the estimator of the page that writes one."""
    docs = ROOT / "bench" / "docs"
    page = (docs / "write-an-estimator.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"^```python\n(# my\.py\n.*?)^```$", page, re.DOTALL | re.MULTILINE)
    Path("my.py").write_text(source, encoding="utf-8")
    plugins = ("--est", "./my.py:MyIPW", "--est", "ipw", "--est", "logging-average")
    asked = ("--env", "saito-toy[n_actions=[20,100]]", *plugins, "--replicates", "20")
    assert cli("run", *asked).code == 0
    assert cli("baseline", "save", "baselines/ci.json", *asked).code == 0
    changed = source.replace("target / view.propensity", "target / (view.propensity + 0.02)")
    assert changed != source
    Path("my.py").write_text(changed, encoding="utf-8")
    forget(Path.cwd())
    monkeypatch.setenv("COLUMNS", "100")
    said = cli("gate", "baselines/ci.json")
    text = (docs / "gate.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```text\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    verdict = said.err[said.err.index("verdict ") :]
    assert shown.split() == f"{said.out}\n{verdict}".split()
