"""Has the world changed? What a `Forgetful` policy knows of that, in words and numbers."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from linmed import validation
from linmed.policies.base import Policy
from linmed.policies.half_lives import HalfLife, written
from linmed.report import html
from linmed.report.figures import (
    BOUND,
    LEADING,
    RULED_OUT,
    axes,
    beside,
    height_of,
    keyed,
    name_lines,
    shares,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Adoption", "Alarm", "Drift"]


class Adoption(NamedTuple):
    """A long memory forgot its past and went on from what a shorter one knew.

    >>> from linmed import Agent, Forgetful, LinMED
    >>> agent = Agent(Forgetful(LinMED(sigma=0.1)), dim=1)
    >>> agent.observe([[1.0]] * 60, [0.5] * 30 + [-0.5] * 30)
    >>> [(one.reward, one.half_life, one.source) for one in agent.drift().adoptions][:2]
    [(35, inf, 50.0), (36, 1000.0, 50.0)]
    """

    reward: int
    """After how many rewards."""
    time: float | None
    """When the newest decision was taken, in seconds since 1970; None where nobody told."""
    half_life: HalfLife
    source: HalfLife


class Alarm(NamedTuple):
    """The rewards contradicted that nothing has changed since the test began.

    >>> from linmed import Agent, Forgetful, LinMED
    >>> agent = Agent(Forgetful(LinMED(sigma=0.1)), dim=1)
    >>> agent.observe([[1.0]] * 60, [0.5] * 30 + [-0.5] * 30)
    >>> [alarm.reward for alarm in agent.drift().alarms]
    [36]
    """

    reward: int
    time: float | None
    log_e: float


@dataclass(frozen=True, repr=False)
class Drift:
    """What is known of changes after so many rewards; printed, it is a sentence or two.

    `alarms` are a test with a level: P(ever one while nothing changes) ≤ `alpha`, if `assumes` is true. It
    begins anew after each. `adoptions` are what the policy did about changes, and no test.

    >>> from linmed import Agent, Forgetful, LinMED
    >>> agent = Agent(Forgetful(LinMED(sigma=0.1)), dim=1)
    >>> agent.observe([[1.0]] * 30, [0.5] * 30)
    >>> agent.drift().changed
    False
    >>> agent.observe([[1.0]] * 30, [-0.5] * 30)
    >>> drift = agent.drift()
    >>> drift.changed, drift.count, drift.alarms[0].reward
    (True, 60, 36)
    >>> drift.to_dict()["alarm_count"]
    1

    >>> drift.title
    'the world has changed: alarm at reward 36'
    """

    count: int
    """Rewards so far."""
    weights: dict[HalfLife, float]
    """How much each memory is trusted, the longest first."""
    memory: float
    """How many rewards the estimate that decides has in mind."""
    log_e: float
    """log E since the last alarm: an alarm is raised at log(1/alpha)."""
    alpha: float
    alarm_count: int
    alarms: tuple[Alarm, ...]
    """The last sixteen."""
    adoption_count: int
    adoptions: tuple[Adoption, ...]
    """The last sixteen."""
    assumes: str
    """When the level holds."""
    doubt: str | None = None
    """Why it may not, where the rewards themselves show it."""

    @property
    def changed(self) -> bool:
        """Whether an alarm was ever raised."""
        return self.alarm_count > 0

    def __str__(self) -> str:
        needed = -math.log(self.alpha)
        if self.alarms:
            when = ", ".join(_at(alarm) for alarm in self.alarms[-3:])
            more = f" (the last of {self.alarm_count})" if self.alarm_count > 3 else ""
            found = f"The world has changed: alarm at {when}{more}"
        else:
            found = f"No change in {self.count:,} rewards"
        found += f" (log E is {self.log_e:.3g}, an alarm needs {needed:.3g})."
        heaviest = max(self.weights, key=lambda one: self.weights[one])
        memory = "never forgets" if heaviest == math.inf else f"has a half-life of {_length(heaviest)}"
        found += (
            f" The likeliest memory {memory} (weight {self.weights[heaviest]:.2g}) and has "
            f"{self.memory:,.0f} rewards in mind."
        )
        if self.adoptions:
            last = self.adoptions[-1]
            found += (
                f" Memories took over another's estimate {self.adoption_count:,} times, last at {_at(last)}: "
                f"the one of half-life {written(last.half_life)} that of {written(last.source)}."
            )
        return found + (f" But {self.doubt}." if self.doubt else "")

    def __repr__(self) -> str:
        known = f"{self.alarm_count} alarms" if self.changed else "no alarm"
        return f"Drift({known} in {self.count} rewards, log_e={self.log_e:.6g}, memory={self.memory:.6g})"

    def _repr_html_(self) -> str:
        assumed = f"Level {self.alpha:g}, assumed: {self.assumes}."
        return html.paragraph(str(self)) + html.paragraph(assumed, small=True)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw alarms and restarts of memories, and how much each memory is trusted. Returns the axes.

        Of alarms and of new beginnings the last sixteen are known.
        """
        memories = list(self.weights)
        heaviest = max(memories, key=lambda one: self.weights[one])
        colours = [LEADING if one == heaviest else RULED_OUT for one in memories]
        with styled():
            ax = axes(ax, height_of(len(memories)))
            for alarm in self.alarms:
                ax.axvline(alarm.reward, color=BOUND.light, linewidth=1.4)
            for place, one in enumerate(memories):
                began = [event.reward for event in self.adoptions if event.half_life == one]
                ax.plot([0, max(self.count, 1)], [place, place], color=colours[place], linewidth=1.2)
                ax.plot(began, [place] * len(began), "o", color=colours[place], markersize=5)
            name_lines(ax, ["never forgets" if one == math.inf else _length(one) for one in memories])
            ax.set_xlim(0, max(self.count, 1))
            ax.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
            ax.set_ylabel("half-life")
            ax.set_title(self.title, loc="left")
            side = beside(ax, keyed(ax, "rewards", "red line: an alarm · dot: the memory restarted"))
            shares(side, list(self.weights.values()), colours, "weight")
        return ax

    @property
    def title(self) -> str:
        """What is known in half a line."""
        if not self.alarms:
            return (
                f"no change in {self.count:,} rewards (log E {self.log_e:.2g} of {-math.log(self.alpha):.2g})"
            )
        more = f" (the last of {self.alarm_count})" if self.alarm_count > 1 else ""
        return f"the world has changed: alarm at reward {self.alarms[-1].reward:,}{more}"

    def to_dict(self) -> dict[str, Any]:
        """Give everything as JSON-ready values."""
        return {
            "sentence": str(self),
            "changed": self.changed,
            "count": self.count,
            "memory": self.memory,
            "weights": [
                {"half_life": written(half_life), "weight": weight}
                for half_life, weight in self.weights.items()
            ],
            "log_e": self.log_e,
            "alarm_at": -math.log(self.alpha),
            "alpha": self.alpha,
            "alarm_count": self.alarm_count,
            "alarms": [alarm._asdict() for alarm in self.alarms],
            "adoption_count": self.adoption_count,
            "adoptions": [
                {**one._asdict(), "half_life": written(one.half_life), "source": written(one.source)}
                for one in self.adoptions
            ],
            "assumes": self.assumes,
            "doubt": self.doubt,
        }


