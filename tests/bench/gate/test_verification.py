"""`verify` reproduces a folder of results, and finds what was forged, left out or doubled."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ope_bench.base.errors import UsageError
from ope_bench.cli.app import invoke
from ope_bench.gate import submission, verification
from ope_bench.plugins.spec import PluginSpec, resolve

SUITE = """
schema: 1
replicates: 4
environments:
  - saito-toy: {n_actions: [3, 5], n_samples: 60}
estimators: [logging-average, ipw]
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results, as ``results/regenerate`` makes it."""
    home = tmp_path_factory.mktemp("made")
    suite, store, folder = home / "mine.yaml", str(home / "s.sqlite"), home / "mine"
    suite.write_text(SUITE)
    folder.mkdir()
    assert invoke(["run", str(suite), "--store", store, "--executor", "inprocess"]) == 0
    assert invoke(["export", "--store", store, "--to", str(folder / "trials.parquet")]) == 0
    return folder


@pytest.fixture(scope="module")
def documents(made: Path) -> dict[str, str]:
    """The documents beside the trials, as the commands print them."""
    import contextlib
    import io

    store, texts = str(made.parent / "s.sqlite"), {}
    for name, command in {
        "run.json": ["store", "info", "--format", "json"],
    }.items():
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert invoke([*command, "--store", store]) == 0
        texts[name] = out.getvalue()
    return texts


Verify = Callable[..., Any]


@pytest.fixture
def folder(made: Path, documents: dict[str, str], tmp_path: Path) -> Path:
    copied = tmp_path / "mine"
    shutil.copytree(made, copied)
    (copied / "mine.yaml").write_text(SUITE)
    for name, text in documents.items():
        (copied / name).write_text(text)
    return copied


@pytest.fixture
def verify(folder: Path, capsys: pytest.CaptureFixture[str]) -> Verify:
    def go(share: float = 0.0) -> Any:
        capsys.readouterr()
        code = invoke(["verify", str(folder), "--share", str(share), "--format", "json"])
        told = json.loads(capsys.readouterr().out)
        assert told["exit_code"] == code
        return told

    return go


def _edit(folder: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    path = folder / "trials.parquet"
    old = pq.read_table(path)
    pq.write_table(pa.Table.from_pylist(change(old.to_pylist()), schema=old.schema), path)


def _forged(figure: str) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        (row, *_) = [one for one in rows if one["estimator"] == "ipw"]
        row[figure] += 1e-6
        return rows

    return change


def test_a_folder_comes_again_bit_for_bit(verify: Verify) -> None:
    told = verify(0.5)
    assert (told["problems"], told["verified"], told["exit_code"]) == ([], True, 0)
    assert (told["trials"], told["again"], told["same_arithmetic"]) == (16, 8, True)


@pytest.mark.parametrize("figure", ["estimate", "standard_error", "truth_expected"])
def test_a_forged_digit_is_found_by_the_trial_run_again(
    figure: str, folder: Path, verify: Verify
) -> None:
    _edit(folder, _forged(figure))
    told = verify(1.0)
    assert told["exit_code"] == 1
    # A truth contradicts other trials on the same data besides.
    assert [figure in one for one in told["problems"] if "its truth is not" not in one] == [True]


def test_left_out_and_doubled_trials_are_found(folder: Path, verify: Verify) -> None:
    _edit(folder, lambda rows: [*rows[1:], rows[5]])
    problems = verify()["problems"]
    assert any("is there 2 times" in one for one in problems)
    assert any("1 planned trials are left out" in one for one in problems)


def test_a_trial_under_another_key_is_found(folder: Path, verify: Verify) -> None:
    def easier(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        rows[0]["replicate"] = 7
        return rows

    _edit(folder, easier)
    assert any("the key is not that" in one for one in verify()["problems"])


def test_a_file_that_is_not_the_one_of_the_run_is_found(folder: Path, verify: Verify) -> None:
    facts = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(facts | {"sha256": {"trials.parquet": "0" * 64}}))
    assert any(one.startswith("trials.parquet") for one in verify()["problems"])


def test_a_folder_without_results_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["verify", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err
    assert invoke(["verify", str(tmp_path), "--secret", "s"]) == 2


@pytest.mark.parametrize(
    ("params", "gone"),
    [({"clip": None}, False), ({"clip": None, "resamples": 7}, False), ({"clip": "rule"}, True)],
)
def test_trials_of_parameters_that_are_gone_are_not_run_again(params: Any, gone: bool) -> None:
    assert verification._is_gone(PluginSpec("estimator", "ipw", "ipw", params)) is gone
    assert verification._is_gone(PluginSpec("estimator", "ipw", "ipw", {**params, "old": 1}))


def test_the_interval_of_a_submission_is_that_of_a_mean_of_logarithms() -> None:
    """Errors of 3 and 12 times the reference's; a missing answer has the larger of two errors."""
    track = submission.SubmissionTrack(name="mine", granted=[], reference="ipws", probe="ix-ipw")
    rounds = object.__new__(verification.Rounds)
    rounds.file = SimpleNamespace(fallback="logging-average")  # type: ignore[assignment]
    scales = {"ipws": 1.0, "ix-ipw": 2.0}

    def rows(
        setting: int, own: float, average: float = 5.0, **changes: str
    ) -> list[dict[str, Any]]:
        return [
            {
                "environment": "toy",
                "environment_params": f'{{"n": {setting}}}',
                "estimator": name,
                "params": json.dumps(dict(resolve("estimator", name).params)),
                "replicate": replicate,
                "status": changes.get(name.replace("-", "_"), "ok"),
                "estimate": 1.0 + sign * scale,
                "truth_expected": 1.0,
            }
            for name, scale in {**scales, "logging-average": average, "dm": own}.items()
            for replicate, sign in enumerate((1, -1))
        ]

    found = [verification.Submitted("dm", resolve("estimator", "dm"), track)]
    # A log in which the probe is unavailable does not count.
    unknown = rows(3, 100.0, ix_ipw="unavailable")
    (told,) = rounds.figures([*rows(1, 3.0), *rows(2, 12.0), *unknown], found)
    logs = np.log([3.0, 12.0])
    error = logs.std(ddof=1) / math.sqrt(2)
    # The 97.5 % quantile of Student's t with one degree of freedom.
    ends = np.exp(logs.mean() + 12.706204736174698 * error * np.array([-1.0, 1.0]))
    assert [told["low"], told["high"]] == pytest.approx(ends.tolist(), rel=1e-9)
    assert (told["ratio"], told["log_se"]) == pytest.approx((6.0, error))
    assert (told["settings"], told["failures"]) == (2, 0.0)
    (told,) = rounds.figures([*rows(1, 3.0), *rows(2, 12.0, dm="timeout")], found)
    assert (told["ratio"], told["failures"]) == (pytest.approx(math.sqrt(15.0)), 0.5)
    # Where the average errs less than the reference, refusing costs the error of the latter.
    (told,) = rounds.figures([*rows(1, 3.0), *rows(2, 0.1, 0.2, dm="timeout")], found)
    assert told["ratio"] == pytest.approx(math.sqrt(3.0))
    # A reference without an answer counts with the average, so does the estimator then.
    (told,) = rounds.figures([*rows(1, 3.0), *rows(2, 2.0, 0.5, ipws="error")], found)
    assert told["ratio"] == pytest.approx(math.sqrt(3.0 * 2.0 / 0.5))
    with pytest.raises(UsageError, match="two are needed"):
        rounds.figures(rows(1, 3.0), found)
