"""What an agent answers."""

import math

import numpy as np

from linmed.report.html import paragraph
from linmed.validation import Floats

__all__ = ["Decision"]


def probability_of(log_probability: float) -> float:
    """The only way from a logarithm to a probability that is answered or logged.

    NumPy's exp depends on the processor: with AVX-512 it differs from this one in the last bit, in 5 % of all
    numbers. What an answer says and what the log says would be two numbers.
    """
    return math.exp(log_probability)


def probabilities_of(log_probabilities: Floats) -> Floats:
    """The same of several (K,)."""
    return np.array([*map(probability_of, log_probabilities.tolist())])


def read_only(array: Floats) -> Floats:
    """The same numbers, not to be written to: an agent will learn from them."""
    view = array.view()
    view.flags.writeable = False
    return view


class Decision:
    """What was played and how probable it was, before any random draw was made. It cannot be changed.

    >>> from linmed import Agent, LinMED
    >>> agent = Agent(LinMED(), dim=2, seed=7)
    >>> agent.observe([1.0, 0.0], reward=1.0)
    >>> decision = agent.decide([[1.0, 0.0], [0.0, 1.0]])
    >>> decision.arm, decision.features, decision.item, decision.id in agent.pending
    (0, array([1., 0.]), None, True)
    >>> decision.probabilities.round(3), round(decision.probability, 3), decision.probability_error
    (array([0.951, 0.049]), 0.951, 0.0)
    >>> bool(decision.log_probability == decision.log_probabilities[decision.arm])
    True
    """

    # Properties over slots: a frozen dataclass takes four times as long to make.
    __slots__ = (
        "_arm",
        "_fallback",
        "_features",
        "_id",
        "_item",
        "_log_probabilities",
        "_log_probability",
        "_probability_error",
    )

    def __init__(
        self,
        id: str,
        arm: int,
        log_probability: float | None,
        features: Floats,
        log_probabilities: Floats | None,
        probability_error: float = 0.0,
        item: str | int | None = None,
        fallback: bool | None = None,
    ) -> None:
        self._id = id
        self._arm = arm
        self._log_probability = log_probability
        self._features = features
        self._log_probabilities = log_probabilities
        self._probability_error = probability_error
        self._item = item
        self._fallback = fallback

    @property
    def id(self) -> str:
        """What `learn` may be given instead of the decision."""
        return self._id

    @property
    def arm(self) -> int:
        """The row of the arm that was played."""
        return self._arm

    @property
    def item(self) -> str | int | None:
        """The id of the item that was played; None where arms were given as vectors."""
        return self._item

    @property
    def fallback(self) -> bool | None:
        """Of `CatalogueMED` among a catalogue: whether its proposal was not kept, so that the best item known
        was played, for which there is no `probability`. None of every other decision.

        >>> from linmed import Agent, CatalogueMED
        >>> from linmed.features import Catalogue
        >>> teas = Catalogue.from_table([{"item_id": "oolong", "price": 4}, {"item_id": "mint", "price": 2}])
        >>> agent = Agent(CatalogueMED(alpha_emp=0.2), catalogue=teas, seed=7)
        >>> agent.observe([*agent.arms()] * 5, [1.0, -1.0] * 5)
        >>> {made.fallback: made.probability for made in (agent.decide() for _ in range(20))}[True] is None
        True
        """
        return self._fallback

    @property
    def log_probability(self) -> float:
        """The logarithm of `probability`, None with it."""
        # Only where `fallback` is True it is None.
        return self._log_probability  # type: ignore[return-value]

    @property
    def features(self) -> Floats:
        """The arm that was played (d,)."""
        return read_only(self._features)

    @property
    def log_probabilities(self) -> Floats | None:
        """Of every arm (K,); None where the policy computes only the played arm's."""
        return None if self._log_probabilities is None else read_only(self._log_probabilities)

    @property
    def probability_error(self) -> float:
        """Standard error of `probability`: 0 where it is a closed form, and not where it is an integral."""
        return self._probability_error

    @property
    def probability(self) -> float:
        """The probability with which this arm was to be played.

        Where `fallback` is False: by any route but the fallback. Where it is True: None, since only a pass
        over all items would tell.
        """
        chance = self._log_probability
        return probability_of(chance) if chance is not None else None  # type: ignore[return-value]

    @property
    def probabilities(self) -> Floats | None:
        """The probability of every arm (K,)."""
        return None if self._log_probabilities is None else probabilities_of(self._log_probabilities)

    def _repr_html_(self) -> str:
        """One line: a notebook shows what was played, and how probable it was."""
        played = f"arm {self.arm}" if self.item is None else str(self.item)
        chance = "as a fallback" if self.fallback else f"with probability {self.probability:.4g}"
        return paragraph(f"{played}, {chance} (decision {self.id})")

    def __repr__(self) -> str:
        played = f"arm={self.arm}" if self.item is None else f"item={self.item!r}"
        chance = "fallback" if self.fallback else f"probability={self.probability:.6g}"
        return f"Decision(id={self.id!r}, {played}, {chance})"
