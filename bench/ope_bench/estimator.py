"""The Estimator base class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from ope_bench.data import Estimate
from ope_bench.parameters import Parametrized
from ope_bench.view import Access, BatchedNuisance, View

__all__ = ["Estimator"]


class Estimator(Parametrized, ABC):
    """Estimates a target policy's value from logs of another policy.

    Parameters are the annotated arguments of ``__init__`` and are stored under their own names,
    with no logic there; fitted attributes end in ``_``. Class attributes (or properties, where
    they depend on parameters):

    ``access``
        what the estimator needs beyond samples; the view withholds the rest.
    ``devices``
        where it can train; only those that list ``cuda`` are crossed with it.
    ``batched``
        shared fits, among those that ``fit`` asks the view for, that can be made for many
        replicates at once; an estimator with any is also crossed with the batched kinds of its
        devices, on which it finds them made.
    ``requires``
        modules that the harness imports before the clock starts, so that import time is not
        fit time; a missing one makes the trial ``unavailable`` with the ``pip install`` line.
    """

    @property
    def access(self) -> Access:
        """What it needs beyond samples; most subclasses assign a class attribute."""
        return Access.SAMPLES

    @property
    def devices(self) -> tuple[str, ...]:
        """Where it can train."""
        return ("cpu",)

    @property
    def batched(self) -> tuple[BatchedNuisance[Any], ...]:
        """Shared fits that can be made for many replicates at once, in the order of their need."""
        return ()

    @property
    def requires(self) -> tuple[str, ...]:
        """Modules imported before the clock starts."""
        return ()

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Train on the view; estimators with nothing to train keep this one.

        Parameters
        ----------
        view : the samples and what ``access`` opens.
        rng : the only source of randomness.
        device : ``cpu`` or ``cuda``.
        """
        return self

    @abstractmethod
    def estimate(self, view: View) -> Estimate:
        """The estimate, from the view that was fitted on.

        Raises
        ------
        PositivityViolation : no finite estimate exists.
        """
