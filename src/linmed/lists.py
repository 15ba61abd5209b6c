"""Lists: several arms of one set, drawn one position after the other, each with its exact probability.

Position j is the policy's own decision among the arms that the positions above left over. So the probability
of a list is the product of its positions' conditional probabilities, and any policy that can say how probable
a decision is can draw lists. Three things are particular to LinMED and its relatives: the design is that of
all arms, restricted to those left and made to sum to one; where it has none of these, its share goes to all
of them alike; and the half-step of B_t is taken only at the first position that explores. Whether LinMED's
regret bound carries over to lists is unknown.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from linmed import validation
from linmed.control_group import ControlledDecider
from linmed.core import core
from linmed.deadlines import Deadlines
from linmed.decider import Decider, as_bytes, validate
from linmed.decision import probabilities_of, probability_of
from linmed.item_encoder import Offer
from linmed.policies import Policy
from linmed.policies.budget import budget_of
from linmed.policies.per_item import ModelsLive
from linmed.validation import BadType, BadValue, Floats, Ints

__all__ = ["ListDecision", "ListLaw"]

Seen = Literal["dcm", "cascade"]
"""Which positions were looked at: by dependent clicks those up to the last click, in a cascade up to the only
one; all of them where there was none."""
Explore = Literal["every", "last"]
WHOLE = -1
"""Stands for the position of a reward that is the whole list's."""
Absorb = Callable[[bytes, float, float | None], None]


@dataclass(frozen=True, eq=False)
class ListDecision:
    """A list of arms, best position first, and how probable each was given those above it.

    >>> from linmed import Agent, LinMED
    >>> agent = Agent(LinMED(), dim=2, seed=7)
    >>> shown = agent.decide_list([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], length=2)
    >>> shown.arms, shown.probabilities.round(3), shown.id in agent.pending
    (array([0, 1]), array([0.933, 0.95 ]), True)
    >>> round(shown.probability, 3), round(shown.log_probability, 3)
    (0.887, -0.12)
    """

    id: str
    """What `learn_list` may be given instead of the decision."""
    arms: Ints
    """The rows of the arms, by position (m,)."""
    items: tuple[str | int, ...] | None
    """The ids of the items; None where arms were given as vectors."""
    log_probabilities: Floats
    """log p of each position given those above it (m,)."""
    features: Floats
    """The arms that were played (m, d)."""
    arm_count: int
    """K: among how many arms the list was drawn."""
    candidates: tuple[Ints, ...] | None = None
    """Which arms might stand at each position, those above it among them or not; None where all might."""

    def __post_init__(self) -> None:
        for array in (self.arms, self.log_probabilities, self.features):
            array.flags.writeable = False

    @property
    def probabilities(self) -> Floats:
        """The probability of each position given those above it (m,)."""
        return probabilities_of(self.log_probabilities)

    @property
    def log_probability(self) -> float:
        """The logarithm of the whole list's probability."""
        return math.fsum(self.log_probabilities)

    @property
    def probability(self) -> float:
        """The probability of the whole list, in this order."""
        return probability_of(self.log_probability)

    def __len__(self) -> int:
        return len(self.arms)

    def __repr__(self) -> str:
        shown = f"arms={self.arms.tolist()}" if self.items is None else f"items={list(self.items)}"
        return f"ListDecision(id={self.id!r}, {shown}, probability={self.probability:.6g})"


