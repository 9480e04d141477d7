"""Errors before and after a change, for the simulations of the gate."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

LEVEL, MARGIN, ROWS = 0.01, 0.02, 60
SIZES = (20, 60, 100)
CORRELATIONS = (0.0, 0.3, 0.6, 0.9, 0.99, 1.0)


def _student(z: np.ndarray) -> np.ndarray:
    from scipy.special import ndtr, stdtrit

    # From the lower tail, where a probability near 1 would lose its digits.
    return np.asarray(-np.copysign(stdtrit(3, ndtr(-np.abs(z))), z))


SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "normal": lambda z: z,
    "lognormal": np.exp,
    "student t, 3": _student,
}
"""Errors as functions of normal scores."""


def drawn(
    shape: str, correlation: float, size: tuple[int, int], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Errors before and after, of one distribution, whose normal scores have this correlation."""
    before = rng.normal(size=size)
    own = rng.normal(size=size) if correlation < 1 else 0.0
    after = correlation * before + np.sqrt(1 - correlation**2) * own
    return SHAPES[shape](before).copy(), SHAPES[shape](after).copy()


def note(page: Path, part: str, figures: dict[str, Any]) -> None:
    """Put figures into the JSON file beside a page, over those of that part."""
    path = page.with_suffix(".json")
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    text = json.dumps({**known, part: figures}, indent=1)
    path.write_text(f"{text}\n", encoding="utf-8")
