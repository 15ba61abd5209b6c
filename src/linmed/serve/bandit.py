"""One bandit in memory: its policy, its state, and how a request becomes arms. Knows no database.

Errors name the field of the request, as `linmed.validation` does.
"""

import copy
import io
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from linmed import streams, validation
from linmed.catalogue_sampler import UNIFORMS, CatalogueSampler
from linmed.control_group import Control, ControlledDecider, onlooker, require_law
from linmed.core import core
from linmed.deadlines import Waiting
from linmed.decider import Decider
from linmed.decision import Decision
from linmed.features import Features, Scan
from linmed.item_encoder import Offer as Named
from linmed.policies import Policy
from linmed.policies.budget import budget_of
from linmed.serve.encoding import Joining, MapName, Offer, bounded, from_catalogue
from linmed.serve.errors import INPUT, field_of, place
from linmed.serve.items import Catalogue
from linmed.serve.settings import LARGEST
from linmed.validation import BadValue, Floats

SCANNED = 200
"""Numbers that an index goes through in the time that a policy takes for one."""
ROUTED = 3000
"""Numbers of arms in the time of which a decision by route is made among few items."""
TOGETHER = 16
"""Decisions that are made in one pass over the items, so that others wait for no more than these."""
SHARED = 4
"""A pass for TOGETHER decisions takes so many times less than one for each."""


class Router:
    """The routes of one version of a catalogue. Index and coreset are made by the first who needs them."""

    def __init__(self, policy: Policy, catalogue: Catalogue, joining: Joining):
        self.policy, self.catalogue, self.joining = policy, catalogue, joining
        self._before: Router | None = None
        self._made: CatalogueSampler | None = None
        self._lock = threading.Lock()

    def after(self, before: "Router | None") -> None:
        """Take over what can be used of an earlier version; made now if that one is in use.

        Then those who decide do not wait for it: the earlier version serves meanwhile.
        """
        if before is None or before is self:
            return
        self._before = before if before.used else before._before
        if before.used:
            self.routes()

    @property
    def used(self) -> bool:
        """Whether index and coreset are there."""
        return self._made is not None

    def routes(self) -> CatalogueSampler:
        """Ready to decide."""
        with self._lock:
            if self._made is None:
                self._made = self._make()
                self._before = None
            return self._made

    def _make(self) -> CatalogueSampler:
        before, index, coreset = self._before, Scan(), None
        if before is not None and before.catalogue.precedes(self.catalogue):
            old = before.routes()
            coreset = old.coreset
            if self.catalogue.largest <= before.catalogue.largest:
                # Rows larger than all before would have the index write all of them anew, in units in
                # which the earlier one, that goes on serving, does not read them.
                index = copy.copy(cast(Scan, old.index))
        made = CatalogueSampler(self.policy, cast(Any, self.catalogue), index, self._lift, coreset)
        made.follow()
        return made

    def _lift(self, context: Floats) -> tuple[Floats, Floats]:
        return self.joining.products(self.catalogue.width).lift(context)

    def check(self, context: Floats) -> None:
        """Refuse a context whose products with items may be larger than the service accepts."""
        largest = self.catalogue.largest * max(1.0, float(np.abs(context).max(initial=0.0)))
        if largest > LARGEST:
            text = f"context: its products with items may be {largest:g}; at most {LARGEST:g} is accepted"
            raise BadValue("context", text)

    def numbers(self, decisions: int = 1) -> int:
        """Numbers of arms in the time of which so many decisions are made together."""
        one_pass = self.catalogue.used * self.catalogue.width // SCANNED
        return decisions * ROUTED + max(SHARED, decisions) * one_pass // SHARED


def secure_bits() -> np.random.PCG64:
    """Start a stream of random numbers that nobody can foresee."""
    return streams.bits(secrets.randbits(256), "agent")


@dataclass(frozen=True)
class Options:
    """What a bandit may have besides its policy: a control group, shadow policies, deadlines."""

    control: float = 0.0
    control_policy: Any = "uniform"
    """"uniform", the id of an item or the number of an arm, or a policy as JSON."""
    shadow: Mapping[str, dict[str, Any]] | None = None
    wait: Waiting | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Options":
        """Read them from a bandit's settings."""
        wait = None
        if settings.get("wait") is not None:
            wait = Waiting(**{name: settings[name] for name in ("wait", "missing", "early", "late")})
        told = ("control", "control_policy", "shadow")
        return cls(**{name: settings[name] for name in told if name in settings}, wait=wait)

    def groups(self, dim: int) -> dict[str, Any] | None:
        """Make the control group and the shadow policies, before any reward; None where there is neither."""
        if not self.control and not self.shadow:
            return None
        control, law = None, self.control_policy
        if self.control and isinstance(law, Mapping):
            control = Control(self.control, decider=onlooker(Policy.from_dict(law), dim), learns=True)
        elif self.control:
            control = Control(self.control, item=None if law == "uniform" else law)
        shadows = {name: onlooker(Policy.from_dict(one), dim) for name, one in (self.shadow or {}).items()}
        return {"control": control, "shadows": shadows}


