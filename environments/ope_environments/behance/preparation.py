"""Prepare the data from the three raw files, with a report of findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ope_bench import DataFileError
from ope_environments.behance.components import streamed_components
from ope_environments.behance.findings import RawFindings
from ope_environments.behance.layout import (
    APPRECIATES,
    FEATURES,
    FILES,
    OWNERS,
    PUBLISHED,
    RECORD_BYTES,
    SURROGATE_MARK,
)
from ope_environments.behance.prepared import Prepared, count_appreciates
from ope_environments.behance.raw import (
    FeatureFile,
    Ids,
    Pairs,
    feature_file,
    read_appreciates,
    read_owners,
    require_files,
)

__all__ = ["Progress", "RawData", "prepare", "read_raw"]

Progress = Callable[[str, int, int | None], None]
"""Called with the stage, the bytes just read, and the total bytes if known."""


@dataclass
class RawData:
    """The raw files, read and checked; features remain in their file.

    Parameters
    ----------
    folder : folder of the files.
    appreciates, owners : the rows of the text files.
    features : the feature file.
    record : (n,), the usable records.
    item : (n,), their ids.
    findings : damage and peculiarities.
    surrogate : text of the mark of generated files, empty for others.
    """

    folder: Path
    appreciates: Pairs
    owners: Pairs
    features: FeatureFile
    record: np.ndarray
    item: Ids
    findings: RawFindings
    surrogate: str
    facts: dict[str, int] = field(default_factory=dict)


def read_raw(folder: Path, progress: Progress = lambda stage, done, total: None) -> RawData:
    """Read and check all files, features included.

    Raises
    ------
    UnavailableError : a file is missing.
    DataFileError : a file is empty, or so damaged that nothing can be read.
    """
    require_files(folder)
    findings = RawFindings()
    features = feature_file(folder)
    features.check_size(findings)
    appreciates = read_appreciates(
        folder, findings, lambda done: progress(f"reading {APPRECIATES}", done, None)
    )
    owners = read_owners(folder, findings, lambda done: progress(f"reading {OWNERS}", done, None))
    record, item = _records(features, findings, progress)
    mark = folder / SURROGATE_MARK
    surrogate = mark.read_text(encoding="utf-8").strip() if mark.is_file() else ""
    raw = RawData(folder, appreciates, owners, features, record, item, findings, surrogate)
    _compare(raw)
    return raw


def _records(
    features: FeatureFile, findings: RawFindings, progress: Progress
) -> tuple[np.ndarray, Ids]:
    """Select the usable records; of several with the same id, the first."""
    records, ids = [], []
    total = features.n_records * RECORD_BYTES
    for start, chunk_ids, chunk in features.chunks():
        usable = features.usable(start, chunk_ids, chunk, findings)
        records.append(start + np.flatnonzero(usable))
        ids.append(chunk_ids[usable])
        progress(f"checking {FEATURES}", len(chunk_ids) * RECORD_BYTES, total)
    record, item = np.concatenate(records), np.concatenate(ids)
    first = np.sort(np.unique(item, return_index=True)[1])
    again = np.setdiff1d(np.arange(len(item)), first)
    for k in again.tolist():
        what = "an item has features already"
        place, detail = features.place(int(record[k])), f"item {item[k].decode()}"
        findings.add(FEATURES, what, place=place, damage=True, detail=detail)
    return record[first], item[first]


def _compare(raw: RawData) -> None:
    """Compare the files with each other and with the published counts."""
    findings, appreciates, owners = raw.findings, raw.appreciates, raw.owners
    appreciated = np.unique(appreciates.item)
    facts = raw.facts
    facts["appreciates"] = len(appreciates.user)
    facts["users"] = len(np.unique(appreciates.user))
    facts["items"] = len(appreciated)
    facts["features"] = len(raw.item)
    facts["owner_lines"] = len(owners.user)
    facts["creators"] = len(np.unique(owners.user))
    facts["items_with_several_owners"] = int(
        (np.unique(owners.item, return_counts=True)[1] > 1).sum()
    )
    featureless = np.setdiff1d(appreciated, raw.item)
    facts["items_without_features"] = len(featureless)
    facts["features_never_appreciated"] = len(np.setdiff1d(raw.item, appreciated))
    creator = np.isin(appreciates.user, owners.user)
    facts["appreciates_by_creators"] = int(creator.sum())
    for one in featureless.tolist():
        what = "an appreciated item has no features; it is not among the actions"
        findings.add(FEATURES, what, place=f"item {one.decode()}")
    if not creator.any():
        findings.add(OWNERS, "no creator appreciated anything: rewards of context 1 are all 0")
    if not raw.surrogate:
        for name, published in PUBLISHED.items():
            if facts[name] != published:
                file = FEATURES if name == "features" else APPRECIATES
                findings.add(file, f"{facts[name]:,} {name}; published are {published:,}")
    if len(featureless) == len(appreciated):
        what = "no appreciated item has features; are the files of one data set?"
        raise DataFileError(raw.folder, what)


def prepare(
    raw: RawData, n_components: int = 4, progress: Progress = lambda stage, done, total: None
) -> Prepared:
    """Count appreciates, compress features, and sort items by id.

    Parameters
    ----------
    raw : the files.
    n_components : principal components of the features.
    progress : called with the progress of the work.

    Raises
    ------
    DataFileError : there are fewer items than components.
    """
    chosen = np.zeros(raw.features.n_records, dtype=bool)
    chosen[raw.record] = True
    passes = 0

    def run() -> Iterator[np.ndarray]:
        nonlocal passes
        passes += 1
        stage = f"compressing {FEATURES}, pass {passes} of 2"
        for start, ids, chunk in raw.features.chunks():
            kept = chosen[start : start + len(ids)]
            yield chunk if kept.all() else chunk[kept]
            progress(stage, len(ids) * RECORD_BYTES, raw.features.n_records * RECORD_BYTES)

    try:
        scores, explained = streamed_components(run, n_components)
    except ValueError as exc:
        raise DataFileError(raw.features.path, str(exc)) from exc
    order = np.argsort(raw.item)
    counts, share = count_appreciates(raw.item[order], raw.appreciates, raw.owners)
    source = raw.surrogate or f"raw files, {', '.join(FILES)}"
    return Prepared(raw.item[order], counts, scores[order], explained, share, source)
