"""Generating synthetic logs side by side with Open Bandit Pipeline's class.

    python results/performance/scripts/side_by_side_obp_generation.py --peer PEER/bin/python

Both draw a world and one logged sample of it. What ours draw besides, the outcomes under the
target policy and the integral of its true value, has lines of its own, without a ratio. In turns,
one thread each, every measurement in a fork of its own; memory is the peak rise. A peer's batch
that would take more memory than allowed is not drawn. Other machines' figures stay in the page.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import interleaved
import obp_peer
from statement import Page

FIGURES = ("cpu_seconds", "seconds", "rise_mb")
SETTING = {"dim_context": 10, "beta": -1.0, "reward_std": 2.5}
PARTS = ("logs", "outcomes", "truth")
TABLES = 9.1
"""How many (rows, actions) tables of floats the peer holds at once, from smaller sizes."""


def prepare(job: dict[str, Any]) -> None:
    """Imports; the first sample of a process is slower than all others."""
    measure = ours if job["side"] == "ours" else peer
    for part in PARTS:
        measure(50, 5, part)


def work(_: None, job: dict[str, Any]) -> dict[str, Any]:
    """One sample, or several small ones."""
    measure = ours if job["side"] == "ours" else peer
    n, n_actions = job["data"]
    return measure(n, n_actions, job["part"])


def ours(n: int, n_actions: int, part: str) -> dict[str, Any]:
    """A part of our sample, from what comes before it."""
    import numpy as np

    from ope_environments.saito.mips import SaitoMIPS

    environment = SaitoMIPS(n_actions=n_actions, n_samples=n)

    def logs() -> tuple[Any, Any]:
        world = environment.world(np.random.default_rng(0))
        return world, environment.logs(world, np.random.default_rng(1))

    def draw(given: Any) -> None:
        if part == "logs":
            logs()
        elif part == "outcomes":
            world, rows = given
            environment.outcomes(world, rows, np.random.default_rng(2))
        else:
            environment.value(given[0], np.random.default_rng(3))

    # Made anew each time: a world keeps its policies.
    return interleaved.measured(draw, (lambda: None) if part == "logs" else logs)


def peer(n: int, n_actions: int, _: str) -> dict[str, Any]:
    """The peer's logged batch."""
    from obp.dataset import SyntheticBanditDatasetWithActionEmbeds

    def draw(_: None) -> None:
        SyntheticBanditDatasetWithActionEmbeds(
            n_actions=n_actions, reward_type="continuous", random_state=0, **SETTING
        ).obtain_batch_bandit_feedback(n_rounds=n)

    return interleaved.measured(draw, lambda: None)


def compare(
    sizes: list[tuple[int, int]], given: argparse.Namespace, sides: dict[str, interleaved.Side]
) -> Iterator[dict[str, Any]]:
    """A row for every size and part."""
    for n, n_actions in sizes:
        needs = TABLES * 8.0 * n * n_actions / 2**30
        for part in PARTS:
            job = {"data": (n, n_actions), "part": part, "timeout": given.timeout}
            job["memory"] = given.memory << 30

            def ask(side: str, job: dict[str, Any] = job, needs: float = needs) -> dict[str, Any]:
                if side == "peer" and needs > given.memory:
                    return {"failed": f"not run: would need about {needs:.0f} GiB"}
                return sides[side].ask(job | {"side": side})

            names = sides if part == "logs" else ["ours"]
            found = interleaved.in_turns(
                {side: lambda side=side, ask=ask: ask(side) for side in names},  # type: ignore[misc]
                seconds=given.budget,
                most=given.rounds,
            )
            row = row_of(n, n_actions, part, found)
            print(line(row), flush=True)
            yield row


def row_of(
    n: int, n_actions: int, part: str, found: dict[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    """Medians of each side and the ratios."""
    row: dict[str, Any] = {"n": n, "n_actions": n_actions, "part": part}
    for side, runs in found.items():
        failed = [one["failed"] for one in runs if "failed" in one]
        row[side] = {"failed": failed[0]} if failed else {}
        for name in FIGURES:
            values = [one[name] for one in runs if name in one]
            if values:
                row[side][name] = interleaved.spread(values)
    row["ratios"] = interleaved.ratios(found["ours"], found.get("peer", []), list(FIGURES))
    return row


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    from ope_bench.report.tables import figure

    cells = [f"{row['n']:,}", f"{row['n_actions']:,}", row["part"]]
    for name, scale in (("cpu_seconds", 1e3), ("rise_mb", 1.0)):
        for side in ("ours", "peer"):
            cost = row.get(side, {"failed": "-"})
            has = name in cost
            cells.append(figure(scale * cost[name]["median"]) if has else cost["failed"])
        cells.append(interleaved.told(row["ratios"].get(name)))
    return f"| {' | '.join(cells)} |"


INTRO = (
    "# Generating synthetic logs: ope-bench beside Open Bandit Pipeline\n\n"
    "`saito-mips` against `SyntheticBanditDatasetWithActionEmbeds` of sb-obp"
    f" {obp_peer.VERSION}, in turns, one thread each. *Logs*: a world and one logged sample"
    " of it, on both sides. *Outcomes*, the sample of the target policy, and *truth*, the"
    " integral of its expected reward over 16,384 contexts, are ours alone. A ratio is the"
    " peer's figure over ours, median (lowest to highest) over rounds; times are of the"
    " processor. Memory is the peak rise of resident memory; less than"
    f" {interleaved.LEAST_MEMORY_MB:.0f} MB counts as that. {obp_peer.ALLOCATION}"
)


def tables(report: dict[str, Any]) -> str:
    """The table of one machine."""
    head = (
        "| rows | actions | what | ours, ms | peer, ms | ratio | ours, MB | peer, MB | ratio |\n"
        "|---:|---:|:---|---:|---:|---:|---:|---:|---:|"
    )
    return "\n".join([head, *map(line, report["rows"])])


PAGE = Page(INTRO, tables, obp_peer.PEER)


def main() -> int:
    given = obp_peer.options(__doc__.splitlines()[0], rounds=5, budget=10.0, timeout=240.0)
    if given.serve:
        interleaved.serve(prepare, work)
        return 0
    return obp_peer.conduct(__file__, given, compare, PAGE)


if __name__ == "__main__":
    raise SystemExit(main())
