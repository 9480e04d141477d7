"""Columns become arrays: words, missing values, data frames, parquet files, functions."""

from __future__ import annotations

import numpy as np
import pytest

from ope_bench import Log, TargetPolicy
from ope_bench.base.errors import UsageError
from support.small_logs import write_csv, write_small

NAN = float("nan")
NAMES = {"context": ["x", "word"], "action": "a", "reward": "r"}
FRAME = {
    "x": [1.0, NAN, 4.0, 2.0],
    "word": ["b", None, "a", "b"],
    "a": [10, 9, 10, 2],
    "r": [0, 1, 1, 0],
    "p": [0.5, 0.25, 0.5, 0.25],
    "b": [9, 9, 7, 10],
}


def log(frame=FRAME, **changes) -> Log:
    target = {"target": TargetPolicy(sampled="b")}
    return Log.from_frame(frame, **(NAMES | target | {"propensity": "p"} | changes))


def test_missing_numbers_are_the_median_with_an_indicator_and_missing_words_a_category():
    made = log()
    assert made.context.tolist() == [[1, 0, 2], [2, 1, 0], [4, 0, 1], [2, 0, 2]]
    assert made.context_names == ("x", "x", "word")
    kinds = [column.kind for column in made.schema.context]
    assert kinds == ["continuous", "categorical", "categorical"]
    assert made.schema.context[2].categories == (0.0, 1.0, 2.0)
    assert made.notes == (
        "x: 1 missing, set to the median 2 and marked by an indicator",
        "word: 1 missing, a category of their own",
    )


def test_actions_that_are_numbers_sort_as_numbers_and_unlogged_ones_are_kept():
    made = log()
    assert made.actions == ("2", "7", "9", "10")
    assert made.action.tolist() == [3, 2, 3, 0]
    assert made.targets["target"].action.tolist() == [2, 2, 1, 3]
    assert made.targets["target"].unsupported_mass(made.action, None) == 0.25


class Frame:
    """What is used of a data frame."""

    columns = tuple(FRAME)

    def __getitem__(self, name):
        return FRAME[name]


@pytest.mark.parametrize("form", ["csv", "parquet", "frame"])
def test_files_and_frames_are_the_same_log(form, tmp_path):
    source = tmp_path / f"d.{form}"
    if form == "csv":
        write_csv(source, FRAME)
    elif form == "parquet":
        pa = pytest.importorskip("pyarrow")
        table = pa.table(
            {name: pa.array(values, from_pandas=True) for name, values in FRAME.items()}
        )
        pytest.importorskip("pyarrow.parquet").write_table(table, source)
    else:
        source = Frame()
    again, made = log(source), log()
    assert again.context.tolist() == made.context.tolist()
    assert again.actions == made.actions
    assert again.action.tolist() == made.action.tolist()
    assert again.notes == made.notes
    assert again.schema == made.schema


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"propensity": "q"}, "has no column 'q'"),
        ({"target": TargetPolicy(sampled=np.array([1, 2]))}, "has 2 rows; the log has 4"),
        ({"target": TargetPolicy(table=np.ones((4, 2)))}, r"shape \(4, 2\); expected \(4, 3\)"),
        ({"target": TargetPolicy(table=np.ones((4, 3)))}, "probabilities of row 0 sum to 3"),
        ({"target": TargetPolicy(predict=lambda x: 1 / 0)}, "raised ZeroDivisionError"),
        ({"target": TargetPolicy(predict=lambda x: [[0.1]])}, r"shape \(1, 1\)"),
        ({"logging": TargetPolicy(sampled="b")}, "`action` is not the whole distribution"),
        ({"unit": "word"}, "row 1, column 'word': the value is missing"),
        ({"frame": 3}, "expected a data frame .* not int"),
        ({"frame": {**FRAME, "a": [1, 2]}}, "columns differ in length"),
        ({"frame": {**FRAME, "r": [0, 1, NAN, 1]}}, "row 2, column 'r': the value is missing"),
        ({"frame": {**FRAME, "x": [NAN] * 4}}, "column 'x' has no value"),
        ({"frame": {**FRAME, "x": np.arange(4).astype("M8[ns]")}}, "list it in `categorical`"),
        ({"frame": {**FRAME, "r": [0, 1, "x", 1]}}, "row 2, column 'r': 'x' is not a finite"),
        ({"frame": {**FRAME, "r": [0, 1, np.inf, 1]}}, "row 2, column 'r': inf is not a finite"),
    ],
)
def test_mistakes_of_a_frame_have_their_place(changes, said):
    with pytest.raises(UsageError, match=said):
        log(**changes)


def test_a_function_of_contexts_is_asked_with_the_columns_as_they_were():
    seen = []

    def predict(context):
        seen.append({name: values.tolist() for name, values in context.items()})
        return np.tile([0.5, 0.5, 0.0], (len(context["x"]), 1))

    made = log(target=TargetPolicy(predict=predict))
    assert made.targets["target"].matrix.nnz == 8
    assert seen[0]["word"] == ["b", None, "a", "b"]
    assert np.isnan(seen[0]["x"][1])


def test_a_policy_over_too_many_pairs_is_refused_before_it_is_asked(monkeypatch):
    monkeypatch.setattr("ope_bench.logs.policy_code.MOST_PROBABILITIES", 11)
    with pytest.raises(UsageError, match=r"4 rows times 3 actions are 12 probabilities.*`table:`"):
        log(target=TargetPolicy(predict=lambda context: 1 / 0))


def test_a_column_may_be_context_and_unit_and_time(tmp_path):
    made = log(unit="x", time="x", frame={**FRAME, "x": [3, 1, 10, 2]})
    assert made.context[:, 0].tolist() == [3, 1, 10, 2]
    assert made.time.tolist() == [2, 0, 3, 1]


def test_items_may_lack_values(tmp_path):
    items = {"a": [2, 7, 9, 10], "price": [1.0, NAN, 3.0, 5.0], "kind": ["x", "", "y", "x"]}
    made = log(items=items)
    assert made.embedding.tolist() == [[1, 0, 1], [3, 1, 0], [3, 0, 2], [5, 0, 1]]
    assert [c.kind for c in made.schema.embedding] == ["atoms", "categorical", "categorical"]
    assert any(note.startswith("price: 1 missing") for note in made.notes)


def test_a_table_in_any_order_is_the_same_table(tmp_path):
    rows, actions = [3, 0, 1, 2, 0], [10, 9, 9, 2, 10]
    columns = {"row": rows, "action": actions, "probability": [1, 0.25, 1, 1, 0.75]}
    write_csv(tmp_path / "t.csv", columns)
    for table in (tmp_path / "t.csv", columns):
        matrix = log(target=TargetPolicy(table=table)).targets["target"].matrix
        assert matrix.toarray().tolist() == [[0, 0.25, 0.75], [0, 1, 0], [1, 0, 0], [0, 0, 1]]


def test_a_log_says_what_it_is(tmp_path):
    assert repr(Log.read(write_small(tmp_path))).startswith("Log(rows=4, units=4, actions=3")
