"""The page of published formulas and codes that are wrong, from tests/support."""

from __future__ import annotations

import sys
from pathlib import Path

from judging.pages.page import opening, table


def defects(root: Path) -> str:
    """The whole file; figures are computed, not typed.

    Parameters
    ----------
    root : the repository.
    """
    sys.path.insert(0, str(root / "tests"))
    from support.published_defects import DEFECTS

    head = ["#", "formula", "published in", "fixed", "identity", "asks for", "gives", "shown by"]
    rows = []
    for number, one in enumerate(DEFECTS, 1):
        figures = [f"{side():.4g}" for side in (one.right, one.wrong)]
        words = [one.what, one.source, one.fixed, one.identity]
        rows.append([str(number), *words, *figures, one.shown])
    return f"{opening('defects')}\n{table(head, rows)}\n"
