"""Policies around another: they believe something else and decide as the one base does."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from linmed import validation
from linmed.policies.base import Noise, Policy
from linmed.policies.compiled import CompiledPolicy
from linmed.policies.linmed import LinMED
from linmed.policies.ridge import RidgePolicy
from linmed.validation import Floats

_DEFAULT = LinMED()


@dataclass(frozen=True)
class Wrapper(CompiledPolicy):
    """A policy around another, whose rule, ridge and confidence set are used."""

    base: Policy = _DEFAULT
    """The policy whose rule, ridge and confidence set are used."""

    without_floor: ClassVar[str] = "it goes to the base policy, as in Forgetful(LinMED(floor=0.1))"

    def __post_init__(self) -> None:
        super().__post_init__()
        base: Any = self.base
        if isinstance(base, Mapping):  # from_dict
            base = _described(base)
        if not isinstance(base, Policy):
            raise validation.BadType("base", f"base must be a Policy such as LinMED(), got {base!r}")
        if isinstance(base, RidgePolicy) and base.intercept:
            raise validation.BadValue(
                "base",
                f"base: intercept must be False in {type(self).__name__}; add a constant column to the "
                f"features instead, got {base.name}",
            )
        self._refuse(base)
        if base.own_set:
            raise validation.BadValue(
                "base",
                f"base must have a confidence set of the library's, got {base.name} with squared_radius",
            )
        if base.remembers:
            raise validation.BadValue(
                "base", f"base must not remember its last design: use design='approx', got {base.name}"
            )
        self._set("base", base)

    def _refuse(self, base: Policy) -> None:
        """Raise where this policy's belief cannot take the place of the one base."""
        if not (isinstance(base, RidgePolicy) and base.learns_in_core):
            raise validation.BadValue(
                "base",
                "base must be a policy with a ridge estimate, as LinMED, OFUL or LinTS (for clicks LinMED "
                f"with sigma=0.5), got {base.name}",
            )

    @property
    def noise(self) -> Noise:  # type: ignore[override]
        """That of the base policy."""
        return self.base.noise

    @property
    def index_free(self) -> bool:  # type: ignore[override]
        """Whether the base policy is."""
        return self.base.index_free

    @property
    def _mixed(self) -> float:
        """That of the base policy, whose rule is used."""
        return getattr(self.base, "_mixed", 0.0)

    def greedy(self) -> Policy:
        """Make the same around greedy play."""
        return dataclasses.replace(self, base=self.base.greedy(), label="Greedy")

    @property
    def scale_free(self) -> bool:
        """Whether the base policy is."""
        return self.base.scale_free

    def noise_size(self, dim: int) -> int:
        """Count the draws that the base policy takes."""
        return self.base.noise_size(dim)

    def draw_noise(self, rng: np.random.Generator, shape: tuple[int, ...], dim: int) -> Floats:
        """Draw what the base policy needs."""
        return self.base.draw_noise(rng, shape, dim)

    def derived_name(self) -> str:
        """Say the class, the name of the base policy, and what is not as by default."""
        return f"{type(self).__name__} {self.base.name}{self.describe('base')}"

    def to_dict(self) -> dict[str, Any]:
        """Give the configuration as JSON-ready values: the base policy is a description of its own."""
        own = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {"policy": type(self).__name__, **own, "base": self.base.to_dict()}


def _described(config: Mapping[str, Any]) -> Policy:
    """The base policy, from its description."""
    if "base" in config:
        raise validation.BadValue(
            "base", f"base must be a policy without another, got {config.get('policy')}"
        )
    try:
        return Policy.from_dict(config)
    except (ValueError, TypeError) as error:
        raise validation.BadValue("base", f"base: {error}") from None
