"""Learners that a parameter selects by the import path of their class.

A suite file must not be able to import and call arbitrary code: a path must lead into scikit-learn
or into a package with installed plugins, whose code a suite runs anyway.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from ope_bench.errors import ParameterError, did_you_mean

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

__all__ = ["LearnerName", "import_class", "is_import_path", "learner_from_path"]

ALLOWED = "an import path into sklearn or an installed plugin's package"

_GROUPS = ("ope_bench.environments", "ope_bench.estimators")


def is_import_path(path: str) -> bool:
    """Return whether a path may be imported: dotted names that begin with an allowed package.

    >>> is_import_path("sklearn.linear_model.Ridge"), is_import_path("os.system")
    (True, False)
    """
    words = path.split(".")
    return (
        len(words) > 1 and all(word.isidentifier() for word in words) and words[0] in _packages()
    )


@cache
def _packages() -> frozenset[str]:
    points = [point for group in _GROUPS for point in importlib.metadata.entry_points(group=group)]
    return frozenset({"sklearn", *(point.value.partition(".")[0] for point in points)})


def import_class(path: str) -> type[Any]:
    """Import the class at a path.

    Raises
    ------
    ParameterError : the path is not allowed, cannot be imported, or is no class.
    """
    if not is_import_path(path):
        msg = f"{path!r} is not {ALLOWED}"
        raise ParameterError(msg)
    module, _, name = path.rpartition(".")
    try:
        parent = importlib.import_module(module)
    except ImportError as exc:
        msg = f"{path!r} cannot be imported: {exc}"
        raise ParameterError(msg) from exc
    cls = getattr(parent, name, None)
    if not isinstance(cls, type):
        hint = did_you_mean(name, (word for word in dir(parent) if not word.startswith("_")))
        msg = f"{module!r} has no class {name!r}{hint}"
        raise ParameterError(msg)
    return cls


class LearnerName:
    """Annotation of a parameter: a learner's name, or the import path of its class.

    Parameters
    ----------
    known : the names.
    kind : kind of learner, for messages.

    >>> LearnerName(["ridge", "gbm"], "regressor").check("rigde")
    Traceback (most recent call last):
    ...
    ope_bench.errors.ParameterError: 'rigde' is no regressor; did you mean 'ridge'? (known: \
ridge, gbm, or an import path into sklearn or an installed plugin's package)
    """

    def __init__(self, known: Iterable[str], kind: str) -> None:
        self.known = tuple(known)
        self.kind = kind

    def check(self, name: str) -> str:
        """Return a valid name or allowed path; raise ParameterError for any other."""
        if name in self.known:
            return name
        if not is_import_path(name):
            hint = did_you_mean(name, self.known)
            msg = (
                f"{name!r} is no {self.kind}{hint} (known: {', '.join(self.known)}, or {ALLOWED})"
            )
            raise ParameterError(msg)
        return name

    def __get_pydantic_core_schema__(
        self, source: Any, handler: Callable[[Any], CoreSchema]
    ) -> CoreSchema:
        from pydantic_core import PydanticCustomError, core_schema

        def check(name: str) -> str:
            try:
                if self.check(name) not in self.known:
                    import_class(name)
            except ParameterError as exc:
                kind = "learner"
                raise PydanticCustomError(kind, "{reason}", {"reason": str(exc)}) from exc
            return name

        return core_schema.no_info_after_validator_function(check, handler(source))


def learner_from_path(path: str, *, seed: int, params: Mapping[str, Any]) -> Any:
    """Build the learner at an import path: seeded, single-threaded, not yet fitted.

    Parameters
    ----------
    path : import path of the class.
    seed : value of ``random_state``, if the class has it and ``params`` does not set it.
    params : parameters that differ from their defaults.

    Raises
    ------
    ParameterError : as `import_class`, or the class has no such parameter.

    >>> learner_from_path("sklearn.linear_model.LogisticRegression", seed=1, params={"C": 0.5})
    LogisticRegression(C=0.5, random_state=1)
    """
    cls = import_class(path)
    accepted = list(inspect.signature(cls).parameters)
    for name in params:
        if name not in accepted:
            msg = f"{cls.__name__} has no parameter {name!r}{did_you_mean(name, accepted)}"
            raise ParameterError(msg)
    # LogisticRegression's n_jobs is deprecated and never starts threads of its own.
    fixed = {"random_state": seed} | ({"n_jobs": 1} if "Forest" in path or "Trees" in path else {})
    return cls(**({name: value for name, value in fixed.items() if name in accepted} | {**params}))
