"""A batch of decisions as numpy arrays, and what is wrong with some of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from linmed.log import SUM_ERROR, DecisionLog
from linmed.validation import BadValue, Floats, Ints

SUM_ROUNDING = 1e-9
"""Sums closer to one than this are float64's own, and left as they are."""

Mask = NDArray[np.bool_]


class Problems:
    """What is wrong with a log, by kind: the first row with its value, how many rows, and the argument."""

    def __init__(self) -> None:
        self._found: dict[str, list[Any]] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(
        self, rule: str, row: Ints, wrong: Mask, value: Callable[[int], object] | str, field: str = "log"
    ) -> None:
        """Where `wrong` is true, that row breaks `rule`; `value(i)` is what the i-th has."""
        if wrong.any():
            first = int(np.argmax(wrong))
            described = value if isinstance(value, str) else value(first)
            entry = self._found.setdefault(rule, [int(row[first]), described, 0, field])
            entry[2] += int(np.count_nonzero(wrong))

    def merge(self, later: "Problems", shift: int) -> None:
        """Absorb what was found in rows that follow; their numbers grow by `shift`."""
        for rule, (row, value, count, blamed) in later._found.items():
            entry = self._found.setdefault(rule, [row + shift, value, 0, blamed])
            entry[2] += count

    def raise_any(self) -> None:
        """One error that names every kind."""
        if self._found:
            lines = [
                f"{rule}: row {row} has {value} ({count} row{'s' if count > 1 else ''} in all)"
                for rule, (row, value, count, _) in self._found.items()
            ]
            fields = {entry[3] for entry in self._found.values()}
            raise BadValue("log" if "log" in fields else fields.pop(), "; ".join(lines))


def given(
    column: pa.Array, name: str, row: Ints, problems: Problems, instead: float, field: str = "log"
) -> pa.Array:
    """`column` without nulls: they are a problem, and `instead` is no second one."""
    if column.null_count:
        missing = column.is_null().to_numpy(zero_copy_only=False)
        problems.add(f"{name} must be given in every row", row, missing, "none", field)
        return column.fill_null(instead)
    return column


def require(log: DecisionLog, columns: Sequence[str], reason: str, field: str) -> None:
    """Raise unless the log has all `columns`, which what was given as `field` needs."""
    try:
        log.require(columns, reason)
    except ValueError as error:
        raise BadValue(field, str(error)) from None


@dataclass
class Rounds:
    """n rewarded decisions in log order. Ragged arrays are flat, decision i at offsets[i]:offsets[i+1]."""

    row: Ints  # (n,) number of the row in the log
    arm: Ints  # (n,)
    probability: Floats  # (n,) by any route but a catalogue's fallback; ∞ on fallback rows
    reward: Floats  # (n,)
    arm_count: Ints | None = None  # (n,) K of each decision
    logged: Floats | None = None  # (ΣK,) the logging policy's probability of every arm
    arms: Floats | None = None  # (ΣK, d)
    weight: Floats | None = None  # (n,) ω in [0, 1], how much each counts; None for all alike
    fallback: Mask | None = None  # (n,) None where there is none
    placed: Mask | None = None  # (n,) where `arm` is a place in a catalogue, which may exceed K
    extra: dict[str, pa.Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.row.size

    @cached_property
    def offsets(self) -> Ints:
        """(n+1,) where each decision's arms begin in the flat arrays."""
        assert self.arm_count is not None
        return np.concatenate([[0], np.cumsum(self.arm_count)])

    @property
    def chosen(self) -> Ints:
        """(n,) the played arm's place in the flat arrays."""
        return self.offsets[:-1] + self.arm

    @property
    def arm_number(self) -> Ints:
        """(ΣK,) index of every arm within its decision."""
        assert self.arm_count is not None
        return np.arange(self.offsets[-1]) - np.repeat(self.offsets[:-1], self.arm_count)

    def weights(self, chance: Floats) -> Floats:
        """w = π/p of the arms played (n,), with the target's probability of each; 0 on fallback rows.

        E w = Σ_a p(a) π(a)/p(a) = 1 as without fallbacks: the sum is over all arms, and a fallback adds
        nothing to it. The policy that wrote the log is as probable as itself (∞/∞): each row is its own.
        """
        if self.fallback is None:
            return chance / self.probability
        own = np.isinf(chance)
        weight: Floats = np.where(own, 1.0, np.where(own, 1.0, chance) / self.probability)
        return weight

    def sum_over_arms(self, flat: Floats) -> Floats:
        """Sums of a flat array over each decision's arms.  (ΣK,) → (n,)."""
        assert self.arm_count is not None
        if len(self) and np.all(self.arm_count == self.arm_count[0]):
            total: Floats = flat.reshape(len(self), -1).sum(axis=1)
            return total
        return np.add.reduceat(flat, self.offsets[:-1]) if len(self) else np.empty(0)

    def probabilities(self, flat: Floats, whose: str, problems: Problems, field: str = "log") -> Floats:
        """`flat` (ΣK,), checked to be non-negative and made to sum to one where it nearly does."""
        total = self.sum_over_arms(flat)
        off = np.abs(total - 1.0)
        possible = bool((flat >= 0).all())
        if possible and (off <= SUM_ROUNDING).all():
            return flat
        negative = self.sum_over_arms((~(flat >= 0)).astype(np.float64)) > 0
        problems.add(f"{whose} must be non-negative", self.row, negative, "a negative one or a NaN", field)
        problems.add(
            f"{whose} must sum to one, within {SUM_ERROR:g} (divide them by their sum if that is what they "
            "mean, or leave them out if they are not known)",
            self.row,
            ~negative & ~(off <= SUM_ERROR),
            lambda i: f"a sum of {total[i]:.6g}",
            field,
        )
        scale = np.where(off > SUM_ROUNDING, total, 1.0)
        return flat if problems else flat / np.repeat(scale, np.diff(self.offsets))

    def alike(self, arms: int) -> Iterator[Ints]:
        """Places (m, K) in the flat arrays of decisions with as many arms, few enough that m K ≤ `arms`."""
        assert self.arm_count is not None
        for count in np.unique(self.arm_count).tolist():
            index = np.flatnonzero(self.arm_count == count)
            for part in np.split(index, range(size := max(arms // count, 1), index.size, size)):
                yield self.offsets[part][:, None] + np.arange(count)
