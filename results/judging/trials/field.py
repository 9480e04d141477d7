"""The trials of the leaderboard's suites, by setting and estimator."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from judging.trials.rows import ends_of, rows_of
from ope_bench.boards import tracks
from ope_bench.boards.tracks import Answers
from ope_bench.contracts.arrays import FloatArray
from ope_bench.contracts.view import Access
from ope_bench.plugins.spec import resolve
from ope_bench.trials.trial import build

FOLDERS = ("field", "field-signals", "field-real", "field-slow")
FALLBACK = tracks.rule().fallback


@dataclass(frozen=True, eq=False)
class FieldSetting(tracks.SettingAnswers):
    """One world or real table, with the answers of all estimators.

    Parameters
    ----------
    others : (n_replicates,), of a trial: the value in the rows that each log leaves.
    """

    others: FloatArray | None = None

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

    def errors_against_others(self, estimator: str) -> FloatArray:
        """(n_replicates,) estimate less the value in the rows that the log leaves, if known."""
        value = self.truth if self.others is None else self.others
        return self.answers[estimator].value - value


def _id_of(row: Mapping[str, Any]) -> str:
    return str(row["estimator"])


def settings_of(
    results: Path,
    folders: Sequence[str] = FOLDERS,
    estimator_of: Callable[[Mapping[str, Any]], str] = _id_of,
) -> list[FieldSetting]:
    """Read the settings from committed trials.

    Those with row weights are left out, the made table, and those of which no log could be drawn.

    Parameters
    ----------
    results : the folder results/.
    folders : of suites.
    estimator_of : name of a trial's estimator.

    Raises
    ------
    LookupError : the trials of a suite are missing, or an estimator has fewer than others.
    """
    return list(_settings(results, tuple(folders), estimator_of))


@cache
def _settings(
    results: Path, folders: tuple[str, ...], estimator_of: Callable[[Mapping[str, Any]], str]
) -> list[FieldSetting]:
    """Several pages are about the same settings."""
    cells: dict[tuple[str, str, str], dict[str, list[dict[str, Any]]]] = {}
    others: dict[str, dict[str, tuple[float, float]]] = {}
    signals: dict[tuple[str, str, str], list[float]] = {}
    for folder in folders:
        path = results / folder / "other-rows.json"
        # A setting of such a folder may be another folder's, with other replicates.
        alone = folder if path.exists() else ""
        if alone:
            others |= json.loads(path.read_text(encoding="utf-8"))
        for row in rows_of(results / folder):
            where = row["environment"], row["environment_params"], alone
            cells.setdefault(where, {}).setdefault(estimator_of(row), []).append(row)
            if row.get("signal") is not None:
                signals.setdefault(where, []).append(row["signal"])
    loads = cache(json.loads)
    found = []
    for where, by_estimator in cells.items():
        environment, text, alone = where
        params = loads(text)
        if environment == "full-feedback" and not params["path"]:
            continue  # a made table: neither a drawn world nor a real one
        rows = sorted(by_estimator.pop(FALLBACK), key=lambda row: row["replicate"])
        facts: dict[str, Any] = next(
            (loads(row["diagnostics"]) for row in rows if row["diagnostics"]), {}
        )
        if facts.get("damage_retention") and _weighted(params):
            continue
        if any(row["status"] != "ok" for row in rows):
            # No log of such a world could be drawn: its faults leave too few rows.
            continue
        average = np.array([row["estimate"] for row in rows], dtype=np.float64)
        setting = FieldSetting(
            _source(environment, params),
            facts.get("world"),
            facts,
            np.array([row["truth_expected"] for row in rows], dtype=np.float64),
            others=np.array([others[text][str(row["replicate"])][0] for row in rows])
            if alone
            else None,
            signal=float(np.median(signals[where])) if where in signals else None,
        )
        for estimator, its in [(FALLBACK, rows), *by_estimator.items()]:
            its.sort(key=lambda row: row["replicate"])
            if len(its) != len(rows):
                msg = f"{estimator}: {len(its)} of {len(rows)} data sets of {text}"
                raise LookupError(msg)
            setting.answers[estimator] = _answers(its, average)
        found.append(setting)
    return sorted(found, key=lambda one: (one.real, one.number or 0, one.source))


def _weighted(params: Mapping[str, Any]) -> bool:
    from ope_environments.damaged.faults import drawn_faults

    faults = drawn_faults(params["environment"], priors=params.get("priors", 1))
    return bool(faults.get("weighted"))


def _source(environment: str, params: Mapping[str, Any]) -> str:
    if environment == "multiclass":
        return f"multiclass {params['dataset']}"
    if environment == "randomized":
        return f"randomized {params['data']}"
    if environment == "full-feedback":
        return environment
    # World 3 of the first priors is none of the second ones.
    priors = " of the second priors" if params.get("priors") == 2 else ""
    return f"world {params.get('world', params.get('environment'))}{priors}"


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
        access_of(str(rows[0]["estimator"])),
        all(row["status"] != "unavailable" for row in rows),
    )


TRACKS = tracks.rule().tracks


@cache
def access_of(estimator: str) -> Access:
    """Return what an estimator at its defaults needs beyond samples."""
    access: Access = build(resolve("estimator", estimator)).access
    return access
