"""The README's section "On your own log" and its page, executed line by line."""

import json
import re
import runpy
import shlex

from ope_bench.cli.app import invoke
from support.paths import README, ROOT

PAGE, TABLES, CHECKS = (
    ROOT / "bench" / "docs" / f"{name}.md"
    for name in ("own-logs", "own-log-tables", "own-log-checks")
)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_every_command_of_the_section_works(tmp_path, monkeypatch, capsys, here):
    """Lines of an sh block are run; the page's Python block is the file that it names."""
    monkeypatch.chdir(tmp_path)
    text = README.read_text(encoding="utf-8")
    section = re.search(r"^## On your own log\n(.*?)(?=^## )", text, re.DOTALL | re.MULTILINE)
    assert text.index("## Run it") < section.start()
    page = PAGE.read_text(encoding="utf-8")
    code = [(language, body) for language, body in BLOCK.findall(page) if language == "python"]
    assert len(code) == 1
    commands = 0
    for language, body in [*BLOCK.findall(section[1]), *code]:
        if language == "python":
            name = re.match(r"# (\w+\.py)\n", body)[1]
            (tmp_path / name).write_text(body, encoding="utf-8")
            assert "ipws" in capsys.readouterr().out
            runpy.run_path(name, run_name="__main__")
            value, low, high = map(float, capsys.readouterr().out.split()[-3:])
            assert low < value < high
            continue
        for line in body.strip().splitlines() if language == "sh" else ():
            program, *arguments = shlex.split(line, comments=True)
            assert program == "ope-bench"
            assert invoke(arguments) == 0
            commands += 1
    assert commands == 4
    assert (tmp_path / "shop" / "mine.yaml").is_file()


def test_every_form_of_a_policy_on_the_page_gives_the_same_weights():
    page = TABLES.read_text(encoding="utf-8")
    (code,) = [body for language, body in BLOCK.findall(page) if language == "python"]
    exec(code, {})


def test_the_page_explains_every_line_of_the_check_that_it_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    page = CHECKS.read_text(encoding="utf-8")
    (shown,) = [body for language, body in BLOCK.findall(page) if language == "text"]
    assert invoke(["log", "example", "shop"]) == 0
    capsys.readouterr()
    assert invoke(["log", "check", "shop/shop.yaml"]) == 0
    said = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert shown.splitlines() == said[: len(shown.splitlines())]
    assert invoke(["log", "check", "shop/shop.yaml", "--format", "json"]) == 0
    names = [one["name"] for one in json.loads(capsys.readouterr().out)["checks"]]
    explained = re.findall(r"^\| ([^|]+) \|", page.partition("## What `log check` says")[2], re.M)
    for name in names:
        kind = re.sub(r"^target: |drift of .*$", "", name) or "drift of"
        assert any(kind in one for one in explained), name
