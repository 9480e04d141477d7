"""Sphinx extension: links to public names, to plugins' pages, and to files of the repository.

Columns of numbers are marked, too, so that they stand at the right; files that no page needs go.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ope_bench
from board_pages import board_name
from ope_bench.plugins.registry import registry
from plugin_pages import FOLDERS, built_in, page_name, repository

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

__all__ = ["link_files", "setup"]

LINK = re.compile(r"(?<!!)\[([^]]+)\]\(<?([^():#<>\s]+)>?(#[\w-]*)?\)")
WITHIN = re.compile(r"\[([^]]+)\]\(#([\w-]+)\)")
"""A link to a place that the page names by itself, which Markdown does not know."""

MOVED = {
    "estimators/README": "bench/docs/estimators/index",
    "environments/README": "bench/docs/environments/index",
    "bench/docs/gallery/README": "bench/docs/examples/index",
}
"""Catalogues of the repository, and what the site has in their place."""

SOUGHT = {
    "bench/docs/log-import": "dsjson, GrowthBook, LLM router, importer",
    "bench/docs/ab": "A/B test, experiment, multi-armed bandit, difference of two policies",
    "bench/docs/own-logs": "counterfactual evaluation, logged data, click-through rate, uplift, "
    "recommender, recommender system, off-policy evaluation",
    "bench/docs/own-log-checks": "confounding, overlap, data quality",
    "bench/docs/own-log-tables": "pandas, Polars, CSV, Parquet, data frame, Vowpal Wabbit",
    "bench/docs/choose": "which estimator, best estimator, recommendation",
    "bench/docs/install": "pip, Windows, macOS, Docker",
    "bench/docs/batched-devices": "GPU, CUDA",
    "bench/docs/clusters": "Dask, Slurm, Kubernetes",
    "bench/docs/gate": "continuous integration, regression test, GitHub Actions",
    "bench/docs/faq": "reinforcement learning, Markov decision process, policy learning",
    "results/intervals/README": "confidence interval, error bars, uncertainty, coverage",
    "results/propensities/README": "propensity score, unknown propensities",
    "bench/docs/estimators/ipw": "importance sampling, inverse propensity score, Horvitz-Thompson",
    "bench/docs/estimators/ipws": "self-normalized importance sampling, weighted "
    "importance sampling",
    "bench/docs/estimators/dm": "direct method, regression, reward model",
    "bench/docs/estimators/dr": "doubly robust, augmented inverse propensity weighting",
}
"""What readers search for in words of their own, by the page that answers."""


def sought(page: str) -> list[str]:
    """Return the words for which a page is the answer: of an estimator, its names too.

    >>> sought("bench/docs/estimators/dr-os")
    ['dr-os', 'dros', 'DoublyRobustWithShrinkage']
    """
    words = SOUGHT.get(page, "")
    folder, _, name = page.rpartition("/")
    found = words.split(", ") if words else []
    if folder == f"bench/docs/{FOLDERS['estimator']}" and name != "index":
        # Its id too: it is part of names of others, as ipw is of snipw.
        found += [name, *registry().aliases_of(name)]
    return found


NUMBER = re.compile(
    r"[<~+–-]?\s?[\d.][\d.,]*(?:e[+-]?\d+)?\s?(?:%|s|ms|µs)?(?:\s\(.*\)|\sof\s\d+)?"
)
"""A number with its unit, its interval, or out of how many."""

INNER = re.compile(r' (?:aria-[\w-]+|role|class)="[^"]*"')
"""Attributes inside of an image, which a page shows as one thing with one text."""

HELD = 80
"""Percent of intervals at 95 % that must hold the value, for the cell not to be red."""

LONG = 60
"""Characters of a cell from which its column is kept wide on a phone."""

BOARD = re.compile(r"results/(?P<folder>[\w/-]+)/(?:leaderboard|positivity)")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("missing-reference", _public_name)
    app.connect("source-read", _link_files)
    app.connect("doctree-resolved", _link_ids)
    app.connect("doctree-resolved", _mark_numbers)
    app.connect("build-finished", _shrink)
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


def _link_files(app: Sphinx, page: str, content: list[str]) -> None:
    text = link_files(content[0], page, app.env.found_docs)
    # Main entries, which the search lists first.
    words = ", ".join(f"! {one}" for one in sought(page))
    if words:
        # Before the title: its place is that of the section, and raw HTML behind it would lose it.
        text = f"```{{index}} {words}\n```\n\n{text}"
    content[0] = text


def link_files(text: str, page: str, pages: Collection[str]) -> str:
    """Point links to files that are no pages to a suite's page, or to the repository.

    Parameters
    ----------
    text : Markdown.
    page : path of the page from the root of the repository, without its ending.
    pages : all pages of the site.

    >>> link_files("See [b](b.md), [c](../c.py).", "x/a", {"x/a", "x/b"})
    'See [b](b.md), [c](https://ope-bench.example/ope-bench/c.py).'
    >>> link_files("[l](q/leaderboard.md)", "results/README", {"bench/docs/boards/q"})
    '[l](../bench/docs/boards/q.md)'
    """
    folder = posixpath.dirname(page)

    def made(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link[2]))
        name = path.removesuffix(".md")
        if name in pages:
            return link[0]
        board = BOARD.fullmatch(name)
        target = (
            f"bench/docs/boards/{board_name(board['folder'])}" if board else MOVED.get(name, "")
        )
        if target in pages and not page.startswith("bench/docs/boards/"):
            return f"[{link[1]}]({posixpath.relpath(target, folder)}.md)"
        return f"[{link[1]}]({repository()}/{path}{link[3] or ''})"

    named = set(re.findall(r'<a name="([^"]+)"', text))
    # Out of headings, which the table of contents repeats.
    text = re.sub(r'^(#+) <a name="([^"]+)"></a>', r'<div id="\2"></div>\n\n\1 ', text, flags=re.M)
    text = text.replace('<a name="', '<a id="')

    def within(link: re.Match[str]) -> str:
        return f'<a href="#{link[2]}">{link[1]}</a>' if link[2] in named else link[0]

    return LINK.sub(made, WITHIN.sub(within, text))


def _shrink(app: Sphinx, error: Exception | None) -> None:
    """Delete maps of the theme's sources, and what no reader of an image inside a page sees."""
    if error is not None:
        return
    for path in Path(app.outdir, "_static").rglob("*.map"):
        path.unlink()
    for path in Path(app.outdir, "_images").glob("*.svg"):
        text = path.read_text(encoding="utf-8")
        path.write_text(INNER.sub("", text), encoding="utf-8")


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
    """Give cells of columns that hold numbers alone a class, and coverages that are too low."""
    from docutils import nodes

    for table in doctree.findall(nodes.tgroup):
        columns = zip(*(row.children for row in table.findall(nodes.row)), strict=False)
        for head, *cells in columns:
            texts = [_text_of(cell) for cell in cells]
            if all(text in ("", "–") or NUMBER.fullmatch(text) for text in texts) and any(texts):
                for cell in (head, *cells):
                    cell["classes"].append("number")
            elif any(len(text) > LONG for text in texts):
                for cell in cells:
                    cell["classes"].append("long")
            if _text_of(head) in ("coverage", "holds"):
                for cell, text in zip(cells, texts, strict=True):
                    if re.match(r"\d+%", text) and int(text.partition("%")[0]) < HELD:
                        cell["classes"].append("low")


def _text_of(node: nodes.Node) -> str:
    from docutils import nodes

    shown = (one for one in node.findall(nodes.Text) if not isinstance(one.parent, nodes.raw))
    return "".join(one.astext() for one in shown).strip()
