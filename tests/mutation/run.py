"""Do the tests bite? Change one place of a file, run its narrow tests, count what they notice.

    python tests/mutation/run.py [--per-file 8] [--only PART] [--jobs 1]

Mutants are drawn by a fixed seed, so that scores can be compared; `SCORE.md` is written beside
this file. A mutant that its narrow tests let through and that `EQUIVALENT` names is not counted.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from mutation.mutators import Mutant, mutants_of
from mutation.targets import EQUIVALENT, TARGETS

ROOT = Path(__file__).parents[2]
SOURCES = ("bench", "estimators", "environments")
SECONDS = 180.0


@dataclass(frozen=True)
class Outcome:
    """A mutant and what became of it."""

    path: str
    mutant: Mutant
    killed: bool

    @property
    def reason(self) -> str:
        """Why no test can notice it; empty if one could."""
        return EQUIVALENT.get((self.path, self.mutant.change), "")


def drawn(path: str, most: int) -> list[Mutant]:
    """Mutants of a file, drawn by a seed of its own."""
    every = mutants_of((ROOT / path).read_text(encoding="utf-8"))
    chosen = random.Random(path).sample(every, min(most, len(every)))
    return sorted(chosen, key=lambda one: (one.line, one.change))


def is_killed(copy: Path, path: str, source: str, tests: Sequence[str]) -> bool:
    """Whether the tests fail with this source; a run without end counts as noticed."""
    (copy / path).write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header"]
    searched = os.pathsep.join(str(copy / name) for name in SOURCES)
    environment = {**os.environ, "PYTHONPATH": searched, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [*command, *tests],
            cwd=copy,
            env=environment,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    if done.returncode not in (0, 1, 2):
        raise RuntimeError(done.stdout.decode(errors="replace"))
    return done.returncode != 0


def outcomes_of(path: str, tests: Sequence[str], most: int) -> list[Outcome]:
    """Run the narrow tests against mutants of one file, in a copy of the repository."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "copy"
        ignore = shutil.ignore_patterns(".git", "results", "__pycache__", ".*_cache")
        shutil.copytree(ROOT, copy, ignore=ignore)
        source = (copy / path).read_text(encoding="utf-8")
        if is_killed(copy, path, source, tests):
            msg = f"the tests of {path} fail without a change"
            raise RuntimeError(msg)
        found = []
        for mutant in drawn(path, most):
            found.append(Outcome(path, mutant, is_killed(copy, path, mutant.source, tests)))
            print("killed  " if found[-1].killed else "SURVIVED", path, mutant.line, mutant.change)
            sys.stdout.flush()
        return found


def table(outcomes: Sequence[Outcome]) -> str:
    """The score by file, then what survived."""
    lines = [
        "# Mutation score",
        "",
        "Made by `python tests/mutation/run.py`: one-place changes, drawn by a fixed seed,",
        "against the tests that `targets.py` names for the file. Equivalent ones are not counted.",
        "",
        "| file | killed | of | equivalent |",
        "| --- | ---: | ---: | ---: |",
    ]
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


def main() -> None:
    """Parse the command line, run, write the score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--per-file", type=int, default=8)
    parser.add_argument("--only", default="", help="part of the path of files")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    chosen = {path: tests for path, tests in TARGETS.items() if asked.only in path}
    with ThreadPoolExecutor(asked.jobs) as pool:
        parts = pool.map(lambda path: outcomes_of(path, chosen[path], asked.per_file), chosen)
        text = table([one for part in parts for one in part])
    if not asked.only:
        (Path(__file__).parent / "SCORE.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
