"""Generate the reference of the command line from the commands.

``python bench/docs/cli_reference.py FILE`` writes it between the marks in FILE, which is
``bench/docs/cli.md`` in a checkout. Names come from the commands that typer builds; types,
defaults and help come from their functions, because typer stores those differently in different
versions.
"""

from __future__ import annotations

import enum
import importlib.metadata
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from typer.models import ArgumentInfo, ParameterInfo

from ope_bench.base.exit_codes import MEANINGS, PRECEDENCE
from ope_bench.cli.app import command_line
from ope_bench.cli.store import GROUP
from readme_tables import markdown_table, with_table

MAKER = "bench/docs/cli_reference.py"
PROGRAM = "ope-bench"

_NUMBERS = {int: "integer", float: "number"}


@dataclass(frozen=True)
class _Command:
    """One command, with the words that call it."""

    path: str
    command: Any

    @property
    def help(self) -> str:
        """The help text, in Markdown."""
        return _quote_options(inspect.cleandoc(self.command.help or "").replace("``", "`"))

    @property
    def summary(self) -> str:
        """The first paragraph of the help text on one line."""
        return " ".join(self.help.split("\n\n")[0].split())

    @property
    def is_group(self) -> bool:
        """Return whether it is a group of commands."""
        return hasattr(self.command, "list_commands")

    def below(self) -> Iterator[_Command]:
        """Return the commands of a group; of plugins' commands only the built-in ones."""
        ours = _built_in_data_commands() if self.path == f"{PROGRAM} data" else None
        for name in self.command.list_commands(None):
            if ours is None or name in ours:
                yield _Command(f"{self.path} {name}", self.command.get_command(None, name))

    def all(self) -> Iterator[_Command]:
        """Yield the command and all commands below it."""
        yield self
        if self.is_group:
            for command in self.below():
                yield from command.all()


@dataclass(frozen=True)
class _Parameter:
    """An argument or an option: typer's parameter and the function's annotation."""

    command: Any
    hint: Any
    info: ParameterInfo
    default: Any

    @property
    def is_argument(self) -> bool:
        """Return whether it is a positional argument."""
        return isinstance(self.info, ArgumentInfo)

    @property
    def required(self) -> bool:
        """Return whether the command needs a value."""
        return self.default is inspect.Parameter.empty

    @property
    def name(self) -> str:
        """The name in the usage line, or the option's spellings."""
        if self.is_argument:
            return f"`{self.info.metavar or self.command.name.upper()}`"
        spellings = [*self.command.opts, *self.command.secondary_opts]
        return ", ".join(f"`{one}`" for one in sorted(spellings, key=len, reverse=True))

    @property
    def usage(self) -> str:
        """Format an argument for the usage line."""
        word = self.info.metavar or self.command.name.upper()
        word += "..." * (_of_list(self.hint) is not None)
        return word if self.required else f"[{word}]"

    @property
    def value(self) -> str:
        """The accepted values."""
        if self.hint is bool:
            return ""
        one = _of_list(self.hint)
        repeated = "" if one is None or self.is_argument else ", repeatable"
        return _kind(self.hint if one is None else one, self.info) + repeated

    @property
    def default_text(self) -> str:
        """The default value, as text."""
        if isinstance(self.info.show_default, str):
            text = self.info.show_default
        elif self.required:
            return "(required)"
        elif self.default is None or self.default is False or not self.info.show_default:
            return ""
        else:
            text = str(getattr(self.default, "value", self.default))
        return f"`{text}`"

    @property
    def description(self) -> str:
        """The help text, and the environment variable that sets the option."""
        text = _quote_options(inspect.cleandoc(self.info.help or "").replace("\n", " "))
        variable = f" Environment variable: `{self.info.envvar}`." if self.info.envvar else ""
        return text + variable


def _quote_options(text: str) -> str:
    """Mark options as code: two hyphens would be shown as a dash."""
    return re.sub(r"(?<![`\w-])--[a-z][a-z-]*", r"`\g<0>`", text)


