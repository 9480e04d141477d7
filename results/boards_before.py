"""Records of trials from what is committed under results/."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from judging.trials import plain_rows

from ope_bench.base.canonical import canonical_json
from ope_bench.boards.board import RowSupport
from ope_bench.plugins.spec import PluginSpec
from ope_bench.statistics.weight_checks import EFFECTIVE_SAMPLE_SIZE
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Device, Status

SUPPORT = tuple(RowSupport.__dataclass_fields__)

COPIED = (
    "estimate", "standard_error", "truth_expected", "truth_empirical", "fit_seconds",
    "estimate_seconds", "peak_rss_bytes", "interval_low", "interval_high", "interval_level",
    "interval_kind",
)  # fmt: skip
"""Columns of exported trials that are fields of a record."""

LINE = ("environment", "environment_params", "estimator", "params", "device")

_OF_TRIAL = ("replicate", "seed", "code_digest", "status", "diagnostics")

EXPORTED_NOT = (
    "fit_seconds",
    "estimate_seconds",
    "seconds",
    "warnings_judged",
    "warning_precision",
    "warning_recall",
)
"""Figures of a board that need more than exported trials: which ran alone, and fallbacks."""


def records_of(folder: Path, every: int = 1) -> list[TrialRecord]:
    """The exported trials of a folder, or those of its first board and each ``every``-th further.

    What an export leaves out but a board needs is taken from the committed board: labels, access
    and origins; and means over replicates, which stand in the first record alone so that they
    stay what they are. The logging average is the estimate of the estimator of that name.
    """
    boards = json.loads((folder / "leaderboard.json").read_text(encoding="utf-8"))["boards"]
    shown = boards[::every]
    lines = {
        (board["environment"], canonical_json(board["environment_params"]), *identity(line)): (
            board,
            line,
        )
        for board in shown
        for line in board["rows"]
    }

    @cache
    def line_of(environment: str, setting: str, estimator: str, params: str, device: str) -> _Line:
        """Rows of a line share their specs; parsing texts anew takes longer than all the rest."""
        given = json.loads(setting)
        worlds = given.pop("worlds")
        key = canonical_json(given), estimator, canonical_json(json.loads(params)), device
        board, line = lines[environment, *key]
        version = board["environment_version"]
        label = _given_label(line)
        return _Line(
            board,
            line,
            PluginSpec("environment", "", environment, given, worlds=worlds, version=version),
            PluginSpec("estimator", "", line["estimator"], line["params"], label=label),
        )

    given = {
        (board["environment"], canonical_json(board["environment_params"])) for board in shown
    }

    @cache
    def is_shown(environment: str, setting: str) -> bool:
        params = json.loads(setting)
        del params["worlds"]
        return (environment, canonical_json(params)) in given

    known = set(pq.read_schema(folder / "trials.parquet").names)
    table = pq.read_table(
        folder / "trials.parquet",
        columns=[name for name in (*LINE, *_OF_TRIAL, *COPIED) if name in known],
    )
    if every > 1:
        settings = zip(*(table[name].to_pylist() for name in LINE[:2]), strict=True)
        table = table.filter([is_shown(*setting) for setting in settings])
    rows = plain_rows(table)
    averages = {
        _data(row): row["estimate"] for row in rows if row["estimator"] == "logging-average"
    }
    seen: set[int] = set()
    records = []
    for row in rows:
        found = line_of(*(row[name] for name in LINE))
        line, first = found.line, id(found.line) not in seen
        seen.add(id(line))
        diagnostics = json.loads(row["diagnostics"])
        support: dict[str, Any] = {
            name: line[name] if first else None for name in SUPPORT if name in line
        }
        effective, n = (
            diagnostics.get(EFFECTIVE_SAMPLE_SIZE),
            found.environment.params["n_samples"],
        )
        # A table that is logged whole has a number of rows that the setting does not say.
        if effective is not None and n is not None:
            support["ess_fraction"] = effective / n
        copied: dict[str, Any] = {name: row.get(name) for name in COPIED}
        records.append(
            TrialRecord(
                Trial(
                    found.environment,
                    found.estimator,
                    row["replicate"],
                    seed=row["seed"],
                    device=Device(row["device"]),
                ),
                row["code_digest"],
                Status(row["status"]),
                logging_average=averages.get(_data(row)),
                exclusive=line["fit_seconds"] is not None,
                diagnostics=diagnostics,
                access=tuple(line["access"]),
                origin=line["origin"],
                environment_origin=found.board["environment_origin"],
                **copied,
                **support,
            )
        )
    return records


@dataclass(frozen=True)
class _Line:
    """A line of a committed board, and the specs of its trials."""

    board: dict[str, Any]
    line: dict[str, Any]
    environment: PluginSpec
    estimator: PluginSpec


def _given_label(line: dict[str, Any]) -> str:
    """Return the label that a suite gave a row, none where the board made it.

    A board shows the parameters in which its rows differ, so that a row's label changes where the
    suite gains another row of the same id.
    """
    estimator, label = line["estimator"], line["label"]
    made = re.fullmatch(rf"{re.escape(estimator)}( \w+=.*)?", label)
    return "" if made else label


def identity(line: dict[str, Any]) -> tuple[str, str, str]:
    """Return what tells a board's lines apart."""
    return line["estimator"], canonical_json(line["params"]), line["device"]


def _data(row: dict[str, Any]) -> tuple[str, str, int, int]:
    return row["environment"], row["environment_params"], row["seed"], row["replicate"]
