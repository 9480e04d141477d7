"""The trials of ``field``, ``field-real`` and ``field-slow``, by setting and entrant."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from judging.trials import ends_of, rows_of
from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.view import Access
from ope_bench.plugins.spec import resolve
from ope_bench.trials.trial import build

FOLDERS = ("field", "field-real", "field-slow")
FALLBACK = "logging-average"
"""What stands in for a trial without an answer: every team has the logged average."""


@dataclass(frozen=True, eq=False)
class Answers:
    """What one entrant said in one setting, by replicate.

    Parameters
    ----------
    value : (n_replicates,), estimates; the logged average's where there is none.
    standard_error : (n_replicates,), NaN without one.
    held : (n_replicates,), whether its own 95 % interval held the value; NaN without one.
    failed : (n_replicates,), whether there was no answer.
    seconds : (n_replicates,), processor time of its fit.
    """

    value: FloatArray
    standard_error: FloatArray
    held: FloatArray
    failed: FloatArray
    seconds: FloatArray


@dataclass(frozen=True, eq=False)
class Setting:
    """One world or real table, with the answers of all entrants.

    Parameters
    ----------
    source : what is drawn as a whole: a world, or a table or trial of which there are settings.
    number : of the drawn world; None for a real table.
    facts : of the world, by name.
    truth : (n_replicates,)
    answers : by entrant.
    others : (n_replicates,), of a trial: the value in the rows that each log leaves.
    """

    source: str
    number: int | None
    facts: Mapping[str, Any]
    truth: FloatArray
    answers: dict[str, Answers] = field(default_factory=dict)
    others: FloatArray | None = None
    _logs: dict[str, float] = field(default_factory=dict, init=False, repr=False)

    @property
    def real(self) -> bool:
        """Whether it is a real table."""
        return self.number is None

    @property
    def odd(self) -> bool:
        """Whether the world's number is odd: odd worlds choose, even ones confirm."""
        return self.number is not None and self.number % 2 == 1

    @property
    def trial(self) -> str | None:
        """The randomized trial whose rewards these are, if they are one's."""
        return self.source.removeprefix("randomized ") if "randomized " in self.source else None

    def errors(self, entrant: str) -> FloatArray:
        """(n_replicates,) estimate less value."""
        return self.answers[entrant].value - self.truth

    def errors_against_others(self, entrant: str) -> FloatArray:
        """(n_replicates,) estimate less the value in the rows that the log leaves, if known."""
        value = self.truth if self.others is None else self.others
        return self.answers[entrant].value - value

    def log_rmse(self, entrant: str) -> float:
        """Logarithm of the entrant's RMSE; errors below 1e-12 count as that.

        Pages ask for each a hundred times.
        """
        if entrant not in self._logs:
            mean_square = float(np.square(self.errors(entrant)).mean())
            self._logs[entrant] = 0.5 * float(np.log(max(mean_square, 1e-24)))
        return self._logs[entrant]


def _id_of(row: Mapping[str, Any]) -> str:
    return str(row["estimator"])


def settings_of(
    results: Path,
    folders: Sequence[str] = FOLDERS,
    entrant_of: Callable[[Mapping[str, Any]], str] = _id_of,
) -> list[Setting]:
    """Read the settings from committed trials.

    Those with row weights are left out, and those of which no log could be drawn.

    Parameters
    ----------
    results : the folder results/.
    folders : of suites.
    entrant_of : name of a trial's entrant.

    Raises
    ------
    LookupError : the trials of a suite are missing.
    """
    return list(_settings(results, tuple(folders), entrant_of))


