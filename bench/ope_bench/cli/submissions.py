"""What ``ope-bench submit`` and ``verify`` do: entries of others, and results as they say."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import time
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from ope_bench.base.canonical import canonical_json, plain
from ope_bench.base.console import Format, json_stdout, note, write
from ope_bench.base.errors import UsageError, did_you_mean
from ope_bench.base.files import atomic_write, temporary_folder
from ope_bench.cli import exit_codes
from ope_bench.cli.check import check_lines, checks_of
from ope_bench.cli.session import run_session
from ope_bench.execution.local import LocalExecutor
from ope_bench.gate import verification
from ope_bench.gate.verdict import alike
from ope_bench.gate.verification import Findings, Rounds, Submission
from ope_bench.plugins.registry import registry
from ope_bench.store import Store, export
from ope_bench.suites.manifest import Manifest, specs_of
from ope_bench.suites.yaml_document import load_file
from ope_bench.trials.isolation import isolated

SHOWN = 10


def _run(
    manifest: Manifest, to: Path, jobs: int, rounds: Rounds, estimators: Sequence[str]
) -> dict[str, Any]:
    """Run a plan, write its trials and the facts of its run; return these, with the figures."""
    write_rows, suite = export.writer_for(to), manifest.suite
    executor = LocalExecutor(jobs, timeout=suite.timeout, memory=suite.memory)
    with temporary_folder("submission") as scratch:
        path = scratch / "store.sqlite"
        report = run_session(manifest, path, executor, boards=False)
        if report.exit_code not in (exit_codes.CLEAN, exit_codes.FAILED_TRIALS):
            raise UsageError(report.reason)
        with Store.open(path) as store, atomic_write(to, UsageError) as partial:
            write_rows(partial, export.rows_of(store.results()))
            runs, status = [vars(run) for run in store.runs()], store.info().status
    facts = {"schema": 1, "runs": runs, "trials": len(manifest.trials), "status": status}
    facts["sha256"] = {to.name: verification.sha256(to)}
    facts["figures"] = plain(rounds.figures(verification.read_rows(to), estimators))
    text = json.dumps(plain(facts)) + "\n"
    verification.facts_path(to).write_text(text, encoding="utf-8")
    return facts


# ``ope-bench submit``: the folder of a new entry.


def submit(package: str, est: list[str] | None, into: Path, jobs: int, output: Format) -> int:
    """Run ``ope-bench submit``; return the exit code."""
    with json_stdout(output) as emit:
        project = Path(package) / "pyproject.toml"
        if project.is_file():
            package = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["name"]
        try:
            found = importlib.metadata.distribution(package)
        except (importlib.metadata.PackageNotFoundError, ValueError) as exc:
            msg = f"no distribution '{package}' is installed; pip install -e its folder first"
            raise UsageError(msg) from exc
        name, origin = found.name.lower().replace("_", "-"), f"{found.name} {found.version}"
        ids = [one.id for one in registry().plugins("estimator") if one.origin == origin]
        estimators = list(est or ids)
        asked = [specs_of("estimator", one, typed=True)[0] for one in estimators]
        foreign = [one.id for one in asked if one.origin != origin]
        if foreign or not estimators:
            msg = f"{origin} has no estimator {' or '.join(foreign)}".rstrip()
            msg += f"; its entry points of ope_bench.estimators: {', '.join(ids) or 'none'}"
            raise UsageError(msg)
        rounds = Rounds(into)
        manifest = rounds.manifest(estimators, "", rounds.shard)
        results = []
        for selector in estimators:
            with isolated(0):
                results += [run() for _, run in checks_of(selector)[2].runs(60.0)]
        bad = any(one.bad for one in results)
        facts: dict[str, Any] = {"schema": 1, "name": name, "estimators": estimators}
        facts |= {"folder": str(into / name), "exit_code": int(bad)}
        if not bad:
            (into / name).mkdir(exist_ok=True)
            made = _run(manifest, into / name / "trials.parquet", jobs, rounds, estimators)
            facts |= {"trials": made["trials"], "figures": made["figures"]}
            written = into / name / "submission.yaml"
            before = load_file(written).value if written.is_file() else {}
            digest = verification.submission_digest(estimators)
            written.write_text(_yaml(found, estimators, digest, before), encoding="utf-8")
        emit(facts)
    for line in check_lines([one for one in results if one.bad], 80, verbose=False):
        note(line)
    if output is Format.TEXT and not bad:
        for line in _figure_lines(facts["figures"]):
            write(line)
        write(f"wrote {into / name}: {facts['trials']} trials of public seeds, your own report")
        empty = [key for key, one in load_file(written).value.items() if one in (None, "", [])]
        what = f"fill in {', '.join(empty)} in {written}" if empty else f"read {written}"
        write(f"\nNext: {what}, then\n  ope-bench verify {into / name}")
        write(f"  git add {into / name}, and open a pull request with that folder alone")
    return int(bad)


def _yaml(found: Any, estimators: Sequence[str], digest: str, before: Mapping[str, Any]) -> str:
    """Return the text of ``submission.yaml``, with what its author wrote before."""
    about = found.metadata.json
    values: dict[str, Any] = {"repository": "", "commit": ""}
    values["license"] = about.get("license_expression", about.get("license"))
    values["authors"] = [about[key] for key in ("author", "author_email") if key in about][:1]
    values |= dict.fromkeys(("tuned", "conflicts"))
    values |= dict.fromkeys(("tuned_on_public_seeds", "out_of_competition"), False)
    values |= {**before, "schema": 1, "distribution": found.name, "version": found.version}
    values |= {"estimators": estimators, "digest": digest}
    shown = {key: "" if one is None else canonical_json(one) for key, one in values.items()}
    template = files("ope_bench.cli.scaffold") / "templates" / "submission.yaml.tmpl"
    return template.read_text(encoding="utf-8").format(**shown)


def _figure_lines(figures: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"{one['estimator']}: error {one['ratio']:.2f} ({one['low']:.2f} to {one['high']:.2f}) "
        f"times that of {one['reference']}, {one['settings']} settings, track {one['track']}"
        for one in figures
    ]


# ``ope-bench verify``: files against each other, and trials that run again.


def verify(
    folder: Path, secret: str | None, shard: str, share: float, jobs: int, output: Format
) -> int:
    """Run ``ope-bench verify``; return the exit code."""
    with json_stdout(output) as emit:
        entry, path = (folder / "submission.yaml").is_file(), folder / "trials.parquet"
        if not path.is_file() or not verification.facts_path(path).is_file():
            near = [one.parent.name for one in folder.parent.glob("*/trials.parquet")]
            msg = f"{folder} has no trials.parquet and run.json{did_you_mean(folder.name, near)}"
            raise UsageError(msg)
        if secret is not None and not entry:
            msg = f"--secret: {folder} is not a submission"
            raise UsageError(msg)
        facts: dict[str, Any] = {"schema": 1, "folder": str(folder)}
        facts["kind"] = "submission" if entry else "suite"
        found = Findings()
        if entry:
            facts |= _verify_submission(found, folder, secret, shard, share, jobs)
        else:
            verification.verify_trials(found, path, share, jobs)
        code = exit_codes.REGRESSION if found.problems else exit_codes.CLEAN
        if not found.again and share and code == exit_codes.CLEAN:
            code = exit_codes.EMPTY
        facts |= vars(found) | {"verified": not code, "exit_code": code}
        emit(facts)
    if output is Format.TEXT:
        for line in _figure_lines(facts.get("figures") or facts.get("own") or []):
            write(line)
        for problem in found.problems[:SHOWN]:
            write(f"DIFFERS  {problem}")
        for reason, count in found.skipped.items():
            note(f"not compared: {count} trials: {reason}")
        how = "bit for bit" if found.same_arithmetic else "up to rounding"
        marks = f"; {', '.join(facts['marks'])}" if "marks" in facts else ""
        end = f"{len(found.problems)} differences" if found.problems else f"equal {how}"
        write(f"{folder}: {found.trials:,} trials, {found.again:,} run again: {end}{marks}")
    return code


def _verify_submission(
    found: Findings, folder: Path, secret: str | None, shard: str, share: float, jobs: int
) -> dict[str, Any]:
    """Verify a submission: its own report, and its run on fresh seeds, made now or before."""
    asked, home = load_file(folder / "submission.yaml").validate(Submission), folder.parent
    rounds, estimators = Rounds(home), asked.estimators
    now = verification.submission_digest(estimators)
    if now != asked.digest:
        msg = (
            f"{folder}: the installed {asked.distribution} is not what was submitted (digest "
            f"{now[:12]}, submitted {asked.digest[:12]}); install that version, or submit again"
        )
        raise UsageError(msg)

    def verified(path: Path, salt: str, part: str) -> list[dict[str, Any]]:
        plan = rounds.manifest(estimators, salt, part)
        rows = verification.verify_trials(found, path, share, jobs, plan)
        if salt:
            found.problems += verification.blind_problems(rows, estimators)
        figures: list[dict[str, Any]] = plain(rounds.figures(rows, estimators))
        told = verification.facts_path(path)
        if not alike(figures, json.loads(told.read_text(encoding="utf-8"))["figures"]):
            found.problems.append(f"{told}: the figures are not those of its trials")
        return figures

    own = verified(folder / "trials.parquet", "", rounds.shard)
    mine = [one for one in read_attempts(home) if one["name"] == folder.name]
    done = [one for one in mine if one["digest"] == now and "figures" in one]
    attempt, figures = done[-1] if done else None, None
    if secret is not None:
        attempt = _begin(folder, rounds, now, secret, shard)
        manifest = rounds.manifest(estimators, attempt["salt"], shard)
        _run(manifest, _fresh(folder, attempt), jobs, rounds, estimators)
    if attempt is not None:
        figures = verified(_fresh(folder, attempt), attempt["salt"], attempt["shard"])
        if attempt["salt"] != salt_of(attempt["secret"], now):
            found.problems.append("attempts.jsonl: the salt is not that of secret and digest")
        if _round_of(rounds, attempt["secret"]) is None:
            found.problems.append("attempts.jsonl: no round published the hash of this secret")
        if not alike(figures, attempt.get("figures", figures)):
            found.problems.append("attempts.jsonl: the figures are not those of its trials")
    marks = verification.marks_of(asked, own, figures)
    marks = ["refused", *marks[1:]] if found.problems else marks
    if attempt is not None and secret is not None:
        attempt |= {"figures": figures, "marks": marks}
        _append(home, attempt)
    return {"marks": marks, "own": own, "figures": figures, "attempt": attempt}


def _fresh(folder: Path, attempt: Mapping[str, Any]) -> Path:
    """Return the file of the trials of an attempt."""
    return folder / f"verified-{attempt['salt'][:12]}.parquet"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def salt_of(secret: str, digest: str) -> str:
    """Return the salt of an entry: SHA-256 of its secret and the digest of package and specs."""
    return _sha256(f"{secret} {digest}")


def _round_of(rounds: Rounds, secret: str) -> str | None:
    """Return the round that published the hash of a secret."""
    known = (name for name, hashes in rounds.rounds.items() if _sha256(secret) in hashes)
    return next(known, None)


def read_attempts(home: Path) -> list[dict[str, Any]]:
    """Return all attempts, oldest first: a line when one begins, and one with its figures."""
    path = home / "attempts.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def _append(home: Path, attempt: Mapping[str, Any]) -> None:
    with (home / "attempts.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(plain(attempt), sort_keys=True) + "\n")


def _begin(folder: Path, rounds: Rounds, digest: str, secret: str, shard: str) -> dict[str, Any]:
    """Put an attempt on record, before its first trial runs."""
    if (name := _round_of(rounds, secret)) is None:
        msg = f"--secret: no round of {folder.parent / 'rounds.yaml'} published its hash"
        raise UsageError(msg)
    attempts = read_attempts(folder.parent)
    other = [one for one in attempts if one["secret"] == secret and one["digest"] != digest]
    if other:
        msg = f"--secret: used on {other[0]['at']} by '{other[0]['name']}'; each is used once"
        raise UsageError(msg)
    mine = {(one["secret"], one["digest"]) for one in attempts if one["name"] == folder.name}
    attempt = {"name": folder.name, "attempt": len(mine | {(secret, digest)}), "round": name}
    attempt |= {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "digest": digest}
    attempt |= {"secret": secret, "salt": salt_of(secret, digest), "shard": shard}
    _append(folder.parent, attempt)
    return attempt
