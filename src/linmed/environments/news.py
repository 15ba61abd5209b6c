"""Articles for readers: clicks are rare, known late, and the articles come and go."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from linmed import validation
from linmed.environments.base import Block
from linmed.environments.click_rewards import ClickEnvironment
from linmed.validation import Floats, Ints

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
        for name in ("live", "articles", "swap_every"):
            self._set(name, validation.whole(name, getattr(self, name)))
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
        return max(1, min(1024, (1 << 18) // (self.live * self.dim)))

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
