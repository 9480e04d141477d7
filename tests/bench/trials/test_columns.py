"""Store, exports and baselines have the columns that the fields of a record give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

import pytest

from ope_bench.gate import baseline
from ope_bench.store import Store
from ope_bench.store.export import COLUMNS
from ope_bench.trials.record import RECORD_COLUMNS, Trial, TrialRecord
from ope_bench.trials.status import DATA, LOCAL, Status, columns_of
from support.paths import RESULTS


@dataclass(frozen=True)
class _Record:
    trial: Trial
    code: str
    status: Status
    value: float | None = field(default=None, metadata=DATA | LOCAL)
    count: int | None = None
    alone: bool = False
    facts: Mapping[str, float] = field(default_factory=dict)
    words: tuple[str, ...] | None = None


def test_a_column_follows_from_the_type_and_the_metadata_of_its_field() -> None:
    columns = {column.name: column for column in columns_of(_Record)}
    assert list(columns) == ["code", "status", "value", "count", "alone", "facts", "words"]
    assert [name for name, column in columns.items() if not column.exported] == ["value"]
    assert [name for name, column in columns.items() if column.baseline] == ["value"]
    assert [column.type for column in columns.values()] == [
        *("string", "string", "double", "int64", "bool", "json", "json")
    ]


@pytest.mark.parametrize(
    ("name", "value", "plain"),
    [
        ("code", "c0de", "c0de"),
        ("code", "a\udcffb", "a\\udcffb"),
        ("status", Status.OK, "ok"),
        ("value", 0.1, 0.1),
        ("count", 3, 3),
        ("alone", True, 1),
        ("facts", {"a": 0.5}, '{"a": 0.5}'),
        ("words", ("a", "b"), '["a", "b"]'),
    ],
)
def test_values_become_plain_and_come_back(name: str, value: object, plain: object) -> None:
    (column,) = (one for one in columns_of(_Record) if one.name == name)
    given = column.to_plain(value)
    assert given == plain
    assert type(given) is type(plain)
    back = given if column.from_plain is None else column.from_plain(given)
    assert back == (plain if name == "code" else value)
    assert type(back) in (type(value), dict)


def test_a_number_that_does_not_exist_is_stored_as_null() -> None:
    (value,) = (one for one in columns_of(_Record) if one.name == "value")
    assert value.to_plain(float("nan")) is None


def test_every_field_of_a_record_has_a_column_in_the_store(tmp_path: Path) -> None:
    assert list(RECORD_COLUMNS) == [one.name for one in fields(TrialRecord)][1:]
    with Store.open(tmp_path / "new.sqlite", write=True) as store:
        stored = {row[1] for row in store._db.execute("PRAGMA table_info(record)")}
    of_the_run = {"id", "key", "run", "finished", "timeout", "memory", "checksum"}
    of_the_run |= {"estimator_digest"}
    of_the_trial = {"environment", "estimator", "replicate", "seed", "device", "threads", "salt"}
    assert stored == {*RECORD_COLUMNS} | of_the_run | of_the_trial


def test_exports_have_the_promised_columns_in_the_promised_order() -> None:
    promised = (
        "key, code_digest, run_id, suite, environment, environment_params, estimator, params, "
        "replicate, seed, device, status, estimate, standard_error, fallback, truth_expected, "
        "truth_expected_se, truth_empirical, logging_average, unsupported_mass, "
        "observed_unsupported_mass, n_logged_actions, n_target_actions, ess_fraction, "
        "max_weight_share, fit_seconds, fit_cpu_seconds, estimate_seconds, shared_seconds, "
        "peak_rss_bytes, gpu_peak_bytes, exclusive, diagnostics, access, origin, "
        "environment_origin, error_type, error_message, note, interval_low, interval_high, "
        "interval_level, interval_kind, salt, threads, environment_version, "
        "environment_reference, reference, environment_label, label, made_by, estimator_digest, "
        "signal"
    )
    assert list(COLUMNS) == promised.split(", ")


def test_a_committed_baseline_is_written_as_it_was_read(tmp_path: Path) -> None:
    committed = RESULTS / "baselines" / "ci.json"
    baseline.save(tmp_path / "again.json", baseline.load(committed))
    assert (tmp_path / "again.json").read_bytes() == committed.read_bytes()
