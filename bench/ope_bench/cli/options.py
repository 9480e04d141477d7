"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

from ope_bench.base.console import Format
from ope_bench.base.errors import UsageError, did_you_mean
from ope_bench.base.units import parse_duration, parse_size
from ope_bench.trials.status import Device

Value = TypeVar("Value")

DEFAULT_STORE = Path("ope-bench.sqlite")

LARGEST_SEED = 2**63 - 1
"""Largest integer of a store's column; suite files have the same limit."""


def parser_of(parse: Callable[[str], Value]) -> Callable[[str], Value]:
    """Return a parser for `typer.Option` that reports a mistake with the name of the option."""

    def parsed(text: str) -> Value:
        try:
            return parse(text)
        except UsageError as exc:
            raise typer.BadParameter(str(exc)) from exc

    return parsed


def duration(shown: str, *, help: str) -> Any:  # noqa: A002  as typer calls it
    """Return a typer option that accepts a duration, with the text that stands for its default."""
    parser = parser_of(parse_duration)
    return typer.Option(parser=parser, metavar=shown, show_default=shown, help=help)


def one_of(words: Iterable[str], *, help: str) -> Any:  # noqa: A002  as typer calls it
    """Return a typer option that accepts the words of a table or an enumeration."""
    known = list(words)

    def validate_word(text: str) -> str:
        if text not in known:
            listed = ", ".join(f"'{word}'" for word in known)
            msg = f"'{text}' is not one of {listed}{did_you_mean(text, known)}"
            raise typer.BadParameter(msg)
        return text

    return typer.Option(parser=validate_word, metavar=f"<{'|'.join(known)}>", help=help)


def _allow_files(refused: bool) -> bool:
    from ope_bench.contracts.parameters import LEARNER_FILES
    from ope_bench.plugins.registry import registry

    registry().files_allowed = LEARNER_FILES["allowed"] = not refused
    return refused


DEVICES: dict[str, tuple[Device, ...]] = {
    **{device.value: (device,) for device in Device},
    # The batched forms answer the same questions again, so they run where they are named.
    "all": tuple(device for device in Device if not device.batched),
}

Measure = Literal[
    "rmse", "positivity", "coverage", "time", "ratio", "balance", "selection", "regret", "track"
]
"""Measures of boards."""

FormatOption = Annotated[
    Format, typer.Option("--format", help="With json, stdout is exactly one JSON document.")
]
StoreOption = Annotated[
    Path,
    typer.Option(
        "--store",
        envvar="OPE_BENCH_STORE",
        show_default=str(DEFAULT_STORE),
        help="The store, one SQLite file; to read, an export .parquet too.",
    ),
]
SuiteOption = Annotated[str | None, typer.Option(help="Only outcomes of runs of this suite.")]
RunOption = Annotated[str | None, typer.Option(help="Only outcomes of this run.")]
EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="SPEC", help="An environment: name or name[param=[1,2]]."),
]
EstOption = Annotated[
    list[str] | None,
    typer.Option("--est", metavar="SPEC", help="An estimator: name[...] or ./my.py:Class."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="ID.PARAM=VALUE",
        help="Override a parameter of the suite; other grids are kept.",
    ),
]
ReplicatesOption = Annotated[int | None, typer.Option(min=1, help="Data sets for each setting.")]
SeedOption = Annotated[
    int | None, typer.Option(min=0, max=LARGEST_SEED, help="Seed of all random streams.")
]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        parser=parser_of(parse_duration),
        metavar="60s",
        help="Time limit per trial (fit and estimate).",
    ),
]
MemoryOption = Annotated[
    int | None,
    typer.Option(parser=parser_of(parse_size), metavar="4GiB", help="Memory limit per trial."),
]
JobsOption = Annotated[
    int | None,
    typer.Option(min=1, help="Trials that run at once; by default one for each core."),
]
DeviceOption = Annotated[
    str | None,
    one_of(
        DEVICES,
        help="Devices to cross estimators with; 'all' is cpu and cuda. On the -batch kinds "
        "replicates are trained together, where an estimator can.",
    ),
]
BoardsOption = Annotated[
    bool, typer.Option("--boards", help="Show the board of every setting, not only the sweep.")
]
NoCodeOption = Annotated[
    bool,
    typer.Option(
        "--no-code",
        callback=_allow_files,
        help="Refuse suites and selectors that would run a Python file.",
    ),
]
AllowCodeOption = Annotated[
    bool,
    typer.Option(
        "--allow-code",
        callback=lambda allowed: not _allow_files(not allowed),
        help="Run the Python files that a suite of the folder names.",
    ),
]
