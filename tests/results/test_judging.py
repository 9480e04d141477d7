"""From errors to lines of evidence, and from lines to a verdict."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from judging.advice.fresh_worlds import MEASURES, shortlist_section, wrong_trust
from judging.claims.errors import better, covers, fails, falls, never_far, performs_well, stays
from judging.claims.limits import limit_of
from judging.claims.line import Line, marks, together, verdict
from judging.trials.rows import Estimator, Trials

from ope_bench.contracts.arrays import FloatArray
from ope_environments.saito.toy import SaitoToy

IPW, EIPW, LOGGING = (Estimator.of(name, name) for name in ("ipw", "eipw", "logging-average"))
RNG = np.random.default_rng


def _lines(text: str) -> list[Line]:
    decided = {"+": True, "-": False, "?": None}
    return [Line(f"row {k}", f"n = {k}", "", decided=decided[mark]) for k, mark in enumerate(text)]


@pytest.mark.parametrize(
    ("text", "word", "counts"),
    [
        ("+++", "holds", (3, 0, 0)),
        ("+??", "holds where named", (1, 0, 2)),
        ("+++++-", "mostly for", (5, 1, 0)),
        ("++++-", "split", (4, 1, 0)),
        ("+----", "split", (1, 4, 0)),
        ("+-?", "split", (1, 1, 1)),
        ("+-----?", "mostly against", (1, 5, 1)),
        ("--?", "refuted", (0, 2, 1)),
        ("??", "undecided", (0, 0, 2)),
        ("", "undecided", (0, 0, 0)),
    ],
)
def test_the_counts_alone_make_the_verdict(
    text: str, word: str, counts: tuple[int, int, int]
) -> None:
    found = verdict(_lines(text))
    assert (found.word, found.plus, found.minus, found.undecided) == (word, *counts)


def test_holds_where_named_spells_the_lines_out() -> None:
    lines = [
        Line("A / B", "n = 1", "", decided=True),
        Line("A / B", "n = 2", "", decided=None),
        Line("A / C", "n = 1", "", decided=True),
        Line("A / C", "n = 2", "", decided=True),
        Line("slope", "along n", "", decided=True),
    ]
    assert verdict(lines).where == "A / B (1); A / C (every n); slope (along n)"


def test_tests_of_one_form_are_corrected_together() -> None:
    one = Line("", "", "", p=0.03)
    assert marks([one]) == ["+"]
    assert marks([one, one]) == ["?", "?"]
    assert marks([Line("", "", "", p=0.03, sign=False)]) == ["−"]
    # What is listed only takes part in no correction.
    assert marks([one, Line("", "", "", p=0.01, counted=False)]) == ["+", None]


def test_a_difference_shown_to_be_negligible_is_against_a_claim_of_one() -> None:
    assert marks([Line("", "", "", p=0.9, negligible=True)]) == ["−"]
    assert marks([Line("", "", "", p=1e-6, sign=True, negligible=True)]) == ["−"]


def test_where_two_tests_contradict_each_other_nothing_is_said() -> None:
    assert marks([Line("", "", "", p=1e-6, contrary=True)]) == ["?"]


def _trials(
    folder: Path,
    errors: dict[Estimator, dict[int, FloatArray]],
    truths: FloatArray | None = None,
    axis: str = "n_samples",
    standard_error: float | None = None,
) -> Trials:
    """Trials of `saito-toy` with these errors, NaN where the trial failed."""
    rows = []
    for estimator, by_setting in errors.items():
        for setting, values in by_setting.items():
            truth = np.ones(len(values)) if truths is None else truths
            rows += [
                {
                    "environment": "saito-toy",
                    "environment_params": json.dumps({axis: setting}),
                    "estimator": estimator.id,
                    "params": estimator.params,
                    "replicate": k,
                    "status": "positivity" if math.isnan(error) else "ok",
                    "estimate": None if math.isnan(error) else float(truth[k] + error),
                    "standard_error": standard_error,
                    "truth_expected": float(truth[k]),
                    "truth_empirical": float(truth[k]),
                    "diagnostics": "{}",
                }
                for k, error in enumerate(values)
            ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "trials.parquet")
    return Trials(folder, axis)


def test_a_line_about_trials_that_are_missing_says_so_and_counts_as_undecided(
    tmp_path: Path,
) -> None:
    with pytest.raises(LookupError, match="regenerate"):
        Trials(tmp_path, "n_samples")
    trials = _trials(tmp_path, {IPW: {10: np.ones(5)}})
    with pytest.raises(LookupError, match=r"eipw .* 0 trials, 5 are needed"):
        trials.rows(EIPW, 10)
    lines = [*better(trials, EIPW, IPW), never_far(trials, IPW, [EIPW], 10, 2.0)]
    assert [line.number for line in lines] == ["not run yet", "not run yet"]
    assert verdict(lines).counts == "0/0/2"


def test_light_tails_are_compared_by_mean_squares_heavy_ones_by_ranks(tmp_path: Path) -> None:
    light, heavy = RNG(0).normal(size=40), RNG(1).normal(size=40)
    heavy[7] = 100.0
    trials = _trials(tmp_path, {EIPW: {10: 0.3 * light}, IPW: {10: light}})
    (line,) = better(trials, EIPW, IPW)
    assert not line.typical
    assert marks([line]) == ["+"]
    # One enormous error and many small ones: no test of mean squares holds at 40 data sets.
    trials = _trials(tmp_path, {EIPW: {10: 0.1 * heavy}, IPW: {10: light}})
    (line,) = better(trials, EIPW, IPW)
    assert line.typical
    assert verdict([line]).word == "holds (typical errors)"
    assert "typical" in line.number


def test_a_hundred_data_sets_are_compared_by_mean_squares_whatever_the_tails(
    tmp_path: Path,
) -> None:
    errors = RNG(0).standard_t(2, size=100)
    trials = _trials(tmp_path, {EIPW: {10: 0.5 * errors}, IPW: {10: errors}})
    (line,) = better(trials, EIPW, IPW)
    assert not line.typical


def test_equal_errors_are_evidence_against_an_improvement(tmp_path: Path) -> None:
    errors = RNG(0).normal(size=100)
    noisy = errors * (1 + 0.01 * RNG(1).normal(size=100))
    trials = _trials(tmp_path, {EIPW: {10: noisy}, IPW: {10: errors}})
    assert marks(better(trials, EIPW, IPW)) == ["−"]


def test_an_estimator_that_mostly_fails_is_listed_and_not_compared(tmp_path: Path) -> None:
    errors = RNG(0).normal(size=20)
    failing = np.where(np.arange(20) < 12, np.nan, 0.01 * errors)
    trials = _trials(tmp_path, {EIPW: {10: errors}, IPW: {10: failing}})
    lines = better(trials, EIPW, IPW)
    assert marks(lines) == [None]
    assert "ipw fails: 60%" in lines[0].number
    assert marks([fails(trials, IPW, 10)]) == ["−"]
    assert "eipw" in never_far(trials, EIPW, [IPW, EIPW], 10, 2.0).number


@pytest.mark.parametrize("answer", ["zero", "mean", "median"])
def test_no_constant_answer_performs_well(tmp_path: Path, answer: str) -> None:
    truths = RNG(0).normal(1.0, 0.6, size=100)
    constant = {"zero": 0.0, "mean": truths.mean(), "median": np.median(truths)}[answer]
    errors = {EIPW: {10: constant - truths}, LOGGING: {10: -1.5 - truths}}
    trials = _trials(tmp_path, errors, truths)
    assert marks([performs_well(trials, EIPW, LOGGING, 10)]) == ["−"]


def test_a_good_estimator_performs_well_and_the_logging_average_does_not(tmp_path: Path) -> None:
    truths = RNG(0).normal(1.0, 0.6, size=100)
    errors = {EIPW: {10: 0.1 * RNG(1).normal(size=100)}, LOGGING: {10: -0.5 - truths}}
    trials = _trials(tmp_path, errors, truths)
    assert marks([performs_well(trials, EIPW, LOGGING, 10)]) == ["+"]
    assert marks([performs_well(trials, LOGGING, LOGGING, 10)]) == ["−"]


def test_with_one_value_nothing_is_for_performing_well(tmp_path: Path) -> None:
    truths = np.full(100, 0.09)
    errors = {EIPW: {10: 1e-4 * RNG(1).normal(size=100)}, LOGGING: {10: -truths}}
    trials = _trials(tmp_path, errors, truths)
    assert marks([performs_well(trials, EIPW, LOGGING, 10)]) == ["?"]
    assert trials.of_one_world(10)


def _sweep(exponent: float, n: int = 100) -> dict[int, FloatArray]:
    noise = RNG(3).normal(size=n)
    return {size: noise * (size / 100.0) ** exponent for size in (100, 1000, 10_000)}


def test_a_flat_error_is_against_improving_and_for_staying(tmp_path: Path) -> None:
    trials = _trials(tmp_path, {IPW: _sweep(-0.003), EIPW: _sweep(-0.5)})
    assert marks([falls(trials, IPW)]) == ["−"]
    assert marks([falls(trials, IPW, upwards=True)]) == ["−"]
    assert marks([stays(trials, IPW)]) == ["+"]
    assert marks([falls(trials, EIPW)]) == ["+"]
    assert marks([stays(trials, EIPW)]) == ["−"]


def test_an_error_that_grows_does_not_go(tmp_path: Path) -> None:
    trials = _trials(tmp_path, {IPW: _sweep(0.3)})
    assert marks([stays(trials, IPW)]) == ["−"]
    assert marks([stays(trials, IPW, at_least=True)]) == ["+"]
    assert marks([falls(trials, IPW, upwards=True)]) == ["+"]


def test_only_a_claim_that_holds_is_said_to_hold_of_typical_errors() -> None:
    typical = Line("a", "n = 1", "", decided=True, typical=True)
    assert verdict([typical]).word == "holds (typical errors)"
    assert verdict([typical, *_lines("-")]).word == "split"


def test_a_claim_adds_the_counts_of_its_forms_and_not_their_words() -> None:
    whole = together([verdict(_lines("+++++")), verdict(_lines("-?"))])
    assert (whole.word, whole.counts) == ("mostly for", "5/1/1")


def test_intervals_are_for_a_claim_only_where_they_hold_as_often_as_they_say(
    tmp_path: Path,
) -> None:
    errors = RNG(0).normal(size=400)
    trials = _trials(tmp_path, {IPW: {10: errors}, EIPW: {10: errors}}, standard_error=2.0)
    assert marks([covers(trials, IPW, 10)]) == ["+"]
    (tmp_path / "narrow").mkdir()
    trials = _trials(tmp_path / "narrow", {IPW: {10: errors}}, standard_error=0.5)
    assert marks([covers(trials, IPW, 10)]) == ["−"]
    (tmp_path / "none").mkdir()
    trials = _trials(tmp_path / "none", {IPW: {10: errors}})
    assert marks([covers(trials, IPW, 10)]) == [None]


@pytest.fixture(scope="module")
def toy() -> SaitoToy:
    return SaitoToy(n_actions=20, n_samples=2000, truth_contexts=8192)


def test_the_limit_of_the_printed_estimator_is_what_many_rows_give(toy: SaitoToy) -> None:
    """Simulated with the true ratio: 400,000 draws of G, G' and a reward without noise."""
    streams = [RNG([5, k]) for k in range(3)]
    problem, truth = toy.sample(world_rng=streams[0], logged_rng=streams[1], target_rng=streams[2])
    found = limit_of(problem)
    assert found.value == pytest.approx(truth.expected, abs=0.05)
    many, _ = SaitoToy(n_actions=20, n_samples=400_000, truth_contexts=32).sample(
        world_rng=RNG([5, 0]), logged_rng=RNG(1), target_rng=RNG(2)
    )
    embed = many.embedding_distribution
    weight = embed.marginal(many.target_policy, many.context, many.embedding)
    weight = weight / embed.marginal(many.logging_policy, many.context, many.embedding)
    squared = np.square((many.target_embedding - many.embedding) / found.bandwidth).sum(axis=1)
    weight = weight * np.exp(-0.5 * squared)
    simulated = float((weight * many.reward).sum() / weight.sum())
    assert simulated == pytest.approx(found.limit, abs=0.05)
    # The limit, not the value, is what the simulation is near.
    assert abs(found.bias) > 0.01


