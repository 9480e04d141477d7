"""Writes what is generated from committed trials and boards.

- results/paper/README.md: the paper's claims, judged;
- results/beyond.md: what it leaves open;
- results/field.md: what others publish of weights, doubly robust forms, kernels and many actions;
- results/defects.md: published formulas that are wrong;
- results/tuning/README.md: which rule chooses best;
- results/advice/README.md: how rules for choosing an estimator do on held-out worlds, and the same
  as JSON, which `ope-bench advise` quotes;
- results/intervals/README.md: which interval to use when, and the same as JSON, which
  `ope-bench estimate` quotes;
- results/randomized/README.md: do orders and intervals hold on real rewards;
- results/CHANGES.md: today's verdicts beside the former ones;
- the marked blocks of README.md, results/README.md, bench/docs/gate.md and bench/docs/costs.md.

``python results/write.py`` writes them; with ``--check`` it only compares, names the files that
say something else, and exits with 1. A claim about trials that are not committed stops it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from judging.advice import advice_page, benchmark
from judging.beyond import questions
from judging.blocks import filled
from judging.changes import changes
from judging.defects import defects
from judging.field import field
from judging.intervals import interval_choice, intervals_page
from judging.page import page
from judging.paper import experiments
from judging.randomized import randomized_page
from judging.theory import theory
from judging.tuning import tuning_page

PAPER = """\
# The paper, judged

Each claim of "Off-Policy Evaluation for Embedded Spaces" that an experiment can bear on, with a
verdict and the figures behind it. Made by `python results/write.py` from the trials in this
folder, which `results/regenerate paper` makes; no figure in a table was typed. What changed since
the verdicts before: [CHANGES](../CHANGES.md).

"As printed" takes the formulas as the paper prints them; "corrected" mends what does not follow
from its own idea: DM sums over actions, EPWS and FEPWS have no kernel that pairs a row with a
random partner, and their classifier is cross-fitted and calibrated. "Every rival" compares with
whoever may answer under the same access, with regressors that suit the world. The
[catalogue](../../estimators/README.md) has all of them. Every data set has a world of its own: the
paper does not say whether parameters are drawn anew for each simulation, and some worlds are much
harder for IPW than others.

Errors are against the value V, and verdicts follow them. The paper takes V_s, the mean reward of
the target sample, instead; the last column judges the same trials so. V_s is no neutral yardstick:
`edm-star`, `dm-star`, `edr`, `fedr` and the `epw` family are computed from the target sample too,
and their errors against V_s leave out what they share with it, while those that do not look at
that sample get its scatter added. On the toy world that turns rankings around.

Not judged: lemmas as mathematics, which are proved or not; what the paper says of other people's
work.
"""

BEYOND = """\
# Beyond the paper

Questions that it leaves open, put as claims and judged in the same way, by the suites named there.
Made by `python results/write.py` from the committed trials; no figure in a table was typed. Errors
are against the value. What changed since the verdicts before: [CHANGES](CHANGES.md).
"""

FIELD = """\
# What others publish

Claims of other papers about transforms of weights, doubly robust forms, kernels over continuous
actions and pooling of many actions, judged in the same way as [the paper's](paper/README.md), by
the suites `weighting`, `doubly-robust`, `continuous` and `large-actions`, and by simulated logs of
ten arms, of which the [errors](performance/rare-arms.md) are kept and not the trials. Made by
`python results/write.py` from the committed trials; no figure in a table was typed. Errors are
against the value. A refuted claim is about these environments; the papers' own data are others.
"""

DEFECTS = """\
# Published formulas and code that are wrong

Each with an identity that it fails. The figures are expectations over two contexts and three
actions, computed by `tests/support/published_defects.py`;
`tests/estimators/test_published_defects.py` compares. No estimator of this package uses these
formulas, except those whose id ends in `-paper`: they compute what the paper prints. Made by
`python results/write.py`.
"""

CHANGES = """\
# What changed in the verdicts, and why

Made by `python results/write.py` from the former pages' verdicts (revision 679a85a) and today's
trials. Three changes touch every claim:

- Errors are measured against the value V. Former pages took V_s, the mean reward of the target
  sample, which favors estimators that use that sample. Against V_s stands beside V in
  [the paper, judged](paper/README.md).
- The words are counted, not felt: *holds*, *holds where named*, *mixed*, *refuted*, *undecided*,
  *by construction*, *not judged*, by a table of how many lines are for, against and neither.
  "Holds with conditions" could mean one line for and four against; there is no such word now.
- Errors are compared in two ways, mean squares and typical errors, and with less than 100 data
  sets and heavy tails the latter decide, which the verdict says. What is shown to be no difference
  worth the name counts against a claim of one.

Four changes touch boards and no verdict:

- In the boards of `behance`, `large-samples`, `paper-actions`, `paper-samples`, `paper-failures`
  and `samples-only`, rows are named by all parameters that distinguish them. Some had the name
  from before the suite gained a row of the same id: two rows of one board could have one name.
  Their figures are the same to the last bit. In all `positivity.md`, rows with equally many
  failures stand in the order that `ope-bench leaderboard --by positivity` prints.
- In `continuous`, `kernel-ipw` and `kernel-ipws` with the bandwidth `slope` no longer choose a
  kernel that reaches fewer than two rows' worth of weight: 11 of 3,500 trials changed, among them
  an estimate of -7.9 where the value is -.25, so that the RMSE of `kernel-ipws` fell from .79 to
  .18 at a target slope of 2; one comparison of claim 11 is decided against the claim. The others
  differ by the rounding of another machine at most.
- `advice` has 20 replicates instead of 10, of which the first ten are the same to the last bit.
  What `ope-bench advise` recommends is the same; intervals of regrets are narrower.
- `full` was run again, since it gained `randomized`, on another machine. Estimators with a flow,
  and `mrdr` where trees have ties, differ by that machine's rounding; times are of that machine.
"""


def main() -> int:
    """Write or compare."""
    results = Path(__file__).resolve().parent
    root = results.parent
    claims = [*experiments(results), *theory(results)]
    beside = experiments(results, "empirical")
    open_questions = questions(results)
    docs = root / "bench" / "docs"
    advice = root / "bench" / "ope_bench" / "logs" / "advice"
    with_blocks = [root / "README.md", results / "README.md", docs / "gate.md", docs / "costs.md"]
    pages = [
        ("The paper", "paper", claims),
        ("Beyond the paper", "beyond", open_questions),
    ]
    texts = {
        results / "paper" / "README.md": page(PAPER, claims, beside),
        results / "beyond.md": page(BEYOND, open_questions),
        results / "field.md": page(FIELD, field(results)),
        results / "defects.md": defects(DEFECTS, root),
        results / "tuning" / "README.md": tuning_page(results),
        results / "advice" / "README.md": advice_page(results),
        advice / "benchmark.json": benchmark(results),
        results / "intervals" / "README.md": intervals_page(results),
        root / "bench" / "ope_bench" / "logs" / "interval_choice.json": interval_choice(results),
        results / "randomized" / "README.md": randomized_page(results),
        results / "CHANGES.md": changes(CHANGES, results / "judging" / "former.json", pages),
        **{path: filled(path, results) for path in with_blocks},
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
