"""The door of results: `results/regenerate VERB`, or `python results/verbs VERB`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

VERBS = {
    "run": """run NAME...               run suites, `paper` or `all`, then write; resumes
  run --keep SUITE...       run only trials of the suites that are not committed
  run DRAW [WORDS]          draw again what no trial holds:
                            average-errors, coverage, other-rows, predictions,
                            verdicts, yardsticks""",
    "write": """write                     make the pages from the committed trials
  write SUITE...            make boards, figures and digests from theirs""",
    "verify": """verify [FOLDER...]        compare a folder's files, and run a part of its
                            trials again; without FOLDER, of all folders""",
    "check": """check                     name the pages that `write` would change""",
}
HELP = "\n".join(
    [
        "results/regenerate VERB: results made from trials, and trials made from suites\n",
        *(f"  {text}" for text in VERBS.values()),
        "\nA name that is no verb is one for `run`. `VERB --help` has the options.\n",
    ]
)


def main(words: Sequence[str]) -> int:
    """Call the verb; a first word that is none is a name for `run`."""
    if not words or words[0] in ("-h", "--help"):
        (sys.stdout if words else sys.stderr).write(HELP)
        return 0 if words else 2
    verb, rest = (words[0], words[1:]) if words[0] in VERBS else ("run", words)
    from ope_bench import OpeBenchError

    try:
        return int(import_module(f"verbs.{verb}").main(rest))
    except OpeBenchError as exc:
        sys.stderr.write(f"results/regenerate {verb}: {exc}\n")
        return 2


if __name__ == "__main__":
    # The folder of this file is on the path, where its modules would be found as `run`, `write`.
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    sys.exit(main(sys.argv[1:]))
