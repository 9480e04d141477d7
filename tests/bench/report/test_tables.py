"""The neutral table and its renderers."""

import csv
import io
import json
import shutil
import subprocess
from dataclasses import replace

import pytest

from ope_bench.report.tables import (
    COLUMN_POINTS,
    PAGE_POINTS,
    SIZES,
    Cell,
    TableColumn,
    TextTable,
    fit,
    points_wide,
    render_csv,
    render_latex,
    render_markdown,
    render_text,
)


def table(names=("a|b", "c_d"), **facts):
    """Names, and three numbers that narrow terminals drop from the middle on."""
    drops = {"first": 3, "second": 1, "third": 2}
    return TextTable(
        title="one | two",
        columns=(
            TableColumn(key="name", title="name", right=False, overflow="cut"),
            *(TableColumn(key=key, title=key, drop=drop) for key, drop in drops.items()),
            TableColumn(key="last", title="last"),
        ),
        rows=tuple(
            (Cell(name, name, "best"), *(Cell(f"{n}.5", n + 0.5) for n in range(4)))
            for name in names
        ),
        notes=("read <this>",),
        **facts,
    )


def keys(given):
    return [column.key for column in given.columns]


@pytest.mark.parametrize(
    ("width", "left"),
    [
        (80, ["name", "first", "second", "third", "last"]),
        (35, ["name", "first", "third", "last"]),
        (28, ["name", "first", "last"]),
        (20, ["name", "last"]),
        (5, ["name", "last"]),
    ],
)
def test_narrow_terminals_drop_columns_in_their_order(width, left):
    assert keys(fit(table(["a-name-of-twenty-four-ch"]), width)) == left


def test_names_are_cut_and_numbers_never():
    lines = render_text(table(["a-name-that-is-longer-than-the-terminal"]), width=24).splitlines()
    assert max(map(len, lines)) <= 24
    assert "a-name" in lines[2]
    assert "…" in lines[2]
    assert lines[2].endswith("3.5")


def test_a_whole_table_has_all_columns_in_longer_lines():
    text = render_text(table(), width=20, whole=True)
    assert text.splitlines()[1].split() == ["name", "first", "second", "third", "last"]


def test_markdown_escapes_cells_and_marks_the_best():
    lines = render_markdown(table()).splitlines()
    assert lines[0] == "### one | two"
    assert lines[3] == "| --- | ---: | ---: | ---: | ---: |"
    assert lines[4].startswith("| **a\\|b** | 0.5 |")
    assert lines[-1] == "- read \\<this\\>"


def test_latex_escapes_cells_and_marks_the_best():
    text = render_latex(table())
    assert r"\caption{one, two. Read \textless{}this\textgreater{}.}" in text
    assert r"\textbf{a\textbar{}b} & 0.5" in text
    assert r"\begin{tabular}{lrrrr}" in text


def wide(columns, letters=8):
    heads = tuple(TableColumn(key=f"c{i}", title="x" * letters) for i in range(columns))
    cells = tuple(Cell("y" * letters, None) for _ in heads)
    return TextTable(
        title="toy n_actions=10 | by rmse | expected truth", columns=heads, rows=(cells,)
    )


@pytest.mark.parametrize(
    ("columns", "environment", "size"),
    [(3, "table", "small"), (5, "table", "footnotesize"), (9, "table*", "small")],
)
def test_latex_tables_fit_one_column_or_two(columns, environment, size):
    text = render_latex(wide(columns))
    assert f"\\begin{{{environment}}}" in text
    assert f"\\end{{{environment}}}" in text
    assert f"\\{size}\\setlength" in text
    letter = dict(SIZES)[size]
    room = COLUMN_POINTS if environment == "table" else PAGE_POINTS
    assert points_wide(wide(columns), letter, 4.0) <= room


def test_latex_tables_have_a_caption_and_a_label():
    text = render_latex(wide(2))
    assert r"\caption{toy n\_actions=10, by rmse, expected truth.}" in text
    assert r"\label{tab:toy-n-actions-10-by-rmse}" in text
    assert text.startswith("% needs \\usepackage{booktabs}\n")


