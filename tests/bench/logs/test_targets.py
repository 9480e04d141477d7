"""Policies as users give them: the rows that count, the words of actions, what is refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from ope_bench.base.errors import UsageError
from ope_bench.logs.log import Log
from ope_bench.logs.targets import read_policy

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

N = 40
RNG = np.random.default_rng(0)
NAMES = {"context": ["x"], "action": "a", "reward": "r", "propensity": "p"}
FRAME = {
    "x": RNG.normal(size=N),
    "a": np.array(["blue", "red"])[np.arange(N) % 2],
    "r": np.arange(N) % 3 / 2,
    "p": np.full(N, 0.5),
}
TABLE = np.stack([FRAME["p"] - 0.3, FRAME["p"] + 0.3], axis=1)
ACTIONS = ["blue", "red"]


def log(frame=FRAME, **given):
    return Log.from_frame(frame, **{**NAMES, **given})


def hole(values, at=(3, 7)):
    values = np.array(values, dtype=object if values.dtype.kind == "U" else None)
    values[list(at)] = None if values.dtype == object else np.nan
    return values


LACKING = {**FRAME, "r": hole(FRAME["r"])}
LONG = {"row": np.repeat(np.arange(N), 2), "action": ACTIONS * N, "probability": TABLE.ravel()}
IN_LOG = np.flatnonzero(~np.isnan(LACKING["r"]))
WITHOUT = {
    "probability, a column": ({"probability": "q"}, {"q": hole(FRAME["p"])}),
    "probability, an array": ({"probability": hole(FRAME["p"])}, {}),
    "action, a column": ({"action": "b"}, {"b": hole(FRAME["a"])}),
    "action, an array": ({"action": hole(FRAME["a"])}, {}),
    "array": (hole(TABLE), {}),
    "wide frame": (pd.DataFrame(hole(TABLE), columns=ACTIONS), {}),
    "wide frame with rows": (
        pd.DataFrame(hole(TABLE)[::-1], columns=ACTIONS).assign(row=np.arange(N)[::-1]),
        {},
    ),
    "long frame": ({**LONG, "probability": hole(LONG["probability"], (6, 7, 14, 15))}, {}),
    "long frame without the rows": (
        {name: np.asarray(one)[np.isin(LONG["row"], IN_LOG)] for name, one in LONG.items()},
        {},
    ),
    "function": (
        lambda rows: np.tile([0.2, 0.8], (len(rows["x"]), 1)) / (rows["z"] < 1)[:, None],
        {"z": np.where(np.isnan(LACKING["r"]), 2.0, 0.0)},
    ),
}


@pytest.mark.parametrize("form", WITHOUT)
def test_rows_that_are_left_out_need_no_policy(form):
    target, columns = WITHOUT[form]
    context = [*NAMES["context"], *(["z"] if "z" in columns else [])]
    given = {"target": target, "actions": ACTIONS, "context": context}
    made = log({**LACKING, **columns}, **given, drop_missing=True)
    full = {name: np.asarray(values)[IN_LOG] for name, values in FRAME.items()}
    weights = made.weights("target")
    assert made.n == len(IN_LOG) == N - 2
    if weights is None:
        assert (made.targets["target"].action == made.action).all()
        return
    wanted = np.where(full["a"] == "blue", 0.2, 0.8)
    wanted = full["p"] if form.startswith("probability") else wanted
    np.testing.assert_allclose(weights, wanted / 0.5)


@pytest.mark.parametrize("form", [*WITHOUT][:-2])
def test_a_row_that_counts_and_lacks_its_policy_is_named(form):
    target, columns = WITHOUT[form]
    frame = {**FRAME, "r": hole(FRAME["r"], (3,)), **columns}
    with pytest.raises(UsageError, match=r"row (7|32|14|3)\b"):
        log(frame, target=target, actions=ACTIONS, drop_missing=True)


def test_rows_keep_their_numbers_in_messages_about_sums():
    wrong = TABLE.copy()
    wrong[9] = 0.4
    for target in (wrong, pd.DataFrame(wrong, columns=ACTIONS), lambda rows: wrong[IN_LOG]):
        with pytest.raises(UsageError, match=r"row 9 sum to 0\.8"):
            log(LACKING, target=target, actions=ACTIONS, drop_missing=True)


class Truth:
    """A policy that compares actions with a truth value, a number or a word."""

    def __init__(self, yes):
        self.yes = yes

    def probability(self, context, action):
        return np.where(np.asarray(action) == self.yes, 0.3, 0.7)


@pytest.mark.parametrize("values", [np.arange(N) % 2 == 1, (np.arange(N) % 2 == 1).astype(object)])
def test_truth_values_reach_policy_objects_as_truth_values(values):
    for yes in (True, 1, np.True_):
        made = log({**FRAME, "a": values}, target=Truth(yes))
        assert made.actions == ("False", "True")
        np.testing.assert_allclose(made.targets["target"].matrix.toarray(), [[0.7, 0.3]] * N)
    with pytest.raises(UsageError, match=r"sum to 1\.4.*given as False, True"):
        log({**FRAME, "a": values}, target=Truth("True"))


FOREIGN = {
    "words": [f"u{k}" for k in range(N)],
    "numbers": list(range(N)),
    "logarithms": [-0.5] * N,
}


@pytest.mark.parametrize("values", FOREIGN.values(), ids=FOREIGN)
def test_a_column_of_a_wide_table_that_is_no_action_is_named(values):
    wide = {"user": values, "blue": TABLE[:, 0], "red": TABLE[:, 1]}
    with pytest.raises(UsageError, match=r"'user' holds no .* no action of the log.*leave it out"):
        log(target=wide)


def test_a_column_of_shares_that_is_no_action_is_suspected():
    wide = {"score": [0.25] * N, "blue": TABLE[:, 0], "red": TABLE[:, 1]}
    with pytest.raises(UsageError, match=r"sum to 1\.25.*'score' is no action.*leave it out"):
        log(target=wide)


SERIES = {
    "pandas": pd.Series,
    "polars": lambda values: pl.Series(values.tolist()),
    "lists": list,
    "pandas, nullable": lambda values: pd.Series(values, dtype="Float64"),
}


@pytest.mark.parametrize("made", SERIES.values(), ids=SERIES)
def test_a_mapping_of_series_is_a_wide_table(made):
    target = {"blue": made(TABLE[:, 0]), "red": made(TABLE[:, 1])}
    assert read_policy(target, "target").form == "table"
    np.testing.assert_allclose(log(target=target).targets["target"].matrix.toarray(), TABLE)


def test_lazy_frames_are_read_without_a_warning():
    lazy = pl.DataFrame({**FRAME, "row": np.arange(N)}).lazy()
    wide = pl.DataFrame({"blue": TABLE[:, 0], "red": TABLE[:, 1]}).lazy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(
            log(lazy, target=wide).targets["target"].matrix.toarray(), TABLE
        )


LISTS = {
    "NumPy": "[0.2 0.8]",
    "NumPy, over lines": "[2.0e-01\n 8.0e-01]",
    "Python, over lines": "[0.2,\n 0.8]",
    "floats of NumPy": "[np.float64(0.2), np.float64(0.8)]",
    "repr of an array": "array([0.2, 0.8], dtype=float32)",
    "a set of a platform": "{0.2, 0.8}",
}


@pytest.mark.parametrize("text", LISTS.values(), ids=LISTS)
def test_lists_of_probabilities_are_read_as_they_are_printed(text):
    made = log({**FRAME, "q": [text] * N}, target={"list": "q"}, actions=ACTIONS)
    np.testing.assert_allclose(made.targets["target"].matrix.toarray(), [[0.2, 0.8]] * N)


NO_LISTS = {
    "mappings": ({"blue": 0.2, "red": 0.8}, "a column for each key"),
    "mappings in text": ('{"blue": 0.2, "red": 0.8}', "a column for each key"),
    "elided by NumPy": ("[0.2 0.1 ... 0.1 0.3]", "left numbers out"),
    "without brackets": ("0.2, 0.8", r"write \[1, 2\]"),
    "one number lacks": ("[0.2, , 0.8]", "no number"),
}


@pytest.mark.parametrize(("cell", "cure"), NO_LISTS.values(), ids=NO_LISTS)
def test_what_is_no_list_of_probabilities_is_refused_with_a_cure(cell, cure):
    with pytest.raises(UsageError, match=f"row 0, column 'q'.*{cure}"):
        log({**FRAME, "q": [cell] * N}, target={"list": "q"}, actions=ACTIONS)


BUCKETS = {
    "half open": ["(0, 1]", "(1, 2]"],
    "half open, to infinity": ["[0,10)", "[10,inf)"],
    "numbered": ["(1) small", "(2) large"],
    "a word among them": ["[0, 10]", "other"],
}


@pytest.mark.parametrize("levels", BUCKETS.values(), ids=BUCKETS)
@pytest.mark.parametrize("first", [0, 1])
def test_buckets_are_categories_whichever_comes_first(levels, first):
    words = [levels[(k // 2 + first) % 2] for k in range(N)]
    made = log({**FRAME, "x": words}, target={"probability": "p"})
    assert [one.kind for one in made.schema.context] == ["categorical"]
    assert set(made.levels["x"]) == set(levels)


def test_lists_are_vectors_whichever_comes_first_and_a_wrong_one_is_named():
    words = [f"[{k}, {k + 1}]" for k in range(N)]
    assert log({**FRAME, "x": words}, target={"probability": "p"}).context.shape == (N, 2)
    for at in (0, 5):
        wrong = [*words]
        wrong[at] = "none of it"
        with pytest.raises(UsageError, match=f"row {at}, column 'x'.*no list of numbers"):
            log({**FRAME, "x": wrong}, target={"probability": "p"})


@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_small_floats_are_what_they_are_written_as_in_every_form(kind):
    shares = np.tile(np.array([0.1, 0.9], dtype=kind), (N, 1))
    right = log(target=np.tile([0.1, 0.9], (N, 1)), actions=ACTIONS).targets["target"].matrix
    for target in (shares, shares[:, :, None], pd.DataFrame(shares, columns=ACTIONS)):
        found = log(target=target, actions=ACTIONS).targets["target"].matrix
        assert (found.toarray() == right.toarray()).all()


def test_what_holds_mappings_or_durations_has_its_cure():
    said = {
        "a column for each key": [{"age": k} for k in range(N)],
        "total_seconds": pd.Series(pd.to_timedelta(np.arange(N), unit="s")),
    }
    for cure, values in said.items():
        with pytest.raises(UsageError, match=f"column 'x'.*{cure}"):
            log({**FRAME, "x": values}, target={"probability": "p"})
