"""What a policy can be asked, and what a state says of arms: means, distances, and what they rest on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from linmed.validation import Floats, Ints


class Capabilities(NamedTuple):
    """What a policy can be asked beside its decisions; see `Policy.capabilities`.

    >>> from linmed import Disjoint, Forgetful, LinMED, LogisticMED
    >>> LinMED().capabilities.verdict, Forgetful(LinMED()).capabilities.verdict
    (True, False)
    >>> Forgetful(LinMED()).capabilities.drift, Disjoint(LinMED()).capabilities.per_item
    (True, True)
    >>> LogisticMED().capabilities.refutable, LogisticMED().capabilities.covariance
    (False, True)
    """

    probability: bool = True
    """`decide` says how probable the arm was."""
    interval: bool = False
    """The mean of an arm and an interval for it: `predict`, `posterior`."""
    covariance: bool = False
    """The covariance of θ̂: `Agent.covariance`."""
    verdict: bool = False
    """Which arm is best: `Agent.verdict`."""
    refutable: bool = False
    """Whether rewards refute sigma or norm_bound, by the sums of a ridge estimate."""
    drift: bool = False
    """Whether the world has changed: `Agent.drift`."""
    clock: bool = False
    """It forgets by the clock, so `learn_at` must say when each decision was taken."""
    per_item: bool = False
    """Column 0 of an arm is the number of the item's model, of which there is one for each."""
    shared: int = 0
    """How many columns behind it belong to features that all models share."""
    by_route: bool = False
    """Decisions among a catalogue without a pass over it: `linmed.catalogue_sampler`."""


class Prediction(NamedTuple):
    """What arms are expected to pay, and between what it lies as far as a confidence set tells, (K,) each.

    >>> from linmed import Agent, LinMED
    >>> agent = Agent(LinMED(sigma=0.1), dim=1)
    >>> agent.observe([[1.0]] * 50, [0.5] * 50)
    >>> expected = agent.mean([[1.0], [2.0]])
    >>> expected.mean.round(3), bool((expected.lower < expected.mean).all())
    (array([0.5, 1. ]), True)
    """

    mean: Floats
    lower: Floats
    upper: Floats


class Grounds(NamedTuple):
    """What intervals rest on."""

    assumes: tuple[str, ...] = ()
    """What a proof takes for granted."""
    doubt: str | None = "whether they are a confidence set is not known here"
    """Why what they say of differences between arms is no proof; None where it is one."""
    doubt_of_means: str | None = None
    """The same of single arms, where it is another."""
    confidence: float | None = None
    """1 − δ, with which all intervals hold together at this moment; None where they were never meant to."""
    delta: float | None = None
    """δ, where it is the same at all times."""
    set_name: str = ""
    """Which set with which parameters: verdicts by the same one go on from each other."""
    unbounded: bool = False
    """Whether intervals are infinite for want of a norm_bound."""

    @property
    def sentence(self) -> str:
        """What a proof takes for granted, as words."""
        *first, last = self.assumes
        return f"{', '.join(first)}, and {last}" if first else last


class RidgeSums(NamedTuple):
    """What a ridge estimate sums over all rewards, by which its assumptions can be refuted."""

    gram: Floats  # (d,d) V, lower triangle
    moment: Floats  # (d,) b
    rss: float
    lam: float
    sigma: float  # 0 where it is unknown
    norm: float  # S, or 0
    radius: Callable[[float], float] | None  # √β of the smallest set with this δ; None of a set of your own


