"""Policies around another: they believe something else and decide as the one inside does."""

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
class Around(CompiledPolicy):
    """A policy with another inside, whose rule, ridge and confidence set are used."""

    inside: Policy = _DEFAULT
    """The policy whose rule, ridge and confidence set are used."""

    without_floor: ClassVar[str] = "it goes to the policy inside, as in Forgetful(LinMED(floor=0.1))"

    def __post_init__(self) -> None:
        super().__post_init__()
        inside: Any = self.inside
        if isinstance(inside, Mapping):  # from_dict
            inside = _described(inside)
        if not isinstance(inside, Policy):
            raise validation.BadType("inside", f"inside must be a Policy such as LinMED(), got {inside!r}")
        if isinstance(inside, RidgePolicy) and inside.intercept:
            raise validation.BadValue(
                "inside",
                f"inside: intercept must be False in {type(self).__name__}; add a constant column to the "
                f"features instead, got {inside.name}",
            )
        self._refuse(inside)
        if inside.own_set:
            raise validation.BadValue(
                "inside",
                f"inside must have a confidence set of the library's, got {inside.name} with squared_radius",
            )
        if inside.remembers:
            raise validation.BadValue(
                "inside", f"inside must not remember its last design: use design='approx', got {inside.name}"
            )
        self._set("inside", inside)

    def _refuse(self, inside: Policy) -> None:
        """Raise where this policy's belief cannot take the place of the one inside."""
        if type(inside).learn is not RidgePolicy.learn:
            raise validation.BadValue(
                "inside",
                "inside must be a policy with a ridge estimate, as LinMED, OFUL or LinTS (for clicks LinMED "
                f"with sigma=0.5), got {inside.name}",
            )

    @property
    def noise(self) -> Noise:  # type: ignore[override]
        """That of the policy inside."""
        return self.inside.noise

    @property
    def index_free(self) -> bool:  # type: ignore[override]
        """Whether the policy inside is."""
        return self.inside.index_free

    @property
    def _mixed(self) -> float:
        """That of the policy inside, whose rule is used."""
        return getattr(self.inside, "_mixed", 0.0)

    @property
    def tells_probability(self) -> bool:
        """Whether the policy inside does."""
        return self.inside.tells_probability

    @property
    def scale_free(self) -> bool:
        """Whether the policy inside is."""
        return self.inside.scale_free

    def noise_size(self, dim: int) -> int:
        """As many draws as the policy inside takes."""
        return self.inside.noise_size(dim)

    def draw_noise(self, rng: np.random.Generator, shape: tuple[int, ...], dim: int) -> Floats:
        """That of the policy inside."""
        return self.inside.draw_noise(rng, shape, dim)

    def derived_name(self) -> str:
        """The class, the name of the policy inside, and what is not as by default."""
        return f"{type(self).__name__} {self.inside.name}{self.describe('inside')}"

    def to_dict(self) -> dict[str, Any]:
        """The configuration as JSON-ready values: the policy inside is a description of its own."""
        own = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {"policy": type(self).__name__, **own, "inside": self.inside.to_dict()}


def _described(config: Mapping[str, Any]) -> Policy:
    """The policy inside, from its description."""
    if "inside" in config:
        raise validation.BadValue(
            "inside", f"inside must be a policy without another inside, got {config.get('policy')}"
        )
    try:
        return Policy.from_dict(config)
    except (ValueError, TypeError) as error:
        raise validation.BadValue("inside", f"inside: {error}") from None
