import contextlib
import json
import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ope_bench.base.errors import StoreError
from ope_bench.boards.leaderboard import boards, boards_document
from ope_bench.gate.baseline import (
    Acceptance,
    Baseline,
    SpecNames,
    SuiteFacts,
    _checksum,
    identity_of,
    is_baseline,
    lines_of,
    load,
    records_of,
    save,
)
from ope_bench.trials.status import Status

SUITE = SuiteFacts("ci", "empirical", 20, title="A title", timeout=60.0)


@pytest.fixture
def baseline(normal_row, record):
    records = [
        *normal_row("ipw", replicates=20, n=500),
        *normal_row("ipw", replicates=20, stream=1),
        *normal_row("dm", replicates=20, stream=2, params={"clip": None, "depth": 3}),
        record("fails", 0, status=Status.POSITIVITY, fallback=1.7, error_type="X"),
        record("timed", 0, exclusive=True, fit_seconds=0.5, estimate_seconds=0.1),
    ]
    entry = Acceptance("2025-01-01T00:00:00Z", "first", {"worse": 1})
    return Baseline(SUITE, tuple(records), {"cpu": "fast", "cores": 2}, (entry,))


@pytest.fixture
def file(tmp_path, baseline):
    save(tmp_path / "ci.json", baseline)
    return tmp_path / "ci.json"


def test_keys_and_figures_survive_the_round_trip(baseline, file):
    found = load(file)
    assert found.suite == baseline.suite
    assert found.history == baseline.history
    assert found.machine == baseline.machine
    before = {record.key: record for record in baseline.records}
    after = {record.key: record for record in found.records}
    assert before.keys() == after.keys()
    for key, record in before.items():
        same = ("status", "estimate", "truth_empirical", "logging_average", "fallback")
        for name in (*same, "code_digest", "error_type"):
            assert getattr(after[key], name) == getattr(record, name), name
        assert (after[key].exclusive, after[key].fit_seconds) == (False, None)


def test_times_in_lines_of_older_baselines_are_passed_over(baseline):
    names = SpecNames.of(baseline.records)
    lines = list(lines_of(baseline.records, names))
    former = {"exclusive": True, "fit_seconds": 0.5, "estimate_seconds": 0.1}
    assert list(records_of([one | former for one in lines], names)) == list(
        records_of(lines, names)
    )


def test_boards_are_derived_from_the_trials(baseline, file):
    untimed = [
        replace(one, exclusive=False, fit_seconds=None, estimate_seconds=None)
        for one in baseline.records
    ]
    assert boards_document(boards(load(file).records)) == boards_document(boards(untimed))


def test_saving_what_was_loaded_gives_the_same_bytes_whatever_the_order(baseline, file, tmp_path):
    again = tmp_path / "again.json"
    save(again, load(file))
    assert again.read_bytes() == file.read_bytes()


def test_every_line_is_json_and_one_trial(baseline, file):
    lines = file.read_text().splitlines()
    assert len(lines) == 1 + len(baseline.records)
    assert all(isinstance(json.loads(line), dict) for line in lines)
    assert max(map(len, lines[1:])) < 350


def test_windows_line_ends_are_no_edit(file):
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert len(load(file).records) == 62


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda text: "", "it is empty"),
        (lambda text: "hello\n", "not an ope-bench baseline"),
        (lambda text: '{"schema": 1}\n', "not an ope-bench baseline"),
        (lambda text: "[" * 100_000, "not an ope-bench baseline"),
        (lambda text: text.replace('"schema": 1', '"schema": 2', 1), "schema 2"),
        (lambda text: "\n".join(text.splitlines()[:30]) + "\n", "holds 29 trials"),
        (lambda text: text[:-40], "line 63: not a JSON object"),
        (lambda text: text.replace('"estimate": 1.', '"estimate": 2.', 1), "edited"),
        (lambda text: text.replace('"first"', '"second"'), "edited"),
        (lambda text: text + text.splitlines()[-1] + "\n", "holds 63 trials"),
    ],
)
def test_a_damaged_file_is_refused_with_one_clear_line(file, edit, words):
    file.write_text(edit(file.read_text()))
    with pytest.raises(StoreError) as caught:
        load(file)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_binary_or_missing_file_or_a_folder_is_refused(tmp_path):
    (tmp_path / "b").write_bytes(bytes(range(256)))
    for name in ("b", "none", "."):
        with pytest.raises(StoreError):
            load(tmp_path / name)
    assert not is_baseline(tmp_path / "none")


