"""Boards and verdicts for readers: terminal, Markdown, LaTeX, CSV, charts, one HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec

from ope_bench.base.errors import UsageError


def needs_extra() -> None:
    """Raise a UsageError if charts cannot be made.

    Raises
    ------
    UsageError : the extra ``report`` is not installed.
    """
    # Not imported: pages have their charts from a cache, and altair takes a quarter of a second.
    if any(find_spec(name) is None for name in ("altair", "vl_convert")):
        msg = 'reports need an extra: pip install "ope-bench[report]"'
        raise UsageError(msg)


# Here, because `ope-bench list` needs them, and tables import NumPy.

MISSING = "-"

ACCESS_LETTERS = {
    "samples": MISSING,
    "propensity": "p",
    "logging_policy": "L",
    "target_policy": "T",
    "embedding_distribution": "E",
    "predicted_reward": "R",
    "prefix_propensity": "l",
    "joint_propensity": "l",
    "position_marginals": "m",
    "stratum": "s",
    "stratum_policies": "S",
    "action_mask": "a",
    "predicted_reward_wanted": "w",
}


def access_letters(access: Sequence[str]) -> str:
    """Return the data that an estimator is given beyond samples, a letter each.

    >>> access_letters(["propensity", "logging_policy", "target_policy"]), access_letters([])
    ('LT', '-')
    """
    # Who has the policy has its propensities.
    words = [one for one in access if one != "propensity" or "logging_policy" not in access]
    return "".join(ACCESS_LETTERS.get(word, "?") for word in words) or MISSING


def access_legend(shown: Iterable[Sequence[str]]) -> str:
    """Return what the letters of some estimators' data mean."""
    letters = {letter for access in shown for letter in access_letters(access)}
    used = [
        f"{letter} {word.replace('_', ' ')}"
        for word, letter in ACCESS_LETTERS.items()
        if letter in letters
    ]
    return f"access: {', '.join(used).replace('- samples', '- samples only')}"
