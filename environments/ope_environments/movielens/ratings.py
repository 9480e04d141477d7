"""MovieLens-100K in its published layout, or in the one that RecBole ships."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from ope_bench import (
    DataFileError,
    FloatArray,
    IntArray,
    TextRow,
    UnavailableError,
    finite_number,
    read_rows,
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
    genre_of = _published_films(films) if published else _recbole_films(films)
    items = {token: k for k, token in enumerate(sorted(genre_of))}
    rows = list(_rating_rows(ratings, header=not published))
    if not rows:
        raise DataFileError(ratings, "has no ratings")
    for line, _, item, _ in rows:
        if item not in items:
            what = f"item {item} is not in {films.name}"
            raise DataFileError(ratings, what, where=f"line {line:,}")
    users = {token: k for k, token in enumerate(sorted({user for _, user, _, _ in rows}))}
    return Ratings(
        np.array([users[user] for _, user, _, _ in rows], dtype=np.int64),
        np.array([items[item] for _, _, item, _ in rows], dtype=np.int64),
        np.array([rating for *_, rating in rows], dtype=np.float64),
        np.array([genre_of[token] for token in sorted(genre_of)], dtype=np.float64),
    )


def _rating_rows(path: Path, *, header: bool) -> Iterator[tuple[int, int, int, float]]:
    rows = read_rows(path, delimiter="\t")
    if header:
        next(rows)
    for line, fields in rows:
        where = f"line {line:,}"
        if len(fields) != 4:
            what = f"{len(fields)} fields; expected user, item, rating, time, separated by tabs"
            raise DataFileError(path, what, where=where)
        rating = _value(path, line, fields[2])
        if not 1 <= rating <= 5:
            raise DataFileError(path, f"rating {rating:g} is not within 1 to 5", where=where)
        yield line, _id(path, line, fields[0]), _id(path, line, fields[1]), rating


def _published_films(path: Path) -> dict[int, list[float]]:
    """Read u.item: number, title, dates, address, and 19 flags, in Latin 1."""
    films: dict[int, list[float]] = {}
    width = 0
    for line, fields in read_rows(path, encoding="latin-1", delimiter="|"):
        width = width or len(fields)
        if len(fields) != width or width <= FIRST_GENRE:
            what = f"{len(fields)} fields; expected number, title, 2 dates, address, then genres"
            raise DataFileError(path, what, where=f"line {line:,}")
        flags = [_value(path, line, field) for field in fields[FIRST_GENRE:]]
        if not set(flags) <= {0.0, 1.0}:
            what = "a genre is neither 0 nor 1"
            raise DataFileError(path, what, where=f"line {line:,}")
        films[_new(path, line, fields[0], films)] = flags
    return films


def _recbole_films(path: Path) -> dict[int, list[float]]:
    """Read ml-100k.item: number, title, year, and the genres as words."""
    words: dict[int, list[str]] = {}
    rows: Iterator[TextRow] = read_rows(path, delimiter="\t")
    next(rows)
    for line, fields in rows:
        if len(fields) != 4:
            what = f"{len(fields)} fields; expected number, title, year, genres"
            raise DataFileError(path, what, where=f"line {line:,}")
        words[_new(path, line, fields[0], words)] = fields[3].split()
    names = sorted({word for genres in words.values() for word in genres})
    return {token: [float(name in genres) for name in names] for token, genres in words.items()}


def _new(
    path: Path, line: int, field: str, known: dict[int, list[float]] | dict[int, list[str]]
) -> int:
    token = _id(path, line, field)
    if token in known:
        raise DataFileError(path, f"item {token} appears twice", where=f"line {line:,}")
    return token


def _id(path: Path, line: int, field: str) -> int:
    if not (field.isascii() and field.isdigit() and len(field) < 19):
        what = f"{field[:40]!r} is not an id"
        raise DataFileError(path, what, where=f"line {line:,}")
    return int(field)


def _value(path: Path, line: int, field: str) -> float:
    value = finite_number(field)
    if value is None:
        what = f"{field[:40]!r} is not a number"
        raise DataFileError(path, what, where=f"line {line:,}")
    return value
