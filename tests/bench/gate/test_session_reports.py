import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from ope_bench.gate.session import run_gate
from ope_bench.gate.verdict import Verdict
from ope_bench.report.text import verdicts
from ope_bench.report.text.junit import junit
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
        text = verdicts.text_table(report.judgements, report.times)
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
        slower = (1, "slower (--gate-time)")
        clean = replace(report, judgements=report.judgements[:1])
        (case,) = ET.fromstring(junit(clean, "toy", slower)).findall("testcase/failure")
        assert case.get("message") == slower[1]
        assert "::error title=ope-bench gate::slower" in verdicts.github_lines(
            clean, "ci.json", slower
        )

    def test_github_annotations_are_one_line_each(self, report):
        lines = verdicts.github_lines(report, "ci.json", report.exit_code()).splitlines()
        assert len([line for line in lines if line.startswith("::error")]) == 2
        assert all(line.startswith("::") for line in lines)

    def test_markdown_is_a_table(self, report):
        text = verdicts.markdown_table(report.judgements, "gate", trials_run=report.trials_run)
        assert "| `-` | toy / dm |" in text
        assert "1 same**; 90 of 90 trials run\n" in text

    def test_every_form_says_which_way_found_a_row_worse_and_how_much_ran(self, report):
        way = "by mean square and typical error (+50.0%); p "
        (worse,) = [one for one in report.judgements if one.verdict is Verdict.WORSE]
        assert way in " ".join(verdicts.text_table([worse]).split())
        assert way in verdicts.markdown_table([worse], "gate")
        suite = ET.fromstring(junit(report, "toy", report.exit_code()))
        messages = [one.get("message") for one in suite.findall("testcase/failure")]
        assert any(way in message for message in messages)
        assert suite.findtext("system-out") == "90 of 90 trials run"
        lines = verdicts.github_lines(report, "ci.json", report.exit_code())
        assert way.replace("%", "%25") in lines
        assert "::notice title=ope-bench gate::90 of 90 trials run\n" in lines
        reused = verdicts.github_lines(
            replace(report, executed=0, reused=90), "ci.json", report.exit_code()
        )
        assert "::warning title=ope-bench gate::0 of 90 trials run, 90 reused\n" in reused
        told = verdicts.judgement_json("toy / dm", worse)
        assert json.loads(json.dumps(told["found_by"])) == ["mean square", "typical error"]
        assert told["p"] == min(told["p_mean_square"], told["p_typical"])

    def test_json_is_plain(self, report):
        names = verdicts.row_names(report.judgements)
        for name, one in zip(names, report.judgements, strict=True):
            told = verdicts.judgement_json(name, one)
            assert json.dumps(told, allow_nan=False)
            assert told["mark"] in "=~+-!x"
