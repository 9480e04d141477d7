"""`log import`: lines against the decisions in them, conformance, mistakes, what is lacking."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from ope_bench import Decision, Log, LogFormat, UsageError, check_log_format, read_table
from ope_bench.cli.app import invoke
from ope_bench.logs.formats import import_log, log_format, write_example_events
from ope_bench.testing import CheckFailed

NAMES = ("vw-dsjson", "growthbook", "router-jsonl")


@pytest.mark.parametrize("name", NAMES)
def test_built_in_formats_conform(name):
    check_log_format(log_format(name))


@pytest.mark.parametrize("name", NAMES)
def test_the_command_writes_a_log_that_check_reads(name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert invoke(["log", "import", name, "lines.jsonl", "-o", "folder", "--example"]) == 0
    said = capsys.readouterr().err
    assert "lacks" in said
    assert "2,000 decisions" in said
    assert invoke(["log", "check", "folder/log.yaml", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    failed = [one["name"] for one in document["checks"] if one["passed"] is False]
    assert not [one for one in failed if "propensit" in one or "repeated" in one]


def written(tmp_path, name, lines):
    """Import lines, and return the table and what was said."""
    file = tmp_path / "in.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in lines))
    found = import_log(log_format(name), file, tmp_path / "out")
    return read_table(found.table), found


def test_costs_are_rewards_turned_and_dropped_lines_weigh(tmp_path):
    made = log_format("vw-dsjson")
    lines = [dict(made.example(np.random.default_rng(k))) for k in range(20)]
    lines[0] |= {"pdrop": 0.75, "_label_cost": -2.5, "a": [2, 1, 3], "p": [0.5, 0.2, 0.3]}
    lines[0] |= {"_label_Action": 2, "_label_probability": 0.5}
    lines[1]["skipLearn"] = True
    lines.insert(2, {"RewardValue": 1.0, "EventId": "x"})
    table, found = written(tmp_path, "vw-dsjson", lines)
    assert (found.rows, found.left_out) == (19, 2)
    assert table.numbers("reward")[0] == 2.5
    assert table.numbers("weight")[:2].tolist() == [4.0, 1.0]
    assert table.numbers("propensity")[0] == 0.5
    assert table.codes("action")[1] == ["1", "2", "3"]


def test_the_leaf_is_a_category_and_the_weight_of_the_variation_its_propensity(tmp_path):
    made = log_format("growthbook")
    lines = [dict(made.example(np.random.default_rng(k))) for k in range(20)]
    lines[0] |= {"variation_id": 1, "variation_weights": [0.7, 0.25, 0.05]}
    table, found = written(tmp_path, "growthbook", lines)
    assert table.numbers("propensity")[0] == 0.25
    log = Log.read(found.log_file)
    assert [one.kind for one in log.schema.context] == ["categorical", "categorical"]


def test_weights_of_a_router_are_scaled_and_cost_stays(tmp_path):
    made = log_format("router-jsonl")
    lines = [dict(made.example(np.random.default_rng(k))) for k in range(20)]
    lines[0] |= {"model": "large", "weights": {"small": 1, "large": 3}}
    lines[1]["quality"] = None
    table, found = written(tmp_path, "router-jsonl", lines)
    assert (found.rows, found.left_out) == (19, 1)
    assert table.numbers("propensity")[0] == 0.75
    assert table.numbers("cost")[0] == lines[0]["cost"]
    assert table.column("embedding").vectors().shape == (19, 2)


def test_without_probabilities_propensities_are_estimated_and_it_is_said(tmp_path):
    lines = [{"model": "ab"[k % 2], "quality": k % 3, "features": {"x": k}} for k in range(30)]
    _, found = written(tmp_path, "router-jsonl", lines)
    assert any(one.startswith("propensities") for one in found.lacks)
    assert Log.read(found.log_file).propensity is None


def test_rows_of_csv_with_cells_of_json_are_the_same(tmp_path):
    file = tmp_path / "views.csv.gz"
    rows = ["user_id,variation_id,leaf_id,variation_weights,value"]
    rows += [f'u{k},{k % 2},1,"[0.5, 0.5]",{k % 3}' for k in range(10)]
    file.write_bytes(gzip.compress("\n".join(rows).encode()))
    found = import_log(log_format("growthbook"), file, tmp_path / "out")
    assert read_table(found.table).numbers("reward").tolist() == [k % 3 for k in range(10)]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["{"], "line 1"),
        (["[1]"], "object"),
        (['{"model": "a", "propensity": 2, "quality": 1}'], "propensity 2"),
        (['{"model": "a", "weights": {"b": 1}, "quality": 1}'], "'a'"),
        (['{"model": "a", "quality": "good"}'], "good"),
        (['{"model": "a", "quality": NaN}'], "nan"),
        (['{"model": "a", "quality": 1}'], "two different actions"),
        ([""], "two different actions"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, lines, said, capsys):
    file = tmp_path / "in.jsonl"
    file.write_text("\n".join(lines))
    assert invoke(["log", "import", "router-jsonl", str(file), "-o", str(tmp_path / "o")]) == 2
    message = capsys.readouterr().err
    assert said in message
    assert message.count("\n") == 1
    assert not (tmp_path / "o").exists()


def test_an_unknown_format_and_files_that_are_there_are_refused(tmp_path):
    with pytest.raises(UsageError, match="did you mean 'growthbook'"):
        log_format("growthbok")
    made = log_format("router-jsonl")
    write_example_events(made, tmp_path / "one")
    with pytest.raises(UsageError, match="already there"):
        write_example_events(made, tmp_path / "one")
    import_log(made, tmp_path / "one", tmp_path)
    with pytest.raises(UsageError, match="already there"):
        import_log(made, tmp_path / "one", tmp_path)


class Wild(LogFormat):
    """A format whose examples do not follow their generator."""

    count = 0

    def example(self, rng):
        Wild.count += 1
        return {"n": Wild.count}

    def decision(self, event):
        return Decision(action="a", reward=1.0)


def test_a_format_that_does_not_conform_fails():
    with pytest.raises(CheckFailed, match="generator"):
        check_log_format(Wild())
