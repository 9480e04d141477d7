"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ope_bench.errors import UsageError, did_you_mean
from ope_bench.trials.devices import Device

if TYPE_CHECKING:
    from ope_bench.store import Store
    from ope_bench.suites.shard import Shard

__all__ = [
    "DEFAULT_STORE",
    "DEVICES",
    "LARGEST_SEED",
    "DeviceOption",
    "BoardsOption",
    "EnvOption",
    "EstOption",
    "MemoryOption",
    "NoCodeOption",
    "ReplicatesOption",
    "SeedOption",
    "SetOption",
    "StoreOption",
    "TimeoutOption",
    "check_suite",
    "duration",
    "one_of",
    "option_error",
    "shard_of",
    "size",
]

Quantity = TypeVar("Quantity")

DEFAULT_STORE = Path("ope-bench.sqlite")

LARGEST_SEED = 2**63 - 1
"""Largest integer of a store's column; suite files have the same limit."""

StoreOption = Annotated[
    Path,
    typer.Option(
        "--store",
        envvar="OPE_BENCH_STORE",
        show_default=str(DEFAULT_STORE),
        help="The store, one SQLite file.",
    ),
]
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
        help="Another value of a parameter in the suite's entries; their grids stay.",
    ),
]
ReplicatesOption = Annotated[int | None, typer.Option(min=1, help="Data sets for each setting.")]
SeedOption = Annotated[
    int | None, typer.Option(min=0, max=LARGEST_SEED, help="Seed of all random streams.")
]
TimeoutOption = Annotated[
    str | None, typer.Option(metavar="60s", help="Longest time of fit and estimate together.")
]
MemoryOption = Annotated[str | None, typer.Option(metavar="4GiB", help="Most memory of a trial.")]

DEVICES: dict[str, tuple[Device, ...]] = {
    **{device.value: (device,) for device in Device},
    # The batched forms answer the same questions again, so they run where they are named.
    "all": tuple(device for device in Device if not device.batched),
}


def _allow_files(refused: bool) -> bool:
    from ope_bench.plugins.registry import registry

    registry().files_allowed = not refused
    return refused


BoardsOption = Annotated[
    bool, typer.Option("--boards", help="Show the board of every setting, not only the sweep.")
]

NoCodeOption = Annotated[
    bool,
    typer.Option(
        "--no-code",
        callback=_allow_files,
        help="Refuse what names a class in a file: reading it runs that file.",
    ),
]


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


DeviceOption = Annotated[
    str | None,
    one_of(
        DEVICES,
        help="Devices to cross estimators with; 'all' is cpu and cuda. On the -batch kinds "
        "replicates are trained together, where an estimator can.",
    ),
]


def duration(option: str, text: str | None) -> float | None:
    """Seconds of an option such as ``--timeout 60s``."""
    from ope_bench.units import parse_duration

    return None if text is None else _parsed(option, text, parse_duration)


def size(option: str, text: str | None) -> int | None:
    """Parse an option such as ``--memory 4GiB`` into bytes."""
    from ope_bench.units import parse_size

    return None if text is None else _parsed(option, text, parse_size)


def shard_of(text: str | None) -> Shard | None:
    """Parse ``--shard 2/8``."""
    from ope_bench.suites.shard import parse_shard

    return None if text is None else _parsed("--shard", text, parse_shard)


def _parsed(option: str, text: str, parse: Callable[[str], Quantity]) -> Quantity:
    try:
        return parse(text)
    except UsageError as exc:
        raise option_error(option, str(exc)) from exc


def check_suite(store: Store, suite: str | None) -> None:
    """Refuse a suite without stored runs.

    Raises
    ------
    UsageError : the store holds runs, but none of this suite.
    """
    if told := store.missing_suite_message(suite):
        raise UsageError(told + did_you_mean(str(suite), {run.suite for run in store.runs()}))


def option_error(option: str, reason: str) -> UsageError:
    """Return an error about one option."""
    return UsageError(f"{option}: {reason}")
