"""The Environment base class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ope_bench.contracts.data import Problem, Truth
from ope_bench.contracts.estimate import Diagnostic, Estimate
from ope_bench.contracts.parameters.declaration import Parametrized
from ope_bench.errors import UnavailableError

__all__ = ["Environment"]


class Environment(Parametrized, ABC):
    """A source of off-policy evaluation problems with a known true value.

    Parameters are declared as in an `Estimator`, ``n_samples`` among them. ``version`` counts
    changes that alter numbers: results of different versions are never compared. ``requires``
    lists modules, as in an `Estimator`. ``origin_note`` is shown with every number, for example
    that the data are a surrogate.
    """

    version: ClassVar[int] = 1

    @property
    def requires(self) -> tuple[str, ...]:
        """Modules that are imported before sampling."""
        return ()

    @property
    def data_files(self) -> tuple[str, ...]:
        """Files and folders that the numbers depend on; after an edit, stored trials run again."""
        return ()

    @property
    def origin_note(self) -> str:
        """A note shown with every number; empty for none."""
        return ""

    def examine(self, problem: Problem, estimate: Estimate) -> Mapping[str, Diagnostic]:
        """Return facts of an estimate that this environment adds to the trial's diagnostics."""
        return {}

    def from_problem(self, problem: Problem) -> Environment:
        """Return an environment with these parameters whose worlds are made from a problem.

        Raises
        ------
        UnavailableError : this environment makes none.
        """
        msg = f"{type(self).__name__} makes no worlds from other data"
        raise UnavailableError(msg)

    @abstractmethod
    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample one problem and its true value.

        Parameters
        ----------
        world_rng : draws what defines the problem: reward coefficients, embeddings, policies'
            parameters. The same stream gives the same definition, whatever is sampled from it.
        logged_rng : draws the logs, before the target sample and independently of it.
        target_rng : draws the target sample and whatever the true value needs.

        Raises
        ------
        UnavailableError : data that the environment needs are missing.
        """
