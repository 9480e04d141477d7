"""What a reader does with the page, in a real browser."""

from __future__ import annotations

import json
import sys

import pytest

from ope_bench.boards.built_in_columns import COLUMNS, DOUBTFUL, GROUP, LAYOUTS, column_registry
from ope_bench.boards.leaderboard import boards
from ope_bench.report.content import ReportData
from ope_bench.report.page.html import read_part, render_page
from ope_bench.report.tables import figure
from ope_bench.trials.status import Status
from support.distributions import write_distribution

from .conftest import HOSTILE, made

pytestmark = pytest.mark.usefixtures("browser")

MORE_COLUMNS = (
    "[...document.querySelectorAll('#boards button')]"
    ".find((one) => one.textContent === 'More columns')"
)
BOARD = "document.querySelector('#boards table:not(.matrix)')"


@pytest.fixture
def opened(browser, content, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(render_page(content), encoding="utf-8")
    browser.resize(1280, 1000)
    browser.open(path.as_uri() + "#setting=toy+n_actions%3D10")
    yield browser
    assert browser.complaints == []
    assert browser.dialogs == []
    # A figure's own pictures and compressed trials are blobs of the page itself.
    outside = [url for url in browser.requests if not url.startswith(("file:", "data:", "blob:"))]
    assert outside == []


def column(browser, number):
    cells = f"[...{BOARD}.tBodies[0].rows].map((row) => row.cells[{number}].textContent)"
    return browser.js(cells)


def press(browser, script):
    browser.js(f"{script}.click()")


def test_all_charts_draw_themselves(opened):
    figures = "[...document.querySelectorAll('figure')]"
    n = opened.js(f"{figures}.length")
    assert n == 8
    for place in range(n):
        opened.js(f"{figures}[{place}].scrollIntoView()")
        opened.until(
            f"{figures}[{place}].dataset.drawn && {figures}[{place}].querySelector('svg')"
        )
    told = opened.js("document.querySelector('[data-chart=positivity] svg').textContent")
    assert HOSTILE in told
    assert "never logged" in told
    # The line at zero has data of its own, beside those of the page.
    rules = "document.querySelectorAll('[data-chart=errors] .mark-rule.role-mark line')"
    assert opened.js(f"{rules}.length") == 1


def test_a_name_in_a_legend_singles_its_line_out(opened):
    figure = "document.querySelector('[data-chart=cdf]')"
    opened.js(f"{figure}.scrollIntoView()")
    opened.until(f"{figure}.dataset.drawn")
    signs = opened.js(
        f"[...{figure}.querySelectorAll('.legend button svg')].map((one) => one.innerHTML)"
    )
    assert len(set(signs)) == len(signs) == 5
    button = (
        f"[...{figure}.querySelectorAll('.legend button')].find((b) => b.textContent === 'dm')"
    )
    press(opened, button)
    assert opened.js(f"{button}.getAttribute('aria-pressed')") == "true"
    strong = (
        f"[...{figure}.querySelectorAll('svg path[aria-roledescription=\"line mark\"]')]"
        ".filter((one) => one.getAttribute('opacity') === '1').length"
    )
    opened.until(f"{strong} === 1")


@pytest.mark.usefixtures("undrawn")
def test_a_click_on_a_heading_sorts_and_is_told_to_screen_readers(opened):
    heading = f"{BOARD}.querySelector('th[data-key=rmse] button')"
    press(opened, heading)
    ascending = [float(word) for word in column(opened, 2)]
    assert ascending == sorted(ascending)
    assert opened.js(f"{heading}.parentNode.getAttribute('aria-sort')") == "ascending"
    press(opened, heading)
    assert [float(word) for word in column(opened, 2)] == ascending[::-1]
    assert "sort=rmse" in opened.js("location.hash")


@pytest.mark.usefixtures("undrawn")
def test_boards_have_the_columns_that_every_format_has(browser, stored, tmp_path):
    balance = dict.fromkeys(("smd_before", "smd_after", "mmd_before", "mmd_after"), 0.2)
    records = [
        made(
            name,
            r,
            0.1,
            exclusive=True,
            fit_seconds=1.0,
            estimate_seconds=0.1,
            standard_error=0.1,
            diagnostics={"log_ratio_rmse": 0.1, "auc": 0.75, **balance},
        )
        for name in ("ipw", "dm")
        for r in range(3)
    ]
    path = tmp_path / "columns.html"
    path.write_text(render_page(ReportData.read(stored(records))), encoding="utf-8")
    heads = f"[...{BOARD}.tHead.rows[0].cells].map((one) => one.textContent)"
    for by, layout in LAYOUTS.items():
        browser.open(path.as_uri() + f"#by={by}")
        (board,) = boards(records, by=by)
        shown = [column.title for column in column_registry().shown(board)]
        assert browser.js(heads) == shown, by
        press(browser, MORE_COLUMNS)
        further = [COLUMNS[key] for key in layout.further]
        known = [
            one.title for one in further if any(one.value(row) is not None for row in board.rows)
        ]
        assert browser.js(heads) == shown + known, by
        assert "columns=more" in browser.js("location.hash")
        press(browser, MORE_COLUMNS)
        assert browser.js(heads) == shown, by
        assert browser.complaints == []


@pytest.mark.usefixtures("undrawn")
def test_values_are_in_the_words_of_their_formats_and_marked(browser, stored, tmp_path):
    records = [made(replicate=r, standard_error=0.1, max_weight_share=0.75) for r in range(3)]
    path = tmp_path / "marks.html"
    path.write_text(render_page(ReportData.read(stored(records))), encoding="utf-8")
    browser.open(path.as_uri())
    heads = browser.js(f"[...{BOARD}.tHead.rows[0].cells].map((one) => one.textContent)")
    cells = browser.js(f"[...{BOARD}.tBodies[0].rows[0].cells].map((one) => one.textContent)")
    told = dict(zip(heads, cells, strict=True))
    assert (told["RMSE"], told["fail"], told["cover"]) == ("0.100", "0%", "100%‡")
    assert told["95 % interval"] == "–"
    browser.open(path.as_uri() + "#by=positivity")
    assert "0.750‡" in browser.js(f"{BOARD}.textContent")
    assert "0% – 56%" in browser.js(f"{BOARD}.textContent")
    why = f"{BOARD}.querySelector('td span[title]').title"
    assert browser.js(why) == DOUBTFUL.explanation
    assert browser.complaints == []


@pytest.mark.usefixtures("undrawn")
def test_a_plugins_column_is_on_the_page(browser, stored, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    source = (
        "from ope_bench import BoardColumn\n"
        f"x = BoardColumn(key='x', title={HOSTILE!r}, value=lambda row: 0.25, format='percent',"
        " boards=('rmse',))"
    )
    write_distribution(tmp_path, "acme-page", GROUP, {"x": "x"}, source)
    column_registry.cache_clear()
    try:
        path = tmp_path / "plugin.html"
        path.write_text(render_page(ReportData.read(stored([made()]))), encoding="utf-8")
    finally:
        column_registry.cache_clear()
        sys.modules.pop("acme_page", None)
    browser.open(path.as_uri())
    assert browser.js(f"{BOARD}.querySelector('th[data-key=x]').textContent") == HOSTILE
    assert browser.js(f"{BOARD}.tBodies[0].rows[0].lastChild.textContent") == "25%"
    assert (browser.complaints, browser.dialogs) == ([], [])


def test_filters_leave_what_was_asked_for_in_tables_and_charts(opened):
    opened.js(
        "(() => { const f = document.getElementById('find'); f.value = 'DM';"
        " f.dispatchEvent(new Event('input')); })()"
    )
    opened.until(f"{BOARD}.tBodies[0].rows.length === 1")
    assert column(opened, 1) == ["dm"]
    assert opened.js("document.getElementById('shown').textContent") == "3 of 16 rows"
    press(opened, "document.getElementById('reset')")
    opened.js(
        "(() => { const f = document.getElementById('access'); f.value = "
        "'propensity, target_policy'; f.dispatchEvent(new Event('change')); })()"
    )
    assert column(opened, 1) == ["ipw"]
    legend = "document.querySelector('[data-chart=cdf] .legend')"
    opened.js(f"{legend}.scrollIntoView()")
    opened.until(f"{legend}.textContent === 'ipw'")


@pytest.mark.usefixtures("undrawn")
def test_a_cell_opens_its_trials_with_tracebacks_and_the_command_to_run_one_again(opened, content):
    hostile = json.dumps(HOSTILE)
    press(
        opened,
        f"[...{BOARD}.querySelectorAll('button.link')].find((one) => "
        f"one.textContent === {hostile})",
    )
    opened.until("document.getElementById('trials').open")
    told = opened.js("document.getElementById('trials').textContent")
    assert f"ValueError: no {HOSTILE} & such" in told
    assert "ope-bench rerun " in told
    rows = "[...document.querySelectorAll('#trials table tbody tr')]"
    assert opened.js(f"{rows}.length") == 12
    key = opened.js(f"{rows}[0].querySelector('code').textContent").split()[2]
    known = [key for s in content.settings for group in s.trials for key in group.key]
    assert sum(one.startswith(key) for one in known) == 1
    assert "third-party" in opened.js("document.querySelector('#trials h2').textContent")
    opened.send("Input.dispatchKeyEvent", type="keyDown", key="Escape", windowsVirtualKeyCode=27)
    opened.until("!document.getElementById('trials').open")
    opened.until("!location.hash.includes('cell=')")


@pytest.mark.usefixtures("undrawn")
def test_a_deep_link_opens_the_same_view(opened, tmp_path):
    link = (
        "#setting=toy+n_actions%3D200&by=positivity&find=ipw&cell=ipw-star%40toy+n_actions%3D200"
    )
    opened.open((tmp_path / "report.html").as_uri() + link)
    opened.until("document.getElementById('trials').open")
    assert "toy n_actions=200" in opened.js("document.getElementById('trials').textContent")
    assert set(column(opened, 1)) == {"eipw", "ipw", "ipw-star"}
    assert "by Positivity" in opened.js(f"{BOARD}.caption.textContent")


def test_hostile_names_are_text_everywhere(opened):
    assert opened.js("document.querySelectorAll('script').length") == 3
    assert HOSTILE in opened.js("document.getElementById('boards').textContent")


def test_the_page_fits_a_phone_and_every_control_has_a_name(opened, tmp_path):
    opened.resize(390, 800, phone=True)
    opened.open((tmp_path / "report.html").as_uri())
    assert opened.js("document.documentElement.scrollWidth") <= 390
    nameless = opened.js(
        "[...document.querySelectorAll('button, select, input, a')].filter((one) => "
        "!(one.getAttribute('aria-label') || one.textContent.trim() || one.closest('label')))"
        ".length"
    )
    assert nameless == 0
    assert opened.js(
        "[...document.querySelectorAll('.scroll')].every((one) => "
        "one.tabIndex === 0 && one.getAttribute('aria-label'))"
    )


@pytest.mark.usefixtures("undrawn")
def test_surrogates_and_dirty_trees_are_marked_where_their_numbers_show(opened):
    opened.js(
        "(() => { const f = document.getElementById('environment'); f.value = 'pictures';"
        " f.dispatchEvent(new Event('change')); })()"
    )
    marks = "[...document.querySelectorAll('#boards h3 .badge')].map((one) => one.textContent)"
    assert opened.js(marks) == ["surrogate data", "dirty"]


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([], "No trial is stored here yet"),
        ([made(replicate=r, status=Status.CRASH) for r in range(3)], "crash"),
        ([made()], "1 trial"),
    ],
    ids=["empty", "only failures", "one trial"],
)
def test_odd_stores_are_shown_without_a_complaint(browser, stored, tmp_path, records, words):
    path = tmp_path / "odd.html"
    path.write_text(render_page(ReportData.read(stored(records))), encoding="utf-8")
    browser.open(path.as_uri())
    assert words in browser.js("document.querySelector('main').textContent")
    figures = "[...document.querySelectorAll('figure')]"
    for place in range(browser.js(f"{figures}.length")):
        browser.js(f"{figures}[{place}].scrollIntoView()")
        browser.until(
            f"{figures}[{place}].dataset.drawn || {figures}[{place}].querySelector('.empty')"
        )
    assert "could not be drawn" not in browser.js("document.querySelector('main').textContent")
    assert browser.complaints == []


