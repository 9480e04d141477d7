"""Sphinx extension: a page for each built-in estimator and environment.

Pages are made from docstrings, entry points and committed results when the site is built, into
``bench/docs/estimators`` and ``bench/docs/environments``, which git ignores: a plugin that is new
has its page without another line.
"""

from __future__ import annotations

import html
import inspect
import posixpath
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from docutils.parsers.rst.tableparser import SimpleTableParser
from docutils.statemachine import StringList

from committed import (
    FIGURES,
    RESULTS,
    ROOT,
    TRACKS,
    Board,
    Line,
    Track,
    boards,
    defects_of,
    field,
    lines_of,
    log_ratios,
    rows_of,
)
from docstring_sections import split_sections
from field_charts import estimator_chart
from mathml import FormulaError, mathml
from ope_bench.contracts.parameters import describe
from ope_bench.contracts.view import Access
from ope_bench.plugins.registry import Kind, Plugin, registry
from readme_tables import SUPPORT_HEAD, markdown_table

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__all__ = ["page_name", "plugin_pages", "setup", "write_pages"]

PAGES = ROOT / "bench" / "docs" / "estimators"
FOLDERS: Mapping[Kind, str] = {"estimator": "estimators", "environment": "environments"}
ACCESS_WORDS = {
    Access.PROPENSITY: "propensities of logged actions",
    Access.LOGGING_POLICY: "the logging policy",
    Access.TARGET_POLICY: "the target policy",
    Access.EMBEDDING_DISTRIBUTION: "p(g|a), how embeddings of an action are distributed",
    Access.PREFIX_PROPENSITY: "probabilities of each list up to each slot",
    Access.JOINT_PROPENSITY: "probabilities of whole lists",
    Access.POSITION_MARGINALS: "probabilities of an item at each slot",
    Access.STRATUM: "which logger chose each row",
    Access.STRATUM_POLICIES: "the policy of each logger",
}
SIZES = ((0, 1000), (1000, 3000), (3000, 10_000), (10_000, np.inf))
"""Rows of logs, as groups of the table of costs."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True}


def _write(app: Sphinx) -> None:
    write_pages(Path(app.srcdir) / "bench" / "docs", plugin_pages())


def write_pages(folder: Path, pages: Mapping[str, str]) -> None:
    """Write pages by their paths; leave equal ones alone, and delete what is no page any more."""
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for parent in {posixpath.dirname(name) for name in pages}:
        for path in (folder / parent).glob("*.md"):
            if f"{parent}/{path.name}" not in pages:
                path.unlink()


def plugin_pages() -> dict[str, str]:
    """Return the text of all pages, by path below bench/docs."""
    found = {}
    for kind, folder in FOLDERS.items():
        plugins = built_in(kind)
        make = _estimator_page if kind == "estimator" else _environment_page
        for plugin in plugins:
            found[f"{folder}/{page_name(plugin.id)}.md"] = make(plugin)
        index = _estimator_index if kind == "estimator" else _environment_index
        found[f"{folder}/index.md"] = index(plugins)
    return found


@cache
def built_in(kind: Kind) -> list[Plugin]:
    """Return the plugins that ope-bench ships, those of other packages' adapters last."""
    ours = [one for one in registry().plugins(kind) if one.origin.startswith("ope-bench ")]
    return sorted(ours, key=lambda one: ("/" in one.id, one.id))


def page_name(plugin_id: str) -> str:
    """Return the name of a plugin's page: its id, with a hyphen for a slash."""
    return plugin_id.replace("/", "-")


# Docstrings as Markdown.


def _paragraphs(lines: Sequence[str], kind: Kind) -> str:
    """Return prose with its lists, formulas and code as Markdown."""
    blocks: list[list[str]] = [[]]
    for line in lines:
        indented = line.startswith("    ")
        last = blocks[-1]
        listed = bool(last) and last[0].lstrip().startswith(("- ", "* ", "=="))
        if not line.strip():
            blocks.append([])
        elif last and indented != last[-1].startswith("    ") and not listed:
            blocks.append([line])
        else:
            last.append(line)
    return "\n\n".join(_block(one, kind) for one in blocks if one)


