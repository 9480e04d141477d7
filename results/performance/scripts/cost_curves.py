"""How time and memory grow with rows, actions, columns, replicates and estimators.

    python results/performance/scripts/cost_curves.py [--quick] [--again]

Each point is one trial (or, along replicates and estimators, one whole run with its store) in a
process of its own with one thread. Points are written to results/performance/cost-curves.json as
they come, so that a second call goes on where the first was stopped; then the page and the figure
are made from all of them. ``--again`` measures everything anew, ``--quick`` leaves the larger
half of the sizes out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exponent import Power, power
from run_cost import run_measured_alone
from statement import Page, facts_now, keep, resumed
from trial_cost import Cost, measured_alone

from ope_bench.report.styles import colors

OUTPUT = Path(__file__).parents[1] / "cost-curves.json"
TIMEOUT = 600.0

Point = dict[str, Any]

LIGHT = (1_000, 10_000, 32_000, 100_000, 320_000, 1_000_000)
LEARNT = (1_000, 4_000, 10_000, 20_000, 45_000, 100_000)
HEAVY = (500, 1_500, 2_500, 4_000, 6_000, 10_000)
TABLES = (10, 30, 100, 200, 450, 1_000)
WIDE = (2, 6, 12, 20, 32, 64)

AXES: Mapping[str, tuple[str, str, Mapping[str, tuple[int, ...]]]] = {
    "rows": (
        "logged rows n, a hundred actions",
        "saito-toy[n_samples={}]",
        {
            "ipw": LIGHT,
            "eipw": LIGHT,
            "dm": HEAVY,
            "dr": HEAVY,
            "mips": HEAVY,
            "epws": LEARNT,
            "epws[classifier=xgboost]": LEARNT,
            "fepws": HEAVY,
        },
    ),
    "actions": (
        "actions |A|, a thousand rows",
        "saito-toy[n_actions={}]",
        {
            "ipw": LIGHT,
            "eipw": LIGHT,
            "dm": TABLES,
            "dr": TABLES,
            "mips": TABLES,
            "epws": LIGHT,
            "fepws": LEARNT,
        },
    ),
    "columns": (
        "columns d of the context, a thousand rows",
        "saito-toy[d_context={}]",
        dict.fromkeys(("ipw", "eipw", "dm", "mips", "epws", "fepws"), WIDE),
    ),
    "replicates": (
        "replicates of a run",
        "saito-toy[n_samples=200]",
        {"eipw": (10, 32, 100, 180, 320, 1_000), "epws": (3, 10, 18, 32, 55, 100)},
    ),
    "estimators": (
        "estimators of a run, ten replicates",
        "saito-toy[n_samples=1000]",
        {
            "eipw[clip={}]": (1, 3, 10, 20, 45, 100),
            "epws[clip={}]": (1, 3, 10, 20, 45, 100),
        },
    ),
}
"""Axis -> what it is, the environment, and the sizes at which each estimator is measured."""

REASONS = {
    ("rows", "epws", "time"): (
        "boosting grows as n^(1/3) rounds by design, because a fixed number stops improving"
    ),
    ("rows", "epws[classifier=xgboost]", "time"): (
        "boosting grows as n^(1/3) rounds by design, because a fixed number stops improving"
    ),
    ("actions", "dm", "time"): (
        "a column an action that was logged, at every pair of row and action: |A| times as many"
        " pairs of |A| columns, until the rows bound the columns; with"
        " `action_features=embedding` it is linear"
    ),
    ("actions", "dr", "time"): "as `dm`",
    ("actions", "mips", "time"): (
        "a class an action that was logged, whose coefficients are all fitted together, until the"
        " rows bound the classes"
    ),
    ("rows", "dr", "time"): "as `dm`",
    ("rows", "dm", "time"): (
        "scikit-learn's exact gradient boosting sorts every node's rows, n log n, and leaves the"
        " caches as n grows; `hist-gbm` does not"
    ),
}
"""Where an exponent may lie above one, and why."""

STEEP = 1.1
"""An exponent whose whole interval lies above needs a reason; caches alone give about 1.05."""


def points(*, quick: bool) -> list[Point]:
    """What is measured."""
    found = []
    for axis, (_, environment, methods) in AXES.items():
        for method, sizes in methods.items():
            found += [
                {
                    "axis": axis,
                    "estimator": method,
                    "environment": environment.format(size),
                    "size": size,
                }
                for size in sizes
                if not quick or size <= sizes[len(sizes) // 2]
            ]
    return found


def named(point: Point) -> tuple[str, str, int]:
    return point["axis"], point["estimator"], point["size"]


def measured(point: Point) -> Cost:
    if point["axis"] == "replicates":
        return run_measured_alone(point["environment"], [point["estimator"]], point["size"])
    if point["axis"] == "estimators":
        methods = [point["estimator"].format(2 + number) for number in range(point["size"])]
        return run_measured_alone(point["environment"], methods, 10)
    return measured_alone(point["environment"], point["estimator"], timeout=TIMEOUT)


def figures(point: Point) -> dict[str, float] | None:
    """Seconds of the processor and megabytes, None where it failed."""
    cost = point["cost"]
    if "rise_bytes" not in cost:
        return None
    if point["axis"] in ("replicates", "estimators"):
        return {"time": cost["cpu_seconds"], "memory": cost["rise_bytes"] / 2**20}
    return {
        "time": cost["sample_cpu_seconds"] + cost["trial_cpu_seconds"],
        "memory": cost["rise_bytes"] / 2**20,
        "drawing": cost["sample_cpu_seconds"],
    }


def laws(rows: list[Point]) -> dict[tuple[str, str], dict[str, Power | None]]:
    """The power laws of time and memory of every axis and estimator."""
    found = {}
    for axis, (_, _, methods) in AXES.items():
        for method in methods:
            mine = [
                (row["size"], cost)
                for row in rows
                if (row["axis"], row["estimator"]) == (axis, method) and (cost := figures(row))
            ]
            if mine:
                sizes = [size for size, _ in mine]
                found[axis, method] = {
                    figure: power(sizes, [max(cost[figure], 1e-3) for _, cost in mine])
                    for figure in ("time", "memory")
                }
    return found


def verdict(axis: str, method: str, found: Mapping[str, Power | None]) -> str:
    """Whether anything grows faster than its size, and the reason."""
    told = []
    for figure, law in found.items():
        if law is None or law.exponent <= STEEP:
            continue
        reason = REASONS.get((axis, method, figure))
        if law.low <= STEEP:
            told.append(f"{figure}: not told from linear" + (f" ({reason})" if reason else ""))
        else:
            told.append(f"{figure}: {reason or '**no reason is known**'}")
    return "; ".join(told).replace("|", r"\|") or "at most linear"


COLUMNS = (
    "| estimator | sizes | processor s at both ends | exponent of time "
    "| MiB at both ends | exponent of memory | |"
)


def tables(report: dict[str, Any]) -> str:
    """The tables of one machine."""
    rows = report["points"]
    fitted = laws(rows)
    parts = []
    for axis, (title, environment, methods) in AXES.items():
        parts += [
            "",
            f"### {title[0].upper()}{title[1:]}",
            "",
            f"`{environment.format('...')}`",
            "",
            COLUMNS,
            "|:---|:---|---:|:---|---:|:---|:---|",
        ]
        for method in methods:
            mine = [row for row in rows if (row["axis"], row["estimator"]) == (axis, method)]
            good = [(row["size"], cost) for row in mine if (cost := figures(row))]
            if not good:
                continue
            (first, least), (last, most) = good[0], good[-1]
            law = fitted[axis, method]
            exponents = {name: one.told() if one else "" for name, one in law.items()}
            parts.append(
                f"| `{method.format('...')}` | {first:,} to {last:,} "
                f"| {least['time']:.2g}, {most['time']:.3g} | {exponents['time']} "
                f"| {least['memory']:.2g}, {most['memory']:.3g} | {exponents['memory']} "
                f"| {verdict(axis, method, law)} |"
            )
            parts += [
                f"| | {row['size']:,} | {row['cost']['status']}: {row['cost']['message']} |"
                + 4 * " |"
                for row in mine
                if not figures(row)
            ]
        if axis in REMARKS:
            parts += ["", REMARKS[axis]]
    return "\n".join(parts)


INTRO = """# How time and memory grow

