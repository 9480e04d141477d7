"""An estimator of your own

A class with one method and what it needs to know. It runs beside the others, on the same data.
"""

from typing import Annotated

import numpy as np
from annotated_types import Gt

from ope_bench import Access, Estimate, Estimator, View, evaluate


class ClippedIPW(Estimator):
    """Logged rewards weighted by ratios of policies, large ones cut.

        V = (1/n) sum_i min(w_i, clip) r_i

    Parameters
    ----------
    clip : largest weight.
    """

    access = Access.PROPENSITY | Access.TARGET_POLICY

    clip: Annotated[float, Gt(0)] = 5.0

    def estimate(self, view: View) -> Estimate:
        """Return the weighted mean."""
        target = view.target_policy.probability(view.context, view.action)
        weights = np.minimum(target / view.propensity, self.clip)
        return Estimate(float((weights * view.reward).mean()), weights=weights)


environment = "saito-toy[n_actions=50]"
print(evaluate([ClippedIPW(), ClippedIPW(clip=50.0), "ipw"], environment, replicates=20))
