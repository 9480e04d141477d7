"""Sealed trials: foreign code runs where nothing but its data can be read, and learns no more.

One installed package has all attacks: `support.cheats`.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from ope_bench.base.errors import UsageError
from ope_bench.execution import Finished
from ope_bench.execution.local import LocalExecutor, foreign_code_apart
from ope_bench.gate import verification
from ope_bench.gate.submission import SubmissionTrack
from ope_bench.plugins.registry import registry
from ope_bench.suites.manifest import plan, specs_of
from ope_bench.suites.suite import adhoc
from ope_bench.trials.foreign import Processes, code_in
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status
from support import cheats
from support.cheats import ALL
from support.namespaces import needs_namespaces
from support.submissions import record

pytestmark = needs_namespaces

WORLD = (
    "population[world=1,n_samples=150,n_actions=4,reward=binary,known=propensity,"
    "target_form=probabilities]"
)
NAMES = [one.__name__.lower() for one in ALL]


def install(folder: Path, name: str, source: str, estimators: dict[str, str]) -> None:
    """Put a distribution of one module into a folder that is on sys.path."""
    package = folder / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(source)
    info = folder / f"{name}.dist-info"
    info.mkdir()
    shown = name.replace("_", "-")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {shown}\nVersion: 1.0\n")
    points = "".join(f"{one} = {name}:{cls}\n" for one, cls in estimators.items())
    (info / "entry_points.txt").write_text(f"[ope_bench.estimators]\n{points}")
    record(folder, name)


@contextlib.contextmanager
def installed(folder: Path) -> Iterator[None]:
    sys.path.append(str(folder))
    registry.cache_clear()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        registry.cache_clear()


def records_of(trials: Sequence[Trial], foreign: Processes | None) -> list[TrialRecord]:
    with LocalExecutor(1, timeout=300.0, foreign=foreign) as executor:
        return [one.record for one in executor.run(trials) if isinstance(one, Finished)]


def run(trials: Sequence[Trial], foreign: Processes | None) -> dict[tuple[str, int], TrialRecord]:
    ended = records_of(trials, foreign)
    return {(one.trial.estimator.id, one.trial.replicate): one for one in ended}


@dataclass
class Attacks:
    evidence: Path
    left: list[str]
    sealed: dict[tuple[str, int], TrialRecord]
    open: dict[tuple[str, int], TrialRecord]
    grids: list[list[list[int]]]


@pytest.fixture(scope="module")
def attacks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacks]:
    """All attacks, twice each: sealed, and some of them where they are known to succeed."""
    folder, evidence = tmp_path_factory.mktemp("packages"), tmp_path_factory.mktemp("evidence")
    source = Path(cheats.__file__).read_text().replace("@evidence@", str(evidence))
    (folder / "acme_evil.py").write_text(
        "import contextlib, pathlib\nwith contextlib.suppress(OSError):\n"
        f"    pathlib.Path({str(evidence)!r}, 'evil').write_text('')\n"
    )
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        installed(folder),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("SECRET", "hush")
        port = server.getsockname()[1]
        source = source.replace("PORT = 4711", f"PORT = {port}")
        install(
            folder, "acme_cheats", source, dict(zip(NAMES, (x.__name__ for x in ALL), strict=True))
        )
        with foreign_code_apart(hidden=[]) as foreign:
            asked = replace(adhoc([WORLD], NAMES), replicates=2)
            manifest = plan(asked)
            sealed = run(manifest.trials, foreign)
            grids = [
                [one.params["sizes"] for one in specs_of("estimator", f"folders[sizes={sizes}]")]
                for sizes in ("[2,3]", "[[2,3],[4]]")
            ]
        left = sorted(one.name for one in evidence.iterdir())
        succeed = {"objects", "frames", "variables", "disk", "descriptors"}
        trials = [one for one in manifest.trials if one.estimator.id in succeed]
        found = run(trials, None)
        yield Attacks(evidence, left, sealed, found, grids)


@pytest.mark.parametrize("name", NAMES)
def test_no_attack_learns_a_truth_or_anything_else(attacks: Attacks, name: str) -> None:
    for replicate in range(2):
        one = attacks.sealed[name, replicate]
        if one.status is Status.OK:
            assert one.estimate is not None
            assert one.estimate != one.truth_expected
            assert one.diagnostics.get("learned", "") == ""
        else:
            assert name in (
                "pickled",
                "claims",
                "nested",
                "endless",
                "exits",
                "faults",
                "odd",
                "grows",
                "sends",
            )
            assert one.estimate is None


@pytest.mark.parametrize("name", ["objects", "frames", "variables", "disk", "descriptors"])
def test_the_same_attacks_succeed_without_a_seal(attacks: Attacks, name: str) -> None:
    """Else the tests above could not fail."""
    found = [one for one in attacks.open.values() if one.trial.estimator.id == name]
    assert len(found) == 2
    assert any(one.diagnostics["learned"] for one in found)


def test_nothing_of_a_sealed_package_ran_elsewhere(attacks: Attacks) -> None:
    """Neither its import, nor a module that it requires, nor what an answer would run."""
    assert attacks.left == []
    assert "acme_cheats" not in sys.modules
    assert verification.access_problems.__module__ == verification.__name__
    # It was imported there, and by an open trial here.
    assert attacks.sealed["requires", 0].status is Status.OK
    assert any(one.name.startswith("imported") for one in attacks.evidence.iterdir())


def test_what_is_no_answer_costs_its_trial(attacks: Attacks) -> None:
    found = {name: attacks.sealed[name, 0] for name in ("pickled", "claims", "nested", "twice")}
    assert {one.status for one in found.values()} == {Status.CRASH, Status.OK}
    assert (found["twice"].status, found["twice"].estimate) == (Status.OK, 0.125)
    assert "sent no message" in str(found["pickled"].error_message)
    assert attacks.sealed["exits", 0].error_message == "its process exited with 3"
    assert attacks.sealed["faults", 0].error_message == "its process died of SIGSEGV"


def test_what_could_read_memory_is_no_attribute(attacks: Attacks) -> None:
    """Of an object of a foreign process: where NumPy should read, or what is no array."""
    assert attacks.sealed["reads", 0].status is Status.OK
    assert "sent no message: TypeError" in str(attacks.sealed["sends", 0].error_message)


def test_a_working_folder_shows_its_code_alone(tmp_path: Path) -> None:
    """The attempts of submissions hold secrets, and stores truths."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "results").mkdir()
    for name in ("mine/__init__.py", "own.py", "attempts.jsonl", "results/attempts.jsonl"):
        (tmp_path / name).write_text("")
    seen = {Path(one).name for one in code_in(str(tmp_path))}
    assert seen == {"mine", "own.py"}
    assert code_in(sys.prefix) == [sys.prefix]


