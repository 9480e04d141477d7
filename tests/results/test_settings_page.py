"""The pages of `ranking` and `loggers`: names of settings, ties, shares of bias, findings."""

import numpy as np
import pytest
from judging.pages.settings import (
    ALWAYS,
    best_of,
    bias_share,
    coverage,
    errors_of,
    found_drift,
    found_loggers,
    found_ranking,
    in_order,
    ratios,
    setting_name,
    tied,
)

from support.paths import RESULTS


def drawn(bias, scale, seed=0):
    return bias + scale * np.random.default_rng(seed).standard_normal(200)


ERRORS = {
    "cascade": {"sips": drawn(0, 1.0), "iips": drawn(5, 1.0), "dr": drawn(4, 1.0, 1)},
    "cascade, length 8": {"sips": drawn(0, 2.0, 2), "iips": drawn(3, 0.5), "dr": drawn(9, 1.0)},
    "independent": {"sips": drawn(0, 3.0), "iips": drawn(0, 1.0), "dr": drawn(0, 1.01, 3)},
}


def test_settings_are_named_by_what_differs_from_the_usual():
    every = [
        {"clicks": "cascade", "length": 4, "n_samples": 10, "loggers": None},
        {"clicks": "independent", "length": 4, "n_samples": 10, "loggers": None},
        {"clicks": "cascade", "length": 8, "n_samples": 20, "loggers": [-1.0, 2.0]},
    ]
    names = [setting_name(one, every, "clicks") for one in every]
    assert names == ["cascade", "independent", "cascade, length 8, loggers -1 2"]


def test_shares_of_bias_leave_out_what_noise_gives():
    assert bias_share(drawn(0, 1.0)) < 0.02
    assert bias_share(drawn(1, 1.0)) == pytest.approx(0.5, abs=0.1)
    assert bias_share(np.ones(5)) == 1.0
    assert bias_share(np.zeros(5)) == 0.0


def test_ties_are_those_whose_ratio_may_be_one():
    of = ERRORS["independent"]
    assert tied(of["dr"], of["iips"])
    assert not tied(of["sips"], of["iips"])
    lines = ratios(ERRORS).splitlines()
    assert in_order(ERRORS)[0] == "sips"
    assert lines[-1].count("**") == 4


def test_findings_name_the_best_the_biased_and_where_slots_suffice():
    assert best_of(ERRORS, "cascade")[0] == "sips"
    cascade, independent = found_ranking(ERRORS).splitlines()
    assert "`sips`" in cascade
    assert "in 0 of 2 settings" in cascade
    assert cascade.endswith("`iips`.")
    assert "in 1 of 1 settings" in independent


def test_loggers_are_compared_in_pairs():
    of = {"ipw": drawn(0, 2.0), "balanced-ipw": drawn(0, 1.0), "dr": drawn(0, 0.5)}
    text = found_loggers({"a": of, "b": of})
    assert "`balanced-ipw` errs 0.50 times" in text
    assert "more in 0 of 2" in text
    assert "`dr` errs least" in text


def test_drift_is_told_by_setting_and_held_values_are_counted():
    of = {"opfv": drawn(0, 1.0), "dr": drawn(3, 1.0), "dr-recent": drawn(0, 2.0)}
    (line,) = found_drift({"trend 2": of}).splitlines()
    assert line.startswith("- **trend 2**: `opfv` errs least (0.96)")
    assert "`dr` 3." in line
    assert "`dr-recent` 2.0 times" in line
    scores = {"trend 2": {"opfv": np.array([0.0, 1.9, -1.9, 2.0])}}
    assert coverage({"trend 2": of}, scores).splitlines()[-1] == "| trend 2 | 75 | – | – |"


@pytest.mark.parametrize(("suite", "always"), list(ALWAYS.items()))
def test_every_setting_of_the_committed_trials_has_a_name_of_its_own(suite, always):
    errors = errors_of(RESULTS / suite, always)
    assert len(errors) == {"ranking": 17, "loggers": 10, "drift": 7}[suite]
    for of in errors.values():
        assert len({len(values) for values in of.values()}) == 1
