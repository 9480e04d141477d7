"""The data sets of the installed package lcdb: every learner's accuracy on each."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from ope_bench import DataFileError, FloatArray, IntArray, UnavailableError, read_table
from ope_environments.full_feedback.scores import ScoreTable
from ope_environments.tables.installed_folder import installed_folder

__all__ = ["read_learning_curves"]

ABOUT, SCORES = "datasets.csv", "database-accuracy.csv"

SIZES = (
    "NumberOfInstances", "NumberOfFeatures", "NumberOfFeaturesAfterBinarization",
    "NumberOfClasses",
)  # fmt: skip
"""Facts of a data set whose logarithms are contexts."""

SHARES = ("PercentageOfSymbolicFeatures", "PercentageOfMissingValues")
"""Facts of a data set that are contexts as they are."""

LEAST_SHARE = 2 / 3
"""Share of the data sets that a learner needs; one that seldom ends would take most of them."""


def read_learning_curves() -> ScoreTable:
    """Read each learner's accuracy on each data set, and facts of it, from the package's files.

    A score is the mean accuracy on test rows, over all seeds, at the largest number of training
    rows that every learner reached on that data set. A learner that lacks over a third of the data
    sets is left out, then a data set without such a number or without facts. Contexts are
    logarithms of its numbers of rows, features (also after binarization) and classes, and its
    percentages of symbolic features and missing values.

    Raises
    ------
    UnavailableError : the package is not installed, or has no such files.
    """
    folder = installed_folder("lcdb")
    paths = () if folder is None else (folder / ABOUT, folder / SCORES)
    if not paths or not all(path.is_file() for path in paths):
        msg = "lcdb's learning curves need it: pip install --no-deps lcdb==0.1.0"
        raise UnavailableError(msg)
    return _read(*paths)


@lru_cache(maxsize=1)
def _read(about: Path, scores: Path) -> ScoreTable:
    names = ["openmlid", *SIZES, *SHARES]
    facts = read_table(about, names)
    columns = [np.log1p(facts.numbers(name)) for name in SIZES]
    columns += [facts.numbers(name) for name in SHARES]
    context = dict(zip(facts.numbers("openmlid").tolist(), np.stack(columns, axis=1), strict=True))
    table = read_table(scores, ["openmlid", "size_train", "score_test", "learner"])
    number, (learner, learners) = table.numbers("openmlid"), table.codes("learner")
    described = np.isin(number, list(context))
    pairs = np.unique(np.stack([learner, number])[:, described], axis=1)
    reached = np.bincount(pairs[0].astype(np.int64), minlength=len(learners))
    often = reached >= LEAST_SHARE * len(np.unique(pairs[1]))
    kept = sorted((name, k) for k, name in enumerate(learners) if often[k])
    place = np.full(len(learners), -1)
    place[[k for _, k in kept]] = range(len(kept))
    taken = described & (place[learner] >= 0)
    sets, dataset = np.unique(number[taken], return_inverse=True)
    sizes, size = np.unique(table.numbers("size_train")[taken], return_inverse=True)
    value = table.numbers("score_test")[taken]
    row, score = _at_the_largest_common_size(
        dataset, size, place[learner[taken]], value, (len(sizes), len(kept))
    )
    if len(kept) < 2 or len(row) < 2:
        raise DataFileError(scores, f"has no two data sets of {ABOUT} with every learner's score")
    found = np.array([context[sets[k]] for k in row])
    return ScoreTable(found, tuple(name for name, _ in kept), score, np.zeros_like(score))


def _at_the_largest_common_size(
    dataset: IntArray, size: IntArray, learner: IntArray, value: FloatArray, shape: tuple[int, int]
) -> tuple[IntArray, FloatArray]:
    """Return data sets on which all learners share a size, and mean values at the largest."""
    sizes, learners = shape
    cell, inverse = np.unique((dataset * sizes + size) * learners + learner, return_inverse=True)
    mean = np.bincount(inverse, weights=value) / np.bincount(inverse)
    # A pair of data set and size is whole where every learner has a cell of it.
    pair, first, count = np.unique(cell // learners, return_index=True, return_counts=True)
    whole = count == learners
    pair, first = pair[whole], first[whole]
    last = np.append(np.diff(pair // sizes) > 0, True)[: len(pair)]
    at = first[last][:, None] + np.arange(learners)
    return pair[last] // sizes, mean[at]
