"""Do the tests bite? Change one place of a file, run its narrow tests, count what they notice.

    python tests/mutation/run.py [--seed WORD] [--per-file 5] [--without WORD:N ...] [--only PART]
    python tests/mutation/run.py --pinned [--only PART] [--jobs 1]
    python tests/mutation/run.py --catalogue 50 [--only PART] [--jobs 1]

Mutants are drawn by a fixed seed, so that scores can be compared: from each file of `TARGETS`, or
over all files of `CATALOGUE` together; `--without` leaves out what other draws had, so that what
is left is unseen by the tests that were written for those. Those of `PINNED` are not drawn. The
score is printed; `SCORE.md` and `CATALOGUE.md` keep it. The examples in a file's docstrings count
among its tests. A mutant that they let through and that `EQUIVALENT` names is not counted.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from mutation.mutators import Mutant, mutants_of
from mutation.pinned import PINNED
from mutation.targets import CATALOGUE, EQUIVALENT, TARGETS

ROOT = Path(__file__).parents[2]
SOURCES = ("bench", "estimators", "environments")
SECONDS = 60.0
TIMES = 5.0

# Every run is a fork of a process that has imported what takes longest.
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["scipy.stats", "sklearn.ensemble", "torch"])


@dataclass(frozen=True)
class Outcome:
    """A mutant and what became of it."""

    path: str
    mutant: Mutant
    killed: bool

    @property
    def reason(self) -> str:
        """Why no test can notice it; empty if one could."""
        line = (ROOT / self.path).read_text(encoding="utf-8").splitlines()[self.mutant.line - 1]
        for (path, part, change), reason in EQUIVALENT.items():
            if (path, change) == (self.path, self.mutant.change) and part in line:
                return reason
        return ""


def drawn(
    path: str, most: int, seed: str = "", *, without: Iterable[tuple[str, int]] = ()
) -> list[Mutant]:
    """Mutants of a file, drawn by a seed of its own, less those of other draws."""
    every = mutants_of((ROOT / path).read_text(encoding="utf-8"))
    seen = {one for other, count in without for one in drawn(path, count, other)}
    chosen = random.Random(seed + path).sample(every, min(most, len(every)))
    unseen = [one for one in chosen if one not in seen]
    return sorted(unseen, key=lambda one: (one.line, one.change))


def pinned() -> dict[str, list[Mutant]]:
    """Mutants of `PINNED`, by file."""
    found: dict[str, list[Mutant]] = {}
    for one in PINNED:
        source = (ROOT / one.path).read_text(encoding="utf-8")
        if source.count(one.before) != 1:
            msg = f"{one.path} does not have {one.before!r} once"
            raise ValueError(msg)
        line = source[: source.index(one.before)].count("\n") + 1
        change = " ".join(f"{one.before} -> {one.after}".split())
        changed = partial(source.replace, one.before, one.after)
        found.setdefault(one.path, []).append(Mutant(line, change, changed))
    return found


def drawn_of_all(paths: Iterable[str], most: int) -> dict[str, list[Mutant]]:
    """Mutants of all files together, drawn by one seed; by file, those that have any."""
    every = [
        (path, mutant)
        for path in paths
        for mutant in mutants_of((ROOT / path).read_text(encoding="utf-8"))
    ]
    chosen = random.Random("catalogue").sample(range(len(every)), min(most, len(every)))
    found: dict[str, list[Mutant]] = {}
    for path, mutant in (every[index] for index in sorted(chosen)):
        found.setdefault(path, []).append(mutant)
    return found


def is_killed(
    copy: Path, path: str, source: str, tests: Sequence[str], limit: float | None = None
) -> bool:
    """Whether the tests fail with this source; a run beyond the limit counts as noticed."""
    (copy / path).write_text(source, encoding="utf-8")
    process = _SERVER.Process(target=_run_tests, args=(copy, tests))
    process.start()
    process.join(limit)
    if process.exitcode is None:
        process.kill()
        process.join()
        return True
    if process.exitcode > pytest.ExitCode.INTERRUPTED:
        msg = f"pytest ends with {process.exitcode} on {path}"
        raise RuntimeError(msg)
    return process.exitcode != pytest.ExitCode.OK


def _run_tests(copy: Path, tests: Sequence[str]) -> None:
    os.chdir(copy)
    searched = [str(copy / name) for name in SOURCES]
    sys.path[:0] = searched
    os.environ |= {"PYTHONPATH": os.pathsep.join(searched), "PYTHONDONTWRITEBYTECODE": "mutants"}
    sys.dont_write_bytecode = True
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    sys.exit(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "--no-header", *tests]))


def outcomes_of(tests: Sequence[str], mutants: Mapping[str, Sequence[Mutant]]) -> list[Outcome]:
    """Run narrow tests against the mutants of their files, in a copy of the repository."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "copy"
        ignore = shutil.ignore_patterns(".git", "results", "__pycache__", ".*_cache")
        shutil.copytree(ROOT, copy, ignore=ignore)
        (copy / "results").symlink_to(ROOT / "results")  # large, and tests only read there
        found: list[Outcome] = []
        for path, some in mutants.items():
            source = (copy / path).read_text(encoding="utf-8")
            own = (path, *tests) if ">>>" in source else tests
            began = time.monotonic()
            if is_killed(copy, path, source, own):
                msg = f"the tests of {path} fail without a change"
                raise RuntimeError(msg)
            # A busy machine makes all runs slow; only one that is much slower has no end.
            limit = SECONDS + TIMES * (time.monotonic() - began)
            for mutant in some:
                killed = is_killed(copy, path, mutant.source, own, limit)
                found.append(Outcome(path, mutant, killed))
                word = "killed  " if found[-1].killed else "SURVIVED"
                print(word, path, mutant.line, mutant.change, flush=True)
            (copy / path).write_text(source, encoding="utf-8")
        return found


