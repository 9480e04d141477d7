"""A class whose parameters mislead is refused, with advice, when it is defined."""

import pytest

from ope_bench import Environment
from ope_bench.base.errors import ParameterError
from ope_bench.contracts.parameters import validated
from support.parameter_forms import Fields, Inner, InnerFields


def _unannotated_default():
    class Shallow(InnerFields):
        depth = 1


def _mutable_default():
    class Lists(InnerFields):
        sizes: list[int] = []  # noqa: RUF012


def _required_after_a_default():
    class Late(InnerFields):
        path: str  # type: ignore[misc]


@pytest.mark.parametrize(
    ("define", "message"),
    [
        (_unannotated_default, "Shallow: 'depth' .*; repeat its annotation"),
        (_mutable_default, "Lists: .* default_factory; .* ClassVar"),
        (_required_after_a_default, r"Late: .*'path'.* or is field\(init=False\)$"),
    ],
)
def test_a_misleading_class_is_refused_with_advice(define, message):
    with pytest.raises(ParameterError, match=message):
        define()


def test_a_private_attribute_and_one_that_fit_sets_are_no_parameters():
    class Fitted(InnerFields):
        ratio_: float = 0.0
        model_: object = None
        _seen: int = 0

    assert validated(Fitted, {}) == {"depth": 3}
    assert Fitted(depth=4).ratio_ == 0.0


def test_an_attribute_of_the_contract_is_no_parameter():
    class World(Environment):
        version: int = 2  # type: ignore[misc]
        requires: tuple[str, ...] = ("json",)
        size: int = 5

        def sample(self, **streams):
            raise NotImplementedError

    assert validated(World, {}) == {"size": 5}
    assert (World().version, World().requires) == (2, ("json",))


def test_parameters_of_two_bases_are_joined():
    class Both(InnerFields, Fields):
        pass

    assert validated(Both, {}) == validated(Fields, {}) | {"depth": 3}
    assert Both(depth=4, folds=9).get_params() == Both().get_params() | {"depth": 4, "folds": 9}


def test_an_explicit_constructor_says_the_parameters_also_of_subclasses():
    class Under(Inner):
        clip: float = 1.0

    assert Under(2).get_params() == {"depth": 2}
    with pytest.raises(ParameterError, match=r"the class sets 'clip', but .* __init__"):
        validated(Under, {"clip": 2.0})
