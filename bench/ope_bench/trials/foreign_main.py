"""The process of trusted libraries without data, and the foreign processes that it forks.

A foreign process has its own process ids, network, shared memory and files. It sees the folders of
Python, its libraries and its package, read-only, and empty ones for temporary files; no other
process, no network, no variable that it was not given, and no descriptor but its socket. What ends
it ends all that it started.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import inspect
import json
import os
import platform
import select
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ope_bench.base import errors
from ope_bench.base.canonical import plain
from ope_bench.base.errors import DataError, PositivityViolation
from ope_bench.contracts.data import Column, Schema
from ope_bench.contracts.parameters import added_defaults, signature
from ope_bench.contracts.plugins import Estimate, Estimator
from ope_bench.contracts.view import Access, FitCache, ReusedCost, View
from ope_bench.plugins.registry import Plugin
from ope_bench.plugins.requirements import class_name, import_all, message_of, traceback_of
from ope_bench.plugins.spec import code_digest, result_digest, spec_for
from ope_bench.trials.foreign import words_for_exit
from ope_bench.trials.isolation import isolated, seeding_of_torch
from ope_bench.trials.process_settings import ProcessSettings
from ope_bench.trials.wire import ASKED, Wire

# The process that forks.

_LIBRARIES = {"joblib", "numpy", "ope_bench", "ope_estimators", "scipy", "sklearn", "torch"}
"""Packages whose modules are loaded once, where an estimator has loaded them in its process."""

_REFUSED = 71


def main(descriptor: int, seen: Sequence[str], hidden: Sequence[str], *, required: bool) -> None:
    """Fork a process for each request, until nobody can ask any more."""
    os.set_inheritable(descriptor, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    control = socket.socket(fileno=descriptor)
    code_digest()  # of the harness, once
    while True:
        message, sockets, _, _ = socket.recv_fds(control, 1 << 16, 2)
        if not message:
            return
        told = json.loads(message)
        for module in told.get("import", ()):
            if module.partition(".")[0] in _LIBRARIES:
                with contextlib.suppress(Exception):
                    importlib.import_module(module)
        if sockets and os.fork() == 0:
            _keep(sockets, required, partial(_see, [*seen, *told["folders"]], hidden), told)
        for one in sockets:
            os.close(one)


def _keep(
    sockets: Sequence[int], required: bool, see: Callable[[], None], told: Mapping[str, Any]
) -> None:
    """Start a foreign process; end it when its time is over, and tell how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    wire, life = sockets
    missing = _tried(_leave)
    child = os.fork() if not (missing and required) else 0
    if child == 0:
        missing = missing or _tried(see)
        if not (missing and required):
            _serve(wire, missing, told)
        os.write(life, missing.encode())
        os._exit(_REFUSED)
    os.close(wire)
    select.select([life, os.pidfd_open(child)], [], [])
    for kill in (os.kill, os.killpg):  # with process ids of its own, all goes with it
        with contextlib.suppress(OSError):
            kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(OSError):
        os.write(life, b"" if code == _REFUSED else words_for_exit(code).encode())
    os._exit(0)


def _tried(step: Callable[[], None]) -> str:
    """Take a step of isolation; return what is missing."""
    try:
        step()
    except (OSError, KeyError) as exc:
        return f"no namespaces for a process of its own ({exc})"
    return ""


def _serve(wire: int, missing: str, told: Mapping[str, Any]) -> None:
    """Close and forget what is not the entry's, then answer the one request."""
    import fcntl  # not everywhere
    import resource

    os.setsid()
    null = fcntl.fcntl(os.open(os.devnull, os.O_RDWR), fcntl.F_DUPFD, 4)
    for number, one in enumerate((null, null, null, fcntl.fcntl(wire, fcntl.F_DUPFD, 4))):
        os.dup2(one, number)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    os.environ |= {"HOME": _OWN, "TMPDIR": _OWN}
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if told["memory"]:
        resource.setrlimit(resource.RLIMIT_DATA, (told["memory"], told["memory"]))
    sys.path += [one for one in told["folders"] if one not in sys.path]
    _Side().serve(missing)
    os._exit(0)


