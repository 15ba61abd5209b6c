"""The films and users of the delay experiment in the authors' public code."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from linmed.environments.base import Block
from linmed.environments.datasets import (
    digest,
    generated,
    principal_components,
    read_genres,
    read_lines,
    read_rows,
    unit_interval,
)
from linmed.environments.rewards import NoisyEnvironment
from linmed.validation import Floats

SEED = 15751
"""Of the one draw that all trials share."""
DRAWN = 10
"""Users, and films."""
GENDERS = {"M": 1, "F": 2}


@dataclass(frozen=True)
class FilmsAsRun(NoisyEnvironment):
    """Ten users, ten films and θ*, drawn once for all trials; a user a round; arm = film ⊗ user (d = 4).

    Users (age, gender, occupation, sum of the zip code's characters) and films (19 genre flags) are reduced
    to 2 principal components among the ten and scaled to [0, 1]. In every round the arms are divided by the
    *smallest* of their norms, so none is shorter than 1. One round later the next user's arms, not divided by
    anything, stand in their place.
    """

    path: str | Path | None = field(default=None, compare=False)
    """An `ml-100k` directory; None takes generated tables of the same shape."""
    sigma: float = 1.0
    """σ*: the true noise level."""

    source: str = field(default="", init=False, repr=False)
    """"ml-100k" or "generated"."""
    digest: str = field(default="", init=False, repr=False)
    theta: Floats = field(init=False, repr=False, compare=False)
    """θ* (4,)."""
    raw: Floats = field(init=False, repr=False, compare=False)
    """film ⊗ user by user and film (10, 10, 4)."""
    _read_from: ClassVar[str] = "path"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.path is not None:
            self._set(path=str(self.path))
        films, users = generated() if self.path is None else _read(Path(self.path))
        if min(len(films), len(users)) < DRAWN:
            raise ValueError(
                f"{self.path} has {len(films)} films and {len(users)} users; {DRAWN} of each are drawn"
            )
        rng = np.random.RandomState(SEED)  # the draw itself is part of what was run
        some_users = users[rng.choice(len(users), DRAWN, replace=False)]
        some_films = films[rng.choice(len(films), DRAWN, replace=False)]
        theta = rng.normal(0.0, 1.0, 4)
        films_2d = unit_interval(principal_components(some_films, 2))
        users_2d = unit_interval(principal_components(some_users, 2))
        raw = np.einsum("ki,uj->ukij", films_2d, users_2d).reshape(DRAWN, DRAWN, 4)
        if not np.linalg.norm(raw, axis=2).all():
            raise ValueError(
                "a film or user among the ten has no features left: its arms would be divided by 0"
            )
        self._set(source="generated" if self.path is None else "ml-100k", digest=digest(films, users))
        self._set(theta=theta / np.linalg.norm(theta), raw=raw)
        self._valid(self.scaled @ self.theta)

    @property
    def scaled(self) -> Floats:
        """The arms that each user is offered, of norm 1 and more (10, 10, 4)."""
        divided: Floats = self.raw / np.linalg.norm(self.raw, axis=2).min(axis=1)[:, None, None]
        return divided

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """A user for every round, known one round ahead because of what becomes of the arms; and noise."""
        scaled, means = self.scaled, self.scaled @ self.theta
        following = rng.integers(DRAWN, size=1)
        while True:
            users = np.concatenate([following, rng.integers(DRAWN, size=self.block_rounds)])
            now, later, following = users[:-1], users[1:], users[-1:]
            yield Block(scaled[now], means[now], self._noise(rng), overwritten=self.raw[later])

    @property
    def name(self) -> str:
        """Whether the features are real, then the parameters."""
        return f"FilmsAsRun({self.source}, sigma={self.sigma})"


def _read(directory: Path) -> tuple[Floats, Floats]:
    """Raw features of the films (films, 19) and the users (users, 4) as the public code reads them."""
    films = read_genres(directory)[:, ::-1]
    people = read_rows(directory, "u.user", 5)
    line_of = {name.strip(): number for number, name in enumerate(read_lines(directory, "u.occupation"))}
    try:
        # The line break belongs to the zip code.
        users = [
            [float(age), GENDERS[gender], line_of[occupation], sum(map(ord, f"{zip_code}\n"))]
            for _, age, gender, occupation, zip_code in people
        ]
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"{directory / 'u.user'} holds an age, gender or occupation that is none: {error}"
        ) from None
    return films, np.array(users, dtype=np.float64)
