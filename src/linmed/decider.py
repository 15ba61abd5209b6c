"""One decision maker: a policy, its state, its random numbers, and how it sees a catalogue.

An agent, a server and a replay decide and learn by it. It knows nothing of locks, ids, logs and files.
"""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from linmed import validation
from linmed.catalogue_sampler import ActionDistribution, CatalogueSampler
from linmed.core import core
from linmed.decision import Decision
from linmed.item_encoder import ItemEncoder, Offer
from linmed.policies import Policy
from linmed.policies.budget import Consuming, budget_of
from linmed.policies.worth import Worth
from linmed.validation import Floats

NEVER = -math.inf
"""log 0."""
BLOCK = 256
"""Decisions whose random numbers are drawn at once: a call of the generator costs more than what it draws."""


class NoiseBuffer:
    """The random numbers of the next decisions: `rows` (n, 1, size), from row `used` on.

    Numbers depend on the stream and on how many decisions there were, not on how many were asked for at
    once. `uniforms` is how many a decision takes instead of what the policy would draw, `extra` how many more
    uniforms stand behind these.
    """

    def __init__(
        self, bits: np.random.PCG64, policy: Policy, dim: int, uniforms: int | None = None, extra: int = 0
    ) -> None:
        self._bits, self._policy, self._dim, self._uniforms, self._extra = bits, policy, dim, uniforms, extra
        self._starts: list[Any] = []  # the stream before each block of `rows`
        self._hold(np.empty((0, 1, (policy.noise_size(dim) if uniforms is None else uniforms) + extra)))
        self.used = 0

    def _hold(self, rows: Floats) -> None:
        self.rows, self.end, self.in_core = rows, len(rows), core.Noise(rows)

    def __getstate__(self) -> dict[str, Any]:
        """Copies, without what is bound to the memory of `rows`."""
        return {**self.__dict__, "in_core": None}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__dict__.update(kept)
        self._hold(self.rows)

    def draw(self, count: int) -> None:
        """Have the numbers of `count` more decisions in `rows`."""
        missing = count - (self.end - self.used)
        if missing > 0:
            stream, done = np.random.Generator(self._bits), self.used // BLOCK
            blocks = [self.rows[done * BLOCK :]]
            self._starts = self._starts[done:]
            for _ in range(0, missing, BLOCK):
                self._starts.append(self._bits.state)
                if self._uniforms is None:
                    block = self._policy.draw_noise(stream, (BLOCK, 1), self._dim)
                else:
                    block = stream.random((BLOCK, 1, self._uniforms))
                more = [stream.random((BLOCK, 1, self._extra))] if self._extra else []
                blocks.append(np.concatenate([block, *more], axis=-1) if more else block)
            self._hold(validation.for_kernels(np.concatenate(blocks)))
            self.used -= done * BLOCK

    def to_dict(self) -> dict[str, Any]:
        """Give the stream before the present block, and how far that block was used."""
        block, used = divmod(self.used, BLOCK)
        return {"stream": [*self._starts, self._bits.state][block], "used": used}

    def restore(self, stream: Any, used: Any) -> None:
        """Go on where `to_dict` was asked."""
        if validation.whole("used", used, at_least=0) > BLOCK:
            raise ValueError(f"{used} random numbers used of a block of {BLOCK}")
        self._bits.state = stream
        self._starts, self.used = [], 0
        self._hold(self.rows[:0])
        self.draw(used)
        self.used = used


