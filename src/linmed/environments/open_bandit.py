"""A click simulator from the Open Bandit Dataset's item statistics, and what of it is data.

Y. Saito, S. Aihara, M. Matsutani and Y. Narita, Open Bandit Dataset and Pipeline: Towards Realistic and
Reproducible Off-policy Evaluation, NeurIPS Datasets and Benchmarks 2021. The dataset (ZOZO, Inc., CC BY 4.0)
is not shipped; `path` says where it is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from linmed import validation
from linmed.environments.base import Block
from linmed.environments.click_rewards import ClickEnvironment
from linmed.environments.logistic import expit, logit, root
from linmed.environments.reduction import digest
from linmed.extras import require
from linmed.validation import Floats, Ints

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

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.text("campaign", self.campaign)
        if self.rate is not None:
            self._set("rate", validation.strictly_between("rate", self.rate, 0.0, 1.0))
        self._set("shrink", validation.positive("shrink", self.shrink))
        self._set("taste", validation.between("taste", self.taste, 0.0, 10.0))
        self._set("path", str(self.path))
        counts, kinds, users = _read(Path(self.path), self.campaign)
        self._set("_counts", counts)
        self._set("_kinds", kinds)
        self._set("_users", users)
        self._set("digest", digest(counts, kinds, users))

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
        return max(1, min(1024, (1 << 18) // (self.arms * self.dim)))

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

    def identity(self) -> dict[str, Any]:
        """The digest of what was read instead of the path."""
        return {**self.to_dict(), "path": f"sha256:{self.digest}"}


def _read(folder: Path, campaign: str) -> tuple[Floats, Floats, Ints]:
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
