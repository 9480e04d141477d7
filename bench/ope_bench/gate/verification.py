"""Verify committed results: files against each other, and a part of their trials run again.

A folder of results holds ``trials.parquet`` (``ope-bench export``), ``run.json`` (``store info``)
and mostly ``leaderboard.json``. That of a submission also holds ``submission.yaml``; beside it lie
``rounds.yaml`` and ``attempts.jsonl``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import MinLen

from ope_bench.base.canonical import canonical_json, digest
from ope_bench.base.errors import OpeBenchError, ParameterError, UsageError
from ope_bench.boards.leaderboard import boards, boards_document
from ope_bench.contracts.data import Problem, Truth
from ope_bench.contracts.plugins import Environment
from ope_bench.execution import Finished
from ope_bench.execution.local import LocalExecutor
from ope_bench.execution.machine import machine_facts, mode_of, same_arithmetic
from ope_bench.gate.verdict import alike
from ope_bench.plugins.registry import registry
from ope_bench.plugins.spec import PluginSpec, resolve
from ope_bench.store.export import writer_for
from ope_bench.suites.manifest import Manifest, parse_shard, plan, specs_of
from ope_bench.suites.suite import Entry, Suite, find_suite, parse_selector
from ope_bench.suites.yaml_document import load_file
from ope_bench.trials.record import RECORD, Trial, TrialRecord, facts_from
from ope_bench.trials.status import Device, Status
from ope_bench.trials.trial import Workspace, build, run_trial

Row = Mapping[str, Any]
Rows = Sequence[Row]
Trials = Sequence[Trial]
Figures = Sequence[Mapping[str, Any]]

BESIDE = {"standard_error", "interval_low", "interval_high"}
"""Figures beside the estimate: a change of code may improve them and leave the estimate."""

TRUTHS = ("truth_expected", "truth_empirical")

FIGURES = (
    *("replicates", "finite", "rmse", "rmse_low", "rmse_high", "rmse_empirical", "bias", "sd"),
    *("median_absolute_error", "quantiles", "worst", "cvar", "positivity_rate", "failure_rate"),
    *("failure_low", "failure_high", "status", "coverage", "coverage_low", "coverage_high"),
    *("missed_below", "missed_above", "interval_width", "intervals"),
)
"""Figures of a board that exported trials determine."""

BLIND = 10
"""Trials of a submission that run once more without their environment."""

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


def facts_path(trials: Path) -> Path:
    """Return the file with facts of the runs that made a file of trials."""
    return trials.with_name("run.json" if trials.stem == "trials" else f"{trials.stem}.json")


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file; empty without one."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read exported trials.

    Raises
    ------
    UsageError : there are none, the file cannot be read, or pyarrow is missing.
    """
    writer_for(path)
    import pyarrow.parquet as pq

    try:
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        trial_of(rows[0])
    except (OSError, LookupError, TypeError, ValueError) as exc:
        msg = f"{path}: no exported trials: {' '.join(str(exc).split())[:200]}"
        raise UsageError(msg) from exc
    return rows


@cache
def _specs(kind: Literal["environment", "estimator"], name: str, text: str) -> list[PluginSpec]:
    """Return an exported setting's specs: one for each version of an environment, newest first."""
    params = json.loads(text)
    if kind == "estimator":
        return [PluginSpec(kind, name, name, params)]
    worlds, newest = params.pop("worlds"), _version(name)
    spec = PluginSpec(kind, name, name, params, worlds=worlds)
    return [replace(spec, version=version) for version in range(newest, 0, -1)]


def _version(environment: str) -> int:
    return getattr(registry().find("environment", environment).cls, "version", 1)


def trial_of(row: Row) -> Trial:
    """Return the trial of an exported row, of the environment's version that its key names."""
    (estimator,) = _specs("estimator", row["estimator"], row["params"])
    more = {"seed": row["seed"], "device": Device(row["device"]), "salt": row.get("salt") or ""}
    trials = [
        Trial(environment, estimator, row["replicate"], **more)
        for environment in _specs("environment", row["environment"], row["environment_params"])
    ]
    return next((one for one in trials if one.key == row["key"]), trials[0])


