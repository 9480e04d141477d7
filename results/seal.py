"""Writes into each run.json what its trials.parquet holds, and the SHA-256 of the files beside it.

Runs of other suites in the same store are left out.

    python results/seal.py [FOLDER...]

`results/regenerate` and `results/remake.py` call it last. ``ope-bench verify FOLDER`` compares.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

RESULTS = Path(__file__).resolve().parent
SEALED = ("leaderboard.md", "trials.parquet")


def seal(folder: Path) -> None:
    """Write counts and digests of a folder's files."""
    path = folder / "run.json"
    facts = json.loads(path.read_text(encoding="utf-8"))
    trials = pq.read_table(folder / "trials.parquet", columns=["status", "suite"])
    status, suites = Counter(trials["status"].to_pylist()), set(trials["suite"].to_pylist())
    facts["runs"] = [run for run in facts["runs"] if run["suite"] in suites]
    facts["records"] = facts["trials"] = status.total()
    facts["status"] = dict(sorted(status.items()))
    facts["sha256"] = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in SEALED
        if (folder / name).is_file()
    }
    path.write_text(json.dumps(facts, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> int:
    """Seal the folders that are named, or all."""
    named = [Path(one) for one in sys.argv[1:]]
    every = (path.parent for path in RESULTS.rglob("trials.parquet"))
    for folder in named or every:
        if "submissions" not in folder.parts:
            seal(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
