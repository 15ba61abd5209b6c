"""One bandit in memory: its policy, its state, and how a request becomes arms. Knows no database.

Errors name the field of the request, as `linmed.validation` does.
"""

import copy
import io
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from linmed import streams, validation
from linmed.catalogue_sampler import UNIFORMS
from linmed.core import core
from linmed.decider import Decider
from linmed.decision import Decision
from linmed.features import Features
from linmed.item_encoder import Offer as Named
from linmed.policies.base import Policy
from linmed.serve.encoding import Joining, MapName, Offer, bounded, from_catalogue
from linmed.serve.errors import INPUT, field_of, place
from linmed.serve.item_table import Catalogue
from linmed.serve.routing import Router
from linmed.serve.settings import LARGEST
from linmed.validation import BadValue, Floats


def secure_bits() -> np.random.PCG64:
    """Start a stream of random numbers that nobody can foresee."""
    return streams.bits(secrets.randbits(256), "agent")


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
        self.begin(self.policy)
        if self.keeps:
            self._fix_arms()
        if self.policy.capabilities.by_route and self.catalogue is not None:
            self.router = Router(self.policy, self.catalogue, self.joining)

    def begin(self, policy: Policy) -> None:
        """Start with a policy, before any reward."""
        self.policy = policy
        self.decider = self._decider()

    def _decider(self, state: Any = None) -> Decider:
        uniforms = UNIFORMS if self.policy.capabilities.by_route else None
        return Decider(self.policy, self.dim, secure_bits(), state=state, uniforms=uniforms)

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
                if self.policy.by_item and offer.ids is not None:
                    named = Named(offer.vectors, offer.ids, None, None)
                yield self.decider.decide(offer.vectors, named)

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
        twin.decider = self._decider(self.state.copy())
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
        accepted = self.policy.accepts(rewards)
        if not accepted.all():
            features, rewards, times = features[accepted], rewards[accepted], times[accepted]
        self.policy.learn_at(self.state, features, rewards, np.zeros(len(rewards), dtype=np.int64), times)
        self.since_snapshot += len(rewards)

    def check_reward(self, reward: float) -> None:
        """Rewards outside the declared range would make the confidence sequences wrong."""
        if abs(reward) > LARGEST:
            raise BadValue("reward", f"reward is {reward:g}; at most {LARGEST:g} in size is accepted")
        if self.reward_range is not None and not self.reward_range[0] <= reward <= self.reward_range[1]:
            low, high = self.reward_range
            text = f"reward must lie in this bandit's reward_range [{low:g}, {high:g}], got {reward!r}"
            raise BadValue("reward", text)
        self.policy.check_rewards(reward)

    def save(self) -> bytes:
        """The state as npz."""
        file = io.BytesIO()
        np.savez(file, **self.state.arrays())
        return file.getvalue()

    def load(self, content: bytes, seq: int) -> None:
        """The state that `save` wrote, which holds the rewards up to `seq`."""
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        self.state.restore(arrays)
        self.seq = seq


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
    return policy
