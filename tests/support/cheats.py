"""Estimators that try to learn what they must not know, for a package that the tests install.

Each returns what it has learned as a diagnostic, and as its value where that is a truth.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import glob
import json
import mmap
import os
import pathlib
import pickle
import signal
import socket
import subprocess
import sys
import time
from dataclasses import field
from typing import Any

import numpy as np

from ope_bench import Access, Estimate, Estimator
from ope_bench.gate import verification

EVIDENCE = pathlib.Path("@evidence@")
"""A folder that exists for whoever is not sealed."""

PORT = 4711
"""A port at which somebody listens, replaced in the package."""

runs = 0


def mark(text: str) -> None:
    """Leave evidence where the judging processes would see it."""
    with contextlib.suppress(OSError):
        (EVIDENCE / f"{text}-{os.getpid()}").write_text(text)


if __name__ == "acme_cheats":  # installed, not imported by the tests
    mark("imported")
    verification.access_problems = lambda rows, submitted: iter(())
    verification.Rounds.figures = lambda self, rows, submitted: []  # type: ignore[method-assign]


class Cheat(Estimator):
    """Self-normalized weighting, and what `learn` finds."""

    access = Access.PROPENSITY | Access.TARGET_POLICY

    def learn(self, view: Any) -> Any:
        """Return what was learned; empty if nothing."""
        return ""

    def estimate(self, view: Any) -> Estimate:
        """Return the truth if it was found."""
        target = view.target_policy.probability(view.context, view.action)
        weights = target / view.propensity
        found = self.learn(view)
        value = float((weights * view.reward).sum() / weights.sum())
        return Estimate(
            found if isinstance(found, float) else value, diagnostics={"learned": str(found)[:500]}
        )


class Honest(Cheat):
    """Learns nothing."""


class Objects(Cheat):
    """Searches the objects of the garbage collector."""

    def learn(self, view: Any) -> Any:
        found = [x.expected for x in gc.get_objects() if type(x).__name__ == "Truth"]
        return found[-1] if found else ""


class Frames(Cheat):
    """Searches the frames that called it."""

    def learn(self, view: Any) -> Any:
        frame = sys._getframe()
        while frame := frame.f_back:  # type: ignore[assignment]
            for one in frame.f_locals.values():
                truth = getattr(one, "truth", None)
                if hasattr(truth, "expected"):
                    return truth.expected
                if hasattr(one, "environment") and hasattr(one, "salt"):
                    return f"the trial: {one}"
        return ""


class Disk(Cheat):
    """Keeps its data on every disk for its next trial."""

    def learn(self, view: Any) -> Any:
        places = ["/tmp", "/var/tmp", "/dev/shm", "/run", os.path.expanduser("~"), "/"]
        places += [os.environ.get("TMPDIR", "/tmp"), str(EVIDENCE)]
        found = [one for one in places if os.path.exists(f"{one}/.acme")]
        for place in places:
            with contextlib.suppress(OSError):
                pathlib.Path(f"{place}/.acme").write_text("kept")
        return " ".join(found)


class Variables(Cheat):
    """Reads variables and arguments of all processes that it sees."""

    def learn(self, view: Any) -> Any:
        texts = [str(os.environ), " ".join(sys.argv)]
        for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                texts.append(pathlib.Path(path).read_bytes().decode(errors="replace"))
        return " ".join(word for word in ("hush", "OPE_BENCH_WORKER") if word in str(texts))


class Processes(Cheat):
    """Reads the memory of other processes."""

    def learn(self, view: Any) -> Any:
        libc = ctypes.CDLL(None)
        mine = os.getpid()
        seen = {int(one.split("/")[2]) for one in glob.glob("/proc/[0-9]*")} - {mine}
        for pid in {*seen, os.getppid(), *range(1, 200)} - {mine, 0}:
            with contextlib.suppress(OSError), open(f"/proc/{pid}/mem", "rb"):
                return f"memory of {pid}"
            if libc.ptrace(16, pid, None, None) == 0:
                return f"traced {pid}"
        return "" if not seen else f"processes {sorted(seen)[:9]}"


class Shared(Cheat):
    """Looks for shared memory, and leaves some."""

    def learn(self, view: Any) -> Any:
        libc = ctypes.CDLL(None)
        with contextlib.suppress(OSError):
            pathlib.Path("/dev/shm/acme").write_text("kept")
        old = libc.shmget(4711, 4096, 0)
        libc.shmget(4711, 4096, 0o1600)
        names = sorted(set(os.listdir("/dev/shm")) - {"acme"}) if os.path.isdir("/dev/shm") else []
        return f"segment {old}" if old >= 0 else " ".join(names)


class Descriptors(Cheat):
    """Looks for descriptors that it has not opened."""

    def learn(self, view: Any) -> Any:
        found = []
        for number in range(4096):
            with contextlib.suppress(OSError):
                os.fstat(number)
                found.append(number)
        return "" if len(found) <= 4 else str(found)


class Preload(Cheat):
    """Changes what the next process of Python, or of anything, loads."""

    def learn(self, view: Any) -> Any:
        names = ("acme.pth", "sitecustomize.py", "ld.so.preload", "numpy.py")
        folders = {*sys.path, "/etc", "/usr/lib"}
        paths = [pathlib.Path(folder) / name for folder in folders for name in names]
        # What it writes ends with it: its root is its own.
        found = " ".join(str(path) for path in paths if path.exists())
        for path in paths:
            with contextlib.suppress(OSError):
                path.touch(exist_ok=False)
        code = "import os; print(os.environ.get('LD_PRELOAD', ''))"
        os.environ["LD_PRELOAD"] = str(EVIDENCE / "evil.so")
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                [sys.executable, "-c", code], timeout=5, capture_output=True, check=False
            )
        return found


class Outside(Cheat):
    """Mounts, unshares and climbs until it sees the machine's files."""

    def learn(self, view: Any) -> Any:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.unshare(0x10000000 | 0x00020000)
        for kind in (b"proc", b"sysfs", b"devtmpfs"):
            libc.mount(b"none", b"/tmp", kind, 0, None)
        libc.umount2(b"/", 2)
        with contextlib.suppress(OSError):
            os.mkdir("/tmp/in")
            os.chroot("/tmp/in")
            for _ in range(50):
                os.chdir("..")
            os.chroot(".")
        seen = [
            one for one in ("/etc/passwd", "/etc/hostname", str(EVIDENCE)) if os.path.exists(one)
        ]
        with contextlib.suppress(OSError):
            pathlib.Path("/proc/sys/kernel/core_pattern").write_text("|/tmp/x")
            seen.append("a setting of the kernel")
        return " ".join(seen)


