"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from ope_bench.errors import UsageError

if TYPE_CHECKING:
    from ope_bench.shard import Shard

__all__ = [
    "DEFAULT_STORE",
    "LARGEST_SEED",
    "EnvOption",
    "EstOption",
    "StoreOption",
    "duration",
    "option_error",
    "shard_of",
    "size",
]

Quantity = TypeVar("Quantity")

DEFAULT_STORE = Path("ope-bench.sqlite")

LARGEST_SEED = 2**63 - 1
"""What a store's integer column holds; suite files have the same limit."""

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


def duration(option: str, given: str | None) -> float | None:
    """Seconds of an option such as ``--timeout 60s``."""
    from ope_bench.quantities import parse_duration

    return None if given is None else _parsed(option, given, parse_duration)


def size(option: str, given: str | None) -> int | None:
    """Bytes of an option such as ``--memory 4GiB``."""
    from ope_bench.quantities import parse_size

    return None if given is None else _parsed(option, given, parse_size)


def shard_of(given: str | None) -> Shard | None:
    """The part of a plan that ``--shard 2/8`` names."""
    from ope_bench.shard import parse_shard

    return None if given is None else _parsed("--shard", given, parse_shard)


def _parsed(option: str, given: str, parse: Callable[[str], Quantity]) -> Quantity:
    try:
        return parse(given)
    except UsageError as exc:
        raise option_error(option, str(exc)) from exc


def option_error(option: str, reason: str) -> UsageError:
    """A complaint about one option."""
    return UsageError(f"{option}: {reason}")
