"""Parameters: one validation, read from annotations, for suites, the command line and `show`."""

from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Gt, Lt
from sklearn.base import clone

from ope_bench import Estimate, Estimator
from ope_bench.errors import ParameterError, UsageError
from ope_bench.parameters import describe, signature, validated


class Inner(Estimator):
    """With one parameter."""

    def __init__(self, depth: Annotated[int, Ge(1)] = 3) -> None:
        self.depth = depth

    def estimate(self, view):
        return Estimate(0.0)


class Outer(Estimator):
    """With all kinds."""

    def __init__(
        self,
        kind: Literal["rbf", "box"] = "rbf",
        width: Annotated[float, Gt(0), Lt(10)] | None = None,
        folds: Annotated[int, Ge(2)] = 5,
        flag: bool = False,
        sizes: tuple[int, ...] = (100, 100),
        inner: Any = None,
    ) -> None:
        self.kind = kind
        self.width = width
        self.folds = folds
        self.flag = flag
        self.sizes = sizes
        self.inner = inner

    def estimate(self, view):
        return Estimate(0.0)


class Required(Outer):
    def __init__(self, path: str) -> None:
        self.path = path


class Starred(Outer):
    def __init__(self, *things: int) -> None:
        self.things = things


DEFAULTS = {
    "kind": "rbf",
    "width": None,
    "folds": 5,
    "flag": False,
    "sizes": (100, 100),
    "inner": None,
}


def test_defaults_are_filled_in():
    assert validated(Outer, {}) == DEFAULTS


@pytest.mark.parametrize(
    ("given", "coerced"),
    [
        ({"folds": 3.0}, {"folds": 3}),
        ({"folds": "3"}, {"folds": 3}),
        ({"width": 1}, {"width": 1.0}),
        ({"sizes": [8]}, {"sizes": (8,)}),
        ({"flag": "on"}, {"flag": True}),
    ],
)
def test_values_are_coerced_so_that_equal_settings_are_one_setting(given, coerced):
    found = validated(Outer, given)
    assert found == DEFAULTS | coerced
    for name, value in coerced.items():
        assert type(found[name]) is type(value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fold": 3}, "outer has no parameter 'fold'; did you mean 'folds'?"),
        ({"zzz": 3}, r"outer has no parameter 'zzz' \(it has: kind, width, folds, "),
        ({"kind": "rbff"}, "parameter 'kind' = 'rbff': .*; did you mean 'rbf'?"),
        ({"width": 0}, "parameter 'width' = 0: input should be greater than 0"),
        ({"width": 10}, "input should be less than 10"),
        ({"width": float("nan")}, "finite"),
        ({"folds": 2.5}, "parameter 'folds' = 2.5: .* integer"),
        ({"folds": 1}, "greater than or equal to 2"),
        ({"flag": "perhaps"}, "parameter 'flag' = 'perhaps'"),
        ({"sizes": 7}, "parameter 'sizes' = 7"),
    ],
)
def test_a_wrong_value_is_refused_with_name_value_and_reason(given, message):
    with pytest.raises(ParameterError, match=message):
        validated(Outer, given, name="outer")


def test_a_wrong_parameter_is_the_users_mistake():
    assert issubclass(ParameterError, UsageError)


def test_a_required_parameter_is_asked_for():
    with pytest.raises(ParameterError, match="logs: parameter 'path' is required"):
        validated(Required, {}, name="logs")


def test_every_parameter_has_a_name():
    with pytest.raises(ParameterError, match=r"takes \*things; name every parameter"):
        signature(Starred)


def test_clone_and_nested_set_params():
    made = Outer(inner=Inner(depth=4))
    made.set_params(inner__depth=7, folds=9)
    assert made.get_params()["inner__depth"] == 7
    copy = clone(made)
    assert copy is not made
    assert copy.inner is not made.inner
    assert copy.get_params(deep=False)["folds"] == 9
    assert copy.inner.depth == 7
    with pytest.raises(ParameterError, match="did you mean 'folds'"):
        made.set_params(fold=1)
    with pytest.raises(ParameterError, match="did you mean 'depth'"):
        made.set_params(inner__dept=1)


def test_repr_shows_what_differs_from_the_defaults():
    assert repr(Outer()) == "Outer()"
    assert repr(Outer(width=2.0, inner=Inner())) == "Outer(width=2.0, inner=Inner())"


def test_parameters_in_words():
    words = {row["name"]: (row["type"], row["default"]) for row in describe(Outer)}
    assert words == {
        "kind": ("'rbf' | 'box'", "'rbf'"),
        "width": ("float > 0, < 10 | None", "None"),
        "folds": ("int >= 2", "5"),
        "flag": ("bool", "False"),
        "sizes": ("tuple[int, ...]", "(100, 100)"),
        "inner": ("Any", "None"),
    }
    assert describe(Required) == [{"name": "path", "type": "str", "default": "required"}]
