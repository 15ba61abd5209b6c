"""The paper's regret bounds as functions, with the constants of its proofs.

Symbols: n rounds, dimension d, noise level σ* and ‖θ*‖ = S*, of which LinMED is given σ and S; ridge λ;
gaps at most B and, where not zero, at least Δ. The bounds hold for δ_t = 1/(t+1) (`delta=None`) and
arms of norm at most 1. They speak of expected pseudo-regret. B·n is always a bound too, and for the
horizons of the paper's experiments it is often the smaller one.

Where the determinant of V_n appears, which is random, its largest value stands:
log(det V_n / det V_0) ≤ d log(1 + n/(dλ)).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from linmed import checks
from linmed.checks import Floats
from linmed.design import approx_design, certificate, optimal_design

LEVELS = np.arange(1, 101)
"""Values of the analysis variable L that are tried: 2^-100 is below any gap that matters."""


class _Problem(NamedTuple):
    """Checked arguments of a bound."""

    n: Floats  # as a vector
    d: int
    sigma: float
    sigma_star: float
    S: float
    S_star: float
    lam: float
    B: float
    alpha_emp: float
    alpha_opt: float
    leverage: float  # C_opt d log d
    version: int

    @property
    def beta(self) -> Floats:
        """β_n(δ_n), eq. (beta)."""
        return _squared_radius(self.n, self.d, self.sigma, self.S, self.lam)

    @property
    def beta_star(self) -> Floats:
        """β*_n(δ_n), eq. (beta-star)."""
        return _squared_radius(self.n, self.d, self.sigma_star, self.S_star, self.lam)

    @property
    def h_max(self) -> Floats:
        """H_max; version 1, whose proof needs σ ≥ σ* and S ≥ S*, has e in its place."""
        return np.full(len(self.n), math.e) if self.version == 1 else _h_max(self)

    @property
    def estimation(self) -> Floats:
        """λS*²/2 + σ*² d log(1 + n/(dλ)): a quarter of the bound on Σ ⟨θ̂_{t−1} − θ*, A_t⟩²."""
        return self.lam * self.S_star**2 / 2 + self.sigma_star**2 * self.d * self.growth

    @property
    def growth(self) -> Floats:
        """log(1 + n/(dλ))."""
        return np.log1p(self.n / (self.d * self.lam))

    @property
    def start(self) -> Floats:
        """The terms of the lemma without L: 6dB(3 + 1/α_emp²) log(1 + 2/λ) + 2B log(n+1) + 4B/α_emp."""
        constant = 6 * self.d * self.B * (3 + self.alpha_emp**-2) * math.log1p(2 / self.lam)
        return constant + 2 * self.B * np.log(self.n + 1) + 4 * self.B / self.alpha_emp


def regret_bound(
    n: ArrayLike,
    d: int,
    sigma: float,
    sigma_star: float,
    norm_bound: float = 1.0,
    *,
    norm_star: float | None = None,
    ridge: float | None = None,
    max_gap: float | None = None,
    gap: float | None = None,
    alpha_emp: float = 0.9,
    alpha_opt: float = 0.05,
    leverage: float | None = None,
    version: int = 0,
) -> float | Floats:
    """The regret lemma (Appendix, Lemma "Regret Bound"), minimised over its analysis variable L ≥ 1.

    n: rounds, a number or several. sigma: σ. sigma_star: σ*. norm_bound: S. norm_star: S*, None → S.
    ridge: λ, None → σ²/S². max_gap: B, None → 2S*, which holds for arms of norm at most 1.
    gap: Δ, the smallest positive gap; None → nothing is assumed, and the bound grows like √n.
    leverage: C_opt d log d, the design's largest leverage; None → d, the optimal design's;
        `design_leverage` measures it.
    version: of LinMED; 1 needs sigma ≥ sigma_star and norm_bound ≥ norm_star.

    >>> round(regret_bound(1_000_000, d=2, sigma=0.1, sigma_star=0.1))
    771173
    """
    p = _problem(n, d, sigma, sigma_star, norm_bound, norm_star, ridge, max_gap, alpha_emp, alpha_opt,
                 leverage, version)  # fmt: skip
    least = 0.0 if gap is None else checks.positive("gap", gap)
    if least > p.B:
        raise ValueError(f"gap must be at most max_gap={p.B:g}, got {gap!r}")
    width = p.B * 2.0**-LEVELS  # B 2^-L
    low = np.where(width > least, width, 0.0)
    beta_log = (p.beta * np.log(p.n))[:, None]
    star = p.beta_star[:, None]
    terms = (
        p.start[:, None]
        + 192 * p.d * beta_log / width * (1 + p.alpha_emp**-2) * np.log1p(32 * beta_log / (p.lam * width**2))
        + 192 * p.d * star / width * np.log1p(32 * star / (p.lam * width**2))
        + 512 * (p.h_max * p.estimation)[:, None] * p.leverage / (p.alpha_opt * width)
        + p.n[:, None] * low
    )
    return _like(n, terms.min(axis=1))


def instance_bound(
    n: ArrayLike,
    d: int,
    sigma: float,
    sigma_star: float,
    gap: float,
    norm_bound: float = 1.0,
    *,
    norm_star: float | None = None,
    ridge: float | None = None,
    max_gap: float | None = None,
    alpha_emp: float = 0.9,
    alpha_opt: float = 0.05,
    leverage: float | None = None,
    version: int = 0,
) -> float | Floats:
    """Theorem (instance-dependent bound) with its proof's constants: O(d² σ² log²n loglog n / Δ).

    gap: Δ. The rest as for `regret_bound`. The proof takes the L with Δ/2 ≤ B·2^-L ≤ Δ.
    """
    p = _problem(n, d, sigma, sigma_star, norm_bound, norm_star, ridge, max_gap, alpha_emp, alpha_opt,
                 leverage, version)  # fmt: skip
    delta = checks.positive("gap", gap)
    if delta > p.B:
        raise ValueError(f"gap must be at most max_gap={p.B:g}, got {gap!r}")
    beta_log = p.beta * np.log(p.n)
    return _like(
        n,
        p.start
        + 384 * p.d * beta_log / delta * (1 + p.alpha_emp**-2) * np.log1p(128 * beta_log / (p.lam * delta**2))
        + 384 * p.d * p.beta_star / delta * np.log1p(128 * p.beta_star / (p.lam * delta**2))
        + 1024 * p.h_max * p.leverage / (p.alpha_opt * delta) * p.estimation,
    )


def minimax_bound(
    n: ArrayLike,
    d: int,
    sigma: float,
    sigma_star: float,
    norm_bound: float = 1.0,
    *,
    norm_star: float | None = None,
    ridge: float | None = None,
    max_gap: float | None = None,
    alpha_emp: float = 0.9,
    alpha_opt: float = 0.05,
    leverage: float | None = None,
    version: int = 0,
) -> float | Floats:
    """Theorem (minimax bound) with its proof's constants: O(σ d √n log^{3/2} n) for over-specified noise.

    Arguments as for `regret_bound`. The proof's first case, n ≤ 4σ²(d/B)² log³n, uses the trivial bound,
    written there as n; it is B·n here, since B need not be 1.
    """
    p = _problem(n, d, sigma, sigma_star, norm_bound, norm_star, ridge, max_gap, alpha_emp, alpha_opt,
                 leverage, version)  # fmt: skip
    log = np.log(p.n)
    root = np.sqrt(p.n)
    rate = 2 * p.sigma * p.d * root * log**1.5
    # A single round has log n = 0, which the display divides by; the trivial bound holds there.
    short = (p.n <= 4 * (p.sigma * p.d / p.B) ** 2 * log**3) | (p.n == 1)
    safe = np.where(short, math.e, log)
    scale = root / (p.sigma * safe**1.5)
    ratio = 32 * p.n / (p.lam * (p.sigma * p.d) ** 2)
    long = (
        p.start
        + 192 * p.beta * scale * safe * (1 + p.alpha_emp**-2) * np.log1p(ratio * p.beta / safe**2)
        + 192 * p.beta_star * scale * np.log1p(ratio * p.beta_star / safe**3)
        + 512 * scale * p.h_max * (p.leverage / p.d) / p.alpha_opt * p.estimation
        + rate
    )
    return _like(n, np.where(short, np.where(p.n == 1, p.B, rate), long))


def h_max(
    n: ArrayLike,
    d: int,
    sigma: float,
    sigma_star: float,
    norm_bound: float = 1.0,
    *,
    norm_star: float | None = None,
    ridge: float | None = None,
) -> float | Floats:
    """An upper bound on H_max = max_t exp(β*_{t−1} / β_{t−1}): the price of under-specified σ or S.

    At most e where σ ≥ σ* and S ≥ S*; at most exp(σ*²/σ²) where S ≥ S*, λ = σ²/S² and σ < σ*
    (the paper's corollary). Both radii are linear in √(log det + 2 log t), so the largest ratio is at one
    of the ends, and only the end after n rounds depends on n.

    >>> float(round(h_max(1000, d=2, sigma=1.0, sigma_star=1.0), 6))
    2.718282
    """
    p = _problem(n, d, sigma, sigma_star, norm_bound, norm_star, ridge, None, 0.5, 0.25, None, 0)
    return _like(n, _h_max(p))


def design_leverage(arms: ArrayLike, design: str = "approx") -> float:
    """C_opt d log d of the paper's assumption, measured: the largest ‖a‖² in V(π)⁻¹ over these arms.

    It is the rank of the arms for the optimal design. The paper writes it as C_opt d log d, which no
    finite C_opt fits for d = 1; so it is kept as one number here. Version 0 of LinMED designs for the
    arms multiplied by √f_t(a): to hold for a whole run, take the largest over the sets it meets. For
    K ≤ 2d arms every such set has at most K.

    >>> round(design_leverage([[1, 0], [0, 1], [0.6, 0.8]]), 12)
    2.46
    """
    matrix = checks.arm_matrix(arms)
    checks.option("design", design, ("approx", "optimal"))
    weights = approx_design(matrix) if design == "approx" else optimal_design(matrix)
    return certificate(matrix, weights) * int(np.linalg.matrix_rank(matrix, rtol=1e-10))


def c_opt(leverage: float, d: int) -> float:
    """C_opt of the paper's assumption from the measured leverage; infinite for d = 1."""
    checks.positive("leverage", leverage)
    return leverage / (d * math.log(d)) if checks.whole("d", d) > 1 else math.inf


def _squared_radius(n: Floats, d: int, sigma: float, norm: float, lam: float) -> Floats:
    """(σ √(d log(1 + n/(dλ)) + 2 log(n+1)) + √λ S)²."""
    radius: Floats = sigma * _spread(n, d, lam) + math.sqrt(lam) * norm
    return radius**2


def _spread(n: Floats, d: int, lam: float) -> Floats:
    spread: Floats = np.sqrt(d * np.log1p(n / (d * lam)) + 2 * np.log(n + 1))
    return spread


def _h_max(p: _Problem) -> Floats:
    """exp of the larger of the ratios at t = 1, where V = V_0 and δ_0 = 1, and at t = n."""
    first = (p.S_star / p.S) ** 2
    before = p.n - 1  # rewards seen at the last decision
    last = _squared_radius(before, p.d, p.sigma_star, p.S_star, p.lam) / _squared_radius(
        before, p.d, p.sigma, p.S, p.lam
    )
    with np.errstate(over="ignore"):  # noise under-specified without measure: no bound, infinity
        return np.exp(np.maximum(first, last))


def _problem(
    n: ArrayLike,
    d: int,
    sigma: float,
    sigma_star: float,
    norm_bound: float,
    norm_star: float | None,
    ridge: float | None,
    max_gap: float | None,
    alpha_emp: float,
    alpha_opt: float,
    leverage: float | None,
    version: int,
) -> _Problem:
    rounds = np.atleast_1d(checks.floats("n", n))
    if rounds.ndim != 1 or rounds.size == 0 or rounds.min() < 1 or (rounds != np.floor(rounds)).any():
        raise ValueError(f"n must be a number of rounds, or several, each whole and at least 1, got {n!r}")
    S = checks.positive("norm_bound", norm_bound)
    S_star = S if norm_star is None else checks.positive("norm_star", norm_star)
    sigma = checks.positive("sigma", sigma)
    sigma_star = checks.between("sigma_star", sigma_star, 0.0, checks.LARGEST)
    d = checks.whole("d", d)
    for name, share in (("alpha_emp", alpha_emp), ("alpha_opt", alpha_opt)):
        checks.positive(name, checks.between(name, share, 0.0, 1.0))
    if alpha_emp + alpha_opt > 1:
        raise ValueError(f"alpha_emp + alpha_opt must be at most 1, got {alpha_emp} + {alpha_opt}")
    checks.option("version", version, (0, 1))
    if version == 1 and (sigma < sigma_star or S_star > S):
        raise ValueError("version 1 has a bound only where sigma ≥ sigma_star and norm_bound ≥ norm_star")
    return _Problem(
        n=rounds,
        d=d,
        sigma=sigma,
        sigma_star=sigma_star,
        S=S,
        S_star=S_star,
        lam=(sigma / S) ** 2 if ridge is None else checks.positive("ridge", ridge),
        B=2 * S_star if max_gap is None else checks.positive("max_gap", max_gap),
        alpha_emp=float(alpha_emp),
        alpha_opt=float(alpha_opt),
        leverage=float(d) if leverage is None else checks.positive("leverage", leverage),
        version=version,
    )


def _like(n: ArrayLike, values: Floats) -> float | Floats:
    """A number for a number, an array for several."""
    return float(values[0]) if np.ndim(n) == 0 else values
