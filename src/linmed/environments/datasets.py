"""Make problems of real data: classification, MovieLens' films, the Open Bandit Dataset's items.

F. M. Harper and J. A. Konstan, The MovieLens Datasets: History and Context, ACM TiiS 5(4), 2015. The data may
not be redistributed: `download` fetches it from its publisher, GroupLens.

Y. Saito, S. Aihara, M. Matsutani and Y. Narita, Open Bandit Dataset and Pipeline: Towards Realistic and
Reproducible Off-policy Evaluation, NeurIPS Datasets and Benchmarks 2021. The dataset (ZOZO, Inc., CC BY 4.0)
is not shipped.
"""

import hashlib
import io
import re
import urllib.request
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linmed import validation
from linmed.environments.base import Block, Environment, on_sphere
from linmed.environments.rewards import ClickEnvironment, NoisyEnvironment, expit, logit, root
from linmed.extras import require
from linmed.streams import stream
from linmed.validation import Floats, Ints


def standardised(table: Floats) -> Floats:
    """Columns with mean 0 and standard deviation 1; constant columns become 0.  (n, p) → (n, p)."""
    centred: Floats = table - table.mean(axis=0)
    spread = centred.std(axis=0)
    centred /= np.where(spread > 0.0, spread, 1.0)
    return centred


def principal_components(table: Floats, components: int) -> Floats:
    """Scores on the first principal components of the standardised columns.  (n, p) → (n, components).

    Every component points where its largest loading is positive, so the scores are unique.
    """
    centred = standardised(table)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes[:components]
    largest = np.argmax(np.abs(axes), axis=1)
    axes = axes * np.sign(axes[np.arange(len(axes)), largest])[:, None]
    scores: Floats = centred @ axes.T
    return scores


def unit_interval(table: Floats) -> Floats:
    """Columns scaled to [0, 1].  (n, p) → (n, p)."""
    low = table.min(axis=0)
    span = table.max(axis=0) - low
    scaled: Floats = (table - low) / np.where(span > 0.0, span, 1.0)
    return scaled


def digest(*arrays: NDArray[np.generic]) -> str:
    """A fingerprint of the arrays' values, shapes and types."""
    sha = hashlib.sha256()
    for array in arrays:
        sha.update(f"{array.dtype.str}{array.shape}".encode())
        sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()


@dataclass(frozen=True)
class Classification(Environment):
    """A random row x of X a round; arm k is x in the k-th of K slots (d = K·p), reward 1{k = y}.

    The slots give every class its own linear model. It is only an approximation to 1{k = y}, so this
    problem shows policies on data that no linear model fits. Regret counts the mistakes.

    >>> rows, labels = [[0.0, 1.0], [1.0, 0.0], [0.9, 0.1]], ["cat", "dog", "dog"]
    >>> problem = Classification((rows, labels), components=None)
    >>> block = next(problem.blocks(np.random.default_rng(0)))
    >>> problem.dim, block.arms.shape[1:], sorted(set(block.means.sum(axis=1).tolist()))
    (6, (2, 6), [1.0])
    """

    data: str | tuple[ArrayLike, ArrayLike] = field(default="digits", compare=False)
    """(X, y) with X (n, features) and y (n,) of any labels, or "digits": 8×8 images of handwritten
    digits, 1,797 rows, from scikit-learn."""
    components: int | None = 8
    """Principal components kept (p is one more: a constant); None keeps all features."""

    label: str = field(default="", init=False, repr=False)
    digest: str = field(default="", init=False, repr=False)
    _rows: Floats = field(init=False, repr=False, compare=False)  # (n, p), norms at most 1
    _labels: Ints = field(init=False, repr=False, compare=False)  # (n,)
    _classes: int = field(init=False, repr=False, compare=False)

    _read_from: ClassVar[str] = "data"

    def __post_init__(self) -> None:
        if isinstance(self.data, str):
            validation.option("data", self.data, ("digits",))
        X, y, label = _digits() if isinstance(self.data, str) else _given(self.data)
        classes, labels = np.unique(y, return_inverse=True)
        # Of the data as they came: the components' last digits depend on the processor.
        self._set(digest=digest(X, labels))
        if self.components is not None:
            self._set(components=min(validation.whole("components", self.components), X.shape[1]))
            X = principal_components(X, self.components)
        rows = np.hstack([np.ones((len(X), 1)), X / max(np.abs(X).max(), 1e-300)])
        rows /= np.linalg.norm(rows, axis=1).max()
        if len(classes) < 2:
            raise ValueError(f"y must have at least two classes, got {len(classes)}")
        self._set(label=label, _rows=rows, _labels=labels.astype(np.int64), _classes=len(classes))

    @property
    def block_rounds(self) -> int:  # type: ignore[override]
        """Shorter blocks for more features."""
        return self._fitting(self._classes * self.dim, 1 << 16)

    @property
    def dim(self) -> int:
        """d = K·p."""
        return self._classes * int(self._rows.shape[1])

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """Rows drawn with replacement."""
        rounds, K, p = self.block_rounds, self._classes, self._rows.shape[1]
        while True:
            row = rng.integers(len(self._rows), size=rounds)
            arms = np.zeros((rounds, K, K, p))
            arms[:, np.arange(K), np.arange(K)] = self._rows[row, None]
            means = np.zeros((rounds, K))
            means[np.arange(rounds), self._labels[row]] = 1.0
            yield Block(arms.reshape(rounds, K, K * p), means, np.zeros(rounds))

    @property
    def name(self) -> str:
        """Which data, and how many components."""
        return f"Classification({self.label}, components={self.components})"

    def to_dict(self) -> dict[str, Any]:
        """Built-in data by name; data of one's own cannot be made again from its digest."""
        data = self.data if isinstance(self.data, str) else f"sha256:{self.digest}"
        return {"environment": "Classification", "data": data, "components": self.components}


