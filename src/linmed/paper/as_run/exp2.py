"""EXP2 of the authors' public code, whose estimates of θ* are at most half as long as unbiased ones."""

from dataclasses import dataclass

import numpy as np

from linmed import validation
from linmed.core import core
from linmed.policies import EXP2
from linmed.policies.exp2 import Exp2State, fingerprints, require_same
from linmed.validation import Floats, Ints


@dataclass(frozen=True)
class Exp2AsRun(EXP2):
    """P(a) = γ π(a) + (1 − γ) exp(η⟨Θ, a⟩)/Σ exp(η⟨Θ, ·⟩), Θ = Σ (I + Q)⁻¹a·y, with π the centred design.

    In round t η = √(log K / (3 d (t + 1))), at most 1/d, and γ = d η, told no horizon; the first round is
    drawn from π. Written in Python: only one small experiment has it.
    """

    def log_probabilities(self, state: Exp2State, arms: Floats) -> Floats:
        """log P(a).  arms (R,K,d) or (1,K,d) → (R,K)."""
        with np.errstate(divide="ignore"):
            return np.log(self._law(state, arms))

    def features(self, state: Exp2State, arms: Floats, arm: Ints) -> Floats:
        """(I + Q)⁻¹a of the arms just played; the arm set is remembered from here on.  arm (R,) → (R,d)."""
        state.arm_set[:] = self._checked(state, arms)[: len(state.arm_set)]
        weighted = arms.swapaxes(1, 2) * self._law(state, arms)[:, None, :]
        moved = np.eye(arms.shape[2]) + weighted @ arms
        vectors = super(EXP2, self).features(state, arms, arm)
        shrunk: Floats = np.linalg.solve(moved, vectors[..., None])[..., 0].astype(np.float64)
        return shrunk

    def _law(self, state: Exp2State, arms: Floats) -> Floats:
        self._checked(state, arms)
        _, K, d = arms.shape
        design = np.empty(arms.shape[:2])
        core.centred_design(validation.for_kernels(arms), design)
        eta = np.minimum(np.sqrt(np.log(K) / (3.0 * d * (state.count + 2.0))), 1.0 / d)[:, None]
        score = eta * (arms @ state.total[:, :, None])[:, :, 0]
        weight = np.exp(score - score.max(axis=1, keepdims=True))
        mixed = d * eta * design + (1.0 - d * eta) * weight / weight.sum(axis=1, keepdims=True)
        law: Floats = np.where(state.count[:, None] == 0, design, mixed)
        return law

    def _checked(self, state: Exp2State, arms: Floats) -> Ints:
        """Fingerprints of the arms; an error if they are not those of the rounds before."""
        key = fingerprints(arms)
        require_same(not ((state.arm_set != 0) & (state.arm_set != key)).any())
        return key