@cache
def _settings(
    results: Path, folders: tuple[str, ...], entrant_of: Callable[[Mapping[str, Any]], str]
) -> list[Setting]:
    """Several pages are about the same settings."""
    cells: dict[tuple[str, str, str], dict[str, list[dict[str, Any]]]] = {}
    others: dict[str, dict[str, tuple[float, float]]] = {}
    for folder in folders:
        path = results / folder / "other-rows.json"
        # A setting of such a folder may be another folder's, with other replicates.
        alone = folder if path.exists() else ""
        if alone:
            others |= json.loads(path.read_text(encoding="utf-8"))
        for row in rows_of(results / folder):
            where = row["environment"], row["environment_params"], alone
            cells.setdefault(where, {}).setdefault(entrant_of(row), []).append(row)
    loads = cache(json.loads)
    found = []
    for (environment, text, alone), by_entrant in cells.items():
        params = loads(text)
        rows = sorted(by_entrant.pop(FALLBACK), key=lambda row: row["replicate"])
        facts: dict[str, Any] = next(
            (loads(row["diagnostics"]) for row in rows if row["diagnostics"]), {}
        )
        if facts.get("damage_retention") and _weighted(params):
            continue
        if any(row["status"] != "ok" for row in rows):
            # No log of such a world could be drawn: its faults leave too few rows.
            continue
        average = np.array([row["estimate"] for row in rows], dtype=np.float64)
        setting = Setting(
            _source(environment, params),
            facts.get("world"),
            facts,
            np.array([row["truth_expected"] for row in rows], dtype=np.float64),
            others=np.array([others[text][str(row["replicate"])][0] for row in rows])
            if alone
            else None,
        )
        for entrant, its in [(FALLBACK, rows), *by_entrant.items()]:
            its.sort(key=lambda row: row["replicate"])
            if len(its) == len(rows):
                setting.answers[entrant] = _answers(its, average)
        found.append(setting)
    return sorted(found, key=lambda one: (one.real, one.number or 0, one.source))


def _weighted(params: Mapping[str, Any]) -> bool:
    from ope_environments.damaged.priors import drawn_damages

    return bool(drawn_damages(params["environment"]).get("weighted"))


def _source(environment: str, params: Mapping[str, Any]) -> str:
    if environment == "multiclass":
        return f"multiclass {params['dataset']}"
    if environment == "randomized":
        return f"randomized {params['data']}"
    if environment == "full-feedback":
        return environment
    return f"world {params.get('world', params.get('environment'))}"


def _answers(rows: Sequence[Mapping[str, Any]], average: FloatArray) -> Answers:
    ok = np.array([row["status"] == "ok" for row in rows])
    ends = np.array([ends_of(row) for row in rows])
    truth = np.array([row["truth_expected"] for row in rows], dtype=np.float64)
    value, error, seconds = (
        np.array([row[name] for row in rows], dtype=np.float64)
        for name in ("estimate", "standard_error", "fit_cpu_seconds")
    )
    held = np.where(np.isnan(ends[:, 0]), np.nan, (ends[:, 0] <= truth) & (truth <= ends[:, 1]))
    return Answers(
        np.where(ok, value, average),
        np.where(ok, error, np.nan),
        held,
        (~ok).astype(float),
        seconds,
    )


@dataclass(frozen=True)
class Track:
    """Entrants that may know the same, on the settings where all of that is known.

    Parameters
    ----------
    name : of the track.
    granted : what its entrants may use beyond samples.
    reference : the entrant over whose RMSE all others' is divided.
    panel : entrants of which the best in a setting is what others are compared with; they are
        fixed, so that nobody's figures depend on who else enters.
    """

    name: str
    granted: Access
    reference: str
    panel: tuple[str, ...]

    def holds(self, setting: Setting) -> bool:
        """Return whether everything granted is known in a setting."""
        known = setting.facts.get("world_known", "policy")
        target = setting.facts.get("world_target_form", "probabilities") == "probabilities"
        if not self.granted:
            return True
        enough = known == "policy" if Access.LOGGING_POLICY in self.granted else known != "samples"
        return bool(target and enough)

    def entrants(self, settings: Iterable[Setting]) -> list[str]:
        """Return the estimators of the trials that need no more than is granted, by name."""
        ids = sorted({entrant for setting in settings for entrant in setting.answers})
        return [one for one in ids if not access_of(one) & ~self.granted]


TRACKS = (
    Track("samples only", Access.SAMPLES, "dm-star", (FALLBACK, "dm-star", "edm-star", "epws")),
    Track(
        "propensities and target policy",
        Access.PROPENSITY | Access.TARGET_POLICY,
        "ipws",
        (FALLBACK, "ipws", "dm", "dr", "sndr", "dr-os", "dm-star"),
    ),
    Track(
        "both policies and embedding",
        Access.LOGGING_POLICY | Access.TARGET_POLICY | Access.EMBEDDING_DISTRIBUTION,
        "ipws",
        (FALLBACK, "ipws", "dm", "dr", "sndr", "dr-os", "dm-star", "mips"),
    ),
)


@cache
def access_of(entrant: str) -> Access:
    """Return what an estimator at its defaults needs beyond samples."""
    access: Access = build(resolve("estimator", entrant)).access
    return access