def _block(lines: list[str], kind: Kind) -> str:
    if lines[0].startswith(">>>"):
        return "```pycon\n" + "\n".join(lines) + "\n```"
    if lines[0].startswith("=="):
        _, head, body = SimpleTableParser().parse(StringList(lines))
        rows = [
            [_prose(" ".join(cell[3]).strip(), kind) for cell in row] for row in (*head, *body)
        ]
        return markdown_table(rows[0], rows[1:])
    if not lines[0].startswith("    "):
        return _prose("\n".join(lines), kind)
    text = textwrap.dedent("\n".join(lines))
    if kind == "estimator" and ("=" in text or "/" in text):
        try:
            return f'<div class="formulas">{mathml(text)}</div>'
        except FormulaError:
            pass
    return f"```text\n{text}\n```"


@cache
def _classes(kind: Kind) -> dict[str, str]:
    """Return pages by the names of their classes and by ids, as docstrings name them."""
    found: dict[str, str] = {}
    for one in built_in(kind):
        # Adapters of other packages, which come last, have the names of ours.
        found.setdefault(one.target.rpartition(":")[2], page_name(one.id))
        found[one.id] = page_name(one.id)
    return found


def _prose(text: str, kind: Kind) -> str:
    """Escape what Markdown would read as markup, and link names of plugins of the kind."""
    parts = re.split(r"(`+[^`]*`+)", text)
    for place, part in enumerate(parts):
        if place % 2:
            name = part.strip("`")
            known = _classes(kind).get(name)
            parts[place] = f"[`{name}`]({known}.md)" if known else f"`{name}`"
        else:
            kept = r"(?<![\w*])\*\w+\*(?![\w*])"  # one emphasized word
            marks = rf"{kept}|[*<\[\]|]|(?<![\w])_|_(?![\w])"
            parts[place] = re.sub(marks, _escaped, part)
    return "".join(parts)


def _escaped(found: re.Match[str]) -> str:
    return found[0] if len(found[0]) > 1 else f"\\{found[0]}"


def _listed(lines: Sequence[str]) -> dict[str, str]:
    """Return the meanings of a section of ``name : meaning``, by name."""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in lines:
        if line.startswith(" ") or " : " not in line:
            for name in names:
                found[name] += f" {line.strip()}"
        else:
            head, _, text = line.partition(" : ")
            names = [name.strip() for name in head.split(",")]
            found.update(dict.fromkeys(names, text))
    return found


# Parts that pages of both kinds have.


def _sections(plugin: Plugin) -> dict[str, list[str]]:
    """Return the lines of a docstring by section; the first section has no name."""
    return dict(split_sections((inspect.getdoc(plugin.cls) or "").splitlines()))


def _parameter_table(plugin: Plugin, sections: Mapping[str, Sequence[str]]) -> str:
    meanings: dict[str, str] = {}
    for cls in reversed(plugin.cls.__mro__):
        own = dict(
            split_sections(inspect.cleandoc(cls.__dict__.get("__doc__") or "").splitlines())
        )
        meanings |= _listed(own.get("Parameters", []))
    meanings |= {
        name: told
        for name, told in _listed(sections.get("Parameters", [])).items()
        if name not in meanings or not re.fullmatch(r"as `?\w+`?[.;]?", told.strip())
    }
    rows = [
        (
            f"`{one['name']}`",
            _prose(meanings.get(one["name"], "").strip(), plugin.kind),
            f"`{one['type']}`",
            f"`{one['default']}`",
        )
        for one in describe(plugin.cls)
    ]
    if not rows:
        return "None."
    return markdown_table(("parameter", "meaning", "accepts", "default"), rows)


@cache
def repository() -> str:
    """Return the address of the repository, without a slash at its end."""
    urls = dict(one.split(", ", 1) for one in metadata("ope-bench").get_all("Project-URL") or ())
    return str(urls["Repository"])