@dataclass(frozen=True, eq=False, kw_only=True)
class Posterior:
    """What a state of one replica says of arms: z = level + ⟨θ̂, a − centre⟩, and how sure that is.

    Its arrays are those of the state, so it is valid until the next reward.

    >>> import numpy as np
    >>> from linmed import Agent, LinMED
    >>> agent, arms = Agent(LinMED(sigma=0.1), dim=2), np.eye(2)
    >>> agent.observe(arms, [0.9, 0.4])
    >>> seen = agent.policy.posterior(agent.state)
    >>> seen.predict(arms).mean.round(2), seen.gains(arms, best=0).round(2), seen.covariance.round(4)
    (array([0.89, 0.4 ]), array([0.  , 0.12]), array([[0.0099, 0.    ],
           [0.    , 0.0099]]))
    >>> weights, rows = seen.weights(arms)  # those of the features, and which row of them is whose
    >>> seen.base, weights.round(2), rows, [one.shape for one in seen.compared(arms)]
    (None, array([[0.89, 0.4 ]]), array([0, 0]), [(2,), (2, 2), (2, 2)])
    """

    theta: Floats
    """θ̂ (d,)."""
    inverse: Floats
    """V⁻¹ (d,d), in which arms have a length."""
    radius: float
    """√β."""
    count: int
    """Rewards."""
    grounds: Grounds
    noise: float = 1.0
    """σ, known or estimated; 1 where V is in its units."""
    intercept: bool = False
    level: float = 0.0
    centre: Floats | None = None
    corner: float = 0.0
    """What the level adds to the squared length of every arm …"""
    cross: Floats | None = None
    """… and, twice, to that of each feature (d,)."""
    link: Callable[[Floats], Floats] | None = None
    """μ: the mean reward at z, where it is not z."""
    unit: str = ""
    """What z is in, where that is not the rewards' unit."""
    sums: RidgeSums | None = None
    """What refutes the grounds, if anything can."""

    @property
    def covariance(self) -> Floats:
        """σ² V⁻¹ (d,d)."""
        found: Floats = self.noise**2 * self.inverse
        return found

    @property
    def base(self) -> float | None:
        """z of an arm without features; None where the model has no intercept."""
        if not self.intercept:
            return None
        return self.level - (0.0 if self.centre is None else float(np.vecdot(self.centre, self.theta)))

    def predict(self, arms: Floats) -> Prediction:
        """Predict what arms (K,d) pay: μ(z) and μ(z ± √β‖(1, a)‖)."""
        apart = arms if self.centre is None else arms - self.centre
        z = self.level + np.einsum("kd,d->k", apart, self.theta)
        further = (
            self.corner if self.cross is None else 2.0 * np.einsum("kd,d->k", apart, self.cross) + self.corner
        )
        return self._between(z, further + np.einsum("kd,de,ke->k", apart, self.inverse, apart))

    def _between(self, z: Floats, leverage: Floats) -> Prediction:
        half = self._reach(leverage)
        found = z, z - half, z + half
        return Prediction(*(found if self.link is None else map(self.link, found)))

    def _reach(self, leverage: Floats) -> Floats:
        """√β times a length, of which the square is given."""
        with np.errstate(invalid="ignore"):  # nothing is said of a zero vector: its mean is 0
            half: Floats = np.nan_to_num(self.radius * np.sqrt(np.maximum(leverage, 0.0)), posinf=np.inf)
        return half

    def gains(self, arms: Floats, best: int) -> Floats:
        """Bound how much more than arm `best` each of arms (K,d) pays, from above (K,)."""
        apart = arms - arms[best]
        z: Floats = np.vecdot(apart, self.theta) + self._reach(
            np.einsum("kd,de,ke->k", apart, self.inverse, apart)
        )
        if self.link is None:
            return z
        here = np.full(1, np.vecdot(arms[best], self.theta) + self.level)
        return self.link(here + z) - self.link(here)

    def weights(self, arms: Floats) -> tuple[Floats, Ints]:
        """Give the weights (n,d) of the features, and which of the rows is each arm's (K,)."""
        return np.array(self.theta[None]), np.zeros(len(arms), dtype=np.int64)

    def compared(self, arms: Floats) -> tuple[Floats, Floats, Floats]:
        """Copy θ̂ (n,), V⁻¹ (n,n) and arms (K,n), in coordinates in which the core compares them."""
        return self.theta.copy(), self.inverse.copy(), arms.copy()
