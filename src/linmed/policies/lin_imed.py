"""LinIMED: indexed minimum empirical divergence (Bian and Tan 2024)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from linmed import checks
from linmed.checks import Floats, Ints
from linmed.kernels import optimism
from linmed.policies.base import Properties, RidgeState, decisions
from linmed.policies.rule import DeterministicPolicy, Floored


@dataclass(frozen=True)
class LinIMED(Floored, DeterministicPolicy):
    """Play argmin_a I(a) with I(a) = D(a)² / (β‖a‖²_{V⁻¹}) − log(β‖a‖²_{V⁻¹}). Ties go to the lowest index.

    Version 1: D is the gap between the means. Version 2: the same, but the empirically best arm's index
    is capped at log T. Version 3: D is the gap between upper confidence bounds, and the index of the arm
    with the largest one is capped at log(C / max_a D(a)²). The zero vector has index +inf.
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

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("version", checks.option("version", self.version, (1, 2, 3)))
        self._set("C", checks.positive("C", self.C))
        if self.horizon is not None:
            self._set("horizon", checks.whole("horizon", self.horizon))

    def best(self, state: RidgeState, arms: Floats) -> Ints:
        """The arm of the smallest index."""
        out = np.empty(decisions(state, arms), dtype=np.int64)
        horizon = (
            state.count + 1.0 if self.horizon is None else np.full(len(state.count), float(self.horizon))
        )
        optimism.imed(
            arms, state.theta, state.inverse, self.radius(state), self.version, self.C, np.log(horizon), out
        )
        return out

    def derived_name(self) -> str:
        """LinIMED-1 and the like."""
        return f"LinIMED-{self.version}" + self.describe("version")
