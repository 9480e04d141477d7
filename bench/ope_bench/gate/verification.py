"""Verify committed results: files against each other, and a part of their trials run again.

A folder of results holds ``trials.parquet`` (``ope-bench export``) and ``run.json`` (``store
info``). That of a submission also holds ``submission.yaml``; beside it lie ``rounds.yaml`` and
``attempts.jsonl``.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ope_bench.base.canonical import plain, sha256
from ope_bench.base.errors import OpeBenchError, ParameterError, UsageError
from ope_bench.boards.tracks import log_rmse, with_failures
from ope_bench.contracts.arrays import FloatArray
from ope_bench.execution import Finished
from ope_bench.execution.local import LocalExecutor
from ope_bench.execution.machine import machine_facts, mode_of, same_arithmetic
from ope_bench.gate import submission
from ope_bench.gate.submission import (
    Submission,
    SubmissionTrack,
    facts_path,
    read_facts,
)
from ope_bench.gate.verdict import alike
from ope_bench.plugins.spec import PluginSpec, resolve
from ope_bench.reader import DataFileError
from ope_bench.statistics.ranks import mean_interval
from ope_bench.store.export import column_types, read_parquet
from ope_bench.store.exported import newest_version, trial_of
from ope_bench.suites.manifest import MAX_TRIALS, Manifest, parse_shard, plan, specs_of
from ope_bench.suites.suite import Entry, Suite, find_suite, parse_selector
from ope_bench.trials.foreign import Processes
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status
from ope_bench.trials.trial import build

Row = Mapping[str, Any]
Answered = Mapping[int, Row]
"""Rows of an estimator in a setting, by replicate."""
Rows = Sequence[Row]
Trials = Sequence[Trial]
Figures = Sequence[Mapping[str, Any]]

BESIDE = {"standard_error", "interval_low", "interval_high"}
"""Figures beside the estimate: a change of code may improve them and leave the estimate."""

TRUTHS = ("truth_expected", "truth_empirical")

TUNED = 3.0
"""Standard errors by which public seeds must look better than fresh ones to earn a mark."""


@dataclass
class Findings:
    """The result of a verification.

    Parameters
    ----------
    problems : descriptions of what does not agree, each with its place; empty if all agrees.
    trials, again : numbers of trials in the files, and of those that ran again.
    skipped : numbers of trials that were drawn but not compared, or not whole, by reason.
    same_arithmetic : whether numbers had to be equal bit for bit; else up to rounding.
    """

    problems: list[str] = field(default_factory=list)
    trials: int = 0
    again: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    same_arithmetic: bool = True


_WORD = re.compile(submission.WORD)

_NEEDED = (
    *("key", "suite", "environment", "environment_params", "estimator", "params", "replicate"),
    *("seed", "device", "status"),
)
"""Columns without which a row names no trial."""


def read_trials(path: Path) -> tuple[Rows, Trials]:
    """Read exported trials: rows, and what each asks.

    Raises
    ------
    UsageError : there are none, the file cannot be read, a column is missing or of another type, a
        row names no trial.
    """
    try:
        frame, _ = read_parquet(path)
    except DataFileError as exc:
        msg = f"{path}: no exported trials: {exc.what}"
        raise UsageError(msg) from exc
    for name, kind in column_types().items():
        needed = name in (*_NEEDED, "estimate", *TRUTHS)
        if frame.schema.get(name, None if needed else kind) != kind:
            found = str(frame.schema.get(name, "missing")).lower()
            msg = f"{path}: column '{name}' is {found}; expected {str(kind).lower()}"
            raise UsageError(msg)
    if not 0 < frame.height <= MAX_TRIALS:
        msg = f"{path}: {frame.height:,} trials; expected 1 to {MAX_TRIALS:,}"
        raise UsageError(msg)
    rows = frame.to_dicts()
    trials, known = [], set[str]()
    for number, row in enumerate(rows, start=1):
        try:
            if empty := [name for name in _NEEDED if row[name] is None]:
                msg = f"no {empty[0]}"
                raise ValueError(msg)
            for name in ("suite", "environment", "estimator"):
                if not _WORD.fullmatch(row[name]):
                    msg = f"{name} = {row[name]!r}: expected one word"
                    raise ValueError(msg)
            ok = Status(row["status"]) is Status.OK
            if ok and not all(math.isfinite(row[one]) for one in ("estimate", "truth_expected")):
                msg = "status 'ok' without a finite estimate"
                raise ValueError(msg)
            if row["environment"] not in known:
                newest_version(row["environment"])
                known.add(row["environment"])
            # A reference may be a file, whose code would run.
            trials.append(trial_of({**row, "reference": None, "environment_reference": None}))
        except (
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
            RecursionError,
            OpeBenchError,
        ) as exc:
            reason = " ".join(str(exc).split())[:200]
            msg = f"{path}: row {number} names no trial ({reason}); export the trials again"
            raise UsageError(msg) from exc
    return rows, trials


def compare_files(
    found: Findings, path: Path, rows: Rows, trials: Trials, planned: Trials
) -> None:
    """Compare a file of trials with those beside it and with the plan.

    Parameters
    ----------
    found : gets what is found.
    path, rows, trials : the file, and what `read_trials` returns of it.
    planned : trials that must be there, and no others.
    """
    facts = read_facts(path)
    found.trials += len(rows)
    found.problems += _row_problems(rows, trials, planned)
    status = dict(sorted(Counter(row["status"] for row in rows).items()))
    if facts.status != status:
        found.problems.append(f"{facts_path(path)} counts {facts.status}, its trials {status}")
    for name, told in facts.sha256.items():
        if Path(name).name != name or sha256(path.with_name(name)) != told:
            found.problems.append(f"{name} is not the file whose SHA-256 its run.json has")


def verify_trials(
    found: Findings,
    path: Path,
    share: float,
    jobs: int,
    manifest: Manifest | None = None,
    foreign: Processes | None = None,
) -> Rows:
    """Compare a file of trials with those beside it, and a part of the trials with a new run.

    Parameters
    ----------
    found : gets what is found.
    path : the file.
    share : part of the trials that run again, drawn anew by each call.
    jobs : trials that run at once.
    manifest : trials that must be there; by default those of the suites that the rows name.
    foreign : where estimators of others run; by default beside the data.

    Returns
    -------
    The rows of the file.
    """
    rows, trials = read_trials(path)
    names = dict.fromkeys(row["suite"] for row in rows)
    plans = [plan(_suite(path.parent, one)) for one in names] if manifest is None else [manifest]
    planned = [one for each in plans for one in each.trials]
    compare_files(found, path, rows, trials, planned)
    keys = {one.key for one in planned}
    machines = read_facts(path).all_of_machines
    mode = mode_of(machines[-1])
    same = same_arithmetic(machine_facts(mode), *machines)
    found.same_arithmetic &= same
    # A limit of a machine, or a crash, is no answer that comes again.
    able = [place for place, row in enumerate(rows) if Status(row["status"]).is_answer]
    chosen: dict[str, tuple[Trial, Row]] = {}
    for place in np.random.default_rng().permutation(able)[: math.ceil(share * len(able))]:
        trial, row = trials[place], rows[place]
        if trial.environment.version < newest_version(trial.environment.id):
            found.skipped[f"of an older version of {trial.environment.id}"] += 1
        elif _is_gone(trial.estimator):
            found.skipped[f"of parameters that {trial.estimator.id} no longer has"] += 1
        elif trial.key == row["key"] and trial.key in keys:
            chosen[trial.key] = trial, row
    again = sorted((one for one, _ in chosen.values()), key=lambda one: (one.group, one.key))
    timeout = max(one.suite.timeout for one in plans)
    if not again:
        return rows
    with LocalExecutor(jobs, timeout=timeout, arithmetic=mode, foreign=foreign) as executor:
        finished = [one for one in executor.run(again) if isinstance(one, Finished)]
    for record in (event.record for event in finished):
        _, row = chosen[record.key]
        if record.status is Status.UNAVAILABLE and row["status"] != "unavailable":
            found.skipped[" ".join(str(record.error_message).split())] += 1
            continue
        found.again += 1
        differ = dict(_differences(row, record, rows, same=same))
        if differ and row["code_digest"] != record.code_digest and differ.keys() <= BESIDE:
            found.skipped["older code, with other standard errors"] += 1
        else:
            found.problems += differ.values()
    return rows


def _suite(folder: Path, name: str) -> Suite:
    """Return a suite by its name, or by a file in the folder."""
    local = (folder / name).with_suffix(".yaml")
    return find_suite(str(local) if local.is_file() else name, typed=False)


def _asked(trial: Trial) -> str:
    """Return what a trial asks, whatever the version of its environment."""
    return replace(trial, environment=replace(trial.environment, version=0)).key


def _row_problems(rows: Rows, trials: Trials, planned: Trials) -> Iterator[str]:
    """Yield rows that are there twice, are missing, or contradict their key or each other."""
    counts = Counter(row["key"] for row in rows)
    yield from (f"trial {key[:12]} is there {n} times" for key, n in counts.items() if n > 1)
    truths: dict[str, list[Any]] = {}
    for row, trial in zip(rows, trials, strict=True):
        if trial.key != row["key"]:
            yield f"{_words(row)}: the key is not that of its columns"
        values = [row[one] for one in TRUTHS]
        known = truths.setdefault(trial.data_key, values)
        # A trial whose worker died has no truth on record.
        if not alike(values, known) and any(values) and any(known):
            yield f"{_words(row)}: its truth is not that of other trials on the same data"
    have, asked = set(map(_asked, trials)), set(map(_asked, planned))
    # A plan of today has no trials of parameters that are gone.
    pairs = [pair for pair in zip(rows, trials, strict=True) if _asked(pair[1]) not in asked]
    beyond = [row for row, trial in pairs if not _is_gone(trial.estimator)]
    if beyond:
        yield f"{len(beyond)} trials are not planned, the first: {_words(beyond[0])}"
    absent = [trial for trial in planned if _asked(trial) not in have]
    if absent:
        one = absent[0]
        name = f"{one.estimator.id} on {one.environment.id}, replicate {one.replicate}"
        yield f"{len(absent)} planned trials are left out, the first: {name}"


def _words(row: Row) -> str:
    return f"trial {row['key'][:12]} ({row['estimator']} on {row['environment']})"


def _is_gone(estimator: PluginSpec) -> bool:
    """Whether a stored estimator has parameters, or values of them, that are refused today."""
    try:
        resolve("estimator", estimator.reference, estimator.params)
    except OpeBenchError as exc:  # of others the trial itself says what is missing
        return isinstance(exc, ParameterError)
    return False


def _differences(
    row: Row, record: TrialRecord, rows: Rows, *, same: bool
) -> Iterator[tuple[str, str]]:
    """Yield the numbers of a trial that did not come again, with descriptions."""
    if record.status.value != row["status"]:
        reason = f"{record.status} {record.error_message or ''}".rstrip()
        yield "status", f"{_words(row)}: status {row['status']}, now {reason}"
        return
    trained = not same and "torch" in build(record.trial.estimator).requires
    for figure in (*TRUTHS, "estimate", *sorted(BESIDE)):
        before, now = row.get(figure), getattr(record, figure)
        if figure not in row or before == now or (not same and alike(before, now)):
            continue
        if trained and figure not in TRUTHS:
            # Training is chaotic: rounding elsewhere gives another, equally good flow.
            cell = ("environment_params", "estimator", "params")
            same_cell = (one for one in rows if all(one[name] == row[name] for name in cell))
            ok = (one for one in same_cell if one["status"] == "ok")
            errors = [one["estimate"] - one["truth_expected"] for one in ok]
            spread = 3 * np.sqrt(np.mean(np.square(errors)))
            if figure in BESIDE or abs(before - now) <= spread:
                continue
        yield figure, f"{_words(row)}: {figure} {before}, now {now}"


# Submissions: what an entry's error is divided by.


@dataclass(frozen=True)
class Submitted:
    """An estimator of a submission: its selector, what names its trials, and its track."""

    selector: str
    spec: PluginSpec
    track: SubmissionTrack


class Rounds:
    """Plan and judge the trials of submissions by ``rounds.yaml``.

    Parameters
    ----------
    home : the folder of all submissions, in which it lies.
    """

    def __init__(self, home: Path) -> None:
        self.home, self.file = home, submission.read_rounds(home)

    def track_of(self, selector: str) -> SubmissionTrack:
        """Return the first track that grants all that an estimator declares."""
        words = {*build(specs_of("estimator", selector)[0]).access.words()} - {"samples"}
        for track in self.file.tracks:
            if words <= set(track.granted):
                return track
        msg = f"{selector}: no track grants {', '.join(sorted(words))}"
        raise UsageError(msg)

    def resolve(self, estimators: Sequence[str]) -> list[Submitted]:
        """Return installed estimators with their tracks."""
        return [
            Submitted(one, specs_of("estimator", one)[0], self.track_of(one)) for one in estimators
        ]

    def resolve_named(self, figures: Sequence[submission.Figures]) -> list[Submitted]:
        """Return estimators as an author's report names them; their package is not needed."""
        tracks = {track.name: track for track in self.file.tracks}
        unknown = [one.track for one in figures if one.track not in tracks]
        if unknown or not figures:
            msg = f"{self.home / 'rounds.yaml'} has no track {' or '.join(unknown)}".rstrip()
            raise UsageError(msg)
        return [
            Submitted(
                one.estimator,
                PluginSpec("estimator", one.id, one.id, one.params),
                tracks[one.track],
            )
            for one in figures
        ]

    def manifest(self, estimators: Sequence[str], salt: str, shard: str) -> Manifest:
        """Return the trials of a submission, its tracks' references among them."""
        return self._plan(estimators, self.resolve(estimators), salt, shard)

    def planned(self, submitted: Sequence[Submitted], salt: str, shard: str) -> Trials:
        """Return the trials of `manifest`; no package of an estimator is needed."""
        others = self._plan([], submitted, salt, shard).trials
        fallback = specs_of("estimator", self.file.fallback)[0].identity_json
        data = [one for one in others if one.estimator.identity_json == fallback]
        return [*others, *(replace(one, estimator=x.spec) for one in data for x in submitted)]

    def _plan(
        self, own: Sequence[str], submitted: Sequence[Submitted], salt: str, shard: str
    ) -> Manifest:
        suite, tracks = _suite(self.home, self.file.suite), [one.track for one in submitted]
        others = [name for track in tracks for name in (track.reference, track.probe)]
        names = dict.fromkeys([*own, self.file.fallback, *others])
        entries = tuple(Entry(parse_selector(name)) for name in names)
        planned = plan(replace(suite, name="submission", estimators=entries, salt=salt))
        return replace(planned, shard=parse_shard(shard))

    def figures(self, rows: Rows, submitted: Sequence[Submitted]) -> list[dict[str, Any]]:
        """Return each estimator's error over that of its track's reference.

        Settings are those where the probe is available, whatever the estimator says of them; the
        geometric mean over them has a 95 % interval by Student's t. A missing answer counts with
        the larger error of the fallback and the reference: refusing never pays.
        """
        settings: dict[str, dict[str, dict[int, Row]]] = defaultdict(lambda: defaultdict(dict))
        for row in rows:
            setting = settings[row["environment"] + row["environment_params"]]
            setting[_identity(row)][row["replicate"]] = row
        told = []
        for one in submitted:
            track = one.track
            asked = (track.reference, track.probe, self.file.fallback)
            names = [specs_of("estimator", name)[0].identity_json for name in asked]
            logs, failed = [], []
            for setting in settings.values():
                reference, probe, average = map(setting.__getitem__, names)
                own = setting[one.spec.identity_json]
                known = all(row["status"] != "unavailable" for row in probe.values())
                if known and average and all(row["status"] == "ok" for row in average.values()):
                    logs.append(_log_ratio(own, reference, average))
                    failed += [not _answers(own, at) for at in average]
            if len(logs) < 2:
                msg = f"{one.selector}: {len(logs)} settings of track {track.name}; two are needed"
                raise UsageError(msg)
            ratio, low, high = map(math.exp, mean_interval(np.array(logs)))
            error = float(np.std(logs, ddof=1) / len(logs) ** 0.5)
            facts = {
                "estimator": one.selector,
                "id": one.spec.id,
                "params": plain(one.spec.params),
            }
            facts |= {"track": track.name, "reference": track.reference}
            figures = {"ratio": ratio, "low": low, "high": high, "log_se": error}
            counts = {"settings": len(logs), "failures": float(np.mean(failed))}
            told.append({**facts, **figures, **counts})
        return told


