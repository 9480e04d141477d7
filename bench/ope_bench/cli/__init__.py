"""The command line: ``ope-bench``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ope_bench.base.printable import replace_standard_streams

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with its code."""
    replace_standard_streams()
    try:
        code = _run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        # During the imports; `exit_codes.INTERRUPTED`, which may not be imported yet.
        code = 130
    except Exception as exc:
        from ope_bench.cli.app import explain

        code = explain(exc)
    sys.exit(code)


def _run(arguments: Sequence[str]) -> int:
    """Run a command; imports are slow, so the version and plain lists come first."""
    if arguments in (["--version"], ["-V"]):
        from ope_bench import __version__

        sys.stdout.write(f"ope-bench {__version__}\n")
        return 0
    if arguments and arguments[0] == "list":
        from ope_bench.cli import catalog

        # Typer imports pydantic to read a word.
        kinds = [kind for kind in catalog.KINDS if arguments[1:] in ([], [kind])]
        if kinds:
            catalog.print_inventory(kinds)
            return 0
    from ope_bench.cli.app import invoke

    return invoke(arguments)
