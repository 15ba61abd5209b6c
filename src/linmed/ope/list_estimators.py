"""Estimate what targets would have earned with lists: the same questions as of single decisions.

Position j of a list has the weight w_j = π(a_j | those above) / p(a_j | those above), and
W_j = w_1 ⋯ w_j is how much likelier the target would have shown its first j positions. The value is
E_π Σ α_j y_j, α the log's `weights`. An estimator is a weight U_j of mean one for each position,

    sips      U_j = W_m                               always unbiased
    rips      U_j = W_j                               if y_j depends on nothing below position j
    iips      U_j = π(a_j at j) / p(a_j at j)         if y_j depends on the item and the position alone
    set-ips   U_j = π(S) / p(S), S the list's items   if rewards do not depend on the order

and its term Σ α_j U_j y_j; Σ α_j U_j (1 − y_j) has the mean Σ α_j − v, so both are sides of a betting
sequence on [0, Σ α_j]. "sn" before the name divides by the mean of U_j. "pseudo-inverse" is unbiased if the
list's reward is a sum of what each item earns at its position (Swaminathan et al. 2017), "cascade-dr" where
rips is, for any prediction of rewards (Kiyohara et al. 2022): its predictions are means of earlier lists.
"""

import ast
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from linmed import validation
from linmed.agent import Agent
from linmed.lists import ListLaw, ListOptions
from linmed.log.list_log import ListLog, holds_lists
from linmed.ope.intervals import Moments, Weights, quantile
from linmed.ope.sequences import Side, ValueSequence, value_sides
from linmed.policies import Policy
from linmed.question import CONFIDENCE, DEFAULTS, MISSING, OPTIONS, Question
from linmed.report.tables import Table
from linmed.validation import BadValue, Floats

WEIGHTED = ("sips", "rips", "iips", "set-ips")
NAMES = (*WEIGHTED, *(f"sn{name}" for name in WEIGHTED), "pseudo-inverse", "snpseudo-inverse", "cascade-dr")
"""Estimators of values of lists."""
LIMIT = 1_000_000
"""Sets of arms that may be looked at for the probability of an arm at a position."""
SUMS = 1e-6
Prefix = tuple[int, ...]


class Lists:
    """The lists of a log that judge, as arrays (n, M); past the end of a list nothing is earned."""

    def __init__(self, log: ListLog, question: Question) -> None:
        table = log.table()
        columns = {name: table[name].to_pylist() for name in table.column_names}
        rows = len(table)
        whole = columns.get("reward", [None] * rows)
        by_position = columns.get("rewards", [None] * rows)
        self.one_reward = any(one is not None for one in whole)
        known = [
            one is not None or (rewards is not None and None not in rewards)
            for one, rewards in zip(whole, by_position, strict=True)
        ]
        self.waiting = rows - sum(known)
        last = known.index(False) if question.missing == "stop" and self.waiting else rows
        keep = [row for row in range(last) if known[row]]
        if not keep:
            raise BadValue("log", f"{log.name} has no lists whose rewards have all come")
        self.log, self.alpha, width = log, log.weights, log.positions
        self.arms = [tuple(columns["arms"][row]) for row in keep]
        self.counts = [int(columns["arm_count"][row]) for row in keep]
        self.offered = [_matrix(columns.get("offered", [None] * rows)[row]) for row in keep]
        self.candidates = [columns.get("candidates", [None] * rows)[row] for row in keep]
        shape = len(keep), width
        self.probability, self.reward = np.ones(shape), np.zeros(shape)
        self.placed = np.zeros(shape, dtype=bool)
        for place, row in enumerate(keep):
            size = len(self.arms[place])
            self.placed[place, :size] = True
            self.probability[place, :size] = columns["probabilities"][row]
            if not self.one_reward:
                self.reward[place, :size] = by_position[row]
            elif whole[row] is None:
                raise BadValue("log", f"{log.name} has one reward of some lists, and of others by position")
            else:
                self.reward[place, size - 1] = whole[row]
        if self.one_reward:  # it counts once, wherever it stands
            self.alpha = np.where(np.arange(width) == width - 1, 1.0, 0.0)
            if not self.placed.all():
                raise BadValue("log", "lists with one reward each must be of one length")
        if not ((self.probability > 0.0) & (self.probability <= 1.0 + SUMS)).all():
            raise BadValue("log", f"{log.name} has probabilities that do not lie in (0, 1]")
        low, high = (0.0, 1.0) if question.reward_range is None else question.reward_range
        if not ((self.reward >= low) & (self.reward <= high)).all():
            text = f"reward_range must hold all rewards, which reach from {self.reward.min():g} to "
            raise BadValue("reward_range", f"{text}{self.reward.max():g}, got ({low:g}, {high:g})")
        self.unit = (self.reward - low) / (high - low)
        self.total = float(self.alpha.sum())
        self.range = low * self.total, high * self.total

    def __len__(self) -> int:
        return len(self.arms)

    def left(self, row: int, prefix: Prefix) -> list[int]:
        """Which arms may stand below `prefix`."""
        own = self.candidates[row]
        among = range(self.counts[row]) if own is None else own[len(prefix)]
        return [arm for arm in among if arm not in prefix]


