"""The commands of the README and of a newcomer's pages, in their order, on fewer replicates."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest

from support.paths import README, ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from bench.cli.conftest import Cli

pytestmark = pytest.mark.slow

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)

FEWER = ["--replicates", "2"]
QUICK = [*FEWER, "--est", "logging-average", "--est", "ipw", "--est", "eipws"]
DRY = ["--dry-run"]
SHORTER = {
    ("run",): FEWER,
    # `run`, `run ci` and the gate have workers.
    ("run", "--env"): [
        *("--replicates", "1", "--set", "saito-toy.n_samples=100", "--executor", "inprocess"),
    ],
    ("run", "ci"): QUICK,
    ("baseline", "save"): QUICK,
    # Minutes, machines that are not here, or minutes on other machines.
    ("run", "paper-actions"): DRY,
    ("run", "paper-failures"): DRY,
}
"""What is added to commands that begin with these words, the longest beginning first."""

ELSEWHERE = ("check", "estimate", "log", "new", "store", "submit", "verify", "site", "advise")
"""Commands that tests of their own execute."""


PAGES = (README, *(ROOT / "bench" / "docs" / f"{name}.md" for name in ("run", "clusters", "gate")))


def commands() -> list[list[str]]:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    blocks = "".join(BLOCK.findall(text)).replace(" && ", "\n")
    lines = blocks.strip().splitlines()
    # What a job of an array would put there.
    lines = [line.replace("$SLURM_ARRAY_TASK_ID", "1") for line in lines]
    split = [shlex.split(line, comments=True) for line in lines]
    return [words[1:] for words in split if words and words[0] == "ope-bench"]


def shortened(words: list[str]) -> list[str]:
    for length in (2, 1):
        if (start := tuple(words[:length])) in SHORTER and len(start) == min(length, len(words)):
            return [*words, *SHORTER[start]]
    return words


def test_every_command_works_in_its_order(cli: Cli, tmp_path: Path) -> None:
    page = (ROOT / "bench" / "docs" / "write-an-estimator.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"^```python\n(# my\.py\n.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "my.py").write_text(source, encoding="utf-8")
    ran = []
    for words in commands():
        if words[0] in ELSEWHERE:
            continue
        said = cli(*shortened(words))
        assert said.code == 0, f"ope-bench {shlex.join(words)}\n{said.out}\n{said.err}"
        ran.append(words[0])
    assert ran[0] == "run"
    assert {"leaderboard", "list", "show", "report", "baseline", "gate"} <= set(ran)
    # The README says that the workflow of a baseline needs no folder to be made.
    assert (tmp_path / "baselines" / "ci.json").is_file()
    assert (tmp_path / "report.html").is_file()
    _check_quick(cli)


def _check_quick(cli: Cli) -> None:
    """The first command's suite shows who fails and what takes how long."""
    quick = ("leaderboard", "--suite", "quick", "--format", "json")
    few, many = (
        {row["label"]: row for row in board["rows"]}
        for board in cli(*quick).json["boards"]
        if board["environment_params"]["n_actions"] in (10, 500)
    )
    assert len(few) >= 8
    assert few["ipw-star"]["failure_rate"] == 0
    assert many["ipw-star"]["status"] == {"positivity": 2}
    assert all(many[name]["failure_rate"] == 0 for name in ("epw", "epws", "epws-paper", "eipw"))
    timed = cli(*quick, "--by", "time").json["boards"]
    assert len(timed) == 3
    # A row that failed throughout has no time.
    assert max(len(board["rows"]) for board in timed) == len(few)
    assert all(row["fit_seconds"] is not None for board in timed for row in board["rows"])
