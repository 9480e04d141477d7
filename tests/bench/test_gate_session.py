import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from ope_bench.baseline import Baseline, SuiteFacts
from ope_bench.gate import pairing
from ope_bench.gate.judging import Verdict
from ope_bench.gate.session import Options, run_gate
from ope_bench.records import Status
from ope_bench.report import verdicts
from ope_bench.report.junit import junit


class FakeBench:
    """Answers trials by a function of them; counts what it is asked."""

    def __init__(self, answer, alone=None, mismatch="another machine"):
        self.answer, self.answer_alone, self.mismatch = answer, alone or answer, mismatch
        self.asked, self.limits = [], []

    def run(self, trials):
        self.asked.append(len(trials))
        return [found for trial in trials if (found := self.answer(trial)) is not None]

    def alone(self, trials, *, limits=1.0):
        self.limits.append(limits)
        return [self.answer_alone(trial) for trial in trials]

    def machine_mismatch(self):
        return self.mismatch


@pytest.fixture(autouse=True)
def toys_resolve(monkeypatch):
    """The toy plugins are not installed: specs resolve to themselves, with today's changes."""
    changes = {}

    def resolve(kind, reference, params, *, label=""):
        specs, change = changes["specs"], changes.get(reference)
        if isinstance(change, Exception):
            raise change
        params = {name: value for name, value in params.items() if name != "worlds"}
        spec = next(
            one for one in specs if (one.kind, one.id, one.params) == (kind, reference, params)
        )
        return replace(spec, **(change or {}))

    monkeypatch.setattr(pairing, "resolve", resolve)
    return changes


@pytest.fixture
def baseline(normal_row, record, toys_resolve):
    def make(*rows, replicates=30):
        records = [one for row in rows for one in row]
        specs = [one.trial.environment for one in records]
        toys_resolve["specs"] = specs + [one.trial.estimator for one in records]
        return Baseline(SuiteFacts("toy", "empirical", replicates), tuple(records))

    return make


def unchanged(baseline):
    known = {one.key: one for one in baseline.records}
    return lambda trial: known[trial.key]


def test_unchanged_code_is_clean(baseline, normal_row):
    given = baseline(normal_row(replicates=30), normal_row("dm", replicates=30, stream=1))
    report = run_gate(given, FakeBench(unchanged(given)))
    assert report.exit_code() == (0, "no regression in 2 rows")
    assert report.verdicts == {Verdict.SAME: 2}


def test_a_regression_closes_the_gate(baseline, normal_row):
    given = baseline(normal_row(replicates=30), normal_row("dm", replicates=30, stream=1))
    same = unchanged(given)

    def answer(trial):
        found = same(trial)
        if trial.estimator.id == "dm":
            found = replace(found, estimate=1 + 1.5 * (found.estimate - 1))
        return found

    report = run_gate(given, FakeBench(answer))
    assert report.exit_code()[0] == 1
    assert report.verdicts == {Verdict.SAME: 1, Verdict.WORSE: 1}


@pytest.mark.parametrize("ran", [0, 1, 59])
def test_a_gate_that_ran_less_than_planned_is_never_green(baseline, normal_row, ran):
    given = baseline(normal_row(replicates=30), normal_row("dm", replicates=30, stream=1))
    same, left = unchanged(given), [ran]

    def answer(trial):
        left[0] -= 1
        return same(trial) if left[0] >= 0 else None

    assert run_gate(given, FakeBench(answer)).exit_code()[0] == 4


def test_an_empty_baseline_is_never_green(baseline):
    assert run_gate(baseline(), FakeBench(None)).exit_code()[0] == 4


def test_a_removed_estimator_is_never_green(baseline, normal_row, toys_resolve):
    from ope_bench.errors import PluginError

    given = baseline(normal_row(replicates=30), normal_row("gone", replicates=30))
    toys_resolve["gone"] = PluginError("unknown estimator 'gone'")
    report = run_gate(given, FakeBench(unchanged(given)))
    assert report.exit_code()[0] == 4
    assert report.judgements[1].reason == "unknown estimator 'gone'"


def test_a_new_parameter_with_a_default_loses_no_row(baseline, normal_row, toys_resolve):
    given = baseline(normal_row(replicates=30))
    toys_resolve["ipw"] = {"params": {"clip": None}}
    by_replicate = {one.trial.replicate: one for one in given.records}
    bench = FakeBench(lambda trial: replace(by_replicate[trial.replicate], trial=trial))
    report = run_gate(given, bench)
    assert report.exit_code()[0] == 0
    assert report.judgements[0].reason == "ipw has a new parameter clip=None"


def test_a_new_version_of_an_environment_is_said_and_not_run(baseline, normal_row, toys_resolve):
    given = baseline(normal_row(replicates=30))
    toys_resolve["toy"] = {"version": 2}
    bench = FakeBench(unchanged(given))
    report = run_gate(given, bench)
    assert bench.asked == [0]
    assert report.judgements[0].verdict is Verdict.INCOMPARABLE
    assert report.exit_code()[0] == 4


def test_a_new_timeout_gets_a_second_chance_alone_with_doubled_limits(baseline, normal_row):
    given = baseline(normal_row(replicates=30))
    same = unchanged(given)

    def answer(trial):
        if trial.replicate == 3:
            return replace(same(trial), status=Status.TIMEOUT, estimate=None)
        return same(trial)

    saved = FakeBench(answer, alone=same)
    report = run_gate(given, saved)
    assert saved.limits == [2.0]
    assert report.exit_code()[0] == 0
    assert "alone with doubled limits" in report.notices[0]
    assert run_gate(given, FakeBench(answer)).exit_code()[0] == 1