def _matrix(rows: Any) -> Floats | None:
    return None if rows is None else np.array(rows, dtype=np.float64)


class ListTarget:
    """What would have drawn lists: `law` gives the probabilities (K,) of all arms below a prefix."""

    def __init__(self, name: str, law: Callable[[Lists, int, Prefix], Floats] | None, by_arms: bool = False):
        self.name, self._law, self._by_arms = name, law, by_arms
        self._known: dict[Any, Any] = {}

    def law(self, lists: Lists, row: int, prefix: Prefix) -> Floats:
        """How probable each arm is at position len(prefix) of a list (K,)."""
        if self._law is None:
            text = (
                f"the law of {self.name!r} is known of lists that were shown alone: this estimator needs all"
            )
            raise BadValue("targets", f"{text}; give the log its law, log.given(logging=…)")
        return self._law(lists, row, prefix)

    def chances(self, lists: Lists) -> Floats:
        """How probable each position would have been given those above it (n, M)."""
        found = np.ones(lists.probability.shape)
        if self._law is None:
            return lists.probability
        for row, arms in enumerate(lists.arms):
            for place, arm in enumerate(arms):
                found[row, place] = self.law(lists, row, arms[:place])[arm]
        return found

    def remembered(self, what: str, lists: Lists, row: int, make: Callable[[], Any]) -> Any:
        """What `make` finds, made once for lists that this target draws alike."""
        own, offered = lists.candidates[row], lists.offered[row]
        seen = offered.tobytes() if self._by_arms and offered is not None else None
        key = what, lists.counts[row], len(lists.arms[row]), seen, None if own is None else str(own)
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]


def as_list_target(value: Any, name: str | None = None) -> ListTarget:
    """Make a target of what a user gave: "uniform", "logged", "ranking:[…]", an agent or a function."""
    if isinstance(value, ListTarget):
        return value
    if isinstance(value, str):
        if value == "logged":
            return ListTarget(name or value, None)
        if value == "uniform":
            return ListTarget(name or value, _uniform)
        if value.startswith("ranking:"):
            return ListTarget(name or value, _ranking(value))
    if isinstance(value, Agent):
        value = value.policy, value.state
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], Policy):
        return ListTarget(str(name or value[0].name), _policy(*value), by_arms=True)
    if callable(value):
        return ListTarget(str(name or getattr(value, "__name__", "function")), _function(value), by_arms=True)
    raise BadValue(
        "targets",
        "targets on lists must be 'uniform', 'logged', 'ranking:[3, 1, 2]', an agent, (policy, state) or a "
        f"function of (arms, prefix), got {value!r}",
    )


def _uniform(lists: Lists, row: int, prefix: Prefix) -> Floats:
    law = np.zeros(lists.counts[row])
    left = lists.left(row, prefix)
    law[left] = 1.0 / len(left)
    return law


