"""What every environment is: an immutable configuration that turns a random stream into rounds.

One trial is one call of `blocks` with a generator of its own. What stays fixed in the trial (θ*, the
arms) is drawn first and lives in local variables; then rounds come in blocks, for ever. So a trial
depends on its generator alone, not on the batch, the process or the policy that meets it.
"""

import dataclasses
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from linmed.registry import described
from linmed.validation import Floats, Ints, whole

LAST_ROUND = 1 << 53
"""Rounds and delays are counted up to here, where floats still hold every whole number."""


class Block(NamedTuple):
    """The next rounds of one trial. An array, once given away, must not be written to again.

    >>> from linmed.environments import LargeGap
    >>> block = next(LargeGap().blocks(np.random.default_rng(0)))
    >>> block.arms.tolist(), block.means, block.noise.shape, block.delays
    ([[1.0, 0.0], [0.0, 1.0]], array([1., 0.]), (1024,), None)
    """

    arms: Floats
    """(K, d) where the arms stay the same, (rounds, K, d) where they change."""
    means: Floats
    """⟨θ*, a⟩ of every arm: (K,), or (rounds, K) where the arms or θ* change."""
    noise: Floats
    """(rounds,) what `Environment.rewards` turns into a reward, whichever arm is played."""
    delays: Ints | None = None
    """(rounds,) how many rounds later each reward arrives, unless `Environment.known_after` says otherwise;
    None means at once."""
    overwritten: Floats | None = None
    """(rounds, K, d) what stands in the arms' place one round later, for policies that keep no copies of what
    they played and learn from a late reward; None where nothing does."""


