"""Why this arm? What a policy believes of every arm, how sure it is, and what comes of that.

All is read off the state: no random number is drawn and nothing is learned by being asked.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from linmed import validation
from linmed.decision import Decision
from linmed.insight.assumptions import Repeats
from linmed.insight.estimates import Assurance, Outlook, assurance, outlook
from linmed.policies import Policy
from linmed.policies.worth import Worth
from linmed.report import html
from linmed.report.figures import (
    LEADING,
    POSSIBLE,
    RULED_OUT,
    Estimate,
    axes,
    beside,
    height_of,
    intervals,
    keyed,
    name_lines,
    percent,
    shares,
    styled,
)
from linmed.report.tables import Table
from linmed.validation import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Contribution", "Explanation"]

TOP = 10
"""Arms that are shown, the likeliest first."""
_TOLD = 5  # arms in a text
_CAUSES = 3  # contributions in a text
_KEY = "blue: looks best · orange: may be better · grey: worse"


class Contribution(NamedTuple):
    """What one feature adds to an arm's estimate: its value times its weight θ̂.

    >>> from linmed import Agent, LinMED
    >>> agent = Agent(LinMED(sigma=0.1), dim=2)
    >>> agent.observe([[1.0, 0.0], [0.0, 1.0]] * 20, [0.9, 0.4] * 20)
    >>> most = agent.explain([[1.0, 0.5], [0.2, 0.1]], features=["price", "size"]).contributions(0)[0]
    >>> most.feature, most.value, round(most.weight, 2), round(most.amount, 2)
    ('price', 1.0, 0.9, 0.9)
    """

    feature: str
    value: float
    weight: float
    amount: float


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Why this arm: every arm's probability, estimate and interval. Printed, it is a few lines.

    In a notebook it is a table; `plot` draws it.

    >>> from linmed import Agent, LinMED
    >>> arms = [[1.0, 0.0], [0.0, 1.0]]
    >>> agent = Agent(LinMED(sigma=0.1), dim=2)
    >>> agent.observe(arms * 20, [0.9, 0.4] * 20)
    >>> why = agent.explain(arms, names=["tea", "coffee"], features=["leaves", "beans"])
    >>> why.best, why.order, [cause.feature for cause in why.contributions("tea")]
    (0, [0, 1], ['leaves'])
    >>> why.sentence().endswith("The other arm is surely worse.")
    True
    >>> why.table().column_names
    ['arm', 'probability', 'estimate', 'lower', 'upper', 'gain']
    """

    policy: str
    count: int
    """Rewards behind it."""
    arm: int
    """The arm that is explained: the likeliest, unless another was asked for."""
    names: tuple[str, ...]
    """Of the arms (K,)."""
    probabilities: Floats
    """With which each would be played now (K,)."""
    errors: Floats | None
    """Their standard errors (K,) where they are integrals; None where they are exact."""
    outlook: Outlook | None
    """Estimates and intervals; None where the policy keeps none."""
    assurance: Assurance
    """What the intervals are worth."""
    top: int = TOP
    """How many arms are shown."""
    _arms: Floats = field(kw_only=True)
    _features: tuple[str, ...] = field(kw_only=True)
    _named: bool = field(kw_only=True)

    @property
    def best(self) -> int | None:
        """The arm with the largest estimate; None where there are no estimates."""
        return None if self.outlook is None else self.outlook.best

    @property
    def order(self) -> list[int]:
        """The arms that are shown, the likeliest first, and the one that is explained among them."""
        rank = self.outlook.estimates if self.outlook is not None else np.zeros(len(self.names))
        order: list[int] = np.lexsort((-rank, -self.probabilities))[: self.top].tolist()
        return order if self.arm in order else [*order[:-1], self.arm]

    def contributions(self, arm: Any = None, most: int | None = None) -> list[Contribution]:
        """List what every feature adds to an arm's estimate, if anything, the largest first.

        They sum to the estimate; for clicks to its log-odds, for counts to its logarithm. None of a policy
        without estimates.
        """
        place = self.arm if arm is None else _asked(arm, self.names, self._named)
        if self.outlook is None:
            return []
        weights, values = self.outlook.weights[self.outlook.rows[place]], self._arms[place]
        amounts = weights * values
        found = [
            Contribution(self._features[j], float(values[j]), float(weights[j]), float(amounts[j]))
            for j in np.flatnonzero(amounts).tolist()
        ]
        if self.outlook.base is not None:
            found.append(Contribution("base rate", 1.0, self.outlook.base, self.outlook.base))
        return sorted(found, key=lambda one: -abs(one.amount))[:most]

    def table(self, top: int | None = None) -> Table:
        """Make a row for each arm that is shown: arm, probability and, where there are estimates, estimate,
        lower, upper and gain: how much better than the best-looking one it can be, at most. Where arms have
        values and costs, these are of the utility, and reward, value and cost come with them.
        """
        return Table(self._row(i) for i in self.order[:top])

    def _row(self, i: int) -> dict[str, Any]:
        row: dict[str, Any] = {"arm": self.names[i], "probability": float(self.probabilities[i])}
        if self.errors is not None:
            row["error"] = float(self.errors[i])
        if self.outlook is not None:
            priced = ("rewards", "values", "costs") if self._priced else ()
            for name in (*priced, "estimates", "lower", "upper", "gains"):
                row[name.removesuffix("s")] = float(getattr(self.outlook, name)[i])
        return row

    def sentence(self) -> str:
        """Say why this arm, in a sentence or two."""
        name, chance = self.names[self.arm], percent(float(self.probabilities[self.arm]))
        said = f"{name if self._named else name.capitalize()} would be played with probability {chance}"
        if self.outlook is None:
            return f"{said}; {self.policy} keeps no estimates that would tell why."
        if len(self.names) == 1:
            return f"{said}: it is the only one."
        about, best = self._about(self.arm), self.outlook.best
        if self.arm != best:
            return f"{said}: it is estimated at {about}, {self._against(self.arm)}."
        others = np.where(np.arange(len(self.names)) == best, -np.inf, self.outlook.gains)
        rival, rivals = int(others.argmax()), int((others > 0.0).sum())
        said += f": it looks best, estimated at {about}."
        if rivals == 0:
            alone = "The other arm is" if len(self.names) == 2 else "All others are"
            return f"{said} {alone} {self._surely} worse."
        chance = percent(float(self.probabilities[rival]))
        most = f"{self.names[rival]}: {_by(others[rival])}; it is played with {chance}"
        if rivals == 1:
            return f"{said} The only one that may be better is {most}."
        return f"{said} {rivals:,} others may be better, most of all {most}."

    def _against(self, arm: int) -> str:
        """Compare an arm with the one that looks best."""
        assert self.outlook is not None
        best, gain = self.outlook.best, float(self.outlook.gains[arm])
        gap = float(self.outlook.estimates[best] - self.outlook.estimates[arm])
        behind = f"{gap:.3g} less than {self.names[best]}" if gap else f"as {self.names[best]} is"
        if gain > 0.0:
            return f"{behind}, but may be better {_by(gain)}"
        return f"{behind}, and is {self._surely} worse" + (f", by {-gain:.3g} at least" if gain else "")

    def __str__(self) -> str:
        shown = min(_TOLD, self.top)
        lines = [self.sentence()]
        if self.outlook is not None and self._causes(self.arm):
            lines.append(f"W{self._counts[1:]}: {self._causes(self.arm)}.")
        if len(self.names) > 1:
            lines += ["", str(self.table(shown))]
            rest = self._rest(self.order[:shown])
            lines += [rest, ""] if rest else [""]
        lines += self._notes
        return "\n".join(lines).rstrip()

    def __repr__(self) -> str:
        best = "" if self.best is None else f", best={self.best}"
        likely = f"arm={self.arm}, probability={self.probabilities[self.arm]:.6g}"
        return f"Explanation({self.policy}, {len(self.names)} arms{best}, {likely})"

    def _repr_html_(self) -> str:
        headings, rows = ["arm", "probability", ""], []
        if self.outlook is not None:
            headings += ["utility", "reward", "value", "cost"] if self._priced else ["estimate"]
            headings += ["interval", "may be better", self._counts]
        for i in self.order:
            chance = float(self.probabilities[i])
            row: list[Any] = [self.names[i], percent(chance), html.bar(chance)]
            if self.outlook is not None:
                gain = float(self.outlook.gains[i])
                told = "looks best" if i == self.best else _by(gain) if gain > 0.0 else "—"
                causes = ", ".join(
                    f"{one.feature} {one.amount:+.3g}" for one in self.contributions(i, _CAUSES)
                )
                row += [f"{self.outlook.estimates[i]:.{self._digits(i)}g}", *self._price(i)]
                row += [self._between(i), told, causes]
            rows.append(row)
        words = (0, 2, len(headings) - 1)
        parts = [html.paragraph(self.sentence()), html.table(headings, rows, words=words)]
        parts += [
            html.paragraph(words, small=True) for words in [self._rest(self.order), *self._notes] if words
        ]
        return "".join(parts)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw every arm's estimate and interval, and beside them its probability. Returns the axes.

        Blue: what looks best; orange: what may be better; grey: what is worse.
        """
        order = self.order
        chances = [float(self.probabilities[i]) for i in order]
        colours = [self._colour(i) for i in order]
        with styled():
            ax = axes(ax, height_of(len(order)))
            label = "probability"
            if self.outlook is None:
                shares(ax, chances, colours, label, room=1.2)
                name_lines(ax, [self.names[i] for i in order])
            else:
                seen = self.outlook
                each = [
                    Estimate(self._label(i), seen.estimates[i], seen.lower[i], seen.upper[i], colour)
                    for i, colour in zip(order, colours, strict=True)
                ]
                intervals(ax, each)
                what = "utility, value · reward − cost," if self._priced else "reward"
                told = keyed(ax, f"estimated {what} and interval", _KEY, "estimate")
                shares(beside(ax, told), chances, colours, label)
            left = len(self.names) - len(order)
            after = f"{self.policy} after {self.count:,} reward{'' if self.count == 1 else 's'}"
            ax.set_title(f"{after}; {left:,} more arms" if left else after, loc="left")
        return ax

    def _causes(self, i: int) -> str:
        return ", ".join(f"{one.feature} {one.amount:+.3g}" for one in self.contributions(i, _CAUSES))

    def _colour(self, i: int) -> str:
        if self.outlook is None or i == self.best:
            return LEADING
        return POSSIBLE if self.outlook.gains[i] > 0.0 else RULED_OUT

    @property
    def _priced(self) -> bool:
        """Whether arms have values and costs, and estimates are of the utility."""
        return self.outlook is not None and self.outlook.rewards is not None

    @property
    def _counts(self) -> str:
        """What contributions are called: they are of the reward, without value and cost."""
        assert self.outlook is not None
        return f"what counts most{' for the reward' if self._priced else ''}{self.outlook.unit}"

    def _price(self, i: int) -> list[str]:
        """An arm's reward, value and cost; nothing where it has none."""
        seen = self.outlook
        if seen is None or seen.rewards is None or seen.values is None or seen.costs is None:
            return []
        return [f"{one[i]:.4g}" for one in (seen.rewards, seen.values, seen.costs)]

    def _label(self, i: int) -> str:
        """An arm's name in the picture."""
        price = self._price(i)
        return f"{self.names[i]}: {price[1]} · {price[0]} − {price[2]}" if price else self.names[i]

    @property
    def _notes(self) -> list[str]:
        notes = [self.assurance.words]
        if self.errors is not None and self.errors.max() > 0.0:
            notes.append(
                f"Probabilities are integrals, estimated with standard errors up to {self.errors.max():.2g}."
            )
        return notes

    @property
    def _surely(self) -> str:
        return "surely" if self.assurance.doubt is None else "by its interval"

    def _rest(self, shown: Sequence[int]) -> str:
        left = len(self.names) - len(shown)
        if not left:
            return ""
        others = max(0.0, 1.0 - float(self.probabilities[list(shown)].sum()))
        return f"{left:,} more arm{'' if left == 1 else 's'}, {percent(round(others, 12))} together."

    def _about(self, i: int) -> str:
        assert self.outlook is not None
        about, price = f"{self.outlook.estimates[i]:.{self._digits(i)}g} ({self._between(i)}", self._price(i)
        if not price:
            return f"{about})"
        return f"a utility of {about}; value {price[1]} · reward {price[0]} − cost {price[2]})"

    def _between(self, i: int) -> str:
        assert self.outlook is not None
        low, high = self.outlook.lower[i], self.outlook.upper[i]
        if math.isinf(low) and math.isinf(high):
            return "anything"
        return f"{low:.{self._digits(i)}g} to {high:.{self._digits(i)}g}"

    def _digits(self, i: int) -> int:
        """Count the digits that tell the ends of an interval apart: at least three."""
        assert self.outlook is not None
        low, high = float(self.outlook.lower[i]), float(self.outlook.upper[i])
        if not 0.0 < high - low < math.inf:
            return 3
        return min(max(3, math.ceil(math.log10(max(abs(low), abs(high)) / (high - low))) + 2), 15)


