"""A class whose parameters mislead is refused, with advice, when it is defined."""

import pytest

from ope_bench import Environment, params
from ope_bench.contracts.parameters.validation import validated
from ope_bench.errors import ParameterError
from support.parameter_forms import Fields, Inner, InnerFields


def _fitted_attribute():
    @params
    class Fitted(InnerFields):
        ratio_: float = 0.0


def _fitted_attribute_without_value():
    @params
    class Fitted(InnerFields):
        ratio_: float  # type: ignore[misc]


def _unannotated_default():
    @params
    class Shallow(InnerFields):
        depth = 1


def _annotated_attribute_of_the_contract():
    @params
    class Devices(InnerFields):
        devices: tuple[str, ...] = ("cpu", "cuda")


def _annotated_version():
    @params
    class World(Environment):
        version: int = 2  # type: ignore[misc]


def _mutable_default():
    @params
    class Lists(InnerFields):
        sizes: list[int] = []  # noqa: RUF012


def _two_constructors():
    @params
    class Both(InnerFields):
        clip: float = 1.0

        def __init__(self) -> None:
            pass


def _fields_under_an_explicit_constructor():
    @params
    class Under(Inner):
        clip: float = 1.0


def _two_bases_without_decorator():
    class Both(InnerFields, Fields):
        pass

    validated(Both, {})


def _forgotten_decorator():
    class Shallow(InnerFields):
        depth: int = 1

    validated(Shallow, {})


@pytest.mark.parametrize(
    ("define", "message"),
    [
        (_fitted_attribute, r"Fitted: 'ratio_' .* ends in '_'.* or is field\(init=False\)$"),
        (_fitted_attribute_without_value, r"Fitted: .*'ratio_'.* or is field\(init=False\)$"),
        (_unannotated_default, "Shallow: 'depth' is a parameter .*; repeat its annotation"),
        (_annotated_attribute_of_the_contract, "'devices' .* attribute of Estimator .* ClassVar"),
        (_annotated_version, "'version' .* attribute of Environment .* ClassVar"),
        (_mutable_default, "Lists: mutable default .* use default_factory; .* ClassVar"),
        (_two_constructors, "Both has both @params and an __init__; keep one"),
        (_fields_under_an_explicit_constructor, "its base class Inner has an explicit __init__"),
        (_two_bases_without_decorator, "of InnerFields and of Fields; write @params above Both"),
        (_forgotten_decorator, "Shallow sets 'depth', .* write @params above Shallow"),
    ],
)
def test_a_misleading_class_is_refused_with_advice(define, message):
    with pytest.raises(ParameterError, match=message):
        define()