@pytest.mark.parametrize(("text", "explained"), [("2?", True), ("2", False)])
def test_latex_captions_explain_only_marks_that_a_cell_has(text, explained):
    heads = (TableColumn(key="rank", title="#"),)
    made = TextTable(columns=heads, rows=((Cell(text, None),),), notes=("? nor do these",))
    assert ("nor do these" in render_latex(made)) is explained


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("1.84e8", r"$1.84\times10^{8}$"),
        ("5.47e+03", r"$5.47\times10^{3}$"),
        ("-2.40e-4", r"$-2.40\times10^{-4}$"),
        ("-0.5", r"$-$0.5"),
        ("0.1-0.2", "0.1-0.2"),  # a name; a range is a pair of numbers
        ("-", "-"),
        ("dm-star-2", "dm-star-2"),
        ("1.2e3-4.5e6", r"$1.2\times10^{3}$-$4.5\times10^{6}$"),
    ],
)
def test_latex_writes_numbers_as_mathematics(given, written):
    heads = (TableColumn(key="a", title="a"),)
    text = render_latex(TextTable(columns=heads, rows=((Cell(given, None),),)))
    assert f"    {written} \\\\" in text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("0.1-0.2", "0.1--0.2"),
        ("-0.2--0.1", "$-$0.2--$-$0.1"),
        ("10%-25%", r"10\%--25\%"),
        ("1.2e-3-4.5e6", r"$1.2\times10^{-3}$--$4.5\times10^{6}$"),
    ],
)
def test_latex_writes_a_range_with_a_dash(text, written):
    heads = (TableColumn(key="a", title="a"),)
    table = render_latex(TextTable(columns=heads, rows=((Cell(text, (0.0, 1.0)),),)))
    assert f"    {written} \\\\" in table


def test_latex_captions_are_short():
    made = "interval: 95 %, bootstrap, seed 7"
    notes = ("~ few", made, " ".join(["long"] * 40))
    marked = (Cell("1~", None), Cell("2", None))
    text = render_latex(replace(wide(2), notes=notes, rows=(marked,)))
    (caption,) = [line for line in text.splitlines() if line.startswith(r"  \caption")]
    assert "$\\sim$ few" in caption
    assert "seed" not in caption
    assert "Long" not in caption
    assert "booktabs}\n% Interval: 95 %, bootstrap, seed 7.\n% Long long" in text


def test_latex_compiles_without_complaint(tmp_path):
    latex = shutil.which("pdflatex")
    if latex is None:
        pytest.skip("there is no LaTeX here")
    body = "".join(render_latex(wide(n)) for n in (2, 5, 7, 11))
    source = (
        rf"\documentclass[twocolumn]{{article}}\usepackage{{booktabs}}\begin{{document}}{body}"
    )
    (tmp_path / "a.tex").write_text(source + r"\end{document}")
    done = subprocess.run(
        [latex, "-interaction=nonstopmode", "a.tex"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    log = done.stdout.decode()
    assert not [line for line in log.splitlines() if line.startswith(("!", "Overfull"))], log


def test_program_text_is_shown_as_such():
    given = TextTable(
        columns=(TableColumn(key="mark", title="", code=True),), rows=((Cell("-"),),)
    )
    assert "| `-` |" in render_markdown(given)
    assert r"\texttt{-}" in render_latex(given)


def test_no_cell_of_a_csv_is_a_formula():
    lines = list(csv.reader(io.StringIO(render_csv([table(["=1+1", "@a", "a=1"])]))))
    cells = [cell for line in lines for cell in line]
    assert "'=1+1" in cells
    assert "'@a" in cells
    assert "a=1" in cells


def test_csv_holds_values_of_all_tables_under_one_header():
    lines = list(csv.reader(io.StringIO(render_csv([table([]), table(["a"]), table(["b"])]))))
    assert lines[0] == ["name", "first", "second", "third", "last"]
    assert lines[1:] == [[name, "0.5", "1.5", "2.5", "3.5"] for name in "ab"]
    assert render_csv([table([])]) == ""


def test_json_holds_values_by_key():
    told = table(["a"]).as_json()
    assert json.loads(json.dumps(told)) == told
    assert told["rows"] == [{"name": "a", "first": 0.5, "second": 1.5, "third": 2.5, "last": 3.5}]
    assert told["title"] == "one | two"


def test_a_table_without_rows_is_its_title_and_notes():
    empty = table([])
    assert render_markdown(empty).splitlines() == ["### one | two", "", "- read \\<this\\>"]
    assert render_text(empty).split() == ["one", "|", "two", "read", "<this>"]