def _code_link(plugin: Plugin) -> str:
    source = Path(inspect.getsourcefile(plugin.cls) or "").resolve()
    if ROOT not in source.parents:
        return ""
    return f'<a href="{repository()}/{source.relative_to(ROOT).as_posix()}">{source.name}</a>'


def _facts(rows: Iterable[tuple[str, str]]) -> str:
    """Return a list of names with values, which a narrow screen shows below each other."""
    cells = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows if value)
    return f'<dl class="facts">{cells}</dl>'


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"<code>{html.escape(name)}</code>" for name in names)


# Estimators.


def needs_of(plugin: Plugin) -> Access:
    """Return what an estimator at its defaults needs beyond samples."""
    access: Access = plugin.cls().access
    return access


@cache
def _support() -> dict[str, str]:
    """Return by id what estimators do without support, as the catalog's maker measured it."""
    found: dict[str, str] = {}
    head: list[str] = []
    for line in (ROOT / "estimators" / "README.md").read_text(encoding="utf-8").splitlines():
        cells = re.split(r"(?<!\\) \| ", line.strip("|").strip())
        if cells[0] == "id":
            head = cells
        elif line.startswith("| `") and SUPPORT_HEAD in head and len(cells) == len(head):
            found[cells[0].strip("`")] = cells[head.index(SUPPORT_HEAD)].strip("– ")
    return found


def _needs(access: Access) -> str:
    words = [word for flag, word in ACCESS_WORDS.items() if flag in access]
    if Access.LOGGING_POLICY in access:
        words.remove(ACCESS_WORDS[Access.PROPENSITY])
    return ", ".join(words) or "only samples of both policies"


def _estimator_page(plugin: Plugin) -> str:
    sections = _sections(plugin)
    body = sections[""]
    text = "\n".join(body[1:])
    marks = r"(?:\A|\n)(Assumptions|Fails when): ?"
    first, *rest = re.split(marks, text)
    named = dict(zip(rest[::2], rest[1::2], strict=True))
    examples = [*_examples(first), *(one for part in named.values() for one in _examples(part))]
    examples += sections.get("Examples", [])
    references = sections.get("References", [])
    cut = next((at for at, line in enumerate(references) if line.startswith(">>>")), None)
    if cut is not None:
        examples, references = references[cut:], references[:cut]
    estimator = plugin.cls()
    kind = plugin.cls.__module__.split(".")[1:-1]
    facts = [
        ("also called", _codes(registry().aliases_of(plugin.id))),
        ("needs", _needs(estimator.access)),
        ("kind", ", ".join(kind).replace("_", " ")),
        ("devices", ", ".join(estimator.devices)),
        ("missing support", _support().get(plugin.id, "").replace(";", "<br>")),
        ("packages", _codes(dict.fromkeys(one.partition(".")[0] for one in estimator.requires))),
        ("class", f"<code>{plugin.cls.__name__}</code>, {_code_link(plugin)}"),
    ]
    parts = [
        f"# {plugin.id}",
        f'<p class="lead">{html.escape(plugin.summary.replace("`", ""))}</p>',
        _facts(facts),
        _paragraphs(_without_examples(first), "estimator"),
    ]
    for heading in ("Assumptions", "Fails when"):
        if heading in named:
            told = _paragraphs(_without_examples(named[heading]), "estimator")
            if re.match(r"[a-z]{2}|a ", told):  # a word, and no symbol
                told = told[0].upper() + told[1:]
            parts.append(f"## {heading}\n\n{told}")
            parts += _quoted(named[heading], heading)
    parts += _standing(plugin)
    parts.append(f"## Parameters\n\n{_parameter_table(plugin, sections)}")
    if "Raises" in sections:
        raised = _listed(sections["Raises"])
        rows = [f"- `{name}`: {_prose(told, 'estimator')}" for name, told in raised.items()]
        parts.append("## Raises\n\n" + "\n".join(rows))
    parts += _defect_part(plugin)
    if references:
        parts.append(f"## Reference\n\n{_paragraphs(references, 'estimator')}")
    if examples:
        parts.append("## Example\n\n```pycon\n" + "\n".join(examples).strip() + "\n```")
    return "\n\n".join(part for part in parts if part) + "\n"


