"""Short labels of estimators for charts, unique as before."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

__all__ = ["short_labels"]


def short_labels(labels: Sequence[str]) -> dict[str, str]:
    """Return short labels by label, without names of parameters where labels stay unique.

    >>> short_labels(["dm features=one-hot", "dm features=all", "ipw clip=5"])
    {'dm features=one-hot': 'dm one-hot', 'dm features=all': 'dm all', 'ipw clip=5': 'ipw clip=5'}
    """
    brief = [_brief(label) for label in labels]
    times = Counter([*brief, *labels])
    return {
        label: short if times[short] == 1 else label
        for label, short in zip(labels, brief, strict=True)
    }


def _brief(label: str) -> str:
    """Remove ``name=`` before words; numbers and truth values keep their names."""
    return re.sub(r"(?<= )\w+=(?!true\b|false\b|null\b)(?=[A-Za-z])", "", label)
