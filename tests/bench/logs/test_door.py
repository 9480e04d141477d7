"""One door in Python: forms of a policy, any data frame, mistakes in one line."""

from __future__ import annotations

import gzip
import importlib
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from ope_bench import Log, TargetPolicy, estimate
from ope_bench.base.errors import UsageError
from ope_bench.cli.app import invoke
from ope_bench.logs.log_file import read_log_file
from support.small_logs import write_csv

N = 60
RNG = np.random.default_rng(3)
NEW = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
"""Probabilities of the actions u, v, w where the device is 0 and 1."""

FRAME = {
    "age": RNG.normal(size=N).round(2),
    "device": np.arange(N) % 2,
    "item": RNG.choice(["u", "v", "w"], N),
    "click": RNG.integers(0, 2, N),
    "p": np.full(N, 1 / 3),
    "session": np.arange(N) // 2,
}
TABLE = NEW[FRAME["device"]]
FRAME["p_new"] = TABLE[np.arange(N), np.searchsorted(["u", "v", "w"], FRAME["item"])]
FRAME["new_item"] = RNG.choice(["u", "v", "w"], N)
NAMES = {"context": ["age", "device"], "action": "item", "reward": "click", "propensity": "p"}


class ByPairs:
    """What a policy file holds."""

    def probability(self, context, action):
        return NEW[context["device"].astype(int), np.searchsorted(["u", "v", "w"], action)]


def long_table():
    row, action = np.divmod(np.arange(3 * N), 3)
    return {
        "row": row,
        "action": np.array(["u", "v", "w"])[action],
        "probability": TABLE.reshape(-1),
    }


def log(**changes) -> Log:
    frame = changes.pop("frame", FRAME)
    given = {"target": "p_new", "actions": ["u", "v", "w"]}
    return Log.from_frame(frame, **(NAMES | given | changes))


def value(made: Log, estimator: str = "ipw") -> float:
    (target,) = estimate(made, [estimator]).targets
    return target.rows[0].value


@pytest.mark.parametrize(
    ("target", "form"),
    [
        ("p_new", "probability"),
        ({"probability": "p_new"}, "probability"),
        ({"probability": FRAME["p_new"]}, "probability"),
        ({"logged_probability": "p_new"}, "probability"),
        (TargetPolicy(probability="p_new"), "probability"),
        (TargetPolicy(logged_probability="p_new"), "probability"),
        (TABLE, "table"),
        (TABLE.tolist(), "table"),
        ({"table": TABLE}, "table"),
        (long_table(), "table"),
        ({"table": long_table()}, "table"),
        (lambda context: NEW[context["device"].astype(int)], "policy"),
        ({"policy": lambda context: NEW[context["device"].astype(int)]}, "policy"),
        ({"predict": lambda context: NEW[context["device"].astype(int)]}, "policy"),
        (ByPairs(), "policy"),
        ({"policy": ByPairs()}, "policy"),
    ],
)
def test_every_form_of_a_policy_gives_the_same_weights(target, form):
    made = log(target=target)
    assert made.facts()["target_form"] == form
    exact = float(np.mean(3 * FRAME["p_new"] * FRAME["click"]))
    assert value(made) == pytest.approx(exact, rel=1e-12)


def test_actions_of_a_policy_are_its_sample():
    for target in ({"action": "new_item"}, {"sampled": "new_item"}):
        made = log(target=target)
        codes = np.searchsorted(["u", "v", "w"], FRAME["new_item"])
        np.testing.assert_array_equal(made.targets["target"].action, codes)


def test_several_policies_have_names():
    made = log(target={"new": "p_new", "pairs": ByPairs(), "drawn": {"action": "new_item"}})
    assert {name: one.form for name, one in made.targets.items()} == {
        "new": "probability",
        "pairs": "policy",
        "drawn": "action",
    }


def test_actions_name_the_columns_of_an_array():
    wide = np.column_stack([TABLE[:, 2], np.zeros(N), TABLE[:, :2]])
    made = log(target=wide, actions=["w", "never", "u", "v"])
    assert made.actions == ("never", "u", "v", "w")
    assert value(made) == pytest.approx(value(log()), rel=1e-12)
    np.testing.assert_allclose(made.targets["target"].matrix.toarray()[:, 1:], TABLE)


