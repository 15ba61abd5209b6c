"""Decisions that stand in a log twice: found with bounded memory, in the order of the rows."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from linmed.log.source import BATCH, Malformed, Source, vouched
from linmed.validation import Ints

KEPT = 1 << 20
"""Identifiers in memory at most, apart from as many that wait to be compared."""
TEXT = pa.large_string()
GOLDEN = 0x9E37_79B9_7F4A_7C15

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Repeated:
    """What is known of decisions that occur more than once.

    >>> from linmed.ope import DecisionLog
    >>> played = {"arm": [0, 1], "probability": [0.5, 0.5], "reward": [1.0, 0.0], "decision_id": ["x", "x"]}
    >>> found = DecisionLog.from_table(played).duplicates()
    >>> found.count, found.row, found.first, found.decision_id
    (1, 1, 0, 'x')
    """

    count: int
    """Rows whose identifier an earlier row has."""
    row: int
    """The first of them."""
    first: int
    """The row that has its identifier first."""
    decision_id: str
    compared: float = 1.0
    """The share of identifiers that was compared; below one, `count` is that of this share alone."""

    def __str__(self) -> str:
        share = "" if self.compared == 1.0 else f" among {self.compared:.2g} of the identifiers"
        rows = f"1 row{share} repeats" if self.count == 1 else f"{self.count} rows{share} repeat"
        return (
            f"row {self.row} has the decision_id {self.decision_id!r} of row {self.first} again "
            f"({rows} an earlier one)"
        )


class Duplicates:
    """Finds identifiers that occur twice, fed column by column.

    Exact for the first million rows (2²⁰). Where more identifiers have been seen than that, those whose hash
    begins with a zero bit stay, then with two, and so on: memory is bounded, and of every identifier that
    stayed all occurrences were seen. What is found depends on the rows alone, not on how they are batched.

    >>> search = Duplicates()
    >>> search.add(pa.array(["x", "y"]))
    >>> search.add(pa.array(["z", "x"]))
    >>> print(search.found())
    row 3 has the decision_id 'x' of row 0 again (1 row repeats an earlier one)
    """

    def __init__(self) -> None:
        self._waiting: list[pa.Array] = []
        self._waiting_rows = 0
        self._done = 0  # rows compared
        self._zeros = 0  # leading bits of a hash that must be zero
        self._kept = pa.array([], TEXT)
        self._rows: Ints = np.empty(0, np.int64)  # where each of them stood first
        self._again: Ints = np.empty(0, np.int64)  # and how often it came again
        self._first: tuple[int, int, str] | None = None  # row, the row before it, identifier

    def add(self, identifiers: pa.Array) -> None:
        """The next rows' identifiers; null is none."""
        while len(identifiers):
            part = identifiers.slice(0, KEPT - self._waiting_rows)
            identifiers = identifiers.slice(len(part))
            self._waiting.append(part)
            self._waiting_rows += len(part)
            if self._waiting_rows == KEPT:
                self._compare()

    def found(self) -> Repeated | None:
        """The duplicates so far."""
        self._compare()
        if self._first is None:
            return None
        row, before, identifier = self._first
        return Repeated(max(1, int(self._again.sum())), row, before, identifier, 0.5**self._zeros)

    def _compare(self) -> None:
        rows: Ints = np.arange(self._done, self._done + self._waiting_rows)
        new = pa.concat_arrays([pa.array([], TEXT), *(one.cast(TEXT) for one in self._waiting)])
        self._done += self._waiting_rows
        self._waiting, self._waiting_rows = [], 0
        present = new.is_valid().to_numpy(zero_copy_only=False)
        new, rows = new.filter(pa.array(present)), rows[present]
        if self._zeros:
            stays = self._stays(new)
            new, rows = new.filter(pa.array(stays)), rows[stays]
        every = pa.concat_arrays([self._kept, new])
        rows = np.concatenate([self._rows, rows])
        # Codes are numbered by first appearance: an identifier is new where its code exceeds all before it.
        code: Ints = every.dictionary_encode().indices.to_numpy().astype(np.int64)
        fresh = code > np.maximum.accumulate(np.append(-1, code))[:-1]
        again = np.flatnonzero(~fresh)
        if again.size and self._first is None:
            place = int(again[0])
            before = int(np.argmax(code == code[place]))
            self._first = int(rows[place]), int(rows[before]), every[place].as_py()
        self._kept, self._rows = every.filter(pa.array(fresh)), rows[fresh]
        self._again = np.append(self._again, np.zeros(len(self._kept) - self._again.size, np.int64))
        self._again += np.bincount(code[again], minlength=self._again.size)
        while len(self._kept) > KEPT:
            self._zeros += 1
            stays = self._stays(self._kept)
            self._kept = self._kept.filter(pa.array(stays))
            self._rows, self._again = self._rows[stays], self._again[stays]

    def _stays(self, identifiers: pa.Array) -> NDArray[np.bool_]:
        """Which identifiers are of the share that is compared."""
        stays: NDArray[np.bool_] = hashes(identifiers) >> np.uint64(64 - self._zeros) == 0
        return stays


def hashes(identifiers: pa.Array) -> Words:
    """64 bits of every entry of a TEXT column without nulls, alike in every process: Σᵢ mᵢ·wordᵢ, mixed."""
    first = identifiers.offset
    _, places, content = identifiers.buffers()
    offsets = np.frombuffer(places, np.int64, len(identifiers) + 1, 8 * first)
    letters = np.frombuffer(content, np.uint8) if content is not None else np.empty(0, np.uint8)
    lengths = np.diff(offsets)
    found: Words = np.empty(len(identifiers), np.uint64)
    for length in np.unique(lengths).tolist():
        same = np.flatnonzero(lengths == length)
        padded = np.zeros((same.size, 8 * (length // 8 + 1)), np.uint8)
        padded[:, :length] = letters[offsets[same][:, None] + np.arange(length)]
        words = padded.view("<u8")
        multipliers = _mixed(np.arange(1, words.shape[1] + 1, dtype=np.uint64) * np.uint64(GOLDEN))
        total = (words * (multipliers | np.uint64(1))).sum(axis=1, dtype=np.uint64)
        found[same] = _mixed(total + np.uint64((length + 1) * GOLDEN % 2**64))
    return found


def _mixed(bits: Words) -> Words:
    """The finaliser of SplitMix64: every bit of the answer depends on every bit given."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return bits ^ (bits >> np.uint64(31))


def repeats(source: Source) -> Repeated | None:
    """The decisions that stand in `source` twice, None if there are none or it has no identifiers."""
    if "decision_id" not in source.columns or vouched(source):
        return None
    search = Duplicates()
    for batch in source.read(["decision_id"], BATCH, Malformed()):
        search.add(batch.column("decision_id"))
    return search.found()
