"""What ``ope-bench submit`` and ``verify`` do: entries of others, and results as they say."""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from ope_bench.base import exit_codes
from ope_bench.base.canonical import canonical_json, plain, sha256
from ope_bench.base.console import Format, json_stdout, note, write
from ope_bench.base.errors import UsageError, did_you_mean
from ope_bench.base.files import atomic_write, temporary_folder
from ope_bench.cli.check import check_lines, checks_of
from ope_bench.cli.session import run_session
from ope_bench.execution.local import LocalExecutor, foreign_code_apart
from ope_bench.gate import submission, verification
from ope_bench.gate.submission import Attempt, append_attempt, fresh_path, read_attempts, salt_of
from ope_bench.gate.submission_digest import submission_digest
from ope_bench.gate.verdict import alike
from ope_bench.gate.verification import Findings, Rounds, Submitted
from ope_bench.plugins.registry import registry
from ope_bench.store import Store, export
from ope_bench.suites.manifest import Manifest, specs_of
from ope_bench.suites.suite import parse_selector
from ope_bench.suites.yaml_document import load_file
from ope_bench.trials.foreign import Processes
from ope_bench.trials.isolation import isolated

SHOWN = 10


def _run(
    manifest: Manifest,
    to: Path,
    jobs: int,
    rounds: Rounds,
    submitted: Sequence[Submitted],
    scratch: Path,
    foreign: Processes | None = None,
) -> dict[str, Any]:
    """Run a plan, write its trials and the facts of its run; return these, with the figures."""
    write_rows, suite = export.writer_for(to), manifest.suite
    executor = LocalExecutor(jobs, timeout=suite.timeout, memory=suite.memory, foreign=foreign)
    path = scratch / "store.sqlite"
    report = run_session(manifest, path, executor, boards=False)
    if report.exit_code not in (exit_codes.CLEAN, exit_codes.FAILED_TRIALS):
        raise UsageError(report.reason)
    with Store.open(path) as store, atomic_write(to, UsageError) as partial:
        write_rows(partial, export.rows_of(store.results()), store.runs())
        runs, status = [vars(run) for run in store.runs()], store.info().status
    facts = {"schema": 1, "runs": runs, "trials": len(manifest.trials), "status": status}
    facts["sha256"] = {to.name: sha256(to)}
    facts["figures"] = plain(rounds.figures(verification.read_trials(to)[0], submitted))
    text = json.dumps(plain(facts)) + "\n"
    submission.facts_path(to).write_text(text, encoding="utf-8")
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
        if odd := [one for one in (found.name, *estimators) if not one.isascii()]:
            msg = f"'{odd[0]}': ids of submissions are ASCII, so that none looks like another"
            raise UsageError(msg)
        rounds = Rounds(into)
        submitted = rounds.resolve(estimators)
        manifest = rounds.manifest(estimators, "", rounds.file.shard)
        digest = submission_digest(estimators)
        results = []
        for selector in estimators:
            with isolated(0):
                results += [run() for _, run in checks_of(selector)[2].runs(60.0)]
        bad = any(one.bad for one in results)
        facts: dict[str, Any] = {"schema": 1, "name": name, "estimators": estimators}
        facts |= {"folder": str(into / name), "exit_code": int(bad)}
        if not bad:
            (into / name).mkdir(exist_ok=True)
            path = into / name / "trials.parquet"
            with temporary_folder("submission") as scratch:
                made = _run(manifest, path, jobs, rounds, submitted, scratch)
            facts |= {"trials": made["trials"], "figures": made["figures"]}
            written = into / name / "submission.yaml"
            before = load_file(written).value if written.is_file() else {}
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
    folder: Path, secret: str | None, shard: str | None, share: float, jobs: int, output: Format
) -> int:
    """Run ``ope-bench verify``; return the exit code."""
    with json_stdout(output) as emit:
        entry, path = (folder / "submission.yaml").exists(), folder / "trials.parquet"
        if not path.is_file() or not submission.facts_path(path).is_file():
            near = [one.parent.name for one in folder.parent.glob("*/trials.parquet")]
            msg = f"{folder} has no trials.parquet and run.json{did_you_mean(folder.name, near)}"
            raise UsageError(msg)
        if secret is not None and not entry:
            msg = f"--secret: {folder} is not a submission"
            raise UsageError(msg)
        # On the command line, every process of this machine could read it.
        secret = sys.stdin.readline().rstrip("\n") if secret == "-" else secret  # noqa: S105
        facts: dict[str, Any] = {"schema": 1, "folder": str(folder)}
        facts["kind"] = "submission" if entry else "suite"
        found = Findings()
        if entry:
            sealed, home = secret is not None, folder.parent
            with (
                temporary_folder("submission") as scratch,
                foreign_code_apart(hidden=[scratch, home / "attempts.jsonl"]) as foreign,
            ):
                if foreign.missing and sealed:
                    msg = f"--secret: {foreign.missing}; an entry runs sealed, or not at all"
                    raise UsageError(msg)
                # Not before: pydantic, which reads these, would load plugins of its own.
                files = submission.read_submission(folder), Rounds(home), read_attempts(home)
                more = (files, secret, shard, share, jobs, scratch, foreign)
                facts |= _verify_submission(found, folder, *more)
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
    found: Findings,
    folder: Path,
    files: tuple[submission.Submission, Rounds, Sequence[Attempt]],
    secret: str | None,
    shard: str | None,
    share: float,
    jobs: int,
    scratch: Path,
    foreign: Processes,
) -> dict[str, Any]:
    """Verify a submission: its own report, and its run on fresh seeds, made now or before."""
    (asked, rounds, attempts), home = files, folder.parent
    for selector in asked.estimators:
        origin = registry().find("estimator", parse_selector(selector).reference).origin
        if origin.rpartition(" ")[0] != asked.distribution:
            # Parameters of estimators of others may name the entry's classes, beside the truth.
            msg = (
                f"{folder}: `{selector}` is of {origin}, not of {asked.distribution}; an entry "
                "has estimators of its own package alone"
            )
            raise UsageError(msg)
    now = submission_digest(asked.estimators)
    if now != asked.digest:
        msg = (
            f"{folder}: the installed {asked.distribution} is not what was submitted (digest "
            f"{now[:12]}, submitted {asked.digest[:12]}); install that version, or submit again"
        )
        raise UsageError(msg)
    submitted, name = rounds.resolve(asked.estimators), folder.resolve().name
    found.problems += verification.attempt_problems(rounds, folder, attempts)

    def verified(path: Path, salt: str, part: str) -> list[dict[str, Any]]:
        plan = rounds.manifest(asked.estimators, salt, part)
        rows = verification.verify_trials(found, path, share, jobs, plan, foreign)
        found.problems += verification.access_problems(rows, submitted)
        figures: list[dict[str, Any]] = plain(rounds.figures(rows, submitted))
        told = [vars(one) for one in submission.read_facts(path).figures]
        if not alike(figures, told):
            text = f"{submission.facts_path(path)}: the figures are not those of its trials"
            found.problems.append(text)
        return figures

    own = verified(folder / "trials.parquet", "", rounds.file.shard)
    done = [one for one in attempts if one.name == name and one.figures and one.digest == now]
    attempt, figures = done[-1] if done else None, None
    if secret is not None:
        attempt = _begin(folder, rounds, now, secret, shard)
    if attempt is not None:
        path = fresh_path(folder, attempt)
        if secret is not None:
            manifest = rounds.manifest(asked.estimators, attempt.salt, attempt.shard)
            _run(manifest, path, jobs, rounds, submitted, scratch, foreign)
        figures = verified(path, attempt.salt, attempt.shard)
    marks = verification.marks_of(asked, own, figures)
    marks = ["refused", *marks[1:]] if found.problems else marks
    if attempt is not None and secret is not None and figures is not None:
        told = [submission.Figures(**one) for one in figures]
        attempt = append_attempt(home, replace(attempt, figures=told, marks=marks))
    shown = None if attempt is None else json.loads(attempt.line)
    return {"marks": marks, "own": own, "figures": figures, "attempt": shown}


def _begin(folder: Path, rounds: Rounds, digest: str, secret: str, shard: str | None) -> Attempt:
    """Put an attempt on record, before its first trial runs."""
    attempts, file, name = read_attempts(folder.parent), rounds.file, folder.resolve().name
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    round_, reason = file.round_of(secret, at[:10], folder.parent)
    used = [one for one in attempts if one.secret == secret]
    if used:
        reason = f"used on {used[0].at} by '{used[0].name}'; each is used once"
    part = file.part_of(secret)
    if not reason and shard not in (None, part):
        reason = f"its part of the suite is {part}, not --shard {shard}; leave --shard out"
    if reason:
        msg = f"--secret: {reason}"
        raise UsageError(msg)
    number = len({one.secret for one in attempts if one.name == name}) + 1
    return append_attempt(
        folder.parent,
        Attempt(
            name=name,
            attempt=number,
            round=round_,
            at=at,
            digest=digest,
            secret=secret,
            salt=salt_of(secret, digest),
            shard=part,
            before="",
        ),
    )
