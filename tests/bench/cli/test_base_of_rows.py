"""What a row rests on: one code, one machine, the settings of the other rows."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest

from ope_bench.boards.board import By
from ope_bench.boards.leaderboard import averaged, boards, boards_document, stream_boards
from ope_bench.boards.over_settings import regret_board
from ope_bench.outcomes import Outcomes
from ope_bench.plugins.registry import registry
from ope_bench.plugins.spec import PluginSpec, result_digest
from ope_bench.report.boards import BoardFormat, parameter_sweeps, render, render_result
from ope_bench.report.content import ReportData
from ope_bench.report.figures import figures
from ope_bench.report.page.html import payload
from ope_bench.store import Store
from ope_bench.trials import trial as trial_module
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status
from support.paths import TINY_PLUGINS
from support.stored_records import begin

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.cli.conftest import Cli

EASY, HARD = 10, 100


def record(
    estimator: str = "cap", replicate: int = 0, error: float = 1.0, n: int = EASY, **facts: Any
) -> TrialRecord:
    environment = PluginSpec("environment", "toy", "toy", {"n_actions": n, "beta": 1.0})
    label = facts.pop("label", "")
    spec = PluginSpec("estimator", estimator, estimator, label=label, origin="acme 1.0")
    known = {"code_digest": "old", "estimate": 2.0 + error, "truth_expected": 2.0}
    known |= {"truth_empirical": 2.0, "logging_average": 5.0, "origin": "acme 1.0"}
    known |= {"exclusive": True, "fit_seconds": 1.0, "estimate_seconds": 1.0}
    trial = Trial(environment, spec, replicate)
    return TrialRecord(trial, status=Status.OK, **(known | facts))


def add(store: Store, records: Iterable[TrialRecord], **run: Any) -> None:
    number = begin(store, **{"suite": "adhoc", "truth": "expected", **run})
    for one in records:
        store.add(one, number)
    store.end_run(number, 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Twenty trials of old code, then ten of them again by new code, of another version."""
    path = tmp_path / "s.sqlite"
    with Store.open(path, write=True) as store:
        add(store, [record(replicate=k, error=1.0) for k in range(20)])
        add(store, [record("other", k, 2.0) for k in range(20)])
        new = {"code_digest": "new", "error": 3.0, "origin": "acme 2.0"}
        add(store, [record(replicate=k, **new) for k in range(10)])
    return path


def test_a_row_counts_the_newest_code_alone_in_every_format(path: Path, cli: Cli) -> None:
    """The formats and measures are those of the code; a page and a notebook show the same."""
    store = ("--store", str(path))
    for form in get_args(BoardFormat):
        for by in ("rmse", "coverage", "time", "positivity"):
            said = cli("leaderboard", "--by", by, "--all", "--format", form, *store)
            assert said.code == 0
            if by == "rmse" and form != "csv":
                (line,) = [
                    one for one in said.out.splitlines() if re.search(r"\bcap\b.*3\.00", one)
                ]
                assert "1.73" not in line
                assert "acme 2.0" in said.out
                assert re.search(r"from acme 1\.0: other", said.out, re.IGNORECASE)
    (board,) = cli("leaderboard", "--format", "json", *store).json["boards"]
    rows = {row["estimator"]: row for row in board["rows"]}
    assert [rows["cap"][name] for name in ("replicates", "rmse", "codes", "origin")] == [
        *(10, 3.0, 1),
        "acme 2.0",
    ]
    assert (rows["other"]["replicates"], rows["other"]["codes"]) == (20, 1)
    (regret,) = cli("leaderboard", "--by", "regret", "--format", "json", *store).json["boards"]
    assert {row["estimator"]: row["regret"] for row in regret["rows"]}["cap"] == pytest.approx(1.5)
    content = ReportData.read(path)
    assert [group.size for group in content.settings] == [30]
    assert {row.estimator: row.rmse.value for row in content.settings[0].board.rows} == {
        "cap": 3.0,
        "other": 2.0,
    }
    # What is exported is trials, each with its code; nothing is lost.
    with Store.open(path) as opened:
        assert len(list(opened.results())) == 40
    shutil.copy(path, "other.sqlite")
    compared = cli("compare", "other.sqlite", str(path), "--format", "json").json
    assert compared["pairs"] == 30


