"""Marked blocks of Markdown files, filled from what is committed below results/.

    <!-- board paper/failures n_actions: epws, ipw-star on_missing=fail -->
    <!-- end -->

becomes a table of scores (RMSE with failures at the logging average's error) by that parameter,
from ``leaderboard.json`` of the folder;
``<!-- leaders -->`` what README says of the leaderboard;
``<!-- runs -->`` one of the committed runs, ``<!-- gate -->`` one of the gate's false alarms and
power, ``<!-- costs harness -->`` and
``<!-- costs obp 10000 1000 -->`` of what is measured in results/performance. Links lead from the
file's own folder.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from judging.leaderboard import leaders_block
from judging.page import table

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

GROWTH, REPLICATES = 0.3, 100
CORRELATIONS = (0.0, 0.9, 0.99)
"""Of the gate's power that is shown: how much errors grew, over how many, how correlated."""

_BLOCK = re.compile(
    r"(<!-- (board|leaders|runs|costs|gate)\b ?([^\n]*?) ?-->\n).*?(<!-- end -->)", re.DOTALL
)


def filled(path: Path, results: Path) -> str:
    """The file's text with every block made anew.

    Parameters
    ----------
    path : a Markdown file.
    results : the folder results/.
    """
    from_page = f"]({os.path.relpath(results, path.parent)}/"

    def made(found: re.Match[str]) -> str:
        opening, kind, words, closing = found.groups()
        made = BLOCKS[kind](results, words).replace("](results/", from_page)
        return f"{opening}{made}\n{closing}"

    return _BLOCK.sub(made, path.read_text(encoding="utf-8"))


def board(results: Path, words: str) -> str:
    """A table of scores by a parameter of the setting."""
    where, _, names = words.partition(": ")
    folder, axis = where.split()
    by_setting = {
        board["environment_params"][axis]: {row["label"]: row for row in board["rows"]}
        for board in _json(results / folder / "leaderboard.json")["boards"]
    }

    def cell(row: Mapping[str, Any]) -> str:
        if not row["finite"]:
            return "all fail"
        figure = f"{row['score']:.3g}"
        if row["tied"]:
            figure = f"**{figure}**"
        elif row["tied"] is None and row["rank"]:
            figure = f"{figure}?"
        return f"{figure}, {row['failure_rate']:.0%} fail" if row["failure_rate"] else figure

    settings = sorted(by_setting)
    head = [f"RMSE by {axis}", *(f"{setting:,}" for setting in settings)]
    rows = (
        [f"`{name}`", *(cell(by_setting[one][name]) for one in settings)]
        for name in names.split(", ")
    )
    return table(head, rows, "lr")


def leaders(results: Path, _words: str) -> str:
    """The first entrants of each track, and how far their order predicts that on real rewards."""
    return leaders_block(results)


def runs(results: Path, _words: str) -> str:
    """What each committed run was, how long it took, its machine and revision."""
    rows = []
    for told in map(_json, sorted(results.glob("**/run.json"))):
        parts = told["runs"]
        # A run that was killed has no end; the next one went on with its trials.
        ended = [part for part in parts if part["finished"] is not None]
        minutes = sum(part["finished"] - part["started"] for part in ended) / 60
        least = "at least " if len(ended) < len(parts) else ""
        machine = parts[-1]["machine"]
        facts = [f"`{parts[-1]['suite']}`", f"{told['records']:,}", f"{least}{minutes:.1f}"]
        revision = (machine["git"] or {}).get("revision", "none")[:7]
        rows.append([*facts, f"{machine['cores']} x {machine['cpu']}", revision])
    return table(["suite", "trials", "minutes", "cores", "revision"], rows, "lrrl")


def gate(results: Path, _words: str) -> str:
    """False alarms and power of the gate."""
    told = _json(results / "performance" / "gate.json")
    alarms, size = told["false_alarms"], told["false_alarms"]["rows_a_gate"]
    same, page = alarms["same_seeds"], _page("gate")
    rows, either = (sum(one[name] for one in alarms["cells"]) for name in ("rows", "either"))
    closed = f"{1 - (1 - either / rows) ** size:.1%} of gates"
    lines = [
        ["unchanged code, the same seeds", f"{same['closed']} of {same['gates']} gates", page],
        [f"{size} rows that all grew by the margin, same data", closed, "the same"],
    ]
    shown = ", ".join(f"{one:g}" for one in CORRELATIONS)
    for errors in ("normal", "lognormal"):
        cells = {
            one["correlation"]: one
            for one in told["power"]["cells"]
            if (one["growth"], one["errors"], one["replicates"]) == (GROWTH, errors, REPLICATES)
        }
        both, alone = (
            ", ".join(f"{cells[one][name]:.0%}" for one in CORRELATIONS)
            for name in ("gate", "mean_square_alone")
        )
        what = (
            f"{errors} errors {GROWTH:.0%} larger, {REPLICATES} replicates, one of {size} "
            f"changed rows; correlation {shown}"
        )
        seen = f"{both} of rows (by the mean square alone {alone})"
        lines.append([what, seen, "the same"])
    return table(["", "gates that close, or rows called worse", "page"], lines)


