"""The report as one HTML file that needs no network and no server.

Plain scripts without a web framework: the page needs no build step and does not depend on a
framework's lifetime. Only charts use a library, Vega.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any

from ope_bench.garbage import gc_disabled
from ope_bench.report.content import ReportData
from ope_bench.report.page.payload import escaped_json, payload
from ope_bench.report.page.vega import vega
from ope_bench.report.requirements import needs_extra

__all__ = ["fill", "read_part", "render_page"]

SCRIPTS = (
    *("core", "table", "theme", "charts", "about", "result", "boards", "across", "trials"),
    *("runs", "words", "main"),
)
"""The page's scripts in order; they share one scope."""


def render_page(
    content: ReportData, *, live: bool = False, script: Callable[[], str] = vega
) -> str:
    """Render the page: style, data, Vega from the installed package, scripts.

    Parameters
    ----------
    content : the data of the report.
    live : the page polls its server for changes.
    script : returns the Vega script.

    Raises
    ------
    UsageError : the extra ``report`` is not installed.
    """
    needs_extra()
    with gc_disabled():
        data = escaped_json(payload(content, live=live))
    return fill(
        read_part("page.html"),
        {
            "STYLE": read_part("page.css"),
            "DATA": data,
            "VEGA": script(),
            "SCRIPT": _script(),
        },
    )


def fill(template: str, parts: dict[str, str]) -> str:
    """Replace each ``@@NAME@@`` of the template once, but not inside inserted parts."""
    head, *rest = template.split("@@")
    pieces = [head]
    for index, piece in enumerate(rest):
        pieces.append(parts[piece] if index % 2 == 0 else piece)
    return "".join(pieces)


def _script() -> str:
    return "\n".join(read_part(f"scripts/{name}.js") for name in SCRIPTS)


def read_part(name: str) -> str:
    """Return a file of the page."""
    folder: Any = files("ope_bench.report.page")
    return str((folder / name).read_text(encoding="utf-8"))
