"""Transforms of importance weights on ten arms of which the best is rarely logged.

    python results/performance/scripts/rare_arms.py [--logs 2000] [--rows 1000] \\
        [--write results/performance]

Root mean square errors over random logs of mild, heavy and rare overlap, rewards of 0 and 1,
beside our first ones; with --write they become ``rare-arms.md``, and the comparisons with
self-normalized weights ``rare-arms.json``, from which the page of claims is made.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[2]))
from judging.claims.errors import ratio
from sections import put, table

from ope_bench import Estimator, FloatArray, PositivityViolation
from ope_estimators.actions.weighting.beta_ipw import BetaIPW
from ope_estimators.actions.weighting.el_ipw import ELIPW
from ope_estimators.actions.weighting.es_ipw import ESIPW
from ope_estimators.actions.weighting.ipw import IPW
from ope_estimators.actions.weighting.ipws import IPWS
from ope_estimators.actions.weighting.ix_ipw import IXIPW
from ope_estimators.actions.weighting.ls_ipw import LSIPW
from ope_estimators.actions.weighting.sg_ipw import SGIPW
from support import tiny_worlds as tiny
from support.rare_arm import OVERLAPS, RareArm

RIVAL = "IPWS"
ESTIMATORS: dict[str, Estimator] = {
    "IPW": IPW(),
    RIVAL: IPWS(),
    "sg-ipw": SGIPW(),
    "sg-ipw normalized": SGIPW(normalize=True),
    "ix-ipw normalized": IXIPW(normalize=True),
    "es-ipw ratio normalized": ESIPW(form="ratio", normalize=True),
    "clipped and normalized": IPW(clip="root-n", normalize=True),
    "ls-ipw": LSIPW(),
    "beta-ipw": BetaIPW(),
    "el-ipw, Cressie-Read": ELIPW(),
}
JUDGED = tuple(name for name in ESTIMATORS if name.endswith("normalized"))
FIRST = {
    "IPW": (".036", ".122", ".380"),
    RIVAL: (".026", ".083", ".209"),
    "sg-ipw": (".043", ".129", ".253"),
    "sg-ipw normalized": (".027", ".076", ".159"),
}
WORDS = """RMSE over {logs:,} logs of {rows:,} rows, against the value; in parentheses what our
first measurement gave for the same overlaps, with policies not on record. Here the logging policy
plays the best of ten arms with probability .1, .01 or .001, the target policy with .5; the other
arms share the rest. Where an estimator warns that it has no answer, the answer that it withholds
counts."""


def errors(overlap: str, rows: int, logs: int) -> dict[str, FloatArray]:
    """Errors of every estimator on the same logs: (logs,)."""
    world = RareArm(overlap)
    rng = np.random.default_rng(list(OVERLAPS).index(overlap))
    found: dict[str, list[float]] = {name: [] for name in ESTIMATORS}
    for _ in range(logs):
        problem = world.problem(rows, rng)
        for name, estimator in ESTIMATORS.items():
            found[name].append(_value(estimator, problem) - world.value)
    return {name: np.array(some) for name, some in found.items()}


def _value(estimator: Estimator, problem: tiny.Problem) -> float:
    try:
        return tiny.run(estimator, problem).value
    except PositivityViolation as exc:
        return math.nan if exc.fallback is None else exc.fallback


def lines(found: dict[str, dict[str, FloatArray]]) -> Iterator[list[str]]:
    """A row for each estimator: RMSE by overlap."""
    for name in ESTIMATORS:
        cells = []
        for position, overlap in enumerate(OVERLAPS):
            rmse = float(np.sqrt(np.square(found[overlap][name]).mean()))
            told = f" ({FIRST[name][position]})" if name in FIRST else ""
            cells.append(f"{rmse:.3f}{told}")
        yield [name, *cells]


def main() -> int:
    """Simulate, and print or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    parser.add_argument("--logs", type=int, default=2_000)
    parser.add_argument("--rows", type=int, default=1_000)
    given = parser.parse_args()
    found = {overlap: errors(overlap, given.rows, given.logs) for overlap in OVERLAPS}
    body = f"{WORDS.format(logs=given.logs, rows=given.rows)}\n\n"
    body += table(["estimator", *OVERLAPS], lines(found))
    if given.write is None:
        sys.stdout.write(f"{body}\n")
        return 0
    compared = [
        asdict(ratio(f"{name} / {RIVAL}", f"overlap = {overlap}", some[name], some[RIVAL]))
        for name in JUDGED
        for overlap, some in found.items()
    ]
    put(given.write / "rare-arms.md", "Ten arms, the best one rarely logged", "Errors", body)
    text = json.dumps({"logs": given.logs, "rows": given.rows, "lines": compared}, indent=1)
    (given.write / "rare-arms.json").write_text(f"{text}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