@given(data=st.data())
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_edit_of_one_place_goes_unnoticed_or_ends_in_a_traceback(file, tmp_path, data):
    text = file.read_text()
    start = data.draw(st.integers(0, len(text) - 2))
    length = data.draw(st.integers(0, 30))
    new = data.draw(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=10))
    edited = text[:start] + new + text[start + length :]
    other = tmp_path / "edited.json"
    other.write_text(edited)
    if _meaning(edited) == _meaning(text):
        return
    with pytest.raises(StoreError):
        load(other)


def test_a_valid_checksum_over_nonsense_is_still_refused(file, baseline, monkeypatch):
    wrong = replace(baseline.records[0], estimate="high")
    save(file, replace(baseline, records=(wrong,)))
    with pytest.raises(StoreError, match="line 2"):
        load(file)


@pytest.mark.parametrize("wrong", [None, math.nan, math.inf, 5, "?", [5], {"?": 5}, ...])
@pytest.mark.parametrize(
    "name", ["suite", "trials", "history", "machine", "environments", "estimators", "given"]
)
def test_a_header_of_nonsense_is_refused_whatever_its_checksum(file, name, wrong):
    first, *lines = file.read_text().splitlines()
    header = json.loads(first)
    if wrong is ...:
        header.pop(name, None)
    else:
        header[name] = wrong
    with contextlib.suppress(ValueError):  # of numbers that are not finite there is none
        header["sha256"] = _checksum(header, lines)
    file.write_text("\n".join([json.dumps(header), *lines]) + "\n")
    told = ""
    try:
        load(file)
    except StoreError as exc:
        told = str(exc)
    # Any facts of a machine are facts, and the parameters that a suite gave may be unknown.
    assert told or name in ("machine", "given")
    assert "\n" not in told


def test_a_missing_folder_is_made(tmp_path, baseline):
    save(tmp_path / "some" / "folder" / "ci.json", baseline)
    assert len(load(tmp_path / "some" / "folder" / "ci.json").records) == len(baseline.records)


def test_saving_where_no_folder_can_be_is_one_clear_line(tmp_path, baseline):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot make the folder") as caught:
        save(tmp_path / "file" / "ci.json", baseline)
    assert "\n" not in str(caught.value)


def test_the_parameters_that_a_suite_sets_survive_the_round_trip(tmp_path, baseline):
    specs = [one.trial.estimator for one in baseline.records if one.trial.estimator.id == "dm"]
    environment = baseline.records[0].trial.environment
    given = {identity_of(specs[0]): ("depth",), identity_of(environment): ()}
    save(tmp_path / "b.json", replace(baseline, given=given))
    assert load(tmp_path / "b.json").given == given


def test_a_baseline_from_before_parameters_were_noted_has_none(file):
    assert "given" not in json.loads(file.read_text().splitlines()[0])
    assert load(file).given == {}


def test_what_the_data_are_is_written_once_a_replicate_and_known_to_all(tmp_path, record):
    records = [record(name, r, truth_empirical=0.9 + r) for name in ("a", "b") for r in range(3)]
    noted = [replace(one, environment_origin="toys 1 (surrogate)") for one in records]
    save(tmp_path / "b.json", Baseline(SUITE, tuple(noted)))
    assert (tmp_path / "b.json").read_text().count("truth_empirical") == 3
    found = load(tmp_path / "b.json").records
    assert [one.truth_empirical for one in found] == [0.9, 1.9, 2.9] * 2
    assert {one.environment_origin for one in found} == {"toys 1 (surrogate)"}


def test_plugins_in_files_are_named_by_relative_paths(tmp_path, record, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = record()
    spec = replace(one.trial.estimator, reference=f"{tmp_path}/my.py:MyIPW", origin="my.py")
    local = replace(one, trial=replace(one.trial, estimator=spec))
    save(tmp_path / "b.json", Baseline(SUITE, (local,)))
    assert str(tmp_path) not in (tmp_path / "b.json").read_text()
    (found,) = load(tmp_path / "b.json").records
    assert found.trial.estimator.reference == "my.py:MyIPW"


def _meaning(text):
    """What a reader takes from the lines; blanks between JSON tokens mean nothing."""
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return text.splitlines()


def test_a_listed_estimator_without_a_trial_is_refused(file):
    header, *body = file.read_text().splitlines()
    told = json.loads(header)
    kept = [line for line in body if '"dm' not in line]
    assert len(kept) == len(body) - 20
    told["trials"] = len(kept)
    told["sha256"] = _checksum({k: v for k, v in told.items() if k != "sha256"}, kept)
    file.write_text("\n".join([json.dumps(told), *kept]) + "\n")
    with pytest.raises(StoreError, match="lists estimator 'dm"):
        load(file)
