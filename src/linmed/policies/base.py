"""What every policy is: an immutable configuration with a rule, and a state made of named arrays.

All arrays have a leading replica axis R: one live user is R = 1, a simulation of 180 trials is R = 180.
Arms are (R, K, d), or (1, K, d) when all replicas see the same set.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from linmed import checks
from linmed.checks import Bools, Floats, Ints
from linmed.kernels.sampling import sample
from linmed.registry import described


class Properties(NamedTuple):
    """A row of the table that `linmed policies` prints (the paper's Table 1 and ours beside it)."""

    reference: str
    minimax: str
    instance: str
    computable: str
    """How the probability is computed here."""
    all_arms: str
    """Whether every arm has positive probability."""
    randomised: bool
    paper_computable: str = "—"
    paper_all_arms: str = "—"


class Choice(NamedTuple):
    """One decision in every replica, or one in each of n sets by a state of one replica."""

    arm: Ints  # (R,)
    log_probability: Floats  # (R,) of the arm played, marginal: before any draw of the policy's own
    log_probabilities: Floats | None  # (R, K), None where only the played arm's is known
    features: Floats  # (R, d) what `learn` needs besides the reward
    error: Floats | None = None  # (R,) standard error of exp(log_probability); None where it is exact


class Prediction(NamedTuple):
    """What arms are expected to pay, and between what it lies as far as a confidence set tells, (K,) each."""

    mean: Floats
    lower: Floats
    upper: Floats


class State:
    """Named arrays with a leading replica axis. `count` is the number of rewards absorbed."""

    __slots__ = ()
    theta: Floats  # (R, d)
    count: Ints  # (R,)

    @property
    def dim(self) -> int:
        """Numbers of an arm that this state decides among."""
        return int(self.theta.shape[1])

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, not copied."""

    def parts(self) -> tuple[NDArray[Any], ...]:
        """The arrays as kernels take them, not copied."""
        return tuple(self.arrays().values())

    def copy(self) -> Self:
        """An independent copy."""
        return type(self)(**{name: array.copy() for name, array in self.arrays().items()})

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Overwrite every array in place; the names and shapes must be this state's own."""
        own = self.arrays()
        if set(arrays) != set(own):
            raise ValueError(f"state arrays must be {sorted(own)}, got {sorted(arrays)}")
        for name, array in own.items():
            if arrays[name].shape != array.shape or arrays[name].dtype != array.dtype:
                raise ValueError(
                    f"state array {name!r} must be {array.dtype} of shape {array.shape}, "
                    f"got {arrays[name].dtype} of shape {arrays[name].shape}"
                )
        for name, array in own.items():
            array[...] = arrays[name]


Noise = Literal["uniform", "normal"]


@dataclass(frozen=True)
class Policy(ABC):
    """A rule that turns a state and a set of arms into probabilities.

    A policy of one's own defines `start`, `log_probabilities` and `learn`; being a dataclass gives it
    equality, hashing and JSON. `choose` may be overridden where drawing is cheaper than the
    probabilities are, `play` where whole rounds can be compiled.

    Where R replicas decide, arms are (R,K,d), or (1,K,d) where all see one set. A state of one replica also
    decides for n sets at once, arms (n,K,d): R below is the larger of the two.
    """

    label: str | None = field(default=None, kw_only=True)
    """Name in legends and results; None derives one from the parameters."""

    properties: ClassVar[Properties]
    noise: ClassVar[Noise] = "uniform"
    """What `decide` draws from: uniforms on [0, 1) or standard normals."""
    index_free: ClassVar[bool] = True
    """Permuting the arms permutes the probabilities (ties aside)."""
    compiled_rounds: ClassVar[bool] = False
    """`play` runs whole rounds outside the interpreter and its lock."""
    learns_from_arms: ClassVar[bool] = True
    """What `learn` needs of a decision is the arm that was played, and nothing else of the moment."""

    @property
    def remembers(self) -> bool:
        """Whether a decision notes something in the state, from which the next one starts."""
        return not self.learns_from_arms

    @property
    def keeps_copies(self) -> bool:
        """Whether what was played is still known when a late reward arrives: see `Block.overwritten`."""
        return True

    @property
    def tells_probability(self) -> bool:
        """Whether `decide` says how probable the arm was."""
        return True

    @property
    def on_clock(self) -> bool:
        """Whether it must know when the decisions were taken that it learns from: see `learn_at`."""
        return False

    @property
    def scale_free(self) -> bool:
        """Whether multiplying rewards, sigma and norm_bound by one number changes no decision."""
        return True

    def __post_init__(self) -> None:
        if self.label is not None:
            checks.text("label", self.label)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def __getstate__(self) -> dict[str, Any]:
        """The parameters alone: what was made from them, kernels among it, is made again elsewhere."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def noise_size(self, dim: int) -> int:
        """How many draws one decision takes."""
        return 1

    def draw_noise(self, rng: np.random.Generator, shape: tuple[int, ...], dim: int) -> Floats:
        """What `decide` and `choose` need for decisions of this shape: (*shape, noise_size)."""
        draw = rng.random if self.noise == "uniform" else rng.standard_normal
        return draw((*shape, self.noise_size(dim)))

    @abstractmethod
    def start(self, replicas: int, dim: int) -> State:
        """The state before any reward."""

    @abstractmethod
    def log_probabilities(self, state: Any, arms: Floats) -> Floats:
        """The exact log-probability of every arm.  arms (R,K,d) or (1,K,d) → (R,K)."""

    @abstractmethod
    def learn(self, state: Any, features: Floats, rewards: Floats, replicas: Ints) -> None:
        """Absorb m rewards in place.  features (m,d), rewards (m,), replicas (m,) says whose each is."""

    def learn_at(self, state: Any, features: Floats, rewards: Floats, replicas: Ints, times: Floats) -> None:
        """`learn`, where it is known when each decision was taken.  times (m,) in seconds since 1970.

        For most rules time plays no part.
        """
        self.learn(state, features, rewards, replicas)

    def accepts(self, rewards: Floats) -> Bools:
        """Which of these can be rewards of what this policy believes in: for most, every number."""
        return np.ones(rewards.shape, dtype=np.bool_)

    def check_rewards(self, rewards: Floats | float) -> None:  # noqa: B027  (it is quick where all can be)
        """Raise what names `reward` if one of these cannot be one."""

    def expected(self, state: Any, arms: Floats) -> Floats:
        """⟨θ̂, a⟩ of arms (K,d) by a state of one replica (K,): row by row, which starts no thread of BLAS."""
        expected: Floats = np.vecdot(arms, state.theta[0])
        return expected

    def like(self, arms: Floats) -> Floats:
        """Arms that this policy takes, made from any (K,d) others: for most rules the same.

        For those who must offer something before anybody has, to have it compiled or to try a policy.
        """
        return arms

    def predict(self, state: Any, arms: Floats) -> Prediction | None:
        """What arms (K,d) are expected to pay, by a state of one replica; None without a confidence set."""
        return None

    def observe(self, state: Any, features: Floats, rewards: Floats, replicas: Ints) -> None:
        """Absorb rewards of arms that this policy did not choose: for most rules the same as `learn`."""
        self.learn(state, features, rewards, replicas)

    def choose(self, state: Any, arms: Floats, noise: Floats) -> Ints:
        """Draw one arm per replica.  noise (R, noise_size) → (R,)."""
        return self._draw(self.log_probabilities(state, arms), arms, noise)

    def decide(self, state: Any, arms: Floats, noise: Floats) -> Choice:
        """Draw one arm per replica and say how probable it was."""
        log_p = self.log_probabilities(state, arms)
        arm = self._draw(log_p, arms, noise)
        return Choice(arm, entries(log_p, arm), log_p, self.features(state, arms, arm))

    def decider(self, state: Any) -> Callable[..., int] | None:
        """What an agent calls instead of `decide`: compiled rounds bound to a state of one replica.

        `linmed.kernels.bound.deciding` makes it, for rounds that write the probabilities of all arms and
        states whose arrays stay where they are. None, as for a rule written in Python, means `decide`.
        """
        return None

    def learner(self, state: Any) -> Callable[..., None] | None:
        """What an agent calls instead of `learn`, made by `linmed.kernels.bound.learning`, or None."""
        return None

    def _draw(self, log_p: Floats, arms: Floats, noise: Floats) -> Ints:
        """One arm per replica by inverting the CDF at noise[:, 0], if log_p (R,K) is a law."""
        stated = f"log_probabilities of {type(self).__name__} must be"
        expected = len(noise), arms.shape[1]
        if getattr(log_p, "shape", None) != expected:
            raise ValueError(
                f"{stated} an array of shape {expected}, one row per decision and one column per arm, got "
                f"{type(log_p).__name__} of shape {np.shape(log_p)}"
            )
        arm = np.empty(len(noise), dtype=np.int64)
        total = sample(checks.for_kernels(log_p), noise, arm)
        if total != 1.0:
            raise ValueError(
                f"{stated} logarithms of probabilities that sum to 1, but a row sums to {total:g}"
            )
        return arm

    def play(self, state: Any, arms: Floats, rewards: Floats, noise: Floats, played: Ints) -> None:
        """Rounds one after the other, each learning at once from what the chosen arm pays.

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

    def features(self, state: Any, arms: Floats, arm: Ints) -> Floats:
        """What `learn` will need of the arms just played: their vectors.  arm (R,) → (R,d)."""
        return arms[0].take(arm, axis=0) if arms.shape[0] == 1 else arms[np.arange(arm.shape[0]), arm]

    @property
    def name(self) -> str:
        """The label, or a name made from the parameters that differ from their defaults."""
        return self.label or self.derived_name()

    def derived_name(self) -> str:
        """Class name and non-default parameters."""
        return type(self).__name__ + self.describe()

    def describe(self, *omit: str) -> str:
        """The non-default parameters in brackets, but for those in `omit`."""
        changed = [
            f"{f.name}={getattr(self, f.name)}"
            for f in dataclasses.fields(self)
            if f.name not in (*omit, "label") and getattr(self, f.name) != f.default
        ]
        return f" ({', '.join(changed)})" if changed else ""

    def to_dict(self) -> dict[str, Any]:
        """The configuration as JSON-ready values; `from_dict` is its inverse."""
        return {"policy": type(self).__name__, **dataclasses.asdict(self)}

    @staticmethod
    def from_dict(config: Mapping[str, Any]) -> "Policy":
        """The policy that `to_dict` described. Any imported subclass of Policy is found by its name."""
        cls, parameters = described(Policy, "policy", config)
        policy: Policy = cls(**parameters)
        return policy


def decisions(state: State, arms: Floats) -> int:
    """How many decisions are asked for: one for each replica, or each set where one state serves all."""
    return max(len(state.count), len(arms))


def entries(matrix: Floats, columns: Ints) -> Floats:
    """matrix[r, columns[r]] for every row r; `take` is much faster than indexing where there is but one."""
    rows, width = matrix.shape
    return matrix.ravel().take(columns if rows == 1 else columns + width * np.arange(rows))