def test_the_whole_logging_policy_is_given_like_a_target():
    made = log(logging=np.full((N, 3), 1 / 3), target=TABLE)
    np.testing.assert_allclose(made.logging.toarray(), 1 / 3)


def converted(kind: str):
    """The frame in the form of a library."""
    library = importlib.import_module
    if kind == "pyarrow table":
        return pytest.importorskip("pyarrow").table(FRAME)
    if kind == "pyarrow dataset":
        arrow = pytest.importorskip("pyarrow")
        return library("pyarrow.dataset").dataset(arrow.table(FRAME))
    if kind == "pandas":
        return pytest.importorskip("pandas").DataFrame(FRAME)
    if kind == "DuckDB relation":
        duckdb = pytest.importorskip("duckdb")
        return duckdb.from_arrow(library("pyarrow").table(FRAME))
    frame = pytest.importorskip("polars").DataFrame(FRAME)
    return frame.lazy() if kind == "Polars lazy" else frame


@pytest.mark.parametrize(
    "kind",
    ["pyarrow table", "pyarrow dataset", "pandas", "Polars", "Polars lazy", "DuckDB relation"],
)
def test_any_data_frame_is_the_same_log(kind):
    made, plain = log(frame=converted(kind), unit="session"), log(unit="session")
    for name in ("context", "action", "reward", "propensity", "unit"):
        np.testing.assert_array_equal(getattr(made, name), getattr(plain, name))
    assert made.schema == plain.schema


def test_missing_values_of_arrow_columns():
    arrow = pytest.importorskip("pyarrow")
    columns = {name: arrow.array(values) for name, values in FRAME.items()}
    columns["device"] = arrow.array([None, *FRAME["device"][1:].tolist()])
    columns["item"] = arrow.array(FRAME["item"]).dictionary_encode()
    made = log(frame=arrow.table(columns))
    assert made.notes[0].startswith("device: 1 missing")
    np.testing.assert_array_equal(made.action, log().action)


