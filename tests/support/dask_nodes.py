"""Schedulers and workers of Dask, forked from one process that has imported Dask.

Each line of standard input asks for one: the program, its arguments, the file of its output, its
working directory, its environment, and what it can import beside what is installed. The answer is
its number.
"""

import contextlib
import importlib
import json
import os
import signal
import sys
from typing import Any

PROGRAMS = {name: f"distributed.cli.dask_{name}" for name in ("scheduler", "worker")}


def start(
    program: str,
    arguments: list[str],
    log: str,
    folder: str,
    environment: dict[str, str],
    path: list[str],
) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(folder)
    for number, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY | os.O_CREAT), (2, os.O_WRONLY)):
        opened = os.open(log if number else os.devnull, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment)
    importlib.import_module("dask").config.refresh()
    sys.path[:0] = path
    sys.argv = [program, *arguments]
    importlib.import_module(PROGRAMS[program]).main()


running: set[int] = set()


def reap(*_: object) -> None:
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitpid(-1, os.WNOHANG)[0]:
            running.discard(ended)


def main() -> None:
    for module in PROGRAMS.values():
        importlib.import_module(module)
    signal.signal(signal.SIGCHLD, reap)
    for line in sys.stdin:
        task: dict[str, Any] = json.loads(line)
        child = os.fork()
        if child == 0:
            with contextlib.suppress(SystemExit):
                start(**task)
            os._exit(0)
        running.add(child)
        print(child, flush=True)
    # The tests have ended, whether or not they could end their nodes.
    for child in [*running]:
        os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    main()
