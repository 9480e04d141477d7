"""A user's log of decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from ope_bench.contracts.data import Problem
from ope_bench.logs.checks import LogCheck, check_log
from ope_bench.logs.loading import load_log
from ope_bench.logs.log_data import Items, LogData, LogSpec, is_stored, open_log
from ope_bench.logs.log_file import DEFAULT_TARGET, read_log_file
from ope_bench.logs.problem import problem_of
from ope_bench.logs.target_policy import TargetPolicy


class Log(LogData):
    """Logged decisions, and the policies to evaluate on them.

    Build one by `read` or `from_frame`; `check` says what is wrong with it, and
    `ope_bench.estimate` evaluates its policies.
    """

    @classmethod
    def read(cls, path: str | Path, *, timeout: float | None = None) -> Self:
        """Read a log file and the tables that it names.

        Parameters
        ----------
        path : a YAML file, see bench/docs/own-logs.md; or the folder of a stored log.
        timeout : seconds that a policy of a Python file may take; ten minutes by default.

        Raises
        ------
        UsageError : a mistake in the file or the data; the message has file, place and cure.
        """
        if is_stored(path):
            return cls(**vars(open_log(str(path))))
        return cls.of(read_log_file(Path(path)), timeout=timeout)

    @staticmethod
    def files(path: str | Path) -> tuple[str, ...]:
        """Return the files on which a log depends: the log file and the tables that it names.

        Raises
        ------
        UsageError : a mistake in the file.
        """
        if is_stored(path):
            return (str(path),)
        return (str(path), *read_log_file(Path(path)).files())

    @classmethod
    def of(cls, spec: LogSpec, *, timeout: float | None = None) -> Self:
        """Load the tables that a description names."""
        return cls(**vars(load_log(spec, timeout)))

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        context: Sequence[str],
        action: str,
        reward: str,
        target: TargetPolicy | Mapping[str, TargetPolicy],
        propensity: str | None = None,
        categorical: Sequence[str] | None = None,
        items: Any = None,
        item_key: str | None = None,
        embedding: Sequence[str] = (),
        unit: str | None = None,
        time: str | None = None,
        reward_range: tuple[float, float] | None = None,
        logging: TargetPolicy | None = None,
    ) -> Self:
        """Take a log from a data frame, or from a mapping of column names to arrays.

        Parameters
        ----------
        frame : one row is one decision.
        context, action, reward, propensity, unit, time : names of columns.
        target : the policy to evaluate, or several by name.
        categorical : columns of context and items that hold words or codes; columns of words by
            default.
        items : a frame that describes the actions.
        item_key : its column of the action; by default that of the log.
        embedding : its columns that describe the action; all others by default.
        reward_range : smallest and largest reward.
        logging : the logging policy's whole distribution.
        """
        spec = LogSpec(
            table=frame,
            context=tuple(context),
            action=action,
            reward=reward,
            categorical=None if categorical is None else tuple(categorical),
            reward_range=reward_range,
            propensity=propensity,
            items=None if items is None else Items(items, item_key or action, tuple(embedding)),
            time=time,
            unit=unit,
            logging=logging,
            targets={DEFAULT_TARGET: target} if isinstance(target, TargetPolicy) else target,
        )
        return cls.of(spec)

    def problem(self, policy: str | None, rng: np.random.Generator) -> Problem:
        """Return the problem of evaluating a policy.

        Parameters
        ----------
        policy : its name; None for the only one.
        rng : draws the target sample where the policy's probabilities are known.

        Raises
        ------
        UsageError : there is no such policy, or there are several.
        """
        return problem_of(self, self.policy_name(policy), rng)

    def check(self) -> LogCheck:
        """Check contents, support, propensities, drift and leaks of the log."""
        return check_log(self)
