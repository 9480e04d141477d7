"""The leaderboard: who errs least over worlds as users meet them, where, and does it predict?"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from operator import eq, gt
from pathlib import Path

import numpy as np

from judging.entries import entries_section
from judging.field import FOLDERS, TRACKS, Setting, settings_of
from judging.page import opening, table
from ope_bench.boards.tracks import NEAR, Line, Track, board_of, log_ratios
from ope_bench.contracts.arrays import FloatArray
from ope_bench.statistics.ranks import mean_interval
from ope_environments.damaged.priors import CHANCES

MOST_ROWS = 30
SPLIT_ROWS = 12
DEPTH = 3
LEAF = 12
"""Fewest worlds of a leaf of the tree, of those that choose."""

BOARD = (*FOLDERS, "field-trials")
"""Folders whose trials the leaderboard counts."""

Split = tuple[str, Callable[[Setting], bool]]


def fact(name: str, test: Callable[[float], bool]) -> Callable[[Setting], bool]:
    """Return whether a setting has the fact, and it passes the test."""
    return lambda one: name in one.facts and test(one.facts[name])


SPLITS: tuple[Split, ...] = (
    ("clean", lambda one: not one.real and not one.facts.get("damages")),
    ("faulty", lambda one: bool(one.facts.get("damages"))),
    ("overlap < 10", fact("world_rows_over_weight", lambda x: x < 10)),
    ("10 to 100", fact("world_rows_over_weight", lambda x: 10 <= x < 100)),
    (">= 100", fact("world_rows_over_weight", lambda x: x >= 100)),
    ("rows < 3,000", fact("world_rows", lambda x: x < 3000)),
    (">= 3,000", fact("world_rows", lambda x: x >= 3000)),
    ("actions < 40", fact("world_actions", lambda x: x < 40)),
    (">= 40", fact("world_actions", lambda x: x >= 40)),
    ("binary reward", lambda one: one.facts.get("world_reward") == "binary"),
    ("others", lambda one: one.facts.get("world_reward", "binary") != "binary"),
    ("real tables", lambda one: one.real),
)

NUMBERS = ("world_rows_over_weight", "world_ess_fraction", "world_rows", "world_actions")
KINDS = ("world_reward", "world_structure", "world_embedding", "world_logging", "world_target")


@cache
def board_settings(results: Path) -> list[Setting]:
    """Return the settings whose trials the leaderboard counts, read once."""
    return settings_of(results, BOARD)


def leaderboard_pages(results: Path, predicts: str, *further: str) -> dict[Path, str]:
    """Return the page, and its figures, by path.

    Parameters
    ----------
    results : the folder results/.
    predicts : how far the order carries over, in a sentence.
    further : sections at its end.
    """
    settings = board_settings(results)
    texts: dict[Path, str] = {}
    sections, boards = [], []
    for number, track in enumerate(TRACKS, 1):
        inside = [one for one in settings if track.holds(one)]
        lines = board_of(track, settings)
        boards.append(lines)
        name = f"figures/leaderboard-{number}.svg"
        texts[results / name] = drawn(f"{track.name}: RMSE over that of {track.reference}", lines)
        sections.append(_section(number, track, inside, lines, name))
    drawn_worlds = [one for one in settings if not one.real]
    told = json.loads((results / "field" / "facts.json").read_text(encoding="utf-8"))
    one_data_set = [one["seconds"] for one in told.values()]
    facts = {
        "settings": f"{len(settings):,}",
        "worlds": len(drawn_worlds),
        "faulty": sum(bool(one.facts.get("damages")) for one in drawn_worlds),
        "real": len(settings) - len(drawn_worlds),
        "sources": len({one.source for one in settings if one.real}),
        "near": NEAR,
        "predicts": predicts,
        "hours": f"{_run_seconds(results) / 3600:.1f}",
        "data_set": f"{1000 * np.median(one_data_set):.0f}",
        "longest": f"{1000 * max(one_data_set):.0f}",
        "leaders": _leaders(boards),
    }
    entries = entries_section(results / "submissions")
    parts = [opening("leaderboard", **facts), *sections, entries, *further]
    texts[results / "leaderboard.md"] = "\n\n".join(parts) + "\n"
    return texts


def _run_seconds(results: Path) -> float:
    """Return how long the runs of the board's suites took, one after the other."""
    runs = [
        run
        for folder in BOARD
        for run in json.loads((results / folder / "run.json").read_text(encoding="utf-8"))["runs"]
    ]
    return float(sum(run["finished"] - run["started"] for run in runs if run["finished"]))


def _leaders(boards: Sequence[Sequence[Line]]) -> str:
    """Name the first rank of each track."""
    told = []
    for track, lines in zip(TRACKS, boards, strict=True):
        first = [line for line in lines if line.rank == 1]
        names = ", ".join(f"`{line.entrant}`" for line in first)
        told.append(
            f"- **{track.name}**: {names}; the first errs {first[0].ratio:.2f} "
            f"({first[0].low:.2f} to {first[0].high:.2f}) times as much as `{track.reference}`"
        )
    return "\n".join(told)


