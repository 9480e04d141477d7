"""What a large store costs its readers: boards, exports, a page, a comparison; time and memory.

    python tests/benchmarks/stored_trials.py [--peer CHECKOUT] [--shape wide] --output FILE

Stores of invented trials are written, a trial's outcome being a real one whose estimate was
changed: its columns are as long as they are in use. In one shape twenty estimators ran on fifty
data sets of each of many settings, in the other two estimators on all data sets of one setting;
one trial in fifty failed, another withheld its estimate. Every reader is then a process of its
own, as a user starts it, on one thread. Rows of an earlier call stay in the page until they are
measured again. With ``--peer`` the readers of another checkout take turns with this one's, and
what both print or write is compared, byte by byte.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sections import table
from statement import Page, facts_now, megabytes, resumed
from trial_cost import one_thread

HERE = Path(__file__).parents[2]
MEASURES = ("rmse", "positivity", "coverage", "time", "ratio", "selection", "regret")
FAILS, WITHHOLDS = 50, 50
"""One trial in so many has an error, and one in so many is a positivity violation."""


@dataclass(frozen=True)
class Shape:
    """What the trials of a store are of.

    Parameters
    ----------
    sizes : numbers of trials.
    estimators : number of estimators.
    replicates : data sets of each setting; None for one setting that has all of them.
    """

    sizes: tuple[int, ...]
    estimators: int
    replicates: int | None

    def settings(self, n_trials: int) -> int:
        """Number of settings."""
        return n_trials // (self.estimators * self.replicates) if self.replicates else 1

    def heading(self, n_trials: int) -> str:
        """Say what a store of so many trials holds."""
        replicates = n_trials // (self.estimators * self.settings(n_trials))
        settings = f"{self.settings(n_trials):,} settings" if self.replicates else "one setting"
        return (
            f"{n_trials:,} trials: {self.estimators} estimators on {replicates:,} data sets of "
            f"{settings}"
        )


SHAPES = {
    "settings": Shape((100_000, 200_000), 20, 50),
    "wide": Shape((91_000, 200_000), 2, None),
}

COMMON = """
from ope_bench.report.page.libraries import chart_specs
from ope_bench.report.page.libraries import vega
vega(), chart_specs()
"""

INTRO = """\
# Reading large stores

Stores of invented trials; each reader is a process of its own, processor seconds (of all its
threads, start-up included) and the most memory that it held at any moment. The script and the
charts that all pages have in common are kept in the user's cache folder, as from the second page
on."""

DIFFERENCES = """\
Where bytes are not the same, a row has more than 2,000 replicates: its interval is now from fewer
resamples (bench/design/replicates-and-intervals.md)."""

Row = dict[str, Any]


def invent(path: Path, shape: Shape, n_trials: int, *, shift: float = 0.0) -> None:
    """Write a store of trials that were never run, in the form of one that was."""
    from dataclasses import replace

    import numpy as np

    from ope_bench.store import Store
    from ope_bench.suites.manifest import plan
    from ope_bench.suites.suite import adhoc
    from ope_bench.trials.status import Status
    from ope_bench.trials.trial import Workspace, run_trial

    settings = shape.settings(n_trials)
    replicates = n_trials // (shape.estimators * settings)
    worlds = [f"saito-toy[n_actions={2 + number}]" for number in range(settings)]
    methods = [f"ipw[clip={1 + number}]" for number in range(shape.estimators)]
    trials = plan(replace(adhoc(worlds, methods), replicates=replicates)).trials
    real = replace(run_trial(trials[0], Workspace()), code_digest="0123456789abcdef")
    noise = np.random.default_rng(0).standard_normal((len(trials), 2))
    with Store.open(path, write=True) as store:
        run_id = store.begin_run(suite="large", truth="expected", planned=len(trials))
        for number, (trial, (error, other)) in enumerate(zip(trials, noise, strict=True)):
            turn = trial.replicate % 50
            truth = 0.5 + 1e-3 * turn
            facts: dict[str, Any] = {
                "estimate": truth + 0.1 * float(error) + shift,
                "truth_expected": truth,
                "truth_empirical": truth + 0.01 * float(other),
                "logging_average": 0.3 + 1e-3 * turn,
                "exclusive": True,
            }
            if number % FAILS == 7:
                facts |= {"status": Status.ERROR, "estimate": None, "standard_error": None}
                facts |= {"error_type": "ValueError", "error_message": "no such value"}
            elif number % WITHHOLDS == 11:
                facts |= {"status": Status.POSITIVITY, "fallback": facts["estimate"]}
                facts |= {"estimate": None, "standard_error": None}
            store.add(replace(real, trial=trial, **facts), run_id)
        store.end_run(run_id, 0)


def readers(
    store: Path, other: Path, folder: Path
) -> Iterator[tuple[str, list[str], Path | None]]:
    """Yield the name, the arguments and the file of each reader."""
    kept = ["--store", str(store)]
    for by in MEASURES:
        yield (
            f"leaderboard --by {by}",
            ["leaderboard", "--by", by, "--format", "json", *kept],
            None,
        )
    for ending in ("csv", "jsonl", "parquet"):
        file = folder / f"trials.{ending}"
        yield f"export --to trials.{ending}", ["export", "--to", str(file), *kept], file
    file = folder / "report.html"
    yield "report -o report.html", ["report", "-o", str(file), *kept], file
    yield "compare A B", ["compare", "--format", "json", str(store), str(other)], None


def measure(code: Path, words: Sequence[str], file: Path | None, caches: Path) -> Row:
    """Run one reader of a checkout; return its cost and a digest of what it gave."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begun = time.perf_counter()
        started = subprocess.Popen(
            [sys.executable, "-m", "ope_bench", *words],
            env=environment(code, caches),
            stdout=out,
            stderr=err,
        )
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - begun
        if started.returncode != 0:
            err.seek(0)
            raise RuntimeError(f"{shlex.join(words)}:\n{err.read().decode()[-2_000:]}")
        out.seek(0)
        given = out.read() if file is None else file.read_bytes()
    return {
        "seconds": seconds,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_bytes": used.ru_maxrss * 1024,
        "bytes": len(given),
        # The page names the moment at which it was made.
        "digest": None if words[0] == "report" else hashlib.sha256(given).hexdigest(),
    }


