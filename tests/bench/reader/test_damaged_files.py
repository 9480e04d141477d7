"""Damaged files: what is read is what Python's own libraries read; the rest is one line."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from ope_bench.reader import DataFileError, Table, read_table
from ope_bench.reader.delimited import opened, zstd_bytes
from ope_bench.reader.text import MISSING_WORDS

CELLS = (
    *("1", "2.5", "-3", "007", "1e3", "", " 4 ", "word", "NA", "é", "TRUE", "false", "1,5"),
    *('say ""hi""', "two\nlines", "a;b", "9007199254740993", "9223372036854775808", "nan", "inf"),
)


def healthy(rng: random.Random) -> bytes:
    """Return a delimited text of few rows."""
    width, out = rng.randint(1, 5), io.StringIO()
    delimiter, end = rng.choice(",,,;\t|"), rng.choice(["\n", "\n", "\r\n"])
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end)
    writer.writerow([f"c{k}" for k in range(width)])
    kinds = [rng.choice([CELLS, CELLS[:3], ("1", "2", "")]) for _ in range(width)]
    for _ in range(rng.randint(1, 8)):
        writer.writerow([rng.choice(kind) for kind in kinds])
    return (rng.choice(["", "", "\ufeff"]) + out.getvalue()).encode()


def damage(data: bytes, rng: random.Random) -> bytes:
    """Change a text in a few places, as editors, exports and disks do."""
    for _ in range(rng.randint(0, 3)):
        at = rng.randrange(len(data) + 1)
        piece = rng.choice([b'"', b"\n", b"\r", b",", b"", b"x", b"\n\n", b"\x00", b" ", b'""'])
        cut = rng.choice([0, 0, 1, 1, 3])
        data = data[:at] + piece + data[at + cut :]
    return data if rng.random() > 0.1 else data[: rng.randrange(1, len(data) + 1)]


def by_csv(data: bytes) -> list[list[str]] | None:
    """Return the cells that `csv` reads, strict and of equal widths; None if it refuses."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    lines = io.StringIO(text, newline="")
    first = lines.readline()
    lines.seek(0)
    delimiter = max((",", ";", "\t", "|"), key=first.count)
    try:
        rows = [row for row in csv.reader(lines, delimiter=delimiter, strict=True) if row]
    except csv.Error:
        return None
    names = [name.strip() for name in rows[0]] if rows else []
    if not first.strip() or len(rows) < 2 or len(set(names)) < len(names):
        return None
    return rows if all(len(row) == len(names) for row in rows) else None


def read_or_line(path: Path, spelled: list[str]) -> tuple[Table | None, str]:
    """Return a file's table, or what is said of it."""
    try:
        return read_table(path, spelled=spelled), ""
    except DataFileError as exc:
        return None, str(exc)


def same(text: str, value: object) -> bool:
    """Return whether a typed value is the text of a cell, its spelling kept."""
    text = text.strip()
    if value is None:
        return text.lower() in ("", *MISSING_WORDS)
    if isinstance(value, bool):
        return text.lower() == str(value).lower()
    return str(value) == text


def compare(path: Path, seeds: range) -> tuple[int, int]:
    """Return how many damaged texts were read, and how many refused; both as `csv` does."""
    read = refused = 0
    for seed in seeds:
        rng = random.Random(seed)
        data = damage(healthy(rng), rng)
        path.write_bytes(data)
        expected = by_csv(data)
        if not data.lstrip(b"\xef\xbb\xbf \t").startswith((b"{", b"[", b"@", b"%")):
            names = [] if expected is None else [one.strip() for one in expected[0]]
            table, said = read_or_line(path, names)
            assert "\n" not in said
            assert (table is None) == (expected is None), (seed, data, said)
            if table is None or expected is None:
                refused += 1
                continue
            cells = table.frame.rows()
            assert len(cells) == len(expected) - 1, (seed, data)
            for texts, values in zip(expected[1:], cells, strict=True):
                assert all(map(same, texts, values)), (seed, data, texts, values)
            read += 1
    return read, refused


def test_damaged_texts_are_read_as_csv_reads_them_or_refused(tmp_path: Path) -> None:
    read, refused = compare(tmp_path / "t.csv", range(300))
    assert read > 100
    assert refused > 30


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_damaged_binary_file_is_read_or_one_line(
    tmp_path: Path, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    frame = pl.DataFrame({"a": range(50), "b": ["x", "y"] * 25, "c": [0.5] * 50})
    path = tmp_path / f"t.{kind}"
    (frame.write_parquet if kind == "parquet" else frame.write_ndjson)(path)
    whole, wrong = path.read_bytes(), 0
    # With the last one a page claims -22 values, and Polars would abort the process.
    for seed in (*range(100), 10_947):
        rng = random.Random(seed)
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data if rng.random() > 0.2 else data[: rng.randrange(len(data))])
        table, said = read_or_line(path, [])
        assert "\n" not in said
        wrong += table is None
    assert wrong > 20
    assert capfd.readouterr().err == ""


