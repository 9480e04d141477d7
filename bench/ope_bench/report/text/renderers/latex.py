"""Tables in LaTeX (booktabs); rows tied with the best are bold."""

from __future__ import annotations

import re

from ope_bench.report.text.table import Cell, Table, TableColumn

__all__ = ["COLUMN_POINTS", "PAGE_POINTS", "points_wide", "render_latex"]

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\N{DAGGER}": r"\dag{}",
    "\N{DOUBLE DAGGER}": r"\ddag{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}

COLUMN_POINTS, PAGE_POINTS = 224.0, 460.0
"""Widths of a column and of both columns, a little less than in the class ``article``."""

SIZES = (("small", 4.75), ("footnotesize", 4.25), ("scriptsize", 3.75))
"""Sizes of letters, and the average width of one in points."""

SEPARATION, NARROW = 4.0, 1.5
"""Points on each side of a column, usually and where not all columns fit otherwise."""


def render_latex(table: Table) -> str:
    """Return one ``table`` that fits a column of an article, or a ``table*`` across two.

    The document needs ``\\usepackage{booktabs}``.
    """
    sentences = [
        table.title.replace(" | ", ", "),
        *(note[0].upper() + note[1:] for note in table.notes),
    ]
    size, float_name, separation = _layout(table)
    left = "".join("r" if one.right else "l" for one in table.columns)
    lines = [
        rf"\begin{{{float_name}}}",
        r"  \centering",
        rf"  \caption{{{' '.join(f'{_escape(one)}.' for one in sentences)}}}",
        rf"  \label{{tab:{_label(table.title)}}}",
        rf"  \{size}\setlength{{\tabcolsep}}{{{separation:g}pt}}",
        rf"  \begin{{tabular}}{{{left}}}",
        r"    \toprule",
        "    " + " & ".join(_escape(column.title) for column in table.columns) + r" \\",
        r"    \midrule",
        *("    " + " & ".join(map(_cell, row, table.columns)) + r" \\" for row in table.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        rf"\end{{{float_name}}}",
        "",
    ]
    return "\n".join(lines)


def _layout(table: Table) -> tuple[str, str, float]:
    """Return the largest size in which the table fits, its float, and the points of a gap."""
    for float_name, room in (("table", COLUMN_POINTS), ("table*", PAGE_POINTS)):
        for size, letter in SIZES:
            if points_wide(table, letter, SEPARATION) <= room:
                return size, float_name, SEPARATION
    return SIZES[-1][0], "table*", NARROW


def points_wide(table: Table, letter: float, separation: float) -> float:
    """Return the width of a table in points.

    Parameters
    ----------
    letter : average width of a letter.
    separation : points on each side of a column.
    """
    longest = [
        max(len(column.title), *(len(row[index].text) for row in table.rows), 0)
        for index, column in enumerate(table.columns)
    ]
    return sum(letter * letters + 2 * separation for letters in longest)


def _label(title: str) -> str:
    setting, _, rest = title.partition(" | ")
    words = f"{setting} {rest.partition(' | ')[0]}".lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")


def _cell(cell: Cell, column: TableColumn) -> str:
    text = _numbers(_escape(cell.text))
    if column.code:
        return rf"\texttt{{{text}}}"
    return rf"\textbf{{{text}}}" if cell.style == "best" else text


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
    return "".join(SPECIAL.get(letter, letter) for letter in text)
