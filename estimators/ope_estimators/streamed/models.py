"""Reward models that are fitted to sums over batches, and their predictions in a batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ope_bench import FloatArray, IntArray, UnavailableError
from ope_estimators.features.actions import encoded
from ope_estimators.nuisance.expected_reward import ExpectedReward
from ope_estimators.nuisance.reward import RewardModel
from ope_estimators.nuisance.separate import SeparateRewardModel
from ope_estimators.streamed.batches import Batch
from ope_estimators.streamed.ridge import coefficients

__all__ = ["ModelSums"]

Model = RewardModel | SeparateRewardModel

REFUSED = (
    "over batches of rows models are regressor=ridge, with action_features one-hot, embedding or "
    "separate and no parameters but alpha and shrinkage; write so, or sample rows"
)


@lru_cache(maxsize=4)
def _folds_of_units(streams: Any, model: Model, n_units: int, k: int) -> Any:
    """Return the fold of each unit as `fold_of` does, in a byte each: (n_units,)."""
    return streams(model).permutation(np.resize(np.arange(k, dtype=np.uint8), n_units))


class ModelSums:
    """The reward models that estimators ask for: their sums, their fits and their predictions.

    Parameters
    ----------
    facts : of the log.

    Attributes
    ----------
    models : those that were asked for.
    """

    def __init__(self, facts: Any) -> None:
        pilot = facts.pilot
        self._streams, self._n_units = facts.streams, facts.n_units
        self._ranks = None if facts.units is None else facts.units.rank
        self._columns, self._n_actions = pilot.schema.context, len(pilot.actions)
        context = encoded(self._columns, pilot.context)
        self._width = context.shape[1]
        self._shift = np.append(context.mean(axis=0), pilot.reward.mean())
        problem = facts.problem_of(pilot.part(np.arange(1)), next(iter(pilot.targets)))
        self._embedding = np.zeros((self._n_actions, 0))
        if problem.action_embedding is not None and problem.schema is not None:
            self._embedding = encoded(problem.schema.embedding, problem.action_embedding)
        self.models: dict[Model, None] = {}
        self._coefficients: dict[Model, FloatArray] = {}

    def ask(self, spec: Any) -> None:
        """Note that an estimator needs a shared fit.

        Raises
        ------
        UnavailableError : it is no reward model, or none that sums give.
        """
        model = spec.model if isinstance(spec, ExpectedReward) else spec
        if not isinstance(model, Model) or model.learner != "ridge":
            raise UnavailableError(REFUSED)
        other = isinstance(model, RewardModel) and (
            model.on != "action" or model.action_features == "ordinal"
        )
        if other or set(dict(model.params)) - {"alpha", "shrinkage"}:
            raise UnavailableError(REFUSED)
        self.models[model] = None

    # Sums.

    @property
    def _summed(self) -> list[Model]:
        """The models with sums of their own; one without folds takes those of another."""
        crossed = [model for model in self.models if model.cross_fit > 1]
        return crossed or list(self.models)[:1]

    def sums(self, batch: Batch, counts: FloatArray | None) -> dict[str, FloatArray]:
        """Return sum z zᵀ of each fold and action, z = (1, x, y) less its shift.

        Parameters
        ----------
        batch : the rows.
        counts : how often each row counts; None for once each.
        """
        if not self.models:
            return {}
        table = np.empty((len(batch.reward), self._width + 2))
        table[:, 0] = 1.0
        table[:, 1:-1] = encoded(self._columns, batch.log.context)
        table[:, -1] = batch.reward
        table[:, 1:] -= self._shift
        a = self._n_actions
        found = {}
        for model in self._summed:
            fold = self._fold(model, batch)
            code: Any = batch.action if fold is None else fold * a + batch.action
            folds = 1 if fold is None else min(model.cross_fit, self._n_units)
            code = code.astype(np.int16 if folds * a < 1 << 15 else np.int64)
            order = np.argsort(code, kind="stable")
            ends = np.searchsorted(code, np.arange(folds * a + 1), sorter=order)
            rows = table[order]
            weighted = rows if counts is None else rows * counts[order, None]
            gram = np.zeros((folds * a, *2 * (table.shape[1],)))
            for g in np.flatnonzero(np.diff(ends)):
                part = slice(ends[g], ends[g + 1])
                gram[g] = rows[part].T @ weighted[part]
            found[f"gram{model}"] = gram.reshape(folds, a, *gram.shape[1:])
        return found

    def _fold(self, model: Model, batch: Batch) -> IntArray | None:
        """Return the fold of each row, None for one fold: (k,)."""
        if model.cross_fit == 1:
            return None
        if batch.part is None:
            # The columns of pilot rows are only subtracted and added again: any fold will do.
            return np.zeros(len(batch.reward), dtype=np.int64)
        k = min(model.cross_fit, self._n_units)
        folds = _folds_of_units(self._streams, model, self._n_units, k)
        units = slice(*batch.units)
        chosen = folds[units] if self._ranks is None else folds[self._ranks[units]]
        if batch.starts is not None:
            chosen = np.repeat(chosen, np.diff(np.append(batch.starts, len(batch.reward))))
        return np.asarray(chosen, dtype=np.int64)

    def fit(self, total: dict[str, Any]) -> None:
        """Fit all models to the sums over all batches."""
        for model in self.models:
            gram = total[f"gram{model if model in self._summed else self._summed[0]}"]
            whole = gram.sum(axis=0)
            separate = isinstance(model, SeparateRewardModel)
            features = self._embedding
            if isinstance(model, RewardModel) and model.action_features == "one-hot":
                features = np.eye(self._n_actions)[:, whole[:, 0, 0] > 0]
            params = dict(model.params)
            several = model.cross_fit > 1 and self._n_units > 1
            self._coefficients[model] = np.stack(
                [
                    coefficients(
                        one,
                        features,
                        self._shift,
                        alpha=float(params.get("alpha", 1.0)),
                        separate=separate,
                        shrinkage=params.get("shrinkage"),
                    )
                    for one in ([whole - part for part in gram] if several else [whole])
                ]
            )

    # Predictions.

    def fits(self, batch: Batch, p: int) -> Callable[[Any], Any]:
        """Return what gives an estimator its shared fits in a batch, for policy number p."""
        return lambda spec: self._fit_of(spec, batch, p)

    def _fit_of(self, spec: Any, batch: Batch, p: int) -> Any:
        self.ask(spec)
        if not isinstance(spec, ExpectedReward):
            return _PredictedReward(self, spec, batch)
        table = batch.tables[p]
        if table is None:
            msg = "a reward model needs the policy's probabilities of all actions"
            raise UnavailableError(msg)
        key = "expected", p, spec.model
        if key not in batch.made:
            batch.made[key] = self._predictions(spec.model, batch, table)
        return batch.made[key]

    def logged(self, model: Model, batch: Batch) -> FloatArray:
        """Return a model's value at the logged actions: (k,)."""
        key = "logged", model
        if key not in batch.made:
            batch.made[key] = self._predictions(model, batch, None)
        return batch.made[key]

    def _predictions(self, model: Any, batch: Batch, table: FloatArray | None) -> FloatArray:
        """Return q̂ averaged over a policy's table; without one, at the logged actions: (k,)."""
        k = len(batch.reward)
        if model not in self._coefficients:
            return np.zeros(k)
        if "x" not in batch.made:
            x = np.empty((k, 1 + self._width))
            x[:, 0] = 1.0
            x[:, 1:] = encoded(self._columns, batch.log.context)
            batch.made["x"] = x
        x, found = batch.made["x"], self._coefficients[model]
        fold = self._fold(model, batch) if len(found) > 1 else None
        if table is None:
            slopes = found[0][batch.action] if fold is None else found[fold, batch.action]
            return np.asarray(np.einsum("kd,kd->k", x, slopes))
        if fold is None:
            return np.asarray(np.einsum("kd,kd->k", x, table @ found[0]))
        average = np.empty(k)
        for number, one in enumerate(found):
            rows = np.flatnonzero(fold == number)
            average[rows] = np.einsum("kd,kd->k", x[rows], table[rows] @ one)
        return average


class _PredictedReward:
    """q̂ at the logged actions of a batch.

    Parameters
    ----------
    models, model, batch : whose.
    """

    def __init__(self, models: ModelSums, model: Model, batch: Batch) -> None:
        self._models, self._model, self._batch = models, model, batch

    def logged(self, context: FloatArray, points: IntArray) -> FloatArray:
        """Return q̂ at the logged actions: (k,)."""
        return self._models.logged(self._model, self._batch)

    def __getattr__(self, name: str) -> Any:
        """Raise UnavailableError for other members of a fitted model."""
        if name.startswith("_"):
            raise AttributeError(name)
        msg = f"over batches of rows models have no {name}; sample rows into a log that fits"
        raise UnavailableError(msg)
