"""`multiclass`: a classification data set as a bandit whose reward is the right label."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from ope_bench.arrays import FloatArray, IntArray
from ope_bench.data import Column, Schema
from ope_bench.embeddings import DeterministicEmbedding
from ope_bench.errors import ParameterError
from ope_bench.seeding import stream
from ope_environments.multiclass.classifier_policy import ClassifierPolicy
from ope_environments.multiclass.labelled import Labelled, labelled
from ope_environments.population import FromPopulation, Population, bernoulli, value_of

__all__ = ["Multiclass"]

Classifier = Literal["logistic", "naive-bayes", "forest"]


class Multiclass(FromPopulation):
    """Guess the label: a classification data set turned into a bandit.

    A row's features are the context, labels the actions, and the reward is 1 for the right label
    (with ``reward_noise``: flipped with that probability). The data are split once: on one part
    classifiers are trained, from the other contexts are drawn with replacement. Logging and target
    policy are classifiers made random by a temperature and by mixing with uniform exploration; the
    logging policy's classifier sees only ``logging_train_share`` of the training rows.

    Source
    ------
    ``dataset`` is one of scikit-learn's bundled sets (digits: 1,797 rows, 64 features, 10 labels;
    iris; wine; breast_cancer), or the path of a table (CSV, ARFF, KEEL's .dat, parquet) with
    ``label`` naming its column of labels, which may be words. Columns that are not all numbers are
    shown one-hot.

    Truth
    -----
    Exact: the mean over the evaluation rows of the target policy's probability of the right label
    (with noise: ``noise + (1 - 2 noise)`` times it). The evaluation rows are the population, so no
    sampling error is left in it.

    Access: everything. The embedding of a label is a function of it: one-hot, or the mean of its
    training rows' features in the space of their principal components.

    Traps: labels are right or wrong whatever the policy, so the reward is a function of features
    that a good classifier already knows: reward models do unusually well here. The split and the
    classifiers are the world and are fixed by ``split_seed``, so replicates differ by sampling
    alone. A logging policy at temperature 0 without exploration does not support other labels.

    Parameters
    ----------
    n_samples : logged rows, and target rows.
    dataset : name of a bundled set, or path of a table.
    label : the column of labels, for a table.
    train_share : share of the rows that classifiers are trained on.
    logging_train_share : share of those that the logging policy's classifier sees.
    split_seed : of the split and of the classifiers.
    logging_classifier, target_classifier : the models.
    logging_temperature, target_temperature : of their probabilities; 0 takes the best label.
    logging_epsilon, target_epsilon : share of uniform exploration.
    embedding : of the labels.
    d_embedding : principal components, at most the number of features.
    reward_noise : probability that a reward is flipped.
    shared_contexts : whether row i of both samples has the same context.

    References
    ----------
    "Doubly Robust Policy Evaluation and Learning" (Dudik, Langford and Li, 2011), section 4.1.

    >>> problem, truth = Multiclass(n_samples=50, dataset="iris").sample(
    ...     world_rng=np.random.default_rng(0), logged_rng=np.random.default_rng(1),
    ...     target_rng=np.random.default_rng(2))
    >>> problem.n_actions, problem.context.shape, truth.expected_se
    (3, (50, 4), 0.0)
    """

    check_params = {"dataset": "iris"}  # noqa: RUF012

    def __init__(
        self,
        n_samples: Annotated[int, Ge(1)] = 1000,
        dataset: str = "digits",
        label: str | None = None,
        train_share: Annotated[float, Gt(0), Lt(1)] = 0.5,
        logging_train_share: Annotated[float, Gt(0), Le(1)] = 0.2,
        split_seed: Annotated[int, Ge(0)] = 0,
        logging_classifier: Classifier = "logistic",
        target_classifier: Classifier = "logistic",
        logging_temperature: Annotated[float, Ge(0)] = 3.0,
        target_temperature: Annotated[float, Ge(0)] = 0.0,
        logging_epsilon: Annotated[float, Ge(0), Le(1)] = 0.3,
        target_epsilon: Annotated[float, Ge(0), Le(1)] = 0.1,
        embedding: Literal["one-hot", "means"] = "means",
        d_embedding: Annotated[int, Ge(1)] = 4,
        reward_noise: Annotated[float, Ge(0), Lt(0.5)] = 0.0,
        shared_contexts: bool = False,
    ) -> None:
        self.n_samples = n_samples
        self.dataset = dataset
        self.label = label
        self.train_share = train_share
        self.logging_train_share = logging_train_share
        self.split_seed = split_seed
        self.logging_classifier = logging_classifier
        self.target_classifier = target_classifier
        self.logging_temperature = logging_temperature
        self.target_temperature = target_temperature
        self.logging_epsilon = logging_epsilon
        self.target_epsilon = target_epsilon
        self.embedding = embedding
        self.d_embedding = d_embedding
        self.reward_noise = reward_noise
        self.shared_contexts = shared_contexts

    @property
    def data_files(self) -> tuple[str, ...]:
        """The table, if it is one."""
        return (self.dataset,)

    @property
    def requires(self) -> tuple[str, ...]:
        """What trains the classifiers."""
        return ("sklearn.linear_model",)

    def population(self) -> Population:
        """The evaluation rows and the two policies."""
        return _world(
            labelled(self.dataset, self.label),
            (self.train_share, self.logging_train_share, self.split_seed),
            (self.logging_classifier, self.logging_temperature, self.logging_epsilon),
            (self.target_classifier, self.target_temperature, self.target_epsilon),
            None if self.embedding == "one-hot" else self.d_embedding,
            self.reward_noise,
        )


@lru_cache(maxsize=4)
def _world(
    data: Labelled,
    shares: tuple[float, float, int],
    logging: tuple[Classifier, float, float],
    target: tuple[Classifier, float, float],
    d_embedding: int | None,
    noise: float,
) -> Population:
    n_actions = len(data.names)
    train, few, evaluation, rng = _split(data.label, n_actions, *shares)
    models = [
        _fitted(kind, data.features[rows], data.label[rows], rng)
        for (kind, _, _), rows in ((logging, few), (target, train))
    ]
    policies = [
        ClassifierPolicy(model, n_actions, temperature, epsilon)
        for model, (_, temperature, epsilon) in zip(models, (logging, target), strict=True)
    ]
    embedding = _label_embedding(data.features[train], data.label[train], n_actions, d_embedding)
    context, label = data.features[evaluation], data.label[evaluation]
    right = np.eye(n_actions)

    def reward_at(row: IntArray, action: IntArray) -> FloatArray:
        mean: FloatArray = noise + (1.0 - 2.0 * noise) * (label[row] == action)
        return mean

    kind = "categorical" if d_embedding is None else "atoms"
    categories = (0.0, 1.0) if d_embedding is None else ()
    return Population(
        context=context,
        schema=Schema(
            _kinds(context),
            (Column(kind, categories),) * embedding.shape[1],  # type: ignore[arg-type]
        ),
        logging=policies[0],
        target=policies[1],
        embedding=DeterministicEmbedding(embedding),
        reward_at=reward_at,
        noise=bernoulli,
        expected=noise
        + (1.0 - 2.0 * noise) * value_of(policies[1], context, lambda rows: right[label[rows]]),
    )


def _split(
    label: IntArray, n_actions: int, train_share: float, logging_share: float, seed: int
) -> tuple[IntArray, IntArray, IntArray, np.random.Generator]:
    """Training rows, those of them for the logging policy, evaluation rows.

    One row of every label is among the first, so that every classifier knows all labels.
    """
    rng = stream("multiclass split", seed)
    order = rng.permutation(len(label))
    first = np.unique(label[order], return_index=True)[1]
    order = np.concatenate([order[first], np.delete(order, first)])
    n_train = max(n_actions, round(train_share * len(label)))
    if n_train >= len(label):
        msg = (
            f"multiclass: train_share = {train_share} of {len(label)} rows with {n_actions} labels"
            " leaves no rows to evaluate on"
        )
        raise ParameterError(msg)
    train = order[:n_train]
    return train, train[: max(n_actions, round(logging_share * n_train))], order[n_train:], rng


def _fitted(kind: Classifier, features: FloatArray, label: IntArray, rng: Any) -> Any:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    seed = int(rng.integers(2**31))
    if kind == "logistic":
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000))
    elif kind == "naive-bayes":
        model = GaussianNB(var_smoothing=1e-3)
    else:
        model = RandomForestClassifier(100, min_samples_leaf=2, random_state=seed, n_jobs=1)
    return model.fit(features, label)


def _label_embedding(
    features: FloatArray, label: IntArray, n_actions: int, d_embedding: int | None
) -> FloatArray:
    """One-hot, or each label's mean in the space of the principal components."""
    if d_embedding is None:
        return np.eye(n_actions)
    if d_embedding > min(features.shape):
        msg = (
            f"multiclass: d_embedding = {d_embedding} is more than the"
            f" {min(features.shape)} principal components there are"
        )
        raise ParameterError(msg)
    std = features.std(axis=0)
    scaled = (features - features.mean(axis=0)) / np.where(std > 0, std, 1.0)
    _, _, axes = np.linalg.svd(scaled, full_matrices=False)
    axes = axes[:d_embedding]
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    scores = scaled @ (axes * np.sign(largest)).T
    return np.stack([scores[label == k].mean(axis=0) for k in range(n_actions)])


def _kinds(context: FloatArray) -> tuple[Column, ...]:
    """Columns of zeros and ones only are categorical."""
    binary = ((context == 0) | (context == 1)).all(axis=0)
    return tuple(Column("categorical", (0.0, 1.0)) if one else Column() for one in binary)
