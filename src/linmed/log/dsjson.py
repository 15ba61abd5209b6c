"""Decision-service JSON, one event a line: read and written."""

import json
import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from linmed.files import write_atomically
from linmed.log.schema import SCHEMA
from linmed.log.text import Row, TextSource, plain_row

if TYPE_CHECKING:
    from linmed.log.decisions import DecisionLog


def source(path: Path, features: Sequence[str] | None, errors: str) -> TextSource:
    """One JSON event a line."""
    return TextSource(path, partial(_rows, None if features is None else tuple(features)), errors)


def _rows(
    features: tuple[str, ...] | None, lines: Iterator[tuple[int, str]]
) -> Iterator[tuple[int, Row | ValueError]]:
    for line, text in lines:
        if not text.strip():
            continue
        try:
            event = json.loads(text)
            # A decision that was never carried out: Vowpal Wabbit and its estimators leave it out too.
            if not (isinstance(event, dict) and event.get("_skipLearn") is True):
                yield line, _event(event, features)
        except json.JSONDecodeError as error:
            yield line, ValueError(f"not JSON: {error}")
        except ValueError as error:
            yield line, error


def _event(event: Any, features: tuple[str, ...] | None) -> Row:
    if not isinstance(event, dict):
        raise ValueError("an event must be a JSON object")
    probability = _number(event, "_label_probability")
    if not 0 < probability <= 1:
        raise ValueError(f"_label_probability must lie in (0, 1], got {probability}")
    reward = -_number(event, "_label_cost") if "_label_cost" in event else None
    action = event.get("_labelIndex", event.get("_label_Action", 0) - 1)
    multi = event.get("c", {}).get("_multi")
    order = event.get("a")
    count = len(multi) if multi else len(order) if order else None
    if not isinstance(action, int) or action < 0 or (count is not None and action >= count):
        raise ValueError(f"_labelIndex must be an index of the {count} actions, got {action!r}")
    row = plain_row(action, probability, reward, count)
    row["decision_id"] = event.get("EventId")
    if "p" in event and order:
        row["probabilities"] = _all_probabilities(event["p"], order)
    arms = None if not multi else [_features(entry, features) for entry in multi]
    if arms and all(vector is not None for vector in arms):
        row["arms"], row["features"] = arms, arms[action]
    elif "_features" in event:
        row["features"] = event["_features"]
    for name, key in (("time", "Timestamp"), ("reward_time", "_reward_time")):
        if key in event:
            row[name] = datetime.fromisoformat(event[key])
    for name in ("version", "arm_id", "log_probability", "fallback"):
        if f"_{name}" in event:
            row[name] = event[f"_{name}"]
    if "VWState" in event:
        row["policy"] = event["VWState"].get("m")
    return row


def _number(event: Row, key: str) -> float:
    value = event.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{key} must be a number, got {value!r}")
    return float(value)


def _all_probabilities(p: list[float], order: list[int]) -> list[float]:
    """`p` is in the order of `a`, which numbers actions from 1."""
    if len(p) != len(order) or sorted(order) != list(range(1, len(order) + 1)):
        raise ValueError("a must number every action once, and p give one probability for each")
    return [probability for _, probability in sorted(zip(order, p, strict=True))]


def _features(entry: Row, names: tuple[str, ...] | None) -> list[float] | None:
    """The array `x` of an action, or the named numbers wherever they stand in it."""
    if names is None:
        vector = entry.get("x")
        return [float(value) for value in vector] if isinstance(vector, list) else None
    found: dict[str, float] = {}
    stack: list[Any] = [entry]
    while stack:
        for key, value in stack.pop().items():
            if isinstance(value, dict):
                stack.append(value)
            elif isinstance(value, (int, float)) and not isinstance(value, bool):
                found[key] = float(value)
    return [found.get(name, 0.0) for name in names]


def write(log: "DecisionLog", path: Path) -> int:
    """One event a line, in the log's order. `a` lists action numbers from 1, the played one first.

    Other readers take the length of `a` for the number of arms, so it must be known.
    """
    log.require(["arm_count"], "decision-service JSON")
    known = [name for name in log.columns if name in SCHEMA.names]
    lines = 0

    def events(file: BinaryIO) -> None:
        nonlocal lines
        for batch in log.batches(known):
            for row in batch.to_pylist():
                if row["arm_count"] is None:
                    raise ValueError(
                        f"decision-service JSON needs arm_count, row {lines} of {log.name} has none"
                    )
                if row["probability"] is None:
                    raise ValueError(
                        "decision-service JSON has no place for a decision without a probability, as a "
                        f"fallback's: row {lines} of {log.name} has none"
                    )
                text = json.dumps(_written(row, lines), separators=(",", ":"), allow_nan=False)
                file.write(text.encode() + b"\n")
                lines += 1

    write_atomically(path, events)
    return lines


def _written(row: Row, number: int) -> Row:
    arm, count = row["arm"], row["arm_count"]
    order = [arm, *(a for a in range(count) if a != arm)]
    event: dict[str, Any] = {} if row["reward"] is None else {"_label_cost": -row["reward"]}
    event |= {"_label_probability": row["probability"], "_label_Action": arm + 1, "_labelIndex": arm}
    if row.get("time") is not None:
        event["Timestamp"] = row["time"].isoformat(timespec="microseconds").replace("+00:00", "Z")
    event |= {"Version": "1", "EventId": row.get("decision_id") or str(number), "a": [a + 1 for a in order]}
    if row.get("arms") is not None:
        event["c"] = {"_multi": [{"x": vector} for vector in row["arms"]]}
    else:
        event["c"] = {"_multi": [{} for _ in range(count)]}
    if row.get("probabilities") is not None:
        event["p"] = [row["probabilities"][a] for a in order]
    if row.get("policy") is not None:
        event["VWState"] = {"m": row["policy"]}
    own = ("version", "arm_id", "features", "log_probability", "fallback")
    event |= {f"_{name}": row[name] for name in own if row.get(name) is not None}
    if row.get("reward_time") is not None:
        event["_reward_time"] = row["reward_time"].isoformat(timespec="microseconds").replace("+00:00", "Z")
    return event
