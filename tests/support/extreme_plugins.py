"""A plugin file: an estimator that says numbers at the ends of what a double holds."""

import numpy as np

from ope_bench import Estimate, Estimator, PositivityViolation, View, params


@params
class Extreme(Estimator):
    """Says what it is told to; where a number is 0, nothing."""

    value: float = 1.0
    standard_error: float = 0.0
    weight: float = 0.0
    diagnostic: float = 0.0
    fallback: float = 0.0
    power: int = 0

    def estimate(self, view: View) -> Estimate:
        if self.fallback:
            msg = "as requested"
            raise PositivityViolation(msg, unsupported_mass=0.5, fallback=self.fallback)
        told = {"number": self.diagnostic, "integer": 10**self.power}
        return Estimate(
            self.value,
            self.standard_error or None,
            weights=np.full(view.n, self.weight) if self.weight else None,
            diagnostics=told,
        )
