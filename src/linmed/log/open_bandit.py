"""The Open Bandit Dataset's CSV: a log of recommendations with the users' affinities to every item."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from linmed import validation
from linmed.log.csv_files import CsvSource, csv_schema
from linmed.log.mapping import Constant, Extra, Joined, Part, Plan, Value, matrix
from linmed.log.schema import SCHEMA
from linmed.validation import Floats

AFFINITY = "user-item_affinity_{}"
USER = "user_feature_"


@dataclass(frozen=True)
class Arms(Joined):
    """Every arm's features: 1, the user's affinity to it, its own number; those of the two that there are."""

    item: tuple[float, ...]
    """`item_feature_0` of every arm, or nothing."""
    arm_count: int

    def vectors(self, batch: pa.RecordBatch) -> Floats:
        """(n, K, d)."""
        shape = batch.num_rows, self.arm_count
        columns = [np.ones(shape)]
        if self.reads:
            columns.append(np.stack([self.numbers(batch, name) for name in self.reads], axis=1))
        if self.item:
            columns.append(np.broadcast_to(self.item, shape))
        return np.stack(columns, axis=2)

    def make(self, batch: pa.RecordBatch) -> pa.Array:
        """A matrix a row."""
        return matrix(self.vectors(batch))


@dataclass(frozen=True)
class Played(Part):
    """The features of the arm that was played."""

    arms: Arms
    arm: Value

    def make(self, batch: pa.RecordBatch) -> pa.Array:
        """A vector a row."""
        arm = self.arm.make(batch).to_numpy(zero_copy_only=False)
        if arm.size and not (arm.min() >= 0 and arm.max() < self.arms.arm_count):
            raise ValueError("item_id is no index of an arm")
        return matrix(self.arms.vectors(batch)[np.arange(arm.size), arm])

    def reason(self, row: pa.RecordBatch) -> str:
        """The item, unless it is the affinities."""
        item = row.column(self.arm.reads[0])[0].as_py()
        return f"item_id must be an index of the {self.arms.arm_count} arms, got {item!r}"


def source(path: Path, arm_count: int | None, errors: str) -> CsvSource:
    """Look at the header, and at `item_context.csv` for the arms."""
    validation.option("errors", errors, ("raise", "skip"))
    names = csv_schema(path).names
    probability = next((name for name in ("propensity_score", "action_prob") if name in names), None)
    missing = [name for name in ("timestamp", "item_id", "position", "click") if name not in names]
    if probability is None or missing:
        lacking = missing or ["propensity_score (or action_prob)"]
        raise ValueError(f"{path} is not an Open Bandit log: it has no column {', '.join(lacking)}")
    known, item = _items(path.parent / "item_context.csv")
    if arm_count is None and known is None:
        raise ValueError(f"arm_count is needed: there is no item_context.csv beside {path}")
    count = validation.whole("arm_count", known if arm_count is None else arm_count)
    where = {"time": "timestamp", "arm": "item_id", "probability": probability, "reward": "click"}
    own = {name: Value((column,), name, SCHEMA.field(name).type) for name, column in where.items()}
    parts: dict[str, Part] = {
        **own,
        "arm_count": Constant((), count, pa.int64()),
        "position": Value(("position",), "position", pa.int64()),
        **{name: Extra((name,), name, pa.string()) for name in names if name.startswith(USER)},
        **_features(names, count, item, own["arm"]),
    }
    return CsvSource(Plan(parts, own=tuple(names)), str(path), path, errors, nulls=False)


def _items(file: Path) -> tuple[int | None, tuple[float, ...]]:
    """The number of items, and `item_feature_0` of each; None and nothing where the file is not there."""
    if not file.is_file():
        return None, ()
    table = pv.read_csv(file, pv.ReadOptions(use_threads=False))
    count = pc.max(table["item_id"]).as_py() + 1
    if "item_feature_0" not in table.column_names or sorted(table["item_id"].to_pylist()) != list(
        range(count)
    ):
        return count, ()
    return count, tuple(table.sort_by("item_id")["item_feature_0"].cast(pa.float64()).to_pylist())


def _features(names: Sequence[str], count: int, item: tuple[float, ...], arm: Value) -> dict[str, Part]:
    """The columns made of affinities and items, as far as the files have them for every arm."""
    affinities = tuple(AFFINITY.format(a) for a in range(count))
    found: dict[str, Part] = {}
    if set(affinities) <= set(names):
        found["affinities"] = Joined(affinities, "affinities")
    else:
        affinities = ()
    item = item if len(item) == count else ()
    if affinities or item:
        arms = Arms(affinities, "arms", item, count)
        found |= {"arms": arms, "features": Played((*affinities, *arm.reads), arms, arm)}
    return found
