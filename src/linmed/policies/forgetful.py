"""Forgetful: any ridge policy in a world that changes, without a rate of forgetting to guess."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linmed import checks
from linmed.checks import Floats, Ints
from linmed.kernels import confidence, ridge
from linmed.kernels.bound import deciding, learning
from linmed.kernels.forgetting import KEPT, Forgetting, observing_at
from linmed.kernels.rounds import observing
from linmed.policies.base import Choice, Noise, Policy, Properties, State, decisions, entries
from linmed.policies.compiled import CompiledPolicy
from linmed.policies.linmed import LinMED
from linmed.policies.ridge import LEARNED, RIDGE, ExpertState, RidgePolicy, RidgeState

HalfLife = float | str
"""A number of rewards, ∞ among them, or a duration such as "7d"."""


class ForgetfulState(Forgetting, State):
    """Estimates with different memories in every replica, and last a monitor that forgets nothing.

    `Forgetting` says what each array is; those of estimates are (R, N+1, …) here. `theta` and `count` are as
    of any other state: the estimate that decides, and the number of rewards.
    """

    __slots__ = ()

    @property
    def theta(self) -> Floats:  # type: ignore[override]
        """θ̂ of the leaders (R,d)."""
        theta: Floats = self[0][np.arange(len(self.leader)), self.leader]
        return theta

    @property
    def count(self) -> Ints:  # type: ignore[override]
        """Rewards absorbed (R,)."""
        return self.rewards

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, not copied."""
        return dict(zip(self._fields, self, strict=True))

    def parts(self) -> tuple[NDArray[Any], ...]:
        """Estimates one behind the other, as `Forgetting` has them."""
        estimates = RIDGE + 1  # and what each was told
        return *(array.reshape(-1, *array.shape[2:]) for array in self[:estimates]), *self[estimates:]


