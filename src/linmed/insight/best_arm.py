"""The verdict: which arms can still be best, by how much another could be better, and when to stop.

With a fixed δ the confidence set ‖θ* − θ̂‖ ≤ √β in V holds at all times at once with probability 1 − δ,
whoever chose the arms. As long as it does, ⟨θ*, a − a′⟩ lies in Δ̂ ± √β‖a − a′‖ in V⁻¹ for every two arms at
every time: an arm that is surely worse than the empirically best one is dropped, and one may look whenever
one likes.
"""

import dataclasses
import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from linmed import validation
from linmed.core import core
from linmed.files import read_arrays, write_arrays
from linmed.insight.assumptions import Repeats, contradiction
from linmed.policies import Policy
from linmed.policies.compiled import set_of
from linmed.policies.posterior import Grounds
from linmed.policies.worth import Worth
from linmed.report import html
from linmed.report.figures import (
    LEADING,
    POSSIBLE,
    RULED_OUT,
    Estimate,
    axes,
    height_of,
    intervals,
    keyed,
    shortened,
    styled,
)
from linmed.validation import BadType, BadValue, Bools, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Difference", "Verdict", "VerdictWarning", "Verdicts"]

DELTA = 0.05
UNDECIDED, CONTRADICTED = -1, -2
"""In place of a winner."""
FORMAT = 1
"""Version of the file that `Verdicts.save` writes."""
_LISTED = 8  # candidates that a sentence names
_KEY = "blue: the best so far · orange: can still be the best · grey: ruled out"
_DRAWN = 20  # arms in a picture


class VerdictWarning(UserWarning):
    """What was seen contradicts what was assumed.

    >>> import warnings
    >>> from linmed import Agent, LinMED, Verdicts
    >>> arms = [[1.0, 0.0], [0.0, 1.0]]
    >>> agent, verdicts = Agent(LinMED(sigma=0.1), dim=2), Verdicts(arms)
    >>> for rewards in ([0.9, 0.4], [-5.0, 0.9]):  # the world changes, which the confidence set rules out
    ...     agent.observe(arms * 20, rewards * 20)
    ...     with warnings.catch_warnings(record=True) as said:
    ...         warnings.simplefilter("always", VerdictWarning)
    ...         print(verdicts.look(agent).refuted is not None, len(said))
    False 0
    True 1
    """


class Difference(NamedTuple):
    """How much better one arm is than another, with an interval that holds at all times at once.

    >>> from linmed import Agent, LinMED
    >>> arms = [[1.0, 0.0], [0.0, 1.0]]
    >>> agent = Agent(LinMED(sigma=0.1), dim=2)
    >>> agent.observe(arms * 20, [0.9, 0.4] * 20)
    >>> [round(value, 3) for value in agent.verdict(arms).difference(0, 1)]
    [0.5, 0.323, 0.677]
    """

    estimate: float
    lower: float
    upper: float


