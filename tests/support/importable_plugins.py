"""Plugins that other processes can import."""

from __future__ import annotations

from ope_bench import Environment, Estimate, Estimator


class Half(Estimator):
    """Half of the mean."""

    def fit(self, view, *, rng, device):
        self.draw_ = rng.standard_normal()
        return self

    def estimate(self, view):
        return Estimate(float(view.reward.mean()) / 2 + self.draw_)


class Broken(Environment):
    """An environment that raises."""

    def __init__(self, n_samples: int = 10) -> None:
        self.n_samples = n_samples

    def sample(self, *, world_rng, logged_rng, target_rng):
        msg = "no data today"
        raise ValueError(msg)
