"""What every policy is: an immutable configuration with a rule, and a state made of named arrays.

All arrays have a leading replica axis R: one live user is R = 1, a simulation of 180 trials is R = 180.
Arms are (R, K, d), or (1, K, d) when all replicas see the same set.
"""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from linmed import validation
from linmed.core import core
from linmed.policies.posterior import Capabilities, Posterior, Prediction
from linmed.registry import described
from linmed.validation import Bools, Floats, Ints


class Properties(NamedTuple):
    """A row of the table that `linmed policies` prints (the paper's Table 1 and ours beside it).

    >>> from linmed import LinMED, OFUL
    >>> LinMED.properties.minimax, LinMED.properties.randomised
    ('d √n', True)
    >>> OFUL.properties.all_arms
    'no (yes with floor > 0)'
    """

    reference: str
    minimax: str = "unknown"
    instance: str = "unknown"
    computable: str = "closed form"
    """How the probability is computed here."""
    all_arms: str = "yes"
    """Whether every arm has positive probability."""
    randomised: bool = True
    paper_computable: str = "—"
    paper_all_arms: str = "—"


class Choice(NamedTuple):
    """One decision in every replica, or one in each of n sets by a state of one replica.

    `arm` (R,) was played with `log_probability` (R,), `log_probabilities` (R, K) is of all arms or None,
    `features` (R, d) is what `learn` needs and `error` (R,) the standard error of a probability, None where
    it is exact.

    >>> import numpy as np
    >>> from linmed import Uniform
    >>> policy, arms = Uniform(), np.eye(4)[None]
    >>> choice = policy.decide(policy.start(2, 4), arms, noise=np.array([[0.1], [0.9]]))
    >>> choice.arm, np.exp(choice.log_probability)
    (array([0, 3]), array([0.25, 0.25]))
    """

    arm: Ints  # (R,)
    log_probability: Floats  # (R,) of the arm played, marginal: before any draw of the policy's own
    log_probabilities: Floats | None  # (R, K), None where only the played arm's is known
    features: Floats  # (R, d) what `learn` needs besides the reward
    error: Floats | None = None  # (R,) standard error of exp(log_probability); None where it is exact


MOST = 1 << 53
"""No count is larger."""
_LARGEST = {"theta": 1e152, "intercept": 1e152, "own": 1e152, "inverse": 1e102, "own_inverse": 1e102}
"""No number of an estimate or of V⁻¹ is larger, as λ ≥ 1e-100 and no feature or reward is beyond 1e100."""