def _given(data: Any) -> tuple[Floats, Any, str]:
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise TypeError(f"data must be 'digits' or a pair (X, y), got {type(data).__name__}")
    X = validation.floats("X", data[0])
    y = np.asarray(data[1])
    if X.ndim != 2 or X.size == 0:
        raise ValueError(f"X must have shape (rows, features) with at least one of each, got {X.shape}")
    if y.shape != (len(X),):
        raise ValueError(f"y must have one label for each of the {len(X)} rows of X, got shape {y.shape}")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError("y has labels that are not finite")
    return X, y, f"{len(X)} rows"


def _digits() -> tuple[Floats, Any, str]:
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "Classification('digits') reads the data from scikit-learn: pip install 'linmed[data]'"
        ) from None
    X, y = load_digits(return_X_y=True)
    return validation.floats("X", X), y, "digits"


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

    _read_from: ClassVar[str] = "path"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_means(-1.0, 1.0)  # θ* is a random unit vector
        films, users = generated() if self.path is None else _read(Path(self.path))
        self._check_whole(arms=1)
        if self.arms > len(films):
            raise ValueError(f"arms must be at most {len(films)}, the number of films, got {self.arms}")
        if self.path is not None:
            self._set(path=str(self.path))
        # Of the tables as they came: the components' last digits depend on the processor.
        self._set(digest=digest(films, users), source="generated" if self.path is None else "ml-100k")
        films = unit_interval(principal_components(films, 2))
        users = unit_interval(principal_components(users, 2))
        # ‖film ⊗ user‖ = ‖film‖ ‖user‖, so scaling each side to norm ≤ 1 scales the arms.
        self._set(_films=films / np.linalg.norm(films, axis=1).max())
        self._set(_users=users / np.linalg.norm(users, axis=1).max())

    @property
    def block_rounds(self) -> int:  # type: ignore[override]
        """Shorter blocks for more films, so that the arms of many trials fit into memory."""
        return self._fitting(4 * self.arms, 1 << 16)

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


LOGS = ("random", "bts")
"""The dataset's folders, one for each policy that logged."""
ATTRIBUTES = tuple(f"user_feature_{i}" for i in range(4))
CATEGORY = "item_feature_3"
"""The coarsest of the items' categories, of which there are few enough to be crossed with users."""