@dataclass(kw_only=True)
class Bandit:
    """A bandit at one version of its policy."""

    id: int
    name: str
    dim: int
    policy: Policy
    version: int = 1
    revision: int = 1
    archived: bool = False
    log_arms: bool = True
    map: MapName | None = "plain"
    features: Features | None = None
    """Instead of `map`."""
    reward_range: tuple[float, float] | None = None
    options: Options = Options()
    catalogue: Catalogue | None = None
    seq: int = 0
    """The last reward that has been considered."""
    since_snapshot: int = 0
    pace: float = 6e-8
    """Seconds that a decision takes for each number of its arms, as measured (`drawing`)."""
    decider: Decider = field(init=False, repr=False)
    router: Router | None = field(default=None, repr=False)
    """Decides among the whole catalogue, where the policy can do so without making all arms."""

    def __post_init__(self) -> None:
        self.joining = Joining(self.dim, self.map, self.features)
        self.decider = self._decider()
        if self.keeps:
            self._fix_arms()
        if self.policy.capabilities.by_route and self.catalogue is not None:
            self.router = Router(self.policy, self.catalogue, self.joining)

    def begin(self, policy: Policy) -> None:
        """Start with a policy alone, before any reward."""
        self.policy, self.options = policy, Options(wait=self.options.wait)
        self.decider = self._decider()

    def _decider(self, like: Decider | None = None) -> Decider:
        """Make a decision maker before any reward, or with copies of the states of another one."""
        by_route, others = self.policy.capabilities.by_route, self.options.groups(self.dim)
        state = None if like is None else like.state.copy()
        if others is None:
            uniforms = UNIFORMS if by_route else None
            return Decider(self.policy, self.dim, secure_bits(), state=state, uniforms=uniforms)
        require_law("control" if self.options.control else "shadow", self.policy, self.policy, by_route)
        made = ControlledDecider(self.policy, self.dim, secure_bits(), state=state, **others)
        if like is not None:
            for mine, theirs in zip(learners(made), learners(like), strict=True):
                mine.state.restore({name: array.copy() for name, array in theirs.state.arrays().items()})
        return made

    @property
    def state(self) -> Any:
        """What the rewards of the log have made of the policy."""
        return self.decider.state

    @property
    def keeps(self) -> bool:
        """Whether learning needs something of the moment of the decision (EXP2's Q⁻¹a).

        Such a policy works for one set of arms, the catalogue, and learns only from its own decisions.
        """
        return not self.policy.learns_from_arms

    def _fix_arms(self) -> None:
        """The state of such a policy remembers its arms: every server must begin with the same."""
        name = type(self.policy).__name__
        if self.catalogue is None or self.catalogue.width != self.dim:
            text = f"policy: {name} needs a catalogue with {self.dim} features (dim) for each arm"
            raise BadValue("catalogue", text)
        self.policy.features(self.state, self.catalogue.features[None], np.zeros(1, dtype=np.int64))

    @property
    def count(self) -> int:
        """Rewards in the state."""
        return int(self.state.count[0])

    def offer(
        self,
        vectors: list[list[float]] | None,
        ids: Sequence[str] | None,
        context: Any,
        max_arms: int,
    ) -> Offer:
        """The arms of a request: given by features, or from the catalogue with a context."""
        if self.router is not None and self.by_route(vectors, ids):
            whole = self.router.catalogue
            user = self.joining.context(context, whole.width)
            self.router.check(user)
            return Offer(None, None, whole, None, user)
        given = "arm_ids" if vectors is None else "arms"
        if self.keeps and not (vectors is None and ids is None):
            name = type(self.policy).__name__
            raise BadValue(given, f"{given}: {name} always decides among the whole catalogue")
        if vectors is not None:
            if context is not None:
                text = "context: goes with the catalogue's arms, not with arms given by features"
                raise BadValue("context", text)
            if ids is not None and len(ids) != len(vectors):
                raise BadValue("arm_ids", f"arm_ids has {len(ids)} entries for {len(vectors)} arms")
            few(given, len(vectors), max_arms)
            return Offer(self._matrix(vectors), None if ids is None else tuple(ids))
        if self.catalogue is None:
            raise BadValue("arms", "arms: give the features of each arm; this bandit has no catalogue")
        few(given, self.catalogue.count if ids is None else len(ids), max_arms)
        return from_catalogue(self.catalogue, ids, context, self.joining)

    def _matrix(self, vectors: list[list[float]] | Floats) -> Floats:
        """Arms (K, d) as they were given; one that is in form already (`quick`) is only looked through."""
        if (
            isinstance(vectors, np.ndarray)
            and vectors.shape[1:] == (self.dim,)
            and validation.for_kernels(vectors) is vectors
            and len(vectors)
            and core.all_within(vectors, LARGEST)
        ):
            return vectors
        return bounded("arms", validation.arm_matrix(vectors, self.dim))

    def priced(self, offer: Offer, values: Any, costs: Any) -> Offer:
        """An offer with the values and costs of its request, if there are any."""
        if values is None and costs is None:
            return offer
        self.policy.require_worth()
        return offer.priced(values, costs)

    def best(self, offer: Offer) -> int:
        """The arm of the largest estimate: of the utility, where there are values or costs."""
        assert offer.vectors is not None
        expected = self.policy.expected(self.state, offer.vectors)
        if offer.worth is not None:
            seen = self.policy.posterior(self.state)
            if seen is not None:
                expected = expected + (seen.base or 0.0)
                expected = expected if seen.link is None else seen.link(expected)
            values, costs = offer.worth.both(len(expected))
            expected = values * expected - costs
        return int(expected.argmax())

    def decide(self, offers: Sequence[Offer]) -> Iterator[Decision]:
        """One decision for each offer; those among all items are made together, in one pass over them."""
        whole = [offer.context for offer in offers if offer.vectors is None]
        if whole:
            assert self.router is not None
            self.decider.sampler = self.router.routes()
            found = iter(self.decider.decide_items(whole))  # type: ignore[arg-type]
        for offer in offers:
            if offer.vectors is None:
                yield next(found)
            else:
                named = None
                if offer.ids is not None and (self.policy.by_item or type(self.decider) is not Decider):
                    named = Named(offer.vectors, offer.ids, None, None)
                yield self.decider.decide(offer.vectors, named, offer.worth)

    def numbers(self, vectors: Sequence[Any] | None, ids: Sequence[str] | None) -> int:
        """How many numbers the arms of a request have, before they are made: K·d."""
        given = ids if vectors is None else vectors
        if given is not None:
            return len(given) * self.dim
        if self.router is not None:
            return self.router.numbers()
        return 0 if self.catalogue is None else self.catalogue.count * self.dim

    def by_route(self, vectors: Sequence[Any] | None, ids: Sequence[str] | None) -> bool:
        """Whether a request is decided without making its arms, and together with others of the kind."""
        return self.router is not None and vectors is None and ids is None

    def work(self, requests: Sequence[Any]) -> int:
        """`numbers` of all these requests (bodies of decisions), where they are drawn together."""
        routed = sum(self.by_route(one.arms, one.arm_ids) for one in requests)
        if self.router is None or routed < 2:
            return sum(self.numbers(one.arms, one.arm_ids) for one in requests)
        rest = [one for one in requests if not self.by_route(one.arms, one.arm_ids)]
        return self.router.numbers(routed) + self.work(rest)

    def apart(self) -> "Bandit":
        """As it is now, with a state of its own: to draw from while rewards are folded."""
        twin = copy.copy(self)
        twin.decider = self._decider(self.decider)
        return twin

    def take_notes(self, before: Any, after: Any) -> None:
        """What decisions changed in a state apart (a warm design); rewards folded meanwhile stay."""
        own, then = self.state.arrays(), before.arrays()
        for name, array in after.arrays().items():
            if not np.array_equal(array, then[name], equal_nan=array.dtype.kind == "f"):
                own[name][...] = array

    def make_ready(self) -> None:
        """Try a decision and a reward on a state of no consequence, and have the sampler made."""
        state, policy = self.policy.start(1, self.dim), self.policy.among(())
        two = np.eye(max(2, self.dim))[:2, : self.dim]
        arms = self._matrix(validation.for_kernels(two))
        if self.keeps and self.catalogue:
            arms = self.catalogue.features
        choice = policy.decide(state, arms[None], np.full((1, policy.noise_size(self.dim)), 0.5))
        policy.learn_at(state, choice.features, np.zeros(1), np.zeros(1, dtype=np.int64), np.zeros(1))
        if self.router is not None:
            self.router.routes()

    def adopts(self, changed: "Bandit") -> bool:
        """Take over the settings of `changed`, if its policy is this one's: then the state stays as it is."""
        if changed.version != self.version:
            return False
        for name in ("revision", "archived", "reward_range", "catalogue", "router"):
            setattr(self, name, getattr(changed, name))
        return True

    def absorbs(self, version: int) -> bool:
        """Whether the reward of a decision taken under `version` is part of this state."""
        return not self.keeps or version == self.version

    def fold(self, features: Floats, rewards: Floats, times: Floats) -> None:
        """Absorb rewards in their order.  features (m,d), rewards and the decisions' times in seconds (m,).

        One that the policy cannot learn from is left out: another server may have taken it while it did not
        yet know of a change of policy.
        """
        for one in learners(self.decider):
            can = one.policy.accepts(rewards)
            told = (features, rewards, times) if can.all() else (features[can], rewards[can], times[can])
            one.policy.learn_at(one.state, *told[:2], np.zeros(len(told[1]), dtype=np.int64), told[2])
        self.since_snapshot += len(rewards)

    def correct(self, features: Floats, rewards: Floats) -> None:
        """Absorb rewards that came after their deadline in place of what was assumed, if that is wanted."""
        wait = self.options.wait
        if wait is not None and wait.late == "correct":
            for row, reward in zip(features, rewards.tolist(), strict=True):
                for one in learners(self.decider):
                    if one.policy.accepts(np.array([reward])).all():
                        one.correct(row.tobytes(), wait.missing, reward)
        self.since_snapshot += len(rewards)

    def check_reward(self, reward: float) -> None:
        """Rewards outside the declared range would make the confidence sequences wrong."""
        if abs(reward) > LARGEST:
            raise BadValue("reward", f"reward is {reward:g}; at most {LARGEST:g} in size is accepted")
        if self.reward_range is not None and not self.reward_range[0] <= reward <= self.reward_range[1]:
            low, high = self.reward_range
            text = f"reward must lie in this bandit's reward_range [{low:g}, {high:g}], got {reward!r}"
            raise BadValue("reward", text)
        self.decider.check_reward(reward)

    def ignores(self, row: Any) -> bool:
        """Whether the reward of a row came after its deadline and does not count (`store.REWARDED`)."""
        return (
            row.assumed is not None and self.options.wait is not None and self.options.wait.late == "ignore"
        )

    def arrays(self) -> dict[str, Any]:
        """The state's arrays, and behind them those of the states beside it."""
        first, *others = learners(self.decider)
        more = {
            f"group_{i}_{name}": a for i, one in enumerate(others) for name, a in one.state.arrays().items()
        }
        return {**first.state.arrays(), **more}

    def save(self) -> bytes:
        """The state as npz."""
        file = io.BytesIO()
        np.savez(file, **self.arrays())
        return file.getvalue()

    def load(self, content: bytes, seq: int) -> None:
        """The state that `save` wrote, which holds the rewards up to `seq`."""
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        first, *others = learners(self.decider)
        for i, one in enumerate(others):
            start = f"group_{i}_"
            own = [name for name in arrays if name.startswith(start)]
            one.state.restore({name.removeprefix(start): arrays.pop(name) for name in own})
        first.state.restore(arrays)
        self.seq = seq


