"""`log import`: lines against the decisions in them, conformance, mistakes, what is lacking."""

from __future__ import annotations

import csv
import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ope_bench import (
    Decision,
    Log,
    LogFormat,
    UsageError,
    check_log_format,
    estimate,
    read_table,
)
from ope_bench.cli.app import invoke
from ope_bench.logs.formats import (
    import_log,
    log_format,
    log_format_checks,
    write_example_events,
)
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


def test_a_router_without_a_propensity_has_that_of_its_weights(tmp_path):
    line = {"model": "a", "propensity": None, "weights": {"a": 1, "b": 3}, "quality": 1}
    lines = [line, {**line, "model": "b", "session": "s"}]
    table, found = written(tmp_path, "router-jsonl", lines)
    assert table.numbers("propensity").tolist() == [0.25, 0.75]
    assert any("rows of one unit" in one for one in found.lacks)
    assert any("[reward, cost]" in one for one in found.lacks)


@pytest.mark.parametrize("weights", [{"a": 0, "b": 0}, {"a": 0.5, "b": -0.5}])
def test_weights_of_a_router_without_a_sum_are_named(weights, tmp_path):
    line = {"model": "a", "weights": weights, "quality": 1}
    with pytest.raises(UsageError, match=r"line 1.*weights of a, b sum to 0"):
        written(tmp_path, "router-jsonl", [line])


def test_the_best_action_of_the_log_itself_looks_too_good(tmp_path):
    lines = [{"model": "ab"[k % 2], "propensity": 0.5, "quality": k % 2} for k in range(4)]
    _, found = written(tmp_path, "router-jsonl", lines)
    assert any("too good" in one for one in found.lacks)


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


def test_features_named_like_roles_and_like_each_other_are_columns_of_their_own(tmp_path):
    features = {"context_reward": 5, "reward": 6, "action": "u", "context_context_reward": 7}
    lines = [
        {"model": "ab"[k % 2], "propensity": 0.5, "quality": k % 3, "features": features}
        for k in range(30)
    ]
    for order in (features, dict(reversed(features.items()))):
        folder = tmp_path / next(iter(order))
        folder.mkdir()
        table, found = written(
            folder, "router-jsonl", [one | {"features": order} for one in lines]
        )
        assert table.numbers("reward").tolist() == [k % 3 for k in range(30)]
        context = Log.read(found.log_file).spec.context
        values = [table.column(name).shown(0) for name in context]
        assert sorted(values) == ["5", "6", "7", "u"]
        assert len({*context, "reward", "action", "propensity"}) == 7


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
        (['{"model": "a", "quality": 1, "quality": 0}'], "line 1: is no JSON: the key 'quality'"),
        (["", '{"features": {"x": 1, "x": 2}, "model": "a"}'], "line 2: is no JSON: the key 'x'"),
        (["[" * 99999 + "]" * 99999], "line 1: lists or objects are too deep"),
        (['{"model": "\\ud800", "quality": 1}'], r"line 1: the action '\ud800' holds half"),
        (
            ['{"model": "a", "quality": 1, "features": {"t": "x\\udc00"}}'],
            r"line 1: 't': 'x\udc00' holds half",
        ),
        (["model,quality,model", "a,1,b"], "two columns are called 'model' (1 and 3)"),
        (["[1]"], "object"),
        (['{"model": "a", "propensity": 2, "quality": 1}'], "propensity 2"),
        (['{"model": "a", "weights": {"b": 1}, "quality": 1}'], "'a'"),
        (['{"model": "a", "quality": "good"}'], "good"),
        (['{"model": "a", "quality": NaN}'], "nan"),
        (['{"model": "a", "quality": 1}'], "two different actions"),
        ([""], "is empty"),
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


def test_identifiers_that_look_like_powers_of_ten_stay_text(tmp_path):
    made = log_format("growthbook")
    events = [dict(made.example(np.random.default_rng(k))) for k in range(20)]
    users = ["12e41299", "3E7", *(f"{k}e{k}" for k in range(18))]
    lines = [list(events[0])]
    for event, user in zip(events, users, strict=True):
        cells = (event | {"user_id": user}).values()
        lines += [[json.dumps(one) if isinstance(one, list | dict) else one for one in cells]]
    path = tmp_path / "views.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(lines)
    import_log(made, path, tmp_path / "out")
    (table,) = (tmp_path / "out").glob("*.parquet")
    assert pl.read_parquet(table)["unit"].to_list() == users


