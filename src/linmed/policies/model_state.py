"""What is known of items that have a model each: arrays that grow as models are learned from."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linmed import validation
from linmed.core import core
from linmed.policies.base import State
from linmed.policies.ridge import RIDGE
from linmed.validation import Floats, Ints

MOST_MODELS = 1_000_000
"""Numbers of models are smaller."""
MOST_BYTES = 4 << 30
"""What a state may take: a wrong number in column 0 must not take the machine down."""
FIRST_ROOM = 16
"""Models that a state has room for to begin with; then for twice as many, as numbers need it."""


class ItemModels(NamedTuple):
    """The arrays in the order in which the core takes them (core/item_models.hpp).

    The shared part as a `Ridge` of m features, then n models of c features in each of R replicas.

    Row r·n is the prior, which every model has that was never learned from; model i is row r·n + 1 + i, if
    there is one.
    """

    theta: Floats  # (R,m) θ₀
    count: Ints  # type: ignore[assignment]  # (R,) rewards absorbed, of all models
    gram: Floats  # (R,m,m) S, lower triangle
    gram_low: Floats
    inverse: Floats  # (R,m,m) S⁻¹
    moment: Floats  # (R,m)
    moment_low: Floats
    logdet: Floats  # (R,) log(det V / det V₀), of all models
    rss: Floats  # (R,) as those of `Ridge`, of all models
    leveraged: Floats
    pulls: Ints  # (R·n,) rewards absorbed
    own: Floats  # (R·n,1+m,c) φ, then the rows of W
    own_gram: Floats  # (R·n,c,c) A, lower triangle
    own_gram_low: Floats
    own_inverse: Floats  # (R·n,c,c) A⁻¹
    own_moment: Floats  # (R·n,1+m,c) Σ x y, then the rows of C
    own_moment_low: Floats


_OF_MODELS = ItemModels._fields[RIDGE:]


class ModelsState(State):
    """The shared part and the models of every replica: `ItemModels` says what each array is.

    Those of models are (R, n, …) here: the prior, and room for n − 1 models, which grows as they are learned
    from.
    """

    __slots__ = ("_named", "_parts")

    def __init__(self, **named: NDArray[Any]) -> None:
        self._hold(named)

    def _hold(self, named: dict[str, NDArray[Any]]) -> None:
        arrays = tuple(named.values())
        self._named = named
        self._parts = *arrays[:RIDGE], *(array.reshape(-1, *array.shape[2:]) for array in arrays[RIDGE:])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, not copied."""
        return dict(self._named)

    def parts(self) -> tuple[NDArray[Any], ...]:
        """Models one behind the other, as `ItemModels` has them: the same tuple until there is more room."""
        return self._parts

    @property
    def count(self) -> Ints:  # type: ignore[override]
        """Rewards absorbed (R,), of all models."""
        return self._named["count"]

    @property
    def theta(self) -> Floats:  # type: ignore[override]
        """[θ₀; θ of model 0; θ of model 1; …] (R,·), up to the last model that has been learned from."""
        shared = self._named["theta"]
        theta = np.concatenate([shared, self.thetas.reshape(len(shared), -1)], axis=1)
        return theta

    @property
    def thetas(self) -> Floats:
        """θ = φ − Wᵀθ₀ of every model (R,M,c), up to the last that has been learned from."""
        own = self._named["own"][:, 1 : 1 + self.learned]
        shared = self._named["theta"]
        thetas: Floats = own[:, :, 0] - np.einsum("rm,rnmc->rnc", shared, own[:, :, 1:])
        return thetas

    @property
    def learned(self) -> int:
        """1 + the largest number of a model that has been learned from in some replica."""
        found = np.flatnonzero(self._named["pulls"].max(axis=0))
        return int(found[-1]) if len(found) else 0

    @property
    def dim(self) -> int:
        """Numbers of an arm: its model's, shared features and its own."""
        _, _, outputs, own = self._named["own"].shape
        return int(outputs + own)

    @property
    def room(self) -> int:
        """Models that there is room for."""
        return int(self._named["own"].shape[1]) - 1

    def make_room(self, models: int) -> None:
        """Have room for so many models, and no more than a power of two that needs."""
        room = min(max(FIRST_ROOM, 1 << max(models - 1, 0).bit_length()), MOST_MODELS)
        arrays = self.arrays()
        size = sum(arrays[name].nbytes for name in _OF_MODELS)
        if size // (self.room + 1) * (room + 1) > MOST_BYTES:
            raise validation.BadValue(
                "features",
                f"features: models up to number {models - 1} of {self.dim} features take more than "
                f"{MOST_BYTES >> 30} GiB; number them 0, 1, 2, … without gaps, or use fewer features",
            )
        for name in _OF_MODELS:
            old = arrays[name]
            new = np.empty((old.shape[0], room + 1, *old.shape[2:]), dtype=old.dtype)
            kept = min(len(old[0]), room + 1)
            new[:, :kept] = old[:, :kept]
            new[:, kept:] = old[:, :1]
            arrays[name] = new
        self._hold(arrays)

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over these arrays; the number of models may be another one."""
        if set(arrays) == set(self._named):
            rooms = {arrays[name].shape[1:2] for name in _OF_MODELS}
            room = rooms.pop()[0] if len(rooms) == 1 and rooms != {()} else 0
            if room < 1:
                raise ValueError(f"state arrays of models must be for one number of them, got {rooms}")
            expected = {
                name: (*array.shape[:1], room, *array.shape[2:]) if name in _OF_MODELS else array.shape
                for name, array in self._named.items()
            }
            self._require(arrays, expected)
            self._hold({name: np.array(arrays[name], order="C") for name in self._named})
        else:
            super().restore(arrays)  # which says what is wrong


def models_of(name: str, arms: Floats, state: ModelsState) -> int:
    """How many models arms (…,d) can be of: 1 + the largest number in column 0, which is checked."""
    if arms.shape[-1] != state.dim:
        raise validation.BadValue(name, f"{name} must have {state.dim} columns, got shape {arms.shape}")
    rows = validation.for_kernels(arms).reshape(-1, state.dim)
    highest: int = core.highest_model(rows, float(MOST_MODELS))
    if highest < 0:
        place = -1 - highest
        raise validation.BadValue(
            name,
            f"{name}: column 0 must be the number of each item's model, a whole number from 0 to "
            f"{MOST_MODELS - 1}, got {rows[place, 0]} in row {place % arms.shape[-2]}",
        )
    return highest + 1
