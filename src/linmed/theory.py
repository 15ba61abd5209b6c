"""The paper's regret bounds, with the constants of its proofs, as methods of the problem they speak of.

Symbols: n rounds, dimension d, noise level σ* and ‖θ*‖ = S*, of which LinMED is given σ and S; ridge λ;
gaps at most B and, where not zero, at least Δ. The bounds hold for δ_t = 1/(t+1) (`delta=None`) and
arms of norm at most 1. They speak of expected pseudo-regret. B·n is always a bound too, for the horizons of
the paper's experiments often the smaller one: every bound here is the smaller of its formula and B·n.

Where the determinant of V_n appears, which is random, its largest value stands:
log(det V_n / det V_0) ≤ d log(1 + n/(dλ)).

The lower bounds of EXP2 and SpannerIGW (Theorems 3 and 4) are functions of their own. Their instance has the
arms e₁ … e_d and θ* = Δ e₁, so that one arm is Δ better than all others; the paper has d = 2 and Δ = 1. Each
entry of `n` is the horizon of a run of its own, which the policy is told.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from linmed import validation
from linmed.design import approx_design, certificate, optimal_design
from linmed.validation import BadValue, Floats

__all__ = [
    "Problem",
    "c_opt",
    "design_leverage",
    "exp2_exploration_bound",
    "exp2_lower_bound",
    "spanner_igw_lower_bound",
]

LEVELS = np.arange(1, 101)
"""Values of the analysis variable L that are tried: 2^-100 is below any gap that matters."""


def _of_rounds(bound: "Callable[[Problem, Floats], Floats]") -> "Callable[[Problem, ArrayLike], Any]":
    """A method over a vector of rounds as one over a number (which gives a number) or several."""

    @functools.wraps(bound)
    def method(self: "Problem", n: ArrayLike) -> Any:
        rounds = _whole_rounds(n)
        with np.errstate(all="ignore"):  # extreme parameters: a term is infinite, and the bound B·n
            values = bound(self, rounds)
        return _like(n, values)

    return method


def _whole_rounds(n: ArrayLike) -> Floats:
    """A number of rounds, or several, as a vector."""
    rounds = np.atleast_1d(validation.floats("n", n))
    if rounds.ndim != 1 or rounds.size == 0 or rounds.min() < 1 or (rounds != np.floor(rounds)).any():
        raise BadValue("n", f"n must be whole numbers of rounds, each at least 1, got {n!r}")
    return rounds


def _like(n: ArrayLike, values: Floats) -> Any:
    """A number for a number of rounds, a vector for several."""
    return float(values[0]) if np.ndim(n) == 0 else values


@dataclass(frozen=True)
class Problem:
    """A linear bandit and the LinMED that plays it: all that the bounds depend on but the rounds.

    >>> problem = Problem(d=2, sigma=0.1, sigma_star=0.1)
    >>> round(problem.regret_bound(1_000_000))
    771173

    >>> problem.lam == 0.1**2, problem.B, problem.C, problem.S_star
    (True, 2.0, 2, 1.0)
    """

    d: int
    sigma: float
    """σ, which LinMED is given."""
    sigma_star: float
    """σ*, the true noise level."""
    norm_bound: float = 1.0
    """S, which LinMED is given."""
    _: KW_ONLY
    norm_star: float | None = None
    """S* = ‖θ*‖; None → S."""
    ridge: float | None = None
    """λ; None → σ²/S²."""
    max_gap: float | None = None
    """B; None → 2S*, which holds for arms of norm at most 1."""
    gap: float | None = None
    """Δ, the smallest positive gap; None → nothing is assumed."""
    alpha_emp: float = 0.9
    alpha_opt: float = 0.05
    leverage: float | None = None
    """C_opt d log d, the design's largest leverage; None → d, the optimal design's. `design_leverage`
    measures it."""
    version: int = 0
    """Of LinMED; 1 needs σ ≥ σ* and S ≥ S*."""

    def __post_init__(self) -> None:
        validation.between("d", validation.whole("d", self.d), 1, 1 << 53)
        validation.between("sigma_star", self.sigma_star, 0.0, validation.LARGEST)
        for name in ("sigma", "norm_bound", "norm_star", "ridge", "max_gap", "gap", "leverage"):
            if getattr(self, name) is not None:
                validation.positive(name, getattr(self, name))
        ratio = self.sigma / self.norm_bound
        if self.ridge is None and not math.sqrt(1 / validation.LARGEST) <= ratio <= math.sqrt(
            validation.LARGEST
        ):
            raise BadValue(
                "ridge",
                f"sigma={self.sigma!r} and norm_bound={self.norm_bound!r} give a ridge σ²/S² that is not "
                f"between {1 / validation.LARGEST:g} and {validation.LARGEST:g}; give another ridge",
            )
        for name in ("alpha_emp", "alpha_opt"):
            validation.positive(name, validation.between(name, getattr(self, name), 0.0, 1.0))
        if self.alpha_emp + self.alpha_opt > 1:
            shares = f"{self.alpha_emp} + {self.alpha_opt}"
            raise BadValue("alpha_emp", f"alpha_emp + alpha_opt must be at most 1, got {shares}")
        if self.gap is not None and self.gap > self.B:
            raise BadValue("gap", f"gap must be at most max_gap={self.B:g}, got {self.gap!r}")
        validation.option("version", self.version, (0, 1))
        if self.version == 1 and (self.sigma < self.sigma_star or self.S_star > self.norm_bound):
            raise BadValue(
                "version", "version 1 has a bound only where sigma ≥ sigma_star and norm_bound ≥ norm_star"
            )

    @property
    def S_star(self) -> float:
        """S*."""
        return self.norm_bound if self.norm_star is None else self.norm_star

    @property
    def lam(self) -> float:
        """λ."""
        return (self.sigma / self.norm_bound) ** 2 if self.ridge is None else self.ridge

    @property
    def B(self) -> float:
        """B."""
        return 2 * self.S_star if self.max_gap is None else self.max_gap

    @property
    def C(self) -> float:
        """C_opt d log d."""
        return self.d if self.leverage is None else self.leverage

    @_of_rounds
    def regret_bound(self, n: Floats) -> Floats:
        """The regret lemma (Appendix, Lemma "Regret Bound"), minimised over its analysis variable L ≥ 1.

        Without Δ it grows like √n.
        """
        width = self.B * 2.0**-LEVELS  # B 2^-L
        low = np.where(width > (self.gap or 0.0), width, 0.0)
        beta_log = (self._beta(n) * np.log(n))[:, None]
        star = self._beta_star(n)[:, None]
        emp = 1 + self.alpha_emp**-2
        terms = (
            self._start(n)[:, None]
            + 192 * self.d * beta_log / width * emp * np.log1p(32 * beta_log / (self.lam * width**2))
            + 192 * self.d * star / width * np.log1p(32 * star / (self.lam * width**2))
            + 512 * (self._h_max(n) * self._estimation(n))[:, None] * self.C / (self.alpha_opt * width)
            + n[:, None] * low
        )
        return self._or_all(n, np.fmin.reduce(terms, axis=1))

    @_of_rounds
    def instance_bound(self, n: Floats) -> Floats:
        """Theorem (instance-dependent bound) with its proof's constants: O(d² σ² log²n loglog n / Δ).

        The proof takes the L with Δ/2 ≤ B·2^-L ≤ Δ.

        >>> problem = Problem(d=2, sigma=0.1, sigma_star=0.1, gap=1.0)
        >>> round(problem.instance_bound(10**12) / problem.instance_bound(10**9), 1)  # about (log n)²
        1.7
        """
        if self.gap is None:
            raise BadValue("gap", "gap must be given: the instance-dependent bound is about the smallest one")
        beta_log, star = self._beta(n) * np.log(n), self._beta_star(n)
        emp, squared = 1 + self.alpha_emp**-2, self.lam * self.gap**2
        return self._or_all(
            n,
            self._start(n)
            + 384 * self.d * beta_log / self.gap * emp * np.log1p(128 * beta_log / squared)
            + 384 * self.d * star / self.gap * np.log1p(128 * star / squared)
            + 1024 * self._h_max(n) * self.C / (self.alpha_opt * self.gap) * self._estimation(n),
        )

    @_of_rounds
    def minimax_bound(self, n: Floats) -> Floats:
        """Theorem (minimax bound) with its proof's constants: O(σ d √n log^{3/2} n) for over-specified noise.

        In the proof's first case, n ≤ 4σ²(d/B)² log³n, it is B·n alone: written there as n, which takes
        B = 1. A single round, where the second case divides by log 1, belongs to it.

        >>> problem = Problem(d=2, sigma=0.1, sigma_star=0.1)
        >>> (problem.minimax_bound([10**4, 10**12]) / [10**4, 10**12]).round(2)  # B at first, then √n / n
        array([2.  , 0.04])
        """
        log = np.log(n)
        short = (n <= 4 * np.square(self.sigma * self.d / self.B) * log**3) | (n == 1)
        log = np.where(short, math.e, log)
        scale = np.sqrt(n) / (self.sigma * log**1.5)
        ratio = 32 * n / (self.lam * np.square(self.sigma * self.d))
        beta, star = self._beta(n), self._beta_star(n)
        long = (
            self._start(n)
            + 192 * beta * scale * log * (1 + self.alpha_emp**-2) * np.log1p(ratio * beta / log**2)
            + 192 * star * scale * np.log1p(ratio * star / log**3)
            + 512 * scale * self._h_max(n) * (self.C / self.d) / self.alpha_opt * self._estimation(n)
            + 2 * self.sigma * self.d * np.sqrt(n) * log**1.5
        )
        return self._or_all(n, np.where(short, math.inf, long))

    @_of_rounds
    def h_max(self, n: Floats) -> Floats:
        """An upper bound on H_max = max_t exp(β*_{t−1} / β_{t−1}): the price of under-specified σ or S.

        At most e where σ ≥ σ* and S ≥ S*; at most exp(σ*²/σ²) where S ≥ S*, λ = σ²/S² and σ < σ*
        (the paper's corollary). Version 1, whose proof needs the former, has e in its place.

        >>> round(Problem(d=2, sigma=1.0, sigma_star=1.0).h_max(1000), 6)
        2.718282
        """
        return self._h_max(n)

    # ---- the quantities of the proofs, over a vector of rounds

    def _or_all(self, n: Floats, bound: Floats) -> Floats:
        """min(bound, B·n): nobody loses more than B in every round."""
        least: Floats = np.fmin(bound, self.B * n)
        return least

    def _beta(self, n: Floats) -> Floats:
        """β_n(δ_n), eq. (beta)."""
        return self._squared_radius(n, self.sigma, self.norm_bound)

    def _beta_star(self, n: Floats) -> Floats:
        """β*_n(δ_n), eq. (beta-star)."""
        return self._squared_radius(n, self.sigma_star, self.S_star)

    def _squared_radius(self, n: Floats, sigma: float, norm: float) -> Floats:
        """(σ √(d log(1 + n/(dλ)) + 2 log(n+1)) + √λ S)²."""
        spread = np.sqrt(self.d * self._growth(n) + 2 * np.log(n + 1))
        squared: Floats = (sigma * spread + math.sqrt(self.lam) * norm) ** 2
        return squared

    def _growth(self, n: Floats) -> Floats:
        """log(1 + n/(dλ))."""
        return np.log1p(n / (self.d * self.lam))

    def _estimation(self, n: Floats) -> Floats:
        """λS*²/2 + σ*² d log(1 + n/(dλ)): a quarter of the bound on Σ ⟨θ̂_{t−1} − θ*, A_t⟩²."""
        return self.lam * self.S_star**2 / 2 + self.sigma_star**2 * self.d * self._growth(n)

    def _start(self, n: Floats) -> Floats:
        """The terms of the lemma without L: 6dB(3 + 1/α_emp²) log(1 + 2/λ) + 2B log(n+1) + 4B/α_emp."""
        constant = 6 * self.d * self.B * (3 + self.alpha_emp**-2) * math.log1p(2 / self.lam)
        return constant + 2 * self.B * np.log(n + 1) + 4 * self.B / self.alpha_emp

    def _h_max(self, n: Floats) -> Floats:
        """exp of the larger of the ratios at t = 1, where V = V_0 and δ_0 = 1, and at t = n.

        Both radii are linear in √(log det + 2 log t), so the largest ratio is at one of the ends.
        """
        if self.version == 1:
            return np.full(len(n), math.e)
        first = np.square(self.S_star / self.norm_bound)
        last = self._beta_star(n - 1) / self._beta(n - 1)  # n − 1 rewards seen at the last decision
        return np.exp(np.maximum(first, last))  # noise under-specified without measure: infinity


def design_leverage(arms: ArrayLike, design: str = "approx") -> float:
    """C_opt d log d of the paper's assumption, measured: the largest ‖a‖² in V(π)⁻¹ over these arms.

    It is the rank of the arms for the optimal design. The paper writes it as C_opt d log d, which no
    finite C_opt fits for d = 1; so it is kept as one number here. Version 0 of LinMED designs for the
    arms multiplied by √f_t(a): to hold for a whole run, take the largest over the sets it meets. For
    K ≤ 2d arms every such set has at most K.

    >>> round(design_leverage([[1, 0], [0, 1], [0.6, 0.8]]), 12)
    2.46
    """
    matrix = validation.arm_matrix(arms)
    validation.option("design", design, ("approx", "optimal"))
    weights = approx_design(matrix) if design == "approx" else optimal_design(matrix)
    return certificate(matrix, weights) * int(np.linalg.matrix_rank(matrix, rtol=1e-10))


def c_opt(leverage: float, d: int) -> float:
    """C_opt of the paper's assumption from the measured leverage; infinite for d = 1.

    >>> round(c_opt(design_leverage([[1, 0], [0, 1], [0.6, 0.8]]), d=2), 3)
    1.775
    """
    validation.positive("leverage", leverage)
    return leverage / (d * math.log(d)) if validation.whole("d", d) > 1 else math.inf


def exp2_exploration_bound(n: ArrayLike, arms: ArrayLike, theta: ArrayLike) -> Any:
    """Theorem 3 for any fixed arms: EXP2(horizon=n) has at least n γ Σ_a π(a) Δ_a expected regret.

    Every arm has probability at least γ π(a) in every round, with π the G-optimal design, so this holds for
    every n and every noise. γ = √(r log K / (3n)), at most 1/2, for K arms of rank r. On the paper's instance
    π is 1/2 on either arm and it is γ n/2 = √(n log 2 / 6) ≈ 0.34 √n from n = 2 on: the paper's proof drops
    the factor 1/2 when it inserts γ.

    >>> round(exp2_exploration_bound(600, [[1, 0], [0, 1]], theta=[1, 0]), 2)
    8.33
    """
    rounds, matrix = _whole_rounds(n), validation.arm_matrix(arms)
    vector = validation.floats("theta", theta)
    if vector.shape != matrix.shape[1:]:
        raise BadValue("theta", f"theta has shape {vector.shape}, but arms {matrix.shape}")
    means, weights = matrix @ vector, optimal_design(matrix)
    _, gamma = _exp2_rates(rounds, len(matrix), int(np.linalg.matrix_rank(matrix, rtol=1e-10)))
    return _like(n, rounds * gamma * float(weights @ (means.max() - means)))


def exp2_lower_bound(n: ArrayLike, gap: float = 1.0, dim: int = 2) -> Any:
    """What EXP2(horizon=n) loses at least on the paper's instance without noise; holds for every n.

    It is (d−1)/d · (Δ γ n + (1−γ) (2/η) log(2/(1 + exp(−ηΔn)))) with η = √(log d / (3dn)) and γ = d η, at
    most 1/(2d) and 1/2. The first term is that of the paper's proof (see `exp2_exploration_bound`). The
    second is what the exponential weights cost while they learn, which the paper leaves out, and larger by a
    factor of six for Δ = 1: of order √(d n log d) once ηΔn is large, whatever Δ is.

    Θ₁ is a sum of unbiased estimates of Δ and the other Θⱼ are 0, because no other arm pays anything. The
    weights of the others are (d−1)/(d−1 + exp(ηΘ₁)) ≥ (2(d−1)/d)/(1 + exp(ηΘ₁)), convex in Θ₁ ≥ 0: by
    Jensen's inequality E Θ₁ = Δ(t−1) may stand for Θ₁. The sum over rounds is at least the integral.

    >>> round(exp2_lower_bound(600), 2)
    56.88
    """
    rounds, gap, dim = _whole_rounds(n), validation.positive("gap", gap), _several("dim", dim)
    eta, gamma = _exp2_rates(rounds, dim, dim)
    learning = -2 / eta * np.log1p(np.expm1(-eta * gap * rounds) / 2)  # exact for small gaps too
    return _like(n, (dim - 1) / dim * (gap * gamma * rounds + (1 - gamma) * learning))


def spanner_igw_lower_bound(
    n: ArrayLike, gap: float = 1.0, dim: int = 2, *, C_opt: float = 4.0, delta: float | None = None
) -> Any:
    """What SpannerIGW(horizon=n) loses at least on the paper's instance without noise; holds for every n.

    C_opt and delta are the policy's. The bound is n Δ q/(λ + ηΔ) ≥ n Δ q/(1 + ηΔ), where q = (d−1)/(2d) is
    the design's half share of the worse arms, λ in [1/2, 1] makes the probabilities sum to 1 and
    η = √(n / (C_opt d (d log n + 32 log(2/δ)))). For ηΔ far above 1 it is q n/η: of order √(n log n), more
    than the Ω(Δ√n) of Theorem 4, and no longer dependent on Δ. While ηΔ is below 1 it grows like n.

    Without noise ridge regression estimates Δ N/(N + ridge) ≤ Δ for e₁ after N pulls and 0 for the others, so
    no empirical gap ever exceeds Δ, and the probability of a worse arm is at least q/(λ + ηΔ) in every round
    and after every past. The paper's detour by the round J in which every arm has been pulled, with its
    factor P(J ≤ 4) ≥ 3/16, its loss of four rounds, n ≥ 8 and ties that go to e₁, is not needed. The design
    is uniform for orthogonal arms of any length (the lemma's V⁻¹ should read diag(2/p², 2/q²)).

    This η is the policy's, as the paper's experiments have it. The paper's proof has another one,
    η = (1/d) √(2n / (c log n + 32 log(2/δ))) with d = 2, δ = 1/4, C_opt = 1 and a c that is not given: for
    c = d it is that of `C_opt=1.0, delta=0.25`.

    >>> round(spanner_igw_lower_bound(600, delta=0.01), 2)
    97.59
    """
    rounds, gap, dim = _whole_rounds(n), validation.positive("gap", gap), _several("dim", dim)
    rate = 1 / (rounds + 1) if delta is None else np.float64(validation.failure_rate("delta", delta))
    regression = dim * np.log(rounds) + 32 * np.log(2 / rate)
    scaled = gap * np.sqrt(rounds / (validation.positive("C_opt", C_opt) * dim * regression))  # ηΔ
    others = (dim - 1) / (2 * dim)
    # λ solves (1−q)/λ + q/(λ + ηΔ) = 1, a quadratic equation; this is λ + ηΔ.
    denominator = (1 + scaled + np.sqrt((1 - scaled) ** 2 + 4 * (1 - others) * scaled)) / 2
    return _like(n, rounds * gap * others / denominator)


def _exp2_rates(n: Floats, arms: int, rank: int) -> tuple[Floats, Floats]:
    """η and γ of EXP2 when it is told the horizon."""
    eta = np.minimum(np.sqrt(math.log(arms) / (3 * rank * n)), 1 / (2 * rank))
    return eta, rank * eta


def _several(name: str, dim: int) -> int:
    """A dimension in which there is more than one arm."""
    return int(validation.between(name, validation.whole(name, dim, at_least=2), 2, 1 << 53))
