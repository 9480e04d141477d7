"""``ope-bench rerun``: run one stored trial again and compare outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ope_bench.cli.options import DEFAULT_STORE, StoreOption
from ope_bench.console.output import Format, FormatOption, document, write

if TYPE_CHECKING:
    from ope_bench.trials.record import Trial, TrialRecord

__all__ = ["command"]

FIGURES = (
    "status",
    "estimate",
    "standard_error",
    "interval_low",
    "interval_high",
    "truth_expected",
    "truth_empirical",
    "code_digest",
    "fit_seconds",
    "estimate_seconds",
    "peak_rss_bytes",
    "error_type",
    "error_message",
)


def command(
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="A trial's key, or the beginning of one.")
    ],
    store: StoreOption = DEFAULT_STORE,
    output: FormatOption = Format.TEXT,
) -> int:
    """Run one stored trial again and compare stored and new outcome bit for bit.

    Nothing is stored, and no limits apply.
    """
    from ope_bench.cli.exit_codes import CLEAN, FAILED_TRIALS
    from ope_bench.store import Store

    with document(output) as emit:
        with Store.open(store) as opened:
            before = opened.find(key)
        after = _fresh(before.trial)
        code = FAILED_TRIALS if after.status.broken else CLEAN
        facts = _compared(before, after)
        emit({"schema": 1, "store": str(store), **facts, "exit_code": code})
    if output is Format.TEXT:
        write(_text(facts))
    return code


def _fresh(trial: Trial) -> TrialRecord:
    """Run the trial in a worker process, so that a crash does not end this process."""
    from ope_bench.execution import Finished
    from ope_bench.execution.local import LocalExecutor

    executor = LocalExecutor(1, threads=trial.threads)
    try:
        for event in executor.run([trial]):
            if isinstance(event, Finished):
                return event.record
    finally:
        executor.close()
    raise KeyboardInterrupt


def _compared(before: TrialRecord, after: TrialRecord) -> dict[str, Any]:
    from ope_bench.suites.selector import selector_of

    trial = before.trial
    return {
        "key": before.key,
        "environment": selector_of(trial.environment),
        "estimator": selector_of(trial.estimator),
        "replicate": trial.replicate,
        "seed": trial.seed,
        "device": trial.device.value,
        "bit_equal": before.answer == after.answer,
        "same_code": before.code_digest == after.code_digest,
        "stored": {name: getattr(before, name) for name in FIGURES},
        "fresh": {name: getattr(after, name) for name in FIGURES},
        "warnings": list(after.warnings),
        "note": after.note,
        "traceback": after.traceback,
        "output_tail": after.output_tail,
    }


def _text(facts: dict[str, Any]) -> str:
    lines = [
        f"key         {facts['key']}",
        f"estimator   {facts['estimator']}",
        f"environment {facts['environment']}",
        f"replicate   {facts['replicate']}, seed {facts['seed']}, {facts['device']}",
        "",
        f"{'':<17} {'stored':<26} fresh",
    ]
    for name in FIGURES:
        then, now = facts["stored"][name], facts["fresh"][name]
        if then is not None or now is not None:
            lines.append(f"{name:<17} {_format_value(then):<26} {_format_value(now)}".rstrip())
    verdict = "bit-equal" if facts["bit_equal"] else "DIFFERENT"
    code = "same code" if facts["same_code"] else "the code has changed since"
    lines += ["", f"{verdict} ({code})"]
    lines += [f"warning: {text}" for text in facts["warnings"]]
    if facts["note"]:
        lines.append(f"the trial {facts['note']}; no other trial saw that")
    for name in ("traceback", "output_tail"):
        if facts[name]:
            lines += ["", facts[name].rstrip()]
    return "\n".join(lines)


def _format_value(value: Any) -> str:
    return "-" if value is None else " ".join(str(value).split())
