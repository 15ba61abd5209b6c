"""A rule for the first round, and another one for all that follow."""

from typing import Any, NamedTuple

from linmed.kernels.rounds import decide, workspace


class Opening(NamedTuple):
    """`first` as long as no reward is known, `then` from the first one on.

    Both must take the same noise. They reach a kernel as named tuples within a plain one, because only so are
    they told apart there.
    """

    first: Any
    then: Any

    def workspace(self, K, d):
        """Scratch of both."""
        return workspace(self.first, K, d), workspace(self.then, K, d)

    def decide(self, belief, s, beta, arms, p, blocks, n, noise, t, r, scratch, log_p):
        """See `rounds.decide`."""
        if belief.count[s] == 0:
            return decide(self.first, belief, s, beta, arms, p, blocks, n, noise, t, r, scratch[0], log_p)
        return decide(self.then, belief, s, beta, arms, p, blocks, n, noise, t, r, scratch[1], log_p)
