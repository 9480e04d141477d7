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
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, cast

from ope_bench.base.canonical import canonical_json
from ope_bench.base.errors import OpeBenchError, PluginError
from ope_bench.contracts.plugins import Estimate, Estimator
from ope_bench.contracts.view import Access, View
from ope_bench.plugins.registry import APART, Plugin
from ope_bench.trials.wire import MOST_CHARACTERS, Peer, WireError

_MODULE = re.compile(r"(?!.*__main__)[A-Za-z0-9_.]{1,100}")


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
    missing : why foreign code has no processes of its own here; empty where it has.
    """

    control: socket.socket
    memory: int | None = None
    worlds: bool = False
    missing: str = ""
    _process: subprocess.Popen[bytes] | None = None
    _facts: dict[str, Facts] = field(default_factory=dict)

    @classmethod
    def launch(
        cls, environment: Mapping[str, str], hidden: Sequence[Path], *, worlds: bool
    ) -> Processes:
        """Start the process that forks.

        Parameters
        ----------
        environment : all variables of foreign processes.
        hidden : files that foreign processes see empty.
        worlds : as of the class.
        """
        if sys.platform != "linux":
            return cls(socket.socket(), missing="sealed trials need Linux")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        code = (
            "import sys, json; told = json.loads(sys.argv.pop()); sys.path[:] = told.pop('path'); "
            "from ope_bench.execution.foreign_main import main; main(**told)"
        )
        path = [os.path.abspath(one) for one in sys.path if one]
        told = {"descriptor": theirs.fileno(), "path": path}
        told["seen"] = [*(part for one in path for part in code_in(one)), *_INSTALLED]
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
        processes = cls(ours, worlds=worlds, _process=started)
        try:
            with processes.started() as process:
                process.ask(0, "loaded")
        except WorkerDied as exc:
            processes.missing = str(exc).removeprefix("its process ")
        return processes

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
        process = Process(wire, life)
        try:
            with their_wire, their_life:
                seen = [part for one in folders for part in code_in(one)]
                asked = {"memory": self.memory, "folders": folders, "seen": seen}
                told = json.dumps(asked).encode()
                sockets = [their_wire.fileno(), their_life.fileno()]
                socket.send_fds(self.control, [told], sockets)
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
                    facts = _validator()(process.ask(0, "facts", asdict(plugin), params))
                _ = facts.signature, canonical_json([facts.added, facts.params])
            except OpeBenchError:
                raise
            # What it says of itself may be anything.
            except (SystemExit, Exception) as exc:
                msg = f"{plugin.kind} '{plugin.id}' ({plugin.origin}): {type(exc).__name__}: {exc}"
                raise PluginError(msg[:MOST_CHARACTERS]) from exc
            self.load(facts.modules)
            same = [] if facts.params is None else [facts.params, *([] if params else [{}])]
            keys = [canonical_json([asdict(plugin), one]) for one in same]
            self._facts |= dict.fromkeys([key, *keys], facts)
        return self._facts[key]

    def load(self, modules: Sequence[str]) -> None:
        """Load modules of our libraries once for all trials to come.

        None that a process has named which had data: the next one would read it in `sys.modules`.
        """
        names = [one for one in map(str, modules[:500]) if _MODULE.fullmatch(one)]
        if names:
            self.control.send(json.dumps({"import": names}).encode())

    def stand_in(self, plugin: Plugin) -> type[Estimator] | None:
        """Return a class with the parameters of a foreign one; None for one to be loaded here."""
        if plugin.kind == "environment":
            if self.worlds:
                return None
            msg = f"environment '{plugin.id}' ({plugin.origin}): its code may not run here"
            raise PluginError(msg)
        facts = self.facts(plugin)

        def build(self: Foreign, **params: Any) -> None:
            told = self._processes.facts(plugin, params)
            vars(self).update({name: getattr(told, name) for name in _OF_OBJECTS}, **params)
            self._params = params

        build.__signature__ = facts.signature  # type: ignore[attr-defined]
        # A list is one value of such a parameter, no grid.
        build.__annotations__ = dict.fromkeys(facts.lists, list[Any])
        members = {"__init__": build, "_plugin": plugin, "_processes": self}
        name = plugin.target.rpartition(":")[2]
        return type(name, (Foreign,), {**members, "added_parameters": facts.added})


_INSTALLED = (sys.prefix, sys.base_prefix)


def code_in(folder: str) -> list[str]:
    """Return what foreign processes see of a folder of the search path: what can be imported.

    All of an installation. A folder where somebody works holds secrets and stores, too.
    """
    if not os.path.isdir(folder) or os.path.basename(folder) in ("site-packages", "dist-packages"):
        return [folder]
    if folder == APART or any(Path(folder).is_relative_to(one) for one in _INSTALLED):
        return [folder]
    with os.scandir(folder) as entries:
        return [one.path for one in entries if _CODE.search(one.name) or _is_package(one.path)]


_CODE = re.compile(r"\.(py|so|dist-info|egg-info)$")


def _is_package(path: str) -> bool:
    return os.path.exists(os.path.join(path, "__init__.py"))


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
    lists : names of parameters that are lists.
    added : as `added_defaults` returns them.
    modules : what it has loaded.
    params : all of the object, validated; None where it could not be built, with what follows.
    foreign_code : its digest.
    """

    parameters: dict[str, list[Any]]
    lists: list[str]
    added: dict[str, Any]
    modules: list[str]
    params: dict[str, Any] | None = None
    access: Access = Access.SAMPLES
    optional_access: Access = Access.SAMPLES
    row_weights: bool = False
    action_masks: bool = False
    foreign_code: str = ""

    @cached_property
    def signature(self) -> inspect.Signature:
        """Of the constructor; ValueError where no class has such parameters."""
        canonical_json(self.parameters)
        parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        for name, default in self.parameters.items():
            given = default[0] if default else inspect.Parameter.empty
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(name, kind, default=given))
        return inspect.Signature(parameters)


