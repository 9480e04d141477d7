"""Reading the Behance files byte by byte: what they say, and what is said of damaged ones."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ope_bench import DataFileError
from ope_bench.base.errors import UnavailableError
from ope_environments.behance.preparation import RawData, prepare, read_raw
from ope_environments.behance.prepared import Prepared
from ope_environments.behance.surrogate import generate, prepared_surrogate
from support import behance_files
from support.behance_writer import write_raw

FEATURES, APPRECIATES = "Behance_Image_Features.b", "Behance_appreciate_1M.gz"
OWNERS = "Behance_Item_to_Owners.gz"
RECORD = 16_392


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    written: Path = behance_files.write(tmp_path)
    return written


def damage(raw: RawData) -> str:
    found = raw.findings.damaged(raw.folder)
    assert found is not None
    return str(found)


def test_counts_are_by_item_and_by_whether_the_user_created_anything(folder: Path) -> None:
    prepared = prepare(read_raw(folder), 2)
    ids = [item.decode() for item in prepared.item]
    assert ids == ["00000007", "00485000", "00776972", "01588231", "02000000"]
    assert prepared.counts.tolist() == [[2, 1, 1, 1, 0], [0, 2, 0, 1, 0]]
    assert prepared.creator_share == pytest.approx(3 / 9)


def test_components_are_the_principal_axes_of_the_features(
    folder: Path,
) -> None:
    prepared = prepare(read_raw(folder), 2)
    rows = np.array([behance_files.row_of(item.decode()) for item in prepared.item])
    centered = rows - rows.mean(axis=0)
    _, values, axes = np.linalg.svd(centered, full_matrices=False)
    scores = centered @ axes[:2].T
    signs = np.sign((scores * prepared.embedding).sum(axis=0))
    np.testing.assert_allclose(prepared.embedding, scores * signs, atol=1e-5)
    np.testing.assert_allclose(prepared.explained, (values**2 / (values**2).sum())[:2], rtol=1e-5)


def test_the_report_counts_and_names_what_is_peculiar(folder: Path) -> None:
    raw = read_raw(folder)
    assert raw.facts["items_without_features"] == 1
    assert raw.facts["features_never_appreciated"] == 1
    assert raw.facts["items_with_several_owners"] == 1
    assert raw.facts["appreciates_by_creators"] == 3
    assert raw.findings.damaged(folder) is None
    assert any("01398047" in str(finding) for finding in raw.findings.all())


def test_files_that_were_unpacked_under_their_gz_name_read_the_same(
    tmp_path: Path,
) -> None:
    (tmp_path / "packed").mkdir()
    (tmp_path / "plain").mkdir()
    packed = prepare(read_raw(behance_files.write(tmp_path / "packed")), 2)
    raw = read_raw(behance_files.write(tmp_path / "plain", packed=False))
    assert prepare(raw, 2).fingerprint == packed.fingerprint
    assert any("not compressed" in str(finding) for finding in raw.findings.all())


def test_another_order_of_lines_and_records_changes_nothing(
    folder: Path,
) -> None:
    before = prepare(read_raw(folder), 2)
    for name in (APPRECIATES, OWNERS):
        lines = gzip.decompress((folder / name).read_bytes()).splitlines(keepends=True)
        (folder / name).write_bytes(gzip.compress(b"".join(reversed(lines))))
    records = (folder / FEATURES).read_bytes()
    parts = [records[k : k + RECORD] for k in range(0, len(records), RECORD)]
    (folder / FEATURES).write_bytes(b"".join(reversed(parts)))
    after = prepare(read_raw(folder), 2)
    assert (after.item == before.item).all()
    assert (after.counts == before.counts).all()
    np.testing.assert_allclose(after.embedding, before.embedding, atol=1e-5)


def test_windows_line_ends_and_a_missing_last_one_are_read(folder: Path) -> None:
    before = prepare(read_raw(folder), 2)
    text = gzip.decompress((folder / APPRECIATES).read_bytes()).replace(b"\n", b"\r\n").rstrip()
    (folder / APPRECIATES).write_bytes(text)
    raw = read_raw(folder)
    assert raw.findings.damaged(folder) is None
    assert (prepare(raw, 2).counts == before.counts).all()


def test_a_truncated_last_record_is_named_and_can_be_left_out(folder: Path) -> None:
    path = folder / FEATURES
    path.write_bytes(path.read_bytes()[:-5000])
    raw = read_raw(folder)
    said = damage(raw)
    assert f"{FEATURES}, record 5 (byte 65,568): the last record has 11,392 of 16,392" in said
    assert "\n" not in said
    assert len(prepare(raw, 2).item) == 4


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"12 1588231 1307583272\n", "line 2: an item id is not 8 digits (ids are text"),
        (b"12;01588231;1307583272\n", "line 2: not `user_id item_id unix_time`"),
        (b"12 01588231\n", "line 2: an item id is not 8 digits"),
        (b"\xff\xfe1\x002\x00\n", "line 2: not `user_id item_id unix_time`"),
    ],
)
def test_a_malformed_line_is_named_and_can_be_left_out(
    folder: Path, line: bytes, said: str
) -> None:
    lines = gzip.decompress((folder / APPRECIATES).read_bytes()).splitlines(keepends=True)
    (folder / APPRECIATES).write_bytes(b"".join([lines[0], line, *lines[1:]]))
    raw = read_raw(folder)
    assert said in damage(raw)
    assert raw.facts["appreciates"] == len(lines)


def broken_archive(folder: Path) -> None:
    path = folder / APPRECIATES
    path.write_bytes(path.read_bytes()[:-12])


def corrupt_archive(folder: Path) -> None:
    path = folder / OWNERS
    content = bytearray(path.read_bytes())
    content[15] ^= 0xFF
    path.write_bytes(bytes(content))


def no_line_ends(folder: Path) -> None:
    (folder / APPRECIATES).write_bytes(b"1" * 5_000_000)


def empty(name: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).write_bytes(b"")

    return write


def packed_features(folder: Path) -> None:
    path = folder / FEATURES
    path.write_bytes(gzip.compress(path.read_bytes()))


def another_file(folder: Path) -> None:
    (folder / OWNERS).write_bytes(bytes(range(256)) * 4)


def short_features(folder: Path) -> None:
    (folder / FEATURES).write_bytes(b"01588231" + bytes(100))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (broken_archive, f"{APPRECIATES}, after line 0: the gzip archive is damaged or truncated"),
        (corrupt_archive, f"{OWNERS}, after line 0: the gzip archive is damaged"),
        (no_line_ends, f"{APPRECIATES}, line 1: longer than 1,000 bytes"),
        (empty(APPRECIATES), f"{APPRECIATES}: is empty"),
        (empty(OWNERS), f"{OWNERS}: is empty"),
        (empty(FEATURES), f"{FEATURES}: is empty"),
        (another_file, f"{OWNERS}, line 1: no line is `item_id user_id`; is this the right file?"),
        (packed_features, f"{FEATURES}: is a gzip archive; unpack it"),
        (short_features, f"{FEATURES}: has no complete record of 16,392 bytes; it has 108"),
    ],
)
def test_an_unreadable_file_is_one_clear_line(
    folder: Path, spoil: Callable[[Path], None], said: str
) -> None:
    spoil(folder)
    with pytest.raises(DataFileError) as caught:
        read_raw(folder)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def with_value(folder: Path, record: int, offset: int, content: bytes) -> None:
    records = bytearray((folder / FEATURES).read_bytes())
    start = record * RECORD + offset
    records[start : start + len(content)] = content
    (folder / FEATURES).write_bytes(bytes(records))


@pytest.mark.parametrize(
    ("record", "offset", "content", "said"),
    [
        (1, 8 + 4 * 9, struct.pack("<f", float("nan")), "item 01588231, feature 10 of 4,096"),
        (1, 8, struct.pack("<2f", float("inf"), -float("inf")), "feature 1 of 4,096"),
        (1, 0, b"B01588231"[:8], "an item id is not 8 digits (misaligned records"),
        (1, 0, b"00776972", "an item has features already: item 00776972"),
    ],
)
def test_a_spoilt_record_is_named_and_can_be_left_out(
    folder: Path, record: int, offset: int, content: bytes, said: str
) -> None:
    with_value(folder, record, offset, content)
    raw = read_raw(folder)
    assert said in damage(raw)
    assert f"{FEATURES}, record 2 (byte 16,392)" in damage(raw)
    assert len(prepare(raw, 2).item) == 4


def test_missing_files_are_unavailable_and_say_where_to_get_them(
    tmp_path: Path, folder: Path
) -> None:
    (folder / OWNERS).unlink()
    with pytest.raises(UnavailableError, match=f"has no {OWNERS}; .*cseweb.ucsd.edu"):
        read_raw(folder)
    with pytest.raises(UnavailableError, match="is not a folder"):
        read_raw(tmp_path / "nowhere")


def test_files_of_different_data_sets_are_refused(folder: Path) -> None:
    records = (folder / FEATURES).read_bytes()
    others = [b"0999999%d" % k + records[k * RECORD + 8 : (k + 1) * RECORD] for k in range(5)]
    (folder / FEATURES).write_bytes(b"".join(others))
    with pytest.raises(DataFileError, match="no appreciated item has features"):
        read_raw(folder)


def test_more_components_than_items_are_refused(folder: Path) -> None:
    with pytest.raises(DataFileError, match="5 items with features are too few for 6 components"):
        prepare(read_raw(folder), 6)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Prepared]:
    folder = tmp_path_factory.mktemp("surrogate")
    write_raw(generate(700, 150, 3000, seed=5), folder)
    return folder, prepared_surrogate(700, 150, 3000, 5, 4)


def test_a_written_surrogate_reads_back_as_it_was_made(written: tuple[Path, Prepared]) -> None:
    folder, made = written
    raw = read_raw(folder)
    read = prepare(raw, 4)
    assert raw.findings.damaged(folder) is None
    assert raw.facts["items_without_features"] == 1
    assert (read.item == made.item).all()
    assert (read.counts == made.counts).all()
    np.testing.assert_allclose(read.embedding, made.embedding, atol=5e-3)
    np.testing.assert_allclose(read.explained, made.explained, rtol=1e-3)


def test_a_written_surrogate_stays_called_one(written: tuple[Path, Prepared]) -> None:
    folder, made = written
    assert made.label == "surrogate (items=700, users=150, appreciates=3,000, seed=5)"
    assert prepare(read_raw(folder), 2).label == made.label


def test_a_written_surrogate_has_the_published_form(written: tuple[Path, Prepared]) -> None:
    folder, _ = written
    first = gzip.decompress((folder / APPRECIATES).read_bytes()).splitlines()
    assert len(first) == 3000
    assert all(len(line.split(b" ")[1]) == 8 for line in first)
    seconds = [int(line.split(b" ")[2]) for line in first]
    assert seconds == sorted(seconds)
    assert (folder / FEATURES).stat().st_size == 699 * RECORD
    owners = gzip.decompress((folder / OWNERS).read_bytes()).splitlines()
    assert len(owners) > 700
