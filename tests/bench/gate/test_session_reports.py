import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ope_bench.gate import verdict_tables
from ope_bench.gate.session import run_gate
from ope_bench.gate.verdict import Verdict
from ope_bench.gate.verdict_tables import junit, junit_of_nothing
from ope_bench.trials.status import Status
from support.gate_bench import FakeBench, unchanged


class TestReports:
    @pytest.fixture
    def report(self, baseline, normal_row, record):
        odd = [record("odd<&>|name", r, 0.1) for r in range(30)]
        given = baseline(normal_row(replicates=30), normal_row("dm", replicates=30), odd)
        same = unchanged(given)

        def answer(trial):
            found = same(trial)
            if trial.estimator.id == "dm":
                return replace(found, estimate=1 + 1.5 * (found.estimate - 1))
            if trial.estimator.id == "odd<&>|name" and trial.replicate == 2:
                return replace(found, status=Status.ERROR, estimate=None, error_type="A\nB")
            return found

        return run_gate(given, FakeBench(answer))

    def test_text_shows_what_changed_within_80_columns(self, report):
        text = verdict_tables.text_table(report.judgements)
        assert max(map(len, text.splitlines())) <= 80
        assert "- toy / dm" in text
        assert "x toy / odd" in text
        assert "1 failed, 1 worse, 1 same" in text

    def test_junit_is_xml_with_a_failure_for_each_bad_row(self, report):
        suite = ET.fromstring(junit(report, "toy", report.exit_code()))
        assert suite.get("tests") == "3"
        assert suite.get("failures") == "2"
        assert len(suite.findall("testcase/failure")) == 2

    def test_junit_of_an_incomplete_gate_fails(self, baseline):
        empty = run_gate(baseline(), FakeBench(None))
        suite = ET.fromstring(junit(empty, "toy", empty.exit_code()))
        assert suite.get("failures") == "1"

    def test_what_closes_the_gate_is_in_every_form(self, report):
        other = (4, "no row could be compared; accept a new baseline")
        clean = replace(report, judgements=report.judgements[:1])
        (case,) = ET.fromstring(junit(clean, "toy", other)).findall("testcase/failure")
        assert case.get("message") == other[1]
        lines = verdict_tables.github_lines(clean, "ci.json", other)
        assert "::error title=ope-bench gate::no row" in lines

    def test_github_annotations_are_one_line_each(self, report):
        lines = verdict_tables.github_lines(report, "ci.json", report.exit_code()).splitlines()
        assert len([line for line in lines if line.startswith("::error")]) == 2
        assert all(line.startswith("::") for line in lines)

    def test_github_names_every_row_that_changed(self, report):
        drifted = [replace(one, verdict=Verdict.DRIFTED) for one in report.judgements[:2]]
        changed = replace(report, judgements=[*drifted, *report.judgements[2:]])
        lines = verdict_tables.github_lines(changed, "ci.json", (0, "")).splitlines()
        notices = [one for one in lines if one.startswith("::notice file=ci.json")]
        assert sum("drifted" in one for one in notices) == 2

    def test_markdown_is_a_table(self, report):
        text = verdict_tables.markdown_table(
            report.judgements, "gate", trials_run=report.trials_run
        )
        assert "| `-` | toy / dm |" in text
        assert "1 same**; 90 of 90 trials run\n" in text

    def test_every_form_says_which_way_found_a_row_worse_and_how_much_ran(self, report):
        way = "by mean square and typical error (x1.50); p "
        (worse,) = [one for one in report.judgements if one.verdict is Verdict.WORSE]
        assert way in " ".join(verdict_tables.text_table([worse]).split())
        assert way in verdict_tables.markdown_table([worse], "gate")
        suite = ET.fromstring(junit(report, "toy", report.exit_code()))
        messages = [one.get("message") for one in suite.findall("testcase/failure")]
        assert any(way in message for message in messages)
        assert suite.findtext("system-out") == "90 of 90 trials run"
        lines = verdict_tables.github_lines(report, "ci.json", report.exit_code())
        assert way in lines
        assert "::notice title=ope-bench gate::90 of 90 trials run\n" in lines
        reused = verdict_tables.github_lines(
            replace(report, executed=0, reused=90), "ci.json", report.exit_code()
        )
        assert "::warning title=ope-bench gate::0 of 90 trials run, 90 reused\n" in reused
        told = verdict_tables.judgement_json("toy / dm", worse)
        assert json.loads(json.dumps(told["found_by"])) == ["mean square", "typical error"]
        assert told["p"] == min(told["p_mean_square"], told["p_typical"])

    def test_an_undecided_row_is_no_skipped_case_and_its_name_shows_it(self, report):
        (worse,) = [one for one in report.judgements if one.verdict is Verdict.WORSE]
        one = replace(worse, verdict=Verdict.UNDECIDED)
        suite = ET.fromstring(junit(replace(report, judgements=(one,)), "toy", (0, "")))
        assert (suite.get("skipped"), suite.get("failures")) == ("0", "0")
        (case,) = suite.findall("testcase")
        assert case.get("name").endswith("(undecided)")
        assert f"x{one.ratio_low:.3g} to x{one.ratio_high:.3g}" in case.findtext("system-err")

    def test_the_verdict_has_four_lines_with_the_next_command(self, report):
        by_verdict = {one.verdict: one for one in report.judgements}
        failed, worse = by_verdict[Verdict.FAILED], by_verdict[Verdict.WORSE]
        rows = (worse, replace(worse, verdict=Verdict.UNDECIDED))
        shown = replace(report, judgements=rows)
        lines = verdict_tables.verdict_lines(shown, shown.exit_code(), "b.json", "")
        assert len(lines) == 4
        assert "exit code 1" in lines[0]
        assert "toy / dm" in lines[1]
        assert "toy / dm" in lines[2]
        assert "ope-bench baseline accept b.json --reason" in lines[3]
        (trial,) = [p.trial for p in failed.row.pairs if p.after.status is Status.ERROR]
        shown = replace(report, judgements=(failed,))
        lines = verdict_tables.verdict_lines(shown, shown.exit_code(), "b.json", " --store s")
        assert f"ope-bench rerun {trial.key[:12]} --store s" in lines[-1]

    def test_json_is_plain(self, report):
        names = verdict_tables.row_names(report.judgements)
        for name, one in zip(names, report.judgements, strict=True):
            told = verdict_tables.judgement_json(name, one)
            assert json.dumps(told, allow_nan=False)
            assert told["mark"] in "=~+-!x"


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


@pytest.mark.parametrize(("detectable", "words"), [(None, "too few replicates"), (0.5, "1.5")])
def test_an_undecided_row_says_what_it_could_have_shown(detectable, words, normal_row):
    from ope_bench.gate.baseline import Baseline, SuiteFacts, paired_rows
    from ope_bench.gate.verdict import Judgement, Verdict
    from ope_bench.gate.verdict_tables import detail

    rows = normal_row("ipw", replicates=20, n=500)
    (row,) = paired_rows(Baseline(SuiteFacts("ci", "empirical", 20), tuple(rows)))
    judged = Judgement(row, Verdict.UNDECIDED, ratio=1.1, detectable=detectable)
    assert "may be chance" in detail(judged)
    assert words in detail(judged)
    assert "may be chance" not in detail(Judgement(row, Verdict.SAME, ratio=1.0))
