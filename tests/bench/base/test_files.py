"""Files written in one step: whole or as before, and nothing left beside them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ope_bench.base.errors import OpeBenchError, StoreError, UsageError
from ope_bench.base.files import atomic_write, read_text_file, temporary_folder


def test_the_old_file_is_there_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with path.open() as reader:
        with atomic_write(path, UsageError) as aside:
            aside.write_text("half")
            assert path.read_text() == "old"
            assert aside.parent == path.parent, "another file system would not do"
            aside.write_text("new")
        assert path.read_text() == "new"
        assert reader.read() == "old", "who has it open reads one of them to its end"
    assert list(tmp_path.iterdir()) == [path]


def stop_halfway(path: Path, exception: type[BaseException]) -> None:
    with atomic_write(path, UsageError) as aside:
        aside.write_text("half")
        raise exception


@pytest.mark.parametrize("exception", [ValueError, KeyboardInterrupt])
def test_an_interrupted_writer_leaves_everything_as_it_was(
    tmp_path: Path, exception: type[BaseException]
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(exception):
        stop_halfway(path, exception)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_was_never_there_does_not_appear(tmp_path: Path) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  the one just raised
        stop_halfway(tmp_path / "file", ValueError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [StoreError, UsageError])
def test_a_folder_that_is_missing_is_named_in_one_line(
    tmp_path: Path, error: type[StoreError | UsageError]
) -> None:
    path = tmp_path / "missing" / "file"
    with pytest.raises(error) as caught, atomic_write(path, error) as aside:
        aside.write_text("text")
    assert str(caught.value) == f"cannot write {path}: No such file or directory"


@pytest.mark.parametrize("path", [Path("."), Path(".."), Path("/")])
def test_a_folder_is_no_file_to_write(path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"), atomic_write(path, UsageError) as aside:
        aside.write_text("text")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_folder_that_is_read_only_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with (
        pytest.raises(UsageError, match=r"cannot write .*: Permission denied"),
        atomic_write(tmp_path / "file", UsageError) as aside,
    ):
        aside.write_text("text")


def test_temporary_files_of_killed_writers_are_removed_and_those_of_others_stay(
    tmp_path: Path,
) -> None:
    path = tmp_path / "report.html"
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        dead.wait()
    with atomic_write(path, OpeBenchError) as aside:
        name = aside.name
        aside.write_text("first")
    _, _, _, host, writer, _ = name.split(".")
    stale = tmp_path / name.replace(f".{writer}.", f".{dead.pid}.")
    kept = [
        tmp_path / name.replace(f".{writer}.", f".{os.getppid()}."),
        tmp_path / stale.name.replace(host, "another-host"),
        tmp_path / f".report.html.{host}.old",
        tmp_path / ".report.html.old",
    ]
    for file in (stale, *kept):
        file.write_text("half")
    with atomic_write(path, OpeBenchError) as aside:
        aside.write_text("whole")
    assert path.read_text() == "whole"
    assert sorted(tmp_path.iterdir()) == sorted([path, *kept])


def test_folders_of_killed_processes_are_removed_and_those_of_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        dead.wait()
    names = [f"log-{os.getppid()}-a", "log-example-a", "log-a", f"log-{10**30}-a"]
    names += [f"other-{dead.pid}-a", f"log-{dead.pid}"]
    kept = [tmp_path / name for name in names]
    for folder in (tmp_path / f"log-{dead.pid}-a", *kept):
        folder.mkdir()
        (folder / "file").write_text("rows")
    elsewhere = tmp_path / f"log-{dead.pid}-link"
    elsewhere.symlink_to(kept[0])
    with temporary_folder("log") as first, temporary_folder("log") as second:
        assert first != second
        assert first.stat().st_mode & 0o777 == 0o700
        assert sorted(tmp_path.iterdir()) == sorted([first, second, elsewhere, *kept])
    assert sorted(tmp_path.iterdir()) == sorted([elsewhere, *kept])
    assert all((folder / "file").exists() for folder in kept)


def test_two_writers_of_one_process_do_not_share_a_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with atomic_write(path, UsageError) as first:
        first.write_text("first")
        with atomic_write(path, UsageError) as second:
            second.write_text("second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_devices_pipes_and_large_files_are_refused_at_once(tmp_path: Path) -> None:
    pipe, large, latin = (tmp_path / name for name in ("pipe", "large", "latin"))
    os.mkfifo(pipe)
    large.write_bytes(b"x" * ((1 << 20) + 1))
    latin.write_bytes(b"\xff")
    for path, words in (
        (pipe, "a device or a pipe"),
        (Path("/dev/zero"), "a device or a pipe"),
        (large, "larger than 1 MiB"),
        (latin, "not text in UTF-8"),
        (tmp_path / "none", "No such file"),
        (tmp_path, "directory|device"),
    ):
        with pytest.raises(StoreError, match=words):
            read_text_file(path, 1 << 20, StoreError)
    latin.write_text("grün", encoding="utf-8")
    assert read_text_file(latin, 1 << 20, StoreError) == "grün"
