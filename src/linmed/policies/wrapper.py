"""Policies around another: they believe something else and decide as the one base does."""

import dataclasses
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar

import numpy as np

from linmed import validation
from linmed.core import core
from linmed.policies.base import Noise, Policy, absorbable
from linmed.policies.compiled import CompiledPolicy
from linmed.policies.linmed import LinMED
from linmed.policies.posterior import Capabilities
from linmed.policies.ridge import RidgePolicy
from linmed.validation import Bools, Floats, Ints

_DEFAULT = LinMED()


@dataclass(frozen=True)
class Wrapper(CompiledPolicy):
    """A policy around another, whose rule, ridge and confidence set are used."""

    base: Policy = _DEFAULT
    """The policy whose rule, ridge and confidence set are used."""

    learns_in_core: ClassVar[bool] = True
    without_floor: ClassVar[str] = "it goes to the base policy, as in Forgetful(LinMED(floor=0.1))"

    def __post_init__(self) -> None:
        super().__post_init__()
        base = as_base(self.base)
        if isinstance(base, RidgePolicy) and base.intercept:
            raise validation.BadValue(
                "base",
                f"base: intercept must be False in {type(self).__name__}; add a constant column to the "
                f"features instead, got {base.name}",
            )
        self._refuse(base)
        if base.own_set:
            raise validation.BadValue(
                "base",
                f"base must have a confidence set of the library's, got {base.name} with squared_radius",
            )
        if base.remembers:
            raise validation.BadValue(
                "base", f"base must not remember its last design: use design='approx', got {base.name}"
            )
        self._set("base", base)

    @abstractmethod
    def _refuse(self, base: Policy) -> None:
        """Raise where this policy's belief cannot take the place of the one base."""

    @property
    def noise(self) -> Noise:  # type: ignore[override]
        """That of the base policy."""
        return self.base.noise

    @property
    def index_free(self) -> bool:  # type: ignore[override]
        """Whether the base policy is."""
        return self.base.index_free

    @property
    def takes_worth(self) -> bool:  # type: ignore[override]
        """Whether the base policy does."""
        return self.base.takes_worth

    @property
    def without_worth(self) -> str:  # type: ignore[override]
        """Why it does not."""
        return self.base.without_worth

    @property
    def _mixed(self) -> float:
        """That of the base policy, whose rule is used."""
        return getattr(self.base, "_mixed", 0.0)

    def greedy(self) -> Policy:
        """Make the same around greedy play."""
        return dataclasses.replace(self, base=self.base.greedy(), label="Greedy")

    @property
    def scale_free(self) -> bool:
        """Whether the base policy is."""
        return self.base.scale_free

    @property
    def any_reward(self) -> bool:
        """Whether every number is one for the base policy."""
        return getattr(self.base, "any_reward", True)

    def accepts(self, rewards: Floats) -> Bools:
        """Tell which numbers the base policy accepts."""
        return self.base.accepts(rewards)

    def check_rewards(self, rewards: Floats | float) -> None:
        """Raise unless the base policy accepts all."""
        self.base.check_rewards(rewards)

    def _make_room(self, state: Any, features: Floats) -> None:
        """Have room in the state for what is learned from these."""

    def learn(self, state: Any, features: Floats, rewards: Floats, replicas: Ints) -> None:
        """Have every estimate learn. Half-lives that are durations need `learn_at`."""
        self._require_no_clock()
        self._make_room(state, features)
        super().learn(state, features, rewards, replicas)

    def learn_at(self, state: Any, features: Floats, rewards: Floats, replicas: Ints, times: Floats) -> None:
        """Learn with the time of each decision (m,), which adoptions and alarms then have too."""
        self.check_rewards(rewards)
        self._make_room(state, features)
        features, rewards, replicas = absorbable(state, features, rewards, replicas)
        times = np.broadcast_to(validation.for_kernels(times), rewards.shape).copy()
        core.observe(self.bind(state), features, rewards, replicas, times)

    def _require_no_clock(self) -> None:
        if self.capabilities.clock:
            raise validation.BadValue(
                "half_lives",
                "half_lives are durations, so the time of every decision must be told (learn_at, or time= of "
                "an agent). Where there is no clock, as in a simulation, give them in rewards",
            )

    def _rounds(self, state: Any, arms: Floats, *others: Any) -> None:
        rewards, errors, noise, played, _ = others
        if len(rewards):
            self._require_no_clock()
        if self.compiled_rounds or not len(rewards):
            super()._rounds(state, arms, *others)
            return
        replicas = np.arange(played.shape[1])  # as the core, for rules that are shown another belief
        for t in range(len(played)):
            offered = arms[t] if len(arms) > 1 else arms[0]
            played[t] = self.choose(state, offered, noise[t])
            paid = rewards[t if len(rewards) > 1 else 0][replicas, played[t]]
            paid = paid + errors[t] if len(errors) else paid
            self.learn(state, self.features(state, offered, played[t]), paid, replicas)

    def noise_size(self, dim: int) -> int:
        """Count the draws that the base policy takes."""
        return self.base.noise_size(dim)

    def draw_noise(self, rng: np.random.Generator, shape: tuple[int, ...], dim: int) -> Floats:
        """Draw what the base policy needs."""
        return self.base.draw_noise(rng, shape, dim)

    def derived_name(self) -> str:
        """Say the class, the name of the base policy, and what is not as by default."""
        return f"{type(self).__name__} {self.base.name}{self.describe('base')}"

    def to_dict(self) -> dict[str, Any]:
        """Give the configuration as JSON-ready values: the base policy is a description of its own."""
        own = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {"policy": type(self).__name__, **own, "base": self.base.to_dict()}


