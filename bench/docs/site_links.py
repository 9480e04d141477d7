"""Sphinx extension: links to public names, and to Markdown files that are no page of the site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import ope_bench

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

__all__ = ["name_files", "setup"]

LINK = re.compile(r"\[([^]]+)\]\(([^():#\s]+)\.md(?:#[\w-]*)?\)")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("missing-reference", _public_name)
    app.connect("source-read", _name_files)
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


def _name_files(app: Sphinx, page: str, content: list[str]) -> None:
    content[0] = name_files(content[0], page, app.env.found_docs)


def name_files(text: str, page: str, pages: Collection[str]) -> str:
    """Replace links to Markdown files of the repository that are no pages by the files' names.

    Parameters
    ----------
    text : Markdown.
    page : path of the page from the root of the repository, without its ending.
    pages : all pages of the site.

    >>> name_files("See [b](b.md), [c](../c.md#d), [all](../d.md).", "x/a", {"x/a", "x/b"})
    'See [b](b.md), c (`c.md` in the repository), all (`d.md` in the repository).'
    """
    folder = posixpath.dirname(page)

    def made(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link[2]))
        return link[0] if path in pages else f"{link[1]} (`{path}.md` in the repository)"

    return LINK.sub(made, text)
