"""A gate as JUnit XML: what continuous integration shows test by test."""

from __future__ import annotations

from typing import Literal
from xml.sax.saxutils import escape, quoteattr

from ope_bench.gate.judging import Judgement, Verdict
from ope_bench.gate.session import GateReport
from ope_bench.report.verdicts import detail, percent_change, row_names

__all__ = ["junit", "junit_of_nothing"]


def junit(report: GateReport, suite: str, ending: tuple[int, str]) -> str:
    """A test case a row; undecided and incomparable rows are skipped ones.

    Parameters
    ----------
    report : what the gate found.
    suite : its name.
    ending : exit code and reason; a gate that closes though no row fails has a case for that.
    """
    cases = []
    for name, one in zip(row_names(report.judgements), report.judgements, strict=True):
        owner, _, method = name.partition(" / ")
        cases.append(_case(owner, method, _outcome(one)))
    code, reason = ending
    if code and not any(one.verdict.fails for one in report.judgements):
        cases.append(_case("gate", "complete", _element("failure", reason)))
    return _suite(suite, cases)


def junit_of_nothing(suite: str, reason: str, kind: Literal["error", "skipped"]) -> str:
    """The one test case of a gate that compared nothing."""
    return _suite(suite, [_case("gate", "complete", _element(kind, reason))])


def _outcome(one: Judgement) -> str:
    told = f"{one.verdict}: MSE {percent_change(one)}; {detail(one)}"
    if one.verdict.fails:
        return _element("failure", told)
    if one.verdict in (Verdict.UNDECIDED, Verdict.INCOMPARABLE):
        return _element("skipped", told)
    return f"<system-out>{escape(_xml(told))}</system-out>"


def _element(kind: str, message: str) -> str:
    return f"<{kind} message={quoteattr(_xml(message))}/>"


def _case(owner: str, name: str, body: str) -> str:
    names = f"classname={quoteattr(_xml(owner))} name={quoteattr(_xml(name))}"
    return f"  <testcase {names}>{body}</testcase>"


def _suite(name: str, cases: list[str]) -> str:
    counts = {
        "tests": len(cases),
        "failures": sum("<failure " in case for case in cases),
        "errors": sum("<error " in case for case in cases),
        "skipped": sum("<skipped " in case for case in cases),
    }
    told = " ".join(f'{word}="{count}"' for word, count in counts.items())
    title = quoteattr(_xml(f"ope-bench gate: {name}"))
    head = '<?xml version="1.0" encoding="UTF-8"?>'
    return "\n".join([head, f"<testsuite name={title} {told}>", *cases, "</testsuite>"]) + "\n"


def _xml(text: str) -> str:
    """Without the control characters that XML forbids."""
    return "".join(letter if letter >= " " else " " for letter in text)
