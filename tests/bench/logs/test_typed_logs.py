"""A user's log is read right, or refused with place and cure: cases of people who do this job."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import polars as pl
import pytest

from ope_bench import Log, estimate
from ope_bench.base.errors import UsageError
from ope_bench.logs.row_faults import identifiers
from support.small_logs import write_csv

N = 400
RNG = np.random.default_rng(0)
OLD = np.array([0.5, 0.3, 0.2])
ACTION = RNG.choice(3, N, p=OLD)
REWARD = (RNG.random(N) < np.array([0.2, 0.4, 0.6])[ACTION]).astype(int)
NEW = np.array([0.1, 0.1, 0.8])
WHOLE = np.tile(NEW, (N, 1))
EXACT = float(np.mean(NEW[ACTION] / OLD[ACTION] * REWARD))
WORDS = np.array(["u", "v", "w"])[ACTION]
FRAME: dict[str, Any] = {
    "x": RNG.normal(size=N).round(2),
    "a": ACTION,
    "r": REWARD,
    "p": OLD[ACTION],
    "q": NEW[ACTION],
}
LONG = {
    "row": np.repeat(np.arange(N), 3),
    "action": np.tile(np.arange(3), N),
    "probability": np.tile(NEW, N),
}
NAMES = {"context": ["x"], "action": "a", "reward": "r", "propensity": "p", "target": "q"}


def value(frame: Any = FRAME, **changes: Any) -> float:
    """Return the inverse propensity estimate of a log."""
    log = Log.from_frame(frame, **(NAMES | changes))
    weights = log.weights(next(iter(log.targets)))
    assert weights is not None
    return float(np.mean(weights * log.reward))


def cell(column: str, row: int, text: object) -> dict[str, Any]:
    values = np.asarray(FRAME[column]).astype(object)
    values[row] = text
    return FRAME | {column: values}


FORMS: dict[str, dict[str, Any]] = {
    "long table": {"target": LONG},
    "long frame": {"target": pl.DataFrame(LONG)},
    "long frame by name": {"target": {"new": pl.DataFrame(LONG)}},
    "wide frame": {"target": pl.DataFrame({str(k): WHOLE[:, k] for k in (2, 0, 1)})},
    "array of three dimensions": {"target": WHOLE[:, :, None]},
    "array of floats of 16 bits": {"target": WHOLE.astype("float16")},
    "fractions as names": {
        "frame": FRAME | {"a": ACTION * 1.0},
        "actions": np.unique(ACTION * 1.0),
        "target": WHOLE,
    },
    "whole numbers beside floats": {"frame": FRAME | {"a": ACTION * 1.0}, "target": LONG},
    "list": {"frame": FRAME | {"l": WHOLE.tolist()}, "target": {"list": "l"}},
    "list as text": {"frame": FRAME | {"l": ["{.1, .1, .8}"] * N}, "target": {"list": "l"}},
    "no context": {"context": []},
    "truth values as text": {"frame": FRAME | {"r": np.where(REWARD == 1, "TRUE", "FALSE")}},
    "yes and no": {"frame": FRAME | {"r": np.where(REWARD == 1, "yes", "no")}},
    "unused columns of lists": {"frame": FRAME | {"emb": [[1.0, 2.0]] * N, "odd": [{}] * N}},
    "vector": {"frame": FRAME | {"emb": [[1.0, 2.0]] * N}, "context": ["x", "emb"]},
    "pattern": {"frame": FRAME | {"e_0": ACTION, "e_1": FRAME["x"]}, "context": ["e_*"]},
    "a little above one": {"frame": FRAME | {"p": np.where(ACTION == 9, 1, OLD[ACTION])}},
    "named None": {
        "frame": FRAME | {"a": np.array(["None", "NA", "call"])[ACTION]},
        "actions": ["None", "NA", "call"],
        "target": WHOLE,
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_what_people_have_is_read_right(form: str) -> None:
    tolerance = 1e-3 if "16 bits" in form else 1e-12
    assert value(**FORMS[form]) == pytest.approx(EXACT, rel=tolerance)


ROWWISE = np.random.default_rng(3).dirichlet(np.ones(3), N)
LABELS = np.array([f"r{k}" for k in range(N)])
MIXED = np.random.default_rng(4).permutation(N)


@pytest.mark.parametrize("labels", [LABELS, np.arange(N), 1000 + MIXED])
def test_policies_of_pandas_are_taken_in_the_order_of_the_logs_labels(labels: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(FRAME, index=labels)
    wide = pandas.DataFrame(ROWWISE, columns=["0", "1", "2"], index=labels)
    logged = wide.to_numpy()[np.arange(N), ACTION]
    expected = value(target=ROWWISE)
    for source in (frame, {name: frame[name] for name in frame}, {**frame}):
        for mixed in (wide, wide[::-1], wide.iloc[MIXED], wide.reset_index(drop=True)):
            assert value(source, target=mixed) == pytest.approx(expected, rel=1e-12)
            assert value(source, logging=mixed) == pytest.approx(EXACT, rel=1e-12)
        probability = pandas.Series(logged, index=labels)[::-1]
        target = {"probability": probability}
        assert value(source, target=target) == pytest.approx(expected, rel=1e-12)
    log = Log.from_frame(frame, **NAMES, predicted_reward=wide.iloc[MIXED][["2", "0", "1"]])
    np.testing.assert_array_equal(log.predicted_reward, ROWWISE)


@pytest.mark.parametrize("form", ["table", "action", "probability"])
def test_labels_that_leave_the_order_of_rows_open_are_refused(form: str) -> None:
    pandas = pytest.importorskip("pandas")
    one = {"action": ACTION, "probability": NEW[ACTION]}
    given = pandas.DataFrame(ROWWISE) if form == "table" else pandas.Series(one[form])
    for labels, others in ((MIXED, np.arange(N)), (LABELS, LABELS + "x"), (LABELS, MIXED + 1)):
        frame = pandas.DataFrame(FRAME, index=labels)
        with pytest.raises(UsageError, match=r"target.*index differs.*reset_index"):
            value(frame, target={form: given.set_axis(others)})


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_a_functions_frame_are_those_of_their_names(library: str) -> None:
    package = pytest.importorskip(library)

    def policy(names: list[Any]) -> Any:
        return lambda part: package.DataFrame(
            {name: np.full(len(part["x"]), NEW[int(str(name)[-1])]) for name in names}
        )

    for names in (["0", "1", "2"], ["2", "0", "1"]):
        assert value(target=policy(names)) == pytest.approx(EXACT, rel=1e-12)
    with pytest.raises(UsageError, match="columns a0, 1, 2 are not the actions 0, 1, 2"):
        value(target=policy(["a0", "1", "2"]))


def test_probabilities_that_are_off_by_rounding_are_taken() -> None:
    for frame in (cell("p", 5, 1 + 2e-16), cell("q", 5, 1 + 9e-7), cell("q", 5, -1e-17)):
        value(frame)
    assert value(target=np.full((N, 3), 0.333)) == pytest.approx(
        np.mean(1 / 3 / OLD[ACTION] * REWARD)
    )
    for frame in (cell("p", 5, 1 + 2e-6), cell("q", 5, -2e-6)):
        with pytest.raises(UsageError, match=r"row 5, column '[pq]'"):
            value(frame)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    **{
        f"odd cell {odd}": (
            {"frame": cell("x", 7, odd)},
            rf"row 7, column 'x': {pattern}.*`missing: .*1 of 400 .*`categorical`",
        )
        for odd, pattern in {
            "?": r"'\?'",
            "80+": r"'80\+'",
            "unknown": "'unknown'",
        }.items()
    },
    **{
        f"comma {name} {text}": (
            {"frame": cell(name, 7, text)},
            rf"row 7, column '{name}': '{text}'.*point.*`decimal: .,.`",
        )
        for name, text in {"x": "1,5", "p": "0,25", "q": ",25", "r": "1.234,5"}.items()
    },
    **{
        f"commas in {name}": (
            {"frame": FRAME | {name: [f"0,{k}" for k in range(1, N + 1)]}},
            rf"row 0, column '{name}': '0,1'.*`decimal: .,.`",
        )
        for name in "xpqr"
    },
    **{
        f"more digits than a float, {name}": (
            {"frame": FRAME | {"x": values}},
            r"row 1, column 'x': [-0-9]+ has more digits .*`categorical`",
        )
        for name, values in {
            "64 bits": 2**53 + np.arange(N),
            "unsigned": np.uint64(2**63) + np.arange(N, dtype=np.uint64),
            "negative": -(2**60) - np.arange(N),
            "text": [str(10**20 + k) for k in range(N)],
        }.items()
    },
    **{
        f"empty {name}": ({"frame": FRAME | {"x": values}}, f"row {row}, column 'x': .*is empty")
        for name, values, row in (
            ("lists", [[]] * N, 0),
            ("list beside full ones", [[1.0]] * 3 + [[]] + [[1.0]] * (N - 4), 3),
            ("texts of lists", ["[]"] * N, 0),
            ("text of a list beside full ones", ["{1}"] * 3 + ["{ }"] + ["{1}"] * (N - 4), 3),
            ("arrays", np.zeros((N, 0)), 0),
            ("Arrow lists", pl.Series([[]] * N, dtype=pl.List(pl.Float64)), 0),
        )
    },
    **{
        f"half of a character in {name}": (
            {"frame": cell(name, 7, "h" + chr(code))},
            rf"row 7, column '{name}': 'h\\u{code:x}' holds half of a character",
        )
        for name, code in {"x": 0xD83D, "a": 0xDC00, "r": 0xD800}.items()
    },
    "things of no type": ({"frame": FRAME | {"a": [{1}] * N}}, "'a': holds other things .set."),
    "a series": ({"frame": pl.Series(FRAME["x"])}, "expected a data frame.*not Series"),
    "labels": ({"frame": FRAME | {"p": ACTION}}, "column 'p': .*labels"),
    "logarithms": ({"frame": FRAME | {"p": np.log(OLD[ACTION])}}, "logarithms; write exp"),
    "percents": ({"frame": FRAME | {"p": 100 * OLD[ACTION]}}, "percents; divide them by 100"),
    "percents as text": ({"frame": FRAME | {"p": ["50%"] * N}}, "'50%'.*divided by 100"),
    "continuous": ({"frame": FRAME | {"a": FRAME["x"] + 0.001}}, "continuous actions: "),
    "probabilities as actions": (
        {"frame": FRAME | {"a": WORDS}, "target": {"action": "q"}},
        "0.1, 0.8 are no actions of column 'a'.*--target-probability q",
    ),
    "case": (
        {
            "frame": FRAME | {"a": WORDS, "b": np.where(WORDS == "u", "U ", WORDS)},
            "target": {"action": "b"},
        },
        "'u' of column 'a' and 'U' of policy 'target' differ in spelling alone",
    ),
    "form": (
        {
            "target": LONG | {"action": np.array(["0.50", "1", "2"] * N)},
            "frame": FRAME | {"a": np.array(["0.5", "1", "2"])[ACTION]},
        },
        "differ in spelling alone",
    ),
    "order": ({"frame": FRAME | {"a": WORDS}, "target": WHOLE}, r'actions=\["u", "v", "w"\]'),
    "order of lists": (
        {"frame": FRAME | {"a": WORDS, "l": WHOLE.tolist()}, "target": {"list": "l"}},
        "order of its actions is not known",
    ),
    "shape": ({"target": np.full((N, 4), 0.25)}, r"\(400, 4\); expected \(400, 3\).*`actions`"),
    "wide of other length": (
        {"target": {"0": [0.5] * 3, "1": [0.5] * 3}},
        "3 rows .* the log has 400 rows",
    ),
    "lists of two lengths": (
        {"frame": FRAME | {"e": [[1.0]] * (N - 1) + [[1.0, 2.0]]}, "context": ["e"]},
        "row 399, column 'e': 2 numbers; row 0 has 1",
    ),
    "inf": ({"frame": cell("x", 3, np.inf)}, "row 3, column 'x': inf is not a finite number"),
    "inf in floats": (
        {"frame": FRAME | {"x": np.where(np.arange(N) == 3, np.inf, 1.0)}},
        "row 3, column 'x'",
    ),
    "bad reward": ({"frame": cell("r", 2, "bad")}, "row 2, column 'r': 'bad' is not"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_right_is_refused_with_place_and_cure(name: str) -> None:
    changes, said = REFUSED[name]
    with pytest.raises(UsageError, match=said) as caught:
        value(**changes)
    assert "\n" not in str(caught.value)
    if name == "bad reward":
        assert "leave the row out" not in str(caught.value)


def test_names_that_two_sources_share_stay_apart_where_both_have_both() -> None:
    names = np.array(["007", "7", "x"])
    frame = FRAME | {"a": names[ACTION]}
    assert value(frame, target=LONG | {"action": np.tile(names, N)}) == pytest.approx(EXACT)


def test_identifiers_of_64_bits_stay_apart_in_files_and_frames(tmp_path: Any) -> None:
    ids: list[int | None] = [2**60 + 1 + int(one) for one in ACTION % 2]
    ids[3] = None
    frame = FRAME | {"c": ids}
    write_csv(tmp_path / "t.csv", frame | {"c": ["" if one is None else one for one in ids]})
    pl.DataFrame(frame).write_parquet(tmp_path / "t.parquet")
    for source in (frame, pl.DataFrame(frame), tmp_path / "t.csv", tmp_path / "t.parquet"):
        log = Log.from_frame(source, **(NAMES | {"context": ["c"], "categorical": ["c"]}))
        assert len(log.schema.context[0].categories) == 3
        assert log.columns[0].levels == 2


def test_rows_are_left_out_for_a_missing_value_and_not_for_a_word(tmp_path: Any) -> None:
    rewards: list[object] = ["" if k in (1, 2, 3) else one for k, one in enumerate(REWARD)]
    frame = FRAME | {"a": np.array(["None", "mail", "call"])[ACTION], "r": rewards}
    write_csv(tmp_path / "t.csv", frame)
    kept = np.setdiff1d(np.arange(N), [1, 2, 3])
    for source in (frame, tmp_path / "t.csv"):
        log = Log.from_frame(source, **NAMES, drop_missing=True)
        np.testing.assert_array_equal(log.reward, REWARD[kept])
        assert log.notes[0].startswith("3 of 400 rows left out")


def test_an_identifier_is_a_fact_and_models_see_its_frequent_levels() -> None:
    many = FRAME | {"id": [f"u{k if k > 99 else k // 10}" for k in range(N)]}
    log = Log.from_frame(many, **(NAMES | {"context": ["id"]}))
    assert [one.name for one in log.columns if one.identifier] == ["id"]
    assert len(log.schema.context[0].categories) == 51
    assert np.bincount(log.context[:, 0].astype(int))[:1].item() in (1, 10)
    few = Log.from_frame(
        FRAME | {"id": [f"u{k % 50}" for k in range(N)]}, **(NAMES | {"context": ["id"]})
    )
    assert not any(one.identifier for one in few.columns)
    assert len(few.schema.context[0].categories) == 50


def test_a_classifier_of_scikit_learn_is_a_policy() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    x = np.asarray(FRAME["x"])[:, None]
    model = linear_model.LogisticRegression().fit(x, WORDS)
    exact = np.mean(model.predict_proba(x)[np.arange(N), ACTION] / OLD[ACTION] * REWARD)
    frame = FRAME | {"a": WORDS}
    assert value(frame, target=model) == pytest.approx(exact, rel=1e-12)
    pandas = pytest.importorskip("pandas")
    named = linear_model.LogisticRegression().fit(pandas.DataFrame({"x": FRAME["x"]}), WORDS)
    assert value(frame, target={"policy": named}) == pytest.approx(exact, rel=1e-12)
    seg = FRAME | {"a": WORDS, "seg": np.where(ACTION > 0, "web", "app")}
    with pytest.raises(UsageError, match="put the encoding into its pipeline"):
        value(seg, context=["seg"], target=model)


def test_the_dictionary_of_open_bandit_pipeline_needs_no_names() -> None:
    feedback = {
        "n_rounds": N,
        "n_actions": 3,
        "context": RNG.normal(size=(N, 4)),
        "action": ACTION,
        "position": None,
        "reward": REWARD,
        "pscore": OLD[ACTION],
        "pi_b": np.tile(OLD, (N, 1))[:, :, None],
    }
    log = Log.from_frame(feedback, target=WHOLE[:, :, None])
    weights = log.weights("target")
    assert weights is not None
    assert np.mean(weights * log.reward) == pytest.approx(EXACT, rel=1e-12)
    np.testing.assert_array_equal(log.context, feedback["context"])
    with pytest.raises(UsageError, match="name the columns of `action` and `reward`"):
        Log.from_frame(FRAME, target="q")


def test_a_check_says_what_was_understood() -> None:
    log = Log.from_frame(FRAME | {"a": WORDS, "t": np.arange(N)}, **NAMES, time="t")
    columns = log.check().as_json()["columns"]
    assert {one["role"]: one["type"] for one in columns} == {
        "context": "float",
        "action": "text",
        "reward": "integer",
        "propensity": "float",
        "time": "integer",
        "target 'target' (probability)": "float",
    }
    (action,) = (one for one in columns if one["role"] == "action")
    assert (action["levels"], action["missing"], action["example"]) == (3, 0, WORDS[0])
    assert "what was understood" in str(log.check())


@pytest.mark.parametrize("kind", ["free text", "numbers of orders", "times named as categories"])
def test_a_category_that_tells_rows_apart_is_found_and_models_see_few_of_its_levels(
    kind: str,
) -> None:
    n = 20_000
    many = {
        "free text": [f"I want {k} of {k * 7}" for k in range(n)],
        "numbers of orders": 10**15 + np.arange(n),
        "times named as categories": np.datetime64("2024-01-01T00:00") + np.arange(n),
    }
    frame = {name: np.resize(np.asarray(values), n) for name, values in FRAME.items()}
    names = NAMES | {"context": ["x", "c"], "categorical": ["c"]}
    log = Log.from_frame(frame | {"c": many[kind]}, **names)
    (finding,) = identifiers(log)
    assert (finding.passed, finding.subject) == (False, "c")
    assert "leave" in finding.first_action.lower()
    assert len(log.schema.context[1].categories) == 51


def test_a_recommender_with_400_categories_in_20_000_rows_is_no_identifier() -> None:
    n = 20_000
    frame = {name: np.resize(np.asarray(values), n) for name, values in FRAME.items()}
    kinds = np.array([f"k{k}" for k in range(400)])[RNG.integers(0, 400, n)]
    log = Log.from_frame(frame | {"kind": kinds}, **(NAMES | {"context": ["x", "kind"]}))
    (finding,) = identifiers(log)
    assert finding.passed
    assert len(log.schema.context[1].categories) == 400


def test_columns_called_yes_and_no_and_a_file_of_excel_are_read(tmp_path: Any) -> None:
    rows = zip(FRAME["x"], ACTION, REWARD, FRAME["p"], FRAME["q"], strict=True)
    lines = ["y;on;yes;no;n", *(";".join(map(str, row)) for row in rows)]
    (tmp_path / "log.csv").write_bytes(("\ufeff" + "\r\n".join(lines) + "\r\n").encode())
    described = (
        "schema: 1\ntable: log.csv\ncontext: [y]\naction: on\nreward: yes\npropensity: no\n"
        "target: {on: {probability: n}, off: {probability: no}}\n"
    )
    (tmp_path / "log.yaml").write_bytes(("\ufeff" + described.replace("\n", "\r\n")).encode())
    log = Log.read(tmp_path / "log.yaml")
    means = [float(np.mean(np.asarray(log.weights(one)) * log.reward)) for one in ("on", "off")]
    assert means == pytest.approx([EXACT, REWARD.mean()], rel=1e-12)


def test_ratios_of_tiny_probabilities_are_exact_and_quiet() -> None:
    logarithm = -np.minimum(690, 600 + RNG.normal(0, 30, N))
    ratio = np.exp(RNG.normal(-0.125, 0.5, N))
    p, q = np.exp(logarithm), np.exp(logarithm) * ratio
    assert value(FRAME | {"p": p, "q": q}) == pytest.approx(np.mean(q / p * REWARD), rel=1e-12)


def test_there_is_no_percentage_of_an_average_that_is_zero_up_to_its_error() -> None:
    centered = (REWARD - REWARD.mean()) / REWARD.std()
    for rewards, known in ((centered, False), (REWARD, True)):
        row = estimate(Log.from_frame(FRAME | {"r": rewards}, **NAMES), ["ipw"])["ipw"]
        assert (row.lift_relative is not None) == known
        assert row.lift is not None


def test_rewards_of_another_scale_have_values_of_that_scale() -> None:
    plain, tiny = (
        estimate(Log.from_frame(FRAME | {"r": REWARD * scale}, **NAMES), ["ipw", "ipws"])
        for scale in (1.0, 2.0**-27)
    )
    for name in ("ipw", "ipws"):
        assert tiny[name].value == plain[name].value * 2.0**-27
        assert tiny[name].low == pytest.approx(plain[name].low * 2.0**-27, rel=1e-9)


def test_clicks_in_any_unit_of_money_have_the_models_of_clicks() -> None:
    models = [f"dm[regressor={one}]" for one in ("gbm", "random-forest", "ridge")]
    given = NAMES | {"target": RNG.dirichlet(np.ones(3), N)}
    plain, *others = (
        estimate(Log.from_frame(FRAME | {"r": REWARD * unit}, **given), models)
        for unit in (1.0, 1e-8, 3e-11, 7e9)
    )
    for unit, found in zip((1e-8, 3e-11, 7e9), others, strict=True):
        for one, other in zip(plain.targets[0].rows, found.targets[0].rows, strict=True):
            assert other.value == pytest.approx(one.value * unit, rel=1e-9)


def test_a_time_is_called_a_time_whatever_its_type() -> None:
    words = [f"{1 + k % 28:02}/0{1 + k % 9}/2024" for k in range(N)]
    log = Log.from_frame(FRAME | {"t": words}, **NAMES, time="t", time_format="%d/%m/%Y")
    (fact,) = (one for one in log.columns if one.role == "time")
    assert (fact.type, fact.low, fact.high) == ("time", "01/01/2024", "28/09/2024")


def test_the_reader_is_imported_when_a_table_is_read() -> None:
    script = (
        "import sys, ope_bench; from ope_bench.cli.app import invoke; invoke(['list', '--help']); "
        "ope_bench.Log; print('polars' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines()[-1] == "False"


def test_a_plugin_is_described_without_docstrings() -> None:
    run = subprocess.run(
        [sys.executable, "-OO", "-m", "ope_bench", "show", "ipw"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "ABC" not in run.stdout
    assert "parameters" in run.stdout