_OF_OBJECTS = ("access", "optional_access", "row_weights", "action_masks", "foreign_code")


@cache
def _validator() -> Callable[[Any], Facts]:
    from pydantic import TypeAdapter

    return TypeAdapter(Facts).validate_python


class Process(Peer):
    """A foreign process: its questions are answered, its first answer counts."""

    def __init__(self, connection: socket.socket, life: socket.socket) -> None:
        super().__init__(connection.detach())
        self._life, self._ending = life, b""

    def ask(self, place: int, method: str, *arguments: Any) -> Any:
        """Call a method of an object there.

        Raises
        ------
        WorkerDied : the process ended, or sent what is no message.
        """
        try:
            return super().ask(place, method, *arguments)
        except (EOFError, OSError, WireError) as exc:
            self.end()
            ending = self._ending.partition(b"\n")[0].decode(errors="replace")
            how = f"sent {exc}" if isinstance(exc, WireError) else ending
            msg = f"its process {how or 'was killed'}"
            raise WorkerDied(msg) from None

    def end(self) -> None:
        """End the process with all that it started, and wait for that."""
        if self._life.fileno() >= 0:
            with self._life, contextlib.suppress(OSError):
                self._life.shutdown(socket.SHUT_WR)
                while part := self._life.recv(4_096):
                    self._ending += part
            self._reader.close()
            self._socket.close()


class Foreign(Estimator):
    """An estimator whose code runs elsewhere."""

    _plugin: ClassVar[Plugin]
    _processes: ClassVar[Processes]
    _params: dict[str, Any]
    _process: Process
    # No properties: objects hold what they were told.
    access = optional_access = Access.SAMPLES
    row_weights = action_masks = False

    @classmethod
    def foreign_params(cls, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return validated parameters as the class itself would."""
        return dict(cls._processes.facts(cls._plugin, params).params or {})

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters that were given: the class knows the others."""
        return dict(self._params)

    @contextlib.contextmanager
    def running(self, seed: int) -> Iterator[None]:
        """Run a process in which the estimator is built; it ends with the block.

        Parameters
        ----------
        seed : of the global random states.
        """
        with self._processes.started(*_folders(self._plugin)) as self._process:
            self._process.ask(0, "build", asdict(self._plugin), self._params, seed)
            yield

    def fit(self, view: View, *, rng: Any, device: str) -> Foreign:
        """Send the view, and fit there."""
        left_out = ("_fit_cache", "_shared", "_charged", "access")
        state = {name: value for name, value in vars(view).items() if name not in left_out}
        self._process.ask(0, "fit", state, view.access.value, rng, device)
        return self

    def estimate(self, view: View) -> Estimate:
        """Estimate there; the answer is checked as any other."""
        estimate, violations, output = self._process.ask(0, "estimate")
        # What was not declared was not sent; this is for authors.
        view.violations += [one for one in violations if one in View.__annotations__]
        sys.stdout.write(str(output))
        return cast("Estimate", estimate)


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
