from dataclasses import replace

import pytest

from ope_bench.gate import baseline as pairing
from ope_bench.gate.baseline import identity_of
from ope_bench.gate.session import run_gate
from ope_bench.gate.verdict import Verdict
from ope_bench.plugins.spec import PluginSpec
from ope_bench.trials.status import Status
from support.gate_bench import FakeBench, unchanged


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
    from ope_bench.base.errors import PluginError

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


@pytest.fixture
def defaults(monkeypatch):
    """Plugins resolve as classes with these defaults would: given parameters over them."""
    today = {}

    def resolve(kind, reference, params, *, label=""):
        params = {name: value for name, value in params.items() if name != "worlds"}
        return PluginSpec(kind, reference, reference, today[reference] | params, version=1)

    monkeypatch.setattr(pairing, "resolve", resolve)
    return today


def answering(baseline, factor):
    """The baseline's records for whatever is asked now, errors scaled as the trial says."""
    known = {one.trial.replicate: one for one in baseline.records}

    def answer(trial):
        found = known[trial.replicate]
        return replace(found, trial=trial, estimate=1 + factor(trial) * (found.estimate - 1))

    return answer


def test_an_estimator_whose_default_changed_is_told_and_judged(baseline, normal_row, defaults):
    then = {"tau": 10.0, "folds": 5}
    rows = normal_row("switch", replicates=30, params=then)
    identity = identity_of(rows[0].trial.estimator)
    defaults |= {"toy": {"n": 10}, "switch": {"tau": 0.5, "folds": 2}}
    told = "switch: default tau 10.0 -> 0.5"

    # The suite sets the number of folds alone.
    noted = baseline(rows, given={identity: ("folds",)})
    asked = []

    def factor(trial):
        asked.append(trial.estimator.params)
        return 1.5

    report = run_gate(noted, FakeBench(answering(noted, factor)))
    assert asked[0] == {"tau": 0.5, "folds": 5}
    (found,) = report.judgements
    assert (found.verdict, found.reason, report.exit_code()[0]) == (Verdict.WORSE, told, 1)
    harmless = run_gate(noted, FakeBench(answering(noted, lambda trial: 1.0)))
    assert harmless.exit_code()[0] == 0
    assert harmless.notices == (told,)
    # A baseline that does not note what the suite sets keeps all parameters.
    asked.clear()
    silent = baseline(rows)
    run_gate(silent, FakeBench(answering(silent, factor)))
    assert asked[0] == then


def test_an_environment_keeps_its_parameters_and_a_changed_default_is_told(
    baseline, normal_row, defaults
):
    rows = normal_row(replicates=30)
    defaults |= {"toy": {"n": 99}, "ipw": {}}
    given = baseline(rows, given={identity_of(rows[0].trial.environment): ()})
    bench = FakeBench(unchanged(given))
    report = run_gate(given, bench)
    assert report.verdicts == {Verdict.SAME: 1}
    (notice,) = report.notices
    assert notice.startswith("toy: default n 10 -> 99; the row keeps the baseline's")


def test_a_parameter_that_is_gone_is_told_unless_the_suite_sets_it(baseline, normal_row, defaults):
    rows = normal_row(replicates=30, params={"old": 3})
    identity = identity_of(rows[0].trial.estimator)
    defaults |= {"toy": {"n": 10}, "ipw": {}}
    given = baseline(rows, given={identity: ()})
    report = run_gate(given, FakeBench(answering(given, lambda trial: 1.0)))
    assert report.notices == ("ipw has no parameter old any more (was 3)",)


def test_an_accepted_default_keeps_following_the_class(baseline, normal_row, defaults):
    rows = normal_row("switch", replicates=5, params={"tau": 10.0, "folds": 5})
    defaults |= {"toy": {"n": 10}, "switch": {"tau": 0.5, "folds": 2}}
    noted = baseline(rows, given={identity_of(rows[0].trial.estimator): ("folds",)})
    paired = pairing.paired_rows(noted)
    now = paired[0].pairs[0].trial.estimator
    assert pairing.map_given_parameters(noted, paired) == {identity_of(now): ("folds",)}


def test_a_gate_says_how_many_of_its_trials_ran(baseline, normal_row):
    given = baseline(normal_row(replicates=60), replicates=6)
    same = unchanged(given)

    def answer(trial):
        found = same(trial)
        return replace(found, estimate=1 + 1.35 * (found.estimate - 1))

    bench = FakeBench(answer)
    bench.reused = 2
    report = run_gate(given, bench)
    assert (report.asked, report.executed, report.reused) == (6, 4, 2)
    assert report.trials_run == "4 of 6 trials run, 2 reused"
    ran = iter(range(60))
    short = run_gate(given, FakeBench(lambda trial: same(trial) if next(ran) < 4 else None))
    assert short.trials_run == "4 of 6 trials run"


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


def test_trials_on_the_same_data_run_together(baseline, normal_row):
    given = baseline(normal_row(replicates=3), normal_row("dm", replicates=3, stream=1))
    seen = []
    same = unchanged(given)

    def answer(trial):
        seen.append(trial.data_key)
        return same(trial)

    run_gate(given, FakeBench(answer))
    assert seen == sorted(seen, key=seen.index)
    assert len({*seen}) == 3