DAY = np.arange("2026-01-01", "2026-03-02", dtype="datetime64[D]")
MISTAKES = {
    "no policy": ({"target": {}}, "no policy"),
    "none": ({"target": None}, "NoneType is no policy"),
    "number": ({"target": 3}, "int is no policy"),
    "misspelled form": ({"target": {"probabilty": "p_new"}}, "mean 'probability'"),
    "misspelled column": ({"target": "p_neu"}, "mean 'p_new'"),
    "misspelled column of a form": ({"target": {"action": "new_itm"}}, "mean 'new_item'"),
    "two forms": ({"target": {"probability": "p_new", "action": "new_item"}}, "2 forms"),
    "form without value": ({"target": {"probability": None}}, "is None"),
    "one dimension": ({"target": TABLE[:, 0]}, '"action": array'),
    "rows of an array": ({"target": TABLE[:5]}, r"shape \(5, 3\); expected \(60, 3\)"),
    "columns of an array": ({"target": TABLE[:, :2]}, r"shape \(60, 2\); expected \(60, 3\)"),
    "rows that sum to two": ({"target": 2 * TABLE}, "row 0"),
    "negative": ({"target": TABLE - 0.2}, "is not a probability"),
    "NaN": ({"target": TABLE * np.nan}, "is not a probability"),
    "words": ({"target": np.full((N, 3), "u")}, "other things than numbers"),
    "function raises": ({"target": lambda context: context["color"]}, "raised KeyError"),
    "function of other shape": ({"target": lambda context: NEW}, "shape"),
    "function gives None": ({"target": lambda context: None}, "shape|raised"),
    "object raises": ({"target": type("P", (), {"probability": len})()}, "raised|shape"),
    "several, one wrong": ({"target": {"a": "p_new", "b": "p_neu"}}, "mean 'p_new'"),
    "several, one of no form": ({"target": {"a": "p_new", "b": 3}}, "b: int is no policy"),
    "array of rows": ({"target": {"probability": FRAME["p_new"][:7]}}, "has 7 rows"),
    "probabilities above one": ({"target": {"probability": 3 * FRAME["p_new"]}}, "is above 1"),
    "unknown action": (
        {"target": {"action": ["z"] * N}, "items": {"item": list("uvw"), "c": [1, 2, 3]}},
        "action 'z' is not in",
    ),
    "actions twice": ({"target": TABLE, "actions": ["u", "v", "v"]}, "names 'v' twice"),
    "actions lack one": ({"target": TABLE[:, :2], "actions": ["u", "v"]}, "'w' is not in"),
    "actions beside items": (
        {
            "target": TABLE,
            "actions": ["u", "v", "w"],
            "items": {"item": ["u", "v", "x"], "c": [1, 2, 3]},
        },
        "in one of items and `actions` only",
    ),
    "logging by column": ({"logging": "p"}, "not the whole distribution"),
    "logging of two forms": ({"logging": {"table": TABLE, "policy": len}}, "logging: 2 forms"),
    "context misspelled": ({"context": ["age", "devise"]}, "mean 'device'"),
    "context is a text": ({"context": "age"}, "give a list of columns"),
    "no order of an array": ({"target": TABLE, "actions": None}, r'actions=\["u", "v", "w"\]'),
    "no order of a function": ({"target": lambda context: NEW, "actions": None}, '"u", "v"'),
    "context twice": ({"context": ["age", "age"]}, "twice"),
    "reward misspelled": ({"reward": "clck"}, "mean 'click'"),
    "reward is the action": ({"reward": "item"}, "must differ|both"),
    "propensity misspelled": ({"propensity": "prob"}, "no column 'prob'"),
    "propensity is the reward": ({"propensity": "click"}, "both reward and propensity"),
    "propensity zero": ({"frame": FRAME | {"p": np.zeros(N)}}, "is not positive"),
    "propensity above one": ({"frame": FRAME | {"p": np.full(N, 1.5)}}, "above 1"),
    "propensity missing": ({"frame": FRAME | {"p": np.full(N, np.nan)}}, "missing"),
    "reward missing": ({"frame": FRAME | {"click": np.full(N, np.nan)}}, "missing"),
    "reward of words": ({"frame": FRAME | {"click": ["good"] * N}}, "'good' is not a finite"),
    "one action": (
        {"frame": FRAME | {"item": ["u"] * N}, "actions": None},
        "one action only",
    ),
    "timestamps": ({"frame": FRAME | {"age": DAY}}, "list it in `categorical`|timestamps"),
    "timestamps as text": ({"frame": FRAME | {"age": DAY.astype(str)}}, "'age' holds timestamps"),
    "empty frame": ({"frame": {name: [] for name in FRAME}}, "no rows"),
    "columns of two lengths": ({"frame": FRAME | {"age": [1.0]}}, "differ in length"),
    "no frame": ({"frame": 7}, "expected a data frame"),
    "a list": ({"frame": [1, 2]}, "expected a data frame"),
    "unit misspelled": ({"unit": "session_"}, "mean 'session'"),
    "categorical stray": ({"categorical": ["color"]}, "neither context nor items"),
    "range upside down": ({"reward_range": (1, 0)}, "not below"),
    "reward out of range": ({"reward_range": (0, 0.5)}, "outside of reward_range"),
}