def reference() -> str:
    """Return the whole reference, in Markdown."""
    front = _Command(PROGRAM, command_line())
    commands = [command for command in front.all() if command is not front]
    contents = [
        (f"[`{one.path}`](#{one.path.replace(' ', '-')})", one.summary) for one in commands
    ]
    codes = [(str(code), meaning) for code, meaning in MEANINGS.items()]
    return "\n\n".join(
        [
            markdown_table(("command", "description"), contents),
            "## Exit codes",
            markdown_table(("code", "meaning"), codes),
            PRECEDENCE,
            *(_section(command) for command in commands),
        ]
    )


def command_section(path: str, command: Any) -> str:
    """Format heading, usage, help and parameters of one command.

    Parameters
    ----------
    path : the words that call it.
    command : command that typer built from a function or an application.
    """
    return _section(_Command(path, command))


def _section(command: _Command) -> str:
    parameters = [] if command.is_group else list(_parameters(command.command))
    arguments = [one for one in parameters if one.is_argument]
    options = [one for one in parameters if not one.is_argument]
    words = [command.path, *("[OPTIONS]" for _ in options[:1]), *(one.usage for one in arguments)]
    if command.is_group:
        words.append("COMMAND ...")
    parts = [f"## {command.path}", f"    {' '.join(words)}", command.help]
    if command.is_group:
        rows = [(f"`{one.path}`", one.summary) for one in command.below()]
        parts.append(markdown_table(("command", "description"), rows))
    if arguments:
        cells = [(one.name, one.value, one.default_text, one.description) for one in arguments]
        parts.append(markdown_table(("argument", "value", "default", "description"), cells))
    if options:
        cells = [(one.name, one.value, one.default_text, one.description) for one in options]
        parts.append(markdown_table(("option", "value", "default", "description"), cells))
    return "\n\n".join(parts)


def _parameters(command: Any) -> Iterator[_Parameter]:
    """Return the command's parameters, in the order of the function's."""
    function: Callable[..., Any] = command.callback
    hints = typing.get_type_hints(function, include_extras=True)
    signature = inspect.signature(function)
    for parameter in command.params:
        if parameter.name not in signature.parameters:
            continue  # --help, which every command has
        hint, info = _split(hints[parameter.name])
        if not getattr(info, "hidden", False):
            default = signature.parameters[parameter.name].default
            yield _Parameter(parameter, hint, info, default)


def _split(hint: Any) -> tuple[Any, ParameterInfo]:
    """Return the type without None, and typer's part of the annotation."""
    info: ParameterInfo | None = None
    if get_origin(hint) is Annotated:
        hint, *extras = get_args(hint)
        info = next((one for one in extras if isinstance(one, ParameterInfo)), None)
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = (one for one in get_args(hint) if one is not types.NoneType)
    return hint, info or typer.Option()


def _of_list(hint: Any) -> Any | None:
    """Return the type of an element where several values are accepted."""
    return get_args(hint)[0] if get_origin(hint) is list else None


def _kind(hint: Any, info: ParameterInfo) -> str:
    """Describe the values of a type."""
    if get_origin(hint) is Literal:
        return _alternatives(get_args(hint))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _alternatives([one.value for one in hint])
    if hint in _NUMBERS and info.parser is None:
        least = f" from {info.min:g}" if info.min is not None else ""
        most = f" to {info.max}" if info.max is not None else ""
        return f"{_NUMBERS[hint]}{least}{most}"
    if info.metavar and info.metavar.startswith("<"):
        return _alternatives(info.metavar.strip("<>").split("|"))
    if info.metavar and not isinstance(info, ArgumentInfo):
        return f"`{info.metavar}`"
    return "path" if hint is Path else "text"


def _alternatives(values: typing.Iterable[object]) -> str:
    return ", ".join(f"`{value}`" for value in values)


def _built_in_data_commands() -> set[str]:
    """Return the built-in commands of the entry-point group of ``ope-bench data``."""
    points = importlib.metadata.distribution(PROGRAM).entry_points.select(group=GROUP)
    return {point.name for point in points}


if __name__ == "__main__":
    _path = Path(sys.argv[1])
    _text = with_table(_path.read_text(encoding="utf-8"), reference(), MAKER)
    _path.write_text(_text, encoding="utf-8")
