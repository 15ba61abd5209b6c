"""Import logs from tables, CSV files, the Open Bandit Dataset and obp's dictionary; write the last."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from linmed import validation
from linmed.log.mapping import (
    Columns,
    Constant,
    Extra,
    Joined,
    Mapped,
    MappedTable,
    Numbered,
    Part,
    Plan,
    Value,
    plan,
)
from linmed.log.schema import SCHEMA, lists, ragged
from linmed.log.source import BATCH, Malformed, check_needed, shortened
from linmed.validation import Floats, Ints


def canonical(table: Any, columns: Columns) -> pa.Table:
    """Read `table` with the log's column names and types; `columns` maps the log's names to the table's."""
    source = _arrow(table)
    if source.num_rows == 0:
        raise ValueError("the table is empty: it holds no decisions")
    gaps = frozenset(name for name in source.column_names if source.column(name).null_count)
    made = MappedTable(plan(columns, source.schema, "the table", gaps), "the table", source)
    check_needed(made.columns, made.own, "table")
    return pa.Table.from_batches(made.read(made.columns, BATCH, Malformed()))


def _arrow(table: Any) -> pa.Table:
    if isinstance(table, pa.Table):
        return table.cast(pa.schema([field.with_type(_plain(field.type)) for field in table.schema]))
    if isinstance(table, Mapping):
        arrays = {str(name): _array(str(name), values) for name, values in table.items()}
        if len({len(array) for array in arrays.values()}) > 1:
            lengths = ", ".join(f"{name} has {len(array)}" for name, array in arrays.items())
            raise ValueError(f"the table's columns must have as many rows as each other: {lengths}")
        return pa.table(arrays)
    if hasattr(table, "iloc") and hasattr(table, "columns"):  # pandas
        return pa.table({str(name): _array(str(name), table[name]) for name in table.columns})
    if hasattr(table, "__arrow_c_stream__"):
        return _arrow(pa.table(table))
    raise TypeError(
        f"table must be a pyarrow, pandas or polars table or a dictionary of arrays, got {type(table)!r}"
    )


def _plain(kind: pa.DataType) -> pa.DataType:
    """`kind`, but text for views of text: polars has them, and few functions of pyarrow do."""
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _plain(kind.value_type), kind.ordered)
    return kind


def _array(name: str, values: Any) -> Any:
    """A numpy array of any number of axes, matrices one for each row, or anything pyarrow takes."""
    try:
        if isinstance(values, np.ndarray) and values.ndim > 1:
            plain = values.dtype.kind in "iuf" and not isinstance(values, np.ma.MaskedArray)
            return lists(values) if plain else pa.array(values.tolist())
        if _matrices(values):
            return ragged([None if m is None else np.asarray(m, dtype=np.float64) for m in values], True)
        return values if isinstance(values, pa.ChunkedArray) else pa.array(values)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ValueError(f"column {name!r} cannot be read: {shortened(str(error))}") from None


def _matrices(values: Any) -> bool:
    """Whether every row holds a matrix, or nothing, and some row does."""
    if not isinstance(values, Sequence) and getattr(getattr(values, "dtype", None), "kind", "") != "O":
        return False
    return {getattr(m, "ndim", -1) for m in values if m is not None} == {2}


BLOCK = 1 << 20
"""Bytes of the file that are parsed at once."""
DELIMITERS = (",", ";", "\t", "|")
"""Those that a header is searched for if it seems to have one column."""


