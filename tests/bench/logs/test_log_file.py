"""The log file: all its keys, several policies, paths, and writing what is read."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from ope_bench import Log, TargetPolicy
from ope_bench.base.errors import UsageError
from ope_bench.cli.app import invoke
from ope_bench.logs.log_data import LogSpec
from ope_bench.logs.log_file import read_log_file, write_log_file
from support.small_logs import write_csv, write_small

EVERYTHING = """\
schema: 1
table: d.csv
context: [x0, x1]
categorical: [x1]
action: a
reward: r
reward_range: [0, 1]
propensity: p
items: {table: i.csv, key: item, embedding: [e]}
time: x0
unit: x1
logging: {table: t.csv}
target:
  seen: {action: a}
  given: {probability: q}
  whole: {table: t.csv}
  code: {policy: policy.py:policy}
"""

CODE = """\
import numpy as np

class Policy:
    def probability(self, context, action):
        assert set(context) == {"x0", "x1"} and context["x1"].dtype.kind == "i"
        return np.where(action == "v", 0.5, 0.25)

policy = Policy
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_small(tmp_path)
    (tmp_path / "log.yaml").write_text(EVERYTHING)
    (tmp_path / "policy.py").write_text(CODE)
    write_csv(tmp_path / "i.csv", {"item": ["v", "u", "w"], "e": [3, 1, 2], "other": list("xyz")})
    table = {"row": [0, 1, 2, 3, 0], "action": list("uvuwv"), "probability": [0.5, 1, 1, 1, 0.5]}
    write_csv(tmp_path / "t.csv", table)
    return tmp_path


def test_every_key_is_read(folder):
    log = Log.read(folder / "log.yaml")
    assert log.actions == ("u", "v", "w")
    assert log.action.tolist() == [0, 1, 0, 2]
    assert log.embedding.tolist() == [[1], [3], [2]]
    assert [column.kind for column in log.schema.context] == ["continuous", "categorical"]
    assert log.unit.tolist() == log.time.tolist() == [0, 1, 2, 3]
    assert log.logging.toarray().tolist() == [[0.5, 0.5, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert log.targets["seen"].action.tolist() == [0, 1, 0, 2]
    assert log.targets["given"].probability.tolist() == [0.2, 0.6, 0.2, 0.2]
    assert np.array_equal(log.targets["whole"].matrix.toarray(), log.logging.toarray())
    assert log.targets["code"].matrix.toarray().tolist() == [[0.25, 0.5, 0.25]] * 4
    assert log.facts() == {
        "rows": 4,
        "units": 4,
        "actions": 3,
        "propensity": True,
        "target_form": "action, probability, table, policy",
    }


@pytest.mark.parametrize("key", ["action", "reward", "propensity", "time", "unit"])
def test_a_column_may_have_the_name_0(key, tmp_path):
    """As in a table that pandas wrote of an array without names."""
    write_csv(tmp_path / "d.csv", {"0": [1, 2], "x": [1, 2], "a": [1, 2], "r": [1, 2]})
    columns = {"action": "a", "reward": "r", key: 0}
    lines = [f"{name}: {column}" for name, column in columns.items()]
    text = "\n".join(["schema: 1", "table: d.csv", "context: [x]", *lines, "target: {action: a}"])
    (tmp_path / "log.yaml").write_text(text)
    assert getattr(read_log_file(tmp_path / "log.yaml"), key) == "0"


def test_a_written_file_is_read_as_the_same_log(folder, tmp_path_factory):
    spec = read_log_file(folder / "log.yaml")
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "again.yaml"
    write_log_file(spec, elsewhere)
    again = read_log_file(elsewhere)
    assert Log.of(again).context.tolist() == Log.of(spec).context.tolist()
    assert list(again.targets) == list(spec.targets)
    for name in ("context", "action", "reward", "reward_range", "propensity", "unit", "time"):
        assert getattr(again, name) == getattr(spec, name)
    assert again.items.embedding == spec.items.embedding
    assert again.table.resolve() == spec.table.resolve()


def test_a_log_in_memory_cannot_be_written(tmp_path):
    spec = LogSpec(table={"x": [1]}, context=("x",), action="a", reward="r")
    with pytest.raises(UsageError, match="dict is in memory"):
        write_log_file(spec, tmp_path / "x.yaml")


def test_the_quick_look_is_the_same_log_and_can_be_saved(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    write_csv(folder / "items.csv", {"a": ["v", "u", "w"], "kind": ["k", "k", "l"]})
    arguments = ["d.csv", "--context=x0,x1", "--action=a", "--reward=r", "--propensity=p"]
    arguments += ["--items=items.csv", "--target-probability=q", "--categorical=x1"]
    arguments += ["--unit=x1", "--largest-unit=99"]
    assert invoke(["estimate", *arguments, "--est=ipw", "--save=saved.yaml"]) == 0
    assert read_log_file(Path("saved.yaml")).largest_unit == 99
    first = capsys.readouterr()
    assert "wrote saved.yaml" in first.err
    saved = Log.read("saved.yaml")
    assert saved.schema.context[1].kind == "categorical"
    assert saved.schema.embedding[0].kind == "categorical"
    assert saved.targets["target"].form == "probability"


def test_files_beside_a_policy_replace_no_module_of_python(folder, monkeypatch):
    """numpy needs `secrets`; modules of the policy's own folder can be imported."""
    (folder / "secrets.py").write_text("KEY = 'mine'\n")
    (folder / "shares.py").write_text("LARGE = 0.5\n")
    code = CODE.replace("0.5", "LARGE").replace("import", "from shares import LARGE\nimport", 1)
    (folder / "policy.py").write_text(code + "np.random.default_rng(0)\n")
    monkeypatch.chdir(folder)
    # As in a notebook, whose folder comes first.
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    log = Log.read("log.yaml")
    assert log.targets["code"].matrix.toarray().tolist() == [[0.25, 0.5, 0.25]] * 4


@pytest.mark.skipif(sys.platform == "win32", reason="process groups are those of POSIX")
def test_a_policy_that_hangs_ends_with_the_processes_that_it_started(folder):
    number = folder / "number"
    started = f"""\
import pathlib, subprocess, time
child = subprocess.Popen(["sleep", "600"])
pathlib.Path({str(number)!r}).write_text(str(child.pid))
time.sleep(600)
"""
    (folder / "policy.py").write_text(started)
    # On a busy machine the policy may not even have begun within the first of these.
    for seconds in (1.5, 15.0, 60.0):
        with pytest.raises(UsageError, match="did not answer within"):
            Log.read(folder / "log.yaml", timeout=seconds)
        if number.exists():
            break
    end = time.monotonic() + 30
    with contextlib.suppress(psutil.NoSuchProcess):
        child = psutil.Process(int(number.read_text()))
        # Its parent was killed with it, so that it may wait to be reaped.
        while child.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < end, "it lives on"
            time.sleep(0.02)


def test_no_code_refuses_a_policy_in_a_file(folder, capsys):
    assert invoke(["log", "check", str(folder / "log.yaml"), "--no-code"]) == 2
    assert "--no-code refuses" in capsys.readouterr().err
    assert invoke(["log", "check", str(folder / "log.yaml")]) == 0


@pytest.mark.parametrize("given", [{}, {"sampled": "a", "table": "t.csv"}])
def test_a_policy_has_exactly_one_form(given):
    with pytest.raises(UsageError, match=f"in {len(given)} forms"):
        TargetPolicy(**given)