def _by(gain: float) -> str:
    return "by any amount" if math.isinf(gain) else f"by up to {gain:.3g}"


def explain(
    policy: Policy,
    state: Any,
    arms: Floats,
    probabilities: Floats,
    *,
    names: Sequence[object] | None = None,
    features: Sequence[object] | None = None,
    arm: Any = None,
    top: int = TOP,
    repeats: Repeats | None = None,
    worth: Worth | None = None,
) -> Explanation:
    """Explain what a state of one replica says of arms (K,d), checked, with these probabilities (K,)."""
    called = _called("names", names, len(arms), "arm {}")
    own = _called("features", features, arms.shape[1], "x[{}]")
    place = int(probabilities.argmax()) if arm is None else _asked(arm, called, names is not None)
    kept = arms.copy()
    kept.flags.writeable = False
    shown = arms if worth is None else worth.beside(arms)
    errors = policy.propensity_error(state, shown[None])
    return Explanation(
        policy.name, int(state.count[0]), place, called, probabilities, None if errors is None else errors[0],
        outlook(policy, state, arms, worth), assurance(policy, state, repeats), validation.whole("top", top),
        _arms=kept, _features=own, _named=names is not None,
    )  # fmt: skip


def _called(name: str, given: Sequence[object] | None, count: int, otherwise: str) -> tuple[str, ...]:
    if given is None:
        return tuple(otherwise.format(i) for i in range(count))
    if isinstance(given, str) or not hasattr(given, "__len__"):
        raise validation.BadType(name, f"{name} must be a list of {count} names, got {given!r}")
    if len(given) != count:
        raise validation.BadValue(name, f"{name} must be {count}, got {len(given)}")
    return tuple(map(str, given))


def _asked(arm: Any, names: tuple[str, ...], named: bool) -> int:
    """Look up an arm by its number, its name or the decision for it."""
    if isinstance(arm, Decision):
        arm = arm.arm if arm.item is None else str(arm.item)
    if named and str(arm) in names:
        return names.index(str(arm))
    if isinstance(arm, str):
        raise validation.BadValue("arm", f"arm {arm!r} is none of those that are explained")
    place = validation.whole("arm", arm, at_least=0)
    if place >= len(names):
        raise validation.BadValue("arm", f"arm must be below {len(names)}, the number of arms, got {arm!r}")
    return place