class State:
    """Named arrays with a leading replica axis. `count` is the number of rewards absorbed.

    A policy makes it (`start`), reads it and changes it (`learn`); nothing else is kept of what was learned.

    >>> from linmed import LinMED
    >>> state = LinMED().start(replicas=3, dim=2)
    >>> state.dim, state.count, sorted(state.arrays())[:3]
    (2, array([0, 0, 0]), ['count', 'gram', 'gram_low'])
    >>> before = state.copy()
    >>> state.restore(before.arrays())
    >>> len(state.parts()) == len(state.arrays()), state.limits()["count"]
    (True, (0, 9007199254740992))
    """

    __slots__ = ()
    theta: Floats  # (R, d)
    count: Ints  # (R,)

    @property
    def dim(self) -> int:
        """Numbers of an arm that this state decides among."""
        return int(self.theta.shape[1])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name the arrays, without a copy: those of a named tuple, unless a class says otherwise."""
        own: Any = self
        return dict(zip(own._fields, own, strict=True))

    def parts(self) -> tuple[NDArray[Any], ...]:
        """List the arrays as the core takes them, without a copy."""
        return tuple(self.arrays().values())

    def copy(self) -> Self:
        """Make an independent copy."""
        return type(self)(**{name: array.copy() for name, array in self.arrays().items()})

    def limits(self) -> dict[str, tuple[float, float]]:
        """Give the least and largest number that each array may hold, by its name; some have no limits.

        `restore` checks them, so that no kernel meets an index that points outside an array or a number from
        which it would make an infinite one. Whole numbers are counts, from 0 to 2⁵³, and all others finite,
        unless a class says otherwise.
        """
        sizes = {name: _LARGEST.get(name, 1e300) for name in self.arrays()}
        return {
            name: (0, MOST) if array.dtype.kind in "iu" else (-sizes[name], sizes[name])
            for name, array in self.arrays().items()
            if array.dtype.kind in "iuf"
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Overwrite every array in place; names, shapes, dtypes and `limits` must be this state's."""
        own = self.arrays()
        self._require(arrays, {name: array.shape for name, array in own.items()})
        for name, array in own.items():
            array[...] = arrays[name]

    def _require(self, arrays: Mapping[str, NDArray[Any]], shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Raise what names the array that could not be one of this state, with these shapes."""
        own, limits = self.arrays(), self.limits()
        if set(arrays) != set(own):
            raise ValueError(f"state arrays must be {sorted(own)}, got {sorted(arrays)}")
        for name, array in arrays.items():
            if array.shape != shapes[name] or array.dtype != own[name].dtype:
                raise ValueError(
                    f"state array {name!r} must be {own[name].dtype} of shape {shapes[name]}, "
                    f"got {array.dtype} of shape {array.shape}"
                )
            if name in limits and array.size:
                low, high = limits[name]
                if not (array.min() >= low and array.max() <= high):
                    wrong = array.ravel()[np.argmin((array >= low) & (array <= high))]
                    raise ValueError(
                        f"state array {name!r} must hold numbers from {low:g} to {high:g}, got {wrong}"
                    )
            if name in ("gram", "inverse", "own_gram", "own_inverse") and array.size:
                diagonal = np.diagonal(array, axis1=-2, axis2=-1)
                if not diagonal.min() >= 0.0:
                    raise ValueError(f"state array {name!r} must have no negative number on its diagonal")


class LedState(State):
    """Several estimates in every replica, (R, E, …), up to `leader`, which says which of them decides.

    `theta` and `count` are those of the expert that decides, as of any other state.
    """

    __slots__ = ()
    leader: Ints
    surprise: Floats

    @property
    def theta(self) -> Floats:  # type: ignore[override]
        """θ̂ of the leaders (R,d)."""
        theta: Floats = self.leading("theta")
        return theta

    @property
    def count(self) -> Ints:  # type: ignore[override]
        """Rewards absorbed (R,): all experts have seen the same."""
        count: Ints = self._array("count")[:, 0]
        return count

    def _array(self, name: str) -> Any:
        own: Any = self
        return own[own._fields.index(name)]

    def leading(self, name: str) -> Any:
        """Take the rows of the leaders in the array of this name (R, …)."""
        return self._array(name)[np.arange(len(self.leader)), self.leader]

    def limits(self) -> dict[str, tuple[float, float]]:
        """Give the limits of every state; `leader` is one of the experts."""
        return {**super().limits(), "leader": (0, self.surprise.shape[1] - 1)}

    def parts(self) -> tuple[NDArray[Any], ...]:
        """List the arrays with the experts one behind the other, as the core has them."""
        own: Any = self
        led = own._fields.index("leader")
        return *map(merged, own[:led]), *own[led:]


class Check(NamedTuple):
    """Which values a parameter takes: those that pass `check`, of `linmed.validation`; or None, or a word."""

    check: Callable[..., Any]
    bounds: tuple[Any, ...]
    optional: bool
    word: str | None

    def __call__(self, name: str, value: Any) -> Any:
        """Return the value of the parameter `name` in its own type, or raise what names it."""
        if (value is None and self.optional) or (value == self.word is not None):
            return value
        if isinstance(value, str) and self.word is not None:
            raise validation.BadValue(name, f"{name} must be a number or {self.word!r}, got {value!r}")
        return self.check(name, value, *self.bounds)


def parameter(default: Any, check: Callable[..., Any], *bounds: Any, word: str | None = None) -> Any:
    """Declare a parameter of a policy: its default and its check, which a default of None passes."""
    return dataclasses.field(default=default, metadata={"check": Check(check, bounds, default is None, word)})


@cache
def _checks(cls: type) -> dict[str, Check]:
    """Collect the check of every parameter that has one, also where a subclass changes the default."""
    found: dict[str, Check] = {}
    for one in reversed(cls.__mro__):
        for field in getattr(one, "__dataclass_fields__", {}).values():
            if "check" in field.metadata:
                found[field.name] = field.metadata["check"]
    return found


Noise = Literal["uniform", "normal"]
_ANSWERS = {
    "law_in_core": (False, ("decide", "log_probabilities")),
    "learns_in_core": (False, ("learn",)),
    "compiled_rounds": (False, ("choose", "decide", "features", "learn", "log_probabilities", "play")),
    "own_set": (True, ("squared_radius",)),
    "takes_worth": (False, ("decide", "log_probabilities")),
}
"""What the core answers, and the methods by which a class answers itself.

A class that defines one of the methods is asked in place of the core, unless it declares the flag too: so a
subclass of LinMED that overrides `decide` or `learn` is asked, and those of the library, which do there what
the core does, say so. This is the only place where it is looked at what a class defines.
"""


@dataclass(frozen=True, kw_only=True)
class Policy(ABC):
    """A rule that turns a state and a set of arms into probabilities.

    A subclass of yours defines `start`, `log_probabilities` and `learn`; as a dataclass it has equality,
    hashing and JSON. Override `choose` if drawing is cheaper than computing the probabilities, and `play` if
    whole rounds can be compiled. A method `squared_radius(state)`, which returns β (R,), takes the place of
    the confidence set.

    Where R replicas decide, arms are (R,K,d), or (1,K,d) where all see one set. A state of one replica also
    decides for n sets at once, arms (n,K,d): R below is the larger of the two.

    >>> import numpy as np
    >>> from linmed import LinMED
    >>> policy, arms = LinMED(), np.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> state = policy.start(replicas=3, dim=2)
    >>> policy.log_probabilities(state, arms).shape
    (3, 2)
    >>> policy.choose(state, arms, noise=np.full((3, policy.noise_size(dim=2)), 0.99))
    array([1, 1, 1])
    >>> policy.learn(state, np.array([[1.0, 0.0]]), np.array([1.0]), replicas=np.array([2]))
    >>> state.count
    array([0, 0, 1])
    >>> policy.capabilities.interval, Policy.from_dict(policy.to_dict()) == policy
    (True, True)
    """

    label: str | None = parameter(None, validation.text)
    """Name in legends and results; None derives one from the parameters."""

    properties: ClassVar[Properties]
    noise: ClassVar[Noise] = "uniform"
    """What `decide` draws from: uniforms on [0, 1) or standard normals."""
    index_free: ClassVar[bool] = True
    """Permuting the arms permutes the probabilities (ties aside)."""
    compiled_rounds: ClassVar[bool] = False
    """`play` runs whole rounds outside the interpreter and its lock."""
    law_in_core: ClassVar[bool] = False
    """The core's rule writes the probabilities of all arms: an agent decides by `live`."""
    learns_in_core: ClassVar[bool] = False
    """The core absorbs rewards: an agent learns by `live`."""
    integrates: ClassVar[bool] = False
    """Its probabilities are integrals: `propensity_error` says how exact they are."""
    own_set: ClassVar[bool] = False
    """The confidence set is written in Python: the class defines `squared_radius`."""
    learns_from_arms: ClassVar[bool] = True
    """What `learn` needs of a decision is the arm that was played, and nothing else of the moment."""
    by_item: ClassVar[bool] = False
    """Probabilities depend on which items the arms are: see `among`."""

    takes_worth: ClassVar[bool] = False
    """Arms may have values and costs, in two columns behind their features: see `linmed.policies.worth`."""
    without_worth: ClassVar[str] = (
        "its law is written in Python for features alone (a class that declares takes_worth = True reads "
        "value and cost from the last two columns of its arms)"
    )
    """Why they may not, where `takes_worth` is False."""

    def require_worth(self) -> None:
        """Raise what names `costs` unless arms may have values and costs."""
        if not self.takes_worth:
            text = f"costs: {self.name} takes no values and costs: {self.without_worth}"
            raise validation.BadValue("costs", text)

    @property
    def capabilities(self) -> Capabilities:
        """Declare what the policy can be asked besides decisions."""
        return Capabilities()

    @property
    def remembers(self) -> bool:
        """Whether a decision changes the state."""
        return not self.learns_from_arms

    @property
    def keeps_copies(self) -> bool:
        """Whether the features of a decision stay valid until its reward comes: see `Block.overwritten`."""
        return True

    @property
    def scale_free(self) -> bool:
        """Whether multiplying rewards, sigma and norm_bound by one number changes no decision."""
        return True

    without_floor: ClassVar[str] = "LinMED, LogisticMED, OFUL and LinTS are among those that do"
    """What to do instead, for a policy without the parameter `floor`."""

    def __new__(cls, *given: Any, **told: Any) -> Self:
        """Say what to do where a parameter has no name, or a floor is given to a policy that takes none."""
        parameters = dataclasses.fields(cls)
        unnamed = [f for f in parameters if not f.kw_only]
        if len(given) > len(unnamed):
            names = ", ".join(f.name for f in parameters if f.kw_only)
            raise validation.BadType(
                "parameters",
                f"{cls.__name__} takes its parameters by name ({names}), got {given[len(unnamed)]!r}",
            )
        if "floor" in told and "floor" not in cls.__dataclass_fields__:
            raise validation.BadType("floor", f"{cls.__name__} takes no floor: {cls.without_floor}")
        return super().__new__(cls)

    def __init_subclass__(cls, **options: Any) -> None:
        """Find out what Python answers: see `_ANSWERS`."""
        super().__init_subclass__(**options)
        for flag, (value, methods) in _ANSWERS.items():
            for one in cls.__mro__:
                if flag in vars(one):
                    break  # declared
                if any(method in vars(one) for method in methods):
                    setattr(cls, flag, value)
                    break

    def __post_init__(self) -> None:
        for name, check in _checks(type(self)).items():
            self._set(name, check(name, getattr(self, name)))

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def __getstate__(self) -> dict[str, Any]:
        """The parameters alone: what was made from them is made again elsewhere."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def noise_size(self, dim: int) -> int:
        """Count the draws that one decision takes."""
        return 1

    def draw_noise(self, rng: np.random.Generator, shape: tuple[int, ...], dim: int) -> Floats:
        """Draw what `decide` and `choose` need for decisions of this shape: (*shape, noise_size)."""
        draw = rng.random if self.noise == "uniform" else rng.standard_normal
        return draw((*shape, self.noise_size(dim)))

    @abstractmethod
    def start(self, replicas: int, dim: int) -> State:
        """Make the state before any reward."""

    @abstractmethod
    def log_probabilities(self, state: Any, arms: Floats) -> Floats:
        """Compute the exact log-probability of every arm.  arms (R,K,d) or (1,K,d) → (R,K)."""

    @abstractmethod
    def learn(self, state: Any, features: Floats, rewards: Floats, replicas: Ints) -> None:
        """Absorb m rewards in place.  features (m,d), rewards (m,), replicas (m,) says whose each is."""

    def learn_at(self, state: Any, features: Floats, rewards: Floats, replicas: Ints, times: Floats) -> None:
        """Learn rewards of decisions taken at `times` (m,), seconds since 1970; most rules ignore them."""
        self.learn(state, features, rewards, replicas)

    def correct(self, state: Any, features: Floats, before: float, after: float) -> bool:
        """Replace the reward `before`, learned from `features` (d,), by `after`; False if this belief cannot.

        The state has one replica. For a ridge estimate the result is exact up to rounding. Clicks and counts
        move by one Newton step, exact to the first order. Beliefs that forget, or have a model for every
        item, cannot: they do not keep how much a reward still counts.
        """
        return False

    def accepts(self, rewards: Floats) -> Bools:
        """Tell which of these numbers can be rewards of this policy: by default all."""
        return np.ones(rewards.shape, dtype=np.bool_)

    def check_rewards(self, rewards: Floats | float) -> None:  # noqa: B027  (it is quick where all can be)
        """Raise `BadValue` for `reward` unless `accepts` all of them."""

    def among(self, ids: Sequence[Any]) -> "Policy":
        """Make the policy that decides among the items with these ids, in their order.

        >>> from linmed import Limits, LinMED
        >>> LinMED().among(["tea", "fig"]) == LinMED()
        True
        >>> Limits(LinMED(), caps={"fig": 0.1}).among(["tea", "fig"]).caps
        (('1', 0.1),)
        """
        return self

    def require_items(self, ids: Sequence[Any] | None) -> None:  # noqa: B027  (most name none)
        """Raise what names an item of this policy that a catalogue has not; without one `ids` is None.

        >>> from linmed import Limits, LinMED
        >>> try:
        ...     Limits(LinMED(), caps={"fig": 0.1}).require_items(["tea", "mint"])
        ... except ValueError as error:
        ...     print(error)
        floors, caps and groups must name items of the catalogue, which has no 'fig'
        """

    def expected(self, state: Any, arms: Floats) -> Floats:
        """Compute ⟨θ̂, a⟩ of arms (K,d) by a state of one replica (K,), row by row, without BLAS."""
        expected: Floats = np.vecdot(arms, state.theta[0])
        return expected

    def like(self, arms: Floats) -> Floats:
        """Turn any arms (K,d) into arms that this policy takes, to try it out: for most rules the same."""
        return arms

    def predict(self, state: Any, arms: Floats) -> Prediction | None:
        """Predict what arms (K,d) pay, by a state of one replica; None without a `posterior`."""
        seen = self.posterior(state)
        return None if seen is None else seen.predict(arms)

    def posterior(self, state: Any) -> Posterior | None:
        """Return what a state of one replica knows of arms; None for a policy without estimates."""
        return None

    def propensity_error(self, state: Any, arms: Floats) -> Floats | None:
        """Estimate the standard errors of the probabilities.  → (R,K); None where they are exact."""
        return None

    def watching(self, state: Any) -> tuple[Any, Any]:
        """Return the policy that watches for changes, and its part of the state: see `Forgetful`."""
        return self, state

    def with_delta(self, delta: float) -> "Policy":
        """Make the same policy with this δ at all times, for a verdict."""
        raise validation.BadType(
            "policy",
            f"policy: {type(self).__name__} keeps no ridge estimate, so it has no confidence set to judge "
            "arms by; LinMED(), Pinpoint() and every other ridge policy has one, and may observe these "
            "rewards",
        )

    def greedy(self) -> "Policy":
        """Make the policy that always plays the best arm by the same estimate."""
        shared = {
            name: getattr(self, name) for name in ("sigma", "norm_bound", "ridge") if hasattr(self, name)
        }
        return self.from_dict({"policy": "Greedy", **shared})

    def observe(self, state: Any, features: Floats, rewards: Floats, replicas: Ints) -> None:
        """Learn rewards of arms that this policy did not choose: for most rules as `learn`."""
        self.learn(state, features, rewards, replicas)

    def choose(self, state: Any, arms: Floats, noise: Floats) -> Ints:
        """Draw one arm per replica.  noise (R, noise_size) → (R,)."""
        return self._draw(self.log_probabilities(state, arms), arms, noise)

    def decide(self, state: Any, arms: Floats, noise: Floats) -> Choice:
        """Draw one arm per replica and say how probable it was."""
        log_p = self.log_probabilities(state, arms)
        arm = self._draw(log_p, arms, noise)
        return Choice(arm, entries(log_p, arm), log_p, self.features(state, arms, arm))

    def squared_radius(self, state: Any) -> Floats:
        """Compute β of every replica (R,), if a subclass has its own confidence set."""
        raise AttributeError(f"{type(self).__name__} has a confidence set of the core: see radius")

    def live(self, state: Any) -> Any:
        """Make the core's agent, which decides and learns on the arrays of a state of one replica.

        None, as for a rule written in Python, means that an agent calls `decide` and `learn`.
        """
        return None

    def _draw(self, log_p: Floats, arms: Floats, noise: Floats) -> Ints:
        """Draw one arm per replica by inverting the CDF of log_p (R,K), which is checked, at noise[:, 0]."""
        stated = f"log_probabilities of {type(self).__name__} must be"
        expected = len(noise), arms.shape[1]
        if getattr(log_p, "shape", None) != expected:
            raise ValueError(
                f"{stated} an array of shape {expected}, one row per decision and one column per arm, got "
                f"{type(log_p).__name__} of shape {np.shape(log_p)}"
            )
        arm = np.empty(len(noise), dtype=np.int64)
        total = core.sample(validation.for_kernels(log_p), validation.for_kernels(noise), arm)
        if total != 1.0:
            raise ValueError(
                f"{stated} logarithms of probabilities that sum to 1, but a row sums to {total:g}"
            )
        return arm

    def play(self, state: Any, arms: Floats, rewards: Floats, noise: Floats, played: Ints) -> None:
        """Play rounds one after the other, each learning at once from what the chosen arm pays.

        arms (T,R,K,d) with a 1 for T or R where all rounds or replicas see the same set; rewards (T,R,K),
        of which only the chosen arms' are looked at; noise (T,R,noise_size); played (T,R) is written.
        """
        replicas = np.arange(played.shape[1])
        for t in range(len(played)):
            offered = arms[t] if len(arms) > 1 else arms[0]
            arm = self.choose(state, offered, noise[t])
            played[t] = arm
            features = self.features(state, offered, arm)
            self.learn(state, features, rewards[t][replicas, arm], replicas)

    def play_with_errors(
        self, state: Any, arms: Floats, means: Floats, errors: Floats, noise: Floats, played: Ints
    ) -> None:
        """Play rounds in which an arm pays its mean and an error.

        means (T,R,K), a 1 for T where they stay the same; errors (T,R).
        """
        self.play(state, arms, means + errors[:, :, None], noise, played)

    def features(self, state: Any, arms: Floats, arm: Ints) -> Floats:
        """Return what `learn` will need of the arms just played: their vectors.  arm (R,) → (R,d)."""
        own = arms[0].take(arm, axis=0) if arms.shape[0] == 1 else arms[np.arange(arm.shape[0]), arm]
        return own if state is None else own[:, : state.dim]

    @property
    def name(self) -> str:
        """The label, or a name made from the parameters that differ from their defaults."""
        return self.label or self.derived_name()

    def derived_name(self) -> str:
        """Make a name of the class and the parameters that differ from their defaults."""
        return type(self).__name__ + self.describe()

    def describe(self, *omit: str) -> str:
        """Write the parameters that differ from their defaults in brackets, without those in `omit`."""
        changed = [
            f"{f.name}={getattr(self, f.name)}"
            for f in dataclasses.fields(self)
            if f.name not in (*omit, "label") and getattr(self, f.name) != f.default
        ]
        return f" ({', '.join(changed)})" if changed else ""

    def to_dict(self) -> dict[str, Any]:
        """Give the configuration as JSON-ready values; `from_dict` is its inverse."""
        return {"policy": type(self).__name__, **dataclasses.asdict(self)}

    @staticmethod
    def from_dict(config: Mapping[str, Any]) -> "Policy":
        """Make the policy that `to_dict` described. Any imported subclass of Policy is found by its name."""
        cls, parameters = described(Policy, "policy", config)
        policy: Policy = cls(**parameters)
        return policy


def as_policy(value: Any, name: str = "policy") -> Policy:
    """Check that a value is a policy; the error calls it `name`.

    >>> from linmed import LinMED
    >>> as_policy(LinMED()).name
    'LinMED-90'
    """
    if not isinstance(value, Policy):
        raise validation.BadType(name, f"{name} must be a Policy such as LinMED(), got {value!r}")
    return value


def merged(array: NDArray[Any], axes: int = 2) -> NDArray[Any]:
    """Merge the first axes into one, without a copy."""
    return array.reshape(math.prod(array.shape[:axes]), *array.shape[axes:])


def decisions(state: State, arms: Floats) -> int:
    """Count decisions: one for each replica, or for each set if one state serves all."""
    return max(len(state.count), len(arms))


def absorbable(
    state: State, features: Floats, rewards: Floats, replicas: Ints
) -> tuple[Floats, Floats, Ints]:
    """Check features (m,d), rewards (m,) and replicas (m,) for `learn`, in the form that the core takes."""
    features, rewards = validation.for_kernels(features), validation.for_kernels(rewards)
    owners = np.ascontiguousarray(replicas, dtype=np.int64)
    rows, shape = len(state.count), (len(rewards), state.dim)
    if rewards.ndim != 1 or features.shape != shape or owners.shape != rewards.shape:
        raise validation.BadValue(
            "features",
            f"features must be (m, {state.dim}), and rewards and replicas (m,), got {features.shape}, "
            f"{rewards.shape} and {owners.shape}",
        )
    if len(owners) and not (owners.min() >= 0 and owners.max() < rows):
        raise validation.BadValue("replicas", f"replicas must be below {rows}, got {owners.max()}")
    return features, rewards, owners


def entries(matrix: Floats, columns: Ints) -> Floats:
    """Take matrix[r, columns[r]] for every row r; `take` is much faster than indexing a single one."""
    rows, width = matrix.shape
    return matrix.ravel().take(columns if rows == 1 else columns + width * np.arange(rows))