def _ranking(told: str) -> Callable[[Lists, int, Prefix], Floats]:
    try:
        order = ast.literal_eval(told.removeprefix("ranking:"))
    except (ValueError, SyntaxError):
        order = None
    if (
        not isinstance(order, list)
        or len({*order}) < len(order)
        or not all(type(arm) is int for arm in order)
    ):
        raise BadValue(
            "targets", f"targets: a ranking is a list of different arms, 'ranking:[3, 1, 2]', got {told!r}"
        )

    def law(lists: Lists, row: int, prefix: Prefix) -> Floats:
        left = lists.left(row, prefix)
        best = next((arm for arm in order if arm in left), None)
        if best is None:
            raise BadValue("targets", f"targets: {told} has no arm for position {len(prefix)} of list {row}")
        found = np.zeros(lists.counts[row])
        found[best] = 1.0
        return found

    return law


def _policy(policy: Policy, state: Any) -> Callable[[Lists, int, Prefix], Floats]:
    laws: dict[int, ListLaw] = {}

    def law(lists: Lists, row: int, prefix: Prefix) -> Floats:
        if row not in laws:
            offered = lists.offered[row]
            if offered is None:
                raise BadValue(
                    "log", "log must have the features of all arms (`offered`) to ask an agent of them"
                )
            laws.clear()  # lists are asked one after the other
            laws[row] = ListLaw(
                policy, state, offered, ListOptions(len(lists.arms[row]), lists.candidates[row])
            )
        every: Floats = np.exp(laws[row].log_probabilities(prefix))
        return every

    return law


def _function(function: Callable[[Any, Prefix], Any]) -> Callable[[Lists, int, Prefix], Floats]:
    def law(lists: Lists, row: int, prefix: Prefix) -> Floats:
        offered, count = lists.offered[row], lists.counts[row]
        found = np.asarray(function(count if offered is None else offered, prefix), dtype=np.float64)
        if found.shape != (count,) or not (found >= 0.0).all() or abs(found.sum() - 1.0) > SUMS:
            text = f"targets: a function must give {count} probabilities that sum to 1, got {found!r}"
            raise BadValue("targets", text)
        if any(found[arm] > 0.0 for arm in prefix):
            raise BadValue(
                "targets", f"targets: a function gave an arm above, {prefix}, some probability again"
            )
        return found

    return law


def _sets(law: Callable[[Prefix], Floats], size: int, start: dict[int, float] | None = None) -> Iterator[Any]:
    """Yield the sets of arms that may stand above each position, with their probability and the law below."""
    level = {0: 1.0} if start is None else start
    for _ in range(size):
        below: dict[int, float] = {}
        for mask, chance in level.items():
            prefix = tuple(arm for arm in range(mask.bit_length()) if mask >> arm & 1)
            own = law(prefix)
            yield len(prefix), chance, own
            for arm in np.flatnonzero(own).tolist():
                below[mask | 1 << arm] = below.get(mask | 1 << arm, 0.0) + chance * float(own[arm])
        level = below


def _require_few(lists: Lists, row: int, more: int = 1) -> None:
    count, size = lists.counts[row], len(lists.arms[row])
    sets = sum(math.comb(count, j) for j in range(size)) * more
    if sets > LIMIT:
        text = f"estimators: the probability of an arm at a position of {size} among {count} is a sum over"
        raise BadValue("estimators", f"{text} {sets:,} sets, more than {LIMIT:,}: use 'rips' or 'sips'")


def marginals(target: ListTarget, lists: Lists, row: int) -> Floats:
    """How probable each arm is at each position (m, K), by laws for which the order above does not matter."""

    def make() -> Floats:
        _require_few(lists, row)
        found = np.zeros((len(lists.arms[row]), lists.counts[row]))
        for place, chance, own in _sets(lambda prefix: target.law(lists, row, prefix), len(found)):
            found[place] += chance * own
        return found

    every: Floats = target.remembered("marginals", lists, row, make)
    return every


def of_set(target: ListTarget, lists: Lists, row: int) -> float:
    """How probable the arms of a list are in any order: a sum over its 2^m subsets."""
    arms = lists.arms[row]
    level: dict[Prefix, float] = {(): 1.0}
    for _ in arms:
        below: dict[Prefix, float] = {}
        for prefix, chance in level.items():
            own = target.law(lists, row, prefix)
            for arm in arms:
                if arm not in prefix and own[arm] > 0.0:
                    longer = tuple(sorted((*prefix, arm)))
                    below[longer] = below.get(longer, 0.0) + chance * float(own[arm])
        level = below
    return sum(level.values())


