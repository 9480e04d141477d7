from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ope_bench.base.errors import SuiteError
from ope_bench.suites.yaml_document import MAX_BYTES, load, load_file, load_flow


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e3", 1000.0),
        ("-.5E-1", -0.05),
        ("0x1F", 31),
        ("0o17", 15),
        ("010", 10),
        ("on", "on"),
        ("yes", "yes"),
        ("No", "No"),
        ("True", True),
        ("~", None),
        ("null", None),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2026-11-21", "2026-11-21"),
        ("'1'", "1"),
        ('"true"', "true"),
        ("4GiB", "4GiB"),
        (".inf", float("inf")),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, value: object) -> None:
    loaded = load(f"a: {text}\n", "s")
    assert loaded.value == {"a": value}
    assert type(loaded.value["a"]) is type(value)


def test_every_value_knows_its_line() -> None:
    document = load("a: 1\nb:\n  - x\n  - y: {z: 2}\n", "s.yaml")
    assert document.lines["b", 1, "y", "z"] == 4
    assert str(document.error("wrong", "b", 0)) == "s.yaml:3: wrong"
    assert str(document.error("wrong", "b", 1, "nowhere")) == "s.yaml:4: wrong"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: 1\na: 2\n", 2, "the key 'a' appears twice"),
        ("a: &x 1\n", 1, "anchors and aliases"),
        ("a: *x\n", 1, "anchors and aliases"),
        ("a: !!python/object:os.system 1\n", 1, "tags"),
        ("a: !local 1\n", 1, "tags"),
        ("x:\n  <<: {a: 1}\n", 2, "merge keys"),
        ("1: a\n", 1, "is not text"),
        ("[a]: 1\n", 1, "a key must be one word"),
        ("a: 1\n---\nb: 2\n", 2, "one document"),
        ("a: [1\n", 2, "not valid YAML"),
        ("a: b: c\n", 1, "not valid YAML"),
        ("\ta: 1\n", 1, "not valid YAML"),
        (f"a: {'9' * 500}\n", 1, "digits"),
    ],
)
def test_what_is_refused_names_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(SuiteError, match=reason) as caught:
        load(text, "s.yaml")
    assert str(caught.value).startswith(f"s.yaml:{line}: ")


def test_a_bomb_of_anchors_is_refused_at_its_first_anchor() -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(9)
    )
    with pytest.raises(SuiteError, match="s:1: anchors"):
        load(bomb, "s")


@pytest.mark.parametrize("opening", ["[", "{a: "])
def test_deep_nesting_is_refused(opening: str) -> None:
    with pytest.raises(SuiteError, match="nested too deeply"):
        load("a: " + opening * 5_000, "s")


def test_large_files_foreign_bytes_and_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="larger than 256 KiB"):
        load(b"#" * (MAX_BYTES + 1), "s")
    with pytest.raises(SuiteError, match="s:2: not UTF-8"):
        load(b"a: 1\nb: \xff\n", "s")
    with pytest.raises(SuiteError, match="not valid YAML"):
        load(b"a: \x00", "s")
    with pytest.raises(SuiteError, match="cannot read suite"):
        load_file(tmp_path / "none.yaml")
    with pytest.raises(SuiteError, match="cannot read suite"):
        load_file(tmp_path)


def test_an_empty_text_is_none_and_a_byte_order_mark_is_no_content() -> None:
    assert load("", "s").value is None
    assert load("# only a comment\n", "s").value is None
    assert load(b"\xef\xbb\xbfa: 1", "s").value == {"a": 1}


@pytest.mark.parametrize("text", ["1, 2", "a: 1\nb: 2", "]", "[", "&x 1", "*x", "'", "# x"])
def test_a_flow_expression_is_one_value(text: str) -> None:
    with pytest.raises(SuiteError, match="here"):
        load_flow(text, "here")


def _complaint(content: Any) -> str:
    try:
        load(content, "s")
    except SuiteError as exc:
        return str(exc)
    return "s: is fine"


@given(st.binary(max_size=400) | st.text(max_size=400))
def test_no_bytes_give_anything_but_a_document_or_a_suite_error(content: Any) -> None:
    assert _complaint(content).startswith("s:")


@given(st.text(alphabet="ab:-[]{},&*!|>'\"#%@` \n\t?0.e~<", max_size=120))
def test_no_punctuation_gives_anything_but_a_document_or_a_suite_error(content: str) -> None:
    assert _complaint(content).startswith("s:")