@pytest.mark.parametrize(("changes", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line(changes, said):
    with pytest.raises(UsageError, match=said) as caught:
        log(**changes)
    assert "\n" not in str(caught.value)


def test_a_log_in_memory_names_no_files(tmp_path):
    made = log(target=ByPairs())
    assert made.spec.files() == ()
    path = tmp_path / "log.yaml"
    write_csv(tmp_path / "t.csv", FRAME)
    forms = {"new": {"probability": "p_new"}, "drawn": {"action": "new_item"}}
    spec = {"schema": 1, "table": "t.csv", **NAMES, "target": forms}
    path.write_text(json.dumps(spec), encoding="utf-8")
    read = read_log_file(path).targets
    assert {name: (one.form, one.value) for name, one in read.items()} == {
        "new": ("probability", "p_new"),
        "drawn": ("action", "new_item"),
    }


def noted(made: Log, estimators) -> str:
    return " | ".join(estimate(made, estimators).notes)


def test_an_estimate_says_what_the_checks_found():
    # Propensities that are too small by four: the mean weight is 4, and ipw four times ipws.
    halved = log(frame=FRAME | {"p": FRAME["p"] / 4}, target=TABLE)
    said = noted(halved, ["ipw", "ipws"])
    mean = float(np.mean(12 * FRAME["p_new"]))
    assert f"mean weight {mean:.3f} instead of 1" in said
    assert re.search("checks? of the log says? LOOK", said)
    assert "`ope-bench log check`" in said
    # The difference of `ipw` to `ipws` is the mean weight's, which has its own line.
    assert "standard errors" not in said
    right = noted(log(target=TABLE), ["ipw", "ipws"])
    assert "mean weight" not in right
    assert "standard errors" not in right


def test_models_alone_are_checked_by_nothing():
    assert "nothing checks them" in noted(log(target=TABLE), ["dm"])
    assert "nothing checks them" not in noted(log(target=TABLE), ["dm", "ipws"])
    # Weights without a standard error are no model of the reward.
    drawn = log(target={"action": "new_item"})
    assert "nothing checks them" in noted(drawn, ["dm-star"])
    assert "nothing checks them" not in noted(drawn, ["dm-star", "ipw-star"])


def test_access_is_decided_before_a_model_is_fitted(monkeypatch):
    from ope_estimators.embedded.learned.edr import EDR

    monkeypatch.setattr(EDR, "fit", lambda *_, **__: pytest.fail("fitted in vain"))
    row = estimate(log(), ["edr"])["edr"]
    assert row.status == "unavailable"
    assert "target" in row.message


def test_slow_estimators_run_on_a_part_of_a_large_log(monkeypatch):
    from ope_bench.logs import checks, estimation

    listed = {"estimators": ["ipws", "dm-star"], "slow": ["dm-star"], "slow_rows": 20}

    class Listed:
        value = listed

    monkeypatch.setattr(checks, "load_file", lambda _: Listed)
    made = log(target=TABLE, unit="session")
    result = estimate(made)
    assert "20 of 60 rows, drawn by unit" in " ".join(result.notes)
    assert result["dm-star"].message.startswith("on 20 random rows")
    assert "random rows" not in (result["ipws"].message or "")
    rows = estimation.some_units(made, 20, 0)
    assert len(rows) == 20
    assert set(np.bincount(made.unit[rows])) == {0, 2}
    part = made.part(rows)
    again = estimate(part, ["dm-star"])["dm-star"]
    assert again.lift == pytest.approx(again.value - made.reward[rows].mean())
    np.testing.assert_array_equal(part.context, made.context[rows])
    np.testing.assert_array_equal(
        part.targets["target"].matrix.toarray(), made.targets["target"].matrix.toarray()[rows]
    )


def test_a_table_and_options_are_a_log_for_every_command(tmp_path, capsys):
    path = tmp_path / "t.csv"
    write_csv(path, FRAME | {"count": np.arange(N) % 3 + 1})
    described = "--context age,device --action item --reward click --propensity p --weight count"
    options = [str(path), *described.split(), "--target-probability", "p_new"]
    for command in (["log", "check"], ["advise"], ["estimate", "--est", "ipws"]):
        assert invoke([*command, *options]) == 0, capsys.readouterr().err
    saved = tmp_path / "log.yaml"
    assert invoke(["log", "check", *options, "--save", str(saved)]) == 0
    assert read_log_file(saved).weight == "count"


def test_a_damaged_parquet_file_is_one_line(tmp_path, capsys):
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1")
    described = "--context age --action item --reward click --target-action new_item"
    for command in (["log", "check"], ["advise"], ["estimate"]):
        assert invoke([*command, str(path), *described.split()]) == 2
        error = capsys.readouterr().err
        assert "is no Parquet file, or damaged" in error
        assert error.count("\n") == 1


def test_a_compressed_table_is_the_same_log(tmp_path):
    write_csv(tmp_path / "t.csv", FRAME)
    data = (tmp_path / "t.csv").read_bytes()
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(data))
    plain, packed = (log(frame=tmp_path / name) for name in ("t.csv", "t.csv.gz"))
    for name in ("context", "action", "reward", "propensity"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(packed, name))


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: gzip.compress(data)[:-20],
        lambda data: gzip.compress(data)[:40] + b"x" * 200,
        lambda data: gzip.compress(data.replace(b"u", b"\xff")),
        lambda data: gzip.compress(b""),
    ],
)
def test_a_damaged_compressed_table_is_one_line(tmp_path, damage):
    write_csv(tmp_path / "t.csv", FRAME)
    path = tmp_path / "t.csv.gz"
    path.write_bytes(damage((tmp_path / "t.csv").read_bytes()))
    with pytest.raises(UsageError, match=re.escape(str(path))) as caught:
        log(frame=path)
    assert "\n" not in str(caught.value)


