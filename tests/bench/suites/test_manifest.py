from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from ope_bench.base.errors import OpeBenchError, SuiteError, UsageError
from ope_bench.suites.manifest import MAX_TRIALS, Manifest, plan, selects, specs_of
from ope_bench.suites.suite import adhoc, parse_selector, read_suite
from ope_bench.trials.status import Device
from support.paths import TINY_PLUGINS as TINY

ENV = f"{TINY}:Coins"
EST = f"{TINY}:Average"


def _plan(tmp_path: Path, rest: str, environments: str = f"['{ENV}']") -> Manifest:
    path = tmp_path / "mine.yaml"
    path.write_text(f"schema: 1\nenvironments: {environments}\n{rest}\n")
    return plan(read_suite(path))


def _cells(manifest: Manifest) -> list[tuple[object, ...]]:
    return [
        (cell.environment.params["n_samples"], cell.estimator.params["shift"], cell.device)
        for cell in manifest.cells
    ]


def test_grids_are_crossed_within_an_entry_and_entries_follow_one_another() -> None:
    suite = adhoc([f"{ENV}[n_samples=[5,6],bias=[0.1,0.2]]"], [f"{EST}[shift=[1,2]]", EST])
    manifest = plan(suite)
    settings = [dict(cell.environment.params) for cell in manifest.cells[::3]]
    assert settings == [{"n_samples": n, "bias": bias} for n in (5, 6) for bias in (0.1, 0.2)]
    assert [cell.estimator.params["shift"] for cell in manifest.cells[:3]] == [1.0, 2.0, 0.0]
    assert len(manifest.trials) == 4 * 3 * 20


def test_a_run_of_integers_is_a_grid_of_them() -> None:
    grid = specs_of("environment", "population[world=[1..3,7]]")
    assert [spec.params["world"] for spec in grid] == [1, 2, 3, 7]
    with pytest.raises(UsageError, match="empty"):
        specs_of("environment", "population[world=[3..1]]")


def test_trials_on_the_same_data_stand_together() -> None:
    manifest = plan(replace(adhoc([f"{ENV}[n_samples=[5,6]]"], [f"{EST}[shift=[1,2]]"]), seed=4))
    keys = [trial.data_key for trial in manifest.trials]
    changes = sum(left != right for left, right in itertools.pairwise(keys))
    assert changes == len(set(keys)) - 1
    assert {trial.seed for trial in manifest.trials} == {4}
    assert len({trial.key for trial in manifest.trials}) == len(manifest.trials)


def test_a_list_is_one_value_of_a_parameter_that_is_a_list_and_a_list_of_lists_a_grid() -> None:
    manifest = plan(adhoc([ENV], [f"{EST}[hidden=[[3,4],[5]]]"]))
    assert [cell.estimator.params["hidden"] for cell in manifest.cells] == [[3, 4], [5]]
    (one,) = plan(adhoc([ENV], [f"{EST}[hidden=[3,4]]"])).cells
    assert one.estimator.params["hidden"] == [3, 4]
    (table,) = specs_of("environment", "full-feedback[context=[z0,z1]]")
    assert table.params["context"] == ["z0", "z1"]


def test_settings_that_are_the_same_after_coercion_are_planned_once() -> None:
    manifest = plan(adhoc([f"{ENV}[n_samples=[20,2e1]]", ENV], [EST, f"{EST}[k=1]"]))
    assert len(manifest.cells) == 1


