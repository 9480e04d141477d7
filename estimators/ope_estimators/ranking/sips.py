"""Standard importance weighting of whole lists."""

from __future__ import annotations

from ope_bench import Access, FloatArray, View
from ope_estimators.ranking.list_weighted import ListWeighted

__all__ = ["SIPS"]


class SIPS(ListWeighted):
    """Rewards of a list weighted by how much more often the target policy shows that list.

        V̂ = (1/n) sum_i w_i r_i,   w_i = π1(A|x) / π0(A|x),  A the whole list of row i

    Unbiased whatever a user does, with weights that are products over slots. Lists of one item
    give `IPW`.

    Assumptions: known probabilities of whole lists; every list of the target policy can be logged.
    Fails when: lists are long: the variance grows exponentially with the slots.

    Parameters
    ----------
    normalize : divide by the sum of the weights instead of n.

    References
    ----------
    Off-policy evaluation for slate recommendation (Swaminathan et al., 2017), section 2.1.

    Examples
    --------
    >>> from ope_bench import evaluate
    >>> record = evaluate(SIPS(), "ranking[n_samples=3000]", replicates=1)[0]
    >>> abs(record.estimate - record.truth_expected) < 4 * record.standard_error
    True
    """

    @property
    def access(self) -> Access:
        """The probability of each row's list."""
        return Access.JOINT_PROPENSITY

    def _weight(self, view: View) -> FloatArray:
        weight: FloatArray = view.joint_propensity[:, 1] / view.joint_propensity[:, 0]
        return weight
