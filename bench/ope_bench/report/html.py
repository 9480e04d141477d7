"""The report as one HTML file that needs no network and no server."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any

from ope_bench.errors import UsageError
from ope_bench.report.content import Content, uncollected
from ope_bench.report.payload import escaped_json, payload
from ope_bench.report.vega import vega

__all__ = ["needs_extra", "render_page"]

SCRIPTS = ("core", "table", "charts", "overview", "boards", "across", "trials", "main")
"""The page's own scripts in their order; they share one scope."""


def render_page(content: Content, *, live: bool = False, script: Callable[[], str] = vega) -> str:
    """The page: its style, its data, Vega from the installed package, its scripts.

    Parameters
    ----------
    content : what to show.
    live : the page asks its server for news.
    script : gives Vega.

    Raises
    ------
    UsageError : the extra ``report`` is not installed.
    """
    needs_extra()
    with uncollected():
        data = escaped_json(payload(content, live=live))
    return _filled(
        _read("page.html"),
        {
            "STYLE": _read("page.css"),
            "DATA": data,
            "VEGA": script(),
            "SCRIPT": _script(),
        },
    )


def needs_extra() -> None:
    """Complain in one line where charts cannot be made.

    Raises
    ------
    UsageError : the extra ``report`` is not installed.
    """
    try:
        import altair  # noqa: F401  to know before anything is read
        import vl_convert  # noqa: F401
    except ImportError as exc:
        msg = 'reports need an extra: pip install "ope-bench[report]"'
        raise UsageError(msg) from exc


def _filled(template: str, parts: dict[str, str]) -> str:
    """The template with its ``@@NAME@@`` replaced, once each and never inside another part."""
    head, *rest = template.split("@@")
    pieces = [head]
    for index, piece in enumerate(rest):
        pieces.append(parts[piece] if index % 2 == 0 else piece)
    return "".join(pieces)


def _script() -> str:
    return "\n".join(_read(f"{name}.js") for name in SCRIPTS)


def _read(name: str) -> str:
    folder: Any = files("ope_bench.report") / "page"
    return str((folder / name).read_text(encoding="utf-8"))
