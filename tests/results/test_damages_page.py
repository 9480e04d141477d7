"""The page of faults of logs: what its cells are."""

import numpy as np
import pytest
from judging.pages.damages import (
    CLEAN,
    _covered,
    _details,
    _errors,
    _found,
    _recipe,
    _severity,
    fault_of,
)

from ope_environments.damaged.environment import Damaged

DRIFT = ("drift", "1")


def rows(errors, half=1.0, status="ok"):
    return [
        {
            "replicate": k,
            "status": status,
            "estimate": 5.0 + error,
            "standard_error": half / 1.959964,
            "interval_low": None,
            "interval_high": None,
            "truth_expected": 5.0,
        }
        for k, error in enumerate(errors)
    ]


@pytest.fixture
def cells():
    first = {
        CLEAN: {"ipws": rows([1.0, -1.0]), "dm": rows([2.0, 2.0])},
        DRIFT: {"ipws": rows([3.0, -3.0]), "dm": rows([2.0, -2.0])},
    }
    second = {
        CLEAN: {"ipws": rows([0.5, 0.5]), "dm": rows([0.5, 0.5])},
        DRIFT: {"ipws": rows([6.0, 6.0]), "dm": rows([1.0, 1.0])},
    }
    return {"first": first, "second": second}


def line(text, name):
    (found,) = (one for one in text.splitlines() if one.startswith(f"| {name} |"))
    return [cell.strip() for cell in found.strip("| ").split("|")]


def test_errors_are_over_those_of_the_reference_on_clean_logs(cells):
    text = _errors(cells, ["ipws", "dm"], [CLEAN, DRIFT])
    assert line(text, "clean") == ["clean", "**1.00**", f"{np.sqrt(2 * 1):.2f}"]
    assert line(text, "drift 1") == ["drift 1", f"{np.sqrt(3 * 12):.2f}", "**2.00**"]
    cells["second"][DRIFT]["dm"] = rows([1.0, 1.0], status="unavailable")
    assert line(_errors(cells, ["ipws", "dm"], [DRIFT]), "drift 1")[2] == "–"


def test_intervals_that_hold_the_value_are_counted(cells):
    cells["first"][DRIFT]["dm"] = rows([0.9, 1.1])
    text = _covered(cells, ["ipws", "dm"], [CLEAN, DRIFT])
    assert line(text, "clean") == ["clean", "100", "50"]
    assert line(text, "drift 1") == ["drift 1", "0", "75"]


def test_details_are_over_the_same_estimator_and_starred_where_they_differ(cells):
    world = cells["first"]
    world[CLEAN]["dm"] = rows([2.0, 0.5] * 20)
    world[DRIFT]["dm"] = rows([0.5, 2.0] * 20)
    world[CLEAN]["ipws"] = rows([1.0, -1.0] * 20)
    world[DRIFT]["ipws"] = rows([3.0, -3.0] * 20)
    text = _details("first", world, ["ipws", "dm"], [CLEAN, DRIFT])
    assert line(text, "drift 1") == ["drift 1", "3.00*", "1.00"]


def test_a_fault_is_the_dial_that_is_on():
    clean = Damaged("saito-toy").get_params(deep=False)
    assert fault_of(clean, clean) == CLEAN
    for changed, expected in (
        ({"propensity": "rounded", "strength": 2.0}, ("propensity: rounded", "2")),
        ({"propensity": "missing"}, ("propensity: missing", "")),
        ({"users": 5, "named": True}, ("users, named", "5")),
        ({"retention": 0.1, "weighted": True}, ("retention, weighted", "0.1")),
        ({"delay": 0.3}, ("delay", "0.3")),
    ):
        assert fault_of({**clean, **changed}, clean) == expected


def test_the_recipe_has_the_bias_of_a_floor():
    text = _recipe()
    assert line(text, "0.01")[1] == "+12.5 %"
    assert line(text, "0.003")[1:] == ["+38.4 %", "0", "3,333"]


def test_faults_are_in_the_order_of_their_strength():
    faults = [("retention", "0.5"), ("drift", "1"), ("propensity: rounded", "1"), CLEAN]
    faults += [("drift", "0.3"), ("propensity: rounded", "3"), ("retention", "0.02")]
    assert sorted(faults, key=_severity) == [
        CLEAN,
        ("propensity: rounded", "3"),
        ("propensity: rounded", "1"),
        ("drift", "0.3"),
        ("drift", "1"),
        ("retention", "0.5"),
        ("retention", "0.02"),
    ]


def test_who_survives_is_told(cells):
    wrong = ("propensity: constant", "")
    for world in cells.values():
        world[wrong] = {"ipws": rows([1.0, 1.0]), "dm": world[CLEAN]["dm"]}
    text = _found(cells, ["ipws", "dm"], [CLEAN, wrong, DRIFT])
    assert "propensity: `dm`." in text
    assert "Nobody survives drift 1." in text
    cells["second"][DRIFT]["dm"] = rows([0.5, -0.5])
    assert "drift 1" not in _found(cells, ["ipws", "dm"], [CLEAN, wrong, DRIFT])
