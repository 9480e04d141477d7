"""`shortlist`: simultaneous quantiles against closed forms, clones, verdicts, the document."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm

from ope_bench import Log, TargetPolicy, estimate, shortlist
from ope_bench.base.errors import UsageError
from ope_bench.cli.app import invoke
from ope_bench.logs.recommendation import recommendation_for
from ope_bench.logs.shortlist import values_alone
from ope_bench.statistics.simultaneous import simultaneous
from support.small_logs import discrete, frame_of, write_small


def test_one_pair_gives_the_normal_quantile():
    rng = np.random.default_rng(0)
    terms = rng.standard_normal((4000, 2)) / 4000
    terms -= terms.mean(axis=0)
    quantile, error = simultaneous(terms, 0.05)
    assert quantile == pytest.approx(1.96, abs=0.15)
    difference = (terms[:, 0] - terms[:, 1]) * 4000
    assert error[0, 1] == pytest.approx(difference.std(ddof=1) / np.sqrt(4000))


def test_clones_add_no_width_and_others_do():
    rng = np.random.default_rng(1)
    terms = rng.standard_normal((1000, 3)) / 1000
    terms -= terms.mean(axis=0)
    quantile, _ = simultaneous(terms, 0.05)
    cloned, _ = simultaneous(np.concatenate([terms, terms[:, :1], terms[:, :1]], axis=1), 0.05)
    assert cloned == pytest.approx(quantile, rel=1e-9)
    many = rng.standard_normal((1000, 60)) / 1000
    wide, _ = simultaneous(many, 0.05)
    # Never more than Bonferroni's over all pairs.
    assert quantile < wide < norm.ppf(1 - 0.05 / (2 * 60 * 59 / 2)) * 1.05


def test_values_against_a_constant_have_their_own_quantile():
    rng = np.random.default_rng(2)
    terms = np.concatenate([rng.standard_normal((3000, 20)), np.zeros((3000, 1))], axis=1) / 3000
    quantile, _ = simultaneous(terms, 0.05, versus_last=True)
    # Twenty independent values.
    assert quantile == pytest.approx(norm.ppf((1 + 0.95 ** (1 / 20)) / 2), rel=0.06)


@pytest.fixture(scope="module")
def log():
    """Four policies: always the best action, always the worst, and two that are alike."""
    given = discrete(3000, seed=5)
    reward = given.reward + 3.0 * (given.action == 1)
    frame = frame_of(given) | {"r": reward}
    tables = {}
    for name, mass in (("best", [0, 1, 0, 0]), ("worst", [1, 0, 0, 0])):
        tables[name] = np.tile(np.array(mass, dtype=float) * 0.8 + 0.05, (3000, 1))
    tables["good"] = np.tile([0.04, 0.88, 0.04, 0.04], (3000, 1))
    tables["clone"] = tables["best"].copy()
    return Log.from_frame(
        frame,
        context=[name for name in frame if name.startswith("x")],
        action="a",
        reward="r",
        propensity="p",
        target={name: TargetPolicy(table=table) for name, table in tables.items()},
    )


def test_better_policies_are_certified_and_worse_ones_dominated(log):
    found = shortlist(log)
    status = {row.name: row.status for row in found.policies}
    assert status["worst"] == "dominated"
    assert status["good"] in ("certified", "unresolved")
    assert "dominated" not in (status["good"], found.policies[0].status)
    center = recommendation_for(log, "best").center
    values = {one.name: one.rows[0].value for one in estimate(log, center).targets}
    assert {row.name: row.value for row in found.policies} == pytest.approx(values)
    assert found.winner["value"] == max(values.values())
    assert found.winner["low"] < found.winner["value"] < found.winner["high"]
    for row in found.policies:
        assert row.low < row.value - log.reward.mean() < row.high
    clone, best = (next(r for r in found.policies if r.name == n) for n in ("clone", "best"))
    assert clone.low == pytest.approx(best.low)
    assert clone.status == best.status


def test_an_incumbent_may_be_a_policy(log):
    found = shortlist(log, incumbent="best")
    best = next(row for row in found.policies if row.name == "best")
    assert (best.low, best.high) == (0.0, 0.0)
    assert best.status == "unresolved" or best.status == "dominated"
    assert next(row for row in found.policies if row.name == "worst").high < 0


def test_mistakes_are_told(log):
    with pytest.raises(UsageError, match="no policy 'other'"):
        shortlist(log, incumbent="other")
    with pytest.raises(UsageError, match="alpha 2"):
        shortlist(log, alpha=2.0)


def test_the_command_needs_several_policies_and_prints_the_document(tmp_path, capsys):
    path = write_small(tmp_path)
    assert invoke(["shortlist", str(path)]) == 2
    assert "several policies" in capsys.readouterr().err
    text = path.read_text().replace(
        "target: {probability: q}",
        "target:\n  new: {table: new.csv}\n  old: {table: old.csv}",
    )
    path.write_text(text)
    for name, mass in (("new", (0.2, 0.6, 0.2)), ("old", (0.5, 0.25, 0.25))):
        lines = [f"{row},{a},{p}" for row in range(4) for a, p in zip("uvw", mass, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["row,action,probability", *lines]) + "\n")
    assert invoke(["shortlist", str(path), "--format", "json"]) in (0, 3)
    document = json.loads(capsys.readouterr().out)
    assert {"schema", "alpha", "incumbent", "policies", "winner"} <= document.keys()
    assert {"name", "value", "low", "high", "status"} == set(document["policies"][0])
    assert document["incumbent"] == "logged"


@pytest.mark.parametrize("incumbent", [[], ["--incumbent", "second"]], ids=str)
def test_policies_given_by_columns_of_probabilities_have_no_value(incumbent, tmp_path, capsys):
    path = write_small(tmp_path)
    whole = "{first: {probability: q}, second: {probability: q}}"
    path.write_text(path.read_text().replace("{probability: q}", whole))
    assert invoke(["shortlist", str(path), *incumbent, "--format", "json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert [(one["name"], one["value"]) for one in found["policies"]] == [
        ("first", None),
        ("second", None),
    ]
    assert found["winner"] is None
    assert invoke(["shortlist", str(path), *incumbent]) == 3
    said = " ".join(capsys.readouterr().out.split())
    assert "no policy has a value here" in said
    assert "`table: FILE` or `policy: FILE.py:NAME`" in said
    assert "`ope-bench estimate`" in said


def test_json_says_why_no_policy_has_won():
    rows = [("new", None), ("old", None)]
    log = SimpleNamespace(notes=())
    document = values_alone(log, rows).as_json()
    assert document["winner"] is None
    assert "needs propensities" in document["message"]
    known = values_alone(log, [("new", 0.5), ("old", 0.4)]).as_json()
    assert known["message"].startswith("a shortlist needs")
