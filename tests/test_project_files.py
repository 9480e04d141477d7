"""Facts that several files of the project state agree with each other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from ope_bench import __version__
from support.paths import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
LINTERS = {"mypy", "ruff", "import-linter", "codespell", "pytest-cov", "pytest-xdist"}
"""Tools that no test needs."""
WORKFLOWS = ROOT / ".github" / "workflows"


def _yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_version_stands_in_the_package_alone() -> None:
    assert PROJECT["dynamic"] == ["version", "readme"]
    assert "version" not in PROJECT
    assert metadata.version("ope-bench") == __version__, "install again: pip install -e ."


def test_changelog_and_citation_name_the_same_release() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[(.+?)\](?: - (\S+))?$", changelog, re.MULTILINE)
    assert headings[0] == ("Unreleased", "")
    citation = _yaml(ROOT / "CITATION.cff")
    newest = (citation["version"], str(citation["date-released"]))
    assert headings[1] == newest
    assert Version(__version__) >= Version(newest[0])


def test_ci_runs_every_python_that_the_package_names() -> None:
    prefix = "Programming Language :: Python :: 3."
    named = [one.removeprefix(prefix) for one in PROJECT["classifiers"] if one.startswith(prefix)]
    matrix = _yaml(WORKFLOWS / "ci.yml")["jobs"]["tests"]["strategy"]["matrix"]["python-version"]
    assert [one.removeprefix("3.") for one in matrix] == named
    assert f">=3.{named[0]}" == PROJECT["requires-python"]


def test_the_job_on_minimum_versions_takes_the_lower_bounds() -> None:
    extras = PROJECT["optional-dependencies"]
    lines = [
        *PROJECT["dependencies"],
        *(x for name in extras if name not in ("obp", "docs") for x in extras[name]),
    ]
    wanted = {one.name: str(one.specifier) for one in map(Requirement, lines) if one.specifier}
    bounds = {name: f"=={wanted[name].removeprefix('>=')}" for name in wanted.keys() - LINTERS}
    text = (ROOT / ".github" / "constraints-minimum.txt").read_text(encoding="utf-8")
    ours, _, others = text.partition("# Not ours")
    pinned = [Requirement(line) for line in ours.splitlines() if line and line[0] != "#"]
    assert {one.name: str(one.specifier) for one in pinned} == bounds
    assert others


def test_the_page_of_suites_has_every_suite_in_its_table() -> None:
    page = (ROOT / "bench" / "docs" / "suites.md").read_text(encoding="utf-8")
    named = {name for row in page.splitlines() if row[:3] == "| `" for name in _code(row)}
    shipped = {path.stem for path in (ROOT / "bench/ope_bench/suites").glob("*.yaml")}
    assert named == shipped


def _code(row: str) -> list[str]:
    """What the first cell of a table's row has in code style."""
    return re.findall(r"`([^`]+)`", row.split("|")[1])


LONGER = {("submission.yml", "verify"): 350}
"""Jobs that may take longer than an hour, with their minutes: a whole suite."""

WRITES = {
    ("site.yml", "publish"): {"pages"},
    ("submission.yml", "open"): {"contents", "pull-requests"},
}
"""Jobs that may write, and what."""


