"""The page of estimates and advice: aggregates alone, escaped, and drawn without a network."""

from __future__ import annotations

import importlib
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from ope_bench import Log, TargetPolicy, advise, estimate
from ope_bench.cli.app import invoke
from ope_bench.logs.page import BINS, log_page, weight_lines, weight_words
from ope_bench.report.page.html import read_part
from support.browser import CHROMIUM, Browser
from support.small_logs import discrete, frame_of, log_of, table_of, write_small

HOSTILE = "</script><script>alert(1)</script><i id=x>"


@pytest.fixture(scope="module")
def log():
    """Names of columns, actions and policies that would run if they were markup."""
    given = discrete(160)
    frame = {name: np.asarray(values) for name, values in frame_of(given).items()}
    frame["a"] = np.array([f"{HOSTILE}{one}" for one in frame["a"]])
    table = table_of(given.target_policy, given)
    policies = {HOSTILE: TargetPolicy(table=table), "half": TargetPolicy(table=table)}
    return Log.from_frame(
        frame,
        context=[name for name in frame if name[0] == "x"],
        action="a",
        reward="r",
        propensity="p",
        target=policies,
        actions=[f"{HOSTILE}{one}" for one in range(4)],
    )


@pytest.fixture(scope="module")
def pages(log):
    """The page of estimates and that of advice, without Vega."""
    result = estimate(log, ["ipws", "dm[regressor=ridge]"])
    advice = advise(
        log, target=HOSTILE, candidates=["ipws", "ipw"], worlds=["redrawn"], replicates=1
    )
    policies = advise(log)
    return {
        "policies": lambda script: log_page(log, policies, script=script),
        "estimates": lambda script: log_page(log, result, script=script),
        "advice": lambda script: log_page(log, advice, script=script),
    }


def test_bins_hold_every_row_and_all_the_weight():
    weights = np.array([0.0, 0.0, 0.5, 1.0, 1.0, 8.0])
    lines = weight_lines(weights)
    share = {
        of: sum(line["share"] for line in lines if line["of"] == of) for of in ("rows", "weight")
    }
    assert share == pytest.approx({"rows": 4 / 6, "weight": 1.0})
    assert len(lines) == 2 * BINS
    assert [line["share"] for line in lines if line["of"] == "weight"][-1] == pytest.approx(
        8 / 10.5
    )
    assert weight_lines(np.ones(3))[0]["share"] == 1.0
    assert weight_lines(np.zeros(3)) == []
    words = weight_words(weights)
    assert "33% of the rows have weight zero" in words
    assert f" {10.5**2 / (0.25 + 1 + 1 + 64):,.0f} of 6 rows" in words
    assert "no logged action" in weight_words(np.zeros(3))


@pytest.mark.parametrize("name", ["estimates", "advice", "policies"])
def test_names_are_text_wherever_they_stand(pages, name):
    text = pages[name](lambda: "")
    assert "<i id=x>" not in text
    assert text.count("<script") == 3
    held = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert HOSTILE in json.dumps(held)
    assert "&lt;/script&gt;" in text
    assert "is missing from the context" in text


@pytest.mark.parametrize("name", ["estimates", "advice", "policies"])
def test_all_pages_have_one_style_and_one_way_to_draw_charts(pages, name):
    text = pages[name](lambda: "")
    for part in ("page.css", "scripts/theme.js"):
        assert read_part(part) in text
    assert "@@" not in text


def test_no_row_of_the_log_is_on_the_page(log, pages):
    for make in pages.values():
        text = make(lambda: "")
        assert not [one for one in log.reward[:20] if repr(float(one)) in text]
        assert not [one for one in log.context[:20, 0] if repr(float(one)) in text]


def test_the_commands_write_pages(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_small(tmp_path)
    assert invoke(["estimate", "log.yaml", "--est", "ipw", "--report", "e.html"]) == 0
    arguments = ["--worlds", "resample[kept=1]", "--replicates", "1", "--report", "a.html"]
    capsys.readouterr()
    assert invoke(["advise", "log.yaml", *arguments, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == 1
    for name in ("e.html", "a.html"):
        text = (tmp_path / name).read_text()
        assert "vegaEmbed" in text
        assert str(tmp_path) not in text


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here to open pages with")
def test_pages_draw_themselves_on_a_screen_and_on_a_phone(pages, tmp_path):
    from ope_bench.report.page.libraries import vega

    browser = Browser()
    try:
        for name, make in pages.items():
            path = tmp_path / f"{name}.html"
            path.write_text(make(vega), encoding="utf-8")
            for width in (1400, 390):
                browser.resize(width, 900)
                browser.open(path.as_uri())
                browser.until(
                    "[...document.querySelectorAll('figure')].every((one) => one.dataset.drawn)"
                )
                assert browser.js("document.querySelectorAll('figure svg').length") >= 3
                assert browser.js("document.documentElement.scrollWidth") <= width
                browser.js("document.getElementById('theme').click()")
                browser.until("document.documentElement.dataset.theme")
                assert browser.complaints == browser.dialogs == []
                outside = [
                    one for one in browser.requests if not one.startswith(("file:", "data:"))
                ]
                assert outside == []
    finally:
        browser.close()


def test_a_log_without_propensities_has_a_page():
    given = discrete(60)
    frame = {name: values for name, values in frame_of(given).items() if name != "p"}
    log = Log.from_frame(
        frame,
        context=[name for name in frame if name[0] == "x"],
        action="a",
        reward="r",
        target=TargetPolicy(sampled="a"),
    )
    text = log_page(log, estimate(log, "dm-star[regressor=ridge]"), script=lambda: "")
    assert 'data-chart="reliability"' not in text
    assert 'data-chart="values"' in text
    assert log_of(given).n == 60


def test_several_policies_share_one_axis_and_one_without_values_is_absent():
    given = discrete(60)
    frame = frame_of(given)
    log = Log.from_frame(
        frame,
        context=[name for name in frame if name[0] == "x"],
        action="a",
        reward="r",
        propensity="p",
        target={"new": {"probability": "p"}, "old": {"probability": "p"}, "done": {"action": "a"}},
    )
    result = estimate(log, ["ipw", "ipws"])
    text = log_page(log, result, script=lambda: "")
    assert text.count('data-chart="values"') == 1
    assert "What would new, old and done have earned? Expected r per decision;" in text
    data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])
    assert {line["policy"] for line in data["values"]["lines"]} == {"new", "old"}
    layers = result.plot().to_dict()["layer"]
    assert {one["encoding"]["yOffset"]["field"] for one in layers[1:]} == {"policy"}
    assert repr(result["ipws"]).count("\n") == 0


def test_the_interval_of_a_mean_weight_is_symmetric(monkeypatch):
    """Both ends lie 1.96 standard errors from the mean."""
    found = SimpleNamespace(
        action=np.array([0]), z=np.array([3.0]), mean=np.array([2.0]), error=np.array([0.5])
    )
    page = importlib.import_module("ope_bench.logs.page")
    monkeypatch.setattr(page, "reliability_of", lambda log: found)
    (chart,) = page._about_log(SimpleNamespace(actions=["shoes"])).charts
    assert chart.lines == [{"action": "shoes", "mean": 2.0, "low": 1.02, "high": 2.98}]
