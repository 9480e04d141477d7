"""JUnit XML is well formed whatever a plugin's message holds, and loses nothing else."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ope_bench.report.text.junit import junit_of_nothing


@given(st.text(st.characters(exclude_categories=[]), max_size=30))
def test_any_text_can_be_a_message(text: str) -> None:
    said = junit_of_nothing(text, text, "error")
    said.encode()
    suite = ET.fromstring(said)
    message = suite.findall("testcase/error")[0].get("message")
    assert message is not None
    assert len(message) == len(text)
    for told, meant in zip(message, text, strict=True):
        # Of the characters from the blank on, XML forbids surrogates and two others.
        forbidden = meant < " " or "\ud800" <= meant <= "\udfff" or meant in "\ufffe\uffff"
        assert told == (" " if forbidden else meant)


@pytest.mark.parametrize(("kind", "counter"), [("error", "errors"), ("skipped", "skipped")])
def test_a_gate_that_compared_nothing_is_one_case(kind: str, counter: str) -> None:
    suite = ET.fromstring(junit_of_nothing("b.json", 'no "<file>" & why', kind))
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "1", "failures": "0", "errors": "0", "skipped": "0"} | {
        counter: "1"
    }
    assert suite.get("name") == "ope-bench gate: b.json"
    (case,) = suite.findall("testcase")
    assert case[0].get("message") == 'no "<file>" & why'
