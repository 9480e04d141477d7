"""Users' mistakes in a log file or its data: one line with the place and the cure, exit code 2."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ope_bench.cli.app import invoke
from support.small_logs import LOG_FILE, write_csv, write_small

Change = Callable[[Path], object]


def column(name: str, values: list | None) -> Change:
    return lambda folder: write_small(folder, **{name: values})


def content(data: bytes) -> Change:
    return lambda folder: (folder / "d.csv").write_bytes(data)


def line(old: str, new: str) -> Change:
    assert old in LOG_FILE
    return lambda folder: (folder / "log.yaml").write_text(LOG_FILE.replace(old, new))


def also(*changes: Change) -> Change:
    return lambda folder: [change(folder) for change in changes]


def target(rows: list, actions: list, probabilities: list) -> Change:
    def write(folder: Path) -> None:
        columns = {"row": rows, "action": actions, "probability": probabilities}
        write_csv(folder / "t.csv", columns)

    return also(write, line("{probability: q}", "{table: t.csv}"))


def items(keys: list, embedding: list) -> Change:
    def write(folder: Path) -> None:
        write_csv(folder / "i.csv", {"a": keys, "e": embedding})

    return also(write, line("target:", "items: {table: i.csv, key: a}\ntarget:"))


def policy(code: str) -> Change:
    def write(folder: Path) -> None:
        (folder / "policy.py").write_text(f"import numpy as np\nclass P:\n{code}\npolicy = P()\n")

    return also(write, line("{probability: q}", "{policy: policy.py:policy}"))


def answers(body: str) -> Change:
    return policy(f"    def probability(self, context, action):\n        {body}\n")


EACH = [0, 0, 1, 2, 3]
U = ["u", "v", "u", "u", "u"]

CURE = re.compile(
    r"\b(write|fill|quote|rename|correct|count|keep|add|give|list|save|expected|expects|must|needs"
    r"|did you mean|relative to|reads|leaves)\b"
)
"""A message says what to do, by one of these words."""

MISTAKES: dict[str, tuple[Change, tuple[str, ...]]] = {
    "unknown column": (column("x1", None), ("d.csv", "no column 'x1'", "it has:")),
    "text in a number": (
        column("x1", [1, "two", 3, 4]),
        ("d.csv", "line 3", "'x1'", "'two'", "list it in `categorical`"),
    ),
    "text in the reward": (column("r", [0, 1, "x", 0]), ("line 4", "'r'", "not a finite number")),
    "missing reward": (column("r", [0, "", 1, 0]), ("line 3", "'r'", "missing")),
    "missing action": (column("a", ["u", "", "u", "w"]), ("line 3", "'a'", "missing")),
    "propensity 0": (
        column("p", [0.5, 0, 0.5, 1]),
        ("line 3", "'p'", "not positive", "write the"),
    ),
    "propensity above 1": (column("p", [0.5, 1.5, 0.5, 1]), ("line 3", "'p'", "above 1")),
    "missing propensity": (column("p", [0.5, "NA", 0.5, 1]), ("line 3", "'p'", "missing")),
    "target probability above 1": (column("q", [0.5, 7, 0.5, 1]), ("line 3", "'q'", "is above 1")),
    "one action": (column("a", ["u"] * 4), ("'a'", "one action only")),
    "ragged rows": (content(b"x0,x1,a,r,p,q\n1,2,u\n"), ("line 2", "3 fields")),
    "wrong encoding": (
        content(b"x0,x1,a,r,p,q\n1,2,\xff,1,1,1\n"),
        ("line 2", "not UTF-8", "save it as"),
    ),
    "an empty file": (content(b""), ("d.csv", "is empty")),
    "a header alone": (content(b"x0,x1,a,r,p,q\n"), ("no rows",)),
    "two columns of one name": (content(b"x0,x0,a,r,p,q\n"), ("two columns are called 'x0'",)),
    "reward outside of the range": (
        line("target:", "reward_range: [0, 0.5]\ntarget:"),
        ("line 3", "'r'", "outside of reward_range"),
    ),
    "a range that is empty": (
        line("target:", "reward_range: [1, 0]\ntarget:"),
        ("log.yaml:7", "reward_range", "not below"),
    ),
    "an endless range": (
        line("target:", "reward_range: [0, .inf]\ntarget:"),
        ("log.yaml:7", "reward_range"),
    ),
    "rows that all lack something": (
        also(column("r", [""] * 4), line("target:", "drop_missing: true\ntarget:")),
        ("every row lacks", "fill some in"),
    ),
    "a missing context of a policy's column": (
        also(column("q", [0.1, "", 0.1, 0.1]), line("target:", "drop_missing: true\ntarget:")),
        ("line 3", "'q'", "missing"),
    ),
    "neither yes nor no": (
        line("target:", "drop_missing: maybe\ntarget:"),
        ("log.yaml:7", "drop_missing"),
    ),
    "unknown key": (line("reward: r", "rewad: r"), ("log.yaml:5", "did you mean 'reward'")),
    "an empty log file": (
        lambda folder: (folder / "log.yaml").write_text(""),
        ("log.yaml: is empty",),
    ),
    "missing key": (line("action: a\n", ""), ("log.yaml", "`action:` is missing")),
    "another schema": (line("schema: 1", "schema: 2"), ("log.yaml:1", "schema: 1")),
    "no YAML": (line("context: [x0, x1]", "context: [x0"), ("log.yaml", "not valid YAML")),
    "the home of no user": (
        line("d.csv", '"~nobody-of-this-name/d.csv"'),
        ("log.yaml:2", "~nobody-of-this-name/d.csv: no such file"),
    ),
    "no such table": (line("d.csv", "e.csv"), ("log.yaml:2", "e.csv: no such file")),
    "a column without a name": (
        line("propensity: p", 'propensity: ""'),
        ("d.csv", "has no column ''", "correct the name"),
    ),
    "a column in two roles": (line("reward: r", "reward: x0"), ("both context and reward",)),
    "unknown form": (line("probability: q", "probabilty: q"), ("did you mean 'probability'",)),
    "unknown form of one of two policies": (
        line("{probability: q}", "\n  new: {probability: q}\n  old: {tabel: t.csv}"),
        ("log.yaml:9", "'tabel'", "did you mean 'table'"),
    ),
    "a form beside a name": (
        line("{probability: q}", "{probability: q, old: {action: a}}"),
        ("log.yaml:7", "unknown key 'old'"),
    ),
    "unknown key of the items": (
        line("target:", "items: {table: d.csv, keys: a}\ntarget:"),
        ("log.yaml:7", "did you mean 'key'"),
    ),
    "items without a table": (
        line("target:", "items: {key: a}\ntarget:"),
        ("log.yaml:7", "items", "table: FILE"),
    ),
    "a key without a value": (line("reward: r", "reward:"), ("log.yaml:5", "`reward:`")),
    "a column that is true": (
        line("reward: r", "reward: true"),
        ("log.yaml:5", "'reward' = True"),
    ),
    "no whole distribution": (
        line("target:", "logging: {probability: p}\ntarget:"),
        ("log.yaml:7", "logging", "give `table`"),
    ),
    "two forms": (line("probability: q", "probability: q, action: a"), ("2 forms", "exactly one")),
    "no form": (line("{probability: q}", "{}"), ("log.yaml:7", "give exactly one of")),
    "categorical elsewhere": (
        line("action: a", "categorical: [z]\naction: a"),
        ("'z'", "neither context nor items"),
    ),
    "probabilities that do not sum to one": (
        target(EACH, U, [0.5, 0.2, 1, 1, 1]),
        ("t.csv", "line 2", "row 0 sum to 0.7", "must sum to 1"),
    ),
    "a negative probability": (target(EACH, U, [1.5, -0.5, 1, 1, 1]), ("line 2", "1.5")),
    "a row without probabilities": (target(EACH[:4], U[:4], [1, 0, 1, 1]), ("t.csv", "row 3")),
    "rows from 1": (target([1, 2, 3, 4], U[:4], [1] * 4), ("line 5", "rows are 0 to 3")),
    "duplicate keys": (target(EACH, ["u"] * 5, [0.5, 0.5, 1, 1, 1]), ("line 3", "twice")),
    "an action of the target that is not in items": (
        also(
            items(["u", "v", "w"], [1, 2, 3]),
            column("b", ["u", "z", "u", "u"]),
            lambda folder: (folder / "log.yaml").write_text(
                LOG_FILE.replace("{probability: q}", "{action: b}")
                + "items: {table: i.csv, key: a}\n"
            ),
        ),
        ("line 3", "'b'", "'z' is not in the items", "add it"),
    ),
    "an item twice": (items(["u", "u", "v", "w"], [1, 2, 3, 4]), ("i.csv", "line 3", "twice")),
    "a logged action that is not in items": (
        items(["u", "v"], [1, 2]),
        ("line 5", "'w' is not in the items"),
    ),
    "a policy file that raises": (
        answers("raise ValueError('no model')"),
        ("target", "ValueError: no model"),
    ),
    "a policy file with a mistake in it": (policy("    x = 1 / 0"), ("ZeroDivisionError",)),
    "a policy without probability": (policy("    pass"), ("AttributeError",)),
    "a policy that returns the wrong shape": (
        answers("return np.ones(3)"),
        ("shape (3,)", "expected (12,)"),
    ),
    "a policy that sums to three": (answers("return np.ones(len(action))"), ("row 0", "sum to 3")),
    "a policy that returns words": (answers("return ['a'] * len(action)"), ("ValueError",)),
    "a policy that ends its process": (answers("import os; os._exit(5)"), ("code 5",)),
    "a policy that hangs": (answers("import time; time.sleep(60)"), ("did not answer", "table:")),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_with_place_and_cure(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("ope_bench.logs.loading.LONGEST", 1.5 if "hangs" in name else 60.0)
    change, said = MISTAKES[name]
    path = write_small(tmp_path)
    change(tmp_path)
    code = invoke(["estimate", str(path), "--est", "ipw"])
    caught = capsys.readouterr()
    assert code == 2, caught.err
    assert caught.err.count("\n") == 1
    assert caught.out == ""
    assert "Traceback" not in caught.err
    assert CURE.search(caught.err), caught.err
    missing = [words for words in said if words not in caught.err]
    assert not missing, caught.err


TABLE = [
    "d.csv",
    "--context=x0",
    "--action=a",
    "--reward=r",
    "--propensity=p",
    "--target-probability=q",
]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no.yaml"], "no such file"),
        (["no.csv", "--context", "x0"], "no such file"),
        (["log.yaml", "--context", "x0"], "--context: log.yaml is a log file; write it there"),
        (["d.csv"], "--action: is missing"),
        (["d.csv", "--context=x0", "--action=a", "--reward=r"], "0 target policies; give exactly"),
        ([*TABLE, "--reward-range=0"], "--reward-range: 0 is not LOW,HIGH"),
        ([*TABLE, "--reward-range=0,1,2"], "--reward-range: 0,1,2 is not LOW,HIGH"),
        ([*TABLE, "--reward-range=low,1"], "--reward-range: low,1 is not LOW,HIGH"),
        ([*TABLE, "--reward-range=1,0"], "reward_range: 1 is not below 0"),
        ([*TABLE, "--reward-range=0.5,1"], "line 2, column 'r': 0 is outside of reward_range"),
        ([*TABLE, "--logging=none.csv"], "none.csv: no such file"),
        ([*TABLE, "--logging=d.csv"], "holds no probabilities, and is no action"),
        ([*TABLE, "--logging=none.py:policy"], "none.py:policy: no such file"),
        (["log.yaml", "--reward-range=0,1"], "--reward-range: log.yaml is a log file"),
        (["log.yaml", "--est", "ipv"], "did you mean 'ipw'"),
        (["log.yaml", "--level", "95"], "level 95 is not between 0 and 1"),
        (["log.yaml", "--interval", "exact"], "interval 'exact' is not one of asymptotic"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(arguments, said, tmp_path, capsys, monkeypatch):
    write_small(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert invoke(["estimate", *arguments]) == 2
    caught = capsys.readouterr()
    assert caught.err.count("\n") == 1
    assert said in caught.err
    assert caught.out == ""
