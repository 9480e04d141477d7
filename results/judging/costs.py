"""Rows of what the harness costs, from the reports in results/performance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["beside_obp", "harness"]

TRIALS = 1_000
"""Of a round in tests/benchmarks/test_overhead.py."""

OBP = {
    "IPW, from logs and policies": "IPW",
    "SNIPW": "SNIPW",
    "DM, ordinal actions": "DM, ordinal actions",
    "DR, ordinal actions": "DR, ordinal actions",
    "MIPS, true weights, one embedding dimension": "MIPS, true weights, 1 dimension",
    "MIPS, true weights, three dimensions": "MIPS, true weights, 3 dimensions",
    "MIPS, estimated weights": "MIPS, estimated weights",
    "MIPS, estimated weights by `softmax`": "MIPS, estimated weights, softmax",
}


def harness(performance: Path) -> list[list[str]]:
    """What a trial costs beyond its work, and what more workers bring: the table's cells.

    Where several machines were measured, each figure is the range over them.

    Parameters
    ----------
    performance : the folder results/performance.
    """

    def hot(name: str, figure: str = "seconds") -> list[float]:
        return [
            float(row["told"][figure])
            for row in _rows(performance, "hot-paths")
            if row["name"] == name
        ]

    def a_trial(name: str) -> str:
        return f"{_span([1e3 * seconds / TRIALS for seconds in hot(name)])} ms"

    def jobs(work: str) -> str:
        name = f"two jobs do nearly twice as much[{work}]"
        return _span(hot(name, "speed-up of two jobs"), digits=3)

    def peer(how: str) -> str:
        rows = [row for row in _rows(performance, "benchopt") if row["how"] == how]
        return _span([row["ratios"]["first_seconds"]["median"] for row in rows])

    def cluster(work: str) -> str:
        rows = [row for row in _rows(performance, "dask") if row["work"] == work]
        ratios = [row["ratios"]["two Dask workers over one"]["median"] for row in rows]
        return _span(ratios, digits=3)

    resumed = hot("resuming a thousand stored trials takes less than half a second")
    batched = [one["ratios"]["wall"]["median"] for one in _machines(performance, "batched")]
    return [
        ["", "measured", "page"],
        ["---", "---", "---"],
        [
            "a trivial trial in a worker of its own, stored durably",
            a_trial("an isolated and stored trial costs at most a millisecond"),
            _page("hot-paths"),
        ],
        [
            "the same in this process, not stored",
            a_trial("a trial in this process costs at most a third of a millisecond"),
            "the same",
        ],
        [
            "resuming 1,000 stored trials, beyond start-up",
            f"{_span([1e3 * seconds for seconds in resumed])} ms",
            "the same",
        ],
        *(
            [
                f"benchopt's time for a trivial trial over ours, {words}",
                f"{peer(how)} times",
                _page("benchopt"),
            ]
            for words, how in (
                ("ours in a worker of its own", "isolated, one job"),
                ("ours in this process", "in process"),
            )
        ),
        *(
            [
                f"throughput of two {workers} workers over one, trials of 20 ms that {words}",
                f"{ratio(work)} times",
                _page(page),
            ]
            for workers, ratio, page in (("local", jobs, "hot-paths"), ("Dask", cluster, "dask"))
            for work, words in (("sleep", "wait"), ("cpu", "compute"))
        ),
        [
            "50 trials of FEPWS one by one over the same trained together, two workers each",
            f"{_span(batched)} times",
            _page("batched"),
        ],
    ]


def beside_obp(performance: Path, n: int, n_actions: int) -> list[list[str]]:
    """Ratios of processor time and memory to Open Bandit Pipeline's at a size: the table's cells.

    Where several machines were measured, each ratio is the range over them.

    Parameters
    ----------
    performance : the folder results/performance.
    n, n_actions : the size.
    """

    def at(name: str) -> dict[str, list[Mapping[str, Any]]]:
        found: dict[str, list[Mapping[str, Any]]] = {}
        for row in _rows(performance, name):
            if (row["n"], row["n_actions"]) == (n, n_actions) and row["ratios"]:
                found.setdefault(row.get("estimator", ""), []).append(row["ratios"])
        return found

    made, estimated = at("generation")[""], at("obp-estimators")
    rows = [
        ("synthetic logs", made, _page("generation")),
        *((words, estimated[name], _page("obp-estimators")) for words, name in OBP.items()),
    ]
    return [
        [
            f"beside Open Bandit Pipeline, {n:,} rows and {n_actions:,} actions",
            "its time over ours",
            "its memory over ours",
            "page",
        ],
        ["---", "---:", "---:", "---"],
        *(
            [words, _range(ratios, "cpu_seconds"), _range(ratios, "rise_mb"), page]
            for words, ratios, page in rows
        ),
    ]


def _range(machines: list[Mapping[str, Any]], figure: str) -> str:
    """The lowest to the highest median over machines."""
    return _span([float(one[figure]["median"]) for one in machines])


def _span(values: list[float], digits: int = 2) -> str:
    """The lowest to the highest value, to so many digits."""
    ends = [
        f"{value:#.{digits}g}" if value < 10 ** (digits - 1) else f"{value:,.0f}"
        for value in (min(values), max(values))
    ]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def _page(name: str) -> str:
    return f"[{name}](results/performance/{name}.md)"


def _rows(performance: Path, name: str) -> list[dict[str, Any]]:
    """Rows of all machines."""
    return [row for machine in _machines(performance, name) for row in machine["rows"]]


def _machines(performance: Path, name: str) -> list[dict[str, Any]]:
    text = (performance / f"{name}.json").read_text(encoding="utf-8")
    machines: list[dict[str, Any]] = json.loads(text)["machines"]
    return machines
