"""The installed Open Bandit Pipeline, and its incompatibilities with other packages."""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Iterator

from ope_bench import UnavailableError

__all__ = ["translate_incompatibility", "versions"]

_NAMES = ("sb-obp", "obp")


def versions() -> str:
    """Return the installed versions of obp and of packages with known incompatibilities."""
    installed = []
    for name in (*_NAMES, "scikit-learn", "numpy"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed.append(f"{name} {importlib.metadata.version(name)}")
    return ", ".join(installed)


@contextlib.contextmanager
def translate_incompatibility() -> Iterator[None]:
    """Convert the errors of changed interfaces to UnavailableError with versions.

    Removed arguments (``OneHotEncoder(sparse=...)`` since scikit-learn 1.4) are TypeErrors,
    removed names AttributeErrors or ImportErrors. They are version conflicts, not failures of the
    estimator.
    """
    try:
        yield
    except (TypeError, AttributeError, ImportError) as exc:
        msg = f"the Open Bandit Pipeline does not run with {versions()}: {exc}"
        raise UnavailableError(msg) from exc