@dataclass(frozen=True)
class ListOptions:
    """How a list of `length` is drawn: see `Agent.decide_list`."""

    length: int
    candidates: Any = None
    explore: Explore = "every"
    slots: int = 1
    floor: float = 0.01

    def __post_init__(self) -> None:
        validation.whole("length", self.length)
        validation.option("explore", self.explore, ("every", "last"))
        validation.whole("slots", self.slots, at_most=self.length)
        validation.strictly_between("floor", self.floor, 0.0, 1.0)
        given = self.candidates
        if given is not None and not callable(given):
            if isinstance(given, (str, bytes, Mapping)) or not hasattr(given, "__len__"):
                text = f"candidates must be a list for each position or a function, got {given!r}"
                raise BadType("candidates", text)
            if len(given) != self.length:
                text = f"candidates must be one list for each of {self.length} positions, got {len(given)}"
                raise BadValue("candidates", text)

    def explores(self, position: int) -> bool:
        """Whether the policy itself decides at a position."""
        return self.explore == "every" or position >= self.length - self.slots

    @property
    def first(self) -> int:
        """The first position at which the policy itself decides."""
        return 0 if self.explore == "every" else self.length - self.slots

    def allowed(self, prefix: Sequence[int], count: int, names: Sequence[Any] | None) -> Ints | None:
        """Numbers of the arms that may stand below `prefix`, rising; None where all may."""
        given = self.candidates
        if given is None:
            return None
        above = tuple(prefix) if names is None else tuple(names[arm] for arm in prefix)
        found = given(above) if callable(given) else given[len(prefix)]
        name = "candidates" if callable(given) else f"candidates[{len(prefix)}]"
        if found is None:
            return None
        if isinstance(found, (str, bytes)) or not hasattr(found, "__iter__"):
            raise BadType(name, f"{name} must be a list of arms, or None for all of them, got {found!r}")
        if names is None:
            rows = [validation.whole(name, arm, 0, count - 1) for arm in found]
        else:
            places = {str(own): place for place, own in enumerate(names)}
            missing = [one for one in found if str(one) not in places]
            if missing:
                raise BadValue(name, f"{name} has {missing[0]!r}, which is not among the items offered")
            rows = [places[str(one)] for one in found]
        if len(set(rows)) < len(rows):
            raise BadValue(name, f"{name} has an arm twice: {list(found)}")
        return np.array(sorted(rows), dtype=np.int64)


