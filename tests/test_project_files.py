"""Facts that several files of the project state agree with each other."""

from __future__ import annotations

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
    verify, accept = (yaml.safe_load(text)["jobs"][name] for name in ("verify", "open"))
    assert set(verify["permissions"].values()) == {"read"}
    assert verify["steps"][0]["with"]["persist-credentials"] is False
    assert "inputs.package" in str(verify)
    # A cache is shared with workflows that publish.
    assert "cache" not in str(verify)
    assert "inputs.package" not in str(accept)
    runs = [step["run"] for step in accept["steps"] if "run" in step]
    assert runs[0].startswith(".ci/accept-submission ")


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


def test_every_file_that_times_something_says_what_and_when() -> None:
    folder = ROOT / "tests" / "benchmarks"
    text = (folder / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"`(\w+\.py)`", text)
    assert sorted(named) == sorted(path.name for path in folder.glob("*.py"))


def test_the_page_for_programs_names_commands_that_exist() -> None:
    text = (ROOT / "bench" / "docs" / "llms.txt").read_text(encoding="utf-8")
    reference = (ROOT / "bench" / "docs" / "cli.md").read_text(encoding="utf-8")
    named = {words.strip() for words in re.findall(r"`ope-bench ((?:[a-z]+ ?)+)", text)}
    headings = re.findall(r"^#+ `?ope-bench ([a-z ]+)", reference, re.MULTILINE)
    assert len(named) > 10
    for words in named:
        assert any(f"{words} ".startswith(f"{one.strip()} ") for one in headings), words
