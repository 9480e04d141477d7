"""``ope-bench data behance``: what it writes, what it prints, and what it leaves when it fails."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from ope_bench.base.errors import UnavailableError, UsageError
from ope_environments.behance.cli import behance
from ope_environments.behance.prepared import load
from support import behance_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "raw").mkdir()
    written: Path = behance_files.write(tmp_path / "raw")
    return written


def test_it_writes_one_file_and_says_what_it_found(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert behance(folder, components=2, output="json") == 0
    said = json.loads(capfd.readouterr().out)
    assert said["counts"]["appreciates"] == 9
    assert said["prepared"]["items"] == 5
    assert said["prepared"]["fingerprint"] == load(str(folder / "behance.npz")).fingerprint
    assert any("01398047" in str(one["places"]) for one in said["findings"])


def test_text_names_the_next_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    behance(folder, to=folder.parent / "x.npz", components=2)
    said = capsys.readouterr().out
    assert "5 items, 2 components" in said
    assert f"--env 'behance[prepared={folder.parent / 'x.npz'}]'" in said


def test_damage_stops_it_unless_damaged_rows_may_be_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    features = folder / "Behance_Image_Features.b"
    features.write_bytes(features.read_bytes()[:-1])
    with pytest.raises(UsageError, match=r"record 5 .*--skip-damaged"):
        behance(folder, components=2)
    assert "DAMAGED Behance_Image_Features.b, record 5" in capsys.readouterr().out
    assert not (folder / "behance.npz").exists()
    behance(folder, components=2, skip_damaged=True)
    assert len(load(str(folder / "behance.npz")).item) == 4


def test_checking_writes_nothing(folder: Path) -> None:
    before = sorted(folder.iterdir())
    assert behance(folder, check=True) == 0
    assert sorted(folder.iterdir()) == before


def test_missing_folders_are_told_before_any_work(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the folder"):
        behance(folder, to=tmp_path / "nowhere" / "x.npz")
    with pytest.raises(UnavailableError, match="is not a folder"):
        behance(tmp_path / "nowhere")


def test_it_is_a_verb_of_the_command_line_with_one_line_for_a_mistake(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ope_bench.cli import store
    from ope_bench.cli.app import invoke

    point = EntryPoint("behance", "ope_environments.behance.cli:behance", store.GROUP)
    monkeypatch.setattr(store, "_points", lambda: [point])
    arguments = ["data", "behance", "--from", str(folder), "--components", "2"]
    assert invoke(arguments) == 0
    assert (folder / "behance.npz").is_file()
    (folder / "Behance_Item_to_Owners.gz").write_bytes(b"")
    capsys.readouterr()
    assert invoke(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("ope-bench: ")
    assert said.count("\n") == 1
    assert "Behance_Item_to_Owners.gz: is empty" in said


def _peak(folder: Path) -> int:
    """Peak resident memory of preparing these files in a fresh process, in bytes."""
    program = f"""
from pathlib import Path
from ope_environments.behance.preparation import prepare, read_raw
prepare(read_raw(Path({str(folder)!r})), 4)
with open("/proc/self/status") as status:
    print(next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM")))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def _many_features(folder: Path, n_records: int) -> None:
    rng = np.random.default_rng(0)
    with (folder / "Behance_Image_Features.b").open("ab") as stream:
        for record in range(n_records):
            row = rng.random(4096, dtype=np.float32)
            stream.write(b"%08d" % (3_000_000 + record) + row.tobytes())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_memory_of_preparation_does_not_grow_with_the_feature_file(
    folder: Path,
) -> None:
    (folder.parent / "larger").mkdir()
    larger = behance_files.write(folder.parent / "larger")
    _many_features(folder, 1_000)
    _many_features(larger, 5_000)
    # What the allocators keep differs by some megabytes from run to run.
    assert _peak(larger) - _peak(folder) < 26_000_000 < 4_000 * 16_392 / 2
