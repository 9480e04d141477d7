"""Tables as text: terminal, Markdown, LaTeX, HTML and CSV from one description.

A `TextTable` knows no format: its cells have a text for people, a value for programs and a style.
In all formats but CSV the styles show, in Markdown and LaTeX the best rows only, in bold.
"""

from __future__ import annotations

import csv
import html
import io
import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ope_bench.base.canonical import canonical_json, plain
from ope_bench.base.printable import printable, without_formula
from ope_bench.boards.built_in_columns import COLUMNS
from ope_bench.boards.columns import BoardColumn, ColumnFormat, Style
from ope_bench.boards.columns import TableColumn as TableColumn
from ope_bench.report import ACCESS_LETTERS as ACCESS_LETTERS
from ope_bench.report import MISSING as MISSING
from ope_bench.report import access_letters as access_letters


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Parameters
    ----------
    text : for people.
    value : for programs.
    style : what it means to the reader.
    """

    text: str
    value: Any = None
    style: Style = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", printable(self.text))


def cells(*parts: str | Cell) -> tuple[Cell, ...]:
    """Make a row of texts, where nothing reads values, and of entries."""
    return tuple(Cell(one) if isinstance(one, str) else one for one in parts)


@dataclass(frozen=True, kw_only=True)
class TextTable:
    """Headings, cells, and what a reader must know to read them.

    Parameters
    ----------
    title : in parts, separated by " | ".
    """

    title: str = ""
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", printable(self.title))
        object.__setattr__(self, "notes", tuple(map(printable, self.notes)))

    def as_json(self) -> dict[str, Any]:
        """Return the table as plain JSON."""
        keys = [column.key for column in self.columns]
        return {
            "title": self.title,
            "columns": [{"key": one.key, "title": one.title} for one in self.columns],
            "rows": [
                {key: cell.value for key, cell in zip(keys, row, strict=True)} for row in self.rows
            ],
            "notes": list(self.notes),
        }

    @property
    def explained(self) -> tuple[str, ...]:
        """The notes without those on marks that no cell has."""
        texts = "".join(cell.text for row in self.rows for cell in row)
        every = not self.rows
        return tuple(
            one for one in self.notes if every or not re.match(r"\W ", one) or one[0] in texts
        )

    @property
    def widths(self) -> list[int]:
        """Letters of the longest text of each column."""
        return [
            max(len(column.title), *(len(row[index].text) for row in self.rows), 0)
            for index, column in enumerate(self.columns)
        ]

    def without(self, keys: Collection[str]) -> TextTable:
        """Return the table without these columns."""
        kept = [index for index, one in enumerate(self.columns) if one.key not in keys]
        return replace(
            self,
            columns=tuple(self.columns[index] for index in kept),
            rows=tuple(tuple(row[index] for index in kept) for row in self.rows),
        )


# Values as people read them in a table.


def figure(value: float | None, digits: int = 3) -> str:
    """Return a number in three digits, a dash for none; thousands up to 9,999 in full.

    >>> figure(0.01234), figure(None), figure(1234.5), figure(12345.0), figure(0.0)
    ('0.0123', '-', '1234', '1.23e4', '0')
    """
    if value is None:
        return MISSING
    if value == 0:
        return "0"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if 1e-3 <= abs(value) < 9999.5:
        # Trailing zeros are digits that are known.
        text = f"{value:#.{digits}g}"
        return f"{value:.0f}" if "e" in text else text.removesuffix(".")
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def percent(value: float | None) -> str:
    """Return a share in percent, a dash for none; only none at all is 0 %, only all are 100 %.

    >>> percent(0.001), percent(0.5), percent(1.0), percent(None)
    ('<1%', '50%', '100%', '-')
    """
    if value is None:
        return MISSING
    if 0 < value < 0.005:
        return "<1%"
    if 0.995 <= value < 1:
        return ">99%"
    return f"{100 * value:.0f}%"


def seconds(value: float | None) -> str:
    """Return a duration with its unit.

    >>> seconds(0.0000123), seconds(0.00123), seconds(2.5), seconds(None)
    ('12.3us', '1.23ms', '2.50s', '-')
    """
    if value is None:
        return MISSING
    if value < 1e-3:
        return f"{figure(value * 1e6)}us"
    return f"{figure(value * 1000)}ms" if value < 1 else f"{figure(value)}s"


def _details(value: Any) -> str:
    """Return a list or a mapping of numbers and texts, without brackets."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_details(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(map(_details, value))
    if isinstance(value, float):
        return figure(value)
    return value if isinstance(value, str) else canonical_json(value)


