"""Plain values and canonical JSON."""

import json
from pathlib import Path

import numpy as np
import pytest

from ope_bench.base.canonical import canonical_json, digest, plain


def test_canonical_json_refuses_what_would_not_come_back():
    plain = {"b": 0.1, "a": [True, None, "ü"]}
    assert canonical_json(plain) == '{"a":[true,null,"\\u00fc"],"b":0.1}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(float("nan"))
    with pytest.raises(TypeError, match="object has no canonical form"):
        canonical_json(object())
    assert len(digest([1])) == 64


class Scalar:
    """As a library other than NumPy may have it."""

    def item(self):
        return 0.25


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Scalar(), 0.25),
        (np.float32(0.5), 0.5),
        (np.array(2), 2),
        (np.bool_(True), True),
        (float("inf"), None),
        ({1: (np.float64("nan"), "a")}, {"1": [None, "a"]}),
        (Path("a/b"), "a/b"),
    ],
)
def test_plain_values_are_what_json_knows(value, expected):
    assert plain(value) == expected
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == expected


def test_numbers_can_be_rounded_on_the_way():
    assert plain({"a": [0.126, 3]}, lambda number: round(number, 1)) == {"a": [0.1, 3]}