@dataclass(frozen=True)
class Environment(ABC):
    """A problem. One of one's own is a frozen dataclass that defines `blocks`:

    >>> @dataclass(frozen=True)
    ... class TwoArms(Environment):
    ...     gap: float = 0.5
    ...
    ...     def blocks(self, rng):
    ...         arms = np.eye(2)
    ...         means = np.array([self.gap, 0.0])
    ...         while True:
    ...             yield Block(arms, means, rng.standard_normal(self.block_rounds))
    >>> next(TwoArms().blocks(np.random.default_rng(0))).means
    array([0.5, 0. ])
    """

    block_rounds: ClassVar[int] = 1024
    """Rounds in a block. Part of the problem's definition: another length is another stream."""
    _read_from: ClassVar[str | None] = None
    """The parameter that says which data are read, of a problem that has their `digest`."""

    @abstractmethod
    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """One trial, without end: every block holds `block_rounds` rounds.

        >>> from linmed.environments import UnitBall
        >>> one, other = (next(UnitBall().blocks(np.random.default_rng(7))) for _ in range(2))
        >>> bool((one.arms == other.arms).all())
        True
        """

    def rewards(self, means: Floats, noise: Floats) -> Floats:
        """The rewards of arms with these means, element by element; the two broadcast.

        >>> from linmed.environments import Clicks, LargeGap
        >>> LargeGap().rewards(np.array([1.0, 0.0]), np.array([0.25, 0.25]))
        array([1.25, 0.25])
        >>> Clicks().rewards(np.array([0.3, 0.1]), np.array([0.2, 0.2]))  # a click where the rate is above
        array([1., 0.])
        """
        return means + noise

    def known_after(self, rewards: Floats, delays: Ints) -> Ints:
        """How many rounds later these rewards are known, given the block's delays; the two broadcast.

        To override where it depends on the reward: a click is seen, that there was none only after a while.

        >>> from linmed.environments import Clicks
        >>> Clicks(timeout=100).known_after(np.array([1.0, 0.0]), np.array([7, 7]))
        array([  7, 100])
        """
        return delays

    @property
    def additive(self) -> bool:
        """Whether `rewards` is the sum of the two, which need then be taken for the arm played alone.

        >>> from linmed.environments import Clicks, UnitBall
        >>> UnitBall().additive, Clicks().additive
        (True, False)
        """
        return type(self).rewards is Environment.rewards

    @property
    def name(self) -> str:
        """Class name and parameters, for titles.

        >>> from linmed.environments import UnitBall
        >>> UnitBall(arms=20, sigma=0.5).name
        'UnitBall(arms=20, sigma=0.5)'
        """
        values = ((f.name, getattr(self, f.name), f.default) for f in dataclasses.fields(self) if f.repr)
        shown = [
            f"{key} of shape {value.shape}" if isinstance(value, np.ndarray) else f"{key}={value}"
            for key, value, default in values
            if isinstance(value, np.ndarray) or value != default
        ]
        return type(self).__name__ + (f"({', '.join(shown)})" if shown else "")

    def to_dict(self) -> dict[str, Any]:
        """The configuration as JSON-ready values; `from_dict` is its inverse.

        >>> from linmed.environments import Environment, LargeGap
        >>> LargeGap(sigma=0.5).to_dict()
        {'environment': 'LargeGap', 'noise': 'gaussian', 'degrees': 5.0, 'sigma': 0.5}
        >>> Environment.from_dict({"environment": "LargeGap", "sigma": 0.5}) == LargeGap(sigma=0.5)
        True
        """
        parameters = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.init}
        return {"environment": type(self).__name__, **json.loads(json.dumps(parameters, default=_as_lists))}

    def identity(self) -> dict[str, Any]:
        """What the numbers depend on, and nothing else: stored results are found by it.

        It is `to_dict` unless the problem reads data: then the data's digest stands for where it was read.

        >>> from linmed.environments import Classification
        >>> Classification(([[0.0], [1.0]], ["cat", "dog"]), components=None).identity()["data"][:7]
        'sha256:'
        """
        named = {} if self._read_from is None else {self._read_from: f"sha256:{self.digest}"}  # type: ignore[attr-defined]
        return {**self.to_dict(), **named}

    @classmethod
    def _from_parameters(cls, parameters: dict[str, Any]) -> "Environment":
        return cls(**parameters)

    @staticmethod
    def from_dict(config: Mapping[str, Any]) -> "Environment":
        """The environment that `to_dict` described. Any imported subclass is found by its name."""
        cls, parameters = described(Environment, "environment", config)
        environment: Environment = cls._from_parameters(parameters)
        return environment

    def _set(self, **values: Any) -> None:
        """Set fields in `__post_init__`."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _check_whole(self, **least: int) -> None:
        """Have these fields be whole numbers, none below the number given."""
        self._set(**{name: whole(name, getattr(self, name), at_least=at) for name, at in least.items()})

    def _fitting(self, numbers: int, most: int = 1 << 18) -> int:
        """Rounds of a block of at most `most` numbers, where a round has so many; 1024 if they fit."""
        return max(1, min(1024, most // numbers))


def _as_lists(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"a parameter of {type(value).__name__} cannot be written down: {value!r}")


def is_found_by_name(mode: Callable[..., Any]) -> bool:
    """Whether a module holds this very function under its name: two methods, or two lambdas, share theirs."""
    if not isinstance(mode, FunctionType):
        return False
    return getattr(sys.modules.get(mode.__module__), mode.__qualname__, None) is mode


def rule_name(mode: str | Callable[..., Any]) -> str:
    """Name a function by its module; a word stays as it is."""
    if isinstance(mode, str):
        return mode
    return f"{getattr(mode, '__module__', '?')}:{getattr(mode, '__qualname__', repr(mode))}"


def changed_once(before: Floats, after: Floats, at: int, rounds: int) -> Iterator[Floats]:
    """The means of one block after the other where they change once, after round `at`."""
    for first in range(0, LAST_ROUND, rounds):
        mixed = first < at < first + rounds
        yield (
            np.where(np.arange(first, first + rounds)[:, None] < at, before, after)
            if mixed
            else (before if first < at else after)
        )


def on_sphere(rng: np.random.Generator, *shape: int) -> Floats:
    """Uniform points on the unit sphere of the last axis."""
    points = rng.standard_normal(shape)
    points /= np.linalg.norm(points, axis=-1, keepdims=True)
    return points
