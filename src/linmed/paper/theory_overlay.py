"""Lay LinMED's measured regret beside the paper's bounds, and follow both far beyond any simulation."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from linmed.paper import drawing
from linmed.paper.experiment import THEORY, Findings
from linmed.paper.roster import DELTA
from linmed.paper.statistics import Estimate, resampled, slope
from linmed.policies import LinMED
from linmed.report.figures import BOUND, DASH_DOT, DASHED, DASHES, DOTS, INK, POLICY
from linmed.streams import stream
from linmed.theory import Problem, exp2_exploration_bound, spanner_igw_lower_bound
from linmed.validation import Floats, Ints

FAR = 1e12
"""How far the bounds are followed: to where all of them say something."""
FIRST = 10
"""Where figures begin: before, regret without chance is not what happens."""
PER_DECADE = 40
STEP = 0.01
"""Rounds without chance that are taken at once, relative to those before."""
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class MeanField(NamedTuple):
    """LinMED's regret over rounds without chance, with what each arm has in it.

    Every arm gets its probability's share of every round, and θ̂ is θ*. Rounds cost nothing here, so this
    shows how regret goes on where no simulation gets to.
    """

    rounds: Floats
    by_arm: Floats  # (T,K)
    regret: Floats

    @property
    def exponents(self) -> Floats:
        """p of regret ∝ tᵖ around each round, over half a decade to either side where there is as much."""
        x, y = np.log(self.rounds), np.log(self.regret)
        reach = 0.5 * math.log(10.0)
        low, high = np.maximum(x - reach, x[0]), np.minimum(x + reach, x[-1])
        exponents: Floats = (np.interp(high, x, y) - np.interp(low, x, y)) / (high - low)
        return exponents

    def share(self, arms: Floats, start: float, end: float) -> float:
        """Of the regret between two rounds, what these arms (K,), a mask, have in it."""
        parts = self.by_arm[:, arms].sum(axis=1)
        part, whole = (np.diff(np.interp([start, end], self.rounds, y))[0] for y in (parts, self.regret))
        return float(part / whole)

    def exponent(self, start: float, end: float) -> float:
        """p of regret ∝ tᵖ between two rounds."""
        first, last = np.interp(np.log([start, end]), np.log(self.rounds), np.log(self.regret))
        return float((last - first) / math.log(end / start))

    @property
    def turn(self) -> float:
        """The round from which on the exponent only falls."""
        rising = np.flatnonzero(np.diff(self.exponents) > 0.0)
        return float(self.rounds[rising[-1] + 1]) if rising.size else float(self.rounds[0])


def mean_field(policy: LinMED, arms: Floats, means: Floats, last: float) -> MeanField:
    """Follow it up to round `last`, for fixed arms (K,d), K ≤ 2d, which the design takes alike, δ = 1/(t+1).

    p(a) ∝ q(a) exp(−Δ_a² / (β ‖a − a*‖²)) in the norm of V⁻¹, and V grows by Σ p(a) a aᵀ in a round.
    """
    K, d = arms.shape
    best = int(means.argmax())
    gap, apart = means[best] - means, arms - arms[best]
    share = np.full(K, (1.0 - policy.alpha_emp) / K)  # the design's and the uniform one, which are the same
    share[best] += policy.alpha_emp
    squares = np.einsum("ai,aj->aij", arms, arms)
    V, t, regret = policy.lam * np.eye(d), 0.0, np.zeros(K)
    sigma, norm = policy.numbers
    start, level = float(np.linalg.slogdet(V)[1]), math.sqrt(policy.lam) * norm
    rounds, losses = [], []
    while t < last:
        step = min(max(1.0, STEP * t), last - t)
        spread = float(np.linalg.slogdet(V)[1]) - start + 2.0 * math.log(t + 1.0)
        beta = (sigma * math.sqrt(max(spread, 0.0)) + level) ** 2
        distance = np.einsum("ai,ij,aj->a", apart, np.linalg.inv(V), apart)
        exponent = np.divide(gap**2, beta * distance, out=np.zeros(K), where=distance > 0.0)
        p = share * np.exp(-exponent)
        p /= p.sum()
        V += step * np.einsum("a,aij->ij", p, squares)
        t += step
        regret = regret + step * p * gap
        rounds.append(t)
        losses.append(regret)
    by_arm = np.array(losses)
    return MeanField(np.array(rounds), by_arm, by_arm.sum(axis=1))


class Bounds(NamedTuple):
    """The paper's bounds of LinMED, none above the trivial one."""

    rounds: Floats
    lemma: Floats
    instance: Floats
    minimax: Floats
    trivial: Floats

    @classmethod
    def of(cls, problem: Problem, rounds: Floats) -> "Bounds":
        """Compute all of them over these rounds."""
        lemma, instance = problem.regret_bound(rounds), problem.instance_bound(rounds)
        return cls(rounds, lemma, instance, problem.minimax_bound(rounds), problem.B * rounds)

    def begins(self, bound: Floats) -> float:
        """The round from which on a bound says more than that nobody can lose B in every round."""
        below = bound < self.trivial
        return float(self.rounds[below.argmax()]) if below.any() else math.inf


