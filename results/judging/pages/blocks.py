"""Marked blocks of Markdown files, filled from what is committed below results/.

    <!-- board paper/failures n_actions: epws, ipw-star on_missing=fail -->
    <!-- end -->

becomes a table of scores (RMSE with failures at the logging average's error) by that parameter,
of the folder's trials; where its last row has an interval, with the coverage in
the last setting and a sentence on it;
``<!-- leaders -->`` the leaderboard's sentences (``<!-- leaders short -->``: figures),
``<!-- runs -->`` one of the committed runs, ``<!-- gate -->`` one of the gate's false alarms and
power, ``<!-- costs harness -->``, ``<!-- costs obp 10000 1000 -->`` and
``<!-- costs machines 10000 1000 -->`` of what is measured in results/performance. Links lead from
the file's own folder.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from judging.pages.leaders import leaders_block
from judging.pages.page import table
from judging.trials.committed import boards_of
from judging.trials.rows import rows_of
from ope_bench.boards.board import Row
from ope_bench.report.styles import styles_of
from ope_bench.report.tables import figure

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
    r"(<!-- (board|runs|costs|gate|leaders)\b ?([^\n]*?) ?-->\n).*?(<!-- end -->)", re.DOTALL
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
    """A table of scores by a parameter, the best of the last setting first, and what it says."""
    where, _, names = words.partition(": ")
    folder, axis = where.split()
    by_setting = scores(results / folder, axis, names.split(", "))
    settings = list(by_setting)
    last = by_setting[settings[-1]]

    order = sorted(last, key=lambda name: score_of(last[name]))
    best, worst = last[order[0]], last[order[-1]]
    shows_coverage = worst.coverage.share.value is not None

    def cell(row: Row) -> str:
        if not row.finite:
            return "all fail"
        text = figure(row.score)
        if not shows_coverage and row.tied:
            text = f"**{text}**"
        elif not shows_coverage and row.tied is None and row.rank:
            text = f"{text}?"
        return f"{text}, {row.failure.value:.0%} fail" if row.failure.value else text

    head = [f"RMSE by {axis}", *(f"{setting:,}" for setting in settings)]
    rows = [[f"`{name}`", *(cell(by_setting[one][name]) for one in settings)] for name in order]
    if not shows_coverage:
        return table(head, rows, "lr")
    for name, line in zip(order, rows, strict=True):
        share = last[name].coverage.share.value
        line.append("no interval" if share is None else f"{share:.0%}")
    return (
        f"{table([*head, f'interval holds, {settings[-1]:,}'], rows, 'lr')}\n\n"
        f"With {settings[-1]:,} actions `{order[-1]}` errs "
        f"{score_of(worst) / score_of(best):.0f} times as much as `{order[0]}`, and its 95 % "
        f"interval holds the true value in {worst.coverage.share.value:.0%} of {worst.replicates} "
        "data sets. Nothing but a known true value shows this."
    )


def score_of(row: Row) -> float:
    """Return a row's score; NaN without one."""
    return math.nan if row.score is None else row.score


def scores(folder: Path, axis: str, names: Sequence[str]) -> dict[float, dict[str, Row]]:
    """Return the rows of a folder's boards by a parameter of the setting and by label."""
    rows = {
        board.environment_params[axis]: {row.label: row for row in board.rows}
        for board in boards_of(folder)
    }
    return {at: {name: rows[at][name] for name in names} for at in sorted(rows)}


LINES = ("ipw", "ipws", "logging-average", "eipw", "eipws")
"""Of README's figure."""

_WIDE, _HIGH, _LEFT, _RIGHT = 620, 330, 56, 130


