"""The documentation site: it builds; links, search and examples work."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

import ope_bench
from board_pages import FIRST_TRACK
from gallery_pages import example
from support.browser import CHROMIUM, Browser
from support.paths import ROOT

for _package in ("sphinx", "pydata_sphinx_theme", "myst_parser"):
    pytest.importorskip(_package, reason="the extra docs is not installed")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, built once for all processes of this run of pytest."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder /= "site"
    outcome = folder.with_suffix(".json")
    try:
        folder.mkdir()
    except FileExistsError:
        while not outcome.exists():  # another process builds it
            time.sleep(0.2)
    else:
        command = [*("-m", "sphinx", "-W", "--keep-going", "-q", "-c", "bench/docs")]
        done = subprocess.run(
            [sys.executable, *command, "-d", f"{folder}-trees", ".", str(folder)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        made = outcome.with_suffix(".part")
        made.write_text(json.dumps([done.returncode, done.stderr]), encoding="utf-8")
        made.rename(outcome)
    code, messages = json.loads(outcome.read_text(encoding="utf-8"))
    assert (code, messages) == (0, "")
    return folder


class _Page(HTMLParser):
    """The ids and the links of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.add(str(value))
            elif name in ("href", "src"):
                self.links.append(str(value))


def _broken(site: Path) -> list[str]:
    pages = {path: _Page(path) for path in site.rglob("*.html") if "_static" not in path.parts}
    wrong = []
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            name, _, anchor = unquote(link).partition("#")
            target = (path.parent / name.partition("?")[0]).resolve() if name else path
            known = pages[target].ids if target in pages else None
            if not target.exists() or (anchor and known is not None and anchor not in known):
                wrong.append(f"{path.relative_to(site)}: {link}")
    return wrong


def test_links_between_pages_lead_somewhere(site: Path) -> None:
    assert _broken(site) == []


