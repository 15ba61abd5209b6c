"""Logs of lists: one row per list, with an entry for every position.

In a log's directory `lists-*.parquet` hold the lists in order and `list-rewards-*.parquet` their rewards,
which come by position and late. `LogWriter` writes them, `ListLog` reads them.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from linmed import validation
from linmed.decision import probabilities_of
from linmed.log.parquet import reading
from linmed.log.schema import TIME, microseconds
from linmed.validation import BadType, BadValue, Floats, Ints

WHOLE = -1
"""Stands for the position of a reward that is the whole list's."""
_NUMBERS, _ROWS = pa.list_(pa.float64()), pa.list_(pa.int64())
_COLUMNS = (
    ("decision_id", pa.string(), "The list's identifier, by which its rewards find it."),
    ("time", TIME, "When it was drawn."),
    ("policy", pa.string(), "The name of the policy that drew it."),
    ("version", pa.int64(), "How many rewards the policy had absorbed."),
    ("arms", _ROWS, "The arms by position, 0 … arm_count − 1."),
    ("arm_ids", pa.list_(pa.string()), "Their ids, where arms have them."),
    ("arm_count", pa.int64(), "K: among how many arms it was drawn."),
    ("probabilities", _NUMBERS, "Of each position given those above it."),
    ("features", pa.list_(_NUMBERS), "The features of the arms by position (m, d)."),
    ("candidates", pa.list_(_ROWS), "Which arms could stand at each position; null where all could."),
    ("offered", pa.list_(_NUMBERS), "Every arm's features (K, d). Optional."),
    ("rewards", _NUMBERS, "What came back, by position; null until it arrives."),
    ("reward", pa.float64(), "What came back for the whole list, where it is one number."),
)
LIST_SCHEMA = pa.schema([(name, kind) for name, kind, _ in _COLUMNS])
LIST_MEANING = {name: meaning for name, _, meaning in _COLUMNS}
"""What each column of LIST_SCHEMA holds."""
_WRITTEN = pa.schema([LIST_SCHEMA.field(i) for i in range(len(LIST_SCHEMA) - 2)])
_REWARDS = pa.schema(
    [("decision_id", pa.string()), ("position", pa.int64()), ("reward", pa.float64()), ("reward_time", TIME)]
)


class ListRows:
    """What a `LogWriter` holds of lists: rows that are not written yet, and lists that wait for rewards."""

    def __init__(self, path: Path):
        self.rows: dict[str, dict[str, Any]] = {}
        self.late: list[tuple[str, int, float, int]] = []
        self.waiting: dict[str, set[int]] = {}  # positions without a reward
        self.known: set[str] = set()
        for row in _joined(path).select(["decision_id", "rewards", "reward"]).to_pylist():
            self.known.add(row["decision_id"])
            missing = {place for place, reward in enumerate(row["rewards"]) if reward is None}
            if missing and row["reward"] is None:
                self.waiting[row["decision_id"]] = missing

    def __len__(self) -> int:
        return len(self.rows) + len(self.late)

    def add(self, identifier: str, row: dict[str, Any]) -> None:
        """Take a row, checked, whose id is new."""
        self.rows[identifier] = {"decision_id": identifier, **row}
        self.waiting[identifier] = set(range(len(row["arms"])))
        self.known.add(identifier)

    def remove(self, identifier: str) -> None:
        """Forget a row that could not be written."""
        del self.rows[identifier], self.waiting[identifier]
        self.known.discard(identifier)

    def reward(self, identifier: str, rewards: Mapping[int, float], time: Any) -> None:
        """Take rewards by position, each once; by `WHOLE` that of the whole list."""
        if identifier not in self.known:
            raise KeyError(f"decision_id {identifier!r} is not in the log")
        missing, moment = self.waiting.get(identifier, set()), microseconds(time)
        for place in rewards:
            if not (missing if place == WHOLE else place in missing):
                raise KeyError(f"decision_id {identifier!r} already has its reward of position {place}")
        found = [
            (identifier, place, validation.reward("rewards", value), moment)
            for place, value in rewards.items()
        ]
        self.late += found
        left = set() if WHOLE in rewards else missing - rewards.keys()
        if left:
            self.waiting[identifier] = left
        else:
            self.waiting.pop(identifier, None)

    def write(self, write: Callable[[str, pa.Table], None], stamp: Callable[[], str]) -> None:
        """Write what is held."""
        if self.rows:
            table = pa.Table.from_pylist([*self.rows.values()], schema=_WRITTEN)
            write(f"lists-{stamp()}", table)
            self.rows = {}
        if self.late:
            columns = [
                pa.array(values, field.type)
                for values, field in zip(zip(*self.late, strict=True), _REWARDS, strict=True)
            ]
            write(f"list-rewards-{stamp()}", pa.table(columns, schema=_REWARDS))
            self.late = []


