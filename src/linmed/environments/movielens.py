"""Recommending films: the MovieLens 100K features as a linear bandit, and how to get the data.

F. M. Harper and J. A. Konstan, The MovieLens Datasets: History and Context, ACM TiiS 5(4), 2015.
The data may not be redistributed: `download` fetches it from its publisher, GroupLens.
"""

import hashlib
import io
import re
import urllib.request
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from linmed import validation
from linmed.environments.base import Block, on_sphere
from linmed.environments.noise import NoisyEnvironment
from linmed.environments.reduction import digest, principal_components, unit_interval
from linmed.streams import stream
from linmed.validation import Floats

URL = "https://files.grouplens.org/datasets/movielens/ml-100k.zip"
MOVIES, USERS, GENRES, OCCUPATIONS = 1682, 943, 19, 21
"""Sizes of ml-100k; the generated tables have the same."""


@dataclass(frozen=True)
class MovieLens(NoisyEnvironment):
    """K films drawn once a trial, a random user a round, arm = film ⊗ user (d = 4), random unit θ*.

    Films (19 genre flags) and users (age, gender, occupation, zip code) are each standardised, reduced
    to 2 principal components and scaled to [0, 1]; arms are scaled so that the largest norm is 1.

    >>> problem = MovieLens(arms=10)
    >>> problem.name, next(problem.blocks(np.random.default_rng(0))).arms.shape[1:]
    ('MovieLens(generated, arms=10, sigma=1.0)', (10, 4))
    """

    path: str | Path | None = field(default=None, compare=False)
    """An `ml-100k` directory; None generates tables of the same shape (`source` says which)."""
    arms: int = 10
    """K."""
    sigma: float = 1.0
    """σ*: the true noise level."""

    source: str = field(default="", init=False, repr=False)
    """"ml-100k" or "generated"."""
    digest: str = field(default="", init=False, repr=False)
    _films: Floats = field(init=False, repr=False, compare=False)  # (films, 2)
    _users: Floats = field(init=False, repr=False, compare=False)  # (users, 2)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_means(-1.0, 1.0)  # θ* is a random unit vector
        films, users = generated() if self.path is None else _read(Path(self.path))
        self._set("arms", validation.whole("arms", self.arms))
        if self.arms > len(films):
            raise ValueError(f"arms must be at most {len(films)}, the number of films, got {self.arms}")
        if self.path is not None:
            self._set("path", str(self.path))
        # Of the tables as they came: the components' last digits depend on the processor.
        self._set("digest", digest(films, users))
        films = unit_interval(principal_components(films, 2))
        users = unit_interval(principal_components(users, 2))
        # ‖film ⊗ user‖ = ‖film‖ ‖user‖, so scaling each side to norm ≤ 1 scales the arms.
        self._set("_films", films / np.linalg.norm(films, axis=1).max())
        self._set("_users", users / np.linalg.norm(users, axis=1).max())
        self._set("source", "generated" if self.path is None else "ml-100k")

    @property
    def block_rounds(self) -> int:  # type: ignore[override]
        """Shorter blocks for more films, so that the arms of many trials fit into memory."""
        return max(1, min(1024, (1 << 16) // (4 * self.arms)))

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """θ* and the films first, then users and noise."""
        theta = on_sphere(rng, 4)
        films = self._films[rng.choice(len(self._films), size=self.arms, replace=False)]
        while True:
            users = self._users[rng.integers(len(self._users), size=self.block_rounds)]
            arms = np.einsum("ki,tj->tkij", films, users).reshape(self.block_rounds, self.arms, 4)
            yield Block(arms, arms @ theta, self._noise(rng))

    @property
    def name(self) -> str:
        """Whether the features are real, then the parameters."""
        return f"MovieLens({self.source}, arms={self.arms}, sigma={self.sigma})"

    def identity(self) -> dict[str, Any]:
        """The digest of the tables instead of the path."""
        return {**self.to_dict(), "path": f"sha256:{self.digest}"}


def _read(directory: Path) -> tuple[Floats, Floats]:
    """Raw features of the films (films, 19) and the users (users, 4)."""
    flags = read_genres(directory)
    users = read_rows(directory, "u.user", 5)
    ages = numbers(directory, [[row[1]] for row in users])
    codes = [np.unique([row[column] for row in users], return_inverse=True)[1] for column in (2, 3, 4)]
    return flags, np.column_stack([ages, *codes])


def read_genres(directory: Path) -> Floats:
    """The genre flags of every film (films, 19)."""
    return numbers(directory, [row[5:] for row in read_rows(directory, "u.item", 5 + GENRES)])


def read_rows(directory: Path, name: str, width: int) -> list[list[str]]:
    """The fields of every line of a file of ml-100k; each must have so many."""
    rows = [line.split("|") for line in read_lines(directory, name)]
    for number, row in enumerate(rows, start=1):
        if len(row) != width:
            raise ValueError(
                f"{directory / name}, line {number}: {len(row)} fields separated by '|', expected {width}"
            )
    return rows


def numbers(directory: Path, fields: list[list[str]]) -> Floats:
    """Genre flags or ages as an array."""
    try:
        return np.array(fields, dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"{directory} holds a genre flag or an age that is no number: {error}") from None


def read_lines(directory: Path, name: str) -> list[str]:
    """The lines of a file of ml-100k, without empty ones."""
    try:
        text = (directory / name).read_text(encoding="latin-1")
    except OSError as error:
        raise FileNotFoundError(
            f"{directory / name} cannot be read ({error.strerror}); path must be an unpacked "
            "ml-100k directory: `linmed data movielens` downloads one"
        ) from None
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 3:
        raise ValueError(f"{directory / name} holds {len(lines)} rows; it is not the ml-100k file")
    return lines


def generated() -> tuple[Floats, Floats]:
    """Tables of the real ones' shape from a fixed stream: rare and common genres, ages around 34."""
    rng = stream(100_000, "data")
    films = (rng.random((MOVIES, GENRES)) < rng.beta(1.0, 8.0, GENRES)).astype(np.float64)
    ages = np.clip(np.round(rng.normal(34.0, 12.0, USERS)), 7, 73)
    genders = rng.random(USERS) < 0.7
    occupations = rng.integers(OCCUPATIONS, size=USERS)
    zip_codes = rng.permutation(USERS)
    return films, np.column_stack([ages, genders, occupations, zip_codes]).astype(np.float64)


def download(directory: str | Path, url: str = URL) -> Path:
    """Fetch ml-100k from its publisher, check it against the MD5 file beside it, unpack it.

    Returns the directory to give to `MovieLens(path=...)`. Nothing is left behind when a check fails.
    """
    target = Path(directory)
    final = target / "ml-100k"
    if final.exists():
        _read(final)  # already here: say so only if it can be used
        return final
    published = _fetch(url + ".md5").decode("ascii", "replace")
    expected = re.search(r"\b[0-9a-f]{32}\b", published)
    if expected is None:
        raise ValueError(f"{url}.md5 holds no MD5 sum: {published[:80]!r}")
    archive = _fetch(url)
    received = hashlib.md5(archive, usedforsecurity=False).hexdigest()
    if received != expected.group():
        raise ValueError(f"{url} has MD5 {received}, its publisher states {expected.group()}: try again")
    partial = target / "ml-100k.part"
    partial.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        for info in files.infolist():
            name = Path(info.filename).name  # flat: no path from the archive is followed
            if not info.is_dir() and Path(info.filename).parts[:1] == ("ml-100k",):
                (partial / name).write_bytes(files.read(info))
    _read(partial)
    partial.rename(final)
    return final


def _fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as response:
        data: bytes = response.read()
    return data
