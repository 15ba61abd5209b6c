"""Models per item: `Disjoint`, with one θ for each, and `Hybrid`, with a part that all share (Li et al. 2010)."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linmed import checks
from linmed.checks import Floats, Ints
from linmed.kernels import confidence, ridge
from linmed.kernels.blind import UniformRule
from linmed.kernels.bound import Bound, deciding, learning
from linmed.kernels.igw import SquareRule
from linmed.kernels.med import MedRule
from linmed.kernels.models import ItemModels, highest_model, look_at_models
from linmed.kernels.optimism import GreedyRule, ImedRule, OfulRule
from linmed.kernels.randomised_ucb import RandomisedRule
from linmed.kernels.rounds import observing
from linmed.policies.around import Around
from linmed.policies.base import Prediction, Properties, State, decisions
from linmed.policies.ridge import RIDGE, RidgePolicy

MOST_MODELS = 1_000_000
"""Numbers of models are smaller."""
MOST_BYTES = 4 << 30
"""What a state may take: a wrong number in column 0 must not take the machine down."""
FIRST_ROOM = 16
"""Models that a state has room for to begin with; then for twice as many, as numbers need it."""
CARRIED = (MedRule, OfulRule, ImedRule, GreedyRule, UniformRule, RandomisedRule, SquareRule)
"""Rules that ask a belief for what they look at, so that they decide by `ItemModels` as by any other."""


class ModelsState(State):
    """The shared part and the models of every replica: `ItemModels` says what each array is.

    Those of models are (R, n, …) here: the prior, and room for n − 1 models, which grows as models are learned
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
            raise checks.BadValue(
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
            if all(
                arrays[name].shape == shape and arrays[name].dtype == self._named[name].dtype
                for name, shape in expected.items()
            ):
                self._hold({name: np.array(arrays[name], order="C") for name in self._named})
                return
        super().restore(arrays)  # which says what is wrong


_OF_MODELS = ItemModels._fields[RIDGE:]


@dataclass(frozen=True)
class ModelPolicy(Around):
    """The policy inside, around a model for every item: what `Disjoint` and `Hybrid` have in common."""

    @property
    @abstractmethod
    def shared_features(self) -> int:
        """m: how many columns of an arm all models share."""

    def __post_init__(self) -> None:
        super().__post_init__()
        inside: Any = self.inside
        if type(getattr(inside, "rule", None)) not in CARRIED:
            raise checks.BadValue(
                "inside",
                "inside must be LinMED, OFUL, LinUCB, LinIMED, RandUCB, SquareCB, Greedy or Uniform, whose "
                f"rules need no more of an item than its mean and its distances, got {inside.name}",
            )
        for name, value in (("norm_bound", inside.norm_bound), ("ridge", inside.ridge)):
            if isinstance(value, str):
                raise checks.BadValue(
                    "inside",
                    f"inside: {name} must be a number, for there may always be another item of which "
                    f"nothing is known, got {inside.name}",
                )
        if isinstance(inside.rule, SquareRule) and inside.horizon is not None and inside.gamma is None:
            raise checks.BadValue(
                "inside",
                "inside: horizon must be left out, or gamma given: γ for a horizon follows from the number "
                f"of features, which grows with the items, got {inside.name}",
            )

    @property
    def ridge_policy(self) -> RidgePolicy:
        """The policy inside."""
        assert isinstance(self.inside, RidgePolicy)
        return self.inside

    @property
    def belief(self) -> type:
        """Models of items."""
        return ItemModels

    @cached_property
    def confidence_set(self) -> NamedTuple:
        """That of the policy inside, of all models together."""
        return self.ridge_policy.confidence_set

    @property
    def rule(self) -> NamedTuple:
        """The rule of the policy inside."""
        rule: NamedTuple = self.inside.rule  # type: ignore[attr-defined]
        return rule

    def start(self, replicas: int, dim: int) -> ModelsState:
        """V = λI in every replica: no model has been learned from."""
        m, lam = self.shared_features, self.ridge_policy.lam
        c = dim - 1 - m
        if c < 1:
            raise checks.BadValue(
                "dim",
                f"dim must be at least {m + 2} for {self.name}: the number of the model"
                f"{f', {m} shared' if m else ''} and one or more features of its own, got {dim}",
            )
        shared, rows = ridge.start(replicas, m, lam), (replicas, 1 + FIRST_ROOM)
        identity = np.broadcast_to(np.eye(c), (*rows, c, c))
        models = (
            np.zeros(rows, dtype=np.int64), np.zeros((*rows, 1 + m, c)), lam * identity,
            np.zeros((*rows, c, c)), identity / lam, np.zeros((*rows, 1 + m, c)), np.zeros((*rows, 1 + m, c)),
        )  # fmt: skip
        return ModelsState(**dict(zip(ItemModels._fields, (*shared, *models), strict=True)))

    def learn(self, state: ModelsState, features: Floats, rewards: Floats, replicas: Ints) -> None:
        """The arm's model learns, and what all share."""
        models = _models("features", features, state)
        if models > state.room:
            state.make_room(models)
        observing(ItemModels)(state.parts(), features, rewards, replicas)

    def learner(self, state: ModelsState) -> Callable[..., None]:
        """The kernel itself, which is bound again when the state has grown."""
        return _Rebound("features", state, lambda parts: learning(observing(ItemModels), parts))

    def decider(self, state: ModelsState) -> Callable[..., int]:
        """The kernel itself, which is bound again when the state has grown."""
        kernel, sure, rule = self._parts
        return _Rebound("arms", state, lambda parts: deciding(kernel, parts, sure, rule))

    def _rounds(self, state: ModelsState, arms: Floats, *others: Any) -> None:
        models = _models("arms", arms, state)
        grows = len(others[0]) > 0 and models > state.room
        if grows:
            state.make_room(models)
        super()._rounds(state, arms, *others)
        if grows:  # for all that might have been learned from
            state.make_room(state.learned)

    def noise_level(self, state: ModelsState) -> Floats:
        """σ as it was told, or an estimate of it (R,)."""
        inside = self.ridge_policy
        if not isinstance(inside.sigma, str):
            return np.full(len(state.count), inside.sigma)
        out = np.empty(len(state.count))
        confidence.likely_variances(state.count, state.arrays()["rss"], inside.reward_scale, out)
        return np.sqrt(out)

    def radius(self, state: ModelsState) -> Floats:
        """√β of all models together, one per replica (R,)."""
        out, sure = np.empty(len(state.count)), self.confidence_set
        confidence.radii(type(sure), ItemModels)(state.parts(), tuple(sure), out)
        return out

    def look(self, state: ModelsState, arms: Floats, distances: bool = False) -> tuple[Floats, Floats]:
        """⟨θ̂, a⟩ (R,K), and ‖a‖² in V⁻¹ (R,K,1) or, with `distances`, every a·V⁻¹·a′ (R,K,K)."""
        _models("arms", arms, state)
        decided, count = decisions(state, arms), arms.shape[1]
        mean, gram = np.empty((decided, count)), np.empty((decided, count, count if distances else 1))
        look_at_models(state.parts(), arms, mean, gram)
        return mean, gram

    def expected(self, state: ModelsState, arms: Floats) -> Floats:
        """⟨θ̂, a⟩ by the model of each arm."""
        expected: Floats = self.look(state, arms[None])[0][0]
        return expected

    def predict(self, state: ModelsState, arms: Floats) -> Prediction:
        """⟨θ̂, a⟩ ± √β‖a‖ in V⁻¹."""
        means, leverages = self.look(state, arms[None])
        mean = means[0]
        with np.errstate(invalid="ignore"):  # nothing is said of a zero vector: its mean is 0
            half = np.nan_to_num(self.radius(state) * np.sqrt(leverages[0, :, 0]), posinf=np.inf)
        return Prediction(mean, mean - half, mean + half)

    def like(self, arms: Floats) -> Floats:
        """Arms in which every one of the first few models has its turn."""
        dim = max(arms.shape[1], 2 + self.shared_features)
        made = np.ones((len(arms), dim))
        made[:, : arms.shape[1]] = arms
        made[:, 0] = np.arange(len(arms)) % FIRST_ROOM
        return made


@dataclass(frozen=True)
class Disjoint(ModelPolicy):
    """The policy inside, with one θ for each item: arms are rows (number of the item's model, x₁, …, x_c).

    It decides as the policy inside would among the arms e_m ⊗ x, with zeros for all items but one, at the
    price of x alone. Models are numbered 0, 1, 2, …; a new one starts at the prior.

    >>> from linmed.policies import LinMED
    >>> Disjoint(LinMED(sigma=0.5)).name
    'Disjoint LinMED-90 (sigma=0.5)'
    """

    properties: ClassVar[Properties] = Properties(
        reference="Li, Chu, Langford & Schapire 2010",
        minimax="as the policy inside, d = Mc",
        instance="as the policy inside, d = Mc",
        computable="that of the policy inside",
        all_arms="as the policy inside",
        randomised=True,
    )

    @property
    def shared_features(self) -> int:
        """None."""
        return 0


@dataclass(frozen=True)
class Hybrid(ModelPolicy):
    """The policy inside, with a part of θ that all items share: arms are rows (model, z₁, …, z_m, x₁, …, x_c).

    It decides as the policy inside would among the arms [z; e_m ⊗ x]: what one item teaches about z, all know.

    >>> from linmed.policies import LinMED
    >>> Hybrid(LinMED(sigma=0.5), shared=3).name
    'Hybrid LinMED-90 (sigma=0.5) (shared=3)'
    """

    shared: int = 1
    """m: how many of the columns behind the model's number are shared features."""

    properties: ClassVar[Properties] = Disjoint.properties._replace(
        minimax="as the policy inside, d = m + Mc", instance="as the policy inside, d = m + Mc"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("shared", checks.whole("shared", self.shared))

    @property
    def shared_features(self) -> int:
        """m."""
        return self.shared


def _models(name: str, arms: Floats, state: ModelsState) -> int:
    """How many models arms (…,d) can be of: 1 + the largest number in column 0, which is checked."""
    if arms.shape[-1] != state.dim:
        raise checks.BadValue(name, f"{name} must have {state.dim} columns, got shape {arms.shape}")
    rows = checks.for_kernels(arms).reshape(-1, state.dim)
    highest = int(highest_model(rows, MOST_MODELS))
    if highest < 0:
        place = -1 - highest
        raise checks.BadValue(
            name,
            f"{name}: column 0 must be the number of each item's model, a whole number from 0 to "
            f"{MOST_MODELS - 1}, got {rows[place, 0]} in row {place % arms.shape[-2]}",
        )
    return highest + 1


class _Rebound:
    """A kernel bound to the arrays of a state (`kernels.bound`), and again whenever it has others."""

    def __init__(self, name: str, state: ModelsState, bind: Callable[[tuple[Any, ...]], Bound]) -> None:
        self.name, self.state, self.bind = name, state, bind
        self.parts = state.parts()
        self.bound = bind(self.parts)

    def __call__(self, arms: Floats, *others: Any) -> Any:
        """Decide among arms (K,d), or learn from one (d,)."""
        models = _models(self.name, arms if arms.ndim == 2 else arms[None], self.state)
        if self.name == "features" and models > self.state.room:
            self.state.make_room(models)
        if self.parts is not self.state.parts():
            self.parts = self.state.parts()
            self.bound = self.bind(self.parts)
        return self.bound(arms, *others)