def test_extension_takes_replicates_from_the_reserve(baseline, normal_row):
    # No test of 6 pairs can reach p = .005, whatever they say.
    given = baseline(normal_row(replicates=60), replicates=6)
    same = unchanged(given)

    def answer(trial):
        found = same(trial)
        return replace(found, estimate=1 + 1.35 * (found.estimate - 1))

    assert run_gate(given, FakeBench(answer)).judgements[0].verdict is Verdict.UNDECIDED
    bench = FakeBench(answer)
    report = run_gate(given, bench, Options(extend=50))
    assert bench.asked == [6, 50]
    assert (report.judgements[0].n, report.judgements[0].verdict) == (56, Verdict.WORSE)
    few = run_gate(given, FakeBench(answer), Options(extend=100))
    assert "54 replicates in reserve of the 100" in few.notices[0]


@pytest.mark.parametrize(("factor", "verdict", "code"), [(1, "alike", 0), (4, "worse", 1)])
def test_on_fresh_data_nothing_is_paired(baseline, normal_row, factor, verdict, code):
    given = baseline(normal_row(replicates=30))
    others = {one.trial.replicate: one for one in normal_row(scale=0.1 * factor, stream=7)}
    bench = FakeBench(lambda trial: replace(others[trial.replicate], trial=trial), mismatch="")
    report = run_gate(given, bench, Options(seed=5))
    (found,) = report.judgements
    assert (found.verdict, report.exit_code()[0]) == (verdict, code)
    assert (found.changed, found.improved) == (0, None)
    assert "nothing is paired" in report.notices[0]
    # Times of other data compare nothing either, and gating on them is not green.
    assert report.exit_code(gate_time=True)[0] == (4 if code == 0 else code)
    # The order of the replicates says nothing.
    last = {29 - replicate: one for replicate, one in others.items()}
    bench = FakeBench(lambda trial: replace(last[trial.replicate], trial=trial))
    (turned,) = run_gate(given, bench, Options(seed=5)).judgements
    assert turned.ratio == pytest.approx(found.ratio)
    assert turned.standard_error == pytest.approx(found.standard_error)


def test_one_fixed_world_compares_nothing_on_another_seed(baseline, normal_row, toys_resolve):
    def fixed(one):
        world = replace(one.trial.environment, worlds="fixed")
        return replace(one, trial=replace(one.trial, environment=world))

    given = baseline([fixed(one) for one in normal_row(replicates=30)])
    report = run_gate(given, FakeBench(unchanged(given)), Options(seed=5))
    assert report.judgements[0].verdict is Verdict.INCOMPARABLE
    assert "its one world is drawn anew for seed 5" in report.judgements[0].reason
    assert run_gate(given, FakeBench(unchanged(given))).exit_code()[0] == 0


def test_on_fresh_data_a_row_with_a_larger_error_may_be_extended(baseline, normal_row):
    given = baseline(normal_row(replicates=60), replicates=10)
    others = {one.trial.replicate: one for one in normal_row(scale=0.13, stream=7)}
    bench = FakeBench(lambda trial: replace(others[trial.replicate], trial=trial))
    report = run_gate(given, bench, Options(seed=5, extend=50))
    assert bench.asked == [10, 50]
    assert report.judgements[0].n == 60


def test_trials_on_the_same_data_run_together(baseline, normal_row):
    given = baseline(normal_row(replicates=3), normal_row("dm", replicates=3, stream=1))
    seen = []
    same = unchanged(given)
    run_gate(given, FakeBench(lambda trial: seen.append(trial.data_key) or same(trial)))
    assert seen == sorted(seen, key=seen.index)
    assert len({*seen}) == 3


class TestTimes:
    @pytest.fixture
    def timed(self, baseline, record):
        def row(name, seconds):
            facts = {"exclusive": True, "fit_seconds": seconds, "estimate_seconds": 0.0}
            return [record(name, r, 0.1 * r, **facts) for r in range(5)]

        return baseline(row("fast", 0.1), row("slow", 1.0), replicates=5)

    def measured(self, baseline, factor):
        same = unchanged(baseline)

        def alone(trial):
            found = same(trial)
            return replace(found, fit_seconds=found.fit_seconds * factor(trial))

        return FakeBench(same, alone=alone, mismatch="")

    def test_equal_seconds_are_not_slower(self, timed):
        report = run_gate(timed, self.measured(timed, lambda trial: 1.05))
        assert len(report.times.rows) == 2
        assert not report.times.slower

    def test_slower_is_advisory_unless_gated(self, timed):
        bench = self.measured(timed, lambda trial: 2.0 if trial.estimator.id == "slow" else 1.0)
        report = run_gate(timed, bench)
        assert [one.slower for one in report.times.rows] == [False, True]
        assert report.exit_code()[0] == 0
        assert report.exit_code(gate_time=True)[0] == 1

    def test_a_slow_spell_that_passes_is_not_confirmed(self, timed):
        calls = []

        def factor(trial):
            calls.append(trial)
            return 2.0 if len(calls) <= 20 else 1.0

        report = run_gate(timed, self.measured(timed, factor))
        assert not report.times.slower

    def test_other_machines_are_not_compared_and_gating_on_them_is_not_green(self, timed):
        report = run_gate(timed, FakeBench(unchanged(timed)))
        assert report.times.notice == "another machine"
        assert report.exit_code()[0] == 0
        assert report.exit_code(gate_time=True)[0] == 4


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
        text = verdicts.markdown_table(report.judgements, "gate")
        assert "| `-` | toy / dm |" in text

    def test_json_is_plain(self, report):
        names = verdicts.row_names(report.judgements)
        for name, one in zip(names, report.judgements, strict=True):
            told = verdicts.judgement_json(name, one)
            assert json.dumps(told, allow_nan=False)
            assert told["mark"] in "=~+-!x"
