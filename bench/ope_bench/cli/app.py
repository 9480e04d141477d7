"""The verbs, each imported when it is used, and what becomes of their exceptions."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer
import typer.core

from ope_bench import __version__
from ope_bench.cli.commands import command_of
from ope_bench.cli.exit_codes import INTERRUPTED, OUR_BUG, USAGE
from ope_bench.cli.streams import reader_has_left
from ope_bench.errors import OpeBenchError, did_you_mean

__all__ = ["VERBS", "invoke"]

VERBS = {
    "run": "run:run",
    "leaderboard": "boards:leaderboard",
    "list": "listing:list_",
    "show": "listing:show",
    "compare": "compare:compare",
    "gate": "gate:gate",
    "baseline": "baseline:app",
    "report": "report:report",
    "export": "export:export",
    "rerun": "rerun:rerun",
    "new": "new:new",
    "check": "check:check",
    "data": "data:app",
    "store": "store:app",
    "doctor": "doctor:doctor",
}
"""Verb to ``module:name`` in this package; the name is a function or a typer application."""


class _Verbs(typer.core.TyperGroup):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [verb for verb, target in VERBS.items() if _exists(target)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        target = VERBS.get(cmd_name)
        if target is None or not _exists(target):
            return None
        module, _, name = target.partition(":")
        found = getattr(importlib.import_module(f"ope_bench.cli.{module}"), name)
        return command_of(found, cmd_name)


def _exists(target: str) -> bool:
    return importlib.util.find_spec(f"ope_bench.cli.{target.partition(':')[0]}") is not None


_app = typer.Typer(
    cls=_Verbs,
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ope-bench {__version__}")
        raise typer.Exit


@_app.callback()
def _about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_print_version, is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    """Benchmark off-policy evaluation estimators.

    `ope-bench run` runs the suite 'quick' and prints its leaderboards.
    """


def invoke(arguments: Sequence[str]) -> int:
    """Run one command line.

    Returns
    -------
    The exit code.
    """
    try:
        code = typer.main.get_command(_app).main(
            list(arguments), prog_name="ope-bench", standalone_mode=False
        )
    except OpeBenchError as exc:
        return _complain(str(exc))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        reader_has_left()
        return 0
    except Exception as exc:
        # typer carries its own copy of click, or uses the installed one, depending on its version.
        if type(exc).__name__ == "Abort":
            return INTERRUPTED
        if hasattr(exc, "format_message"):
            return _explain(exc)
        traceback.print_exc()
        sys.stderr.write("ope-bench: this is a bug of ope-bench, not of your input\n")
        return OUR_BUG
    return code if isinstance(code, int) else 0


def _explain(exc: Any) -> int:
    """What click found wrong with the command line."""
    message = exc.format_message().rstrip(".").replace(": Value error, ", ": ")
    context = getattr(exc, "ctx", None)
    path = context.command_path if context is not None else "ope-bench"
    if type(exc).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(exc.format_message() + "\n")
        return USAGE
    if message.startswith("No such command") and path == "ope-bench":
        message += did_you_mean(message.split("'")[1], VERBS)
    return _complain(f"{message} (see {path} --help)")


def _complain(message: str) -> int:
    line = " ".join(message.split())
    sys.stderr.write(f"ope-bench: {line}\n")
    return USAGE
