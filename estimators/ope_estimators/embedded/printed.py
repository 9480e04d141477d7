"""Printed forms: an estimator under another name, with the defaults that a paper has."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["with_defaults"]

C = TypeVar("C", bound=type)


def with_defaults(**changed: Any) -> Callable[[C], C]:
    """Class decorator: the constructor of the base class with other defaults.

    Names, annotations and order of the parameters stay those of the base class, so that what
    differs from it is what the decorator says.

    >>> class Base:
    ...     def __init__(self, clip: float = 1.0, folds: int = 5) -> None:
    ...         self.clip, self.folds = clip, folds
    >>> @with_defaults(folds=0)
    ... class Printed(Base):
    ...     pass
    >>> str(inspect.signature(Printed)), Printed(2.0).folds, Base().folds
    ("(clip: 'float' = 1.0, folds: 'int' = 0) -> 'None'", 0, 5)
    """

    def decorate(cls: C) -> C:
        inherited = cls.__init__  # type: ignore[misc]
        given = inspect.signature(inherited)
        own = given.replace(
            parameters=[
                p.replace(default=changed[p.name]) if p.name in changed else p
                for p in given.parameters.values()
            ]
        )

        @functools.wraps(inherited)
        def construct(*args: Any, **kwargs: Any) -> None:
            bound = own.bind(*args, **kwargs)
            bound.apply_defaults()
            inherited(*bound.args, **bound.kwargs)

        construct.__signature__ = own  # type: ignore[attr-defined]
        cls.__init__ = construct  # type: ignore[misc]
        return cls

    return decorate
