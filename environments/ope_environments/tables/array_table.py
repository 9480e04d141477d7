"""Tables of arrays in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from ope_bench import Table, table_of

__all__ = ["array_table"]


def array_table(path: Path, columns: Mapping[str, npt.NDArray[Any]]) -> Table:
    """Make a table of arrays; NaN is a missing number, an empty word a missing name.

    Parameters
    ----------
    path : where the arrays come from, for messages.
    columns : (n,) each.

    >>> import numpy as np
    >>> table = array_table(Path("trial"), {"arm": np.array(["b", "", "a"], dtype=object)})
    >>> table.codes("arm", optional=True)[1]
    ['', 'a', 'b']
    """
    return replace(table_of(columns), path=path, place=lambda row: f"row {row + 1:,}")