def learners(decider: Decider) -> list[Decider]:
    """List all that learn from the rewards: a decision maker, and those beside it."""
    own = [decider]
    return own if type(decider) is Decider else [*own, *(one for _, one in cast(Any, decider).learners())]


def few(field: str, number: int, most: int) -> None:
    """Refuse more arms than one decision may have."""
    if number > most:
        raise BadValue(field, f"{field}: at most {most} arms in a decision, got {number}")


def as_policy(config: dict[str, Any], where: str = "policy") -> Policy:
    """The policy that a request describes at `where`."""
    if not isinstance(config.get("policy"), str):
        text = f'{where} must name its class, as in {{"policy": "LinMED", "sigma": 0.5}}'
        raise BadValue(place(where, "policy"), text)
    try:
        policy = Policy.from_dict(config)
    except INPUT as error:
        parameter = field_of(error) or ""
        raise BadValue(
            place(where, parameter) if parameter.isidentifier() else where, f"{where}: {error}"
        ) from None
    if "\0" in policy.name or len(policy.name) > 500:
        text = f"{where}: label must be a name of at most 500 characters"
        raise BadValue(place(where, "label"), text)
    if budget_of(policy) is not None:
        raise BadValue(
            where, f"{where}: the service keeps no budget, which belongs to one agent, got {policy.name}"
        )
    return policy