def _quoted(text: str, heading: str) -> Iterator[str]:
    """Yield what another docstring says under the heading, where the text says "as NAME"."""
    by_class = {one.target.rpartition(":")[2]: one for one in built_in("estimator")}
    for name in dict.fromkeys(re.findall(r"\bas `?([A-Z]\w+)`?", text)):
        if name in by_class:
            other = "\n".join(_sections(by_class[name])[""][1:])
            found = re.search(
                rf"(?:\A|\n){heading}: ?((?:.|\n)*?)(?=\n(?:Assumptions|Fails when):|\n\n>>>|\Z)",
                other,
            )
            if found:
                told = _paragraphs(found[1].splitlines(), "estimator").replace("\n\n", "\n>\n> ")
                yield f"> [`{name}`]({page_name(by_class[name].id)}.md): {told}"


def _examples(text: str) -> list[str]:
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith(">>>")), None)
    return [] if start is None else lines[start:]


def _without_examples(text: str) -> list[str]:
    lines = text.splitlines()
    shown = len(lines) - len(_examples(text))
    return lines[:shown]


def _tracks_of(plugin: Plugin) -> list[Track]:
    access = needs_of(plugin)
    return [one for one in TRACKS if not access & ~one.granted]


def _standing(plugin: Plugin) -> Iterator[str]:
    """Yield the parts on how it does: its rows, the chart, costs, boards of other suites."""
    tracks = _tracks_of(plugin)
    rows, shown = [], None
    for track in tracks:
        lines = lines_of(track)
        own = next((line for line in lines if line.estimator == plugin.id), None)
        if own is not None:
            shown = shown or track
            ranked = sum(line.rank is not None for line in lines)
            rows.append((track.name, f"`{track.reference}`", *leader_cells(own, ranked)))
    if rows:
        head = ("track", "error over that of", *LEADER_HEAD[:1], *LEADER_HEAD[2:])
        rows = [(name, reference, *cells[:1], *cells[2:]) for name, reference, *cells in rows]
        yield (
            "## On the leaderboard\n\n"
            f"{markdown_table(head, rows)}\n\n"
            "What the columns mean: [leaderboard](../../../results/leaderboard.md)."
        )
    if shown is not None:
        chart = estimator_chart(shown, plugin.id)
        if chart:
            yield (
                f'<figure class="figure">{chart}<figcaption>A dot is a drawn world of the track '
                f'<em>{shown.name}</em>; the <span class="k-own">thick line</span> is the '
                "geometric mean of worlds of like overlap with its 95 % interval; the "
                f'<span class="k-best">dashed line</span> is the best of the panel, '
                f"{_codes(shown.panel)}, in each world.</figcaption></figure>"
            )
        yield from _cost_part(plugin.id)
    if not rows:
        figure = _suite_figure(plugin.id)
        yield f"## On the leaderboard\n\nThe leaderboard's suites do not run it.{figure}"
    yield from _board_part(plugin.id)


LEADER_HEAD = (
    "rank",
    "estimator",
    '<abbr title="over the reference: mean of three strata of signal, 95 %">error</abbr>',
    '<abbr title="in nine sources of ten the ratio is at most this">90 %</abbr>',
    '<abbr title="settings within 1.25 times the least error of the panel">near the best</abbr>',
    "fails",
    '<abbr title="how often its own 95 % intervals hold the value">coverage</abbr>',
    '<abbr title="median processor seconds of a fit">seconds</abbr>',
)


def leader_cells(line: Line, ranked: int = 0) -> tuple[str, ...]:
    """Return the cells of an estimator's row, as in `LEADER_HEAD`."""
    rank = "–" if line.rank is None else str(line.rank)
    return (
        f"{rank}\u00a0of\u00a0{ranked}" if ranked and line.rank is not None else rank,
        f"[`{line.estimator}`](estimators/{page_name(line.estimator)}.md)",
        f"{line.ratio:.2f}\u00a0({line.low:.2f}\u00a0to\u00a0{line.high:.2f})",
        f"{line.ninth:.2f}",
        f"{line.near:.0%}",
        f"{line.failures:.1%}",
        "–" if line.coverage is None else f"{line.coverage:.0%}",
        f"{line.seconds:.2f}" if line.seconds >= 0.005 else "< .01",
    )