def test_a_memory_limit_is_said_and_the_library_keeps_its_last_words(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    pl.DataFrame({"x": range(10)}).write_parquet(tmp_path / "t.parquet")
    script = """if True:
    import os, pathlib, psutil, resource, sys
    from ope_bench.reader import read_table
    from ope_bench.reader.library import guarded

    def limit(mebibytes):
        used = psutil.Process().memory_info().data
        resource.setrlimit(resource.RLIMIT_DATA, (used + (mebibytes << 20), -1))

    limit(30)
    try:
        read_table(pathlib.Path(sys.argv[1]))
    except MemoryError as exc:
        print(exc)
    limit(1000)
    print(read_table(pathlib.Path(sys.argv[1])).n, flush=True)
    with guarded(""):
        os.write(2, b"last words")
        os._exit(1)
    """
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "t.parquet")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout.splitlines() == ["no memory left to read a table", "10"]
    assert run.stderr == "last words"


MIB = b"0" * (1 << 20)
OPEN: dict[str, Any] = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}
ROW = b"a,r\n1,2\n"


@pytest.mark.parametrize(
    ("how", "start"),
    [("gz", b""), ("gz", ROW), ("gz", b"a,r\n\xff"), ("bz2", ROW), ("xz", ROW)],
    ids=["header", "row", "another encoding", "bz2", "xz"],
)
def test_a_compressed_line_without_end_is_refused_before_it_is_whole(
    how: str, start: bytes, tmp_path: Path
) -> None:
    """Two megabytes were four gigabytes in memory."""
    path = tmp_path / f"bomb.csv.{how}"
    with OPEN[how](path, "wb") as stream:
        stream.write(start)
        for _ in range(20):
            stream.write(MIB)
    for header in (True, False):
        with pytest.raises(DataFileError, match=r"line has more than [\d,]+ characters"):
            read_table(path, header=header)


@pytest.mark.parametrize("start", [b'{"a": 1}\n', b"[\n"])
def test_compressed_json_must_fit_in_memory(
    start: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(start)
        for _ in range(4):
            stream.write(b" \n" * (1 << 19))
        stream.write(b"]" if start == b"[\n" else b"")
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=3 * 8 << 20))
    with pytest.raises(DataFileError, match=r"has 3 MiB or more, decompressed, .* 24 are free"):
        read_table(path)


def zstd_frame(*blocks: tuple[int, int, bytes]) -> bytes:
    """Return a frame of blocks: kind, size and what they hold."""
    last = len(blocks) - 1
    heads = [size << 3 | kind << 1 | (k == last) for k, (kind, size, _) in enumerate(blocks)]
    pairs = zip(heads, blocks, strict=True)
    body = b"".join(head.to_bytes(3, "little") + held for head, (_, _, held) in pairs)
    return b"\x28\xb5\x2f\xfd\x00\x38" + body


def test_blocks_that_a_zstandard_file_claims_must_fit_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.csv.zst"
    path.write_bytes(zstd_frame((0, 8, b"a,r\n1,2\n"), (1, 3, b"4"), (0, 3, b",5\n")))
    assert read_table(path).frame.rows() == [(1, 2), (444, 5)]
    # Four kilobytes are 128 megabytes.
    path.write_bytes(zstd_frame((0, 8, b"a,r\n1,2\n"), *[(1, 1 << 17, b"0")] * (1 << 10)))
    free = SimpleNamespace(available=1 << 29)
    monkeypatch.setattr("psutil.virtual_memory", lambda: free)
    with pytest.raises(DataFileError, match=r"has 128 MiB or more, .* 1,024 MiB of memory"):
        read_table(path)


@pytest.mark.parametrize("lines", [["1,2"] * 9, ['"a;b","x""y"', "é,\u2028", ",", "3,\r"]])
def test_zstandard_files_hold_what_they_held(lines: list[str], tmp_path: Path) -> None:
    path = tmp_path / "t.csv.zst"
    text = "\n".join(["a,b", *lines, ""])
    with pa.OSFile(str(path), "wb") as file, pa.CompressedOutputStream(file, "zstd") as stream:
        stream.write(text.encode())
    assert len(text.encode()) <= zstd_bytes(path) <= len(text.encode()) + (1 << 17)
    (tmp_path / "t.csv").write_text(text, newline="")
    with opened(path) as found:
        assert found.read() == text.replace("\r\n", "\n").encode()


def test_rows_that_a_parquet_file_claims_must_fit_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "equal.parquet"
    pl.DataFrame({"a": ["x"] * 100_000, "b": [0.0] * 100_000}).write_parquet(path)
    assert path.stat().st_size < 10_000
    assert read_table(path).frame.height == 100_000
    free = SimpleNamespace(available=100_000 * 2 * 32 - 1)
    monkeypatch.setattr("psutil.virtual_memory", lambda: free)
    with pytest.raises(DataFileError, match="100,000 rows, which need 6 MiB"):
        read_table(path)
    # Of one column there is room.
    assert read_table(path, ["b"]).frame.height == 100_000
