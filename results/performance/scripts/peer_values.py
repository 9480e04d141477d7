"""Values of estimators beside those of installed packages of the field.

    PEER/bin/python results/performance/scripts/peer_values.py \\
        [--write results/performance/peers.md]

Each package that is installed becomes a section: the largest distance over random logs.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))
from sections import put, table

from support.peers import LOGS, PACKAGES, distances

TITLE = "Values beside other packages'"
SAME = f"""Largest distance of the two values over {LOGS} random logs of 5 to 200 rows, with the
same weights, parameters and reward model."""
WORDS = {
    "sb-obp": f"""{SAME} Of its numbers, those of its
generators are not comparable: it standardizes rewards as `x - mean / std`; 0.5.5 on PyPI, `obp`,
is right.""",
    "vw-estimators": SAME,
    "densratio": """Largest distance of the two ratios at the logged rows of one pair of samples,
with the same kernels, width and penalty. `adapt` has KLIEP, RuLSIF and KMM, too; it needs
TensorFlow and is not compared.""",
}


def main() -> int:
    """Compare with every package that is installed, and print or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="PAGE.md")
    given = parser.parse_args()
    for package in PACKAGES:
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            sys.stderr.write(f"{package} is not installed: no comparison with it\n")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = [[name, f"{far:.1e}"] for name, far in distances(package)]
        body = f"{WORDS[package]}\n\n{table(['estimator', 'largest distance'], rows)}"
        if given.write:
            put(given.write, TITLE, f"{package} {version}", body)
        else:
            sys.stdout.write(f"## {package} {version}\n\n{body}\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