def test_numbers_are_written_as_in_the_terminal(browser):
    script = read_part("scripts/core.js")
    start = script.index("function figure(")
    written = script[start : script.index("\n}\n", start) + 2]
    for value in (0.0, 0.00123, 0.1, 123.4, 999.6, 1462.4, 9999.6, 2e-9, -5e7):
        assert browser.js(f"({written})({value!r})") == figure(value)


def test_tracks_are_shown_by_estimator_and_by_stratum(browser, stored, tmp_path):
    records = [
        made(name, k, error * sign, n=n, diagnostics={"reward_r2": signal})
        for n, signal in ((10, 0.01), (50, 0.1))
        for name, error in (("logging-average", 0.4), ("dm-star", 0.2), ("epw", 0.1))
        for k, sign in enumerate((1, -1))
    ]
    path = tmp_path / "tracks.html"
    path.write_text(render_page(ReportData.read(stored(records))), encoding="utf-8")
    browser.open(path.as_uri())
    names = "[...document.querySelectorAll('#tracks tbody th')].map((one) => one.textContent)"
    assert browser.js(names) == ["epw", "dm-star", "logging-average"]
    cells = "[...document.querySelector('#tracks tbody tr').cells].map((one) => one.textContent)"
    assert browser.js(cells)[3:5] == ["0.500", "0 – ∞"]
    pick = "document.querySelector('#tracks select')"
    assert browser.js(f"[...{pick}.options].map((one) => one.textContent)") == [
        f"samples only{part} | {counts} | over dm-star"
        for part, counts in (
            ("", "2 settings of 1 source"),
            (" | weak signal", "1 setting of 1 source"),
            (" | middle signal", "1 setting of 1 source"),
        )
    ]
    browser.js(f"{pick}.value = '1'; {pick}.dispatchEvent(new Event('change'))")
    assert browser.js("location.hash") == "#tracks=1"
    browser.js("document.querySelector('#find').value = 'dm'")
    browser.js("document.querySelector('#find').dispatchEvent(new Event('input'))")
    browser.until(f"{names}.length === 1")
    assert browser.complaints == []