def as_base(base: Any) -> Policy:
    """Check the base policy, or make it from its description."""
    if isinstance(base, Mapping):  # from_dict
        try:
            return Policy.from_dict(base)
        except (ValueError, TypeError) as error:
            raise validation.BadValue("base", f"base: {error}") from None
    if not isinstance(base, Policy):
        raise validation.BadType("base", f"base must be a Policy such as LinMED(), got {base!r}")
    return base


def by_base(name: str) -> Any:
    """Make a method that asks `believes` by the name of a method of `Policy`."""

    @wraps(getattr(Policy, name))
    def ask(self: Any, *values: Any, **named: Any) -> Any:
        return getattr(self.believes, name)(*values, **named)

    vars(ask).pop("__isabstractmethod__", None)
    return ask


@dataclass(frozen=True)
class Around(Policy):
    """A policy that learns as its base does, on the same state, and decides in another way."""

    base: Policy = _DEFAULT
    """The policy that learns."""

    without_floor: ClassVar[str] = Wrapper.without_floor
    takes_worth = Wrapper.takes_worth
    without_worth = Wrapper.without_worth

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("base", as_base(self.base))

    @property
    def believes(self) -> Policy:
        """The policy that is asked for all but decisions: the base one, or a copy of it with another rule."""
        return self.base

    start = by_base("start")
    learn = by_base("learn")
    learn_at = by_base("learn_at")
    observe = by_base("observe")
    correct = by_base("correct")
    features = by_base("features")
    accepts = by_base("accepts")
    check_rewards = by_base("check_rewards")
    expected = by_base("expected")
    predict = by_base("predict")
    posterior = by_base("posterior")
    watching = by_base("watching")
    with_delta = by_base("with_delta")
    greedy = by_base("greedy")
    like = by_base("like")

    def __getattr__(self, name: str) -> Any:
        """Ask the base policy for what only some policies have, such as `radius`."""
        if name.startswith("_") or "base" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        return getattr(self.base, name)

    @property
    def capabilities(self) -> Capabilities:
        """Those of the base policy, without routes, which know no law of all arms."""
        return self.base.capabilities._replace(by_route=False)

    @property
    def remembers(self) -> bool:
        """Whether the base policy does."""
        return self.base.remembers

    @property
    def keeps_copies(self) -> bool:
        """Whether the base policy does."""
        return self.base.keeps_copies

    @property
    def scale_free(self) -> bool:
        """Whether the base policy is."""
        return self.base.scale_free

    @property
    def learns_in_core(self) -> bool:  # type: ignore[override]
        """Whether the base policy does."""
        return self.base.learns_in_core

    @property
    def integrates(self) -> bool:  # type: ignore[override]
        """Whether the base policy does."""
        return self.base.integrates

    def to_dict(self) -> dict[str, Any]:
        """Give the configuration as JSON-ready values: the base policy is a description of its own."""
        own = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {"policy": type(self).__name__, **own, "base": self.base.to_dict()}
