"""The page of published formulas and codes that are wrong, from tests/support."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["defects"]


def defects(opening: str, root: Path) -> str:
    """The whole file; figures are computed, not typed.

    Parameters
    ----------
    opening : heading and what stands above the table.
    root : the repository.
    """
    sys.path.insert(0, str(root / "tests"))
    from support.published_defects import DEFECTS

    heads = ["#", "formula", "published in", "identity", "asks for", "gives", "shown by"]
    rows = [
        [
            str(number),
            defect.what,
            defect.source,
            defect.identity,
            f"{defect.right():.4g}",
            f"{defect.wrong():.4g}",
            defect.shown,
        ]
        for number, defect in enumerate(DEFECTS, 1)
    ]
    rule = ["---:", "---", "---", "---", "---:", "---:", "---"]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows))
    return f"{opening}\n{table}\n"