def joint(target: ListTarget, lists: Lists, row: int) -> Floats:
    """E 1 1' of the indicators of arms at positions (mK, mK)."""

    def make() -> Floats:
        size, count = len(lists.arms[row]), lists.counts[row]
        _require_few(lists, row, size * count)
        found = np.zeros((size, count, size, count))

        def law(prefix: Prefix) -> Floats:
            return target.law(lists, row, prefix)

        level = {0: 1.0}
        for place in range(size):
            starts: dict[int, dict[int, float]] = {}
            for mask, chance in level.items():
                own = law(tuple(arm for arm in range(count) if mask >> arm & 1))
                for arm in np.flatnonzero(own).tolist():
                    starts.setdefault(arm, {})[mask | 1 << arm] = chance * float(own[arm])
            level = {}
            for arm, start in starts.items():
                found[place, arm, place, arm] = sum(start.values())
                for below, chance, own in _sets(law, size - place - 1, start):
                    found[place, arm, below] += chance * own
                    found[below, :, place, arm] += chance * own
                for mask, chance in start.items():
                    level[mask] = level.get(mask, 0.0) + chance
        return found.reshape(size * count, size * count)

    every: Floats = target.remembered("joint", lists, row, make)
    return every


@dataclass(frozen=True)
class Answer:
    """One estimator's answer: weights of positions where it has them (n, M), and its terms (n,)."""

    weights: Floats | None
    terms: Floats
    ratio: Floats | None = None  # (n,) by whose mean the estimate is divided