class Decider:
    """Decide and learn with a policy, on a state of one replica.

    The core's agent works on the arrays of the state, where the policy has one. Only one thread may call at a
    time. `noise` counts a decision as soon as it is drawn: who throws one away sets `noise.used` back.
    """

    def __init__(
        self,
        policy: Policy,
        dim: int,
        bits: np.random.PCG64,
        *,
        state: Any = None,
        encoder: ItemEncoder | None = None,
        sampler: CatalogueSampler | None = None,
        uniforms: int | None = None,
    ) -> None:
        """`uniforms`: how many random numbers a decision takes, instead of what the policy would draw."""
        self.policy, self.dim = policy, dim
        self.state = policy.start(1, dim) if state is None else state
        self.encoder, self.sampler = encoder, sampler
        self._uniforms = uniforms
        self.draw_from(bits)
        self._bind()

    def draw_from(self, bits: np.random.PCG64) -> None:
        """Take random numbers from here from now on."""
        self.noise = NoiseBuffer(bits, self.policy, self.dim, self._uniforms)

    def _bind(self) -> None:
        live = self.policy.live(self.state) if self.policy.learns_from_arms else None
        self._decides = live if self.policy.law_in_core else None
        self._learns = live if self.policy.learns_in_core else None
        self._items: tuple[Sequence[Any], Policy, Any] | None = None
        self.takes_worth = self.policy.takes_worth and self.sampler is None
        """Whether arms may have values and costs."""
        self.budget = budget_of(self.policy)
        """The budget that decisions are taken from; arms must then have costs."""
        self.check_reward: Callable[[Floats | float], None] = self.policy.check_rewards
        """Raises what names `reward` where nothing can be learned from one."""

    def decide(self, arms: ArrayLike, offer: Offer | None = None, worth: Worth | None = None) -> Decision:
        """Choose one of arms (K,d), made by `offer` or given, with these values and costs."""
        noise, policy, live = self.noise, self.policy, self._decides
        self._require_costs(worth)
        if noise.used == noise.end:
            noise.draw(1)
        used = noise.used
        if policy.by_item and offer is not None:
            policy, live = self._among(offer.ids)
        if live is None:
            matrix = validate(arms, self.dim)
            shown = matrix if worth is None else worth.beside(matrix)
            decision = next(self._choose(policy, shown[None], noise.rows[used : used + 1]))
            chance = decision._log_probability
        else:
            if type(arms) is not np.ndarray:
                arms = as_matrix(arms, self.dim)
            told = () if worth is None else worth
            try:
                drawn = live.draw(arms, noise.in_core, used, *told)
            except (TypeError, ValueError):  # not in the form that the core takes, or no arms at all
                arms = as_matrix(arms, self.dim)
                if worth is not None:
                    told = worth.checked(len(arms))
                drawn = live.draw(arms, noise.in_core, used, *told)
            if drawn is None:
                if worth is not None:
                    worth.checked(len(arms))
                raise validation.bad_entry("arms", arms)
            arm, chance, every, vector = drawn
            decision = Decision(arm, chance, every, vector, vector, len(arms))
        if worth is not None:
            decision._worth = worth
        if not chance > NEVER:
            self._require_probability()
        noise.used = used + 1
        if offer is not None:
            decision._item = offer.ids[decision._arm]
        return decision

    def decide_each(
        self, sets: Any, offers: Sequence[Offer] | None = None, worth: Sequence[Worth] | None = None
    ) -> list[tuple[Decision, Floats]]:
        """Choose one arm of each of n sets, as n calls would, in one call of the core for each K.

        Also the arms (K,d) of each.
        """
        if self.budget is not None or (self.policy.by_item and offers is not None):
            return self._one_by_one(sets, offers, worth)
        alike = group_by_size(sets, self.dim)
        noise = self._ahead(sum(len(stack) for _, stack in alike))
        found: list[Any] = [None] * len(noise)
        for places, stack in alike:
            shown = stack
            if worth is not None:
                shown = np.array([worth[i].beside(arms) for i, arms in zip(places, stack, strict=True)])
            drawn = self._choose(self.policy, shown, noise[places])
            for place, arms, decision in zip(places, stack, drawn, strict=True):
                if worth is not None:
                    decision._worth = worth[place].checked(len(arms))
                if not decision._log_probability > NEVER:
                    self._require_probability()
                if offers is not None:
                    decision._item = offers[place].ids[decision._arm]
                found[place] = decision, arms
        self.noise.used += len(noise)
        return found

    def _one_by_one(
        self, sets: Any, offers: Sequence[Offer] | None, worth: Sequence[Worth] | None
    ) -> list[tuple[Decision, Floats]]:
        """Choose as `decide_each` does, by a call for each set; where one is refused, nothing is decided."""
        alike = group_by_size(sets, self.dim)
        found = dict(pair for places, stack in alike for pair in zip(places, stack, strict=True))
        matrices = [found[i] for i in range(len(found))]
        self._ahead(len(matrices))
        before = self.noise.used
        try:
            return [
                (self.decide(matrix, offers[i] if offers else None, worth[i] if worth else None), matrix)
                for i, matrix in enumerate(matrices)
            ]
        except BaseException:
            self.noise.used = before
            raise

    def decide_items(self, contexts: Sequence[Floats]) -> list[Decision]:
        """Choose one item of the catalogue in each encoded context (dx,), by the sampler."""
        assert self.sampler is not None
        noise = self._ahead(len(contexts))
        found = self.sampler.decide_each(self.state, noise[:, 0], contexts)
        self.noise.used += len(noise)
        return found

    def law(self, context: Any) -> ActionDistribution:
        """Compute how probable every item of the catalogue is in a context, by the sampler."""
        assert self.sampler is not None
        assert self.encoder is not None
        return self.sampler.law(self.state, self.encoder.encoded(context)[0][:-1])

    def log_probabilities(
        self, arms: Floats, offer: Offer | None = None, worth: Worth | None = None
    ) -> Floats:
        """Compute log-probabilities of arms (K,d), made by `offer` or given; nothing changes."""
        policy, live = self.policy, self._decides
        self._require_costs(worth)
        if policy.by_item and offer is not None:
            policy, live = self._among(offer.ids)
        if live is None or policy.remembers:
            shown = arms if worth is None else worth.beside(arms)
            every: Floats = policy.log_probabilities(self.state, shown[None])[0]
            return every
        every, told = np.empty(len(arms)), () if worth is None else worth.checked(len(arms))
        noise = np.zeros((1, 1, self.policy.noise_size(self.dim)))
        if live.decide(arms, noise, 0, every, *told) < 0:
            raise validation.bad_entry("arms", arms)
        return every

    def _require_costs(self, worth: Worth | None) -> None:
        if self.budget is None or isinstance(worth, Consuming):
            return
        if worth is None or worth.costs is None:
            text = f"costs must be given: {self.policy.name} decides by what every arm consumes"
            raise validation.BadValue("costs", text)

    def learn(
        self,
        kept: bytes,
        reward: float,
        time: float | None = None,
        waiting: dict[str, bytes] | None = None,
        name: str = "",
        rows: dict[bytes, list[float]] | None = None,
    ) -> None:
        """Absorb the reward of one decision, taken at `time`; `kept` (d,) is what the decision says of it.

        `name` is then taken from those that wait, and the reward noted among those of its row (`Repeats`).
        Where the core learns, all is one step, which Ctrl-C cannot part.
        """
        if self._learns is not None:
            self._learns.learn(kept, reward, time, waiting, name, rows)
            return
        one = np.frombuffer(kept)[None], np.array([reward]), np.zeros(1, dtype=np.int64)
        if time is None:
            self.policy.learn(self.state, *one)
        else:
            self.policy.learn_at(self.state, *one, np.array([time]))
        if waiting is not None:
            del waiting[name]
        if rows is not None:
            core.note(rows, kept, reward)

    def observe(self, features: Floats, rewards: Floats, times: Floats | None = None) -> None:
        """Absorb rewards from elsewhere.  features (m,d), rewards and, where known, times (m,)."""
        seen = self.state, features, rewards, np.zeros(len(features), dtype=np.int64)
        if times is None:
            self.policy.observe(*seen)
        else:
            self.policy.learn_at(*seen, times)

    def correct(self, kept: bytes, before: float, after: float) -> bool:
        """Take the reward `after` for `before`, learned from `kept` (d,); False where the policy cannot."""
        return self.policy.correct(self.state, np.frombuffer(kept), before, after)

    def __getstate__(self) -> dict[str, Any]:
        """Copies, without what is bound to the state's memory."""
        own = {"state": self.state.copy(), "noise": copy.deepcopy(self.noise)}
        return {
            **self.__dict__,
            **own,
            "_decides": None,
            "_learns": None,
            "_items": None,
            "check_reward": None,
        }

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__dict__.update(kept)
        self._bind()

    def _ahead(self, count: int) -> Floats:
        """Take the random numbers of the next `count` decisions (count,1,size)."""
        self.noise.draw(count)
        return self.noise.rows[self.noise.used :][:count]

    def _among(self, ids: Sequence[Any]) -> tuple[Policy, Any]:
        """Find the policy that decides among these items, and the core's agent; keep the last ones."""
        if self._items is None or self._items[0] is not ids:
            policy = self.policy.among(ids)
            self._items = ids, policy, policy.live(self.state) if policy.law_in_core else None
        return self._items[1:]

    def _choose(self, policy: Policy, sets: Floats, noise: Floats) -> Iterator[Decision]:
        """Choose one arm of each of n sets (n,K,d), in one call.  noise (n,1,size)."""
        choice = policy.decide(self.state, sets, noise[:, 0])
        laws = repeat(None) if choice.log_probabilities is None else map(as_bytes, choice.log_probabilities)
        errors = repeat(0.0) if choice.error is None else choice.error.tolist()
        vectors = [*map(as_bytes, sets[np.arange(len(sets)), choice.arm, : self.dim])]
        kept = vectors if self.policy.learns_from_arms else map(as_bytes, choice.features)
        found = choice.arm.tolist(), choice.log_probability.tolist()
        return map(Decision, *found, laws, vectors, kept, repeat(sets.shape[1]), errors)

    def _require_probability(self) -> None:
        if self.policy.capabilities.probability:
            text = "arms: the policy finds no probability for them; are they of very different size?"
            raise validation.BadValue("arms", text)


