"""Required packages of ope-bench, its extras and plugins.

A plugin's modules are imported before timing starts; the error for a missing one has the command
that installs it.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable

from ope_bench.errors import UnavailableError
from ope_bench.plugins.memory_errors import ran_out_of_memory

__all__ = [
    "CORE",
    "EXTRAS",
    "LEARNERS",
    "NUMERICAL",
    "import_all",
    "is_installed",
    "installed_version",
    "pip_line",
]

CORE = {
    "numpy": "numpy",
    "scipy": "scipy",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
    "pydantic": "pydantic",
    "typer": "typer",
    "rich": "rich",
    "threadpoolctl": "threadpoolctl",
    "psutil": "psutil",
}
"""Required packages of ope-bench: module to distribution."""

EXTRAS: dict[str, dict[str, str]] = {
    "xgboost": {"xgboost": "xgboost"},
    "flow": {"torch": "torch", "zuko": "zuko"},
    "dask": {"distributed": "distributed"},
    "report": {"altair": "altair", "vl_convert": "vl-convert-python"},
    "parquet": {"pyarrow": "pyarrow"},
}
"""Packages of the extra ``all``: extra to module to distribution.

The installed package's metadata has the distributions but not their modules, and the distribution
of a missing module cannot be looked up. A test compares this table with pyproject.toml.
"""

NUMERICAL = ("numpy", "scipy", "scikit-learn")
"""Distributions on which every result depends."""

LEARNERS = EXTRAS["flow"] | EXTRAS["xgboost"]
"""Optional packages on which results depend: module to distribution."""

_EXTRA_OF = {
    "dask": "dask",  # comes with distributed
    "obp": "obp",  # no part of ``all``, because its pins conflict with theirs
} | {module: extra for extra, modules in EXTRAS.items() for module in modules}


APART = {"obp": "in an environment of its own, since it needs older versions of others"}
"""What to know before installing an extra, by module."""


def pip_line(module: str) -> str:
    """Return the command that installs the package of ``module``.

    >>> pip_line("zuko.flows")
    'pip install "ope-bench[flow]"'
    """
    top = module.partition(".")[0]
    if top in _EXTRA_OF:
        apart = APART.get(top, "")
        return f'pip install "ope-bench[{_EXTRA_OF[top]}]"{apart and f" {apart}"}'
    return f"pip install {CORE.get(top, top)}"


def is_installed(module: str) -> bool:
    """Return whether a module can be found, without importing it.

    >>> is_installed("numpy.linalg"), is_installed("no_such_module")
    (True, False)
    """
    try:
        return importlib.util.find_spec(module.partition(".")[0]) is not None
    # Another process may not find a module that this one imported without a specification.
    except ValueError:
        return False


def installed_version(distribution: str) -> str | None:
    """Return the installed version of a distribution, None where it is not installed."""
    from importlib import metadata  # slow to import, and not needed for a plugin's modules

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def import_all(modules: Iterable[str]) -> None:
    """Import every module.

    Raises
    ------
    UnavailableError : one is missing (with the pip command) or cannot be imported.
    MemoryError : memory ran out while one was imported.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as exc:
            missing = exc.name or module
            msg = f"needs '{missing.partition('.')[0]}': {pip_line(missing)}"
            raise UnavailableError(msg) from exc
        # Packages with incompatible versions raise exceptions of any class.
        except Exception as exc:
            reason = f"{type(exc).__name__}: {exc}"
            if ran_out_of_memory(exc):
                msg = f"no memory left to import '{module}' ({reason})"
                raise MemoryError(msg) from exc
            msg = f"needs '{module}', which cannot be imported here: {reason}"
            raise UnavailableError(msg) from exc
