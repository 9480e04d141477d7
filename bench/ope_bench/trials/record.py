"""A trial (one estimator on one data set) and the record of its outcome."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Any, cast

from ope_bench.base.canonical import canonical_json, digest, plain
from ope_bench.contracts.plugins import (
    ESTIMATE_WARNING,
    SIGNAL,
    STANDARD_ERROR_WITHHELD,
    Diagnostic,
    Interval,
    IntervalKind,
)
from ope_bench.contracts.random import DataSeed
from ope_bench.plugins.requirements import explain
from ope_bench.plugins.spec import PluginSpec
from ope_bench.statistics.weight_checks import LEAST_EFFECTIVE, weight_warnings
from ope_bench.trials import status as statuses
from ope_bench.trials.status import ANSWER, DATA, LOCAL, SHARED, Device, Plain, Status

KEY_SCHEMA = 1

OUTSIDE = (
    "the estimate lies outside its own interval: the weights average far from one, so that the "
    "propensities may be wrong, or a limit on them has moved it"
)
"""Note on an interval of the value that does not hold its estimate."""

ANSWER_FIELDS = (
    "status",
    "estimate",
    "standard_error",
    "fallback",
    "interval_low",
    "interval_high",
)


@dataclass(frozen=True)
class Trial:
    """One estimator on one replicate of one environment."""

    environment: PluginSpec
    estimator: PluginSpec
    replicate: int
    _: KW_ONLY
    seed: int = 0
    device: Device = Device.CPU
    threads: int = 1
    salt: str = ""

    @cached_property
    def key(self) -> str:
        """SHA-256 of the trial's specification, as canonical JSON."""
        salt = f'"salt":{_quoted(self.salt)},' if self.salt else ""
        return _sha256(
            f'{{"device":{_quoted(self.device)},'
            f'"environment":{self.environment.identity_json},'
            f'"estimator":{self.estimator.identity_json},'
            f'"replicate":{self.replicate},{salt}"schema":{KEY_SCHEMA},'
            f'"seed":{self.seed},"threads":{self.threads}}}'
        )

    @cached_property
    def data_key(self) -> str:
        """SHA-256 of the data that the trial runs on; equal for all estimators."""
        salt = f",{_quoted(self.salt)}" if self.salt else ""
        return _sha256(f"[{self.environment.identity_json},{self.replicate},{self.seed}{salt}]")

    @cached_property
    def group(self) -> str:
        """Scheduling group: trials on the same data, or in the same block of replicates that are
        trained together, run on one worker."""
        if not self.device.batched:
            return self.data_key
        block = self.replicate // self.device.block_size
        where = f"{_quoted(self.device)},{self.threads}"
        where += f",{_quoted(self.salt)}" if self.salt else ""
        return _sha256(f"[{self.environment.identity_json},{self.seed},{where},{block}]")

    @property
    def data_seed(self) -> DataSeed:
        """The source of all random streams of the trial."""
        environment = self.environment
        name, worlds = environment.stream_id, environment.worlds
        return DataSeed(name, self.seed, self.replicate, worlds, self.salt)


