"""A setting is named by what tells it from its namesakes."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ope_bench.base.canonical import canonical_json
from ope_bench.plugins.spec import PluginSpec, distinct_label, distinct_labels

values = st.sampled_from([1, 2, 0.5, "word", None, [1, 2]])
specs = st.lists(
    st.builds(
        PluginSpec,
        st.just("environment"),
        st.just("world"),
        st.sampled_from(["one", "two"]),
        st.dictionaries(st.sampled_from(["p", "q", "s"]), values),
        label=st.sampled_from(["", "", "labelled"]),
        worlds=st.sampled_from(["redrawn", "fixed"]),
        version=st.sampled_from([1, 2]),
    ),
    min_size=1,
    max_size=5,
)


def by_definition(spec: PluginSpec, among: Sequence[PluginSpec]) -> str:
    """Pair by pair: a parameter is shown where any namesake has another value, or none."""
    if spec.label:
        return spec.label
    namesakes = [other for other in among if other.id == spec.id and not other.label]
    shown = [
        f"{name}={value if isinstance(value, str) else canonical_json(value)}"
        for name, value in spec.params.items()
        if any(name not in other.params or other.params[name] != value for other in namesakes)
    ]
    if any(other.worlds != spec.worlds for other in namesakes):
        shown.append(f"worlds={spec.worlds}")
    if any(other.version != spec.version for other in namesakes):
        shown.append(f"version={spec.version}")
    return " ".join([spec.id, *shown])


@given(specs)
def test_labels_made_in_one_pass_are_those_made_pair_by_pair(found: list[PluginSpec]) -> None:
    expected = [by_definition(spec, found) for spec in found]
    assert distinct_labels(found) == expected
    assert [distinct_label(spec, found) for spec in found] == expected