class ListLaw:
    """The law of a list: how probable each arm is at a position, given those above it.

    `names` are the ids of the arms, in which `candidates` are then told.

    >>> import numpy as np
    >>> from linmed import LinMED
    >>> policy, arms = LinMED(), np.eye(3)
    >>> law = ListLaw(policy, policy.start(1, 3), arms, ListOptions(2))
    >>> [np.exp(law.log_probabilities(prefix)).round(3).tolist() for prefix in ((), (1,))]
    [[0.933, 0.033, 0.033], [0.95, 0.0, 0.05]]
    >>> arms, log_p, left = law.draw(np.array([[0.5], [0.97]]))
    >>> arms, np.exp(log_p).round(3), left[1].tolist() == law.left(arms[:1]).tolist()
    (array([0, 2]), array([0.933, 0.05 ]), True)
    """

    def __init__(
        self,
        policy: Policy,
        state: Any,
        arms: Floats,
        options: ListOptions,
        names: Sequence[Any] | None = None,
    ) -> None:
        if policy.remembers or not policy.learns_from_arms:
            raise BadValue(
                "policy",
                f"policy: {policy.name} keeps something of every decision, which a list of several would "
                "overwrite: use a policy that decides by its rewards alone, such as LinMED()",
            )
        if not policy.capabilities.probability:
            raise BadValue(
                "policy", f"policy: decisions of {policy.name} carry no probability, and lists need it"
            )
        if budget_of(policy) is not None:
            raise BadValue(
                "policy", f"policy: {policy.name}: decide_list takes no costs, so it keeps no budget"
            )
        if policy.by_item:
            text = "limits of single arms are of one decision, and a list is several: use a number for all"
            raise BadValue("policy", f"policy: {policy.name}: {text}")
        if options.explore == "last" and policy.noise != "uniform":
            text = f"explore must be 'every' for {policy.name}, which draws from normal random numbers"
            raise BadValue("explore", text)
        if options.length > len(arms):
            text = f"length must be at most the number of arms, {len(arms)}, got {options.length}"
            raise BadValue("length", text)
        self._policy, self._state, self._arms = policy, state, arms
        self._options, self._names = options, names
        live = policy.live(state) if policy.law_in_core else None
        if isinstance(live, ModelsLive):
            live = live.following(arms)
        self._law = None if live is None else core.ListLaw(live, arms)
        self._every = np.arange(len(arms))

    def left(self, prefix: Sequence[int]) -> Ints:
        """Numbers of the arms that may stand below `prefix`, rising."""
        prefix = list(prefix)
        allowed = self._options.allowed(prefix, len(self._arms), self._names)
        if allowed is None:
            return np.delete(self._every, prefix) if prefix else self._every
        left = allowed[~np.isin(allowed, prefix)]
        if not len(left):
            text = f"candidates of position {len(prefix)} are all placed above it, or there are none"
            raise BadValue("candidates", text)
        return left

    def log_probabilities(self, prefix: Sequence[int]) -> Floats:
        """log p of every arm below `prefix` (K,); −∞ where it may not stand there."""
        prefix = [validation.whole("prefix", arm, 0, len(self._arms) - 1) for arm in prefix]
        if len(prefix) >= self._options.length or len(set(prefix)) < len(prefix):
            text = f"prefix must be fewer than {self._options.length} different arms, got {prefix}"
            raise BadValue("prefix", text)
        left, every = self.left(prefix), np.full(len(self._arms), -np.inf)
        if self._law is None and self._options.explores(len(prefix)):
            every[left] = self._policy.log_probabilities(self._state, self._arms[left][None])[0]
        else:
            size = self._policy.noise_size(self._arms.shape[1])
            every[left] = self._draw(left, len(prefix), np.zeros(size))[2]
        return every

    def draw(self, noise: Floats) -> tuple[Ints, Floats, tuple[Ints, ...]]:
        """Draw a list by the random numbers of each position (m, size).

        Its arms (m,), log p of each (m,), and which might have stood at each position.
        """
        arms: list[int] = []
        among: list[Ints] = []
        chances = np.empty(self._options.length)
        for position in range(self._options.length):
            left = self.left(arms)
            place, chances[position], _ = self._draw(left, position, noise[position])
            arms.append(int(left[place]))
            among.append(left)
        return np.array(arms, dtype=np.int64), chances, tuple(among)

    def _draw(self, left: Ints, position: int, noise: Floats) -> tuple[int, float, Floats]:
        """The place in `left` that is drawn at a position, its log p, and that of all (n,) where known."""
        law = np.empty(len(left))
        if not self._options.explores(position):
            share = self._options.floor
            best = int(np.argmax(self._policy.expected(self._state, self._arms[left])))
            law[:] = math.log(share / len(left))
            law[best] = math.log(share / len(left) + 1.0 - share)
            evenly = min(int(noise[0] / share * len(left)), len(left) - 1)
            place = evenly if noise[0] < share else best
        elif self._law is not None:
            place = self._law.draw(left, position == self._options.first, noise, law)
        else:
            choice = self._policy.decide(self._state, self._arms[left][None], noise[None])
            place, chance = int(choice.arm[0]), float(choice.log_probability[0])
            return place, chance, law if choice.log_probabilities is None else choice.log_probabilities[0]
        if not law[place] > -math.inf:
            text = "arms: the policy finds no probability for them; are they of very different size?"
            raise BadValue("arms", text)
        return place, float(law[place]), law


def draw_list(
    decider: Decider, arms: Any, offer: Offer | None, options: ListOptions, name: str
) -> tuple[ListDecision, Floats]:
    """Draw a list called `name`, and use up its random numbers; also the arms (K, d)."""
    matrix = validate(arms, decider.dim)
    names = None if offer is None else offer.ids
    law = ListLaw(decider.policy, decider.state, matrix, options, names)
    decider.noise.draw(options.length)
    used = decider.noise.used
    drawn, chances, left = law.draw(decider.noise.rows[used : used + options.length, 0])
    decider.noise.used = used + options.length
    items = None if names is None else tuple(names[arm] for arm in drawn)
    candidates = None if options.candidates is None else left
    return ListDecision(name, drawn, items, chances, matrix[drawn], len(matrix), candidates), matrix


def examined(examination: Any, length: int) -> Floats:
    """Check how likely each position is looked at (m,)."""
    rates = validation.floats("examination", examination)
    if rates.shape != (length,) or not ((rates >= 0.0) & (rates <= 1.0)).all() or not rates.any():
        text = f"examination must be a number from 0 to 1 for each of {length} positions, got {examination!r}"
        raise BadValue("examination", text)
    return rates