def readme_figure(results: Path) -> str:
    """README's figure as SVG: errors of five estimators against the number of actions."""
    by_actions = scores(results / "paper" / "actions", "n_actions", LINES)
    errors = [score_of(row) for rows in by_actions.values() for row in rows.values()]
    low, high = 0.05, max(errors) * 1.1
    first, last = min(by_actions), max(by_actions)

    def x(actions: float) -> float:
        share = math.log(actions / first) / math.log(last / first)
        return _LEFT + 14 + share * (_WIDE - _LEFT - _RIGHT - 20)

    def y(error: float) -> float:
        return _HIGH - 44 - math.log(error / low) / math.log(high / low) * (_HIGH - 60)

    styles = styles_of({name: name for name in LINES})
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH}" width="{_WIDE}">',
        "<title>RMSE against the number of actions</title>",
        "<style>text{font:14px sans-serif;fill:#444c56}.m{text-anchor:middle}.e{text-anchor:end}",
        ".g{stroke:#8884}@media(prefers-color-scheme:dark){text{fill:#adbac7}}</style>",
    ]
    for tick in (0.1, 0.3, 1, 3):
        parts.append(f'<path class="g" d="M{_LEFT} {y(tick):.1f}H{_WIDE - _RIGHT}"/>')
        parts.append(f'<text class="e" x="{_LEFT - 8}" y="{y(tick) + 5:.1f}">{tick}</text>')
    parts += [
        f'<text class="m" x="{x(actions):.1f}" y="{_HIGH - 24}">{actions}</text>'
        for actions in by_actions
    ]
    middle = (x(first) + x(last)) / 2
    parts.append(f'<text class="m" x="{middle:.0f}" y="{_HIGH - 4}">actions</text>')
    parts.append('<text x="6" y="16">RMSE</text>')
    used: list[float] = []
    for name in sorted(LINES, key=lambda one: -score_of(by_actions[last][one])):
        points = [(x(at), y(score_of(rows[name]))) for at, rows in by_actions.items()]
        color, dash = styles[name].color, styles[name].dash
        line = "L".join(f"{left:.1f} {top:.1f}" for left, top in points)
        stroke = ",".join(map(str, dash))
        parts.append(
            f'<path d="M{line}" fill="none" stroke="{color}" stroke-width="2.5" '
            f'stroke-dasharray="{stroke}"/>'
        )
        dot = f'r="4" fill="{color}"/>'
        parts += [f'<circle cx="{left:.1f}" cy="{top:.1f}" {dot}' for left, top in points]
        # Labels that would overlap move down.
        at = max([points[-1][1] + 5, *(top + 17 for top in used[-1:])])
        used.append(at)
        parts.append(f'<text x="{points[-1][0] + 12:.1f}" y="{at:.1f}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def runs(results: Path, _words: str) -> str:
    """What each committed run was, how long it took, its machine, revision and verification."""
    rows = []
    # Those of submissions stand with the entries.
    paths = [one for one in results.glob("**/run.json") if "submissions" not in one.parts]
    verified = results / "verified.json"
    agreed = _json(verified) if verified.exists() else {}
    for path in sorted(paths):
        told = _json(path)
        parts = told["runs"]
        # A run that was killed has no end, and of some that others went on with nothing is known.
        ended = [part for part in parts if part["finished"] is not None]
        minutes = sum(part["finished"] - part["started"] for part in ended) / 60
        known = len(ended) == len(parts) and _makers(path.parent) <= {part["id"] for part in parts}
        least = "" if known else "at least "
        machine = parts[-1]["machine"]
        facts = [
            f"`{parts[-1]['suite'].partition('[')[0]}`",
            f"{told['records']:,}",
            f"{least}{minutes:.1f}",
        ]
        codes = [(part["machine"]["git"] or {}).get("revision", "none")[:7] for part in parts]
        others = len({*codes}) - 1
        revision = f"{codes[-1]}, {others} before" if others else codes[-1]
        last = agreed.get(path.parent.relative_to(results).as_posix())
        if last and told.get("sha256", {}).get("trials.parquet") == last["trials.parquet"]:
            shown = f"{last['date']}, {last['again']}"
        else:
            shown = "–" if "sha256" not in told else "not yet"
        rows.append([*facts, f"{machine['cores']} x {machine['cpu']}", revision, shown])
    heads = ["suite", "trials", "minutes", "cores", "revision", "verified, run again"]
    return table(heads, rows, "lrrlll")


def _makers(folder: Path) -> set[str]:
    """Return the runs that made the trials of a folder."""
    if not (folder / "trials.parquet").exists():
        return set()
    return {row["made_by"] for row in rows_of(folder, "made_by") if row.get("made_by")}


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
    if what == "harness":
        return harness(performance)
    n, n_actions = map(int, size)
    if what == "machines":
        return by_machine(performance, n, n_actions)
    title = f"beside Open Bandit Pipeline, {n:,} rows and {n_actions:,} actions"
    heads = [title, "its time over ours", "its memory over ours", "page"]
    return table(heads, _beside_obp(performance, n, n_actions), "lrrl")


MEASURED = ("hot-paths", "benchopt", "dask", "batched", "generation", "obp-estimators")
"""Pages with figures of several machines that the tables of costs show."""


def by_machine(performance: Path, n: int, n_actions: int) -> str:
    """Headline figures of each machine, one column a machine.

    Parameters
    ----------
    performance : the folder results/performance.
    n, n_actions : size of the problems that Open Bandit Pipeline solves, too.
    """
    machines = [
        one for name in MEASURED for one in _json(performance / f"{name}.json")["machines"]
    ]
    cpus = list(dict.fromkeys(str(one["machine"]["cpu"]) for one in machines))
    columns = []
    for cpu in cpus:
        peer = [
            [f"Open Bandit Pipeline's time over ours: {words}", f"{time} times", page]
            for words, time, _, page in _beside_obp(performance, n, n_actions, cpu)
        ]
        columns.append([*_harness(performance, cpu), *peer])
    rows = [
        [one[0][0], *(cell[1] if NONE not in cell[1] else NONE for cell in one), one[0][2]]
        for one in zip(*columns, strict=True)
    ]
    return table(["", *cpus, "page"], rows)


def harness(performance: Path) -> str:
    """What a trial costs beyond its work, and what more workers bring.

    Where several machines were measured, each figure is the range over them.

    Parameters
    ----------
    performance : the folder results/performance.
    """
    return table(["", "measured", "page"], _harness(performance))


def _harness(performance: Path, cpu: str | None = None) -> list[list[str]]:
    """What was measured, the figure of one machine or the range over all, and the page."""

    def hot(name: str, figure: str = "seconds", scale: float = 1.0, digits: int = 2) -> str:
        rows = (row for row in _rows(performance, "hot-paths", cpu) if row["name"] == name)
        return _span((scale * float(row["told"][figure]) for row in rows), digits)

    def median(page: str, ratio: str, digits: int = 2, **where: str) -> str:
        rows = (row for row in _rows(performance, page, cpu) if where.items() <= row.items())
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
    batched = _machines(performance, "batched", cpu)
    ratio = _span(one["ratios"]["wall"]["median"] for one in batched)
    rows.append([what, f"{ratio} times", _page("batched")])
    return rows


def _beside_obp(
    performance: Path, n: int, n_actions: int, cpu: str | None = None
) -> list[list[str]]:
    """What was measured, ratios of time and memory, and the page."""
    rows = []
    for words, name in {"synthetic logs": "", **OBP}.items():
        page = "obp-estimators" if name else "generation"
        ratios = [
            row["ratios"]
            for row in _rows(performance, page, cpu)
            if (row["n"], row["n_actions"], row.get("estimator", "")) == (n, n_actions, name)
            and row["ratios"]
        ]
        spans = [
            _span(float(one[figure]["median"]) for one in ratios)
            for figure in ("cpu_seconds", "rise_mb")
        ]
        rows.append([words, *spans, _page(page)])
    return rows


NONE = "–"
"""In the place of a figure that a machine has not."""


def _span(values: Iterable[float], digits: int = 2) -> str:
    """The lowest to the highest value, to so many digits."""
    known = list(values)
    if not known:
        return NONE
    ends = [
        f"{value:#.{digits}g}" if value < 10 ** (digits - 1) else f"{value:,.0f}"
        for value in (min(known), max(known))
    ]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def _page(name: str) -> str:
    return f"[{name}](results/performance/{name}.md)"


def _machines(performance: Path, name: str, cpu: str | None) -> list[dict[str, Any]]:
    """Measurements of a page, of one kind of machine or of all."""
    machines = _json(performance / f"{name}.json")["machines"]
    return [one for one in machines if cpu in (None, one["machine"]["cpu"])]


def _rows(performance: Path, name: str, cpu: str | None) -> list[dict[str, Any]]:
    """Rows of one kind of machine or of all."""
    return [row for machine in _machines(performance, name, cpu) for row in machine["rows"]]


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


BLOCKS: Mapping[str, Callable[[Path, str], str]] = {
    "board": board,
    "runs": runs,
    "costs": costs,
    "gate": gate,
    "leaders": leaders_block,
}
"""What makes a block, by the word that opens it."""
