"""The files of a submission, each read by one model.

The folder of a submission holds ``submission.yaml``, its author's trials with the facts of their
run, and those of its runs on fresh seeds. Beside all folders lie ``rounds.yaml`` and
``attempts.jsonl``, of which each line holds the SHA-256 of the one before.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Gt, Le, MinLen
from pydantic import FiniteFloat, StringConstraints

from ope_bench.base.canonical import plain
from ope_bench.base.errors import UsageError
from ope_bench.base.files import read_text_file
from ope_bench.contracts.data import TruthKind
from ope_bench.suites.yaml_document import SchemaOne, load_file, load_json

MOST_BYTES = 1 << 26
"""Limit of a file of facts or attempts."""

WORD = r"\A(?!.*\.py(:|\Z))[A-Za-z0-9_][A-Za-z0-9_-]*([.:][A-Za-z0-9_-]+)*\Z"
"""The form of names of suites and plugins; it admits no folder and no file with code."""

_Text = Annotated[str, MinLen(1)]
_Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
# A class in a file, whose code would run, is no id; letters of other alphabets look like ours.
_Selector = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*(:[A-Za-z0-9_-]+)?(\[[ -~]*\])?$")
]
_Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
_Date = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\d$")]
_Time = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
_Count = Annotated[int, Ge(0)]
_Word = Annotated[str, StringConstraints(pattern=WORD)]
_Share = Annotated[FiniteFloat, Ge(0), Le(1)]
_Positive = Annotated[FiniteFloat, Gt(0)]


@dataclass(frozen=True, kw_only=True)
class Submission:
    """The content of ``submission.yaml``.

    Parameters
    ----------
    distribution, version : the package; repository and commit where it is not published.
    estimators : selectors of its estimators.
    digest : of the package's code and these selectors.
    tuned : what was tuned, on what data, and how often.
    tuned_on_public_seeds : whether trials of the public seeds had a part in it.
    conflicts : of interest, or "none".
    out_of_competition : whether an author could know a secret of the round.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    schema: SchemaOne
    distribution: _Name
    version: _Text
    repository: str
    commit: str
    estimators: Annotated[list[_Selector], MinLen(1)]
    digest: _Digest
    authors: Annotated[list[_Text], MinLen(1)]
    license: _Text
    tuned: _Text
    tuned_on_public_seeds: bool
    conflicts: _Text
    out_of_competition: bool


@dataclass(frozen=True, kw_only=True)
class Figures:
    """One estimator's error over that of its track's reference.

    Parameters
    ----------
    estimator : its selector.
    id, params : what its trials are named by.
    track, reference : see `Rounds`.
    ratio, low, high : geometric mean over settings, with a 95 % interval.
    log_se : standard error of the logarithm.
    settings : how many.
    failures : share of its trials without an answer.
    """

    estimator: _Selector
    id: _Name
    params: dict[str, Any]
    track: str
    reference: str
    ratio: _Positive
    low: Annotated[FiniteFloat, Ge(0)]
    high: _Positive
    log_se: Annotated[FiniteFloat, Ge(0)]
    settings: Annotated[int, Ge(2)]
    failures: _Share


