"""Writes what is generated from committed trials and boards.

- results/paper/README.md: the paper's claims, judged;
- results/beyond.md: what it leaves open;
- the marked blocks of README.md and results/README.md.

``python results/write.py`` writes them; with ``--check`` it only compares, names the files that
say something else, and exits with 1.
"""

from __future__ import annotations

import sys
from pathlib import Path

from judging.beyond import questions
from judging.blocks import filled
from judging.page import page
from judging.paper import claims

PAPER = """\
# The paper, judged

Each claim of "Off-Policy Evaluation for Embedded Spaces" that an experiment can bear on, with a
verdict and the figures behind it. Made by `python results/write.py` from the trials in this
folder, which `results/regenerate paper` makes; no figure in a table was typed.

"As printed" takes the formulas as the paper prints them; "corrected" mends what does not follow
from its own idea: DM sums over actions, EPWS and FEPWS have no kernel that pairs a row with a
random partner, and their classifier is cross-fitted and calibrated. The
[catalogue](../../estimators/README.md) has both forms of each. Errors are against V_s, the mean
reward of the target sample, as in the paper; the last column judges the same trials against the
expected value instead. Every data set has a world of its own: the paper does not say whether
parameters are drawn anew for each simulation, and some worlds are much harder for IPW than
others.

Not judged: the lemmas, which are proved or not; what the paper says of other people's work.
"""

BEYOND = """\
# Beyond the paper

Questions that it leaves open, put as claims and judged in the same way, by the suites named there.
Made by `python results/write.py` from the committed trials; no figure in a table was typed. Errors
are against the expected value.
"""


def main() -> int:
    """Write or compare."""
    results = Path(__file__).resolve().parent
    root = results.parent
    texts = {
        results / "paper" / "README.md": page(PAPER, claims(results), claims(results, "expected")),
        results / "beyond.md": page(BEYOND, questions(results)),
        root / "README.md": filled(root / "README.md", results),
        results / "README.md": filled(results / "README.md", results),
    }
    stale = [path for path, text in texts.items() if _text(path) != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            sys.stderr.write(f"{path.relative_to(root)} is not what results/write.py makes\n")
        return int(bool(stale))
    for path in stale:
        path.write_text(texts[path], encoding="utf-8")
    return 0


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