@dataclass(frozen=True)
class Forgetful(CompiledPolicy):
    """The policy inside, with several memories of which the likeliest decides, and an alarm.

    An estimate with the half-life H counts a reward that is k rewards old 2^(−k/H). Estimates with several H are
    weighed by how well they predicted every reward so far, and the heaviest is asked: its probabilities are
    those of the decision, at the price of one. Where a long memory has come to weigh next to nothing beside a
    shorter one, the world has changed: it forgets its past and goes on from what the shorter one knows.
    β = λS² + σ²(log(det V/det V₀) + 2 log(n + 1)) with what is left of V and n: no radius knows how far θ* has
    moved, so none is proved where something is forgotten.

    >>> policy = Forgetful(LinMED(sigma=0.3))
    >>> policy.name, Forgetful(LinMED(sigma=0.3), half_lives=("7d", "1d")).name
    ('Forgetful LinMED-90 (sigma=0.3)', 'Forgetful LinMED-90 (sigma=0.3) (half_lives=7d, 1d)')
    """

    inside: Policy = LinMED()
    """The policy whose rule, ridge and confidence set are used."""
    half_lives: tuple[HalfLife, ...] = (math.inf, 1000.0, 200.0, 50.0)
    """In rewards; or durations such as "12h" and "7d" on the clock of the decisions, which `learn` is then to be
    told. `math.inf`, or "inf", never forgets."""
    share: float = 1e-4
    """s: the share of the weight that is spread evenly after every reward, so that no memory is given up."""
    combine: Literal["heaviest", "mixture"] = "heaviest"
    """Who decides: the heaviest estimate, or all, p = Σ w p_g, at the price of as many decisions."""
    alarm: float = field(default=0.05, kw_only=True)
    """α: the probability that an alarm is ever raised while nothing changes."""

    properties: ClassVar[Properties] = Properties(
        reference="drift, with fixed shares",
        minimax="unknown",
        instance="unknown",
        computable="that of the policy inside",
        all_arms="as the policy inside",
        randomised=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        inside: Any = self.inside
        if isinstance(inside, Mapping):  # from_dict
            inside = Policy.from_dict(inside)
        self._set("inside", inside)
        self._refuse_what_cannot_forget()
        self._set("half_lives", _half_lives(self.half_lives))
        self._set("share", checks.strictly_between("share", self.share, 0.0, 1.0))
        self._set("combine", checks.option("combine", self.combine, ("heaviest", "mixture")))
        self._set("alarm", checks.strictly_between("alarm", self.alarm, 0.0, 1.0))
        tells = type(inside).decide in (CompiledPolicy.decide, Policy.decide)
        if self.combine == "mixture" and not tells:
            raise checks.BadValue(
                "combine",
                f"combine must be 'heaviest' around {inside.name}, whose probabilities have an error; "
                "'mixture' is for those that are computed exactly",
            )

    def _refuse_what_cannot_forget(self) -> None:
        inside: Any = self.inside
        if not isinstance(inside, Policy):
            raise checks.BadType("inside", f"inside must be a Policy such as LinMED(), got {inside!r}")
        if not isinstance(inside, RidgePolicy) or type(inside).learn is not RidgePolicy.learn:
            raise checks.BadValue(
                "inside",
                f"inside must be a policy with a ridge estimate, as LinMED, OFUL or LinTS, got {inside.name}",
            )
        if inside.remembers:
            raise checks.BadValue(
                "inside", f"inside must not remember its last design: use design='approx', got {inside.name}"
            )

    # ---- what the policy inside says of itself

    @property
    def noise(self) -> Noise:  # type: ignore[override]
        """That of the policy inside."""
        return self.inside.noise

    @property
    def index_free(self) -> bool:  # type: ignore[override]
        """Whether the policy inside is."""
        return self.inside.index_free

    @property
    def compiled_rounds(self) -> bool:  # type: ignore[override]
        """Whether the heaviest estimate decides, by a rule that can be compiled."""
        return self.combine == "heaviest" and isinstance(self.inside, CompiledPolicy)

    @property
    def tells_probability(self) -> bool:
        """Whether the policy inside does."""
        return self.inside.tells_probability

    @property
    def scale_free(self) -> bool:
        """Whether the policy inside is."""
        return self.inside.scale_free

    @property
    def takes_times(self) -> bool:
        """Yes: an alarm then says when, and half-lives that are durations need them."""
        return True

    @property
    def on_clock(self) -> bool:
        """Whether half-lives are durations."""
        return any(isinstance(half_life, str) for half_life in self.half_lives)

    def noise_size(self, dim: int) -> int:
        """As many as inside, and a uniform that draws the estimate where all of them decide."""
        return self.inside.noise_size(dim) + (self.combine == "mixture")

    def draw_noise(self, rng: np.random.Generator, shape: tuple[int, ...], dim: int) -> Floats:
        """That of the policy inside, and last the uniform."""
        own = self.inside.draw_noise(rng, shape, dim)
        return own if self.combine == "heaviest" else np.concatenate([own, rng.random((*shape, 1))], axis=-1)

    def derived_name(self) -> str:
        """Forgetful, the name of the policy inside, and what is not as by default."""
        told = self.describe("inside", "half_lives")
        if self.half_lives != type(self).half_lives:
            memories = ", ".join(map(written, self.half_lives))
            told = f" (half_lives={memories}{', ' + told[2:] if told else ')'}"
        return f"Forgetful {self.inside.name}{told}"

    def to_dict(self) -> dict[str, Any]:
        """The configuration as JSON-ready values: the policy inside is a description of its own."""
        own = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        memories = [half_life if half_life != math.inf else "inf" for half_life in self.half_lives]
        return {
            "policy": type(self).__name__, **own, "inside": self.inside.to_dict(), "half_lives": memories
        }  # fmt: skip

    # ---- belief, confidence, rule

    @cached_property
    def asked(self) -> RidgePolicy:
        """The policy that decides for one estimate: the one inside, with the radius given above."""
        inside: Any = self.inside
        sure = inside.confidence_set
        paper = isinstance(sure, confidence.RidgeSet) and sure.kind == confidence.PAPER
        return dataclasses.replace(inside, confidence="mixture") if paper else inside

    @property
    def belief(self) -> type:
        """Estimates with their weights."""
        return Forgetting

    @cached_property
    def confidence_set(self) -> NamedTuple:
        """β as above, or the policy's own set where it was told another."""
        return self.asked.confidence_set

    @property
    def rule(self) -> NamedTuple:
        """The rule of the policy inside."""
        rule: NamedTuple = self.asked.rule  # type: ignore[attr-defined]
        return rule

    def start(self, replicas: int, dim: int) -> ForgetfulState:
        """V = λI in every estimate, all of one weight."""
        inside = self.asked
        lams = LEARNED if inside.ridge == "learned" else (inside.lam,)
        told = [(lam, *memory) for memory in map(_memory, self.half_lives) for lam in lams]
        experts, told = len(told), [*told, (lams[0], 1.0, 0.0)]  # and the monitor
        models = [ridge.start(replicas, dim, row[0]) for row in told]
        stacked = [np.ascontiguousarray(np.stack(arrays, axis=1)) for arrays in zip(*models, strict=True)]
        stacked[1] = stacked[1].astype(np.float64)  # n, of which a part is forgotten
        each, sigma = np.empty((replicas, experts + 1, 5)), inside.numbers[0]
        each[:] = [(lam, sigma, inside.reward_scale, factor, seconds) for lam, factor, seconds in told]
        bounded = not isinstance(inside.norm_bound, str) and inside.ridge != "learned"
        rules = np.empty((replicas, 3))
        rules[:] = self.share, -math.log(self.alarm), inside.numbers[1] if bounded else confidence.UNKNOWN
        none, zero = np.zeros(replicas, dtype=np.int64), np.zeros(replicas)
        return ForgetfulState._make([
            *stacked, each, np.full((replicas, experts), 1.0 / experts), np.zeros((replicas, experts)), rules,
            none, none.copy(), zero, zero.copy(), zero.copy(), np.zeros((replicas, 2), dtype=np.int64),
            np.zeros((replicas, KEPT, 4)), np.zeros((replicas, KEPT, 3)),
        ])  # fmt: skip

    def learn(
        self, state: Any, features: Floats, rewards: Floats, replicas: Ints, times: Floats | None = None
    ) -> None:
        """Every estimate learns, and is weighed.  times (m,): when each decision was taken, in seconds."""
        if times is None:
            self._require_no_clock()
            observing(Forgetting)(state.parts(), features, rewards, replicas)
        else:
            observing_at(Forgetting)(state.parts(), features, rewards, times, replicas)

    def observe(
        self, state: Any, features: Floats, rewards: Floats, replicas: Ints, times: Floats | None = None
    ) -> None:
        """As `learn`."""
        self.learn(state, features, rewards, replicas, times)

    def learner(self, state: Any) -> Callable[..., None] | None:
        """The kernel itself, where it need not be told the time."""
        return None if self.on_clock else learning(observing(Forgetting), state.parts())

    def _require_no_clock(self) -> None:
        if self.on_clock:
            raise checks.BadValue(
                "times",
                "times must be given, the time of each decision in seconds: half_lives are durations. Where "
                "there is no clock, as in a simulation, give them in rewards",
            )

    # ---- deciding

    @property
    def _direct(self) -> bool:
        """Whether the kernel of the loop over rounds writes the probabilities itself."""
        return self.compiled_rounds and type(self.inside).decide is CompiledPolicy.decide

    def estimate(self, state: Any) -> RidgeState:
        """The ridge estimate that decides, copied; its `count` is what is left of the number of rewards."""
        return RidgeState(*self._rows(state, state.leader)[:RIDGE])

    def _rows(self, state: Any, experts: Ints) -> list[NDArray[Any]]:
        """The arrays of one estimate for each of `experts`, by replica, or all of a state's only replica."""
        replicas = np.arange(len(experts)) if len(state.leader) > 1 else np.zeros(len(experts), dtype=np.int64)
        return [array[replicas, experts] for array in state[: RIDGE + 1]]

    def of_one(self, state: Any, experts: Ints) -> Any:
        """A state of the policy inside, which knows one estimate for each of `experts`."""
        *rows, told = self._rows(state, experts)
        if self.asked.ridge != "learned":
            return RidgeState(*rows)
        surprise, leader = np.zeros((len(experts), 1)), np.zeros(len(experts), dtype=np.int64)
        return ExpertState._make(
            [*(np.expand_dims(row, 1) for row in rows), np.ascontiguousarray(told[:, None, :3]), surprise, leader]
        )

    def log_probabilities(self, state: Any, arms: Floats) -> Floats:
        """log p(a) of every arm.  arms (R,K,d) or (1,K,d) → (R,K)."""
        if self._direct:
            return super().log_probabilities(state, arms)
        if self.combine == "heaviest":
            return self.asked.log_probabilities(self.of_one(state, state.leader), arms)
        every: Floats = np.full((decisions(state, arms), arms.shape[1]), -np.inf)
        for expert in range(state.weight.shape[1]):
            own = self.asked.log_probabilities(self.of_one(state, np.full(len(state.leader), expert)), arms)
            np.logaddexp(every, np.log(state.weight[:, expert])[:, None] + own, out=every)
        return every

    def choose(self, state: Any, arms: Floats, noise: Floats) -> Ints:
        """Draw one arm per replica, where all decide by an estimate that is drawn first."""
        if self.compiled_rounds:
            return super().choose(state, arms, noise)
        if self.combine == "heaviest":
            return self.asked.choose(self.of_one(state, state.leader), arms, noise)
        below = np.cumsum(state.weight, axis=1)[:, :-1]
        drawn = (noise[:, -1:] * state.weight.sum(axis=1, keepdims=True) >= below).sum(axis=1)
        return self.asked.choose(self.of_one(state, drawn), arms, checks.for_kernels(noise[:, :-1]))

    def decide(self, state: Any, arms: Floats, noise: Floats) -> Choice:
        """Draw one arm per replica and say how probable it was."""
        if self._direct:
            return super().decide(state, arms, noise)
        if self.combine == "heaviest":
            return self.asked.decide(self.of_one(state, state.leader), arms, noise)
        arm, log_p = self.choose(state, arms, noise), self.log_probabilities(state, arms)
        return Choice(arm, entries(log_p, arm), log_p, self.features(state, arms, arm))

    def decider(self, state: Any) -> Callable[..., int] | None:
        """The kernel itself, where it writes the probabilities."""
        if not self._direct:
            return None
        kernel, sure, rule = self._parts
        return deciding(kernel, state.parts(), sure, rule)

    def _rounds(self, state: Any, arms: Floats, *others: Any) -> None:
        rewards, errors, noise, played, _ = others
        if len(rewards):
            self._require_no_clock()
        if self.compiled_rounds:
            super()._rounds(state, arms, *others)
            return
        replicas = np.arange(played.shape[1])
        for t in range(len(played)):
            offered = arms[t] if len(arms) > 1 else arms[0]
            played[t] = self.choose(state, offered, noise[t])
            paid = rewards[t if len(rewards) > 1 else 0][replicas, played[t]]
            paid = paid + errors[t] if len(errors) else paid
            self.learn(state, self.features(state, offered, played[t]), paid, replicas)

    def noise_level(self, state: Any) -> Floats:
        """σ as it was told, or what is left of the rewards says of it (R,)."""
        return self.asked.noise_level(self.of_one(state, state.leader))

    def radius(self, state: Any) -> Floats:
        """√β of the estimate that decides, one per replica (R,)."""
        return self.asked.radius(self.of_one(state, state.leader))


def _memory(half_life: HalfLife) -> tuple[float, float]:
    """γ for every reward, and the half-life in seconds; 0 where it is none."""
    if isinstance(half_life, str):
        return 1.0, checks.seconds("half_lives", half_life)
    return 2.0 ** (-1.0 / half_life), 0.0


def _half_lives(given: Any) -> tuple[HalfLife, ...]:
    """As they are kept: different, the longest first."""
    if isinstance(given, (str, int, float)):
        given = (given,)
    if not isinstance(given, Sequence) and not isinstance(given, np.ndarray) or len(given) == 0:
        raise checks.BadType("half_lives", f"half_lives must be a list such as [1000, 50], got {given!r}")
    kept = [_half_life(one) for one in given]
    finite = {type(one) for one in kept if one != math.inf}
    if len(finite) > 1:
        raise checks.BadValue(
            "half_lives",
            "half_lives must all be numbers of rewards or all be durations (beside math.inf), got "
            + ", ".join(map(repr, given)),
        )
    sizes = [_memory(one)[1] or one for one in kept]
    if len(set(sizes)) < len(sizes):
        raise checks.BadValue("half_lives", f"half_lives must differ, got {', '.join(map(repr, given))}")
    return tuple(one for _, one in sorted(zip(sizes, kept, strict=True), key=lambda pair: -float(pair[0])))


def _half_life(value: Any) -> HalfLife:
    if isinstance(value, str) and value.strip() == "inf" or value == math.inf:
        return math.inf
    if isinstance(value, str):
        checks.seconds("half_lives", value)
        return value.strip()
    number = checks.positive("half_lives", value)
    if number < 1.0:
        raise checks.BadValue("half_lives", f"half_lives must be at least one reward, got {value!r}")
    return number


def written(half_life: HalfLife) -> str:
    """For people: "∞", "200" or "7d"."""
    return half_life if isinstance(half_life, str) else "∞" if half_life == math.inf else f"{half_life:g}"
