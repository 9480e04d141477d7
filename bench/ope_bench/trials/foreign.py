"""Foreign estimators: their code runs in a process of its own, which sees what it may know.

A worker has sampled the data: it holds truth, seeds and salt. So it never loads the class of a
foreign estimator, nor does the coordinator. `Foreign` stands in for the class, and its objects
send the data of the access that the class declares; policies, distributions and random streams
stay here and are asked. Class, parameters and access are asked of such a process as well. Such a
trial is *sealed*; what `ope_bench.trials.sealing` seals is the memory of data.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, NoReturn

from annotated_types import MaxLen

from ope_bench.base import errors
from ope_bench.base.canonical import canonical_json
from ope_bench.base.errors import OpeBenchError, PluginError, PositivityViolation
from ope_bench.contracts.data import Schema
from ope_bench.contracts.plugins import Estimate, Estimator, Interval
from ope_bench.contracts.view import Access, View
from ope_bench.plugins.registry import APART, Plugin
from ope_bench.trials.wire import ASKED, TOLD, Wire, WireError

MOST_NESTED = 50
"""Questions within questions."""

MOST_CHARACTERS = 20_000


class WorkerDied(SystemExit):
    """The process of a foreign estimator ended."""


@dataclass
class Processes:
    """Where foreign processes come from: forks of one that holds libraries and no data.

    Parameters
    ----------
    control : the socket of that process; its end ends that process.
    memory : bytes that a foreign process may use.
    worlds : whether environments of others are loaded here all the same.
    missing : why foreign processes are not isolated here; empty where they are.
    """

    control: socket.socket
    memory: int | None = None
    worlds: bool = False
    missing: str = ""
    _process: subprocess.Popen[bytes] | None = None
    _facts: dict[str, Facts] = field(default_factory=dict)

    @classmethod
    def launch(
        cls,
        environment: Mapping[str, str],
        hidden: Sequence[Path],
        *,
        required: bool,
        worlds: bool,
    ) -> Processes:
        """Start the process that forks.

        Parameters
        ----------
        environment : all variables of foreign processes.
        hidden : files that foreign processes see empty.
        required : whether a process that cannot be isolated is refused.
        worlds : as of the class.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        code = (
            "import sys, json; told = json.loads(sys.argv.pop()); sys.path[:] = told.pop('path'); "
            "from ope_bench.trials.foreign_main import main; main(**told)"
        )
        path = [os.path.abspath(one) for one in sys.path if one]
        told = {"descriptor": theirs.fileno(), "path": path, "required": required}
        told["seen"] = [*path, sys.prefix, sys.base_prefix]
        told["hidden"] = [os.path.abspath(one) for one in hidden]
        with theirs:
            started = subprocess.Popen(  # noqa: S603
                # Without `site`, nothing of the entry's installation runs at its start.
                [sys.executable, "-S", "-c", code, json.dumps(told)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=dict(environment),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        made = cls(ours, worlds=worlds, _process=started)
        try:
            with made.started() as process:
                made.missing = str(process.exchange("probe"))
        except WorkerDied as exc:
            made.missing = str(exc).removeprefix("its process ")
        return made

    def close(self) -> None:
        """End the process that forks; the workers that could ask it have ended."""
        self.control.close()
        if self._process is not None:
            self._process.wait()

    @contextlib.contextmanager
    def started(self, *folders: str) -> Iterator[Process]:
        """Start a foreign process; when the block ends, it and all that it started have ended.

        Parameters
        ----------
        folders : of its code.
        """
        (wire, their_wire), (life, their_life) = socket.socketpair(), socket.socketpair()
        with their_wire, their_life:
            told = json.dumps({"memory": self.memory, "folders": folders}).encode()
            sockets = [their_wire.fileno(), their_life.fileno()]
            socket.send_fds(self.control, [told], sockets)
        process = Process(wire, life)
        try:
            yield process
        finally:
            process.end()

    def facts(self, plugin: Plugin, params: Mapping[str, Any] | None = None) -> Facts:
        """Return what a foreign class says of itself, and of the object with these parameters.

        Without any, of one with defaults, where there is such.
        """
        key = canonical_json([asdict(plugin), params])
        if key not in self._facts:
            try:
                with self.started(*_folders(plugin)) as process:
                    told = _validator()(process.exchange("facts", asdict(plugin), params))
            except OpeBenchError:
                raise
            # What it says of itself may be anything.
            except (SystemExit, Exception) as exc:
                msg = f"{plugin.kind} '{plugin.id}' ({plugin.origin}): {type(exc).__name__}: {exc}"
                raise PluginError(msg[:MOST_CHARACTERS]) from exc
            self.load(told.modules)
            more = [{}, told.params] if params is None and told.built else [told.params]
            keys = [canonical_json([asdict(plugin), one]) for one in more if told.built]
            self._facts |= dict.fromkeys([key, *keys], told)
        return self._facts[key]

    def load(self, modules: Sequence[str]) -> None:
        """Load modules of our libraries once for all trials to come."""
        if modules:
            self.control.send(json.dumps({"import": modules}).encode())

    def stand_in(self, plugin: Plugin) -> type[Estimator] | None:
        """Return a class with the parameters of a foreign one; None for one to be loaded here."""
        if plugin.kind == "environment":
            if self.worlds:
                return None
            msg = f"environment '{plugin.id}' ({plugin.origin}): its code may not run here"
            raise PluginError(msg)
        told, kind = self.facts(plugin), inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter("self", kind)]
        for name, default in told.parameters:
            given = default[0] if default else inspect.Parameter.empty
            parameters.append(inspect.Parameter(name, kind, default=given))

        def build(self: Foreign, **params: Any) -> None:
            self.params = params

        build.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        members = {"__init__": build, "__doc__": told.doc, "plugin": plugin, "processes": self}
        name = plugin.target.rpartition(":")[2]
        return type(name, (Foreign,), {**members, "added_parameters": told.added})


def _folders(plugin: Plugin) -> list[str]:
    """Return the folder that a plugin's module lies in."""
    module = plugin.target.rpartition(":")[0]
    if module.endswith(".py"):
        return [str(Path(module).parent)]
    found = importlib.util.find_spec(module.partition(".")[0])  # runs no code of it
    if found is None and APART:
        return [APART]
    places = (found and (found.submodule_search_locations or [found.origin or ""])) or []
    return [str(Path(one).parent) for one in places]


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a foreign class says of itself and of an object with certain parameters.

    Parameters
    ----------
    parameters : names, each with a list of its default, empty without one.
    built : whether the others are of an object.
    params : all of the object, validated.
    modules : what it has loaded.
    code : digest of the code.
    """

    doc: str
    added: dict[str, Any]
    parameters: list[tuple[str, list[Any]]]
    modules: Modules
    built: bool = False
    params: dict[str, Any] = field(default_factory=dict)
    access: Access = Access.SAMPLES
    optional_access: Access = Access.SAMPLES
    row_weights: bool = False
    action_masks: bool = False
    code: str = ""


Modules = Annotated[list[Annotated[str, MaxLen(100)]], MaxLen(500)]


@cache
def _validator() -> Callable[[Any], Facts]:
    from pydantic import TypeAdapter

    return TypeAdapter(Facts).validate_python


class Process:
    """A foreign process: its questions are answered, its first answer counts."""

    def __init__(self, connection: socket.socket, life: socket.socket) -> None:
        self.wire = Wire(connection.detach(), self._pack, self._unpack)
        self._life, self._told = life, ""
        self._objects: list[tuple[Any, tuple[str, ...]]] = []
        self._depth = 0

    def exchange(self, *message: Any, keep: bool = False) -> Any:
        """Send a message; answer questions until the reply comes, and return it.

        Raises
        ------
        WorkerDied : the process ended, or sent what is no message.
        """
        try:
            self.wire.send(*message, keep=keep)
            while True:
                match self.wire.receive():
                    case ["return", value]:
                        return value
                    case ["raise", dict(told)]:
                        _raise(told)
                    case ["ask", int(place), str(method), list(arguments)]:
                        self._answer(place, method, arguments)
                    case _:
                        msg = "no message"
                        raise WireError(msg)
        except (EOFError, OSError, WireError) as exc:
            self.end()
            how = f"sent {exc}" if isinstance(exc, WireError) else self._told
            msg = f"its process {how or 'was killed'}"
            raise WorkerDied(msg) from None

    def _answer(self, place: int, method: str, arguments: list[Any]) -> None:
        self._depth += 1
        try:
            target, methods = dict(enumerate(self._objects))[place]
            if method not in methods or self._depth > MOST_NESTED:
                msg = f"'{method}' cannot be asked"
                raise PluginError(msg)
            value = getattr(target, method)(*arguments)
            # A stream goes on where the other side's draws ended.
            streams = [one for one in arguments if type(one).__name__ == "Generator"]
            self.wire.send("return", (value, streams))
        except Exception as exc:
            # What an environment says of its own mistakes may hold what nobody shall know.
            known = isinstance(exc, OpeBenchError)
            self.wire.send("raise", type(exc).__name__, str(exc) if known else "")
        finally:
            self._depth -= 1

    def _pack(self, value: Any) -> Any:
        """Describe what stays here: the other side learns its kind, and asks by its number."""
        if isinstance(value, Schema):
            return "schema", [[[*vars(x).values()] for x in y] for y in vars(value).values()], {}
        kind = next(kind for kind, (base, _) in ASKED.items() if isinstance(value, base))
        self._objects.append((value, ASKED[kind][1]))
        held = {name: getattr(value, name, None) for name in TOLD}
        told = {name: one for name, one in held.items() if one is not None and not callable(one)}
        return kind, len(self._objects) - 1, told

    def _unpack(self, value: Any) -> Any:
        """Return an object of ours, or a function of the other side."""
        kind, place, methods = value
        return self._objects[place][0] if kind == "ours" else _Theirs(self, place, methods)

    def end(self) -> None:
        """End the process with all that it started, and wait for that."""
        if self._life.fileno() >= 0:
            with self._life, contextlib.suppress(OSError):
                self._life.shutdown(socket.SHUT_WR)
                while part := self._life.recv(4_096):
                    self._told += part.decode(errors="replace")
            self.wire.close()


class _Theirs:
    """A function of the other side, with what else it can do."""

    def __init__(self, process: Process, place: int, methods: Sequence[str]) -> None:
        def calling(name: str) -> Callable[..., Any]:
            return lambda *given: process.exchange("call", place, name, list(given))

        self._call = calling("__call__")
        vars(self).update(
            {one: calling(one) for one in ("everywhere", "at", "means") if one in methods}
        )

    def __call__(self, *given: Any) -> Any:
        return self._call(*given)


def _raise(told: Mapping[str, Any]) -> NoReturn:
    """Raise what a foreign process raised: as a class of ours, or one of the same name."""
    kind, message = str(told["kind"])[:200], str(told["message"])[:MOST_CHARACTERS]
    known = getattr(errors, kind, {"MemoryError": MemoryError, "SystemExit": SystemExit}.get(kind))
    if not (
        isinstance(known, type) and issubclass(known, OpeBenchError | MemoryError | SystemExit)
    ):
        known = type(kind, (Exception,), {})
    more = {one: told[one] for one in ("unsupported_mass", "fallback") if one in told}
    exc = known(message, **more) if known is PositivityViolation else known(message)
    sys.stdout.write(str(told["output"]))
    exc.add_note(str(told["trace"])[:MOST_CHARACTERS])
    raise exc


class Foreign(Estimator):
    """An estimator whose code runs elsewhere."""

    plugin: ClassVar[Plugin]
    processes: ClassVar[Processes]
    params: dict[str, Any]
    _process: Process

    @classmethod
    def foreign_params(cls, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return validated parameters as the class itself would."""
        return dict(cls.processes.facts(cls.plugin, params).params)

    @property
    def facts(self) -> Facts:
        """What it says of itself."""
        return self.processes.facts(self.plugin, self.params)

    access = property(lambda self: self.facts.access)
    optional_access = property(lambda self: self.facts.optional_access)
    row_weights = property(lambda self: self.facts.row_weights)
    action_masks = property(lambda self: self.facts.action_masks)
    foreign_code = property(lambda self: self.facts.code)

    def __getattr__(self, name: str) -> Any:
        if name in vars(self).get("params", {}):
            return self.params[name]
        raise AttributeError(name)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name."""
        return dict(self.params)

    @contextlib.contextmanager
    def running(self, seed: int) -> Iterator[None]:
        """Run a process in which the estimator is built; it ends with the block.

        Parameters
        ----------
        seed : of the global random states.
        """
        with self.processes.started(*_folders(self.plugin)) as self._process:
            self._process.exchange("build", asdict(self.plugin), self.params, seed)
            yield

    def fit(self, view: View, *, rng: Any, device: str) -> Foreign:
        """Send the view, and fit there."""
        left_out = ("_fit_cache", "_shared", "_charged", "access")
        state = {name: value for name, value in vars(view).items() if name not in left_out}
        self._ask(view, "fit", state, view.access.value, rng, device, keep=True)
        return self

    def estimate(self, view: View) -> Estimate:
        """Estimate there; the answer is checked as any other."""
        told = self._ask(view, "estimate")
        interval = told.pop("interval")
        return Estimate(**told, interval=interval and Interval(**interval))

    def _ask(self, view: View, *message: Any, keep: bool = False) -> Any:
        value, violations, output, modules = self._process.exchange(*message, keep=keep)
        # What was not declared was not sent; this is for authors.
        view.violations += [one for one in violations if one in View.__annotations__]
        sys.stdout.write(str(output))
        self.processes.load([str(one)[:100] for one in modules[:500]])
        return value


def words_for_exit(returncode: int | None) -> str:
    """Describe how a process ended.

    >>> words_for_exit(-11)
    'died of SIGSEGV'
    """
    if returncode is None:
        return "was killed"
    if returncode >= 0:
        return f"exited with {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    hint = " (the kernel's, if memory ran out)" if returncode == -signal.SIGKILL else ""
    return f"died of {name}{hint}"
