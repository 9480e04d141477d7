"""`--set`: other values of parameters in a suite's entries."""

from __future__ import annotations

import pytest

from ope_bench.base.errors import UsageError
from ope_bench.suites.manifest import plan
from ope_bench.suites.suite import find_suite, overrides


def settings(suite, part):
    specs = {id(spec): spec for cell in plan(suite).cells for spec in [getattr(cell, part)]}
    return [spec.params for spec in specs.values()]


def test_a_change_keeps_the_grid():
    suite = find_suite("paper-actions")
    changed = overrides(suite, ["saito-toy.beta=-3"])
    before, after = settings(suite, "environment"), settings(changed, "environment")
    assert [one["n_actions"] for one in after] == [10, 50, 100, 200, 500]
    assert {one["beta"] for one in after} == {-3.0}
    assert [one | {"beta": -3.0} for one in before] == after
    assert settings(suite, "estimator") == settings(changed, "estimator")


def test_a_change_reaches_every_entry_of_an_estimator_and_may_be_a_grid():
    suite = overrides(find_suite("paper-actions"), ["dm.cross_fit=[2,3]", "ipw.clip=5"])
    found = settings(suite, "estimator")
    assert sum("cross_fit" in one and one["cross_fit"] in (2, 3) for one in found) >= 12
    assert 5.0 in [one.get("clip") for one in found]


def test_the_name_says_what_was_changed():
    changes = ["saito-toy.beta=-3", "ipw.clip=5"]
    suite = overrides(find_suite("quick"), changes)
    assert suite.name == "quick[saito-toy.beta=-3,ipw.clip=5]"
    assert overrides(find_suite("quick"), []).name == "quick"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("saito-toi.beta=1", "suite 'quick' has no 'saito-toi'; did you mean 'saito-toy'?"),
        ("beta=1", "write ID.PARAMETER=VALUE, for example saito-toy.beta=-3"),
        ("saito-toy.beta", "write ID.PARAMETER=VALUE"),
        ("saito-toy.=1", "write ID.PARAMETER=VALUE"),
        ("saito-toy.beta=", "write ID.PARAMETER=VALUE"),
        ("saito-toy.beta=[1", "in --set saito-toy.beta=[1"),
    ],
)
def test_a_wrong_change_is_one_line(text, words):
    with pytest.raises(UsageError) as error:
        overrides(find_suite("quick"), [text])
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_an_unknown_parameter_is_told_with_the_suites_line():
    with pytest.raises(UsageError, match=r"quick\.yaml:\d+: saito-toy has no parameter 'betta'"):
        plan(overrides(find_suite("quick"), ["saito-toy.betta=1"]))