def _identity(row: Row) -> str:
    spec = PluginSpec("estimator", "", row["estimator"], json.loads(row["params"]))
    return spec.identity_json


def _log_ratio(own: Answered, reference: Answered, average: Answered) -> float:
    """Return the logarithm of a setting's RMSE over that of the reference.

    The reference counts with the fallback's error where it has no answer, the estimator with the
    larger of the two.
    """
    failed = np.array([float(not _answers(own, at)) for at in average])
    others = _errors(reference, average)
    errors = with_failures(_errors(own, average), failed, others)
    return log_rmse(errors) - log_rmse(others)


def _answers(rows: Answered, at: int) -> bool:
    return at in rows and rows[at]["status"] == "ok"


def _errors(rows: Answered, average: Answered) -> FloatArray:
    """(n_replicates,) estimate less value, the fallback's where there is no answer."""
    answers = [rows[at] if _answers(rows, at) else average[at] for at in average]
    return np.array([row["estimate"] - row["truth_expected"] for row in answers])


def marks_of(asked: Submission, own: Figures, fresh: Figures | None) -> list[str]:
    """Return the marks of a submission.

    Parameters
    ----------
    own, fresh : `Rounds.figures` of its own report and of its verification, None without one.
    """
    tuned = asked.tuned_on_public_seeds
    for one, other in zip(own, fresh or (), strict=False):
        gap = math.log(other["ratio"] / one["ratio"])
        tuned = tuned or gap > TUNED * math.hypot(one["log_se"], other["log_se"]) > 0
    marks = ["own report" if fresh is None else "verified"]
    marks += ["tuned on public seeds"] * tuned
    return marks + ["out of competition"] * asked.out_of_competition


