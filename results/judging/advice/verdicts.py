"""The page of results/verdicts: whose advice is right, that of `advise` or of simple rules."""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from judging.pages.page import opening, table
from ope_bench.contracts.arrays import FloatArray
from ope_bench.statistics.coverage import wilson
from ope_bench.statistics.ranks import mean_interval

__all__ = [
    "TOOLS",
    "Difference",
    "difference",
    "lift_of",
    "readme_sentence",
    "sure",
    "verdict_pages",
]

Said = Literal["ship", "stop", "test"]
Log = Mapping[str, Any]

ALIKE = 0.01
"""Standard deviations of one reward below which the policies earn the same: no answer is wrong."""

SHARE, SIZE = 0.8, 1_000.0
"""What the fixed gate asks for: effective sample size over rows, and effective sample size."""

LEVEL = 0.05
MOST_MISSED = 0.05
"""By how much more `advise` may miss on clean logs."""

RULES = ("rule", "exploring rule", "estimated rule")
RULED = ("bandit", "decreasing", "thompson", *RULES)
SIGNALS = {"weak": (0.0, 0.05), "middle": (0.05, 0.25), "strong": (0.25, 1.0)}


def _advise(log: Log) -> Said:
    words: dict[str, Said] = {"better": "ship", "worse": "stop"}
    return words.get(log["better"], "test")


def _above(log: Log) -> Said:
    if log["ipws"] is None:
        return "test"
    return "ship" if log["ipws"][0] > log["average"] else "stop"


def _surely_above(log: Log) -> Said:
    if log["ipws"] is None:
        return "test"
    _, low, high = log["ipws"]
    if low > log["average"]:
        return "ship"
    return "stop" if high < log["average"] else "test"


def _gate(log: Log) -> Said:
    enough = log["size"] is not None and log["size"] >= max(SIZE, SHARE * log["rows"])
    return _above(log) if enough else "test"


TOOLS: Mapping[str, Callable[[Log], Said]] = {
    "`advise`": _advise,
    "`ipws` above today's": _above,
    "interval of `ipws` above today's": _surely_above,
    "fixed gate, then `ipws`": _gate,
    "always test": lambda _: "test",
    "always ship": lambda _: "ship",
}
"""What each tool says of a log; a tool without propensities to weigh by asks for a test."""

OURS, RIVAL = "`advise`", "interval of `ipws` above today's"


def verdict_pages(results: Path) -> dict[Path, str]:
    """Return the page of the folder results/verdicts and its figure.

    Parameters
    ----------
    results : the folder results/.
    """
    folder = results / "verdicts"
    every = json.loads((folder / "logs.json").read_text(encoding="utf-8"))
    logs = [one for one in every if "skipped" not in one and one["deviation"] > 0]
    groups = _groups(logs)
    known = [one for one in logs if sure(one)]
    counts = {
        "logs": len(logs),
        "known": len(known),
        "outside": sum(one["source"] == "outside" for one in logs),
        "priors": sum(one["source"] == "priors" for one in logs),
        "trials": sum(one["source"] == "trial" for one in logs),
        "known_trials": sum(one["source"] == "trial" for one in known),
        "ruled": len(groups["rules and learning loggers"]),
        "faulty": len(groups["with faults"]),
        "skipped": len(every) - len(logs),
    }
    drawn = [one["which"][0] for one in every if one["kind"] == "drawn"]
    outside = [one["which"] for one in every if one["kind"] == "outside"]
    rules = Counter(one["logger"] for one in logs if one["source"] == "outside")
    limits = {
        "unweighted": sum(one["ipws"] is None for one in logs),
        "outside_seeds": _span(outside),
        "drawn_seeds": _span(drawn),
        "sure": rules["rule"],
        "exploring": rules["exploring rule"],
        "estimated": rules["estimated rule"],
        # Logs that were asked about before the time of the draw was kept know that of advise.
        "minutes": f"{sum(one.get('whole_seconds', one['seconds']) for one in logs) / 60:.0f}",
        **counts,
    }
    against, comparisons = _against(groups)
    parts = [
        opening("verdicts"),
        _promised(groups),
        opening("verdicts logs", **counts),
        _beaten(against, comparisons),
        opening("verdicts why"),
        "![false ships against missed ones](figures/tools.svg)",
        readme_sentence(logs),
        _overall(logs),
        _by_group(groups),
        opening("verdicts wrong"),
        _wrong(logs),
        _folded(
            "What is true, and what this page cannot say", opening("verdicts limits", **limits)
        ),
    ]
    return {
        folder / "README.md": "\n\n".join(parts) + "\n",
        folder / "figures" / "tools.svg": _figure(logs),
    }


