"""How sure a belief is: confidence sets ‖θ* − θ̂‖² ≤ β in V, of which the rules see β alone.

A set is a named tuple of parameters with one method, `squared_radius(belief, r)` = β of replica r, which may
read whatever the belief keeps. It is written in Python and compiled into every rule that uses it.
"""

import math
from functools import cache
from typing import Any, NamedTuple

from linmed.kernels.compile import by_class, kernel, version_of
from linmed.kernels.ridge import Ridge


class PaperSet(NamedTuple):
    """√β = σ √(log(det V/det V₀) + 2 log(1/δ)) + √λ S, the paper's eq. (beta)."""

    sigma: float
    log_inverse_delta: float  # negative stands for δ = 1/(t+1) after t rewards
    bias: float  # √λ S

    def squared_radius(self, belief, r):
        """β of replica r."""
        log_inverse_delta = self.log_inverse_delta
        if log_inverse_delta < 0.0:
            log_inverse_delta = math.log(belief.count[r] + 1.0)
        root = self.sigma * math.sqrt(belief.logdet[r] + 2.0 * log_inverse_delta) + self.bias
        return root * root


class FixedSet(NamedTuple):
    """β is a number, whatever has been seen."""

    beta: float

    def squared_radius(self, belief, r):
        """β."""
        return self.beta


@by_class
def squared_radius(confidence, belief, r):
    """β of replica r."""


@cache
def radii(Set: type) -> Any:
    """The kernel that writes √β of every replica for this class of sets."""

    version = version_of(Set)

    @kernel
    def radii_of_set(state, parameters, out):
        """state: a `Ridge` as a plain tuple; parameters of the set; out (R,)."""
        version  # noqa: B018
        belief, confidence = Ridge(*state), Set(*parameters)
        for r in range(out.shape[0]):
            out[r] = math.sqrt(squared_radius(confidence, belief, r))

    return radii_of_set
