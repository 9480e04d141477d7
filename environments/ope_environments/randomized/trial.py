"""A randomized trial as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_bench import (
    Column,
    DataFileError,
    FloatArray,
    IntArray,
    ParameterError,
    Table,
    finite_number,
)
from ope_environments.randomized.roles import Roles

__all__ = ["RandomizedTrial", "trial_of"]

PRINTED = 1e-3
"""By how much printed probabilities of one arm, or their sum, may differ."""


@dataclass(frozen=True, eq=False)
class RandomizedTrial:
    """All rows of a trial that have an arm and an outcome.

    Parameters
    ----------
    context : (n, d_context), codes of categorical columns; the stratum is the last column where
        there are several.
    columns : their kinds.
    arm : (n,), indices of ``arms``.
    arms : the arms' names.
    outcome : (n,)
    stratum : (n,), from 0.
    unit : (n,)
    share : (n_strata, n_arms), the probability of each arm within a stratum.
    together : whether an arm was drawn for a unit, rather than for each of its rows.
    """

    context: FloatArray
    columns: tuple[Column, ...]
    arm: IntArray
    arms: tuple[str, ...]
    outcome: FloatArray
    stratum: IntArray
    unit: IntArray
    share: FloatArray
    together: bool

    @property
    def n_strata(self) -> int:
        """Number of strata."""
        return len(self.share)

    @property
    def features(self) -> tuple[FloatArray, tuple[Column, ...]]:
        """The context without the stratum, and the kinds of its columns."""
        width = self.context.shape[1] - (self.n_strata > 1)
        return self.context[:, :width], self.columns[:width]

    def arm_embedding(self) -> tuple[FloatArray, tuple[Column, ...]]:
        """Return an arm's amount where all arms are numbers, else one-hot: (n_arms, d)."""
        amounts = [finite_number(name) for name in self.arms]
        if any(amount is None for amount in amounts):
            eye = np.eye(len(self.arms))
            return eye, (Column("categorical", (0.0, 1.0)),) * len(self.arms)
        found = np.array(amounts, dtype=np.float64)
        return ((found - found.mean()) / (found.std() or 1.0))[:, None], (Column("atoms"),)


def trial_of(table: Table, roles: Roles) -> RandomizedTrial:
    """Build the trial; rows without an arm were not in it, rows without an outcome are left out.

    Raises
    ------
    DataFileError : a column is missing, a value is wrong, or there is one arm only.
    """
    known = ~table.missing(roles.arm) & ~table.missing(roles.outcome)
    if not known.any():
        raise DataFileError(table.path, f"has no row with '{roles.arm}' and '{roles.outcome}'")
    table = table.select(np.flatnonzero(known))
    arm, arms = _codes(table, roles.arm)
    if len(arms) < 2:
        raise DataFileError(table.path, f"column '{roles.arm}' has one arm only, {arms[0]!r}")
    stratum, strata = _codes(table, roles.stratum)
    unit = _units(table, roles.unit)
    if roles.assigned == "unit":
        _require_one_arm(table, roles, unit, arm)
    context, columns = _context(table, roles)
    if len(strata) > 1:
        context = np.column_stack([context, stratum.astype(np.float64)])
        columns = (*columns, _coded(len(strata)))
    return RandomizedTrial(
        context=context,
        columns=columns,
        arm=arm,
        arms=arms,
        outcome=table.numbers(roles.outcome),
        stratum=stratum,
        unit=unit,
        share=_shares(table, roles, stratum, strata, arm, arms),
        together=roles.assigned == "unit",
    )


def _codes(table: Table, name: str | None) -> tuple[IntArray, tuple[str, ...]]:
    if name is None:
        return np.zeros(table.n, dtype=np.int64), ("",)
    codes, words = table.codes(name, optional=True)
    if all(finite_number(word) is not None for word in words):
        # An amount of 1.0 is the arm 1, beside which others may be fractions.
        words = [word.removesuffix(".0") for word in words]
    return codes, tuple(words)


def _units(table: Table, name: str | None) -> IntArray:
    """Return unit numbers; a row whose unit is missing is one of its own: (n,)."""
    if name is None:
        return np.arange(table.n)
    unit, words = table.codes(name, optional=True)
    alone = table.missing(name)
    return np.where(alone, len(words) - 1 + np.cumsum(alone), unit)