def test_a_page_is_light_and_nothing_but_pages_is_published(site: Path) -> None:
    files = [path for path in site.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 15_000_000
    assert max(path.stat().st_size for path in files if path.suffix == ".html") < 400_000
    assert not [path for path in files if path.suffix in (".map", ".doctree", ".pickle")]


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    links = ("b.html", "#here", "#there", "a.html#here", "a.html#x", "https://x.org")
    text = "".join(f'<a href="{link}">.</a>' for link in links)
    (tmp_path / "a.html").write_text(f'<p id="here">{text}</p>')
    assert _broken(tmp_path) == ["a.html: b.html", "a.html: #there", "a.html: a.html#x"]


def test_the_reference_has_every_public_name(site: Path) -> None:
    pages = (site / "bench" / "docs" / "api").glob("*.html")
    ids = set().union(*(_Page(path).ids for path in pages))
    assert {f"ope_bench.{name}" for name in dir(ope_bench) if name != "__version__"} <= ids
    assert {"ope_bench.View.fitted", "ope_bench.Policy.probability"} <= ids


def test_signatures_show_code_and_names_of_types(site: Path) -> None:
    wrong = []
    for path in (site / "bench/docs/api").glob("*.html"):
        for signature in re.findall(r'<dt class="sig.*?</dt>\n', path.read_text("utf-8"), re.S):
            shown = unescape(re.sub(r"<[^>]+>", "", signature))
            if re.search(r"<|~|ndarray|_Nested", shown):
                wrong.append(f"{path.stem}: {shown}")
    assert wrong == []


@pytest.mark.parametrize(
    ("page", "function"), [("evaluate", "evaluate"), ("own-logs", "advise"), ("own-logs", "ab")]
)
def test_what_a_function_returns_is_a_link(site: Path, page: str, function: str) -> None:
    text = (site / f"bench/docs/api/{page}.html").read_text(encoding="utf-8")
    (signature,) = re.findall(
        rf'<dt class="sig[^>]*id="ope_bench.{function}">.*?</dt>', text, re.S
    )
    assert re.search(r'sig-return-typehint">.*<a class="reference internal"', signature, re.DOTALL)


def test_parameters_and_formulas_of_docstrings_are_shown_as_such(site: Path) -> None:
    text = (site / "bench/docs/api/estimators.html").read_text(encoding="utf-8")
    view = text.partition('id="ope_bench.View"')[2]
    assert "<strong>access</strong> – the granted flags." in view
    assert 'href="#ope_bench.Access"' in view


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium here")
    one = Browser()
    yield one
    one.close()


LOOKED_AT = (
    "bench/docs/index.html",
    "bench/docs/estimators/index.html",
    "bench/docs/estimators/epws.html",
    "bench/docs/environments/saito-toy.html",
    "bench/docs/examples/sweep.html",
    "bench/docs/boards/paper-actions.html",
    "bench/docs/own-logs.html",
    "results/leaderboard.html",
    "results/paper/README.html",
    "search.html",
)


def _open(browser: Browser, url: str) -> None:
    browser.send("Page.navigate", url="about:blank")
    browser.requests.clear()
    browser.complaints.clear()
    browser.send("Page.navigate", url=url)
    browser.until("document.readyState === 'complete' && document.querySelector('main h1')")


@pytest.mark.parametrize("page", LOOKED_AT)
def test_a_page_asks_for_nothing_outside_complains_of_nothing_and_fits_a_phone(
    site: Path, browser: Browser, page: str
) -> None:
    wide = "document.documentElement.scrollWidth - window.innerWidth"
    for theme, width in (("light", 1300), ("dark", 390)):
        browser.resize(width, 800, phone=width < 500)
        _open(browser, (site / page).as_uri())
        browser.js(f"document.documentElement.dataset.theme = '{theme}'")
        assert [one for one in browser.requests if not one.startswith(("file:", "data:"))] == []
        assert browser.complaints == []
        assert browser.js(wide) <= 0, (theme, width)
        assert browser.js(CONTRAST) >= 4.5, (theme, width)
        assert browser.js(UNLOADED) == []


@pytest.mark.parametrize("page", ["index.html", "bench/docs/estimators/index.html"])
def test_headings_out_of_sight_leave_no_space_above_those_in_sight(
    site: Path, browser: Browser, page: str
) -> None:
    browser.resize(390, 844, phone=True)
    _open(browser, (site / page).as_uri())
    heads = "[...document.querySelectorAll('thead tr')].map((one) => one.offsetHeight)"
    # Two lines.
    assert 0 < max(browser.js(heads)) < 60


CONTRAST = """(() => {
  const light = (text) => {
    const parts = text.match(/[\\d.]+/g).slice(0, 3).map((one) => {
      const share = one / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const ink = light(getComputedStyle(document.querySelector("main p, main h1")).color);
  const paper = light(getComputedStyle(document.body).backgroundColor);
  return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
})()"""
"""Contrast of text with the page."""

UNLOADED = """[...document.images].filter((one) => one.complete && !one.naturalWidth)
  .map((one) => one.src)"""


@pytest.mark.parametrize("word", ["epws", "dm-star", "ipw", "select", "saito-toy"])
def test_search_finds_the_page_of_an_id_first(site: Path, browser: Browser, word: str) -> None:
    _open(browser, (site / "search.html").as_uri() + f"?q={word}")
    browser.until("document.querySelector('#search-results li a')")
    first = browser.js("document.querySelector('#search-results li a').getAttribute('href')")
    assert re.search(rf"/(estimators|environments)/{word}\.html", first), first


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("A/B test", "bench/docs/ab"),
        ("logged data", "bench/docs/own-logs"),
        ("confidence interval", "results/intervals/README"),
        ("pandas", "bench/docs/own-log-tables"),
    ],
)
def test_search_knows_the_words_that_readers_use(
    site: Path, browser: Browser, words: str, page: str
) -> None:
    _open(browser, (site / "search.html").as_uri() + f"?q={quote(words)}")
    browser.until("document.querySelector('#search-results li a')")
    first = browser.js("document.querySelector('#search-results li a').getAttribute('href')")
    assert first.partition("?")[0].partition("#")[0] == f"{page}.html"


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("IPS", "bench/docs/estimators/ipw"),
        ("SNIPS", "bench/docs/estimators/ipws"),
        ("importance sampling", "bench/docs/estimators/ipw"),
        ("doubly robust", "bench/docs/estimators/dr"),
        ("error bars", "results/intervals/README"),
        ("uplift", "bench/docs/own-logs"),
        ("recommender", "bench/docs/own-logs"),
        ("DoublyRobustWithShrinkage", "bench/docs/estimators/dr-os"),
    ],
)
def test_search_knows_other_names_among_its_first_five(
    site: Path, browser: Browser, words: str, page: str
) -> None:
    _open(browser, (site / "search.html").as_uri() + f"?q={quote(words)}")
    # Until the search has ended, results come one by one.
    browser.until("document.querySelector('.search-summary')?.innerText.includes('matching')")
    links = browser.js(
        "[...document.querySelectorAll('#search-results li')].slice(0, 5)"
        ".map((one) => one.querySelector('a').getAttribute('href'))"
    )
    assert f"{page}.html" in [re.split(r"[?#]", link)[0] for link in links], links


