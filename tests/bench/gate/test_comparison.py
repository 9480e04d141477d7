"""A comparison setting by setting says the same as one of all records at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ope_bench.base.errors import UsageError
from ope_bench.contracts.data import TruthKind
from ope_bench.gate.baseline import Baseline, SuiteFacts, pair_records, save
from ope_bench.gate.session import LEVEL, compare
from ope_bench.gate.verdict import Judgement, Rules, alike, judge
from ope_bench.plugins.spec import PluginSpec
from ope_bench.store import Store
from ope_bench.trials.record import Trial, TrialRecord
from ope_bench.trials.status import Status


def records(seed: int, *, replicates: int = 12) -> list[TrialRecord]:
    """Three settings, four methods; failures, withheld estimates, nothing at all."""
    rng = np.random.default_rng(seed)
    found = []
    for replicate in range(replicates):
        for n in (2, 10, 50):
            for place, name in enumerate(("ipw", "dm", "dr", "never")):
                status = (Status.ERROR, Status.POSITIVITY, *[Status.OK] * 8)[rng.integers(10)]
                trial = Trial(
                    PluginSpec("environment", "toy", "toy", {"n_actions": n}),
                    PluginSpec("estimator", name, name),
                    replicate,
                )
                answer = 1.0 + float(rng.normal() * (place + 1)) if seed or place else 1.5
                found.append(
                    TrialRecord(
                        trial,
                        "digest",
                        Status.UNAVAILABLE if name == "never" else status,
                        estimate=answer if status is Status.OK and name != "never" else None,
                        fallback=answer if status is Status.POSITIVITY else None,
                        truth_expected=1.0,
                        truth_empirical=None if status is Status.ERROR else 1.0 + 0.1 * replicate,
                        logging_average=0.5,
                    )
                )
    return found


def stored(path: Path, *runs: tuple[TruthKind, Sequence[TrialRecord]]) -> Path:
    with Store.open(path, write=True) as store:
        for truth, outcomes in runs:
            run = store.begin_run(suite="toy", truth=truth)
            for one in outcomes:
                store.add(one, run)
            store.end_run(run, 0)
    return path


def all_at_once(a: Path, b: Path) -> tuple[list[Judgement], set[str], set[str], set[str]]:
    sides: list[dict[TruthKind, list[TrialRecord]]] = []
    for path in (a, b):
        kinds: dict[TruthKind, list[TrialRecord]] = {}
        with Store.open(path) as store:
            for result in store.results():
                kinds.setdefault(result.run.truth, []).append(result.record)
        sides.append(kinds)
    before, after = sides
    others = {one.key: one for kind in after.values() for one in kind}
    known = {one.key for kind in before.values() for one in kind}
    rules = Rules(margin=0.0, level=LEVEL, symmetric=True, same_arithmetic=False)
    judgements = [
        replace(one, row=replace(one.row, pairs=()))
        for truth, kind in before.items()
        for one in judge(pair_records(kind, others), truth, rules)
    ]
    return judgements, known & set(others), known - set(others), set(others) - known


def test_settings_one_by_one_give_the_judgements_of_all_records(tmp_path: Path) -> None:
    first, second = records(0), records(1)
    a = stored(
        tmp_path / "a.sqlite",
        ("empirical", first[5:]),
        ("expected", records(2)[:60]),
        ("empirical", records(3)[20:40]),
    )
    b = stored(
        tmp_path / "b.sqlite",
        ("expected", second[:-9]),
        ("empirical", records(4, replicates=14)[30:]),
    )
    for one, other in ((a, b), (b, a), (a, a)):
        judgements, pairs, only_a, only_b = all_at_once(one, other)
        found = compare(one, other)
        assert list(found.judgements) == judgements
        assert len({judged.verdict for judged in judgements}) > 1 or one == other
        assert (found.pairs, found.only_a, found.only_b) == (len(pairs), len(only_a), len(only_b))


def test_a_baseline_compares_as_the_store_of_its_records_does(tmp_path: Path) -> None:
    kept = records(0)
    save(tmp_path / "a.json", Baseline(SuiteFacts("toy", "empirical", 12), tuple(kept)))
    store = stored(tmp_path / "a.sqlite", ("empirical", kept))
    other = stored(tmp_path / "b.sqlite", ("empirical", records(1)))
    found, expected = compare(tmp_path / "a.json", other), compare(store, other)

    def by_row(judgements: Sequence[Judgement]) -> dict[str, float | None]:
        return {
            one.row.environment.identity_json + one.row.estimator.identity_json: one.rmse_after
            for one in judgements
        }

    assert by_row(found.judgements) == by_row(expected.judgements)
    assert found.pairs == expected.pairs == len(kept)


def test_settings_of_one_side_alone_are_counted(tmp_path: Path) -> None:
    found = records(0)
    small = [one for one in found if one.trial.environment.params["n_actions"] == 2]
    a = stored(tmp_path / "a.sqlite", ("expected", found))
    b = stored(tmp_path / "b.sqlite", ("expected", small))
    there, back = compare(a, b), compare(b, a)
    assert (there.pairs, there.only_a, there.only_b) == (len(small), len(found) - len(small), 0)
    assert (back.pairs, back.only_a, back.only_b) == (len(small), 0, len(found) - len(small))
    other = stored(tmp_path / "c.sqlite", ("expected", [one for one in found if one not in small]))
    with pytest.raises(UsageError, match="no trial in common"):
        compare(b, other)


def test_no_more_than_one_estimator_on_one_setting_is_read_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ope_bench.store.reader import Reader

    a = stored(tmp_path / "a.sqlite", ("expected", records(0)))
    sizes = []
    read = Reader.results

    def counted(self, places, columns):
        sizes.append(len(places))
        return read(self, places, columns)

    monkeypatch.setattr(Reader, "results", counted)
    assert compare(a, a).pairs == len(records(0))
    assert max(sizes) == len(records(0)) // (3 * 4)


def test_figures_are_alike_up_to_rounding_and_of_one_type() -> None:
    assert alike({"a": [1.0, 2]}, {"a": [1.0 + 1e-13, 2.0]})
    for one, other in ((1.0, 1.001), (1.0, True), (0, False), ([1], [1, 2]), ("1", 1), (None, 0)):
        assert not alike(one, other), (one, other)
