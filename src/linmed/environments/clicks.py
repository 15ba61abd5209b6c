"""Simulate clicks: by a logistic model, and articles that come and go for readers."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from linmed import validation
from linmed.environments.base import Block, changed_once, on_sphere
from linmed.environments.rewards import ClickEnvironment, expit, gegenbauer_nodes, logit, root
from linmed.validation import Floats, Ints

NODES = 200
"""Of the quadrature for the mean rate: enough for any `norm` below."""
STEEPEST = 100.0
"""Largest `norm`: e¹⁰⁰ to 1 are odds enough."""


@dataclass(frozen=True)
class Clicks(ClickEnvironment):
    """Reward 1 with probability μ(c + ⟨x, w⟩), for x on the unit sphere, ‖w‖ = `norm`, μ(z) = 1/(1 + e⁻ᶻ).

    x is uniform, and w is drawn once a trial. c follows from `rate`, the mean of μ(c + ⟨x, w⟩) over the
    sphere, which is the same for every w. An arm is (x, 1)/√2, so that its norm is 1 and linear policies can
    learn the base rate; θ* is then √2 (w, c), of norm `theta_norm`. An arm pays the same wherever it stands
    in the list.

    >>> problem = Clicks(rate=0.055, norm=4.0)
    >>> round(problem.intercept, 2), round(problem.theta_norm, 1)
    (-4.02, 8.0)

    >>> block = next(problem.blocks(np.random.default_rng(0)))
    >>> block.arms.shape, bool((block.means > 0).all())
    ((10, 6), True)
    """

    rate: float = 0.05
    """Mean click rate of a random arm."""
    norm: float = 3.0
    """‖w‖: how much the features matter; the log-odds of arms lie within c ± norm."""
    arms: int = 10
    """K."""
    dim: int = 5
    """Features of x."""
    changing: bool = False
    """Whether every round has arms of its own; otherwise they are drawn once a trial."""
    constant: bool = True
    """Whether arms have the constant feature; without it they are x alone."""
    clicks_after: int = 50
    """Rounds until a click is known, in the mean of a geometric law."""
    timeout: int = 0
    """Rounds after which no click is a non-click, and clicks are known at the latest; 0: all at once."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_whole(arms=1, dim=1)
        self._set(
            rate=validation.strictly_between("rate", self.rate, 0.0, 1.0),
            norm=validation.between("norm", self.norm, 0.0, STEEPEST),
            changing=validation.flag("changing", self.changing),
            constant=validation.flag("constant", self.constant),
        )

    @property
    def block_rounds(self) -> int:  # type: ignore[override]
        """At most two megabytes of arms."""
        return self._fitting(self.arms * (self.dim + 1))

    @cached_property
    def intercept(self) -> float:
        """c, at which a random arm is clicked with probability `rate`."""
        centre = float(logit(self.rate))
        if self.norm == 0.0:
            return centre
        scores, weights = self._scores

        def excess(c: float) -> float:
            return float(weights @ expit(c + scores)) - self.rate

        return root(excess, centre - self.norm, centre + self.norm)

    @property
    def theta_norm(self) -> float:
        """‖θ*‖ for arms as they are given."""
        return float(np.sqrt(2.0) * np.hypot(self.norm, self.intercept)) if self.constant else self.norm

    @property
    def _scores(self) -> tuple[Floats, Floats]:
        """⟨x, w⟩ of a random x as values with probabilities, a quadrature of (1 − t²)^((d−3)/2)."""
        if self.dim == 1:
            return self.norm * np.array([-1.0, 1.0]), np.array([0.5, 0.5])
        if self.dim == 2:  # the arcsine law: Chebyshev's nodes, which have equal weights
            nodes, weights = np.cos((np.arange(NODES) + 0.5) * np.pi / NODES), np.ones(NODES)
        else:
            nodes, weights = gegenbauer_nodes(NODES, (self.dim - 2) / 2.0)
        return self.norm * nodes, weights / weights.sum()

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """w first, then the arms, once or for every round, and clicks."""
        (waiting,) = rng.spawn(1)
        w = self.norm * on_sphere(rng, self.dim)
        shape = (self.block_rounds, self.arms) if self.changing else (self.arms,)
        arms, rates = self._drawn(rng, w, shape)
        while True:
            yield Block(arms, rates, rng.random(self.block_rounds), self._delays(waiting))
            if self.changing:
                arms, rates = self._drawn(rng, w, shape)

    def _drawn(self, rng: np.random.Generator, w: Floats, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Arms and their click rates."""
        x = on_sphere(rng, *shape, self.dim)
        rates: Floats = expit(self.intercept + x @ w)
        if not self.constant:
            return x, rates
        return np.sqrt(0.5) * np.concatenate([x, np.ones((*shape, 1))], axis=-1), rates


@dataclass(frozen=True)
class ClicksChange(Clicks):
    """`Clicks` whose w is drawn anew once: the rounds after the `at`-th have another one.

    Until then a trial is that of `Clicks` with the same parameters. Where arms are fixed they stay; the mean
    rate over all arms there could be stays the same, too.

    >>> block = next(ClicksChange(at=500).blocks(np.random.default_rng(0)))
    >>> bool((block.means[499] == block.means[0]).all()), bool((block.means[500] == block.means[0]).any())
    (True, False)
    """

    at: int = 1500
    """Rounds before the change."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_whole(at=1)
        if self.changing:
            raise validation.BadValue(
                "changing", "changing must be False here: the arms stay, what is liked moves"
            )

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """As of `Clicks`, with other rates from the change on, which come from a stream of their own."""
        waiting, moved = rng.spawn(2)
        w, after = (self.norm * on_sphere(one, self.dim) for one in (rng, moved))
        arms, rates = self._drawn(rng, w, (self.arms,))
        x = arms if not self.constant else np.sqrt(2.0) * arms[:, :-1]
        other: Floats = expit(self.intercept + x @ after)
        for own in changed_once(rates, other, self.at, self.block_rounds):
            yield Block(arms, own, rng.random(self.block_rounds), self._delays(waiting))


KINDS, TOPICS = 9, 8
"""Of readers, and of articles: d = 72 without ids."""
LOWEST, HIGHEST = 0.02, 0.08
"""Click rates lie between."""
APPEAL = 0.3
"""Share of an article's own appeal in its rates; the rest is taste."""
DULL = (0.5, 1.0)
"""Parameters of the Beta law by which tastes and appeals are spread between the two: most are low."""
MIXED_READER, MIXED_ARTICLE = 0.1, 0.1
"""Of the Dirichlet laws: most readers are mainly of one kind, most articles mainly about one topic."""


@dataclass(frozen=True)
class News(ClickEnvironment):
    """A reader a round, for whom one of the live articles is chosen; reward 1 for a click.

    A trial has readers of 9 kinds, articles on 8 topics, a rate for each kind and topic (what the kind thinks
    of the topic) and one for each article (its own appeal). A reader x and an article t are mixtures of kinds
    and topics; the click rate is 70 % xᵀ(rates)t and 30 % appeal, so it lies between 2 and 8 %.
    An arm is x ⊗ t: it says nothing of the appeal, which no policy can learn. With `ids` a one-hot id follows
    (both parts divided by √2, so that norms are at most 1), and the rate is linear in the arm.

    >>> problem = News(articles=20, live=5)
    >>> block = next(problem.blocks(np.random.default_rng(0)))
    >>> problem.dim, block.arms.shape[1:], bool((block.means > 0.02).all() and (block.means < 0.08).all())
    (72, (5, 72), True)
    """

    ids: bool = False
    """Whether an arm has its article's id among its features: d = 72 + articles."""
    articles: int = 120
    """All there are; those that are not live come back."""
    live: int = 50
    """K: articles to choose from."""
    swap_every: int = 500
    """After so many rounds a live article goes and another comes in its place."""
    clicks_after: int = 50
    """Rounds until a click is known, in the mean of a geometric law."""
    timeout: int = 500
    """Rounds after which no click is a non-click, and clicks are known at the latest; 0: all at once."""

    def __post_init__(self) -> None:
        if not isinstance(self.ids, bool):
            raise TypeError(f"ids must be True or False, got {self.ids!r}")
        self._check_whole(live=1, articles=1, swap_every=1)
        super().__post_init__()
        if self.live > self.articles:
            raise ValueError(
                f"live must be at most articles={self.articles}, all that there are, got {self.live}"
            )

    @property
    def dim(self) -> int:
        """d."""
        return KINDS * TOPICS + (self.articles if self.ids else 0)

    @property
    def block_rounds(self) -> int:  # type: ignore[override]
        """Two megabytes of arms."""
        return self._fitting(self.live * self.dim)

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """Rates, articles and who is live first; then readers, clicks and when they are known."""
        (waiting,) = rng.spawn(1)  # a stream of its own: lateness leaves everything else as it was
        tastes = _rates(rng, KINDS, TOPICS)
        appeal = _rates(rng, self.articles)
        topics = rng.dirichlet(np.full(TOPICS, MIXED_ARTICLE), self.articles)  # (articles, topics)
        liking = tastes @ topics.T  # (kinds, articles)
        order = rng.permutation(self.articles)
        live, resting = order[: self.live].copy(), order[self.live :].copy()
        rounds, first = self.block_rounds, 0
        while True:
            readers = rng.dirichlet(np.full(KINDS, MIXED_READER), rounds)  # (rounds, kinds)
            shown = self._shown(rng, live, resting, first)  # (rounds, live)
            rates = np.take_along_axis((1.0 - APPEAL) * readers @ liking + APPEAL * appeal, shown, axis=1)
            delays = self._delays(waiting)
            yield Block(self._arms(readers, topics[shown], shown), rates, rng.random(rounds), delays)
            first += rounds

    def _shown(self, rng: np.random.Generator, live: Ints, resting: Ints, first: int) -> Ints:
        """Which articles are live in each round of the block that begins at `first`; the two are changed."""
        shown = np.empty((self.block_rounds, self.live), dtype=np.int64)
        begin = 0
        for t in range(self.block_rounds):
            if (first + t) % self.swap_every == 0 and first + t > 0 and len(resting):
                shown[begin:t] = live
                begin = t
                leaves, comes = rng.integers(self.live), rng.integers(len(resting))
                live[leaves], resting[comes] = resting[comes], live[leaves]
        shown[begin:] = live
        return shown

    def _arms(self, readers: Floats, topics: Floats, shown: Ints) -> Floats:
        """Reader ⊗ topics, and the id.  readers (rounds, kinds), topics (rounds, live, topics)."""
        rounds, live = shown.shape
        arms = np.zeros((rounds, live, self.dim))
        pairs = readers[:, None, :, None] * topics[:, :, None, :]
        arms[..., : KINDS * TOPICS] = pairs.reshape(rounds, live, -1)
        if self.ids:
            np.put_along_axis(arms, KINDS * TOPICS + shown[..., None], 1.0, axis=-1)
            arms *= np.sqrt(0.5)
        return arms


def _rates(rng: np.random.Generator, *shape: int) -> Floats:
    return LOWEST + (HIGHEST - LOWEST) * rng.beta(*DULL, shape)
