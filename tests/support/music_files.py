"""Files of ranked lists in the published layout, under a position-based click model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ope_environments.ranking.races import race

WIDTH = 3
"""Numbers that describe an action; the published data have 129."""


def write_lists(
    folder: str,
    lists: int,
    *,
    by_target: bool = False,
    items: list[int] | None = None,
    **columns: Any,
) -> None:
    """Write lists of all their items in order of rates; the target shows the best first.

    An item has the relevance .1 to .7 by its first feature, a slot k the examination 1/k.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng([lists, by_target])
    data: dict[str, list[Any]] = {
        name: []
        for name in (
            "actions",
            "rewards",
            "logging_selected_actions",
            "target_selected_actions",
            "propensities",
        )
    }
    for number in range(lists):
        n = items[number] if items else int(rng.integers(2, 6))
        features = rng.random((n, WIDTH))
        rates = np.exp(features[:, 0])
        best = np.argsort(-features[:, 0])
        shown = best if by_target else np.argsort(rng.exponential(size=n) / rates)
        chance = race(rates[None], None, n)[0]
        click = rng.random(n) < (0.1 + 0.6 * features[shown, 0]) / np.arange(1, n + 1)
        data["actions"].append(features.tolist())
        data["rewards"].append(click.astype(float).tolist())
        data["logging_selected_actions"].append(shown.tolist())
        data["target_selected_actions"].append(best.tolist())
        data["propensities"].append(chance[:, shown].T.tolist())
    pq.write_table(pa.table(data | columns), Path(folder) / "part-0.parquet")