def drift_of(policy: Policy, state: Any, replica: int = 0) -> Drift:
    """Find out what a state of this policy knows of changes."""
    if not policy.capabilities.drift:
        raise validation.BadValue(
            "policy",
            f"policy must be Forgetful for this: Forgetful({policy.name}) watches for changes, {policy.name} "
            "does not",
        )
    watching, state = policy.watching(state)
    memories, kept = watching.half_lives, watching.kept
    items, doubt = policy.capabilities.per_item, kept.doubt(state, replica)
    if items and not kept.bounded:
        doubt = (
            "there may always be another item of which nothing is known, so no alarm can be raised unless "
            "sigma and norm_bound are told"
        )
    weights = state.weight[replica].reshape(len(memories), -1).sum(axis=1)
    adopted, alarmed = (int(n) for n in state.happened[replica])
    return Drift(
        count=int(state.rewards[replica]),
        weights=dict(zip(memories, weights.tolist(), strict=True)),
        memory=float(watching.estimate(state).count[replica]),
        log_e=float(state.evidence[replica]),
        alpha=watching.alarm,
        alarm_count=alarmed,
        alarms=tuple(
            Alarm(int(number), time or None, log_e)
            for number, time, log_e in _last(state.alarms[replica], alarmed)
        ),
        adoption_count=adopted,
        adoptions=tuple(
            Adoption(int(number), time or None, memories[int(who)], memories[int(source)])
            for number, time, who, source in _last(state.adoptions[replica], adopted)
        ),
        assumes=f"{kept.assumes('one θ for each item, all together' if items else 'one θ')} and whether a "
        "reward comes late does not depend on it",
        doubt=doubt,
    )


def _last(rows: Any, count: int) -> list[list[float]]:
    """Take the rows of a ring that has taken so many, oldest first."""
    kept = min(count, len(rows))
    last: list[list[float]] = rows[np.arange(count - kept, count) % len(rows)].tolist()
    return last


def _at(event: Alarm | Adoption) -> str:
    when = f"reward {event.reward:,}"
    if event.time is None:
        return when
    return f"{when} ({datetime.fromtimestamp(event.time, UTC):%Y-%m-%d %H:%M})"


def _length(half_life: HalfLife) -> str:
    return half_life if isinstance(half_life, str) else f"{half_life:g} rewards"