@dataclass(frozen=True)
class OpenBanditClicks(ClickEnvironment):
    """A user a round, for whom one of a campaign's items is chosen; reward 1 for a click.

    Data: the items, their categories, how often each was shown and clicked, and the users, who are drawn
    from the log with all their attributes. Model: a trial's click rate of item i is drawn from
    Beta(s·m + clicks, s·(1 − m) + shows − clicks), where m is the overall rate and s = `shrink`, so trials
    differ as far as the counts leave them free; and the log-odds of user u and item i are those of that rate
    plus `taste`·⟨attributes of u, W of i's category⟩, W standard normal in every trial, because a log with
    a hundred clicks says nothing about who likes what. Positions are left out.

    An arm is (id, user ⊗ category, 1) with parts of norm 1, divided by √3: the log-odds are linear in it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     home = Path(folder, "random", "men")
    ...     home.mkdir(parents=True)
    ...     items = (home / "item_context.csv").write_text("item_id,item_feature_3\\n0,coat\\n1,hat\\n")
    ...     names = "item_id,click,user_feature_0,user_feature_1,user_feature_2,user_feature_3"
    ...     users = (home / "men.csv").write_text(f"{names}\\n0,0,a,b,c,d\\n1,1,a,b,c,e\\n0,0,a,b,c,e\\n")
    ...     problem = OpenBanditClicks(folder)
    >>> problem.arms, problem.dim, round(problem.overall, 3)
    (2, 13, 0.333)
    """

    path: str | Path = field(compare=False)
    """The dataset's folder, which holds `random/<campaign>/<campaign>.csv`, that of `bts`, or both."""
    campaign: str = "men"
    rate: float | None = None
    """Mean click rate of the items, to which all log-odds are shifted; None leaves them as in the log."""
    shrink: float = 300.0
    """s: every item is lent so many shows at the overall rate."""
    taste: float = 0.5
    """Standard deviation of the users' own log-odds; 0: all like the same."""
    clicks_after: int = 50
    """Rounds until a click is known, in the mean of a geometric law."""
    timeout: int = 0
    """Rounds after which no click is a non-click, and clicks are known at the latest; 0: all at once."""

    digest: str = field(default="", init=False, repr=False)
    _counts: Floats = field(init=False, repr=False, compare=False)  # (items, 2) shows and clicks
    _kinds: Floats = field(init=False, repr=False, compare=False)  # (items, categories) one-hot
    _users: Ints = field(init=False, repr=False, compare=False)  # (rows, attributes) columns of each user

    _read_from: ClassVar[str] = "path"

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.text("campaign", self.campaign)
        if self.rate is not None:
            self._set(rate=validation.strictly_between("rate", self.rate, 0.0, 1.0))
        self._set(
            shrink=validation.positive("shrink", self.shrink),
            taste=validation.between("taste", self.taste, 0.0, 10.0),
            path=str(self.path),
        )
        counts, kinds, users = _read_campaign(Path(self.path), self.campaign)
        self._set(_counts=counts, _kinds=kinds, _users=users, digest=digest(counts, kinds, users))

    @property
    def arms(self) -> int:
        """K: the campaign's items."""
        return len(self._counts)

    @property
    def dim(self) -> int:
        """d."""
        return self.arms + self._levels * len(self._kinds[0]) + 1

    @property
    def block_rounds(self) -> int:  # type: ignore[override]
        """Two megabytes of arms."""
        return self._fitting(self.arms * self.dim)

    @cached_property
    def overall(self) -> float:
        """m: clicks per show in the log."""
        shows, clicks = self._counts.sum(axis=0)
        return float(clicks / shows)

    @property
    def _levels(self) -> int:
        """Of all attributes together."""
        return int(self._users.max()) + 1

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """Rates and tastes first; then users and clicks."""
        (waiting,) = rng.spawn(1)
        scores = self._item_scores(rng)
        share = 1.0 / np.sqrt(len(ATTRIBUTES))  # so that a user's attributes have norm 1
        tastes = self.taste * rng.standard_normal((self._levels, self._kinds.shape[1])) @ self._kinds.T
        while True:
            users = self._users[rng.integers(len(self._users), size=self.block_rounds)]
            rates: Floats = expit(scores + share * tastes[users].sum(axis=1))
            yield Block(self._arms(users, share), rates, rng.random(self.block_rounds), self._delays(waiting))

    def _item_scores(self, rng: np.random.Generator) -> Floats:
        """Log-odds of every item's click rate in a trial (items,)."""
        shows, clicks = self._counts.T
        lent = self.shrink * np.array([self.overall, 1.0 - self.overall])
        # A gamma this small may underflow to a rate of 0, whose log-odds are no number.
        rates = np.maximum(rng.beta(lent[0] + clicks, lent[1] + shows - clicks), 1e-12)
        scores: Floats = logit(rates)
        if self.rate is None:
            return scores
        wanted = self.rate
        return scores + root(lambda c: float(expit(scores + c).mean()) - wanted, -100.0, 100.0)

    def _arms(self, users: Ints, share: float) -> Floats:
        """(rounds, items, d).  users (rounds, attributes)."""
        rounds, items = len(users), self.arms
        attributes = np.zeros((rounds, self._levels))
        np.put_along_axis(attributes, users, share, axis=1)
        arms = np.empty((rounds, items, self.dim))
        arms[..., :items] = np.eye(items)
        crossed = attributes[:, None, :, None] * self._kinds[:, None, :]
        arms[..., items:-1] = crossed.reshape(rounds, items, -1)
        arms[..., -1] = 1.0
        arms /= np.sqrt(3.0)
        return arms

    @property
    def name(self) -> str:
        """Without the path."""
        rate = "" if self.rate is None else f", rate={self.rate:g}"
        return f"OpenBanditClicks({self.campaign}, {self.arms} items, taste={self.taste:g}{rate})"


