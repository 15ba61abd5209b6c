"""Policies whose rule is one of the core's: deciding, learning and whole rounds outside the interpreter."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from linmed import validation
from linmed.core import core
from linmed.policies.base import Choice, Policy, absorbable, decisions, entries, parameter
from linmed.policies.posterior import Capabilities, Grounds
from linmed.validation import Floats, Ints

_NO_REWARDS = _NO_LOGARITHMS = np.empty((0, 0, 0))
_NO_ERRORS = np.empty((0, 0))


def set_of(policy: Any, state: Any) -> Any:
    """Choose the set to ask while a state decides: `confidence_set`, or `squared_radius` of the state."""
    if not policy.own_set:
        return policy.confidence_set
    return core.OwnSet(lambda: validation.for_kernels(policy.squared_radius(state)))


@dataclass(frozen=True, kw_only=True)
class BeliefPolicy(Policy):
    """A policy whose belief is one of the core's, on the arrays of the state in their order."""

    learns_in_core: ClassVar[bool] = True

    @property
    @abstractmethod
    def belief(self) -> Callable[..., Any]:
        """Makes the core's belief from the arrays of a state."""

    def bind(self, state: Any) -> Any:
        """Make the core's belief that works on the arrays of this state."""
        return self.belief(*state.parts())

    def learn(self, state: Any, features: Floats, rewards: Floats, replicas: Ints) -> None:
        """Absorb m rewards in place, one after the other.  features (m,d), rewards (m,), replicas (m,)."""
        self.check_rewards(rewards)
        core.observe(self.bind(state), *absorbable(state, features, rewards, replicas))

    def correct(self, state: Any, features: Floats, before: float, after: float) -> bool:
        """Replace a reward, as far as the belief can: see `Policy.correct`."""
        if not (self.learns_in_core and self.learns_from_arms):
            return False
        return bool(core.correct(self.bind(state), validation.for_kernels(features), before, after))


