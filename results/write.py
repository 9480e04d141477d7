"""Writes what is generated from committed trials and boards.

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

``python results/write.py`` writes them; with ``--check`` it only compares, names the files that
say something else, and exits with 1. A claim about trials that are not committed stops it.
"""

from __future__ import annotations

import gc
import sys
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
from judging.pages.others import others_section
from judging.pages.page import page_texts
from judging.pages.prediction import prediction_section, prediction_sentence, predictions_page
from judging.pages.published import published_page
from judging.pages.randomized import randomized_page
from judging.pages.readings import readings_page
from judging.pages.regret import tuning_page
from judging.pages.settings import settings_page

SETTINGS = ("ranking", "loggers", "drift")
"""Suites whose page compares estimators setting by setting."""


def main() -> int:
    """Write or compare."""
    # Millions of rows are kept to the end: looking for garbage among them finds none.
    gc.disable()
    results = Path(__file__).resolve().parent
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
    texts = {
        results / "defects.md": defects(root),
        results / "tuning" / "README.md": tuning_page(results),
        results / "advice" / "README.md": advice_page(results),
        results / "recommendation.md": recommendation_page(results),
        logs / "recommendation.json": recommendation_document(results),
        **leaderboard_pages(
            results,
            prediction_sentence(results),
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
        texts |= page_texts(read_page(name, results), path, results / "rule.md")
    plots = {path for page in pages.values() for path in page.parent.glob("figures/claim-*.svg")}
    stale = [path for path, text in texts.items() if _text(path) != text]
    if "--check" in sys.argv[1:]:
        for path in [*stale, *sorted(plots - texts.keys())]:
            sys.stderr.write(f"{path.relative_to(root)} is not what results/write.py makes\n")
        return int(bool(stale or plots - texts.keys()))
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(texts[path], encoding="utf-8")
    for path in plots - texts.keys():
        path.unlink()
    return 0


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