def as_bytes(array: Floats) -> bytes:
    """Pack an array as a decision keeps it."""
    return array.tobytes()


def as_matrix(arms: ArrayLike, dim: int) -> Floats:
    """`arms` as the core takes them (K,d); if they were so already, nobody has looked at their entries."""
    if type(arms) is np.ndarray and arms.dtype is validation.FLOAT64 and arms.flags.carray and arms.ndim == 2:
        count, width = arms.shape
        if count > 0 and width == dim:
            return arms
    if isinstance(arms, Mapping):
        raise validation.BadType(
            "arms", "arms must be vectors (K, d); a context is told by name: context={…}"
        )
    return validation.arm_matrix(arms, dim)


def validate(arms: ArrayLike, dim: int) -> Floats:
    """`arms` as the core takes them (K,d), every entry looked at."""
    matrix = as_matrix(arms, dim)
    if not core.all_within(matrix, validation.LARGEST):
        raise validation.bad_entry("arms", matrix)
    return matrix


def group_by_size(sets: Any, dim: int) -> list[tuple[list[int], Floats]]:
    """Sets, checked, by number of arms: the places of those with K, and all of them as (m,K,d)."""
    if isinstance(sets, np.ndarray) and sets.dtype != object and sets.ndim != 3:
        raise validation.BadValue("sets", f"sets must have shape (n, K, {dim}), got {sets.shape}")
    if not hasattr(sets, "__iter__"):
        raise validation.BadType("sets", f"sets must be matrices of arms, got {sets!r}")
    found: list[tuple[list[int], Floats]]
    if type(sets) is np.ndarray and sets.dtype.kind == "f" and sets.size and sets.shape[2] == dim:
        found = [(list(range(len(sets))), validation.for_kernels(sets))]
    else:
        alike: dict[int, dict[int, Floats]] = {}
        for i, arms in enumerate(sets):
            try:
                matrix = as_matrix(arms, dim)
            except (ValueError, TypeError) as error:
                raise validation.BadValue("sets", f"in sets[{i}]: {error}") from None
            alike.setdefault(len(matrix), {})[i] = matrix
        found = [(list(some), np.array(list(some.values()))) for some in alike.values()]
    for places, stack in found:
        if not core.all_within(stack.reshape(-1, dim), validation.LARGEST):
            i, matrix = next(
                p for p in zip(places, stack, strict=True) if not core.all_within(p[1], validation.LARGEST)
            )
            raise validation.BadValue("sets", f"in sets[{i}]: {validation.bad_entry('arms', matrix)}")
    return found
