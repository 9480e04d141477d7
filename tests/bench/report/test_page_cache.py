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
from ope_bench.report.page.libraries import chart_specs, vega
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


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A cache folder and the charts, built once in this process."""
    folder = tmp_path_factory.mktemp("built")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        _forget()
        made = folder, chart_specs()
    _forget()
    return made


@pytest.fixture
def kept(built, no_cache):
    """The same folder of caches, as a later process finds it."""
    shutil.copytree(built[0], no_cache)
    return no_cache


@pytest.fixture
def bundle(monkeypatch):
    """A short text in place of Vega's, which takes a second to make."""
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda snippet: f"<!-- {snippet}")
    return "<\\!-- window.vegaEmbed = vegaEmbed;"


def test_vega_is_built_once_for_all_processes(no_cache, bundle, monkeypatch):
    assert vega() == bundle
    assert list(no_cache.rglob("vega-*.js"))
    vega.cache_clear()
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert vega() == bundle


def test_vega_is_built_where_no_cache_can_be_written(no_cache, bundle):
    no_cache.write_text("a file where the folder would be")
    assert vega() == bundle
    assert no_cache.is_file()


def _without_numbers(spec):
    # Altair numbers the parameters and views of a process.
    return re.sub(r"param_\d+|view_\d+", "", json.dumps(spec))


@pytest.fixture
def one_chart(monkeypatch):
    """Pages with one chart, which takes a tenth of the time to build."""
    name, make = next(iter(CHARTS.items()))
    monkeypatch.setattr("ope_bench.report.charts.CHARTS", {name: make})
    return name


@pytest.mark.usefixtures("kept")
def test_charts_are_built_once_for_all_processes(built, monkeypatch):
    made = built[1]
    assert made.keys() == CHARTS.keys()
    for name, chart in CHARTS.items():
        spec = chart().to_dict()
        spec.pop("config", None)
        assert _without_numbers(made[name]) == _without_numbers(spec)
    monkeypatch.setitem(sys.modules, "altair", None)
    assert chart_specs() == made


@pytest.mark.usefixtures("one_chart")
def test_charts_of_other_code_are_built_anew(kept, monkeypatch):
    assert len(list(kept.rglob("charts-*.json"))) == 1
    monkeypatch.setattr(libraries, "LEVEL", 0.9)
    chart_specs()
    assert len(list(kept.rglob("charts-*.json"))) == 2


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
def test_damaged_charts_are_built_anew(built, kept, one_chart, damaged):
    made = {one_chart: built[1][one_chart]}
    (charts,) = (kept / "ope-bench").glob("charts-*.json")
    charts.write_text(damaged, encoding="utf-8")
    found = chart_specs()
    assert {name: _without_numbers(one) for name, one in found.items()} == {
        name: _without_numbers(one) for name, one in made.items()
    }
    assert json.loads(charts.read_text(encoding="utf-8")) == found