FORMATS: Mapping[ColumnFormat, Callable[[Any], str]] = {
    "number": figure,
    "percent": percent,
    "seconds": seconds,
    "bytes": lambda value: f"{value / 2**20:.0f}M",
    "count": lambda value: str(value) if isinstance(value, int) else figure(value),
    "text": str,
    "flag": lambda value: "yes" if value else "no",
    "estimator": str,
    "access": access_letters,
    "status": lambda status: ", ".join(
        f"{word} {count}" for word, count in status.items() if word != "ok"
    ),
    "json": _details,
}


def value_text(value: Any, form: ColumnFormat) -> str:
    """Return a column's value as text: a range for two numbers, a dash for none.

    >>> value_text((0.1, 0.25), "percent"), value_text(None, "count")
    ('10%-25%', '-')
    """
    if value is None:
        return MISSING
    if isinstance(value, tuple):
        return "-".join(FORMATS[form](part) for part in value)
    return FORMATS[form](value) or MISSING


# Tables of rows that columns read: boards, summaries over settings, choices among policies.


def column_table(
    title: str,
    columns: Iterable[BoardColumn],
    rows: Sequence[Any],
    *,
    board: Any = None,
    notes: Iterable[str] = (),
) -> TextTable:
    """Make the table of what columns read from rows.

    Parameters
    ----------
    title, notes : of the table.
    columns : what to show, in this order.
    rows : what the columns read from.
    board : what those columns read from whose values are the same for all rows.
    """
    chosen = tuple(columns)

    def cell(column: BoardColumn, row: Any) -> Cell:
        value = column.value(board if column.of_board else row)
        text = value_text(row_name(row) if column.format == "estimator" else value, column.format)
        mark = column.mark
        if mark and text != MISSING and COLUMNS[mark.flag].value(row):
            text += mark.sign
        return Cell(text, value, column.style(row) if column.style else "")

    return TextTable(
        title=title,
        columns=chosen,
        rows=tuple(tuple(cell(column, row) for column in chosen) for row in rows),
        notes=tuple(notes),
    )


def replicates_of(rows: Iterable[Any]) -> str:
    """Return the number of replicates of rows, or their range, for a title."""
    n = span(row.replicates for row in rows) or "0"
    return f"{n} replicate{'' if n == '1' else 's'}"


def span(numbers: Iterable[int], to: str = "-", form: str = "") -> str:
    """Return the least and the largest number, once if they are equal; nothing for none.

    >>> span([50, 10, 20]), span([8, 8]), span([])
    ('10-50', '8', '')
    """
    known = sorted(numbers)
    return to.join(format(one, form) for one in dict.fromkeys((*known[:1], *known[-1:])))


def row_name(row: Any) -> str:
    """Return the label of a row, with the device where it is not the usual one."""
    return str(row.label) if row.device == "cpu" else f"{row.label} ({row.device})"


# Tables as CSV: a line a row, every number in full precision.


