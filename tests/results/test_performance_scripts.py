"""Scripts of measurements that pages of results rest on: what they compute, and in what order."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from ope_bench.contracts.arrays import FloatArray
from ope_estimators.selection.blue import Blue, blue_weights
from support import tiny_lists
from support.paths import ROOT

AXES = "cx", "cy"
THEORY_PAGE = ROOT / "results" / "performance" / "paper-theory.md"


@pytest.fixture(autouse=True)
def _scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "results" / "performance" / "scripts")


# --- a machine with a GPU


def test_without_a_cuda_device_one_line_says_so_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import gpu

    monkeypatch.setenv("PATH", "")
    for option in ("--output", "--sizes"):
        with pytest.raises(SystemExit) as ended:
            gpu.main([option, str(tmp_path / "out")])
        assert str(ended.value).startswith("no CUDA device here, nothing was run")
        assert "\n" not in str(ended.value)
    assert not [*tmp_path.iterdir()]
    assert capsys.readouterr().out == ""


def step(code: str, out: Path) -> tuple[list[str], Path]:
    return [sys.executable, "-S", "-c", code], out


def test_parts_run_in_turns_within_their_time_and_leave_what_they_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second would run for a minute, with a child that outlives it: both are ended."""
    import gpu

    sleep = "import time; time.sleep(60)"
    child = (
        "import subprocess, sys, time; "
        f"one = subprocess.Popen([sys.executable, '-S', '-c', {sleep!r}]); "
        "print('child', one.pid); time.sleep(60)"
    )
    later = "print(open(r'{}').read().count('exit code 3'))"
    files = {name: tmp_path / f"{name}.txt" for name in gpu.SHARES}
    fakes = {
        "tests": step("print('first'); raise SystemExit(3)", files["tests"]),
        "sizes": step(child, files["sizes"]),
        "suite": step(later.format(files["tests"]), files["suite"]),
        "board": step("print('last')", files["board"]),
    }
    began = time.monotonic()
    gpu.run_parts(fakes, 2.0)
    assert time.monotonic() - began < 2.5
    assert files["tests"].read_text() == "first\n\nexit code 3\n"
    assert files["suite"].read_text() == "1\n\nexit code 0\n"
    assert files["board"].read_text() == "last\n\nexit code 0\n"
    told = files["sizes"].read_text()
    assert "ended after" in told
    status = Path(f"/proc/{told.split()[1]}/stat")
    # A process that ended and that nobody waits for has the state Z.
    assert not status.exists() or status.read_text().split()[2] == "Z"
    shown = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert shown == ["tests", "sizes", "suite", "board"]


def test_time_that_a_part_leaves_is_the_next_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gpu

    clock, given = [0.0], []

    def run(command: list[str], seconds: float, out: Path) -> str:
        given.append(seconds)
        clock[0] += min(seconds, float(command[0]))
        return ""

    monkeypatch.setattr(gpu, "run", run)
    monkeypatch.setattr(gpu.time, "monotonic", lambda: clock[0])
    times = {"tests": "10", "sizes": "999", "suite": "20", "board": "999"}
    gpu.run_parts({name: ([takes], tmp_path) for name, takes in times.items()}, 100.0)
    assert given == pytest.approx([25.0, 55.0, 30.0, 15.0])
    assert clock[0] == pytest.approx(100.0)


def test_the_parts_are_the_marked_tests_the_sizes_and_the_suite_with_two_replicates(
    tmp_path: Path,
) -> None:
    import gpu

    assert sum(gpu.SHARES.values()) == pytest.approx(1.0)
    parts = gpu.parts(tmp_path)
    assert list(parts) == list(gpu.SHARES) == ["tests", "sizes", "suite", "board"]
    tests, sizes, suite, board = (" ".join(command) for command, _ in parts.values())
    assert "-m gpu" in tests
    for name in ("test_flows.py", "test_nuisance_learners.py", "test_density_ratio_mlp.py"):
        assert name in tests
    assert "--sizes" in sizes
    assert "run gpu --replicates 2" in suite
    assert "--by time" in board
    assert {out.parent for _, out in parts.values()} == {tmp_path}


def test_a_size_is_a_line_when_it_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gpu

    assert len(gpu.ROWS) == 3
    monkeypatch.setattr(gpu, "ROWS", (20,))
    monkeypatch.setattr(gpu, "ESTIMATORS", ("ipw",))
    monkeypatch.setattr(gpu, "DEVICES", ("cpu",))
    gpu.sizes(tmp_path / "sizes.jsonl")
    (line,) = map(json.loads, (tmp_path / "sizes.jsonl").read_text().splitlines())
    assert (line["rows"], line["status"], line["message"]) == (20, "ok", None)
    assert line["fit_seconds"] >= 0