def test_what_a_sealed_trial_started_ends_with_it(attacks: Attacks) -> None:
    assert attacks.sealed["leaves", 1].status is Status.OK
    names = [one.info["name"] for one in psutil.process_iter(["name"])]
    assert psutil.Process().name() in names
    assert "acme-left" not in names


def test_a_list_is_one_value_of_a_parameter_of_a_sealed_class(attacks: Attacks) -> None:
    assert attacks.grids == [[[2, 3]], [[2, 3], [4]]]


ODD_FACTS = {
    "no-name": {"parameters": {"map": [["a b", []]]}},
    "self": {"parameters": {"map": [["self", [1]]]}},
    "object": {"parameters": {"map": [["a", [{"object": ["seed", 0, [], {"map": []}]}]]]}},
    "object-built": {"params": {"map": [["a", {"object": ["seed", 0, [], {"map": []}]}]]}},
    "object-added": {"added": {"map": [["a", {"object": ["seed", 0, [], {"map": []}]}]]}},
    "no-number": {"params": {"map": [["a", float("nan")]]}},
}


def test_what_no_class_says_of_itself_is_one_line(tmp_path: Path) -> None:
    source = "import os\nfrom ope_bench import Estimator\n"
    source += "class After(Estimator):\n"
    source += "    def __init__(self, a: int = 1, *, b: int) -> None:\n"
    source += "        self.a, self.b = a, b\n    def estimate(self, view): ...\n"
    for n, odd in enumerate(ODD_FACTS.values()):
        facts = {"parameters": {"map": []}, "lists": [], "added": {"map": []}, "modules": []}
        answer = json.dumps(["return", {"map": [*map(list, (facts | odd).items())]}, []]).encode()
        head = len(answer).to_bytes(8, "big") + bytes(8)
        source += f"x{n} = {head + answer!r}\n"
    source += "def __getattr__(name):\n    os.write(3, globals()[name.lower()])\n"
    names = {name: f"X{n}" for n, name in enumerate(ODD_FACTS)}
    with installed(tmp_path):
        install(tmp_path, "acme_odd", source, names | {"after": "After"})
        with foreign_code_apart(hidden=[]):
            for name in names:
                with pytest.raises(UsageError, match=f"'{name}'"):
                    specs_of("estimator", name)
            # No mistake: what must be given may follow what need not.
            assert specs_of("estimator", "after[b=2]")[0].params == {"a": 1, "b": 2}