def _cost_part(estimator: str) -> Iterator[str]:
    heads, cells = [], []
    for low, high in SIZES:
        seconds = [
            one.answers[estimator].seconds
            for one in field()
            if estimator in one.answers and low <= one.facts.get("world_rows", -1) < high
        ]
        if seconds:
            told = "under 1,000" if low == 0 else f"{low:,} to {high:,.0f}"
            heads.append(f"over {low:,}" if high == np.inf else told)
            median = float(np.nanmedian(np.concatenate(seconds)))
            cells.append(_seconds(median) if np.isfinite(median) else "–")
    if heads:
        yield (
            "## Cost\n\nMedian processor time of a fit on the leaderboard's drawn worlds, by rows "
            f"of the log.\n\n{markdown_table(heads, [cells])}"
        )


def _suite_figure(estimator: str) -> str:
    """Return its cost in another suite, and the figure in which it has a line, where it is drawn.

    Of several suites that with most settings.
    """
    ran = [board for board in boards() if estimator in board.ids.values()]
    ran.sort(key=lambda board: -len(board.labels))
    if not ran:
        return ""
    suite, figure = ran[0].suite, ""
    for board in ran:
        drawn = sorted((FIGURES / board.suite).glob("sweep-rmse-*.svg"))
        lines = [one for one in drawn if re.search(rf">{estimator}[ <]", one.read_text("utf-8"))]
        if lines:
            image = f"![RMSE]({posixpath.relpath(lines[0], PAGES)})"
            figure = (
                f" Its line in the suite {_board_link(board.suite)}:\n\n"
                f":::{{container}} figures\n{image}\n:::"
            )
            suite = board.suite
            break
    return (
        f"{figure}\n\n## Cost\n\nMedian time of fit and estimate in the suite "
        f"{_board_link(suite)}: {_seconds(_median_seconds(suite)[estimator])}."
    )


@cache
def _median_seconds(suite: str) -> dict[str, float]:
    """Return the median seconds of fit and estimate by estimator, from a suite's trials."""
    names = ["estimator", "fit_cpu_seconds", "estimate_seconds"]
    spent: dict[str, list[float]] = {}
    for row in rows_of(RESULTS / suite, *names):
        if row["estimate_seconds"] is not None:
            fit = row["fit_cpu_seconds"] or 0.0
            spent.setdefault(row["estimator"], []).append(fit + row["estimate_seconds"])
    return {estimator: float(np.median(seconds)) for estimator, seconds in spent.items()}


def _seconds(value: float) -> str:
    """Return a duration in the unit that fits it: 6.6 µs, 120 ms, 2.1 s."""
    scale, unit = next(
        ((scale, unit) for scale, unit in ((1, "s"), (1e-3, "ms")) if value >= scale), (1e-6, "µs")
    )
    number = value / scale
    return f"{number:.2g} {unit}" if number < 100 else f"{number:.0f} {unit}"


def _board_part(estimator: str) -> Iterator[str]:
    rows = []
    for board in boards():
        labels = [label for label, one in board.ids.items() if one == estimator]
        order = board.order()
        for place, (label, ratio) in enumerate(order, 1):
            if label in labels:
                link = (
                    f"[`{board.environment}`](../environments/{page_name(board.environment)}.md)"
                )
                where = _board_link(board.suite)
                settings = str(len(board.labels))
                rows.append(
                    (
                        where,
                        link,
                        settings,
                        f"`{label}`",
                        f"{place} of {len(order)}",
                        f"{ratio:.2f}",
                    )
                )
    if rows:
        rows_of_boards = f"{len(rows)} row{'s' * (len(rows) > 1)} of committed boards"
        table = markdown_table(
            ("suite", "environment", "settings", "as", "rank", "error over the best's"), rows
        )
        yield (
            "## In other suites\n\nBy the score, in which failures count; geometric means over "
            "settings, among estimators that have an error in all of them.\n\n"
            f"<details><summary>{rows_of_boards}</summary>\n\n{table}\n\n"
            "</details>"
        )