def _section(
    number: int, track: Track, inside: Sequence[Setting], lines: Sequence[Line], figure: str
) -> str:
    sources = len({one.source for one in inside})
    head = (
        f"## {number}. {track.name[0].upper()}{track.name[1:]}\n\n"
        f"{len(inside)} settings of {sources} sources; {len(lines)} entrants; reference "
        f"`{track.reference}`; panel {', '.join(f'`{one}`' for one in track.panel)}."
    )
    folded = "".join(
        f"\n\n<details><summary>{title}</summary>\n\n{body}\n\n</details>"
        for title, body in (
            ("By what the log is like", _splits(track, inside, lines, SPLITS)),
            ("By fault", _splits(track, inside, lines, _fault_splits())),
            ("Where which entrant leads", _tree_text(track, inside, lines)),
        )
    )
    return f"{head}\n\n{_board_table(lines)}\n\n![{track.name}]({figure}){folded}"


def _board_table(lines: Sequence[Line]) -> str:
    rows = [
        [
            "–" if line.rank is None else str(line.rank),
            f"`{line.entrant}`" + (" (part)" if line.rank is None else ""),
            f"{line.ratio:.2f} ({line.low:.2f} to {line.high:.2f})",
            f"{line.ninth:.2f}",
            f"{line.near:.0%}",
            f"{line.failures:.1%}",
            "–" if line.coverage is None else f"{line.coverage:.0%}",
            f"{line.seconds:.2f}" if line.seconds >= 0.005 else "< .01",
        ]
        for line in lines[:MOST_ROWS]
    ]
    head = ["rank", "estimator", "error", "90 %", "near the best", "fails", "coverage", "s"]
    return table(head, rows, "llr", tight=True)


def _fault_splits() -> tuple[Split, ...]:
    def with_fault(name: str) -> Callable[[Setting], bool]:
        return lambda one: one.facts.get(f"damage_{name}") is not None

    return tuple((name, with_fault(name)) for name in CHANCES)


def _splits(
    track: Track, inside: Sequence[Setting], lines: Sequence[Line], splits: Sequence[Split]
) -> str:
    """Geometric mean of the ratio to the reference in parts of the settings; least in bold."""
    shown = [line.entrant for line in lines if line.rank is not None][:SPLIT_ROWS]
    columns: dict[str, dict[str, float]] = {}
    for name, test in splits:
        part = [one for one in inside if test(one)]
        if len({one.source for one in part}) >= 5:
            columns[f"{name} ({len(part)})"] = {
                entrant: float(np.exp(log_ratios(part, entrant, track.reference).mean()))
                for entrant in shown
            }
    rows = []
    for entrant in shown:
        cells = [f"`{entrant}`"]
        for column in columns.values():
            told = f"{column[entrant]:.2f}"
            cells.append(f"**{told}**" if column[entrant] == min(column.values()) else told)
        rows.append(cells)
    return table(["estimator", *columns], rows, "lr", tight=True)


# Where which entrant leads: a tree that chooses on odd worlds and is judged on even ones.


@dataclass(frozen=True)
class Node:
    """A leaf with its entrant, or a question with two parts.

    Parameters
    ----------
    entrant : the best choice here.
    worlds : how many chose it.
    question : in words; "" for a leaf.
    test : whether a setting goes to ``yes``.
    yes, no : the parts.
    """

    entrant: str
    worlds: int
    question: str = ""
    test: Callable[[Setting], bool] | None = None
    yes: Node | None = None
    no: Node | None = None

    def choice(self, setting: Setting) -> str:
        """Return the entrant of the leaf of a setting."""
        if self.test is None or self.yes is None or self.no is None:
            return self.entrant
        return (self.yes if self.test(setting) else self.no).choice(setting)


def tree_of(settings: Sequence[Setting], entrants: Sequence[str], depth: int = DEPTH) -> Node:
    """Return the tree that greedily makes the mean of log RMSE least, on these settings."""
    table = np.array([[one.log_rmse(entrant) for entrant in entrants] for one in settings])
    questions = [
        (text, test, np.array([test(one) for one in settings]))
        for text, test in _questions(settings)
    ]
    return _grown(table, np.ones(len(settings), dtype=bool), entrants, questions, depth)


def _questions(settings: Sequence[Setting]) -> list[Split]:
    found: list[Split] = [("the log has a fault", lambda one: bool(one.facts.get("damages")))]
    for name in NUMBERS:
        values = [one.facts[name] for one in settings]
        cuts = np.unique(np.quantile(values, np.arange(0.1, 0.95, 0.1))).tolist()
        found += [(f"{plain(name)} < {cut:.3g}", fact(name, partial(gt, cut))) for cut in cuts]
    for name in KINDS:
        kinds = sorted({str(one.facts[name]) for one in settings})
        found += [(f"{plain(name)} {kind}", fact(name, partial(eq, kind))) for kind in kinds]
    return found


