"""What belongs to a submission: its files, each read by one model, and the digest of its code.

The folder of a submission holds ``submission.yaml``, its author's trials with the facts of their
run, and those of its runs on fresh seeds. Beside all folders lie ``rounds.yaml`` and
``attempts.jsonl``, of which each line holds the SHA-256 of the one before.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le, MinLen
from pydantic import FiniteFloat, StringConstraints

from ope_bench.base.canonical import digest, plain
from ope_bench.base.errors import UsageError
from ope_bench.base.files import read_text_file
from ope_bench.plugins.registry import Plugin, imported_packages, registry
from ope_bench.suites.suite import parse_selector
from ope_bench.suites.yaml_document import load_file, load_json

MOST_BYTES = 1 << 26
"""Limit of a file of facts or attempts."""

_Text = Annotated[str, MinLen(1)]
_Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
# A class in a file, whose code would run, is no id; letters of other alphabets look like ours.
_Selector = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*(:[A-Za-z0-9_-]+)?(\[[ -~]*\])?$")
]
_Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
_Date = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\d$")]
_Time = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
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

    schema: Literal[1]
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


@dataclass(frozen=True, kw_only=True)
class _Machine(_Place):
    cluster: list[_Place] | None = None
    packages: dict[str, str | None] = field(default_factory=dict)
    plugins: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class _Run:
    machine: _Machine


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
    """

    runs: Annotated[list[_Run], MinLen(1)]
    status: dict[str, int]
    sha256: dict[str, str] = field(default_factory=dict)
    figures: list[Figures] = field(default_factory=list)
    all_of_machines: Sequence[Mapping[str, Any]] = ()


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


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file; empty without one."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def sha256_of(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


# Rounds and their secrets, and the attempts that used them.


