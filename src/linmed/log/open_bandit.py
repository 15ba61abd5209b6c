"""The Open Bandit Dataset's CSV, and the Open Bandit Pipeline's dictionary to and from a log."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from linmed import checks
from linmed.checks import Floats
from linmed.log.schema import SCHEMA, TIME
from linmed.log.source import Malformed
from linmed.log.tables import canonical

if TYPE_CHECKING:
    from linmed.log.decisions import DecisionLog


@dataclass(frozen=True)
class OpenBanditSource:
    """A CSV file of the Open Bandit Dataset: timestamp, item_id, position, click and the probability."""

    path: Path
    probability: str
    arm_count: int
    errors: str

    @property
    def columns(self) -> list[str]:
        """What can be made of the CSV's columns."""
        return ["time", "arm", "arm_count", "probability", "reward", "position"]

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """In pieces of about a megabyte."""
        names = ["timestamp", "item_id", self.probability, "click", "position"]
        short: list[int] = []
        reports: list[tuple[int, str]] = []

        def invalid(row: Any) -> str:
            # pyarrow swallows what is raised here, so the report waits until its batch has been read.
            short.append(row.number)
            reports.append((row.number, f"{row.actual_columns} fields, {row.expected_columns} expected"))
            return "skip"

        reader = pv.open_csv(
            self.path,
            read_options=pv.ReadOptions(use_threads=False),
            parse_options=pv.ParseOptions(invalid_row_handler=invalid),
            convert_options=pv.ConvertOptions(
                include_columns=names, column_types=dict.fromkeys(names, pa.string())
            ),
        )
        done = 0
        with reader:
            for batch in reader:
                while reports:
                    self._report(*reports.pop(0), malformed)
                for start in range(0, batch.num_rows, rows):
                    part = batch.slice(start, rows)
                    yield self._convert(part, done + start, short, malformed).select(list(columns))
                done += batch.num_rows

    def _convert(
        self, batch: pa.RecordBatch, done: int, short: list[int], malformed: Malformed
    ) -> pa.RecordBatch:
        """Text to numbers; rows in which that fails are reported and left out."""
        kinds = {
            "time": TIME,
            "arm": pa.int64(),
            "probability": pa.float64(),
            "reward": pa.float64(),
            "position": pa.int64(),
        }
        bad: set[int] = set()
        for column, kind in zip(batch.columns, kinds.values(), strict=True):
            if not _castable(column, kind):
                bad.update(i for i in range(len(column)) if not _castable(column[i], kind))
        for i in sorted(bad):
            self._report(_line(done + i, short), "a field is not a number (or not a time)", malformed)
        if bad:
            batch = batch.filter(pa.array([i not in bad for i in range(batch.num_rows)]))
        typed = dict(zip(kinds, map(pa.Array.cast, batch.columns, kinds.values()), strict=True))
        typed["arm_count"] = pa.repeat(pa.scalar(self.arm_count, pa.int64()), batch.num_rows)
        return pa.RecordBatch.from_pydict(typed)

    def _report(self, line: int, reason: str, malformed: Malformed) -> None:
        if self.errors == "raise":
            raise ValueError(f"{self.path}, line {line}: {reason}")
        malformed.add(line, reason)


def _castable(text: Any, kind: pa.DataType) -> bool:
    try:
        text.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _line(row: int, short: list[int]) -> int:
    """The line of a data row: after the header, and after the lines that were left out."""
    line = row + 2
    for skipped in sorted(short):
        if skipped <= line:
            line += 1
    return line


def csv_source(path: Path, arm_count: int | None, errors: str) -> OpenBanditSource:
    """Look at the header, and at `item_context.csv` for the number of arms."""
    checks.option("errors", errors, ("raise", "skip"))
    if not path.is_file():
        raise FileNotFoundError(f"there is no log at {path}")
    with open(path, encoding="utf-8") as file:
        header = file.readline().strip().split(",")
    probability = next((name for name in ("propensity_score", "action_prob") if name in header), None)
    missing = [name for name in ("timestamp", "item_id", "position", "click") if name not in header]
    if probability is None or missing:
        lacking = missing or ["propensity_score (or action_prob)"]
        raise ValueError(f"{path} is not an Open Bandit log: it has no column {', '.join(lacking)}")
    if arm_count is None:
        items = path.parent / "item_context.csv"
        if not items.is_file():
            raise ValueError(f"arm_count is needed: there is no item_context.csv beside {path}")
        arm_count = pc.max(pv.read_csv(items)["item_id"]).as_py() + 1
    return OpenBanditSource(path, probability, checks.whole("arm_count", arm_count), errors)


