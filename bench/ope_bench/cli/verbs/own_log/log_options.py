"""The options that name a log without a log file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ope_bench.cli.options import option_error
from ope_bench.errors import UsageError
from ope_bench.logs.reading.log_file import DEFAULT_TARGET, read_log_file
from ope_bench.logs.reading.source import word_columns
from ope_bench.logs.reading.spec import Items, LogSpec
from ope_bench.logs.reading.target_policy import TargetPolicy

__all__ = [
    "ActionOption",
    "CategoricalOption",
    "ContextOption",
    "FileArgument",
    "ItemsOption",
    "PropensityOption",
    "QuickLook",
    "RewardOption",
    "TargetActionOption",
    "TargetPolicyOption",
    "TargetProbabilityOption",
    "TargetTableOption",
    "UnitOption",
    "spec_of_command",
]

FileArgument = Annotated[
    Path, typer.Argument(help="A log file (.yaml), or a table with the options that describe it.")
]
ContextOption = Annotated[
    str | None, typer.Option(metavar="COLUMN,...", help="Context columns of a table.")
]
ActionOption = Annotated[str | None, typer.Option(metavar="COLUMN", help="The action.")]
RewardOption = Annotated[str | None, typer.Option(metavar="COLUMN", help="The reward.")]
PropensityOption = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="The logging policy's probability of the action."),
]
ItemsOption = Annotated[
    Path | None,
    typer.Option(help="A table that describes the actions, one row each, in the same column."),
]
UnitOption = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Rows of one unit depend on each other.")
]
CategoricalOption = Annotated[
    str | None,
    typer.Option(metavar="COLUMN,...", help="Columns of codes; columns of words are found."),
]
TargetActionOption = Annotated[
    str | None,
    typer.Option("--target-action", metavar="COLUMN", help="What the new policy did, once a row."),
]
TargetProbabilityOption = Annotated[
    str | None,
    typer.Option(
        "--target-probability",
        metavar="COLUMN",
        help="The new policy's probability of the logged action.",
    ),
]
TargetTableOption = Annotated[
    Path | None,
    typer.Option("--target-table", help="The new policy: columns row, action, probability."),
]
TargetPolicyOption = Annotated[
    str | None,
    typer.Option("--target-policy", metavar="FILE.py:NAME", help="The new policy as code."),
]

LOG_FILES = (".yaml", ".yml")


class QuickLook:
    """The options with which a table is described on the command line, None where not given."""

    def __init__(self, **given: str | Path | None) -> None:
        self.given = given

    def names(self) -> list[str]:
        """Return the options that were given."""
        return [name for name, value in self.given.items() if value is not None]

    def column(self, name: str) -> str | None:
        """Return the column of an option."""
        value = self.given[name]
        return None if value is None else str(value)

    def columns(self, name: str) -> tuple[str, ...]:
        """Return the columns of an option that lists several."""
        words = (self.column(name) or "").split(",")
        return tuple(word.strip() for word in words if word.strip())

    def target(self) -> TargetPolicy:
        """Return the one target policy."""
        forms = {
            "target-action": "sampled",
            "target-probability": "logged_probability",
            "target-table": "table",
            "target-policy": "predict",
        }
        given = [name for name in forms if self.given[name] is not None]
        if len(given) != 1:
            options = ", ".join(f"--{name}" for name in forms)
            reason = f"{len(given)} target policies; give exactly one of {options}"
            raise UsageError(reason)
        value: Any = self.given[given[0]]
        return TargetPolicy(**{forms[given[0]]: value})


def spec_of_command(file: Path, options: QuickLook) -> LogSpec:
    """Return the description of a log file, or of a table and options.

    Raises
    ------
    UsageError : both are given, an option is missing, or the file is wrong.
    """
    if file.suffix in LOG_FILES:
        for name in options.names():
            option, reason = f"--{name}", f"{file} is a log file; write it there"
            raise option_error(option, reason)
        return read_log_file(file)
    if not file.exists():
        msg = f"{file}: no such file"
        raise UsageError(msg)
    for name in ("context", "action", "reward"):
        if not options.columns(name):
            option = f"--{name}"
            reason = f"is missing; a table needs it (a log file ends in {LOG_FILES[0]})"
            raise option_error(option, reason)
    action = options.column("action") or ""
    context = options.columns("context")
    items = options.given["items"]
    found = {*word_columns(file, context), *options.columns("categorical")}
    items_spec = None
    if items is not None:
        items_spec = Items(Path(items), action)
        from ope_bench.logs.reading.source import column_names

        described = [name for name in column_names(items_spec.table) if name != action]
        found |= set(word_columns(items_spec.table, described))
    return LogSpec(
        table=file,
        context=context,
        categorical=tuple(sorted(found)),
        action=action,
        reward=options.column("reward") or "",
        propensity=options.column("propensity"),
        items=items_spec,
        unit=options.column("unit"),
        targets={DEFAULT_TARGET: options.target()},
    )