@dataclass(frozen=True, kw_only=True)
class Overlay:
    """What was measured at some rounds, the bounds there and far beyond, and the growth of regret."""

    problem: Problem
    name: str
    """The problem in words."""
    gaps: Floats
    """Of every arm."""
    measured: Floats
    error: Floats
    trials: int
    here: Bounds
    """At the rounds that were measured."""
    exponent: Estimate
    late: Ints
    fitted: Floats
    """Regret with that exponent at the `late` rounds."""
    decades: dict[int, Estimate]
    """Exponents of the measured regret, by the round at which a decade ends."""
    far: Bounds
    """From the first round to FAR."""
    limit: MeanField
    """LinMED's regret without chance, as far."""
    exp2: Floats
    """What EXP2 loses at least in runs of `far.rounds`, whatever the noise."""
    spanner_igw: Floats | None
    """What SpannerIGW loses at least in such runs without noise; None where the theorem has other arms."""

    @property
    def looseness(self) -> float:
        """How many times the measured regret the best of the bounds is at the end."""
        best = min(float(bound[-1]) for bound in self.here[1:])
        return best / float(self.measured[-1]) if self.measured[-1] > 0 else math.inf

    @property
    def orders_cross(self) -> float:
        """Where d²σ² log²n / Δ falls below σ d √n log^1.5 n: n / log n = (dσ/Δ)², the larger root."""
        assert self.problem.gap is not None
        level = (self.problem.d * self.problem.sigma / self.problem.gap) ** 2
        if level <= math.e:  # it is below everywhere
            return 1.0
        # x = log n solves x − log x = log level.
        return math.exp(float(brentq(lambda x: x - math.log(x) - math.log(level), 1.0, 600.0)))

    @property
    def text(self) -> str:
        """The curves in words, and why their growth does not contradict the theorem."""
        return f"{self._end} {self._growth} {self._beyond}"

    @property
    def _end(self) -> str:
        _, lemma, instance, minimax, trivial = (bound[-1] for bound in self.here)
        begin = [_about(self.far.begins(b)) for b in (self.far.lemma, self.far.instance, self.far.minimax)]
        return (
            f"{self.name}. After {self.here.rounds[-1]:,.0f} rounds LinMED-90 with δ = 1/(t+1) has regret "
            f"{self.measured[-1]:,.1f}. The regret lemma, minimised over L, allows {lemma:,.0f}, "
            f"the instance-dependent theorem {instance:,.0f} and the minimax theorem "
            f"{minimax:,.0f}, where nobody can lose more than B·n = {trivial:,.0f}. The "
            f"best of them is {self.looseness:,.0f} times the measured regret. With the constants of its "
            f"proof the lemma says more than B·n from {begin[0]} rounds on, the instance-dependent theorem "
            f"from {begin[1]}, the minimax theorem from {begin[2]}."
        )

    @property
    def _growth(self) -> str:
        n = float(self.here.rounds[-1])
        decades = ", ".join(f"{p} to {_about(end)}" for end, p in self.decades.items())
        listed = f" (by decade: {decades})" if decades else ""
        logs = 2.0 * math.log10(math.log(n) / math.log(n / 10)) if n >= 100 else math.nan
        beside = f"; log² n has {logs:.2f} there" if n >= 100 else ""
        return f"Over the last decade regret grows like t to the power {self.exponent}{listed}{beside}."

    @property
    def _beyond(self) -> str:
        here = float(self.here.rounds[-1])
        end = math.ceil(math.log10(max(here, 100.0)))
        ahead = ", ".join(
            f"{self.limit.exponent(10.0 ** (k - 1), 10.0**k):.2f} to {_about(10.0**k)}"
            for k in range(end, round(math.log10(FAR)) + 1)
        )
        turn, steepest = self.limit.turn, np.interp(self.limit.turn, self.limit.rounds, self.limit.exponents)
        if turn < FIRST:
            course = "they fall from the start"
        else:
            course = f"they rise to {steepest:.2f} around round {_about(turn)} and only fall after it"
        near = self.limit.share(self.gaps == self.problem.gap, here / 10, here)
        if near > 0.5 and (self.gaps > (self.problem.gap or 0.0)).any():
            course += (
                f"; until then the arm that is only {self.problem.gap:g} worse, {near:.0%} of the regret of "
                "the last decade, is ruled out by pulls of a much worse one, which become rare long before "
                "they have told the two apart, and has to be ruled out by its own pulls later"
            )
        return (
            "That is no contradiction: O(log² n) is about what comes in the end. Taken without constants, "
            "d²σ² log² n / Δ is below σ d √n log^1.5 n from "
            f"{_about(self.orders_cross)} rounds on, but that does not say when regret follows it. "
            "LinMED without chance (θ̂ = θ*, every arm gets its probability's share of every round) has "
            f"regret {np.interp(here, self.limit.rounds, self.limit.regret):,.1f} here and exponents "
            f"{ahead}: {course}. Those of log² n end with {2 * math.log10(12 / 11):.2f}."
        )


