"""The documentation site: it builds, its links lead somewhere, and its search finds pages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import ope_bench
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
            [sys.executable, *command, ".", str(folder)],
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


def test_parameters_and_formulas_of_docstrings_are_shown_as_such(site: Path) -> None:
    text = (site / "bench/docs/api/estimators.html").read_text(encoding="utf-8")
    view = text.partition('id="ope_bench.View"')[2]
    assert "<strong>access</strong> – the granted flags." in view
    assert 'href="#ope_bench.Access"' in view


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_search_finds_the_page_of_a_word_without_a_network(site: Path) -> None:
    browser = Browser()
    try:
        browser.send("Page.navigate", url=(site / "bench/docs/index.html").as_uri())
        browser.until("document.querySelector('main h1')")
        browser.send("Page.navigate", url=(site / "search.html").as_uri() + "?q=cross-fitting")
        browser.until("document.querySelector('#search-results a[href*=\"/glossary.html\"]')")
        assert [one for one in browser.requests if not one.startswith(("file:", "data:"))] == []
    finally:
        browser.close()