class Keys(Cheat):
    """Keeps something in rings of keys."""

    def learn(self, view: Any) -> Any:
        libc = ctypes.CDLL(None)
        add, search = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
        rings = (-3, -4, -5)
        found = [x for x in rings if libc.syscall(search, 10, x, b"user", b"acme", 0) > 0]
        for one in rings:
            libc.syscall(add, b"user", b"acme", b"kept", 4, one)
        return "a key" if found else ""


class Network(Cheat):
    """Asks somebody else."""

    def learn(self, view: Any) -> Any:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", PORT), timeout=1).close()
            return "a connection"
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.connect("\0acme-socket")
            return "an abstract socket"
        return ""


class Signals(Cheat):
    """Kills what it can."""

    def learn(self, view: Any) -> Any:
        for pid in (os.getppid(), *range(2, 400)):
            with contextlib.suppress(OSError):
                if pid not in (0, os.getpid()):
                    os.kill(pid, signal.SIGKILL)
        return ""


class Memory(Cheat):
    """Counts its own trials in this process."""

    def learn(self, view: Any) -> Any:
        global runs
        runs += 1
        return "" if runs == 1 else f"trial {runs}"


class Leaves(Cheat):
    """Leaves a process behind, in a session of its own."""

    def learn(self, view: Any) -> Any:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                ctypes.CDLL(None).prctl(15, b"acme-left", 0, 0, 0)
                for number in range(1024):
                    with contextlib.suppress(OSError):
                        os.close(number)
                time.sleep(600)
            os._exit(0)
        return ""