# Namespaces: see the manual pages unshare(2), mount_namespaces(7) and pivot_root(2).

_NEW = 0x10000000 | 0x00020000 | 0x20000000 | 0x40000000 | 0x08000000
"""Users, files, process ids, network, messages and shared memory."""

_BIND, _CAREFUL = 4096 | 16384, 2 | 4 | 8
_PIVOT_ROOT, _KEYCTL = {"x86_64": (155, 250), "aarch64": (41, 219)}.get(
    platform.machine(), (-1, -1)
)
_OWN = "/.own"
_SYSTEM = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/null", "/dev/zero", "/dev/urandom")

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *given: Any) -> None:
    values = [one.encode() if isinstance(one, str) else one for one in given]
    if getattr(_libc, name)(*values) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _leave() -> None:
    """Leave all namespaces, and be nobody; the next child is the first process of its own."""
    maps = {"setgroups": "deny", "uid_map": f"65534 {os.geteuid()} 1"}
    maps["gid_map"] = f"65534 {os.getegid()} 1"
    _call("unshare", _NEW)
    for name, text in maps.items():
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _see(folders: Sequence[str], hidden: Sequence[str]) -> None:
    """See these folders and files, to be read only, in an empty root; give up all rights."""
    root = "/sys"  # none of the folders lies there
    _call("mount", None, "/", None, 1 << 18 | 16384, None)  # private, with all within
    _call("mount", "tmpfs", root, "tmpfs", _CAREFUL, "mode=755")
    readable = (ctypes.c_uint64 * 4)(1 | 2)  # read only, without rights of owners
    for path in sorted({*map(os.path.normpath, (*folders, *_SYSTEM))}):
        if os.path.exists(path) and not os.path.exists(root + path):
            _bind(path, root + path)
            _call("syscall", 442, -100, root + path, 0x8000, readable, 32)  # mount_setattr
    for path in hidden:
        if os.path.exists(root + path):
            _bind("/dev/null", root + path)
    for path in (_OWN, "/tmp", "/dev/shm", "/proc"):  # noqa: S108
        os.makedirs(root + path, exist_ok=True)
    with contextlib.suppress(OSError):  # where a part of it is hidden, none is shown
        _call("mount", "proc", f"{root}/proc", "proc", _CAREFUL, "subset=pid")
    os.chdir(root)
    _call("syscall", _PIVOT_ROOT, b".", b".")
    _call("umount2", ".", 2)
    os.chdir("/")
    with contextlib.suppress(OSError):
        _call("syscall", _KEYCTL, 1, 0)  # a ring of keys would reach the next trial
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


def _asked(name: str) -> Any:
    def method(self: Any, *given: Any, **named: Any) -> Any:
        return self.ask(name, *given, *named.values())

    return method


def _class_of(kind: str) -> Any:
    """Return a class whose methods ask the other side."""
    base, methods = ASKED[kind]
    bases = () if kind in ("seed", "policy", "distribution", "function") else (base,)
    return type(kind, bases, {name: _asked(name) for name in methods})


