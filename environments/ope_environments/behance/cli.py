"""``ope-bench data behance``: check the raw files, prepare them and report findings."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from ope_environments.behance.preparation import Progress, RawData
    from ope_environments.behance.prepared import Prepared

__all__ = ["behance"]

From = Annotated[
    Path, typer.Option("--from", metavar="FOLDER", help="Folder of the three published files.")
]
To = Annotated[
    Path | None,
    typer.Option("--to", metavar="FILE", help="The prepared file; FOLDER/behance.npz by default."),
]
Components = Annotated[int, typer.Option(min=1, max=1024, help="Principal components to keep.")]
Skip = Annotated[bool, typer.Option("--skip-damaged", help="Skip damaged rows.")]
Check = Annotated[bool, typer.Option("--check", help="Only check; write nothing.")]
Format = Annotated[
    Literal["text", "json"],
    typer.Option("--format", help="With json, stdout is exactly one JSON document."),
]


def behance(
    from_: From,
    to: To = None,
    components: Components = 4,
    skip_damaged: Skip = False,
    check: Check = False,
    output: Format = "text",
) -> int:
    """Check the Behance files and write what the environment reads."""
    from ope_bench import DataFileError
    from ope_environments.behance.preparation import prepare, read_raw
    from ope_environments.behance.prepared import save
    from ope_environments.behance.raw import require_files

    path = to if to is not None else from_ / "behance.npz"
    require_files(from_)
    if not check and not path.parent.is_dir():
        raise DataFileError(path, f"the folder {path.parent} does not exist")
    with _progress() as progress:
        raw = read_raw(from_, progress)
    damage = raw.findings.damaged(from_)
    refused = damage is not None and not skip_damaged
    prepared = None
    if not check and not refused:
        with _progress() as progress:
            prepared = prepare(raw, components, progress)
        save(prepared, path)
    if output == "json":
        typer.echo(json.dumps(_facts(raw, prepared, path)))
    else:
        _print(raw, prepared, path)
    if damage is not None and refused:
        raise damage
    return 0


@contextmanager
def _progress() -> Iterator[Progress]:
    """Show a progress bar for each stage on stderr, if it is a terminal."""
    if not sys.stderr.isatty():
        yield lambda stage, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True))
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    tasks: dict[str, Any] = {}
    with bar:

        def advance(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total)
            bar.advance(tasks[stage], done)

        yield advance


def _facts(raw: RawData, prepared: Prepared | None, path: Path) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "schema": 1,
        "folder": str(raw.folder),
        "surrogate": raw.surrogate or None,
        "counts": raw.facts,
        "findings": [
            {
                "file": one.file,
                "damage": one.damage,
                "what": one.what,
                "places": one.places,
                "times": one.times,
            }
            for one in raw.findings.all()
        ],
        "prepared": None,
    }
    if prepared is not None:
        facts["prepared"] = {
            "path": str(path),
            "fingerprint": prepared.fingerprint,
            "items": len(prepared.item),
            "components": prepared.embedding.shape[1],
            "explained_variance": [float(share) for share in prepared.explained],
            "creator_share": prepared.creator_share,
            "tied_best_items": list(prepared.tied),
        }
    return facts


def _print(raw: RawData, prepared: Prepared | None, path: Path) -> None:
    for name, number in raw.facts.items():
        typer.echo(f"{name.replace('_', ' '):<28} {number:>12,}")
    if raw.surrogate:
        typer.echo(f"these files are a {raw.surrogate}")
    findings = raw.findings.all()
    for one in findings:
        typer.echo(f"{'DAMAGED' if one.damage else 'note':<8}{one}")
    if not findings:
        typer.echo("no damage and no peculiarities found")
    if prepared is not None:
        explained = prepared.explained.sum()
        typer.echo(
            f"wrote {path}: {len(prepared.item):,} items, {len(prepared.explained)} components"
            f" with {explained:.0%} of the variance\nfingerprint {prepared.fingerprint}\n"
            f"tied for the best item: {prepared.tied[0]} without, {prepared.tied[1]} with creators"
            f"\nuse it as `ope-bench run paper-behance --env 'behance[prepared={path}]'`"
        )