@dataclass(frozen=True, kw_only=True)
class EstimatePolicy(BeliefPolicy):
    """A policy with an estimate of θ* and a confidence set around it."""

    if TYPE_CHECKING:  # what subclasses have, each with a default of its own
        delta: float | None
        norm_bound: float | str

        @property
        def lam(self) -> float:
            """λ; of several the smallest."""

        @cached_property
        def confidence_set(self) -> Any:
            """How sure the policy is."""

    @property
    def set_name(self) -> str:
        """Which set of the core it has, or that it has a formula of its own."""
        return "squared_radius" if self.own_set else str(self.confidence_set.name)

    @property
    def capabilities(self) -> Capabilities:
        """Intervals and covariance; and verdicts, if the set depends on δ."""
        verdict = self.set_name != "FixedSet"
        return super().capabilities._replace(interval=True, covariance=True, verdict=verdict)

    def with_delta(self, delta: float) -> Self:
        """Make the same policy with this δ."""
        if not self.capabilities.verdict:
            raise validation.BadValue(
                "policy",
                f"policy: {self.name} has a width that is the same at every δ, so it proves nothing; "
                "LinMED(), Pinpoint() or LinUCB(alpha=None) has a confidence set",
            )
        return replace(self, delta=delta)

    @abstractmethod
    def _grounds(self) -> tuple[list[str], str | None]:
        """List what a proof assumes, and say why there is none."""

    def grounds(self, samples: float) -> Grounds:
        """Say what intervals rest on, after so many rewards."""
        assumes, doubt = self._grounds()
        name = self.set_name
        confidence: float | None = 1.0 - (1.0 / (samples + 1) if self.delta is None else self.delta)
        if name == "FixedSet":
            doubt, confidence = "its width is the same at every δ: no confidence set", None
        elif doubt is None and name not in ("RidgeSet", "GlmSet"):
            doubt = f"{name} of {type(self).__name__} is a set of your own, whose proof is not known here"
        set_name = f"{name} of {type(self).__name__}" if self.own_set else self.confidence_set
        return Grounds(
            tuple(assumes), doubt, doubt, confidence, self.delta, f"{set_name} with ridge {self.lam}",
            self.norm_bound == "unknown",
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CompiledPolicy(BeliefPolicy):
    """A belief, a confidence set and a rule of the core; deciding and playing are its loop over rounds."""

    compiled_rounds: ClassVar[bool] = True
    law_in_core: ClassVar[bool] = True
    takes_worth: ClassVar[bool] = True

    @property
    @abstractmethod
    def rule(self) -> Any:
        """How the policy decides: a rule of the core."""

    @cached_property
    def confidence_set(self) -> Any:
        """How sure the belief is: a set of the core. Rules that look at no β have this one."""
        return core.FixedSet(0.0)

    @property
    def any_reward(self) -> bool:
        """Whether every number can be a reward."""
        return True

    @property
    def _mixed(self) -> float:
        """ε that is mixed in around the rule, where the rule knows of none."""
        return 0.0

    def log_probabilities(self, state: Any, arms: Floats) -> Floats:
        """Compute log p(a) of every arm; −inf where it is zero.  arms (R,K,d) or (1,K,d) → (R,K)."""
        log_p = np.empty((1, decisions(state, arms), arms.shape[1]))
        arm = np.empty(log_p.shape[:2], dtype=np.int64)
        noise = np.zeros((*arm.shape, self.noise_size(state.dim)))
        self._rounds(state, arms[None], _NO_REWARDS, _NO_ERRORS, noise, arm, log_p)
        result: Floats = log_p[0]
        return result

    def decide(self, state: Any, arms: Floats, noise: Floats) -> Choice:
        """Draw one arm per replica and say how probable each was, in one call of the core."""
        if not self.law_in_core:
            return super().decide(state, arms, noise)
        arm, log_p = np.empty((1, len(noise)), dtype=np.int64), np.empty((1, len(noise), arms.shape[1]))
        self._rounds(state, arms[None], _NO_REWARDS, _NO_ERRORS, noise[None], arm, log_p)
        played, law = arm[0], log_p[0]
        return Choice(played, entries(law, played), law, self.features(state, arms, played))

    def live(self, state: Any) -> Any:
        """Make the core's agent that decides and learns on the arrays of this state."""
        return core.Live(self.bind(state), set_of(self, state), self._deciding)

    def choose(self, state: Any, arms: Floats, noise: Floats) -> Ints:
        """Draw without taking logarithms."""
        draw = self._draw_in_core if self.law_in_core else super().choose
        return draw(state, arms, noise)

    def _draw_in_core(self, state: Any, arms: Floats, noise: Floats) -> Ints:
        """Draw one arm per replica by the core's rule."""
        arm = np.empty((1, len(noise)), dtype=np.int64)
        self._rounds(state, arms[None], _NO_REWARDS, _NO_ERRORS, noise[None], arm, _NO_LOGARITHMS)
        return arm.reshape(-1)

    def play(self, state: Any, arms: Floats, rewards: Floats, noise: Floats, played: Ints) -> None:
        """Play all rounds in one call of the core, without the interpreter and its lock."""
        self.check_rewards(rewards)
        if not self._plays(state, arms):
            super().play(state, arms, rewards, noise, played)
            return
        self._rounds(state, arms, rewards, _NO_ERRORS, noise, played, _NO_LOGARITHMS)

    def play_with_errors(
        self, state: Any, arms: Floats, means: Floats, errors: Floats, noise: Floats, played: Ints
    ) -> None:
        """Play the same, with the error added to the mean of the arm played, if every number is a reward."""
        if not (self._plays(state, arms) and self.any_reward):
            super().play_with_errors(state, arms, means, errors, noise, played)
            return
        self._rounds(state, arms, means, errors, noise, played, _NO_LOGARITHMS)

    def _plays(self, state: Any, arms: Floats) -> bool:
        """Whether the core plays whole rounds with such arms."""
        return self.compiled_rounds and (arms.shape[-1] == state.dim or bool(self._deciding.prices))

    def _rounds(self, state: Any, arms: Floats, *others: Any) -> None:
        """others: rewards, errors, noise, played, log_p, as the core takes them."""
        arms, rewards, errors, noise = map(validation.for_kernels, (arms, *others[:3]))
        belief, sure = self.bind(state), set_of(self, state)
        core.play(belief, sure, self._deciding, arms, rewards, errors, noise, *others[3:])

    @cached_property
    def _deciding(self) -> Any:
        """The rule, made once, with its share of even mass."""
        return core.FlooredRule(self.rule, self._mixed) if self._mixed else self.rule


@dataclass(frozen=True, kw_only=True)
class Floor(Policy):
    """A policy that gives some arms little probability or none, unless `floor` does."""

    floor: float = parameter(0.0, validation.between, 0.0, 1.0)
    """ε: share of the mass that is spread evenly over the arms."""


@dataclass(frozen=True, kw_only=True)
class Mixed(Floor):
    """A compiled policy whose rule knows no floor: `CompiledPolicy` mixes in the uniform distribution."""

    @property
    def _mixed(self) -> float:
        return self.floor

    def to_dict(self) -> dict[str, Any]:
        """Give the configuration; a floor of 0 is left out, so that results are found that know none."""
        return {name: value for name, value in super().to_dict().items() if name != "floor" or value}