def feedback_table(feedback: Mapping[str, Any]) -> pa.Table:
    """The log's table from a `bandit_feedback` dictionary.

    `pscore` is the probability; `pi_b` gives every arm's, at the position played; `action_context` (K, d)
    the arms' features, unless the dictionary has `arms` (n, K, d) as `to_obp` writes. Positions and
    contexts become extra columns.
    """
    for key in ("n_actions", "action", "reward", "pscore"):
        if feedback.get(key) is None:
            raise ValueError(f"bandit_feedback needs {key!r}; it has {', '.join(map(str, feedback))}")
    action = np.asarray(feedback["action"])
    n, arms = action.shape[0], int(feedback["n_actions"])
    probability = _vector(feedback["pscore"], "pscore", n)
    columns: dict[str, Any] = {
        "arm": action.astype(np.int64),
        "probability": probability,
        "log_probability": pc.ln(pa.array(probability)),
        "reward": _vector(feedback["reward"], "reward", n),
    }
    position = None if feedback.get("position") is None else np.asarray(feedback["position"], dtype=np.int64)
    if feedback.get("pi_b") is not None:
        pi_b = np.asarray(feedback["pi_b"], dtype=np.float64)
        if pi_b.ndim != 3 or pi_b.shape[:2] != (n, arms):
            raise ValueError(
                f"pi_b must have shape (n_rounds, n_actions, positions) = ({n}, {arms}, ·), got {pi_b.shape}"
            )
        at = np.zeros(n, dtype=np.int64) if position is None else position
        columns["probabilities"] = pi_b[np.arange(n), :, at]
    features = _obp_arms(feedback, n, arms)
    if features is not None:
        columns |= {"arms": features, "features": features[np.arange(n), action]}
    extra = {"position": position, "context": feedback.get("context")}
    columns |= {name: np.asarray(values) for name, values in extra.items() if values is not None}
    return canonical(columns, {"arm_count": arms})


def _obp_arms(feedback: Mapping[str, Any], n: int, arms: int) -> Floats | None:
    if feedback.get("arms") is not None:
        return np.asarray(feedback["arms"], dtype=np.float64)
    if feedback.get("action_context") is None:
        return None
    shared = np.asarray(feedback["action_context"], dtype=np.float64)
    if shared.ndim != 2 or shared.shape[0] != arms:
        raise ValueError(f"action_context must have shape (n_actions, dim) = ({arms}, ·), got {shared.shape}")
    return np.broadcast_to(shared, (n, *shared.shape))


def _vector(values: Any, name: str, n: int) -> Floats:
    array: Floats = np.asarray(values, dtype=np.float64)
    if array.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},) like action, got {array.shape}")
    return array


def feedback(log: "DecisionLog") -> dict[str, Any]:
    """The rewarded decisions of `log` as a `bandit_feedback` dictionary; all need the same number of arms.

    Arm features that differ between decisions have no place in obp: they are under the key `arms`.
    """
    log.require(["arm_count"], "obp's dictionary")
    table = log.table([name for name in log.columns if name in (*SCHEMA.names, "position", "context")])
    table = table.filter(pc.is_valid(table["reward"]))
    if table.num_rows == 0:
        raise ValueError(f"{log.name} has no rewards yet")
    counts = table["arm_count"].unique().to_pylist()
    if len(counts) > 1:
        raise ValueError(f"obp needs one number of arms, {log.name} has {min(counts)} to {max(counts)}")
    n, arms = table.num_rows, counts[0]
    position = table["position"].to_numpy() if "position" in table.column_names else None
    found: dict[str, Any] = {
        "n_rounds": n,
        "n_actions": arms,
        "action": table["arm"].to_numpy(),
        "position": position,
        "reward": table["reward"].to_numpy(),
        "pscore": table["probability"].to_numpy(),
        "context": _dense(table, "context", (n,)),
        "action_context": None,
        "expected_reward": None,
        "pi_b": None,
    }
    probabilities = _dense(table, "probabilities", (n,))
    if probabilities is not None:
        positions = 1 if position is None else int(position.max()) + 1
        found["pi_b"] = np.repeat(probabilities[:, :, None], positions, axis=2)
    features = _dense(table, "arms", (n, arms))
    if features is not None:
        if np.array_equal(features, np.broadcast_to(features[:1], features.shape)):
            found["action_context"] = features[0].copy()
        found["arms"] = features
        if found["context"] is None:
            found["context"] = features.reshape(n, -1)
    return found


def _dense(table: pa.Table, name: str, lead: tuple[int, ...]) -> Floats | None:
    """A list column as an array, None if there is none or some row lacks it."""
    if name not in table.column_names or table[name].null_count:
        return None
    flat = table[name].combine_chunks()
    while pa.types.is_list(flat.type) or pa.types.is_large_list(flat.type):
        flat = flat.flatten()
    size = int(np.prod(lead))
    return np.asarray(flat.to_numpy(zero_copy_only=False), dtype=np.float64).reshape(*lead, len(flat) // size)
