"""Forgetful: any policy with an estimate in a world that changes, without a rate of forgetting to guess."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from linmed import validation
from linmed.policies.base import Choice, Policy, Properties, entries
from linmed.policies.glm import GLMPolicy
from linmed.policies.half_lives import HalfLife, half_lives, written
from linmed.policies.memories import GlmMemories, RidgeMemories, draw_from_mixture, mixture
from linmed.policies.posterior import Capabilities, Grounds, Posterior
from linmed.policies.ridge import RidgePolicy
from linmed.policies.wrapper import Wrapper
from linmed.validation import Floats, Ints


@dataclass(frozen=True, kw_only=True)
class Forgetful(Wrapper):
    """The base policy, with several memories of which the likeliest decides, and an alarm.

    An estimate with the half-life H counts a reward that is k rewards old 2^(−k/H). Estimates with several H
    are weighed by how well they predicted every reward so far, and the heaviest is asked: its probabilities
    are those of the decision, at the price of one. Where a long memory has come to weigh next to nothing
    beside a shorter one, the world has changed: it forgets its past and goes on from what that one knows.
    β = λS² + σ²(log(det V/det V₀) + 2 log(n + 1)) with what is left of V and n, for clicks and counts that of
    the base policy: no radius knows how far θ* has moved, so none is proved where something is forgotten.

    >>> from linmed.policies import LinMED
    >>> policy = Forgetful(LinMED(sigma=0.3))
    >>> policy.name, Forgetful(LinMED(sigma=0.3), half_lives=("7d", "1d")).name
    ('Forgetful LinMED-90 (sigma=0.3)', 'Forgetful LinMED-90 (sigma=0.3) (half_lives=7d, 1d)')

    >>> from linmed import Agent
    >>> agent = Agent(policy, dim=1)
    >>> agent.observe([[1.0]] * 200, [0.5] * 100 + [-0.5] * 100)
    >>> agent.theta.round(1), agent.drift().changed  # without a memory that fades θ̂ would be 0
    (array([-0.3]), True)

    Its parameters are the policy `base`, the memories' `half_lives`, the `share` of their weights that is
    spread anew, how they `combine`, and the level of the `alarm`; `label` is that of every `Policy`.

    >>> policy.radius(agent.state).shape, policy.noise_level(agent.state), policy.asked.sigma
    ((1,), array([0.3]), 0.3)
    >>> policy.of_one(agent.state, experts=agent.state.leader).count == policy.estimate(agent.state).count
    array([ True])
    """

    half_lives: tuple[HalfLife, ...] = (math.inf, 1000.0, 200.0, 50.0)
    """In rewards; or durations such as "12h" and "7d" on the clock of the decisions, which `learn` is then to
    be told. `math.inf`, or "inf", never forgets."""
    share: float = 1e-4
    """s: the share of the weight that is spread evenly after every reward, so that no memory is given up."""
    combine: Literal["heaviest", "mixture"] = "heaviest"
    """Who decides: the heaviest estimate, or all, p = Σ w p_g, at the price of as many decisions."""
    alarm: float = 0.05
    """α: the probability that an alarm is ever raised while nothing changes."""

    properties: ClassVar[Properties] = Properties(
        reference="linmed, docs/drift.md",
        minimax="unknown",
        instance="unknown",
        computable="that of the base policy",
        all_arms="as the base policy",
        randomised=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("half_lives", half_lives(self.half_lives))
        self._set("share", validation.strictly_between("share", self.share, 0.0, 1.0))
        self._set("combine", validation.option("combine", self.combine, ("heaviest", "mixture")))
        self._set("alarm", validation.strictly_between("alarm", self.alarm, 0.0, 1.0))
        if self.combine == "mixture" and self.base.integrates:
            raise validation.BadValue(
                "combine",
                f"combine must be 'heaviest' around {self.base.name}, whose probabilities have an error; "
                "'mixture' is for those that are computed exactly",
            )

    def _refuse(self, base: Policy) -> None:
        """Refuse a base without an estimate that can fade, or with a certificate that would not hold."""
        if base.capabilities.per_item:
            raise validation.BadValue(
                "base",
                "base must be a policy without another: models of items forget one by one, "
                f"{type(base).__name__}(Forgetful(…)), got {base.name}",
            )
        if not (isinstance(base, (RidgePolicy, GLMPolicy)) and base.learns_in_core):
            raise validation.BadValue(
                "base",
                "base must be a policy with a ridge estimate, as LinMED, OFUL or LinTS, or one for clicks "
                f"or counts, as LogisticMED, got {base.name}",
            )
        if isinstance(base, GLMPolicy) and base.confidence == "certified":
            raise validation.BadValue(
                "base",
                "base must have confidence='laplace': in a world that changes no radius is certified, "
                f"got {base.name}",
            )

    # ---- what the base policy says of itself

    @property
    def compiled_rounds(self) -> bool:  # type: ignore[override]
        """Whether the heaviest estimate decides, by a rule that can be compiled."""
        return self.combine == "heaviest" and self.base.compiled_rounds

    @property
    def capabilities(self) -> Capabilities:
        """Those of the base policy but verdicts; drift; and a clock where half-lives are durations."""
        clock = any(isinstance(half_life, str) for half_life in self.half_lives)
        base = self.base.capabilities
        return base._replace(verdict=False, refutable=False, by_route=False, drift=True, clock=clock)

    def with_delta(self, delta: float) -> Policy:
        """Always an error."""
        raise validation.BadType(
            "policy",
            f"policy: {type(self).__name__} is for a world that changes, of which no confidence set is "
            f"proved; instead let {self.base.name} observe the rewards since the last change",
        )

    def noise_size(self, dim: int) -> int:
        """Count the draws of the base policy, and one uniform for the estimate if all of them decide."""
        return self.base.noise_size(dim) + (self.combine == "mixture")

    def draw_noise(self, rng: np.random.Generator, shape: tuple[int, ...], dim: int) -> Floats:
        """Draw what the base policy needs, and last the uniform."""
        own = self.base.draw_noise(rng, shape, dim)
        return own if self.combine == "heaviest" else np.concatenate([own, rng.random((*shape, 1))], axis=-1)

    def derived_name(self) -> str:
        """Forgetful, the name of the base policy, and what is not as by default."""
        told = self.describe("base", "half_lives")
        if self.half_lives != type(self).half_lives:
            memories = ", ".join(map(written, self.half_lives))
            told = f" (half_lives={memories}{', ' + told[2:] if told else ')'}"
        return f"Forgetful {self.base.name}{told}"

    def to_dict(self) -> dict[str, Any]:
        """Give the configuration as JSON-ready values; infinity is a word."""
        memories = [half_life if half_life != math.inf else "inf" for half_life in self.half_lives]
        return {**super().to_dict(), "half_lives": memories}

    # ---- belief, confidence, rule

    @cached_property
    def kept(self) -> RidgeMemories | GlmMemories:
        """What is kept of the rewards, by the kind of the base policy."""
        base: Any = self.base
        return GlmMemories(base) if isinstance(base, GLMPolicy) else RidgeMemories(base)

    @property
    def asked(self) -> RidgePolicy | GLMPolicy:
        """The policy that decides for one estimate: the one base, with the radius given above."""
        return self.kept.asked

    @property
    def belief(self) -> Callable[..., Any]:
        """Makes the core's belief, estimates with their weights, from the arrays of a state."""
        return self.kept.belief  # type: ignore[no-any-return]

    @cached_property
    def confidence_set(self) -> Any:
        """β as above, or the policy's own set where it was told another."""
        return self.asked.confidence_set

    @property
    def rule(self) -> Any:
        """The rule of the base policy."""
        return self.asked.rule  # type: ignore[union-attr]

    def start(self, replicas: int, dim: int) -> Any:
        """Begin with the prior in every estimate, all of equal weight."""
        return self.kept.start(replicas, dim, self.half_lives, self.share, -math.log(self.alarm))

    # ---- deciding

    takes_worth = Wrapper.takes_worth

    @property
    def law_in_core(self) -> bool:  # type: ignore[override]
        """Whether the core's rule writes the probabilities of all arms."""
        return self.compiled_rounds and self._direct

    @property
    def _direct(self) -> bool:
        """Whether the core's rule writes the probabilities where one estimate decides."""
        return self.base.law_in_core

    def estimate(self, state: Any) -> Any:
        """Copy the estimate that decides; its `count` is what is left of the number of rewards."""
        return self.asked.estimate(self.of_one(state, state.leader))

    def of_one(self, state: Any, experts: Ints) -> Any:
        """A state of the base policy, which knows one estimate for each of `experts`."""
        return self.kept.of_one(state, experts)

    def log_probabilities(self, state: Any, arms: Floats) -> Floats:
        """Compute log p(a) of every arm.  arms (R,K,d) or (1,K,d) → (R,K)."""
        return self._law(state, arms) if self.combine == "heaviest" else mixture(state, arms, self._law)

    def _law(self, state: Any, arms: Floats) -> Floats:
        """Compute log p(a) of every arm by the leading estimates."""
        if self._direct:
            return super().log_probabilities(state, arms)
        return self.asked.log_probabilities(self.of_one(state, state.leader), arms)

    def choose(self, state: Any, arms: Floats, noise: Floats) -> Ints:
        """Draw one arm per replica, where all decide by an estimate that is drawn first."""
        if self.combine == "heaviest":
            return self._choice(state, arms, noise)
        return draw_from_mixture(state, arms, noise, self._choice)

    def _choice(self, state: Any, arms: Floats, noise: Floats) -> Ints:
        """Draw one arm per replica by the leading estimates."""
        if self.base.compiled_rounds and self._plays(state, arms):
            return self._draw_in_core(state, arms, noise)
        return self.asked.choose(self.of_one(state, state.leader), arms, noise)

    def decide(self, state: Any, arms: Floats, noise: Floats) -> Choice:
        """Draw one arm per replica and say how probable it was."""
        if self.combine == "mixture":
            arm, log_p = self.choose(state, arms, noise), self.log_probabilities(state, arms)
            return Choice(arm, entries(log_p, arm), log_p, self.features(state, arms, arm))
        if self.law_in_core:
            return super().decide(state, arms, noise)
        return self.asked.decide(self.of_one(state, state.leader), arms, noise)

    def live(self, state: Any) -> Any:
        """Make the core's agent; None unless the heaviest estimate decides."""
        return super().live(state) if self.compiled_rounds else None

    def noise_level(self, state: Any) -> Floats:
        """σ as it was told, or what is left of the rewards says of it (R,); 1 where V is in its units."""
        return self.kept.noise_level(self.of_one(state, state.leader))

    def posterior(self, state: Any) -> Posterior | None:
        """Return what the deciding estimate says of arms."""
        seen = self.asked.posterior(self.of_one(state, state.leader))
        doubt = "they are the heaviest memory's, and in a world that changes no confidence set is proved"
        return replace(seen, count=int(state.rewards[0]), grounds=Grounds(doubt=doubt), sums=None)

    def propensity_error(self, state: Any, arms: Floats) -> Floats | None:
        """Estimate the standard errors by the deciding estimate."""
        return self.asked.propensity_error(self.of_one(state, state.leader), arms)

    def radius(self, state: Any) -> Floats:
        """√β of the estimate that decides, one per replica (R,)."""
        return self.asked.radius(self.of_one(state, state.leader))
