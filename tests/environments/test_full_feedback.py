"""Tables that score every action: their layouts, exact values, and what is wrong with a table."""

import csv

import numpy as np
import pytest

from ope_bench import DataFileError, ParameterError, stream
from ope_environments.full_feedback.environment import FullFeedback
from ope_environments.full_feedback.scores import generated

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
    with pytest.raises(DataFileError, match="no column 'lenght'"):
        sampled(path=path, scores=list(MODELS), context=["lenght"])
    with pytest.raises(DataFileError, match="one action only"):
        sampled(path=path, scores=["small"], context=["length"])
    with pytest.raises(ParameterError, match="train_share"):
        sampled(path=path, scores=list(MODELS), context=["length"], train_share=0.001)
