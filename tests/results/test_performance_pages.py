"""Pages of measurements follow from their figures and keep those of other machines."""

from __future__ import annotations

import copy
import importlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from judging.pages.blocks import NONE, by_machine, harness

from support.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = ROOT / "results" / "performance"
SCRIPTS = {
    "actions": "weights_against_actions",
    "bare": "side_by_side_bare",
    "batched": "side_by_side_batched_flow",
    "benchopt": "side_by_side_benchopt",
    "cost-curves": "cost_curves",
    "dask": "side_by_side_dask",
    "generation": "side_by_side_obp_generation",
    "hot-paths": "hot_paths",
    "loop": "loop_cost",
    "obp-estimators": "side_by_side_obp_estimators",
    "scale": "scale",
    "ten-million-trials": "ten_million_trials",
}
"""The script of each page that `results/performance/measure` makes."""


@pytest.fixture(autouse=True)
def _scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "results" / "performance" / "scripts")


def committed(name: str) -> list[dict[str, Any]]:
    text = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    return list(json.loads(text)["machines"])


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_committed_page_is_what_its_script_makes_of_its_figures(name: str) -> None:
    page = importlib.import_module(SCRIPTS[name]).PAGE
    assert (FOLDER / f"{name}.md").read_text(encoding="utf-8") == page.text(committed(name))


def test_measure_makes_each_of_these_pages() -> None:
    text = (FOLDER / "measure").read_text(encoding="utf-8")
    assert sorted(name for name in SCRIPTS if f"{SCRIPTS[name]}.py" in text) == sorted(SCRIPTS)


def on_machine(cpu: str, row: str) -> dict[str, Any]:
    report = copy.deepcopy(committed("bare")[0]) | {"command": f"python {row}.py", "rows": [row]}
    report["machine"] |= {"cpu": cpu, "git": {"revision": f"{row}-revision"}}
    return report


def test_a_second_machine_is_written_beside_the_first(tmp_path: Path) -> None:
    from statement import Page

    page = Page("# Title", lambda report: f"rows: {report['rows']}", "Behind all.")
    for cpu, row in (("Abacus", "old"), ("Slide rule", "other"), ("Abacus", "new")):
        page.write(tmp_path / "page", on_machine(cpu, row))
    text = (tmp_path / "page.md").read_text()
    order = ["# Title", "## Slide rule", "rows: ['other']", "## Abacus", "rows: ['new']"]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    assert "old" not in text
    assert text.count("### How it was measured") == 2
    assert text.endswith("\n\nBehind all.\n")


def test_a_measurement_goes_on_with_this_machines_figures_alone(tmp_path: Path) -> None:
    from statement import keep, resumed

    path = tmp_path / "page"
    new = on_machine("Abacus", "new")
    assert resumed(path, new) == new
    keep(path, on_machine("Slide rule", "other"))
    assert resumed(path, new) == new
    keep(path, on_machine("Abacus", "old"))
    found = resumed(path, new)
    assert found["rows"] == ["old"]
    assert found["command"] == "python old.py` and `python new.py"
    assert found["revisions"] == ["old-revision", "new-revision"]


def test_the_table_of_costs_has_the_range_over_machines(tmp_path: Path) -> None:
    for name in ("hot-paths", "benchopt", "dask", "batched"):
        text = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
        (tmp_path / f"{name}.json").write_text(text)
    dask = json.loads((tmp_path / "dask.json").read_text())
    machine = dask["machines"][0]
    dask["machines"] = [machine, copy.deepcopy(machine), copy.deepcopy(machine)]
    for speed_up, one in zip((1.5, 1.25, 1.75), dask["machines"], strict=True):
        for row in one["rows"]:
            row["ratios"]["two Dask workers over one"]["median"] = speed_up
    (tmp_path / "dask.json").write_text(json.dumps(dask))
    what = "throughput of two Dask workers over one, trials of 20 ms that wait"
    assert f"| {what} | 1.25 to 1.75 times |" in harness(tmp_path)


def test_the_table_by_machine_has_each_machines_own_figures() -> None:
    lines = by_machine(FOLDER, 10_000, 1_000).splitlines()
    cpus = [cell.strip() for cell in lines[0].split("|")[2:-2]]
    for page in ("dask", "benchopt"):
        row = next(line for line in lines if f"performance/{page}.md" in line)
        cells = zip(cpus, row.split("|")[2:-2], strict=True)
        shown = {cpu for cpu, cell in cells if cell.strip() != NONE}
        assert shown == {one["machine"]["cpu"] for one in committed(page)}
