"""Boards from what is committed under results/: from exported trials, and from their JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ope_bench.boards.board import Board, Interval, Row
from ope_bench.boards.columns.coverage import ESS_PARTS
from ope_bench.boards.figures import Cost, DiagnosticSummary, Support, Warnings, Withheld
from ope_bench.canonical import canonical_json
from ope_bench.plugins.spec import PluginSpec
from ope_bench.statistics.coverage import LEVEL, Coverage, Share
from ope_bench.statistics.distribution import Summary
from ope_bench.statistics.value_intervals.weights import EFFECTIVE_SAMPLE_SIZE
from ope_bench.trials.devices import Device
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status

SUPPORT = tuple(Support.__dataclass_fields__)

INTERVAL = ("interval_low", "interval_high", "interval_level", "interval_kind")

EXPORTED_NOT = (
    "fit_seconds",
    "estimate_seconds",
    "seconds",
    "warnings_judged",
    "warning_precision",
    "warning_recall",
)
"""Figures of a board that need more than exported trials: which ran alone, and fallbacks."""


def board_from_json(told: dict[str, Any]) -> Board:
    """The board that ``leaderboard --format json`` printed."""
    facts = {name: value for name, value in told.items() if name != "rows"}
    return Board(**facts, rows=tuple(map(_row, told["rows"])))


def _row(told: dict[str, Any]) -> Row:
    copied = (
        "rank", "estimator", "label", "params", "device", "threads", "origin", "replicates",
        "heavy_tailed", "rmse_empirical", "score", "tied", "detectable",
        "imputed", "error_cdf_area", "status",
    )  # fmt: skip
    relative = told["relative_rmse"]
    return Row(
        **{name: told[name] for name in copied},
        access=tuple(told["access"]),
        rmse=Interval(value=told["rmse"], low=told["rmse_low"], high=told["rmse_high"]),
        truth_rms=told["rmse"] / relative if relative else None,
        errors=Summary(
            told["finite"],
            **{name: told[name] for name in ("bias", "sd", "median_absolute_error")},
            **{name: told[name] for name in ("worst", "cvar")},
            quantiles=tuple(told["quantiles"]),
        ),
        positivity=_share(told["positivity_rate"]),
        failure=_share(*(told[f"failure_{part}"] for part in ("rate", "low", "high"))),
        warnings=Warnings(
            warned=told["warned"],
            judged=told["warnings_judged"],
            precision=told["warning_precision"],
            recall=told["warning_recall"],
        ),
        coverage=_coverage(told),
        withheld=Withheld(
            count=told["withheld"],
            reasons=tuple(
                text.partition(": ")[2]
                for text in told["warnings"]
                if text.startswith("standard error withheld")
            ),
        ),
        support=Support(**{name: told[name] for name in SUPPORT}),
        cost=Cost(**{name: told[name] for name in Cost.__dataclass_fields__}),
        diagnostics={
            name: DiagnosticSummary(
                count=1, mean=value, median=value, minimum=value, maximum=value
            )
            for name, value in told["diagnostics"].items()
        },
    )


def _coverage(told: dict[str, Any]) -> Coverage:
    total = told["intervals"]
    share = _share(told["coverage"], told["coverage_low"], told["coverage_high"])
    return Coverage(
        share=replace(share, total=total, count=round(total * (told["coverage"] or 0))),
        below=round(total * (told["missed_below"] or 0)),
        above=round(total * (told["missed_above"] or 0)),
        width=told["interval_width"],
        # Boards by other measures do without these.
        median_width=told.get("median_interval_width"),
        score=told.get("interval_score"),
        level=told.get("interval_level") or LEVEL,
        kind=told.get("interval_kind") or "",
        by_ess=tuple(_part(told, key) for key, *_ in ESS_PARTS if f"intervals_ess_{key}" in told),
    )


def _part(told: dict[str, Any], key: str) -> Coverage:
    total, value = told[f"intervals_ess_{key}"], told[f"coverage_ess_{key}"]
    share = Share(count=round(total * (value or 0)), total=total, value=value, low=None, high=None)
    return Coverage(share=share, below=0, above=0, width=None)


def _share(value: float | None, low: float | None = None, high: float | None = None) -> Share:
    return Share(count=0, total=0, value=value, low=low, high=high)


def records_of(folder: Path) -> list[TrialRecord]:
    """The exported trials of a folder.

    What an export leaves out but a board needs is taken from the committed board: labels, access
    and origins; and means over replicates, which stand in the first record alone so that they
    stay what they are. The logging average is the estimate of the estimator of that name.
    """
    boards = json.loads((folder / "leaderboard.json").read_text(encoding="utf-8"))["boards"]
    lines = {
        (board["environment"], canonical_json(board["environment_params"]), *identity(line)): (
            board,
            line,
        )
        for board in boards
        for line in board["rows"]
    }
    rows = pq.read_table(folder / "trials.parquet").to_pylist()
    averages = {
        _data(row): row["estimate"] for row in rows if row["estimator"] == "logging-average"
    }
    seen: set[int] = set()
    records = []
    for row in rows:
        setting = json.loads(row["environment_params"])
        worlds = setting.pop("worlds")
        row["params"] = json.loads(row["params"])
        board, line = lines[row["environment"], canonical_json(setting), *identity(row)]
        first = id(line) not in seen
        seen.add(id(line))
        environment = PluginSpec(
            "environment",
            "",
            board["environment"],
            setting,
            worlds=worlds,
            version=board["environment_version"],
        )
        estimator = PluginSpec(
            "estimator", "", line["estimator"], line["params"], label=_given_label(line)
        )
        records.append(
            TrialRecord(
                Trial(
                    environment,
                    estimator,
                    row["replicate"],
                    seed=row["seed"],
                    device=Device(row["device"]),
                ),
                row["code_digest"],
                Status(row["status"]),
                estimate=row["estimate"],
                standard_error=row["standard_error"],
                truth_expected=row["truth_expected"],
                truth_empirical=row["truth_empirical"],
                logging_average=averages.get(_data(row)),
                fit_seconds=row["fit_seconds"],
                estimate_seconds=row["estimate_seconds"],
                peak_rss_bytes=row["peak_rss_bytes"],
                exclusive=line["fit_seconds"] is not None,
                diagnostics=json.loads(row["diagnostics"]),
                access=tuple(line["access"]),
                origin=line["origin"],
                environment_origin=board["environment_origin"],
                **{name: row.get(name) for name in INTERVAL},
                **_support(line if first else {}, row, setting),
            )
        )
    return records


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


def _support(line: dict[str, Any], row: dict[str, Any], setting: dict[str, Any]) -> dict[str, Any]:
    """Return what the first record of a line says of support, and each of its weights."""
    support = {name: line.get(name) for name in SUPPORT}
    effective = json.loads(row["diagnostics"]).get(EFFECTIVE_SAMPLE_SIZE)
    if effective is not None:
        support["ess_fraction"] = effective / setting["n_samples"]
    return support
