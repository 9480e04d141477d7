"""Typed columns: what texts become, and what those who ask get of them."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ope_bench import Log, TargetPolicy
from ope_bench.base.errors import UsageError
from ope_bench.reader import DataFileError, Table, TextForm, has_header, read_table, table_of
from ope_bench.reader.frames import series_of


def column(*cells: str, form: TextForm | None = None, spelled: bool = False) -> Table:
    """Return a table of one column, x, of texts."""
    return table_of({"x": list(cells)}, spelled=["x"] if spelled else [], form=form)


@pytest.mark.parametrize(
    ("cells", "kind", "values"),
    [
        (["1", "-2", ""], "integer", [1, -2, None]),
        (["9007199254740993", "NA"], "integer", [9007199254740993, None]),
        (["9223372036854775808", "1"], "integer", [9223372036854775808, 1]),
        (["1", "2.5", "nan", "None"], "float", [1.0, 2.5, None, None]),
        (["+1", "007"], "integer", [1, 7]),
        (["1e3", ".5"], "float", [1000.0, 0.5]),
        (["True", "FALSE", "null"], "boolean", [True, False, None]),
        (["1_000", "2"], "text", ["1_000", "2"]),
        (["1", "inf"], "text", ["1", "inf"]),
        (["NA", "mail"], "text", ["NA", "mail"]),
        (["1,5", "2"], "text", ["1,5", "2"]),
    ],
)
def test_texts_are_numbers_or_truth_values_only_if_all_are(
    cells: list[str], kind: str, values: list[object]
) -> None:
    found = column(*cells).column("x")
    assert found.kind == kind
    assert found.series.to_list() == values


def test_a_word_for_missing_and_a_decimal_comma_are_as_the_user_says() -> None:
    table = column("1,5", "?", "-9", form=TextForm(missing=("?", "-9"), decimal=","))
    assert table.numbers("x", optional=True).tolist() == pytest.approx(
        [1.5, np.nan, np.nan], nan_ok=True
    )
    whole = table_of({"x": np.array([1, -9])}, form=TextForm(missing=("-9",)))
    assert whole.missing("x").tolist() == [False, True]


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        (["10", "9", "10"], ["9", "10"]),
        (["1.0", "2"], ["1", "2"]),
        (["007", "7"], ["007", "7"]),
        (["12e4", "120000"], ["120000", "12e4"]),
        (["1.0", "a"], ["1.0", "a"]),
        (["Caf\u00e9", "Cafe\u0301"], ["Caf\u00e9"]),
        (["NA", "x"], ["NA", "x"]),
        (["NA", "1", "2"], ["", "1", "2"]),
        (["0.5", "0.25"], ["0.25", "0.5"]),
        (["TRUE", "false"], ["False", "True"]),
        (
            ["1152921504606846977", "1152921504606846978", ""],
            ["", "1152921504606846977", "1152921504606846978"],
        ),
    ],
)
def test_one_name_has_one_spelling(cells: list[str], names: list[str]) -> None:
    codes, found = column(*cells, spelled=True).codes("x", optional=True)
    assert found == names
    by_name = [found[code] for code in codes]
    again, _ = column(*by_name, spelled=True).codes("x", optional=True)
    assert again.tolist() == codes.tolist()


def test_names_of_typed_values_are_those_of_their_texts() -> None:
    typed = {
        "whole floats": np.array([2.0, 1.0]),
        "small floats": np.array([0.1, 0.25], dtype=np.float32),
        "flags": np.array([True, False]),
        "objects": np.array([2, "x"], dtype=object),
    }
    expected = [["1", "2"], ["0.1", "0.25"], ["False", "True"], ["2", "x"]]
    assert [table_of(typed).codes(name)[1] for name in typed] == expected


TIMES = {
    "zones": ["2024-01-31T23:30:00+00:00", "2024-02-01T00:00:00+02:00", "2024-01-31T21:59:00Z"],
    "day first": ["31/01/2024", "02/02/2024 10:00", "01/01/2024"],
    "month first": ["01/31/2024", "02/02/2024", "01/01/2024"],
    "names": ["Jan 31 2024", "Feb 1, 2024", "Jan 2 2024"],
    "names later": ["31-Jan-2024", "1 February 2024", "02 jan 2024"],
    "counter": ["week 10", "week 11", "week 9"],
    "ISO weeks": ["2024-W10", "2024-W11", "2024-W09"],
    "months": ["2023-12", "2024-01", "2023-02"],
    "quarters": ["2023-Q4", "2024 Q1", "2023Q1"],
    "numbers": ["1706745600", "1706745601.5", "90"],
    "clock": ["1/31/2024 11:59 PM", "2/1/2024 12:00 AM", "1/31/2024 1:00 pm"],
    "mail": [
        "Wed, 31 Jan 2024 10:00:00 GMT",
        "Thu, 01 Feb 2024 09:00:00 GMT",
        "Wed, 31 Jan 2024 09:00:00 GMT",
    ],
}


@pytest.mark.parametrize("form", TIMES)
def test_the_order_of_times_is_that_of_time(form: str) -> None:
    ranks, span = column(*TIMES[form]).column("x").times()
    if form != "zones":
        assert ranks.tolist() == [1, 2, 0]
        assert span == (TIMES[form][2], TIMES[form][1])
    else:
        # The second is 22:00 in UTC.
        assert ranks.tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["01/02/2024", "03/04/2024"], "row 0, column 'x': '01/02/2024': the column does not"),
        (["31/01/2024", "01/31/2024"], "differ in the order of day and month"),
        (["2024-01-01", "soon"], "row 1, column 'x': 'soon' is no time of a known form"),
        (["2024-01-01", "2024-02-30"], "'2024-02-30' is no time that exists"),
        (["2024-01-01T00:00Z", "2024-01-01T00:00"], "row 1, column 'x': .* names no time zone"),
        (["31/01/24", "30/01/24"], "time_format"),
        (["2024-01-01", ""], "row 1, column 'x': the value is missing"),
    ],
)
def test_a_time_that_is_not_known_for_sure_is_refused(cells: list[str], said: str) -> None:
    with pytest.raises(DataFileError, match=said):
        column(*cells).column("x").times()


def test_a_format_of_times_settles_what_the_column_does_not() -> None:
    form = TextForm(time_format="%d/%m/%Y")
    ranks, _ = column("01/02/2024", "03/01/2024", form=form).column("x").times()
    assert ranks.tolist() == [1, 0]
    with pytest.raises(DataFileError, match=r"row 0.*'2024-01-01' is not of `time_format`"):
        column("2024-01-01", form=form).column("x").times()


def test_vectors_are_lists_of_one_length() -> None:
    lists = {"l": [[1, 2], [3, 4]], "t": ["[1, 2]", "{3,4}"], "a": np.array([[1.0, 2], [3, 4]])}
    table = table_of(lists)
    for name in lists:
        assert table.column(name).vectors().tolist() == [[1, 2], [3, 4]], name
    with pytest.raises(DataFileError, match=r"row 1, column 'x': 1 numbers; row 0 has 2"):
        table_of({"x": [[1, 2], [3]]}).column("x").vectors()
    with pytest.raises(DataFileError, match="row 1, column 'x': 'two' is no list"):
        table_of({"x": ["[1]", "two"]}).column("x").vectors()


def test_a_column_that_nobody_names_is_not_looked_at() -> None:
    frame = {"x": [1, 2], "odd": [{1}, object()]}
    assert table_of(frame, ["x"]).numbers("x").tolist() == [1, 2]
    with pytest.raises(
        DataFileError, match=r"column 'odd': holds other things .set., not numbers"
    ):
        table_of(frame).numbers("odd")


def test_the_first_odd_cell_has_its_line_as_an_editor_counts(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for end in ("\n", "\r\n", "\r"):
        text = end.join(["a,b", '1,"two', 'lines"', "", '2,"x"', "?,y", "!,z", ""])
        path.write_bytes(text.encode())
        with pytest.raises(
            DataFileError, match=r"line 6, column 'a': '\?' is not a finite number"
        ):
            read_table(path).numbers("a")
    for text, line in (
        ('a,b\n1,"\rx"\n\n2,"\r\n\n"\n?,"\rz"\n', 8),
        ('a,"b\nc\r\nd"\n\n1,x\n?,y\n', 6),
        ("a,b\n1,x\n\n\n?,y\n\n", 5),
        ('a,b\n1,"x\ny"\n?,"\n\n",3\n', 4),
    ):
        path.write_bytes(text.encode())
        with pytest.raises(DataFileError, match=f"line {line}[,:]"):
            read_table(path).numbers("a")
    rows = [f"{k},{k % 7}" for k in range(70_000)]
    rows[65_600] = "oops,1"
    path.write_text("a,b\n" + "\n".join(rows))
    with pytest.raises(DataFileError, match="line 65,602, column 'a': 'oops'"):
        read_table(path).numbers("a")


def test_every_form_of_a_file_gives_the_same_columns(tmp_path: Path) -> None:
    text = "x,kind\n1.5,b\n2,a c\n"
    files = {
        "comma.csv": text.encode(),
        "semicolon.csv": b"x;kind\r\n1.5;b\r\n\r\n2;a c\r\n",
        "tab.tsv": b"x\tkind\n1.5\tb\n2\ta c\n",
        "old mac.csv": b"x,kind\r1.5,b\r2,a c\r",
        "marked.csv": ("\ufeff" + text).encode(),
        "windows.csv": text.encode("utf-16"),
        "packed.csv.xz": lzma.compress(text.encode()),
        "weka.arff": b"% note\n@relation r\n@attribute x real\n@attribute kind {b,'a c'}\n"
        b"@data\n1.5, b\n2,'a c'\n",
        "keel.dat": b"@relation r\n@attribute x real [1,2]\n@attribute kind{b, a c}\n"
        b"@inputs x\n@outputs kind\n@data\n1.5, b\n2, a c\n",
        "lines.jsonl": b'{"x": 1.5, "kind": "b"}\n\n{"kind": "a c", "x": 2}\n',
        "list.json": b'[{"x": 1.5, "kind": "b"},\n {"kind": "a c", "x": 2}]',
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    frame = pl.DataFrame({"x": [1.5, 2], "kind": ["b", "a c"]})
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_ipc(tmp_path / "t.arrow")
    frame.lazy().sink_csv(tmp_path / "t.csv.gz", compression="gzip")
    frame.lazy().sink_csv(tmp_path / "t.csv.zst", compression="zstd")
    assert len(list(tmp_path.iterdir())) == len(files) + 4
    for path in sorted(tmp_path.iterdir()):
        table = read_table(path, ["kind", "x"])
        assert table.numbers("x").tolist() == [1.5, 2.0], path.name
        codes, words = table.codes("kind")
        assert (codes.tolist(), words) == ([1, 0], ["a c", "b"]), path.name


def test_a_table_without_a_header_has_numbered_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.data"
    path.write_text("1,x\n2,y\n")
    assert not has_header(path)
    assert read_table(path, ["2", "1"], header=False).codes("2")[1] == ["x", "y"]
    path.write_text("1,x\n2,?\n")
    with pytest.raises(DataFileError, match="line 2, column '2': the value is missing"):
        read_table(path, header=False)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", ": is empty"),
        (b"\n\na\n1\n", "starts with a blank line, not a header"),
        (b"a,b\n", "has no rows"),
        (b"a,b\n1,2\n3\n", "line 3: 1 fields; the header names 2 columns"),
        (b"a,a\n1,2\n", r"two columns are called 'a' \(1 and 2\)"),
        (b"b,a, a\n1,2,3\n", r"two columns are called 'a' \(2 and 3\)"),
        (b"# of May\na,b\n1,2\n", "no column 'a'.*'?# of May.*take it out"),
        (b"#of,May\na,b\n1,2\n", "no column 'a'.*'?#of.*take it out"),
        (b"sep=;\na;b\n1;2\n", "no column 'a'.*sep=.*take it out"),
        (b"SEP=,\r\na,b\r\n1,2\r\n", "no column 'a'.*SEP=.*take it out"),
        (b"a b\n1 2\n", "no column 'a'.*`delimiter`"),
        ("a,b\n1,2\n".encode("utf-16-le"), "no column 'a'.*`encoding`"),
        (b"PK\x03\x04" + bytes(range(200)), "Excel.*save it as CSV"),
        (b"%PDF-1.7\n" + bytes(range(200)), "PDF.*save it as CSV"),
        (b"A,b\n1,2\n", r"has no column 'a' \(it has: A, b\)"),
        (b"a,b\n1,caf\xe9\n", "line 2: byte 0xe9 at column 6 is not UTF-8; .*`encoding`"),
        (b'a,b\n1,"x\n', "line 2: unexpected end of data"),
        (b'{"a": 1}\n{"a": 2\n', "line 2: is no JSON"),
        (b'{"a": 1}\n[3]\n', r"line 2: \[3\] is no JSON object"),
        (
            b'{"b": 0}\n\n{"a": 1, "a": 2}\n',
            "line 3, column 'a': .* twice .* keep one",
        ),
        (b'{"a": 1, "b": [0], "a": 1}\n', "line 1, column 'a': the key is there twice"),
        (b'{"a": 1, "\\u0061": 1}\n', "line 1, column 'a': the key is there twice"),
        (b'{"a": 1}\n{"a": 2, "a" : 3.5, "b": 1e99}\n', "line 2, column 'a': the key is there"),
        (b'[{"a": 1},\n{"a": 2, "a": 2}]', "row 2, column 'a': the key is there twice"),
        (b'{"a": "x"}\n{"a": "\\ud83d"}\n', r"line 2, column 'a': '\\ud83d' holds half"),
        (b'{"a": "\\uDC00x"}\n', r"line 1, column 'a': '\\udc00x' holds half"),
        (b'[{"a": "x\\ud800"}]', r"row 1, column 'a': 'x\\ud800' holds half"),
        (b'{"a": 1}\n{"a": ' + b"[" * 99999 + b"]" * 99999 + b"}\n", "line 2: lists .* too deep"),
        (b"[" * 99999 + b"]" * 99999, "lists .* too deep .*leave them out"),
        # A time in it would be part of the test's name, which processes of pytest compare.
        (gzip.compress(b"a\n" + b"1\n" * 40, mtime=0)[:-12], "line [0-9]+: .*end early.* copy"),
        (bz2.compress(b"a\n1\n")[:-4], "line 3: its compressed data end early"),
        (lzma.compress(b"a\n" + b"1\n" * 40)[:-30], "line [0-9]+: its compressed data end early"),
        (b"PAR1", "is no Parquet file, or damaged"),
        (b"ARROW1\0\0", "is no Arrow file, or damaged"),
        (b"\x1f\x8b\x08", "line 1: its compressed data end early"),
        (b"@relation r\n@attribute a real\n", "has no @data line"),
        (b"@relation r\n@attribute a real\n@data\n{0 1}\n", "line 4: sparse rows"),
        (
            b"@relation r\n@attribute a real\n@data\n?\n",
            "line 4, column 'a': the value is missing",
        ),
    ],
)
def test_a_wrong_file_is_one_clear_line(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=said) as caught:
        read_table(path, ["a"])
    assert "\n" not in str(caught.value)
    path.write_bytes(b"a\n1\n")
    with pytest.raises(DataFileError, match="Python knows none called 'morse'"):
        read_table(path, form=TextForm(encoding="morse"))


def test_a_key_or_text_that_only_looks_doubled_or_halved_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    rows = [{"a": "a", "b": {"a": 1, "c": '{"a": "a"}'}}, {"a": "\U0001f600", "b": '"a": "a"'}]
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    assert "\\ud83d" in path.read_text()
    assert read_table(path, ["a"]).codes("a")[1] == ["a", "\U0001f600"]
    path.write_text('{"a": 1, "b": 2, "b": 3}\n')
    assert read_table(path, ["a"]).numbers("a").tolist() == [1.0]


def test_columns_of_one_name_are_refused_where_they_are_asked_for() -> None:
    pandas = pytest.importorskip("pandas")
    arrow = pytest.importorskip("pyarrow")
    twice = [
        pandas.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]),
        arrow.table([[1], [2], [3]], names=["a", "b", "a"]),
    ]
    for frame in twice:
        assert table_of(frame, ["b"]).numbers("b").tolist() == [2.0]
        with pytest.raises(DataFileError, match=r"two columns are called 'a' \(1 and 3\)"):
            table_of(frame, ["a"])
    with pytest.raises(DataFileError, match=r"two columns are called '1' \(1 and 2\)"):
        table_of({1: [1], "1": [2]}, ["1"])


@pytest.mark.parametrize(
    "values",
    [
        np.array([1.5, 2.5, 3.5]),
        np.array([1, 2**53 + 1, 3]),
        np.array([True, False, True]),
        np.array(["a", "b", "c"]),
        np.array(["a", None, 2], dtype=object),
        np.array(["2026-01-01", "2026-01-02", "2026-01-03"], dtype="datetime64[s]"),
    ],
    ids=lambda values: str(values.dtype),
)
def test_what_a_masked_array_masks_is_missing(values):
    plain = series_of(values, "x")
    series = series_of(np.ma.masked_array(values, mask=[False, True, False]), "x")
    assert series.dtype == plain.dtype
    assert series.to_list() == [plain[0], None, plain[2]]
    assert series_of(np.ma.masked_array(values), "x").to_list() == plain.to_list()


def test_a_masked_reward_is_refused_or_left_out_and_a_masked_vector_refused():
    rng = np.random.default_rng(0)
    reward = np.ma.masked_array(rng.random(40), mask=np.arange(40) % 7 == 3)
    columns = {
        "x": rng.random(40),
        "a": rng.integers(2, size=40),
        "r": reward,
        "p": np.full(40, 0.5),
    }
    given = {"context": ["x"], "action": "a", "reward": "r", "propensity": "p"}
    with pytest.raises(UsageError, match="row 3, column 'r'"):
        Log.from_frame(columns, **given, target=TargetPolicy(action="a"))
    log = Log.from_frame(columns, **given, target=TargetPolicy(action="a"), drop_missing=True)
    np.testing.assert_array_equal(log.reward, reward.compressed())
    vectors = np.ma.masked_array(rng.random((40, 2)), mask=np.arange(80).reshape(40, 2) == 5)
    columns |= {"r": rng.random(40), "x": vectors}
    with pytest.raises(UsageError, match="row 2, column 'x'"):
        Log.from_frame(columns, **given, target=TargetPolicy(action="a"))


def test_streams_of_arrow_are_read_and_feather_of_version_1_is_refused(tmp_path):
    frame = pl.DataFrame({"x": [1, 2], "w": ["a", "b"]})
    for name in ("stream.arrows", "stream", "stream.arrow"):
        frame.write_ipc_stream(tmp_path / name)
        found = read_table(tmp_path / name, ["w"])
        assert (found.names, found.codes("w")[1]) == (["w"], ["a", "b"])
    (tmp_path / "old.feather").write_bytes(b"FEA1" + bytes(40))
    with pytest.raises(DataFileError, match=r"old\.feather.*version 1.*write version 2"):
        read_table(tmp_path / "old.feather")
