"""Arms with known values and costs: what counts is value · reward − cost."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from linmed.environments.base import Block, Environment, is_found_by_name, rule_name
from linmed.policies.worth import Worth, priced
from linmed.validation import BadType, BadValue, Floats, Ints, flag

Prices = Any
"""A number, one for each arm (K,), or a function of (generator, rounds, K) that gives (rounds, K)."""


@dataclass(frozen=True)
class Priced(Environment):
    """`env` with known values and costs of its arms; regret is in utility, value · reward − cost.

    >>> from linmed import LinMED, simulate
    >>> from linmed.environments import LargeGap
    >>> dear = Priced(LargeGap(), costs=(2.0, 0.0))
    >>> results = simulate(LinMED(), dear, horizon=200, trials=2, progress=False)
    >>> bool((results.pulls("LinMED")[:, 1] > 100).all())  # the worse arm, which costs less
    True
    """

    env: Environment
    values: Prices = 1.0
    """One number, (K,), or a function of (generator, rounds, K) that returns (rounds, K); define
    it in a module, not as a lambda, to use it with a store or other processes."""
    costs: Prices = 0.0
    """The same."""
    told: bool = True
    """Whether policies know values and costs; else they learn value · reward − cost as their reward."""

    def __post_init__(self) -> None:
        if not isinstance(self.env, Environment):
            raise BadType("env", f"env must be an environment, got {self.env!r}")
        if isinstance(self.env, Priced):
            raise BadValue("env", "env has values and costs already; give one Priced both")
        flag("told", self.told)
        for name in ("values", "costs"):
            own = getattr(self, name)
            if not callable(own):
                count = np.size(own)
                checked = getattr(Worth(None, None)._replace(**{name: own}).checked(count), name)
                self._set(**{name: tuple(checked.tolist()) if np.ndim(own) else float(own)})

    @property
    def block_rounds(self) -> int:  # type: ignore[override]
        """As the environment underneath."""
        return self.env.block_rounds

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """The blocks of `env`, with values and costs behind the features of arms."""
        own = rng.spawn(2)  # streams of their own leave the arms and the noise as they were
        for block in self.env.blocks(rng):
            rounds, count = len(block.noise), block.arms.shape[-2]
            values = self._of("values", own[0], rounds, count)
            costs = self._of("costs", own[1], rounds, count)
            late = np.zeros(rounds, dtype=np.int64) if block.delays is None else block.delays
            arms = priced(block.arms, values, costs)
            means = block.means if arms.ndim == 2 else np.broadcast_to(block.means, arms.shape[:2])
            yield block._replace(arms=arms, means=means, delays=late)

    def _of(self, name: str, rng: np.random.Generator, rounds: int, count: int) -> Floats:
        given = getattr(self, name)
        if callable(given):
            given = np.asarray(given(rng, rounds, count), dtype=np.float64)
            if given.shape != (rounds, count):
                text = f"{name} must return numbers of shape ({rounds}, {count}), got {given.shape}"
                raise BadValue(name, text)
            flat = Worth(None, None)._replace(**{name: given.ravel()}).checked(given.size)
        elif np.ndim(given) and len(given) != count:
            raise BadValue(
                name, f"{name} must be one number, or one for each of {count} arms, got {len(given)}"
            )
        else:
            return np.asarray(given)
        found: Floats = getattr(flat, name).reshape(rounds, count)
        return found

    def rewards(self, means: Floats, noise: Floats) -> Floats:
        """As the environment underneath."""
        return self.env.rewards(means, noise)

    def known_after(self, rewards: Floats, delays: Ints) -> Ints:
        """As the environment underneath."""
        return self.env.known_after(rewards, delays)

    @property
    def name(self) -> str:
        """The environment underneath, its values and costs."""
        told = "" if self.told else ", told=False"
        return f"Priced({self.env.name}, {', '.join(f'{k}={v}' for k, v in self._prices.items())}{told})"

    @property
    def _prices(self) -> dict[str, Any]:
        both = {"values": self.values, "costs": self.costs}
        return {name: rule_name(own) if callable(own) else own for name, own in both.items()}

    def to_dict(self) -> dict[str, Any]:
        """With `env` as a nested configuration, and a function as its module and name."""
        return {"environment": "Priced", "env": self.env.to_dict(), **self._prices, "told": self.told}

    def identity(self) -> dict[str, Any]:
        """With the identity of `env`."""
        for name in ("values", "costs"):
            own: Callable[..., Any] = getattr(self, name)
            if callable(own) and not is_found_by_name(own):
                text = f"{name}={rule_name(own)} has no name by which results could be found again; "
                raise BadValue(name, text + "define the function at the top of a module")
        return {**self.to_dict(), "env": self.env.identity()}

    @classmethod
    def _from_parameters(cls, parameters: dict[str, Any]) -> "Environment":
        return cls(**{**parameters, "env": Environment.from_dict(parameters["env"])})
