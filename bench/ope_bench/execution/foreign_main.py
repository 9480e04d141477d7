"""The process of trusted libraries without data, and the foreign processes that it forks.

A foreign process has its own process ids, network, shared memory and files. It sees the folders of
Python, its libraries and its package, read-only, and empty ones for temporary files; no other
process, no network, no variable that it was not given, and no descriptor but its socket. What ends
it ends all that it started.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import inspect
import json
import os
import platform
import select
import signal
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ope_bench.base.canonical import plain
from ope_bench.base.errors import ParameterError, PositivityViolation
from ope_bench.contracts.parameters import added_defaults, signature
from ope_bench.contracts.view import Access, FitCache, ReusedCost, View
from ope_bench.plugins.registry import Plugin
from ope_bench.plugins.requirements import class_name, import_all, message_of, traceback_of
from ope_bench.plugins.spec import code_digest, result_digest, spec_for
from ope_bench.suites.nested import list_parameters
from ope_bench.trials.foreign import words_for_exit
from ope_bench.trials.isolation import OutputTail, isolated, seeding_of_torch
from ope_bench.trials.process_settings import ProcessSettings
from ope_bench.trials.wire import Peer

# The process that forks.

_LIBRARIES = {"joblib", "numpy", "ope_bench", "ope_estimators", "scipy", "sklearn", "torch"}
"""Packages whose modules are loaded once, where an estimator loads them before it has data."""

_WITH = {
    "scipy": ("optimize", "special", "stats"),
    "sklearn": ("ensemble", "linear_model", "model_selection", "pipeline", "preprocessing"),
}
"""Modules that estimators of a package load when they fit, which come with it."""


def main(descriptor: int, seen: Sequence[str], hidden: Sequence[str]) -> None:
    """Fork a process for each request, and tell how it ended, until nobody can ask any more."""
    os.set_inheritable(descriptor, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _go_on_in_a_child()  # without the threads of libraries, which may enter no namespace
    with contextlib.suppress(OSError):  # the first process tells what is missing
        _be_nobody(os.open("/proc/self", os.O_RDONLY))
        _call("unshare", _PROCESS_IDS)
    _go_on_in_a_child()  # the first of a namespace to which it can come back; its end ends all
    control, own_ids = socket.socket(fileno=descriptor), os.open("/proc/self/ns/pid", os.O_RDONLY)
    code_digest()  # of the harness, once
    ends, lives = dict[int, tuple[int, int]](), dict[int, int]()
    while True:
        # One at a time: the descriptor of one that has ended may be that of the next.
        ready = select.select([*ends, *lives, control.fileno()], [], [])[0][0]
        if ready in ends:
            child, life = ends.pop(ready)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            with contextlib.suppress(OSError):
                os.write(life, words_for_exit(code).encode())
            lives.pop(life, None)
            os.close(life)
            os.close(ready)
            continue
        if ready in lives:  # the other end was closed
            os.kill(lives.pop(ready), signal.SIGKILL)
            continue
        message, sockets, _, _ = socket.recv_fds(control, 1 << 16, 2)
        if not message:
            return
        told = json.loads(message)
        asked = [one for one in told.get("import", ()) if one.partition(".")[0] in _LIBRARIES]
        for module in (*asked, *(f"{one}.{part}" for one in asked for part in _WITH.get(one, ()))):
            with contextlib.suppress(BaseException):  # some modules end the process
                importlib.import_module(module)
        if sockets:
            wire, life = sockets
            gc.freeze()  # else a collection copies all pages into each process
            with contextlib.suppress(OSError):
                _call("unshare", _PROCESS_IDS)
            child = os.fork()
            if child == 0:
                _run([*seen, *told["seen"]], hidden, wire, life, told)
            with contextlib.suppress(OSError):
                _call("setns", own_ids, _PROCESS_IDS)
            os.close(wire)
            ends[os.pidfd_open(child)], lives[life] = (child, life), child


def _go_on_in_a_child() -> None:
    if (child := os.fork()) != 0:
        os.waitpid(child, 0)
        os._exit(0)


def _run(
    seen: Sequence[str], hidden: Sequence[str], wire: int, life: int, told: Mapping[str, Any]
) -> None:
    """Close and forget what is not the entry's; then answer."""
    import fcntl  # not everywhere
    import resource

    try:
        _leave(seen, hidden)
    except OSError as exc:
        os.write(life, f"no namespaces for a process of its own ({exc})\n".encode())
        os._exit(1)
    os.setsid()
    null = fcntl.fcntl(os.open(os.devnull, os.O_RDWR), fcntl.F_DUPFD, 4)
    for number, one in enumerate((null, null, null, fcntl.fcntl(wire, fcntl.F_DUPFD, 4))):
        os.dup2(one, number)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    os.environ |= {"HOME": _HOME, "TMPDIR": _TEMPORARY}
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if told["memory"]:
        resource.setrlimit(resource.RLIMIT_DATA, (told["memory"], told["memory"]))
    sys.path += [one for one in told["folders"] if one not in sys.path]
    with contextlib.suppress(EOFError, OSError):
        _Side().answer()
    os._exit(0)