@dataclass(eq=False)
class WaitingList:
    """A list whose rewards have not all come."""

    features: Floats  # (m, d)
    seen: Seen | None = None
    examination: Floats | None = None
    moment: float | None = None
    rewards: Floats = field(default_factory=lambda: np.empty(0))  # (m,) NaN where none came
    learned: Any = None  # (m,) whether a position was learned
    whole: float | None = None  # one reward for the whole list, held until its deadline

    def __post_init__(self) -> None:
        if not self.rewards.size:
            self.rewards = np.full(len(self.features), math.nan)
        if self.learned is None:
            self.learned = np.zeros(len(self.features), dtype=bool)

    def understand(self, policy: Policy, seen: Any, examination: Any) -> None:
        """Take how its rewards come about, once and for all; where that makes no sense nothing changes."""
        if seen is not None:
            validation.option("seen", seen, ("dcm", "cascade"))
            if self.seen not in (None, seen):
                raise BadValue("seen", f"seen was {self.seen!r} for this list before, got {seen!r}")
        rates = self.examination
        if examination is not None:
            require_linear("examination", policy)
            rates = examined(examination, len(self.features))
            if self.examination is not None and not np.array_equal(rates, self.examination):
                text = f"examination was {self.examination.tolist()} for this list before"
                raise BadValue("examination", text)
        if rates is not None and (self.seen or seen) is not None:
            text = "examination must be None with seen, which says itself which positions were looked at"
            raise BadValue("examination", text)
        self.seen, self.examination = self.seen or seen, rates

    def take(self, rewards: Any, decider: Decider) -> dict[int, float]:
        """Take rewards (m,), NaN for those that have not come, or one number; returns what is new."""
        if self.whole is not None:
            raise BadValue("rewards", "rewards of this list have come already, as one number")
        if np.ndim(rewards) == 0 and not isinstance(rewards, (str, bytes)):
            self.whole = self._one(validation.reward("rewards", rewards), decider)
            return {WHOLE: self.whole}
        if isinstance(rewards, (str, bytes)) or not hasattr(rewards, "__len__"):
            raise BadType(
                "rewards", f"rewards must be a number for each position or one number, got {rewards!r}"
            )
        if len(rewards) != len(self.features):
            text = (
                f"rewards must have one number for each of {len(self.features)} positions, got {len(rewards)}"
            )
            raise BadValue("rewards", text)
        found: dict[int, float] = {}
        for place, given in enumerate(rewards):
            if given is None or given != given:
                continue
            value = validation.reward(f"rewards[{place}]", given)
            decider.check_reward(value)
            if not math.isnan(self.rewards[place]):
                if value != self.rewards[place]:
                    raise BadValue("rewards", f"rewards[{place}] has come already, {self.rewards[place]:g}")
                continue
            if self.seen is not None and value < 0.0:
                raise BadValue(
                    "rewards", f"rewards[{place}] must be a click with seen, 0 or more, got {value!r}"
                )
            found[place] = value
        clicks = int(np.count_nonzero(self.rewards > 0.0)) + sum(value > 0.0 for value in found.values())
        if self.seen == "cascade" and clicks > 1:
            raise BadValue(
                "rewards", f"rewards must have one click at most with seen='cascade', got {clicks}"
            )
        for place, value in found.items():
            self.rewards[place] = value
        return found

    def _one(self, value: float, decider: Decider) -> float:
        """Check the one reward of the whole list."""
        require_linear("rewards", decider.policy)
        decider.check_reward(value)
        if self.seen is not None:
            raise BadValue("rewards", "rewards must be a number for each position with seen, got one number")
        if not np.isnan(self.rewards).all():
            raise BadValue("rewards", "rewards of this list have come already, some by position")
        return value

    @property
    def complete(self) -> bool:
        """Whether no further reward can come."""
        clicked = self.seen == "cascade" and (self.rewards > 0.0).any()
        return bool(clicked or self.whole is not None or not np.isnan(self.rewards).any())

    def ready(self, closed: bool, missing: float | None = None) -> Iterator[tuple[int, Floats, float]]:
        """Positions that can be learned: the place, what is learned from (d,), and the reward.

        `missing` is what none by the deadline means; None where a position without a reward teaches nothing.
        """
        for place in np.flatnonzero(~self.learned).tolist():
            reward = float(self.rewards[place])
            if self.seen is None:
                if math.isnan(reward):
                    if missing is None:
                        continue
                    reward = missing
            elif not closed:
                if not reward > 0.0:
                    continue
            else:
                clicks = np.flatnonzero(self.rewards > 0.0)
                if clicks.size and place > clicks[-1]:
                    continue
                reward = reward if reward > 0.0 else 0.0
            rate = 1.0 if self.examination is None else float(self.examination[place])
            if rate > 0.0:
                yield place, self.features[place] * rate, reward

    def together(self) -> Floats:
        """What one reward for the whole list is learned from: the sum of its positions (d,)."""
        rates = np.ones(len(self.features)) if self.examination is None else self.examination
        return np.array([math.fsum(column) for column in (self.features * rates[:, None]).T])