Every point is measured in a process of its own with one thread; time is the processor's, drawing
of the data included; memory is the rise of the peak over what Python and its libraries took.
Exponents are slopes of a line through the upper half of the range of log size, with 95 %
intervals: 1 is linear. An interval that lies wholly above 1.1 needs a reason, given in the last
column. Rises of a few megabytes are noise of the allocator. The figure is of the machine that was
measured last.

![Time and memory against each size, on log scales](cost-curves.svg)"""

REMARKS = {
    "rows": (
        "Drawing the data is part of every line; it is linear, and most of what `ipw` costs."
        " Trees and flows stop early by a held-out share, at a number of rounds that differs from"
        " sample to sample; that is why intervals of learners are wide."
    ),
    "actions": (
        "The softmax logging policy is summed over actions for every row that is drawn, whatever"
        " the estimator. What learners of rewards see of actions (one-hot columns) is bounded by"
        " the actions that were logged, so that their growth ends at the number of rows."
    ),
    "estimators": (
        "Estimators of a run share data, and fits with equal settings: one that differs from its"
        " neighbors in the clip alone (`epws`) costs its weighted mean, not another classifier."
    ),
    "replicates": (
        "Whole runs in one process, with planning, store and records; what is held in memory is"
        " the plan and the records, not the data of more than one replicate."
    ),
}


LOOK = {
    "background": "white",
    "font": "Helvetica, Arial, sans-serif",
    "view": {"stroke": "transparent"},
    "axis": {
        "labelFontSize": 7,
        "titleFontSize": 8,
        "titleFontWeight": "normal",
        "gridColor": "#e6e6e6",
    },
    "legend": {"orient": "bottom", "labelFontSize": 8, "labelLimit": 180},
}


def drawn(report: dict[str, Any]) -> str:
    """The figure as SVG: time above, memory below, one column an axis."""
    import altair as alt
    import vl_convert

    from ope_bench.report.figures import compact_svg

    names = list(
        dict.fromkeys(m.partition("[clip")[0] for _, _, found in AXES.values() for m in found)
    )
    table = [
        {
            "axis": row["axis"],
            "size": row["size"],
            "estimator": row["estimator"].partition("[clip")[0],
            **cost,
        }
        for row in report["points"]
        if (cost := figures(row))
    ]
    scale = alt.Scale(domain=names, range=list(colors()[: len(names)]))
    color = alt.Color("estimator:N", scale=scale, title=None, legend=alt.Legend(columns=5))
    lines = []
    for figure, title in (("time", "processor s"), ("memory", "MiB")):
        row = [
            alt.Chart(alt.Data(values=[point for point in table if point["axis"] == axis]))
            .mark_line(point=alt.OverlayMarkDef(size=14), strokeWidth=1.2)
            .encode(
                x=alt.X(
                    "size:Q",
                    title=axis,
                    scale=alt.Scale(type="log", nice=False),
                    axis=alt.Axis(format="~s", tickCount=4),
                ),
                y=alt.Y(
                    f"{figure}:Q",
                    title=title if axis == "rows" else None,
                    scale=alt.Scale(type="log", nice=False),
                    axis=alt.Axis(format="~g", tickCount=5),
                ),
                color=color,
            )
            .properties(width=120, height=130)
            for axis in AXES
        ]
        lines.append(alt.hconcat(*row))
    spec = alt.vconcat(*lines).to_dict() | {"config": LOOK}
    return compact_svg(vl_convert.vegalite_to_svg(spec), "Time and memory against each size.")


PAGE = Page(INTRO, tables)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave large sizes out")
    parser.add_argument("--again", action="store_true", help="measure everything anew")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = parser.parse_args()
    command = "python results/performance/scripts/cost_curves.py" + (
        " --quick" if given.quick else ""
    )
    report: dict[str, Any] = {"command": command, **facts_now(), "points": []}
    if not given.again:
        report = resumed(given.output, report)
    asked = points(quick=given.quick)
    place = {
        (one["axis"], one["estimator"], one["size"]): n
        for n, one in enumerate(points(quick=False))
    }
    done = {(one["axis"], one["estimator"], one["size"]): one for one in report["points"]}
    given.output.parent.mkdir(parents=True, exist_ok=True)
    for point in asked:
        if (name := named(point)) in done:
            continue
        done[name] = {**point, "cost": measured(point)}
        print(json.dumps(done[name]), file=sys.stderr, flush=True)
        report["points"] = [done[one] for one in sorted(done, key=place.__getitem__)]
        keep(given.output, report)
    given.output.with_suffix(".svg").write_text(drawn(report) + "\n")
    PAGE.write(given.output, report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