def environment(code: Path, caches: Path) -> dict[str, str]:
    """The variables of a reader of a checkout."""
    folders = [str(code / name) for name in ("bench", "estimators", "environments")]
    path = os.pathsep.join(folders)
    return {**one_thread(), "PYTHONPATH": path, "XDG_CACHE_HOME": str(caches)}


def compared(
    stores: Sequence[tuple[str, int]],
    sides: Mapping[str, Path],
    wanted: Sequence[str],
    folder: Path,
) -> Iterator[Row]:
    """Yield a row for each store and reader; stores that the folder has already are used."""
    caches = folder / "caches"
    # As from the second page on: what all pages have in common is kept.
    subprocess.run([sys.executable, "-c", COMMON], env=environment(HERE, caches), check=True)
    for shape, size in stores:
        store, other = (folder / f"{shape}-{size}-{side}.sqlite" for side in "ab")
        for path, shift in ((store, 0.0), (other, 0.01)):
            alone = [sys.executable, __file__, "--invent", str(path), "--shift", str(shift)]
            if not path.exists():
                subprocess.run([*alone, "--shape", shape, "--trials", str(size)], check=True)
        known = list(readers(store, other, folder))
        chosen = [one for text in wanted for one in known if text in one[0]]
        for reader, words, file in chosen if wanted else known:
            found = {side: measure(code, words, file, caches) for side, code in sides.items()}
            row: Row = {"shape": shape, "trials": size, "reader": reader, **found}
            row["same"] = len({one["digest"] for one in found.values()}) == 1
            print(json.dumps(row), file=sys.stderr, flush=True)
            yield row


def name_of(row: Row) -> tuple[str, int, str]:
    """What tells a row from others."""
    return row["shape"], row["trials"], row["reader"]


def tables(report: Row) -> str:
    """The tables of one machine."""
    peer = "peer" in report["rows"][0]
    heads = ["reader", "processor, s", "wall, s", "memory, MiB"]
    if peer:
        heads += [
            "before: processor, s",
            "wall, s",
            "memory, MiB",
            "time, of before",
            "same bytes",
        ]
    parts = []
    if peer:
        parts += [f"*Before* is {report['before']}, in turns with this revision.", ""]
    if any(not row["same"] for row in report["rows"]):
        parts += [DIFFERENCES, ""]
    for shape, size in dict.fromkeys((row["shape"], row["trials"]) for row in report["rows"]):
        chosen = [row for row in report["rows"] if (row["shape"], row["trials"]) == (shape, size)]
        parts += [f"### {SHAPES[shape].heading(size)}", "", table(heads, map(line, chosen)), ""]
    return "\n".join(parts)


def line(row: Row) -> list[str]:
    """The cells of one reader."""
    cells = [f"`{row['reader']}`"]
    for side in ("ours", "peer"):
        if side in row:
            cost = row[side]
            cells += [f"{cost['cpu_seconds']:.1f}", f"{cost['seconds']:.1f}"]
            cells.append(megabytes(cost["peak_bytes"]))
    if "peer" in row:
        cells.append(f"{row['ours']['cpu_seconds'] / row['peer']['cpu_seconds']:.2f}")
        told = "yes" if row["same"] else "no"
        cells.append("-" if row["ours"]["digest"] is None else told)
    return cells


PAGE = Page(INTRO, tables)


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shape", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument(
        "--trials", type=int, nargs="+", help="of every shape, in place of its own"
    )
    parser.add_argument("--only", nargs="+", default=[], help="readers whose names contain these")
    parser.add_argument("--stores", type=Path, help="a folder that keeps the stores")
    parser.add_argument("--peer", type=Path, help="another checkout, measured in turns")
    parser.add_argument("--before", default="another revision", help="its name in the page")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--invent", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--shift", type=float, default=0.0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.invent:
        invent(given.invent, SHAPES[given.shape[0]], given.trials[0], shift=given.shift)
        return 0
    sides = {"ours": HERE} | ({"peer": given.peer.resolve()} if given.peer else {})
    words = [] if given.shape == list(SHAPES) else ["--shape", *given.shape]
    words += ["--trials", *map(str, given.trials)] if given.trials else []
    words += ["--only", *given.only] if given.only else []
    words += ["--peer", "CHECKOUT", "--before", given.before] if given.peer else []
    report: Row = {
        "command": shlex.join(["python", f"tests/benchmarks/{Path(__file__).name}", *words]),
        **facts_now(),
        "before": given.before,
        "rows": [],
    }
    with tempfile.TemporaryDirectory() as name:
        folder = given.stores or Path(name)
        stores = [
            (shape, size) for shape in given.shape for size in given.trials or SHAPES[shape].sizes
        ]
        if given.output:
            report = resumed(given.output, report)
        for row in compared(stores, sides, given.only, folder):
            others = [one for one in report["rows"] if name_of(one) != name_of(row)]
            report["rows"] = [*others, row]
            if given.output:
                PAGE.write(given.output, report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