def list_row(
    *,
    arms: ArrayLike,
    arm_count: int,
    log_probabilities: ArrayLike,
    features: Floats | None = None,
    offered: Floats | None = None,
    arm_ids: Sequence[Any] | None = None,
    candidates: Sequence[Ints] | None = None,
    policy: str | None = None,
    version: int | None = None,
    time: datetime | float | None = None,
) -> dict[str, Any]:
    """Check what `LogWriter.record_list` was given, and make a row of it."""
    count = validation.whole("arm_count", arm_count)
    rows = [
        validation.whole(f"arms[{i}]", arm, 0, count - 1) for i, arm in enumerate(np.asarray(arms).tolist())
    ]
    if not rows or len(set(rows)) < len(rows):
        raise BadValue("arms", f"arms must be different rows of {count}, at least one, got {rows}")
    chances = np.asarray(log_probabilities, dtype=np.float64)
    if chances.shape != (len(rows),) or not ((chances > -math.inf) & (chances <= 1e-9)).all():
        text = f"log_probabilities must be {len(rows)} finite numbers of at most 0, got {chances.tolist()}"
        raise BadValue("log_probabilities", text)
    for name, value, size in (("features", features, len(rows)), ("offered", offered, count)):
        if value is not None and (np.ndim(value) != 2 or len(value) != size):
            raise BadValue(name, f"{name} must be ({size}, d), got shape {np.shape(value)}")
    return {
        "time": microseconds(time),
        "policy": policy,
        "version": version,
        "arms": rows,
        "arm_ids": None if arm_ids is None else [*map(str, arm_ids)],
        "arm_count": count,
        "probabilities": probabilities_of(np.minimum(chances, 0.0)),
        "features": None if features is None else [*validation.floats("features", features)],
        "candidates": None if candidates is None else [*map(np.asarray, candidates)],
        "offered": None if offered is None else [*validation.floats("offered", offered)],
    }


def _joined(path: Path) -> pa.Table:
    """All lists of a directory with the rewards that came."""
    tables = []
    for file in sorted(path.glob("lists-*.parquet")):
        with reading(file):
            tables.append(pq.read_table(file, schema=_WRITTEN))
    table = pa.concat_tables(tables) if tables else _WRITTEN.empty_table()
    rewards = [[None] * len(arms) for arms in table["arms"].to_pylist()]
    whole: list[float | None] = [None] * len(rewards)
    place_of = {name: place for place, name in enumerate(table["decision_id"].to_pylist())}
    for file in sorted(path.glob("list-rewards-*.parquet")):
        with reading(file):
            late = pq.read_table(file, schema=_REWARDS)
        columns = (late[name].to_pylist() for name in ("decision_id", "position", "reward"))
        for name, position, reward in zip(*columns, strict=True):
            if name not in place_of:
                continue
            if position == WHOLE:
                whole[place_of[name]] = reward
            else:
                rewards[place_of[name]][position] = reward
    table = table.append_column("rewards", pa.array(rewards, _NUMBERS))
    return table.append_column("reward", pa.array(whole, pa.float64()))


def holds_lists(path: Any) -> bool:
    """Tell whether this is a log's directory with lists and without single decisions."""
    if not isinstance(path, (str, os.PathLike)) or not Path(path).is_dir():
        return False
    return any(Path(path).glob("lists-*.parquet")) and not any(Path(path).glob("decisions-*.parquet"))


