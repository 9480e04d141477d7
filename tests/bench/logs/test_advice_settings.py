"""What chooses among candidates, and what is said of it."""

from ope_bench.logs.advice_worlds import Benchmark, Choice, advice_settings
from ope_bench.suites.nested import NestedEstimator
from ope_bench.suites.suite import parse_selector

GIVEN = {
    "worlds": 8,
    "better": True,
    "rule": {"name": "minimax", "regret": 1.02, "low": 0.97, "high": 1.08},
    "always": {"name": "sndr[regressor=ridge]", "regret": 1.21, "low": 1.1, "high": 1.3},
}
CANDIDATES = ("ipws", "dr[regressor=ridge]", "sndr[regressor=ridge]")


def test_a_rule_that_was_shown_to_be_better_chooses_and_says_its_regret():
    choice = Choice(CANDIDATES, Benchmark.of(GIVEN))
    assert choice.rule == "minimax"
    for one in ("minimax", "1.02 (0.97 to 1.08)", "8 benchmark worlds", "1.21 (1.10 to 1.30)"):
        assert one in choice.words()


def test_otherwise_the_best_fixed_choice_is_recommended():
    choice = Choice(CANDIDATES, Benchmark.of(GIVEN | {"better": False}))
    assert choice.rule == "first"
    assert choice.ordered(list(CANDIDATES)) == [CANDIDATES[2], *CANDIDATES[:2]]
    assert choice.words().startswith("always sndr[regressor=ridge], where it has a value")
    assert "no rule was shown to err less (minimax had 1.02" in choice.words()


def test_without_a_benchmark_the_first_candidate_is_taken():
    choice = Choice(CANDIDATES, None)
    assert (choice.rule, choice.ordered(list(CANDIDATES))) == ("first", list(CANDIDATES))
    assert "no rule was benchmarked" in choice.words()


def test_the_shipped_settings_name_estimators_and_makers():
    settings = advice_settings()
    for choice in (settings.known, settings.samples):
        for text in choice.candidates:
            # The shortest selector, by which the benchmark's fixed choice is found.
            assert NestedEstimator.of(text).text == text
        assert choice.benchmark is not None
        assert choice.benchmark.always.name in choice.candidates
    makers = {parse_selector(text).reference for text in settings.worlds}
    assert makers == {"pseudo-reward", "redrawn", "resample"}