def test_lines_that_the_learner_skipped_have_no_reward(tmp_path):
    made = log_format("vw-dsjson")
    for key in ("_skipLearn", "skipLearn"):
        event = dict(made.example(np.random.default_rng(0))) | {key: True}
        assert made.decision(event).reward is None
        assert made.decision(event | {key: False}).reward is not None


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("vw-dsjson", {"_label_Action": 9}, "the action '9'"),
        ("vw-dsjson", {"_label_probability": 0.33}, "the propensity 0.33"),
        ("vw-dsjson", {"p": [1.2, -0.1, -0.1]}, r"\[0, 1\]"),
        ("vw-dsjson", {"pdrop": True}, "division"),
        ("vw-dsjson", {"Timestamp": "noon"}, "line 4.*'time'"),
        ("growthbook", {"variation_id": float("inf")}, "infinity"),
        ("growthbook", {"user_id": ""}, "unit"),
        ("growthbook", {"variation_id": 1.7}, "variation_id 1.7"),
        ("growthbook", {"timestamp": {}}, "time"),
        ("growthbook", {"attributes": {"x": float("nan")}}, "'x'"),
        ("router-jsonl", {"embedding": [1.0]}, "line 4.*'embedding'"),
        ("router-jsonl", {"embedding": None}, "line 4.*'embedding'"),
        ("router-jsonl", {"propensity": 0.9}, "the propensity 0.9"),
        ("router-jsonl", {"cost": {"usd": 1}}, "'cost'"),
        ("router-jsonl", {"model": ""}, "''"),
    ],
)
def test_a_damaged_line_is_named_and_nothing_is_written(tmp_path, name, change, said):
    made = log_format(name)
    lines = [dict(made.example(np.random.default_rng(k))) for k in range(20)]
    lines[3] |= change
    with pytest.raises(UsageError, match=said) as caught:
        written(tmp_path, name, lines)
    assert "line 4" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_lines_are_counted_where_some_are_blank_or_left_out(tmp_path):
    made = log_format("router-jsonl")
    events = [dict(made.example(np.random.default_rng(k))) for k in range(20)]
    events[0]["quality"] = None
    events[5]["embedding"] = [0.5]
    lines = [json.dumps(one) for one in events]
    (tmp_path / "in").write_text("\n" + "\n\n".join(lines))
    with pytest.raises(UsageError, match=r"line 12, column 'embedding'"):
        import_log(made, tmp_path / "in", tmp_path / "out")
    (tmp_path / "rows.csv").write_text("user_id,value\nu,1\nu,[1,2]\n")
    with pytest.raises(UsageError, match="line 3: 3 fields"):
        import_log(log_format("growthbook"), tmp_path / "rows.csv", tmp_path / "out")


@pytest.mark.parametrize("name", NAMES)
def test_where_all_probabilities_are_known_both_policies_are_whole(tmp_path, name):
    made = log_format(name)
    write_example_events(made, tmp_path / "in.jsonl", lines=300)
    log = Log.read(import_log(made, tmp_path / "in.jsonl", tmp_path / "out").log_file)
    assert log.logging is not None
    chance = log.logging.toarray()[np.arange(log.n), log.action]
    assert chance == pytest.approx(log.propensity)
    (target,) = log.targets.values()
    policy = target.whole(len(log.actions)).toarray()
    chances = log.logging.toarray()
    assert ((policy * chances).sum(axis=1) == chances.max(axis=1)).all()
    assert set(np.unique(policy)) == {0.0, 1.0}
    assert estimate(log, ["dr-os[regressor=ridge]"]).exit_code == 0
    assert log.weight is None


class Shop(LogFormat):
    """A format that conforms."""

    def decision(self, event):
        return Decision(action=event["shown"], reward=float(event["paid"]), propensity=0.5)

    def example(self, rng):
        return {"shown": "ab"[rng.integers(2)], "paid": 1.0}


class Wild(Shop):
    """Examples that do not follow their generator."""

    count = 0

    def example(self, rng):
        Wild.count += 1
        return {"shown": "ab"[Wild.count % 2], "paid": Wild.count}


class Changing(Shop):
    """A decision changes its line."""

    def decision(self, event):
        found = super().decision(event)
        event["seen"] = True
        return found


class Raising(Shop):
    """A wrong line raises what nobody answers."""

    def decision(self, event):
        if event.get("paid") is None:
            msg = "not paid"
            raise RuntimeError(msg)
        return super().decision(event)


class Partial(Shop):
    """Half of the invented lines have no propensity."""

    def decision(self, event):
        found = super().decision(event)
        return replace(found, propensity=None) if event["shown"] == "a" else found


@pytest.mark.parametrize(
    ("made", "said"),
    [(Wild, "rng"), (Changing, "changes"), (Raising, "'paid'"), (Partial, "propensity")],
)
def test_a_format_that_does_not_conform_fails_one_check(made, said):
    check_log_format(Shop())
    with pytest.raises(CheckFailed, match=said):
        check_log_format(made())
    failed = [one for one in log_format_checks(made()).outcomes() if one.bad]
    assert len(failed) == 1


def test_the_command_checks_formats_by_name_and_in_a_file(tmp_path, capsys):
    assert invoke(["check", "router-jsonl"]) == 0
    assert "4 passed" in capsys.readouterr().out
    source = Path(__file__).read_text(encoding="utf-8")
    (tmp_path / "mine.py").write_text(source, encoding="utf-8")
    assert invoke(["check", f"{tmp_path / 'mine.py'}:Raising", "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "log format"
    assert document["counts"] == {"passed": 3, "failed": 1}
    shop = f"{tmp_path / 'mine.py'}:Shop"
    lines, out = str(tmp_path / "in.jsonl"), str(tmp_path / "out")
    assert invoke(["log", "import", shop, lines, "-o", out, "--example"]) == 0
    assert Log.read(tmp_path / "out" / "log.yaml").n == 2000
