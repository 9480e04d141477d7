"""MovieLens-100K in its published layout, or in the one that RecBole ships."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from ope_bench import (
    DataFileError,
    FloatArray,
    IntArray,
    Table,
    TextForm,
    UnavailableError,
    read_table,
)
from ope_environments.tables.installed_folder import installed_folder

__all__ = ["Ratings", "read_ratings"]

WHERE_TO_GET = (
    "https://grouplens.org/datasets/movielens/100k/ has ml-100k.zip, whose folder is given as"
    " 'folder'; `pip install --no-deps recbole==1.2.1` brings a copy"
)
FIRST_GENRE = 5
"""Columns of u.item before its 19 genres."""


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings of films by users.

    Parameters
    ----------
    user, item : (n,), indices
    rating : (n,)
    genres : (n_items, n_genres), zeros and ones
    """

    user: IntArray
    item: IntArray
    rating: FloatArray
    genres: FloatArray

    @property
    def n_users(self) -> int:
        """Number of users."""
        return int(self.user.max()) + 1

    @property
    def n_items(self) -> int:
        """Number of films."""
        return len(self.genres)


def read_ratings(folder: str | None) -> Ratings:
    """Read the ratings of a folder or, if None, of an installed package.

    Raises
    ------
    UnavailableError : there is neither.
    DataFileError : a file is damaged.
    """
    if folder is None:
        package = installed_folder("recbole")
        if package is None:
            msg = f"movielens: no folder is given and no package with the data; {WHERE_TO_GET}"
            raise UnavailableError(msg)
        folder = str(package / "dataset_example" / "ml-100k")
    for root in (Path(folder), Path(folder) / "ml-100k"):
        for ratings, films in (("u.data", "u.item"), ("ml-100k.inter", "ml-100k.item")):
            if (root / ratings).is_file():
                if not (root / films).is_file():
                    msg = f"movielens: {root} has {ratings}, but no {films}; {WHERE_TO_GET}"
                    raise UnavailableError(msg)
                return _read(root / ratings, root / films)
    msg = f"movielens: {folder} has neither u.data nor ml-100k.inter; {WHERE_TO_GET}"
    raise UnavailableError(msg)


@lru_cache(maxsize=2)
def _read(ratings: Path, films: Path) -> Ratings:
    published = ratings.name == "u.data"
    item_id, genres = _published_films(films) if published else _recbole_films(films)
    table = read_table(ratings, header=not published, form=TextForm(delimiter="\t"))
    if len(table.names) != 4:
        what = f"{len(table.names)} columns; expected user, item, rating, time, separated by tabs"
        raise DataFileError(ratings, what)
    user_id, rated = (_ids(table, name) for name in table.names[:2])
    order = np.argsort(item_id)
    item = np.minimum(np.searchsorted(item_id[order], rated), len(order) - 1)
    unknown = item_id[order][item] != rated
    if unknown.any():
        row = int(np.argmax(unknown))
        what = f"item {rated[row]} is not in {films.name}"
        raise DataFileError(ratings, what, where=table.place(row))
    return Ratings(
        np.unique(user_id, return_inverse=True)[1].reshape(-1),
        item,
        table.numbers(table.names[2], low=1, high=5),
        genres[order],
    )


def _published_films(path: Path) -> tuple[IntArray, FloatArray]:
    """Read u.item: number, title, dates, address, and 19 flags, in Latin 1."""
    form = TextForm(encoding="latin-1", delimiter="|")
    table = read_table(path, header=False, form=form)
    if len(table.names) <= FIRST_GENRE:
        what = f"{len(table.names)} columns; expected number, title, 2 dates, address, then genres"
        raise DataFileError(path, what)
    genres = []
    for name in table.names[FIRST_GENRE:]:
        flags = table.numbers(name)
        wrong = (flags != 0) & (flags != 1)
        if wrong.any():
            table.raise_error(int(np.argmax(wrong)), name, "a genre is neither 0 nor 1")
        genres.append(flags)
    return _films(table), np.stack(genres, axis=1)


def _recbole_films(path: Path) -> tuple[IntArray, FloatArray]:
    """Read ml-100k.item: number, title, year, and the genres as words."""
    table = read_table(path, form=TextForm(delimiter="\t"))
    if len(table.names) != 4:
        what = f"{len(table.names)} columns; expected number, title, year, genres"
        raise DataFileError(path, what)
    code, texts = table.codes(table.names[3], optional=True)
    genres_of = [set(text.split()) for text in texts]
    names = sorted(set().union(*genres_of))
    flags = np.array([[float(name in genres) for name in names] for genres in genres_of])
    return _films(table), flags[code]


def _films(table: Table) -> IntArray:
    """Return the numbers of films, in the first column: (n_items,)."""
    ids = _ids(table, table.names[0])
    table.refuse_duplicates([table.names[0]])
    return ids


def _ids(table: Table, name: str) -> IntArray:
    """Return a column of numbers of users or items: (n,)."""
    values = table.numbers(name)
    wrong = (values < 0) | (values != np.floor(values)) | (values >= 2**53)
    if wrong.any():
        row = int(np.argmax(wrong))
        table.raise_error(row, name, f"{values[row]:g} is not an id")
    return values.astype(np.int64)