def overlay(found: Findings) -> Overlay:
    """Compare the setting of the theorems: LinMED with δ_t = 1/(t+1)."""
    setting = found.setting(*THEORY)
    policy: Any = setting.policies[0]  # LinMED
    results = found.results[THEORY]
    block = next(setting.environment.blocks(stream(found.seed, "environment", 0)))
    gaps = block.means.max() - block.means
    K, d = block.arms.shape
    assert 2 * d >= K  # then ApproxDesign is uniform, whatever the rescaling, and its leverage at most K
    sigma_star = setting.environment.sigma  # type: ignore[attr-defined]
    sigma, norm = policy.numbers
    problem = Problem(
        d, sigma, sigma_star, norm,
        max_gap=float(gaps.max()), gap=float(gaps[gaps > 0].min()), leverage=float(K),
        alpha_emp=policy.alpha_emp, alpha_opt=policy.design_share,
    )  # fmt: skip
    rounds, curves = results.checkpoints, results.regret(policy.name)
    measured, late = results.mean(policy.name), rounds >= found.horizon / 10
    p = resampled(slope(rounds, found.horizon / 10), curves)
    with np.errstate(divide="ignore", invalid="ignore"):  # no regret at all: no fit, NaN
        anchor = np.mean(np.log(measured[late]) - p.value * np.log(rounds[late]))
        fitted = np.exp(anchor + p.value * np.log(rounds[late]))
    far = np.unique(np.floor(np.geomspace(1.0, FAR, round(PER_DECADE * math.log10(FAR)))))
    theta = np.linalg.lstsq(block.arms, block.means, rcond=None)[0]
    orthogonal = K == d and np.array_equal(block.arms @ block.arms.T, np.eye(d))
    theirs = orthogonal and np.count_nonzero(block.means) == 1
    ends = (10**k for k in range(2, 13) if 10 ** (k + 1) <= found.horizon)
    return Overlay(
        problem=problem, name=_words(problem, K), gaps=gaps, measured=measured,
        error=np.nan_to_num(results.standard_error(policy.name)), trials=len(curves),
        here=Bounds.of(problem, rounds.astype(np.float64)), exponent=p, late=rounds[late], fitted=fitted,
        decades={end: resampled(slope(rounds, end / 10, end), curves) for end in ends},
        far=Bounds.of(problem, far), limit=mean_field(policy, block.arms, block.means, FAR),
        exp2=exp2_exploration_bound(far, block.arms, theta),
        spanner_igw=spanner_igw_lower_bound(far, problem.B, d, delta=DELTA) if theirs else None,
    )  # fmt: skip


