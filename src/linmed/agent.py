"""`Agent`: one live decision maker, with a lock, pending decisions, a log and a file."""

import contextlib
import copy
import os
import secrets
import threading
import time as clock
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from linmed import streams, validation
from linmed.agent_file import FORMAT, REMEMBERED, from_arrays, to_arrays
from linmed.catalogue_sampler import CatalogueSampler
from linmed.control_group import ControlledDecider, GroupRecord, control_group, make_decider, shadows
from linmed.deadlines import Deadlines, Early, Late, Waiting
from linmed.decider import as_matrix, group_by_size, validate
from linmed.decision import Decision, probabilities_of
from linmed.features import Catalogue, Column, Features, Index
from linmed.files import read_arrays, write_arrays
from linmed.insight.assumptions import Repeats
from linmed.insight.best_arm import DELTA, Verdict, look, looker, watch
from linmed.insight.drift import Drift, drift_of
from linmed.insight.explain import TOP, Explanation, explain
from linmed.item_encoder import ItemEncoder, Offer, item_encoder
from linmed.lists import DecidesLists, Lists
from linmed.policies import Policy, Prediction, as_policy
from linmed.policies.budget import Account, Consuming, consumed_of
from linmed.policies.linmed import NOTHING_TOLD
from linmed.policies.worth import Worth
from linmed.validation import Floats

if TYPE_CHECKING:
    from linmed.log import LogWriter, Recorder

__all__ = ["Agent", "UnknownDecision"]


_NO_BUDGET = "{0} goes with a budget, Budget(policy, per_decision=…): {1} has none"

_forks = 0  # how often this process, or one that it comes from, was forked off: cheaper to ask than its id


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_count_fork)


class UnknownDecision(ValueError, KeyError):
    """A reward for a decision that this agent is not waiting for.

    >>> from linmed import Agent, LinMED
    >>> Agent(LinMED(), dim=2).learn("nobody's", reward=1.0)
    Traceback (most recent call last):
        ...
    linmed.agent.UnknownDecision: decision "nobody's" is unknown to this agent
    """

    __str__ = Exception.__str__  # a KeyError would quote its message