def _span(numbers: Sequence[int]) -> str:
    return f"{min(numbers):,} to {max(numbers):,}" if numbers else "none"


def readme_sentence(logs: Sequence[Log]) -> str:
    """Return what README.md says of `advise`, beside what testing always would get.

    Parameters
    ----------
    logs : those that were drawn.
    """
    worse, better = (_rate(logs, OURS, better=one) for one in (False, True))
    shipped = f"{worse.sum():.0f}" if worse.any() else "none"
    asks = 100 * _asks(logs, OURS).mean()
    return (
        f"Of {len(worse)} worse policies `advise` called {shipped} better; "
        f"it missed {100 * better.mean():.0f}% of {len(better)} better ones, "
        f"asking for a test on {asks:.0f}% of logs (always testing: none, 100%, 100%)."
    )


def lift_of(log: Log) -> float:
    """Return the true lift in standard deviations of one reward."""
    return float((log["truth"] - log["today"]) / log["deviation"])


def sure(log: Log) -> bool:
    """Whether it is known which policy is better, and the difference is one."""
    error = log["error"] / log["deviation"]
    return bool(abs(lift_of(log)) >= max(ALIKE, 2 * error))


def _groups(logs: Sequence[Log]) -> dict[str, list[Log]]:
    """Return logs by kind of logger, faults, source and signal; a log is in several."""
    worlds = [one for one in logs if one["source"] != "trial"]
    clean = [one for one in worlds if not one["faults"]]
    ruled = [one for one in logs if one["logger"] in RULED]
    faulty = [one for one in logs if one["faults"] and one["logger"] not in RULED]
    found = {
        "all logs": list(logs),
        "all worlds": worlds,
        "clean": clean,
        "clean, no rules": [one for one in clean if one["logger"] not in RULES],
        "clean, honest loggers": [one for one in clean if one["logger"] not in RULED],
        "rules, learning loggers and faults": [*ruled, *faulty],
        "rules and learning loggers": ruled,
        "rules alone": [one for one in logs if one["logger"] in RULES],
        "with faults": faulty,
        "worlds of NumPy alone": [one for one in logs if one["source"] == "outside"],
        "randomized trials": [one for one in logs if one["source"] == "trial"],
    }
    for name, (low, high) in SIGNALS.items():
        found[f"clean, {name} signal"] = [
            one for one in clean if low <= one["signal"] < high or (one["signal"] == high == 1.0)
        ]
    return found


def _rate(logs: Sequence[Log], tool: str, *, better: bool) -> FloatArray:
    """Return 1 where a tool is wrong: a worse policy shipped, or a better one not shipped."""
    those = [one for one in logs if sure(one) and (lift_of(one) > 0) == better]
    return np.array([(TOOLS[tool](one) == "ship") != better for one in those], dtype=np.float64)


def _asks(logs: Sequence[Log], tool: str) -> FloatArray:
    return np.array([TOOLS[tool](one) == "test" for one in logs], dtype=np.float64)