# Namespaces: see the manual pages unshare(2), mount_namespaces(7) and pivot_root(2).

_USERS, _PROCESS_IDS = 0x10000000, 0x20000000
_FILES_NETWORK_MESSAGES = 0x00020000 | 0x40000000 | 0x08000000

_BIND, _CAREFUL = 4096 | 16384, 2 | 4 | 8
_PIVOT_ROOT, _KEYCTL = {"x86_64": (155, 250), "aarch64": (41, 219)}.get(
    platform.machine(), (-1, -1)
)
_HOME, _TEMPORARY = "/.home", "/tmp"  # noqa: S108
_SYSTEM = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/null", "/dev/zero", "/dev/urandom")

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *given: Any) -> None:
    values = [one.encode() if isinstance(one, str) else one for one in given]
    if getattr(_libc, name)(*values) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _be_nobody(facts: int) -> None:
    """Enter a namespace of users, with one user and all rights in it.

    Parameters
    ----------
    facts : descriptor of this process's folder in /proc.
    """
    maps = {"setgroups": "deny", "uid_map": f"65534 {os.geteuid()} 1"}
    maps["gid_map"] = f"65534 {os.getegid()} 1"
    _call("unshare", _USERS)
    for name, text in maps.items():
        with open(os.open(name, os.O_WRONLY, dir_fd=facts), "w", encoding="ascii") as file:
            file.write(text)


def _leave(seen: Iterable[str], hidden: Iterable[str]) -> None:
    """See these folders and files, to be read only, in an empty root; give up all rights."""
    if os.getpid() != 1:
        msg = "no process ids"
        raise OSError(msg)
    facts = os.open("/proc/self", os.O_RDONLY)
    _call("unshare", _FILES_NETWORK_MESSAGES)
    root = "/sys"  # none of the folders lies there
    _call("mount", None, "/", None, 1 << 18 | 16384, None)  # private, with all within
    _call("mount", "tmpfs", root, "tmpfs", _CAREFUL, "mode=755")
    readable = (ctypes.c_uint64 * 4)(1 | 2)  # read only, without rights of owners
    for path in sorted({*map(os.path.normpath, (*seen, *_SYSTEM))}):
        if os.path.exists(path) and not os.path.exists(root + path):
            _bind(path, root + path)
            _call("syscall", 442, -100, root + path, 0x8000, readable, 32)  # mount_setattr
    for path in hidden:
        if os.path.exists(root + path):
            _bind("/dev/null", root + path)
    for path in (_HOME, _TEMPORARY, "/dev/shm", "/proc"):  # noqa: S108
        os.makedirs(root + path, exist_ok=True)
    with contextlib.suppress(OSError):  # where a part of it is hidden, none is shown
        _call("mount", "proc", f"{root}/proc", "proc", _CAREFUL, "subset=pid")
    os.chdir(root)
    _call("syscall", _PIVOT_ROOT, b".", b".")
    _call("umount2", ".", 2)
    os.chdir("/")
    with contextlib.suppress(OSError):
        _call("syscall", _KEYCTL, 1, 0)  # a ring of keys would reach the next trial
    _be_nobody(facts)  # again: rings of keys belong to a user of a namespace
    _call("capset", (ctypes.c_uint32 * 2)(0x20080522), (ctypes.c_uint32 * 6)())
    _call("prctl", 38, 1, 0, 0, 0)  # no new rights


