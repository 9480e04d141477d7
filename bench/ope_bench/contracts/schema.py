"""Kinds of columns: continuous numbers or categories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ope_bench.errors import DataError

__all__ = [
    "Column",
    "Schema",
]


@dataclass(frozen=True)
class Column:
    """One column of a context or an embedding.

    Parameters
    ----------
    kind : ``continuous``; ``categorical`` (codes without order); ``atoms`` (numbers with
        meaning, but only finitely many distinct rows, as embeddings of a few items).
    categories : the possible codes of a categorical column.
    """

    kind: Literal["continuous", "categorical", "atoms"] = "continuous"
    categories: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.kind == "categorical" and not self.categories:
            msg = "a categorical column needs its categories"
            raise DataError(msg)


@dataclass(frozen=True)
class Schema:
    """Kinds of the columns of context and embedding: categorical, atoms or continuous."""

    context: tuple[Column, ...]
    embedding: tuple[Column, ...]

    @classmethod
    def continuous(cls, d_context: int, d_embedding: int) -> Schema:
        """Build a schema in which all columns are continuous."""
        return cls((Column(),) * d_context, (Column(),) * d_embedding)