class Answers:
    """What one target would have done with the lists of a log."""

    def __init__(self, lists: Lists, target: ListTarget) -> None:
        self.lists, self.target = lists, target
        self.chance = target.chances(lists)

    @cached_property
    def cumulative(self) -> Floats:
        """W_j (n, M)."""
        return np.multiply.accumulate(self.chance / self.lists.probability, axis=1)

    @cached_property
    def logging(self) -> ListTarget:
        """The law by which lists were drawn, which must be that of the log's probabilities."""
        lists = self.lists
        if lists.log.logging is None:
            text = "estimators: iips, set-ips and pseudo-inverse ask how probable other lists were"
            raise BadValue(
                "estimators", f"{text}: give the log the law by which it was drawn, log.given(logging=…)"
            )
        law = as_list_target(lists.log.logging)
        wrong = np.abs(law.chances(lists) - lists.probability) > SUMS
        if wrong.any():
            row = int(np.argmax(wrong.any(axis=1)))
            raise BadValue("logging", f"logging is not the law of list {row}: its probabilities are others")
        return law

    def weights(self, name: str) -> Floats:
        """U_j of an estimator (n, M); 1 past the end of a list."""
        lists = self.lists
        if name == "rips":
            found = self.cumulative
        elif name == "sips":
            found = np.broadcast_to(self.cumulative[:, -1:], lists.placed.shape)
        elif name == "set-ips":
            ratios = [
                of_set(self.target, lists, row) / of_set(self.logging, lists, row)
                for row in range(len(lists))
            ]
            found = np.broadcast_to(np.array(ratios)[:, None], lists.placed.shape)
        else:
            found = np.ones(lists.placed.shape)
            for row, arms in enumerate(lists.arms):
                ours, theirs = (marginals(one, lists, row) for one in (self.target, self.logging))
                places = np.arange(len(arms))
                found[row, places] = ours[places, arms] / theirs[places, arms]
        return np.where(lists.placed, found, 1.0)

    def answer(self, name: str) -> Answer:
        """The answer of one estimator."""
        lists = self.lists
        plain = name.removeprefix("sn")
        if lists.one_reward and plain not in ("sips", "set-ips", "pseudo-inverse"):
            text = f"estimators: {name} needs rewards by position, and {lists.log.name} has one for each list"
            raise BadValue("estimators", text)
        if plain == "cascade-dr":
            return Answer(None, self._doubly_robust())
        if plain == "pseudo-inverse":
            ratio = self._slate_weights()
            terms = ratio * (lists.reward @ lists.alpha)
            return Answer(None, terms, ratio if plain != name else None)
        weights = self.weights(plain)
        if plain == name:
            return Answer(weights, (weights * lists.reward) @ lists.alpha)
        with np.errstate(invalid="ignore"):  # no weight at all: no estimate
            share = weights / weights.mean(axis=0)
        ratio = (share * lists.reward).mean(axis=0)
        return Answer(weights, (ratio + share * (lists.reward - ratio)) @ lists.alpha)

    def _slate_weights(self) -> Floats:
        """q_π' Γ_p⁺ 1_s of every list (n,)."""
        lists, found = self.lists, np.empty(len(self.lists))
        for row, arms in enumerate(lists.arms):
            gamma = joint(self.logging, lists, row)

            def make(gamma: Floats = gamma) -> Floats:
                return np.array(np.linalg.pinv(gamma, hermitian=True), dtype=np.float64)

            inverse = self.logging.remembered("inverse", lists, row, make)
            count = lists.counts[row]
            shown = [place * count + arm for place, arm in enumerate(arms)]
            found[row] = marginals(self.target, lists, row).ravel() @ inverse[:, shown].sum(axis=1)
        return found

    def _doubly_robust(self) -> Floats:
        """Σ_j W_j α_j y_j + W_{j−1} V̂_j − W_j Q̂_j of every list (n,), predictions from earlier lists alone.

        Q̂_j of an arm is α_j times its mean reward at position j so far, shrunk to that of the position, and
        what positions below j were predicted to earn on average.
        """
        lists, found = self.lists, np.empty(len(self.lists))
        width, most = lists.placed.shape[1], max(lists.counts)
        sums, counts = np.zeros((width, most)), np.zeros((width, most))
        values = np.zeros(width)
        for row, arms in enumerate(lists.arms):
            size, above, total = len(arms), 1.0, 0.0
            level = sums.sum(axis=1) / np.maximum(counts.sum(axis=1), 1.0)
            later = np.append(np.cumsum((lists.alpha * values)[::-1])[::-1][1:], 0.0)
            seen = np.zeros(width)
            for place, arm in enumerate(arms):
                count, alpha = lists.counts[row], lists.alpha[place]
                mean = (sums[place, :count] + level[place]) / (counts[place, :count] + 1.0)
                seen[place] = self.target.law(lists, row, arms[:place]) @ mean
                weight = self.cumulative[row, place]
                total += weight * alpha * (lists.reward[row, place] - mean[arm])
                total += above * alpha * seen[place] + (above - weight) * later[place]
                above = weight
            found[row] = total
            for place, arm in enumerate(arms):
                sums[place, arm] += lists.reward[row, place]
                counts[place, arm] += 1.0
            values[:size] += (seen[:size] - values[:size]) / (row + 1.0)
        return found

    def sides(self, weights: Floats) -> tuple[Side, Side]:
        """Terms with means v and Σ α − v, as shares of Σ α."""
        lists, none = self.lists, np.zeros(len(self.lists))
        low, high = ((weights * part) @ lists.alpha / lists.total for part in (lists.unit, 1.0 - lists.unit))
        return Side(low, none), Side(high, none)


def as_lists(log: Any, question: Question) -> Lists | None:
    """The lists of a log, or None where it is one of single decisions."""
    if holds_lists(log):
        log = ListLog.open(log)
    if not isinstance(log, ListLog):
        return None
    for name in OPTIONS.keys() - {"interval", "confidence", "reward_range", "missing", "batch"}:
        if getattr(question, name) != DEFAULTS[name]:
            raise BadValue(name, f"{name} is not for logs of lists: leave it out")
    if question.missing not in ("stop", "skip"):
        raise BadValue(
            "missing", "missing must be 'stop' or 'skip' for logs of lists: closing a list fills it in"
        )
    return Lists(log, question)


def _several(targets: Any) -> list[ListTarget]:
    if isinstance(targets, dict):
        return [as_list_target(one, str(name)) for name, one in targets.items()]
    found = (
        [as_list_target(one) for one in targets]
        if isinstance(targets, (list, tuple)) and not (targets and isinstance(targets[0], Policy))
        else [as_list_target(targets)]
    )
    names = [one.name for one in found]
    if len({*names}) < len(names):
        raise BadValue("targets", f"targets must have different names, as in {{name: target}}, got {names}")
    return found


