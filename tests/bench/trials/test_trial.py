"""One trial: whatever a plugin does becomes a status, and nothing of it stays behind."""
# ruff: noqa: NPY002  the global state is what these plugins misuse

import errno
import math
import os
import random
import sys
import warnings
from typing import Any

import numpy as np
import pytest

from ope_bench import (
    Access,
    Environment,
    Estimate,
    Estimator,
    PositivityViolation,
    UnavailableError,
    evaluate,
)
from ope_bench.base.errors import AccessError, ParameterError, UsageError
from ope_bench.plugins import requirements as shortage
from ope_bench.testing.problems import Given
from ope_bench.trials.isolation import TAIL_CHARACTERS, isolated


class Mean(Estimator):
    def estimate(self, view):
        return Estimate(float(view.reward.mean()))


def outcome(body, *, access=Access.SAMPLES, **attributes):
    """The record of one trial of an estimator with this ``estimate``."""
    members = {"estimate": lambda self, view: body(view), "access": access, **attributes}
    [record] = evaluate(type("Odd", (Mean,), members)(), Given(n_samples=40), replicates=1)
    return record


def raising(exc):
    def body(view):
        raise exc

    return body


def chained(exc, cause):
    exc.__cause__ = cause
    return exc


def unreadable():
    """An exception whose class has no name that can be read, and whose message cannot be read."""

    def refuse(_):
        msg = "no name"
        raise RuntimeError(msg)

    nameless = type("Nameless", (type,), {"__name__": property(refuse)})
    return nameless("UnreadableError", (Exception,), {"__str__": refuse})()


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (lambda view: Estimate(1.0), "ok", None),
        (lambda view: Estimate(np.nan), "nonfinite", "the estimate is nan"),
        (lambda view: Estimate(-np.inf), "nonfinite", "the estimate is -inf"),
        (raising(PositivityViolation("no support")), "positivity", "no support"),
        (raising(ValueError("oops")), "error", "oops"),
        (raising(MemoryError()), "memory", ""),
        (raising(RuntimeError("std::bad_alloc")), "memory", "bad_alloc"),
        (raising(OSError(errno.ENOMEM, "no")), "memory", "no"),
        (raising(chained(ImportError("numpy"), MemoryError())), "memory", "numpy"),
        (raising(ValueError("a MemoryError, it seems")), "error", "a MemoryError"),
        (raising(SystemExit(0)), "crash", "0"),
        (
            raising(type("Ends", (Exception,), {"__str__": raising(SystemExit(3))})()),
            "error",
            "(its message cannot be read: SystemExit)",
        ),
        (
            lambda view: raising(unreadable())(view),
            "error",
            "(its message cannot be read: RuntimeError)",
        ),
        (raising(type("X" * 10**6, (Exception,), {})("long")), "error", "long"),
        (lambda view: Estimate(1.0, diagnostics={"a": "x" * 10**6}), "error", "diagnostics have"),
        (lambda view: 1.0, "error", "estimate returned float; expected ope_bench.Estimate"),
        (lambda view: Estimate(1.0, None, np.ones(3)), "error", "weights has 3 rows; expected 40"),
        (lambda view: Estimate(1.0, terms=np.ones(3)), "error", "terms has 3 rows; expected 40"),
        (
            lambda view: Estimate(1.0, target_weights=np.ones(3)),
            "error",
            "target_weights has 3 rows; expected 40, the target sample's",
        ),
        (
            lambda view: raising(PositivityViolation("no", unsupported_mass="many"))(view),  # type: ignore[arg-type]
            "error",
            "unsupported_mass of a PositivityViolation is str; expected a number",
        ),
        (lambda view: Estimate("1"), "error", "value is str; expected one real number"),
        (lambda view: view.no_such_thing, "error", "no attribute 'no_such_thing'"),
    ],
)
def test_whatever_happens_becomes_a_status(body, status, message):
    record = outcome(body)
    assert record.status == status
    assert (record.estimate is None) == (status != "ok")
    if message is None:
        assert record.error_message is None
    else:
        assert message in record.error_message


def test_a_violation_keeps_its_mass_and_fallback():
    told = PositivityViolation("no support", unsupported_mass=0.25, fallback=1.5)
    record = outcome(raising(told))
    assert record.fallback == 1.5
    assert record.diagnostics == {"missing_mass": 0.25}
    assert record.estimate is None


def test_a_missing_module_is_unavailable_with_the_pip_line():
    record = outcome(lambda view: Estimate(1.0), requires=("a_module_that_nobody_has",))
    assert record.status == "unavailable"
    assert "pip install a_module_that_nobody_has" in record.error_message


