"""Predictions of differences, written before their sources were opened, and the verdict on them.

    results/regenerate run predictions register   writes results/predictions/registered.json
    results/regenerate run predictions judge      writes results/predictions/verdict.json

`register` reads committed trials only, and refuses where trials of the other sources exist.
`judge` reads the registered file, and checks that the committed trials, which have gained columns
since, give it still.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from judging.claims.differences import (
    ADVISED,
    GOAL,
    NAMED,
    REFERENCE,
    SOURCES,
    SettingErrors,
    fitted,
    judged,
    left_out_errors,
    settings_of,
)
from judging.trials.rows import rows_of

from ope_bench.base.canonical import sha256

RESULTS = Path(__file__).resolve().parents[1]
FOLDER = RESULTS / "predictions"
REGISTERED, OPENED, VERDICT = (
    FOLDER / name for name in ("registered.json", "opened.parquet", "verdict.json")
)
WORLDS = 60
"""Drawn worlds that had been run when the predictions were registered; more were run later."""

CANDIDATES = {
    f"{facts}, {' and '.join(kinds)}": (facts, kinds)
    for kinds in (("tables",), ("worlds", "tables"), ("worlds",))
    for facts in ("none", "plain", "crossed")
}


def opened() -> list[SettingErrors]:
    """Return the settings that predictions are made from."""
    found = []
    for folder, kind in SOURCES.items():
        found += settings_of(RESULTS / folder / "trials.parquet", kind, WORLDS)
    return found


def data_sets() -> int:
    """Return how many data sets of each opened table there are."""
    return 1 + int(max(row["replicate"] for row in rows_of(OPENED, "replicate")))


def document(settings: list[SettingErrors]) -> dict[str, Any]:
    """Return the predictions: of the candidates that whose error on left-out tables is least."""
    errors = {
        key: round(left_out_errors(settings, kinds, facts), 6)
        for key, (facts, kinds) in CANDIDATES.items()
    }
    best = min(errors, key=lambda key: errors[key])

    def weights(key: str) -> dict[str, Any]:
        facts, kinds = CANDIDATES[key]
        model = fitted([one for one in settings if one.kind in kinds], facts)
        rounded = {name: [round(x, 6) for x in one] for name, one in model.weights.items()}
        return {"facts": model.facts, "weights": rounded}

    return {
        "measure": f"logarithm of RMSE over that of {REFERENCE}, mean over settings of a source",
        "pairs": [f"{name}/{REFERENCE}" for name in NAMED],
        "advised": ADVISED,
        "goal": GOAL,
        "chosen": best,
        "left_out_errors": errors,
        **weights(best),
        "naive": {
            "mean of opened tables": weights("none, tables"),
            "drawn worlds alone": weights("plain, worlds"),
        },
        "made_from": {
            f"{folder}/trials.parquet": sha256(RESULTS / folder / "trials.parquet")
            for folder in SOURCES
        },
        "suite": sha256(FOLDER / "unopened.yaml"),
    }


def main(words: Sequence[str]) -> None:
    """Register, or judge."""
    if [*words] == ["register"]:
        if OPENED.exists():
            sys.exit(f"{OPENED} exists: the sources are open, and nothing can be predicted")
        told = {"date": datetime.now(UTC).date().isoformat(), **document(opened())}
        REGISTERED.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    elif [*words] == ["judge"]:
        told = json.loads(REGISTERED.read_text(encoding="utf-8"))
        if document(opened())["weights"] != told["weights"]:
            sys.exit("committed trials no longer give the registered predictions")
        if sha256(FOLDER / "unopened.yaml") != told["suite"]:
            sys.exit("unopened.yaml is not the suite that was registered")
        verdict = {"data_sets": data_sets(), **judged(told, settings_of(OPENED, "tables"))}
        VERDICT.write_text(json.dumps(verdict, indent=1) + "\n", encoding="utf-8")
    else:
        sys.exit("results/regenerate run predictions takes one word: register or judge")