def draw_theory(found: Findings) -> drawing.Drawing:
    """Draw measured regret, the fitted growth, and the bounds up to where they say something."""
    curves = overlay(found)
    figure, ax = drawing.new(7.6, 5.4)
    rounds, p, far = curves.here.rounds, curves.exponent, curves.far
    own, other = POLICY["LinMED-90"].light, POLICY["LinTS-Freq"].light
    low, high = drawing.interval(curves.measured, curves.error, True, curves.trials)

    def draw(x: Any, y: Any, label: str, colour: str, width: float, **style: Any) -> None:
        ax.plot(x, y, color=colour, linewidth=width, label=label, **style)

    draw(far.rounds, far.trivial, "largest gap × rounds", INK.light, 1.2, linestyle=DOTS)
    draw(far.rounds, far.minimax, "minimax theorem", BOUND.light, 1.5, linestyle=DASH_DOT)
    draw(far.rounds, far.lemma, "regret lemma, best L", BOUND.light, 4.5, alpha=0.35)
    draw(far.rounds, far.instance, "instance-dependent theorem", BOUND.light, 1.5, linestyle=DASHED)
    draw(rounds, curves.measured, "LinMED-90, δ = 1/(t+1), measured", own, 2.4)
    ax.fill_between(rounds, low, high, color=own, alpha=0.18, linewidth=0)
    draw(curves.limit.rounds, curves.limit.regret, "the same without chance", own, 1.3, linestyle=DASHES)
    fit = f"fit of the last decade: $t^{{{p.value:.2f}}}$"
    draw(curves.late, curves.fitted, fit, other, 1.8, linestyle=DASHES)
    lost = "told n: loses at least this"
    draw(far.rounds, curves.exp2, f"EXP2, {lost}", POLICY["EXP2"].light, 1.6, linestyle=DOTS)
    if curves.spanner_igw is not None:
        green = POLICY["SpannerIGW"].light
        draw(far.rounds, curves.spanner_igw, f"SpannerIGW, {lost} (no noise)", green, 1.6, linestyle=DOTS)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(FIRST, FAR)
    ax.set_ylim(float(curves.limit.regret[FIRST - 1]) / 2, float(far.minimax.max()) * 3)
    ax.xaxis.set_major_locator(drawing.ticker.LogLocator(numticks=14))
    ax.xaxis.set_minor_formatter(drawing.ticker.NullFormatter())
    title = found.experiment.title
    ax.set_title(f"{title}: {curves.name}")
    ax.set_xlabel("round")
    ax.set_ylabel("cumulative regret")
    drawing.legend(figure, ax, 2)
    caption = (
        f"{title} ({curves.name}): measured regret, the paper's bounds with the constants of their proofs, "
        "and the fitted growth."
    )
    return drawing.Drawing(f"{found.experiment.name}-theory", caption, figure, curves.text)


def _words(problem: Problem, arms: int) -> str:
    low, high = problem.gap or 0.0, problem.B
    gaps = f"a gap of {low:g}" if low == high else f"gaps from {low:g} to {high:g}"
    given = "σ = σ*" if problem.sigma == problem.sigma_star else f"σ = {problem.sigma:g}, σ*"
    return f"{arms} arms in {problem.d} dimensions, {gaps}, {given} = {problem.sigma_star:g}"


def _about(rounds: float) -> str:
    """A number of rounds to two digits, as people write it."""
    if not math.isfinite(rounds):
        return f"more than {_about(FAR)}"
    power = math.floor(math.log10(max(rounds, 1.0)))
    if power < 5:
        return f"{round(rounds, 1 - power):,.0f}"
    lead = f"{rounds / 10.0**power:.1f}".removesuffix(".0")
    return ("" if lead == "1" else f"{lead}·") + "10" + str(power).translate(RAISED)