def verify_trials(
    found: Findings, path: Path, share: float, jobs: int, manifest: Manifest | None = None
) -> Rows:
    """Compare a file of trials with those beside it, and a part of the trials with a new run.

    Parameters
    ----------
    found : gets what is found.
    path : the file.
    share : part of the trials that run again, drawn anew by each call.
    jobs : trials that run at once.
    manifest : trials that must be there; by default those of the suites that the rows name.

    Returns
    -------
    The rows of the file.
    """
    rows = read_rows(path)
    facts = json.loads(facts_path(path).read_text(encoding="utf-8"))
    machines = [run["machine"] for run in facts["runs"]]
    mode = mode_of(machines[-1])
    trials = [trial_of(row) for row in rows]
    found.trials += len(rows)
    same = same_arithmetic(machine_facts(mode), *machines)
    found.same_arithmetic &= same
    names = dict.fromkeys(row["suite"] for row in rows)
    plans = [plan(_suite(path.parent, one)) for one in names] if manifest is None else [manifest]
    found.problems += _row_problems(rows, trials, [one for each in plans for one in each.trials])
    status = dict(sorted(Counter(row["status"] for row in rows).items()))
    if facts["status"] != status:
        found.problems.append(f"{facts_path(path)} counts {facts['status']}, its trials {status}")
    for name, told in facts.get("sha256", {}).items():
        if sha256(path.with_name(name)) != told:
            found.problems.append(f"{name} is not the file whose SHA-256 its run.json has")
    board = path.with_name("leaderboard.json")
    if board.exists():
        told = json.loads(board.read_text(encoding="utf-8"))
        found.problems += _board_problems(told, rows, trials)
    # A limit of a machine, or a crash, is no answer that comes again.
    able = [place for place, row in enumerate(rows) if Status(row["status"]).is_answer]
    chosen: dict[str, tuple[Trial, Row]] = {}
    for place in np.random.default_rng().permutation(able)[: math.ceil(share * len(able))]:
        trial, row = trials[place], rows[place]
        if trial.environment.version < _version(trial.environment.id):
            found.skipped[f"of an older version of {trial.environment.id}"] += 1
        elif _is_gone(trial.estimator):
            found.skipped[f"of parameters that {trial.estimator.id} no longer has"] += 1
        elif trial.key == row["key"]:
            chosen[trial.key] = trial, row
    again = sorted((one for one, _ in chosen.values()), key=lambda one: (one.group, one.key))
    timeout = max(one.suite.timeout for one in plans)
    with LocalExecutor(jobs, timeout=timeout, arithmetic=mode) as executor:
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
    have = set(map(_asked, trials))
    absent = [trial for trial in planned if _asked(trial) not in have]
    if absent:
        one = absent[0]
        name = f"{one.estimator.id} on {one.environment.id}, replicate {one.replicate}"
        yield f"{len(absent)} planned trials are left out, the first: {name}"


def _words(row: Row) -> str:
    return f"trial {row['key'][:12]} ({row['estimator']} on {row['environment']})"


def _board_problems(told: Any, rows: Rows, trials: Trials) -> Iterator[str]:
    """Yield figures of a board that its trials do not give."""
    exported = [one.name for one in RECORD if one.exported]
    records = [
        TrialRecord(trial, **facts_from({name: row.get(name) for name in exported}))
        for row, trial in zip(rows, trials, strict=True)
    ]
    again = boards_document(boards(records, truth=told["boards"][0]["truth"]))
    made = dict(_lines(again))
    for name, line in _lines(told):
        if name not in made:
            yield f"leaderboard.json: {name} has no trials"
            continue
        found = made.pop(name)
        for figure in FIGURES:
            if not alike(line[figure], found[figure]):
                here = f"leaderboard.json: {line['label']} on {json.loads(name)[0]}"
                yield f"{here}: {figure} is {line[figure]}, of its trials {found[figure]}"
    if made:
        yield f"leaderboard.json lacks {len(made)} lines that the trials have"