def costs(results: Path, words: str) -> str:
    """Costs of the harness, or ratios to those of Open Bandit Pipeline at a size."""
    what, *size = words.split()
    performance = results / "performance"
    return harness(performance) if what == "harness" else _beside_obp(performance, *map(int, size))


def harness(performance: Path) -> str:
    """What a trial costs beyond its work, and what more workers bring.

    Where several machines were measured, each figure is the range over them.

    Parameters
    ----------
    performance : the folder results/performance.
    """

    def hot(name: str, figure: str = "seconds", scale: float = 1.0, digits: int = 2) -> str:
        rows = (row for row in _rows(performance, "hot-paths") if row["name"] == name)
        return _span((scale * float(row["told"][figure]) for row in rows), digits)

    def median(page: str, ratio: str, digits: int = 2, **where: str) -> str:
        rows = (row for row in _rows(performance, page) if where.items() <= row.items())
        return _span((row["ratios"][ratio]["median"] for row in rows), digits)

    stored = hot("an isolated and stored trial costs at most a millisecond", scale=1e3 / TRIALS)
    here = hot(
        "a trial in this process costs at most a third of a millisecond", scale=1e3 / TRIALS
    )
    resumed = hot("resuming a thousand stored trials takes less than half a second", scale=1e3)
    durable = "a trivial trial in a worker of its own, stored durably"
    rows = [
        [durable, f"{stored} ms", _page("hot-paths")],
        ["the same in this process, not stored", f"{here} ms", "the same"],
        ["resuming 1,000 stored trials, beyond start-up", f"{resumed} ms", "the same"],
    ]
    for words, how in (
        ("ours in a worker of its own", "isolated, one job"),
        ("ours in this process", "in process"),
    ):
        ratio = median("benchopt", "first_seconds", how=how)
        what = f"benchopt's time for a trivial trial over ours, {words}"
        rows.append([what, f"{ratio} times", _page("benchopt")])
    for workers in ("local", "Dask"):
        for work, words in (("sleep", "wait"), ("cpu", "compute")):
            page, ratio = "dask", median("dask", "two Dask workers over one", 3, work=work)
            if workers == "local":
                name = f"two jobs do nearly twice as much[{work}]"
                page, ratio = "hot-paths", hot(name, "speed-up of two jobs", digits=3)
            what = f"throughput of two {workers} workers over one, trials of 20 ms that {words}"
            rows.append([what, f"{ratio} times", _page(page)])
    what = "50 trials of FEPWS one by one over the same trained together, two workers each"
    batched = _json(performance / "batched.json")["machines"]
    ratio = _span(one["ratios"]["wall"]["median"] for one in batched)
    rows.append([what, f"{ratio} times", _page("batched")])
    return table(["", "measured", "page"], rows)


def _beside_obp(performance: Path, n: int, n_actions: int) -> str:
    rows = []
    for words, name in {"synthetic logs": "", **OBP}.items():
        page = "obp-estimators" if name else "generation"
        ratios = [
            row["ratios"]
            for row in _rows(performance, page)
            if (row["n"], row["n_actions"], row.get("estimator", "")) == (n, n_actions, name)
            and row["ratios"]
        ]
        spans = [
            _span(float(one[figure]["median"]) for one in ratios)
            for figure in ("cpu_seconds", "rise_mb")
        ]
        rows.append([words, *spans, _page(page)])
    title = f"beside Open Bandit Pipeline, {n:,} rows and {n_actions:,} actions"
    return table([title, "its time over ours", "its memory over ours", "page"], rows, "lrrl")


def _span(values: Iterable[float], digits: int = 2) -> str:
    """The lowest to the highest value, to so many digits."""
    known = list(values)
    ends = [
        f"{value:#.{digits}g}" if value < 10 ** (digits - 1) else f"{value:,.0f}"
        for value in (min(known), max(known))
    ]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def _page(name: str) -> str:
    return f"[{name}](results/performance/{name}.md)"


def _rows(performance: Path, name: str) -> list[dict[str, Any]]:
    """Rows of all machines."""
    machines = _json(performance / f"{name}.json")["machines"]
    return [row for machine in machines for row in machine["rows"]]


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


BLOCKS: Mapping[str, Callable[[Path, str], str]] = {
    "board": board,
    "leaders": leaders,
    "runs": runs,
    "costs": costs,
    "gate": gate,
}
"""What makes a block, by the word that opens it."""