def test_code_that_came_back_is_the_newest(path: Path) -> None:
    with Store.open(path, write=True) as store:
        back = [record(replicate=k, error=1.0) for k in range(20)]
        run = begin(store, suite="adhoc", truth="expected")
        store.reuse(back, run)
        (outcomes,) = store.outcomes()
        found = {(one.estimator[0].id, tuple({*one.code})): len(one) for one in outcomes.by_row()}
    assert found == {("cap", ("old",)): 20, ("other", ("old",)): 20}


def test_rows_of_records_that_mix_codes_say_so(path: Path) -> None:
    records = [record(replicate=k, code_digest="old" if k < 10 else "new") for k in range(20)]
    found = boards([*records, record("other", code_digest="")])
    rows = {row["estimator"]: row for row in boards_document(found)["boards"][0]["rows"]}
    assert (rows["cap"]["codes"], rows["other"]["codes"]) == (2, 1)
    for form in ("text", "markdown", "latex"):
        said = render(found, form)  # type: ignore[arg-type]
        assert re.search(
            r"of several versions of its code or data: cap \(2\)", said, re.IGNORECASE
        )
    header, line, _ = render(found, "csv").splitlines()
    assert dict(zip(header.split(","), line.split(","), strict=False))
    assert "codes" in header.split(",")
    both = boards([*records[:1], replace(records[1], origin="acme 2.0", code_digest="old")])
    assert both[0].rows[0].origin == "acme 1.0, acme 2.0"


@pytest.fixture
def settings_of_two_codes(tmp_path: Path) -> Path:
    """The hard setting ran again after an edit of one of two estimators."""
    path = tmp_path / "two.sqlite"
    with Store.open(path, write=True) as store:
        for names in (["cap", "other"], ["cap"]):
            sizes = (EASY, HARD) if len(names) == 2 else (HARD,)
            code = "old" if len(names) == 2 else "new"
            plan = [(name, n, k) for name in names for n in sizes for k in range(4)]
            add(store, [record(name, k, n=n, code_digest=f"{code} {n}") for name, n, k in plan])
    return path


def test_rows_over_settings_of_several_codes_say_so(settings_of_two_codes: Path, cli: Cli) -> None:
    store = ("--store", str(settings_of_two_codes), "--all")
    marked = "of several versions of its code or data: cap (2)"
    for view in (
        ("--by", "regret"),
        ("--average", "n_actions"),
        ("--sweep", "n_actions"),
        (),
    ):
        for form in ("text", "markdown", "latex"):
            said = cli("leaderboard", *view, "--format", form, *store).out
            words = " ".join(said.replace("\n", " ").split()).lower()
            if view or form == "text":
                assert marked in words, (view, form)
    for option in ("--by=regret", "--average=n_actions"):
        (board,) = cli("leaderboard", option, "--format", "json", *store).json["boards"]
        codes = {row["estimator"]: row["codes"] for row in board["rows"]}
        assert codes == {"cap": 2, "other": 1}
    page = json.dumps(payload(ReportData.read(settings_of_two_codes)))
    assert marked in page.lower()


