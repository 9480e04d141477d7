"""Damage: what SQLite does not notice, `check` does; nothing ends in a traceback."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from pathlib import Path

import pytest

from ope_bench.base import exit_codes
from ope_bench.base.errors import StoreError
from ope_bench.cli.app import invoke
from ope_bench.store import Store
from ope_bench.store.file import COVERED, checksum
from ope_bench.store.maintenance import check
from ope_bench.store.reader import StoreCheck
from ope_bench.trials.status import Status
from support.stored_records import begin, filled, record, trial

MANY = [
    record(trial(k), estimate=k / 7, diagnostics={"a": k, "ü": "wörd"}, fit_seconds=-0.0)
    for k in range(40)
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "s.sqlite"
    filled(found, *MANY, record(trial(41), Status.ERROR, estimate=None, error_message="no"))
    return found


def damage(path: Path) -> tuple[str, ...]:
    with Store.open(path) as store:
        return store.check().damage


def test_a_store_as_it_was_written_is_sound(path: Path) -> None:
    with Store.open(path, write=True) as store:
        store.add(record(trial(50), fit_seconds=1e300), begin(store), timeout=3, memory=10**12)
    with Store.open(path) as store:
        found = store.check()
    assert (found.records, found.unchecked, found.damage) == (42, 0, ())
    with Store.open(path.with_name("other.sqlite"), write=True) as other:
        filled(path.with_name("first.sqlite"), record(trial(99)))
        for name in ("first.sqlite", path.name):
            with Store.open(path.with_name(name)) as store:
                other.merge(store)
        # Numbers of specs differ between stores, what they stand for does not.
        assert other.check().damage == ()


@pytest.mark.parametrize("column", COVERED)
def test_every_column_is_covered(column: str, path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        (before,) = db.execute(f"SELECT {column} FROM record WHERE id = 7").fetchone()
        # Another value of the same type: the next one, or some other text.
        if isinstance(before, str) or column in ("error_type", "error_message", "traceback"):
            value: object = f"{before}x"
        else:
            value = (before or 0) + 1
        db.execute("PRAGMA foreign_keys = OFF")
        try:
            db.execute(f"UPDATE record SET {column} = ? WHERE id = 7", (value,))
        except sqlite3.IntegrityError:
            db.execute(f"UPDATE record SET {column} = 'x' WHERE id = 7")
        db.commit()
    assert any("record 7" in text for text in damage(path)), damage(path)


def test_a_checksum_is_the_same_in_every_version_of_python() -> None:
    values = [f"ü{name}" for name in COVERED]
    columns = dict(zip(COVERED, values, strict=True))
    columns |= {"replicate": 1 << 40, "seed": -3, "estimate": 0.1, "note": None}
    # Written down once; a change would tell users that their stores are damaged.
    fixed = {name: value for name, value in columns.items() if name not in LATER}
    assert checksum([fixed.get(name) for name in COVERED]) == CHECKSUM


LATER = frozenset({"salt", "estimator_digest"})
"""Columns of records that were added after the checksum below was written down."""

CHECKSUM = 2_072_835_977


def test_changed_specs_and_machines_are_found(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE spec SET params = replace(params, '10', '11')")
        db.execute('UPDATE machine SET facts = \'{"cpu":"other"}\'')
        db.commit()
    found = damage(path)
    assert "the spec of 'saito-toy' differs from its digest" in found
    assert "machine 1 differs from its digest" in found


def test_a_reference_to_nothing_is_named_with_its_row(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE record SET environment = 999 WHERE id = 7")
        db.commit()
    assert "record 7 refers to no spec" in damage(path)


@pytest.mark.parametrize(("damaged", "more"), [(20, False), (21, True)])
def test_up_to_twenty_records_are_named_by_the_beginning_of_their_keys(
    damaged: int, more: bool, path: Path
) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE record SET estimate = 9 WHERE id <= ?", (damaged,))
        db.commit()
    found = damage(path)
    assert found[0] == f"record 1 (trial {MANY[0].key[:12]}) differs from its checksum"
    assert len([text for text in found if "differs" in text]) == 20
    assert ("and more" in found) is more


def test_records_without_a_checksum_are_counted(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE record SET checksum = NULL WHERE id <= 3")
        db.commit()
    with Store.open(path) as store:
        found = store.check()
    assert (found.records, found.unchecked, found.damage) == (41, 3, ())


def test_the_command_says_what_is_damaged_and_exits_with_2(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["store", "check", "--store", str(path)]) == 0
    assert "41 records, no damage" in capsys.readouterr().err
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE record SET estimate = estimate + 1e-9 WHERE id IN (3, 4)")
        db.commit()
    assert invoke(["store", "check", "--store", str(path)]) == exit_codes.USAGE
    told = capsys.readouterr().err
    assert "record 3 (trial " in told
    assert "record 4 (trial " in told
    assert "restore a copy" in told


def test_flipped_bytes_are_told_in_one_line_or_found_by_the_check(path: Path) -> None:
    sound, bits = path.read_bytes(), random.Random(0)
    with Store.open(path) as store:
        expected = [(one.key, one.answer, one.diagnostics) for one in store.records()]
    unnoticed = 0
    told: list[str] = []
    for _ in range(150):
        data = bytearray(sound)
        data[bits.randrange(len(data))] ^= 1 << bits.randrange(8)
        path.write_bytes(data)
        try:
            with Store.open(path) as store:
                found = [(one.key, one.answer, one.diagnostics) for one in store.records()]
                if found != expected:
                    unnoticed += not store.check().damage
        except StoreError as exc:
            told.append(str(exc))
    assert unnoticed == 0
    assert told
    assert not any("\n" in text for text in told)


def test_a_broken_file_is_all_that_is_said() -> None:
    class Broken:
        def execute(self, query: str) -> list[tuple[str]]:
            assert query == "PRAGMA integrity_check(20)"
            return [("row 3 missing from index",), ("wrong # of entries",)]

    found = check(Broken())  # type: ignore[arg-type]
    damage = ("row 3 missing from index", "wrong # of entries")
    assert found == StoreCheck(records=0, unchecked=0, damage=damage)


def _edit(path: Path, statement: str, *values: object) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute(statement, values)
        db.commit()


def test_a_schema_below_zero_is_damage(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _edit(path, "PRAGMA user_version = -1")
    for command in ("leaderboard", "export"):
        more = ["--to", str(path.with_suffix(".csv"))] if command == "export" else []
        assert invoke([command, "--store", str(path), *more]) == 2
        assert "its schema is -1" in capsys.readouterr().err


@pytest.mark.parametrize("stored", ["[" * 50_000, 0, "0", "[]", '{"a":', None, b"\xff"])
@pytest.mark.parametrize("column", ["spec.params", "record.diagnostics", "machine.facts"])
def test_stored_json_of_another_form_is_told_in_one_line(
    column: str, stored: object, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, name = column.split(".")
    try:
        _edit(path, f"UPDATE {table} SET {name} = ?", stored)
    except sqlite3.IntegrityError:
        return  # SQLite itself refuses that.
    for command in ("leaderboard", "show", "export"):
        more = {"export": ["--to", str(path.with_suffix(".csv"))], "show": [MANY[0].key[:12]]}
        code = invoke([command, *more.get(command, []), "--store", str(path)])
        told = capsys.readouterr().err
        assert "Traceback" not in told, (command, told)
        assert code in (0, 2), (command, code, told)


def test_a_board_of_a_damaged_file_is_refused(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        (name,) = db.execute(
            "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'record'"
        ).fetchone()
        # An index that lacks rows: readers that go by it leave them out.
        db.execute("PRAGMA writable_schema = ON")
        db.execute("DELETE FROM sqlite_master WHERE name = ?", (name,))
        db.commit()
    assert invoke(["leaderboard", "--store", str(path)]) == 2
    assert "store check" in capsys.readouterr().err


def test_readers_may_not_write(path: Path) -> None:
    with Store.open(path) as store, pytest.raises(sqlite3.OperationalError, match="readonly"):
        store._db.execute("DELETE FROM record")
