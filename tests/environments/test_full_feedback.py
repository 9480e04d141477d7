"""Tables that score every action: their layouts, exact values, and what is wrong with a table."""

import csv
import json

import numpy as np
import pytest

from ope_bench import DataFileError, ParameterError, UnavailableError, stream
from ope_environments.full_feedback import judged_prompts, learning_curves
from ope_environments.full_feedback.environment import FullFeedback
from ope_environments.full_feedback.scores import generated
from ope_environments.tables.installed_folder import installed_folder

PROMPTS, MODELS = 60, ("small", "large", "other")
LONG = {"row": "prompt", "action": "model", "score": "quality", "cost": "dollars"}


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return [
        {
            "prompt": f"p{k}",
            "model": model,
            "quality": round(float(rng.random()), 3),
            "dollars": round(float(rng.random()) / 10, 4),
            "length": k % 7,
            "topic": ("law", "code")[k % 2],
        }
        for k in range(PROMPTS)
        for model in MODELS
    ]


def write_long(path, rows):
    with path.open("w", newline="") as stream_:
        writer = csv.DictWriter(stream_, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def write_wide(path, rows):
    wide = []
    for k in range(0, len(rows), len(MODELS)):
        line = {"length": rows[k]["length"], "topic": rows[k]["topic"]}
        for one in rows[k : k + len(MODELS)]:
            line |= {one["model"]: one["quality"], f"{one['model']}_cost": one["dollars"]}
        wide.append(line)
    return write_long(path, wide)


def sampled(seed=0, **params):
    return FullFeedback(**params).sample(
        world_rng=stream("world", seed),
        logged_rng=stream("logs", seed),
        target_rng=stream("target", seed),
    )


def assert_same(first, second):
    assert first[1] == second[1]
    for name in ("context", "action", "reward", "propensity", "target_action"):
        np.testing.assert_array_equal(getattr(first[0], name), getattr(second[0], name))


def test_wide_and_long_tables_are_the_same_world(tmp_path, rows):
    shuffled = [rows[k] for k in np.random.default_rng(1).permutation(len(rows))]
    first_lines = sorted(
        shuffled, key=lambda row: (int(row["prompt"][1:]), MODELS.index(row["model"]))
    )
    long = write_long(tmp_path / "long.csv", first_lines)
    wide = write_wide(tmp_path / "wide.csv", rows)
    common = {"context": ["length", "topic"], "cost_weight": 2.0, "n_samples": 40}
    costs = [f"{model}_cost" for model in MODELS]
    assert_same(
        sampled(path=long, **LONG, **common),
        sampled(path=wide, scores=list(MODELS), costs=costs, **common),
    )


def test_embeddings_of_parquet_are_contexts(tmp_path, rows):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "prompts.parquet"
    vectors = np.random.default_rng(2).standard_normal((PROMPTS, 5)).round(3)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    columns["embedding"] = [vectors[k].tolist() for k in range(PROMPTS) for _ in MODELS]
    pq.write_table(pa.table(columns), path)
    problem, _ = sampled(path=str(path), vector="embedding", **LONG, n_samples=30)
    known = {tuple(row) for row in vectors.tolist()}
    assert all(tuple(row) in known for row in problem.context.tolist())
    columns["embedding"][4] = [1.0]
    pq.write_table(pa.table(columns), path)
    with pytest.raises(DataFileError, match=r"row 5, column 'embedding'"):
        sampled(path=str(path), vector="embedding", **LONG)


@pytest.mark.parametrize("logging", ["uniform", "softmax", "epsilon-greedy", "best-fixed"])
@pytest.mark.parametrize("cost_weight", [0.0, 0.3])
def test_the_value_is_the_sum_over_rows_and_actions(logging, cost_weight):
    made = FullFeedback(logging=logging, target="softmax", cost_weight=cost_weight)
    population = made.population(stream("world", 3))
    found = generated()
    reward = found.score - cost_weight * found.cost
    # Each row of the population is found in the table by its context.
    at = {tuple(row): k for k, row in enumerate(found.context.tolist())}
    rows = [at[tuple(row)] for row in population.context.tolist()]
    assert len(set(rows)) == len(rows) == round(0.7 * len(found.context))
    table = population.target.table(population.context)
    total = sum(float(table[k] @ reward[row]) for k, row in enumerate(rows)) / len(rows)
    assert population.expected == pytest.approx(total, rel=1e-12)
    problem, _ = sampled(3, logging=logging, target="softmax", cost_weight=cost_weight)
    logged = [at[tuple(row)] for row in problem.context.tolist()]
    expected = reward[logged, problem.action]
    np.testing.assert_array_equal(problem.reward, expected)
    assert problem.reward_range == ((0.0, 1.0) if cost_weight == 0 else None)


def test_a_policy_follows_its_models_predictions():
    uniform, greedy, fixed = (
        FullFeedback(logging=kind, logging_epsilon=0.0).population(stream("world", 0)).logging
        for kind in ("uniform", "epsilon-greedy", "best-fixed")
    )
    context = FullFeedback().population(stream("world", 0)).context[:200]
    np.testing.assert_allclose(uniform.table(context), 1 / 12)
    assert len(set(greedy.table(context).argmax(axis=1).tolist())) > 2
    assert len(set(fixed.table(context).argmax(axis=1).tolist())) == 1
    target = FullFeedback(target="epsilon-greedy", target_epsilon=0.0)
    better = target.population(stream("world", 0)).expected
    assert better > FullFeedback(target="uniform").population(stream("world", 0)).expected + 0.05


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda rows: rows.pop(7), "'p2' has no score of 'large'"),
        (lambda rows: rows.append(dict(rows[4])), "'p1' has 'large' twice"),
        (lambda rows: rows[5].update(quality="good"), "line 7, column 'quality'"),
    ],
)
def test_what_is_wrong_with_a_table_is_told_with_its_place(tmp_path, rows, change, place):
    change(rows)
    path = write_long(tmp_path / "long.csv", rows)
    with pytest.raises(DataFileError, match=place):
        sampled(path=path, context=["length"], **LONG)


