"""The page's first screen in a real browser: what was found, and how far a run is."""

from __future__ import annotations

import re

import pytest

from ope_bench.boards.leaderboard import boards
from ope_bench.report.content import ReportData
from ope_bench.report.notes import findings
from ope_bench.report.page.html import groups_of, outcomes_of_runs, read_part, render_page
from ope_bench.store import Freshness, Store
from support.paths import ROOT

from .conftest import HOSTILE, made, plenty

OVERALL = "document.querySelector('#result table')"
FIT = (
    "[...document.querySelectorAll('.scroll')].every((one) => "
    "(one.scrollWidth - one.clientWidth > 2) === one.parentNode.classList.contains('more-right'))"
)


@pytest.fixture
def opened(browser, content, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(render_page(content), encoding="utf-8")
    browser.send("Emulation.setEmulatedMedia", media="")
    browser.resize(1280, 1000)
    browser.open(path.as_uri())
    yield browser
    assert browser.complaints == []
    assert browser.dialogs == []


@pytest.fixture
def two_suites(tmp_path):
    """A store with settings of ``quick``, and of an ``adhoc`` run that came later."""
    path = tmp_path / "two.sqlite"
    with Store.open(path, write=True) as store:
        for suite, sizes in (("quick", (10, 100)), ("adhoc", (50,))):
            run = store.begin_run(suite=suite, truth="expected", planned=6)
            for n in sizes:
                for replicate in range(3):
                    for name, error in (("ipw", 1.0), ("dm", 0.1)):
                        store.add(made(name, replicate, error * (1 + replicate), n=n), run)
            store.end_run(run, 0)
    return path


def column(browser, number):
    cells = f"[...{OVERALL}.tBodies[0].rows].map((row) => row.cells[{number}].textContent)"
    return browser.js(cells)


def test_a_group_of_each_suite_says_what_the_terminal_says(two_suites):
    content = ReportData.read(two_suites)
    groups = {group["suite"]: group for group in groups_of(content)}
    # That of the newest run is shown first.
    assert list(groups) == ["adhoc", "quick", ""]
    assert groups["quick"]["title"] == "RMSE and failures against the number of actions, in small"
    assert groups["adhoc"]["title"] == ""
    assert sorted(groups["quick"]["settings"] + groups["adhoc"]["settings"]) == [0, 1, 2]
    assert len(groups[""]["settings"]) == 3
    with Store.open(two_suites) as store:
        records = [one.record for one in store.results(suite="quick")]
    assert list(groups["quick"]["sentences"]) == findings(boards(records, truth="expected"))
    counts = outcomes_of_runs(content)
    assert {run.suite: counts[run.id] for run in content.runs} == {"quick": 12, "adhoc": 6}


def test_a_reused_trial_counts_for_the_newest_run_that_has_it(two_suites):
    with Store.open(two_suites, write=True) as store:
        (only,) = [run for run in store.runs() if run.suite == "adhoc"]
        again = [one.record.trial for one in store.results(run=only.id)]
        later = store.begin_run(suite="again", truth="expected", planned=6)
        store.reuse(store.current(again, Freshness(lambda _: "digest")).values(), later)
        store.end_run(later, 0)
    content = ReportData.read(two_suites)
    counts = outcomes_of_runs(content)
    assert {run.suite: counts[run.id] for run in content.runs} == {
        "quick": 12,
        "adhoc": 0,
        "again": 6,
    }
    assert {group["suite"] for group in groups_of(content)} == {"quick", "again", ""}


def test_a_store_of_one_suite_has_one_group(content):
    (group,) = groups_of(content)
    assert (group["suite"], len(group["settings"])) == ("adhoc", len(content.settings))


@pytest.mark.usefixtures("undrawn")
def test_the_result_is_first_and_the_runs_are_behind_it(opened, content):
    ids = opened.js("[...document.querySelectorAll('main > section')].map((one) => one.id)")
    assert ids == ["result", "sweeps", "boards", "positivity", "ranks", "runs", "words"]
    said = opened.js(
        "[...document.querySelectorAll('.findings li')].map((one) => one.textContent)"
    )
    assert said == groups_of(content)[0]["sentences"]
    assert len(said) == 3
    # On a laptop's screen without scrolling.
    assert opened.js(f"{OVERALL}.tBodies[0].rows[0].getBoundingClientRect().bottom") < 600
    assert HOSTILE in "".join(column(opened, 0))


@pytest.mark.usefixtures("undrawn")
def test_the_overall_table_has_rank_with_its_interval_failures_time_and_access(
    browser, stored, tmp_path
):
    """Errors of +-s have an RMSE of s: intervals of far sizes do not overlap."""
    errors = {"dm": 0.1, "ipw": 1.0, "eipw": 10.0}
    access = {"dm": ("samples",), "ipw": ("propensity", "target_policy"), "eipw": ("samples",)}
    records = [
        made(
            name,
            r,
            size * (1 + 0.01 * r) * (-1) ** r,
            n=n,
            access=access[name],
            exclusive=True,
            fit_seconds=size,
            estimate_seconds=0.0,
        )
        for n in (10, 50)
        for r in range(30)
        for name, size in errors.items()
    ]
    path = tmp_path / "overall.html"
    path.write_text(render_page(ReportData.read(stored(records))), encoding="utf-8")
    browser.resize(1280, 1000)
    browser.open(path.as_uri())
    assert column(browser, 0) == ["dm", "ipw", "eipw"]
    assert column(browser, 1) == ["11", "22", "33"]
    factors = [float(text.split()[0]) for text in column(browser, 2)]
    assert factors == pytest.approx([1.0, 10.0, 100.0], rel=0.01)
    assert column(browser, 3) == ["none"] * 3
    assert column(browser, 4) == ["100 ms", "1.00 s", "10.0 s"]
    assert column(browser, 5) == ["samples", "p0π1", "samples"]
    assert browser.complaints == []


@pytest.mark.usefixtures("undrawn")
def test_who_cannot_be_told_apart_shares_the_ranks_that_are_open(browser, stored, tmp_path):
    records = [
        made(name, r, sign * (1 + 0.5 * (r % 3)))
        for r in range(30)
        for name, sign in (("dm", 1.0), ("ipw", -1.02))
    ]
    path = tmp_path / "open.html"
    path.write_text(render_page(ReportData.read(stored(records))), encoding="utf-8")
    browser.open(path.as_uri())
    assert column(browser, 1) == ["11 – 2", "21 – 2"]
    assert browser.complaints == []


@pytest.mark.usefixtures("undrawn")
def test_the_newest_suite_is_shown_and_another_can_be_chosen(browser, two_suites, tmp_path):
    path = tmp_path / "suites.html"
    path.write_text(render_page(ReportData.read(two_suites)), encoding="utf-8")
    browser.resize(1280, 1000)
    browser.open(path.as_uri())
    names = "[...document.getElementById('suite').options].map((one) => one.textContent)"
    assert browser.js(names)[-1] == "everything"
    settings = "[...document.querySelectorAll('select[aria-label=Setting] option')].length"
    counts = {}
    for suite in ("quick", "adhoc", "*"):
        browser.js(
            "(() => { const f = document.getElementById('suite'); f.value = '" + suite + "';"
            " f.dispatchEvent(new Event('change')); })()"
        )
        counts[suite] = browser.js(settings)
    assert counts == {"quick": 2, "adhoc": 1, "*": 3}
    browser.open(path.as_uri() + "#suite=quick")
    title = browser.js("document.getElementById('result-title').textContent")
    assert title == "RMSE and failures against the number of actions, in small"
    assert browser.js("document.getElementById('shown').textContent") == "4 of 4 rows"
    assert browser.complaints == []


@pytest.mark.usefixtures("undrawn")
def test_a_name_leads_to_its_formula(opened, tmp_path):
    opened.js(
        f"[...{OVERALL}.querySelectorAll('th button.link')]"
        ".find((one) => one.textContent === 'ipw').click()"
    )
    opened.until("document.getElementById('about').open")
    told = opened.js("document.getElementById('about').textContent")
    assert "w_i = π1(a_i|x_i) / π0(a_i|x_i)" in told
    assert "ope-bench show ipw" in told
    heads = opened.js(
        "[...document.querySelectorAll('#about .doc h3, #about .doc b')]"
        ".map((one) => one.textContent)"
    )
    assert {"Assumptions", "Fails when"} <= set(heads)
    opened.open((tmp_path / "report.html").as_uri() + "#about=dm")
    opened.until("document.getElementById('about').open")
    opened.send("Input.dispatchKeyEvent", type="keyDown", key="Escape", windowsVirtualKeyCode=27)
    opened.until("!document.getElementById('about').open")
    opened.until("!location.hash.includes('about=')")


def test_on_a_phone_numbers_stand_beside_names(opened, tmp_path):
    opened.resize(390, 844, phone=True)
    opened.open((tmp_path / "report.html").as_uri())
    assert opened.js("document.documentElement.scrollWidth") <= 390
    for table in (OVERALL, "document.querySelector('.matrix')"):
        cells = f"[...{table}.tBodies[0].rows[0].cells].map((one) => one.getBoundingClientRect())"
        name, number = opened.js(f"{cells}.slice(0, 2).map((one) => [one.left, one.right])")
        assert name[0] >= 0
        assert number[1] <= 390
        # The name stays where it is when the numbers are scrolled.
        left = opened.js(
            f"(() => {{ {table}.parentNode.scrollLeft = 9999;"
            f" return {table}.tBodies[0].rows[0].cells[0].getBoundingClientRect().left; }})()"
        )
        assert left == pytest.approx(name[0], abs=2)


def test_a_table_that_is_cut_says_so(opened, tmp_path):
    for width in (390, 800, 1400):
        opened.resize(width, 900)
        opened.open((tmp_path / "report.html").as_uri())
        opened.until(FIT)
        assert opened.js("document.documentElement.scrollWidth") <= width
        assert opened.complaints == []


def test_paper_has_every_chart_and_no_controls(opened):
    opened.until(
        "[...document.querySelectorAll('figure')].every((f) => f.dataset.drawn || "
        "f.querySelector('.empty'))"
    )
    opened.send("Emulation.setEmulatedMedia", media="print")
    hidden = "getComputedStyle(document.getElementById('filters')).display"
    assert opened.js(hidden) == "none"
    assert opened.js(f"{OVERALL}.offsetHeight > 0")
    assert opened.js("getComputedStyle(document.querySelector('.scroll')).overflowX") == "visible"
    assert len(opened.send("Page.printToPDF")["data"]) > 50_000
    opened.send("Emulation.setEmulatedMedia", media="")


@pytest.mark.usefixtures("undrawn")
def test_while_a_run_goes_on_the_page_says_how_far_it_is(browser, tmp_path):
    path, page = tmp_path / "going.sqlite", tmp_path / "going.html"
    with Store.open(path, write=True) as store:
        run = store.begin_run(suite="adhoc", truth="empirical", planned=2)
        store.add(made(), run)
        page.write_text(render_page(ReportData.read(path)), encoding="utf-8")
        browser.open(page.as_uri())
        words = browser.js("document.querySelector('.progress').textContent")
        assert words.startswith("adhoc: 1 of 2 trials have an outcome")
        assert browser.js("document.querySelector('progress').value") == 0.5
        # Half a run has no winner.
        assert browser.js("document.querySelector('.findings')") is None
        assert browser.js("document.getElementById('result').textContent").count("planned") == 1
        store.add(made("dm"), run)
        store.end_run(run, 0)
        page.write_text(render_page(ReportData.read(path)), encoding="utf-8")
        browser.open(page.as_uri())
        assert browser.js("document.querySelector('.progress')") is None
        assert browser.js("document.querySelectorAll('.findings li').length") > 0
        assert browser.complaints == []


def test_the_pages_words_are_those_of_the_glossary():
    page = ROOT / "bench" / "docs" / "glossary.md"
    glossary = page.read_text(encoding="utf-8").replace("\\|", "|")
    source = read_part("scripts/words.js").partition("const WORDS = {")[2].partition("};")[0]
    words = dict(re.findall(r'^  "?([\w ]+)"?: "(.*)",$', source, re.MULTILINE))
    assert len(words) == source.count('",\n') == 9
    for word, meaning in words.items():
        assert f"| {word} | {meaning} |" in glossary


@pytest.mark.usefixtures("undrawn")
def test_every_status_has_its_words_in_the_overall_table(browser, stored, tmp_path):
    path = tmp_path / "plenty.html"
    path.write_text(render_page(ReportData.read(stored(plenty()))), encoding="utf-8")
    browser.open(path.as_uri())
    failures = dict(zip(column(browser, 0), column(browser, 3), strict=True))
    # A third of the trials on three settings.
    assert failures["ipw-star"] == "33% positivity "
    assert next(text for name, text in failures.items() if HOSTILE in name) == "33% error "
