"""Tables and the Open Bandit Pipeline's dictionary to and from a log; writing decision-service JSON."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linmed.checks import Floats
from linmed.log import SCHEMA

if TYPE_CHECKING:
    from linmed.ope.log import DecisionLog


def canonical(table: Any, columns: Mapping[str, Any]) -> pa.Table:
    """`table` with the log's column names and types; `columns` maps the log's names to the table's."""
    source = _arrow(table)
    if source.num_rows == 0:
        raise ValueError("the table is empty: it holds no decisions")
    unknown = [name for name in columns if name not in SCHEMA.names]
    if unknown:
        raise ValueError(f"columns maps {unknown[0]!r}, which is none of {', '.join(SCHEMA.names)}")
    used: set[str] = set()
    fields: dict[str, Any] = {}
    for field in SCHEMA:
        where = columns.get(field.name, field.name if field.name in source.column_names else None)
        if where is None:
            continue
        if field.name == "arm_count" and isinstance(where, (int, np.integer)) and not isinstance(where, bool):
            fields["arm_count"] = pa.array(np.full(source.num_rows, int(where)))
            continue
        names = [where] if isinstance(where, str) else list(where)
        for name in names:
            if name not in source.column_names:
                raise ValueError(
                    f"columns maps {field.name!r} to {name!r}, but the table has {source.column_names}"
                )
        used.update(names)
        fields[field.name] = _typed(source, names, field, single=isinstance(where, str))
    if "arm_count" not in fields:
        for name in ("probabilities", "arms"):
            if name in fields and fields[name].null_count == 0:
                fields["arm_count"] = pc.list_value_length(fields[name]).cast(pa.int64())
                break
    for name in source.column_names:
        if name not in used and name not in fields:
            fields[name] = source[name]
    return pa.table(fields)


def _arrow(table: Any) -> pa.Table:
    if isinstance(table, pa.Table):
        return table
    if isinstance(table, Mapping):
        return pa.table({str(name): _array(values) for name, values in table.items()})
    if hasattr(table, "__arrow_c_stream__"):
        return pa.table(table)
    if hasattr(table, "iloc") and hasattr(table, "columns"):
        return pa.Table.from_pandas(table, preserve_index=False)
    raise TypeError(
        f"table must be a pyarrow, pandas or polars table or a dictionary of arrays, got {type(table)!r}"
    )


def _array(values: Any) -> Any:
    """A numpy array of any number of axes, or anything pyarrow takes."""
    if isinstance(values, np.ndarray) and values.ndim > 1:
        return pa.array(values.tolist())
    return values


def _typed(source: pa.Table, names: list[str], field: pa.Field, single: bool) -> Any:
    if not single:  # several number columns make one list column
        matrix = np.stack([source[name].to_numpy() for name in names], axis=1).astype(np.float64)
        return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), len(names)).cast(field.type)
    column = source[names[0]]
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(
            f"column {names[0]!r} cannot be read as {field.name} ({field.type}): {error}"
        ) from None


def obp_table(feedback: Mapping[str, Any]) -> pa.Table:
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
    columns: dict[str, Any] = {
        "arm": pa.array(action.astype(np.int64)),
        "arm_count": pa.array(np.full(n, arms, dtype=np.int64)),
        "probability": pa.array(_vector(feedback["pscore"], "pscore", n)),
    }
    columns["log_probability"] = pc.ln(columns["probability"])
    reward = _vector(feedback["reward"], "reward", n)
    columns["reward"] = pa.array(reward)
    position = None if feedback.get("position") is None else np.asarray(feedback["position"], dtype=np.int64)
    if feedback.get("pi_b") is not None:
        pi_b = np.asarray(feedback["pi_b"], dtype=np.float64)
        if pi_b.ndim != 3 or pi_b.shape[:2] != (n, arms):
            raise ValueError(
                f"pi_b must have shape (n_rounds, n_actions, positions) = ({n}, {arms}, ·), got {pi_b.shape}"
            )
        at = np.zeros(n, dtype=np.int64) if position is None else position
        columns["probabilities"] = _lists(pi_b[np.arange(n), :, at])
    features = _obp_arms(feedback, n, arms)
    if features is not None:
        columns["arms"] = _lists(features)
        columns["features"] = _lists(features[np.arange(n), action])
    if position is not None:
        columns["position"] = pa.array(position)
    if feedback.get("context") is not None:
        columns["context"] = _lists(np.asarray(feedback["context"], dtype=np.float64))
    return pa.table(columns)