# --- errors that are withheld


def test_errors_of_blue_are_those_of_its_terms_and_of_its_values_without_each_row() -> None:
    import logger_errors

    log = logger_errors.log(40, logger_errors.EQUAL, 1.0, np.random.default_rng(0))
    names = logger_errors.CANDIDATES
    terms = np.stack([tiny_lists.run(Blue([one]), log).terms for one in names])
    given, jackknife, bootstrap = logger_errors.errors_of(terms, np.random.default_rng(1))
    found = tiny_lists.run(Blue([*names]), log)
    assert given == pytest.approx(found.diagnostics["error_given_weights"])

    def value(part: FloatArray) -> float:
        centered = part - part.mean(axis=1, keepdims=True)
        return float(blue_weights(centered @ centered.T) @ part.mean(axis=1))

    assert value(terms) == pytest.approx(found.value)
    without = np.array([value(np.delete(terms, k, axis=1)) for k in range(40)])
    assert jackknife == pytest.approx(np.sqrt(39 / 40 * np.square(without - without.mean()).sum()))
    assert jackknife / 3 < bootstrap < 3 * jackknife


# --- what the paper's theory says


def test_the_divergence_of_an_extrapolated_policy_is_that_of_a_tilted_uniform() -> None:
    """Of exp(t g) t / (exp(t) - 1) and 1: t mean - log((exp(t) - 1) / t)."""
    import paper_theory

    assert paper_theory.tilted(0.5) == pytest.approx(np.ones(len(paper_theory.GRID)))
    for t in (-3.0, 1.0, 6.0):
        mean = 1 / (1 - np.exp(-t)) - 1 / t
        density = paper_theory.tilted(mean)
        assert (density * paper_theory.GRID).mean() == pytest.approx(mean)
        _, _, divergence = paper_theory.bound_of(np.array([mean]), np.array([0.75]))
        assert divergence == pytest.approx(t * mean - np.log(np.expm1(t) / t), abs=1e-6)


def test_the_bias_is_that_of_the_targets_extrapolated_mean() -> None:
    """The mean over the logger's extrapolation of g times the ratio is that over the target's."""
    import paper_theory

    logged = np.random.default_rng(0).random(20)
    for target in (0.6, 0.75, 0.8):
        bias, term, _ = paper_theory.bound_of(logged, np.array([target]))
        assert bias == pytest.approx(abs(target - 0.75), abs=1e-9)
        assert term > 0
    assert paper_theory.bound_of(np.array([0.5]), np.array([0.75]))[1] < 1e-6


def test_classifiers_with_the_right_features_have_the_errors_of_the_committed_page() -> None:
    import paper_theory

    page = THEORY_PAGE.read_text(encoding="utf-8")
    errors = paper_theory.error_rate("logistic", {"degree": 2})
    assert f"| logistic, squares | {' | '.join(f'{one:.4f}' for one in errors)} |" in page


def test_the_distance_of_samples_is_none_of_equal_ones_and_whole_of_far_ones() -> None:
    import paper_theory

    first, second = np.random.default_rng(0).normal(size=(2, 800, 2))
    assert abs(paper_theory.energy_distance(first, second)) < 0.01
    assert paper_theory.energy_distance(first, second + 50) > 0.9


def test_the_figure_has_all_points_of_both_samples_in_both_panels() -> None:
    import paper_theory

    samples = np.random.default_rng(0).normal(size=(2, 2, 400, 3))
    root = ET.fromstring(paper_theory.scatter([(one[0], one[1]) for one in samples]))
    points = [one for one in root.iter() if one.tag.endswith("circle")]
    assert len(points) == 4 * paper_theory.SHOWN
    places = np.array([[float(one.get(axis, "nan")) for axis in AXES] for one in points])
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    assert ((places > 0) & (places < [width, height])).all()


def test_sections_asked_for_are_written_and_the_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import paper_theory

    page = tmp_path / "page.md"
    page.write_text("# Title\n\n## Figure 2: what the flow does to both samples\n\nstays\n")
    monkeypatch.setattr(paper_theory, "bounds", lambda: "new words")
    monkeypatch.setattr(sys, "argv", ["script", "--only", "bound", "--write", str(page)])
    paper_theory.main()
    text = page.read_text()
    assert "stays" in text
    assert "new words" in text