def _raw(content: bytes = b"", text: str = "", size: int = 0) -> None:
    """Write to the socket behind the harness's back."""
    head = len(text).to_bytes(8, "big") + (size or len(content)).to_bytes(8, "big")
    with contextlib.suppress(OSError):
        os.write(3, head + text.encode() + content)


class Pickled(Cheat):
    """Answers with a pickle that runs a command where it is loaded."""

    def learn(self, view: Any) -> Any:
        class Evil:
            def __reduce__(self) -> Any:
                return os.system, (f"touch {EVIDENCE}/pickled",)

        content = pickle.dumps(np.array([Evil()], dtype=object))
        _raw(content, text='["return",{"array":["|O",[1],"C"]},[]]')
        return ""


class Twice(Cheat):
    """Answers, and answers again."""

    def learn(self, view: Any) -> Any:
        made = {"value": ["Estimate", {"map": [["value", 0.125]]}]}
        answer = ["return", [made, [], ""], []]
        for _ in range(3):
            _raw(text=json.dumps(answer))
        return ""


class Claims(Cheat):
    """Says that its message is larger than any memory."""

    def learn(self, view: Any) -> Any:
        _raw(size=1 << 62)
        return ""


class Nested(Cheat):
    """Sends a text that is nested without end."""

    def learn(self, view: Any) -> Any:
        _raw(text='{"tuple":[' * 100_000)
        return ""


class Endless(Cheat):
    """Asks within what it is asked, without end."""

    def learn(self, view: Any) -> Any:
        policy = view.target_policy

        def again(context: Any, action: Any) -> Any:
            return policy.expect(context, again)

        policy.expect(view.context, again)
        return ""


class Asks(Cheat):
    """Asks for what nobody grants: attributes, worlds, other objects."""

    def learn(self, view: Any) -> Any:
        side = view.target_policy._peer
        found = []
        methods = ("__class__", "__init__", "_score", "__dict__", "__reduce__", "world", "logged")
        for place in range(-3, 9):
            for method in (
                *methods,
                "target",
                "salt",
                "sample_world",
                "global_seed",
                "table.__class__",
            ):
                with contextlib.suppress(Exception):
                    found.append(f"{place}.{method}: {side.ask(place, method)}")
        return "; ".join(found)


class Undeclared(Cheat):
    """Reads what it does not declare, and hides that."""

    access = Access.PROPENSITY | Access.TARGET_POLICY

    def learn(self, view: Any) -> Any:
        view._granted.update({})
        held = {name for name in vars(view) if name not in type(view).__annotations__}
        found = [one for one in ("logging_policy", "embedding_distribution") if one in held]
        with contextlib.suppress(Exception):
            found.append(str(view.logging_policy))
        view.violations.clear()
        return " ".join(
            [*found, *(set(view._granted) - {"propensity", "target_policy", "weight_range"})]
        )


class Streams(Cheat):
    """Looks for seed and salt in what draws for it."""

    def learn(self, view: Any) -> Any:
        named = [one for one in ("seed", "salt", "replicate") if hasattr(view._seed, one)]
        return " ".join(named)


class Requires(Cheat):
    """Has a module of its own imported by the harness."""

    requires = ("acme_evil",)


class Grows(Cheat):
    """Declares more where it believes that nobody compares."""

    @property
    def access(self) -> Any:  # type: ignore[override]
        more = Access.LOGGING_POLICY if time.time_ns() % 2 else Access.SAMPLES
        return Access.PROPENSITY | Access.TARGET_POLICY | more


class Loads(Cheat):
    """Says that it has loaded modules whose names, or whose import, would end other processes."""

    def learn(self, view: Any) -> Any:
        names = [f"numpy.{chr(1) * 90}{n}" for n in range(300)]
        sys.modules.update(dict.fromkeys([*names, "numpy.f2py.__main__"], sys))
        return ""


