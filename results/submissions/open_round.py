"""Opens a round: draws its secrets, keeps them in a file outside, and publishes their hashes.

python results/submissions/open_round.py NAME --secrets 40 --ends 2027-03-31 --keep FILE
"""

from __future__ import annotations

import argparse
import hashlib
import secrets
import sys
from pathlib import Path

ROUNDS = Path(__file__).with_name("rounds.yaml")


def opened(text: str, name: str, ends: str, drawn: list[str]) -> str:
    """Return the text of rounds.yaml with one more round."""
    hashes = [hashlib.sha256(one.encode()).hexdigest() for one in drawn]
    listed = "".join(f"    - {one}\n" for one in hashes)
    head = "rounds: {}\n" if "rounds: {}\n" in text else "rounds:\n"
    return text.replace(head, f"rounds:\n  {name}:  # ends {ends}\n{listed}")


def main() -> int:
    """Read the arguments, and write both files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("--secrets", type=int, default=40)
    parser.add_argument("--ends", required=True, help="the last day, for example 2027-03-31")
    parser.add_argument(
        "--keep", type=Path, required=True, help="file for the secrets, not in git"
    )
    given = parser.parse_args()
    text = ROUNDS.read_text(encoding="utf-8")
    if f"\n  {given.name}:" in text or given.keep.exists():
        sys.stderr.write(f"{given.name} or {given.keep} is there already; choose another name\n")
        return 2
    drawn = [secrets.token_hex(32) for _ in range(given.secrets)]
    given.keep.write_text("\n".join(drawn) + "\n", encoding="utf-8")
    given.keep.chmod(0o600)
    ROUNDS.write_text(opened(text, given.name, given.ends, drawn), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
