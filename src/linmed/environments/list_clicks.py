"""Visitors who are shown lists: how often each position is clicked."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from linmed import validation
from linmed.validation import BadValue, Floats, Ints

Model = Literal["cascade", "dcm", "position"]


class ListClicks:
    """Arms with click rates ⟨θ*, a⟩, and visitors who look at a list of them from above.

    `model` says how: in a "cascade" they stop at the first click; with dependent clicks ("dcm") they go on
    after a click at position j with probability `examination[j]`; "position": position j is looked at with
    probability `examination[j]`, whatever was clicked above.

    >>> import numpy as np
    >>> world = ListClicks(np.eye(3), theta=[0.5, 0.2, 0.1])
    >>> world.rates, world.best(2), round(world.value([1, 0]), 3)
    (array([0.5, 0.2, 0.1]), array([0, 1]), 0.6)
    >>> world.clicks([1, 0, 2], np.random.default_rng(0))
    array([0., 1., 0.])
    """

    def __init__(
        self,
        arms: ArrayLike,
        theta: ArrayLike,
        model: Model = "cascade",
        examination: ArrayLike | None = None,
    ) -> None:
        self.arms = validation.arm_matrix(arms)
        self.theta = validation.floats("theta", theta)
        if self.theta.shape != self.arms.shape[1:]:
            text = (
                f"theta must have {self.arms.shape[1]} entries, one for each feature, got {self.theta.shape}"
            )
            raise BadValue("theta", text)
        self.model: Model = validation.option("model", model, ("cascade", "dcm", "position"))
        self.rates: Floats = np.vecdot(self.arms, self.theta)
        if not ((self.rates >= 0.0) & (self.rates <= 1.0)).all():
            low, high = self.rates.min(), self.rates.max()
            text = f"arms must have click rates ⟨θ, a⟩ from 0 to 1, got {low:g} to {high:g}"
            raise BadValue("arms", text)
        if (examination is None) != (model == "cascade"):
            text = "examination must be given for 'dcm' and 'position', and not for 'cascade'"
            raise BadValue("examination", text)
        seen = np.zeros(0) if examination is None else validation.floats("examination", examination)
        if seen.ndim != 1 or not ((seen >= 0.0) & (seen <= 1.0)).all():
            raise BadValue(
                "examination", f"examination must be probabilities by position, got {examination!r}"
            )
        self.examination = seen

    def best(self, length: int) -> Ints:
        """The list that is clicked most, if positions are looked at less the lower they are (length,)."""
        best: Ints = np.argsort(-self.rates, kind="stable")[:length]
        return best

    def value(self, shown: Sequence[int] | Ints) -> float:
        """How many clicks a list gets on average."""
        rates, total, looks = self.rates[np.asarray(shown)], 0.0, 1.0
        for place, rate in enumerate(rates):
            if self.model == "position":
                total += self._examined(place) * rate
            else:
                total += looks * rate
                looks *= 1.0 - rate + rate * self._goes_on(place)
        return float(total)

    def clicks(self, shown: Sequence[int] | Ints, rng: np.random.Generator) -> Floats:
        """What one visitor clicks of a list (m,), by two random numbers for each position."""
        rates, found = self.rates[np.asarray(shown)], np.zeros(len(shown))
        for place, (first, second) in enumerate(rng.random((len(shown), 2))):
            clicked = first < rates[place]
            if self.model == "position":
                found[place] = clicked and second < self._examined(place)
            else:
                found[place] = clicked
                if clicked and second >= self._goes_on(place):
                    break
        return found

    def _examined(self, place: int) -> float:
        if place >= len(self.examination):
            text = f"examination is of {len(self.examination)} positions, and the list has more"
            raise BadValue("examination", text)
        return float(self.examination[place])

    def _goes_on(self, place: int) -> float:
        return 0.0 if self.model == "cascade" else self._examined(place)
