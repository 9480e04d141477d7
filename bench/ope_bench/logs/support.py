"""Support in context: was the new policy's choice ever logged in rows like this one?

A model of the logged action given the context, fitted to the other half of the units, or in long
logs to some of them, orders the rows by s = π0(a'|x) / share(a'), a' being the new policy's
choice. Among the first k rows M logged actions are a', where E = sum share(a') would be usual. The
largest k at which the 95 % upper bound of M is at most .05 E is the unsupported mass. The bound is
Poisson's, so that nothing is found where E is under 60: chance would leave M = 0 too often. The
largest k at which M itself is at most .02 E too is the part that is not logged, and not only
seldom, as steep loggers that explore do.

The model is a forest on the context and on the linear scores of a logistic regression. A forest
alone misses rules that are linear in many columns, a linear model alone misses all others. A rule
of two of many columns is lost among them: where that predicts the actions of left-out rows better,
the forest is of the columns alone whose products in pairs vary most with the action.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv

from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.embeddings import RowIndex
from ope_bench.contracts.random import stream
from ope_bench.logs.log_data import LogData
from ope_bench.logs.targets import Target

MOST_ROWS = 50_000
"""Rows from which one model is fitted to some rows drawn by seed, for so many others at most."""

LEAST_USUAL = 60.0
"""Matches that a tenth of the rows must have by chance for 10 % without support to be found."""

_TRAIN_ROWS, _TRAIN_ENTRIES = 10_000, 200_000
"""Rows to which the models of a half are fitted at most, and rows times columns of the forest."""

_STEPS = 64
"""Different values of a column that a forest of so many rows tells apart."""

_MOST_ACTIONS, _GROUPS = 20, 12
"""Actions above which groups of them are matched, and the number of groups."""

_TIE = 1e-6
_MOST_LEVELS = 50
_MOST_PRODUCTS = 16
_MOST_NARROW, _MOST_PAIRED = 8, 256
"""Columns among which a forest sees pairs by itself, and above which pairs are not sought."""

_RARE, _HARDLY = 0.05, 0.02
"""Shares of the usual matches up to which a choice is rare, and up to which it is not logged."""

_PRIOR_ROWS = 5.0


@dataclass(frozen=True, eq=False)
class FittedLogger:
    """A model of the logged action, applied to units that it was not fitted to.

    Parameters
    ----------
    rows : (m,), the rows of the log that take part.
    half : (m,), 0 or 1; 1 where one model is for all these rows.
    group : (2, n_actions), the group of each action, by half; actions alone where they are few.
    probability : (m, n_groups), of each group in the row's context.
    """

    rows: IntArray
    half: IntArray
    group: IntArray
    probability: FloatArray


@dataclass(frozen=True, eq=False)
class UnsupportedRows:
    """The rows in which the new policy's choice is not logged, as far as a log tells.

    Parameters
    ----------
    mass : share of all rows.
    clear : share of all rows that is not only logged seldom.
    rows : (k,), rows of the log, the clearest first.
    matches, usual : logged actions that are of the choice's group, and how many would be usual.
    findable : matches that would be usual in a tenth of all rows.
    sentence : in which contexts; "" where there are none.
    """

    mass: float
    clear: float
    rows: IntArray
    matches: int
    usual: float
    findable: float
    sentence: str


def described(log: LogData, rows: IntArray) -> tuple[FloatArray, list[tuple[str, float | None]]]:
    """Return contexts with an indicator for each frequent level, and what each column is."""
    columns: list[FloatArray] = []
    names: list[tuple[str, float | None]] = []
    for j, name in enumerate(log.context_names):
        values = np.asarray(log.context)[rows, j]
        if log.schema.context[j].kind != "categorical":
            columns.append(values)
            names.append((name, None))
            continue
        levels, count = np.unique(values, return_counts=True)
        frequent = levels[np.argsort(-count, kind="stable")[:_MOST_LEVELS]]
        columns += [(values == level).astype(np.float64) for level in frequent]
        names += [(name, float(level)) for level in frequent]
    table = np.column_stack(columns) if columns else np.zeros((len(rows), 0))
    return table, names


def fit_logger(log: LogData) -> FittedLogger | None:
    """Fit the model of the logged action; None where there are not two halves with two actions."""
    rng = stream("support in context", "rows")
    rows = np.arange(log.n)
    if log.weight is not None or log.n > MOST_ROWS:
        size = min(log.n, MOST_ROWS + _TRAIN_ROWS)
        share = None if log.weight is None else log.weight / log.weight.sum()
        rows = np.sort(rng.choice(log.n, size, replace=share is not None, p=share))
    context, action = np.asarray(log.context)[rows], np.asarray(log.action)[rows]
    key = rows if log.unit is None else np.asarray(log.unit)[rows]
    if log.unit is None and context.shape[1]:
        # The rows of one user must not be predicted from each other.
        same = RowIndex(context)(context)
        key = same if len(np.unique(same)) * 100 > len(rows) else key
    code = np.unique(key, return_inverse=True)[1].reshape(-1)
    place = rng.permutation(int(code.max()) + 1)
    half, sides = (place % 2)[code], [0, 1]
    if len(rows) > MOST_ROWS:
        # A model learns from `_TRAIN_ROWS` rows only, and all others are enough for the statistic.
        half, sides = (place * len(rows) >= _TRAIN_ROWS * len(place)).astype(np.int64)[code], [1]
    seen = np.unique(action)
    table, _ = described(log, rows)
    table = (table - table.mean(axis=0)) / np.maximum(table.std(axis=0), 1e-12)
    width = len(seen) if len(seen) <= _MOST_ACTIONS else _GROUPS
    probability = np.zeros((len(rows), width))
    group = np.zeros((2, len(log.actions)), dtype=np.int64)
    for side in sides:
        train, test = np.flatnonzero(half != side), np.flatnonzero(half == side)
        if len(train) > _TRAIN_ROWS:
            train = np.sort(rng.choice(train, _TRAIN_ROWS, replace=False))
        group[side, seen] = np.arange(len(seen))
        if len(seen) > _MOST_ACTIONS and len(train):
            group[side] = _grouped(table[train], action[train], len(log.actions))
        of_train = group[side][action[train]]
        if not len(test) or len(np.unique(of_train)) < 2:
            return None
        probability[test] = _predict(context, table, train, test, of_train, width)
    kept = np.isin(half, sides)
    return FittedLogger(rows[kept], half[kept], group, probability[kept])


def _grouped(table: FloatArray, action: IntArray, n_actions: int) -> IntArray:
    """Return groups of actions that are logged in like contexts: (n_actions,)."""
    from sklearn.cluster import KMeans

    if table.shape[1] <= _MOST_PRODUCTS:
        first, second = np.triu_indices(table.shape[1])
        table = np.column_stack([table, table[:, first] * table[:, second]])
    total = np.zeros((n_actions, table.shape[1]))
    np.add.at(total, action, table - table.mean(axis=0))
    count = np.bincount(action, minlength=n_actions)
    mean = total / (count + _PRIOR_ROWS)[:, None]
    seen = np.flatnonzero(count)
    model = KMeans(min(_GROUPS, len(seen)), n_init=1, random_state=0).fit(mean[seen])
    found: IntArray = model.predict(mean).astype(np.int64)
    return found


def _predict(
    context: FloatArray,
    table: FloatArray,
    train: IntArray,
    test: IntArray,
    action: IntArray,
    width: int,
) -> FloatArray:
    """Return probabilities of actions at the rows of a test half: (k, width)."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    def forest(columns: FloatArray) -> tuple[float, FloatArray]:
        """Return the accuracy on rows outside of each tree's sample if asked, probabilities."""
        columns = columns.astype(np.float32)
        if len(train) == _TRAIN_ROWS:
            # Half of the time of the trees goes into the order of values next to each other.
            columns = np.stack([_rounded(one, train) for one in columns.T], axis=1)
        # The rows were drawn, or stand in the order of the log: every some-th is a fair part.
        part = slice(None, None, 1 + len(train) * columns.shape[1] // _TRAIN_ENTRIES)
        model = RandomForestClassifier(
            30, min_samples_leaf=10, max_features=0.7, random_state=0, n_jobs=1, oob_score=pairs
        ).fit(columns[train[part]], action[part])
        found = np.zeros((len(test), width))
        found[:, model.classes_] = model.predict_proba(columns[test])
        return model.oob_score_ if pairs else 0.0, found

    with warnings.catch_warnings():
        # Of rules the coefficients grow without end; their direction is enough. Of 30 samples one
        # in a million rows is in all.
        warnings.simplefilter("ignore")
        linear = LogisticRegression(max_iter=40, tol=1e-3).fit(table[train], action)
        chance = linear.predict_proba(table)
        pairs = _MOST_NARROW < table.shape[1] <= _MOST_PAIRED
        score, found = forest(np.column_stack([context, np.log(chance.clip(1e-12))]))
        if pairs:
            narrow, of_pairs = forest(table[:, _paired(table[train], action)])
            found = of_pairs if narrow > score else found
    # Where leaves of all trees are pure, the linear model orders the rows.
    found[:, linear.classes_] += _TIE * chance[test]
    return found


def _rounded(values: FloatArray, train: IntArray) -> FloatArray:
    """Return which of `_STEPS` quantiles of some rows each value is above: (n,)."""
    ends = np.quantile(values[train], np.linspace(0, 1, _STEPS + 1)[1:-1])
    return np.searchsorted(np.unique(ends), values).astype(np.float32)


def _paired(table: FloatArray, action: IntArray) -> IntArray:
    """Return the columns of the three pairs whose products vary most with the action."""
    short = np.clip(table, -1.0, 1.0)
    short -= short.mean(axis=0)
    told = np.zeros((short.shape[1],) * 2)
    for one in np.unique(action):
        apart = (action == one) - np.mean(action == one)
        told = np.maximum(told, np.abs(short.T @ (short * apart[:, None])) / apart.std())
    first, second = np.triu_indices(short.shape[1], 1)
    best = np.argsort(-told[first, second], kind="stable")[:3]
    return np.unique([first[best], second[best]])


def choices(target: Target, rows: IntArray, n_actions: int) -> IntArray:
    """Return actions of the new policy in some rows, drawn where its probabilities are known."""
    policy = target.whole(n_actions)
    assert policy is not None  # noqa: S101  # the callers know the form
    part = policy[rows].tocsr()
    ends = np.cumsum(part.data)
    start = np.append(0.0, ends)[part.indptr]
    aim = start[:-1] + stream("support in context", "choices").random(len(rows)) * np.diff(start)
    at = np.searchsorted(ends, aim, side="right").clip(part.indptr[:-1], part.indptr[1:] - 1)
    return np.asarray(part.indices[at], dtype=np.int64)


def unsupported_rows(
    log: LogData,
    name: str,
    fitted: FittedLogger,
    weights: FloatArray | None,
    known: float = 0.0,
) -> UnsupportedRows:
    """Find the rows in which a policy's choice is not logged.

    Parameters
    ----------
    log : the log.
    name : of a policy whose actions or probabilities are known.
    fitted : the model of the logged action.
    weights : (n,), importance weights by given propensities; None without. With them rows count
        only if their mean weight is below 1/2 by its 99 % upper bound.
    known : share without support by other evidence; the sentence is of so many rows at least.
    """
    rows = fitted.rows
    choice = choices(log.targets[name], rows, len(log.actions))
    action = np.asarray(log.action)[rows]
    seen = np.bincount(action, minlength=len(log.actions)) > 0
    width = fitted.probability.shape[1]
    of_new, of_logged = (fitted.group[fitted.half, one] for one in (choice, action))
    share = np.array(
        [np.bincount(one[action], minlength=width) / len(rows) for one in fitted.group]
    )[fitted.half, of_new]
    share = np.where(seen[choice] | (seen.sum() > _MOST_ACTIONS), share, 0.0)
    at = fitted.probability[np.arange(len(rows)), of_new]
    score = np.where(share > 0, at / np.maximum(share, 1e-300), 0.0)
    shuffled = stream("support in context", "ties").permutation(len(rows))
    order = shuffled[np.argsort(score[shuffled], kind="stable")]
    matches = np.cumsum((of_new == of_logged)[order])
    usual = np.cumsum(share[order])
    few = gammaincinv(matches + 1.0, 0.95) <= _RARE * usual
    k, clear = (
        int(np.flatnonzero(some).max(initial=-1)) + 1
        for some in (few, few & (matches <= _HARDLY * usual))
    )
    if k and weights is not None and not mean_bound(weights[rows[order[:k]]]) < 0.5:
        k = clear = 0
    first, told = order[:k], order[: max(k, round(known * len(rows)))]
    return UnsupportedRows(
        mass=k / len(rows),
        clear=clear / len(rows),
        rows=rows[first],
        matches=int(matches[k - 1]) if k else 0,
        usual=float(usual[k - 1]) if k else 0.0,
        findable=0.1 * float(usual[-1]) * log.n / len(rows),
        sentence=_where(log, rows, choice, action, told) if len(told) else "",
    )


def mean_bound(weights: FloatArray, level: float = 0.99) -> float:
    """Return an upper bound of the mean of weights that are mostly zero; 0 where all are.

    References
    ----------
    Confidence intervals for directly standardized rates (Fay and Feuer, 1997).
    """
    if not weights.any():
        return 0.0
    largest = float(weights.max())
    total, squares = float(weights.sum()) + largest, float(weights @ weights) + largest * largest
    return squares / total * float(gammaincinv(total**2 / squares, level)) / len(weights)


def _where(
    log: LogData, rows: IntArray, choice: IntArray, action: IntArray, first: IntArray
) -> str:
    """Say in which contexts the most frequent choice of some rows is not logged."""
    from sklearn.tree import DecisionTreeClassifier

    worst = int(np.bincount(choice[first]).argmax())
    table, names = described(log, rows)
    few = len(np.unique(action)) <= _MOST_ACTIONS
    missing = np.zeros(len(rows), dtype=bool)
    missing[first] = True
    # One action's rows: where it is missing against where it was logged; else all rows.
    asked = choice == worst if few else np.ones(len(rows), dtype=bool)
    sample = (asked & missing) | (action == worst) if few else asked
    tree = DecisionTreeClassifier(max_depth=3, min_samples_leaf=5, random_state=0)
    tree.fit(table[sample], missing[sample] & asked[sample])
    leaf = tree.apply(table.astype(np.float32))
    inside = np.bincount(leaf[asked & missing], minlength=tree.tree_.node_count)
    outside = np.bincount(leaf[sample & ~(asked & missing)], minlength=tree.tree_.node_count)
    place = int(np.where(inside > outside, inside, inside / len(rows)).argmax())
    found = asked & (leaf == place)
    matched, of = int((action == choice)[found].sum()), int(found.sum())
    conditions = _conditions(tree.tree_, place, names, log)
    what = log.actions[worst] if few else "what the new policy chooses"
    there = f" where {' and '.join(conditions)}" if conditions else ""
    share = f"{of / len(rows):.0%} of the new policy's decisions"
    if matched == 0:
        return f"{what}{there} was never logged: {share}"
    frequency = np.bincount(action, minlength=len(log.actions)) / len(rows)
    return (
        f"{what}{there} was logged in {matched:,} of {of:,} such decisions, where "
        f"{frequency[choice][found].sum():,.0f} would be usual: {share}"
    )


def _conditions(
    tree: object, place: int, names: list[tuple[str, float | None]], log: LogData
) -> list[str]:
    """Return the conditions of a leaf in words, the tightest of each column."""
    left, right, feature, limit = (
        np.asarray(getattr(tree, one))
        for one in ("children_left", "children_right", "feature", "threshold")
    )
    ends: dict[tuple[int, bool], float] = {}
    while place:
        above = place in right
        place = int(np.flatnonzero((left == place) | (right == place))[0])
        ends.setdefault((int(feature[place]), above), float(limit[place]))
    found = []
    for (column, above), end in ends.items():
        name, level = names[column]
        if level is not None:
            found.append(log.condition(name, level, inside=above))
        else:
            found.append(f"{name} is {'at least' if above else 'under'} {end:.3g}")
    return found