@pytest.mark.parametrize(
    ("estimators", "reason"),
    [
        ([EST, f"{EST}[as=X]"], "the same estimator has two labels, 'average' and 'X'"),
        ([f"{EST}[as=X]", f"{EST}[k=2,as=X]"], "two estimators are called 'X'"),
        ([f"{EST}[shift=[]]"], "the grid of 'shift' is empty"),
        ([f"{EST}[shfit=1]"], "has no parameter 'shfit'; did you mean 'shift'"),
        ([f"{EST}[k=0]"], "'k' = 0: .*greater than or equal to 1"),
        ([f"{EST}[k=[1,-1]]"], "'k' = -1"),
        ([f"{EST}[shift=much]"], "'shift' = 'much'"),
        ([f"{EST}[shift=.inf]"], "'shift' = inf"),
        (["ipv"], "unknown estimator 'ipv'; did you mean 'ipw'"),
        ([f"{TINY}:Nothing"], "has no estimator 'Nothing'"),
        ([ENV], "is not a subclass of ope_bench.Estimator; write"),
        (["./nowhere.py:Average"], "no such file"),
    ],
)
def test_what_cannot_be_planned_is_said_in_one_line(estimators: list[str], reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        plan(adhoc([ENV], estimators))
    assert "\n" not in str(caught.value)


def test_two_plugins_of_one_name_are_not_mixed(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(TINY.read_text())
    with pytest.raises(UsageError, match="two estimators named 'average'"):
        plan(adhoc([ENV], [EST, f"{tmp_path / 'other.py'}:Average"]))


def test_a_label_that_a_grid_shares_tells_its_points_apart() -> None:
    manifest = plan(adhoc([ENV], [f"{EST}[shift=[1,2],k=[3],as=Mine]"]))
    assert [cell.estimator.label for cell in manifest.cells] == [
        "Mine [shift=1]",
        "Mine [shift=2]",
    ]


def test_estimators_meet_only_devices_that_they_train_on() -> None:
    anywhere = f"{TINY}:Anywhere"
    suite = replace(adhoc([ENV], [EST, anywhere]), devices=(Device.CPU, Device.CUDA))
    found = [(cell.estimator.id, cell.device) for cell in plan(suite).cells]
    assert found == [("average", "cpu"), ("anywhere", "cpu"), ("anywhere", "cuda")]
    without = plan(replace(adhoc([ENV], [EST, anywhere]), devices=(Device.CUDA,))).without_device
    assert [(spec.id, devices) for spec, devices in without] == [("average", ("cpu",))]
    assert not plan(replace(adhoc([ENV], [EST]), devices=(Device.CUDA,))).trials


@pytest.mark.parametrize(
    ("exclusion", "left"),
    [
        ("{environment: {n_samples: 6}, estimator: average}", 2),
        ("{environment: {n_samples: 6e0}}", 2),
        ("{environment: {n_samples: [5, 6]}}", 0),
        ("{estimator: 'average[shift=1]'}", 2),
        ("{estimator: {shift: 1}, environment: 'coins[n_samples=5]'}", 3),
        ("{environment: {worlds: fixed}}", 4),
        ("{device: cuda}", 4),
        ("{device: cpu}", 0),
    ],
)
def test_exclusions_leave_out_what_matches_every_part(
    tmp_path: Path, exclusion: str, left: int
) -> None:
    exclusion = exclusion.replace("average", EST).replace("coins", ENV)
    text = f"estimators: ['{EST}[shift=[1,2]]']\nexclude:\n  - {exclusion}"
    manifest = _plan(tmp_path, text, f"['{ENV}[n_samples=[5,6]]']")
    assert len(manifest.cells) == left


@pytest.mark.parametrize(
    ("exclusion", "reason"),
    [
        ("{environment: {n_actions: 5}}", "no environment of this suite has a parameter 'n_a"),
        ("{estimator: 'ipw[clp=5]'}", "ipw has no parameter 'clp'; did you mean 'clip'"),
        ("{estimator: ipv}", "unknown estimator 'ipv'; did you mean 'ipw'"),
    ],
)
def test_an_exclusion_that_names_nothing_is_refused_with_its_line(
    tmp_path: Path, exclusion: str, reason: str
) -> None:
    with pytest.raises(SuiteError, match=f"mine.yaml:5: .*{reason}"):
        _plan(tmp_path, f"estimators: ['{EST}']\nexclude:\n  - {exclusion}")


def test_errors_of_a_suite_file_name_the_line_of_the_parameter(tmp_path: Path) -> None:
    text = f"estimators:\n  - '{EST}':\n      shift: 1\n      k: [1, 0]"
    with pytest.raises(SuiteError, match=r"mine.yaml:6: average: parameter 'k' = 0"):
        _plan(tmp_path, text)


@pytest.mark.parametrize(("timing", "alone"), [(False, 0), (True, 20), (3, 3), (99, 20)])
def test_timing_says_which_replicates_run_alone(timing: bool | int, alone: int) -> None:
    manifest = plan(replace(adhoc([ENV], [EST]), timing=timing))
    found = [trial.replicate for trial in manifest.trials if manifest.exclusive(trial)]
    assert found == list(range(alone))


def test_a_plan_without_end_is_refused() -> None:
    suite = replace(adhoc([f"{ENV}[n_samples=[1,2,3]]"], [EST]), replicates=MAX_TRIALS)
    with pytest.raises(UsageError, match="asks for 6,000,000 trials"):
        plan(suite)


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (ENV, True),
        ("coins", True),
        ("coins[n_samples=20]", True),
        ("coins[n_samples=[5,20]]", True),
        ("coins[n_samples=5]", False),
        ("coins[bias=true]", False),
        ("coins[nonsense=1]", False),
        ("gaussian", False),
    ],
)
def test_selectors_select_settings(selector: str, selected: bool) -> None:
    spec = plan(adhoc([ENV], [EST])).cells[0].environment
    assert selects(parse_selector(selector), spec) is selected


@pytest.mark.parametrize("selector", ["ips", "IPS", "ipw", "iw[clip=2]"])
def test_an_alias_selects_the_settings_of_what_it_means(selector: str) -> None:
    (spec,) = specs_of("estimator", "ipw[clip=2]")
    assert selects(parse_selector(selector), spec)
    assert not selects(parse_selector("snips"), spec)


def test_a_plugin_that_cannot_be_built_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        "from ope_bench import Estimator\n"
        "class Bad(Estimator):\n"
        "    def __init__(self): raise OSError('no')\n"
        "    def estimate(self, view): ...\n"
    )
    with pytest.raises(OpeBenchError, match="fails when built: OSError: no"):
        plan(adhoc([ENV], [f"{tmp_path / 'bad.py'}:Bad"]))