@dataclass(frozen=True, kw_only=True)
class _Place:
    arithmetic: dict[str, Any] | None = None
    cpu: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Machine(_Place):
    cluster: list[_Place] | None = None
    packages: dict[str, str | None] = field(default_factory=dict)
    plugins: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class _Run:
    __pydantic_config__: ClassVar[dict[str, Any]] = {"regex_engine": "python-re"}

    machine: _Machine
    id: _Name = "unknown"
    number: _Count = 0
    suite: _Word = "adhoc"
    truth: TruthKind = "expected"
    command: str = ""
    started: FiniteFloat = 0.0
    finished: FiniteFloat | None = None
    planned: _Count = 0
    exit_code: int | None = None
    plan: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """The facts of the runs that made a file of trials.

    Parameters
    ----------
    runs : each with its machine.
    status : number of trials of each status.
    sha256 : of the files beside it.
    figures : of a submission.
    all_of_machines : the facts of each run's machine, all of them.
    schema, store, path, bytes, machines, records, trials, suites : of the store that held them.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"regex_engine": "python-re"}

    runs: Annotated[list[_Run], MinLen(1)]
    status: dict[str, _Count]
    sha256: dict[str, _Digest] = field(default_factory=dict)
    figures: list[Figures] = field(default_factory=list)
    all_of_machines: list[dict[str, Any]] = field(default_factory=list)
    schema: Annotated[int, Ge(1)] = 1
    store: str = ""
    path: str = ""
    bytes: _Count | None = None
    machines: _Count = 0
    records: _Count = 0
    trials: _Count = 0
    suites: dict[_Word, _Count] = field(default_factory=dict)


def facts_path(trials: Path) -> Path:
    """Return the file with facts of the runs that made a file of trials."""
    return trials.with_name("run.json" if trials.stem == "trials" else f"{trials.stem}.json")


def read_facts(trials: Path) -> RunFacts:
    """Read the facts of the runs that made a file of trials.

    Raises
    ------
    UsageError : they cannot be read, or something in them is missing or of another type.
    """
    path = facts_path(trials)
    document = load_json(read_text_file(path, MOST_BYTES, UsageError), str(path))
    facts = document.validate(RunFacts)
    return replace(facts, all_of_machines=[one["machine"] for one in document.value["runs"]])


def sha256_of(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


# Rounds and their secrets, and the attempts that used them.


@dataclass(frozen=True, kw_only=True)
class SubmissionTrack:
    """A group of entries that know the same.

    Parameters
    ----------
    granted : words of access that it grants.
    reference : over whose error an estimator's is divided.
    probe : unavailable exactly where a setting does not count.
    """

    name: str
    granted: list[str]
    reference: str
    probe: str


@dataclass(frozen=True, kw_only=True)
class Round:
    """Secrets of a round: their hashes, published when it opened, and its last day."""

    ends: _Date
    secrets: list[_Digest]


@dataclass(frozen=True, kw_only=True)
class RoundsFile:
    """The content of ``rounds.yaml``.

    Parameters
    ----------
    suite : whose environments all run on.
    shard : the part that an author runs.
    parts : a run on fresh seeds is one part in so many; its secret decides which.
    fallback : the estimator whose estimate stands for an answer that is missing.
    rounds : by name; hashes alone are those of a round without a last day.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    schema: SchemaOne
    suite: _Name
    shard: str
    fallback: str
    tracks: Annotated[list[SubmissionTrack], MinLen(1)]
    rounds: dict[_Name, Round | list[_Digest]]
    parts: Annotated[int, Ge(1)] = 1

    def part_of(self, secret: str) -> str:
        """Return the shard that follows from a secret."""
        return f"{int(sha256_of(f'shard {secret}'), 16) % self.parts + 1}/{self.parts}"

    def round_of(self, secret: str, day: str, home: Path) -> tuple[str, str]:
        """Return the round that published the hash of a secret, and why it may not be used.

        Parameters
        ----------
        day : on which it is used, as 2027-03-31.
        home : the folder of all submissions, in which secrets that nobody used are published.
        """
        for name, one in self.rounds.items():
            hashes = one.secrets if isinstance(one, Round) else one
            if sha256_of(secret) in hashes:
                left = home / f"unused-{name}.txt"
                lines = read_text_file(left, MOST_BYTES, UsageError) if left.exists() else ""
                if secret in lines.splitlines():
                    return name, f"{left.name} published it when round '{name}' was closed"
                if isinstance(one, Round) and day > one.ends:
                    return name, f"round '{name}' ended on {one.ends}"
                return name, ""
        return "", f"no round of {home / 'rounds.yaml'} published its hash"


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A line of ``attempts.jsonl``: a run on fresh seeds that began, or its end with figures.

    Parameters
    ----------
    name : of the submission.
    attempt : its number among those of the submission, from 1.
    round, secret : whose hash the round published.
    at : when it began.
    digest : of the submitted code.
    salt, shard : what follows from secret and digest.
    before : SHA-256 of the line before, of an empty text for the first.
    figures, marks : of the end.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    name: _Name
    attempt: Annotated[int, Ge(1)]
    round: _Name
    at: _Time
    digest: _Digest
    secret: Annotated[str, StringConstraints(pattern=r"^[ -~]+$")]
    salt: _Digest
    shard: str
    before: _Digest
    figures: list[Figures] | None = None
    marks: list[_Text] | None = None

    @property
    def line(self) -> str:
        """The line of the file."""
        told = {name: one for name, one in asdict(self).items() if one is not None}
        return json.dumps(plain(told), sort_keys=True)

    @property
    def begun(self) -> Attempt:
        """Its first line, but for the line before."""
        return replace(self, before="", figures=None, marks=None)


