"""An invented log of 5,000 decisions, with the faults of real ones."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from scipy.special import softmax

from ope_bench.base.errors import UsageError
from ope_bench.base.files import atomic_write
from ope_bench.contracts.arrays import FloatArray, IntArray
from ope_bench.contracts.random import sample_indices

ROWS, ITEMS, KEPT = 5000, 200, 12
KINDS = ("audio", "books", "games", "home")
DEVICES = ("phone", "desktop", "tablet")


def write_example(folder: Path) -> list[Path]:
    """Write the example: the log file, decisions, items and the new policy.

    The reward drifts downward, the propensities of three items are too small by a factor of four,
    some ages and devices are missing, and the new policy shows one item that was never shown. The
    new policy's true value, which no real log tells, is in ``truth.txt``.

    Raises
    ------
    UsageError : the folder cannot be made, or a file is already there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        msg = f"cannot make the folder {folder}: {exc.strerror or exc}"
        raise UsageError(msg) from exc
    names = ("shop.yaml", "decisions.csv", "items.csv", "target.csv", "truth.txt")
    paths = [folder / name for name in names]
    for path in paths:
        if path.exists():
            msg = f"{path} is already there; name another folder"
            raise UsageError(msg)
    shop = _Shop()
    try:
        with atomic_write(paths[0], UsageError) as partial:
            partial.write_bytes(Path(__file__).with_name("example_log.yaml").read_bytes())
        _write(paths[1], ("ts", "age", "visits", "device", "item", "p", "click"), shop.decisions())
        _write(paths[2], ("item", "price", "kind", "e0", "e1"), shop.items())
        _write(paths[3], ("row", "action", "probability"), shop.target())
        with atomic_write(paths[4], UsageError) as partial:
            partial.write_text(f"{shop.value():.3f}\n", encoding="utf-8")
    except BaseException:
        # All or nothing: none of these was there before.
        for path in paths:
            path.unlink(missing_ok=True)
        raise
    return paths


def _write(path: Path, header: tuple[str, ...], rows: Iterable[Iterable[object]]) -> None:
    with (
        atomic_write(path, UsageError) as partial,
        partial.open("w", encoding="utf-8", newline="") as stream,
    ):
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


class _Shop:
    """The invented world."""

    def __init__(self) -> None:
        rng = np.random.default_rng(20)
        self.age = rng.integers(18, 80, ROWS).astype(float)
        self.visits = rng.poisson(3.0, ROWS).astype(float)
        self.device = rng.integers(len(DEVICES), size=ROWS)
        self.embedding = rng.normal(size=(ITEMS, 2)).round(3)
        self.kind = rng.integers(len(KINDS), size=ITEMS)
        self.price = np.exp(rng.normal(2.5, 0.6, ITEMS)).round(2)
        taste = np.column_stack([(self.age - 49) / 18, (self.visits - 3) / 1.7])
        fit = taste @ self.embedding.T
        bonus = 0.5 * (self.device[:, None] == self.kind[None, :]) - 0.02 * self.price
        self.logit = -1.6 + 0.6 * fit + bonus
        # The old policy likes cheap items and never shows the last one, which is new.
        liked = 0.7 * fit - 0.03 * self.price + 0.3 * rng.normal(size=ITEMS)
        liked[:, -1] = -np.inf
        self.logging = 0.9 * softmax(2.0 * liked, axis=1)
        self.logging[:, :-1] += 0.1 / (ITEMS - 1)
        self.item = sample_indices(self.logging, rng.random(ROWS))
        drift = -0.6 * np.arange(ROWS) / ROWS
        rate = 1 / (1 + np.exp(-(self._at(self.logit) + drift)))
        self.click = (rng.random(ROWS) < rate).astype(int)
        self.propensity = self._at(self.logging)
        shown = np.argsort(-np.bincount(self.item, minlength=ITEMS))
        self.broken = shown[[6, 10, 15]]
        self.propensity[np.isin(self.item, self.broken)] /= 4
        self.missing = rng.random((2, ROWS)) < 0.02
        self.wanted = softmax(1.5 * liked + 0.8 * fit, axis=1)

    def _at(self, table: FloatArray) -> FloatArray:
        return table[np.arange(ROWS), self.item]

    def decisions(self) -> Iterable[tuple[object, ...]]:
        for row in range(ROWS):
            # From the first to the last minute of March.
            minute = row * 31 * 24 * 60 // ROWS
            yield (
                f"2026-03-{1 + minute // 1440:02d}T{minute // 60 % 24:02d}:{minute % 60:02d}",
                "" if self.missing[0, row] else int(self.age[row]),
                int(self.visits[row]),
                "" if self.missing[1, row] else DEVICES[self.device[row]],
                _name(int(self.item[row])),
                f"{self.propensity[row]:.6g}",
                self.click[row],
            )

    def items(self) -> Iterable[tuple[object, ...]]:
        for item in range(ITEMS):
            e0, e1 = self.embedding[item]
            yield _name(item), self.price[item], KINDS[self.kind[item]], e0, e1

    def target(self) -> Iterable[tuple[object, ...]]:
        """Yield the twelve items that the new policy likes best, and the new item with 4 %."""
        for row in range(ROWS):
            for item, probability in self._new(row):
                yield row, _name(item), f"{probability:.6f}"
            yield row, _name(ITEMS - 1), "0.04"

    def value(self) -> float:
        """Return the new policy's clicks a row, in the contexts and at the times of the log."""
        total = 0.0
        for row in range(ROWS):
            rate = 1 / (1 + np.exp(-(self.logit[row] - 0.6 * row / ROWS)))
            total += 0.04 * float(rate[-1])
            total += sum(probability * float(rate[item]) for item, probability in self._new(row))
        return total / ROWS

    def _new(self, row: int) -> Iterable[tuple[int, float]]:
        best: IntArray = np.argsort(-self.wanted[row])[:KEPT]
        share = 0.96 * self.wanted[row, best] / self.wanted[row, best].sum()
        return zip(best.tolist(), share.tolist(), strict=True)


def _name(item: int) -> str:
    return f"item-{item + 1:03d}"
