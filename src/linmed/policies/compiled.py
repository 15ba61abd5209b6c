"""Policies whose rule is compiled into the one loop over rounds."""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from linmed import checks
from linmed.checks import Floats, Ints
from linmed.kernels.bound import deciding
from linmed.kernels.confidence import FixedSet
from linmed.kernels.rounds import rounds
from linmed.policies.base import Choice, Policy, decisions, entries

_NO_REWARDS = _NO_LOGARITHMS = np.empty((0, 0, 0))
_NO_ERRORS = np.empty((0, 0))
_BELOW_ONE = math.nextafter(1.0, 0.0)


@dataclass(frozen=True)
class CompiledPolicy(Policy):
    """A belief, a confidence set and a rule; deciding and playing are the loop of `kernels.rounds`.

    The state is a named tuple whose arrays are those of `belief`, in order.
    """

    compiled_rounds: ClassVar[bool] = True

    @property
    @abstractmethod
    def belief(self) -> type:
        """The class that kernels know the state by."""

    @property
    @abstractmethod
    def rule(self) -> NamedTuple:
        """How the policy decides: a named tuple with methods `workspace` and `decide`, to be compiled."""

    @property
    def _mixed(self) -> float:
        """ε that is mixed in here, because the rule knows of none."""
        return 0.0

    @cached_property
    def confidence_set(self) -> NamedTuple:
        """None, unless the belief is a ridge estimate: the rule then looks at no β."""
        return FixedSet(0.0)

    def log_probabilities(self, state: Any, arms: Floats) -> Floats:
        """log p(a) of every arm; −inf where it is zero.  arms (R,K,d) or (1,K,d) → (R,K)."""
        log_p = np.empty((1, decisions(state, arms), arms.shape[1]))
        arm = np.empty(log_p.shape[:2], dtype=np.int64)
        self._rounds(state, arms[None], _NO_REWARDS, _NO_ERRORS, np.zeros((*arm.shape, 1)), arm, log_p)
        result: Floats = log_p[0]
        return result

    def decide(self, state: Any, arms: Floats, noise: Floats) -> Choice:
        """Everything in one call of a kernel."""
        arm, log_p = np.empty((1, len(noise)), dtype=np.int64), np.empty((1, len(noise), arms.shape[1]))
        self._rounds(state, arms[None], _NO_REWARDS, _NO_ERRORS, noise[None], arm, log_p)
        played, law = arm[0], log_p[0]
        return Choice(played, entries(law, played), law, self.features(state, arms, played))

    def decider(self, state: Any) -> Callable[..., int] | None:
        """That kernel itself, unless a subclass decides in another way or the state may change its arrays."""
        own, ours, in_place = type(self), CompiledPolicy, isinstance(state, tuple)
        if (own.decide, own._rounds) != (ours.decide, ours._rounds) or not in_place or self._mixed:
            return None
        kernel, confidence, rule = self._parts
        return deciding(kernel, state.parts(), confidence, rule)

    def choose(self, state: Any, arms: Floats, noise: Floats) -> Ints:
        """Draw without taking logarithms."""
        arm = np.empty((1, len(noise)), dtype=np.int64)
        self._rounds(state, arms[None], _NO_REWARDS, _NO_ERRORS, noise[None], arm, _NO_LOGARITHMS)
        return arm.reshape(-1)

    def play(self, state: Any, arms: Floats, rewards: Floats, noise: Floats, played: Ints) -> None:
        """All rounds in one call of a kernel, without the interpreter and its lock."""
        self._rounds(state, arms, rewards, _NO_ERRORS, noise, played, _NO_LOGARITHMS)

    def play_with_errors(
        self, state: Any, arms: Floats, means: Floats, errors: Floats, noise: Floats, played: Ints
    ) -> None:
        """`play` where an arm pays its mean and an error, which need not be added for every arm.

        means (T,R,K), a 1 for T where they stay the same; errors (T,R).
        """
        self._rounds(state, arms, means, errors, noise, played, _NO_LOGARITHMS)

    def _rounds(self, state: Any, arms: Floats, *others: Any) -> None:
        """others: rewards, errors, noise, played, log_p, as the kernel takes them."""
        (kernel, *how), share = self._parts, self._mixed
        arms, rewards, errors, noise = map(checks.for_kernels, (arms, *others[:3]))
        played, log_p = others[3:]
        if not share:
            kernel(state.parts(), *how, arms, rewards, errors, noise, played, log_p)
        elif len(rewards):
            self._one_by_one(state, arms, rewards, errors, noise, played, log_p)
        else:  # one uniform says whether all arms are alike, and draws among them or by the rule
            uniform, count = noise[..., 0], arms.shape[2]
            evenly = uniform < share
            left = np.minimum((uniform - share) / (1.0 - share if share < 1.0 else 1.0), _BELOW_ONE)
            kernel(
                state.parts(), *how, arms, rewards, errors,
                np.where(evenly, 0.0, left)[..., None], played, log_p,
            )  # fmt: skip
            even = np.minimum(uniform / share * count, count - 1).astype(np.int64)
            played[...] = np.where(evenly, even, played)
            rest = math.log1p(-share) if share < 1.0 else -math.inf
            np.logaddexp(rest + log_p, math.log(share / count), out=log_p)

    def _one_by_one(
        self,
        state: Any,
        arms: Floats,
        rewards: Floats,
        errors: Floats,
        noise: Floats,
        played: Ints,
        _: Floats,
    ) -> None:
        """The rounds of `kernels.rounds`, for a rule that is not compiled into them."""
        replicas = np.arange(played.shape[1])
        for t in range(len(played)):
            offered = arms[t] if len(arms) > 1 else arms[0]
            played[t] = self.choose(state, offered, noise[t])
            paid = rewards[t if len(rewards) > 1 else 0][replicas, played[t]]
            paid = paid + errors[t] if len(errors) else paid
            self.learn(state, self.features(state, offered, played[t]), paid, replicas)

    @cached_property
    def _parts(self) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
        """The kernel for this belief, confidence set and rule, and the last two as it takes them."""
        sure, rule = self.confidence_set, self.rule
        kinds: tuple[Any, ...] = self.belief, type(sure), type(rule)
        return rounds(*kinds), tuple(sure), tuple(rule)
