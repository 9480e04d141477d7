"""A store that cannot be opened is refused in one line; one writer, any number of readers."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from ope_bench.base.errors import StoreError
from ope_bench.store import Store
from ope_bench.store import file as file_module
from ope_bench.trials.record import TrialRecord
from support.stored_records import begin, filled, record, trial


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ope-bench.sqlite"


def one_line(path: Path, *, write: bool) -> str:
    with pytest.raises(StoreError) as caught:
        Store.open(path, write=write)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_missing_store_is_not_created_by_reading(path: Path) -> None:
    assert "there is no store" in one_line(path, write=False)
    assert "does not exist" in one_line(path.parent / "missing" / "x.sqlite", write=True)
    assert not list(path.parent.iterdir())


@pytest.mark.parametrize("write", [True, False])
def test_a_foreign_file_is_refused_and_left_alone(write: bool, path: Path) -> None:
    path.write_text("a diary, not a data base, and a rather long one at that\n" * 20)
    before = path.read_bytes()
    assert "not an ope-bench store" in one_line(path, write=write)
    assert path.read_bytes() == before
    path.unlink()
    with sqlite3.connect(path) as foreign:
        foreign.execute("CREATE TABLE diary (day TEXT)")
    foreign.close()
    before = path.read_bytes()
    assert "not an ope-bench store" in one_line(path, write=write)
    assert path.read_bytes() == before
    assert "is a folder" in one_line(path.parent, write=write)


@pytest.mark.parametrize("write", [True, False])
def test_a_newer_store_is_refused(write: bool, path: Path) -> None:
    filled(path, record())
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert "newer ope-bench (schema 99" in one_line(path, write=write)


def test_a_file_from_a_run_killed_at_its_birth_becomes_a_store(path: Path) -> None:
    path.touch()
    assert "not an ope-bench store" in one_line(path, write=False)
    filled(path, record())
    with Store.open(path) as store:
        assert len(list(store.records())) == 1


def test_migrations_run_once_in_order_and_all_or_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(path, record())
    more = (
        *file_module.MIGRATIONS,
        ("a note a run", ("ALTER TABLE run ADD COLUMN note TEXT", "INVALID")),
    )
    monkeypatch.setattr(file_module, "MIGRATIONS", more)
    monkeypatch.setattr(file_module.migrate, "__defaults__", (more,))
    one_line(path, write=True)
    connection = sqlite3.connect(path)
    columns = [row[1] for row in connection.execute("PRAGMA table_info(run)")]
    applied = connection.execute("SELECT number, name FROM migration").fetchall()
    connection.close()
    assert "note" not in columns
    assert [number for number, _ in applied] == list(range(1, len(more)))
    repaired = (*more[:-1], ("a note a run", ("ALTER TABLE run ADD COLUMN note TEXT",)))
    monkeypatch.setattr(file_module, "MIGRATIONS", repaired)
    monkeypatch.setattr(file_module.migrate, "__defaults__", (repaired,))
    with Store.open(path, write=True) as store:
        assert len(list(store.records())) == 1


def test_a_second_writer_is_refused_and_readers_are_not(path: Path) -> None:
    script = (
        "import sys; from ope_bench.store import Store\n"
        "with Store.open(sys.argv[1], write=True): print('open', flush=True); sys.stdin.read()"
    )
    filled(path, record())
    command = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"open\n"
        told = one_line(path, write=True)
        assert f"in use by another run (process {writer.pid} since " in told
        with Store.open(path) as store:
            assert len(list(store.records())) == 1
        writer.kill()
    with Store.open(path, write=True):
        one_line(path, write=True)
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name]


def test_a_reader_sees_what_a_running_writer_has_stored(path: Path) -> None:
    with Store.open(path, write=True) as writer:
        run = begin(writer)
        for replicate in range(3):
            writer.add(record(trial(replicate)), run)
            with Store.open(path) as reader:
                assert len(list(reader.records())) == replicate + 1


needs_permissions = pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")


@needs_permissions
def test_a_read_only_store_is_refused_for_writing_and_can_be_read(path: Path) -> None:
    filled(path, record())
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        assert "cannot be written" in one_line(path, write=True)
        with Store.open(path) as store:
            assert len(list(store.records())) == 1
    finally:
        path.parent.chmod(0o755)
        assert "read-only" in one_line(path, write=True)


def test_a_full_disk_gives_one_line_and_loses_nothing(path: Path) -> None:
    with Store.open(path, write=True) as store:
        run = begin(store)
        (pages,) = store._db.execute("PRAGMA page_count").fetchone()
        store._db.execute(f"PRAGMA max_page_count = {pages + 4}")
        stored = 0
        told = ""
        while not told:
            try:
                store.add(record(trial(stored)), run)
                stored += 1
            except StoreError as exc:
                told = str(exc)
        assert "the disk is full; what was stored before is safe" in told
        assert stored > 0
    with Store.open(path) as store:
        assert len(list(store.records())) == stored


def older_schema(path: Path, schema: int, *records: TrialRecord) -> None:
    """A store as an earlier version made it."""
    filled(path, *records)
    connection = sqlite3.connect(path)
    for number, tables in file_module.ADDED.items():
        for table, columns in tables.items() if number > schema else ():
            for name in columns:
                connection.execute(f"ALTER TABLE {table} DROP COLUMN {name}")
    connection.execute("DELETE FROM migration WHERE number > ?", (schema,))
    connection.execute(f"PRAGMA user_version = {schema}")
    connection.commit()
    connection.close()


@pytest.mark.parametrize("schema", [1, 2, 6])
def test_a_store_of_an_older_schema_is_read_and_merged_as_it_is(path: Path, schema: int) -> None:
    older_schema(path, schema, record())
    before = path.read_bytes()
    with Store.open(path) as store:
        assert [one.key for one in store.records()] == [record().key]
        assert store.find(record().key[:10]).estimate == record().estimate
        with Store.open(path.with_name("new.sqlite"), write=True) as new:
            assert new.merge(store) == 1
            assert [(one.note, one.interval) for one in new.records()] == [(None, None)]
            assert new.conflicts(store) == []
    assert path.read_bytes() == before
    with Store.open(path, write=True) as store:
        assert [one.key for one in store.records()] == [record().key]
        assert store.info().schema == len(file_module.MIGRATIONS)


def test_a_second_writer_is_refused_behind_a_link_too(path: Path) -> None:
    filled(path, record())
    link = path.with_name("link.sqlite")
    link.symlink_to(path)
    dangling = path.with_name("dangling.sqlite")
    dangling.symlink_to(path.with_name("new.sqlite"))
    with Store.open(link, write=True):
        assert "in use by another run" in one_line(path, write=True)
    with Store.open(dangling, write=True):
        assert "in use by another run" in one_line(path.with_name("new.sqlite"), write=True)


@pytest.mark.parametrize("replaced", [True, False])
def test_a_store_that_vanishes_during_a_run_is_told_at_its_end(path: Path, replaced: bool) -> None:
    with Store.open(path, write=True) as store:
        run = begin(store)
        store.add(record(), run)
        for file in path.parent.glob(f"{path.name}*"):
            file.unlink()
        if replaced:
            path.touch()
        with pytest.raises(StoreError, match="was deleted or replaced during the run"):
            store.end_run(run, 0)


def test_a_path_that_is_not_utf8_is_refused_in_one_line(path: Path) -> None:
    odd = Path(os.fsdecode(bytes(path.parent) + b"/a\xff.sqlite"))
    for write in (True, False):
        assert "the path is not UTF-8" in one_line(odd, write=write)
    assert not list(path.parent.iterdir())


def test_a_copy_of_the_file_alone_is_a_store_from_the_beginning(path: Path) -> None:
    with Store.open(path, write=True) as store:
        begin(store)
        copy = path.with_name("copy.sqlite")
        copy.write_bytes(path.read_bytes())
        with Store.open(copy) as copied:
            assert copied.info().records == 0
