"""What is drawn: `Decision`, and the one way from logarithms to probabilities."""

import math
from typing import Any, Literal

import numpy as np

from linmed.report.html import paragraph
from linmed.validation import Floats

__all__ = ["Decision", "NoProbability"]

Route = Literal["accepted", "explore", "fallback"]


def probability_of(log_probability: float) -> float:
    """Turn a logarithm into a probability, for all that is answered or logged.

    NumPy's exp depends on the processor: with AVX-512 it differs from this one in the last bit, in 5 % of all
    numbers. What an answer says and what the log says would be two numbers.
    """
    return math.exp(log_probability)


def probabilities_of(log_probabilities: Floats) -> Floats:
    """Turn logarithms (K,) into probabilities."""
    return np.array([*map(probability_of, log_probabilities.tolist())])


class NoProbability(AttributeError):
    """Say that a decision has no probability, and why.

    It is a fallback of `CatalogueMED`, for which only a pass over all items would tell (`fallback` is True),
    or the policy does not compute any (`LinTS(propensity="none")`). `hasattr` and `getattr` with a default
    take it as they take an attribute that is not there.

    >>> from linmed import Agent, LinTS
    >>> decision = Agent(LinTS(propensity="none"), dim=1, seed=7).decide([[1.0], [2.0]])
    >>> hasattr(decision, "probability"), getattr(decision, "probability", None) is None
    (False, True)
    """


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

    # Properties over slots: a frozen dataclass takes four times as long to make. Arrays are kept as bytes,
    # which are made faster, and to which nobody writes.
    __slots__ = (
        "_arm", "_best", "_catalogue_version", "_count", "_features", "_groups", "_id", "_item", "_kept",
        "_log_probabilities", "_log_probability", "_probability_error", "_route", "_worth",
    )  # fmt: skip

    _worth: Any  # the values and costs of the arms, where they have any
    _groups: Any  # what it says of a control group and shadow policies, where there are any

    def __init__(
        self,
        arm: int,
        log_probability: float,
        log_probabilities: bytes | None,
        features: bytes,
        kept: bytes,
        count: int,
        probability_error: float = 0.0,
        item: str | int | None = None,
        route: Route | None = None,
        best: int | None = None,
        catalogue_version: int | None = None,
        id: str = "",
    ) -> None:
        """`log_probability` is NaN where there is none, `kept` (d,) what `learn` needs, `count` is K."""
        self._arm = arm
        self._log_probability = log_probability
        self._log_probabilities = log_probabilities
        self._features = features
        self._kept = kept
        self._count = count
        self._probability_error = probability_error
        self._item = item
        self._route: Route | None = route
        self._best = best
        self._catalogue_version = catalogue_version
        self._id = id

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
    def route(self) -> Route | None:
        """How `CatalogueMED` came to an item of a catalogue: see `linmed.catalogue_sampler`; else None.

        >>> from linmed import Agent, CatalogueMED
        >>> from linmed.features import Catalogue
        >>> teas = Catalogue.from_table([{"item_id": "oolong", "price": 4}, {"item_id": "mint", "price": 2}])
        >>> decision = Agent(CatalogueMED(), catalogue=teas, seed=7).decide()
        >>> decision.route, decision.best, decision.catalogue_version
        ('explore', 0, 0)
        """
        return self._route

    @property
    def best(self) -> int | None:
        """Where there is a `route`: the row of the item that looked best."""
        return self._best

    @property
    def catalogue_version(self) -> int | None:
        """Where there is a `route`: the version of the catalogue that was decided among."""
        return self._catalogue_version

    @property
    def fallback(self) -> bool | None:
        """Of `CatalogueMED` among a catalogue: whether its proposal was not kept, so that the best item known
        was played, for which there is no `probability`. None of every other decision.
        """
        return None if self._route is None else self._route == "fallback"

    @property
    def control(self) -> bool | None:
        """Whether the control group's law drew the arm; None where there is no control group.

        >>> from linmed import Agent, Greedy, LinMED
        >>> agent = Agent(LinMED(), dim=1, seed=7, control=0.5, shadow={"greedy": Greedy()})
        >>> decision = agent.decide([[1.0], [0.5]])
        >>> decision.control, round(decision.probability, 3), decision.shadow
        (True, 0.725, {'greedy': 1.0})
        """
        groups = getattr(self, "_groups", None)
        return None if groups is None else groups.control

    @property
    def shadow(self) -> dict[str, float] | None:
        """How probable the arm was to each shadow policy; None where there is none. See `control`."""
        groups = getattr(self, "_groups", None)
        return None if groups is None or groups.shadow is None else dict(groups.shadow)

    @property
    def has_probability(self) -> bool:
        """Whether there is a `probability`.

        >>> from linmed import Agent, LinMED, LinTS
        >>> agents = [Agent(policy, dim=1) for policy in (LinMED(), LinTS(propensity="none"))]
        >>> [agent.decide([[1.0]]).has_probability for agent in agents]
        [True, False]
        """
        return self._log_probability == self._log_probability

    @property
    def log_probability(self) -> float:
        """The logarithm of `probability`; `NoProbability` is raised with it."""
        if self._log_probability != self._log_probability:
            raise NoProbability(
                "a fallback has no probability: only a pass over all items would tell (see Decision.fallback)"
                if self.fallback
                else "this decision has no probability: the policy computes none"
            )
        return self._log_probability

    @property
    def features(self) -> Floats:
        """The arm that was played (d,)."""
        return np.frombuffer(self._features)

    @property
    def log_probabilities(self) -> Floats | None:
        """Of every arm (K,); None where the policy computes only the played arm's."""
        return None if self._log_probabilities is None else np.frombuffer(self._log_probabilities)

    @property
    def probability_error(self) -> float:
        """Standard error of `probability`: 0 where it is a closed form, and not where it is an integral."""
        return self._probability_error

    @property
    def probability(self) -> float:
        """The probability with which this arm was to be played.

        Where `fallback` is False: by any route but the fallback. Where it is True: `NoProbability` is raised,
        and so is where the policy computes none.
        """
        return probability_of(self.log_probability)

    @property
    def probabilities(self) -> Floats | None:
        """The probability of every arm (K,)."""
        every = self.log_probabilities
        return None if every is None else probabilities_of(every)

    def _repr_html_(self) -> str:
        """Write one line for a notebook: what was played, and how probable it was."""
        played = f"arm {self.arm}" if self.item is None else str(self.item)
        return paragraph(f"{played}, {self._likely('with probability {:.4g}')} (decision {self.id})")

    def __repr__(self) -> str:
        played = f"arm={self.arm}" if self.item is None else f"item={self.item!r}"
        return f"Decision(id={self.id!r}, {played}, {self._likely('probability={:.6g}')})"

    def _likely(self, words: str) -> str:
        if self.has_probability:
            return words.format(self.probability)
        return "fallback" if self.fallback else "no probability"
