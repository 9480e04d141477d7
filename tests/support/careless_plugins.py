"""A plugin file: an estimator that changes the data of all trials, an environment hard to seal."""

import builtins
import ctypes
import importlib
import json
import random
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_bench import (
    Access,
    DiscretePolicy,
    Environment,
    Estimate,
    Estimator,
    Problem,
    Truth,
    View,
    params,
)


def _torch_scale(view: View) -> None:
    x = importlib.import_module("torch").as_tensor(view.context)
    x -= x.mean(0)


def _torch_subtract(view: View) -> None:
    importlib.import_module("torch").from_numpy(view.reward).sub_(1.0)


def _table(view: View) -> None:
    table = view.embedding_distribution.table  # type: ignore[attr-defined]
    table += 1e-3


def _flags_back(view: View) -> None:
    view.reward.flags.writeable = True
    view.reward[:] -= view.reward.mean()
    view.reward.flags.writeable = False


def _base(view: View) -> np.ndarray[Any, Any]:
    base = view.reward
    while isinstance(base.base, np.ndarray):
        base = base.base
    return base


def _sort_through_the_base(view: View) -> None:
    base = _base(view)
    base.flags.writeable = True
    base.sort()


def _sort_past_numpy(view: View) -> None:
    copy = np.sort(view.reward)
    ctypes.memmove(view.reward.ctypes.data, copy.ctypes.data, copy.nbytes)


def _thread(view: View) -> None:
    def work() -> None:
        ctypes.memset(view.propensity.ctypes.data, 0, 8)

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()


def _units(view: View) -> None:
    view.unit.flags.writeable = True
    view.unit[:] = 0


def _inside_a_policy(view: View) -> None:
    for cell in view.target_policy._score.__closure__ or ():  # type: ignore[attr-defined]
        if isinstance(cell.cell_contents, np.ndarray):
            cell.cell_contents[:] *= 1.5
    for value in vars(view.target_policy._score).values():  # type: ignore[attr-defined]
        if isinstance(value, np.ndarray):
            value *= 1.5


def _attribute(view: View) -> None:
    view.target_policy.n_actions = 3  # type: ignore[attr-defined]


def _attribute_deleted(view: View) -> None:
    del view.logging_policy.beta  # type: ignore[attr-defined]


def _another_method(view: View) -> None:
    policy: Any = view.target_policy
    before = policy.probability
    policy.probability = lambda context, action: np.clip(before(context, action), 0.05, 1.0)


def _another_class(view: View) -> None:
    policy: Any = view.target_policy
    policy.__class__ = type("Halved", (type(policy),), {"probability": _half})


def _shape(view: View) -> None:
    view.reward.shape = (-1, 1)


def _dtype(view: View) -> None:
    reward: Any = view.reward
    reward.dtype = np.int64


def _private_arrays(view: View) -> None:
    policy: Any = view.target_policy
    for name, value in vars(policy).items():
        if isinstance(value, np.ndarray):
            setattr(policy, name, value[::-1].copy())


@dataclass(frozen=True)
class Mean:
    """A shared fit: the mean reward."""

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> types.SimpleNamespace:
        return types.SimpleNamespace(value=float(view.reward.mean()))


def _fit(view: View) -> None:
    view.fitted(Mean()).value = 7.0


def _print_put_back(view: View) -> None:
    before = builtins.print
    builtins.print = lambda *_, **__: None
    builtins.print = before


def _half(*_: Any, **__: Any) -> float:
    return 0.5


# What they patch, as a record's note has it.
PATCHES: dict[str, tuple[Callable[[View], Any], str]] = {
    "mean": (lambda view: setattr(np, "mean", _half), "numpy.mean"),
    "norm": (lambda view: setattr(np.linalg, "norm", _half), "numpy.linalg.norm"),
    "deleted": (lambda view: delattr(np, "sum"), "numpy.sum"),
    "new": (lambda view: setattr(np, "halved", _half), "numpy.halved"),
    "later": (
        lambda view: setattr(importlib.import_module("numpy.polynomial.hermite"), "hermval", 1),
        "numpy.polynomial.hermite.hermval",
    ),
    "print-put-back": (_print_put_back, "builtins.print"),
    "random": (lambda view: setattr(random, "random", _half), "random.random"),
    "json": (lambda view: setattr(json, "dumps", _half), "json.dumps"),
    "encoder": (lambda view: setattr(json.JSONEncoder, "default", _half), "JSONEncoder.default"),
    "shuffle": (lambda view: setattr(random.Random, "shuffle", _half), "Random.shuffle"),
    "masked-mean": (lambda view: setattr(np.ma.MaskedArray, "mean", _half), "MaskedArray.mean"),
    "view": (lambda view: setattr(View, "reward", 3.0), "View.reward"),
    "policy": (lambda view: setattr(DiscretePolicy, "expect", _half), "DiscretePolicy.expect"),
    "class-of-the-data": (
        lambda view: setattr(type(view.target_policy), "probability", _half),
        "LinearGreedy.probability",
    ),
    "estimator": (lambda view: delattr(Estimator, "fit"), "Estimator.fit"),
}