def _cost(logs: Sequence[Log], tool: str, side: int = 0) -> FloatArray:
    """Return what a tool's answer costs where the right one is known, in deviations of a reward.

    Parameters
    ----------
    side : -1 for worse policies that are shipped, 1 for better ones that are not, 0 for both.
    """
    found = []
    for one in logs:
        if sure(one):
            lift = lift_of(one)
            wrong = (TOOLS[tool](one) == "ship") != (lift > 0)
            found.append(abs(lift) if wrong and side * lift >= 0 else 0.0)
    return np.array(found)


FIGURES: Mapping[str, Callable[[Sequence[Log], str], FloatArray]] = {
    "false ships": lambda logs, tool: _rate(logs, tool, better=False),
    "missed": lambda logs, tool: _rate(logs, tool, better=True),
    "cost": _cost,
}
"""What is compared, log by log; less is better."""

BY_CONSTRUCTION = (("false ships", "always test"), ("missed", "always ship"))
"""What says nothing: a constant answer is never wrong to one side."""


class Difference(NamedTuple):
    """A figure of `advise` less that of another tool, on the same logs.

    Parameters
    ----------
    mean, low, high : with the 95 % interval by Student's t of paired differences.
    p : of shares the exact two-sided probability of so unequal a split of the logs that differ, if
        either side were as likely; None of costs.
    n : logs.
    """

    mean: float
    low: float
    high: float
    p: float | None
    n: int

    @property
    def beyond(self) -> bool:
        """Whether chance is ruled out: the interval excludes 0, and p is under .05."""
        return (self.low > 0 or self.high < 0) and (self.p is None or self.p < LEVEL)

    @property
    def exact(self) -> str:
        """The exact p, as pages have it."""
        return "–" if self.p is None else f"{self.p:.3f}" if self.p >= 0.001 else "< .001"

    def __str__(self) -> str:
        digits = 3 if self.p is None else 2
        low, mean, high = (f"{one:+.{digits}f}" for one in (self.low, self.mean, self.high))
        return f"{mean} ({low} to {high})"


def difference(figure: str, logs: Sequence[Log], tool: str) -> Difference | None:
    """Return a figure of `advise` less that of a tool; None with fewer than two logs.

    Parameters
    ----------
    figure : of FIGURES.
    logs : a log is left out where its right answer is not known.
    tool : of TOOLS.
    """
    from scipy.stats import binomtest

    ours, theirs = (FIGURES[figure](logs, one) for one in (OURS, tool))
    if len(ours) < 2:
        return None
    p: float | None = None
    if figure != "cost":
        differ = int((ours != theirs).sum())
        p = float(binomtest(int((ours > theirs).sum()), differ).pvalue) if differ else 1.0
    return Difference(*mean_interval(ours - theirs), p, len(ours))


def _share(wrong: FloatArray) -> str:
    if not len(wrong):
        return "–"
    one, count = wilson(int(wrong.sum()), len(wrong)), f"{wrong.sum():.0f} of {len(wrong)}"
    return f"{count}, {wrong.mean():.2f} ({one.low:.2f} to {one.high:.2f})"


def _row(logs: Sequence[Log], tool: str) -> list[str]:
    seconds = {OURS: "seconds"}.get(tool, "ipws_seconds" if "ipws" in tool else "")
    costs = [_cost(logs, tool, side) for side in (-1, 1)]
    return [
        tool,
        _share(_rate(logs, tool, better=False)),
        _share(_rate(logs, tool, better=True)),
        f"{_asks(logs, tool).mean():.2f}",
        *(f"{one.mean():.3f}" if len(one) else "–" for one in costs),
        f"{np.median([one[seconds] for one in logs]):.1f}" if seconds else "–",
    ]


_HEAD = ("tool", "false ships", "missed", "asks", "cost of false ships", "cost of missed", "s")


def _overall(logs: Sequence[Log]) -> str:
    known = sum(map(sure, logs))
    head = [
        *_HEAD[:3],
        f"asks, of {len(logs)}",
        *(f"{one}, of {known}" for one in _HEAD[4:6]),
        "s",
    ]
    return table(head, [_row(logs, tool) for tool in TOOLS], "lr", tight=True)