@cache
def _quoted(text: str) -> str:
    return canonical_json(text)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class TrialRecord:
    """The outcome of one trial, as stored; None for values that do not exist.

    Parameters
    ----------
    trial : the trial.
    code_digest : digest of the code that produced the outcome.
    status : how the trial ended.
    estimate, standard_error : the estimator's result.
    fallback : the estimate that a ``positivity`` trial withheld.
    truth_expected, truth_expected_se, truth_empirical : see `ope_bench.contracts.data.Truth`.
    logging_average : mean reward of the replicate's logs, the naive estimate that failures are
        imputed with.
    unsupported_mass : target mass without support under the true logging policy.
    observed_unsupported_mass : share of the target sample's actions that were never logged.
    n_logged_actions, n_target_actions : distinct actions in each sample (d0, d1).
    ess_fraction : (sum w)^2 / (n sum w^2).
    max_weight_share : largest weight over the sum of weights.
    fit_seconds, fit_cpu_seconds, estimate_seconds : cost of the trial, shared fits included.
    shared_seconds : the part of ``fit_seconds`` and ``estimate_seconds`` of fits that were reused
        from the worker's cache and are charged again, or the trial's share of batched training.
    peak_rss_bytes, gpu_peak_bytes : largest memory during the trial.
    exclusive : no other trial ran at the same time, so that times may be compared.
    diagnostics : those of the estimator, the effective sample size of its weights, the comparison
        with the true ratio, and the balance of weighted logs with the target sample.
    access : flags that the estimator declared.
    origin : distribution and version of the estimator's plugin, or its file.
    environment_origin : the same for the environment, with a note such as "surrogate".
    error_type, error_message, traceback, output_tail : for every status but ``ok``.
    note : which settings of the whole process the trial changed; other trials did not see them.
    interval_low, interval_high, interval_level, interval_kind : the estimator's own interval; see
        `ope_bench.contracts.plugins.Interval`.
    """

    trial: Trial
    code_digest: str = field(metadata=SHARED)
    status: Status
    _: KW_ONLY
    estimate: float | None = field(default=None, metadata=ANSWER)
    standard_error: float | None = field(default=None, metadata=ANSWER)
    fallback: float | None = field(default=None, metadata=ANSWER)
    truth_expected: float | None = field(default=None, metadata=DATA)
    truth_expected_se: float | None = field(default=None, metadata=DATA)
    truth_empirical: float | None = field(default=None, metadata=DATA)
    logging_average: float | None = field(default=None, metadata=DATA)
    unsupported_mass: float | None = field(default=None, metadata=DATA)
    observed_unsupported_mass: float | None = field(default=None, metadata=DATA)
    n_logged_actions: int | None = field(default=None, metadata=DATA)
    n_target_actions: int | None = field(default=None, metadata=DATA)
    ess_fraction: float | None = field(default=None, metadata=ANSWER)
    max_weight_share: float | None = field(default=None, metadata=ANSWER)
    fit_seconds: float | None = None
    fit_cpu_seconds: float | None = None
    estimate_seconds: float | None = None
    shared_seconds: float = 0.0
    peak_rss_bytes: int | None = None
    gpu_peak_bytes: int | None = None
    exclusive: bool = False
    diagnostics: Mapping[str, Diagnostic] = field(default_factory=dict)
    access: tuple[str, ...] = ()
    origin: str = field(default="", metadata=SHARED)
    environment_origin: str = field(default="", metadata=SHARED)
    error_type: str | None = field(default=None, metadata=SHARED)
    error_message: str | None = field(default=None, metadata=SHARED)
    traceback: str | None = field(default=None, metadata=SHARED | LOCAL)
    output_tail: str | None = field(default=None, metadata=SHARED | LOCAL)
    note: str | None = field(default=None, metadata=SHARED)
    interval_low: float | None = field(default=None, metadata=ANSWER)
    interval_high: float | None = field(default=None, metadata=ANSWER)
    interval_level: float | None = field(default=None, metadata=ANSWER)
    interval_kind: str | None = field(default=None, metadata=SHARED | statuses.WORD)

    @property
    def key(self) -> str:
        """The trial's key."""
        return self.trial.key

    @property
    def answer(self) -> tuple[Status | float | None, ...]:
        """The fields that two runs of the same code on the same data share bit for bit."""
        return tuple(getattr(self, name) for name in ANSWER_FIELDS)

    @property
    def interval(self) -> Interval | None:
        """The estimator's own interval; None where it gave a standard error alone."""
        if self.interval_low is None or self.interval_high is None:
            return None
        kind = cast(IntervalKind, self.interval_kind)
        return Interval(self.interval_low, self.interval_high, self.interval_level or 0.0, kind)

    @property
    def withheld(self) -> str | None:
        """Return why the estimator withheld its standard error."""
        reason = self.diagnostics.get(STANDARD_ERROR_WITHHELD)
        return str(reason) if reason and self.standard_error is None else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what a reader must know of the estimate, its standard error or its interval."""
        if self.status is not Status.OK:
            return ()
        mean, least = map(self._number, ("mean_weight", LEAST_EFFECTIVE))
        kinds = (self.interval_kind,) if self.interval_kind else ()
        found = list(weight_warnings(self.max_weight_share, mean, least, kinds))
        own = self.interval
        if own is not None and self.estimate is not None and not own.holds(self.estimate):
            found.append(OUTSIDE)
        if self.diagnostics.get(ESTIMATE_WARNING):
            found.append(str(self.diagnostics[ESTIMATE_WARNING]))
        if self.withheld:
            found.append(f"standard error withheld: {self.withheld}")
        return tuple(found)

    @property
    def signal(self) -> float | None:
        """Return the signal of the log, where the estimator tells it."""
        return self._number(SIGNAL)

    def _number(self, diagnostic: str) -> float | None:
        """Return a diagnostic that is a number."""
        value = self.diagnostics.get(diagnostic)
        return float(value) if isinstance(value, int | float) else None

    @property
    def reason(self) -> str:
        """Return why there is no estimate, with what to do and the plugin's line; else empty."""
        message = self.error_message or self.error_type or ""
        return reason_of(self.status, message, self.traceback, self.trial.estimator)

    def as_json(self) -> dict[str, Any]:
        """Return what was asked, what came of it, and the warnings, as plain JSON."""
        trial = self.trial
        facts = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "trial"}
        asked = {
            "key": trial.key,
            "environment": trial.environment.id,
            "environment_params": trial.environment.params,
            "estimator": trial.estimator.id,
            "params": trial.estimator.params,
            "replicate": trial.replicate,
            "seed": trial.seed,
            "device": trial.device.value,
            "salt": trial.salt,
        }
        document: dict[str, Any] = plain({**asked, **facts, "warnings": self.warnings})
        return document

    def __repr__(self) -> str:
        return f"<{str(self).splitlines()[0]}>"

    def __str__(self) -> str:
        spread = "" if self.standard_error is None else f" ± {self.standard_error:.3g}"
        answer = "no estimate" if self.estimate is None else f"{self.estimate:.6g}{spread}"
        if self.interval is not None:
            answer += f", {self.interval}"
        what = f"{self.trial.estimator.id} on {self.trial.environment.id}"
        line = f"{what}, replicate {self.trial.replicate}: {answer} ({self.status})"
        reasons = (self.reason,) if self.reason else ()
        return "\n".join([line, *(f"  {text}" for text in (*reasons, *self.warnings))])


