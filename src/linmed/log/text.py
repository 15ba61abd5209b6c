"""Text logs read line by line, and Vowpal Wabbit's among them.

A line that cannot be read is named with its number: it ends the reading (errors="raise") or is skipped and
counted (errors="skip").
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from linmed import validation
from linmed.log.schema import SCHEMA
from linmed.log.source import Malformed

Row = dict[str, Any]
Parser = Callable[[Iterator[tuple[int, str]]], Iterator[tuple[int, Row | ValueError]]]
"""Numbered lines → (line number, row of the log or what is wrong)."""
FIRST_ROWS = 1000
"""How many of them tell which columns a log has."""


@dataclass(frozen=True)
class TextSource:
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
        """Batches of parsed rows."""
        schema = pa.schema([SCHEMA.field(name) for name in columns])
        source = self._rows(malformed)
        while some := list(islice(source, rows)):
            yield pa.RecordBatch.from_pylist(some, schema=schema)

    def vouches(self) -> bool:
        """Numbers that were given here do not repeat."""
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
    """Labels `action:cost:probability`; ADF if examples are blocks of lines."""
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
    """What every format tells of a decision."""
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