def test_wrong_roles_are_refused(tmp_path, rows):
    path = write_wide(tmp_path / "wide.csv", rows)
    with pytest.raises(ParameterError, match="context"):
        sampled(path=path, scores=list(MODELS))
    with pytest.raises(ParameterError, match="costs"):
        sampled(path=path, scores=list(MODELS), costs=["small_cost"], context=["length"])
    with pytest.raises(DataFileError, match="no column 'lengthy'"):
        sampled(path=path, scores=list(MODELS), context=["lengthy"])
    with pytest.raises(DataFileError, match="one action only"):
        sampled(path=path, scores=["small"], context=["length"])
    with pytest.raises(ParameterError, match="train_share"):
        sampled(path=path, scores=list(MODELS), context=["length"], train_share=0.001)


def write_prompts(folder, change=lambda rows: rows):
    """Files in the layout of paretobandit, of four made prompts."""
    rows = [
        {
            "prompt": f"Write {'a very long ' * k}poem",
            "source": "verse" if k % 2 else "prose",
            "arms": {
                "small": {"reward": 0.25 * k, "cost": 0.001},
                "large": {"reward": 1.0 - 0.125 * k, "cost": 0.1},
            },
        }
        for k in range(4)
    ]
    examples = folder / "data" / "examples"
    examples.mkdir(parents=True)
    lines = [json.dumps(row) for row in change(rows)]
    (examples / "val.jsonl").write_text("\n".join(lines[:3]) + "\n", encoding="utf-8")
    (examples / "test_holdout.jsonl").write_text("\n".join(lines[3:]) + "\n", encoding="utf-8")


def test_prompts_of_an_installed_package_are_read_in_its_layout(tmp_path, monkeypatch):
    monkeypatch.setattr(judged_prompts, "installed_folder", lambda name: tmp_path)
    write_prompts(tmp_path)
    found = judged_prompts.read_judged_prompts()
    assert found.actions == ("large", "small")
    np.testing.assert_array_equal(found.score[:, 1], [0, 0.25, 0.5, 0.75])
    np.testing.assert_array_equal(found.score[:, 0], [1, 0.875, 0.75, 0.625])
    np.testing.assert_array_equal(found.cost, [[0.1, 0.001]] * 4)
    lengths = [len(f"Write {'a very long ' * k}poem") for k in range(4)]
    np.testing.assert_allclose(np.expm1(found.context[:, 0]), lengths)
    np.testing.assert_array_equal(found.context[:, 1:3], [[1, 0], [0, 1], [1, 0], [0, 1]])
    # Components of the same words in other numbers: the longer prompts are alike.
    assert np.isfinite(found.context).all()


def test_a_package_that_is_missing_or_broken_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(judged_prompts, "installed_folder", lambda name: None)
    with pytest.raises(UnavailableError, match="pip install --no-deps paretobandit"):
        sampled(dataset="paretobandit")
    monkeypatch.setattr(judged_prompts, "installed_folder", lambda name: tmp_path)
    with pytest.raises(UnavailableError, match="pip install --no-deps paretobandit"):
        sampled(dataset="paretobandit")

    def lacking(rows):
        del rows[2]["arms"]["large"]["cost"]
        return rows

    write_prompts(tmp_path, lacking)
    with pytest.raises(DataFileError, match="line 3"):
        sampled(dataset="paretobandit")
    with pytest.raises(ParameterError, match="not both"):
        sampled(dataset="paretobandit", path="table.csv")


@pytest.mark.parametrize("dataset", ["paretobandit", "lcdb", None])
@pytest.mark.parametrize(
    "columns",
    [
        *({"context": ["length"]}, {"scores": ["a"]}, {"costs": ["b"]}, {"vector": "v"}),
        *({"row": "prompt"}, {"action": "model"}, {"score": "won"}, {"cost": "price"}),
    ],
)
def test_columns_of_a_table_that_has_its_own_are_refused(dataset, columns):
    with pytest.raises(ParameterError, match=f"{next(iter(columns))} names columns of a path"):
        sampled(dataset=dataset, **columns)