def _lines(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the lines of all boards with their names."""
    for board in document["boards"]:
        setting = board["environment"], board["environment_params"], board["worlds"]
        for line in board["rows"]:
            row = line["estimator"], line["params"], line["device"]
            yield canonical_json([*setting, *row]), line


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


# Submissions: what an author declares, and what a round compares it with.

_Text = Annotated[str, MinLen(1)]


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
    distribution: _Text
    version: _Text
    repository: str
    commit: str
    estimators: Annotated[list[_Text], MinLen(1)]
    digest: _Text
    authors: Annotated[list[_Text], MinLen(1)]
    license: _Text
    tuned: _Text
    tuned_on_public_seeds: bool
    conflicts: _Text
    out_of_competition: bool


class Rounds:
    """The content of ``rounds.yaml``.

    Parameters
    ----------
    home : the folder of all submissions, in which it lies.

    Attributes
    ----------
    suite : whose environments all run on.
    shard : the part that an author runs.
    fallback : the estimator whose estimate stands for an answer that is missing.
    tracks : each with the words of access that it grants; the reference over whose error an
        entrant's is divided; and a probe, unavailable exactly where a setting does not count.
    rounds : of each round the hashes of its secrets, published when it opened.
    """

    def __init__(self, home: Path) -> None:
        path = home / "rounds.yaml"
        if not path.is_file():
            msg = f"there is no {path}; submissions lie in results/submissions of a clone"
            raise UsageError(msg)
        told, self.home = load_file(path).value, home
        self.suite, self.shard, self.fallback = told["suite"], told["shard"], told["fallback"]
        self.tracks: list[dict[str, Any]] = told["tracks"]
        self.rounds: dict[str, list[str]] = told["rounds"]

    def track_of(self, selector: str) -> dict[str, Any]:
        """Return the first track that grants all that an estimator declares."""
        words = {*build(specs_of("estimator", selector)[0]).access.words()} - {"samples"}
        for track in self.tracks:
            if words <= set(track["granted"]):
                return track
        msg = f"{selector}: no track grants {', '.join(sorted(words))}"
        raise UsageError(msg)

    def manifest(self, estimators: Sequence[str], salt: str, shard: str) -> Manifest:
        """Return the trials of a submission, its tracks' references among them."""
        suite = _suite(self.home, self.suite)
        tracks = [self.track_of(selector) for selector in estimators]
        others = [name for track in tracks for name in (track["reference"], track["probe"])]
        names = dict.fromkeys([*estimators, self.fallback, *others])
        entries = tuple(Entry(parse_selector(name)) for name in names)
        planned = plan(replace(suite, name="submission", estimators=entries, salt=salt))
        return replace(planned, shard=parse_shard(shard))

    def figures(self, rows: Rows, estimators: Sequence[str]) -> list[dict[str, Any]]:
        """Return each estimator's error over that of its track's reference.

        Settings are those where the probe is available, whatever the estimator says of them; the
        geometric mean over them has a 95 % interval by Student's t. A missing answer counts with
        the error of the fallback.
        """
        from scipy.stats import t

        settings: dict[str, dict[str, dict[int, Row]]] = defaultdict(lambda: defaultdict(dict))
        for row in rows:
            setting = settings[row["environment"] + row["environment_params"]]
            setting[_identity(row)][row["replicate"]] = row
        told = []
        for selector in estimators:
            track = self.track_of(selector)
            asked = (selector, track["reference"], track["probe"], self.fallback)
            names = [specs_of("estimator", one)[0].identity_json for one in asked]
            logs, failed = [], []
            for setting in settings.values():
                own, reference, probe, average = map(setting.__getitem__, names)
                known = all(row["status"] != "unavailable" for row in probe.values())
                if known and all(row["status"] == "ok" for row in average.values()):
                    logs.append(_log_rmse(own, average) - _log_rmse(reference, average))
                    failed += [row["status"] != "ok" for row in own.values()]
            if len(logs) < 2:
                msg = f"{selector}: {len(logs)} settings of track {track['name']}; two are needed"
                raise UsageError(msg)
            mean, error = float(np.mean(logs)), float(np.std(logs, ddof=1) / len(logs) ** 0.5)
            half = float(t.ppf(0.975, len(logs) - 1)) * error
            ratio, low, high = map(math.exp, (mean, mean - half, mean + half))
            facts = {"estimator": selector, "track": track["name"], "reference": asked[1]}
            figures = {"ratio": ratio, "low": low, "high": high, "log_se": error}
            counts = {"settings": len(logs), "failures": float(np.mean(failed))}
            told.append({**facts, **figures, **counts})
        return told


def _identity(row: Row) -> str:
    return _specs("estimator", row["estimator"], row["params"])[0].identity_json


def _log_rmse(rows: Mapping[int, Row], average: Mapping[int, Row]) -> float:
    answers = [row if row["status"] == "ok" else average[at] for at, row in rows.items()]
    errors = np.array([row["estimate"] - row["truth_expected"] for row in answers])
    return 0.5 * math.log(max(float(np.square(errors).mean()), 1e-24))


def marks_of(submission: Submission, own: Figures, fresh: Figures | None) -> list[str]:
    """Return the marks of a submission.

    Parameters
    ----------
    own, fresh : `Rounds.figures` of its own report and of its verification, None without one.
    """
    tuned = submission.tuned_on_public_seeds
    for one, other in zip(own, fresh or (), strict=False):
        gap = math.log(other["ratio"] / one["ratio"])
        tuned = tuned or gap > TUNED * math.hypot(one["log_se"], other["log_se"]) > 0
    marks = ["own report" if fresh is None else "verified"]
    marks += ["tuned on public seeds"] * tuned
    return marks + ["out of competition"] * submission.out_of_competition


def submission_digest(estimators: Sequence[str]) -> str:
    """Return the digest of the packages of estimators, with their data, and of the selectors."""
    contents: list[Any] = [list(estimators)]
    for selector in estimators:
        module = registry().find("estimator", parse_selector(selector).reference).cls.__module__
        spec: Any = importlib.util.find_spec(module.partition(".")[0])
        for place in map(Path, spec.submodule_search_locations or [spec.origin]):
            files = [place] if place.is_file() else sorted(place.rglob("*"))
            contents += [
                [path.relative_to(place.parent).as_posix(), sha256(path)]
                for path in files
                if path.is_file() and "__pycache__" not in path.parts
            ]
    return digest(contents)


# A trial that runs without its environment, so that nothing but the view can be read.


class _Given(Environment):
    """One problem, with a truth that is wrong."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def sample(self, **_: np.random.Generator) -> tuple[Problem, Truth]:
        """Return the problem."""
        return self.problem, Truth(0.0, 0.0, 0.0)


def blind_problems(rows: Rows, estimators: Sequence[str]) -> list[str]:
    """Return the trials whose answers change where truth, environment and store are out of reach.

    Each trial of these estimators runs in a process that is given the sampled problem alone.
    """
    from joblib import Parallel, delayed

    own = {specs_of("estimator", one)[0].identity_json for one in estimators}
    able = [row for row in rows if row["status"] == "ok" and _identity(row) in own]
    chosen = [able[place] for place in np.random.default_rng().permutation(len(able))[:BLIND]]
    tasks = []
    for trial in map(trial_of, chosen):
        environment = build(trial.environment)
        environment.suite_salt = trial.salt
        given = _Given(Workspace().data(trial, environment).problem)
        tasks.append(delayed(run_trial)(trial, Workspace(), environment=given))
    problems = []
    for row, record in zip(chosen, Parallel(n_jobs=2)(tasks), strict=True):
        shown = replace(record, **{name: row[name] for name in TRUTHS})
        told = _differences(row, shown, rows, same=False)
        problems += [f"{text}, without its environment in reach" for _, text in told]
    return problems
