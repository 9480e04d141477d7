"""What a user gives is read as it is given: columns, labels, orders; or refused."""

from __future__ import annotations

import numpy as np
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
