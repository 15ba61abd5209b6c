"""LinIMED: indexed minimum empirical divergence (Bian and Tan 2024)."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from linmed import validation
from linmed.core import core
from linmed.policies.base import Properties
from linmed.policies.compiled import CompiledPolicy
from linmed.policies.rule import Floored


@dataclass(frozen=True)
class LinIMED(Floored, CompiledPolicy):
    """Play argmin_a I(a) with I(a) = D(a)² / (β‖a‖²_{V⁻¹}) − log(β‖a‖²_{V⁻¹}). Ties go to the lowest index.

    Version 1: D is the gap between the means. Version 2: the same, but the empirically best arm's index
    is capped at log T. Version 3: D is the gap between upper confidence bounds, and the index of the arm
    with the largest one is capped at log(C / max_a D(a)²). The zero vector has index +inf.

    Its own parameters are `version`, `C` and `horizon`; `floor` is a share ε for all arms alike, and the
    others are those of `RidgePolicy`.

    >>> from linmed import Agent, LinIMED
    >>> agent, arms = Agent(LinIMED(version=3, sigma=0.3), dim=2), [[1.0, 0.0], [0.0, 1.0]]
    >>> agent.observe(arms * 5, [0.9, 0.1] * 5)
    >>> agent.probabilities(arms)
    array([1., 0.])
    """

    version: Literal[1, 2, 3] = 1
    """Which of the paper's three rules."""
    C: float = 30.0
    """Constant of version 3."""
    horizon: int | None = None
    """T of version 2; None means the current round t = rewards absorbed + 1."""

    properties: ClassVar[Properties] = Properties(
        reference="Bian & Tan 2024",
        minimax="d √n",
        instance="unknown",
        computable="degenerate: 1 on one arm",
        all_arms="no (yes with floor > 0)",
        randomised=False,
        paper_computable="N/A",
        paper_all_arms="no",
    )

    @property
    def scale_free(self) -> bool:
        """But for version 2, whose cap log T has no unit."""
        return self.version != 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("version", validation.option("version", self.version, (1, 2, 3)))
        self._set("C", validation.positive("C", self.C))
        if self.horizon is not None:
            self._set("horizon", validation.whole("horizon", self.horizon))

    @property
    def rule(self) -> Any:
        """The arm of the smallest index."""
        log_horizon = -1.0 if self.horizon is None else math.log(self.horizon)
        return core.ImedRule(self.version, self.C, log_horizon, self.floor)

    def derived_name(self) -> str:
        """LinIMED-1 and the like."""
        return f"LinIMED-{self.version}" + self.describe("version")
