"""Which Open Bandit Pipeline is installed, and what becomes of its incompatibilities."""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Iterator

from ope_bench.errors import UnavailableError

__all__ = ["incompatibility_told", "versions"]

_NAMES = ("sb-obp", "obp")


def versions() -> str:
    """What is installed, in words: obp and the packages it is known to fall out with."""
    told = []
    for name in (*_NAMES, "scikit-learn", "numpy"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            told.append(f"{name} {importlib.metadata.version(name)}")
    return ", ".join(told)


@contextlib.contextmanager
def incompatibility_told() -> Iterator[None]:
    """Turn what an interface that has changed raises into UnavailableError with versions.

    Removed arguments (``OneHotEncoder(sparse=...)`` since scikit-learn 1.4) are TypeErrors,
    removed names AttributeErrors or ImportErrors. They are nobody's wrong estimate.
    """
    try:
        yield
    except (TypeError, AttributeError, ImportError) as exc:
        msg = f"the Open Bandit Pipeline does not run with {versions()}: {exc}"
        raise UnavailableError(msg) from exc