def test_what_noise_costs_is_the_variance_of_a_coin():
    # The made table's scores are zeros and ones, which a coin leaves as they are.
    plain, _ = sampled(n_samples=500)
    noisy, _ = sampled(n_samples=500, noise="bernoulli")
    np.testing.assert_array_equal(plain.reward, noisy.reward)


def write_curves(folder, seed=0):
    """Files in the layout of lcdb: eight data sets, four learners, holes; return the rows."""
    rng = np.random.default_rng(seed)
    facts = [*learning_curves.SIZES, *learning_curves.SHARES]
    about = ["openmlid,Name,ClassEntropy," + ",".join(facts)]
    about += [f"{k},set {k},," + ",".join(str(3 * k + j) for j in range(6)) for k in range(7)]
    rows = [
        (k, learner, size, seed, round(float(rng.random()), 4))
        for k in range(8) for learner in ("svm", "forest", "bayes", "rare")
        for size in (16, 23, 32) for seed in range(2)
        if rng.random() < 0.8 and (k, learner) != (2, "svm") and (learner != "rare" or k > 2)
    ]  # fmt: skip
    rng.shuffle(rows)
    lines = ["openmlid,learner,size_train,size_test,outer_seed,score_test"]
    lines += [f"{k},{learner},{size},99,{seed},{score}" for k, learner, size, seed, score in rows]
    (folder / learning_curves.ABOUT).write_text("\n".join(about) + "\n", encoding="utf-8")
    (folder / learning_curves.SCORES).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return rows


def test_learning_curves_are_read_where_all_learners_reached_the_same_size(tmp_path, monkeypatch):
    monkeypatch.setattr(learning_curves, "installed_folder", lambda name: tmp_path)
    rows = write_curves(tmp_path)
    found = learning_curves.read_learning_curves()
    assert found.actions == ("bayes", "forest", "svm")
    expected = {}
    for k in range(7):
        for size in (16, 23, 32):
            cells = [
                [row[4] for row in rows if row[:3] == (k, name, size)] for name in found.actions
            ]
            if all(cells):
                expected[k] = [np.mean(cell) for cell in cells]
    assert 2 not in expected
    assert len(expected) > 2
    np.testing.assert_allclose(found.score, list(expected.values()))
    sets = np.array(list(expected))
    np.testing.assert_allclose(np.expm1(found.context[:, 0]), 3 * sets, atol=1e-12)
    np.testing.assert_array_equal(found.context[:, 5], 3 * sets + 5)
    problem, truth = sampled(dataset="lcdb", n_samples=4)
    assert problem.n_actions == 3
    assert 0 < truth.expected < 1


def test_without_its_package_the_learning_curves_name_the_line_that_installs_it(monkeypatch):
    monkeypatch.setattr(learning_curves, "installed_folder", lambda name: None)
    with pytest.raises(UnavailableError, match="pip install --no-deps lcdb"):
        sampled(dataset="lcdb")


def test_learning_curves_without_a_common_size_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(learning_curves, "installed_folder", lambda name: tmp_path)
    write_curves(tmp_path)
    file = tmp_path / learning_curves.SCORES
    lines = file.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if line.split(",")[1:3] not in (["svm", "16"], ["svm", "23"])]
    kept = [line for line in kept if line.split(",")[1:3] != ["forest", "32"]]
    file.write_text("\n".join(kept) + "\n", encoding="utf-8")
    learning_curves._read.cache_clear()
    with pytest.raises(DataFileError, match="every learner"):
        sampled(dataset="lcdb")


@pytest.mark.skipif(installed_folder("pareto_bandit") is None, reason="needs paretobandit")
def test_judged_prompts_have_exact_truths_with_noise_and_without():
    plain, truth = sampled(dataset="paretobandit", n_samples=1000)
    noisy, same = sampled(dataset="paretobandit", n_samples=1000, noise="bernoulli")
    assert plain.n_actions == 3
    assert truth.expected == same.expected
    assert set(noisy.reward) == {0.0, 1.0}
    assert noisy.reward_range == (0.0, 1.0)
    assert not set(plain.reward) <= {0.0, 1.0}
    assert abs(noisy.reward.mean() - plain.reward.mean()) < 5 * 0.5 / 1000**0.5
    with pytest.raises(ParameterError, match="cost_weight"):
        sampled(dataset="paretobandit", noise="bernoulli", cost_weight=100.0)


def test_noise_is_a_coin_with_the_score_as_its_probability(tmp_path, rows):
    path = write_wide(tmp_path / "wide.csv", rows)
    given = {"path": path, "scores": list(MODELS), "context": ["length"]}
    made = FullFeedback(noise="bernoulli", **given).population(stream("world"))
    quiet = FullFeedback(**given).population(stream("world"))
    assert made.expected == quiet.expected
    row, action = np.zeros(20_000, dtype=int), np.ones(20_000, dtype=int)
    mean = quiet.reward_at(row, action)
    coins = made.noise(made.reward_at(row, action), stream("coin"))
    assert abs(coins.mean() - mean[0]) < 5 * 0.5 / 20_000**0.5
    assert coins.var() == pytest.approx(mean[0] * (1 - mean[0]), abs=0.02)
    assert set(coins) <= {0.0, 1.0}
