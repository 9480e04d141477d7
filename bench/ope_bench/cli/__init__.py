"""The command line: ``ope-bench``."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with its code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        # Printed before slow imports.
        from ope_bench import __version__

        sys.stdout.write(f"ope-bench {__version__}\n")
        return
    if sys.argv[1:2] == ["list"]:
        from ope_bench.cli.inventory import quick_list
        from ope_bench.console.streams import ignore_broken_pipe

        try:
            if quick_list(sys.argv[2:]):
                sys.stdout.flush()
                return
        except BrokenPipeError:
            ignore_broken_pipe()
            return
    try:
        from ope_bench.cli.app import invoke

        code = invoke(sys.argv[1:])
    except KeyboardInterrupt:
        # During the imports; `exit_codes.INTERRUPTED`, which may not be imported yet.
        code = 130
    sys.exit(code)
