"""Opens a round of secrets, tells the next one, and closes the round.

    python results/submissions/rounds.py open NAME --ends 2027-03-31 --keep FILE [--secrets 40]
    python results/submissions/rounds.py next NAME --keep FILE
    python results/submissions/rounds.py close NAME --keep FILE

FILE holds the secrets. It stays outside the repository, in which only their SHA-256 stand.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import secrets
import sys
from pathlib import Path

from ope_bench.gate.submission import read_attempts

HOME = Path(__file__).resolve().parent
ROUNDS = HOME / "rounds.yaml"


def sha256(secret: str) -> str:
    """Return the hash under which a secret is published."""
    return hashlib.sha256(secret.encode()).hexdigest()


def open_round(name: str, keep: Path, ends: str, count: int) -> str:
    """Draw the secrets, keep them in a file, and publish their hashes; return what comes next."""
    text = ROUNDS.read_text(encoding="utf-8")
    if f"\n  {name}:" in text or keep.exists():
        sys.exit(f"{name} or {keep} is there already; choose another name")
    if HOME.parents[1] in keep.resolve().parents:
        sys.exit(f"{keep} lies in the repository; keep the secrets outside")
    drawn = [secrets.token_hex(32) for _ in range(count)]
    keep.touch(mode=0o600)
    keep.write_text("\n".join(drawn) + "\n", encoding="utf-8")
    listed = "".join(f"      - {sha256(one)}\n" for one in drawn)
    head = "rounds: {}\n" if "rounds: {}\n" in text else "rounds:\n"
    opened = text.replace(head, f"rounds:\n  {name}:\n    ends: {ends}\n    secrets:\n{listed}")
    ROUNDS.write_text(opened, encoding="utf-8")
    return (
        f"{keep} holds {count} secrets: copy it to a second safe place.\n"
        f"Next: commit {ROUNDS.name}, which has their hashes; merge no submission before."
    )


def unused(name: str, keep: Path) -> list[str]:
    """Return the secrets of a round that no attempt has used."""
    used = {one.secret for one in read_attempts(HOME)}
    published = ROUNDS.read_text(encoding="utf-8").partition(f"\n  {name}:")[2]
    kept = keep.read_text(encoding="utf-8").split()
    if not kept or not all(sha256(one) in published for one in kept):
        sys.exit(f"{keep} does not hold the secrets of round '{name}'")
    return [one for one in kept if one not in used]


def next_secret(name: str, keep: Path) -> str:
    """Return the next unused secret, and the command that uses it."""
    left = unused(name, keep)
    if not left:
        sys.exit(f"round '{name}' has no secret left; close it and open another")
    return (
        f"{left[0]}\nSecrets left after it: {len(left) - 1}. It is public from its use on:\n"
        "  gh workflow run submission -f folder=results/submissions/NAME "
        f"-f package=DISTRIBUTION==VERSION -f secret={left[0]}"
    )


def close_round(name: str, keep: Path) -> str:
    """Publish the secrets that nobody used; return what comes next."""
    left = unused(name, keep)
    path = HOME / f"unused-{name}.txt"
    path.write_text("".join(f"{one}\n" for one in left), encoding="utf-8")
    return f"wrote {len(left)} unused secrets of round '{name}'. Next: commit {path.name}."


def main() -> int:
    """Read the arguments, and do one of the three."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("action", choices=("open", "next", "close"))
    parser.add_argument("name", help="of the round, for example 2027-spring")
    parser.add_argument("--keep", type=Path, required=True, help="file of the secrets")
    parser.add_argument("--secrets", type=int, default=40, help="how many to draw")
    parser.add_argument("--ends", help="the last day, for example 2027-03-31")
    given = parser.parse_args()
    if given.action == "open":
        if given.ends is None:
            parser.error("open needs --ends")
        try:
            datetime.date.fromisoformat(given.ends)
        except ValueError:
            parser.error("--ends is no day; write it as 2027-03-31")
        told = open_round(given.name, given.keep, given.ends, given.secrets)
    elif not given.keep.is_file():
        parser.error(f"there is no {given.keep}")
    else:
        told = {"next": next_secret, "close": close_round}[given.action](given.name, given.keep)
    sys.stdout.write(f"{told}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