def _bind(path: str, place: str) -> None:
    if os.path.isdir(path):
        os.makedirs(place, exist_ok=True)
    elif not os.path.exists(place):
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.close(os.open(place, os.O_CREAT, 0o644))
    _call("mount", path, place, None, _BIND, None)


# The foreign process.


class _Side(Peer):
    """The foreign side of a connection; the other side asks it for its one trial."""

    caught = BaseException
    trusting = True

    def __init__(self) -> None:
        super().__init__(3, (self, ("loaded", "facts", "build", "fit", "estimate")))
        self._tail = OutputTail()
        self._before = {*sys.modules}

    def loaded(self) -> list[str]:
        """Return the modules of libraries that this process has loaded itself."""
        new = {*sys.modules} - self._before
        return [one for one in new if one.partition(".")[0] in _LIBRARIES][:500]

    def facts(self, plugin: Mapping[str, Any], params: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return what the other side is told of a class and of its object."""
        named = Plugin(**plugin)
        cls: Any = named.cls
        defaults = {name: one.default for name, one in signature(cls).items()}
        told: dict[str, Any] = {"added": plain(added_defaults(cls))}
        told["lists"] = list(list_parameters(cls))
        told["parameters"] = {
            name: [] if one is inspect.Parameter.empty else [plain(one)]
            for name, one in defaults.items()
        }
        try:
            checked = dict(spec_for(named, cls, params or {}).params)
        except ParameterError:
            if params is None:  # some have no default
                return told | {"modules": self.loaded()}
            raise
        made = cls(**checked)
        import_all(made.requires)
        told |= {name: getattr(made, name) for name in ("row_weights", "action_masks")}
        told |= {one: getattr(made, one).value for one in ("access", "optional_access")}
        told |= {"params": checked, "foreign_code": result_digest(made)}
        return told | {"modules": self.loaded()}

    def build(self, plugin: Mapping[str, Any], params: Mapping[str, Any], seed: int) -> None:
        """Build the estimator; all that follows is its trial."""
        self._estimator = Plugin(**plugin).cls(**params)
        import_all(self._estimator.requires)
        self._trial = contextlib.ExitStack()  # never left: the process ends
        self._tail = self._trial.enter_context(isolated(seed))
        self._trial.enter_context(ProcessSettings().watched(seeding_of_torch(seed)))

    def fit(self, state: dict[str, Any], access: int, rng: Any, device: str) -> None:
        """Fit on a view of these attributes."""
        for value in (*state.values(), *state["_granted"].values()):
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        self._view = View.__new__(View)
        vars(self._view).update(state, access=Access(access), _fit_cache=FitCache())
        vars(self._view).update(_shared=ReusedCost(), _charged=set())
        self._estimator.fit(self._view, rng=rng, device=device)

    def estimate(self) -> tuple[Any, ...]:
        """Return the estimate, what it read undeclared, and its output."""
        made = self._estimator.estimate(self._view)
        return made, self._view.violations, self._tail.text() or ""

    def describe(self, exc: BaseException, method: str) -> dict[str, Any]:
        """Describe an exception with all that an author wants to know."""
        told = {"kind": class_name(exc), "message": message_of(exc), "trace": traceback_of(exc)}
        if isinstance(exc, PositivityViolation):
            told |= {one: getattr(exc, one) for one in ("unsupported_mass", "fallback")}
        return told | {"output": self._tail.text() or ""}
