"""Accept what a verification left: recompute its figures and marks, and add its lines.

    python results/submissions/accept.py RESULT FOLDER [OUTCOME]

Runs none of the submission's code and trusts no name: RESULT may hold one file of trials, the
facts of their run, and attempts.jsonl, which may only have grown, by lines of the submission in
FOLDER. Its figures and marks must be those of the file of trials; a run that was stopped leaves
its first line alone, and that is on record, too. OUTCOME is that of the job that ran ``ope-bench
verify``: unless it is ``success``, the default, figures are taken of a refused run alone.
"""

from __future__ import annotations

import re
import shutil
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from ope_bench.base.canonical import plain
from ope_bench.base.errors import OpeBenchError
from ope_bench.gate import submission
from ope_bench.gate.verdict import alike
from ope_bench.gate.verification import Findings, Rounds, compare_files, marks_of, read_trials

NAMES = re.compile(r"attempts\.jsonl|verified-[0-9a-f]{12}\.(parquet|json)")
MOST_BYTES = 20_000_000


def refuse(reason: str) -> None:
    """End with a reason."""
    sys.exit(f"accept-submission: {reason}")


def check_files(result: Path, folder: Path) -> None:
    """Refuse files by name, kind, size and number, and those that exist already."""
    for path in sorted(result.iterdir()):
        facts = path.lstat()
        if not stat.S_ISREG(facts.st_mode):
            refuse(f"{path.name} is no plain file")
        if facts.st_size > MOST_BYTES:
            refuse(f"{path.name} is larger than 20 MB")
        if not NAMES.fullmatch(path.name):
            refuse(f"{path.name!r} does not belong there")
        if path.name != "attempts.jsonl" and (folder / path.name).exists():
            refuse(f"{path.name} exists already; a run on fresh seeds is made once")
    for ending in ("parquet", "json"):
        if len(list(result.glob(f"verified-*.{ending}"))) > 1:
            refuse(f"there is more than one {ending} file of a run")


def added_lines(result: Path, home: Path) -> list[submission.Attempt]:
    """Return the lines that a verification added; refuse a file that lost or changed others."""
    before, after = home / "attempts.jsonl", result / "attempts.jsonl"
    old = before.read_bytes() if before.exists() else b""
    if not after.exists() or not after.read_bytes().startswith(old):
        refuse("attempts.jsonl lost or changed a line")
    if len(after.read_bytes()) == len(old):
        refuse("attempts.jsonl has no new line")
    known = submission.read_attempts(home)
    return submission.read_attempts(result)[len(known) :]


def check_figures(
    attempt: submission.Attempt, result: Path, folder: Path, outcome: str
) -> list[str]:
    """Return what of an attempt's figures and marks is not that of its file of trials."""
    asked, rounds = submission.read_submission(folder), Rounds(folder.parent)
    report = folder / "trials.parquet"
    submitted = rounds.resolve_named(submission.read_facts(report).figures)
    path, found = submission.fresh_path(result, attempt), Findings()
    if not path.is_file():
        return [f"there is no {path.name}, of which the figures would be"]
    if [one.selector for one in submitted] != asked.estimators:
        return [f"{report} is not of the estimators of submission.yaml"]
    rows, trials = read_trials(path)
    compare_files(
        found, path, rows, trials, rounds.planned(submitted, attempt.salt, attempt.shard)
    )
    own = plain(rounds.figures(read_trials(report)[0], submitted))
    figures = plain(rounds.figures(rows, submitted))
    marks = marks_of(asked, own, figures)
    refused = ["refused", *marks[1:]]
    if attempt.marks == refused:
        found.problems.clear()  # Why `verify` refused it, perhaps.
    if not alike(figures, [vars(one) for one in attempt.figures or ()]):
        found.problems.append(f"the figures are not those of {path.name}")
    if attempt.marks not in ([refused] if outcome != "success" else [marks, refused]):
        words = ", ".join(attempt.marks or ())
        found.problems.append(f"its marks are '{words}', where verify ended with {outcome}")
    return found.problems


def main(arguments: Sequence[str]) -> int:
    """Check all, then copy the files and the lines."""
    if len(arguments) not in (2, 3):
        refuse("expected RESULT FOLDER [OUTCOME]")
    result, folder = map(Path, arguments[:2])
    outcome, home = (*arguments[2:], "success")[0], folder.parent
    check_files(result, folder)
    added, rounds = added_lines(result, home), Rounds(home)
    digest = submission.read_submission(folder).digest
    for one in added:
        if one.name != folder.name:
            refuse(f"attempts.jsonl has a line that is not of {folder.name}")
        _, reason = rounds.file.round_of(one.secret, one.at[:10], home)
        if reason or one.digest != digest or one.shard != rounds.file.part_of(one.secret):
            refuse(f"attempt {one.attempt}: {reason or 'another digest or shard than submitted'}")
        for problem in check_figures(one, result, folder, outcome) if one.figures else ():
            refuse(f"attempt {one.attempt}: {problem}")
    if len({one.secret for one in added}) > 1:
        refuse("attempts.jsonl has lines of more than one run")
    kept = {submission.fresh_path(result, one).stem for one in added if one.figures}
    for path in sorted(result.glob("verified-*")):
        if path.stem in kept:
            shutil.copyfile(path, folder / path.name)
    shutil.copyfile(result / "attempts.jsonl", home / "attempts.jsonl")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OpeBenchError, OSError) as exc:
        refuse(" ".join(str(exc).split()))
