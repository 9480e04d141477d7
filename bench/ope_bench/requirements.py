"""Modules that a plugin needs: imported before the clock starts, or a pip line to get them."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from ope_bench.errors import UnavailableError
from ope_bench.shortage import ran_out_of_memory

__all__ = ["import_all", "pip_line"]

_EXTRAS = {
    "xgboost": "xgboost",
    "torch": "flow",
    "zuko": "flow",
    "distributed": "dask",
    "dask": "dask",
    "altair": "report",
    "vl_convert": "report",
    "pyarrow": "parquet",
    "obp": "obp",
}

_DISTRIBUTIONS = {"sklearn": "scikit-learn", "yaml": "pyyaml"}


def pip_line(module: str) -> str:
    """The command that installs what provides ``module``.

    >>> pip_line("zuko.flows")
    'pip install "ope-bench[flow]"'
    """
    top = module.partition(".")[0]
    if top in _EXTRAS:
        return f'pip install "ope-bench[{_EXTRAS[top]}]"'
    return f"pip install {_DISTRIBUTIONS.get(top, top)}"


def import_all(modules: Iterable[str]) -> None:
    """Import every module.

    Raises
    ------
    UnavailableError : one is not there, with the exact pip line, or does not work here.
    MemoryError : memory ran out while one was imported.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as exc:
            missing = exc.name or module
            msg = f"needs '{missing.partition('.')[0]}': {pip_line(missing)}"
            raise UnavailableError(msg) from exc
        # Packages that do not get along with each other's versions raise all sorts of things.
        except Exception as exc:
            reason = f"{type(exc).__name__}: {exc}"
            if ran_out_of_memory(exc):
                msg = f"no memory left to import '{module}' ({reason})"
                raise MemoryError(msg) from exc
            msg = f"needs '{module}', which cannot be imported here: {reason}"
            raise UnavailableError(msg) from exc
