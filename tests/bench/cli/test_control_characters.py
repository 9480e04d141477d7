"""Control characters of plugins, suites and stores reach no terminal as they are."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from ope_bench.base.printable import printable

EVIL = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m\r"
FORBIDDEN = "\x07\u202e\x9b"

PLUGIN = f"""
import numpy as np
from ope_bench import Estimate, Estimator, params

@params
class Evil(Estimator):
    {EVIL.encode("unicode_escape").decode()!r}
    label: str = ""
    fails: bool = False
    def estimate(self, view):
        if self.fails:
            raise ValueError("bad {EVIL.encode("unicode_escape").decode()}")
        return Estimate(0.5)
Evil.__doc__ = Evil.__doc__.encode().decode("unicode_escape")
"""

ROW = (
    '  - ./evil.py:Evil: {label: "\\e]0;x\\a\\u202e", as: "name \\e]0;x\\a\\u202e\\x9b1m"}\n'
    '  - ./evil.py:Evil: {fails: true, as: "failing \\e[2J\\a"}\n'
)


SCRIPT = """
import json, sys
from ope_bench.cli.app import invoke
for words in json.loads(sys.argv[1]):
    print("command:", *words, flush=True)
    invoke(words)
"""


def on_a_terminal(folder: Path, *commands: tuple[str, ...]) -> dict[str, str]:
    """What commands of one process write to a terminal, stdout and stderr together."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, json.dumps(commands)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=environment,
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            chunk = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        written += chunk
    os.close(ours)
    process.wait()
    parts = written.decode().split("command: ")[1:]
    assert len(parts) == len(commands)
    return {part.partition("\r\n")[0]: part.partition("\r\n")[2] for part in parts}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("evil")
    (place / "evil.py").write_text(PLUGIN)
    (place / "s.yaml").write_text(
        'schema: 1\ntitle: "title \\e]0;x\\a\\u202e"\nreplicates: 2\n'
        "environments:\n  - saito-toy: {n_samples: 30}\nestimators:\n" + ROW
    )
    return place


def test_no_command_passes_them_to_a_terminal(folder: Path) -> None:
    run = ("run", "s.yaml", "--jobs", "1", "--store", "s.sqlite")
    board = ("leaderboard", "--store", "s.sqlite", "--format")
    seen = on_a_terminal(
        folder,
        run,
        board[:-1],
        *((*board, form) for form in ("latex", "markdown", "csv")),
        ("show", "s.yaml"),
        ("show", "./evil.py:Evil"),
        ("run", "s.yaml", "--dry-run"),
    )
    assert "failing" in seen[" ".join(run)]
    assert all(seen.values())
    told = subprocess.run(
        [sys.executable, "-c", "from ope_bench.cli import main; main()", *board, "json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert not set(told) & set(FORBIDDEN)
    labels = [row["label"] for row in json.loads(told)["boards"][0]["rows"]]
    assert any("\u202e" in label for label in labels), "JSON holds it as an escape"
    for command, text in seen.items():
        assert not set(text) & set(FORBIDDEN), command
        assert "\x1b]" not in text, command
        if command != " ".join(run):  # whose live screen moves the cursor
            assert "\x1b[2J" not in text, command


def test_colors_are_kept_where_they_are_asked_for() -> None:
    assert printable("\x1b[1mbold\x1b[0m\x1b[2J", colors=True) == "\x1b[1mbold\x1b[0m\\x1b[2J"
    assert printable("\x1b[1mb") == "\\x1b[1mb"