@dataclass(frozen=True)
class CsvSource(Mapped):
    """A CSV file with a line of names."""

    path: Path
    errors: str = "raise"
    delimiter: str = ","
    nulls: bool = True
    """Whether an empty field, NA, NaN and the like are no value."""
    unit = "line"

    def numbered(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Generator[Numbered]:
        """Yield text, each row with its line; lines with too few or too many fields are reported."""
        short: list[int] = []
        reports: list[tuple[int, str]] = []

        def invalid(row: Any) -> str:
            # pyarrow swallows what is raised here, so the report waits until its batch has been read.
            short.append(row.number)
            reports.append((row.number, f"{row.actual_columns} fields, {row.expected_columns} expected"))
            return "skip"

        done = 0
        names = list(columns)
        with closing(
            self._batches(names, invalid)
        ) as batches:  # its thread must not outlive a reader's error
            for batch in batches:
                for line, reason in reports:
                    self.report(line, reason, malformed)
                reports.clear()
                lines = _lines(np.arange(done, done + batch.num_rows), short)
                for start in range(0, batch.num_rows, rows):
                    yield lines[start : start + rows], batch.slice(start, rows)
                done += batch.num_rows
        for line, reason in reports:
            self.report(line, reason, malformed)

    def _batches(self, names: list[str], invalid: Any) -> Generator[pa.RecordBatch]:
        convert = pv.ConvertOptions(
            include_columns=names,
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=self.nulls,
        )
        reading = pv.ReadOptions(use_threads=False, block_size=BLOCK)
        parsing = _parsing(self.delimiter, invalid)
        with _named(self.path), pv.open_csv(self.path, reading, parsing, convert) as reader:
            yield from reader


def _parsing(delimiter: str, invalid: Any) -> pv.ParseOptions:
    return pv.ParseOptions(delimiter=delimiter, invalid_row_handler=invalid, newlines_in_values=True)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """The file is named in what pyarrow has to say of its content."""
    try:
        yield
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        encoding = "UTF8" in str(error) or isinstance(error, UnicodeDecodeError)
        hint = " (UTF-8 is expected: save the file in that encoding)" if encoding else ""
        raise ValueError(f"{path} cannot be read as CSV: {error}{hint}") from None


def _lines(row: Ints, short: list[int]) -> Ints:
    """The lines of data rows: after the header, and after the lines that were left out."""
    before = np.sort(np.array(short, np.int64)) - np.arange(len(short))
    return row + 2 + np.searchsorted(before, row + 2, side="right")


def csv_schema(path: Path, delimiter: str = ",") -> pa.Schema:
    """Read the names of the columns, and the types that the first lines suggest.

    They are parsed in memory: a reader of the file would go on reading in a thread of its own.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no log at {path}")
    short: list[int] = []

    def invalid(row: Any) -> str:
        short.append(row.number)
        return "skip"

    with _named(path):
        with pa.input_stream(path, compression="detect") as file:
            head = file.read(BLOCK)
            whole = len(head) < BLOCK
        lines = head + b"\n" if whole and head else head[: head.rfind(b"\n") + 1] or head
        reading = pv.ReadOptions(use_threads=False, block_size=2 * BLOCK)
        table = pv.read_csv(pa.BufferReader(lines), reading, _parsing(delimiter, invalid))
        names = table.schema.names
        if whole and not table.num_rows and not short:
            raise ValueError(f"{path} is empty: it holds no decisions, only a line of names")
    others = [sign for sign in DELIMITERS if sign != delimiter and sign in names[0]]
    if len(names) == 1 and others:
        raise ValueError(
            f"{path} has one column, {names[0]!r}: its delimiter seems to be {others[0]!r} "
            "(say so with delimiter, on a command line with --delimiter)"
        )
    return table.schema


def csv_source(path: Path, columns: Columns, errors: str, delimiter: str) -> CsvSource:
    """Open the log that `columns` makes of the file."""
    validation.option("errors", errors, ("raise", "skip"))
    if len(validation.text("delimiter", delimiter)) != 1:
        raise validation.BadValue("delimiter", f"delimiter must be one character, got {delimiter!r}")
    schema = csv_schema(path, delimiter)
    made = plan(columns, schema, str(path), infer=True)
    return CsvSource(made, str(path), path, errors, delimiter)


AFFINITY = "user-item_affinity_{}"
USER = "user_feature_"


def open_bandit_source(path: Path, arm_count: int | None, errors: str) -> CsvSource:
    """Look at the header, and at `item_context.csv` for the arms."""
    validation.option("errors", errors, ("raise", "skip"))
    names = csv_schema(path).names
    probability = next((name for name in ("propensity_score", "action_prob") if name in names), None)
    missing = [name for name in ("timestamp", "item_id", "position", "click") if name not in names]
    if probability is None or missing:
        lacking = missing or ["propensity_score (or action_prob)"]
        raise ValueError(f"{path} is not an Open Bandit log: it has no column {', '.join(lacking)}")
    if arm_count is None:
        items = path.parent / "item_context.csv"
        if not items.is_file():
            raise ValueError(f"arm_count is needed: there is no item_context.csv beside {path}")
        arm_count = pc.max(pv.read_csv(items, pv.ReadOptions(use_threads=False))["item_id"]).as_py() + 1
    count = validation.whole("arm_count", arm_count)
    where = {"time": "timestamp", "arm": "item_id", "probability": probability, "reward": "click"}
    own = {name: Value((column,), name, SCHEMA.field(name).type) for name, column in where.items()}
    parts: dict[str, Part] = {
        **own,
        "arm_count": Constant((), count, pa.int64()),
        "position": Value(("position",), "position", pa.int64()),
        **{name: Extra((name,), name, pa.string()) for name in names if name.startswith(USER)},
    }
    affinities = tuple(AFFINITY.format(a) for a in range(count))
    if set(affinities) <= set(names):
        parts["affinities"] = Joined(affinities, "affinities")
    return CsvSource(Plan(parts, own=tuple(names)), str(path), path, errors, nulls=False)


if TYPE_CHECKING:
    from linmed.log.reader import DecisionLog


def obp_table(feedback: Mapping[str, Any]) -> pa.Table:
    """Make the log's table from a `bandit_feedback` dictionary.

    `pscore` is the probability; `pi_b` gives every arm's, at the position played; `action_context` (K, d)
    the arms' features, unless the dictionary has `arms` (n, K, d) as `to_obp` writes. Positions and
    contexts become extra columns.
    """
    for key in ("n_actions", "action", "reward", "pscore"):
        if feedback.get(key) is None:
            raise ValueError(f"bandit_feedback needs {key!r}; it has {', '.join(map(str, feedback))}")
    action = np.asarray(feedback["action"])
    n, arms = action.shape[0], int(feedback["n_actions"])
    probability = _per_round(feedback["pscore"], "pscore", n)
    columns: dict[str, Any] = {
        "arm": action.astype(np.int64),
        "probability": probability,
        "log_probability": pc.ln(pa.array(probability)),
        "reward": _per_round(feedback["reward"], "reward", n),
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


def _per_round(values: Any, name: str, n: int) -> Floats:
    array: Floats = np.asarray(values, dtype=np.float64)
    if array.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},) like action, got {array.shape}")
    return array


def obp_feedback(log: "DecisionLog") -> dict[str, Any]:
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
    if table["probability"].null_count:
        raise ValueError(
            f"obp has no place for decisions without a probability, {log.name} has "
            f"{table['probability'].null_count:,} (fallbacks, from a catalogue); leaving them out would bias "
            "every estimate: linmed.ope judges the log as it is"
        )
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