@dataclass(frozen=True, eq=False, repr=False)
class Verdict:
    """What is known about a set of arms. Printed, it is a sentence.

    All that it says holds with probability 1 − δ, together with what every other verdict of the same δ on the
    same data says, whatever the arms, whenever one looks and however the arms were chosen: if it is `proved`.

    >>> from linmed import Agent, LinMED
    >>> arms = [[1.0, 0.0], [0.0, 1.0]]
    >>> agent = Agent(LinMED(sigma=0.1), dim=2)
    >>> agent.observe(arms * 20, [0.9, 0.4] * 20)
    >>> verdict = agent.verdict(arms)
    >>> verdict
    Verdict(decided, best=0, candidates=(0,), margin=-0.322589)
    >>> print(verdict.sentence(["the old page", "the new one"]))
    the old page is the best (95 % confidence after 40 rewards): the other arm is worse, by 0.323 at least.
    >>> verdict.arms, verdict.proved, verdict.doubt, verdict.unit
    (2, True, None, '')
    >>> verdict.assumes.split(", ")[0]
    'rewards are linear in the features'
    >>> verdict.estimates.round(3), round(verdict.difference(0, 1).lower, 3)
    (array([0.9, 0.4]), 0.323)
    >>> [round(gap.estimate, 3) for gap in verdict.differences()]
    [0.0, 0.5]
    """

    best: int
    """The arm with the largest estimate; once an arm has won, that one."""
    candidates: tuple[int, ...]
    """The arms that can still be the best."""
    margin: float
    """How much better another arm can be than `best`, at most: max √β‖â − a‖ − Δ̂(a) over other candidates.

    Negative: `best` is better than all others, by that at least. −inf if there are no others, inf while
    nothing is known.
    """
    decided: bool
    """Whether `best` is the best arm or at most `epsilon` worse: one candidate left, or margin ≤ epsilon."""
    delta: float
    epsilon: float
    count: int
    """Rewards behind it."""
    contradicted: bool = False
    """Whether looks at the same arms have ruled out all of them: most likely what is assumed is wrong."""
    radius: float = field(default=math.inf, kw_only=True)
    """√β."""
    refuted: str | None = field(default=None, kw_only=True)
    """What the rewards have against what is assumed, where they refute it: then there is no verdict."""
    _grounds: Grounds = field(kw_only=True)
    _theta: Floats = field(kw_only=True)  # (d,), with V⁻¹ (d,d) and the arms (K,d) as they were …
    # … or, with a model for each item, ⟨θ̂, a⟩ (K,), a·V⁻¹·a′ (K,K) and unit vectors
    _inverse: Floats = field(kw_only=True)
    _arms: Floats = field(kw_only=True)
    _base: float = field(default=0.0, kw_only=True)  # the intercept of a ridge estimate
    unit: str = field(default="", kw_only=True)
    """What estimates, differences and margins are in, where that is not the rewards' own unit."""

    @property
    def doubt(self) -> str | None:
        """Why this is no proof; None where it is one."""
        return self._grounds.doubt if self.refuted is None else self.refuted

    @property
    def assumes(self) -> str:
        """What the proof takes for granted."""
        return self._grounds.sentence

    @property
    def proved(self) -> bool:
        """Whether it holds with probability 1 − δ if what it `assumes` is so."""
        return self.doubt is None

    @property
    def arms(self) -> int:
        """How many arms were asked about."""
        return len(self._arms)

    @property
    def estimates(self) -> Floats:
        """⟨θ̂, a⟩ of every arm (K,); for clicks and counts without the intercept."""
        means = np.empty(self.arms)
        core.estimate_arms(self._theta, self._arms, means)
        means += self._base
        return means

    def difference(self, arm: int, other: int) -> Difference:
        """Estimate how much more `arm` pays than `other`: Δ̂ ± √β‖a − a′‖."""
        pair = [self._index("arm", arm), self._index("other", other)]
        gaps, widths = self._against(0, self._arms[pair])
        gap, width = float(gaps[1]), float(widths[1])
        return Difference(gap, gap - width, gap + width)

    def differences(self) -> list[Difference]:
        """Estimate how much less than `best` every arm pays."""
        gaps, widths = self._against(self.best, self._arms)
        return [
            Difference(gap, gap - width, gap + width)
            for gap, width in zip(gaps.tolist(), widths.tolist(), strict=True)
        ]

    def sentence(self, names: Sequence[str] | None = None) -> str:
        """Say the verdict in words; `names` are those of the arms."""
        called = self._called(names)
        after = "1 reward" if self.count == 1 else f"{self.count:,} rewards"
        if self.refuted is not None and not self.contradicted:
            return f"No verdict after {after}: {self.refuted}."
        if self.contradicted:
            return (
                f"CONTRADICTION after {after}: looks at these {self.arms} arms have ruled out every one of "
                f"them. If {self.assumes}, that happens with probability {self.delta:g} at most: most likely "
                "it is not so, and there is no verdict."
            )
        others, best = self.arms - 1, called[self.best]
        if others == 0:
            return f"There is one arm only, {best}: nothing is to be decided."
        sure = f"{100 * (1 - self.delta):.12g} % confidence"
        known = f"{sure if self.proved else f'meant for {sure} but not proved'} after {after}"
        if self.decided:
            begin = best.capitalize() if names is None else best
            if self.margin > 0.0:
                most = self._by(self.margin)
                return f"{begin} is good enough ({known}): no arm is better by more than {most}."
            worse = "no other arm is better"
            if self.margin < 0.0:
                worse = "the other arm is worse" if others == 1 else f"each of the {others} others is worse"
                worse += f", by {self._by(-self.margin)} at least"
            return f"{begin} is the best ({known}): {worse}."
        count = len(self.candidates)
        every = "both arms" if count == 2 else f"all {count} arms"
        left = every if count == self.arms else f"{count} of {self.arms} arms"
        if math.isinf(self.margin):
            why = "too little is known"
            if self._grounds.unbounded:
                why = 'norm_bound is "unknown", and too little of some direction of the features'
            return f"Not yet decided: {left} can still be the best, for {why} after {after}."
        listed = ", ".join(called[i] for i in self.candidates[:_LISTED])
        more = f" and {count - _LISTED} more" if count > _LISTED else ""
        return (
            f"Not yet decided ({known}): {left} can still be the best ({listed}{more}). So far {best} leads; "
            f"another may be better by up to {self._by(self.margin)}."
        )

    def _called(self, names: Sequence[str] | None) -> list[str]:
        if names is not None and (isinstance(names, str) or not hasattr(names, "__len__")):
            raise BadType("names", f"names must be a list of {self.arms} names, got {names!r}")
        called = [f"arm {i}" for i in range(self.arms)] if names is None else [str(name) for name in names]
        if len(called) != self.arms:
            raise BadValue("names", f"names must be {self.arms}, one for each arm, got {len(called)}")
        return called

    def plot(self, ax: "Axes | None" = None, names: Sequence[str] | None = None) -> "Axes":
        """Draw how each arm compares with `best`: the difference and its interval. Returns the axes.

        Blue: `best`; orange: what can still be the best, whose line reaches beyond zero; grey: ruled out. Of
        many arms the first twenty by their estimate are shown.
        """
        called, possible = self._called(names), set(self.candidates)
        estimates = self.estimates
        order = sorted(range(self.arms), key=lambda i: (i != self.best, -estimates[i], i))[:_DRAWN]
        gaps, widths = self._against(self.best, self._arms)
        rows = [
            Estimate(
                called[i], -gaps[i], -gaps[i] - widths[i], -gaps[i] + widths[i],
                LEADING if i == self.best else POSSIBLE if i in possible else RULED_OUT,
            )
            for i in order
        ]  # fmt: skip
        with styled():
            ax = axes(ax, height_of(len(rows)))
            intervals(ax, rows, zero=True)
            sure = f"{100 * (1 - self.delta):.12g} % interval{'' if self.proved else ', not proved'}"
            unit = f",{self.unit}" if self.unit else ""
            best = shortened(called[self.best])
            ax.set_xlabel(keyed(ax, f"how much more than {best} it pays{unit} ({sure})", _KEY))
            state = "decided" if self.decided else "contradicted" if self.contradicted else "not yet decided"
            state = state if self.refuted is None else "no verdict: what is assumed is refuted,"
            left = f"; {self.arms - len(rows):,} more arms" if self.arms > len(rows) else ""
            ax.set_title(f"{state} after {self.count:,} rewards{left}", loc="left")
        return ax

    def _by(self, amount: float) -> str:
        return f"{amount:.3g}{self.unit}"

    def _index(self, name: str, value: int) -> int:
        place = validation.whole(name, value, at_least=0)
        if place >= self.arms:
            raise BadValue(name, f"{name} must be below {self.arms}, the number of arms, got {value!r}")
        return place

    def _against(self, first: int, arms: Floats) -> tuple[Floats, Floats]:
        """Gaps and half-widths (K,) of arm `first` against all of arms (K,d)."""
        gaps, widths = np.empty(len(arms)), np.empty(len(arms))
        core.compare_arms(self._theta, self._inverse, self.radius, arms, first, gaps, widths)
        return gaps, widths

    def __str__(self) -> str:
        return self.sentence()

    def _repr_html_(self) -> str:
        """Write the sentence, and what it assumes."""
        return self.html()

    def html(self, names: Sequence[str] | None = None) -> str:
        """Write the sentence and what it assumes for a notebook; `names` are those of the arms.

        >>> from linmed import Agent, LinMED
        >>> "<p" in Agent(LinMED(), dim=1).verdict([[1.0], [0.5]]).html()
        True
        """
        doubt = "" if self.doubt is None else f" Not proved: {self.doubt}."
        assumed = f"Assumed: {self.assumes}.{doubt}"
        return html.paragraph(self.sentence(names)) + html.paragraph(assumed, small=True)

    def __repr__(self) -> str:
        known = "decided" if self.decided else "contradicted" if self.contradicted else "undecided"
        known = known if self.refuted is None or self.contradicted else "refuted"
        left = self.candidates if len(self.candidates) <= _LISTED else f"{len(self.candidates)} arms"
        return f"Verdict({known}, best={self.best}, candidates={left}, margin={self.margin:.6g})"


