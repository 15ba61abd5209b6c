"""A control group, which draws a share of the decisions, and shadow policies, which draw none.

With probability h a decision is drawn from the control group's law π instead of the policy's p. What is said
and logged is the marginal probability h π + (1 − h) p, whichever of the two drew. Shadow policies draw
nothing: the log has how probable the arm was to each of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from linmed import catalogue_sampler, streams, validation
from linmed.catalogue_sampler import CatalogueSampler, Coreset
from linmed.core import core
from linmed.decider import Decider, NoiseBuffer, as_bytes, validate
from linmed.decision import Decision, probability_of
from linmed.features import Index
from linmed.item_encoder import ItemEncoder, Offer
from linmed.policies import Policy
from linmed.policies.budget import budget_of
from linmed.policies.worth import Worth
from linmed.validation import BadType, BadValue, Floats

UNIFORMS = 2
"""Random numbers of a decision in addition to the policy's: who draws, and the control group's arm."""


class GroupRecord(NamedTuple):
    """What a decision says of the control group and of shadow policies."""

    control: bool | None
    """Whether the control group's law drew the arm; None without a control group."""
    share: float | None
    """How probable that was, h."""
    shadow: dict[str, float] | None
    """How probable the arm was to each shadow policy."""


@dataclass(frozen=True, eq=False)
class Control:
    """The share h of decisions that a control group's law draws, and that law.

    `item` is the id of the one item that it plays, or the number of an arm where arms have no ids; `decider`
    a policy and its state. Without both it is uniform.
    """

    share: float
    item: str | int | None = None
    decider: Decider | None = None
    learns: bool = False
    """Whether `decider` learns from the rewards, of both sides."""

    def law(self, arms: Floats, offer: Offer | None, worth: Worth | None = None) -> Floats:
        """Compute the control group's log-probabilities (K,) of arms (K,d)."""
        if self.decider is not None:
            return self.decider.log_probabilities(arms, offer, worth)
        if self.item is None:
            return np.full(len(arms), -np.log(len(arms)))
        names = range(len(arms)) if offer is None else offer.ids
        law = np.where([str(name) == str(self.item) for name in names], 0.0, -np.inf)
        if not (law == 0.0).any():
            what = f"a row {self.item}" if offer is None else f"the item {self.item!r}"
            text = f"arms must have {what}, which the control group plays; of these {len(law)} none is it"
            raise BadValue("items" if offer is not None else "arms", text)
        return law


