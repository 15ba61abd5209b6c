"""Text logs read line by line: Open Bandit CSV, Vowpal Wabbit text, decision-service JSON.

A line that cannot be read is named with its number: it ends the reading (errors="raise") or is skipped and
counted (errors="skip").
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from linmed import checks
from linmed.log import SCHEMA, TIME
from linmed.ope.log import Malformed

Row = dict[str, Any]
Parser = Callable[[Iterator[tuple[int, str]]], Iterator[tuple[int, Row | ValueError]]]
"""Numbered lines → (line number, row of the log or what is wrong)."""


@dataclass(frozen=True)
class TextSource:
    """A text file and the parser that makes rows of its lines."""

    path: Path
    parse: Parser
    errors: str

    def __post_init__(self) -> None:
        checks.option("errors", self.errors, ("raise", "skip"))
        if not self.path.is_file():
            raise FileNotFoundError(f"there is no log at {self.path}")

    @property
    def columns(self) -> list[str]:
        """Those of the first readable row, in the schema's order."""
        first = next(self._rows(Malformed()), None)
        if first is None:
            raise ValueError(f"{self.path} is empty: it holds no decisions")
        return [name for name in SCHEMA.names if name in first]

    def read(self, columns: Sequence[str], rows: int, malformed: Malformed) -> Iterator[pa.RecordBatch]:
        """Batches of parsed rows."""
        schema = pa.schema([SCHEMA.field(name) for name in columns])
        buffer: list[Row] = []
        for row in self._rows(malformed):
            buffer.append(row)
            if len(buffer) == rows:
                yield pa.RecordBatch.from_pylist(buffer, schema=schema)
                buffer = []
        if buffer:
            yield pa.RecordBatch.from_pylist(buffer, schema=schema)

    def _rows(self, malformed: Malformed) -> Iterator[Row]:
        with open(self.path, encoding="utf-8", errors="replace") as file:
            for line, row in self.parse(enumerate(file, start=1)):
                if not isinstance(row, ValueError):
                    yield row
                elif self.errors == "raise":
                    raise ValueError(f"{self.path}, line {line}: {row}")
                else:
                    malformed.add(line, str(row))


def vw_text(path: Path, features: Sequence[str] | None, arm_count: int | None, errors: str) -> TextSource:
    """Labels `action:cost:probability`; ADF if examples are blocks of lines."""
    names = None if features is None else tuple(features)
    return TextSource(path, partial(_vw_rows, names, arm_count), errors)


def dsjson(path: Path, features: Sequence[str] | None, errors: str) -> TextSource:
    """One JSON event a line."""
    return TextSource(path, partial(_dsjson_rows, None if features is None else tuple(features)), errors)


def _vw_rows(
    features: tuple[str, ...] | None, arm_count: int | None, lines: Iterator[tuple[int, str]]
) -> Iterator[tuple[int, Row | ValueError]]:
    number = 0
    for first, block in _blocks(lines):
        multiline = block[0][1].startswith("shared") or any(_label(text) is None for _, text in block)
        for line, example in (
            [(first, block)] if multiline else [(line, [(line, text)]) for line, text in block]
        ):
            try:
                row = _adf(example, features) if multiline else _plain(example[0][1], features, arm_count)
            except ValueError as error:
                yield line, error
            else:
                row["decision_id"] = str(number)
                yield line, row
            number += 1


def _blocks(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, list[tuple[int, str]]]]:
    """Lines between blank ones."""
    block: list[tuple[int, str]] = []
    for line, text in lines:
        if text.strip():
            block.append((line, text.strip()))
        elif block:
            yield block[0][0], block
            block = []
    if block:
        yield block[0][0], block


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
    row = _row(arm, probability, -cost, len(actions))
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
    row = _row(action - 1, probability, -cost, arm_count)
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


def _row(arm: int, probability: float, reward: float | None, arm_count: int | None) -> Row:
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


def _dsjson_rows(
    features: tuple[str, ...] | None, lines: Iterator[tuple[int, str]]
) -> Iterator[tuple[int, Row | ValueError]]:
    for line, text in lines:
        if not text.strip():
            continue
        try:
            yield line, _event(json.loads(text), features)
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
    row = _row(action, probability, reward, count)
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
    for name in ("version", "arm_id", "log_probability"):
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
        source = {"time": "timestamp", "arm": "item_id", "probability": self.probability, "reward": "click"}
        names = [source.get(column, column) for column in self.columns if column != "arm_count"]
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
        types = {
            "timestamp": TIME,
            "item_id": pa.int64(),
            self.probability: pa.float64(),
            "click": pa.float64(),
            "position": pa.int64(),
        }
        bad: set[int] = set()
        for name, kind in types.items():
            column = batch.column(name)
            try:
                column.cast(kind)
            except pa.ArrowInvalid:
                for i, text in enumerate(column.to_pylist()):
                    try:
                        pa.scalar(text).cast(kind)
                    except pa.ArrowInvalid:
                        bad.add(i)
        for i in sorted(bad):
            self._report(_line(done + i, short), "a field is not a number (or not a time)", malformed)
        if bad:
            batch = batch.filter(pa.array([i not in bad for i in range(batch.num_rows)]))
        typed = {name: batch.column(name).cast(kind) for name, kind in types.items()}
        return pa.RecordBatch.from_pydict(
            {
                "time": typed["timestamp"],
                "arm": typed["item_id"],
                "arm_count": pa.repeat(pa.scalar(self.arm_count, pa.int64()), batch.num_rows),
                "probability": typed[self.probability],
                "reward": typed["click"],
                "position": typed["position"],
            }
        )

    def _report(self, line: int, reason: str, malformed: Malformed) -> None:
        if self.errors == "raise":
            raise ValueError(f"{self.path}, line {line}: {reason}")
        malformed.add(line, reason)


def _line(row: int, short: list[int]) -> int:
    """The line of a data row: after the header, and after the lines that were left out."""
    line = row + 2
    for skipped in sorted(short):
        if skipped <= line:
            line += 1
    return line


def open_bandit(path: Path, arm_count: int | None, errors: str) -> OpenBanditSource:
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
