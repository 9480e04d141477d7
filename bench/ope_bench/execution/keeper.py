"""The parent of a worker process: when the worker ends, nothing that its trials started lives on.

A process that a trial detached (its parent ended, its session is its own, its environment is
empty) belongs to no one, and neither its group nor its environment shows where it came from. On
Linux the keeper adopts such orphans when the worker dies, kills them and ends as the worker did.
Temporary files of its trials lie in a folder of the worker's own, which the keeper removes; if the
keeper is killed, the end of the run does. It imports almost nothing, so that it costs a fork and a
few megabytes.

SIGTERM, which the kernel sends too when the coordinator dies, kills the worker and all the rest.
"""

from __future__ import annotations

import os
import signal
import sys

from ope_bench.execution import process_tree

_AWAITED = {signal.SIGTERM, signal.SIGCHLD}


def main() -> None:
    """Start the worker and wait for its end (descriptor, parent, memory limit, control)."""
    descriptor, parent, _, control = map(int, sys.argv[1:5])
    if sys.platform != "linux":
        _work(parent)
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Inherited as ignored, the worker's end would leave no status.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    process_tree.die_with(parent, signal.SIGTERM)
    process_tree.adopt_orphans()
    keeper = os.getpid()
    # The folder for temporary files of the worker's trials, in that of the run. Where that is
    # impossible, for example on a full disk, they lie in that of the run.
    folder = os.path.join(os.environ["TMPDIR"], os.urandom(8).hex())
    try:
        os.mkdir(folder, 0o700)
    except OSError:
        folder = ""
    worker = os.fork()
    if worker == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        # A trial that signals its own group must not reach the keeper.
        os.setsid()
        if folder:
            os.environ["TMPDIR"] = folder
        _work(keeper)
        return
    # The worker alone holds its channel and its output: their ends are those of the worker.
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    for one in (descriptor, control):
        if one >= 0:
            os.close(one)
    told = False
    while True:
        if signal.sigwait(_AWAITED) == signal.SIGTERM:
            told = True
            os.kill(worker, signal.SIGKILL)
        pid, status = os.waitpid(worker, os.WNOHANG)
        if pid:
            break
    process_tree.kill_children()
    if folder:
        import shutil  # only now, for it takes memory while the keeper waits

        shutil.rmtree(folder, ignore_errors=True)
    _end_as(signal.SIGTERM if told else status)


def _work(parent: int) -> None:
    from ope_bench.execution import worker_main

    worker_main.main(parent)


def _end_as(status: int) -> None:
    """End as a process of this wait status did."""
    import resource  # not on every platform

    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        os._exit(code)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if -code not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(-code, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.kill(os.getpid(), -code)


# Start Python processes with the import path of this one.

_VARIABLE = "OPE_BENCH_PATH"


def python_command(module: str) -> list[str]:
    """Return the command that calls a module's ``main``; `import_path` is for its environment."""
    code = (
        f"import os, sys; sys.path[:] = os.environ['{_VARIABLE}'].split(os.pathsep); "
        f"from {module} import main; main()"
    )
    return [sys.executable, "-c", code]


def import_path(folders: list[str] | None = None) -> dict[str, str]:
    """Return the environment variable that passes an import path on, by default this process's."""
    return {_VARIABLE: os.pathsep.join(map(str, sys.path if folders is None else folders))}