@dataclass(frozen=True, kw_only=True)
class Track:
    """A group of entries that know the same.

    Parameters
    ----------
    granted : words of access that it grants.
    reference : over whose error an entrant's is divided.
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

    schema: Literal[1]
    suite: _Name
    shard: str
    fallback: str
    tracks: Annotated[list[Track], MinLen(1)]
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


# The digest of what is reviewed, installed and run.

_OURS = {"ope_bench", "ope_estimators", "ope_environments"}

_COMPILED = {".so", ".pyd", ".dll", ".dylib", ".pyc", ".pyo"}


def submission_digest(estimators: Sequence[str]) -> str:
    """Return the digest of all code that estimators bring, and of the selectors.

    That is every file of their distributions, and of those that these require and ope-bench with
    its extras does not.

    Raises
    ------
    UsageError : a file cannot be reviewed, replaces another package's, or is no part of them.
    """
    plugins = [registry().find("estimator", parse_selector(one).reference) for one in estimators]
    own = {_normal(plugin.reference.partition(":")[0]) for plugin in plugins}
    shared = _shared()
    contents: list[Any] = [list(estimators)]
    for name in sorted(_required(own, shared, extras=False)):
        found = importlib.metadata.distribution(name)
        mine = [one for one in plugins if _normal(one.reference.partition(":")[0]) == name]
        files = _recorded(found)
        whole = files is not None
        files = _in_place(mine, shared) if files is None else files
        for shown, path in files.items():
            if reason := _refusal(name, shown, path, whole=whole):
                msg = f"{name} {found.version}: {shown} {reason}; leave it out of the package"
                raise UsageError(msg)
        for plugin in mine:
            _check_module(plugin, files)
        contents.append([name, *([shown, sha256(path)] for shown, path in sorted(files.items()))])
    return digest(contents)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def _shared() -> frozenset[str]:
    """Return the distributions that ope-bench and its extras require."""
    return _required({"ope-bench"}, frozenset(), extras=True)


def _required(names: Collection[str], without: frozenset[str], *, extras: bool) -> frozenset[str]:
    """Return distributions and what they require, as far as it is installed."""
    known, waiting = set[str](), set(names)
    while waiting:
        name = waiting.pop()
        try:
            needs = importlib.metadata.distribution(name).requires or []
        except importlib.metadata.PackageNotFoundError:
            continue
        known.add(name)
        for need in needs:
            match = re.match(r"[\w.-]+", need)
            if match and ("extra ==" not in need or (extras and name in names)):
                waiting |= {_normal(match[0])} - known - without
    return frozenset(known)


def _recorded(found: importlib.metadata.Distribution) -> dict[str, Path] | None:
    """Return the files that the RECORD of a distribution names; None where its code lies apart."""
    url = json.loads(found.read_text("direct_url.json") or "{}")
    if found.files is None or url.get("dir_info", {}).get("editable"):
        return None
    return {
        one.as_posix(): Path(str(found.locate_file(one)))
        for one in found.files
        # What the installation adds: facts about it, commands, and caches, which have no hash.
        if not (
            one.parts[0].endswith(".dist-info")
            or (one.parts[0] == ".." and {"bin", "Scripts"} & {*one.parts})
            or (one.suffix == ".pyc" and one.hash is None and "__pycache__" in one.parts)
        )
    }


def _in_place(plugins: Sequence[Plugin], shared: frozenset[str]) -> dict[str, Path]:
    """Return the files of packages that are installed in place, which no RECORD lists.

    These are the plugins' packages, and what they import from the same folder.
    """
    waiting = [plugin.target.partition(".")[0].partition(":")[0] for plugin in plugins]
    homes, known, files = set[Path](), set[str](), dict[str, Path]()
    first = len(set(waiting))
    while waiting:
        if (top := waiting.pop(0)) in known or _owners().get(top, set()) & shared:
            continue
        known.add(top)
        for place in _places(top):
            if len(known) <= first:
                homes.add(place.parent)
            for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
                source = path.parents[1] / f"{path.name.partition('.')[0]}.py"
                cached = path.suffix == ".pyc" and path.parent.name == "__pycache__"
                if (
                    place.parent not in homes
                    or not path.is_file()
                    or (cached and source.is_file())
                ):
                    continue
                files[path.relative_to(place.parent).as_posix()] = path
                if path.suffix == ".py":
                    # A template or data, where it is no Python.
                    with contextlib.suppress(SyntaxError, ValueError):
                        waiting += sorted(imported_packages(path.read_bytes()))
    return files


def _places(top: str) -> list[Path]:
    """Return the folders or the file of a package or module, none where it is not in files."""
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:
        return []
    folders = (spec and spec.submodule_search_locations) or []
    return [Path(one) for one in folders or [(spec and spec.origin) or ""] if Path(one).exists()]


def _owners() -> dict[str, set[str]]:
    """Return the distributions whose RECORD has files of each package."""
    owners = dict[str, set[str]]()
    for place in map(Path, sys.path):
        if place.is_dir():
            for top, names in _owners_in(place, place.stat().st_mtime_ns).items():
                owners[top] = owners.get(top, set()) | names
    return owners


@cache
def _owners_in(place: Path, changed: int) -> dict[str, set[str]]:
    owners = dict[str, set[str]]()
    for found in importlib.metadata.distributions(path=[str(place)]):
        for top in {one.parts[0].removesuffix(".py") for one in found.files or ()}:
            owners.setdefault(top, set()).add(_normal(found.name))
    return owners


def _refusal(name: str, shown: str, path: Path, *, whole: bool) -> str:
    """Return why a file may not be in a distribution; empty where it may."""
    top = shown.partition("/")[0].removesuffix(".py")
    if path.suffix == ".pth":
        return "runs at every start of Python"
    if path.suffix in _COMPILED:
        return "is compiled, so that nobody can review it"
    if top in sys.stdlib_module_names:
        return "has the name of a module of Python"
    foreign = whole and top != ".." and _owners().get(top, {name}) != {name}
    if (top in _OURS and name != "ope-bench") or foreign:
        return "has the name of another distribution's package"
    return ""


def _check_module(plugin: Plugin, files: Mapping[str, Path]) -> None:
    """Raise UsageError if a plugin's module is not one of its distribution's files."""
    module = plugin.target.partition(":")[0].replace(".", "/")
    homes = [files[one] for one in (f"{module}.py", f"{module}/__init__.py") if one in files]
    top = module.partition("/")[0]
    tops = {path.resolve() for path in _places(top)}
    if not homes or not any(tops & {one.resolve(), *one.resolve().parents} for one in homes):
        msg = (
            f"{plugin.reference}: its module {plugin.target} is no file of its distribution, or "
            "another is imported instead; install the package again, alone"
        )
        raise UsageError(msg)
