"""One trial with a million actions, and one with ten million logged rows.

    python results/performance/scripts/scale.py [--only actions|rows] [--again]

Each trial runs in a process of its own, one thread, under a limit of 8 GiB on its data (the one
that ``--memory 8GiB`` sets), and is written to results/performance/scale.json at once: a second
call goes on where the first was stopped. ``--again`` measures everything anew.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

from statement import Page, facts_now, keep, megabytes, resumed
from trial_cost import Cost, measured_alone

OUTPUT = Path(__file__).parents[1] / "scale.json"
LIMIT = 8 << 30
TIMEOUT = 7_200.0

Row = dict[str, Any]

ACTIONS = [
    (world, n_actions, method)
    for world, methods in (
        ("saito-toy", ("ipw", "ipws", "eipw", "eipws", "epws", "epw")),
        ("saito-mips", ("ipw", "eipw", "epws")),
    )
    for method in methods
    for n_actions in (1_000, 30_000, 1_000_000)
]

BOOSTED = 'epws[cross_fit=2,classifier_params={"max_iter":100}]'
XGBOOST = 'epws[classifier=xgboost,cross_fit=2,classifier_params={"n_estimators":100}]'
ROWS = [
    (n_rows, method)
    for method, most in (
        ("ipw", 10**7),
        ("eipw", 10**7),
        (BOOSTED, 10**7),
        (XGBOOST, 10**7),
        ("epws", 10**6),
    )
    for n_rows in (10**5, 10**6, 10**7)
    if n_rows <= most
]


def cases(only: str | None) -> list[Row]:
    """What is measured."""
    found: list[Row] = []
    if only != "rows":
        found += [
            {
                "part": "actions",
                "environment": f"{world}[n_actions={n_actions},n_samples=1000]",
                "estimator": method,
                "size": n_actions,
            }
            for world, n_actions, method in ACTIONS
        ]
    if only != "actions":
        found += [
            {
                "part": "rows",
                "environment": f"saito-toy[n_samples={n_rows}]",
                "estimator": method,
                "size": n_rows,
            }
            for n_rows, method in ROWS
        ]
    return found


def named(row: Row) -> tuple[str, str]:
    return row["environment"], row["estimator"]


def line(row: Row) -> str:
    cost: Cost = row["cost"]
    told = f"| `{row['environment']}` | `{row['estimator']}` | {row['size']:,} "
    if "rise_bytes" not in cost:
        return told + f"| {cost['status']}: {cost['message']} | | | | | |"
    return (
        told + f"| {cost['status']} "
        f"| {cost['sample_cpu_seconds']:.2f} | {cost['trial_cpu_seconds']:.2f} "
        f"| {cost['sample_seconds'] + cost['trial_seconds']:.1f} "
        f"| {megabytes(cost['rise_bytes'])} | {megabytes(cost['peak_bytes'])} |"
    )


def slope(rows: list[Row], figure: str) -> str:
    """Growth between the two largest sizes of each setting, as exponents."""
    found = []
    kinds = [(row["environment"].partition("[")[0], row["estimator"]) for row in rows]
    for kind in dict.fromkeys(kinds):
        mine = [
            (row["size"], sum(row["cost"][part] for part in figure.split("+")))
            for row, its in zip(rows, kinds, strict=True)
            if its == kind and "rise_bytes" in row["cost"]
        ]
        if len(mine) >= 2:
            (small, less), (large, more) = sorted(mine)[-2:]
            growth = math.log(more / less) / math.log(large / small)
            found.append(f"`{kind[1]}` on `{kind[0]}` {growth:.2f}")
    return "; ".join(found)


HEAD = (
    "| environment | estimator | {} | ended | drawing the data, processor s "
    "| the trial, processor s | both, wall s | rise of memory, MiB | peak of the process, MiB |\n"
    "|:---|:---|---:|:---|---:|---:|---:|---:|---:|"
)


INTRO = (
    "# One very large trial\n\n"
    "Each line is one trial in a process of its own, whose data segment may not exceed 8 GiB."
    " A rise is the peak of resident memory over what Python and its libraries took before."
)


def tables(report: dict[str, Any]) -> str:
    """The tables of one machine."""
    parts = []
    for part, title, column in (
        ("actions", "A million actions, a thousand logged rows", "actions"),
        ("rows", "Ten million logged rows, a hundred actions", "rows"),
    ):
        rows = [row for row in report["rows"] if row["part"] == part]
        if not rows:
            continue
        time_growth = slope(rows, "sample_cpu_seconds+trial_cpu_seconds")
        parts += [
            "",
            f"### {title}",
            "",
            HEAD.format(column),
            *map(line, rows),
            "",
            f"Exponents of processor time between the two largest sizes: {time_growth}.",
            "",
            f"Exponents of the rise of memory: {slope(rows, 'rise_bytes')}.",
            "",
            REMARKS[part],
        ]
    return "\n".join(parts)


REMARKS = {
    "actions": (
        "What grows with the number of actions is what has to: the logging policy is a softmax,"
        " whose normalizer is a sum over all actions in every context, for drawing an action"
        " (n |A| exponentials) and again for an exact marginal over embeddings (`eipw`)."
        " `ipw` itself costs a comparison with the greedy action; the finding of that action is"
        " a scan, unless the scores lie in few dimensions, where a convex hull leaves few"
        " candidates (`saito-toy`). `epws` sees samples only: its own time does not know |A|."
        " No table of rows times actions exists at any moment; with a million actions a chunk is"
        " one row, and what is held is a handful of vectors of length |A|."
        " The comparison of weights with the true ratio, which the harness adds to a trial, is"
        " left out beyond 10^9 rows times actions."
    ),
    "rows": (
        "`epws` is shown with two folds and a fixed number of rounds, so that work is"
        " proportional to rows, and, up to a million rows, with its defaults: there boosting"
        " grows as n^(1/3) rounds by design (a fixed size stops improving with more rows), so"
        " its time is n^(4/3) unless early stopping ends it first."
        " Memory is linear and is that of the data, of one table of features of both samples,"
        " and of the learner's copy of the rows that it trains on."
    ),
}


PAGE = Page(INTRO, tables)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["actions", "rows"])
    parser.add_argument("--largest", type=int, help="leave larger sizes out")
    parser.add_argument("--again", action="store_true", help="measure everything anew")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = parser.parse_args()
    command = "python results/performance/scripts/scale.py"
    report: dict[str, Any] = {"command": command, **facts_now(), "rows": []}
    if not given.again:
        report = resumed(given.output, report)
    done = {named(row): row for row in report["rows"]}
    for case in cases(given.only):
        if named(case) in done or (given.largest and case["size"] > given.largest):
            continue
        row = {**case, "cost": measured_alone(*named(case), limit=LIMIT, timeout=TIMEOUT)}
        print(json.dumps(row), file=sys.stderr, flush=True)
        done[named(case)] = row
        order = [named(one) for one in cases(None)]
        report["rows"] = sorted(done.values(), key=lambda one: order.index(named(one)))
        keep(given.output, report)
    PAGE.write(given.output, report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