def salt_of(secret: str, digest: str) -> str:
    """Return the salt of an entry: SHA-256 of its secret and the digest of package and specs."""
    return sha256_of(f"{secret} {digest}")


def read_attempts(home: Path) -> list[Attempt]:
    """Return all attempts, oldest first: a line when one begins, and one with its figures.

    Raises
    ------
    UsageError : a line is no attempt, does not follow from the one before, ends what did not
        begin, or uses a secret again.
    """
    path = home / "attempts.jsonl"
    text = read_text_file(path, MOST_BYTES, UsageError) if path.exists() else ""
    attempts, before = list[Attempt](), ""
    begun: dict[str, Attempt] = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else [], start=1):
        document = load_json(line, f"{path}:{number}")
        one = document.validate(Attempt)
        first = begun.setdefault(one.secret, one)
        ends = one.figures is not None and one.marks is not None
        problems = {
            "is not as `ope-bench verify` writes it": line != one.line,
            "does not follow from the line before": one.before != sha256_of(before),
            "ends a run that did not begin": ends and (first is one or first.begun != one.begun),
            "uses a secret again": not ends and first is not one,
            "ends a run again": ends
            and any(two.secret == one.secret and two.figures for two in attempts),
            "has a salt that is not that of secret and digest": one.salt
            != salt_of(one.secret, one.digest),
        }
        for problem, there in problems.items():
            if there:
                msg = f"the line {problem}; restore the file: lines are only added"
                raise document.error(msg)
        attempts.append(one)
        before = line
    return attempts


def append_attempt(home: Path, attempt: Attempt) -> Attempt:
    """Add a line to ``attempts.jsonl``; return the attempt as it stands there."""
    known = read_attempts(home)
    attempt = replace(attempt, before=sha256_of(known[-1].line if known else ""))
    with (home / "attempts.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(f"{attempt.line}\n")
    return attempt


def fresh_path(folder: Path, attempt: Attempt) -> Path:
    """Return the file of the trials of an attempt."""
    return folder / f"verified-{attempt.salt[:12]}.parquet"


def read_submission(folder: Path) -> Submission:
    """Read ``submission.yaml``.

    Raises
    ------
    UsageError : it cannot be read, or something in it is missing, unknown or wrong.
    """
    document = load_file(folder / "submission.yaml")
    asked = document.validate(Submission)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", folder.resolve().name):
        name = folder.resolve().name
        msg = f"'{name}' is no name of a submission: ASCII letters, digits, '-', '.', '_'"
        raise document.error(msg)
    return asked


def read_rounds(home: Path) -> RoundsFile:
    """Read ``rounds.yaml``.

    Raises
    ------
    UsageError : it cannot be read, or something in it is missing, unknown or wrong.
    """
    path = home / "rounds.yaml"
    if not path.is_file():
        msg = f"there is no {path}; submissions lie in results/submissions of a clone"
        raise UsageError(msg)
    return load_file(path).validate(RoundsFile)
