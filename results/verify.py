"""Verifies every committed folder of results, and every submission.

    python results/verify.py [--share .02] [--jobs 1] [FOLDER...]

Calls ``ope-bench verify`` for each, smallest first, and exits with 1 if one does not agree. A
submission whose package is not installed is named and left out. Without FOLDER, all; that runs
hours, of which ``--share 0`` needs minutes: it compares files and runs no trial.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

RESULTS = Path(__file__).resolve().parent


def folders() -> list[Path]:
    """Return all folders of results with trials, smallest first."""
    found = [path.parent for path in RESULTS.rglob("trials.parquet")]
    return sorted(found, key=lambda folder: (folder / "trials.parquet").stat().st_size)


def main() -> int:
    """Read the arguments and verify."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--share", default="0.02", help="part of the trials that run again")
    parser.add_argument("--jobs", default="1", help="trials that run at once")
    given = parser.parse_args()
    codes = {}
    for folder in given.folders or folders():
        command = [sys.executable, "-m", "ope_bench", "verify", str(folder)]
        options = ["--share", given.share, "--jobs", given.jobs]
        done = subprocess.run(  # noqa: S603  our own command
            [*command, *options], check=False, stderr=subprocess.PIPE, text=True
        )
        if done.returncode:
            sys.stderr.write(done.stderr)
        codes[folder] = done.returncode
        if done.returncode == 2:
            sys.stdout.write(f"{folder}: not verified\n")
    agreed = sum(code == 0 for code in codes.values())
    sys.stdout.write(f"{agreed} of {len(codes)} folders agree\n")
    return int(1 in codes.values())


if __name__ == "__main__":
    sys.exit(main())
