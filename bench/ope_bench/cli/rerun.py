"""``ope-bench rerun``: run one stored trial again and compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ope_bench.cli.options import DEFAULT_STORE, StoreOption
from ope_bench.cli.output import Format, FormatOption, document, write

if TYPE_CHECKING:
    from ope_bench.records import Trial, TrialRecord

__all__ = ["rerun"]

FIGURES = (
    "status",
    "estimate",
    "standard_error",
    "truth_expected",
    "truth_empirical",
    "code_digest",
    "fit_seconds",
    "estimate_seconds",
    "peak_rss_bytes",
    "error_type",
    "error_message",
)


def rerun(
    key: Annotated[str, typer.Argument(metavar="KEY", help="A trial's key; a prefix will do.")],
    store: StoreOption = DEFAULT_STORE,
    output: FormatOption = Format.TEXT,
) -> int:
    """Run one stored trial again: what it said then and now, and whether the bits agree.

    Nothing is stored, and no limit holds.
    """
    from ope_bench.cli.exit_codes import CLEAN, FAILED_TRIALS
    from ope_bench.store import Store

    with document(output) as emit:
        with Store.open(store) as opened:
            before = opened.find(key)
        after = _fresh(before.trial)
        code = FAILED_TRIALS if after.status.broken else CLEAN
        told = _compared(before, after)
        emit({"schema": 1, "store": str(store), **told, "exit_code": code})
    if output is Format.TEXT:
        write(_text(told))
    return code


def _fresh(trial: Trial) -> TrialRecord:
    """The trial's outcome now, from a worker, so that whatever ends it does not end us."""
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
    from ope_bench.resolve import selector_of

    trial = before.trial
    equal = (before.status, before.estimate, before.standard_error) == (
        after.status,
        after.estimate,
        after.standard_error,
    )
    return {
        "key": before.key,
        "environment": selector_of(trial.environment),
        "estimator": selector_of(trial.estimator),
        "replicate": trial.replicate,
        "seed": trial.seed,
        "device": trial.device,
        "bit_equal": equal,
        "same_code": before.code_digest == after.code_digest,
        "stored": {name: getattr(before, name) for name in FIGURES},
        "fresh": {name: getattr(after, name) for name in FIGURES},
        "traceback": after.traceback,
        "output_tail": after.output_tail,
    }


def _text(told: dict[str, Any]) -> str:
    lines = [
        f"key         {told['key']}",
        f"estimator   {told['estimator']}",
        f"environment {told['environment']}",
        f"replicate   {told['replicate']}, seed {told['seed']}, {told['device']}",
        "",
        f"{'':<17} {'stored':<26} fresh",
    ]
    for name in FIGURES:
        then, now = told["stored"][name], told["fresh"][name]
        if then is not None or now is not None:
            lines.append(f"{name:<17} {_word(then):<26} {_word(now)}".rstrip())
    verdict = "bit-equal" if told["bit_equal"] else "DIFFERENT"
    code = "same code" if told["same_code"] else "the code has changed since"
    lines += ["", f"{verdict} ({code})"]
    for name in ("traceback", "output_tail"):
        if told[name]:
            lines += ["", told[name].rstrip()]
    return "\n".join(lines)


def _word(value: Any) -> str:
    return "-" if value is None else " ".join(str(value).split())