def render_csv(tables: Iterable[TextTable]) -> str:
    """Return tables of the same columns under one header.

    Lists and mappings are JSON, null for a number that is not finite; a missing value is empty.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    header: list[str] = []
    for table in tables:
        if table.rows and not header:
            header = [column.key for column in table.columns]
            writer.writerow(header)
        for row in table.rows:
            writer.writerow(
                canonical_json(plain(cell.value))
                if isinstance(cell.value, dict | list | tuple)
                else without_formula(cell.value)
                if isinstance(cell.value, str)
                else cell.value
                for cell in row
            )
    return stream.getvalue()


# Tables in Markdown; rows tied with the best are bold.


def render_markdown(table: TextTable) -> str:
    """Return a heading, the table, and a list of its notes."""

    def escape(text: str) -> str:
        return prose(text).replace("|", "\\|")

    def cell(one: Cell, column: TableColumn) -> str:
        if column.code:
            return f"`{one.text}`"
        text = escape(one.text)
        return f"**{text}**" if one.style == "best" and text else text

    lines = [f"### {prose(table.title)}", ""] if table.title else []
    if table.rows:
        head = (escape(column.title) for column in table.columns)
        rows = (map(cell, row, table.columns) for row in table.rows)
        lines += [*markdown_lines(head, rows, (column.right for column in table.columns)), ""]
    lines += [f"- {prose(note)}" for note in table.explained]
    return "\n".join(lines) + "\n"


def markdown_lines(
    head: Iterable[str], rows: Iterable[Iterable[str]], right: Iterable[bool]
) -> list[str]:
    """Return the lines of a table, of cells of Markdown and columns aligned right or left."""
    rule = ("---:" if one else "---" for one in right)
    return [f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)]


def prose(text: str) -> str:
    """Return text that a heading or an item shows as it is, and that reads well unrendered.

    >>> print(prose("toy n_actions=10 | by rmse"), prose("<b> _x_"))
    toy n_actions=10 | by rmse \\<b\\> \\_x\\_
    """
    for letter in "\\*`<>[]":
        text = text.replace(letter, f"\\{letter}")
    # Inside a word it means nothing.
    return re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", text).replace("\n", " ")


# Tables in LaTeX (booktabs); rows tied with the best are bold.

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"$\sim$",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\N{DAGGER}": r"\dag{}",
    "\N{DOUBLE DAGGER}": r"\ddag{}",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "×": r"$\times$",
    "±": r"$\pm$",
    "√": r"$\surd$",
    "∞": r"$\infty$",
    "→": r"$\to$",
    "…": r"\ldots{}",
    "\N{EN DASH}": "\N{EN DASH}",  # cells write it as --, beside their numbers
    "\n": " ",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}

_ACCENTS = "`\u0300'\u0301^\u0302~\u0303\"\u0308=\u0304r\u030av\u030cc\u0327"
"""Commands of LaTeX for accents, each before the combining accent."""

_CAPITALS = "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"

COLUMN_POINTS, PAGE_POINTS = 224.0, 460.0
"""Widths of a column and of both columns, a little less than in the class ``article``."""

SIZES = (("small", 4.75), ("footnotesize", 4.25), ("scriptsize", 3.75))
"""Sizes of letters, and the average width of one in points."""

SEPARATION, NARROW = 4.0, 1.5
"""Points on each side of a column, usually and where not all columns fit otherwise."""


_LONGEST_NOTE = 30
"""Words of a note that a caption may have."""


def render_latex(table: TextTable) -> str:
    """Return one ``table`` that fits a column of an article, or a ``table*`` across two.

    Long notes, and how numbers were computed, are comments above it. The document needs
    ``\\usepackage{booktabs}``.
    """

    def cell(one: Cell, column: TableColumn) -> str:
        text = one.text
        if isinstance(one.value, tuple):
            # A range of numbers has a dash, not a hyphen.
            text = re.sub(r"(?<=[\d%])-(?=-?\d)", "\N{EN DASH}", text)
        text = _numbers(_escape(text)).replace("\N{EN DASH}", "--")
        if column.code:
            return rf"\texttt{{{text}}}"
        return rf"\textbf{{{text}}}" if one.style == "best" else text

    notes = [note[0].upper() + note[1:] for note in table.explained]
    apart = [one for one in notes if len(one.split()) > _LONGEST_NOTE or "seed" in one.split()]
    sentences = [table.title.replace(" | ", ", "), *(one for one in notes if one not in apart)]
    sizes = (
        (size, float_name, SEPARATION)
        for float_name, room in (("table", COLUMN_POINTS), ("table*", PAGE_POINTS))
        for size, letter in SIZES
        if points_wide(table, letter, SEPARATION) <= room
    )
    size, float_name, separation = next(sizes, (SIZES[-1][0], "table*", NARROW))
    setting, _, rest = table.title.partition(" | ")
    label = re.sub(r"[^a-z0-9]+", "-", f"{setting} {rest.partition(' | ')[0]}".lower())
    left = "".join("r" if one.right else "l" for one in table.columns)
    lines = [
        r"% needs \usepackage{booktabs}",
        *(f"% {' '.join(one.split())}." for one in apart),
        rf"\begin{{{float_name}}}",
        r"  \centering",
        rf"  \caption{{{' '.join(f'{_escape(one)}.' for one in sentences)}}}",
        rf"  \label{{tab:{label.strip('-')}}}",
        rf"  \{size}\setlength{{\tabcolsep}}{{{separation:g}pt}}",
        rf"  \begin{{tabular}}{{{left}}}",
        r"    \toprule",
        _latex_row(_escape(column.title) for column in table.columns),
        r"    \midrule",
        *(_latex_row(map(cell, row, table.columns)) for row in table.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        rf"\end{{{float_name}}}",
        "",
    ]
    return "\n".join(lines)


def points_wide(table: TextTable, letter: float, separation: float) -> float:
    """Return the width of a table in points.

    Parameters
    ----------
    letter : average width of a letter.
    separation : points on each side of a column.
    """
    return sum(letter * letters + 2 * separation for letters in table.widths)


def _numbers(text: str) -> str:
    """Write powers of ten and minus signs as mathematics.

    >>> print(_numbers("-1.84e8"), _numbers("epw-star"))
    $-1.84\\times10^{8}$ epw-star
    """
    text = re.sub(
        r"(?<![\w.])(-?)(\d[\d.]*)e([+-]?\d+)(?![\w.])",
        lambda found: rf"${found[1]}{found[2]}\times10^{{{int(found[3])}}}$",
        text,
    )
    return re.sub(r"(?<![\w.${-])-(\d[\d.]*)(?![\w^])", r"$-$\1", text)


def _escape(text: str) -> str:
    """Return text as LaTeX that needs no package; what it cannot write as its code point."""
    return "".join(map(_latex_letter, text))


def _latex_letter(letter: str) -> str:
    if letter in SPECIAL or letter.isascii():
        return SPECIAL.get(letter, letter)
    base, *marks = tuple(unicodedata.normalize("NFD", letter))
    if base.isascii() and len(marks) == 1 and marks[0] in _ACCENTS:
        return f"\\{_ACCENTS[_ACCENTS.index(marks[0]) - 1]}{{{base}}}"
    kind, _, name = unicodedata.name(letter, "").partition(" LETTER ")
    # Unicode's name of this letter alone has one letter less than LaTeX's command.
    name = "LAMBDA" if letter in "λΛ" else name
    if kind == "GREEK SMALL" and name.isalpha() and name != "OMICRON":
        return rf"$\{name.lower()}$"
    capital = kind == "GREEK CAPITAL" and name.capitalize() in _CAPITALS.split()
    return rf"$\{name.capitalize()}$" if capital else f"U+{ord(letter):04X}"


def _latex_row(texts: Iterable[str]) -> str:
    # The command that ends the line before would take these for its own.
    row = " & ".join(texts)
    return f"    {'{}' if row.startswith(('[', '*')) else ''}{row} \\\\"


# Tables in HTML, for notebooks and pages: alignment, emphasis and class names, no styles.

_CLASSES: Mapping[Style, str] = {
    "good": "fine",
    "best": "fine",
    "caution": "warning",
    "bad": "broken",
}
"""Class names of cells, for pages that have styles for them."""


def render_html(table: TextTable) -> str:
    """Return title, table and notes; all text is escaped."""
    parts = [f"<p><b>{html.escape(table.title)}</b></p>"] if table.title else []
    if table.rows:
        parts.append(render_rows(table))
    if table.explained:
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in table.explained)
        parts.append(f"<ul>{notes}</ul>")
    return "".join(parts)


def render_rows(table: TextTable) -> str:
    """Return the table without title and notes; all text is escaped."""
    head = _row("th", [Cell(column.title) for column in table.columns], table.columns)
    body = "".join(_row("td", row, table.columns) for row in table.rows)
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def _row(tag: str, cells: Iterable[Cell], columns: Sequence[TableColumn]) -> str:
    row = ""
    for cell, column in zip(cells, columns, strict=True):
        names = [_CLASSES.get(cell.style, ""), "number" if column.right else ""]
        kind = f' class="{" ".join(filter(None, names))}"' if any(names) else ""
        align = "right" if column.right else "left"
        text = html.escape(cell.text)
        text = f"<b>{text}</b>" if cell.style == "best" and text else text
        row += f'<{tag}{kind} style="text-align:{align}">{text}</{tag}>'
    return f"<tr>{row}</tr>"


# Tables in a terminal: one line a row, as many columns as fit.

COLORS: dict[Style, str] = {
    "": "",
    "best": "bold green",
    "good": "green",
    "caution": "yellow",
    "bad": "red",
    "changed": "cyan",
    "dim": "dim",
}
SHORTEST_NAME = 12
NAME_SHARE = 0.28
"""Share of the width that long names get before any column that can be left out."""


def render_text(
    table: TextTable, *, width: int = 80, color: bool = False, whole: bool = False
) -> str:
    """Return the table as a terminal shows it.

    Parameters
    ----------
    table : what to show.
    width : columns of the terminal.
    color : whether the text may hold escape sequences.
    whole : show all columns, in lines that are longer than the terminal if need be.
    """
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table as Grid
    from rich.text import Text

    fitted = table if whole else fit(table, width)
    names = max(_least_room_for_names(table, width), width - _width_without_names(fitted))
    grid = Grid(box=None, pad_edge=False, padding=(0, 1, 0, 0), expand=False)
    shown: list[list[str]] = []
    for index, column in enumerate(fitted.columns):
        cut = column.overflow == "cut"
        grid.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=column.overflow != "fold",
            overflow="fold" if column.overflow == "fold" else "ellipsis",
            max_width=names if cut else None,
            header_style="dim",
        )
        texts = [row[index].text for row in fitted.rows]
        shown.append(_cut(texts, names) if cut else texts)
    for index, row in enumerate(fitted.rows):
        cells = zip(row, shown, strict=True)
        grid.add_row(*(Text(texts[index], style=COLORS[cell.style]) for cell, texts in cells))
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=max(width, _width_without_names(fitted) + names) if whole else width,
        force_terminal=color,
        # In a notebook rich would show each line as an output of its own instead of writing it.
        force_jupyter=False,
        color_system="standard" if color else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    if table.title:
        console.print(Text(table.title, style="bold"))
    if table.rows:
        console.print(grid)
    for note in fitted.explained:
        console.print(Padding(Text(note, style="dim"), (0, 0, 0, 2)))
    return "\n".join(line.rstrip() for line in stream.getvalue().split("\n"))


def fit(table: TextTable, width: int) -> TextTable:
    """Return the table without the columns that a terminal of this width has no room for."""
    room = _least_room_for_names(table, width)
    expendable = [column for column in table.columns if column.drop is not None]
    for column in sorted(expendable, key=lambda column: column.drop or 0):
        if width - _width_without_names(table) >= room:
            break
        table = table.without({column.key})
    return table


def _least_room_for_names(table: TextTable, width: int) -> int:
    """Return how much long names get before any column that can be left out."""
    both = zip(table.widths, table.columns, strict=True)
    names = [letters for letters, column in both if column.overflow]
    return max(SHORTEST_NAME, min(max(names, default=0), int(NAME_SHARE * width)))


def _width_without_names(table: TextTable) -> int:
    both = zip(table.widths, table.columns, strict=True)
    return sum(letters + 1 for letters, column in both if not column.overflow)


def _cut(names: list[str], width: int) -> list[str]:
    """Cut names at the end, or in the middle where only their ends tell them apart."""
    cut = [name if len(name) <= width else f"{name[: width - 1]}…" for name in names]
    head = width // 3
    return [
        f"{name[:head]}…{name[head + 1 - width :]}"
        if len(name) > width and cut.count(short) > 1
        else short
        for name, short in zip(names, cut, strict=True)
    ]
