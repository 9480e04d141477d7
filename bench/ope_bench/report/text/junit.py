"""A gate as JUnit XML: what continuous integration shows test by test."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import Literal

from ope_bench.gate.session import GateReport
from ope_bench.gate.verdict import Verdict
from ope_bench.report.text.verdicts import detail, percent_change, row_names

__all__ = ["junit", "junit_of_nothing"]

_FORBIDDEN = re.compile("[^ -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""All but the characters of XML 1.0; tabs and ends of lines as well: a message is one line."""


def junit(report: GateReport, suite: str, ending: tuple[int, str]) -> str:
    """Return one test case for each row; undecided and incomparable rows are skipped ones.

    Parameters
    ----------
    report : what the gate found.
    suite : its name.
    ending : exit code and reason; a gate that closes though no row fails has a case for that.
    """
    cases = []
    for name, one in zip(row_names(report.judgements), report.judgements, strict=True):
        owner, _, method = name.partition(" / ")
        message = f"{one.verdict}: MSE {percent_change(one)}; {detail(one)}"
        cases.append(_case(owner, method, _outcome(one.verdict), message))
    code, reason = ending
    if code and not any(one.verdict.fails for one in report.judgements):
        cases.append(_case("gate", "complete", "failure", reason))
    return _suite(suite, cases, report.trials_run)


def junit_of_nothing(suite: str, reason: str, kind: Literal["error", "skipped"]) -> str:
    """Return the one test case of a gate that compared nothing."""
    return _suite(suite, [_case("gate", "complete", kind, reason)])


def _outcome(verdict: Verdict) -> str:
    """Return the element that tells a verdict."""
    if verdict.fails:
        return "failure"
    if verdict in (Verdict.UNDECIDED, Verdict.INCOMPARABLE):
        return "skipped"
    return "system-out"


def _case(owner: str, name: str, outcome: str, message: str) -> ET.Element:
    case = ET.Element("testcase", classname=_xml(owner), name=_xml(name))
    told = ET.SubElement(case, outcome)
    if outcome == "system-out":
        told.text = _xml(message)
    else:
        told.set("message", _xml(message))
    return case


def _suite(name: str, cases: list[ET.Element], told: str = "") -> str:
    def count(outcome: str) -> str:
        return str(sum(case.find(outcome) is not None for case in cases))

    suite = ET.Element(
        "testsuite",
        name=_xml(f"ope-bench gate: {name}"),
        tests=str(len(cases)),
        failures=count("failure"),
        errors=count("error"),
        skipped=count("skipped"),
    )
    suite.extend(cases)
    if told:
        ET.SubElement(suite, "system-out").text = _xml(told)
    ET.indent(suite)
    body = ET.tostring(suite, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _xml(text: str) -> str:
    """Blank the characters that XML forbids, which ElementTree would write."""
    return _FORBIDDEN.sub(" ", text)