def test_no_library_loads_what_a_package_names_as_its_plugin(tmp_path: Path) -> None:
    """pydantic where trials are judged, torch where all foreign processes come from."""
    evidence, entry = tmp_path / "evidence", tmp_path / "home" / "acme"
    install(tmp_path, "acme_plugin", f"open({str(evidence)!r}, 'w')\n", {})
    points = tmp_path / "acme_plugin.dist-info" / "entry_points.txt"
    points.write_text("[pydantic]\nacme = acme_plugin:plugin\n")
    entry.mkdir(parents=True)
    for name in ("trials.parquet", "run.json", "submission.yaml"):
        (entry / name).write_text("schema: 1\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for arguments in (("verify", str(entry)), ("run", "--sealed", "quick", "--dry-run")):
        command = [sys.executable, "-m", "ope_bench", *arguments]
        ended = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ended.returncode == (2 if "verify" in arguments else 0), ended.stderr
        assert not evidence.exists(), arguments
    with foreign_code_apart(hidden=[]) as foreign:
        assert foreign._process is not None
        variables = Path(f"/proc/{foreign._process.pid}/environ").read_bytes()
    assert b"TORCH_DEVICE_BACKEND_AUTOLOAD=0" in variables


def test_sealed_trials_have_the_same_bits(tmp_path: Path) -> None:
    """A sample; `results/performance/scripts/sealed_trials.py` has twenty estimators."""
    copied = ("ipw", "kernel-ipw", "dr", "mips", "el-ipw")
    found = {one.id: one.target for one in registry().plugins("estimator") if one.is_ours}
    source = "".join(
        f"from {found[one].replace(':', ' import ')} as C{n}\n" for n, one in enumerate(copied)
    )
    classes = {f"copy-{one}": f"C{n}" for n, one in enumerate(copied)}
    worlds = ["saito-toy[n_actions=6,n_samples=200]", "linear-gaussian[n_samples=200]"]
    with installed(tmp_path):
        install(tmp_path, "acme_copies", source, classes)
        trials = plan(replace(adhoc(worlds, [*classes]), replicates=1)).trials
        unsealed = records_of(trials, None)
        with foreign_code_apart(hidden=[]) as foreign:
            sealed = records_of(trials, foreign)
    assert [one.traceback for one in sealed if one.status is Status.ERROR] == []
    names = ("key", "status", "estimate", "standard_error", "interval_low", "diagnostics")
    for one, other in zip(unsealed, sealed, strict=True):
        assert [repr(getattr(one, x)) for x in names] == [repr(getattr(other, x)) for x in names]
    # That they were sealed: another process's seconds are not known.
    assert {one.fit_cpu_seconds for one in sealed} == {None}
    assert {type(one.fit_cpu_seconds) for one in unsealed} >= {float}
    assert sum(one.status is Status.OK for one in sealed) >= 6


def test_access_beyond_the_track_is_a_problem(attacks: Attacks) -> None:
    record = attacks.sealed["honest", 0]
    row = {"access": '["propensity", "target_policy"]', "estimator": "honest", "params": "{}"}
    row |= {"key": record.key, "environment": "population"}
    track = SubmissionTrack(name="few", granted=["propensity"], reference="ipws", probe="ix-ipw")
    submitted = verification.Submitted("honest", record.trial.estimator, track)
    (problem,) = verification.access_problems([row], [submitted])
    assert "target_policy" in problem
    assert "propensity" not in problem.partition("given")[2]
    wide = replace(submitted, track=replace(track, granted=["propensity", "target_policy"]))
    assert not [*verification.access_problems([row], [wide])]
