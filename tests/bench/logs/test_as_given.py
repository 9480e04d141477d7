"""What a user gives is read as it is given: columns, labels, orders; or refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from ope_bench import Log
from ope_bench.base.errors import UsageError

N = 60
ROW = np.arange(N)
ACTIONS = ["blue", "green", "red"]
CODE = ROW % 3
RNG = np.random.default_rng(4)
ITEM = RNG.integers(0, 3, N)
TABLE = np.full((N, 3), 0.1) + 0.7 * np.eye(3)[CODE]
FRAME = {
    "x": RNG.normal(size=N).round(3),
    "code": CODE,
    "item": np.array(ACTIONS)[ITEM],
    "click": RNG.integers(0, 2, N),
    "p": np.full(N, 1 / 3),
    "q": TABLE[ROW, ITEM],
}
NAMES = {"context": ["x", "code"], "action": "item", "reward": "click", "propensity": "p"}


def log(target="q", frame=FRAME, **changes) -> Log:
    return Log.from_frame(frame, target=target, **(NAMES | changes))


def weights(*args, **changes) -> np.ndarray:
    return log(*args, **changes).weights("target")


RIGHT = 3 * FRAME["q"]


def refused(*args, **changes) -> str:
    with pytest.raises(UsageError) as caught:
        log(*args, **changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# What policies in code see


def written(frame: dict, form: str, tmp_path) -> object:
    """A frame in a form."""
    if form == "dictionary":
        return frame
    if form in ("pandas", "csv", "parquet") or form == "json":
        made = pytest.importorskip("pandas").DataFrame(frame)
        if form == "csv":
            made.to_csv(tmp_path / "t.csv", index=False)
        elif form == "json":
            made.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
            return tmp_path / "t.jsonl"
        elif form == "parquet":
            pytest.importorskip("polars").from_dict(
                {name: list(values) for name, values in frame.items()}
            ).write_parquet(tmp_path / "t.parquet")
        return made if form == "pandas" else tmp_path / f"t.{form}"
    return pytest.importorskip("polars").DataFrame(frame)


def seen(values, tmp_path, form="dictionary", **changes) -> list:
    """What a policy sees of a column."""
    found = []

    def policy(context):
        found.append(context["code"])
        return np.full((len(context["code"]), 3), 1 / 3)

    frame = written(FRAME | {"code": [values[k] for k in CODE]}, form, tmp_path)
    log(policy, frame, actions=ACTIONS, **changes)
    return [None if one != one else one for one in found[0][:3].tolist()]


FORMS = ["dictionary", "pandas", "polars", "parquet", "json", "csv"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("values", "forms"),
    [
        ([1, 2, 3], FORMS),
        ([1, None, 3], FORMS),
        ([1.5, 2.0, 3.0], FORMS),
        ([True, False, True], FORMS),
        (["a", None, "b"], FORMS),
        (["Zürich ", "Zu\u0308rich", " b"], FORMS),
        (["01", "02", "03"], FORMS[:5]),
        (["True", "False", "True"], FORMS[:5]),
        (["1", "2", "3"], FORMS[:5]),
    ],
)
def test_a_policy_sees_the_column_as_it_stands(values, forms, form, tmp_path):
    if form not in forms:
        pytest.skip("a text has no type there")
    for categorical in (None, ["code"]):
        assert seen(values, tmp_path, form, categorical=categorical) == values


def test_a_missing_text_is_what_the_frame_has_there(tmp_path):
    pd = pytest.importorskip("pandas")
    for missing in (None, np.nan, pd.NA):
        found = []

        def policy(context, found=found):
            found.append(context["code"][1])
            return np.full((len(context["code"]), 3), 1 / 3)

        values = [["a", missing, "b"][k] for k in CODE]
        frame = pd.DataFrame(FRAME).assign(code=pd.Series(values, dtype=object))
        log(policy, frame, actions=ACTIONS)
        assert found[0] is missing


@pytest.mark.parametrize(
    ("codes", "categorical"),
    [([1, 2, 3], ["code"]), (["Z ", "b", None], None), (["01", "02", "03"], None)],
)
def test_a_classifier_is_what_its_own_table_is(codes, categorical):
    pd = pytest.importorskip("pandas")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    codes = pd.Series([codes[k] for k in CODE], dtype=object if None in codes else None)
    frame = pd.DataFrame(FRAME).assign(code=codes)
    model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
    model.fit(frame[["code"]], frame["item"])
    table = pd.DataFrame(model.predict_proba(frame[["code"]]), columns=model.classes_)
    given = {"categorical": categorical, "frame": frame}
    np.testing.assert_array_equal(weights(model, **given), weights(table, **given))


def test_a_policy_of_a_file_sees_integers_that_are_called_categorical(tmp_path):
    (tmp_path / "policy.py").write_text(
        "import numpy as np\n"
        "def policy(context):\n"
        "    assert context['word'][1] is None or context['word'][1] != context['word'][1]\n"
        "    return np.full((len(context['code']), 3), 0.1) + 0.7 * np.eye(3)[context['code']]\n"
    )
    frame = FRAME | {"word": [["a", None][k % 2] for k in ROW]}
    target = {"policy": f"{tmp_path}/policy.py:policy"}
    names = {"context": ["x", "code", "word"], "categorical": ["code", "word"]}
    found = weights(target, frame, actions=ACTIONS, **names)
    np.testing.assert_allclose(found, RIGHT, rtol=1e-9)


# The dictionary of Open Bandit Pipeline

ROUNDS = {
    "context": np.column_stack([FRAME["x"], CODE]),
    "action": ITEM,
    "reward": FRAME["click"],
    "pscore": FRAME["p"],
    "n_actions": 3,
    "position": None,
}


def rounds(target=TABLE, **changes) -> Log:
    return Log.from_frame(ROUNDS | changes.pop("rounds", {}), target=target, **changes)


def test_rounds_take_the_other_arguments():
    w, u = 1.0 + ROW % 3, ROW // 2
    made = rounds(rounds={"w": w, "u": u}, weight="w", unit="u", reward_range=(0, 2))
    assert (made.weight.tolist(), made.n_units) == (w.tolist(), N // 2)
    assert made.reward_range == (0, 2)
    holes = {"reward": np.where(ROW == 3, np.nan, FRAME["click"])}
    assert rounds(rounds=holes, drop_missing=True).n == N - 1
    assert rounds(rounds={"context": None}).context.shape == (N, 1)
    estimated = rounds(rounds={"pscore": None}, propensity="estimated")
    assert estimated.estimated_propensity
    uniform = np.full((N, 3), 1 / 3)
    assert rounds(logging=uniform).logging.sum() == pytest.approx(N)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"context": ["x"]}, "context: a bandit_feedback"),
        ({"actions": [0, 1, 2]}, "actions: a bandit_feedback"),
        ({"reward": "click"}, "reward: a bandit_feedback"),
        ({"unit": "no such"}, "no column 'no such'"),
        ({"weight": "w"}, "no column 'w'"),
        ({"reward_range": (5, 9)}, "outside of reward_range"),
        ({"rounds": {"pscore": None}}, "'pscore': is None"),
        ({"target": np.stack([TABLE] * 3, 2)}, "position: give one for each round"),
        ({"target": {"new": np.stack([TABLE] * 2, 2)}}, "position: give one for each round"),
        ({"logging": np.stack([TABLE] * 2, 2)}, "position: give one for each round"),
        ({"rounds": {"reward": np.ma.array(FRAME["click"], mask=ROW == 5)}}, "row 5.*'reward'"),
        ({"rounds": {"pscore": np.ma.array(FRAME["p"], mask=ROW == 6)}}, "row 6.*'pscore'"),
        ({"rounds": {"action": np.ma.array(ITEM, mask=ROW == 7)}}, "row 7.*'action'"),
        ({"target": np.ma.array(TABLE, mask=TABLE > 0.5)}, "row 0: nan is not a probability"),
    ],
)
def test_rounds_are_not_taken_without_what_was_said(changes, said):
    with pytest.raises(UsageError, match=said):
        rounds(**changes)


def test_masked_predictions_are_missing():
    masked = np.ma.array(TABLE, mask=np.repeat(ROW == 4, 3))
    assert "no prediction for row 4" in refused(TABLE, predicted_reward=masked, actions=ACTIONS)


# Orders


@pytest.mark.parametrize(
    "changes",
    [
        {"actions": {"blue", "green", "red"}},
        {"context": {"x", "code"}},
        {"reward": frozenset({"click"})},
        {"embedding": {"x"}},
    ],
)
def test_a_set_is_refused(changes):
    assert "set has no order" in refused(**changes)


@pytest.mark.parametrize("kind", ["Index", "array", "Series", "tuple"])
def test_names_may_be_an_index_or_an_array(kind):
    pd = pytest.importorskip("pandas")
    index = pd.Index(["x", "code"])
    makers = {"Index": index, "array": index.to_numpy(), "Series": index.to_series()}
    made = log(context=makers.get(kind, ("x", "code")))
    np.testing.assert_array_equal(made.context, log().context)


@pytest.mark.parametrize("labels", [[0, 1, 2], ["0", "1", "2"], [0.0, 1.0, 2.0]])
def test_labels_of_the_frame_of_a_function_win(labels):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(TABLE, columns=labels)
    frame = FRAME | {"item": ITEM}
    for target in (lambda _: table, table):
        found = weights(target, frame, actions=[2, 0, 1])
        np.testing.assert_allclose(found, RIGHT, rtol=1e-9)
    one_more = frame | {"item": ITEM + 1}
    found = weights(lambda _: pd.DataFrame(TABLE), one_more, actions=[1, 2, 3])
    np.testing.assert_allclose(found, RIGHT, rtol=1e-9)


ORDER = np.random.default_rng(5).permutation(N)


@pytest.mark.parametrize("name", ["row", "Row", "index", "", "Unnamed: 0", "__index_level_0__"])
@pytest.mark.parametrize("kind", ["csv", "dictionary"])
def test_a_wide_table_is_ordered_by_its_column_of_rows(name, kind, tmp_path):
    wide = {name: ORDER} | dict(zip(ACTIONS, TABLE[ORDER].T, strict=True))
    path = tmp_path / "w.csv"
    lines = [
        ",".join(wide),
        *(",".join(map(str, one)) for one in zip(*wide.values(), strict=True)),
    ]
    path.write_text("\n".join(lines))
    target = {"table": path if kind == "csv" else wide}
    np.testing.assert_allclose(weights(target), RIGHT, rtol=1e-9)
    for other, said in [(2 * ROW, "row 30|line 32"), (ROW // 2, "row 0|line 2"), (ROW + 1, "60")]:
        if kind == "csv":
            path.write_text("\n".join([lines[0], *map(_first, lines[1:], other)]))
        else:
            target = {"table": wide | {name: other}}
        with pytest.raises(UsageError, match=said) as caught:
            log(target)
        assert f"column '{name}'" in str(caught.value)


def _first(line: str, value: int) -> str:
    return f"{value},{line.partition(',')[2]}"


def test_the_unnamed_index_of_items_is_no_feature(tmp_path):
    pd = pytest.importorskip("pandas")
    items = pd.DataFrame({"item": ACTIONS, "price": [3.0, 1.0, 2.0]})
    items.to_csv(tmp_path / "items.csv")
    again = pd.read_csv(tmp_path / "items.csv")
    items.set_index(pd.Index([7, 8, 9])).to_parquet(tmp_path / "items.parquet")
    for given in (tmp_path / "items.csv", again, tmp_path / "items.parquet"):
        assert log(items=given).embedding.tolist() == [[3.0], [1.0], [2.0]]


def long_of(table: np.ndarray) -> dict:
    row, action = np.divmod(np.arange(3 * N), 3)
    return {"row": row, "action": np.array(ACTIONS)[action], "probability": table.reshape(-1)}


def test_rows_of_pandas_are_those_of_their_labels_or_refused():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    plain, wide = pd.DataFrame(FRAME), pd.DataFrame(TABLE, columns=ACTIONS)
    for target in (long_of(TABLE), pd.DataFrame(long_of(TABLE))):
        np.testing.assert_allclose(weights(target, plain), RIGHT, rtol=1e-9)
        assert "row" in refused(target, plain.iloc[ORDER])
        anew = plain.iloc[ORDER].reset_index(drop=True)
        found = weights(long_of(TABLE[ORDER]), anew)
        np.testing.assert_allclose(found, RIGHT[ORDER], rtol=1e-9)
    for frame in (FRAME, pl.DataFrame(FRAME)):
        assert "index differs" in refused(wide.iloc[ORDER], frame)
        assert "index differs" in refused({"probability": plain["q"].iloc[ORDER]}, frame)
        np.testing.assert_allclose(weights(wide, frame), RIGHT, rtol=1e-9)
        other = wide.set_index(pd.Index(ROW + 7))
        np.testing.assert_allclose(weights(other, frame), RIGHT, rtol=1e-9)
    shuffled = plain["click"].iloc[ORDER]
    assert "index differs" in refused(frame=FRAME | {"click": shuffled})
    with pytest.raises(UsageError, match="index differs"):
        rounds(rounds={"reward": shuffled})
    series = {name: plain[name] for name in ("reward", "pscore") if name in plain}
    series |= {"reward": shuffled, "action": plain["item"].map(ACTIONS.index)}
    series |= {"pscore": plain["p"], "context": plain[["x", "code"]]}
    np.testing.assert_array_equal(rounds(rounds=series).reward[ORDER], FRAME["click"][ORDER])


# Labels


@pytest.mark.parametrize(
    "labels",
    [["p_blue", "p_green", "p_red"], ["0", "1", "2"], ["column_0", "column_1", "column_2"]],
)
def test_a_table_of_no_action_of_the_log_is_refused(labels):
    said = refused({"table": dict(zip(labels, TABLE.T, strict=True))})
    assert labels[0] in said
    assert "blue" in said
    long = long_of(TABLE)
    long["action"] = np.array(labels)[np.arange(3 * N) % 3]
    assert labels[0] in refused(long)
    with pytest.raises(UsageError, match=labels[0]):
        log(
            TABLE,
            actions=ACTIONS,
            predicted_reward={"table": long | {"prediction": ROW[0] + TABLE.ravel()}},
        )


def test_labels_of_a_frame_without_names_are_no_actions():
    pd = pytest.importorskip("pandas")
    frame = FRAME | {"item": ITEM + 1}
    said = refused(pd.DataFrame(TABLE), frame)
    assert "0, 1, 2" in said
    assert "1, 2, 3" in said
    np.testing.assert_allclose(weights(TABLE, frame), RIGHT, rtol=1e-9)
    wide = dict(zip(["blue", "green", "violet"], TABLE.T, strict=True))
    (note,) = log({"table": wide}).notes
    assert "violet" in note
    assert "red" in note


# Numbers that are names


VERSIONS = ["1.0", "1.5", "2.0"]


@pytest.mark.parametrize("of_log", ["text", "float"])
@pytest.mark.parametrize("labels", [VERSIONS, [1.0, 1.5, 2.0], ["1", "1.5", "2"]])
def test_versions_are_one_in_log_and_table(of_log, labels):
    pd = pytest.importorskip("pandas")
    names = np.array(VERSIONS)[ITEM]
    frame = FRAME | {"item": names if of_log == "text" else names.astype(float)}
    assert log(frame=frame).actions == tuple(VERSIONS)
    table = pd.DataFrame(TABLE, columns=labels)
    for target in (table, lambda _: table):
        found = weights(target, frame, actions=labels)
        np.testing.assert_allclose(found, RIGHT, rtol=1e-9)

    class Classifier:
        classes_ = np.array(labels)

        def predict_proba(self, context):
            return TABLE

    np.testing.assert_allclose(weights(Classifier(), frame), RIGHT, rtol=1e-9)
    items = {"item": labels, "price": [1, 2, 3]}
    assert log(frame=frame, items=items).embedding.tolist() == [[1], [2], [3]]


@pytest.mark.parametrize(
    "names",
    [
        [1234567890123456788, 1234567890123456789, 1234567890123456790],
        ["007", "7", "8"],
        ["12e4", "120000", "x"],
        [0.5, 1.0, 1.5],
        [1, 2, 3],
    ],
)
def test_a_policy_object_gets_the_names_as_they_are(names):
    class Policy:
        def probability(self, context, action):
            place = {one: k for k, one in enumerate(names)}
            at = [place[one] for one in action.tolist()]
            return TABLE[np.repeat(ROW, 3), at]

    frame = FRAME | {"item": [names[k] for k in ITEM]}
    np.testing.assert_allclose(weights(Policy(), frame), RIGHT, rtol=1e-9)


@pytest.mark.parametrize("other", [7.0, np.float64(7.0), True])
def test_integers_beside_a_float_stay_exact(other):
    names = [2**53, 2**53 + 1, 7]
    values = [names[k] for k in ITEM]
    values[int(np.argmax(ITEM == 2))] = other
    made = log(frame=FRAME | {"item": np.array(values, dtype=object)})
    assert {"9007199254740992", "9007199254740993", "7"} <= {*made.actions}
    values[0] = 0.5
    assert "digits" in refused(frame=FRAME | {"item": np.array(values, dtype=object)})


# Numbers as texts


def csv_of(frame: dict, tmp_path, mark=",") -> object:
    lines = [frame, *zip(*frame.values(), strict=True)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(mark.join(map(str, one)) for one in lines))
    return path


@pytest.mark.parametrize("role", ["context", "reward", "weight", "propensity"])
@pytest.mark.parametrize("cell", ["1.234", "1.234,5", "1.2"])
def test_a_point_beside_decimal_commas_is_refused(role, cell, tmp_path):
    columns = {name: [str(v).replace(".", ",") for v in FRAME[name]] for name in ("x", "q")}
    columns |= {"p": ["0,333"] * N, "w": ["1,5"] * N}
    names = {"context": "x", "reward": "click", "weight": "w", "propensity": "p"}
    frame = FRAME | columns
    given = {"decimal": ",", "weight": "w", "context": ["x"]}
    log(frame=csv_of(frame, tmp_path, ";"), **given)
    for every in (True, False):
        wrong = frame | {
            names[role]: [cell if every or k == 7 else frame[names[role]][k] for k in ROW]
        }
        said = refused(frame=csv_of(wrong, tmp_path, ";"), **given)
        assert f"line {2 if every else 9}, column '{names[role]}': '{cell}'" in said
        assert "thousands" in said or "list it in `categorical`" in said


@pytest.mark.parametrize("cell", ["1 000", "12%", "5 €", "1'000", "$3.50", "1 234,5"])
def test_a_number_with_a_mark_is_no_category(cell, tmp_path):
    frame = FRAME | {"code": [cell if k % 2 else cell.replace("1", "2") for k in ROW]}
    assert "list it in `categorical`" in refused(frame=frame)
    assert log(frame=frame, categorical=["code"]).levels["code"]


@pytest.mark.parametrize("words", [["1.2.3", "1.2.4"], ["18-25", "26-30"], ["A1", "B 2"]])
def test_words_with_digits_are_categories(words):
    assert log(frame=FRAME | {"code": [words[k % 2] for k in ROW]}).levels["code"] == tuple(words)


@pytest.mark.parametrize(("word", "cell"), [("-999", "-999.0"), ("-1.0", "-1"), ("0", "0.00")])
@pytest.mark.parametrize("column", ["x", "click", "ts"])
def test_a_number_for_missing_is_one_in_any_spelling(word, cell, column, tmp_path):
    frame = FRAME | {"ts": ROW + 1.5, "x": FRAME["x"] + 100, "click": FRAME["click"] + 1}
    frame |= {column: [cell if k == 5 else str(v) for k, v in enumerate(frame[column])]}
    given = {"time": "ts"} if column == "ts" else {}
    path = csv_of(frame, tmp_path)
    log(frame=path, **given)
    if column == "x":
        assert "x: 1 missing" in log(frame=path, missing=[word]).notes[0]
    else:
        assert f"line 7, column '{column}'" in refused(frame=path, missing=[word], **given)


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("%d%m%Y%H", "%d%m%Y%H"),
        ("%Y%m%d", "%Y%m%d"),
        ("%d%m%Y", "%d%m%Y"),
        ("%Y%m%d%H", "%Y%m%d%H"),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "dictionary"])
def test_digits_are_times_of_the_format(written, form, kind, tmp_path):
    from datetime import datetime, timedelta

    days = [datetime(2024, 1, 20) + timedelta(days=int(k)) for k in ORDER]
    frame = FRAME | {"ts": [f"{one:{written}}" for one in days]}
    made = log(
        frame=csv_of(frame, tmp_path) if kind == "csv" else frame, time="ts", time_format=form
    )
    np.testing.assert_array_equal(made.time, ORDER)
    assert next(one.type for one in made.columns if one.role == "time") == "time"
    frame["ts"][3] = "99"
    assert "`time_format`" in refused(frame=frame, time="ts", time_format=form)


def test_times_with_and_without_a_zone_are_no_column():
    from datetime import UTC, datetime, timedelta

    times = [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=int(k)) for k in ROW]
    assert log(frame=FRAME | {"ts": times}, time="ts").time.tolist() == ROW.tolist()
    times[4] = times[4].replace(tzinfo=None)
    assert "row 4, column 'ts'" in refused(frame=FRAME | {"ts": times}, time="ts")


# Lists


def test_decimal_commas_in_lists_are_refused_or_apart(tmp_path):
    frame = FRAME | {name: [str(v).replace(".", ",") for v in FRAME[name]] for name in ("p", "q")}
    given = {"decimal": ",", "context": ["v"]}
    path = csv_of(frame | {"v": ["[0,126,0,786]"] * N}, tmp_path, "\t")
    said = refused(frame=path, **given)
    assert "line 2, column 'v'" in said
    path = csv_of(frame | {"v": ["[0,1; 0,2]"] * N}, tmp_path, "\t")
    assert log(frame=path, **given).context[0].tolist() == [0.1, 0.2]


@pytest.mark.parametrize("value", [[2**53 + 1, 1], f"[{2**53 + 1}, 1]"])
def test_integers_of_vectors_that_no_float_keeps_are_refused(value):
    said = refused(frame=FRAME | {"v": [value] * N}, context=["v"])
    assert "row 0, column 'v'" in said


def test_a_list_of_lists_is_refused_in_one_line():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(FRAME | {"l": [[[0.2, 0.3, 0.5]]] * N})
    assert "list of lists" in refused({"list": "l"}, frame, actions=ACTIONS)


# Patterns


@pytest.mark.parametrize("pattern", ["*", "c_*", "[cpqit]*"])
def test_patterns_take_no_column_of_another_role(pattern):
    frame = {f"c_{name}": values for name, values in FRAME.items()} | {"c_u": ROW // 2, "": ROW}
    frame |= FRAME
    names = {"action": "c_item", "reward": "c_click", "propensity": "c_p", "unit": "c_u"}
    made = log("c_q", frame, context=[pattern], **names)
    taken = {"c_item", "c_click", "c_p", "c_u", "c_q", ""}
    assert not taken & {*made.context_names}
    assert any("leave out" in note and "c_click" in note for note in made.notes)


# Propensities


@pytest.mark.parametrize("values", [[True] * N, np.ones(N, dtype=bool), ["true"] * N])
def test_truth_values_are_no_propensities(values):
    assert "row 0, column 'p'" in refused(frame=FRAME | {"p": values})


# In batches


def batches(tmp_path, frame, monkeypatch, *, more=None, **changes):
    """The value by a stream of small batches, and in memory."""
    pl = pytest.importorskip("polars")
    from ope_bench.logs import streamed
    from ope_bench.logs.log_data import LogSpec
    from ope_bench.logs.targets import read_policies

    monkeypatch.setattr(streamed, "BATCH", 10)
    folder = tmp_path / "days"
    folder.mkdir()
    parts = [frame] if more is None else [frame, more]
    for number, part in enumerate(parts):
        pl.DataFrame(part).write_parquet(folder / f"{number}.parquet")
    target = read_policies(changes.pop("target", "q"), "target")
    given = NAMES | {"context": ("x", "code")} | changes
    spec = LogSpec(table=folder, targets=target, **given)
    return streamed.estimate_stream(spec, ["ipws"]).targets[0].rows[0].value


def in_memory(frame, target="q", **changes):
    from ope_bench import estimate

    return estimate(log(target, frame, **changes), ["ipws"]).targets[0].rows[0].value


@pytest.mark.parametrize(
    ("values", "role"),
    [
        (["1.0"] * 20 + ["beta"] * 40, "code"),
        (["beta"] * 40 + ["1.0", "2.0"] * 10, "code"),
        (["true"] * 30 + ["maybe"] * 30, "code"),
        (["01"] * 20 + ["2"] * 40, "code"),
        (["1.0", "2.0"] * 20 + ["2.1"] * 20, "item"),
        ([1.0, 2.0] * 20 + [2.5, 1.0] * 10, "item"),
        ([7.0, 8.0] * 30, "item"),
        (["true", "false"] * 20 + ["maybe"] * 20, "item"),
        (["7", "8"] * 20 + ["9.0"] * 20, "item"),
    ],
)
def test_batches_are_typed_as_the_whole_column(values, role, tmp_path, monkeypatch):
    frame = {name: list(column) for name, column in FRAME.items()} | {role: values}

    def policy(context):
        known = np.isin(np.asarray(context["code"]).astype(str), ["1.0", "true", "01"])
        return np.where(known[:, None], [[0.9, 0.1]], [[0.3, 0.7]])

    given = {"target": policy, "actions": ("blue", "green")} if role == "code" else {}
    if role == "code":
        frame["item"] = [["blue", "green"][k % 2] for k in ROW]
    found = batches(tmp_path, frame, monkeypatch, **given)
    assert found == pytest.approx(in_memory(frame, **given), rel=1e-9)


def test_words_among_numbers_of_batches_are_refused_as_in_memory(tmp_path, monkeypatch):
    values = [str(k) for k in ROW]
    values[45] = "?"
    frame = {name: list(column) for name, column in FRAME.items()} | {"code": values}
    with pytest.raises(UsageError, match=r"row 46.*column 'code'.*'\?'"):
        batches(tmp_path, frame, monkeypatch)


def test_batches_without_a_context(tmp_path, monkeypatch):
    frame = {name: list(column) for name, column in FRAME.items()}
    found = batches(tmp_path, frame, monkeypatch, context=())
    assert found == pytest.approx(in_memory(frame, context=[]), rel=1e-9)


@pytest.mark.parametrize(
    ("column", "first", "second"),
    [
        ("x", [1] * N, [0.5, None] * 30),
        ("code", [1, 2] * 30, [None, 3.0] * 30),
        ("code", [None] * N, ["a", "b"] * 30),
        ("click", [1, 0] * 30, [True, False] * 30),
        ("item", [7, 8] * 30, [8.0, 9.0] * 30),
        ("code", ["a", "b"] * 30, "categorical"),
    ],
)
def test_types_of_files_are_one(column, first, second, tmp_path, monkeypatch):
    pl = pytest.importorskip("polars")
    plain = {name: list(values) for name, values in FRAME.items()}
    if second == "categorical":
        second = pl.Series(["b", "c"] * 30, dtype=pl.Categorical)
    given = {"categorical": ("code",)} if column == "code" else {}
    names = {"context": ("code",)} if column == "code" else {"context": ("x2",)}
    plain["x2"] = plain["x"]
    parts = plain | {column: first}, plain | {column: second}
    found = batches(tmp_path, parts[0], monkeypatch, more=parts[1], **names, **given)
    whole = {name: [*parts[0][name], *parts[1][name]] for name in plain}
    assert found == pytest.approx(in_memory(whole, **names, **given), rel=1e-9)


@pytest.mark.parametrize(
    ("column", "first", "second"),
    [
        ("item", [7, 8] * 30, ["a", "b"] * 30),
        ("code", [1, 2] * 30, ["a", "b"] * 30),
        ("item", [7, 8] * 30, [7.5, 8.5] * 30),
        ("item", [0, 1] * 30, [True, False] * 30),
    ],
)
def test_types_of_files_that_differ_are_refused(column, first, second, tmp_path, monkeypatch):
    plain = {name: list(values) for name, values in FRAME.items()}
    parts = plain | {column: first}, plain | {column: second}
    with pytest.raises(UsageError, match=rf"1\.parquet.*column '{column}'"):
        batches(tmp_path, parts[0], monkeypatch, more=parts[1])


def test_a_model_without_probabilities_is_named():
    from sklearn.svm import SVC

    said = refused(SVC().fit(np.c_[FRAME["x"], CODE], FRAME["item"]))
    assert "SVC" in said
    assert "predict_proba" in said


@pytest.mark.parametrize("kind", ["interval", "period", "bytes"])
def test_the_cure_of_other_things_works(kind):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(FRAME)
    makers = {
        "interval": lambda: pd.cut(frame["x"], 3),
        "period": lambda: pd.Series(
            pd.period_range("2024-01", periods=3, freq="M").repeat(N // 3)
        ),
        "bytes": lambda: pd.Series([b"a", b"b"] * (N // 2)),
    }
    made = makers[kind]()
    for categorical in (None, ["code"]):
        said = refused(frame=frame.assign(code=made), categorical=categorical)
        assert ".astype(str)" in said
    assert log(frame=frame.assign(code=made.astype(str)), categorical=["code"]).levels["code"]


def test_dates_of_arrow_in_pandas_are_times():
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    days = pd.Series(pd.date_range("2024-01-01", periods=N).date).astype(
        pd.ArrowDtype(pa.date32())
    )
    frame = pd.DataFrame(FRAME).assign(ts=days)
    assert log(frame=frame, time="ts").time.tolist() == ROW.tolist()


@pytest.mark.parametrize("role", ["action", "unit", "categorical"])
@pytest.mark.parametrize("form", [pd.DataFrame, pl.DataFrame, dict])
def test_floats_that_may_be_several_integers_are_no_names(role, form):
    """Identifiers with one that is missing, as pandas reads them: two become one."""
    ids = (2**53 + np.arange(60) % 4).astype(float)
    columns = {"x": np.arange(60.0), "r": np.arange(60) % 2, "p": np.full(60, 0.5)}
    columns |= {"a": ids if role == "action" else np.arange(60) // 30, "u": ids}
    given = {"context": ["x", "u"] if role == "categorical" else ["x"], "target": "p"}
    given |= {"categorical": ["u"]} if role == "categorical" else {}
    given |= {"unit": "u"} if role == "unit" else {}
    with pytest.raises(UsageError, match=r"several integers.*Int64"):
        Log.from_frame(form(columns), action="a", reward="r", propensity="p", **given)