def judge(policy: Policy, delta: float) -> Any:
    """Make the policy whose confidence set has the fixed δ that verdicts after every reward need."""
    if policy.capabilities.per_item:
        raise BadType(
            "policy",
            "policy: verdicts after every reward are for one model of all arms, not for "
            f"{type(policy).__name__}; an agent with this policy has a verdict whenever it is asked",
        )
    return looker(policy, delta)


@lru_cache(maxsize=64)
def looker(policy: Policy, delta: float) -> Any:
    """Make the same for `look`, which needs no state of its own: also with a model for each item."""
    return policy.with_delta(validation.strictly_between("delta", delta, 0.0, 1.0))


def follower(judge: Any, state: Any) -> Callable[..., None]:
    """Bind a function that absorbs rewards and looks at the arms after each: `core.follow`, from arms on."""
    return partial(core.follow, judge.bind(state), set_of(judge, state))


def look(
    by: Policy,
    state: Any,
    arms: Floats,
    epsilon: float = 0.0,
    repeats: Repeats | None = None,
    worth: Worth | None = None,
) -> Verdict:
    """Find the verdict on arms (K,d), checked, by a state of one replica and the set of a `judge`.

    `repeats`, where somebody kept them, tell whether rewards are linear in the features.
    """
    epsilon = validation.between("epsilon", epsilon, 0.0, validation.LARGEST)
    seen = by.posterior(state)
    assert seen is not None
    delta = seen.grounds.delta
    assert delta is not None
    radius = math.inf if math.isnan(seen.radius) else seen.radius
    theta, inverse, offered = seen.compared(arms)
    if worth is not None:
        values, costs = worth.both(len(arms))
        if seen.link is not None or (seen.intercept and np.ptp(values) > 0.0):
            text = "verdicts on utility are for linear rewards, without an intercept where values differ"
            raise BadValue("costs" if worth.values is None else "values", f"costs: {text}")
        # Each arm is (v a, −c) and θ ends with a 1 that is known.
        offered = np.column_stack([offered * values[:, None], -costs])
        theta, inverse = np.append(theta, 1.0), np.pad(inverse, (0, 1))
    possible = np.ones(len(arms), dtype=np.bool_)
    best, margin, left = core.look_once(theta, inverse, radius, offered, UNDECIDED, epsilon, possible)
    against = contradiction(seen, delta, repeats) if len(arms) > 1 else None
    base = (seen.base or 0.0) if seen.link is None else 0.0
    found = Verdict(
        best, tuple(possible.nonzero()[0].tolist()), margin, left == 1 or margin <= epsilon, delta, epsilon,
        seen.count, radius=radius, _grounds=seen.grounds, _theta=theta, _inverse=inverse, _arms=offered,
        _base=base, unit=seen.unit,
    )  # fmt: skip
    return found if against is None else _refused(found, against)


