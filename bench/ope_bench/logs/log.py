"""A user's log of decisions."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ope_bench.base.errors import UsageError, short_errors
from ope_bench.base.files import atomic_write
from ope_bench.contracts.data import Problem
from ope_bench.logs.checks import LogCheck, check_log
from ope_bench.logs.feedback import feedback_of
from ope_bench.logs.loading import load_log
from ope_bench.logs.log_data import Items, LogData, LogSpec, is_stored, open_log
from ope_bench.logs.log_file import DEFAULT_TARGET, read_log_file
from ope_bench.logs.problem import problem_of
from ope_bench.logs.result import Estimates
from ope_bench.logs.rewards import ByReward, each_reward
from ope_bench.logs.targets import named_actions, read_policies, read_policy
from ope_bench.reader import TextForm
from ope_bench.report import needs_extra

if TYPE_CHECKING:
    from ope_bench.logs.advise import Advice, PoliciesAdvice


class Log(LogData):
    """Logged decisions, and the policies to evaluate on them.

    Build one by `read` or `from_frame`; `check` says what is wrong with it, and
    `ope_bench.estimate` evaluates its policies.
    """

    @classmethod
    @short_errors
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
    @short_errors
    def from_frame(
        cls,
        frame: Any,
        *,
        context: Sequence[str] = (),
        action: str | None = None,
        reward: str | Sequence[str] | None = None,
        target: Any,
        propensity: str | None = None,
        categorical: Sequence[str] | None = None,
        items: Any = None,
        item_key: str | None = None,
        embedding: Sequence[str] = (),
        unit: str | None = None,
        weight: str | None = None,
        predicted_reward: Any = None,
        time: str | None = None,
        reward_range: tuple[float, float] | None = None,
        logging: Any = None,
        actions: Sequence[Any] | None = None,
        drop_missing: bool = False,
        decisions: int | None = None,
        largest_unit: int | None = None,
        missing: Sequence[str] = (),
        encoding: str | None = None,
        delimiter: str | None = None,
        decimal: str = ".",
        time_format: str | None = None,
        smallest_propensity: float | None = None,
    ) -> Self:
        """Take a log from a data frame, or from a mapping of column names to arrays.

        Parameters
        ----------
        frame : one row is one decision: of pandas, Polars, pyarrow or DuckDB, or a mapping; or the
            ``bandit_feedback`` of Open Bandit Pipeline, which needs ``target`` alone, such as its
            ``action_dist``.
        context, action, reward, unit, time : names of columns; of a list of rewards each has a
            result of its own; in ``context`` also patterns such
            as ``emb_*``, and columns of lists of numbers. Without a context there is one, a
            constant.
        propensity : name of a column; ``estimated`` where the old policy is not known, and
            estimators shall estimate it.
        weight : name of the column that says for how many rows each row stands.
        predicted_reward : predictions made elsewhere, which ``regressor=given`` uses: an array
            (n, n_actions), or ``{"logged": COLUMN, "table": FRAME}`` as in a log file.
        target : the policy to evaluate: a column's name (its probability of the logged action), a
            mapping of one of ``action``, ``probability``, ``table``, ``policy`` as in a log file,
            an array (n, n_actions), a frame with a column for each action, a function of
            contexts that returns such an array, an object with ``probability``, or a classifier
            of scikit-learn; or a mapping of names to several. See `TargetPolicy`.
        categorical : columns of context and items that hold words or codes; columns of words by
            default.
        items : a frame that describes the actions.
        item_key : its column of the action; by default that of the log.
        embedding : its columns that describe the action; all others by default.
        reward_range : smallest and largest reward.
        logging : the logging policy's whole distribution, given like a target.
        actions : the actions to which columns of arrays belong; by default those of the log in the
            order of their numbers, while an array without it is refused where they are words.
        drop_missing : whether rows without action, reward or propensity are left out, and counted.
        decisions : number of decisions that were taken; fewer rows show that some are missing.
        largest_unit : the most rows that a unit can have, which intervals by bets need.
        missing : words for a missing value, beside an empty one.
        encoding, delimiter, decimal : of text files; found by default, and a point.
        time_format : of times, in the notation of `datetime.strptime`; found by default.
        smallest_propensity : least probability that the logging policy gives to any action: a
            floor that it keeps. Intervals of few rewards are narrower with it.

        Raises
        ------
        UsageError : a mistake in the data or its description; the message has place and cure.

        Examples
        --------
        >>> from ope_bench import estimate
        >>> frame = {"x": [0, 1, 0, 1], "a": list("uvuv"), "r": [1, 0, 1, 1], "p": [0.5] * 4}
        >>> new = np.array([[0.9, 0.1], [0.2, 0.8]] * 2)  # of u and v, in each row
        >>> log = Log.from_frame(
        ...     frame,
        ...     context=["x"],
        ...     action="a",
        ...     reward="r",
        ...     propensity="p",
        ...     target=new,
        ...     actions=["u", "v"],
        ... )
        >>> round(estimate(log, ["ipw"]).targets[0].rows[0].value, 3)
        1.3
        """
        given = {name: value for name, value in locals().items() if name != "cls"}
        if action is None or reward is None:
            return cls.from_frame(**feedback_of(**given))
        for name in ("context", "categorical", "embedding", "missing", "actions", "reward"):
            value = given[name]
            if isinstance(value, AbstractSet) and name not in ("categorical", "missing"):
                msg = f"{name}: a set has no order, {reprlib.repr(value)}; give a list"
                raise UsageError(msg)
            if name == "reward":
                continue
            if isinstance(value, str) or not (value is None or isinstance(value, Iterable)):
                msg = f'{name}: "{value}" is no list; give a list of columns or words, ["{value}"]'
                raise UsageError(msg)
        first, *others = [reward] if isinstance(reward, str | int) else list(reward) or [""]
        if not all(isinstance(one, str | int) for one in (first, *others)):
            msg = f"reward: {reprlib.repr(reward)} is no str; name a column, or a list of columns"
            raise UsageError(msg)
        spec = LogSpec(
            table=frame,
            context=tuple(map(_column, () if context is None else context)),
            action=_column(action),
            reward=_column(first),
            other_rewards=tuple(map(_column, others)),
            categorical=None if categorical is None else tuple(categorical),
            reward_range=reward_range,
            smallest_propensity=smallest_propensity,
            propensity=_column(propensity),
            items=None if items is None else Items(items, item_key or action, tuple(embedding)),
            time=_column(time),
            unit=_column(unit),
            weight=_column(weight),
            predicted_reward={"table": predicted_reward}
            if hasattr(predicted_reward, "columns")
            else predicted_reward,
            logging=None if logging is None else read_policy(logging, "logging"),
            targets=read_policies(target, DEFAULT_TARGET),
            actions=None if actions is None else named_actions(actions),
            drop_missing=drop_missing,
            decisions=decisions,
            largest_unit=largest_unit,
            form=TextForm(tuple(missing), encoding, delimiter, decimal, time_format),
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
        self.refuse_several_rewards()
        return problem_of(self, self.policy_name(policy), rng)

    def report(
        self, result: Estimates | Advice | PoliciesAdvice | ByReward, path: str | Path
    ) -> None:
        """Write a page about the log and its estimates or advice; it needs no network.

        Raises
        ------
        UsageError : the extra ``report`` is not installed, or the file cannot be written.
        """
        needs_extra()
        from ope_bench.logs.page import log_page

        with atomic_write(Path(path), UsageError) as partial:
            partial.write_text(log_page(self, result), encoding="utf-8")

    def check(self) -> LogCheck | ByReward:
        """Check contents, support, propensities, drift and leaks of the log."""
        found: LogCheck | ByReward = each_reward(check_log)(self)
        return found


def _column(name: Any) -> Any:
    """Return the name of a column; those of an array without names are called 0, 1, ..."""
    return str(name) if isinstance(name, int | np.integer | str) and name is not True else name