def _require_one_arm(table: Table, roles: Roles, unit: IntArray, arm: IntArray) -> None:
    _, first, place = np.unique(unit, return_index=True, return_inverse=True)
    differs = arm != arm[first][place.reshape(-1)]
    if differs.any():
        row = int(np.argmax(differs))
        other = table.place(int(first[place.reshape(-1)[row]]))
        what = f"another arm than {other}, which is of the same unit; use assigned = row"
        table.raise_error(row, roles.arm, what)


def _context(table: Table, roles: Roles) -> tuple[FloatArray, tuple[Column, ...]]:
    """Encode the context: a missing number is the median and marked, a missing word a category."""
    arrays: list[FloatArray] = []
    columns: list[Column] = []
    for name in roles.context:
        if name in roles.categorical or not table.column(name).is_number:
            code, words = table.codes(name, optional=True)
            arrays.append(code.astype(np.float64))
            columns.append(_coded(len(words)))
            continue
        values, missing = table.numbers(name, optional=True), table.missing(name)
        if missing.all():
            raise DataFileError(table.path, f"column '{name}' has no value")
        arrays.append(np.where(missing, np.median(values[~missing]), values))
        columns.append(Column())
        if missing.any():
            arrays.append(missing.astype(np.float64))
            columns.append(_coded(2))
    return np.stack(arrays, axis=1), tuple(columns)


def _coded(n: int) -> Column:
    return Column("categorical", tuple(map(float, range(n))))


def _shares(
    table: Table,
    roles: Roles,
    stratum: IntArray,
    strata: tuple[str, ...],
    arm: IntArray,
    arms: tuple[str, ...],
) -> FloatArray:
    """Return each arm's probability within each stratum: (n_strata, n_arms)."""
    shape = len(strata), len(arms)
    if roles.shares is not None:
        return np.tile(_known_shares(table, dict(roles.shares), arms), (shape[0], 1))
    if roles.propensity is not None:
        return _logged_shares(table, roles.propensity, stratum, strata, arm, shape)
    count = np.zeros(shape)
    np.add.at(count, (stratum, arm), 1.0)
    share: FloatArray = count / count.sum(axis=1, keepdims=True)
    return share


def _known_shares(table: Table, shares: dict[str, float], arms: tuple[str, ...]) -> FloatArray:
    if set(shares) != set(arms):
        msg = f"randomized: shares names {', '.join(shares)}; {table.path} has {', '.join(arms)}"
        raise ParameterError(msg)
    found = np.array([shares[name] for name in arms], dtype=np.float64)
    if (found <= 0).any() or abs(found.sum() - 1) > PRINTED * len(arms):
        msg = f"randomized: shares add up to {found.sum():g}; expected positive ones, 1 in all"
        raise ParameterError(msg)
    scaled: FloatArray = found / found.sum()
    return scaled


def _logged_shares(
    table: Table,
    name: str,
    stratum: IntArray,
    strata: tuple[str, ...],
    arm: IntArray,
    shape: tuple[int, int],
) -> FloatArray:
    """Collect propensities, which must be the same for all rows of a stratum and an arm."""
    value = table.numbers(name, optional=True)
    wrong = ~((value > 0) & (value <= 1))
    if wrong.any():
        row = int(np.argmax(wrong))
        shown = "the value is missing" if np.isnan(value[row]) else f"{value[row]:g}"
        table.raise_error(row, name, f"{shown}; expected a probability above 0, at most 1")
    share = np.zeros(shape)
    share[stratum, arm] = value
    off = np.abs(share[stratum, arm] - value) > PRINTED
    if off.any():
        row = int(np.argmax(off))
        what = (
            f"{value[row]:g}, but {share[stratum[row], arm[row]]:g} elsewhere in the same stratum "
            "and arm; name the stratum on which shares depend"
        )
        table.raise_error(row, name, what)
    total = share.sum(axis=1)
    for k, stratum_name in enumerate(strata):
        if abs(total[k] - 1) > PRINTED * shape[1]:
            where = f" of stratum '{stratum_name}'" if stratum_name else ""
            what = f"the arms{where} have probabilities that add up to {total[k]:g}, not 1"
            table.raise_error(int(np.argmax(stratum == k)), name, what)
    scaled: FloatArray = share / total[:, None]
    return scaled
