"""Damaged folders of results and submissions: exit code 2 with a place, and no code runs."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from ope_bench.base.errors import UsageError
from ope_bench.cli.app import invoke
from ope_bench.gate import submission, verification
from ope_bench.gate.submission import Figures, append_attempt
from ope_bench.suites import yaml_document
from support.submissions import SECRETS, begin, write_home

SUITE = """
schema: 1
replicates: 2
environments:
  - saito-toy: {n_actions: 3, n_samples: 30}
estimators: [logging-average, ipw]
"""

EVIL = """
import pathlib

from ope_bench import Access, Estimate, Estimator

pathlib.Path(__file__).with_name("ran").touch()


class Evil(Estimator):
    access = Access.SAMPLES

    def estimate(self, view):
        return Estimate(0.0)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results that agrees, with a file of code in it."""
    home = tmp_path_factory.mktemp("made")
    suite, store, folder = home / "mine.yaml", str(home / "s.sqlite"), home / "mine"
    folder.mkdir()
    for path in (suite, folder / "mine.yaml"):
        path.write_text(SUITE)
    (folder / "evil.py").write_text(EVIL)
    place = ["--store", store]
    assert invoke(["run", str(suite), *place, "--executor", "inprocess"]) == 0
    assert invoke(["export", *place, "--to", str(folder / "trials.parquet")]) == 0
    with pytest.MonkeyPatch.context() as patch:
        said: list[str] = []
        patch.setattr("sys.stdout.write", said.append)
        assert invoke(["store", "info", *place, "--format", "json"]) == 0
    (folder / "run.json").write_text("".join(said))
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "mine")
    return tmp_path / "mine"


@pytest.fixture
def refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def go(*more: str) -> str:
        capsys.readouterr()
        code = invoke(["verify", str(folder), "--share", "0", *more])
        said = capsys.readouterr().err
        assert (code, len(said.splitlines())) == (2, 1), (code, said)
        assert not (folder / "ran").exists()
        return said

    return go


def test_a_folder_that_nobody_damaged_agrees(folder: Path) -> None:
    assert invoke(["verify", str(folder), "--share", "0"]) == 0


FACTS: dict[str, Any] = {
    "empty": lambda told: "",
    "a list": lambda told: "[]",
    "a word": lambda told: "null",
    "cut off": lambda told: json.dumps(told)[:-20],
    "no runs": lambda told: json.dumps({**told, "runs": []}),
    "runs that are a number": lambda told: json.dumps({**told, "runs": 5}),
    "a run that is none": lambda told: json.dumps({**told, "runs": [None]}),
    "a suite elsewhere": lambda told: json.dumps(
        {**told, "runs": [{**told["runs"][0], "suite": "./evil.py"}]}
    ),
    "a suite that is code": lambda told: json.dumps(
        {**told, "runs": [{**told["runs"][0], "suite": "evil.py"}]}
    ),
    "no machine": lambda told: json.dumps({**told, "runs": [{"machine": None}]}),
    "arithmetic of a word": lambda told: json.dumps(
        {**told, "runs": [{"machine": {"arithmetic": "native"}}]}
    ),
    "a cluster of words": lambda told: json.dumps(
        {**told, "runs": [{"machine": {"cluster": [1]}}]}
    ),
    "packages that are a list": lambda told: json.dumps(
        {**told, "runs": [{"machine": {"packages": ["numpy"]}}]}
    ),
    "counts that are words": lambda told: json.dumps({**told, "status": {"ok": "many"}}),
    "no counts": lambda told: json.dumps({key: told[key] for key in told if key != "status"}),
    "digests that are a list": lambda told: json.dumps({**told, "sha256": ["trials.parquet"]}),
    "a digest that is none": lambda told: json.dumps({**told, "sha256": {"trials.parquet": "0"}}),
    "figures of nothing": lambda told: json.dumps({**told, "figures": [{}]}),
    "too deep": lambda told: "[" * 50_000,
    "a number that is none": lambda told: json.dumps({**told, "status": {"ok": float("nan")}}),
    "a number of a million digits": lambda told: '{"runs": ' + "1" * 10**6 + "}",
}


@pytest.mark.parametrize("damage", FACTS)
def test_a_damaged_run_json_is_refused_with_its_place(
    damage: str, folder: Path, refused: Callable[..., str]
) -> None:
    path = folder / "run.json"
    path.write_text(FACTS[damage](json.loads(path.read_text())))
    assert str(path) in refused()


def test_other_bytes_links_and_folders_are_refused(
    folder: Path, refused: Callable[..., str]
) -> None:
    kept = (folder / "run.json").read_bytes()
    (folder / "run.json").write_bytes(b"\xff\xfe{}")
    assert "run.json" in refused()
    (folder / "run.json").write_bytes(kept)
    (folder / "trials.parquet").write_bytes(b"PAR1")
    assert "trials.parquet" in refused()
    (folder / "run.json").unlink()
    (folder / "run.json").mkdir()
    assert str(folder) in refused()


ROWS: dict[str, tuple[str, Any]] = {
    "no suite": ("suite", None),
    "a suite elsewhere": ("suite", "../outside"),
    "a suite of two words": ("suite", "mine or"),
    "a suite that is code": ("suite", "evil.py"),
    "a suite's file": ("suite", "mine.yaml/"),
    "no environment": ("environment", None),
    "an environment in a file": ("environment", "./evil.py:Evil"),
    "an environment in a file beside": ("environment", "evil.py:Evil"),
    "an unknown environment": ("environment", "nowhere"),
    "parameters that are no JSON": ("environment_params", "{"),
    "parameters that are a list": ("environment_params", "[]"),
    "parameters without worlds": ("environment_params", "{}"),
    "an estimator in a file": ("estimator", "./evil.py:Evil"),
    "an estimator's parameters": ("params", "0"),
    "too deep": ("params", "[" * 50_000),
    "a device": ("device", "abacus"),
    "a status": ("status", "fine"),
    "no estimate": ("estimate", None),
    "an infinite estimate": ("estimate", float("inf")),
    "no truth": ("truth_expected", None),
    "no replicate": ("replicate", None),
    "no key": ("key", None),
}


@pytest.mark.parametrize("damage", ROWS)
def test_a_damaged_row_is_refused_with_its_number(
    damage: str, folder: Path, refused: Callable[..., str]
) -> None:
    path = folder / "trials.parquet"
    old = pq.read_table(path)
    rows = old.to_pylist()
    rows[2] |= dict([ROWS[damage]])
    pq.write_table(pa.Table.from_pylist(rows, schema=old.schema), path)
    assert f"{path}: row 3" in refused()


@pytest.mark.parametrize("column", ["key", "suite", "params", "replicate", "status", "estimate"])
def test_a_column_that_is_missing_or_of_another_type_is_refused(
    column: str, folder: Path, refused: Callable[..., str]
) -> None:
    path = folder / "trials.parquet"
    old = pq.read_table(path)
    pq.write_table(old.drop_columns([column]), path)
    assert f"column '{column}' is missing" in refused()
    place = old.schema.get_field_index(column)
    pq.write_table(old.set_column(place, column, pa.array([[1]] * old.num_rows)), path)
    assert f"column '{column}' is list" in refused()
    pq.write_table(old.slice(0, 0), path)
    assert "0 trials" in refused()


@pytest.mark.parametrize("entry", ["- ./evil.py:Evil", "- ipw\n  - ./evil.py:Evil"])
def test_a_suite_of_the_folder_runs_no_file_without_permission(
    entry: str, folder: Path, refused: Callable[..., str]
) -> None:
    text = SUITE.replace("[logging-average, ipw]", f"\n  {entry}")
    (folder / "mine.yaml").write_text(text.replace("./evil.py", str(folder / "evil.py")))
    assert "--allow-code" in refused()
    # With permission it runs, and the trials are not those of this suite.
    assert invoke(["verify", str(folder), "--share", "0", "--allow-code"]) == 1
    assert (folder / "ran").exists()


def test_a_suite_of_the_folder_runs_no_learner_of_a_file(
    folder: Path, refused: Callable[..., str]
) -> None:
    (folder / "mine.yaml").write_text(
        SUITE.replace("ipw]", f"{{dm: {{regressor: '{folder / 'evil.py'}:make'}}}}]")
    )
    assert "--allow-code" in refused()


def test_trials_that_are_not_planned_are_a_problem_and_do_not_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "mine.yaml").write_text(SUITE.replace("replicates: 2", "replicates: 1"))
    ran: list[Any] = []

    class Executor:
        def __init__(self, *_: Any, **__: Any) -> None: ...
        def __enter__(self) -> Executor:
            return self

        def __exit__(self, *_: object) -> None: ...
        def run(self, trials: list[Any]) -> list[Any]:
            ran.extend(one.replicate for one in trials)
            return []

    monkeypatch.setattr("ope_bench.gate.verification.LocalExecutor", Executor)
    assert invoke(["verify", str(folder), "--share", "1", "--format", "json"]) == 1
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert "2 trials are not planned" in problem
    assert ran == [0, 0]


# Every file that a command reads, damaged as files are.

KINDS: dict[str, tuple[str, ...]] = {
    "mine/run.json": ("verify", "mine", "--share", "0"),
    "mine/trials.parquet": ("verify", "mine", "--share", "0"),
    "mine/mine.yaml": ("verify", "mine", "--share", "0"),
    "mine.yaml": ("run", "mine.yaml", "--dry-run"),
    "s.sqlite": ("leaderboard", "--store", "s.sqlite"),
    "export.parquet": ("leaderboard", "--store", "export.parquet"),
    "older.json": ("leaderboard", "--store", "older.parquet"),
    "base.json": ("gate", "base.json", "--store", "gate.sqlite"),
    "home/acme/submission.yaml": ("verify", "home/acme", "--share", "0"),
    "home/rounds.yaml": ("verify", "home/acme", "--share", "0"),
    "home/attempts.jsonl": ("verify", "home/acme", "--share", "0"),
    "log.yaml": ("log", "check", "log.yaml"),
    "log.csv": ("log", "check", "log.yaml"),
}

DAMAGES: dict[str, bytes | None] = {
    "no bytes": b"",
    "bytes of no text": b"\x00\xff\xfe\x00" * 9,
    "a list": b"[1]",
    "cut off": b'{"schema": 1, "runs": [',
    "too deep": b"[" * 5_000,
    "half a character": b'{"schema": 1, "runs": "\\ud800"}',
    "a folder": None,
}


@pytest.fixture(scope="module")
def places(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one healthy file of each kind."""
    site = tmp_path_factory.mktemp("places")
    shutil.copytree(made, site / "mine")
    (site / "mine.yaml").write_text(SUITE)
    shutil.copy(made.parent / "s.sqlite", site)
    shutil.copy(made / "trials.parquet", site / "export.parquet")
    # An export of a version that kept the facts of runs beside it.
    table = pq.read_table(made / "trials.parquet")
    pq.write_table(table.replace_schema_metadata(None), site / "older.parquet")
    shutil.copy(made / "run.json", site / "older.json")
    base = ("baseline", "save", str(site / "base.json"), "--store", str(site / "s.sqlite"))
    assert invoke([*base, "--suite", str(site / "mine.yaml")]) == 0
    write_home(site / "home")
    begin(site / "home", "acme", SECRETS[0])
    shutil.copytree(made, site / "home" / "acme")
    (site / "home" / "acme" / "submission.yaml").write_text(yaml.safe_dump(ENTRY))
    (site / "log.csv").write_text("x,a,r,p\n" + "1,u,0,0.5\n2,v,1,0.5\n" * 9)
    (site / "log.yaml").write_text(
        "schema: 1\ntable: log.csv\naction: a\nreward: r\npropensity: p\n"
        "context: [x]\ntarget: {action: u}\n"
    )
    return site


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", KINDS)
def test_a_damaged_file_of_any_kind_is_one_line_with_its_name(
    name: str,
    damage: str,
    places: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(places)
    path, content = Path(name), DAMAGES[damage]
    kept = path.read_bytes()
    path.unlink()
    path.mkdir() if content is None else path.write_bytes(content)
    try:
        code = invoke([*KINDS[name]])
        said = capsys.readouterr().err
    finally:
        path.rmdir() if content is None else path.unlink()
        path.write_bytes(kept)
    assert not list(places.rglob("ran"))
    code_told, words = TOLD.get((name, damage), (2, path.name))
    assert (code, len(said.splitlines())) == (code_told, code_told // 2), said
    assert words in said.replace("older.parquet", "older.json")


TOLD = {
    ("home/attempts.jsonl", "no bytes"): (2, "'acme'"),  # Nothing ran yet; it is not installed.
    ("older.json", "a folder"): (0, ""),  # Facts of runs may be lacking.
    ("mine/run.json", "a folder"): (2, "mine has no"),
    ("mine/trials.parquet", "a folder"): (2, "mine has no"),
    ("mine/mine.yaml", "a folder"): (2, "suite 'mine'"),
}
"""What is told of a file that is absent rather than damaged."""


# Types: a value is its own or it is refused.

WRONG: tuple[Any, ...] = (None, True, 7, -7, 0.5, "word", "7", "./evil.py", [], [7], {}, {"a": 7})
FREE = {"arithmetic", "params", "machine", "environment_params"}
"""Keys below which anything may be."""


def _mutants(told: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str, Any, Any]]:
    """Yield a document with one value replaced: its key, the value before and the new one."""
    items = told.items() if isinstance(told, dict) else enumerate(told)
    for key, value in [*items]:
        here = (*path, key)
        for other in WRONG:
            if type(other) is not type(value):
                told[key] = other
                yield ".".join(map(str, here)), value, other
        told[key] = value
        if isinstance(value, dict | list) and key not in FREE:
            yield from _mutants(value, here)


def _allowed(key: str, before: Any, now: Any) -> bool:
    """Whether another type may stand there."""
    name = key.rpartition(".")[2]
    optional = {"bytes", "finished", "exit_code", "plan", "arithmetic", "cpu", "cluster"}
    whole = isinstance(before, float) and type(now) is int
    # A round without a last day is a list of hashes.
    return (now is None and name in optional) or whole or (now == [] and key == "rounds.one")


READ: dict[str, Callable[[Path], object]] = {
    "mine/run.json": lambda path: submission.read_facts(path.with_name("trials.parquet")),
    "home/acme/submission.yaml": lambda path: submission.read_submission(path.parent),
    "home/rounds.yaml": lambda path: submission.read_rounds(path.parent),
    "home/attempts.jsonl": lambda path: submission.read_attempts(path.parent),
}
CLASSES = {
    name
    for module in (submission, verification, yaml_document)
    for name, one in vars(module).items()
    if isinstance(one, type) and one.__module__.startswith("ope_bench")
}


@pytest.mark.parametrize("name", READ)
def test_a_value_of_another_type_is_refused_with_its_place(
    name: str, places: Path, tmp_path: Path
) -> None:
    shutil.copytree(places, tmp_path / "places")
    path = tmp_path / "places" / name
    if name == "home/attempts.jsonl":
        first = submission.read_attempts(path.parent)[0]
        append_attempt(path.parent, replace(first, figures=_figures(0.8), marks=["verified"]))
    *before, text = path.read_text().splitlines() if "attempts" in name else [path.read_text()]
    if name == "home/rounds.yaml":
        day = "{ends: 2027-03-31, secrets: [" + "0" * 64 + "]}"
        text = text[: text.index("rounds:")] + f"rounds: {{one: {day}}}\nparts: 2\n"
    told = yaml.safe_load(text) if name.endswith("yaml") else json.loads(text)
    told = json.loads(json.dumps(told, default=str))
    READ[name](path)
    refused = 0
    for key, value, other in _mutants(told):
        path.write_text("\n".join([*before, json.dumps(told, sort_keys=True)]) + "\n")
        try:
            READ[name](path)
        except UsageError as exc:
            said, refused = str(exc), refused + 1
            place = key if path.suffix == ".json" else str(path)
            assert said.startswith(f"{path}:"), said
            assert place.partition(".")[0] in said
            assert "\n" not in said
            assert not CLASSES & set(re.findall(r"\w+", said)), said
        else:
            assert _allowed(key, value, other), (key, value, other)
    assert refused > 50


# Files of submissions.


ROUNDS: dict[str, Any] = {
    "no suite": {"suite": None},
    "a suite elsewhere": {"suite": "../small"},
    "no tracks": {"tracks": []},
    "a track of a word": {"tracks": ["samples only"]},
    "a track that grants a number": {
        "tracks": [{"name": "x", "granted": 1, "reference": "ipw", "probe": "ipw"}]
    },
    "rounds that are a list": {"rounds": []},
    "a hash that is none": {"rounds": {"one": ["abc"]}},
    "a round without an end": {"rounds": {"one": {"secrets": []}}},
    "an end that is no day": {"rounds": {"one": {"ends": "soon", "secrets": []}}},
    "no parts": {"parts": 0},
    "another schema": {"schema": 2},
    "an unknown key": {"prize": 5},
}


@pytest.mark.parametrize("damage", ROUNDS)
def test_damaged_rounds_are_refused_with_their_line(damage: str, tmp_path: Path) -> None:
    home = write_home(tmp_path / "home")
    path = home / "rounds.yaml"
    told = yaml.safe_load(path.read_text())
    submission.read_rounds(home)
    path.write_text(yaml.safe_dump(told | ROUNDS[damage]))
    with pytest.raises(UsageError, match=r"rounds\.yaml:\d+: "):
        submission.read_rounds(home)


ENTRY: dict[str, Any] = {
    "schema": 1,
    "distribution": "acme",
    "version": "1.0",
    "repository": "",
    "commit": "",
    "estimators": ["acme[clip=2]"],
    "digest": "0" * 64,
    "authors": ["A"],
    "license": "MIT",
    "tuned": "none",
    "tuned_on_public_seeds": False,
    "conflicts": "none",
    "out_of_competition": False,
}

ENTRIES: dict[str, Any] = {
    "a class in a file": {"estimators": ["./evil.py:Evil"]},
    "a class in another folder": {"estimators": ["../evil.py:Evil"]},
    "letters that look like ours": {"estimators": ["іpws"]},
    "no estimators": {"estimators": []},
    "a digest that is none": {"digest": "abc"},
    "a distribution elsewhere": {"distribution": "../acme"},
    "authors that are a word": {"authors": "A"},
    "nothing on conflicts": {"conflicts": None},
    "a mark that is no answer": {"out_of_competition": "perhaps"},
    "an unknown key": {"rank": 1},
}


@pytest.mark.parametrize("damage", ENTRIES)
def test_a_damaged_submission_yaml_is_refused_with_its_line(damage: str, tmp_path: Path) -> None:
    folder = tmp_path / "acme"
    folder.mkdir()
    (folder / "submission.yaml").write_text(yaml.safe_dump(ENTRY))
    assert submission.read_submission(folder).distribution == "acme"
    (folder / "submission.yaml").write_text(yaml.safe_dump(ENTRY | ENTRIES[damage]))
    with pytest.raises(UsageError, match=r"submission\.yaml:\d+: "):
        submission.read_submission(folder)


def _figures(ratio: float) -> list[Figures]:
    facts = {"estimator": "acme", "id": "acme", "track": "t", "reference": "ipw"}
    numbers = {"low": 0.5, "high": 1.5, "log_se": 0.1, "settings": 3, "failures": 0.0}
    return [Figures(**facts, params={}, ratio=ratio, **numbers)]  # type: ignore[arg-type]


@pytest.fixture
def lines(tmp_path: Path) -> list[str]:
    """Two runs of one entry: each has two lines."""
    for secret, ratio in zip(SECRETS[:2], (0.8, 0.9), strict=True):
        begun = begin(tmp_path, "acme", secret)
        append_attempt(tmp_path, replace(begun, figures=_figures(ratio), marks=["verified"]))
    return (tmp_path / "attempts.jsonl").read_text().splitlines()


def _changed(line: str, **values: Any) -> str:
    return json.dumps(json.loads(line) | values, sort_keys=True)


ATTEMPTS: dict[str, tuple[int, Callable[[list[str]], list[str]]]] = {
    "the first figures": (
        3,
        lambda x: [x[0], x[1].replace("0.8", "0.1"), *x[2:]],
    ),
    "a line that began a run is gone": (2, lambda x: [x[0], *x[2:]]),
    "the first line is gone": (1, lambda x: x[1:]),
    "a line twice": (3, lambda x: [*x[:2], x[1], *x[2:]]),
    "the order": (1, lambda x: [x[2], x[3], x[0], x[1]]),
    "a name": (2, lambda x: [x[0], _changed(x[1], name="acmf"), *x[2:]]),
    "garbage": (2, lambda x: [x[0], "garbage", *x[1:]]),
    "a list": (2, lambda x: [x[0], "[]", *x[1:]]),
    "an empty line": (2, lambda x: [x[0], "", *x[1:]]),
    "no name": (1, lambda x: [json.dumps({**json.loads(x[0]), "name": None}), *x[1:]]),
    "a name elsewhere": (1, lambda x: [_changed(x[0], name="../acme"), *x[1:]]),
    "a separator of lines in a text": (
        4,
        lambda x: [*x[:3], _changed(x[3], marks=["a\u2028b"]).replace("\\u2028", "\u2028")],
    ),
    "other spaces": (1, lambda x: [x[0].replace(": ", ":"), *x[1:]]),
    "a salt": (1, lambda x: [_changed(x[0], salt="0" * 64), *x[1:]]),
    "a ratio of nothing": (4, lambda x: [*x[:3], _changed(x[3], figures=[{}])]),
    "an infinite ratio": (4, lambda x: [*x[:3], x[3].replace("0.9", "1e999")]),
    "a ratio below zero": (4, lambda x: [*x[:3], x[3].replace("0.9", "-0.9")]),
    "an unknown key": (4, lambda x: [*x[:3], _changed(x[3], rank=1)]),
    "too deep": (2, lambda x: [x[0], "[" * 50_000, *x[1:]]),
}


@pytest.mark.parametrize("damage", ATTEMPTS)
def test_a_damaged_line_of_attempts_is_refused_with_its_number(
    damage: str, lines: list[str], tmp_path: Path
) -> None:
    assert len(submission.read_attempts(tmp_path)) == 4
    number, change = ATTEMPTS[damage]
    text = "\n".join(change(lines)) + "\n"
    (tmp_path / "attempts.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=rf"attempts\.jsonl:{number}: "):
        submission.read_attempts(tmp_path)


def test_a_secret_begins_and_ends_one_run(tmp_path: Path) -> None:
    begun = begin(tmp_path, "acme", SECRETS[0])
    path = tmp_path / "attempts.jsonl"
    first = path.read_text()
    for again in (begun, replace(begun, name="other")):
        path.write_text(first)
        append_attempt(tmp_path, again)
        with pytest.raises(UsageError, match=r"attempts\.jsonl:2: the line uses a secret again"):
            submission.read_attempts(tmp_path)
    path.write_text("")
    append_attempt(tmp_path, replace(begun, figures=_figures(1.0), marks=["verified"]))
    with pytest.raises(UsageError, match=r"attempts\.jsonl:1: .* did not begin"):
        submission.read_attempts(tmp_path)


def test_a_secret_is_not_used_after_the_end_nor_after_it_was_published(tmp_path: Path) -> None:
    home = write_home(tmp_path / "home")
    told = yaml.safe_load((home / "rounds.yaml").read_text())
    hashes = told["rounds"]["one"]
    told["rounds"] = {"one": {"ends": "2027-03-31", "secrets": hashes}}
    (home / "rounds.yaml").write_text(yaml.safe_dump(told))
    rounds = submission.read_rounds(home)
    assert rounds.round_of(SECRETS[0], "2027-03-31", home) == ("one", "")
    assert "ended on 2027-03-31" in rounds.round_of(SECRETS[0], "2027-04-01", home)[1]
    assert "published its hash" in rounds.round_of("mine", "2027-03-31", home)[1]
    (home / "unused-one.txt").write_text(f"{SECRETS[0]}\n")
    assert "unused-one.txt" in rounds.round_of(SECRETS[0], "2027-03-31", home)[1]
    assert rounds.round_of(SECRETS[1], "2027-03-31", home) == ("one", "")


def test_the_part_of_the_suite_follows_from_the_secret(tmp_path: Path) -> None:
    rounds = replace(submission.read_rounds(write_home(tmp_path / "home")), parts=10)
    parts = [rounds.part_of(secret) for secret in SECRETS]
    assert parts == [rounds.part_of(secret) for secret in SECRETS]
    assert len(set(parts)) >= 8
    assert {one.partition("/")[2] for one in parts} == {"10"}
