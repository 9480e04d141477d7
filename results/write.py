"""Forwards to `results/regenerate write`, or with ``--check`` to `results/regenerate check`."""

import sys

from verbs.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["check" if "--check" in sys.argv[1:] else "write"]))
