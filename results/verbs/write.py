"""Writes the pages that are made of committed trials, or the boards and figures of suites.

    results/regenerate write             all pages
    results/regenerate write SUITE...    boards, figures and digests of their trials

Pages are:

- results/paper/README.md, results/beyond.md, results/claims.md: claims, judged, with their plots;
- results/defects.md: published formulas that are wrong;
- results/tuning/README.md: which rule chooses best;
- results/leaderboard.md, with its figures: who errs least, by the signal of the log;
- results/predictions/README.md: what was predicted before its sources were opened;
- results/recommendation.md: which estimator and interval to use, and the same as JSON, which
  `ope-bench estimate` and `advise` quote;
- results/verdicts/README.md: whose advice is right, by known answers, with its figure;
- results/advice/README.md: fixed choices, rules and verdicts on worlds that chose nothing;
- results/intervals/README.md: which interval to use when;
- results/published.md: published tables beside ours;
- results/paper/readings.md: the paper in its other readings;
- results/propensities/README.md: what faults of logs cost, and which estimators survive them;
- results/ranking/README.md, results/loggers/README.md, results/drift/README.md: who errs least in
  which setting;
- results/randomized/README.md: do orders and intervals hold on real rewards;
- results/figures/readme.svg;
- the marked blocks of README.md, results/README.md, results/performance/README.md,
  bench/docs/index.md, bench/docs/gate.md and bench/docs/costs.md.

A claim about trials that are not committed stops it.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Mapping, Sequence
from pathlib import Path

from judging.advice.fresh_worlds import advice_page
from judging.advice.recommendation import document as recommendation_document
from judging.advice.recommendation import recommendation_page
from judging.advice.verdicts import verdict_pages
from judging.claims.claim import read_page
from judging.pages.blocks import filled, readme_figure
from judging.pages.damages import propensities_page
from judging.pages.defaults import defaults_section
from judging.pages.defects import defects
from judging.pages.intervals import IntervalTrials, intervals_page
from judging.pages.leaderboard import leaderboard_pages
from judging.pages.leaders import leaders
from judging.pages.others import others_section
from judging.pages.page import page_texts
from judging.pages.prediction import prediction_section, prediction_sentence, predictions_page
from judging.pages.published import published_page
from judging.pages.randomized import randomized_page
from judging.pages.readings import readings_page
from judging.pages.regret import tuning_page
from judging.pages.settings import settings_page

from verbs.folders import RESULTS, folder_of, show

SETTINGS = ("ranking", "loggers", "drift")
"""Suites whose page compares estimators setting by setting."""


def texts(results: Path = RESULTS) -> dict[Path, str]:
    """Return what is generated, by its file."""
    # Millions of rows are kept to the end: looking for garbage among them finds none.
    gc.disable()
    root = results.parent
    docs, logs = root / "bench" / "docs", root / "bench" / "ope_bench" / "logs"
    with_blocks = [root / "README.md", results / "README.md"]
    with_blocks += [docs / name for name in ("index.md", "gate.md", "costs.md")]
    with_blocks.append(results / "performance" / "README.md")
    pages = {
        "paper": results / "paper" / "README.md",
        "beyond": results / "beyond.md",
        "claims": results / "claims.md",
    }
    intervals = IntervalTrials(results)
    found = {
        results / "defects.md": defects(root),
        results / "tuning" / "README.md": tuning_page(results),
        results / "advice" / "README.md": advice_page(results),
        results / "recommendation.md": recommendation_page(results),
        logs / "recommendation.json": recommendation_document(results),
        **leaderboard_pages(
            results,
            prediction_sentence(results),
            leaders(results),
            prediction_section(results),
            others_section(results),
            defaults_section(results),
        ),
        results / "predictions" / "README.md": predictions_page(results),
        **verdict_pages(results),
        results / "figures" / "readme.svg": readme_figure(results),
        results / "intervals" / "README.md": intervals_page(intervals),
        results / "published.md": published_page(results),
        results / "paper" / "readings.md": readings_page(results),
        results / "propensities" / "README.md": propensities_page(results),
        results / "randomized" / "README.md": randomized_page(results),
        **{results / name / "README.md": settings_page(results, name) for name in SETTINGS},
        **{path: filled(path, results) for path in with_blocks},
    }
    for name, path in pages.items():
        found |= page_texts(read_page(name, results), path, results / "rule.md")
    return found


def stale(made: Mapping[Path, str]) -> tuple[list[Path], list[Path]]:
    """Return files that say something else than what is generated, and plots of no claim."""
    other = [path for path, text in made.items() if _text(path) != text]
    folders = {path.parent for path in made if path.suffix == ".md"}
    plots = {path for folder in folders for path in folder.glob("figures/claim-*.svg")}
    return other, sorted(plots - made.keys())


def main(words: Sequence[str]) -> int:
    """Write the pages, or boards and figures of the suites that are named."""
    parser = argparse.ArgumentParser(
        prog="results/regenerate write", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE")
    suites = parser.parse_args(words).suites
    if missing := [one for one in suites if not (folder_of(one) / "trials.parquet").is_file()]:
        parser.error(f"no trials of {', '.join(missing)} are committed")
    for suite in suites:
        show(suite)
    if not suites:
        made = texts()
        other, plots = stale(made)
        for path in other:
            path.parent.mkdir(exist_ok=True)
            path.write_text(made[path], encoding="utf-8")
        for path in plots:
            path.unlink()
    return 0


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None
