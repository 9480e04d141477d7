"""Generating synthetic logs side by side with Open Bandit Pipeline's class.

    python tests/benchmarks/side_by_side_obp_generation.py --peer PEER/bin/python

The peer draws one logged batch; ours draws the logs, a target sample of the same size, and the
truth. In turns, one thread each, every measurement in a fork of its own; memory is the peak rise.
A peer's batch that would take more memory than allowed is not drawn.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import interleaved
import obp_peer
from statement import statement

FIGURES = {"cpu_seconds": "processor, s", "seconds": "wall, s", "rise_mb": "memory, MB"}
SETTING = {"dim_context": 10, "beta": -1.0, "reward_std": 2.5}
TABLES = 9.1
"""How many (rows, actions) tables of floats the peer holds at once, from smaller sizes."""


def prepare(job: dict[str, Any]) -> None:
    """Imports; the first sample of a process is slower than all others."""
    draw(job["side"], 50, 5)


def work(_: None, job: dict[str, Any]) -> dict[str, Any]:
    """One batch, or several small ones."""
    n, n_actions = job["data"]
    return interleaved.measured(lambda _: draw(job["side"], n, n_actions), lambda: None)


def draw(side: str, n: int, n_actions: int) -> None:
    """What is measured."""
    if side == "ours":
        import numpy as np

        from ope_environments.saito.mips import SaitoMIPS

        environment = SaitoMIPS(n_actions=n_actions, n_samples=n)
        streams = np.random.SeedSequence(0).spawn(3)
        world, logged, target = map(np.random.default_rng, streams)
        environment.sample(world_rng=world, logged_rng=logged, target_rng=target)
        return
    from obp.dataset import SyntheticBanditDatasetWithActionEmbeds

    SyntheticBanditDatasetWithActionEmbeds(
        n_actions=n_actions, reward_type="continuous", random_state=0, **SETTING
    ).obtain_batch_bandit_feedback(n_rounds=n)


def compare(
    sizes: list[tuple[int, int]], given: argparse.Namespace, sides: dict[str, interleaved.Side]
) -> Iterator[dict[str, Any]]:
    """A row for every size."""
    for n, n_actions in sizes:
        job = {"data": (n, n_actions), "timeout": given.timeout, "memory": given.memory << 30}
        needs = TABLES * 8.0 * n * n_actions / 2**30
        words = f"not run: would need about {needs:.0f} GiB" if needs > given.memory else None

        def ask(side: str, job: dict[str, Any] = job, words: str | None = words) -> dict[str, Any]:
            if side == "peer" and words is not None:
                return {"failed": words}
            return sides[side].ask(job | {"side": side})

        found = interleaved.in_turns(
            {side: lambda side=side, ask=ask: ask(side) for side in sides},  # type: ignore[misc]
            seconds=given.budget,
            most=given.rounds,
        )
        row: dict[str, Any] = {"n": n, "n_actions": n_actions}
        for side, runs in found.items():
            failed = [one["failed"] for one in runs if "failed" in one]
            row[side] = {"failed": failed[0]} if failed else {}
            for name in FIGURES:
                values = [one[name] for one in runs if name in one]
                if values:
                    row[side][name] = interleaved.spread(values)
        row["ratios"] = interleaved.ratios(found["ours"], found["peer"], list(FIGURES))
        print("\n".join(lines(row)), flush=True)
        yield row


def lines(row: dict[str, Any]) -> list[str]:
    """Rows of the table."""
    found = []
    for name, label in FIGURES.items():
        cells = [f"{row['n']:,}", f"{row['n_actions']:,}", label]
        for side in ("ours", "peer"):
            cost = row[side].get(name)
            cells.append(f"{cost['median']:,.3g}" if cost else row[side].get("failed", "-"))
        found.append(f"| {' | '.join([*cells, interleaved.told(row['ratios'].get(name))])} |")
    return found


def markdown(report: dict[str, Any]) -> str:
    """The report to read."""
    intro = (
        "`saito-mips` against `SyntheticBanditDatasetWithActionEmbeds` of sb-obp"
        f" {report['peer']}, in turns, one thread each. The peer draws one logged batch, ours also"
        " the target sample and the truth. A ratio is the peer's figure over ours, median (lowest"
        " to highest) over rounds. Memory is the peak rise of resident memory; less than"
        f" {interleaved.LEAST_MEMORY_MB:.0f} MB counts as that."
    )
    return "\n".join(
        [
            "# Generating synthetic logs: ope-bench beside Open Bandit Pipeline",
            "",
            intro,
            "",
            "| rows | actions | figure | ours | peer | ratio |",
            "|---:|---:|:---|---:|---:|---:|",
            *(text for row in report["rows"] for text in lines(row)),
            "",
            f"The peer: `{obp_peer.INSTALL}`",
            "",
            statement(report["command"], report),
        ]
    )


def main() -> int:
    given = obp_peer.options(__doc__.splitlines()[0], rounds=5, budget=10.0, timeout=240.0)
    if given.serve:
        interleaved.serve(prepare, work)
        return 0
    return obp_peer.conduct(__file__, given, compare, markdown)


if __name__ == "__main__":
    raise SystemExit(main())