def _estimators(given: Any, default: Sequence[str]) -> list[str]:
    several = default if given is None else [given] if isinstance(given, str) else given
    return [validation.option("estimators", name, NAMES) for name in several]


def _sequence(lists: Lists, question: Question, **more: Any) -> ValueSequence:
    return ValueSequence(more.pop("confidence", question.confidence), lists.range, **more)


def evaluate_lists(lists: Lists, question: Question, targets: Any, estimators: Any) -> Table:
    """One row for each target and estimator."""
    interval = validation.option("interval", question.interval, ("betting", "normal", "none"))
    rows = []
    for target in _several(targets):
        answers = Answers(lists, target)
        for name in _estimators(estimators, ("sips", "rips")[: 1 + (not lists.one_reward)]):
            rows.append((target.name, name, *_row(answers, answers.answer(name), question, interval)))
    columns = ("target", "estimator", "estimate", "lower", "upper", "n", "effective_n", "valid")
    return Table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))


def _row(answers: Answers, answer: Answer, question: Question, interval: str) -> tuple[Any, ...]:
    lists, moments = answers.lists, Moments()
    moments.add(answer.terms) if answer.ratio is None else moments.add(None, answer.terms, answer.ratio)
    own = answers.cumulative[:, -1] if answer.weights is None else answer.weights @ lists.alpha / lists.total
    effective = float(own.sum() ** 2 / (own**2).sum()) if own.any() else 0.0
    bounds, valid = (math.nan, math.nan), "—"
    if interval == "betting" and answer.weights is not None:
        sequence = _sequence(lists, question)
        sequence.add(answer.terms, *answers.sides(answer.weights))
        bounds, valid = sequence.bounds, "any time"
    elif interval != "none":
        half = quantile(question.confidence) * moments.standard_error
        bounds, valid = (moments.estimate - half, moments.estimate + half), "asymptotic"
    return moments.estimate, *bounds, len(lists), effective, valid


def _weighted(name: Any) -> str:
    return str(validation.option("estimator", "rips" if name == "ipw" else name, WEIGHTED))


def sequence_lists(lists: Lists, question: Question, target: Any, estimator: Any) -> Table:
    """An estimate and its betting sequence at growing n."""
    answers = Answers(lists, as_list_target(target))
    answer = answers.answer(_weighted(estimator))
    assert answer.weights is not None
    sequence = _sequence(lists, question, trace=True)
    sequence.add(answer.terms, *answers.sides(answer.weights))
    return sequence.table()


def contrast(
    ours: Answers, theirs: Answers, name: str, question: Question, confidence: float | None = None
) -> tuple[float, float, float]:
    """How much more one target earns than another: estimate, lower, upper."""
    lists, size = ours.lists, len(ours.lists)
    one, other = ours.weights(name), theirs.weights(name)
    terms = ((one - other) * lists.reward) @ lists.alpha
    found = _sequence(lists, question, difference=True, confidence=confidence or question.confidence)
    if np.array_equal(one, other):
        sides = Side(np.zeros(size), np.zeros(size)), Side(np.zeros(size), np.zeros(size))
    else:
        (a, b), (c, d) = ours.sides(one), theirs.sides(other)
        sides = Side(a.x + d.x, np.ones(size)), Side(c.x + b.x, np.ones(size))
    found.add(terms, *sides)
    return found.estimate, *found.bounds


def difference_lists(lists: Lists, question: Question, target: Any, baseline: Any, estimator: Any) -> Table:
    """How much more `target` earns than `baseline`."""
    one, other = as_list_target(target), as_list_target(baseline)
    name = _weighted(estimator)
    ours = Answers(lists, one)
    estimate, low, high = contrast(ours, Answers(lists, other), name, question)
    weight = ours.weights(name) @ lists.alpha / lists.total
    effective = float(weight.sum() ** 2 / (weight**2).sum()) if weight.any() else 0.0
    row = {"target": f"{one.name} − {other.name}", "estimator": name, "estimate": estimate}
    row |= {"lower": low, "upper": high, "n": len(lists), "effective_n": effective, "valid": "any time"}
    return Table({key: [value] for key, value in row.items()})