class ControlledDecider(Decider):
    """A decision maker with a control group, shadow policies, or both."""

    def __init__(
        self,
        *values: Any,
        control: Control | None = None,
        shadows: Mapping[str, Decider] | None = None,
        **options: Any,
    ) -> None:
        self.control, self.shadows = control, dict(shadows or {})
        super().__init__(*values, **options)
        self._require_laws()

    def draw_from(self, bits: np.random.PCG64) -> None:
        """Take random numbers for the policy and for the control group from this stream."""
        extra = 0 if self.control is None else UNIFORMS
        self.noise = NoiseBuffer(bits, self.policy, self.dim, self._uniforms, extra)

    def _require_laws(self) -> None:
        """Refuse policies that do not tell how probable every arm is, or do not learn from another's arms."""
        if self.control is not None:
            require_law("control", self.policy, self.policy, self.sampler is not None)
            budget = budget_of(self.policy)
            if budget is not None and budget.hard:
                text = f"control: a control group would overdraw the hard budget of {self.policy.name}"
                raise BadValue("control", text)
        elif self.sampler is not None:
            raise BadValue("shadow", f"shadow: {_WITHOUT_ARMS}")
        if self.control is not None and self.control.decider is not None:
            require_law("control_policy", self.control.decider.policy, self.policy)
        for name, one in self.shadows.items():
            require_law(f"shadow[{name!r}]", one.policy, self.policy)

    def learners(self) -> Iterator[tuple[str, Decider]]:
        """Yield the deciders that learn from the policy's rewards, with the argument that named each."""
        if self.control is not None and self.control.decider is not None and self.control.learns:
            yield "control_policy", self.control.decider
        for name, one in self.shadows.items():
            yield f"shadow[{name!r}]", one

    def decide(self, arms: ArrayLike, offer: Offer | None = None, worth: Worth | None = None) -> Decision:
        """Choose one of arms (K,d), which `offer` may have made, with these values and costs."""
        matrix = validate(arms, self.dim)
        theirs = None if self.control is None else self.control.law(matrix, offer, worth)
        shadows = {name: one.log_probabilities(matrix, offer, worth) for name, one in self.shadows.items()}
        decision = super().decide(matrix, offer, worth)
        drew = None
        if theirs is not None:
            decision, drew = self._mixed(decision, matrix, offer, theirs, worth)
        seen = {name: probability_of(float(law[decision._arm])) for name, law in shadows.items()}
        decision._groups = GroupRecord(
            drew, None if self.control is None else self.control.share, seen or None
        )
        return decision

    def _mixed(
        self, decision: Decision, arms: Floats, offer: Offer | None, theirs: Floats, worth: Worth | None
    ) -> tuple[Decision, bool]:
        """Decide for either side with the marginal probability; also say whether the control group drew."""
        assert self.control is not None
        side, uniform = self.noise.rows[self.noise.used - 1, 0, -UNIFORMS:]
        own, error = decision.log_probabilities, decision.probability_error
        if own is None:  # the policy says its own probability alone, as an estimate
            own = super().log_probabilities(arms, offer, worth)
        law, drew = self._marginal(own, theirs), bool(side < self.control.share)
        chosen = np.array([decision._arm])
        if drew:
            core.sample(theirs[None], np.array([[uniform]]), chosen)
        arm = int(chosen[0])
        if self.policy.integrates and (arm != decision._arm or decision.log_probabilities is None):
            shown = arms if worth is None else worth.beside(arms)
            policy = self._among(offer.ids)[0] if offer is not None and self.policy.by_item else self.policy
            errors = policy.propensity_error(self.state, shown[None])
            error = 0.0 if errors is None else float(errors[0, arm])
        vector, error = arms[arm].tobytes(), (1.0 - self.control.share) * error
        item = None if offer is None else offer.ids[arm]
        mixed = Decision(arm, float(law[arm]), as_bytes(law), vector, vector, len(arms), error, item)
        if worth is not None:
            mixed._worth = worth
        return mixed, drew

    def _marginal(self, own: Floats, theirs: Floats) -> Floats:
        """Compute log(h π + (1 − h) p) of every arm (K,)."""
        assert self.control is not None
        law = np.array(own)
        core.mix(law, validation.for_kernels(theirs), self.control.share)
        return law

    def decide_each(
        self, sets: Any, offers: Sequence[Offer] | None = None, worth: Sequence[Worth] | None = None
    ) -> list[tuple[Decision, Floats]]:
        """Choose one arm of each of n sets, as n calls would, once all of them have been checked."""
        return self._one_by_one(sets, offers, worth)

    def log_probabilities(
        self, arms: Floats, offer: Offer | None = None, worth: Worth | None = None
    ) -> Floats:
        """Compute log-probabilities of arms (K,d), by either side; nothing changes."""
        own = super().log_probabilities(arms, offer, worth)
        return own if self.control is None else self._marginal(own, self.control.law(arms, offer, worth))

    def _bind(self) -> None:
        super()._bind()
        self.check_reward = self._check_reward

    def _check_reward(self, reward: Floats | float) -> None:
        """Raise where the policy, or another that learns, cannot learn from a reward."""
        self.policy.check_rewards(reward)
        for name, one in self.learners():
            try:
                one.check_reward(reward)
            except BadValue as error:
                raise BadValue("reward", f"{error} ({name})") from None

    def learn(
        self, kept: bytes, reward: float, time: float | None = None, *waiting: Any, **rows: Any
    ) -> None:
        """Let the policy and all others that learn take the reward of one decision."""
        super().learn(kept, reward, time, *waiting, **rows)
        for _, one in self.learners():
            one.learn(kept, reward, time)

    def observe(self, features: Floats, rewards: Floats, times: Floats | None = None) -> None:
        """Let the policy and all others that learn absorb rewards from elsewhere."""
        for name, one in self.learners():
            if times is None and one.policy.capabilities.clock:
                raise BadValue("time", f"time must be given: {name} forgets by the clock")
        super().observe(features, rewards, times)
        for _, one in self.learners():
            one.observe(features, rewards, times)

    def correct(self, kept: bytes, before: float, after: float) -> bool:
        """Let all that learn take the reward `after` for `before`; returns whether the policy could."""
        for _, one in self.learners():
            one.correct(kept, before, after)
        return super().correct(kept, before, after)

    def __getstate__(self) -> dict[str, Any]:
        kept = super().__getstate__()
        control = self.control
        if control is not None and control.decider is not None:
            decider = _apart(control.decider)
            kept["control"] = Control(control.share, control.item, decider, control.learns)
        return {**kept, "shadows": {name: _apart(one) for name, one in self.shadows.items()}}

    def to_dict(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Give everything as JSON and arrays; `restored` is its inverse."""
        arrays: dict[str, Any] = {}

        def described(one: Decider) -> dict[str, Any]:
            number = len({name.split("_")[1] for name in arrays})
            arrays.update({f"group_{number}_{k}": v.copy() for k, v in one.state.arrays().items()})
            return one.policy.to_dict()

        control = self.control
        meta: dict[str, Any] = {"control": None}
        if control is not None:
            policy = None if control.decider is None else described(control.decider)
            meta["control"] = {
                "share": control.share, "item": control.item, "policy": policy, "learns": control.learns
            }  # fmt: skip
        meta["shadow"] = {name: described(one) for name, one in self.shadows.items()}
        return meta, arrays


def onlooker(policy: Policy, dim: int) -> Decider:
    """Make a decider that learns and draws nothing."""
    return Decider(policy, dim, streams.bits(0, "agent"))


def restored(meta: Mapping[str, Any], arrays: dict[str, Any], dim: int) -> dict[str, Any]:
    """Take what `to_dict` wrote out of `arrays`: the control group and the shadows."""
    number = 0

    def made(config: Mapping[str, Any] | None) -> Decider | None:
        nonlocal number
        if config is None:
            return None
        one, start = onlooker(Policy.from_dict(config), dim), f"group_{number}_"
        number += 1
        one.state.restore(
            {name.removeprefix(start): arrays.pop(name) for name in [*arrays] if name.startswith(start)}
        )
        return one

    control, saved = None, meta["control"]
    if saved is not None:
        control = Control(_share(saved["share"]), saved["item"], made(saved["policy"]), bool(saved["learns"]))
    return {"control": control, "shadows": {name: made(config) for name, config in meta["shadow"].items()}}


def control_group(share: Any, law: Any, dim: int, known: Sequence[Any] | None) -> Control | None:
    """Make the control group; `known` are the ids of a catalogue's items."""
    if isinstance(share, (int, float)) and not isinstance(share, bool) and share == 0:
        if not (isinstance(law, str) and law == "uniform"):
            text = "control_policy says what a control group plays: give its share, as in control=0.1"
            raise BadValue("control_policy", text)
        return None
    share = _share(share)
    if isinstance(law, str) and law == "uniform":
        return Control(share)
    if isinstance(law, Policy):
        return Control(share, decider=onlooker(law, dim), learns=True)
    if isinstance(law, Decider):
        if law.dim != dim:
            text = f"control_policy must be an agent with dim={dim}, whose arms it is shown, got {law.dim}"
            raise BadValue("control_policy", text)
        return Control(share, decider=law)
    if known is None:
        if isinstance(law, str):
            text = f'control_policy must be "uniform", an arm\'s number, a policy or an agent, got {law!r}'
            raise BadValue("control_policy", text + "; ids need a catalogue")
        return Control(share, item=validation.whole("control_policy", law, at_least=0))
    if isinstance(law, bool) or not isinstance(law, (str, int)):
        text = f'control_policy must be "uniform", an item\'s id, a policy or an agent, got {law!r}'
        raise BadType("control_policy", text)
    if str(law) not in map(str, known):
        text = f"control_policy must be an item of the catalogue, which has no {law!r}"
        raise BadValue("control_policy", text)
    return Control(share, item=law)


def shadows(named: Any, dim: int) -> dict[str, Decider]:
    """Make the shadow policies, by name."""
    if named is None:
        return {}
    if not isinstance(named, Mapping):
        raise BadType(
            "shadow", f'shadow must be policies by name, as in {{"greedy": Greedy()}}, got {named!r}'
        )
    found = {}
    for name, policy in named.items():
        if not isinstance(name, str) or not name:
            raise BadType("shadow", f"shadow must have names for its policies, got {name!r}")
        if not isinstance(policy, Policy):
            raise BadType("shadow", f"shadow[{name!r}] must be a Policy such as LinMED(), got {policy!r}")
        found[name] = onlooker(policy, dim)
    return found


_WITHOUT_ARMS = (
    "CatalogueMED finds an item without a pass over the catalogue, and no other policy can be asked how "
    "probable an item was; use LinMED, which sees every arm"
)


def require_law(name: str, policy: Policy, deciding: Policy, by_route: bool = False) -> None:
    """Refuse a policy that cannot share decisions with `deciding`."""
    can, own = policy.capabilities, deciding.capabilities
    if policy is not deciding and budget_of(policy) is not None:
        text = (
            f"{name}: {policy.name} would not know what the decisions of another policy leave of its budget"
        )
        raise BadValue(name, text)
    if not can.probability:
        raise BadValue(name, f"{name}: decisions of {policy.name} carry no probability")
    if not policy.learns_from_arms:
        text = f"{name}: {policy.name} learns from the law by which it drew an arm: nobody else may draw"
        raise BadValue(name, text)
    if by_route:
        raise BadValue(name, f"{name}: {_WITHOUT_ARMS}")
    if (can.per_item, can.shared) != (own.per_item, own.shared):
        text = (
            f"{name}: {policy.name} and {deciding.name} take arms of different form (a model for every item)"
        )
        raise BadValue(name, text)


def _share(value: Any) -> float:
    return validation.strictly_between("control", value, 0.0, 1.0)


def _apart(one: Decider) -> Decider:
    twin = Decider.__new__(Decider)
    twin.__setstate__(one.__getstate__())
    return twin


def make_decider(
    policy: Policy,
    dim: int,
    bits: np.random.PCG64,
    encoder: ItemEncoder | None,
    index: Index | None,
    coresets: Sequence[Coreset] = (),
    groups: dict[str, Any] | None = None,
) -> Decider:
    """Make the decider, with a sampler if the policy decides by route, and with its control group."""
    kind: Any = Decider if groups is None else partial(ControlledDecider, **groups)
    if not policy.capabilities.by_route or encoder is None:
        if index is not None:
            text = "index goes with CatalogueMED and a catalogue: else leave it out"
            raise validation.BadValue("index", text)
        return kind(policy, dim, bits, encoder=encoder)  # type: ignore[no-any-return]
    if any(one.rows > len(encoder.catalogue.snapshot().matrix) for one in coresets):
        raise ValueError("a coreset of more rows than the catalogue has")
    sampler = CatalogueSampler(policy, encoder.catalogue, index, encoder.lift, *coresets[-1:])
    sampler.earlier = list(coresets[:-1])
    made = kind(policy, dim, bits, encoder=encoder, sampler=sampler, uniforms=catalogue_sampler.UNIFORMS)
    return made  # type: ignore[no-any-return]
