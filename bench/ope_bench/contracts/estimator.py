"""The Estimator base class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from ope_bench.contracts.access import Access
from ope_bench.contracts.estimate import Estimate
from ope_bench.contracts.parameters.declaration import Parametrized
from ope_bench.contracts.view import BatchedNuisance, View

__all__ = ["Estimator"]


class Estimator(Parametrized, ABC):
    """Base class of estimators of a target policy's value from logs of another policy.

    Parameters are the annotated class attributes of a class decorated by `params`, or the
    annotated arguments of its own ``__init__``, which stores them under their own names and does
    nothing else; fitted attributes end in ``_``. Class attributes without annotation (or
    properties, where they depend on parameters):

    ``access``
        the data that the estimator needs beyond samples; the view withholds all other.
    ``optional_access``
        the part of ``access`` that it can do without: where the environment lacks it, the view
        raises UnavailableError when it is read, instead of the trial being ``unavailable``.
    ``nested``
        estimators that it runs; a change of their code makes stored trials out of date, as a
        change of its own does. See `NestedEstimator`.
    ``devices``
        devices on which it can train; only estimators that list ``cuda`` are run on it.
    ``batched``
        shared fits, among those that ``fit`` requests from the view, that can be trained for many
        replicates at once; an estimator with any is also run on the batched forms of its
        devices, where these fits are trained before ``fit`` is called.
    ``requires``
        modules that the harness imports before it starts timing, so that imports are not part of
        the fit time; if one is missing, the trial is ``unavailable`` with the ``pip install``
        line.
    ``added_parameters``
        parameters that were added to the class later, each with the value that leaves results
        unchanged; keys omit a parameter with that value, so that stored trials stay valid.
    """

    @property
    def access(self) -> Access:
        """Data needed beyond samples; most subclasses assign a class attribute."""
        return Access.SAMPLES

    @property
    def optional_access(self) -> Access:
        """The part of ``access`` without which it can run."""
        return Access.SAMPLES

    @property
    def nested(self) -> tuple[Estimator, ...]:
        """Estimators that it runs."""
        return ()

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices on which it can train."""
        return ("cpu",)

    @property
    def batched(self) -> tuple[BatchedNuisance[Any], ...]:
        """Shared fits that can be trained for many replicates at once, in the order of use."""
        return ()

    @property
    def requires(self) -> tuple[str, ...]:
        """Modules that are imported before timing starts."""
        return ()

    def fit(self, view: View, *, rng: np.random.Generator, device: str) -> Self:
        """Train on the view; estimators that train nothing inherit this method.

        Parameters
        ----------
        view : the samples and the data that ``access`` grants.
        rng : the only source of randomness.
        device : ``cpu`` or ``cuda``.
        """
        return self

    @abstractmethod
    def estimate(self, view: View) -> Estimate:
        """Return the estimate for the view that ``fit`` was called with.

        Raises
        ------
        PositivityViolation : no finite estimate exists.
        """
