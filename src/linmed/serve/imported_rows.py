"""The rows of somebody's decision log as rows of the service's, checked one by one.

Wrong rows are named with their number and the log is not imported: what the service has in its log it
promises to be true, and an evaluation would refuse them later, for good.
"""

import math
import secrets
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from linmed.log import ENTRY_ERROR, SCHEMA, SUM_ERROR, DecisionLog
from linmed.log.schema import TIME
from linmed.ope.log_facts import begins_with
from linmed.serve.database import decisions, now
from linmed.serve.numbers import blob
from linmed.serve.settings import LARGEST
from linmed.validation import Floats, Ints

ROWS = 500
"""Decisions that are converted at once."""
AHEAD = 3_600_000_000
"""Microseconds by which a clock elsewhere may be ahead of ours."""
MOST_POLICIES = 1000
UNKNOWN_ARM = -1
"""For the arm with the largest estimate, which no log tells."""
BLANK: dict[str, Any] = {column.name: None for column in decisions.c if column.name != "number"}
"""A decision of which nothing is known."""
_TEXTS = {"decision_id": 64, "arm_id": 200, "policy": 500}
"""Columns of text, and how long the service takes them."""


class LogRows:
    """What a pass over a log finds: rows to be written, and beside them the rewards and the policies."""

    def __init__(self, log: DecisionLog):
        self.log = log
        told = begins_with(log, "features") or "arms" not in log.columns
        self._played_by = "features" if told else "arms"
        log.require([self._played_by], "a bandit that goes on with a log")
        self.count = 0
        self.policies: dict[str, int] = {}
        """The names of the log's policies, with their versions from 1, by their first decision."""
        self.rewards: list[tuple[int, int, float]] = []
        """(time, number of the decision, reward)."""
        self._moment = now()
        self.dim = self._dim()

    def _dim(self) -> int:
        first = next(self.log.batches([self._played_by], 1), None)
        if first is None or not first.num_rows:
            raise ValueError(f"{self.log.name} is empty: it holds no decisions")
        lists = first.column(0)
        if not pa.types.is_list(lists.type) and not pa.types.is_large_list(lists.type):
            raise ValueError(
                f"{self.log.name}: {self._played_by} must hold lists of numbers, got {lists.type}"
            )
        value = lists[0]
        if self._played_by == "arms" and value.is_valid and len(value.values):
            value = value.values[0]
        if not value.is_valid or len(value.values) == 0:
            raise self._wrong(0, f"{self._played_by} must be given", "none")
        return len(value.values)

    def read(self, bandit: int) -> Iterator[list[dict[str, Any]]]:
        """Rows for the log of this bandit, in the log's order."""
        used = [name for name in SCHEMA.names if name in self.log.columns]
        absent = dict.fromkeys(SCHEMA.names)
        for batch in self.log.batches(used, ROWS):
            columns = [self._values(name, batch.column(name)) for name in used]
            yield [
                {**self._row({**absent, **dict(zip(used, row, strict=True))}), "bandit": bandit}
                for row in zip(*columns, strict=True)
            ]

    def _values(self, name: str, column: pa.Array) -> list[Any]:
        """A column in Python, lists of numbers as arrays (m,), arms as (K,d)."""
        if name in ("time", "reward_time"):
            column = column.cast(TIME).cast(pa.int64())
        if name not in ("features", "probabilities", "arms"):
            values: list[Any] = column.to_pylist()
            return values
        lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        flat = column.flatten()
        if name == "arms":
            widths = flat.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
            self._all(name, lengths, widths == self.dim, f"must have dimension {self.dim}")
            flat, lengths = flat.flatten(), lengths * self.dim
        numbers = np.asarray(flat.to_numpy(zero_copy_only=False), dtype=np.float64)
        within = np.abs(numbers) <= LARGEST
        self._all(name, lengths, within, f"must be finite and at most {LARGEST:g} in size")
        pieces = np.split(numbers, np.cumsum(lengths)[:-1])
        if name == "arms":
            pieces = [piece.reshape(-1, self.dim) for piece in pieces]
        present = column.is_valid().to_pylist()
        return [piece if there else None for piece, there in zip(pieces, present, strict=True)]

    def _all(self, name: str, lengths: Ints, right: NDArray[np.bool_], rule: str) -> None:
        """Refuse the first row with an entry that is not right.  lengths (n,), right (Σ lengths,)."""
        if not right.all():
            row = self.count + int(np.repeat(np.arange(lengths.size), lengths)[np.argmin(right)])
            raise self._wrong(row, f"{name} {rule}", "others")

    def _row(self, given: dict[str, Any]) -> dict[str, Any]:
        row, self.count = self.count, self.count + 1
        texts = {name: self._text(row, name, given[name]) for name in _TEXTS}
        arm, arms, every = given["arm"], given["arms"], given["probabilities"]
        count = next((len(one) for one in (arms, every) if one is not None), given["arm_count"])
        placed = arms is None and every is None and texts["arm_id"] is not None  # an item's place
        if arm is None or arm < 0 or (count is not None and arm >= count and not placed):
            raise self._wrong(row, "arm must be the index of one of its arms", arm)
        if given["arm_count"] not in (None, count) or (every is not None and len(every) != count):
            raise self._wrong(row, "arms, probabilities and arm_count must agree", given["arm_count"])
        time = self._time(row, "time", given["time"], self._moment)
        self._reward(row, given["reward"], self._time(row, "reward_time", given["reward_time"], time))
        return {
            **BLANK,
            "id": texts["decision_id"] or f"{time % 2**64:016x}{secrets.token_hex(8)}",
            "version": self._version(texts["policy"] or "unknown"),
            "absorbed": max(given["version"] or 0, 0),
            "time": time,
            "arm": arm,
            "arm_id": texts["arm_id"],
            "arm_count": arm + 1 if count is None else count,
            "best": UNKNOWN_ARM,
            "log_probability": self._chance(row, arm, given, every),
            "fallback": given["fallback"],
            "features": blob(self._features(row, given["features"], arms, arm)),
            "log_probabilities": blob(_logarithms(every)),
            "arms": blob(arms),
        }

    def _text(self, row: int, name: str, value: Any) -> str | None:
        if value is not None and (not value or len(value) > _TEXTS[name] or "\0" in value):
            rule = f"{name} must have 1 to {_TEXTS[name]} characters, none of them NUL"
            raise self._wrong(row, rule, repr(value[:40]))
        return None if value is None else str(value)

    def _time(self, row: int, name: str, value: int | None, otherwise: int) -> int:
        if value is not None and value > self._moment + AHEAD:
            rule = f"{name} must not be in the future"
            raise self._wrong(row, rule, str(pa.scalar(value, TIME)))
        return otherwise if value is None else value

    def _version(self, policy: str) -> int:
        if policy not in self.policies and len(self.policies) == MOST_POLICIES:
            raise ValueError(f"{self.log.name} names more than {MOST_POLICIES} policies in its column policy")
        return self.policies.setdefault(policy, len(self.policies) + 1)

    def _reward(self, row: int, value: float | None, time: int) -> None:
        if value is None:
            return
        if not abs(value) <= LARGEST:
            raise self._wrong(row, f"reward must be finite and at most {LARGEST:g} in size", value)
        self.rewards.append((time, row, float(value)))

    def _chance(self, row: int, arm: int, given: dict[str, Any], every: Floats | None) -> float:
        p = given["probability"]
        if given["fallback"]:
            if p is not None or every is not None:
                raise self._wrong(row, "probability must be null where fallback is true", p)
            return 0.0
        if p is None or not 0.0 < p <= 1.0:
            raise self._wrong(row, "probability must lie in (0, 1]", p)
        if every is not None:
            if not ((every >= 0).all() and abs(every.sum() - 1.0) <= SUM_ERROR):
                rule = f"probabilities must be non-negative and sum to one, within {SUM_ERROR:g}"
                raise self._wrong(row, rule, f"a sum of {every.sum():.6g}")
            if abs(every[arm] - p) > max(ENTRY_ERROR, SUM_ERROR * p):
                raise self._wrong(row, "probability must be the arm's entry of probabilities", every[arm])
        exact = given["log_probability"]
        if exact is not None and abs(math.exp(min(exact, 0.0)) - p) <= ENTRY_ERROR * p:
            return float(min(exact, 0.0))
        return math.log(p)

    def _features(self, row: int, vector: Floats | None, arms: Floats | None, arm: int) -> Floats:
        if vector is None:
            if arms is None:
                raise self._wrong(row, "features must be given", "none")
            vector = arms[arm]
        if len(vector) != self.dim:
            raise self._wrong(row, f"features must have dimension {self.dim}", len(vector))
        return vector

    def _wrong(self, row: int, rule: str, value: Any) -> ValueError:
        return ValueError(f"{self.log.name}: {rule}; row {row} has {'none' if value is None else value}")


def _logarithms(every: Floats | None) -> Floats | None:
    if every is None:
        return None
    with np.errstate(divide="ignore"):
        found: Floats = np.log(every)
    return found
