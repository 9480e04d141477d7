"""Parameters: one validation, read from annotations, for suites, the command line and `show`.

Classes declare them as annotated attributes, or by an explicit `__init__`; what
holds of the one holds of the other.
"""

import inspect
import json
import pickle
from dataclasses import field
from typing import Annotated, ClassVar, Literal

import pytest
from annotated_types import Ge, Gt
from sklearn.base import clone

from ope_bench import Estimate, Estimator, params
from ope_bench.base.canonical import canonical_json
from ope_bench.base.errors import ParameterError, UsageError
from ope_bench.contracts.parameters import describe, hints_of, signature, validated
from ope_bench.plugins.spec import spec_of
from support.parameter_forms import Explicit, Fields, Inner, InnerFields


class RequiredExplicit(Explicit):
    def __init__(self, path: str) -> None:
        self.path = path


class RequiredFields(Estimator):
    path: str

    def estimate(self, view):
        return Estimate(0.0)


class Starred(Explicit):
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


@pytest.fixture(params=[Explicit, Fields])
def outer(request):
    return request.param


@pytest.fixture(params=[Inner, InnerFields])
def nested(request):
    return request.param


def test_defaults_are_filled_in(outer):
    assert validated(outer, {}) == DEFAULTS


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
def test_values_are_coerced_so_that_equal_settings_are_one_setting(outer, given, coerced):
    found = validated(outer, given)
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
def test_a_wrong_value_is_refused_with_name_value_and_reason(outer, given, message):
    with pytest.raises(ParameterError, match=message):
        validated(outer, given, name="outer")


def test_a_wrong_parameter_is_the_users_mistake():
    assert issubclass(ParameterError, UsageError)


@pytest.mark.parametrize("cls", [RequiredExplicit, RequiredFields])
def test_a_required_parameter_is_asked_for(cls):
    with pytest.raises(ParameterError, match="logs: parameter 'path' is required"):
        validated(cls, {}, name="logs")
    assert describe(cls) == [{"name": "path", "type": "str", "default": "required"}]


def test_every_parameter_has_a_name():
    with pytest.raises(ParameterError, match=r"takes \*things; name every parameter"):
        signature(Starred)


def test_parameters_of_an_estimator_in_a_parameter_are_named_there_alone(outer, nested):
    """A second name for them would be another key of the same trial."""
    spec = spec_of(outer(inner=nested(depth=4)))
    assert spec.params.keys() == DEFAULTS.keys()
    held = {"class": nested.__qualname__, "params": {"depth": 4}}
    assert json.loads(canonical_json(spec.params))["inner"] == held
    within = json.loads(canonical_json([outer(inner=nested(depth=4))]))[0]
    assert within["class"] == outer.__qualname__
    assert within["params"].keys() == DEFAULTS.keys()
    assert within["params"]["inner"] == held


def test_clone_and_nested_set_params(outer, nested):
    made = outer(inner=nested(depth=4))
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


def test_repr_shows_what_differs_from_the_defaults(outer, nested):
    name, inner = outer.__name__, nested.__name__
    assert repr(outer()) == f"{name}()"
    assert repr(outer(width=2.0, inner=nested())) == f"{name}(width=2.0, inner={inner}())"


def test_parameters_in_words(outer):
    words = {row["name"]: (row["type"], row["default"]) for row in describe(outer)}
    assert words == {
        "kind": ("'rbf' | 'box'", "'rbf'"),
        "width": ("float > 0, < 10 | None", "None"),
        "folds": ("int >= 2", "5"),
        "flag": ("bool", "False"),
        "sizes": ("tuple[int, ...]", "(100, 100)"),
        "inner": ("Any", "None"),
    }


def test_both_forms_have_the_same_signature_and_positions():
    assert [str(one) for one in inspect.signature(Fields).parameters.values()] == [
        str(one) for one in inspect.signature(Explicit).parameters.values()
    ]
    assert signature(Fields) == signature(Explicit)
    assert hints_of(Fields) == hints_of(Explicit)
    given = ("box", 2.0, 3, True, (1,), None)
    assert Fields(*given).get_params() == Explicit(*given).get_params()


def test_objects_are_equal_to_themselves_alone_and_can_be_pickled(outer):
    made = outer(width=2.0)
    assert made != outer(width=2.0)
    assert len({made, outer(width=2.0)}) == 2
    assert pickle.loads(pickle.dumps(made)).get_params() == made.get_params()


class WithExplicit(Explicit):
    def __init__(self, inner: Inner | None = None, other: InnerFields | None = None) -> None:
        self.inner = inner
        self.other = other


class WithFields(Estimator):
    inner: Inner | None = None
    other: InnerFields | None = None

    def estimate(self, view):
        return Estimate(0.0)


@pytest.mark.parametrize("cls", [WithExplicit, WithFields])
@pytest.mark.parametrize(("name", "kind"), [("inner", Inner), ("other", InnerFields)])
def test_a_plugin_as_parameter_is_an_object_never_made_from_a_mapping(cls, name, kind):
    given = kind()
    assert validated(cls, {name: given})[name] is given
    with pytest.raises(ParameterError, match=f"should be an instance of {kind.__name__}"):
        validated(cls, {name: {"depth": 3}})


