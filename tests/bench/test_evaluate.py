"""`evaluate`: the same numbers in any number of processes, progress, an environment's fault."""

from __future__ import annotations

import sys
import traceback
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ope_bench import Estimate, UsageError, evaluate
from ope_bench.api import Progress
from ope_bench.trials.status import Status
from support.importable_plugins import Broken, Half

WORLD = "saito-toy[n_actions=[5,8],n_samples=60]"


def answers(results):
    return [(record.key, record.answer) for record in results]


def test_processes_change_neither_numbers_nor_order():
    def local(scale):
        """A class that other processes can import from nowhere, as one of a notebook."""

        class Scaled(Half):
            def estimate(self, view):
                return Estimate(scale * super().estimate(view).value)

        return Scaled()

    asked = ["ipw", "ipws", Half(), local(3.0)]
    alone = evaluate(asked, WORLD, replicates=3)
    together = evaluate(asked, WORLD, replicates=3, n_jobs=2)
    assert len(alone) == 2 * 3 * 4
    assert answers(alone) == answers(together)


def test_no_process_is_refused():
    with pytest.raises(UsageError, match="n_jobs = 0"):
        evaluate("ipw", WORLD, n_jobs=0)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_environment_that_cannot_be_sampled_is_told_at_once(n_jobs):
    with pytest.raises(UsageError, match="environment 'broken': no data today") as failure:
        evaluate(["ipw", "ipws"], Broken(), replicates=2, n_jobs=n_jobs)
    assert "importable_plugins.py" in str(failure.value), "with the line"


def test_progress_is_one_line_on_stderr(capsys):
    evaluate("ipw", WORLD, replicates=2, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.split("\r")[-1].startswith("4/4 trials  ok 4  ")
    evaluate("ipw", WORLD, replicates=2)
    assert capsys.readouterr().err == "", "nobody watches"


def test_a_shorter_line_of_progress_covers_a_longer_one(capsys):
    with Progress(2, True) as shown:
        shown.add(Status.POSITIVITY)
        shown._next = 0.0
        shown.add(Status.OK)
    lines = capsys.readouterr().err.rstrip("\n").split("\r")[1:]
    assert all(len(b) >= len(a.rstrip()) for a, b in pairwise(lines))
    assert "positivity 1  ok 1" in lines[-1]


def test_a_notebook_has_a_bar_and_nothing_red(capsys, monkeypatch):
    shown = []
    handle = SimpleNamespace(update=shown.append)

    def display(bar, *, display_id):
        shown.append(bar)
        return handle

    fake = SimpleNamespace(HTML=str, display=display)
    monkeypatch.setitem(sys.modules, "ipykernel", fake)
    monkeypatch.setitem(sys.modules, "IPython.display", fake)
    with Progress(2, True) as bar:
        bar.add(Status.OK)
        bar._next = 0.0
        bar.add(Status.OK)
    assert capsys.readouterr().err == ""
    assert '<progress value="1" max="2">' in shown[0]
    assert '<progress value="2" max="2">' in shown[-1]


def test_a_mistake_has_no_frames_of_ours_below_the_call():
    with pytest.raises(UsageError, match="did you mean 'ipw'") as caught:
        evaluate(["ipww"], WORLD)
    files = [Path(frame.filename) for frame in traceback.extract_tb(caught.tb)]
    assert files[0] == Path(__file__)
    assert [path.name for path in files[1:]] == ["errors.py"]
    assert caught.value.__suppress_context__


def test_estimates_are_those_of_the_rng_of_the_trial():
    (one,) = evaluate(Half(), "saito-toy[n_samples=60]", replicates=1)
    (again,) = evaluate(Half(), "saito-toy[n_samples=60]", replicates=1)
    assert one.answer == again.answer
    assert np.isfinite(one.estimate)