class ListLog:
    """Lists that were shown, how probable each position was given those above it, and what they earned.

    `weights` is what the reward of each position counts, α (1 each unless given): the value of a list is
    Σ α_j y_j. `logging` is the law by which lists were drawn, as a target of `linmed.ope.evaluate`, for
    estimators that need it of lists that were not shown ("iips", "set-ips", "pseudo-inverse").

    >>> from linmed.log import ListLog
    >>> shown = {"arms": [[0, 2], [1, 0]], "probabilities": [[0.5, 0.9], [0.4, 0.7]], "arm_count": [3, 3]}
    >>> log = ListLog.from_table({**shown, "rewards": [[1.0, 0.0], [0.0, None]]}, weights=[1.0, 0.5])
    >>> log
    ListLog 'table': 2 lists of up to 2 positions
    >>> len(log), log.table()["arms"].to_pylist(), log.given(logging="uniform").logging
    (2, [[0, 2], [1, 0]], 'uniform')
    """

    def __init__(self, table: pa.Table, name: str = "lists", weights: Any = None, logging: Any = None):
        for column in ("arms", "probabilities", "arm_count"):
            if column not in table.column_names:
                raise BadValue("log", f"log must have the column {column!r}, {name} has {table.column_names}")
        if not {"rewards", "reward"} & {*table.column_names}:
            raise BadValue("log", f"log must have rewards by position or one reward, {name} has neither")
        self._table, self.name, self.logging = table, name, logging
        lengths = {len(arms) for arms in table["arms"].to_pylist()}
        self.positions = max(lengths, default=0)
        alpha = np.ones(self.positions) if weights is None else validation.floats("weights", weights)
        if alpha.shape != (self.positions,) or not (alpha >= 0.0).all() or (len(table) and not alpha.any()):
            text = f"weights must be {self.positions} numbers of at least 0, one for each position"
            raise BadValue("weights", f"{text}, got {weights!r}")
        self.weights = alpha

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, weights: Any = None, logging: Any = None) -> Self:
        """Read the lists that a `LogWriter` wrote into a directory."""
        place = Path(path)
        if not any(place.glob("lists-*.parquet")):
            raise BadValue("path", f"the log at {place} holds no lists")
        return cls(_joined(place), str(place), weights, logging)

    @classmethod
    def from_table(cls, table: Any, *, weights: Any = None, logging: Any = None) -> Self:
        """Read a pyarrow table or a dictionary of lists, with the columns of `linmed.log.LIST_SCHEMA`."""
        if isinstance(table, Mapping):
            kinds = {field.name: field.type for field in LIST_SCHEMA}
            table = pa.table({name: pa.array(values, kinds.get(name)) for name, values in table.items()})
        if not isinstance(table, pa.Table):
            raise BadType(
                "table", f"table must be a pyarrow table or a dictionary, got {type(table).__name__}"
            )
        return cls(table, "table", weights, logging)

    def given(self, *, weights: Any = None, logging: Any = None) -> "ListLog":
        """The same lists with other `weights` or another `logging` law."""
        alpha = self.weights if weights is None else weights
        return ListLog(self._table, self.name, alpha, self.logging if logging is None else logging)

    def table(self) -> pa.Table:
        """The lists as a table."""
        return self._table

    def to_obp(self) -> dict[str, Any]:
        """Make the Open Bandit Pipeline's dictionary of slate feedback: a row for every position of a list.

        >>> from linmed.log import ListLog
        >>> shown = {"arms": [[0, 2]], "probabilities": [[0.5, 0.9]], "arm_count": [3]}
        >>> found = ListLog.from_table({**shown, "rewards": [[1.0, 0.0]]}).to_obp()
        >>> found["slate_id"], found["position"], found["pscore_cascade"], found["pscore"]
        (array([0, 0]), array([0, 1]), array([0.5 , 0.45]), array([0.45, 0.45]))
        """
        own = self._table
        if "rewards" not in own.column_names:
            raise BadValue("log", f"log must have rewards by position, {self.name} has one for each list")
        chances = [np.array(p) for p in own["probabilities"].to_pylist()]
        sizes = [len(p) for p in chances]
        rewards = [[math.nan if r is None else r for r in row] for row in own["rewards"].to_pylist()]
        return {
            "n_rounds": len(chances),
            "n_unique_action": max(own["arm_count"].to_pylist(), default=0),
            "slate_id": np.repeat(np.arange(len(chances)), sizes),
            "position": np.concatenate([np.arange(size) for size in sizes]),
            "action": np.concatenate([np.array(arms) for arms in own["arms"].to_pylist()]),
            "reward": np.concatenate([np.array(row) for row in rewards]),
            "pscore_cascade": np.concatenate([np.cumprod(p) for p in chances]),
            "pscore": np.concatenate([np.full(len(p), np.prod(p)) for p in chances]),
            "pscore_item_position": None,
        }

    def __len__(self) -> int:
        """Count the lists."""
        return int(self._table.num_rows)

    def __repr__(self) -> str:
        return f"ListLog {self.name!r}: {len(self):,} lists of up to {self.positions} positions"
