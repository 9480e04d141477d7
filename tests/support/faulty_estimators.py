"""Estimators with one fault each, which a check of the conformance kit must find."""
# ruff: noqa: NPY002  the global state is what a faulty plugin misuses

import random
import sys
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Gt

from ope_bench import Access, Estimate, Estimator, PositivityViolation, params
from ope_bench.base.errors import AccessError


class Sound(Estimator):
    """Logged rewards weighted by the ratio of the policies.

        V = mean(w r)

    Assumptions: support. Fails when: there is none.

    Parameters
    ----------
    clip : largest weight.

    References
    ----------
    Truncated importance sampling (Ionides, 2008).
    """

    access = Access.PROPENSITY | Access.TARGET_POLICY

    def __init__(self, clip: Annotated[float, Gt(0)] = 100.0) -> None:
        self.clip = clip

    def estimate(self, view):
        target = view.target_policy.probability(view.context, view.action)
        weights = np.minimum(target / view.propensity, self.clip)
        return Estimate(float((weights * view.reward).mean()), None, weights)


class NoDocstring(Sound):
    pass


NoDocstring.__doc__ = None


class BareParameter(Sound):
    def __init__(self, clip=100.0):
        self.clip = clip


class BusyConstructor(Sound):
    def __init__(self, clip: float = 100.0) -> None:
        self.clip = clip
        self.limit = 2 * clip


@params
class SoundFields(Estimator):
    """The logged mean, times a factor.

        V = scale mean(r)

    Assumptions: none. Fails when: always.

    Parameters
    ----------
    scale : the factor.

    References
    ----------
    On means (Anon, 1900).
    """

    scale: float = 1.0

    def estimate(self, view):
        return Estimate(self.scale * float(view.reward.mean()))


@params
class BusyPostInit(SoundFields):
    def __post_init__(self):
        self.scale = float(self.scale)


class ChangedParameter(Sound):
    def __init__(self, clip: float = 100.0) -> None:
        self.clip = min(clip, 50.0)


class ForgetsParameters(Sound):
    def set_params(self, **params):
        return self


class OnlyGPU(Sound):
    devices = ("cuda",)


@dataclass(frozen=True)
class Unasked:
    """A shared fit that nobody asks for."""

    def fit(self, view, *, rng, device):
        return 0.0

    def begin(self, view, *, rng, device):
        return 0.0

    def complete(self, begun, *, device):
        return begun


class BatchesInVain(Sound):
    @property
    def batched(self):
        return (Unasked(),)


class BatchesWhatCannotBe(Sound):
    @property
    def batched(self):
        return ("mean",)


class FitReturnsNothing(Sound):
    def fit(self, view, *, rng, device):
        self.mean_ = 1.0


class FitNamesBadly(Sound):
    def fit(self, view, *, rng, device):
        self.mean = 1.0
        return self


class FitChangesParameter(Sound):
    def fit(self, view, *, rng, device):
        self.clip = 3.0
        return self


class Infinite(Sound):
    def estimate(self, view):
        return Estimate(np.inf)


class NegativeError(Sound):
    def estimate(self, view):
        return Estimate(super().estimate(view).value, standard_error=-1.0)


class ShortWeights(Sound):
    def estimate(self, view):
        found = super().estimate(view)
        return Estimate(found.value, None, found.weights[:-1])


class Unseeded(Sound):
    def estimate(self, view):
        noise = np.random.default_rng().normal(scale=1e-6)
        return Estimate(super().estimate(view).value + noise)


class DrawsInEstimate(Sound):
    def fit(self, view, *, rng, device):
        self.rng_ = rng
        return self

    def estimate(self, view):
        return Estimate(super().estimate(view).value + 1e-3 * self.rng_.random())


class LeavesSettings(Sound):
    def fit(self, view, *, rng, device):
        sys.setrecursionlimit(sys.getrecursionlimit() + 1)
        np.set_printoptions(precision=2)
        return self


class GlobalRandom(Sound):
    def estimate(self, view):
        random.random()
        return super().estimate(view)


class SeedsNumpy(Sound):
    def fit(self, view, *, rng, device):
        np.random.seed(0)
        return self


class Writes(Sound):
    def estimate(self, view):
        view.reward[0] = 0.0
        return super().estimate(view)


class ForcesWriting(Sound):
    def estimate(self, view):
        found = super().estimate(view)
        base = view.reward
        while base.base is not None:
            base = base.base
        base.flags.writeable = True
        base[0] += 1.0
        return found


class Undeclared(Sound):
    access = Access.PROPENSITY


class Swallows(Sound):
    access = Access.PROPENSITY

    def estimate(self, view):
        try:
            return super().estimate(view)
        except AccessError:
            return Estimate(float(view.reward.mean()))


class Greedy(Sound):
    access = Access.LOGGING_POLICY | Access.TARGET_POLICY | Access.EMBEDDING_DISTRIBUTION


class WrongScale(Sound):
    def estimate(self, view):
        return Estimate(super().estimate(view).value / 4)


class FirstRow(Sound):
    def estimate(self, view):
        return Estimate(super().estimate(view).value + 0.1 * float(view.reward[0]))


class Unpicklable(Sound):
    def fit(self, view, *, rng, device):
        self.weight_ = lambda ratio: ratio
        return self


class NaNWithoutSupport(Sound):
    def estimate(self, view):
        value = super().estimate(view).value
        taken = np.isin(view.target_action, view.action)
        return Estimate(value if taken.all() else np.nan)


class OddMass(Sound):
    def estimate(self, view):
        if not np.isin(view.target_action, view.action).all():
            raise PositivityViolation("missing", unsupported_mass=60.0)
        return super().estimate(view)


class ReturnsFloat(Sound):
    def estimate(self, view):
        return super().estimate(view).value