class _Side:
    """The foreign side of a connection."""

    def __init__(self) -> None:
        self.wire = Wire(3, self._pack, self._unpack)
        self._functions = list[Any]()
        self._raised: BaseException | None = None
        self._before = {*sys.modules}

    def ask(self, place: int, method: str, *given: Any) -> Any:
        """Ask the other side; call what it calls back."""
        self.wire.send("ask", place, method, list(given))
        streams = [one for one in given if isinstance(one, np.random.Generator)]
        while True:
            match self.wire.receive():
                case ["return", (value, moved)]:
                    for mine, theirs in zip(streams, moved, strict=True):
                        mine.bit_generator.state = theirs.bit_generator.state
                    return value
                case ["call", function, name, arguments]:
                    try:
                        called = self._functions[function]
                        self.wire.send("return", getattr(called, name)(*arguments))
                    except BaseException as exc:
                        self._raised = exc
                        self.wire.send("raise", _told_of(exc))
                case ["raise", kind, message]:
                    raised, self._raised = self._raised, None
                    raise raised or getattr(errors, kind, RuntimeError)(message or kind)

    def _pack(self, value: Any) -> Any:
        if hasattr(value, "place"):
            return "ours", value.place, []
        if callable(value):
            self._functions.append(value)
            can = [one for one in ("everywhere", "at", "means") if hasattr(value, one)]
            return "theirs", len(self._functions) - 1, can
        msg = f"{type(value).__name__} of an entry cannot be sent where policies are asked"
        raise TypeError(msg)

    def _unpack(self, value: Any) -> Any:
        kind, place, told = value
        if kind == "schema":
            return Schema(*(tuple(Column(*one) for one in columns) for columns in place))
        cls = _class_of(kind)
        made = cls.__new__(cls)
        vars(made).update(told, place=place, ask=lambda *given: self.ask(place, *given))
        return made

    def serve(self, missing: str) -> None:
        """Answer the one request of this process."""
        output: Callable[[], str | None] = str
        try:
            match self.wire.receive():
                case ["probe"]:
                    self.wire.send("return", missing)
                case ["facts", plugin, params]:
                    told = _facts(Plugin(**plugin), params)
                    self.wire.send("return", told | {"modules": self._loaded()})
                case ["build", plugin, params, seed]:
                    estimator = Plugin(**plugin).cls(**params)
                    import_all(estimator.requires)
                    watched = ProcessSettings().watched(seeding_of_torch(seed))
                    with isolated(seed) as tail, watched:
                        output = tail.text
                        self._run(estimator, output)
        except BaseException as exc:
            self.wire.send("raise", _told_of(exc) | {"output": output() or ""})

    def _run(self, estimator: Estimator, output: Callable[[], str | None]) -> None:
        self.wire.send("return", None)
        _, state, access, rng, device = self.wire.receive()
        view = View.__new__(View)
        vars(view).update(state, access=Access(access), _fit_cache=FitCache())
        vars(view).update(_shared=ReusedCost(), _charged=set())
        estimator.fit(view, rng=rng, device=device)
        self.wire.send("return", (None, view.violations, "", []))
        self.wire.receive()
        made = estimator.estimate(view)
        if not isinstance(made, Estimate):
            msg = f"estimate returned {type(made).__name__}; expected ope_bench.Estimate"
            raise DataError(msg)
        fields = vars(made) | {"interval": made.interval and vars(made.interval)}
        told = (fields, view.violations, output() or "", self._loaded())
        self.wire.send("return", told)

    def _loaded(self) -> list[str]:
        """Return the modules of libraries that this process has loaded itself."""
        new = {*sys.modules} - self._before
        return [one for one in new if one.partition(".")[0] in _LIBRARIES][:500]


def _told_of(exc: BaseException) -> dict[str, Any]:
    told = {"kind": class_name(exc), "message": message_of(exc), "trace": traceback_of(exc)}
    if isinstance(exc, PositivityViolation):
        told |= {one: getattr(exc, one) for one in ("unsupported_mass", "fallback")}
    return {**told, "output": ""}


def _facts(plugin: Plugin, params: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what the other side is told of a class and of its object."""
    cls: Any = plugin.cls
    defaults = {name: one.default for name, one in signature(cls).items()}
    told: dict[str, Any] = {"doc": cls.__doc__ or "", "added": plain(added_defaults(cls))}
    told["parameters"] = [
        (name, [] if one is inspect.Parameter.empty else [plain(one)])
        for name, one in defaults.items()
    ]
    try:
        checked = dict(spec_for(plugin, cls, params or {}).params)
    except errors.ParameterError:
        if params is None:  # some have no default
            return told
        raise
    made = cls(**checked)
    import_all(made.requires)
    told |= {name: getattr(made, name) for name in ("row_weights", "action_masks")}
    told |= {one: getattr(made, one).value for one in ("access", "optional_access")}
    return told | {"built": True, "params": checked, "code": result_digest(made)}
