"""The keys ``predicted_reward`` and ``propensity: estimated`` of a log file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ope_bench import Log, UsageError, estimate
from ope_bench.cli.app import invoke
from ope_bench.logs.log_file import read_log_file, write_log_file
from support import golden_log as golden
from support.small_logs import write_csv

X, A = golden.CONTEXT, golden.ACTION
PREDICTED = golden.REWARD_MODEL[X]
TARGET = golden.TARGET[X]
NAMES = np.array(["u", "v", "w"])
FRAME = {
    "x": X,
    "a": NAMES[A],
    "r": golden.REWARD,
    "p": golden.LOGGING[X, A],
    "q": PREDICTED[np.arange(6), A],
}
ROW, ACTION = (one.reshape(-1) for one in np.indices((6, 3)))
OTHERS = A[ROW] != ACTION
TABLE = {"row": ROW, "action": NAMES[ACTION], "prediction": PREDICTED.reshape(-1)}
OTHER_TABLE = {name: values[OTHERS] for name, values in TABLE.items()}
GIVEN = {"dm": 0.48, "dr": 1.087222, "sndr": 0.915458}
SELECTORS = [f"{name}[regressor=given]" for name in GIVEN]
FILE = """\
schema: 1
table: d.csv
context: x
action: a
reward: r
propensity: p
predicted_reward: {logged: q, table: q.csv}
target: {table: t.csv}
"""


def log(predicted, **changes):
    names = {"context": ["x"], "action": "a", "reward": "r", "propensity": "p", "target": TARGET}
    names["actions"] = NAMES
    return Log.from_frame(FRAME, **{**names, "predicted_reward": predicted, **changes})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_csv(tmp_path / "d.csv", FRAME)
    write_csv(tmp_path / "q.csv", OTHER_TABLE)
    probability = {**TABLE, "probability": TARGET.reshape(-1)}
    del probability["prediction"]
    write_csv(tmp_path / "t.csv", probability)
    (tmp_path / "log.yaml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def values(result):
    return {row.estimator: row.value for row in result}


@pytest.mark.parametrize(
    "predicted", [PREDICTED, {"logged": "q", "table": OTHER_TABLE}, {"table": TABLE}]
)
def test_estimators_use_given_predictions(predicted):
    assert values(estimate(log(predicted), SELECTORS)) == pytest.approx(GIVEN, abs=6e-7)


def test_columns_of_an_array_are_in_the_order_of_actions():
    turned = log(PREDICTED[:, ::-1], actions=["w", "v", "u"], target=TARGET[:, ::-1])
    assert values(estimate(turned, SELECTORS)) == pytest.approx(GIVEN, abs=6e-7)


def test_the_log_file_and_the_options_give_the_same(folder, capsys):
    est = [f"--est={one}" for one in SELECTORS]
    options = ["--context=x", "--action=a", "--reward=r", "--propensity=p", "--target-table=t.csv"]
    options += ["--predicted-table=q.csv", "--predicted-logged=q", "--save=saved.yaml"]
    for source in (["log.yaml"], ["d.csv", *options], ["saved.yaml"]):
        assert invoke(["estimate", *source, *est, "--format=json"]) == 0
        rows = json.loads(capsys.readouterr().out)["targets"][0]["rows"]
        assert {row["estimator"]: row["value"] for row in rows} == pytest.approx(GIVEN, abs=6e-7)
        assert all("predicted_reward" in row["access"] for row in rows)
    files = {Path(one).name for one in read_log_file(folder / "log.yaml").files()}
    assert files == {"d.csv", "q.csv", "t.csv"}
    spec = read_log_file(folder / "saved.yaml")
    write_log_file(spec, folder / "again.yaml")
    assert (folder / "again.yaml").read_text() == (folder / "saved.yaml").read_text()


def test_they_join_the_default_estimators():
    lacks = {one.estimator: one.lacks for one in log(PREDICTED).check().estimators}
    assert not lacks["dr-os"]
    rows = estimate(log(PREDICTED, target={"probability": TARGET[np.arange(6), A]}))
    left_out = dict(rows.targets[0].left_out)
    assert any("given" in label for label in left_out)
    without = estimate(log(None), SELECTORS)
    assert {row.status for row in without} == {"unavailable"}
    assert "predicted_reward: {logged" in next(iter(without)).message


@pytest.mark.parametrize(
    ("predicted", "said"),
    [
        ({"logged": "q"}, "expected {logged: COLUMN, table: FILE}"),
        ({"table": OTHER_TABLE}, "no prediction for row 0, action 'u'"),
        (
            {"table": {n: v[1:] for n, v in OTHER_TABLE.items()}, "logged": "q"},
            "row 0, action 'v'",
        ),
        ({"table": TABLE, "logged": "p"}, "row 0, column 'p'.*correct one"),
        ({"table": {**TABLE, "row": ROW + 1}}, "count from 0"),
        ({"table": {**TABLE, "action": np.where(ROW == 1, "u", TABLE["action"])}}, "twice"),
        (PREDICTED[:, :2], r"shape \(6, 2\); expected \(6, 3\)"),
        (PREDICTED * np.nan, "no prediction for row 0"),
    ],
)
def test_mistakes_have_their_place(predicted, said):
    with pytest.raises(UsageError, match=said):
        log(predicted)


def test_mistakes_of_the_keys_are_one_line(folder, capsys):
    for text, said in (
        (FILE.replace("table: q.csv", "table: z.csv"), "log.yaml:7"),
        (FILE.replace(", table: q.csv", ""), "log.yaml:7"),
        (FILE.replace("logged: q", "loged: q"), "did you mean 'logged'"),
    ):
        (folder / "log.yaml").write_text(text)
        assert invoke(["estimate", "log.yaml"]) == 2
        assert said in capsys.readouterr().err
    options = ["--context=x", "--action=a", "--reward=r", "--target-table=t.csv"]
    assert invoke(["estimate", "d.csv", *options, "--predicted-logged=q"]) == 2
    assert "table: FILE" in capsys.readouterr().err


N = 600


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(5)
    x = rng.integers(0, 2, N)
    action = np.array([rng.choice(3, p=golden.LOGGING[one]) for one in x])
    reward = rng.random(N) < golden.REWARD_MODEL[x, action]
    return {"x": x, "a": NAMES[action], "r": reward.astype(float), "k": np.arange(N) // 2}


def unknown(frame, **changes):
    names = {"context": ["x"], "action": "a", "reward": "r", "unit": "k", "actions": NAMES}
    target = golden.TARGET[frame["x"]]
    return Log.from_frame(
        frame, **names, **{"propensity": "estimated", "target": target, **changes}
    )


def test_propensities_are_estimated_and_the_output_says_so(frame, capsys, tmp_path):
    made = unknown(frame)
    chosen = ["ipw", "ipws", "dr-os[regressor=ridge,action_features=separate]", "eipws"]
    result = estimate(made, chosen)
    rows = {row.estimator: row for row in result}
    assert rows["eipws"].status == "unavailable"
    for name in ("ipw", "ipws", "dr-os"):
        assert rows[name].params["propensity"] == "estimated"
        assert "propensity" not in rows[name].access
        if name != "dr-os":  # whose interval is withheld
            assert rows[name].lift_low < rows[name].lift < rows[name].lift_high
    truth = (golden.TARGET * golden.REWARD_MODEL).sum(axis=1)[frame["x"]].mean()
    assert abs(rows["dr-os"].value - truth) < 4 * rows["dr-os"].standard_error
    explicit = estimate(made, ["ipws[propensity=estimated]"])
    assert explicit["ipws"].value == rows["ipws"].value
    assert result.as_json()["log"]["propensity"] == "estimated"
    assert any(note.startswith("propensities are estimated") for note in result.notes)
    checked = made.check()
    assert any("estimated" in note for note in checked.notes)
    assert "propensities estimated" in repr(checked)
    write_csv(tmp_path / "d.csv", frame)
    options = ["--context=x", "--action=a", "--reward=r", "--propensity=estimated", "--est=ipws"]
    table = {"row": np.repeat(np.arange(N), 3), "action": np.tile(NAMES, N)}
    table["probability"] = golden.TARGET[frame["x"]].reshape(-1)
    write_csv(tmp_path / "t.csv", table)
    options += [f"--target-table={tmp_path / 't.csv'}", "--unit=k"]
    assert invoke(["estimate", str(tmp_path / "d.csv"), *options]) == 0
    assert "propensities are estimated" in capsys.readouterr().out


def test_a_column_called_estimated_is_refused(frame):
    with pytest.raises(UsageError, match="rename it"):
        unknown({**frame, "estimated": frame["r"]})


def test_a_policy_that_is_known_by_samples_has_no_use_for_it(frame):
    made = unknown(frame, target={"action": "a"})
    assert estimate(made, ["ipw"])["ipw"].status == "unavailable"
