"""The Environment base class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from ope_bench.data import Problem, Truth
from ope_bench.parameters import Parametrized

__all__ = ["Environment"]


class Environment(Parametrized, ABC):
    """A source of off-policy evaluation problems whose truth is known.

    Parameters are the annotated arguments of ``__init__``, ``n_samples`` among them, stored under
    their own names. ``version`` counts changes that alter numbers: results of different versions
    are never compared. ``requires`` lists modules as an estimator's does. ``origin_note`` is shown
    with every number, for example that the data are a surrogate.
    """

    version: ClassVar[int] = 1

    @property
    def requires(self) -> tuple[str, ...]:
        """Modules imported before anything is sampled."""
        return ()

    @property
    def data_files(self) -> tuple[str, ...]:
        """Files and folders that the numbers depend on; an edit re-runs their trials."""
        return ()

    @property
    def origin_note(self) -> str:
        """Shown with every number, empty for nothing to say."""
        return ""

    @abstractmethod
    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """One problem and its truth.

        Parameters
        ----------
        world_rng : draws the world: reward coefficients, embeddings, policies' parameters. The
            same stream gives the same world, whatever is sampled in it.
        logged_rng : draws the logs, before and independently of the target.
        target_rng : draws the target sample and anything the truth needs.

        Raises
        ------
        UnavailableError : data that the environment needs is not there.
        """