def _obp_arms(feedback: Mapping[str, Any], n: int, arms: int) -> Floats | None:
    if feedback.get("arms") is not None:
        own: Floats = np.asarray(feedback["arms"], dtype=np.float64)
        return own
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


def _lists(array: Floats) -> pa.Array:
    """(n, m) → n lists of m, (n, K, d) → n lists of K lists of d."""
    inner = pa.array(np.ascontiguousarray(array).ravel())
    for size in reversed(array.shape[1:]):
        rows = len(inner) // size if size else 0
        inner = pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32) * size), inner)
    return inner


def to_obp(log: "DecisionLog") -> dict[str, Any]:
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
    feedback: dict[str, Any] = {
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
        feedback["pi_b"] = np.repeat(probabilities[:, :, None], positions, axis=2)
    features = _dense(table, "arms", (n, arms))
    if features is not None:
        if np.array_equal(features, np.broadcast_to(features[:1], features.shape)):
            feedback["action_context"] = features[0].copy()
        feedback["arms"] = features
        if feedback["context"] is None:
            feedback["context"] = features.reshape(n, -1)
    return feedback


def _dense(table: pa.Table, name: str, lead: tuple[int, ...]) -> Floats | None:
    """A list column as an array, None if there is none or some row lacks it."""
    if name not in table.column_names or table[name].null_count:
        return None
    flat = table[name].combine_chunks()
    while pa.types.is_list(flat.type):
        flat = flat.flatten()
    size = int(np.prod(lead))
    return np.asarray(flat.to_numpy(zero_copy_only=False), dtype=np.float64).reshape(*lead, len(flat) // size)


def to_dsjson(log: "DecisionLog", path: Path) -> int:
    """One event a line, in the log's order. `a` lists action numbers from 1, the played one first."""
    known = [name for name in log.columns if name in SCHEMA.names]
    lines = 0
    with open(path, "w", encoding="utf-8") as file:
        for batch in log.batches(known):
            for row in batch.to_pylist():
                file.write(json.dumps(_event(row, lines), separators=(",", ":"), allow_nan=False) + "\n")
                lines += 1
    return lines


def _event(row: dict[str, Any], number: int) -> dict[str, Any]:
    arm, count = row["arm"], row.get("arm_count")
    order = [arm, *(a for a in range(count or 0) if a != arm)]
    event: dict[str, Any] = {} if row["reward"] is None else {"_label_cost": -row["reward"]}
    event |= {"_label_probability": row["probability"], "_label_Action": arm + 1, "_labelIndex": arm}
    if row.get("time") is not None:
        event["Timestamp"] = row["time"].isoformat(timespec="microseconds").replace("+00:00", "Z")
    event |= {"Version": "1", "EventId": row.get("decision_id") or str(number), "a": [a + 1 for a in order]}
    if row.get("arms") is not None:
        event["c"] = {"_multi": [{"x": vector} for vector in row["arms"]]}
    elif count:
        event["c"] = {"_multi": [{} for _ in range(count)]}
    if row.get("probabilities") is not None:
        event["p"] = [row["probabilities"][a] for a in order]
    if row.get("policy") is not None:
        event["VWState"] = {"m": row["policy"]}
    own = ("version", "arm_id", "features", "log_probability")
    event |= {f"_{name}": row[name] for name in own if row.get(name) is not None}
    if row.get("reward_time") is not None:
        event["_reward_time"] = row["reward_time"].isoformat(timespec="microseconds").replace("+00:00", "Z")
    return event