class Agent(DecidesLists):
    """One decision maker: `decide`, and `learn` whenever the reward comes.

    >>> from linmed import LinMED
    >>> agent = Agent(LinMED(sigma=0.5), dim=2, seed=7)
    >>> decision = agent.decide([[1.0, 0.0], [0.6, 0.8]])
    >>> agent.learn(decision, reward=1.0)
    >>> agent.count
    1

    With a `catalogue` of items a map makes the features: `features`, or the catalogue's own, with the columns
    of `context` if there are any; `dim` follows from it. `CatalogueMED` then decides among any number of
    items, by an `index` over them: see `linmed.catalogue_sampler`.

    >>> from linmed.features import Catalogue, Category
    >>> shoes = Catalogue.from_table([{"item_id": "s-17", "price": 40.0}, {"item_id": "s-18", "price": 90.0}])
    >>> agent = Agent(LinMED(), catalogue=shoes, context=[Category("device", ["phone", "desk"])], seed=7)
    >>> agent.decide(context={"device": "phone"}).item
    's-17'

    `log` is a directory in which every decision and reward is recorded for off-policy evaluation (or any
    object with the methods of `linmed.log.Recorder`); with `log_arms=False` it holds only the arms that were
    played. `max_pending` bounds how many decisions wait for a reward: the oldest are forgotten,
    and counted in `dropped`. Threads may share an agent: its methods take turns.

    `control` is the share of decisions that a control group's law draws: `control_policy` is "uniform", the
    id of the item (without a catalogue the number of the arm) that it plays, a policy, which learns from all
    rewards, or an agent or the path of a saved one, which stays as it is. `shadow` names policies that learn
    the same rewards and decide nothing. See `Decision.control` and docs/control-groups.md.

    `wait`: after so many seconds ("1d", a timedelta) a decision without a reward is learned with `missing`; a
    reward that came is held until then, or learned at once (`early`: "hold", "learn"), and one that comes
    later takes the place of `missing`, or is ignored (`late`: "correct", "ignore"). See `expire` and
    docs/delays.md.

    `policy` is the rule; without one it is `LinMED(sigma="unknown", ridge="learned", intercept=True,
    ties="even")`, which needs no unit of rewards or features and no constant column. `dim` is d, the features
    of an arm. The same `seed` gives the same decisions, and so the same draws to every agent with it; None
    draws a new one.

    If the rewards refute a parameter of the policy (`sigma`, `norm_bound`), or are not linear in the
    features, `learn` and `observe` warn once, with a `VerdictWarning`.

    >>> agent.policy.name, agent.dim, agent.count, agent.items
    ('LinMED-90', 6, 0, ('s-17', 's-18'))
    >>> agent.catalogue is shoes, agent.features.names[-2:]
    (True, ('device=desk', '1'))
    """

    _own_log: "LogWriter | None"

    def __init__(
        self,
        policy: Policy | None = None,
        dim: int | None = None,
        seed: int | None = None,
        *,
        catalogue: Catalogue | None = None,
        features: Features | None = None,
        context: Sequence[Column] | None = None,
        index: Index | None = None,
        max_pending: int | None = None,
        log: "str | os.PathLike[str] | Recorder | None" = None,
        log_arms: bool = True,
        control: float = 0.0,
        control_policy: Any = "uniform",
        shadow: Mapping[str, Policy] | None = None,
        wait: "float | str | timedelta | None" = None,
        missing: float = 0.0,
        early: Early = Waiting.early,
        late: Late = Waiting.late,
    ) -> None:
        if policy is None:
            policy = NOTHING_TOLD
        as_policy(policy)
        encoder = item_encoder(catalogue, features, context, policy)
        if encoder is None:
            if dim is None:
                raise validation.BadType(
                    "dim", "dim must be given: how many features an arm has; or a catalogue"
                )
            self._dim = validation.whole("dim", dim)
        else:
            self._dim = encoder.dim
            if dim not in (None, self._dim):
                raise validation.BadValue(
                    "dim", f"dim must be that of the map, {self._dim}, or None, got {dim!r}"
                )
        policy.require_items(None if encoder is None else encoder.current()[1])
        self.max_pending = None if max_pending is None else validation.whole("max_pending", max_pending)
        if seed is not None:
            seed = validation.whole("seed", seed, at_least=0)
        self.dropped = 0
        self.log_arms = validation.flag("log_arms", log_arms)
        self._lock = threading.RLock()
        waiting = Waiting.of(wait, missing, early, late)
        self._deadlines = None if waiting is None else Deadlines(waiting)
        groups = _groups(control, control_policy, shadow, self._dim, encoder)
        self._decider = make_decider(
            policy, self._dim, streams.bits(seed, "agent"), encoder, index, groups=groups
        )
        if encoder is not None and encoder.catalogue.snapshot().worth is not None:
            self._worth(None, None)
        if waiting is not None:
            try:
                self._decider.check_reward(waiting.missing)
            except validation.BadValue as error:
                raise validation.BadValue("missing", f"missing: {error}") from None
        self._decisions = 0
        self._earlier: list[tuple[str, int]] = []
        self._name_run()
        self._pending: dict[str, bytes] = {}  # what learn() needs, by decision, oldest first
        self._consumed: dict[str, float] = {}  # what each was counted with in the budget, if there is one
        self._timed = self._is_timed()
        self._moments: dict[str, float] = {}  # when each was taken, where somebody wants to know
        self._lists = Lists()
        self._watch = watch(policy)
        self._open(log)

    def decide(
        self,
        arms: ArrayLike | None = None,
        *,
        context: Any = None,
        items: Sequence[Any] | None = None,
        time: float | None = None,
        values: ArrayLike | None = None,
        costs: ArrayLike | None = None,
        consumption: ArrayLike | None = None,
    ) -> Decision:
        """Choose one of `arms` (K, d), a set that may change in size and content from call to call.

        With a catalogue: one of its items, or of those with the ids `items`, in a `context` (a dictionary, or
        a row of any table).

        `time`, in seconds since 1970, is by default now. It is logged, and a policy that forgets by the clock
        needs it.

        `values` are what a unit of reward of each arm is worth and `costs` what each arm costs, (K,) or one
        number: the agent then maximises value · reward − cost, and still learns the reward. By default they
        are 1 and 0, or those of the catalogue's items, if it has some. Of a `Budget` arms consume costs, or
        `consumption` where it is given. See docs/costs.md.

        >>> from linmed import Agent, LinMED
        >>> agent = Agent(LinMED(), dim=2, seed=7)
        >>> decision = agent.decide([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
        >>> decision.arm, round(decision.probability, 6)
        (0, 0.933333)
        """
        moment = None
        if self._timed or time is not None:
            moment = self._moment(time)
            if self._deadlines is not None:
                self._expire(self._deadlines, moment)
        worth = None if values is None and costs is None else self._worth(values, costs)
        with self._lock:
            if arms is not None and context is None and items is None:
                if consumption is not None:
                    worth = self._consuming(worth, consumption)
                if self.log is None:
                    return self._settle(self._decider.decide(arms, None, worth), None, None, moment)
                return self._decide(arms, None, moment, worth)
            if self._decider.sampler is not None and arms is None and items is None:
                return self._decide_items([context], moment)[0]
            offer = self._offer(arms, context, items)
            worth = offer.joined(worth)
            if consumption is not None:
                worth = self._consuming(worth, consumption)
            return self._decide(offer.arms, offer, moment, worth)

    def decide_batch(
        self,
        sets: Any = None,
        *,
        contexts: Any = None,
        time: float | None = None,
        values: Any = None,
        costs: Any = None,
    ) -> list[Decision]:
        """Decide for each of n sets: an array (n, K, d), or n matrices whose K may differ.

        With a catalogue: one for each of n `contexts`, a table or a list of rows. `time` is that of all;
        `values` and `costs` are those of each set: n numbers, or n rows (K,).

        The decisions are those of n calls of `decide`, made in one call of the core for each K. If the log
        refuses one of them, those before it stand, and wait in `pending`.
        """
        with self._lock:
            moment = self._moment(time) if self._timed or time is not None else None
            if self._deadlines is not None and moment is not None:
                self._expire(self._deadlines, moment)
            offers: list[Offer] | None = None
            if contexts is not None:
                encoder = self._catalogued("contexts", sets)
                rows = encoder.rows(contexts)
                worths = self._worths(values, costs, len(rows))
                if self._decider.sampler is not None:
                    return self._decide_items(rows, moment)
                if encoder.waits or self._decides_in_turn:  # each may change what comes of the next
                    count = len(self.items)
                    told = [one.checked(count)._asdict() for one in worths] if worths else [{}] * len(rows)
                    return [
                        self.decide(context=row, time=moment, **more)
                        for row, more in zip(rows, told, strict=True)
                    ]
                offers = [encoder.offer(row) for row in rows]
                sets = [offer.arms for offer in offers]
                if offers and offers[0].worth is not None:
                    told_each = worths or [None] * len(offers)
                    worths = [offer.joined(one) for offer, one in zip(offers, told_each, strict=True)]
            else:
                if not hasattr(sets, "__len__") and hasattr(sets, "__iter__"):
                    sets = list(sets)
                worths = self._worths(values, costs, len(sets)) if hasattr(sets, "__len__") else None
            if self._decides_in_turn:
                alike = group_by_size(sets, self._dim)
                each = dict(pair for some, stack in alike for pair in zip(some, stack, strict=True))
                more = worths or [{}] * len(each)
                told = [one.checked(len(each[i]))._asdict() if one else {} for i, one in enumerate(more)]
                return [self.decide(each[i], time=moment, **told[i]) for i in range(len(each))]
            return self._settle_each(self._decider.decide_each(sets, offers, worths), offers, moment)

    def learn(
        self,
        decision: Decision | str | Iterable[Decision | str],
        reward: float | Iterable[float],
        *,
        outcomes: Mapping[str, float] | None = None,
        time: float | None = None,
        consumed: float | None = None,
    ) -> None:
        """Learn the reward of one decision (or its id), now or much later, in any order.

        A list of decisions with a list of rewards is learned in its order: all of them, or none if one is
        unknown, occurs twice or has a reward that the policy does not take.

        `outcomes` are further numbers that came back, by name (a list of them for several decisions): they
        are logged, not learned. `time`, in seconds since 1970, is when the reward came, by default now; it
        is logged, and compared with the deadline if there is one (`wait`). `consumed` is what the decision
        took of a `Budget` in truth.

        >>> from linmed import Agent, LinMED
        >>> agent, arms = Agent(LinMED(), dim=2, seed=7), [[1.0, 0.0], [0.0, 1.0]]
        >>> first, second, *others = [agent.decide(arms) for _ in range(5)]
        >>> agent.learn(second, reward=1.0)
        >>> agent.learn(first.id, reward=0.0)
        >>> agent.learn(others, [0.5, 0.0, 1.0])
        >>> agent.count
        5
        """
        if consumed is not None:
            with self._lock:
                more = self._unexpected(decision, consumed)
                self.learn(decision, reward, outcomes=outcomes, time=time)
                assert self._decider.budget is not None
                self._decider.budget.correct_spending(self.state, more)
            return
        if isinstance(decision, Decision):
            identifier = decision._id
        elif not isinstance(decision, str) and isinstance(decision, Iterable):
            self._learn_each(list(decision), reward, outcomes, time)
            return
        else:
            identifier = decision
        value = validation.reward("reward", reward)
        self._decider.check_reward(value)
        if outcomes is not None or time is not None or self._deadlines is not None:
            self._learn_with(identifier, value, outcomes, time)
            return
        with self._lock:
            if not isinstance(identifier, str) or identifier not in self._pending:
                raise UnknownDecision(self._explain_missing(identifier))
            if self.log is not None:
                # A log opened after the decision was made has no row for the reward to join.
                with contextlib.suppress(KeyError):
                    self.log.reward(identifier, value)
            self._absorb(identifier, value)

    def _learn_with(
        self, identifier: Any, reward: float, outcomes: Mapping[str, float] | None, time: float | None
    ) -> None:
        """Learn a reward that comes with outcomes, a time or a deadline."""
        extra: dict[str, Any] = {}
        moment = None if time is None and self._deadlines is None else self._moment(time)
        if outcomes is not None:
            self._require_log()
            extra["outcomes"] = validation.named_numbers("outcomes", outcomes)
        if moment is not None:
            extra["time"] = moment
        with self._lock:
            wait, late = self._deadlines, False
            if wait is not None and moment is not None:
                self._expire(wait, moment, before=True)
                late = identifier in wait.expired
                if identifier in wait.held:
                    raise UnknownDecision(f"decision {identifier!r} has had its reward already")
            if not late and (not isinstance(identifier, str) or identifier not in self._pending):
                raise UnknownDecision(self._explain_missing(identifier))
            if wait is not None and late:
                self._learn_late(wait, identifier, reward, extra)
                return
            if self.log is not None:
                with contextlib.suppress(KeyError):
                    self.log.reward(identifier, reward, **extra)
            if wait is not None and wait.rule.early == "hold":
                wait.held[identifier] = reward
            else:
                self._absorb(identifier, reward)

    def _require_log(self) -> None:
        """Refuse outcomes that no log would have."""
        if self.log is None:
            text = "outcomes go to the log, and this agent has none: Agent(…, log=…)"
            raise validation.BadValue("outcomes", text)

    def _absorb(self, identifier: str, reward: float) -> None:
        """Learn the reward of a decision, which waits no longer."""
        pending, watch = self._pending, self._watch
        rows = None if watch is None else watch.repeats.rows
        moment = self._moments.get(identifier) if self._timed else None
        if self._consumed:
            self._consumed.pop(identifier, None)
        self._decider.learn(pending[identifier], reward, moment, pending, identifier, rows)
        if self._timed:
            self._moments.pop(identifier, None)
        if watch is not None and watch.hears_one(self._dim):
            watch.warn(self.state)

    def _learn_late(self, wait: Deadlines, identifier: str, reward: float, extra: dict[str, Any]) -> None:
        """Take a reward that came after its deadline for the one that was assumed, or ignore it."""
        kept, missing = wait.expired[identifier][0], wait.rule.missing
        corrects = wait.rule.late == "correct"
        if self.log is not None and corrects:
            with contextlib.suppress(KeyError):
                self.log.reward(identifier, reward, **extra, missing=True)
        if corrects and self._decider.correct(kept, missing, reward):
            wait.corrected += 1
            if self._watch is not None:
                self._watch.repeats.correct_row(kept, missing, reward)
        else:
            wait.ignored += 1
        del wait.expired[identifier]

    def expire(self, now: float | None = None) -> int:
        """Learn decisions whose deadline has come by `now`, in seconds since 1970; returns how many.

        Those without a reward are learned with `missing`, in the order of deadlines. An agent with a `wait`
        does so whenever it decides or learns; call this in quiet times.

        >>> from linmed import Agent, LinMED
        >>> agent, arms = Agent(LinMED(), dim=1, seed=7, wait="1h"), [[1.0], [0.5]]
        >>> first, second = agent.decide(arms, time=0.0), agent.decide(arms, time=60.0)
        >>> agent.learn(second, 1.0, time=120.0)
        >>> agent.expire(now=3600.0), agent.count, agent.expire(now=3660.0), agent.count
        (1, 1, 1, 2)
        """
        with self._lock:
            if self._deadlines is None:
                raise validation.BadValue("wait", "wait was not given: this agent has no deadlines")
            return self._expire(self._deadlines, self._moment(now))

    def _expire(self, wait: Deadlines, now: float, before: bool = False) -> int:
        """Learn what is due, `before` now or by now."""
        count = 0
        with self._lock:
            for identifier, deadline in wait.due(now, before):
                if identifier in self._lists.waiting:
                    count += 1
                    wait.missed += bool(self._lists.left(identifier, wait.rule.missing))
                    self._close_list(identifier, wait.rule.missing, deadline)
                    continue
                kept = self._pending.get(identifier)
                if kept is None:  # learned at once, or dropped
                    continue
                count += 1
                if identifier in wait.held:
                    self._absorb(identifier, wait.held[identifier])
                    del wait.held[identifier]
                    continue
                if self.log is not None:
                    with contextlib.suppress(KeyError):
                        self.log.reward(identifier, wait.rule.missing, deadline, missing=True)
                taken = self._moments[identifier]
                self._absorb(identifier, wait.rule.missing)
                wait.expired[identifier] = kept, taken
                wait.missed += 1
        return count

    @property
    def deadlines(self) -> dict[str, int] | None:
        """How many rewards are held until their deadline, were missing at it, and came after it and were
        learned or ignored; None without a `wait`.

        >>> from linmed import Agent, LinMED
        >>> agent = Agent(LinMED(), dim=1, seed=7, wait="1h")
        >>> decision = agent.decide([[1.0], [0.5]], time=0.0)
        >>> agent.learn(decision, 1.0, time=4000.0)  # after its deadline: it takes the place of the 0
        >>> agent.deadlines, agent.theta.round(2)
        ({'held': 0, 'missed': 1, 'corrected': 1, 'ignored': 0}, array([0.5]))
        """
        wait = self._deadlines
        if wait is None:
            return None
        counts = {"missed": wait.missed, "corrected": wait.corrected, "ignored": wait.ignored}
        return {"held": len(wait.held), **counts}

    def _learn_each(
        self, several: list[Decision | str], rewards: Any, outcomes: Any = None, time: float | None = None
    ) -> None:
        """Learn the rewards of several decisions, all of which are checked before the first is learned."""
        if isinstance(rewards, (str, bytes)) or not isinstance(rewards, Iterable):
            text = f"reward must be a list, with one for each of {len(several)} decisions, got {rewards!r}"
            raise validation.BadType("reward", text)
        values = [validation.reward(f"reward[{i}]", value) for i, value in enumerate(rewards)]
        if len(values) != len(several):
            text = f"reward must have one number for each of {len(several)} decisions, got {len(values)}"
            raise validation.BadValue("reward", text)
        for value in values:
            self._decider.check_reward(value)
        extras: list[Any] = [None] * len(values) if outcomes is None else list(outcomes)
        if len(extras) != len(several):
            text = (
                f"outcomes must be a list, with one for each of {len(several)} decisions, got {len(extras)}"
            )
            raise validation.BadValue("outcomes", text)
        for i, one in enumerate(extras):
            if one is not None:
                self._require_log()
                validation.named_numbers(f"outcomes[{i}]", one)
        with self._lock:
            seen: set[str] = set()
            wait = self._deadlines
            if wait is not None:
                self._expire(wait, self._moment(time), before=True)
            for one in several:
                identifier = one.id if isinstance(one, Decision) else one
                known = isinstance(identifier, str) and identifier in self._pending
                if wait is not None:
                    known = (known and identifier not in wait.held) or identifier in wait.expired
                if not known:
                    raise UnknownDecision(self._explain_missing(identifier))
                if identifier in seen:
                    raise validation.BadValue("decision", f"decision {identifier!r} is there twice")
                seen.add(identifier)
            for one, value, more in zip(several, values, extras, strict=True):
                self.learn(one, value, outcomes=more, time=time)

    def observe(self, features: ArrayLike, reward: ArrayLike, time: ArrayLike | None = None) -> None:
        """Learn data from elsewhere (a warm start): features (d,) with one reward, or (n, d) with (n,).

        `time`, one number or (n,) in seconds since 1970, is for a policy that forgets by the clock.

        >>> from linmed import Agent, LinMED
        >>> agent = Agent(LinMED(), dim=2)
        >>> agent.observe([[1.0, 0.0], [0.0, 1.0]], [0.5, 1.0])
        >>> agent.count, agent.theta.round(6)
        (2, array([0.25, 0.5 ]))
        """
        rows = np.atleast_2d(validation.floats("features", features))
        rewards = np.atleast_1d(validation.floats("reward", reward))
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise ValueError(f"features must have shape ({self.dim},) or (n, {self.dim}), got {rows.shape}")
        if rewards.shape != (rows.shape[0],):
            raise ValueError(f"reward must have shape ({rows.shape[0]},), one per row, got {rewards.shape}")
        self._decider.check_reward(rewards)
        times = None if time is None else np.atleast_1d(validation.floats("time", time))
        if times is not None and times.shape not in ((1,), rewards.shape):
            raise validation.BadValue("time", f"time must be one, or one per row, got shape {times.shape}")
        if times is not None:
            times = np.ascontiguousarray(np.broadcast_to(times, rewards.shape))
        with self._lock:
            self._decider.observe(rows, rewards, times)
            if self._watch is not None and self._watch.see_all(rows, rewards):
                self._watch.warn(self.state)

    def arms(self, context: Any = None, items: Sequence[Any] | None = None) -> Floats:
        """Make arms (K, d) of the catalogue's items in a context, or of those with the ids `items`."""
        arms: Floats = self._offer(None, context, items).arms
        return arms

    def probabilities(
        self,
        arms: ArrayLike | None = None,
        *,
        context: Any = None,
        items: Sequence[Any] | None = None,
        values: ArrayLike | None = None,
        costs: ArrayLike | None = None,
    ) -> Floats:
        """Compute the probability with which each of `arms` (K, d), or of a catalogue's items, is played.

        >>> from linmed import Agent, LinMED
        >>> agent, arms = Agent(LinMED(), dim=2), [[1.0, 0.0], [0.0, 1.0]]
        >>> agent.observe([1.0, 0.0], reward=1.0)
        >>> agent.probabilities(arms).round(3)
        array([0.951, 0.049])
        """
        with self._lock:
            if self._decider.sampler is not None and arms is None and items is None:
                law = self._decider.law(context)
                every: Floats = law.complete()[law.items.live]
                return every
            worth = None if values is None and costs is None else self._worth(values, costs)
            if arms is None or context is not None or items is not None:
                return self._chances(self._offer(arms, context, items), worth)
            return probabilities_of(self._decider.log_probabilities(validate(arms, self._dim), worth=worth))

    def _chances(self, offer: Offer, worth: Worth | None = None) -> Floats:
        """Compute the probability of each item of an offer."""
        matrix = validate(offer.arms, self._dim)
        return probabilities_of(self._decider.log_probabilities(matrix, offer, offer.joined(worth)))

    def _worth(self, values: Any, costs: Any) -> Worth:
        """Values and costs that were given, if the policy takes any."""
        if not self._decider.takes_worth:
            self.policy.require_worth()
            text = "routes among a catalogue know no values and costs; LinMED looks at every item"
            raise validation.BadValue("costs", f"costs: {text}")
        return tuple.__new__(Worth, (values, costs))  # half the time of Worth(values, costs)

    def _consuming(self, worth: Worth | None, consumption: Any) -> Worth:
        """Values and costs with what is consumed apart from them, if there is a budget."""
        if self._decider.budget is None:
            raise validation.BadValue("consumption", _NO_BUDGET.format("consumption", self.policy.name))
        consuming = Consuming(*(worth or (None, None)))
        consuming.consumption = consumption
        return consuming

    def _priced(self, worth: Worth | None, count: int) -> Worth | None:
        """The same; if there is a budget, costs by the price that they have in decisions."""
        budget = self._decider.budget
        return worth if budget is None or worth is None else budget.worth(self.state, worth, count)

    def _unexpected(self, decision: Any, consumed: Any) -> float:
        """By how much a decision consumed more than it was counted with."""
        if self._decider.budget is None:
            raise validation.BadValue("consumed", _NO_BUDGET.format("consumed", self.policy.name))
        identifier = decision._id if isinstance(decision, Decision) else decision
        if not isinstance(identifier, str):
            text = f"consumed is that of one decision: learn several one by one, got {decision!r}"
            raise validation.BadType("consumed", text)
        if identifier not in self._consumed:
            raise self._unknown(identifier)
        return validation.between("consumed", consumed, 0.0, validation.LARGEST) - self._consumed[identifier]

    @property
    def _decides_in_turn(self) -> bool:
        """Whether a decision changes what comes of the next."""
        return self.policy.remembers or self._decider.budget is not None

    @property
    def budget(self) -> Account | None:
        """What was spent, what may be, and the shadow price λ; None without a `Budget`.

        >>> from linmed import Agent, Budget, LinMED
        >>> agent = Agent(Budget(LinMED(), per_decision=2.0), dim=1, seed=7)
        >>> agent.learn(agent.decide([[1.0]], costs=1.0), 0.5, consumed=3.0)
        >>> agent.budget.spent, agent.budget.allowed, agent.budget.decisions
        (3.0, 2.0, 1)
        """
        with self._lock:
            budget = self._decider.budget
            return None if budget is None else budget.account(self.state)

    def _worths(self, values: Any, costs: Any, count: int) -> list[Any] | None:
        """The values and costs of so many sets."""
        if values is None and costs is None:
            return None
        for name, given in (("values", values), ("costs", costs)):
            rows = hasattr(given, "__len__") and not isinstance(given, (str, bytes, Mapping))
            if given is not None and not (rows and len(given) == count):
                text = f"{name} must be one number or one row for each of {count} sets, got {given!r}"
                raise validation.BadValue(name, text)
        return [
            self._worth(None if values is None else values[i], None if costs is None else costs[i])
            for i in range(count)
        ]

    def probability_of(self, item: str | int, context: Any = None) -> float:
        """Compute the probability with which one item of the catalogue would be played now.

        For `CatalogueMED` it is that of all routes but the fallback, as the log would have it.
        """
        if self._decider.sampler is not None:
            with self._lock:
                law = self._decider.law(context)
                return law.probability_of(self._decider.sampler.catalogue.place(item))
        offer = self._offer(None, context, None)
        names = [str(name) for name in offer.ids]
        if str(item) not in names:
            raise validation.BadValue("item", f"item {item!r} is not in the catalogue")
        with self._lock:
            return float(self._chances(offer)[names.index(str(item))])

    def mean(
        self,
        arms: ArrayLike | None = None,
        *,
        context: Any = None,
        items: Sequence[Any] | None = None,
        values: ArrayLike | None = None,
        costs: ArrayLike | None = None,
    ) -> Prediction:
        """Estimate what each of `arms` (K, d) pays, with an interval by the confidence set.

        For clicks these are rates. An interval holds for one arm at one time; to compare arms see `verdict`.
        With `values` or `costs`, as in `decide`, it is of the utility, value · reward − cost.

        >>> from linmed import Agent, LinMED
        >>> agent = Agent(LinMED(sigma=0.1), dim=2)
        >>> agent.observe([1.0, 0.0], reward=0.5)
        >>> expected = agent.mean([[1.0, 0.0], [0.0, 1.0]])
        >>> expected.mean.round(3), expected.lower.round(3), expected.upper.round(3)
        (array([0.495, 0.   ]), array([ 0.152, -3.45 ]), array([0.838, 3.45 ]))
        """
        matrix, worth = self._offered(arms, context, items, values, costs)
        with self._lock:
            predicted = self.policy.predict(self.state, matrix)
        if predicted is None:
            raise AttributeError(f"{type(self.policy).__name__} has no confidence set to predict means with")
        if worth is None:
            return predicted
        own, price = worth.both(len(matrix))
        return Prediction(*(own * one - price for one in predicted))

    def _offered(
        self, arms: Any, context: Any, items: Any, values: Any, costs: Any
    ) -> tuple[Floats, Worth | None]:
        """`arms`, or the arms of a catalogue in a context, validated, and what they are worth."""
        worth = None if values is None and costs is None else self._worth(values, costs)
        if arms is None or context is not None or items is not None:
            offer = self._offer(arms, context, items)
            arms, worth = offer.arms, offer.joined(worth)
        matrix = validate(arms, self._dim)
        return matrix, self._priced(worth, len(matrix))

    def explain(
        self,
        arms: ArrayLike | None = None,
        *,
        context: Any = None,
        items: Sequence[Any] | None = None,
        arm: Any = None,
        names: Sequence[object] | None = None,
        features: Sequence[object] | None = None,
        top: int = TOP,
        values: ArrayLike | None = None,
        costs: ArrayLike | None = None,
    ) -> Explanation:
        """Explain one of `arms` (K, d), or of a catalogue's items: estimates, intervals, probabilities.

        The answer prints as text, in a notebook and as a picture. `arm` is the one to explain, by its number,
        its item's id or the decision for it: by default the likeliest. `names` of arms and `features` of
        columns default to those of the catalogue and its map. `top`: how many arms are shown. With `values`
        or `costs`, as in `decide`, estimates and intervals are of the utility, value · reward − cost.

        >>> from linmed import Agent, LinMED
        >>> arms = [[1.0, 0.0], [0.0, 1.0]]
        >>> agent = Agent(LinMED(sigma=0.1), dim=2)
        >>> agent.observe(arms * 20, [0.9, 0.4] * 20)
        >>> why = agent.explain(arms, names=["tea", "coffee"])
        >>> why.names[why.best], why.table()["arm"].to_pylist()
        ('tea', ['tea', 'coffee'])
        """
        worth = None if values is None and costs is None else self._worth(values, costs)
        with self._lock:
            if arms is None or context is not None or items is not None:
                offer = self._offer(arms, context, items)
                chances = self.probabilities(context=context, items=items, values=values, costs=costs)
                names = offer.ids if names is None else names
                features = self._catalogued("features", None).names if features is None else features
                matrix, worth = offer.arms, offer.joined(worth)
            else:
                matrix = validate(arms, self._dim)
                chances = self.probabilities(matrix, values=values, costs=costs)
            return explain(
                self.policy, self.state, matrix, chances, names=names, features=features, arm=arm, top=top,
                repeats=self._repeats, worth=self._priced(worth, len(matrix)),
            )  # fmt: skip

    def verdict(
        self,
        arms: ArrayLike | None = None,
        delta: float = DELTA,
        epsilon: float = 0.0,
        *,
        context: Any = None,
        items: Sequence[Any] | None = None,
        values: ArrayLike | None = None,
        costs: ArrayLike | None = None,
    ) -> Verdict:
        """Judge which of `arms` (K, d), or of a catalogue's items, can still be the best: see `Verdict`.

        With probability 1 − `delta` or more every verdict is right, however often you ask and however the
        data were chosen. `epsilon`: how much worse than the best arm is good enough. See also `Verdicts`.
        `values` and `costs`, as in `decide`: of the utility, value · reward − cost.

        >>> from linmed import Agent, LinMED
        >>> arms = [[1.0, 0.0], [0.0, 1.0]]
        >>> agent = Agent(LinMED(sigma=0.1), dim=2)
        >>> agent.observe(arms * 20, [0.9, 0.4] * 20)
        >>> print(agent.verdict(arms))
        Arm 0 is the best (95 % confidence after 40 rewards): the other arm is worse, by 0.323 at least.
        """
        matrix, worth = self._offered(arms, context, items, values, costs)
        by = looker(self.policy, delta)
        with self._lock:
            return look(by, self.state, matrix, epsilon, self._repeats, worth)

    def drift(self) -> Drift:
        """Tell whether the world has changed, if the policy watches for it: see `Drift` and `Forgetful`.

        >>> from linmed import Agent, Forgetful, LinMED
        >>> agent = Agent(Forgetful(LinMED(sigma=0.1)), dim=1)
        >>> agent.observe([[1.0]] * 60, [0.5] * 30 + [-0.5] * 30)
        >>> agent.drift().changed
        True
        """
        with self._lock:
            return drift_of(self.policy, self.state)

    @property
    def catalogue(self) -> Catalogue | None:
        """The items that it decides among; None without a catalogue."""
        encoder = self._decider.encoder
        return None if encoder is None else encoder.catalogue

    @property
    def features(self) -> Features | None:
        """The map from (context, item) to the features of an arm, as far as it is known."""
        encoder = self._decider.encoder
        return None if encoder is None else encoder.features

    @property
    def sampler(self) -> CatalogueSampler | None:
        """The sampler by which `CatalogueMED` decides; None for other policies.

        >>> from linmed import Agent, CatalogueMED, LinMED
        >>> from linmed.features import Catalogue
        >>> teas = Catalogue.from_table([{"item_id": "oolong", "price": 4}, {"item_id": "mint", "price": 2}])
        >>> [Agent(policy, catalogue=teas).sampler is None for policy in (LinMED(), CatalogueMED())]
        [True, False]
        """
        return self._decider.sampler

    @property
    def items(self) -> tuple[str | int, ...]:
        """The ids of the items that are there, in the order of `arms` and `probabilities`."""
        with self._lock:
            return tuple(self._catalogued("items", None).current()[1])

    @property
    def dim(self) -> int:
        """d: features of an arm."""
        return self._dim

    @property
    def policy(self) -> Policy:
        """The rule."""
        return self._decider.policy

    @property
    def state(self) -> Any:
        """What the policy has learned: arrays that every reward changes in place."""
        return self._decider.state

    @property
    def theta(self) -> Floats:
        """The estimate θ̂ (d,); with a model for each item, [θ₀; θ of item 0; θ of item 1; …]."""
        with self._lock:
            theta: Floats = self.state.theta[0].copy()
        return theta

    @property
    def covariance(self) -> Floats:
        """σ² V⁻¹ (d, d), the covariance of θ̂ given the arms played; for clicks and counts that of H⁻¹."""
        if not self.policy.capabilities.covariance:
            raise AttributeError(f"{type(self.policy).__name__} keeps no covariance")
        with self._lock:
            seen = self.policy.posterior(self.state)
        assert seen is not None
        return seen.covariance

    @property
    def count(self) -> int:
        """Rewards absorbed so far."""
        return int(self.state.count[0])

    @property
    def pending(self) -> tuple[str, ...]:
        """Ids of the decisions, then of the lists, that wait for rewards: the oldest first of each."""
        with self._lock:
            held = () if self._deadlines is None else self._deadlines.held
            return (*(one for one in self._pending if one not in held), *self._lists.waiting)

    def pending_times(self) -> dict[str, float]:
        """Look up when each decision in `pending` was taken; empty where neither policy nor deadline asks.

        >>> from linmed import Agent, Forgetful, LinMED
        >>> agent = Agent(Forgetful(LinMED(), half_lives=("7d", "1d")), dim=1)
        >>> decision = agent.decide([[1.0], [0.5]], time=1_700_000_000.0)
        >>> agent.pending_times()[decision.id]
        1700000000.0
        """
        with self._lock:
            return dict(self._moments)

    def pending_features(self) -> dict[str, Floats]:
        """Copy the features from which each decision in `pending` will be learned, by its id.

        >>> from linmed import Agent, LinMED
        >>> agent = Agent(LinMED(), dim=2)
        >>> decision = agent.decide([[1.0, 0.5]])
        >>> agent.pending_features()[decision.id]
        array([1. , 0.5])
        """
        with self._lock:
            return {identifier: np.frombuffer(kept).copy() for identifier, kept in self._pending.items()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, atomically: state, random stream, pending decisions, no pickle."""
        write_arrays(Path(path), *to_arrays(self))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        seed: int | None = None,
        index: Index | None = None,
        log: "str | os.PathLike[str] | Recorder | None" = None,
        log_arms: bool | None = None,
    ) -> "Agent":
        """Read the agent that `save` wrote; it continues exactly where that one stood.

        Two agents loaded from one file make the same decisions. With a `seed` the agent draws other random
        numbers, which depend on the seed and on how much it had decided and learned: give each of several
        workers its own seed. Ids of decisions never collide, with or without one.

        An `index` other than the exact scan is not saved: pass it again. `log` is where decisions go from
        now on; `log_arms` is by default as it was saved.
        """
        if seed is not None:
            seed = validation.whole("seed", seed, at_least=0)
        meta, arrays = read_arrays(Path(path), "is not a linmed agent")
        version = meta["format"]
        if version != FORMAT:
            raise ValueError(f"{path} has format {version}; this release of linmed reads format {FORMAT}")
        keep = validation.flag("log_arms", meta.get("log_arms", True) if log_arms is None else log_arms)
        try:
            agent: Agent = from_arrays(cls, meta, arrays, seed, index, keep)
        except (KeyError, TypeError, AttributeError, MemoryError) as error:
            raise ValueError(f"{path} is not a linmed agent, or it is damaged ({error})") from None
        agent._open(log)
        return agent

    def close(self) -> None:
        """Flush the log, and close it if this agent opened it: then it can neither decide nor learn.

        A log that you passed as an object stays open.
        """
        with self._lock:
            if self._own_log is not None:
                self._own_log.close()
            elif self.log is not None:
                self.log.flush()

    def __repr__(self) -> str:
        return f"Agent({self.policy.name}, dim={self.dim}, count={self.count})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _offer(self, arms: ArrayLike | None, context: Any, items: Any) -> Offer:
        """Join the catalogue's items with a context."""
        own = self._catalogued("arms" if context is None and items is None else "context", arms)
        with self._lock:
            return own.offer(context, items)

    def _is_timed(self) -> bool:
        """Check whether the time of a decision is needed: by a policy's clock, or for a deadline."""
        decider = self._decider
        if self._deadlines is not None or self.policy.capabilities.clock:
            return True
        groups = decider.learners() if isinstance(decider, ControlledDecider) else ()
        return any(one.policy.capabilities.clock for _, one in groups)

    def _name_run(self) -> None:
        """Draw the first part of ids, in every process and copy another, so that ids never collide."""
        self._run, self._process = secrets.token_hex(8), _forks

    def _decide(
        self, arms: ArrayLike, offer: Offer | None, moment: float | None, worth: Worth | None = None
    ) -> Decision:
        """Choose one arm; where the log refuses it, nothing has changed."""
        decider = self._decider
        if self.log is None:
            return self._settle(decider.decide(arms, offer, worth), None, offer, moment)
        matrix = as_matrix(arms, self._dim)
        before = self.state.copy() if self.policy.remembers else None
        decision = decider.decide(matrix, offer, worth)
        try:
            return self._settle(decision, matrix, offer, moment)
        except BaseException:
            decider.noise.used -= 1
            if before is not None:
                self.state.restore(before.arrays())
            raise

    def _decide_items(self, contexts: Sequence[Any], moment: float | None) -> list[Decision]:
        """Choose one item of the catalogue for each context, as n calls would."""
        encoder = self._catalogued("context", None)
        if encoder.waits and len(contexts) > 1:  # each may change what comes of the next
            return [self._decide_items([context], moment)[0] for context in contexts]
        offers = [encoder.whole(context) for context in contexts]
        drawn = self._decider.decide_items([encoded for encoded, _ in offers])
        return self._settle_each([(one, None) for one in drawn], [offer for _, offer in offers], moment)

    def _settle_each(
        self, drawn: list[tuple[Decision, Any]], offers: list[Offer] | None, moment: float | None
    ) -> list[Decision]:
        """Settle decisions that were drawn together: where the log refuses one, those before it stand."""
        done: list[Decision] = []
        try:
            for decision, arms in drawn:
                done.append(self._settle(decision, arms, offers[len(done)] if offers else None, moment))
        except BaseException:
            self._decider.noise.used -= len(drawn) - len(done)
            raise
        return done

    def _catalogued(self, name: str, arms: Any) -> ItemEncoder:
        """Return the encoder; raise if there is no catalogue, or if `arms` were passed as well."""
        encoder = self._decider.encoder
        if encoder is None:
            wanted = "arms must be given" if name == "arms" else f"{name} needs a catalogue"
            raise validation.BadType(
                name, f"{wanted}: this agent was made without one (Agent(…, catalogue=…))"
            )
        if arms is not None:
            raise validation.BadValue(name, f"{name} must be None where arms are given as vectors")
        return encoder

    def _matrix(self, arms: ArrayLike | None, context: Any = None, items: Any = None) -> Floats:
        """Check `arms`, or make them of the catalogue in a context."""
        if arms is None or context is not None or items is not None:
            arms = self._offer(arms, context, items).arms
        return validate(arms, self._dim)

    def _moment(self, time: float | None) -> float:
        """Round a time, by default now, to whole microseconds, as a log has it."""
        if time is None:
            return clock.time_ns() // 1000 / 1e6
        return round(validation.between("time", time, -6e10, 2.5e11) * 1e6) / 1e6  # the years 68 to 9892

    def _unknown(self, identifier: object) -> UnknownDecision:
        """Make the error for a decision that no reward is awaited for."""
        return UnknownDecision(self._explain_missing(identifier))

    def _next_id(self) -> str:
        """Give the id of the next decision."""
        if self._process != _forks:  # a process that was forked
            self._earlier.append((self._run, self._decisions))
            self._name_run()
        return f"{self._run}-{self._decisions}"

    def _settle(
        self, decision: Decision, arms: Floats | None, offer: Offer | None, moment: float | None
    ) -> Decision:
        """Give the decision its id, log it and wait for its reward; if the log refuses it nothing changes."""
        decision._id = identifier = self._next_id()
        if self.log is not None:
            self._record(decision, arms, offer, moment)
        self._decisions += 1
        pending = self._pending
        pending[identifier] = decision._kept
        budget = self._decider.budget
        if budget is not None:
            taken = consumed_of(decision._worth, decision._count)[decision._arm]
            budget.spend(self.state, np.array([taken]))
            self._consumed[identifier] = float(taken)
        if self._timed and moment is not None:
            self._moments[identifier] = moment
            if self._deadlines is not None:
                self._deadlines.add(identifier, moment)
        if self.max_pending is not None and len(pending) > self.max_pending:
            oldest = next(iter(pending))
            del pending[oldest]
            self._moments.pop(oldest, None)
            self._consumed.pop(oldest, None)
            if self._deadlines is not None:
                self._deadlines.held.pop(oldest, None)
            self.dropped += 1
        if offer is not None and offer.seen and self._catalogued("items", None).see(offer.seen):
            self._describe()
        return decision

    def _record(
        self, decision: Decision, arms: Floats | None, offer: Offer | None, moment: float | None
    ) -> None:
        """Log a decision."""
        # Optional columns are left out where they are empty: a recorder of a user need not know them.
        extra: dict[str, Any] = {
            "time": moment,
            "fallback": decision.fallback,
            "best": decision._best,
            "catalogue_version": decision._catalogue_version,
            "context": None if offer is None else offer.context,
        }
        worth: Worth | None = getattr(decision, "_worth", None)
        if worth is not None:
            values, costs = worth.both(decision._count)
            extra |= {"value": values[decision._arm], "cost": costs[decision._arm]}
            if self.log_arms:
                extra |= {"values": values, "costs": costs}
        groups: GroupRecord | None = getattr(decision, "_groups", None)
        if groups is not None:
            extra |= {"control": groups.control, "control_share": groups.share, "shadow": groups.shadow}
        self.log.record(
            decision._id,
            arm=decision._arm,
            arm_count=decision._count,
            log_probability=decision._log_probability if decision.has_probability else None,
            features=decision.features,
            log_probabilities=decision.log_probabilities,
            arms=arms if self.log_arms else None,
            arm_id=decision._item,
            policy=self.policy.name,
            version=self.count,
            **{name: value for name, value in extra.items() if value is not None},
        )

    @property
    def _repeats(self) -> Repeats | None:
        return None if self._watch is None else self._watch.repeats

    def _describe(self) -> None:
        """Write the map of features to the log."""
        describe = getattr(self.log, "describe", None)
        if self.features is not None and describe is not None:
            describe(self.features.to_dict())

    def _open(self, log: "str | os.PathLike[str] | Recorder | None") -> None:
        """Log to `log` from now on."""
        if not (log is None or isinstance(log, (str, os.PathLike)) or hasattr(log, "record")):
            raise validation.BadType("log", f"log must be a directory or a linmed.log.Recorder, got {log!r}")
        if log is not None and not self.policy.capabilities.probability:
            raise validation.BadValue(
                "log",
                f"log must be None: decisions of {self.policy.name} carry no probability, and a log "
                "without it cannot be evaluated; use a policy that tells it, as all do by default",
            )
        self._own_log = None
        if isinstance(log, (str, os.PathLike)):
            from linmed.log import LogWriter  # pyarrow is loaded only where there is a log

            log = self._own_log = LogWriter(log)
        self.log = log
        self._describe()

    def __getstate__(self) -> dict[str, Any]:
        """Copy under the lock, without the lock."""
        if self._own_log is not None:
            raise TypeError("an agent with an open log cannot be copied or pickled: use save, or close it")
        with self._lock:
            return {
                **self.__dict__,
                "_lock": None,
                "_decider": copy.copy(self._decider),
                "_pending": dict(self._pending),
                "_moments": dict(self._moments),
                "_consumed": dict(self._consumed),
                "_deadlines": copy.deepcopy(self._deadlines),
                "_lists": copy.deepcopy(self._lists),
            }

    def __copy__(self) -> "Agent":
        return copy.deepcopy(self)

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__dict__.update(kept, _lock=threading.RLock())
        self._earlier = [*self._earlier, (self._run, self._decisions)][-REMEMBERED:]
        self._name_run()

    def _explain_missing(self, identifier: object) -> str:
        identifier = getattr(identifier, "id", identifier)
        if str(identifier) in self._lists.waiting:
            return f"decision {identifier!r} is a list: learn_list takes its rewards"
        held = () if self._deadlines is None else self._deadlines.held
        if str(identifier) in self._pending and str(identifier) not in held:
            return f"decision {identifier!r} is for one arm, not for a list: learn takes its reward"
        run, _, number = str(identifier).partition("-")
        made = {**dict(self._earlier), self._run: self._decisions}.get(run, 0)
        if number.isascii() and number.isdigit() and len(number) < 19 and int(number) < made:
            gone = ", or its deadline was too long ago" if self._deadlines is not None else ""
            return f"decision {identifier!r} has had its reward already, or was dropped by max_pending{gone}"
        return f"decision {identifier!r} is unknown to this agent"


def _groups(
    control: Any, law: Any, shadow: Any, dim: int, encoder: ItemEncoder | None
) -> dict[str, Any] | None:
    """Make the control group and the shadow policies; None where there is neither."""
    if isinstance(law, os.PathLike):
        law = Agent.load(law)
    if isinstance(law, Agent):
        law = copy.copy(law._decider)
    ids = None if encoder is None else encoder.current()[1]
    found = {"control": control_group(control, law, dim, ids), "shadows": shadows(shadow, dim)}
    return found if any(found.values()) else None