def _read_campaign(folder: Path, campaign: str) -> tuple[Floats, Floats, Ints]:
    """Shows and clicks of every item, its category as a one-hot row, and the users' attributes as columns."""
    files = [folder / log / campaign / f"{campaign}.csv" for log in LOGS]
    there = [file for file in files if file.is_file()]
    if not there:
        raise FileNotFoundError(
            f"path must be a folder of the Open Bandit Dataset with {' or '.join(map(str, files))}, and "
            "there is neither; the dataset is at https://research.zozo.com/data.html"
        )
    items = _columns(there[0].parent / "item_context.csv", ["item_id", CATEGORY])
    count = len(items["item_id"])
    if sorted(items["item_id"]) != list(range(count)):
        raise ValueError(f"{there[0].parent / 'item_context.csv'}: item_id must count the items from 0")
    kinds = np.eye(len(set(items[CATEGORY])))[_codes(items[CATEGORY])][np.argsort(items["item_id"])]
    logs = [_columns(file, ["item_id", "click", *ATTRIBUTES]) for file in there]
    shown = np.concatenate([np.asarray(log["item_id"], dtype=np.int64) for log in logs])
    clicked = np.concatenate([np.asarray(log["click"], dtype=np.float64) for log in logs])
    if shown.size == 0 or shown.min() < 0 or shown.max() >= count or not np.isin(clicked, (0.0, 1.0)).all():
        raise ValueError(
            f"{there[0]}: every row must have an item_id below {count} and a click of 0 or 1, and there must "
            "be one"
        )
    counts = np.stack([np.bincount(shown, minlength=count), np.bincount(shown, clicked, count)], axis=1)
    if not 0.0 < counts[:, 1].sum() < counts[:, 0].sum():
        raise ValueError(f"{there[0]}: a rate needs clicks and non-clicks, and the log has only one of them")
    columns, levels = [], 0
    for name in ATTRIBUTES:
        codes = _codes([value for log in logs for value in log[name]])
        columns.append(codes + levels)
        levels += int(codes.max()) + 1
    return counts.astype(np.float64), kinds, np.stack(columns, axis=1)


def _columns(file: Path, names: list[str]) -> dict[str, list[Any]]:
    require("OpenBanditClicks", "log")
    import pyarrow as pa
    import pyarrow.csv as pv

    try:
        table = pv.read_csv(
            file,
            pv.ReadOptions(use_threads=False),
            convert_options=pv.ConvertOptions(include_columns=names),
        )
    except (OSError, pa.ArrowException) as error:
        raise ValueError(
            f"{file} cannot be read as a file of the Open Bandit Dataset with the columns "
            f"{', '.join(names)}: {error}"
        ) from None
    read: dict[str, list[Any]] = table.to_pydict()
    return read


def _codes(values: list[Any]) -> Ints:
    """Every value as its place among the sorted ones."""
    return np.unique(np.asarray(values, dtype=str), return_inverse=True)[1].astype(np.int64)
