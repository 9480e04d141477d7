"""`linear-bandit`: the linear and the logistic synthetic bandit, a few actions, known policies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, MinLen

from ope_bench import (
    Column,
    DeterministicEmbedding,
    DiscretePolicy,
    Environment,
    EpsilonGreedy,
    FloatArray,
    IntArray,
    ParameterError,
    Problem,
    Schema,
    Softmax,
    Truth,
    Uniform,
)
from ope_environments.learned.classifier_policy import ClassifierPolicy
from ope_environments.learned.classifiers import FittedName, fit_classifier
from ope_environments.synthetic.context_integral import normal_expectation
from ope_environments.synthetic.linear_score import ActionScore

__all__ = ["LinearBandit", "MeanReward"]

PolicyName = Literal["uniform", "softmax", "epsilon-greedy"]

STEP = 1 / 64
"""Standard deviations between the nodes of the integral of a logistic function."""

REACH = 9.0
"""Standard deviations to the outermost nodes."""


class LinearBandit(Environment):
    """Every action has a linear reward of its own: the textbook contextual bandit.

    ``x ~ N(0, I)``, and action a has the score ``s(x, a) = b_a + theta_a . x`` with
    ``b_a ~ N(0, intercept_std**2)`` and ``theta_a ~ N(0, slope_std**2 / d_context I)``. The
    reward is ``N(q, reward_std**2)`` with ``q = s``, or, ``logistic``, 1 with probability
    ``q = 1 / (1 + exp(-s))`` and 0 otherwise. Both policies are of one of three kinds:
    ``uniform``; ``softmax(beta q(x, a))`` with inverse temperature beta; ``epsilon-greedy``, which
    plays the action of the largest q (of the smallest, for a negative beta) but for a share
    epsilon of uniform exploration.

    A target may be ``learned`` from another log of the logging policy: a classifier of its
    actions, each weighted by reward over propensity, with probabilities p(a|x) on new contexts;
    the target is exp(T p(a|x)) / Z(x), or its best action but for a share epsilon. With
    ``coefficients="uniform"`` the score is s = (theta + theta_a) . (1, x), every theta a sum of
    independent U(-1, 1), standardized over actions and contexts.

    Truth
    -----
    Exact for a uniform target; else the integral over contexts is numerical, unbiased, with its
    standard error. Rewards and actions are integrated exactly. With ``truth_at="logs"`` it is
    exact for any target: the mean over the logged contexts. For a uniform target the value is
    the mean of ``b_a``, or the mean over actions of a one-dimensional integral to rounding.
    ``empirical`` is the mean reward of the target sample.

    Access: everything. The embedding of an action is a function of it: one-hot, or ``weights``,
    the row ``(b_a, theta_a)``, in which the reward is bilinear with the context.

    Traps: with ``weights`` an estimator is told what the reward is made of. A linear regression of
    the reward on context and one-hot actions is misspecified, since slopes differ by action;
    ``action_features: separate`` is not. Under an epsilon-greedy logging policy with epsilon 0
    most actions have no support.

    Parameters
    ----------
    n_samples : logged rows, and target rows.
    n_actions : number of actions.
    d_context : length of the context.
    reward : ``linear`` with Gaussian noise, or ``logistic``, of zeros and ones.
    reward_std : standard deviation of the linear reward's noise.
    intercept_std, slope_std : of the scores: between actions, and between contexts.
    logging, target : kinds of the policies.
    logging_beta, target_beta : inverse temperatures of softmax policies; the sign says whether
        high or low rewards are preferred.
    logging_epsilon, target_epsilon : exploration shares of epsilon-greedy policies.
    embedding : of the actions.
    shared_contexts : whether row i of both samples has the same context.
    truth_contexts : contexts in the integral of the truth, where it is numerical.
    reward_offset : constant added to every reward, and so to the value; policies do not see it.
    coefficients : ``normal``, as above; ``uniform``, which uses neither ``intercept_std`` nor
        ``slope_std``.
    target_log : rows of the log from which a learned target is learned.
    target_classifier : of a learned target: ``logistic`` (standardized contexts),
        ``naive-bayes``, ``forest``, or the import path of a class of scikit-learn or of an
        installed plugin's package.
    target_classifier_params : its parameters, beyond their defaults.
    target_softmax : T of a learned target; None for its best action, with ``target_epsilon``.
    loggers : inverse temperatures of several softmax loggers, in the place of ``logging``; a row
        then has its logger's propensity and, as ``stratum``, the logger's number.
    logger_shares : of the rows, in their order; None for equal ones.
    truth_at : whose value is the truth: of contexts from ``N(0, I)``, or of the logged contexts.

    References
    ----------
    "Open Bandit Dataset and Pipeline: Towards Realistic and Reproducible Off-Policy Evaluation"
    (Saito, Aihara, Matsutani and Narita, 2021): its synthetic bandits with a linear or a logistic
    reward, ten actions, five dimensions, softmax policies, coefficients that are uniform, and
    targets learned from a log by ``IPWLearner``.

    >>> problem, truth = LinearBandit(n_samples=50, reward="logistic").sample(
    ...     world_rng=np.random.default_rng(0), logged_rng=np.random.default_rng(1),
    ...     target_rng=np.random.default_rng(2))
    >>> problem.n_actions, set(problem.reward) <= {0.0, 1.0}, truth.expected_se
    (10, True, 0.0)
    """

    added_parameters: ClassVar[Mapping[str, Any]] = {
        "reward_offset": 0.0,
        "coefficients": "normal",
        "target_log": 10_000,
        "target_classifier": "logistic",
        "target_classifier_params": None,
        "target_softmax": 1.0,
        "truth_at": "population",
        "loggers": None,
        "logger_shares": None,
    }

    n_samples: Annotated[int, Ge(1)] = 1000
    n_actions: Annotated[int, Ge(2)] = 10
    d_context: Annotated[int, Ge(1)] = 5
    reward: Literal["linear", "logistic"] = "linear"
    reward_std: Annotated[float, Ge(0)] = 1.0
    intercept_std: Annotated[float, Ge(0)] = 1.0
    slope_std: Annotated[float, Ge(0)] = 1.0
    logging: PolicyName = "softmax"
    target: PolicyName | Literal["learned"] = "uniform"
    logging_beta: float = 1.0
    target_beta: float = 1.0
    logging_epsilon: Annotated[float, Ge(0), Le(1)] = 0.2
    target_epsilon: Annotated[float, Ge(0), Le(1)] = 0.05
    embedding: Literal["one-hot", "weights"] = "one-hot"
    shared_contexts: bool = False
    truth_contexts: Annotated[int, Ge(32)] = 16_384
    reward_offset: float = 0.0
    coefficients: Literal["normal", "uniform"] = "normal"
    target_log: Annotated[int, Ge(1)] = 10_000
    target_classifier: FittedName = "logistic"
    target_classifier_params: Mapping[str, Any] | None = None
    target_softmax: float | None = 1.0
    truth_at: Literal["population", "logs"] = "population"
    loggers: Annotated[list[float], MinLen(1)] | None = None
    logger_shares: list[Annotated[float, Gt(0)]] | None = None

    @property
    def requires(self) -> tuple[str, ...]:
        """Modules that learn the target."""
        path = self.target_classifier.rpartition(".")[0]
        return (path or "sklearn.linear_model",) if self.target == "learned" else ()

    def sample(
        self,
        *,
        world_rng: np.random.Generator,
        logged_rng: np.random.Generator,
        target_rng: np.random.Generator,
    ) -> tuple[Problem, Truth]:
        """Sample one problem and its truth."""
        mean = self._mean_reward(world_rng)
        logging = self._policy(mean, self.logging, self.logging_beta, self.logging_epsilon)
        if self.target == "learned":
            # A stream of its own: all targets have the same world, and so the same logs.
            target = self._learned(mean, logging, world_rng.spawn(1)[0])
        else:
            target = self._policy(mean, self.target, self.target_beta, self.target_epsilon)
        weights = mean.score.weights.T
        embed = DeterministicEmbedding(
            np.eye(self.n_actions) if self.embedding == "one-hot" else weights
        )

        shape = (self.n_samples, self.d_context)
        context = logged_rng.standard_normal(shape)
        several: dict[str, Any] = {}
        if self.loggers is None:
            action, propensity = logging.draw(context, logged_rng)
        else:
            action, propensity, several = self._by_loggers(mean, context, logged_rng)
        reward = self.reward_offset + self._rewards(mean, context, action, logged_rng)
        target_context = context if self.shared_contexts else target_rng.standard_normal(shape)
        target_action = target.sample(target_context, target_rng)
        target_reward = self._rewards(mean, target_context, target_action, target_rng)
        target_reward += self.reward_offset
        expected, error = self._value(mean, target, context, target_rng)
        problem = Problem(
            context=context,
            action=action,
            embedding=embed.action_embedding[action],
            reward=reward,
            target_context=target_context,
            target_action=target_action,
            target_embedding=embed.action_embedding[target_action],
            n_actions=self.n_actions,
            schema=self._schema(embed.action_embedding.shape[1]),
            action_embedding=embed.action_embedding,
            propensity=propensity,
            logging_policy=logging if self.loggers is None else None,
            target_policy=target,
            embedding_distribution=embed,
            shared_contexts=self.shared_contexts,
            reward_range=self._reward_range(),
            **several,
        )
        return problem, Truth(self.reward_offset + expected, error, float(target_reward.mean()))

    def _by_loggers(
        self, mean: MeanReward, context: FloatArray, rng: np.random.Generator
    ) -> tuple[IntArray, FloatArray, dict[str, Any]]:
        """Draw each row's action by its logger; return them, propensities and the strata."""
        betas = self.loggers or []
        shares = np.array(self.logger_shares or [1.0] * len(betas))
        if len(shares) != len(betas):
            msg = f"linear-bandit: {len(shares)} logger_shares for {len(betas)} loggers"
            raise ParameterError(msg)
        # The rows of every logger are as many whatever the stream, and mixed.
        ends = np.round(np.cumsum(shares) / shares.sum() * len(context))
        stratum = rng.permutation(np.searchsorted(ends, np.arange(len(context)), side="right"))
        policies = tuple(self._policy(mean, "softmax", beta, 0.0) for beta in betas)
        action = np.empty(len(context), dtype=np.int64)
        propensity = np.empty(len(context))
        for k, policy in enumerate(policies):
            rows = np.flatnonzero(stratum == k)
            action[rows], propensity[rows] = policy.draw(context[rows], rng)
        reason = "several loggers: no single logging policy; see stratum_policies"
        return (
            action,
            propensity,
            {
                "stratum": stratum,
                "stratum_policies": policies,
                "unavailable": {"logging_policy": reason},
            },
        )

    def _reward_range(self) -> tuple[float, float] | None:
        bounded = self.reward == "logistic"
        return (self.reward_offset, self.reward_offset + 1.0) if bounded else None

    def _mean_reward(self, rng: np.random.Generator) -> MeanReward:
        # Action by action, so that a larger world begins with the smaller one's actions.
        if self.coefficients == "uniform":
            weights = self._uniform_weights(rng)
            return MeanReward(ActionScore(weights), logistic=self.reward == "logistic")
        weights = rng.standard_normal((self.n_actions, 1 + self.d_context)).T
        weights[0] *= self.intercept_std
        weights[1:] *= self.slope_std / math.sqrt(self.d_context)
        return MeanReward(ActionScore(weights), logistic=self.reward == "logistic")

    def _policy(
        self, mean: MeanReward, kind: PolicyName, beta: float, epsilon: float
    ) -> DiscretePolicy:
        if kind == "uniform":
            return Uniform(self.n_actions)
        if kind == "softmax":
            return Softmax(mean, self.n_actions, beta)
        # q is increasing in the score, which does not round to 1 where it is large.
        sign = -1.0 if beta < 0 else 1.0
        return EpsilonGreedy(ActionScore(sign * mean.score.weights), self.n_actions, epsilon)

    def _uniform_weights(self, rng: np.random.Generator) -> FloatArray:
        """Return standardized sums of U(-1, 1): (1 + d_context, n_actions).

        The published score is bilinear in (1, x) and (1, one-hot action), plus an affine function
        of either: a slope is shared by all actions twice, an action's own once, its intercept
        twice.
        """
        shared = rng.uniform(-1.0, 1.0, (2, 1 + self.d_context)).sum(axis=0)
        own = rng.uniform(-1.0, 1.0, (self.n_actions, 2 + self.d_context))
        weights: FloatArray = shared[:, None] + own[:, 1:].T
        weights[0] += own[:, 0]
        # Moments over x ~ N(0, I) and all actions: E (w0 + w.x)**2 = w0**2 + |w|**2.
        center = weights[0].mean()
        variance = np.square(weights).sum(axis=0).mean() - center**2
        weights[0] -= center
        weights /= math.sqrt(variance)
        return weights

    def _learned(
        self, mean: MeanReward, logging: DiscretePolicy, rng: np.random.Generator
    ) -> DiscretePolicy:
        """Learn a target from a log of its own."""
        if self.reward != "logistic":
            msg = (
                "linear-bandit: a learned target weights actions by rewards, which must not be"
                " negative; use reward = 'logistic'"
            )
            raise ParameterError(msg)
        context = rng.standard_normal((self.target_log, self.d_context))
        action, propensity = logging.draw(context, rng)
        kept = self._rewards(mean, context, action, rng) > 0
        params = self.target_classifier_params or {}
        model = fit_classifier(
            self.target_classifier, params, context[kept], action[kept], rng, 1 / propensity[kept]
        )
        epsilon = self.target_epsilon if self.target_softmax is None else 0.0
        return ClassifierPolicy(model, self.n_actions, 0.0, epsilon, self.target_softmax)

    def _rewards(
        self, mean: MeanReward, context: FloatArray, action: IntArray, rng: np.random.Generator
    ) -> FloatArray:
        expected = mean.at(context, action)
        if self.reward == "logistic":
            return (rng.random(len(context)) < expected).astype(np.float64)
        return expected + self.reward_std * rng.standard_normal(len(context))

    def _value(
        self,
        mean: MeanReward,
        target: DiscretePolicy,
        logged: FloatArray,
        rng: np.random.Generator,
    ) -> tuple[float, float]:
        if self.truth_at == "logs":
            return float(target.contract(logged, lambda rows: mean(logged[rows])).mean()), 0.0
        if self.target == "uniform":
            return float(mean.over_contexts().mean()), 0.0

        def value(context: FloatArray) -> FloatArray:
            return target.contract(context, lambda rows: mean(context[rows]))

        return normal_expectation(value, self.d_context, self.truth_contexts, rng)

    def _schema(self, width: int) -> Schema:
        one_hot = Column("categorical", (0.0, 1.0))
        column = one_hot if self.embedding == "one-hot" else Column("atoms")
        return Schema((Column(),) * self.d_context, (column,) * width)