@pytest.mark.parametrize("known", [True, False])
def test_estimator_code_of_two_environments_is_compared_by_its_own_digest(
    tmp_path: Path, cli: Cli, known: bool
) -> None:
    """The digest of a trial has the environment in it; a store of before has that one alone."""
    names = []
    for number, place in enumerate(("toy", "bandit")):
        names.append(f"{place}.sqlite")
        spec = PluginSpec("environment", place, place, {})
        with Store.open(tmp_path / names[-1], write=True) as store:
            run = begin(store, suite="adhoc", truth="expected")
            for estimator, own in (("cap", f"cap {number}"), ("other", "other"), ("new", None)):
                for k in range(4):
                    one = record(estimator, k, code_digest=f"{estimator} {number}")
                    one = replace(one, trial=replace(one.trial, environment=spec))
                    store.add(one, run, estimator_digest=own if known else None)
            store.end_run(run, 0)
            assert not store.check().damage
    assert cli("store", "merge", *names, "--store", "m.sqlite").code == 0
    views = (("--by", "regret"), ())
    options = ("--all", "--store", "m.sqlite", "--format")
    said = [cli("leaderboard", *view, *options, "text").out for view in views]
    said.append(json.dumps(payload(ReportData.read(tmp_path / "m.sqlite"))))
    marked = "several versions of its code or data: cap (2)"
    assert [marked in " ".join(text.split()) for text in said] == [known] * 3
    (board,) = cli("leaderboard", *views[0], *options, "json").json["boards"]
    codes = {row["estimator"]: row["codes"] for row in board["rows"]}
    assert codes == {"cap": 1 + known, "other": 1, "new": 1}


