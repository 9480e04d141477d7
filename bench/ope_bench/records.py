"""What is asked (Trial) and what came of it (TrialRecord)."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Literal

from ope_bench.data import Diagnostic
from ope_bench.devices import BLOCK, is_batched
from ope_bench.seeding import DataSeed, Worlds, canonical_json

__all__ = ["KEY_SCHEMA", "PluginSpec", "Status", "Trial", "TrialRecord"]

KEY_SCHEMA = 1


class Status(enum.StrEnum):
    """How a trial ended."""

    OK = "ok"
    POSITIVITY = "positivity"
    NONFINITE = "nonfinite"
    ERROR = "error"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    CRASH = "crash"
    UNAVAILABLE = "unavailable"

    @property
    def broken(self) -> bool:
        """Whether a run with this outcome exits with 3."""
        return self in _BROKEN


_BROKEN = {Status.ERROR, Status.NONFINITE, Status.TIMEOUT, Status.MEMORY, Status.CRASH}


@dataclass(frozen=True)
class PluginSpec:
    """One environment or estimator with all its parameters.

    Parameters
    ----------
    kind : which registry.
    reference : how the registry finds it: ``ipw``, ``acme-ope:ipw`` or ``./my.py:MyIPW``.
    id : its canonical name, the one that keys and seeds use.
    params : all parameters, validated, as plain JSON values.
    label : what boards call it; empty for the default.
    worlds : environments only: one world a replicate, or one for all.
    version : environments only: counts changes that alter numbers.
    origin : distribution and version of the plugin, or its file.
    """

    kind: Literal["environment", "estimator"]
    reference: str
    id: str
    params: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    worlds: Worlds = "redrawn"
    version: int = 0
    origin: str = ""

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What of it enters a trial's key."""
        asked: dict[str, Any] = {"id": self.id, "params": dict(self.params)}
        if self.kind == "environment":
            asked |= {"worlds": self.worlds, "version": self.version}
        return asked

    @cached_property
    def identity_json(self) -> str:
        """The identity as canonical JSON: made once, though thousands of trials need it."""
        return canonical_json(self.identity)


@dataclass(frozen=True)
class Trial:
    """One estimator on one replicate of one environment."""

    environment: PluginSpec
    estimator: PluginSpec
    replicate: int
    seed: int = 0
    device: str = "cpu"
    threads: int = 1

    @cached_property
    def key(self) -> str:
        """SHA-256 of what is asked, as canonical JSON."""
        return _sha256(
            f'{{"device":{_quoted(self.device)},'
            f'"environment":{self.environment.identity_json},'
            f'"estimator":{self.estimator.identity_json},'
            f'"replicate":{self.replicate},"schema":{KEY_SCHEMA},'
            f'"seed":{self.seed},"threads":{self.threads}}}'
        )

    @cached_property
    def data_key(self) -> str:
        """SHA-256 of the data that the trial runs on; equal for all estimators."""
        return _sha256(f"[{self.environment.identity_json},{self.replicate},{self.seed}]")

    @cached_property
    def group(self) -> str:
        """What one worker had better run together: trials on the same data or, where replicates
        are trained together, those of the same block."""
        if not is_batched(self.device):
            return self.data_key
        block = self.replicate // BLOCK[self.device]
        where = f"{_quoted(self.device)},{self.threads}"
        return _sha256(f"[{self.environment.identity_json},{self.seed},{where},{block}]")

    @property
    def data_seed(self) -> DataSeed:
        """Whence all random streams of the trial derive."""
        environment = self.environment
        return DataSeed(environment.id, self.seed, self.replicate, environment.worlds)


@cache
def _quoted(text: str) -> str:
    return canonical_json(text)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class TrialRecord:
    """The outcome of one trial, as stored; None where a figure does not exist.

    Parameters
    ----------
    trial : what was asked.
    code_digest : who answered.
    status : how it ended.
    estimate, standard_error : what the estimator said.
    fallback : what it would have said, for ``positivity``.
    truth_expected, truth_expected_se, truth_empirical : see `ope_bench.data.Truth`.
    logging_average : mean reward of the replicate's logs, the naive estimate that failures are
        imputed with.
    unsupported_mass : target mass without support under the true logging policy.
    observed_unsupported_mass : share of the target sample's actions that were never logged.
    n_logged_actions, n_target_actions : different actions seen in either sample (d0, d1).
    ess_fraction : (sum w)^2 / (n sum w^2).
    max_weight_share : largest weight over the sum of weights.
    fit_seconds, fit_cpu_seconds, estimate_seconds : what the trial cost, shared fits included.
    shared_seconds : the part of ``fit_seconds`` and ``estimate_seconds`` that was found ready in
        the worker's memo and is charged again, or its share of what was trained together.
    peak_rss_bytes, gpu_peak_bytes : largest memory during the trial.
    exclusive : nothing else ran meanwhile, so its times may be compared.
    diagnostics : the estimator's own, and the comparison with the true ratio.
    access : what the estimator declared.
    origin : distribution and version of the estimator's plugin, or its file.
    environment_origin : the same for the environment, with a note such as "surrogate".
    error_type, error_message, traceback, output_tail : for everything but ``ok``.
    """

    trial: Trial
    code_digest: str
    status: Status
    estimate: float | None = None
    standard_error: float | None = None
    fallback: float | None = None
    truth_expected: float | None = None
    truth_expected_se: float | None = None
    truth_empirical: float | None = None
    logging_average: float | None = None
    unsupported_mass: float | None = None
    observed_unsupported_mass: float | None = None
    n_logged_actions: int | None = None
    n_target_actions: int | None = None
    ess_fraction: float | None = None
    max_weight_share: float | None = None
    fit_seconds: float | None = None
    fit_cpu_seconds: float | None = None
    estimate_seconds: float | None = None
    shared_seconds: float = 0.0
    peak_rss_bytes: int | None = None
    gpu_peak_bytes: int | None = None
    exclusive: bool = False
    diagnostics: Mapping[str, Diagnostic] = field(default_factory=dict)
    access: tuple[str, ...] = ()
    origin: str = ""
    environment_origin: str = ""
    error_type: str | None = None
    error_message: str | None = None
    traceback: str | None = None
    output_tail: str | None = None

    @property
    def key(self) -> str:
        """The trial's key."""
        return self.trial.key
