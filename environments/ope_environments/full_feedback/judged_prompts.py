"""The prompts of the installed package paretobandit: every model's answer was judged."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path
from zlib import crc32

import numpy as np

from ope_bench import DataFileError, FloatArray, UnavailableError
from ope_environments.full_feedback.scores import ScoreTable
from ope_environments.tables.installed_folder import installed_folder

__all__ = ["read_judged_prompts"]

FILES = ("val.jsonl", "test_holdout.jsonl")

WORDS = 512
"""Columns into which words are hashed."""

DIRECTIONS = 12
"""Principal directions of the words that are contexts."""


def read_judged_prompts() -> ScoreTable:
    """Read prompts, and the reward and cost of each model's answer, from the package's files.

    Contexts are the logarithm of the prompt's length, indicators of its source, and the first
    twelve principal components of its words: hashed into 512 columns, weighted by the logarithm of
    their rarity, each prompt scaled to length 1.

    Raises
    ------
    UnavailableError : the package is not installed, or has no such files.
    """
    folder = installed_folder("pareto_bandit")
    paths = [] if folder is None else [folder / "data" / "examples" / name for name in FILES]
    if not paths or not all(path.is_file() for path in paths):
        msg = "paretobandit's prompts need it: pip install --no-deps paretobandit==0.1.1"
        raise UnavailableError(msg)
    return _read(tuple(paths))


@lru_cache(maxsize=1)
def _read(paths: tuple[Path, ...]) -> ScoreTable:
    prompts: list[str] = []
    sources: list[str] = []
    rows: list[list[tuple[float, float]]] = []
    models: tuple[str, ...] = ()
    for path in paths:
        # Prompts hold other line separators of Unicode, at which splitlines() splits too.
        lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
        for number, line in enumerate(lines, start=1):
            try:
                one = json.loads(line)
                models = models or tuple(sorted(one["arms"]))
                arms = [one["arms"][model] for model in models]
                rows.append([(float(arm["reward"]), float(arm["cost"])) for arm in arms])
                prompts.append(str(one["prompt"]))
                sources.append(str(one["source"]))
            except (KeyError, TypeError, ValueError) as exc:
                what = f"line {number} has no prompt with a reward and a cost of each model"
                raise DataFileError(path, what) from exc
    table = np.array(rows)
    length = np.log1p([len(prompt) for prompt in prompts])
    kinds = sorted(set(sources))
    of_source = np.array([[source == kind for kind in kinds] for source in sources], dtype=float)
    context = np.column_stack([length, of_source, _directions(prompts)])
    return ScoreTable(context, models, table[:, :, 0], table[:, :, 1])


def _directions(prompts: list[str]) -> FloatArray:
    """Return the principal components of the words of each prompt: (n, 12)."""
    count = np.zeros((len(prompts), WORDS))
    for row, prompt in enumerate(prompts):
        for word in re.findall(r"[a-z0-9]+", prompt.lower()):
            # A digest, since Python's own hash differs from process to process.
            count[row, crc32(word.encode()) % WORDS] += 1.0
    seen = (count > 0).mean(axis=0)
    weighted = np.log1p(count) * -np.log(np.clip(seen, 1.0 / len(prompts), 1.0))
    weighted /= np.maximum(np.linalg.norm(weighted, axis=1, keepdims=True), 1e-12)
    centered = weighted - weighted.mean(axis=0)
    _, vectors = np.linalg.eigh(centered.T @ centered)
    first = vectors[:, ::-1][:, :DIRECTIONS]
    # An eigenvector has no sign of its own.
    largest = np.take_along_axis(first, np.abs(first).argmax(axis=0)[None], axis=0)
    found: FloatArray = centered @ (first * np.sign(largest))
    return found
