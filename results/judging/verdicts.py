"""The page of results/verdicts: whose advice is right, that of `advise` or of simple rules."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from judging.page import opening, table
from ope_bench.contracts.arrays import FloatArray
from ope_bench.statistics.coverage import wilson
from ope_bench.statistics.ranks import mean_interval

__all__ = ["TOOLS", "lift_of", "sure", "verdict_pages"]

Said = Literal["ship", "stop", "test"]
Log = Mapping[str, Any]

ALIKE = 0.01
"""Standard deviations of one reward below which the policies earn the same: no answer is wrong."""

SHARE, SIZE = 0.8, 1_000.0
"""What the fixed gate asks for: effective sample size over rows, and effective sample size."""

RULED = ("bandit", "decreasing", "rule", "thompson")
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
    # Where all rewards are equal there is no unit of costs.
    logs = [one for one in every if "skipped" not in one and one["deviation"] > 0]
    groups = _groups(logs)
    counts = {
        "logs": len(logs),
        "outside": sum(one["source"] == "outside" for one in logs),
        "priors": sum(one["source"] == "priors" for one in logs),
        "trials": sum(one["source"] == "trial" for one in logs),
        "ruled": len(groups["rules and learning loggers"]),
        "faulty": len(groups["with faults"]),
        "skipped": len(every) - len(logs),
        "last": f"{max(one['which'][0] for one in every if one['kind'] == 'drawn'):,}",
    }
    parts = [
        opening("verdicts", **counts),
        _beaten(groups),
        opening("verdicts why"),
        _promises(groups),
        "![false ships against missed ones](figures/tools.svg)",
        _overall(logs),
        _by_group(groups),
        opening("verdicts wrong"),
        _wrong(logs),
    ]
    return {
        folder / "README.md": "\n\n".join(parts) + "\n",
        folder / "figures" / "tools.svg": _figure(logs),
    }


def lift_of(log: Log) -> float:
    """Return the true lift in standard deviations of one reward."""
    return float((log["truth"] - log["today"]) / log["deviation"])


def sure(log: Log) -> bool:
    """Whether it is known which policy is better, and the difference is one."""
    error = log["error"] / log["deviation"]
    return bool(abs(lift_of(log)) >= max(ALIKE, 2 * error))


def _groups(logs: Sequence[Log]) -> dict[str, list[Log]]:
    """Return logs by kind of logger, faults, source and signal; a log is in several."""
    clean = [one for one in logs if not one["faults"] and one["source"] != "trial"]
    stochastic = [one for one in clean if one["logger"] not in RULED]
    found = {
        "clean, honest loggers": stochastic,
        "rules and learning loggers": [one for one in logs if one["logger"] in RULED],
        "rules alone": [one for one in logs if one["logger"] == "rule"],
        "with faults": [one for one in logs if one["faults"] and one["logger"] not in RULED],
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


def _cost(logs: Sequence[Log], tool: str, side: float = 0.0) -> FloatArray:
    """Return what a tool's answer costs, in deviations of a reward: (n,).

    Parameters
    ----------
    side : -1 for worse policies that are shipped, 1 for better ones that are not, 0 for both.
    """
    found = []
    for one in logs:
        lift = lift_of(one)
        wrong = (TOOLS[tool](one) == "ship") != (lift > 0)
        found.append(abs(lift) if wrong and side * lift >= 0 else 0.0)
    return np.array(found)


def _share(wrong: FloatArray) -> str:
    if not len(wrong):
        return "–"
    interval = wilson(int(wrong.sum()), len(wrong))
    return f"{wrong.mean():.2f} ({interval.low:.2f} to {interval.high:.2f})"


def _overall(logs: Sequence[Log]) -> str:
    rows = []
    for tool, answer in TOOLS.items():
        seconds = {OURS: "seconds"}.get(tool, "ipws_seconds" if "ipws" in tool else "")
        rows.append(
            [
                tool,
                _share(_rate(logs, tool, better=False)),
                _share(_rate(logs, tool, better=True)),
                f"{np.mean([answer(one) == 'test' for one in logs]):.2f}",
                f"{_cost(logs, tool, -1).mean():.3f}",
                f"{_cost(logs, tool, 1).mean():.3f}",
                f"{np.median([one[seconds] for one in logs]):.1f}" if seconds else "–",
            ]
        )
    head = ["tool", "false ship", "missed", "asks for a test", "cost of wrong ships"]
    return table([*head, "cost of missed ones", "s"], rows, "lr", tight=True)


def _by_group(groups: Mapping[str, Sequence[Log]]) -> str:
    shown = list(TOOLS)[:4]
    rows = [
        [
            name,
            str(len(logs)),
            *(
                f"{_plain(_rate(logs, tool, better=False))} / "
                f"{_plain(_rate(logs, tool, better=True))}"
                for tool in shown
            ),
        ]
        for name, logs in groups.items()
    ]
    body = table(["kind", "logs", *shown], rows, "lr", tight=True)
    summary = "By kind of log: false ships / missed ones"
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def _plain(wrong: FloatArray) -> str:
    return f"{wrong.mean():.2f}" if len(wrong) else "–"


def _beaten(groups: Mapping[str, Sequence[Log]]) -> str:
    """Say first where another tool costs less, by the paired interval of the difference."""
    lines = []
    for name, logs in groups.items():
        for tool in TOOLS:
            if tool == OURS or len(logs) < 2:
                continue
            mean, low, high = mean_interval(_cost(logs, OURS) - _cost(logs, tool))
            if low > 0:
                lines.append(
                    f"- {name}: {tool} costs {mean:.3f} ({low:.3f} to {high:.3f}) less a log"
                )
    if not lines:
        return "**Beaten nowhere**: no tool costs less than `advise` in any group, beyond chance."
    return "**Where `advise` is beaten**, in deviations of a reward:\n\n" + "\n".join(lines)


def _promises(groups: Mapping[str, Sequence[Log]]) -> str:
    """Compare with the interval of `ipws`, log by log."""
    hard = [*groups["rules and learning loggers"], *groups["with faults"]]
    clean = groups["clean, honest loggers"]
    rows = []
    for name, logs, better in (
        ("false ships, rules, learning loggers and faults", hard, False),
        ("missed, clean", clean, True),
    ):
        pair = [_rate(logs, tool, better=better) for tool in (OURS, RIVAL)]
        mean, low, high = mean_interval(pair[0] - pair[1])
        rows.append(
            [
                name,
                str(len(pair[0])),
                *(f"{one.mean():.2f}" for one in pair),
                f"{mean:+.2f} ({low:+.2f} to {high:+.2f})",
            ]
        )
    head = ["", "logs", OURS, RIVAL, "difference, paired"]
    return table(head, rows, "lr", tight=True)


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