def plain(name: str) -> str:
    """Return a fact's name in words."""
    return {
        "world_rows_over_weight": "rows over the largest weight",
        "world_ess_fraction": "effective share of the sample",
        "world_noise_share": "noise share of the reward",
    }.get(name, name.removeprefix("world_"))


def _grown(
    table: FloatArray,
    here: np.ndarray,
    entrants: Sequence[str],
    questions: Sequence[tuple[str, Callable[[Setting], bool], np.ndarray]],
    depth: int,
) -> Node:
    sums = table[here].sum(axis=0)
    leaf = Node(entrants[int(sums.argmin())], int(here.sum()))
    best, found = sums.min() - 1e-9, None
    for question in questions if depth else ():
        yes, no = here & question[2], here & ~question[2]
        if min(yes.sum(), no.sum()) >= LEAF:
            total = table[yes].sum(axis=0).min() + table[no].sum(axis=0).min()
            if total < best:
                best, found = total, (question, yes, no)
    if found is None:
        return leaf
    (text, test, _), yes, no = found
    parts = [_grown(table, part, entrants, questions, depth - 1) for part in (yes, no)]
    return Node(leaf.entrant, leaf.worlds, text, test, *parts)


def _tree_text(track: Track, inside: Sequence[Setting], lines: Sequence[Line]) -> str:
    entrants = [line.entrant for line in lines if line.rank is not None]
    odd = [one for one in inside if one.odd]
    even = [one for one in inside if not one.real and not one.odd]
    if len(odd) < 4 * LEAF:
        return f"{len(odd)} odd worlds are too few for a tree."
    tree = tree_of(odd, entrants)
    gain = np.array([one.log_rmse(tree.choice(one)) - one.log_rmse(tree.entrant) for one in even])
    mean, low, high = (float(np.exp(end)) for end in mean_interval(gain))
    verdict = "better than" if high < 1 else "worse than" if low > 1 else "not apart from"
    told = "\n".join(_tree_lines(tree, 0))
    return (
        f"Chosen on {len(odd)} odd worlds:\n\n{told}\n\nOn {len(even)} even worlds it errs "
        f"{mean:.2f} ({low:.2f} to {high:.2f}) times as much as always `{tree.entrant}`, the best "
        f"fixed choice on the odd ones: {verdict} it."
    )


def _tree_lines(node: Node, level: int) -> list[str]:
    indent = "  " * level
    if node.yes is None or node.no is None:
        return [f"{indent}- `{node.entrant}` ({node.worlds} worlds)"]
    return [
        f"{indent}- if {node.question}:",
        *_tree_lines(node.yes, level + 1),
        f"{indent}- else:",
        *_tree_lines(node.no, level + 1),
    ]


def drawn(title: str, lines: Sequence[Line]) -> str:
    """Return a forest plot of a board as SVG: ratios with intervals on a logarithmic axis."""
    shown = lines[:MOST_ROWS]
    left, width, step, top = 170, 430, 16, 40
    least = np.log(min(0.5, *(line.low for line in shown)))
    most = np.log(min(8.0, max(2.0, *(line.high for line in shown))))

    def place(ratio: float) -> float:
        at = (np.log(ratio) - least) / (most - least)
        return float(left + width * min(max(at, 0.0), 1.0))

    height = top + step * len(shown) + 10
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 30} {height}" '
        f'width="{left + width + 30}" role="img"><title>{html.escape(title)}</title>'
        "<style>text{font:11px sans-serif;fill:#57606a}.t{text-anchor:middle}.n{text-anchor:end}"
        ".g{stroke:#d8dee4}.e{stroke:#1e6996;fill:#1e6996;stroke-width:1.5}</style>"
        '<rect width="100%" height="100%" fill="#fff"/>'
    )
    parts = [head]
    for tick in (0.25, 0.5, 0.7, 1, 1.4, 2, 4, 8):
        if least <= np.log(tick) <= most:
            at = place(tick)
            parts.append(f'<path class="g" d="M{at:.1f} {top - 12}V{height - 8}"/>')
            parts.append(f'<text class="t" x="{at:.1f}" y="{top - 18}">{tick:g}</text>')
    for row, line in enumerate(shown):
        y = top + step * row
        ends = place(line.low), place(line.ratio), place(line.high)
        parts.append(
            f'<text class="n" x="{left - 10}" y="{y + 4}">{html.escape(line.entrant)}</text>'
        )
        parts.append(
            f'<g class="e"><path d="M{ends[0]:.1f} {y}H{ends[2]:.1f}"/>'
            f'<circle cx="{ends[1]:.1f}" cy="{y}" r="3"/></g>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"