def table(outcomes: Sequence[Outcome]) -> str:
    """The score by file, then what survived."""
    lines = ["| file | killed | of | equivalent |", "| --- | ---: | ---: | ---: |"]
    killed = counted = 0
    for path in dict.fromkeys(one.path for one in outcomes):
        own = [one for one in outcomes if one.path == path]
        open_ones = [one for one in own if one.killed or not one.reason]
        dead = sum(one.killed for one in open_ones)
        killed, counted = killed + dead, counted + len(open_ones)
        lines.append(f"| {path} | {dead} | {len(open_ones)} | {len(own) - len(open_ones)} |")
    share = killed / counted if counted else 1.0
    lines.append(f"| all: {share:.0%} | {killed} | {counted} | {len(outcomes) - counted} |")
    for title, wanted in (("Survived", False), ("Equivalent", True)):
        some = [one for one in outcomes if not one.killed and bool(one.reason) is wanted]
        lines += ["", f"## {title}", ""]
        for one in some:
            said = f": {one.reason}" if one.reason else ""
            lines.append(f"- {one.path}:{one.mutant.line} `{one.mutant.change}`{said}")
        if not some:
            lines.append("None.")
    return "\n".join(lines) + "\n"


def _draw(text: str) -> tuple[str, int]:
    seed, _, count = text.rpartition(":")
    return seed, int(count)


def main() -> None:
    """Parse the command line, run, print the score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", default="", help="another draw")
    parser.add_argument("--per-file", type=int, default=5)
    parser.add_argument("--without", nargs="*", type=_draw, default=[], help="draws to leave out")
    parser.add_argument("--pinned", action="store_true", help="the survivors of an audit")
    parser.add_argument("--catalogue", type=int, metavar="N", help="N changes of all its files")
    parser.add_argument("--only", default="", help="part of the path of files")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    targets = CATALOGUE if asked.catalogue else TARGETS
    paths = [path for path in targets if asked.only in path]
    if asked.catalogue:
        mutants = drawn_of_all(targets, asked.catalogue)
    elif asked.pinned:
        mutants = pinned()
    else:
        mutants = {
            path: drawn(path, asked.per_file, asked.seed, without=asked.without) for path in paths
        }
    groups: dict[tuple[str, ...], dict[str, list[Mutant]]] = {}
    for path, some in mutants.items():
        if asked.only in path:
            groups.setdefault(targets[path], {})[path] = some
    with ThreadPoolExecutor(asked.jobs) as pool:
        parts = pool.map(outcomes_of, groups, groups.values())
        print(table([one for part in parts for one in part]))


if __name__ == "__main__":
    main()