@pytest.mark.parametrize(
    ("code", "limit", "status"),
    [
        ("raise MemoryError", math.inf, "memory"),
        ("raise OSError(12, 'Cannot allocate memory')", math.inf, "memory"),
        ("raise ImportError('x.so: cannot map zero-fill pages')", 1e8, "memory"),
        ("raise ImportError('x.so: failed to map segment')", math.inf, "unavailable"),
        ("raise ImportError('cannot allocate memory in static TLS block')", 1e8, "unavailable"),
        ("raise ValueError('built for another version')", 1e8, "unavailable"),
    ],
)
def test_an_import_that_memory_cut_short_is_no_missing_module(
    code, limit, status, tmp_path, monkeypatch
):
    (tmp_path / "a_large_library.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(shortage, "limited_bytes", lambda: limit)
    record = outcome(lambda view: Estimate(1.0), requires=("a_large_library",))
    assert (record.status, "a_large_library" in record.error_message) == (status, True)


def test_ctrl_c_is_not_an_outcome():
    with pytest.raises(KeyboardInterrupt):
        outcome(raising(KeyboardInterrupt()))


# Honest about cheating: what is stopped, and what is at least flagged.


def peeking(view):
    try:
        return Estimate(float((view.propensity * view.reward).mean()))
    except AccessError:
        return Estimate(float(view.reward.mean()))


def test_undeclared_access_is_an_error_even_if_the_exception_is_swallowed():
    record = outcome(peeking)
    assert record.status == "error"
    assert record.error_type == "AccessError"
    assert record.error_message == "read undeclared view.propensity"
    assert record.estimate is None


def test_undeclared_access_by_hasattr_is_an_error_too():
    record = outcome(lambda view: Estimate(float(hasattr(view, "target_policy"))))
    assert record.status == "error"


def test_declared_access_is_shown():
    record = outcome(peeking, access=Access.PROPENSITY)
    assert record.status == "ok"
    assert record.access == ("propensity",)


def test_writing_into_the_data_is_refused():
    def body(view):
        view.reward[:] = 0.0
        return Estimate(0.0)

    record = outcome(body)
    assert record.status == "error"
    assert "read-only" in record.error_message


def test_data_made_writeable_by_force_are_an_error():
    def body(view):
        view.context.flags.writeable = True
        return Estimate(0.0)

    record = outcome(body)
    assert record.status == "error"


def test_the_view_leads_to_no_truth_and_no_problem():
    """Attributes, containers and closures reachable from the view, but frames and modules."""
    import gc
    import types

    from ope_bench import Problem, Truth

    found = []

    def body(view):
        waiting, seen = [view], set()
        while waiting:
            one = waiting.pop()
            if id(one) in seen or isinstance(one, type | types.ModuleType | types.FrameType):
                continue
            if isinstance(one, types.FunctionType | types.BuiltinFunctionType):
                continue
            seen.add(id(one))
            found.append(type(one))
            waiting += gc.get_referents(one)
        return Estimate(0.0)

    assert outcome(body).status == "ok"
    assert len(found) > 20
    assert Truth not in found
    assert Problem not in found


# What a plugin may not leave behind.


def test_global_random_states_are_seeded_for_the_trial_and_restored():
    def draw(view):
        return Estimate(random.random() + np.random.random())

    random.seed(5)
    np.random.seed(5)

    def states():
        return random.getstate(), np.random.get_state(legacy=False)["state"]["key"].tolist()

    before = states()
    first = outcome(draw).estimate
    assert (
        random.getstate(),
        np.random.get_state(legacy=False)["state"]["key"].tolist(),
    ) == before
    random.seed(99)
    np.random.seed(99)
    assert outcome(draw).estimate == first


def test_random_states_are_after_an_evaluation_as_before_it():
    class Drawing(Mean):
        def estimate(self, view):
            return Estimate(random.random() + np.random.normal())

    random.seed(5)
    np.random.seed(5)
    expected = [np.random.normal() for _ in range(3)], random.random()
    random.seed(5)
    np.random.seed(5)
    # Normal numbers are drawn in pairs, the second of which is part of the state.
    drawn = [np.random.normal()]
    evaluate(Drawing(), "saito-toy", replicates=2)
    drawn += [np.random.normal() for _ in range(2)]
    assert (drawn, random.random()) == expected


def test_errors_of_numpy_and_filters_of_warnings_are_after_a_trial_as_before_it():
    def body(view):
        np.seterr(all="raise")
        warnings.simplefilter("ignore")
        return Estimate(0.0)

    before = np.geterr(), list(warnings.filters)
    record = outcome(body)
    assert (record.status, record.note) == ("ok", None)
    assert (np.geterr(), list(warnings.filters)) == before


def test_settings_that_a_trial_changes_are_named_and_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPE_A", "1")

    class Changing(Mean):
        def estimate(self, view):
            os.chdir("/")
            os.environ["OPE_A"] = "2"
            return super().estimate(view)

    records = evaluate([Changing(), Mean()], Given(n_samples=40), replicates=1)
    assert [record.note for record in records] == [
        "changed environment variables (OPE_A), the working directory",
        None,
    ]
    assert (os.getcwd(), os.environ["OPE_A"]) == ("/", "2")


def test_variables_that_libraries_set_at_their_import_are_no_change(monkeypatch):
    monkeypatch.setenv("KMP_OPE", "1")

    def body(view):
        os.environ["KMP_OPE"] = "2"
        return Estimate(0.0)

    assert outcome(body).note is None


def test_the_callers_kind_of_global_generator_is_given_back():
    def body(view):
        generators.set_bit_generator(np.random.PCG64(1))
        return Estimate(0.0)

    generators: Any = np.random
    generator, state = generators.get_bit_generator(), generators.get_state()[1].tolist()
    assert outcome(body).note == "changed the kind of NumPy's global generator"
    assert generators.get_bit_generator() is generator
    assert generators.get_state()[1].tolist() == state


def test_output_is_kept_with_the_record_and_only_its_end(capsys):
    def body(view):
        print("x" * 10_000)
        print("the end")
        print("a complaint", file=sys.stderr)
        return Estimate(0.0)

    record = outcome(body)
    assert record.output_tail.endswith("the end\na complaint\n")
    assert len(record.output_tail) == TAIL_CHARACTERS
    assert capsys.readouterr() == ("", "")


def test_torch_draws_the_same_whether_or_not_it_can_be_asked_for_devices(monkeypatch):
    torch = pytest.importorskip("torch")

    def drawn():
        with isolated(7):
            return torch.rand(3).tolist()

    torch.manual_seed(7)
    expected = torch.rand(3).tolist()
    assert drawn() == expected
    # As before torch 2.6.
    monkeypatch.delattr(torch, "accelerator", raising=False)
    assert drawn() == expected


def test_silence_is_none():
    with isolated(0) as tail:
        pass
    assert tail.text() is None
    assert outcome(lambda view: Estimate(0.0)).output_tail is None


# evaluate


def test_evaluate_gives_a_row_for_every_pair_and_replicate():
    worlds = [Given(n_samples=40), Given("random embeddings")]
    rows = evaluate(["ipw", Mean()], worlds, replicates=3)
    assert len(rows) == 12
    assert {row.trial.estimator.id for row in rows} == {"ipw", "mean"}
    assert {row.trial.replicate for row in rows} == {0, 1, 2}
    assert all(row.status == "ok" and row.fit_seconds >= 0 for row in rows)


def test_evaluate_does_not_depend_on_company_or_order():
    alone = evaluate("ipw", "gaussian", replicates=2)
    both = evaluate(["dm", "ipw"], ["linear-gaussian", "gaussian"], replicates=2)
    among = [
        row
        for row in both
        if (row.trial.estimator.id, row.trial.environment.id) == ("ipw", "gaussian")
    ]
    assert [row.estimate for row in among] == [row.estimate for row in alone]
    assert [row.key for row in among] == [row.key for row in alone]


def test_evaluate_reports_seconds_and_facts_of_the_problem():
    [row] = evaluate("ipw", Given("an action never logged"), replicates=1)
    assert row.unsupported_mass == pytest.approx(0.6)
    assert 0.4 < row.observed_unsupported_mass < 0.8
    assert (row.n_logged_actions, row.n_target_actions) == (3, 4)
    assert 0 < row.ess_fraction <= 1
    assert row.peak_rss_bytes is None or row.peak_rss_bytes > 10**6


def test_evaluate_refuses_what_nobody_knows():
    with pytest.raises(UsageError, match="did you mean 'ipw'"):
        evaluate("ipv", "gaussian")
    with pytest.raises(ParameterError):
        evaluate(type("Wide", (Mean,), {"__init__": lambda self, *a: None})(), "gaussian")


def test_an_environment_that_has_no_such_data_is_asked_once_for_each_data_set():
    asked = []

    class Missing(Environment):
        def sample(self, *, world_rng, logged_rng, target_rng):
            asked.append(int(logged_rng.integers(2**31)))
            msg = "too few rows are left"
            raise UnavailableError(msg)

    many = [type(name, (Mean,), {})() for name in ("First", "Second", "Third")]
    records = evaluate(many, Missing(), replicates=2)
    assert {(one.status, one.error_message) for one in records} == {
        ("unavailable", "too few rows are left")
    }
    assert len(records) == 6
    assert len(asked) == len(set(asked)) == 2