def _refused(found: Verdict, why: str) -> Verdict:
    """Turn a verdict into none: every arm can be the best, by any amount."""
    every = tuple(range(found.arms))
    return dataclasses.replace(
        found, refuted=why, candidates=every, margin=math.inf, decided=False, radius=math.inf
    )


class Watch:
    """Looks over an agent's shoulder: keeps what repeats, and warns once if the rewards refute what is told.

    It looks after 16, 32, 64, … rewards. Of what is right it says so with probability `LEVEL` at most.
    """

    LEVEL, FIRST, LARGEST = 0.001, 4, 256

    def __init__(self, policy: Policy) -> None:
        self.policy, self.repeats, self.rewards, self.told = policy, Repeats(), 0, False

    def hears_one(self, dim: int) -> bool:
        """Count a reward that was noted; whether it is time to look."""
        n = self.rewards = self.rewards + 1
        return n & (n - 1) == 0 and self._due(n - 1, dim)

    def see_all(self, features: Floats, rewards: Floats) -> bool:
        """Note the rewards of features (n,d); whether it is time to look."""
        self.repeats.add_all(features, rewards)
        self.rewards += len(rewards)
        return self._due(self.rewards - len(rewards), features.shape[1])

    def _due(self, before: int, dim: int) -> bool:
        passed = before.bit_length() < self.rewards.bit_length() > self.FIRST
        return passed and not self.told and dim <= self.LARGEST

    def look(self, state: Any) -> str | None:
        """Say what the rewards have against what is assumed, or None."""
        return contradiction(self.policy.posterior(state), self.LEVEL, self.repeats)

    def warn(self, state: Any) -> None:
        """Say so, once."""
        found = self.look(state)
        if found is not None:
            self.told = True
            message = f"{self.policy.name} after {int(state.count[0]):,} rewards: {found}."
            warnings.warn(message, VerdictWarning, stacklevel=3)