def require_linear(name: str, policy: Policy) -> None:
    """Refuse what holds of sums of features only where means are linear in them."""
    if policy.capabilities.per_item or not policy.accepts(np.array([-1.5])).all():
        why = "has a model for each item" if policy.capabilities.per_item else "has a mean that is no line"
        raise BadValue(name, f"{name} needs rewards that are linear in the features: {policy.name} {why}")


class Lists:
    """The lists of an agent whose rewards have not all come, oldest first."""

    def __init__(self) -> None:
        self.waiting: dict[str, WaitingList] = {}

    def add(self, decision: ListDecision, policy: Policy, seen: Any, examination: Any, moment: Any) -> None:
        """Wait for the rewards of a list."""
        one = WaitingList(decision.features, moment=moment)
        one.understand(policy, seen, examination)
        self.waiting[decision.id] = one

    def take(
        self,
        decider: Decider,
        name: str,
        rewards: Any,
        seen: Any,
        examination: Any,
        record: Callable[[dict[int, float]], None],
    ) -> None:
        """Take rewards of a list, and `record` the new ones by position, or by `WHOLE` the one of all.

        Where one is no reward, or cannot be recorded, nothing changes.
        """
        one = self.waiting[name]
        before = replace(one, rewards=one.rewards.copy())
        try:
            one.understand(decider.policy, seen, examination)
            record(one.take(rewards, decider))
        except BaseException:
            self.waiting[name] = before
            raise

    def left(self, name: str, missing: float | None) -> dict[int, float]:
        """The rewards that closing a list adds: 0 for what nobody clicked, else `missing`."""
        one = self.waiting[name]
        assumed = missing if one.seen is None else 0.0
        if assumed is None or one.whole is not None:
            return {}
        return {place: assumed for place in np.flatnonzero(np.isnan(one.rewards)).tolist()}

    def settle(self, name: str, closed: bool, missing: float | None, absorb: Absorb) -> None:
        """Learn what is known of a list; nothing waits for it once it is `closed` or complete."""
        one = self.waiting[name]
        closed = closed or one.complete
        if one.whole is not None:
            absorb(as_bytes(one.together()), one.whole, one.moment)
        else:
            for place, features, reward in one.ready(closed, missing):
                absorb(as_bytes(features), reward, one.moment)
                one.learned[place] = True
        if closed:
            del self.waiting[name]

    def moments(self) -> dict[str, float]:
        """When each list was drawn, where that is known."""
        return {name: one.moment for name, one in self.waiting.items() if one.moment is not None}

    def to_dict(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """As JSON and arrays: what `from_dict` takes."""
        described = [
            {
                "id": name, "length": len(one.features), "seen": one.seen, "moment": one.moment,
                "examination": None if one.examination is None else one.examination.tolist(),
                "rewards": [None if math.isnan(r) else r for r in one.rewards.tolist()],
                "learned": one.learned.tolist(), "whole": one.whole,
            }
            for name, one in self.waiting.items()
        ]  # fmt: skip
        if not described:
            return [], {}
        return described, {"lists": np.concatenate([one.features for one in self.waiting.values()])}

    @classmethod
    def from_dict(cls, described: Sequence[Mapping[str, Any]], rows: Floats, policy: Policy) -> "Lists":
        """Those that `to_dict` described."""
        made, done = cls(), 0
        for about in described:
            size = validation.whole("length", about["length"])
            one = WaitingList(rows[done : done + size].copy(), moment=about["moment"])
            one.understand(policy, about["seen"], about["examination"])
            rewards = [math.nan if r is None else validation.reward("rewards", r) for r in about["rewards"]]
            one.rewards, one.learned = np.array(rewards), np.array(about["learned"], dtype=bool)
            one.whole = None if about["whole"] is None else validation.reward("rewards", about["whole"])
            if not len(one.features) == len(one.rewards) == len(one.learned) == size:
                raise ValueError(f"a list of {size} positions with {len(one.features)} arms")
            made.waiting[str(about["id"])] = one
            done += size
        if done != len(rows):
            raise ValueError(f"{len(rows)} arms for lists of {done}")
        return made


class DecidesLists:
    """What an agent does with lists: `decide_list`, `learn_list` and `close_list`."""

    if TYPE_CHECKING:  # what the agent has
        log: Any
        log_arms: bool
        max_pending: int | None
        dropped: int
        _lists: Lists
        _lock: Any
        _decider: Decider
        _decisions: int
        _deadlines: Deadlines | None
        _watch: Any
        _timed: bool
        _moment: Callable[[float | None], float]
        _expire: Callable[..., int]
        _offer: Callable[..., Offer]
        _catalogued: Callable[..., Any]
        _describe: Callable[[], None]
        _next_id: Callable[[], str]
        _unknown: Callable[[object], Exception]

    def decide_list(
        self,
        arms: ArrayLike | None = None,
        *,
        length: int,
        context: Any = None,
        items: Sequence[Any] | None = None,
        candidates: Any = None,
        explore: Explore = "every",
        slots: int = 1,
        floor: float = 0.01,
        seen: Seen | None = None,
        examination: ArrayLike | None = None,
        time: float | None = None,
    ) -> ListDecision:
        """Choose `length` different arms of one set, best position first, one position after the other.

        Each position is the policy's own decision among the arms that are left: see `linmed.lists`.
        `candidates` says which arms may stand where: a list of them for each position, or a function that is
        given the arms above a position (numbers of rows, or ids of items) and returns those that may stand
        there; None stands for all. With `explore="last"` only the last `slots` positions explore; those above
        them show what looks best, and any other arm with the share `floor`.

        `seen` and `examination` say how rewards come about, if that is known by now: see `learn_list`.

        >>> from linmed import Agent, LinMED
        >>> agent = Agent(LinMED(), dim=2, seed=7)
        >>> shown = agent.decide_list([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], length=2)
        >>> agent.learn_list(shown, [1.0, 0.0])
        >>> shown.arms, agent.count
        (array([0, 1]), 2)
        """
        options = ListOptions(length, candidates, explore, slots, floor)
        moment = self._moment(time) if self._timed or time is not None else None
        if self._deadlines is not None and moment is not None:
            self._expire(self._deadlines, moment)
        with self._lock:
            decider, offer = self._decider, None
            if isinstance(decider, ControlledDecider):
                text = "control and shadow: lists are drawn by the policy alone, without a group beside it"
                raise BadValue("control", text)
            if arms is None or context is not None or items is not None:
                if decider.sampler is not None and items is None:
                    text = "items must name those to choose from: lists are not drawn by route"
                    raise BadValue("items", text)
                offer = self._offer(arms, context, items)
                if offer.worth is not None:
                    text = "catalogue: lists know no values and costs, and its items have some"
                    raise BadValue("catalogue", text)
                arms = offer.arms
            used = decider.noise.used
            decision, matrix = draw_list(decider, arms, offer, options, self._next_id())
            try:
                self._lists.add(decision, self._decider.policy, seen, examination, moment)
                if self.log is not None:
                    self._record_list(decision, matrix, options, moment)
            except BaseException:
                self._lists.waiting.pop(decision.id, None)
                decider.noise.used = used
                raise
            self._decisions += 1
            if self._deadlines is not None and moment is not None:
                self._deadlines.add(decision.id, moment)
            if self.max_pending is not None and len(self._lists.waiting) > self.max_pending:
                del self._lists.waiting[next(iter(self._lists.waiting))]
                self.dropped += 1
            if offer is not None and offer.seen and self._catalogued("items", None).see(offer.seen):
                self._describe()
            return decision

    def learn_list(
        self,
        decision: ListDecision | str,
        rewards: float | ArrayLike,
        seen: Seen | None = None,
        *,
        examination: ArrayLike | None = None,
        time: float | None = None,
    ) -> None:
        """Absorb rewards of a list: one for each position, NaN for those that have not come, or one for all.

        They may come late, in several calls, and in any order. Without `seen` each is learned by itself as it
        comes. `seen="dcm"` (dependent clicks): positions below the last click were not looked at, so what was
        not clicked teaches something only once the list is complete or closed; without a click all were
        looked at. `seen="cascade"`: the same with one click at most, which completes the list. `examination`:
        how likely each position is looked at, for rewards that are linear in the features: a position is
        learned as its arm times that.

        One number is the sum of all positions' rewards, and is learned from the sum of their arms.

        >>> from linmed import Agent, LinMED
        >>> agent = Agent(LinMED(), dim=1, seed=7)
        >>> shown = agent.decide_list([[1.0], [0.5], [0.2]], length=3, seen="dcm")
        >>> agent.learn_list(shown, [float("nan"), 1.0, float("nan")])
        >>> before = agent.count
        >>> agent.close_list(shown)  # nobody can click any more: the position above the click was looked at
        >>> before, agent.count
        (1, 2)
        """
        name = decision.id if isinstance(decision, ListDecision) else decision
        wait, moment = self._deadlines, None
        if wait is not None or time is not None:
            moment = self._moment(time)
        with self._lock:
            if wait is not None and moment is not None:
                self._expire(wait, moment, before=True)
            if not isinstance(name, str) or name not in self._lists.waiting:
                raise self._unknown(name)
            hold = wait is not None and wait.rule.early == "hold"

            def record(found: dict[int, float]) -> None:
                self._record_rewards(name, found, moment)

            self._lists.take(self._decider, name, rewards, seen, examination, record)
            if not hold:
                self._lists.settle(name, False, None, self._absorb_row)

    def close_list(self, decision: ListDecision | str, *, time: float | None = None) -> None:
        """Accept no further rewards of a list, and learn what follows from that.

        With `seen` positions without a click that were looked at are learned as 0; without it, positions
        whose reward has not come teach nothing.
        """
        name = decision.id if isinstance(decision, ListDecision) else decision
        with self._lock:
            if not isinstance(name, str) or name not in self._lists.waiting:
                raise self._unknown(name)
            self._close_list(name, None, None if time is None else self._moment(time))

    def _close_list(self, name: str, missing: float | None, moment: float | None) -> None:
        """Learn what a list teaches when no further rewards can come."""
        self._record_rewards(name, self._lists.left(name, missing), moment)
        self._lists.settle(name, True, missing, self._absorb_row)

    def _record_rewards(self, name: str, rewards: dict[int, float], moment: float | None) -> None:
        """Log rewards of a list; a log that was opened later has no row for them."""
        if self.log is not None:
            with contextlib.suppress(KeyError):
                self.log.reward_list(name, rewards, time=moment)

    def _absorb_row(self, kept: bytes, reward: float, moment: float | None) -> None:
        """Learn the reward of one position of a list."""
        watch = self._watch
        rows = None if watch is None else watch.repeats.rows
        self._decider.learn(kept, reward, moment if self._timed else None, rows=rows)
        if watch is not None and watch.hears_one(self._decider.dim):
            watch.warn(self._decider.state)

    def _record_list(
        self, decision: ListDecision, arms: Floats, options: ListOptions, moment: float | None
    ) -> None:
        """Log a list."""
        if not hasattr(self.log, "record_list"):
            raise BadType("log", f"log must have record_list to take lists, got {self.log!r}")
        self.log.record_list(
            decision.id,
            arms=decision.arms,
            arm_count=decision.arm_count,
            log_probabilities=decision.log_probabilities,
            features=decision.features,
            offered=arms if self.log_arms else None,
            arm_ids=decision.items,
            candidates=decision.candidates,
            policy=self._decider.policy.name,
            version=int(self._decider.state.count[0]),
            time=moment,
        )