def test_wrong_trust_is_a_trusted_interval_without_the_value() -> None:
    def log(verdict: str, truth: float, *faults: str) -> dict[str, object]:
        return {"verdict": verdict, "truth": truth, "low": 0.0, "high": 1.0, "faults": faults}

    told = wrong_trust(
        [
            *(log("trust", 0.5), log("trust", 1.5), log("trust", 0.5, "drift")),
            *(log("caution", 7.0), log("trust", -1.0, "users"), log("trust", 2.0, "retention")),
        ]
    )
    counts = re.findall(r"(\d+) of (\d+)", told)
    assert counts == [("1", "2"), ("2", "3"), ("3", "5"), ("2", "4")]


def test_shortlists_are_counted_over_all_worlds_of_as_many_policies() -> None:
    measures = dict.fromkeys(MEASURES, 0.25)
    rows = [
        {
            "world": world,
            "policies": count,
            "logs": 10,
            "best_dropped": world,
            "winner_held": 9,
            "wrongly_certified": 0,
            "median_kept": 2.0,
            "median_wide": 3.0,
            "product_seconds": seconds,
            **measures,
        }
        for world, seconds in ((1, 4.0), (2, None))
        for count in (5, 50)
    ]
    found = shortlist_section(rows)
    every = [line for line in found.splitlines() if "18 of 20" in line]
    assert len(every) == 2
    assert all("3 of 20" in line for line in every)
