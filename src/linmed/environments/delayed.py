"""Rewards that arrive later than the decision they belong to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from linmed import validation
from linmed.environments.base import LAST_ROUND, Block, Environment, is_found_by_name, rule_name
from linmed.environments.priced import Priced
from linmed.validation import Floats, Ints

DelayRule = Callable[[np.random.Generator, Ints, int], Any]
"""(generator, round numbers from 1 (m,), `rounds`) → delays (m,), whole numbers ≥ 0."""


@dataclass(frozen=True)
class Delayed(Environment):
    """`env` with its rewards delayed; arms and noise are the same as without the delay.

    The reward of round t is known after round t + delay, before the decision of round t + delay + 1.

    >>> from linmed.environments import LargeGap
    >>> block = next(Delayed(LargeGap(), rounds=10, mode="batch").blocks(np.random.default_rng(0)))
    >>> block.delays[:4]  # known after rounds 1, 11, …
    array([0, 9, 8, 7])
    """

    env: Environment
    rounds: int = 10
    """The delay D."""
    mode: str | DelayRule = "constant"
    """"constant": D rounds. "batch": all at once after rounds 1, D+1, 2D+1, … Or a function of
    (generator, round numbers, D) that returns the delays of those rounds; define it in a module, not
    as a lambda, to use it with a store or other processes."""

    def __post_init__(self) -> None:
        if not isinstance(self.env, Environment):
            raise TypeError(f"env must be an environment, got {self.env!r}")
        if isinstance(self.env, Delayed):
            raise ValueError("env is already delayed; give one Delayed the whole delay")
        if isinstance(self.env, Priced):
            raise ValueError("env has values and costs already: write Priced(Delayed(…), …)")
        smallest = 1 if self.mode == "batch" else 0
        self._check_whole(rounds=smallest)
        validation.between("rounds", self.rounds, smallest, LAST_ROUND)
        if not callable(self.mode):
            validation.option("mode", self.mode, ("constant", "batch"))

    @property
    def block_rounds(self) -> int:  # type: ignore[override]
        """As the environment underneath."""
        return self.env.block_rounds

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """The blocks of `env`, with delays."""
        (own,) = rng.spawn(1)  # a stream of its own leaves the arms and the noise as they were
        first = 1
        for block in self.env.blocks(rng):
            t = np.arange(first, first + len(block.noise))
            yield block._replace(delays=self._delays(own, t))
            first += len(t)

    def _delays(self, rng: np.random.Generator, t: Ints) -> Ints:
        if self.mode == "constant":
            return np.full(len(t), self.rounds)
        if self.mode == "batch":
            return -(t - 1) % self.rounds
        assert callable(self.mode)
        raw = np.asarray(self.mode(rng, t, self.rounds))
        wrong = raw.shape != t.shape or raw.dtype.kind not in "iu"
        if wrong or (raw.size and not 0 <= raw.min() <= raw.max() <= LAST_ROUND):
            raise ValueError(
                f"mode must return {len(t)} whole numbers from 0 to {LAST_ROUND}, one delay per round, "
                f"got {raw.dtype} of shape {raw.shape}"
            )
        return raw.astype(np.int64)

    def rewards(self, means: Floats, noise: Floats) -> Floats:
        """As the environment underneath."""
        return self.env.rewards(means, noise)

    @property
    def name(self) -> str:
        """The environment underneath and its delay."""
        mode = "" if self.mode == "constant" else f", mode={rule_name(self.mode)}"
        return f"Delayed({self.env.name}, rounds={self.rounds}{mode})"

    def to_dict(self) -> dict[str, Any]:
        """With `env` as a nested configuration, and a function as its module and name."""
        mode = rule_name(self.mode)
        return {"environment": "Delayed", "env": self.env.to_dict(), "rounds": self.rounds, "mode": mode}

    def identity(self) -> dict[str, Any]:
        """With the identity of `env`."""
        if not isinstance(self.mode, str) and not is_found_by_name(self.mode):
            raise ValueError(
                f"mode={rule_name(self.mode)} has no name by which results could be found again; "
                "define the function at the top of a module"
            )
        return {**self.to_dict(), "env": self.env.identity()}

    @classmethod
    def _from_parameters(cls, parameters: dict[str, Any]) -> "Environment":
        return cls(**{**parameters, "env": Environment.from_dict(parameters["env"])})