class MeanReward:
    """q(x, a): an affine score of each action, or the logistic function of it.

    Parameters
    ----------
    score : the affine score.
    logistic : whether q is the logistic function of the score.
    """

    def __init__(self, score: ActionScore, *, logistic: bool) -> None:
        self.score = score
        self.logistic = logistic

    def __call__(self, context: FloatArray) -> FloatArray:
        """Return the mean rewards of one chunk of contexts: (k, n_actions)."""
        return self._link(self.score(context))

    def at(self, context: FloatArray, action: IntArray) -> FloatArray:
        """Return the mean reward of each row's action: (n,)."""
        return self._link(self.score.at(context, action))

    def over_contexts(self) -> FloatArray:
        """Return E q(x, a) over x ~ N(0, I) for each action: (n_actions,).

        The logistic function of N(b, s**2) by the trapezoidal rule, whose error falls
        exponentially with the number of nodes.
        """
        from scipy.special import expit

        intercept: FloatArray = self.score.weights[0]
        if not self.logistic:
            return intercept
        scale = np.sqrt(np.square(self.score.weights[1:]).sum(axis=0))
        nodes = np.arange(-REACH, REACH + STEP, STEP)
        weights = np.exp(-0.5 * nodes**2)
        out = np.zeros(len(intercept))
        for node, weight in zip(nodes, weights / weights.sum(), strict=True):
            out += weight * expit(intercept + scale * node)
        return out

    def _link(self, score: FloatArray) -> FloatArray:
        if not self.logistic:
            return score
        from scipy.special import expit

        probability: FloatArray = expit(score)
        return probability
