"""Records as a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from ope_bench.canonical import canonical_json
from ope_bench.plugins.labels import distinct_labels
from ope_bench.plugins.requirements import import_all
from ope_bench.plugins.resolution import complete_params
from ope_bench.plugins.spec import PluginSpec
from ope_bench.trials.record import TrialRecord

__all__ = ["frame", "lines"]

LONG = ("trial", "traceback", "output_tail", "code_digest")
"""Fields that a table has no room for."""


def frame(records: Sequence[TrialRecord]) -> Any:
    """Return the `lines` as a data frame.

    Raises
    ------
    UnavailableError : pandas is not installed.
    """
    import_all(["pandas"])
    import pandas as pd

    return pd.DataFrame(lines(records))


def lines(records: Sequence[TrialRecord]) -> list[dict[str, Any]]:
    """Return one line for each record, with the parameters that vary as columns."""
    kept = [one.name for one in fields(TrialRecord) if one.name not in LONG]
    labels = distinct_labels([one.trial.estimator for one in records])
    specs = [(_params(one.trial.environment), _params(one.trial.estimator)) for one in records]
    varying = {f"env_{name}": (0, name) for name in _varying([env for env, _ in specs])}
    varying |= {f"est_{name}": (1, name) for name in _varying([est for _, est in specs])}
    return [
        {
            "environment": record.trial.environment.id,
            "estimator": record.trial.estimator.id,
            "label": label,
            **{column: pair[which].get(name) for column, (which, name) in varying.items()},
            "replicate": record.trial.replicate,
            "seed": record.trial.seed,
            "device": record.trial.device.value,
            **{name: getattr(record, name) for name in kept},
            "status": record.status.value,
            "warnings": "; ".join(record.warnings),
            "environment_params": pair[0],
            "params": pair[1],
            "key": record.key,
        }
        for record, label, pair in zip(records, labels, specs, strict=True)
    ]


def _params(spec: PluginSpec) -> dict[str, Any]:
    return complete_params(spec.kind, spec.reference, spec.params)


def _varying(params: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of parameters that differ, or that only some have."""
    names = dict.fromkeys(name for one in params for name in one)
    return [
        name
        for name in names
        if len({canonical_json(one[name]) if name in one else None for one in params}) > 1
    ]