def _defect_part(plugin: Plugin) -> Iterator[str]:
    names = {plugin.id, plugin.cls.__name__}
    found = defects_of(names)
    if found:
        rows = [
            f"- {one['formula']} ({one['published in']}): {one['identity']}; {one['gives']} "
            f"instead of {one['asks for']}"
            for one in found
        ]
        yield (
            "## Defects of published forms\n\n"
            + "\n".join(rows)
            + "\n\nAll: [published formulas that are wrong](../../../results/defects.md)."
        )


ESTIMATORS = (
    "Each has a page: formula, needs, assumptions, when it fails, parameters, and how it does on "
    "committed results. Numbers are ranks on the [leaderboard](../../../results/leaderboard.md), "
    "by what one knows; ids that end in `-paper` are the form that a paper prints."
)


def _estimator_index(plugins: Sequence[Plugin]) -> str:
    places: dict[str, dict[str, str]] = {}
    for track in TRACKS:
        for line in lines_of(track):
            places.setdefault(line.estimator, {})[track.name] = (
                "part" if line.rank is None else str(line.rank)
            )
    kinds: dict[str, list[Plugin]] = {}
    for plugin in plugins:
        kinds.setdefault(plugin.cls.__module__.rpartition(".")[0], []).append(plugin)
    parts = [
        "# Estimators",
        ESTIMATORS,
    ]
    heads = ("estimator", "what", "needs", *(track.name for track in TRACKS))
    for _, its in sorted(kinds.items()):
        rows = [
            (
                f"[`{one.id}`]({page_name(one.id)}.md)",
                _prose(one.summary, "estimator"),
                _short_needs(needs_of(one)),
                *(places.get(one.id, {}).get(track.name, "") for track in TRACKS),
            )
            for one in its
        ]
        heading, told = heading_of(its[0])
        parts.append(f"## {heading}\n\n{told}\n\n{markdown_table(heads, rows)}")
    return "\n\n".join([*parts, _toctree(plugins)]) + "\n"


def heading_of(plugin: Plugin) -> tuple[str, str]:
    """Return the kind of an estimator and what is said of it, as its package's docstring begins.

    "Direct methods: a reward model averaged ..." is a heading and what follows it.
    """
    package = plugin.cls.__module__.rpartition(".")[0]
    doc = inspect.getdoc(__import__(package, fromlist=["x"])) or package
    sentence = doc.splitlines()[0].rstrip(".")
    heading = re.split(r"[:,] ", sentence)[0]
    told = sentence.removeprefix(f"{heading}: ") if heading != sentence else ""
    return heading, _prose(f"{told[:1].upper()}{told[1:]}." if told else "", "estimator")


def _short_needs(access: Access) -> str:
    lists = Access.PREFIX_PROPENSITY | Access.JOINT_PROPENSITY | Access.POSITION_MARGINALS
    words = {
        Access.PROPENSITY: "propensities",
        Access.LOGGING_POLICY: "logging policy",
        Access.TARGET_POLICY: "target policy",
        Access.EMBEDDING_DISTRIBUTION: "p(g|a)",
        access & lists or lists: "probabilities of lists",
        Access.STRATUM: "loggers",
    }
    if Access.LOGGING_POLICY in access:
        words.pop(Access.PROPENSITY)
    return ", ".join(word for flag, word in words.items() if flag in access) or "samples"


def _toctree(plugins: Sequence[Plugin]) -> str:
    names = "\n".join(page_name(one.id) for one in plugins)
    return f"```{{toctree}}\n:hidden:\n\n{names}\n```"


# Environments.


