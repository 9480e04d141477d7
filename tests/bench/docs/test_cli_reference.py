"""The reference of the command line is the one that the commands make."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer

from cli_reference import MAKER, command_section, reference
from ope_bench.base import exit_codes
from ope_bench.cli import app
from ope_bench.cli.app import command_of
from readme_tables import with_table
from support.paths import ROOT

PAGE = ROOT / "bench" / "docs" / "cli.md"


class _Color(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


def _paint(
    wall: Annotated[Path, typer.Argument(help="What to paint.")],
    others: Annotated[list[str] | None, typer.Argument(metavar="WALL", help="More.")] = None,
    color: Annotated[_Color, typer.Option("--color", "-c", help="Which | one.")] = _Color.BLUE,
    layers: Annotated[int | None, typer.Option(min=1, max=3, help="How many.")] = None,
    finish: Annotated[Literal["matte", "gloss"] | None, typer.Option(envvar="FINISH")] = None,
    tool: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Brush, roller.")] = None,
    share: Annotated[float, typer.Option(min=0.5, help="Of the wall.")] = 1.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only plan.")] = False,
    secret: Annotated[int, typer.Option(hidden=True)] = 3,
) -> None:
    """Paint a wall.

    Use ``--dry-run`` first.
    """


PAINTED = """\
## shop paint

    shop paint [OPTIONS] WALL [WALL...]

Paint a wall.

Use `--dry-run` first.

| argument | value | default | description |
| --- | --- | --- | --- |
| `WALL` | path | (required) | What to paint. |
| `WALL` | text |  | More. |

| option | value | default | description |
| --- | --- | --- | --- |
| `--color`, `-c` | `red`, `blue` | `blue` | Which \\| one. |
| `--layers` | integer from 1 to 3 |  | How many. |
| `--finish` | `matte`, `gloss` |  |  Environment variable: `FINISH`. |
| `--tool` | `NAME`, repeatable |  | Brush, roller. |
| `--share` | number from 0.5 | `1.0` | Of the wall. |
| `--dry-run` |  |  | Only plan. |"""


def test_a_command_is_described_by_its_function_and_its_names() -> None:
    assert command_section("shop paint", command_of(_paint, "paint")) == PAINTED


@pytest.mark.parametrize("columns", ["40", "200"])
def test_the_page_is_current_at_any_width(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    text = PAGE.read_text(encoding="utf-8")
    advice = "out of date; run `python bench/docs/cli_reference.py bench/docs/cli.md`"
    assert text == with_table(text, reference(), MAKER), advice


def test_every_verb_and_every_option_that_the_parser_takes_is_there() -> None:
    text = reference()

    def look(path: str, command: Any) -> None:
        section = text.partition(f"## {path}\n")[2].partition("\n## ")[0]
        assert section, path
        if hasattr(command, "list_commands"):
            for name in command.list_commands(None):
                look(f"{path} {name}", command.get_command(None, name))
            return
        for parameter in command.params:
            if getattr(parameter, "hidden", False):
                continue  # accepted for those who still write it
            for option in parameter.opts if parameter.param_type_name == "option" else ():
                assert option == "--help" or f"`{option}`" in section, (path, option)

    for verb in app.VERBS:
        look(f"ope-bench {verb}", app.command_line().get_command(None, verb))


def test_every_exit_code_has_a_meaning() -> None:
    named = {name: value for name, value in vars(exit_codes).items() if name.isupper()}
    codes = sorted(value for value in named.values() if type(value) is int)
    assert list(exit_codes.MEANINGS) == codes
