"""Claims as data, and their pages: what is read, what counts, and what a reader sees first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from judging.claims.claim import COMPARISONS, Claim, Page, read_page
from judging.claims.line import Line, marks
from judging.pages.forest import COLORS, forest
from judging.pages.page import WORDS, abstract, page_texts
from judging.trials.rows import Estimator, Trials

from ope_bench.suites.manifest import plan
from ope_bench.suites.suite import find_suite
from support.paths import RESULTS

PAGES = ("paper", "beyond", "claims")
SIZES = (10, 20)


def told(name: str) -> dict[str, Any]:
    """A committed file of claims."""
    loaded: dict[str, Any] = yaml.safe_load((RESULTS / "claims" / f"{name}.yaml").read_text())
    return loaded


def write(folder: Path, forms: str, **claim: Any) -> Page:
    """Judge one claim about two estimators, of which eipw errs a tenth as much as ipw."""
    (folder / "claims").mkdir(exist_ok=True)
    (folder / "suite").mkdir(exist_ok=True)
    noise = np.random.default_rng(0).normal(size=(2, 100))
    rows = [
        {
            "environment": "saito-toy",
            "environment_params": json.dumps({"n_samples": size}),
            "estimator": estimator,
            "params": Estimator.of(estimator, "").params,
            "replicate": k,
            "status": "ok",
            "estimate": 1.0 + scale * float(noise[place, k]),
            "standard_error": None,
            "truth_expected": 1.0,
            "truth_empirical": 1.0 + float(noise[place, k]) * 0.1,
            "interval_low": 1.0 - scale,
            "interval_high": 1.0 + 2.0 * scale,
            "diagnostics": json.dumps({"weight_variance": 4.0, "variance_bound": 16.0}),
        }
        for estimator, scale in (("eipw", 0.1), ("ipw", 1.0))
        for place, size in enumerate(SIZES)
        for k in range(100)
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "suite" / "trials.parquet")
    one = {"claim": "C", "short": "c", "source": "S 2020", "trials": "t", **claim}
    one["forms"] = yaml.safe_load(forms)
    document = {
        "heading": "# H",
        "opening": "O",
        "trials": {"t": {"folder": "suite", "axis": "n_samples"}},
        "estimators": {"EIPW": "eipw", "IPW": {"ipw": {}}},
        "claims": [one],
        "beside": ["t"],
    }
    (folder / "claims" / "p.yaml").write_text(
        yaml.safe_dump(document, sort_keys=False), encoding="utf-8"
    )
    read_page.cache_clear()
    return read_page("p", folder)


def test_a_comparison_is_made_of_every_estimator_with_every_other_in_every_setting(
    tmp_path: Path,
) -> None:
    page = write(tmp_path, "{a: [{errs less: [EIPW, IPW], than: [IPW, EIPW]}]}")
    lines = page.claims[0].forms["a"]
    assert [(line.what, line.where) for line in lines if "EIPW / IPW" in line.what] == [
        ("EIPW / IPW", "n_samples = 10 (one world)"),
        ("EIPW / IPW", "n_samples = 20 (one world)"),
    ]
    assert len(lines) == 2 * 2 * len(SIZES)


def test_lines_outside_the_sources_assumptions_are_shown_and_do_not_count(tmp_path: Path) -> None:
    form = "{a: [{errs less: IPW, than: EIPW, outside: [20]}, {errs less: EIPW, than: IPW}]}"
    page = write(tmp_path, form, assumes="few rows")
    assert [line.inside for line in page.claims[0].forms["a"]] == [True, False, True, True]
    text = page_texts(page, tmp_path / "p.md", tmp_path / "rule.md")[tmp_path / "p.md"]
    (row,) = [line for line in text.splitlines() if line.startswith("| 1 |")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[3:5] == ["**split** 2/1/0", "refuted 0/1/0"]
    assert "few rows" in text
    assert "outside the source's assumptions" in text


def test_what_a_file_names_that_there_is_not_stops_it(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match=r"p\.yaml.*'errs lss'"):
        write(tmp_path, "{a: [{errs lss: EIPW}]}")
    with pytest.raises(LookupError, match=r"p\.yaml.*'EIPWS'"):
        write(tmp_path, "{a: [{errs less: EIPWS, than: IPW}]}")


def test_the_best_of_the_others_is_never_the_estimator_itself(tmp_path: Path) -> None:
    page = write(tmp_path, "{a: [{never far: EIPW, than: [EIPW, IPW], limit: 2.0}]}")
    assert [line.number.rpartition(", ")[2] for line in page.claims[0].forms["a"]] == ["IPW"] * 2


def test_failing_from_a_setting_on_is_no_failing_before_it(tmp_path: Path) -> None:
    page = write(tmp_path, "{a: [{fails from: IPW, from: 20, limit: 0.9}]}")
    assert marks(page.claims[0].forms["a"]) == ["+", "−"]


def test_variances_are_compared_with_their_bound_by_roots(tmp_path: Path) -> None:
    page = write(tmp_path, "{a: [{spread within bound: IPW}]}")
    assert [line.number.split()[0] for line in page.claims[0].forms["a"]] == ["0.5", "0.5"]


def test_widths_of_intervals_are_compared_as_errors_are(tmp_path: Path) -> None:
    write(tmp_path, "{a: []}")
    trials = Trials(tmp_path / "suite", "n_samples", "width")
    assert trials.errors(Estimator.of("eipw", "EIPW"), 10) == pytest.approx(0.3)


def test_errors_against_the_target_sample_are_judged_beside(tmp_path: Path) -> None:
    page = write(tmp_path, "{a: [{errs less: EIPW, than: IPW}]}")
    assert page.beside is not None
    ours, theirs = page.claims[0].forms["a"], page.beside[1].forms["a"]
    assert [line.number for line in ours] != [line.number for line in theirs]


def test_a_setting_that_the_file_does_not_name_stops_it(tmp_path: Path) -> None:
    write(tmp_path, "{a: []}")
    with pytest.raises(LookupError, match="n_samples"):
        Trials(tmp_path / "suite", "n_samples", settings={"ten": {"n_samples": 10}})
    trials = Trials(
        tmp_path / "suite",
        "size",
        settings={"twenty": {"n_samples": 20}, "rest": {"environment": "saito-toy"}},
    )
    assert trials.settings == ["twenty", "rest"]


def lines(text: str, **options: Any) -> list[Line]:
    decided = {"+": True, "-": False, "?": None}
    return [
        Line("a / b", f"n = {k}", f"{k + 1} [0.5, {k + 2}]", decided=decided[mark], **options)
        for k, mark in enumerate(text)
    ]


def claim(text: str, short: str = "c", **options: Any) -> Claim:
    return Claim("It is so", short, "ours", {"form": lines(text)}, "It reads.", **options)


def test_the_abstract_names_every_claim_under_its_verdict() -> None:
    found = abstract(
        [
            claim("+++", "first"),
            claim("+---", "second"),
            claim("++", "third", but="on surrogate data"),
            claim("---", "fourth", without=("by construction", "so.")),
        ]
    )
    assert "**Holds**: first." in found
    assert "**Split**: second (1:3)." in found
    assert "**Not judged**: third." in found
    assert "**By construction**: fourth." in found
    assert "6 lines of evidence for them, 3 against" in found


def test_claims_that_no_trial_decides_say_so_whatever_their_lines(tmp_path: Path) -> None:
    page = Page("# P", "", [claim("+++", without=("by construction", "so."))])
    text = page_texts(page, tmp_path / "p.md", tmp_path / "rule.md")[tmp_path / "p.md"]
    assert "**by construction** 3/0/0" in text
    assert "By construction: so." in text


def test_a_table_marks_typical_errors_and_counts_every_sign(tmp_path: Path) -> None:
    shown = [Line("a", "n = 1", "1", p=0.001, typical=True), Line("a", "n = 2", "2", p=0.5)]
    page = Page("# P", "", [Claim("C", "c", "here", {"form": shown})])
    text = page_texts(page, tmp_path / "p.md", tmp_path / "rule.md")[tmp_path / "p.md"]
    assert "| a | 1 (+) | 2 ? |" in text
    assert "1/0/1" in text


def test_a_plot_has_a_stroke_for_each_interval_colored_by_its_mark() -> None:
    drawn = forest("t", {"form": [*lines("+-?"), *lines("+", inside=False)]})
    assert drawn.count("<circle") == 4
    assert [drawn.count(f'<g class="{kind}">') for kind in "fauo"] == [1, 1, 1, 1]
    assert all(color in drawn for color in COLORS.values())
    assert forest("t", {"form": [Line("a", "b", "not run yet")]}) == ""


@pytest.mark.parametrize("name", PAGES)
def test_abstracts_are_short_and_every_claim_has_a_source(name: str) -> None:
    claims = told(name)["claims"]
    found = [
        Claim(one["claim"], one["short"], one["source"], {"f": lines("+-")}) for one in claims
    ]
    assert len(abstract(found).split()) <= WORDS
    assert all(one["source"] and one["claim"] for one in claims)
    assert len({one["short"] for one in claims}) == len(claims)
    page = "paper/README.md" if name == "paper" else f"{name}.md"
    assert len((RESULTS / page).read_text().split("\n\n")[1].split()) <= WORDS


def test_every_comparison_is_used_by_a_committed_claim() -> None:
    text = "".join((RESULTS / "claims" / f"{name}.yaml").read_text() for name in PAGES)
    assert [kind for kind in COMPARISONS if f"{kind}:" not in text] == []


@pytest.mark.parametrize("name", PAGES)
def test_estimators_are_planned_by_a_suite_of_the_page(name: str) -> None:
    document = told(name)
    planned = set()
    for folder in {one["folder"] for one in document["trials"].values()}:
        suite = find_suite(folder.replace("/", "-"))
        for cell in plan(suite).cells:
            spec = cell.estimator
            planned.add(Estimator.of(spec.id, "", **spec.params))
    for words in document["estimators"].values():
        ((estimator, params),) = words.items() if isinstance(words, dict) else [(words, {})]
        assert Estimator.of(estimator, "", **params) in planned, words