def test_a_run_stores_the_digest_of_each_estimator_alone(
    cli: Cli, tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stored(name: str) -> list[Outcomes]:
        plan = ("--env", tiny("Coins"), "--env", "saito-toy[n_samples=50]", "--replicates", "2")
        how = ("--executor", "inprocess", "--store", f"{name}.sqlite")
        assert cli("run", *plan, "--est", tiny("Average"), *how).code == 0
        with Store.open(tmp_path / f"{name}.sqlite") as opened:
            return list(opened.outcomes())

    outcomes = stored("here")
    assert len({code for one in outcomes for code in one.code}) == 2
    cls = registry().find("estimator", f"{TINY_PLUGINS}:Average").cls
    assert {code for one in outcomes for code in one.own_code} == {result_digest(cls())}
    # Trials that ran on other code than is here say nothing of the estimator here.
    monkeypatch.setattr(trial_module, "result_digest", lambda *_: "elsewhere")
    assert {code for one in stored("there") for code in one.own_code} == {""}


FILE_CAP = """
from pathlib import Path
from ope_bench import Access, Estimate, Estimator

class FileIPW(Estimator):
    access = Access.PROPENSITY | Access.TARGET_POLICY

    def estimate(self, view):
        cap = float(Path(__file__).with_name("cap.json").read_text())
        w = view.target_policy.probability(view.context, view.action) / view.propensity
        return Estimate(float((w.clip(max=cap) * view.reward).mean()))
"""


@pytest.mark.usefixtures("here")
def test_trials_run_again_after_an_edit_of_a_data_file_that_the_code_names(
    tmp_path: Path, cli: Cli
) -> None:
    (tmp_path / "my.py").write_text(FILE_CAP)
    data = tmp_path / "cap.json"
    data.write_text("100.0")
    plan = ["--env", "saito-toy[n_actions=100]", "--est", "./my.py:FileIPW", "--est", "ipw"]
    plan += ["--replicates", "8"]

    def ran(store: str = "s.sqlite") -> tuple[int, float]:
        options = ("--executor", "inprocess", "--store", store, "--format", "json")
        document = cli("run", *plan, *options).json
        (board,) = cli("leaderboard", "--store", store, "--format", "json").json["boards"]
        (row,) = [one for one in board["rows"] if one["estimator"] == "file-ipw"]
        assert (row["replicates"], row["codes"]) == (8, 1)
        return document["reused"], row["rmse"]

    reused, before = ran()
    assert reused == 0
    assert ran() == (16, before)
    assert cli("baseline", "save", "b.json", *plan, "--store", "s.sqlite").code == 0
    gate = ("gate", "b.json", "--reuse", "--format", "json", "--store")
    shutil.copy("s.sqlite", "g.sqlite")
    assert cli(*gate, "g.sqlite").json["reused"] == 16
    data.write_text("1.0")
    assert cli(*gate, "g.sqlite").json["reused"] == 8
    reused, after = ran()
    assert reused == 8
    assert after != pytest.approx(before, rel=0.05)
    assert ran("new.sqlite") == (0, after)


def test_two_versions_of_one_package_in_two_stores_are_two_codes(tmp_path: Path, cli: Cli) -> None:
    for version, cap in (("1.0", 100.0), ("2.0", 0.1)):
        info = tmp_path / version / f"lab_two-{version}.dist-info"
        info.mkdir(parents=True)
        facts = f"Metadata-Version: 2.1\nName: lab-two\nVersion: {version}\n"
        (info / "METADATA").write_text(facts)
        (info / "RECORD").write_text("lab_two.py,,\n")
        entry = "[ope_bench.estimators]\nlab-cap = lab_two:FileIPW\n"
        (info / "entry_points.txt").write_text(entry)
        code = re.sub(r"float\(Path.*", str(cap), FILE_CAP)
        (tmp_path / version / "lab_two.py").write_text(code)
        command = [sys.executable, "-m", "ope_bench", "run", "--executor", "inprocess"]
        command += ["--env", "saito-toy[n_actions=100]", "--est", "lab-cap", "--est", "ipw"]
        command += ["--store", f"{version}.sqlite", "--replicates", "8" if cap > 1 else "4"]
        env = {**os.environ, "PYTHONPATH": str(tmp_path / version)}
        subprocess.run(command, env=env, capture_output=True, check=True)
    merged = cli("store", "merge", "1.0.sqlite", "2.0.sqlite", "--store", "m.sqlite")
    assert merged.code == 0
    assert "other outcomes" not in merged.out + merged.err

    def rows(name: str) -> dict[str, Any]:
        said = cli("leaderboard", "--all", "--store", name, "--format", "json")
        return {row["estimator"]: row for row in said.json["boards"][0]["rows"]}

    merged_rows = rows("m.sqlite")
    assert (merged_rows["ipw"]["replicates"], merged_rows["ipw"]["codes"]) == (8, 1)
    newest = {"replicates": 4, "codes": 1, "origin": "lab-two 2.0"}
    assert merged_rows["lab-cap"].items() >= newest.items()
    older, newer = (rows(f"{version}.sqlite")["lab-cap"]["rmse"] for version in ("1.0", "2.0"))
    assert merged_rows["lab-cap"]["rmse"] == newer != older


def test_averages_and_regret_order_rows_over_shared_settings() -> None:
    """What ran on the easiest setting alone has the smallest error, and stands apart."""
    records = [record("easy", k, 0.1) for k in range(6)]
    for name, errors in (("good", (0.2, 2.0)), ("bad", (0.4, 4.0))):
        for n, error in zip((EASY, HARD), errors, strict=True):
            records += [record(name, k, error, n) for k in range(6)]
    # Few trials of a setting are not what the others rest on, either.
    for name, trials in (("few", 1), ("half", 3)):
        records += [record(name, k, 0.15) for k in range(6)]
        records += [record(name, k, 1.5, HARD) for k in range(trials)]
    (board,) = stream_boards(averaged(Outcomes.by_setting(records), "n_actions"))
    assert [(row.estimator, row.rank) for row in board.rows] == [
        *(("good", 1), ("bad", 2)),
        *(("easy", None), ("few", None), ("half", None)),
    ]
    assert board.rows[0].tied
    said = " ".join(render([board]).split())
    assert "they lack settings of the others: easy, few, half" in said
    assert "failed on more than half" not in said
    regret = regret_board(Outcomes.by_setting(records))
    assert regret is not None
    assert [row.estimator for row in regret.rows][-1] == "easy"
    assert "lack settings of the others: easy (1 of 2)" in " ".join(render([regret]).split())
    overview = render_result(boards(records)).split("over 2 settings")[0]
    assert overview.index("bad") < overview.index("easy")


@pytest.mark.parametrize("fact", ["truth_expected", "truth_empirical", "logging_average"])
def test_trials_on_data_that_an_edited_environment_draws_no_more_are_left_out(
    tmp_path: Path, cli: Cli, fact: str
) -> None:
    """The environment changed, and one of two estimators, and a part of a third, ran again."""
    path = tmp_path / "e.sqlite"
    new = {fact: 9.0, "estimate": 8.0}
    with Store.open(path, write=True) as store:
        names = ("cap", "other", "third")
        # Those of two replicates that nothing ran again are of the same code as the others.
        plan = [(name, n, k) for name in names for n in (EASY, HARD) for k in range(6)]
        add(store, [record(name, k, n=n, code_digest=f"old {name}") for name, n, k in plan])
        again = [("cap", k) for k in range(3)] + [("third", k) for k in range(4)]
        runs = store.runs()
        add(store, [record(name, k, code_digest=f"new {name}", **new) for name, k in again])
        # A trial whose process died knows nothing of its data.
        none = dict.fromkeys(("truth_expected", "truth_empirical", "logging_average", "estimate"))
        died = record("cap", 3, code_digest="new cap", **none)
        add(store, [replace(died, status=Status.CRASH)])
        assert len(store.runs()) == len(runs) + 2
        settings = [outcomes.newest() for outcomes in store.outcomes()]
    told = ("leaderboard", "--all", "--store", str(path), "--format")
    board, _ = cli(*told, "json").json["boards"]
    assert board["left_out"] == ["other"]
    truth = 9.0 if fact == "truth_expected" else 2.0
    assert {row["estimator"]: (row["rmse"], row["replicates"]) for row in board["rows"]} == {
        "cap": (abs(8.0 - truth), 4),
        "third": (abs(8.0 - truth), 4),
    }
    for form in ("text", "markdown", "latex"):
        said = " ".join(cli(*told, form, "--boards").out.split())
        assert re.search("drawn other data since: other", said, re.IGNORECASE), form
    assert "drawn other data since: other" in json.dumps(payload(ReportData.read(path)))
    regret = regret_board(settings)
    assert regret is not None
    assert [(row.estimator, row.settings) for row in regret.rows][-1] == ("other", 1)


def test_figures_name_rows_of_several_codes_and_times_of_several_machines(
    settings_of_two_codes: Path,
) -> None:
    with Store.open(settings_of_two_codes, write=True) as store:
        add(store, [record("slow", k, fit_seconds=2.0) for k in range(4)], machine={"cpu": "Slow"})
    content = ReportData.read(settings_of_two_codes)
    short = {one.label: one.label for one in content.estimators}
    kinds = ("sweep", "pareto", "times")
    found = [(one.kind, one.label, one.caption) for one in figures(content, short, kinds=kinds)]
    assert {kind for kind, *_ in found} == {*kinds}
    for kind, label, caption in found:
        mixed = "Of several versions of its code or data: cap (2)." in caption
        assert mixed == (kind == "sweep")
        apart = "On unknown: cap, other. On Slow: slow." in caption
        assert apart == (kind != "sweep" and label.endswith("=10"))
        assert apart == ("On " in caption)


def test_times_of_several_machines_have_ranks_of_their_own(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "m.sqlite"
    cluster = {"cluster": [{"cpu": "Fast"}, {"cpu": "Slow"}]}
    with Store.open(path, write=True) as store:
        for name, seconds, machine in (
            ("first", 0.05, {"cpu": "Fast"}),
            ("second", 0.25, {"cpu": "Slow"}),
            ("third", 0.15, {"cpu": "Fast"}),
            ("everywhere", 0.01, cluster),
        ):
            add(store, [record(name, k, fit_seconds=seconds) for k in range(3)], machine=machine)
    told = ("leaderboard", "--by", "time", "--all", "--store", str(path), "--format")
    (board,) = cli(*told, "json").json["boards"]
    assert [(row["estimator"], row["rank"], row["machine"]) for row in board["rows"]] == [
        ("first", 1, "Fast"),
        ("third", 2, "Fast"),
        ("second", 1, "Slow"),
        ("everywhere", None, "Fast, Slow"),
    ]
    for form in ("text", "markdown", "latex"):
        said = " ".join(cli(*told, form).out.split())
        assert re.search("on Fast: first, third", said, re.IGNORECASE)
        assert re.search("on Slow: second", said, re.IGNORECASE)
    assert "machine" in cli(*told, "csv").out.splitlines()[0].split(",")


def test_merged_shards_of_one_plan_are_one_run(cli: Cli, tiny: Any) -> None:
    plan = ["--env", tiny("Coins"), "--est", tiny("Average"), "--executor", "inprocess"]
    for number in "1234":
        shard = ("--replicates", "12", "--shard", f"{number}/4", "--store", f"{number}.sqlite")
        assert cli("run", *plan, *shard).code == 0
    names = [f"{number}.sqlite" for number in "1234"]
    assert cli("store", "merge", *names, "--store", "whole.sqlite").code == 0
    said = cli("leaderboard", "--store", "whole.sqlite")
    assert "12 replicates" in said.out
    assert "--all" not in said.err
    # Another plan is another run.
    assert cli("run", *plan, "--replicates", "3", "--store", "whole.sqlite").code == 0
    said = cli("leaderboard", "--store", "whole.sqlite")
    assert "3 replicates" in said.out
    assert "4 other runs" in said.err


LABELS = ["[a] b", "*a", "a_b", "50% & #1 $x^2 {y} \\z ~", "αβ ≥ é", "a--b"]


def latex(tmp_path: Path, texts: Sequence[str]) -> None:
    """Compile tables, by pdflatex where there is one; else look for what would stop it."""
    for text in texts:
        body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
        assert body.isascii(), body
        plain = re.sub(r"\\.", "", body)
        assert plain.count("{") == plain.count("}")
        assert not re.search(r"(\\\\|rule)\s*[\[*]", body)
        assert not re.search(r"caption\{[^\n]*\n\n", body)
    if shutil.which("pdflatex") is None:
        return
    document = "\n".join(
        ["\\documentclass{article}\\usepackage{booktabs}\\begin{document}", *texts]
    )
    (tmp_path / "t.tex").write_text(document + "\n\\end{document}\n", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]


def test_latex_of_every_measure_and_sweep_compiles_whatever_the_labels(tmp_path: Path) -> None:
    facts = {"standard_error": 0.5, "ess_fraction": 0.2, "max_weight_share": 0.5}
    facts |= {"diagnostics": {"log_ratio_rmse": 0.5, "smd_after": 0.1, "smd_before": 1e-9}}
    records = [
        record(f"e{place}", k, 1e4 * (k + 1), n, label=label, **facts)
        for place, label in enumerate(LABELS)
        for n in (EASY, HARD)
        for k in range(3)
    ]
    found = {by: boards(records, by=by) for by in get_args(By)}
    assert all(board.rows for one in found.values() for board in one)
    regret = regret_board(Outcomes.by_setting(records))
    shown: list[Any] = [*found.values(), parameter_sweeps(found["rmse"], "n_actions"), [regret]]
    latex(tmp_path, [render(one, "latex") for one in shown])


def test_compare_fails_on_a_worse_row_where_it_is_asked_to(path: Path, cli: Cli) -> None:
    with Store.open("a.sqlite", write=True) as store:
        add(store, [record(replicate=k, error=0.01 * (k + 1)) for k in range(20)])
    with Store.open("b.sqlite", write=True) as store:
        add(store, [record(replicate=k, error=3.0 + k, code_digest="new") for k in range(20)])
    worse = ("compare", "a.sqlite", "b.sqlite")
    assert cli(*worse).code == 0
    for form in ("text", "json", "markdown"):
        assert cli(*worse, "--fail-on", "worse", "--format", form).code == 1
    assert cli("compare", "b.sqlite", "a.sqlite", "--fail-on", "worse").code == 0
    assert cli(*worse, "--fail-on", "better").code == 2
