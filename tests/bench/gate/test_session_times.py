from dataclasses import replace

import pytest

from ope_bench.gate.session import run_gate
from support.gate_bench import FakeBench, unchanged


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
