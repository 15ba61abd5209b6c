"""Forgetful: any ridge policy in a world that changes, without a rate of forgetting to guess."""

import dataclasses
import math
from collections.abc import Callable
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
from linmed.policies.around import Around
from linmed.policies.base import Choice, Policy, Prediction, Properties, State, decisions, entries
from linmed.policies.compiled import CompiledPolicy
from linmed.policies.half_lives import HalfLife, half_lives, memory, written
from linmed.policies.ridge import LEARNED, RIDGE, ExpertState, RidgePolicy, RidgeState


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
class Forgetful(Around):
    """The policy inside, with several memories of which the likeliest decides, and an alarm.

    An estimate with the half-life H counts a reward that is k rewards old 2^(−k/H). Estimates with several H
    are weighed by how well they predicted every reward so far, and the heaviest is asked: its probabilities
    are those of the decision, at the price of one. Where a long memory has come to weigh next to nothing
    beside a shorter one, the world has changed: it forgets its past and goes on from what that one knows.
    β = λS² + σ²(log(det V/det V₀) + 2 log(n + 1)) with what is left of V and n: no radius knows how far θ*
    has moved, so none is proved where something is forgotten.

    >>> from linmed.policies import LinMED
    >>> policy = Forgetful(LinMED(sigma=0.3))
    >>> policy.name, Forgetful(LinMED(sigma=0.3), half_lives=("7d", "1d")).name
    ('Forgetful LinMED-90 (sigma=0.3)', 'Forgetful LinMED-90 (sigma=0.3) (half_lives=7d, 1d)')
    """

    half_lives: tuple[HalfLife, ...] = (math.inf, 1000.0, 200.0, 50.0)
    """In rewards; or durations such as "12h" and "7d" on the clock of the decisions, which `learn` is then to
    be told. `math.inf`, or "inf", never forgets."""
    share: float = 1e-4
    """s: the share of the weight that is spread evenly after every reward, so that no memory is given up."""
    combine: Literal["heaviest", "mixture"] = "heaviest"
    """Who decides: the heaviest estimate, or all, p = Σ w p_g, at the price of as many decisions."""
    alarm: float = field(default=0.05, kw_only=True)
    """α: the probability that an alarm is ever raised while nothing changes."""

    properties: ClassVar[Properties] = Properties(
        reference="linmed, docs/drift.md",
        minimax="unknown",
        instance="unknown",
        computable="that of the policy inside",
        all_arms="as the policy inside",
        randomised=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("half_lives", half_lives(self.half_lives))
        self._set("share", checks.strictly_between("share", self.share, 0.0, 1.0))
        self._set("combine", checks.option("combine", self.combine, ("heaviest", "mixture")))
        self._set("alarm", checks.strictly_between("alarm", self.alarm, 0.0, 1.0))
        tells = type(self.inside).decide in (CompiledPolicy.decide, Policy.decide)
        if self.combine == "mixture" and not tells:
            raise checks.BadValue(
                "combine",
                f"combine must be 'heaviest' around {self.inside.name}, whose probabilities have an error; "
                "'mixture' is for those that are computed exactly",
            )

    # ---- what the policy inside says of itself

    @property
    def compiled_rounds(self) -> bool:  # type: ignore[override]
        """Whether the heaviest estimate decides, by a rule that can be compiled."""
        return self.combine == "heaviest" and isinstance(self.inside, CompiledPolicy)

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
        """As of every policy with another inside, where infinity is a word."""
        memories = [half_life if half_life != math.inf else "inf" for half_life in self.half_lives]
        return {**super().to_dict(), "half_lives": memories}

    # ---- belief, confidence, rule

    @cached_property
    def asked(self) -> RidgePolicy:
        """The policy that decides for one estimate: the one inside, with the radius given above."""
        inside: Any = self.inside
        sure = inside.confidence_set
        paper = isinstance(sure, confidence.RidgeSet) and sure.kind == confidence.PAPER
        asked: RidgePolicy = dataclasses.replace(inside, confidence="mixture") if paper else inside
        return asked

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
        told = [(lam, *span) for span in map(memory, self.half_lives) for lam in lams]
        experts, told = len(told), [*told, (lams[0], 1.0, 0.0)]  # and the monitor
        models = [ridge.start(replicas, dim, row[0]) for row in told]
        stacked = [np.ascontiguousarray(np.stack(arrays, axis=1)) for arrays in zip(*models, strict=True)]
        stacked[1] = stacked[1].astype(np.float64)  # n, of which a part is forgotten
        each, sigma = np.empty((replicas, experts + 1, 6)), inside.numbers[0]
        each[:] = [
            (lam, sigma, inside.reward_scale, factor, math.log(factor), seconds)
            for lam, factor, seconds in told
        ]
        bounded = not isinstance(inside.norm_bound, str) and inside.ridge != "learned"
        rules = np.empty((replicas, 3))
        rules[:] = self.share, -math.log(self.alarm), inside.numbers[1] if bounded else confidence.UNKNOWN
        none, zero = np.zeros(replicas, dtype=np.int64), np.zeros(replicas)
        return ForgetfulState._make([
            *stacked, each, np.full((replicas, experts), 1.0 / experts), np.zeros((replicas, experts + 1)),
            rules, none, none.copy(), zero, np.full(replicas, 0.5), zero.copy(), zero.copy(),
            np.zeros((replicas, 2), dtype=np.int64), np.zeros((replicas, KEPT, 4)),
            np.zeros((replicas, KEPT, 3)),
        ])  # fmt: skip

    def learn(self, state: Any, features: Floats, rewards: Floats, replicas: Ints) -> None:
        """Every estimate learns, and is weighed. Half-lives that are durations need `learn_at`."""
        self._require_no_clock()
        observing(Forgetting)(state.parts(), features, rewards, replicas)

    def learn_at(self, state: Any, features: Floats, rewards: Floats, replicas: Ints, times: Floats) -> None:
        """The same with the time of each decision (m,), which adoptions and alarms then have too."""
        observing_at(Forgetting)(state.parts(), features, rewards, times, replicas)

    def learner(self, state: Any) -> Callable[..., None] | None:
        """The kernel itself, where it need not be told the time."""
        return None if self.on_clock else learning(observing(Forgetting), state.parts())

    def _require_no_clock(self) -> None:
        if self.on_clock:
            raise checks.BadValue(
                "half_lives",
                "half_lives are durations, so the time of every decision must be told (learn_at, or time= of "
                "an agent). Where there is no clock, as in a simulation, give them in rewards",
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
        replicas = (
            np.arange(len(experts)) if len(state.leader) > 1 else np.zeros(len(experts), dtype=np.int64)
        )
        return [array[replicas, experts] for array in state[: RIDGE + 1]]

    def of_one(self, state: Any, experts: Ints) -> Any:
        """A state of the policy inside, which knows one estimate for each of `experts`."""
        *rows, told = self._rows(state, experts)
        if self.asked.ridge != "learned":
            return RidgeState(*rows)
        surprise, leader = np.zeros((len(experts), 1)), np.zeros(len(experts), dtype=np.int64)
        return ExpertState._make(
            [
                *(np.expand_dims(row, 1) for row in rows),
                np.ascontiguousarray(told[:, None, :3]),
                surprise,
                leader,
            ]
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
        if len(others[0]):
            self._require_no_clock()
        if self.compiled_rounds:
            super()._rounds(state, arms, *others)
            return
        self._one_by_one(state, arms, *others)

    def noise_level(self, state: Any) -> Floats:
        """σ as it was told, or what is left of the rewards says of it (R,)."""
        return self.asked.noise_level(self.of_one(state, state.leader))

    def predict(self, state: Any, arms: Floats) -> Prediction | None:
        """What arms (K,d) are expected to pay by the estimate that decides."""
        return self.asked.predict(self.of_one(state, state.leader), arms)

    def radius(self, state: Any) -> Floats:
        """√β of the estimate that decides, one per replica (R,)."""
        return self.asked.radius(self.of_one(state, state.leader))