def _environment_page(plugin: Plugin) -> str:
    sections = _sections(plugin)
    environment: Any = plugin.cls()
    facts = [
        ("version", str(getattr(plugin.cls, "version", 1))),
        ("data", _data(environment.origin_note)),
        ("class", f"<code>{plugin.cls.__name__}</code>, {_code_link(plugin)}"),
    ]
    parts = [
        f"# {plugin.id}",
        f'<p class="lead">{html.escape(plugin.summary.replace("`", ""))}</p>',
        _facts(facts),
        _paragraphs(sections[""][1:], "environment"),
    ]
    if "Truth" in sections:
        parts.append(f"## Truth\n\n{_paragraphs(sections['Truth'], 'environment')}")
    parts += _winners(plugin.id)
    parts.append(f"## Dials\n\n{_parameter_table(plugin, sections)}")
    for name, lines in sections.items():
        if name not in ("", "Truth", "Parameters", "Raises", "Examples"):
            parts.append(f"## {name}\n\n{_paragraphs(lines, 'environment')}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _data(note: str) -> str:
    return html.escape(note.replace("`", ""))


ACCESS_COLUMNS = (
    ("samples only", frozenset[str]()),
    ("and propensities, target policy", frozenset({"propensity", "target_policy"})),
    ("and everything else", None),
)


def _winners(environment: str) -> Iterator[str]:
    """Yield who errs least there: on committed boards, and among the leaderboard's settings."""
    rows = [_winner_row(board) for board in boards() if board.environment == environment]
    parts = []
    if rows:
        head = ("suite", "settings", *(name for name, _ in ACCESS_COLUMNS))
        parts.append(markdown_table(head, rows))
    sources = {
        "multiclass": "multiclass ",
        "randomized": "randomized ",
        "full-feedback": "full-feedback",
    }
    of_field = [
        one
        for one in field()
        if (environment == "population" and not one.real and not one.facts.get("damages"))
        or (environment == "damaged" and one.facts.get("damages"))
        or (environment in sources and one.source.startswith(sources[environment]))
    ]
    for track in TRACKS if of_field else ():
        inside = [one for one in of_field if track.holds(one)]
        names = [line.estimator for line in lines_of(track) if line.rank is not None]
        means = {
            name: float(np.exp(log_ratios(inside, name, track.reference).mean()))
            for name in names
            if inside
        }
        best = sorted(means, key=lambda name: (means[name], name))[:3]
        told = ", ".join(
            f"[`{name}`](../estimators/{page_name(name)}.md) {means[name]:.2f}" for name in best
        )
        if told:
            parts.append(
                f"- leaderboard, *{track.name}*, {len(inside)} settings, error over that of "
                f"`{track.reference}`: {told}"
            )
    if parts:
        yield (
            "## Who errs least here\n\nGeometric means over settings of the error over the best "
            "estimator's of the same suite, failures counted, of what each may know.\n\n"
            + "\n\n".join(parts)
        )


def _winner_row(board: Board) -> tuple[str, ...]:
    cells: list[str] = []
    for _, granted in ACCESS_COLUMNS:
        best = board.order(granted)[:3]
        told = ", ".join(
            f"[`{name}`](../estimators/{page_name(board.ids[name])}.md) {ratio:.2f}"
            if board.ids[name] in _classes("estimator")
            else f"`{name}` {ratio:.2f}"
            for name, ratio in best
        )
        # What is known further helps nobody there.
        cells.append("the same" if told and told in cells else told or "–")
    return (_board_link(board.suite), str(len(board.labels)), *cells)


def _board_link(suite: str) -> str:
    """Return a link from a plugin's page to that of a suite's boards."""
    return f"[`{suite}`](../boards/{suite.replace('/', '-')}.md)"


def _environment_index(plugins: Sequence[Plugin]) -> str:
    rows = [
        (
            f"[`{one.id}`]({page_name(one.id)}.md)",
            _prose(one.summary, "environment"),
            ", ".join(f"`{board.suite}`" for board in boards() if board.environment == one.id),
        )
        for one in plugins
    ]
    table = markdown_table(("environment", "what", "committed suites"), rows)
    text = (
        "# Environments\n\nSources of logged data with a known true value. Each page says how the "
        "data arise, how exact the truth is, which dials there are, and who errs least there.\n\n"
    )
    return f"{text}{table}\n\n{_toctree(plugins)}\n"
