"""Estimators as parameters of estimators: selectors, keys, labels, suites, shards, resuming."""

from __future__ import annotations

import json

import pytest

from ope_bench import Access, Estimate, Estimator, NestedEstimator, UsageError, View
from ope_bench.base.errors import ParameterError
from ope_bench.contracts.parameters import describe
from ope_bench.plugins.spec import code_digest, distinct_labels, resolve, result_digest, spec_of
from ope_bench.suites.manifest import Shard, plan, specs_of
from ope_bench.suites.suite import adhoc, read_suite, selector_of
from ope_bench.testing.problems import Given
from ope_bench.trials.record import Trial
from ope_estimators.actions.weighting.ipws import IPWS
from ope_estimators.actions.weighting.sg_ipw import SGIPW
from ope_estimators.selection.select import Select

WRITTEN = "select[candidates=[ipws, 'sg-ipw[normalize=true]'],by=slope]"


def only(selector: str):
    (spec,) = specs_of("estimator", selector)
    return spec


def test_a_list_of_estimators_is_one_value_and_a_list_of_lists_a_grid():
    assert only(WRITTEN).params["candidates"] == ["ipws", "sg-ipw[normalize=true]"]
    grid = specs_of("estimator", "select[candidates=[[ipws,dr],[ipw]],by=[slope,first]]")
    assert [(spec.params["candidates"], spec.params["by"]) for spec in grid] == [
        (["ipws", "dr"], "slope"),
        (["ipws", "dr"], "first"),
        (["ipw"], "slope"),
        (["ipw"], "first"),
    ]


@pytest.mark.parametrize(
    "same",
    [
        "select[candidates=[ipws, 'sg-ipw[normalize=true,delta=0.05]'],by=slope]",
        "select[candidates=['ope-bench:ipws', 'sg-ipw[ normalize=true ]'],by=slope]",
        "select[candidates=[ipws, {sg-ipw: {normalize: true}}],by=slope]",
        "select[candidates=[[ipws, 'sg-ipw[normalize=[true]]']],by=slope]",
    ],
)
def test_spellings_of_one_setting_have_one_key(same):
    assert only(same).identity_json == only(WRITTEN).identity_json


def test_objects_in_python_are_the_same_setting():
    made = spec_of(Select([IPWS(), SGIPW(normalize=True)], by="slope"))
    assert made.identity_json == only(WRITTEN).identity_json


def test_order_of_candidates_and_their_parameters_enter_the_key():
    keys = {
        only(f"select[candidates={candidates}]").identity_json
        for candidates in ("[ipws,dr]", "[dr,ipws]", "['ipws[clip=5]',dr]", "[ipws]")
    }
    assert len(keys) == 4


def test_the_selector_of_a_setting_reads_back():
    inner = "select[candidates=[ipw, 'ipws[clip=2]'],by=first]"
    spec = only(f"select[candidates=[ipws, \"{inner}\"],anchor='sndr[regressor=ridge]']")
    text = selector_of(spec)
    assert only(text).identity_json == spec.identity_json
    assert spec.params["candidates"][1] == 'select[by=first,candidates=[[ipw,"ipws[clip=2.0]"]]]'


def test_defaults_are_written_in_their_shortest_form():
    spec = resolve("estimator", "select")
    again = resolve("estimator", "select", json.loads(json.dumps(dict(spec.params))))
    assert again.identity_json == spec.identity_json
    assert selector_of(spec) == "select"


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ("[ipwz]", "unknown estimator 'ipwz'; did you mean 'ipw"),
        ("['ipws[clip=-1]']", "ipws: parameter 'clip' = -1"),
        ("['ipws[clap=1]']", "ipws has no parameter 'clap'"),
        ("['ipws[clip=[1,2]]']", "a list is a grid, and 'clip' needs one value here"),
        ("['ipws[as=mine]']", "'as' is for rows of a board"),
        ("[3]", "3 names no estimator; write a selector"),
        ("ipws", "valid list"),
    ],
)
def test_mistakes_in_a_candidate_are_one_clear_line(candidates, message):
    with pytest.raises(UsageError, match="select: parameter 'candidates'") as caught:
        specs_of("estimator", f"select[candidates={candidates}]")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_empty_list_is_refused():
    with pytest.raises(UsageError, match="the grid of 'candidates' is empty"):
        specs_of("estimator", "select[candidates=[]]")
    with pytest.raises(ParameterError, match="candidates"):
        resolve("estimator", "select", {"candidates": []})


def test_labels_show_candidates_only_where_they_differ():
    first, second = (only(f"select[candidates=[ipws,dr],by={by}]") for by in ("slope", "first"))
    assert distinct_labels([first, second]) == ["select by=slope", "select by=first"]
    other = only("select[candidates=[ipws,'dr[regressor=ridge]'],by=slope]")
    assert distinct_labels([first, other])[1] == (
        'select candidates=["ipws","dr[regressor=ridge]"]'
    )


def test_show_names_the_type():
    types = {row["name"]: row["type"] for row in describe(Select)}
    assert types["candidates"] == "list[estimator]"
    assert types["anchor"] == "estimator | None"


def test_a_suite_may_write_candidates_as_entries(tmp_path):
    file = tmp_path / "nested.yaml"
    file.write_text(
        "schema: 1\nenvironments: [saito-toy]\nestimators:\n"
        "  - select: {candidates: [ipws, 'sg-ipw[normalize=true]'], by: [slope, first]}\n"
        "  - select: {candidates: [{sg-ipw: {normalize: true}}, ipws], by: slope}\n"
    )
    found = [cell.estimator.params for cell in plan(read_suite(file)).cells]
    assert [params["by"] for params in found] == ["slope", "first", "slope"]
    assert found[2]["candidates"] == ["sg-ipw[normalize=true]", "ipws"]
    file.write_text(
        "schema: 1\nenvironments: [saito-toy]\nestimators:\n"
        "  - ipws\n  - select: {candidates: [ipwz]}\n"
    )
    with pytest.raises(UsageError, match=r"nested\.yaml:5: .*unknown estimator 'ipwz'"):
        plan(read_suite(file))


def test_shards_part_the_trials_of_nested_estimators():
    suite = adhoc(["saito-toy[n_samples=50]"], [WRITTEN, "select[candidates=[ipw,ipws],by=first]"])
    manifest = plan(suite)
    parts = [
        {trial.key for trial in manifest.trials if Shard(index, 3).holds(trial)}
        for index in (1, 2, 3)
    ]
    assert sum(map(len, parts)) == len(set().union(*parts)) == len(manifest.trials) == 40


def test_the_code_of_candidates_is_part_of_the_digest():
    environment = Given()
    with_dr = result_digest(environment, Select(["ipws", "dr"], by="slope"))
    without = result_digest(environment, Select(["ipws"], by="slope"))
    assert with_dr != without
    assert result_digest(environment, IPWS()) == code_digest(Given, IPWS)


class Reads(Estimator):
    """It reads more than it declares."""

    def estimate(self, view: View) -> Estimate:
        return Estimate(float(view.propensity.mean()))


def test_the_trial_key_of_a_selection_is_stable():
    trial = Trial(resolve("environment", "saito-toy"), only(WRITTEN), 0)
    again = Trial(resolve("environment", "saito-toy"), only(selector_of(only(WRITTEN))), 0)
    assert trial.key == again.key
    assert Select(["ipws"]).access & Access.PROPENSITY
    assert NestedEstimator.of(Reads()).text == "reads"