def access_problems(rows: Rows, submitted: Sequence[Submitted]) -> Iterator[str]:
    """Yield trials that were given, or could ask for, more than their estimator's track grants."""
    granted = {one.spec.identity_json: {*one.track.granted, "samples"} for one in submitted}
    for row in rows:
        beyond = {*json.loads(row["access"] or "[]")} - granted.get(_identity(row), {*()})
        if beyond and _identity(row) in granted:
            yield f"{_words(row)}: it was given {', '.join(sorted(beyond))}, beyond its track"


def attempt_problems(
    rounds: Rounds, folder: Path, attempts: Sequence[submission.Attempt]
) -> Iterator[str]:
    """Yield what of the attempts of a submission does not agree with the files of its trials."""
    mine = [one for one in attempts if one.name == folder.resolve().name]
    for one in mine:
        where, path = f"attempts.jsonl: attempt {one.attempt}", submission.fresh_path(folder, one)
        _, reason = rounds.file.round_of(one.secret, one.at[:10], rounds.home)
        if reason:
            yield f"{where}: {reason}"
        if one.shard != rounds.file.part_of(one.secret):
            yield f"{where}: the shard is not that of its secret"
        if one.figures is not None:
            rows = read_trials(path)[0]
            names = rounds.resolve_named(one.figures)
            if not alike(plain(rounds.figures(rows, names)), [vars(x) for x in one.figures]):
                yield f"{where}: the figures are not those of {path.name}"
    known = {submission.fresh_path(folder, one) for one in mine}
    for path in sorted({*folder.glob("verified-*.parquet")} - known if attempts else ()):
        yield f"attempts.jsonl has no line of {path.name}"