@pytest.mark.parametrize("path", sorted(WORKFLOWS.glob("*.yml")), ids=lambda path: path.name)
def test_workflows_may_only_read_and_end_by_themselves(path: Path) -> None:
    workflow = _yaml(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= LONGER.get((path.name, name), 60), name
        given = {word for word, what in job.get("permissions", {}).items() if what != "read"}
        assert given <= WRITES.get((path.name, name), set()) | {"id-token"}, name
        for step in job["steps"]:
            # A tag can be moved; Dependabot moves these.
            assert re.search(r"@[0-9a-f]{40}$", step.get("uses", f"@{'0' * 40}")), step


def test_code_of_a_submission_meets_no_secret_and_no_token_that_writes() -> None:
    text = (WORKFLOWS / "submission.yml").read_text(encoding="utf-8")
    assert "secrets." not in text
    jobs = yaml.safe_load(text)["jobs"]
    build, verify, board, push = (jobs[name] for name in ("build", "verify", "board", "open"))
    # Building a package runs its code: where the secret is, it comes as files.
    assert "inputs.package" in str(build)
    assert "inputs.secret" not in str([build, board, push])
    assert "inputs.package" not in str([verify, board, push])
    (built,) = (one["with"] for one in build["steps"] if "upload-artifact" in one.get("uses", ""))
    got = verify["steps"][3]["with"]
    assert (got["name"], got["path"]) == (built["name"], "${{ runner.temp }}/entry")
    assert verify["steps"][-3]["env"]["SUBMISSION_ENTRY"] == got["path"]
    assert verify["needs"] == "build"
    for reads in (build, verify, board):
        assert set(reads["permissions"].values()) == {"read"}
        assert reads["steps"][0]["with"]["persist-credentials"] is False
    # What failed, or was stopped by a trial, has no figures.
    assert "${{ needs.verify.result }}" in str(board)
    # No process keeps the environment of the step that has the secret.
    (run,) = (one["run"] for one in verify["steps"] if "SECRET" in one.get("env", {}))
    assert run.startswith("exec ")
    assert "$SECRET" not in run.partition("<<<")[0]


def _runs(job: Any) -> str:
    return "\n".join(step.get("run", "") for step in job["steps"])


def test_a_job_that_writes_runs_git_alone() -> None:
    push = _yaml(WORKFLOWS / "submission.yml")["jobs"]["open"]
    programs = {line.split()[0] for line in _runs(push).splitlines() if line.strip()}
    assert programs == {'branch="submission/$(basename', "git", "gh"}
    assert "--include='results/*'" in _runs(push)


@pytest.mark.parametrize("name", ["submission.yml", "gate.yml", "release.yml"])
def test_jobs_that_run_code_of_others_write_no_cache(name: str) -> None:
    """The cache of the main branch is read by workflows that publish."""
    used = re.findall(r"\n[^#\n]*\bcache\b\S*", (WORKFLOWS / name).read_text(encoding="utf-8"))
    assert used == []


def test_a_release_is_uploaded_before_its_wheel_runs() -> None:
    jobs = _yaml(WORKFLOWS / "release.yml")["jobs"]
    assert "upload-artifact" in jobs["build"]["steps"][-1]["uses"]
    running = [name for name, job in jobs.items() if "ope-bench run" in _runs(job)]
    assert running == ["alone"]
    assert jobs["alone"]["needs"] == "build"
    # Tools that see the archives are of one version.
    for word in ("build", "twine"):
        assert re.search(rf"pip install .*\b{word}==", _runs(jobs["build"]))


def test_trials_of_a_submission_see_no_secret_and_no_file_of_the_workflow(tmp_path: Path) -> None:
    """A command in the place of `ope-bench` that shows what it sees."""
    (tmp_path / "ope-bench").write_text("#!/bin/sh\nread -r secret\nenv\necho read $secret $*\n")
    (tmp_path / "ope-bench").chmod(0o755)
    done = subprocess.run(
        [ROOT / ".ci" / "verify-submission", "FOLDER", "-"],
        input="hush\n",
        env={
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            **dict.fromkeys(("SECRET", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_TOKEN"), "hush"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    *environment, said = done.stdout.splitlines()
    assert said == "read hush verify FOLDER --secret - --jobs 2 --format json"
    assert not [one for one in environment if "hush" in one or "GITHUB" in one]


def test_a_source_archive_holds_license_changelog_and_citation(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (archive,) = tmp_path.iterdir()
    assert archive.name == f"ope_bench-{__version__}.tar.gz"
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {"LICENSE", "CHANGELOG.md", "CITATION.cff", "README.md"} <= names
    assert not any(name.startswith("results/") for name in names)


def test_links_of_the_readme_lead_to_the_repository_where_a_registry_shows_it() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "hatchling", "metadata", "readme"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    links = re.findall(r"\]\(([^)]+)\)", told.stdout)
    assert len(links) > 10
    assert [one for one in links if not one.startswith("https://")] == []


@pytest.mark.parametrize("name", ["tests/benchmarks", "results/performance/scripts"])
def test_every_file_that_measures_something_says_what_and_when(name: str) -> None:
    folder = ROOT / name
    text = (folder / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"`(\w+\.py)`", text)
    assert sorted(named) == sorted(path.name for path in folder.glob("*.py"))


def test_the_page_for_programs_names_what_does_the_things_that_are_not_here() -> None:
    docs = ROOT / "bench" / "docs"
    answer = (docs / "faq.md").read_text(encoding="utf-8").partition("**What is not here?**")[2]
    named = set(re.findall(r"\[([^\]]+)\]\(https://github", answer))
    assert len(named) > 4
    text = (docs / "llms.txt").read_text(encoding="utf-8").partition("## What is not here")[2]
    assert [one for one in named if one not in text] == []


def test_the_page_for_programs_names_commands_that_exist() -> None:
    text = (ROOT / "bench" / "docs" / "llms.txt").read_text(encoding="utf-8")
    reference = (ROOT / "bench" / "docs" / "cli.md").read_text(encoding="utf-8")
    named = {words.strip() for words in re.findall(r"`ope-bench ((?:[a-z]+ ?)+)", text)}
    headings = re.findall(r"^#+ `?ope-bench ([a-z ]+)", reference, re.MULTILINE)
    assert len(named) > 10
    for words in named:
        assert any(f"{words} ".startswith(f"{one.strip()} ") for one in headings), words
