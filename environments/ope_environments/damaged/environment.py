"""`damaged`: another environment's logs, with what is wrong with real ones."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from ope_bench import (
    Diagnostic,
    Environment,
    EnvironmentSpec,
    Estimate,
    Problem,
    Truth,
    wrapped_environment,
)
from ope_environments.damaged import logged_rows
from ope_environments.damaged.faults import DAMAGES, drawn_faults
from ope_environments.damaged.logged_propensities import Propensities, without_policy

__all__ = ["Damaged"]

_REMOVED = "damage_removed"
"""Attribute of a problem: the target's mass, of what the logger played, that `support` removed.

It is no field of problems. Copies by pickle, as sealed data are, keep it.
"""


class Damaged(Environment):
    """Logs of another environment, with one or several of the faults that real logs have.

    The truth is that of the undamaged world. Without faults the data are those of the other
    environment, bit for bit; streams of seeds are always its own, so that damaged and clean trials
    share worlds, and with most faults their rows too.

    =============  ==========================================================================
    fault          the log
    =============  ==========================================================================
    propensity     says a wrong one: see below. The logging policy is then unknown
    support        never holds actions that have this share of the target policy's mass: some
                   everywhere, one in a part of the contexts
    exploration    is that of a rule, the likeliest action, but for this share of the decisions
    drift          has rewards that grow with time, at the end by this share of their deviation
    users          has users with so many rows each, whose rewards are alike
    duplicates     holds this share of its rows twice
    jitter         holds this share of its rows twice, in copies that differ in one number
    retention      keeps rows with the smallest reward with this probability (1 of 100 non-clicks)
    confounding    hides a cause of action and reward; the odds of an action given the cause differ
                   from the logged ones by at most this factor
    delay          has the reward 0 in this share of its last rows, which have not got theirs yet
    late           has the reward 0 where it takes longer than the log: times are exponential, with
                   this share of the log as their mean
    =============  ==========================================================================

    ============  ===================================================  =============
    propensity    written to the log, at most 1                        strength
    ============  ===================================================  =============
    items         wrong by a factor of 2 to 5 for some actions         .2 of them
    rounded       rounded, at least one step                           2 decimals
    clipped       raised to a floor                                    .05
    stale         of another policy: log-probabilities with normal     .5, the
                  errors for each action                               deviation
    temperature   proportional to p to the power 1/strength            2
    constant      1 / n_actions                                        none
    monte-carlo   share of draws that hit the action, at least one     1,024 draws
    draws-until   r / T, T the draws until the r-th hit: E[T/r] = 1/p  10 hits
    missing       nothing                                              none
    ============  ===================================================  =============

    Truth
    -----
    That of the wrapped environment. What a fault does to the distribution of rows is exact: rows
    are drawn from as many logs of the world as are needed and accepted by chance, with contexts as
    before (``support``, ``exploration``, ``confounding``). The mass that ``support`` removed, over
    the log's contexts, is stored with trials as ``damage_removed``; gaps that the logger had
    before do not count.

    Access: that of the wrapped environment; a wrong propensity, and ``known=propensity``, withhold
    the logging policy.

    Traps: ``support``, ``exploration``, ``confounding``, ``stale`` and ``temperature`` need the
    whole logging policy; for a `population` that means ``known=policy`` there, and of a logger
    that learns it is the average over phases. ``known`` then says what the log shows. ``support``
    leaves the logger 5 % of its decisions in every context, so that a rule keeps its action and
    loses others; where its share cannot be had, the data set is refused. It is exact over the
    contexts of the first log, not over those of each log: ``damage_removed`` tells it of few
    users, or of loggers that learn with ``exploration``, whose rule differs from log to log. The
    order of faults is confounding, exploration, support, retention, users, drift, delay, late,
    duplicates, jitter, propensity; rows are in the order of time.

    Parameters
    ----------
    environment : whose logs are damaged.
    n_samples : number of logged rows; None for that of the environment.
    propensity, strength : kind of error and how strong it is; None for the table's.
    support, exploration, drift, users, duplicates, jitter, retention, confounding, delay, late :
        faults, off by default.
    named : the log says of which user each row is.
    weighted : the log says for how many rows each of its rows stands, `Problem.row_weight`.
    known : what the log shows of the logging policy; None for what the other environment shows.
    drawn : faults and ``known`` are drawn from priors, from the name of the other environment, and
        those given here are not read: one to three faults. Propensities are wrong in 25 % of the
        draws; users have several rows in 20 %; support is missing, rewards drift or a cause is
        hidden in 15 % each; duplicates, retention and delay have 12 % each.
    priors : version of these priors. Version 2 has exploration, near copies and late rewards too,
        each in 10 %. In version 1, ``support`` removes whole actions until its share is passed,
        often far more, and of users the rows with the largest rewards are left out where they fill
        no user: so were the trials made that refer to it.

    References
    ----------
    Kallus and Zhou (2018), "Confounding-Robust Policy Improvement": the odds of a hidden cause.

    >>> problem, truth = Damaged("saito-toy[n_samples=50]", propensity="rounded").sample(
    ...     world_rng=np.random.default_rng(0), logged_rng=np.random.default_rng(1),
    ...     target_rng=np.random.default_rng(2))
    >>> bool((abs(100 * problem.propensity - (100 * problem.propensity).round()) < 1e-9).all())
    True
    """

    check_params = {"environment": "saito-toy", "n_samples": 200, "propensity": "items"}  # noqa: RUF012
    added_parameters = {  # noqa: RUF012
        "drawn": False,
        "priors": 1,
        "exploration": 1.0,
        "jitter": 0.0,
        "late": 0.0,
    }

    environment: EnvironmentSpec = "saito-mips"
    n_samples: Annotated[int, Ge(1)] | None = None
    propensity: Propensities | None = None
    strength: Annotated[float, Gt(0)] | None = None
    support: Annotated[float, Ge(0), Lt(1)] = 0.0
    drift: Annotated[float, Ge(0)] = 0.0
    users: Annotated[int, Ge(1)] = 1
    named: bool = False
    duplicates: Annotated[float, Ge(0), Le(1)] = 0.0
    retention: Annotated[float, Gt(0), Le(1)] = 1.0
    weighted: bool = False
    confounding: Annotated[float, Ge(1)] = 1.0
    delay: Annotated[float, Ge(0), Lt(1)] = 0.0
    known: Literal["propensity"] | None = None
    drawn: bool = False
    priors: Literal[1, 2] = 1
    exploration: Annotated[float, Ge(0), Le(1)] = 1.0
    jitter: Annotated[float, Ge(0), Le(1)] = 0.0
    late: Annotated[float, Ge(0)] = 0.0

    _by_first_priors = False

    @cached_property
    def _wrapped(self) -> Environment:
        wrapped = wrapped_environment(self.environment)
        if self.n_samples is not None:
            wrapped.set_params(n_samples=self.n_samples)
        wrapped.suite_salt = self.suite_salt
        return wrapped

    @property
    def wrapped(self) -> Environment:
        """The environment whose logs are damaged."""
        return self._wrapped

    @property
    def requires(self) -> tuple[str, ...]:
        """Modules of the wrapped environment."""
        return self._wrapped.requires

    @property
    def origin_note(self) -> str:
        """The note of the wrapped environment."""
        return self._wrapped.origin_note

    def examine(self, problem: Problem, estimate: Estimate) -> Mapping[str, Diagnostic]:
        """Return the facts of the wrapped environment and the faults that are on."""
        if self.drawn:
            return self._as_drawn.examine(problem, estimate)
        faults = {f"damage_{name}": getattr(self, name) for name in self._on}
        facts = {**self._wrapped.examine(problem, estimate), "damages": len(faults), **faults}
        if (removed := getattr(problem, _REMOVED, None)) is not None:
            facts[_REMOVED] = removed
        if "world_known" in facts and self.known is not None:
            facts["world_known"] = "propensity"
        if "world_known" in facts and self.propensity is not None:
            facts["world_known"] = "samples" if self.propensity == "missing" else "propensity"
        return facts

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample one problem and its truth."""
        if self.drawn:
            return self._as_drawn.sample(
                world_rng=world_rng, logged_rng=logged_rng, target_rng=target_rng
            )
        again = copy.deepcopy(world_rng)
        clean, truth = self._wrapped.sample(
            world_rng=world_rng, logged_rng=logged_rng, target_rng=target_rng
        )
        if not self._on and self.known is None:
            return clean, truth
        rng = logged_rng.spawn(1)[0]

        def logs() -> Iterator[Problem]:
            yield clean
            while True:
                yield self._wrapped.sample(
                    world_rng=copy.deepcopy(again),
                    logged_rng=logged_rng.spawn(1)[0],
                    target_rng=copy.deepcopy(target_rng),
                )[0]

        return self._damaged(clean, truth.expected, logs(), world_rng, rng), truth

    def _damaged(
        self,
        problem: Problem,
        value: float,
        logs: Iterator[Problem],
        world_rng: np.random.Generator,
        rng: np.random.Generator,
    ) -> Problem:
        on = sorted((DAMAGES[name] for name in self._on), key=lambda one: one.place)
        n, whole = len(problem.reward), self._by_first_priors
        given = {**self.get_params(deep=False), "rows": n, "value": value, "whole": whole}
        keeps = [one.keeps(given, world_rng) for one in on if one.keeps]
        users = self.users > 1
        if keeps or users:
            candidates = n * logged_rows.CANDIDATES if users else n
            if users and not whole:
                candidates = -(-candidates // self.users) * self.users
            problem = logged_rows.accepted(logs, candidates, keeps, rng)
        removed = None
        for written in (False, True):
            for one in on:
                if one.changes and one.written == written:
                    problem = one.changes(problem, given, world_rng, rng)
            for keep in keeps:
                if not written and isinstance(keep, logged_rows.Unsupported):
                    removed = keep.removed(problem)
        if self.known is not None:
            problem = without_policy(problem)
        if removed is not None:
            vars(problem)[_REMOVED] = removed
        return problem

    @cached_property
    def _as_drawn(self) -> Damaged:
        """This environment with its drawn faults given."""
        faults = drawn_faults(str(self.environment), self.suite_salt, self.priors)
        drawn = Damaged(self.environment, n_samples=self.n_samples, **faults)
        drawn.suite_salt = self.suite_salt
        drawn._by_first_priors = self.priors == 1
        return drawn

    @property
    def _on(self) -> tuple[str, ...]:
        """Names of the faults that are on."""
        return tuple(name for name in DAMAGES if getattr(self, name) != getattr(type(self), name))