WAYS: dict[str, Callable[[View], Any]] = {
    "torch-scale": _torch_scale,
    "torch-subtract": _torch_subtract,
    "table": _table,
    "flags-back": _flags_back,
    "sort-through-the-base": _sort_through_the_base,
    "sort-past-numpy": _sort_past_numpy,
    "thread": _thread,
    "units": _units,
    "inside-a-policy": _inside_a_policy,
    "attribute": _attribute,
    "attribute-deleted": _attribute_deleted,
    "another-method": _another_method,
    "another-class": _another_class,
    "shape": _shape,
    "dtype": _dtype,
    "private-arrays": _private_arrays,
    "fit": _fit,
}


@params
class Careless(Estimator):
    """Changes the data of all trials, and answers with the mean reward."""

    way: str = "flags-back"

    access = Access.LOGGING_POLICY | Access.TARGET_POLICY | Access.EMBEDDING_DISTRIBUTION
    optional_access = access

    def estimate(self, view: View) -> Estimate:
        WAYS[self.way](view)
        return Estimate(float(view.reward.mean()))


class SharedMean(Estimator):
    """Answers with the shared fit of the mean."""

    def estimate(self, view: View) -> Estimate:
        return Estimate(view.fitted(Mean()).value)


class Odd(DiscretePolicy):
    """A policy of arrays that have no buffer of their own."""

    def __init__(self, how: str) -> None:
        super().__init__(3)
        rows = np.arange(24.0).reshape(4, 6) % 5 + 1
        self.strided = rows[::2, ::2]
        self.spread = np.broadcast_to(np.array([1.0, 2.0, 3.0]), (4, 3))
        self.turned = np.asfortranarray(rows[:2, :3])
        self.words = np.array(["a", None, "c"], dtype=object) if how == "objects" else None
        self.masked = np.ma.masked_equal([1.0, 2.0, 1.0], 2.0) if how == "masked" else None
        self.lock = threading.Lock() if how == "lock" else None
        self.tensor = importlib.import_module("torch").ones(3) if how == "tensor" else None
        self.calls = 0

    def table(self, context: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        self.calls += 1
        weights = self.strided[0] * self.spread[0] + self.turned.sum(axis=0)
        weights = weights + (0 if self.tensor is None else float(self.tensor[0]))
        return np.tile(weights / weights.sum(), (len(context), 1))


@params
class OddWorld(Environment):
    """Three actions; its policy is `Odd`."""

    how: str = ""

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        policy, n = Odd(self.how), 60
        context = logged_rng.normal(size=(n, 2))
        action = policy.sample(context, logged_rng)
        problem = Problem(
            context=context,
            action=action,
            embedding=action[:, None].astype(float),
            reward=logged_rng.normal(size=n) + action,
            target_context=context,
            target_action=policy.sample(context, target_rng),
            target_embedding=context[:, :1],
            n_actions=3,
            propensity=policy.probability(context, action),
            logging_policy=policy,
            target_policy=policy,
        )
        return problem, Truth(0.5, 0.0, 0.5)


def _odd(name: str) -> Callable[[View], None]:
    def change(view: View) -> None:
        value = getattr(view.target_policy, name)
        if value is None:
            return
        if name == "tensor":
            value.mul_(2.0)
            return
        while isinstance(value.base, np.ndarray):
            value = value.base
        value.flags.writeable = True
        value[...] = value[::-1].copy()

    return change


WAYS |= {name: patch for name, (patch, _) in PATCHES.items()}
WAYS |= {name: _odd(name) for name in ("strided", "spread", "turned", "words", "masked", "tensor")}
