"""Verifies every committed folder of results, and every submission.

    results/regenerate verify [--share .02] [--most N] [--jobs 1] [FOLDER...]

Calls ``ope-bench verify`` for each, smallest first, and exits with 1 if one does not agree. A
submission whose package is not installed is named and left out. Without FOLDER, all; that runs
hours, of which ``--share 0`` needs minutes: it compares files and runs no trial, and ``--most 20``
runs at most about 20 trials of a folder. What agreed, and when, stands in results/verified.json,
from which `results/regenerate write` makes a column of results/README.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from judging.trials.rows import rows_of

from ope_bench.base.canonical import sha256
from verbs.folders import RESULTS


def folders() -> list[Path]:
    """Return all folders of results with trials, smallest first."""
    found = [path.parent for path in RESULTS.rglob("trials.parquet")]
    return sorted(found, key=lambda folder: (folder / "trials.parquet").stat().st_size)


def share_of(folder: Path, share: float, most: int | None) -> float:
    """Return the part of a folder's trials that run again."""
    rows = len(rows_of(folder, "key"))
    return min(share, most / rows) if most is not None else share


def record(folder: Path, told: dict[str, Any]) -> None:
    """Write down that a folder agreed, with the digest of the trials that did."""
    path = RESULTS / "verified.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    known[folder.resolve().relative_to(RESULTS).as_posix()] = {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "again": told["again"],
        "trials.parquet": sha256(folder / "trials.parquet"),
    }
    text = json.dumps(known, indent=1, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def main(words: Sequence[str]) -> int:
    """Read the arguments and verify."""
    parser = argparse.ArgumentParser(
        prog="results/regenerate verify", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--share", type=float, default=0.02, help="of the trials that run again")
    parser.add_argument("--most", type=int, help="trials of a folder that run again, about")
    parser.add_argument("--jobs", default="1", help="trials that run at once")
    given = parser.parse_args(words)
    codes = {}
    for folder in given.folders or folders():
        command = [sys.executable, "-m", "ope_bench", "verify", str(folder), "--format", "json"]
        options = ["--share", f"{share_of(folder, given.share, given.most)}", "--jobs", given.jobs]
        done = subprocess.run(  # noqa: S603  our own command
            [*command, *options], check=False, capture_output=True, text=True
        )
        told: dict[str, Any] = json.loads(done.stdout or "{}")
        codes[folder] = done.returncode
        if done.returncode == 0:
            if told["again"]:
                record(folder, told)
            sys.stdout.write(f"{folder}: {told['trials']:,} trials, {told['again']} run again\n")
        else:
            sys.stderr.write(done.stderr)
            for problem in told.get("problems", []):
                sys.stdout.write(f"{folder}: {problem}\n")
            sys.stdout.write(
                f"{folder}: {'DIFFERS' if done.returncode == 1 else 'not verified'}\n"
            )
        sys.stdout.flush()
    agreed = sum(code == 0 for code in codes.values())
    sys.stdout.write(f"{agreed} of {len(codes)} folders agree\n")
    return int(1 in codes.values())