def _by_group(groups: Mapping[str, Sequence[Log]]) -> str:
    """Return all figures of every group, and the differences to `advise`."""
    rows = []
    for name, logs in groups.items():
        of_group = f"{name}: {len(logs)} logs, {sum(map(sure, logs))} known"
        for tool in list(TOOLS)[:4] if logs else ():
            apart = [difference(one, logs, tool) if tool != OURS else None for one in FIGURES]
            shown = ["–" if one is None else str(one) for one in apart]
            rows.append([of_group if tool == OURS else "", *_row(logs, tool), *shown])
    head = ["kind", *_HEAD, *(f"`advise` less this: {one}" for one in FIGURES)]
    return _folded("By kind of log", table(head, rows, "llr", tight=True))


def _folded(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def _against(
    groups: Mapping[str, Sequence[Log]],
) -> tuple[list[tuple[str, str, str, Difference]], int]:
    """Return each figure, tool and group in which `advise` is worse, and how many there are."""
    found, comparisons = [], 0
    for figure in FIGURES:
        for tool in TOOLS:
            if tool == OURS or (figure, tool) in BY_CONSTRUCTION:
                continue
            for name, logs in groups.items():
                one = difference(figure, logs, tool)
                comparisons += one is not None
                if one is not None and one.mean > 0:
                    found.append((figure, tool, name, one))
    return found, comparisons


def _beaten(against: Sequence[tuple[str, str, str, Difference]], comparisons: int) -> str:
    """Say where another tool has less of a figure, beyond chance or not."""
    beyond: dict[tuple[str, str], list[str]] = {}
    for figure, tool, name, one in against:
        if one.beyond:
            beyond.setdefault((figure, tool), []).append(f"{name} {one}")
    lines = []
    for (figure, tool), of in beyond.items():
        more = f", {len(of) - 1} kinds more" if len(of) > 1 else ""
        lines.append(f"- {figure}, {tool}: {of[0]}{more}")
    said = "**Beaten nowhere** beyond chance."
    if lines:
        said = "**Where `advise` is beaten** beyond chance, `advise` less the tool, paired:"
        said = "\n".join([f"{said}\n", *lines])
    rows = [
        [figure, tool, name, str(one.n), str(one), one.exact, "yes" if one.beyond else "no"]
        for figure, tool, name, one in against
    ]
    head = ["figure", "tool", "kind", "logs", "`advise` less the tool", "exact p", "beyond chance"]
    summary = f"All {len(against)} of {comparisons} comparisons that go against `advise`"
    return f"{said}\n\n{_folded(summary, table(head, rows, 'lllr', tight=True))}"


PROMISES = (
    ("false ships", "rules, learning loggers and faults"),
    ("missed", "clean, no rules"),
    ("false ships", "rules and learning loggers"),
    ("false ships", "with faults"),
    ("missed", "clean, honest loggers"),
    ("missed", "clean"),
)
"""What is shown of the plan; the first two are judged."""


def _promised(groups: Mapping[str, Sequence[Log]]) -> str:
    """Say whether what was asked for beforehand is shown, against the interval of `ipws`."""
    rows, told = [], []
    for figure, name in PROMISES:
        one = difference(figure, groups[name], RIVAL)
        if one is None:
            continue
        fewer = figure == "false ships"
        shown = one.beyond and one.mean < 0 if fewer else one.high <= MOST_MISSED
        wrong = [FIGURES[figure](groups[name], tool) for tool in (OURS, RIVAL)]
        counts = [f"{each.sum():.0f} of {len(each)}" for each in wrong]
        exact = f", exact p {one.exact}" * fewer
        said = f"{'' if shown else 'not '}shown ({' against '.join(counts)}, {one}{exact})"
        told.append(((figure, name), said))
        cells = [f"{figure}, {name}", *counts, str(one), one.exact, "yes" if shown else "no"]
        rows.append(cells)
    judged = [dict(told).get(one, "not known") for one in PROMISES[:2]]
    opened = (
        "**Against the interval of `ipws`, fewer false ships on rules, learning loggers and "
        f"faulty logs are {judged[0]}, and at most 5 points more missed on clean ones of other "
        f"loggers than rules are {judged[1]}.**"
    )
    head = ["", OURS, RIVAL, "difference, paired", "exact p", "shown"]
    how = (
        "Shown is what has an interval that excludes 0 and an exact p under .05; of missed ones, "
        "an interval that ends under +0.05. The [plan](plan.md) judges the first two rows; rules "
        "lack rewards of other choices, so that their logs are clean in name alone."
    )
    body = f"{how}\n\n{table(head, rows, 'lr', tight=True)}"
    return f"{opened}\n\n{_folded('What was asked for beforehand', body)}"


def _wrong(logs: Sequence[Log]) -> str:
    """List the logs on which `advise` says better or worse, and the contrary is true."""
    rows = []
    for one in logs:
        said = _advise(one)
        if sure(one) and said != "test" and (said == "ship") != (lift_of(one) > 0):
            _, low, high = one["lift"]
            rows.append(
                [
                    one["name"],
                    one["logger"],
                    ", ".join(one["faults"]) or "–",
                    f"{low:.3g} to {high:.3g}",
                    f"{one['truth'] - one['today']:.3g}",
                    one["verdict"],
                ]
            )
    if not rows:
        return "None."
    head = ["log", "logger", "faults", "interval of the lift", "true lift", "verdict"]
    return table(head, rows, "lllr", tight=True)


_SIDE, _LEFT, _TOP, _RIGHT = 320, 60, 16, 190


def _figure(logs: Sequence[Log]) -> str:
    """Return missed ships against false ones as SVG, a point a tool; best is the lower left."""
    points = {
        tool: tuple(float(_rate(logs, tool, better=one).mean()) for one in (False, True))
        for tool in TOOLS
    }
    parts = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = _LEFT + tick * _SIDE, _TOP + (1 - tick) * _SIDE
        parts += [
            f'<path d="M{x:.0f} {_TOP}v{_SIDE}M{_LEFT} {y:.0f}h{_SIDE}" class="g"/>',
            f'<text x="{x:.0f}" y="{_TOP + _SIDE + 16}" class="m">{tick:g}</text>',
            f'<text x="{_LEFT - 6}" y="{y + 4:.0f}" class="e">{tick:g}</text>',
        ]
    for tool, (x, y) in points.items():
        left, top = _LEFT + x * _SIDE, _TOP + (1 - y) * _SIDE
        kind = ' class="o"' if tool == OURS else ""
        name = html.escape(tool.replace("`", ""))
        parts += [
            f'<circle cx="{left:.1f}" cy="{top:.1f}" r="5"{kind}/>',
            f'<text x="{left + 9:.1f}" y="{top + 4:.1f}"{kind}>{name}</text>',
        ]
    width, height = _LEFT + _SIDE + _RIGHT, _TOP + _SIDE + 44
    middle = _TOP + _SIDE // 2
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
        "<title>Wrong advice by tool</title><style>text{font:12px sans-serif;fill:#57606a}"
        "circle{fill:#8a94a3}.o{fill:#0b5cad}text.o{font-weight:bold}"
        ".m{text-anchor:middle}.e{text-anchor:end}.g{stroke:#d8dee4;fill:none}</style>"
    )
    axes = (
        f'<text x="{_LEFT + _SIDE // 2}" y="{height - 8}" class="m">'
        "worse policies that are shipped</text>"
        f'<text x="14" y="{middle}" class="m" transform="rotate(-90 14 {middle})">'
        "better policies that are not</text>"
    )
    return "\n".join([head, *parts, axes, "</svg>"]) + "\n"
