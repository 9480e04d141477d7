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

    Parameters
    ----------
    performance : the folder results/performance.
    """
    hot = {row["name"]: row for row in _rows(performance, "hot-paths")}
    peer = {row["how"]: row["ratios"] for row in _rows(performance, "benchopt")}
    dask = {row["work"]: row["ratios"] for row in _rows(performance, "dask")}
    batched = _report(performance, "batched")["ratios"]

    def a_trial(name: str) -> str:
        return f"{1e3 * hot[name]['told']['seconds'] / TRIALS:.2f} ms"

    def jobs(work: str) -> float:
        told = hot[f"two jobs do nearly twice as much[{work}]"]["told"]
        return float(told["speed-up of two jobs"])

    def cluster(work: str) -> float:
        return float(dask[work]["two Dask workers over one"]["median"])

    resumed = hot["resuming a thousand stored trials takes less than half a second"]
    beside = [_times(peer[how]["first_seconds"]) for how in ("isolated, one job", "in process")]
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
            f"{1e3 * resumed['told']['seconds']:.0f} ms",
            "the same",
        ],
        [
            "benchopt's time for a trivial trial over ours, isolated and in process",
            f"{' and '.join(beside)} times",
            _page("benchopt"),
        ],
        [
            "throughput of two local workers over one, trials of 20 ms that wait and that compute",
            f"{jobs('sleep'):.2f} and {jobs('cpu'):.2f} times",
            _page("hot-paths"),
        ],
        [
            "throughput of two Dask workers over one, the same trials",
            f"{cluster('sleep'):.2f} and {cluster('cpu'):.2f} times",
            _page("dask"),
        ],
        [
            "50 trials of FEPWS one by one over the same trained together, two workers each",
            f"{batched['wall']['median']:.1f} times",
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
        for machine in _report(performance, name)["machines"]:
            for row in machine["rows"]:
                if (row["n"], row["n_actions"]) == (n, n_actions) and row["ratios"]:
                    found.setdefault(row.get("estimator", ""), []).append(row["ratios"])
        return found

    made, estimated = at("generation")[""], at("obp-estimators")
    rows = [
        ["synthetic logs", made, _page("generation")],
        *([words, estimated[name], _page("obp-estimators")] for words, name in OBP.items()),
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
    ratios = sorted((one[figure] for one in machines), key=lambda ratio: float(ratio["median"]))
    ends = [_times(ratios[0]), _times(ratios[-1])]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def _times(ratio: Mapping[str, float]) -> str:
    return f"{ratio['median']:.2g}" if ratio["median"] < 10 else f"{ratio['median']:.0f}"


def _page(name: str) -> str:
    return f"[{name}](results/performance/{name}.md)"


def _rows(performance: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = _report(performance, name)["rows"]
    return rows


def _report(performance: Path, name: str) -> dict[str, Any]:
    text = (performance / f"{name}.json").read_text(encoding="utf-8")
    report: dict[str, Any] = json.loads(text)
    return report
