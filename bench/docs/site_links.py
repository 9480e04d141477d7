"""Sphinx extension: links to public names, to plugins' pages, and to files that are no pages.

Columns of numbers are marked, too, so that they stand at the right.
"""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ope_bench
from board_pages import board_name
from plugin_pages import FOLDERS, built_in, page_name

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

__all__ = ["link_files", "setup"]

LINK = re.compile(r"(?<!!)\[([^]]+)\]\(([^():#\s]+)\.md(#[\w-]*)?\)")
WITHIN = re.compile(r"\[([^]]+)\]\(#([\w-]+)\)")
"""A link to a place that the page names by itself, which Markdown does not know."""

MOVED = {
    "estimators/README": "bench/docs/estimators/index",
    "environments/README": "bench/docs/environments/index",
    "bench/docs/gallery/README": "bench/docs/examples/index",
}
"""Catalogues of the repository, and what the site has in their place."""

NUMBER = re.compile(
    r"[<~+–-]?\s?[\d.][\d.,]*(?:e[+-]?\d+)?\s?(?:%|s|ms|µs)?(?:\s\(.*\)|\sof\s\d+)?"
)
"""A number with its unit, its interval, or out of how many."""

BOARD = re.compile(r"results/(?P<folder>[\w/-]+)/(?:leaderboard|positivity)")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("missing-reference", _public_name)
    app.connect("source-read", _link_files)
    app.connect("doctree-resolved", _link_ids)
    app.connect("doctree-resolved", _mark_numbers)
    app.connect("html-collect-pages", _files)
    app.connect("html-page-context", _resolve_once, priority=400)
    return {"parallel_read_safe": True}


def _public_name(
    app: Sphinx, env: BuildEnvironment, node: Any, text: nodes.TextElement
) -> nodes.reference | None:
    """Resolve ``View`` and ``ope_bench.contracts.view.View`` to ``ope_bench.View``."""
    name = str(node.get("reftarget", "")).rpartition(".")[2]
    if node.get("refdomain") != "py" or name not in dir(ope_bench):
        return None
    domain = env.domains.python_domain
    return domain.resolve_xref(
        env, node["refdoc"], app.builder, "obj", f"ope_bench.{name}", node, text
    )


_FOUND: set[str] = set()


def _link_files(app: Sphinx, page: str, content: list[str]) -> None:
    content[0] = link_files(content[0], page, app.env.found_docs, _FOUND)


def link_files(text: str, page: str, pages: Collection[str], files: set[str] | None = None) -> str:
    """Point links to Markdown files that are no pages to a suite's page, or to the file's text.

    Parameters
    ----------
    text : Markdown.
    page : path of the page from the root of the repository, without its ending.
    pages : all pages of the site.
    files : receives the files whose text is linked.

    >>> link_files("See [b](b.md), [c](../c.md#d).", "x/a", {"x/a", "x/b"})
    'See [b](b.md), <a href="../code/c.md.html">c</a>.'
    >>> link_files("[l](q/leaderboard.md)", "results/README", {"bench/docs/boards/q"})
    '[l](../bench/docs/boards/q.md)'
    """
    folder = posixpath.dirname(page)

    def made(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link[2]))
        if path in pages:
            return link[0]
        board = BOARD.fullmatch(path)
        target = (
            f"bench/docs/boards/{board_name(board['folder'])}" if board else MOVED.get(path, "")
        )
        if target in pages and not page.startswith("bench/docs/boards/"):
            return f"[{link[1]}]({posixpath.relpath(target, folder)}.md)"
        if files is not None:
            files.add(f"{path}.md")
        href = posixpath.relpath(f"code/{path}.md.html", folder)
        return f'<a href="{html.escape(href)}">{link[1]}</a>'

    named = set(re.findall(r'<a name="([^"]+)"', text))
    # Out of headings, which the table of contents repeats.
    text = re.sub(r'^(#+) <a name="([^"]+)"></a>', r'<div id="\2"></div>\n\n\1 ', text, flags=re.M)
    text = text.replace('<a name="', '<a id="')

    def within(link: re.Match[str]) -> str:
        return f'<a href="#{link[2]}">{link[1]}</a>' if link[2] in named else link[0]

    return LINK.sub(made, WITHIN.sub(within, text))


def _files(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the text of files that are linked, as pages that the search does not know."""
    for name in sorted(_FOUND):
        text = (Path(app.srcdir) / name).read_text(encoding="utf-8")
        shown = f"<h1>{name}</h1><pre>{html.escape(text)}</pre>"
        yield f"code/{name}", {"title": name, "body": shown}, "page.html"


def _resolve_once(
    app: Sphinx, page: str, template: str, context: dict[str, Any], tree: nodes.document | None
) -> None:
    """Resolve the table of contents once a page: the theme asks whether it is empty, too."""
    context["toctree"] = cache(context["toctree"])


def _link_ids(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Link ids of estimators in code to their pages, in results and on pages of use."""
    from docutils import nodes

    if not page.startswith(("results/", "bench/docs/")) or page.startswith("bench/docs/api/"):
        return
    known = {
        one.id: f"bench/docs/{FOLDERS['estimator']}/{page_name(one.id)}"
        for one in built_in("estimator")
    }
    for literal in list(doctree.findall(nodes.literal)):
        target = known.get(literal.astext())
        if target is None or target == page or isinstance(literal.parent, nodes.reference):
            continue
        uri = app.builder.get_relative_uri(page, target)
        reference = nodes.reference("", "", internal=True, refuri=uri, classes=["id"])
        literal.replace_self(reference)
        reference += literal


def _mark_numbers(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Give the cells of columns that hold numbers alone a class of their own."""
    from docutils import nodes

    for table in doctree.findall(nodes.tgroup):
        columns = zip(*(row.children for row in table.findall(nodes.row)), strict=False)
        for head, *cells in columns:
            texts = [_text_of(cell) for cell in cells]
            if all(text in ("", "–") or NUMBER.fullmatch(text) for text in texts) and any(texts):
                for cell in (head, *cells):
                    cell["classes"].append("number")


def _text_of(node: nodes.Node) -> str:
    from docutils import nodes

    shown = (one for one in node.findall(nodes.Text) if not isinstance(one.parent, nodes.raw))
    return "".join(one.astext() for one in shown).strip()
