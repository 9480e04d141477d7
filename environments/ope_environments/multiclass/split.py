"""The split into rows that train the policies' classifiers and rows that are contexts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ope_bench import IntArray, ParameterError, stream

__all__ = ["Parts", "Split", "SplitKind"]

SplitKind = Literal["random", "train-evaluation", "evaluation-train"]
"""``random``: drawn with the world. The others: scikit-learn's ``train_test_split``, whose first
part is the one that is named first."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Row numbers.

    Parameters
    ----------
    train : rows that classifiers are trained on.
    logging : those of them on which the logging policy's classifier is trained.
    evaluation : rows that contexts are drawn from.
    """

    train: IntArray
    logging: IntArray
    evaluation: IntArray


@dataclass(frozen=True)
class Split:
    """A rule that splits the rows.

    Parameters
    ----------
    kind : see `SplitKind`; ignored if the table specifies the split.
    train_share, evaluation_share : of the rows; evaluation takes all that is left where None.
    logging_share : of the training rows.
    seed : of the split.
    world : drawn with the world, for a random split.
    """

    kind: SplitKind
    train_share: float
    evaluation_share: float | None
    logging_share: float
    seed: int
    world: int

    def __call__(
        self, label: IntArray, n_labels: int, evaluated: IntArray | None
    ) -> tuple[Parts, np.random.Generator]:
        """Return the parts, and a stream for further draws.

        Parameters
        ----------
        label : (n,), in [0, n_labels)
        n_labels : number of labels.
        evaluated : (n,), 1 for evaluation rows and 0 for training rows, where the table says so.

        Raises
        ------
        ParameterError : a part would be empty.
        """
        rng = stream("multiclass split", self.seed, self.world)
        if evaluated is not None:
            train, evaluation = np.flatnonzero(evaluated == 0), np.flatnonzero(evaluated == 1)
        elif self.kind == "random":
            train, evaluation = self._random(label, n_labels, rng)
        else:
            train, evaluation = self._by_sklearn(len(label))
        if not len(evaluation) or not len(train):
            msg = (
                f"multiclass: train_share = {self.train_share} of {len(label)} rows with"
                f" {n_labels} labels leaves no rows to"
                f" {'evaluate on' if len(train) else 'train on'}"
            )
            raise ParameterError(msg)
        few = max(min(n_labels, len(train)), round(self.logging_share * len(train)))
        return Parts(train, train[:few], evaluation), rng

    def _random(
        self, label: IntArray, n_labels: int, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray]:
        """Shuffle rows, one row of every label first, so that classifiers have all labels."""
        order = rng.permutation(len(label))
        first = np.unique(label[order], return_index=True)[1]
        order = np.concatenate([order[first], np.delete(order, first)])
        n_train = max(n_labels, round(self.train_share * len(label)))
        rest = order[n_train:]
        if self.evaluation_share is None:
            return order[:n_train], rest
        wanted = round(self.evaluation_share * len(label))
        if wanted > len(rest):
            msg = (
                f"multiclass: train_share = {self.train_share} and evaluation_share ="
                f" {self.evaluation_share} add up to more than all rows"
            )
            raise ParameterError(msg)
        return order[:n_train], rest[:wanted]

    def _by_sklearn(self, n: int) -> tuple[IntArray, IntArray]:
        from sklearn.model_selection import train_test_split

        shares = self.train_share, self.evaluation_share
        swapped = self.kind == "evaluation-train"
        first, second = reversed(shares) if swapped else shares
        try:
            one, other = train_test_split(
                np.arange(n), train_size=first, test_size=second, random_state=self.seed
            )
        except ValueError as exc:
            msg = f"multiclass: train_test_split of {n} rows: {exc}"
            raise ParameterError(msg) from exc
        return (other, one) if swapped else (one, other)