def test_results_of_a_log_show_in_a_notebook_and_a_paper(tmp_path):
    made = log(target=TABLE)
    result = estimate(made, ["ipw", "ipws"])
    assert "<table" in made.check()._repr_html_()
    assert result.to_latex().count("\\begin{tabular}") == 1
    with pytest.raises(KeyError, match=r"mean 'ipw'.*there are: ipw, ipws"):
        result["ipwz"]
    pytest.importorskip("altair")
    result.report(tmp_path / "page.html")
    assert "ipws" in (tmp_path / "page.html").read_text(encoding="utf-8")
    with pytest.raises(UsageError, match="do not hold their log"):
        replace(result, source=None).report(tmp_path / "other.html")


HOLES = {"click": 3, "item": 11, "p": 20}
"""Rows of `FRAME` that lose a value."""


def with_holes() -> dict:
    frame = {name: column.astype(object) for name, column in FRAME.items()}
    for name, row in HOLES.items():
        frame[name][row] = None
    return frame


@pytest.mark.parametrize("target", ["p_new", TABLE, long_table(), {"action": "new_item"}])
def test_rows_without_action_reward_or_propensity_are_left_out_and_counted(target):
    with pytest.raises(UsageError, match=r"row 3, column 'click'.*drop_missing"):
        log(frame=with_holes(), target=target)
    made = log(frame=with_holes(), target=target, drop_missing=True, predicted_reward=TABLE)
    kept = np.setdiff1d(np.arange(N), list(HOLES.values()))
    whole = log(target=target, predicted_reward=TABLE).part(kept)
    for name in ("context", "action", "reward", "propensity", "predicted_reward"):
        np.testing.assert_array_equal(getattr(made, name), getattr(whole, name))
    (note,) = made.notes
    assert note.startswith(f"3 of {N} rows left out")
    assert note.endswith("action 1, reward 1, propensity 1")
    names = ["ipw"] if target is not None and made.weights("target") is not None else ["dm-star"]
    assert estimate(made, names)[names[0]].value == estimate(whole, names)[names[0]].value
    assert note in estimate(made, names).notes
    assert note in made.check().notes


def test_rows_that_are_left_out_have_no_part_in_what_is_put_for_missing_contexts():
    frame = with_holes()
    frame["age"][[3, 5]] = None
    made = log(frame=frame, drop_missing=True)
    kept = np.setdiff1d(np.arange(N), [*HOLES.values(), 5])
    median = np.median(FRAME["age"][kept])
    assert made.context[4, 0] == median
    assert any(note.startswith("age: 1 missing") for note in made.notes)


def test_a_log_without_one_whole_row_is_refused():
    frame = with_holes()
    frame["click"][:] = None
    with pytest.raises(UsageError, match="every row lacks"):
        log(frame=frame, drop_missing=True)


def test_options_give_what_a_log_file_gives(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    frame = with_holes()
    write_csv(
        tmp_path / "t.csv",
        {name: ["" if v is None else v for v in c] for name, c in frame.items()},
    )
    write_csv(tmp_path / "old.csv", long_table() | {"probability": np.full(3 * N, 1 / 3)})
    options = [
        "--context",
        "age,device",
        "--action",
        "item",
        "--reward",
        "click",
        "--propensity",
        "p",
    ]
    options += ["--target-probability=p_new", "--reward-range=0,1", "--logging=old.csv"]
    assert invoke(["log", "check", "t.csv", *options]) == 2
    assert "--drop-missing" in capsys.readouterr().err
    saved = ["--drop-missing", "--save=log.yaml", "--format=json"]
    assert invoke(["log", "check", "t.csv", *options, *saved]) == 0
    first = json.loads(capsys.readouterr().out)
    spec = read_log_file(tmp_path / "log.yaml")
    assert (spec.reward_range, spec.logging.form, spec.drop_missing) == ((0.0, 1.0), "table", True)
    assert invoke(["log", "check", "log.yaml", "--format=json"]) == 0
    assert json.loads(capsys.readouterr().out) == first
    (tmp_path / "strict.yaml").write_text(
        (tmp_path / "log.yaml").read_text().replace("drop_missing: true\n", "")
    )
    assert invoke(["estimate", "strict.yaml", "--drop-missing", "--est=ipw"]) == 0
    assert f"3 of {N} rows left out" in " ".join(capsys.readouterr().out.split())
