"""Pages, each one HTML file that needs no network and no server.

A report's page is drawn by scripts from its data; the page of a log has finished sections.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any

from ope_bench.base.files import gc_disabled
from ope_bench.report import needs_extra
from ope_bench.report.content import ReportData
from ope_bench.report.page.libraries import chart_spec, vega
from ope_bench.report.page.payload import payload

_BOARDS = (
    *("core", "edges", "table", "charts", "about", "result", "boards", "across", "trials"),
    *("runs", "words", "main"),
)
"""The scripts of the page of boards in order; they share one scope."""


def render_page(content: ReportData, *, script: Callable[[], str] = vega) -> str:
    """Render the page of boards, whose script draws it from its data.

    Parameters
    ----------
    content : the data of the report.
    script : returns the Vega script.

    Raises
    ------
    UsageError : the extra ``report`` is not installed.
    """
    needs_extra()
    with gc_disabled():
        data = escaped_json(payload(content))
    parts = {"TITLE": "ope-bench report", "SCOPE": "", "SECTIONS": ""}
    parts["BODY"] = read_part("boards.html")
    return _fill_skeleton(parts, data, _BOARDS, script)


@dataclass(frozen=True)
class PageChart:
    """A chart of a page that is drawn from a finished specification.

    Parameters
    ----------
    name : distinct on the page.
    title, words : above and below it.
    chart : an Altair chart that names its data ``table``.
    lines : its data.
    height : pixels.
    """

    name: str
    title: str
    words: str
    chart: Any
    lines: Sequence[dict[str, Any]]
    height: int


@dataclass(frozen=True)
class PageSection:
    """A section of a page: a heading, markup, and charts.

    Parameters
    ----------
    name : address within the page.
    title : heading.
    body : HTML, escaped.
    charts : below the body.
    """

    name: str
    title: str
    body: str
    charts: Sequence[PageChart] = ()


def render_sections(
    title: str, sections: Sequence[PageSection], footer: str, *, script: Callable[[], str] = vega
) -> str:
    """Render a page of sections with charts; tables need no script.

    Parameters
    ----------
    title : of the page.
    sections : in order.
    footer : text below them.
    script : returns the Vega script.
    """
    links, main, data = "", "", {}
    for section in sections:
        name, heading = escape(section.name), escape(section.title)
        links += f'<a href="#{name}">{heading}</a> '
        main += f'<section id="{name}"><h2>{heading}</h2>{section.body}'
        if section.charts:
            main += f'<div class="figures">{"".join(map(_figure, section.charts))}</div>'
        main += "</section>"
        for chart in section.charts:
            spec = chart_spec(chart.chart)
            data[chart.name] = {"spec": spec, "lines": chart.lines, "height": chart.height}
    parts = {"TITLE": escape(title), "SCOPE": escape(title), "SECTIONS": links}
    parts["BODY"] = fill(read_part("sections.html"), {"MAIN": main, "FOOTER": escape(footer)})
    return _fill_skeleton(parts, escaped_json(data), ("edges", "sections"), script)


def _figure(chart: PageChart) -> str:
    label = escape(f"{chart.title}. {chart.words}")
    return (
        f'<figure data-chart="{escape(chart.name)}">'
        f"<figcaption>{escape(chart.title)}</figcaption>"
        f'<div class="chart" role="img" aria-label="{label}"></div>'
        f'<p class="notes">{escape(chart.words)}</p></figure>'
    )


def _fill_skeleton(
    parts: Mapping[str, str], data: str, scripts: Sequence[str], vega_script: Callable[[], str]
) -> str:
    script = "\n".join(read_part(f"scripts/{name}.js") for name in ("theme", *scripts))
    common = {"STYLE": read_part("page.css"), "DATA": data, "VEGA": vega_script()}
    return fill(read_part("page.html"), {**parts, **common, "SCRIPT": script})


def fill(template: str, parts: dict[str, str]) -> str:
    """Replace each ``@@NAME@@`` of the template once, but not inside inserted parts."""
    return re.sub("@@(.*?)@@", lambda found: parts[found[1]], template)


def escaped_json(value: Any) -> str:
    """Serialize JSON that is safe inside a script element, for any texts.

    >>> escaped_json("</script>&")
    '"\\\\u003c/script\\\\u003e\\\\u0026"'
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def read_part(name: str) -> str:
    """Return a file of the page."""
    return (files("ope_bench.report.page") / name).read_text(encoding="utf-8")