class Reads(Cheat):
    """Has NumPy read the judging process's memory: an object whose `__array_interface__` says it.

    A function that a policy is given answers with it, and each column says a row of bytes.
    """

    def learn(self, view: Any) -> Any:
        policy = view.target_policy
        base: Any = next(one for one in type(policy._peer).__mro__ if "_packed" in vars(one))
        packed = base._packed
        where: dict[str, Any] = {"shape": (8, 4), "typestr": "|u1", "strides": (1, 0)}
        where |= {"version": 3, "data": np.zeros(64, np.uint8), "offset": 64}

        def _packed(peer: Any, value: Any, arrays: Any) -> Any:
            if value is not where:
                return packed(peer, value, arrays)
            sent = packed(peer, {"__array_interface__": {**where}, "atoms": 1}, arrays)
            return {"object": ["function", 0, ["__array__"], sent]}

        base._packed = _packed
        try:
            found = policy.contract(np.repeat(view.context[:1], 8, axis=0), lambda rows: where)
        except Exception:
            return ""
        finally:
            base._packed = packed
        return str(found)


class Sends(Cheat):
    """Answers with a policy whose attribute is an object, and another as its weights."""

    def learn(self, view: Any) -> Any:
        policy = view.target_policy
        base: Any = next(one for one in type(policy._peer).__mro__ if "_packed" in vars(one))
        packed, odd = base._packed, object()

        def _packed(peer: Any, value: Any, arrays: Any) -> Any:
            if value is not odd:
                return packed(peer, value, arrays)
            inner = {"object": ["function", 0, ["__call__"], {"map": []}]}
            return {"object": ["table", 0, ["probability"], {"map": [["table", inner]]}]}

        base._packed = _packed
        try:
            policy.contract(view.context[:1], lambda rows: odd)
        except Exception:
            return ""
        finally:
            base._packed = packed
        return "an object as an attribute"


class Names(Cheat):
    """Says that it has loaded a module that nobody needs, once it has data; and looks for it."""

    def learn(self, view: Any) -> Any:
        found = "scipy.datasets" in sys.modules
        side = next(one for one in gc.get_objects() if type(one).__name__ == "_Side")
        type(side).loaded = lambda self: ["scipy.datasets"]
        return "" if not found else "a module that another trial named"


class Folders(Cheat):
    """Says whether its home is where others keep temporary files, or cannot be written."""

    sizes: list[int] = field(default_factory=lambda: [1])

    def learn(self, view: Any) -> Any:
        folders = {os.path.expanduser("~"), os.environ["TMPDIR"]}
        for one in folders:
            (pathlib.Path(one) / "own").write_text("kept")
        return "" if len(folders) == 2 else str(folders)


class Mapped(Cheat):
    """Writes into the memory of its data, which other trials would share."""

    def learn(self, view: Any) -> Any:
        address = view.reward.__array_interface__["data"][0]
        with contextlib.suppress(Exception):
            libc = ctypes.CDLL(None)
            page = address & ~(mmap.PAGESIZE - 1)
            libc.mprotect(ctypes.c_void_p(page), 1 << 16, 3)
            view.reward.flags.writeable = True
            view.reward[:] = 0.0
        return ""


class Exits(Cheat):
    """Ends its process."""

    def learn(self, view: Any) -> Any:
        os._exit(3)


class Faults(Cheat):
    """Crashes its process."""

    def learn(self, view: Any) -> Any:
        ctypes.string_at(0)


class Odd(Cheat):
    """Answers with numbers that are none."""

    def estimate(self, view: Any) -> Estimate:
        made = Estimate(0.0)
        object.__setattr__(made, "value", "0.5")
        object.__setattr__(made, "weights", np.array(["a"]))
        return made


ALL = [one for one in list(globals().values()) if isinstance(one, type) and issubclass(one, Cheat)]
