"""E2D: estimation to decisions (Foster, Kakade, Qian and Rakhlin 2021; Foster, Golowich and Han 2023)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from linmed import validation
from linmed.core import core
from linmed.policies.base import Properties, decisions, parameter
from linmed.policies.compiled import CompiledPolicy
from linmed.policies.ridge import Floored, RidgeState
from linmed.validation import Floats


@dataclass(frozen=True, kw_only=True)
class E2D(Floored, CompiledPolicy):
    """Play p with max_{θ, a*} E_{a~p}[⟨θ, a* − a⟩ − γ⟨θ − θ̂, a⟩²] = G(p) at most (1 + tol)·d/(4γ).

    G(p) = max_a ⟨θ̂, a − ā⟩ + ‖a − ā‖²/(4γ) in V(p)⁻¹ with ā = E_p a, V(p) = E_p a aᵀ. The solver maximises
    log det of E_p (1, a)(1, a)ᵀ minus 4γ times the expected gap, whose optimality condition bounds G;
    the bound reached is `certificate`. For orthogonal arms this is inverse gap weighting with 4γ and
    minimises G. γ = √(d n/(4 Est)): with a horizon n, Est = λS² + (σ² + S²) d log(1 + n/(dλ)); without
    one, n is the current round t = rewards absorbed + 1 and Est = λS² + (σ² + S²) log(det V/det V₀).

    Its own parameters are `gamma`, `horizon` and `tol`; `floor` is a share ε for all arms alike, and the
    others are those of `RidgePolicy`.

    >>> from linmed import Agent, E2D
    >>> agent, arms = Agent(E2D(gamma=10.0), dim=2), [[1.0, 0.0], [0.0, 1.0]]
    >>> agent.observe(arms * 5, [0.9, 0.1] * 5)
    >>> agent.probabilities(arms).round(3)
    array([0.964, 0.036])
    """

    gamma: float | None = parameter(None, validation.positive)
    """γ; None computes it as above."""
    horizon: int | None = parameter(None, validation.whole)
    """n; None is the anytime version."""
    tol: float = parameter(1e-9, validation.between, 1e-12, 1.0)
    """How far G may exceed d/(4γ), relatively."""

    properties: ClassVar[Properties] = Properties(
        "Foster, Kakade, Qian & Rakhlin 2021; Foster, Golowich & Han 2023",
        minimax="d √n",
        computable="convex program with a certificate",
        all_arms="no (yes with floor > 0)",
        paper_computable="yes",
        paper_all_arms="no*",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gamma is None:
            self._require_numbers("gamma")

    def _refuse_intercept(self) -> None:
        raise validation.BadValue(
            "intercept", "intercept must be False for E2D: add a constant column to the features"
        )

    @property
    def rule(self) -> Any:
        """The solution of the program, or a draw from it."""
        sigma, norm = self.numbers
        return core.E2dRule(
            gamma=self.gamma or 0.0,
            horizon=float(self.horizon or 0),
            tol=self.tol,
            lam=self.lam,
            bias=self.lam * norm**2,
            unit=sigma**2 + norm**2,
            floor=self.floor,
        )

    def exploration(self, state: RidgeState) -> Floats:
        """Compute γ in every replica (R,).

        >>> from linmed import E2D
        >>> policy = E2D(horizon=1000)
        >>> policy.exploration(policy.start(replicas=1, dim=2)).round(2)
        array([4.4])
        """
        gamma = np.empty(len(state.count))
        core.exploration(self.bind(state), self._deciding, 0, gamma)
        return gamma

    def probabilities(self, state: RidgeState, arms: Floats) -> Floats:
        """Solve the program, before any floor.  arms (R,K,d) or (1,K,d) → (R,K)."""
        return self._solve(state, arms)[0]

    def certificate(self, state: RidgeState, arms: Floats) -> Floats:
        """Bound G(p) / (d/(4γ)) from above for p before any floor, rounding counted in.  → (R,).

        At most 1 + tol + 1e-13 γ Δ, where Δ is the largest Σ_k |θ̂_k (a_k − b_k)|: gaps of 4γΔ have no more
        digits in float64.

        >>> import numpy as np
        >>> from linmed import E2D
        >>> policy = E2D()
        >>> policy.certificate(policy.start(1, 2), np.eye(2)[None]).round(6)
        array([0.5])
        """
        _, bound = self._solve(state, arms)
        certificate: Floats = bound / state.dim
        return certificate

    def _solve(self, state: RidgeState, arms: Floats) -> tuple[Floats, Floats]:
        """p (R,K) and a bound (R,) on 4γ G(p)."""
        n = decisions(state, arms)
        p, bound = np.empty((n, arms.shape[1])), np.empty(n)
        core.e2d_program(self.bind(state), self._deciding, validation.for_kernels(arms), p, bound)
        return p, bound