def test_search_finds_words_without_a_network(site: Path, browser: Browser) -> None:
    _open(browser, (site / "search.html").as_uri() + "?q=cross-fitting")
    browser.until("document.querySelector('#search-results a[href*=\"/glossary.html\"]')")
    assert [one for one in browser.requests if not one.startswith(("file:", "data:"))] == []


def test_the_first_page_has_a_tab_a_track_and_its_tables_sort(
    site: Path, browser: Browser
) -> None:
    browser.resize(1300, 800)
    _open(browser, (site / "bench/docs/index.html").as_uri())
    shown = "[...document.querySelectorAll('.tab')].map((one) => one.offsetHeight > 0)"
    tabs = browser.js(shown)
    assert [place for place, one in enumerate(tabs) if one] == [FIRST_TRACK]
    browser.js("document.querySelectorAll('.tabs > label')[0].click()")
    assert browser.js(shown) == [True, *[False] * (len(tabs) - 1)]
    column = (
        "[...document.querySelectorAll('.tab')[0].querySelectorAll('tbody tr')]"
        ".map((one) => one.cells[1].innerText)"
    )
    before = browser.js(column)
    head = "document.querySelectorAll('.tab')[0].querySelectorAll('thead th')[1]"
    browser.js(f"{head}.click()")
    assert browser.js(column) == sorted(before) != before
    assert browser.js(f"{head}.getAttribute('aria-sort')") == "ascending"
    browser.js(f"{head}.click()")
    assert browser.js(column) == sorted(before, reverse=True)
    browser.js(f"{head}.click()")
    assert browser.js(column) == before


def test_long_tables_can_be_filtered(site: Path, browser: Browser) -> None:
    browser.resize(1300, 800)
    _open(browser, (site / "results/leaderboard.html").as_uri())
    browser.js(
        "(() => { for (const one of document.querySelectorAll('details')) one.open = true;"
        " const field = document.querySelector('input.filter');"
        " field.value = 'epws'; field.dispatchEvent(new Event('input')); })()"
    )
    shown = (
        "[...document.querySelector('input.filter ~ * tbody, input.filter + table tbody').rows]"
    )
    names = browser.js(
        f"{shown}.filter((one) => !one.hidden).map((one) => one.cells[1].innerText)"
    )
    assert "epws" in names
    assert all("epws" in name for name in names)


def test_coverages_that_are_too_low_are_red(site: Path) -> None:
    text = (site / "results/leaderboard.html").read_text(encoding="utf-8")
    cells = re.findall(r'<td class="([^"]*number[^"]*)"><p>(\d+)%</p></td>', text)
    low = [int(share) for classes, share in cells if "low" in classes.split()]
    assert low
    assert max(low) < 80


def test_results_and_their_figures_are_pages(site: Path) -> None:
    for page in ("leaderboard", "claims", "defects", "paper/README", "intervals/README"):
        assert (site / "results" / f"{page}.html").is_file(), page
    text = (site / "results/leaderboard.html").read_text(encoding="utf-8")
    assert text.count("<img") >= 3
    assert "in the repository)" not in text


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("first_run", r"1\* dr "),
        ("sweep", r"eipws has the smallest RMSE in all 3 settings"),
        ("own_log", r"ipws +0\.2[6-9]\d"),
        ("several_policies", r"dr +bold +timid +\+0\.0"),
        ("ab_test", r"A is better: A minus B is \+0\.00"),
        ("router", r"keep both models"),
        ("write_an_estimator", r"clipped-ipw clip=50"),
        ("write_an_environment", r"RMSE by n_actions +2 +50"),
        ("paper", r"\\bottomrule"),
        ("gate", r"- saito-toy / mine .* worse"),
    ],
)
def test_a_script_of_the_gallery_says_what_it_shows(site: Path, name: str, says: str) -> None:
    # The build of the site has run it, and keeps what it said.
    found = example(name)
    assert found.title
    assert found.text
    assert re.search(says, found.output), found.output
    assert bool(found.figure) is ("figure.svg" in found.code)
    assert (site / f"bench/docs/examples/{name.replace('_', '-')}.html").is_file()
