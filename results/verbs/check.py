"""Compares the pages with what the committed trials say, and writes nothing.

    results/regenerate check

Names each file that `results/regenerate write` would change, and exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from verbs import write
from verbs.folders import RESULTS


def main(words: Sequence[str]) -> int:
    """Name the files that differ."""
    argparse.ArgumentParser(
        prog="results/regenerate check", description=(__doc__ or "").splitlines()[0]
    ).parse_args(words)
    other, plots = write.stale(write.texts())
    for path in [*other, *plots]:
        name = path.relative_to(RESULTS.parent)
        sys.stderr.write(f"{name} is not what `results/regenerate write` makes\n")
    return int(bool(other or plots))
