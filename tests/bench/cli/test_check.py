"""`ope-bench check`."""

import importlib
import json
from pathlib import Path

import pytest

from ope_bench.cli.app import invoke

# The package has functions of these names.
environment_checks, estimator_checks = (
    importlib.import_module(f"ope_bench.testing.{kind}_checks")
    for kind in ("environment", "estimator")
)

PLUGIN = '''
from ope_bench import Access, Estimate, Estimator, UnavailableError


class Good(Estimator):
    """The mean.

        V = mean(r)

    Assumptions: none. Fails when: it must.

    On means (Anon, 1900).
    """

    def estimate(self, view):
        print("a word to the terminal")
        return Estimate(float(view.reward.mean()))


class Quarter(Good):
    """A quarter of the mean.

        V = mean(r) / 4

    Assumptions: none. Fails when: it must.

    On means (Anon, 1900).
    """

    def estimate(self, view):
        return Estimate(float(view.reward.mean()) / 4)


class Nowhere(Good):
    """Unavailable.

        V = mean(r)

    Assumptions: none. Fails when: it must.

    On means (Anon, 1900).
    """

    def fit(self, view, *, rng, device):
        msg = "needs a blue moon"
        raise UnavailableError(msg)
'''


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(PLUGIN)
    return path


@pytest.fixture
def here(monkeypatch):
    """Answer the check in a new process from this one: its outcome is not what the test reads."""

    def in_this_process(cls, function, *arguments):
        return function(*arguments)

    for module in (environment_checks, estimator_checks):
        monkeypatch.setattr(module, "in_fresh_process", in_this_process)


def test_an_estimator_in_a_file_passes(plugin, capsys):
    assert invoke(["check", f"{plugin}:Good"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[-1].startswith("good: 25 passed, 2 skipped")
    assert "checking estimator good (27 checks)" in err
    assert "a word to the terminal" not in out + err


def test_a_failing_check_exits_with_one_and_says_numbers_and_what_to_do(plugin, here, capsys):
    assert invoke(["check", f"{plugin}:Quarter"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "failed identical policies give the logging average" in out
    assert "the mean reward 2.0333" in out
    assert "with equal policies all weights are 1" in out


def test_nothing_to_compute_exits_with_four_and_the_reason(plugin, capsys):
    assert invoke(["check", f"{plugin}:Nowhere"]) == 4
    assert "needs a blue moon" in capsys.readouterr().err


def test_what_the_docstring_of_an_own_plugin_lacks_is_advice(plugin, here, capsys):
    Path(plugin).write_text(PLUGIN.replace("Assumptions: none. Fails when: it must.", ""))
    assert invoke(["check", f"{plugin}:Good"]) == 0
    out = capsys.readouterr().out
    assert "advice  docstring has formula assumptions and reference" in out
    assert "`Assumptions:`" in out
    assert "1 advice" in out.splitlines()[-1]


def test_json_is_one_document(plugin, here, capsys):
    assert invoke(["check", f"{plugin}:Good", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1
    assert (document["kind"], document["id"]) == ("estimator", "good")
    assert document["counts"] == {"passed": 25, "skipped": 2}
    assert {"name", "result", "message", "seconds"} <= set(document["checks"][0])


def test_verbose_shows_what_passes(plugin, here, capsys):
    invoke(["check", f"{plugin}:Good", "--verbose"])
    assert "passed  input is not changed" in capsys.readouterr().out


def test_parameters_are_passed_on(here, capsys):
    assert invoke(["check", "ipw[clip=3]"]) == 0
    assert invoke(["check", "ipw[clip=-3]"]) == 2
    assert "clip" in capsys.readouterr().err


def test_an_unknown_id_is_a_usage_error_with_the_nearest_name(capsys):
    assert invoke(["check", "saito-toi"]) == 2
    assert "did you mean 'saito-toy'?" in capsys.readouterr().err


def test_an_environment_is_recognised(capsys):
    assert invoke(["check", "gaussian"]) == 0
    assert "checking environment gaussian" in capsys.readouterr().err
