"""Baselines: the trials of a suite in one small text file that a reviewer can read.

JSON lines: a header (suite, specs, machine, history of acceptances, checksum), then one line per
trial in a stable order, with floats that round-trip. Boards are computed on reading, so a board
cannot disagree with its trials; the checksum detects a file that was edited or cut.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from ope_bench.canonical import canonical_json
from ope_bench.contracts.data import TruthKind
from ope_bench.errors import StoreError
from ope_bench.files import atomic_write, read_text_file
from ope_bench.gate.baseline_format import Given, SpecNames, lines_of, records_of
from ope_bench.trials.record import TrialRecord

__all__ = ["Acceptance", "Baseline", "SuiteFacts", "is_baseline", "load", "save"]

KIND = "ope-bench baseline"
MOST_BYTES = 1 << 30
"""Largest baseline; one of a hundred thousand trials takes a tenth."""

SCHEMA = 1


@dataclass(frozen=True)
class SuiteFacts:
    """Facts of a suite that its repetition needs beside the trials.

    Parameters
    ----------
    replicates : number that a gate runs; the file may hold more, for rows left undecided.
    timeout, memory : limits of one trial, in seconds and bytes.
    """

    name: str
    truth: TruthKind
    replicates: int
    _: KW_ONLY
    title: str = ""
    timeout: float | None = None
    memory: int | None = None


@dataclass(frozen=True)
class Acceptance:
    """One acceptance of a baseline's numbers.

    Parameters
    ----------
    at : UTC, to the second.
    reason : why the numbers were accepted.
    changes : number of rows by verdict against the previous numbers; empty for the first.
    """

    at: str
    reason: str
    changes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Baseline:
    """The accepted trials of a suite.

    Parameters
    ----------
    suite : facts that a repetition needs beside the trials.
    records : the records of the trials.
    machine : facts of the machine that ran them.
    history : the acceptances, oldest first.
    given : the parameters that the suite sets, by `identity_of` their spec; all others take the
        defaults of their class. A spec without an entry keeps all its parameters.
    """

    suite: SuiteFacts
    records: tuple[TrialRecord, ...]
    machine: Mapping[str, Any] = field(default_factory=dict)
    history: tuple[Acceptance, ...] = ()
    given: Given = field(default_factory=dict)


def is_baseline(path: Path) -> bool:
    """Return whether a file begins like a baseline; its contents are not checked."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as stream:
            return b'"' + KIND.encode() + b'"' in stream.read(200)
    except OSError:
        return False


def save(path: Path, baseline: Baseline) -> None:
    """Write a baseline atomically: a reader sees the old file or the new one.

    A missing folder is created.

    Raises
    ------
    StoreError : the folder cannot be made, or the file cannot be written.
    """
    names = SpecNames.of(baseline.records)
    lines = [_dump(line) for line in lines_of(baseline.records, names)]
    header: dict[str, Any] = {
        "kind": KIND,
        "schema": SCHEMA,
        "suite": vars(baseline.suite),
        "trials": len(lines),
        "history": [vars(one) | {"changes": dict(one.changes)} for one in baseline.history],
        "machine": dict(baseline.machine),
        **names.as_json(),
    }
    if baseline.given:
        header["given"] = names.given_json(baseline.given)
    header["sha256"] = _checksum(header, lines)
    text = "\n".join([_dump(header), *lines]) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        msg = f"cannot make the folder {path.parent}: {exc.strerror or exc}"
        raise StoreError(msg) from exc
    with atomic_write(path, StoreError) as aside:
        aside.write_text(text, encoding="utf-8")


def load(path: Path) -> Baseline:
    """Read a baseline.

    Raises
    ------
    StoreError : the file is missing, of another kind, newer, truncated or edited; with the line.
    """
    lines = read_text_file(path, MOST_BYTES, StoreError).splitlines()
    header = _header(path, lines)
    body = lines[1:]
    if len(body) != header.get("trials"):
        msg = (
            f"{path} holds {len(body)} trials where its first line announces "
            f"{header.get('trials')}: it was cut or edited; restore it or save it anew"
        )
        raise StoreError(msg)
    parsed = [_parse(path, number, line) for number, line in enumerate(body, start=2)]
    if not _is_as_saved(header, body):
        msg = (
            f"{path} was edited after it was saved (its checksum does not match); restore it, "
            "or run `ope-bench baseline accept` for new numbers"
        )
        raise StoreError(msg)
    records: list[TrialRecord] = []
    try:
        names = SpecNames.from_json(header)
        suite = SuiteFacts(**header["suite"])
        given = names.given_from_json(header)
        history = tuple(Acceptance(**one) for one in header["history"])
        machine = dict(header["machine"])
        # Extended record by record, so that an error message can name the line.
        records.extend(records_of(parsed, names))
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        where = f"line {len(records) + 2}" if records else "its header or line 2"
        msg = f"{path}, {where}: {type(exc).__name__}: {exc}; it is no valid baseline"
        raise StoreError(msg) from exc
    return Baseline(suite, tuple(records), machine, history, given)


def _header(path: Path, lines: Sequence[str]) -> dict[str, Any]:
    try:
        header = json.loads(lines[0])
    except (IndexError, ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or header.get("kind") != KIND:
        what = "it is empty" if not lines else "its first line is not a baseline's header"
        msg = f"{path} is no ope-bench baseline: {what}"
        raise StoreError(msg)
    if header.get("schema") != SCHEMA:
        msg = (
            f"{path} has schema {header.get('schema')!r}; this version of ope-bench reads "
            f"schema {SCHEMA}: update ope-bench or save the baseline anew"
        )
        raise StoreError(msg)
    return header


def _parse(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        msg = f"{path}, line {number}: not a JSON object; restore the file or save it anew"
        raise StoreError(msg)
    return parsed


def _is_as_saved(header: Mapping[str, Any], lines: Iterable[str]) -> bool:
    try:
        return _checksum(header, lines) == header.get("sha256")
    # A number that is not finite, which no baseline holds.
    except ValueError:
        return False


def _checksum(header: Mapping[str, Any], lines: Iterable[str]) -> str:
    covered = {name: value for name, value in header.items() if name != "sha256"}
    return hashlib.sha256("\n".join([canonical_json(covered), *lines]).encode()).hexdigest()


def _dump(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False)
