"""`population`: worlds drawn from priors, one for each number."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt, Lt

from ope_bench import Diagnostic, Environment, Estimate, ParameterError, Problem, Truth
from ope_environments.drawn_worlds import first_priors, second_priors
from ope_environments.drawn_worlds.adaptive import AdaptiveKind
from ope_environments.drawn_worlds.policies import LoggingKind, TargetKind
from ope_environments.drawn_worlds.scores import Structure
from ope_environments.drawn_worlds.second_priors import Contexts, Effects, Phases, Users
from ope_environments.drawn_worlds.signal import SecondRewardKind
from ope_environments.drawn_worlds.world import DrawnWorld

__all__ = ["DrawnWorlds"]

Embedding = Literal["absent", "useful", "useless"]
Known = Literal["policy", "propensity", "samples"]
TargetForm = Literal["probabilities", "sample"]

_SHARES = {1: first_priors.SHARES, 2: second_priors.SHARES}

_DRAW = {1: first_priors.draw_world, 2: second_priors.draw_world}

_DIALS = (*second_priors.SHARES, "signal")


class DrawnWorlds(Environment):
    """Worlds as users meet them: world k is drawn from priors, a replicate draws a log of it.

    The number of the world draws everything but the log: size, contexts, rewards, both policies
    and what of them is known. World k is the same in every replicate and suite; a suite's salt
    draws other worlds. ``world=[1..300]`` is a grid of 300 settings. A dial that is given is
    fixed; the others stay what they are. There are two versions of the priors, ``priors``.
    Version 1 has clicks and purchases, where a context tells little of a reward. Version 2 has
    weak, middle and strong signals, and the loggers that users ask about: rules, and policies
    that learn.

    =========  =====================================================================
    dial       ``priors=1``, the default
    =========  =====================================================================
    rows       log-uniform 500 to 20,000
    actions    log-uniform 3 to 500
    contexts   1 to 6 numbers (normal, log-normal, counts; correlated), 0 to 2 categories of 2 to
               8 levels; 2 % missing in one column of a quarter of the worlds
    reward     binary with a rate of .5 to 50 % (55 % of the worlds), zero-inflated (15 %),
               Gaussian (13 %), bounded (10 %), heavy-tailed (7 %); strength of the signal
               log-uniform
    structure  linear for each action (35 %), interactions (20 %), steps (20 %), items alone
               (15 %), none (10 %)
    embedding  absent (40 %), useful (40 %), useless (20 %)
    logging    softmax (30 %), epsilon-greedy (25 %), uniform, near-deterministic, segments (15 %
               each); its correlation with the reward is uniform from -.2 to .8
    target     softmax (20 %), epsilon-greedy, deterministic, small change, mixture with the
               logging policy (15 % each), swap of items, large change (10 % each); its correlation
               with the reward is uniform from -.2 to .9
    known      the whole logging policy (30 %), propensities (55 %), samples alone (15 %); of the
               target its probabilities (70 %) or a sample alone (30 %)
    =========  =====================================================================

    =========  =====================================================================
    dial       ``priors=2``, where it differs
    =========  =====================================================================
    signal     share of the reward's variance that context and action explain: uniform on the
               logit from .002 to .95 (85 %) or from .08 to .4 (15 %), as far as the kind of reward
               can reach it
    effects    large (75 %): the action explains all of the signal or, in half of these worlds, 10
               to 100 %, the context the rest; weak (20 %): 1 to 10 %, with 2 to 5 actions, as in
               trials; none (5 %)
    contexts   as above (45 %); 7 to 64 numbers and up to 2 categories (25 %); vectors of 16 to 64
               columns, as embeddings of texts are (15 %; 42 to 52 where the kind is drawn, since
               both follow one number); as above with the place on the page,
               which explains 10 to 60 % of the signal (15 %); of networks many in place of few
               and places
    users      one row each (75 %), or 2 to 20 rows on average (11 to 20 where the kind is drawn,
               for the same reason), with a common effect that explains 5 to 30 % of the signal;
               `Problem.unit` names them
    reward     binary with a rate of .1 to 50 % (50 %), zero-inflated (13 %), Gaussian (12 %),
               without noise (10 %), bounded (8 %), heavy-tailed (7 %)
    structure  linear (27 %), smooth random networks of two layers (25 %), interactions, steps
               (18 % each), items alone (12 %)
    logging    softmax (18 %); rules with exploration from 0 to 5 %, epsilon-greedy (15 % each);
               uniform (12 %); near-deterministic, segments, ``thompson``: batched Thompson
               sampling, ``decreasing``: greedy with exploration that decreases (10 % each). The
               last two learn in 4 to 12 phases, in 1 to 4 groups of contexts
    phases     of a logger that learns, the log has the propensities of the time (50 %) or those
               averaged over phases, as if one policy had logged it (50 %)
    =========  =====================================================================

    A world's facts are stored with its trials, as ``world_``: every kind that was drawn; rows,
    actions, columns; signal and mean reward of rows as they are logged; share of the target's mass
    that the logger never plays (``unsupported``); effective sample size and rows over the largest
    weight; of rules their exploration. `damaged` adds the faults. With loggers that learn, facts
    are those of the average policy of one log.

    Truth
    -----
    Exact: contexts are finitely many equally likely rows (one thousand; 1,000 to 4,000 in version
    2), so the value is the mean over them of the sum over actions of pi1(a|x) q(x, a), also where
    the logger never plays them.

    Access: what the world's dial ``known`` grants; an embedding that is absent is the number of
    the action, as a category. A logger that learns has no policy to show, other than the average.

    Traps: rows are drawn with replacement from the contexts, each draw a unit of its own, or a
    user. Heavy-tailed rewards have no fourth moment. A deterministic target under a logging policy
    with little exploration leaves few rows with weight; under a rule without exploration, what
    lies outside its support is not in the log: no estimator can know it. In rows of a logger that
    learns, the policy depends on earlier rewards, and averaged propensities are not those of
    independent rows.

    Parameters
    ----------
    world : its number.
    n_samples, n_actions : rows and actions; drawn where None, as is every dial below.
    reward, structure, embedding, logging, target : kinds, as in the tables.
    known : what is known of the logging policy. Given as ``policy``, loggers that learn show the
        average over phases.
    target_form : whether the target policy's probabilities are known, or a sample of it.
    priors : version of the priors.
    signal, effects, contexts, users, phases : dials of version 2.

    References
    ----------
    The priors are ours; "Benchmarks for Deep Off-Policy Evaluation" (Fu et al., 2021) argues for
    many tasks instead of a few.

    >>> problem, truth = DrawnWorlds(world=17, n_samples=50).sample(
    ...     world_rng=np.random.default_rng(0), logged_rng=np.random.default_rng(1),
    ...     target_rng=np.random.default_rng(2))
    >>> len(problem.reward), truth.expected_se
    (50, 0.0)
    """

    check_params: ClassVar[Mapping[str, Any]] = {"world": 3, "n_samples": 200}
    added_parameters: ClassVar[Mapping[str, Any]] = {
        "priors": 1,
        "signal": None,
        "effects": None,
        "contexts": None,
        "users": None,
        "phases": None,
    }

    world: Annotated[int, Ge(0)] = 1
    n_samples: Annotated[int, Ge(1)] | None = None
    n_actions: Annotated[int, Ge(2)] | None = None
    reward: SecondRewardKind | None = None
    structure: Structure | None = None
    embedding: Embedding | None = None
    logging: LoggingKind | Literal["rule"] | AdaptiveKind | None = None
    target: TargetKind | None = None
    known: Known | None = None
    target_form: TargetForm | None = None
    priors: Literal[1, 2] = 1
    signal: Annotated[float, Gt(0), Lt(1)] | None = None
    effects: Effects | None = None
    contexts: Contexts | None = None
    users: Users | None = None
    phases: Phases | None = None

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample one problem and its truth."""
        return self._drawn().sample(logged_rng, target_rng)

    def examine(self, problem: Problem, estimate: Estimate) -> Mapping[str, Diagnostic]:
        """Return facts of the world, by which boards can be split."""
        return self._drawn().facts

    def _drawn(self) -> DrawnWorld:
        shares = _SHARES[self.priors]
        dials = {name: getattr(self, name) for name in _DIALS}
        for name, kind in dials.items():
            if kind is None or (name == "signal" and self.priors == 2):
                continue
            if kind not in shares.get(name, ()):
                known = ", ".join(shares.get(name, ())) or "no such dial"
                msg = (
                    f"population: {name}={kind} is not of priors={self.priors}, which has {known}"
                )
                raise ParameterError(msg)
        return _draw_world(
            self.priors,
            self.world,
            self.n_samples,
            self.n_actions,
            tuple(dials.items()),
            self.suite_salt,
        )


@lru_cache(maxsize=2)
def _draw_world(
    priors: int,
    number: int,
    n_samples: int | None,
    n_actions: int | None,
    dials: tuple[tuple[str, Any], ...],
    salt: str,
) -> DrawnWorld:
    return _DRAW[priors](number, n_samples, n_actions, dict(dials), salt)
