"""Tables: what is read from each form, and that mistakes have a row and a column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ope_bench.base.errors import UnavailableError
from ope_bench.tables import ROWS_AT_ONCE, DataFileError, Table, has_header, read_table
from ope_environments.tables.installed_folder import installed_folder


def test_forms_of_one_table_read_the_same(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    texts = {
        "comma.csv": "x,kind\n1.5,b\n2,a c\n",
        "semicolon.csv": "x;kind\r\n1.5;b\r\n\r\n2;a c\r\n",
        "tab.tsv": "x\tkind\n1.5\tb\n2\ta c\n",
        "marked.csv": "\ufeffx,kind\n1.5,b\n2,a c",
        "weka.arff": "% note\n@relation r\n@attribute x real\n@attribute kind {b,'a c'}\n"
        "@data\n1.5, b\n2,'a c'\n",
        "keel.dat": "@relation r\n@attribute x real [1,2]\n@attribute kind{b, a c}\n"
        "@inputs x\n@outputs kind\n@data\n1.5, b\n2, a c\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    pq.write_table(pa.table({"x": [1.5, 2], "kind": ["b", "a c"]}), tmp_path / "t.parquet")
    for path in sorted(tmp_path.iterdir()):
        table = read_table(path, numbers=["x"])
        assert table.number("x").tolist() == [1.5, 2.0], path.name
        codes, words = table.words("kind")
        assert (codes.tolist(), words) == ([1, 0], ["a c", "b"]), path.name


def test_words_that_are_numbers_are_sorted_as_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\n10\n9\n10\n")
    codes, words = read_table(path).words("a")
    assert (codes.tolist(), words) == ([1, 0, 1], ["9", "10"])


def test_a_missing_word_comes_before_words_that_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n10,x\nNA,y\n9,NA\n")
    table = read_table(path, words=["a", "b"], optional=["a", "b"])
    codes, words = table.words("a")
    assert (codes.tolist(), words) == ([2, 0, 1], ["", "9", "10"])
    assert table.missing("a").tolist() == [False, True, False]
    assert table.is_numeric("a")
    assert not table.is_numeric("b")
    assert table.number("a").tolist() == pytest.approx([10.0, np.nan, 9.0], nan_ok=True)
    assert table.as_numbers("a") is None
    with pytest.raises(DataFileError, match="line 2, column 'b'"):
        table.number("b")
    with pytest.raises(DataFileError, match="has no column 'c'"):
        table.number("c")


def test_selected_rows_keep_their_places_and_forget_other_words() -> None:
    columns = {"x": np.array([1, np.inf, 3]), "w": np.array(["a", "", "b"], dtype=object)}
    table = Table.from_arrays(Path("made"), columns).select(np.array([2, 1]))
    assert (table.words("w")[0].tolist(), table.words("w")[1]) == ([1, 0], ["", "b"])
    assert table.missing("w").tolist() == [False, True]
    assert not table.is_numeric("x")
    with pytest.raises(DataFileError, match="made, row 2, column 'x'"):
        table.number("x")
    other = table.with_columns({"x": np.array([4.0, np.nan])})
    assert other.words("x")[1] == ["", "4"]
    assert other.missing("x").tolist() == [False, True]


def test_a_mistake_far_down_a_long_file_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    rows = [f"{k},{k % 7}" for k in range(2 * ROWS_AT_ONCE + 5)]
    rows[2 * ROWS_AT_ONCE + 1] = "oops,1"
    path.write_text("a,b\n" + "\n".join(rows))
    with pytest.raises(DataFileError) as caught:
        read_table(path, numbers=["a"])
    line = 2 * ROWS_AT_ONCE + 3
    assert str(caught.value).endswith(
        f"long.csv, line {line:,}, column 'a': 'oops' is not a finite number"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", ": is empty"),
        (b"  \n \n", ": is empty"),
        (b"\n\na\n1\n", "starts with a blank line, not a header"),
        (b"a,b\n", "has a header but no rows"),
        (b"a,b\n1,2\n3\n", "line 3: 1 fields; the header names 2 columns"),
        (b"a,b\n1,nan\n", None),
        (b"a,b\nnan,1\n", "line 2, column 'a': the value is missing"),
        (b"a,b\n,1\n", "line 2, column 'a': the value is missing"),
        (b"a,a\n1,2\n", "two columns are called 'a'"),
        (b"A,b\n1,2\n", "has no column 'a' (it has: A, b)"),
        (b"aa,b\n1,2\n", "has no column 'a'"),
        (b"a,b\n1,caf\xe9\n", "line 2: byte 0xe9 at column 6 is not UTF-8; save it as UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), "line 1: byte 0xff at column 1 is not UTF-8"),
        (b'a,b\n1,"x\n', "line 2: unexpected end of data"),
        (b"a,b\n1," + b"x" * 200_000, "line 2: field larger than field limit"),
        (b"@relation r\n@attribute a real\n", "has no @data line"),
        (
            b"@relation r\n@attribute a real\n@data\n{0 1}\n",
            "line 4: sparse rows are not supported",
        ),
        (
            b"@relation r\n@attribute a real\n@data\n?\n",
            "line 4, column 'a': the value is missing",
        ),
    ],
)
def test_a_wrong_file_is_one_clear_line(tmp_path: Path, content: bytes, said: str | None) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    if said is None:
        assert read_table(path, numbers=["a"]).n == 1
        return
    with pytest.raises(DataFileError) as caught:
        read_table(path, numbers=["a"])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_wrong_parquet_file_is_one_clear_line(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1.0, None], "b": ["x", "y"], "c": [1.0, np.nan]}), path)
    for column, said in (
        ("a", "row 2, column 'a': the value is missing"),
        ("b", "column 'b': contains string, not numbers"),
        ("c", "row 2, column 'c': nan is not a finite number"),
        ("d", "has no column 'd'"),
    ):
        with pytest.raises(DataFileError) as caught:
            read_table(path, numbers=[column], words=[])
        assert said in str(caught.value)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataFileError, match="is not a parquet file, or damaged"):
        read_table(path)


def test_values_out_of_bounds_have_their_place(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("p\n0.5\n1.5\n")
    table = read_table(path, numbers=["p"])
    with pytest.raises(DataFileError, match=r"line 3, column 'p': 1\.5 is not within"):
        table.number("p", low=0, high=1)


def test_a_file_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="no such file"):
        read_table(tmp_path / "none.csv")


def test_packages_are_found_without_being_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "explosive_package").mkdir()
    (tmp_path / "explosive_package" / "__init__.py").write_text("raise RuntimeError")
    monkeypatch.syspath_prepend(tmp_path)
    assert installed_folder("explosive_package") == tmp_path / "explosive_package"


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("a,b\nx,y\n", True),
        ("a,b\nx,b\n", False),
        ("a,2\nx,3\n", False),
        ("@relation r\n@attribute 1 real\n@data\n1\n", True),
        ("a,b\n", True),
    ],
)
def test_a_line_of_names_holds_no_number_and_no_value_of_its_column(
    tmp_path: Path, text: str, header: bool
) -> None:
    path = tmp_path / "t.dat"
    path.write_text(text)
    assert has_header(path) is header


def test_columns_without_names_are_numbered_and_the_first_line_is_a_row(tmp_path: Path) -> None:
    path = tmp_path / "t.dat"
    path.write_text("a,1.5\nb,2.5\n")
    table = read_table(path, numbers=["2"], header=False)
    assert table.number("2").tolist() == [1.5, 2.5]
    assert table.words("1")[1] == ["a", "b"]
    path.write_text("a,1.5\nb,<null>\n")
    with pytest.raises(DataFileError, match="line 2, column '2': the value is missing"):
        read_table(path, header=False)


@pytest.mark.parametrize("word", ["1_000", "\u0661\u0662", "\uff11", "1_0.5", "0x10"])
@pytest.mark.parametrize("suffix", ["csv", "arff"])
def test_only_plain_digits_are_numbers(tmp_path: Path, word: str, suffix: str) -> None:
    """Python reads 1_000 and digits of other scripts; a file that holds them holds a mistake."""
    head = (
        "a,b\n"
        if suffix == "csv"
        else "@relation r\n@attribute a real\n@attribute b real\n@data\n"
    )
    path = tmp_path / f"t.{suffix}"
    path.write_text(f"{head}1,2\n{word},3\n", encoding="utf-8")
    with pytest.raises(DataFileError, match=r"column 'a': .* is not a finite number"):
        read_table(path, numbers=["a"])
    assert read_table(path, words=["a"]).as_numbers("a") is None


def test_numbers_between_spaces_of_any_kind_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\n\u00a01.5 \n-2E3\n+.5\n", encoding="utf-8")
    assert read_table(path, numbers=["a"]).number("a").tolist() == [1.5, -2000.0, 0.5]


def test_a_very_wide_table_is_read_in_time_linear_in_its_columns(tmp_path: Path) -> None:
    """50,000 columns took a minute when each was looked up in a list."""
    names = [f"c{k}" for k in range(50_000)]
    path = tmp_path / "wide.csv"
    path.write_text(f"{','.join(names)}\n{','.join(['1.5'] * len(names))}\n", encoding="utf-8")
    table = read_table(path, numbers=names[:-1], words=names[-1:])
    assert table.names == names
    assert table.number("c49998").tolist() == [1.5]
    again = [*names, "c7"]
    path.write_text(f"{','.join(again)}\n{','.join(['1.5'] * len(again))}\n", encoding="utf-8")
    with pytest.raises(DataFileError, match="two columns are called 'c7'"):
        read_table(path)


def test_values_may_be_missing_where_that_is_said(tmp_path: Path) -> None:
    text, binary = tmp_path / "t.csv", tmp_path / "t.parquet"
    text.write_text("a,w\n1,x\nNA,\n3,null\n")
    pa = pytest.importorskip("pyarrow")
    columns = {"a": [1.0, None, 3.0], "w": ["x", None, None]}
    pytest.importorskip("pyarrow.parquet").write_table(pa.table(columns), binary)
    for path in (text, binary):
        table = read_table(path, numbers=["a"], words=["w"], optional={"a", "w"})
        assert np.isnan(table.number("a")).tolist() == [False, True, False]
        codes, words = table.words("w")
        assert [words[code] for code in codes] == ["x", "", ""]
        with pytest.raises(DataFileError, match="column 'a': the value is missing"):
            read_table(path, numbers=["a"], words=["w"], optional={"w"})


def test_words_of_parquet_are_those_of_csv(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / "t.parquet"
    columns = {"i": [2, 10], "f": [2.0, 0.5], "s": ["x", "y"]}
    pytest.importorskip("pyarrow.parquet").write_table(pa.table(columns), path)
    table = read_table(path)
    assert [table.words(name)[1] for name in "ifs"] == [["2", "10"], ["0.5", "2"], ["x", "y"]]
