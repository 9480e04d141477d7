"""What pages have in common is built once, and kept where that is possible."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import pytest

from ope_bench.report.charts import CHARTS
from ope_bench.report.page import libraries
from ope_bench.report.page.libraries import chart_specs, vega, vega_in_background
from ope_bench.store import Store

from .conftest import plenty


def _forget():
    vega.cache_clear()
    chart_specs.cache_clear()


@pytest.fixture
def no_cache(monkeypatch, tmp_path):
    folder = tmp_path / "caches"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    _forget()
    yield folder
    _forget()


def test_another_process_makes_the_same_vega(no_cache):
    made = vega()
    shutil.rmtree(no_cache)
    with vega_in_background() as script:
        assert script() == made


@pytest.mark.usefixtures("no_cache")
def test_a_process_that_cannot_make_vega_is_done_without(monkeypatch):
    monkeypatch.setattr("ope_bench.report.page.libraries._ELSEWHERE", "raise SystemExit(1)")
    with vega_in_background() as script:
        assert script() == vega()


@pytest.mark.usefixtures("no_cache")
def test_vega_is_built_once_for_all_processes(monkeypatch):
    made = vega()
    _forget()
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    monkeypatch.setattr("subprocess.Popen", None)
    with vega_in_background() as script:
        assert script() == made


def test_vega_is_built_where_no_cache_can_be_written(no_cache):
    no_cache.write_text("a file where the folder would be")
    with vega_in_background() as script:
        assert "vegaEmbed" in script()
    assert no_cache.is_file()


def _without_numbers(spec):
    # Altair numbers the parameters and views of a process.
    return re.sub(r"param_\d+|view_\d+", "", json.dumps(spec))


@pytest.mark.usefixtures("no_cache")
def test_charts_are_built_once_for_all_processes(monkeypatch):
    made = chart_specs()
    assert made.keys() == CHARTS.keys()
    for name, chart in CHARTS.items():
        spec = chart().to_dict()
        spec.pop("config", None)
        assert _without_numbers(made[name]) == _without_numbers(spec)
    _forget()
    monkeypatch.setitem(sys.modules, "altair", None)
    assert chart_specs() == made


def test_charts_of_other_code_are_built_anew(no_cache, monkeypatch):
    chart_specs()
    _forget()
    monkeypatch.setattr(libraries, "LEVEL", 0.9)
    chart_specs()
    assert len(list(no_cache.rglob("charts-*.json"))) == 2


def test_a_page_whose_parts_are_kept_imports_no_library_of_charts(tmp_path):
    vega()
    chart_specs()
    store = tmp_path / "s.sqlite"
    with Store.open(store, write=True) as opened:
        run = opened.begin_run(suite="toy", truth="expected")
        for one in plenty()[:40]:
            opened.add(one, run)
        opened.end_run(run, 0)
    words = ["report", "-o", str(tmp_path / "page.html"), "--store", str(store)]
    code = f"""
import sys
from ope_bench.cli.app import invoke
assert invoke({words!r}) == 0
assert not {{"altair", "vl_convert", "pandas", "torch"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("damaged", ["", '{"sweep": '])
def test_damaged_charts_are_built_anew(no_cache, damaged):
    made = chart_specs()
    (kept,) = (no_cache / "ope-bench").glob("charts-*.json")
    kept.write_text(damaged, encoding="utf-8")
    chart_specs.cache_clear()
    assert chart_specs() == made
    assert json.loads(kept.read_text(encoding="utf-8")) == made
