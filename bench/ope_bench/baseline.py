"""Baselines: the trials of a suite in one small text file that a reviewer can read.

JSON lines: a header (suite, specs, machine, history of acceptances, checksum), then one line a
trial in a stable order, with floats that round-trip. Boards are derived on reading, so no board
can disagree with its trials; the checksum tells a file that was edited or cut.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ope_bench.baseline_lines import Names, lines_of, records_of
from ope_bench.errors import StoreError
from ope_bench.leaderboard import TruthKind
from ope_bench.records import TrialRecord
from ope_bench.seeding import canonical_json
from ope_bench.whole_files import written_whole

__all__ = ["Acceptance", "Baseline", "SuiteFacts", "is_baseline", "load", "save"]

KIND = "ope-bench baseline"
SCHEMA = 1


@dataclass(frozen=True)
class SuiteFacts:
    """What of a suite its re-run needs beyond the trials themselves.

    Parameters
    ----------
    replicates : that a gate runs; the file may hold more in reserve, for rows left undecided.
    timeout, memory : limits of one trial.
    """

    name: str
    truth: TruthKind
    replicates: int
    title: str = ""
    timeout: float | None = None
    memory: int | None = None


@dataclass(frozen=True)
class Acceptance:
    """One time that someone declared the numbers right.

    Parameters
    ----------
    at : UTC, to the second.
    reason : in words.
    changes : rows by verdict against the numbers before; empty for the first.
    """

    at: str
    reason: str
    changes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Baseline:
    """The trials of a suite, as they were accepted."""

    suite: SuiteFacts
    records: tuple[TrialRecord, ...]
    machine: Mapping[str, Any] = field(default_factory=dict)
    history: tuple[Acceptance, ...] = ()


def is_baseline(path: Path) -> bool:
    """Whether a file claims to be a baseline; says nothing about its health."""
    try:
        with path.open("rb") as stream:
            return b'"' + KIND.encode() + b'"' in stream.read(200)
    except OSError:
        return False


def save(path: Path, baseline: Baseline) -> None:
    """Write the file in one step: readers see the old one or the new one.

    Raises
    ------
    StoreError : the folder is missing or not writable.
    """
    names = Names.of(baseline.records)
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
    header["sha256"] = _checksum(header, lines)
    text = "\n".join([_dump(header), *lines]) + "\n"
    with written_whole(path, StoreError) as aside:
        aside.write_text(text, encoding="utf-8")


def load(path: Path) -> Baseline:
    """Read a baseline.

    Raises
    ------
    StoreError : missing, foreign, newer, truncated or edited, with the line where it shows.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as exc:
        msg = f"cannot read baseline {path}: {exc.strerror or exc}"
        raise StoreError(msg) from exc
    except UnicodeDecodeError as exc:
        msg = f"{path} is no ope-bench baseline: it is not text"
        raise StoreError(msg) from exc
    header = _header(path, lines)
    body = lines[1:]
    if len(body) != header.get("trials"):
        msg = (
            f"{path} holds {len(body)} trials where its first line announces "
            f"{header.get('trials')}: it was cut or edited; restore it or save it anew"
        )
        raise StoreError(msg)
    parsed = [_parse(path, number, line) for number, line in enumerate(body, start=2)]
    if _checksum(header, body) != header.get("sha256"):
        msg = (
            f"{path} was edited after it was saved (its checksum does not match); restore it, "
            "or run `ope-bench baseline accept` for new numbers"
        )
        raise StoreError(msg)
    records: list[TrialRecord] = []
    try:
        names = Names.from_json(header)
        suite = SuiteFacts(**header["suite"])
        history = tuple(Acceptance(**one) for one in header["history"])
        # Extended one by one, so that the message knows how far it came.
        records.extend(records_of(parsed, names))
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        where = f"line {len(records) + 2}" if records else "its header or line 2"
        msg = f"{path}, {where}: {type(exc).__name__}: {exc}; it is no valid baseline"
        raise StoreError(msg) from exc
    return Baseline(suite, tuple(records), header["machine"], history)


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


def _checksum(header: Mapping[str, Any], lines: Iterable[str]) -> str:
    told = {name: value for name, value in header.items() if name != "sha256"}
    return hashlib.sha256("\n".join([canonical_json(told), *lines]).encode()).hexdigest()


def _dump(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False)
