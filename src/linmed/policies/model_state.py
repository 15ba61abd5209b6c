"""What is known of items that have a model each: arrays that grow as models are learned from."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linmed import validation
from linmed.core import core
from linmed.policies.base import State, merged
from linmed.policies.worth import WORTH
from linmed.validation import Floats, Ints

MOST_MODELS = 1_000_000
"""Numbers of models are smaller."""
MOST_BYTES = 4 << 30
"""What a state may take: a wrong number in column 0 must not take the machine down."""
FIRST_ROOM = 16
"""Models that a state has room for to begin with; then for twice as many, as numbers need it."""


class ItemModels(NamedTuple):
    """The arrays of models beside E estimates in every replica, in the core's order (core/item_models.hpp).

    Here (R, E, n, …): n − 1 models, and first the prior, which every model has that was never learned from.
    """

    known: Ints  # (R,E) models that were learned from
    pulls: Ints  # (R,E,n) rewards absorbed
    own: Floats  # (R,E,n,1+m,c) φ, then the rows of W
    own_gram: Floats  # (R,E,n,c,c) A, lower triangle
    own_gram_low: Floats
    own_inverse: Floats  # (R,E,n,c,c) A⁻¹
    own_moment: Floats  # (R,E,n,1+m,c) Σ w x y, then the rows of C
    own_moment_low: Floats
    stamp: Floats | None  # (R,E,n) up to when each has faded, where something does


class ModelsState(State):
    """What all models share, a state of the base policy, and the models beside each of its estimates.

    `ItemModels` says what each of their arrays is; n grows as models are learned from.
    """

    __slots__ = ("_models", "_parts", "shared")

    def __init__(self, shared: Any, models: Mapping[str, NDArray[Any]]) -> None:
        self.shared = shared
        self._hold(models)

    def _hold(self, models: Mapping[str, NDArray[Any]]) -> None:
        self._models = dict(models)
        flat = (merged(array, min(array.ndim, 3)) for array in self._models.values())
        self._parts = *self.shared.parts(), *flat

    @classmethod
    def begin(cls, shared: Any, priors: Sequence[float] | Floats, outputs: int, own: int) -> "ModelsState":
        """Begin without a model; λ of each estimate is one of the priors."""
        forgets = hasattr(shared, "clock")
        rows = len(shared.count), len(priors), 1 + FIRST_ROOM
        identity = np.broadcast_to(np.eye(own), (*rows, own, own))
        lam = np.reshape(priors, (-1, 1, 1, 1))
        models = ItemModels(
            np.zeros(rows[:2], dtype=np.int64), np.zeros(rows, dtype=np.int64),
            np.zeros((*rows, outputs, own)), lam * identity, np.zeros((*rows, own, own)), identity / lam,
            np.zeros((*rows, outputs, own)), np.zeros((*rows, outputs, own)),
            np.zeros(rows) if forgets else None,
        )  # fmt: skip
        return cls(shared, {name: array for name, array in models._asdict().items() if array is not None})

    def _replace(self, leader: Ints) -> "ModelsState":
        """Return the same arrays with other deciding estimates."""
        return ModelsState(self.shared._replace(leader=leader), self._models)

    @property
    def leader(self) -> Ints:
        """Which estimate decides (R,)."""
        leader: Ints = getattr(self.shared, "leader", np.zeros(len(self.shared.count), dtype=np.int64))
        return leader

    @property
    def weight(self) -> Floats:
        """How much each of several memories is trusted (R,N)."""
        weight: Floats = self.shared.weight
        return weight

    def leading(self, name: str) -> Any:
        """Take the rows of the deciding estimates in a shared array (R, …)."""
        array = self.arrays()[name]
        if not hasattr(self.shared, "leader"):
            return array
        return array[np.arange(len(self.leader)), self.leader]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name the arrays, without a copy."""
        return {**self.shared.arrays(), **self._models}

    def parts(self) -> tuple[NDArray[Any], ...]:
        """List the arrays as the core takes them: the same tuple until there is more room."""
        return self._parts

    def copy(self) -> "ModelsState":
        """An independent copy."""
        return ModelsState(self.shared.copy(), {name: array.copy() for name, array in self._models.items()})

    def limits(self) -> dict[str, tuple[float, float]]:
        """Give the limits of every state, and those of the base policy's."""
        return {**super().limits(), **self.shared.limits()}

    @property
    def count(self) -> Ints:  # type: ignore[override]
        """Rewards absorbed (R,), of all models."""
        count: Ints = self.shared.count
        return count

    @property
    def theta(self) -> Floats:  # type: ignore[override]
        """[θ₀; θ of model 0; θ of model 1; …] (R,·), up to the last model that has been learned from."""
        shared = self.shared.theta
        theta = np.concatenate([shared, self.thetas.reshape(len(shared), -1)], axis=1)
        return theta

    @property
    def thetas(self) -> Floats:
        """θ = φ − Wᵀθ₀ of every model (R,M,c), up to the last that has been learned from.

        On a clock as of when each was learned from last.
        """
        own = self._models["own"][np.arange(len(self.leader)), self.leader, 1 : 1 + self.learned]
        shared = self.shared.theta
        if own.shape[2] > 1 + shared.shape[1]:
            shared = np.concatenate([self.leading("intercept")[:, None], shared], axis=1)
        thetas: Floats = own[:, :, 0] - np.einsum("rm,rnmc->rnc", shared, own[:, :, 1:])
        return thetas

    @property
    def learned(self) -> int:
        """1 + the largest number of a model that has been learned from in some replica."""
        found = np.flatnonzero(self._models["pulls"].max(axis=(0, 1)))
        return int(found[-1]) if len(found) else 0

    @property
    def dim(self) -> int:
        """Numbers of an arm: its model's, shared features and its own."""
        return int(1 + self.shared.dim + self._models["own"].shape[4])

    @property
    def room(self) -> int:
        """Models that there is room for."""
        return int(self._models["own"].shape[2]) - 1

    def make_room(self, models: int) -> None:
        """Have room for so many models, and no more than a power of two that needs."""
        room = min(max(FIRST_ROOM, 1 << max(models - 1, 0).bit_length()), MOST_MODELS)
        size = sum(array.nbytes for array in self._models.values())
        if size // (self.room + 1) * (room + 1) > MOST_BYTES:
            raise validation.BadValue(
                "features",
                f"features: models up to number {models - 1} of {self.dim} features take more than "
                f"{MOST_BYTES >> 30} GiB; number them 0, 1, 2, … without gaps, or use fewer features",
            )
        grown = dict(self._models)
        for name, old in self._models.items():
            if name == "known":
                continue
            new = np.empty((*old.shape[:2], room + 1, *old.shape[3:]), dtype=old.dtype)
            kept = min(old.shape[2], room + 1)
            new[:, :, :kept] = old[:, :, :kept]
            new[:, :, kept:] = old[:, :, :1]
            grown[name] = new
        self._hold(grown)

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over these arrays; the number of models may be another one."""
        if set(arrays) == set(self.arrays()):
            growing = [name for name in self._models if name != "known"]
            rooms = {arrays[name].shape[2:3] for name in growing}
            room = rooms.pop()[0] if len(rooms) == 1 and rooms != {()} else 0
            if room < 1:
                raise ValueError(f"state arrays of models must be for one number of them, got {rooms}")
            expected = {name: array.shape for name, array in self.arrays().items()}
            for name in growing:
                expected[name] = *expected[name][:2], room, *expected[name][3:]
            self._require(arrays, expected)
            self.shared.restore({name: arrays[name] for name in self.shared.arrays()})
            self._hold({name: np.array(arrays[name], order="C") for name in self._models})
        else:
            super().restore(arrays)  # which says what is wrong


def models_of(name: str, arms: Floats, state: ModelsState) -> int:
    """Check column 0 of arms (…,d) and return how many models they can be of: 1 + its largest number."""
    if arms.shape[-1] not in (state.dim, state.dim + WORTH):
        raise validation.BadValue(name, f"{name} must have {state.dim} columns, got shape {arms.shape}")
    rows = validation.for_kernels(arms[..., : state.dim]).reshape(-1, state.dim)
    highest: int = core.highest_model(rows, float(MOST_MODELS))
    if highest < 0:
        place = -1 - highest
        raise validation.BadValue(
            name,
            f"{name}: column 0 must be the number of each item's model, a whole number from 0 to "
            f"{MOST_MODELS - 1}, got {rows[place, 0]} in row {place % arms.shape[-2]}",
        )
    return highest + 1