def reason_of(status: Status, message: str, traceback: str | None, estimator: PluginSpec) -> str:
    """Return why a trial has no estimate, see `TrialRecord.reason`.

    Parameters
    ----------
    message, traceback : of the error.
    """
    if status is Status.OK:
        return ""
    if not status.broken:
        return " ".join(message.split())
    path, _, _ = estimator.reference.rpartition(":")
    return explain(message, traceback, path)


# Convert records and specs to rows of plain values, and back.

RECORD = statuses.columns_of(TrialRecord)
"""The columns of a record without its trial."""

RECORD_COLUMNS = tuple(column.name for column in RECORD)
"""Names of these columns, also those of the store."""

_PLAIN = {column.name: column.to_plain for column in RECORD}
_RESTORED = {column.name: column.from_plain for column in RECORD if column.from_plain}

TRIAL_COLUMNS = ("replicate", "seed", "device", "threads", "salt")
"""Columns of a trial without its specs."""

SPEC_COLUMNS = ("kind", "reference", "plugin", "params", "worlds", "version", "origin")


def to_row(record: TrialRecord) -> tuple[Plain, ...]:
    """Convert a record's own fields, in the order of ``RECORD_COLUMNS``."""
    facts = record.__dict__
    return tuple(
        None if facts[name] is None else plain(facts[name]) for name, plain in _PLAIN.items()
    )


def plain_facts(facts: Mapping[str, Any]) -> dict[str, Plain]:
    """Convert fields of a record to plain values."""
    return {name: None if value is None else _PLAIN[name](value) for name, value in facts.items()}


def facts_from(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Convert plain values to fields of a record."""
    return {
        name: _RESTORED[name](value) if value is not None and name in _RESTORED else value
        for name, value in plain.items()
    }


def from_row(trial: Trial, row: tuple[Any, ...]) -> TrialRecord:
    """Build the record of a trial from a row of ``RECORD_COLUMNS``."""
    record = object.__new__(TrialRecord)
    # A frozen dataclass's __init__ calls object.__setattr__ for each of its thirty fields, too
    # slow for a hundred thousand rows.
    facts = record.__dict__
    facts["trial"] = trial
    facts.update(zip(RECORD_COLUMNS, row, strict=True))
    for name, restored in _RESTORED.items():
        if facts[name] is not None:
            facts[name] = restored(facts[name])
    return record


def part_from_row(columns: Sequence[str], trial: Trial, row: Sequence[Plain]) -> TrialRecord:
    """Build a record of some columns, at a third of the memory; others have their defaults.

    Only for readers that know which columns they need: where a column has no default, there is
    no such attribute.
    """
    record = object.__new__(TrialRecord)
    facts = record.__dict__
    facts["trial"] = trial
    for name, value in zip(columns, row, strict=True):
        # None is the default, which the class holds.
        if value is not None:
            facts[name] = _RESTORED[name](value) if name in _RESTORED else value
    return record


def trial_row(trial: Trial) -> tuple[Plain, ...]:
    """Convert a trial's own fields, in the order of ``TRIAL_COLUMNS``."""
    return trial.replicate, trial.seed, trial.device.value, trial.threads, trial.salt or None


def trial_from(environment: PluginSpec, estimator: PluginSpec, row: Sequence[Any]) -> Trial:
    """Build a trial from a row of ``TRIAL_COLUMNS``."""
    replicate, seed, device, threads, salt = row
    return Trial(
        environment,
        estimator,
        replicate,
        seed=seed,
        device=Device(device),
        threads=threads,
        salt=salt or "",
    )


def spec_row(spec: PluginSpec) -> tuple[str, tuple[Plain, ...]]:
    """Convert a spec to its digest and a row of ``SPEC_COLUMNS``; labels belong to runs."""
    # Cached on the spec, because thousands of trials share a few specs.
    known: tuple[str, tuple[Plain, ...]] | None = spec.__dict__.get("_row")
    if known is None:
        row = (
            spec.kind,
            spec.reference,
            spec.id,
            canonical_json(spec.params),
            spec.worlds,
            spec.version,
            spec.origin,
        )
        known = digest(row), row
        object.__setattr__(spec, "_row", known)
    return known


def spec_from(row: Mapping[str, Any], label: str = "") -> PluginSpec:
    """Build a spec from a row."""
    params = json.loads(row["params"])
    if not isinstance(params, dict):
        msg = f"the parameters of {row['plugin']!r} are no mapping"
        raise TypeError(msg)
    spec = PluginSpec(
        row["kind"],
        row["reference"],
        row["plugin"],
        params,
        worlds=row["worlds"],
        version=row["version"],
        origin=row["origin"],
    )
    return replace(spec, label=label) if label else spec
