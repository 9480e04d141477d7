"""The README's section "On your own log", executed line by line."""

import re
import shlex
import subprocess
import sys

from ope_bench.cli.app import invoke
from support.paths import README

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_every_command_of_the_section_works(tmp_path, monkeypatch, capsys):
    """Lines of an sh block are run; the Python block is the file that it names."""
    monkeypatch.chdir(tmp_path)
    text = README.read_text(encoding="utf-8")
    section = re.search(r"^## On your own log\n(.*?)(?=^## )", text, re.DOTALL | re.MULTILINE)
    assert text.index("## Run it") < section.start() < text.index("## What it finds")
    commands = 0
    for language, body in BLOCK.findall(section[1]):
        if language == "python":
            name = re.match(r"# (\w+\.py)\n", body)[1]
            (tmp_path / name).write_text(body, encoding="utf-8")
            ended = subprocess.run(
                [sys.executable, name], capture_output=True, text=True, check=True
            )
            value, low, high = map(float, ended.stdout.split()[-3:])
            assert low < value < high
            continue
        for line in body.strip().splitlines():
            program, *arguments = shlex.split(line, comments=True)
            assert program == "ope-bench"
            if arguments[0] == "advise":
                # Five minutes are for reading; the worlds that end in time are enough here.
                arguments += ["--budget", "5s"]
            assert invoke(arguments) == 0
            commands += 1
    assert commands == 5
    assert (tmp_path / "shop" / "mine.yaml").is_file()
    assert "Verdict on target" in (tmp_path / "advice.html").read_text(encoding="utf-8")
    assert "ipws" in capsys.readouterr().out
