"""The Open Bandit Pipeline's dictionary to and from a log."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from linmed.log.schema import SCHEMA
from linmed.log.tables import canonical
from linmed.validation import Floats

if TYPE_CHECKING:
    from linmed.log.decisions import DecisionLog


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