def contest(lists: Lists, question: Question, candidates: Any, estimator: Any) -> tuple[Any, Any, Any]:
    """Names of candidates, what is known of each, and the gains of each pair: what `choose` needs."""
    name, found = _weighted(estimator), _several(candidates)
    size, error = len(found), 1.0 - question.confidence
    pairs = [*itertools.combinations(range(size), 2)]
    answers = [Answers(lists, target) for target in found]
    rows = []
    for one in answers:
        answer = one.answer(name)
        assert answer.weights is not None
        sequence = _sequence(lists, question, confidence=1.0 - (error / (2 * size) if pairs else error))
        sequence.add(answer.terms, *one.sides(answer.weights))
        weight = answer.weights @ lists.alpha
        effective = float(weight.sum() ** 2 / (weight**2).sum()) if weight.any() else 0.0
        rows.append((sequence.estimate, *sequence.bounds, len(lists), effective))
    gains: dict[tuple[int, int], tuple[float, float, float]] = {}
    for i, j in pairs:
        estimate, low, high = contrast(answers[i], answers[j], name, question, 1.0 - error / (2 * len(pairs)))
        gains[i, j], gains[j, i] = (estimate, low, high), (0.0 - estimate, 0.0 - high, 0.0 - low)
    return [target.name for target in found], rows, gains


def estimate_examination(log: ListLog | str, confidence: float = CONFIDENCE, missing: str = MISSING) -> Table:
    """Estimate how often each position is looked at, as a share of the first: ε_j of position-based clicks.

    Uniform lists have each arm at each position equally often, so there E y_j = ε_j times one number; both
    means are estimated from the log by "rips", with betting sequences, and the interval of their ratio
    follows from those of the two. It holds for each position at any time, if clicks are position-based.

    >>> from linmed.log import ListLog
    >>> from linmed.ope import estimate_examination
    >>> shown = {"arms": [[0, 1], [1, 0]] * 50, "probabilities": [[0.5, 1.0]] * 100, "arm_count": [2] * 100}
    >>> log = ListLog.from_table({**shown, "rewards": [[1.0, 1.0], [1.0, 0.0]] * 50})
    >>> found = estimate_examination(log).to_pylist()[1]
    >>> found["estimate"], found["lower"] < 0.5 < found["upper"]
    (0.5, True)
    """
    question = Question(confidence=confidence, missing=missing)
    lists = as_lists(log, question)
    if lists is None or lists.one_reward:
        raise BadValue("log", "log must be a ListLog with rewards by position, or the path of one")
    answers, means = Answers(lists, as_list_target("uniform")), []
    for place in range(lists.placed.shape[1]):
        there = lists.placed[:, place]
        weight, reward = answers.cumulative[there, place], lists.reward[there, place]
        one = ValueSequence(1.0 - (1.0 - confidence) / 2.0, (0.0, 1.0))
        one.add(weight * reward, *value_sides(weight, reward))
        means.append((one.estimate, *one.bounds))
    first = means[0]
    rows = [(0, 1.0, 1.0, 1.0)]
    for place, (estimate, low, high) in enumerate(means[1:], 1):
        ratio = estimate / first[0] if first[0] > 0.0 else math.nan
        rows.append((place, ratio, low / first[2], high / first[1] if first[1] > 0.0 else math.inf))
    names = ("position", "estimate", "lower", "upper")
    return Table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def weights_by_position(lists: Lists, target: Any) -> Iterator[tuple[int, Weights, float]]:
    """Yield each position with its cumulative weights W_j, and the smallest probability that was logged."""
    answers = Answers(lists, as_list_target(target))
    for place in range(lists.placed.shape[1]):
        there = lists.placed[:, place]
        weights = Weights()
        weights.add(answers.cumulative[there, place], lists.reward[there, place])
        yield place, weights, float(lists.probability[there, place].min())


__all__ = ["LIMIT", "NAMES", "ListTarget", "as_list_target", "estimate_examination"]
