"""Read text logs line by line: Vowpal Wabbit's and decision-service JSON, which is written too.

A line that cannot be read is named with its number: it ends the reading (errors="raise") or is skipped and
counted (errors="skip").
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from linmed import validation
from linmed.files import write_atomically
from linmed.log.schema import SCHEMA
from linmed.log.source import Malformed, Source

Row = dict[str, Any]
Parser = Callable[[Iterator[tuple[int, str]]], Iterator[tuple[int, Row | ValueError]]]
"""Numbered lines → (line number, row of the log or what is wrong)."""
FIRST_ROWS = 1000
"""How many of them tell which columns a log has."""


@dataclass(frozen=True)
class TextSource(Source):
    """A text file and the parser that makes rows of its lines."""

    path: Path
    parse: Parser
    errors: str
    numbered: bool = False
    """Whether the parser makes the identifiers up, one for each row."""

    def __post_init__(self) -> None:
        validation.option("errors", self.errors, ("raise", "skip"))
        if not self.path.is_file():
            raise FileNotFoundError(f"there is no log at {self.path}")

    @cached_property
    def columns(self) -> list[str]:
        """Those of the first rows together (a decision that waits has no reward's time), as in the schema."""
        found = set().union(*islice(self._rows(Malformed()), FIRST_ROWS))
        if not found:
            raise ValueError(f"{self.path} is empty: it holds no decisions")
        return [name for name in SCHEMA.names if name in found]

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """Yield batches of parsed rows."""
        schema = pa.schema([SCHEMA.field(name) for name in columns])
        source = self._rows(malformed)
        while some := list(islice(source, rows)):
            yield pa.RecordBatch.from_pylist(some, schema=schema)

    def vouches(self) -> bool:
        """Be sure that numbers that were given here do not repeat."""
        return self.numbered

    def _rows(self, malformed: Malformed) -> Iterator[Row]:
        with open(self.path, encoding="utf-8", errors="replace") as file:
            for line, row in self.parse(enumerate(file, start=1)):
                if not isinstance(row, ValueError):
                    yield row
                elif self.errors == "raise":
                    raise ValueError(f"{self.path}, line {line}: {row}")
                else:
                    malformed.add(line, str(row))


def vw_source(path: Path, features: Sequence[str] | None, arm_count: int | None, errors: str) -> TextSource:
    """Read labels `action:cost:probability`; ADF if examples are blocks of lines."""
    names = None if features is None else tuple(features)
    return TextSource(path, partial(_vw_rows, names, arm_count), errors, numbered=True)


def _vw_rows(
    features: tuple[str, ...] | None, arm_count: int | None, lines: Iterator[tuple[int, str]]
) -> Iterator[tuple[int, Row | ValueError]]:
    number = 0
    stripped = ((line, text.strip()) for line, text in lines)
    for filled, group in groupby(stripped, key=lambda numbered: bool(numbered[1])):
        block = list(group) if filled else []
        multiline = any(text.startswith("shared") or _label(text) is None for _, text in block)
        for example in [block] if multiline else [[single] for single in block]:
            line = example[0][0]
            try:
                row = _adf(example, features) if multiline else _plain(example[0][1], features, arm_count)
            except ValueError as error:
                yield line, error
            else:
                row["decision_id"] = str(number)
                yield line, row
            number += 1


def _label(text: str) -> str | None:
    """The label `action:cost:probability` before the first bar, if there is one."""
    head = text.split("|", 1)[0].split()
    return next((word for word in head if ":" in word), None)


def _numbers(label: str) -> tuple[int, float, float]:
    parts = label.split(":")
    if len(parts) != 3:
        raise ValueError(f"a label must be action:cost:probability, got {label!r}")
    try:
        action, cost, probability = int(parts[0]), float(parts[1]), float(parts[2])
    except ValueError:
        raise ValueError(f"a label must be three numbers action:cost:probability, got {label!r}") from None
    if not (math.isfinite(cost) and 0 < probability <= 1):
        raise ValueError(f"cost must be finite and probability in (0, 1], got {label!r}")
    return action, cost, probability


def _adf(block: list[tuple[int, str]], features: tuple[str, ...] | None) -> Row:
    actions = [(line, text) for line, text in block if not text.startswith("shared")]
    labelled = [
        (i, line, label) for i, (line, text) in enumerate(actions) if (label := _label(text)) is not None
    ]
    if len(labelled) != 1:
        raise ValueError(
            f"an ADF example needs exactly one action with a label, this one has {len(labelled)}"
        )
    arm, line, label = labelled[0]
    try:
        _, cost, probability = _numbers(label)
    except ValueError as error:
        raise ValueError(f"{error} (on line {line})") from None
    row = plain_row(arm, probability, -cost, len(actions))
    if features is not None:
        row["arms"] = [_vector(text, features) for _, text in actions]
        row["features"] = row["arms"][arm]
    return row


def _plain(text: str, features: tuple[str, ...] | None, arm_count: int | None) -> Row:
    label = _label(text)
    if label is None:
        raise ValueError("an example needs a label action:cost:probability")
    action, cost, probability = _numbers(label)
    if action < 1 or (arm_count is not None and action > arm_count):
        raise ValueError(
            f"actions are numbered from 1{f' to {arm_count}' if arm_count else ''}, got {action}"
        )
    row = plain_row(action - 1, probability, -cost, arm_count)
    if features is not None:
        row["features"] = _vector(text, features)
    return row


def _vector(text: str, names: tuple[str, ...]) -> list[float]:
    """The named features of a line `label |namespace name:value name …`; a bare name counts 1."""
    found: dict[str, float] = {}
    for namespace in text.split("|")[1:]:
        words = namespace.split()
        for word in words if namespace[:1].isspace() else words[1:]:
            name, _, value = word.partition(":")
            try:
                found[name] = found.get(name, 0.0) + (float(value) if value else 1.0)
            except ValueError:
                raise ValueError(f"feature {word!r} has no number after the colon") from None
    return [found.get(name, 0.0) for name in names]


def plain_row(arm: int, probability: float, reward: float | None, arm_count: int | None) -> Row:
    """Make what every format tells of a decision."""
    row: Row = {
        "arm": arm,
        "probability": probability,
        "log_probability": math.log(probability),
        "reward": None if reward is None else reward + 0.0,  # −0.0 becomes 0.0
        "decision_id": None,
    }
    if arm_count is not None:
        row["arm_count"] = arm_count
    return row


if TYPE_CHECKING:
    from linmed.log.reader import DecisionLog


def dsjson_source(path: Path, features: Sequence[str] | None, errors: str) -> TextSource:
    """Read one JSON event a line."""
    return TextSource(path, partial(_dsjson_rows, None if features is None else tuple(features)), errors)


def _dsjson_rows(
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
    probability = _field(event, "_label_probability")
    if not 0 < probability <= 1:
        raise ValueError(f"_label_probability must lie in (0, 1], got {probability}")
    reward = -_field(event, "_label_cost") if "_label_cost" in event else None
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
    arms = None if not multi else [_arm_vector(entry, features) for entry in multi]
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


def _field(event: Row, key: str) -> float:
    value = event.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{key} must be a number, got {value!r}")
    return float(value)


def _all_probabilities(p: list[float], order: list[int]) -> list[float]:
    """`p` is in the order of `a`, which numbers actions from 1."""
    if len(p) != len(order) or sorted(order) != list(range(1, len(order) + 1)):
        raise ValueError("a must number every action once, and p give one probability for each")
    return [probability for _, probability in sorted(zip(order, p, strict=True))]


def _arm_vector(entry: Row, names: tuple[str, ...] | None) -> list[float] | None:
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


def write_dsjson(log: "DecisionLog", path: Path) -> int:
    """Write one event a line, in the log's order. `a` lists action numbers from 1, the played one first.

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
                text = json.dumps(_as_event(row, lines), separators=(",", ":"), allow_nan=False)
                file.write(text.encode() + b"\n")
                lines += 1

    write_atomically(path, events)
    return lines


def _as_event(row: Row, number: int) -> Row:
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