def watch(policy: Policy) -> Watch | None:
    """Make a watch for a policy whose decisions rest on a ridge estimate and its confidence set."""
    return Watch(policy) if policy.capabilities.refutable and policy.learns_from_arms else None


class _Judged(Protocol):
    def verdict(self, arms: ArrayLike, delta: float = ..., epsilon: float = ...) -> Verdict:
        """Find a verdict, as `Agent.verdict` does."""


class Verdicts:
    """The same question asked again and again: what one look has ruled out stays out, and a winner stays.

    All looks hold at once with probability 1 − δ, so an arm that was ruled out once is not the best one.
    Where nothing is left, the data contradict the assumptions: then every look says so, and the first one
    warns.

    >>> from linmed import Agent, Pinpoint
    >>> arms = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]
    >>> agent, verdicts = Agent(Pinpoint(sigma=0.1), dim=2, seed=1), Verdicts(arms)
    >>> while not verdicts.look(agent).decided:
    ...     decision = agent.decide(arms)
    ...     agent.learn(decision, reward=[0.3, 0.6, 0.66][decision.arm])
    >>> print(verdicts.look(agent))
    Arm 2 is the best (95 % confidence after 60 rewards): each of the 2 others is worse, by 9.49e-05 at least.
    """

    def __init__(self, arms: ArrayLike, delta: float = DELTA, epsilon: float = 0.0) -> None:
        self.arms = validation.arm_matrix(arms).copy()
        self.delta = validation.strictly_between("delta", delta, 0.0, 1.0)
        self.epsilon = validation.between("epsilon", epsilon, 0.0, validation.LARGEST)
        self._possible: Bools = np.ones((1, len(self.arms)), dtype=np.bool_)
        self._winner = np.full(1, UNDECIDED)
        self._decided = np.zeros(1, dtype=np.int64)
        self._margin = math.inf  # of the winner
        self._count = 0
        self._set: str | None = None  # the confidence set of all looks
        self._refuted: str | None = None
        self._repeats = Repeats()  # of what `learn` was given

    @property
    def decided_after(self) -> int | None:
        """How many rewards there were when a winner was first seen; None while there is none."""
        return int(self._decided[0]) if self._winner[0] >= 0 and self._refuted is None else None

    def look(self, agent: _Judged) -> Verdict:
        """Find the verdict of all looks so far and this one. The agent's data must be the same, or more."""
        if not hasattr(agent, "verdict"):
            raise BadType("agent", f"agent must be an Agent, got {agent!r}")
        return self._with(agent.verdict(self.arms, self.delta, self.epsilon))

    def learn(self, policy: Policy, state: Any, features: Floats, rewards: Floats) -> Verdict:
        """Absorb rewards into a policy's state of one replica and look after each; the verdict at the end.

        features (n,d) and rewards (n,), in the form of `validation.for_kernels`.
        """
        by = judge(policy, self.delta)
        by.check_rewards(rewards)
        self._same(by.grounds(0).set_name, int(state.count[0]))
        times = np.arange(self._count + 1, self._count + 1 + len(rewards))
        before = self._winner[0]
        follower(by, state)(
            self.arms[None], features, rewards, np.zeros(len(rewards), dtype=np.int64), times, self.epsilon,
            False, self._possible, self._winner, self._decided,
        )  # fmt: skip
        if self._winner[0] == CONTRADICTED != before:
            self._winner[0] = before  # which `_with` finds out, and says
        if by.capabilities.refutable:
            self._repeats.add_all(features, rewards)
        return self._with(look(by, state, self.arms, self.epsilon, self._repeats))

    def _same(self, own: str, count: int) -> None:
        """Check that a look by this set at so many rewards goes on from the earlier ones."""
        if self._set not in (None, own):
            raise BadValue(
                "agent", f"agent: earlier looks had the set {self._set}, this has {own}: begin anew"
            )
        if count < self._count:
            raise BadValue(
                "agent",
                f"agent: it has {count:,} rewards, an earlier look had {self._count:,}: looks must be at the "
                "same data as they grow",
            )
        self._set, self._count = own, count

    def _with(self, seen: Verdict) -> Verdict:
        """Combine one more look with the earlier ones."""
        self._same(seen._grounds.set_name, seen.count)
        winner = int(self._winner[0])
        best, margin, left = core.look_once(
            seen._theta, seen._inverse, seen.radius, seen._arms, winner, self.epsilon, self._possible[0]
        )
        if left == 0:
            verdict = dataclasses.replace(seen, candidates=(), decided=False, contradicted=True)
            if winner != CONTRADICTED:
                self._winner[0], self._decided[0] = CONTRADICTED, seen.count
                warnings.warn(str(verdict), VerdictWarning, stacklevel=3)
            return verdict
        if seen.refuted is not None and self._refuted is None:
            self._refuted = seen.refuted
            warnings.warn(str(seen), VerdictWarning, stacklevel=3)
        if self._refuted is not None:
            return _refused(seen, seen.refuted or self._refuted)
        if winner == UNDECIDED and (left == 1 or margin <= self.epsilon):
            self._winner[0], self._decided[0] = best, seen.count
        decided = bool(self._winner[0] >= 0)
        if decided:  # what was once known of the winner stays known
            margin = self._margin = min(margin, self._margin)
        candidates = tuple(self._possible[0].nonzero()[0].tolist())
        return dataclasses.replace(seen, best=best, candidates=candidates, margin=margin, decided=decided)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, atomically, without pickle."""
        meta = {
            "format": FORMAT, "delta": self.delta, "epsilon": self.epsilon, "winner": int(self._winner[0]),
            "decided": int(self._decided[0]), "margin": self._margin, "count": self._count, "set": self._set,
            "refuted": self._refuted,
        }  # fmt: skip
        arrays = {"arms": self.arms, "possible": self._possible, **self._repeats.to_dict()}
        write_arrays(Path(path), meta, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Verdicts":
        """Read what `save` wrote."""
        otherwise = "holds no verdicts of linmed"
        meta, arrays = read_arrays(Path(path), otherwise)
        try:
            if meta["format"] != FORMAT:
                raise ValueError(f"format {meta['format']}; this release of linmed reads format {FORMAT}")
            verdicts, possible = cls(arrays["arms"], meta["delta"], meta["epsilon"]), arrays["possible"]
            if possible.shape != verdicts._possible.shape or possible.dtype != np.bool_:
                raise ValueError(f"possible of shape {possible.shape} for {len(verdicts.arms)} arms")
            verdicts._possible = possible.copy()
            verdicts._winner[0] = validation.whole("winner", meta["winner"], at_least=CONTRADICTED)
            verdicts._decided[0] = validation.whole("decided", meta["decided"], at_least=0)
            verdicts._margin, verdicts._count = float(meta["margin"]), int(meta["count"])
            verdicts._set, verdicts._refuted = meta["set"], meta.get("refuted")
            verdicts._repeats = Repeats.from_dict(arrays, verdicts.arms.shape[1])
            if verdicts._winner[0] >= len(verdicts.arms):
                raise ValueError(f"winner {verdicts._winner[0]} of {len(verdicts.arms)} arms")
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} {otherwise}, or it is damaged ({error})") from None
        return verdicts
