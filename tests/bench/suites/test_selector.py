from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ope_bench.base.errors import UsageError
from ope_bench.suites.suite import Selector, format_selector, parse_selector


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        ("ipw", Selector("ipw")),
        (" acme-ope:ipw ", Selector("acme-ope:ipw")),
        ("ipw[]", Selector("ipw")),
        ("./my.py:MyIPW[clip=1e3]", Selector("./my.py:MyIPW", {"clip": 1000.0})),
        (
            "saito-toy[n_actions=[10,500], n_samples=1000]",
            Selector("saito-toy", {"n_actions": [10, 500], "n_samples": 1000}),
        ),
        ("e[hidden=[[64,64],[8]]]", Selector("e", {"hidden": [[64, 64], [8]]})),
        ("e[p={a: [1, 2], b: 'x, ]'}]", Selector("e", {"p": {"a": [1, 2], "b": "x, ]"}})),
        ('e[as="A, [b]=c",on=on]', Selector("e", {"on": "on"}, "A, [b]=c")),
        ("e[name=it's]", Selector("e", {"name": "it's"})),
        ("e[a=null,b=true,c='true']", Selector("e", {"a": None, "b": True, "c": "true"})),
    ],
)
def test_selectors_read(text: str, selector: Selector) -> None:
    assert parse_selector(text) == selector


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "cannot read"),
        ("[a=1]", "cannot read"),
        ("e[a=1", "cannot read"),
        ("e]a=1[", "cannot read"),
        ("e[a]", "is not parameter=value"),
        ("e[a=]", "is not parameter=value"),
        ("e[=1]", "is not parameter=value"),
        ("e[a=1,,b=2]", "is not parameter=value"),
        ("e[a=1,a=2]", "set twice"),
        ("e[a=[1,2]", "a bracket is not closed"),
        ("e[a=1]]", "brackets do not match"),
        ("e[a={1]]", "brackets do not match"),
        ("e[a='1]", "a quote is not closed"),
        ("e[a=&x 1]", "anchors"),
        ("e[as=[1]]", "is not text"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        parse_selector(text)
    assert "\n" not in str(caught.value)


_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
)
_values = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.from_regex(r"[a-z]\w{0,5}", fullmatch=True), _values, max_size=4))
def test_what_is_formatted_reads_back(params: dict[str, object]) -> None:
    params.pop("as", None)
    read = parse_selector(format_selector("e", params)).params
    assert read == {k: [v] if isinstance(v, list) else v for k, v in params.items()}


@given(st.text(alphabet="ab=,[]{}'\":& *\n1", max_size=40))
def test_no_text_gives_anything_but_a_selector_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        parse_selector(text)