# --- fields and inheritance


class Changed(Fields):
    extra: float = 0.5
    folds: Annotated[int, Ge(0)] = 0


def test_a_subclass_adds_parameters_at_the_end_and_changes_defaults_in_place():
    assert list(signature(Changed)) == [*DEFAULTS, "extra"]
    assert validated(Changed, {}) == DEFAULTS | {"folds": 0, "extra": 0.5}
    assert validated(Fields, {}) == DEFAULTS
    assert repr(Changed(folds=0)) == "Changed()"
    assert repr(Changed(folds=5)) == "Changed(folds=5)"
    with pytest.raises(ParameterError, match="greater than or equal to 2"):
        validated(Fields, {"folds": 0})


def test_a_subclass_may_write_its_own_constructor():
    class Own(Fields):
        def __init__(self, width: float = 1.0) -> None:
            super().__init__(width=width)

    assert validated(Own, {}) == {"width": 1.0}
    assert Own(3.0).get_params() == {"width": 3.0}


def test_what_is_no_parameter():
    class Fitted(InnerFields):
        limit: ClassVar[int] = 7
        written: "ClassVar[int]" = 8
        plain = 3
        model_: "NotImported" = field(init=False)  # type: ignore[name-defined]  # noqa: F821

    assert Fitted().get_params() == {"depth": 3}
    assert validated(Fitted, {"depth": 4}) == {"depth": 4}
    assert (Fitted.limit, Fitted.plain) == (7, 3)


def test_a_mutable_default_is_made_anew_for_each_object():
    class Lists(InnerFields):
        sizes: list[int] = field(default_factory=lambda: [1, 2])

    one, other = Lists(), Lists()
    one.sizes.append(3)
    assert other.sizes == Lists().sizes == [1, 2]
    assert repr(other) == "Lists()"
    assert repr(one) == "Lists(sizes=[1, 2, 3])"
    assert describe(Lists)[-1] == {"name": "sizes", "type": "list[int]", "default": "[1, 2]"}
    first = validated(Lists, {})["sizes"]
    first.append(9)
    assert validated(Lists, {}) == {"depth": 3, "sizes": [1, 2]}
    assert clone(one).sizes == [1, 2, 3]


def test_a_class_without_docstring_stays_without():
    class Undocumented(InnerFields):
        clip: float = 1.0

    assert Undocumented.__doc__ is None


def test_annotations_are_read_where_they_are_written(tmp_path, monkeypatch):
    """A subclass in another file need not import the types of inherited parameters."""
    head = "from __future__ import annotations\nfrom ope_bench import Estimate\n"
    (tmp_path / "base_of_two.py").write_text(
        f"{head}from typing import Literal\n"
        "from datetime import date\n"
        "from ope_bench import Estimator\n"
        "Kind = Literal['a', 'b']\n"
        "class Base(Estimator):\n"
        "    kind: Kind = 'a'\n"
        "    date: date | None = None\n"
        "    until: date | None = None\n"
        "    def estimate(self, view): return Estimate(0.0)\n"
    )
    (tmp_path / "second_of_two.py").write_text(
        f"{head}import base_of_two\nclass Second(base_of_two.Base):\n    draws: int = 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from second_of_two import Second

    types = [row["type"] for row in describe(Second)]
    assert types == ["'a' | 'b'", "date | None", "date | None", "int"]


# --- classes whose text says something else than their constructor does


def test_a_misspelled_rule_in_place_of_a_number_is_told_the_rules():
    class Ruled(InnerFields):
        clip: Annotated[float, Gt(0)] | Literal["root-n", "mse"] | None = None

    with pytest.raises(ParameterError, match=r"'root-n' or 'mse', or a number.*mean 'root-n'\?"):
        validated(Ruled, {"clip": "root_n"})
    with pytest.raises(ParameterError, match="'clip' = -1: input should be greater than 0"):
        validated(Ruled, {"clip": -1})


def test_a_keyword_of_python_is_a_parameter_with_an_underscore():
    class Shrunk(InnerFields):
        lambda_: Annotated[float, Ge(0)] = 0.5

    assert Shrunk(lambda_=0.1).get_params() == {"depth": 3, "lambda_": 0.1}
    assert validated(Shrunk, {"lambda_": 1}) == {"depth": 3, "lambda_": 1.0}


def test_an_attribute_that_is_no_parameter_is_told_from_one_that_is_unknown():
    class Plain(Estimator):
        clip = 1.0

        def estimate(self, view):
            return Estimate(0.0)

    with pytest.raises(ParameterError, match="the class sets 'clip', but without annotation"):
        validated(Plain, {"clip": 2.0})
    with pytest.raises(ParameterError, match=r"parameter 'devices' \(it has: none\)"):
        validated(Plain, {"devices": 2.0})


def test_the_mark_of_plugins_of_before_changes_nothing():
    assert params(Fields) is Fields


def test_an_annotation_that_cannot_be_read_is_named():
    class Unreadable(InnerFields):
        clip: "NotImported" = 1.0  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ParameterError, match=r"annotation cannot be read: .*NotImported"):
        validated(Unreadable, {})
