"""The commands, imported when used, and the handling of their exceptions."""

from __future__ import annotations

import contextlib
import errno
import importlib
import importlib.metadata
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer
import typer.core

from ope_bench import __version__
from ope_bench.base.console import note
from ope_bench.base.errors import OpeBenchError, did_you_mean
from ope_bench.base.exit_codes import INTERRUPTED, OUR_BUG, USAGE
from ope_bench.base.printable import printable
from ope_bench.plugins.registry import registry
from ope_bench.plugins.requirements import CORE, pip_line, ran_out_of_memory


def command_of(target: Any, name: str) -> Any:
    """Return the click command of that name."""
    if not isinstance(target, typer.Typer):
        application = typer.Typer(add_completion=False, rich_markup_mode=None)
        application.command(name)(target)
        target = application
    command = typer.main.get_command(target)
    command.name = name
    return command


VERB_GROUPS = {
    "Benchmark": {
        "run": "run",
        "leaderboard": "boards",
        "report": "boards",
        "compare": "boards",
        "export": "boards",
        "list": "listing",
        "show": "listing",
    },
    "Your own log": {
        "choose": "choose",
        "log": "own_log",
        "estimate": "own_log",
        "advise": "own_log",
        "shortlist": "own_log",
        "ab": "own_log",
    },
    "Extend": {
        "new": "scaffold",
        "check": "check",
        "submit": "gate",
        "verify": "gate",
        "data": "store",
    },
    "Operate": {
        "gate": "gate",
        "baseline": "gate",
        "rerun": "store",
        "store": "store",
        "doctor": "store",
    },
}
"""The module of each command, in the groups and the order of ``--help``.

The module defines ``VERB_command``, a function, or ``VERB_app``, a typer application.
"""

_HOMES = {verb: home for group in VERB_GROUPS.values() for verb, home in group.items()}
VERBS = tuple(_HOMES)

_USERS_FAULTS = {
    errno.EACCES,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EIO,
    errno.EISDIR,
    errno.ELOOP,
    errno.EMFILE,
    errno.ENAMETOOLONG,
    errno.ENFILE,
    errno.ENOENT,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}
"""Errors of the system that a path or the state of a disk causes; others are bugs."""


class _Verbs(typer.core.TyperGroup):
    """A group of commands, each imported when used."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"ope_bench.cli.{_HOMES[cmd_name]}")
        registry().on_alias = note
        made = getattr(module, f"{cmd_name}_app", None) or getattr(module, f"{cmd_name}_command")
        return command_of(made, cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands of ``--help`` in their groups."""
        for title, group in VERB_GROUPS.items():
            with formatter.section(title):
                commands = {verb: self.get_command(ctx, verb) for verb in group}
                formatter.write_dl(
                    [(f"{verb:<11}", one.get_short_help_str(64)) for verb, one in commands.items()]
                )
        urls = importlib.metadata.metadata("ope-bench").get_all("Project-URL") or []
        pages = dict(url.split(", ", 1) for url in urls)
        formatter.write_paragraph()
        formatter.write_text(f"Documentation: {pages['Documentation']}")


_app = typer.Typer(
    cls=_Verbs,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
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

    Start with `ope-bench run`: it runs the suite 'quick' and prints its leaderboards.
    """


def command_line() -> Any:
    """Return the command that contains all others."""
    return typer.main.get_command(_app)


def invoke(arguments: Sequence[str]) -> int:
    """Run one command line.

    Returns
    -------
    The exit code.
    """
    if arguments and arguments[0] == "help":
        arguments = [*arguments[1:], "--help"]
    try:
        code = command_line().main(list(arguments), prog_name="ope-bench", standalone_mode=False)
    except (Exception, KeyboardInterrupt) as exc:
        return explain(exc)
    return code if isinstance(code, int) else 0


def explain(exc: Any) -> int:
    """Say on stderr why a command failed.

    Returns
    -------
    The exit code.
    """
    if isinstance(exc, OpeBenchError):
        return _complain(str(exc))
    # typer bundles click or uses the installed one, depending on its version.
    if isinstance(exc, KeyboardInterrupt) or type(exc).__name__ == "Abort":
        return INTERRUPTED
    if type(exc).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(exc.format_message() + "\n")
        return USAGE
    if hasattr(exc, "format_message"):
        # A mistake in the command line that click found.
        message = exc.format_message().rstrip(".").replace(": Value error, ", ": ")
        context = getattr(exc, "ctx", None)
        path = context.command_path if context is not None else "ope-bench"
        if message.startswith("No such command") and path == "ope-bench":
            message += did_you_mean(message.split("'")[1], VERBS)
        if " is not one of " in message:
            given, _, choices = message.rpartition(" is not one of ")
            message += did_you_mean(given.split("'")[-2], choices.replace("'", "").split(", "))
        return _complain(f"{message} (see {path} --help)")
    if isinstance(exc, ModuleNotFoundError) and (module := exc.name) in CORE:
        # The checkout is newer than its installation.
        return _complain(f"the package '{module}' is missing: {pip_line(module)}")
    if ran_out_of_memory(exc):
        # Without memory even this line may fail.
        with contextlib.suppress(MemoryError):
            _complain("memory ran out; outcomes that were stored before are safe")
        return USAGE
    if isinstance(exc, OSError) and exc.strerror and exc.errno in _USERS_FAULTS:
        return _complain(f"{exc.filename}: {exc.strerror}" if exc.filename else exc.strerror)
    traceback.print_exception(exc)
    sys.stderr.write("ope-bench: this is a bug of ope-bench, not of your input\n")
    return OUR_BUG


def _complain(message: str) -> int:
    line = printable(" ".join(message.split()))
    sys.stderr.write(f"ope-bench: {line}\n")
    return USAGE
