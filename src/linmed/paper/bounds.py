"""Measured regret, the paper's bounds and the growth of regret on the same rounds, and far beyond them."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from linmed.paper.experiment import THEORY, Findings
from linmed.paper.lineup import DELTA
from linmed.paper.mean_field import MeanField, mean_field
from linmed.paper.statistics import Estimate, resampled, slope
from linmed.streams import stream
from linmed.theory import Problem, exp2_exploration_bound, spanner_igw_lower_bound
from linmed.validation import Floats, Ints

FAR = 1e12
"""How far the bounds are followed: to where all of them say something."""
FIRST = 10
"""Where figures begin: before, regret without chance is not what happens."""
PER_DECADE = 40
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class Bounds(NamedTuple):
    """The paper's bounds of LinMED, none above the trivial one."""

    rounds: Floats
    lemma: Floats
    instance: Floats
    minimax: Floats
    trivial: Floats

    @classmethod
    def of(cls, problem: Problem, rounds: Floats) -> "Bounds":
        """All of them over these rounds."""
        lemma, instance = problem.regret_bound(rounds), problem.instance_bound(rounds)
        return cls(rounds, lemma, instance, problem.minimax_bound(rounds), problem.B * rounds)

    def begins(self, bound: Floats) -> float:
        """The round from which on a bound says more than that nobody can lose B in every round."""
        below = bound < self.trivial
        return float(self.rounds[below.argmax()]) if below.any() else math.inf


@dataclass(frozen=True, kw_only=True)
class Overlay:
    """Curves over `rounds`; the fit covers `late` ones."""

    problem: Problem
    name: str
    """The problem in words."""
    gaps: Floats
    """Of every arm."""
    rounds: Ints
    measured: Floats
    error: Floats
    trials: int
    lemma: Floats
    instance: Floats
    minimax: Floats
    trivial: Floats
    exponent: Estimate
    late: Ints
    fitted: Floats
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
        best = min(self.lemma[-1], self.instance[-1], self.minimax[-1], self.trivial[-1])
        return float(best / self.measured[-1]) if self.measured[-1] > 0 else math.inf

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
        lemma, instance, minimax = (
            _about(self.far.begins(bound)) for bound in (self.far.lemma, self.far.instance, self.far.minimax)
        )
        return (
            f"{self.name}. After {self.rounds[-1]:,} rounds LinMED-90 with δ = 1/(t+1) has regret "
            f"{self.measured[-1]:,.1f}. The regret lemma, minimised over L, allows {self.lemma[-1]:,.0f}, "
            f"the instance-dependent theorem {self.instance[-1]:,.0f} and the minimax theorem "
            f"{self.minimax[-1]:,.0f}, where nobody can lose more than B·n = {self.trivial[-1]:,.0f}. The "
            f"best of them is {self.looseness:,.0f} times the measured regret. With the constants of its "
            f"proof the lemma says more than B·n from {lemma} rounds on, the instance-dependent theorem from "
            f"{instance}, the minimax theorem from {minimax}."
        )

    @property
    def _growth(self) -> str:
        n = float(self.rounds[-1])
        decades = ", ".join(f"{p} to {_about(end)}" for end, p in self.decades.items())
        listed = f" (by decade: {decades})" if decades else ""
        logs = 2.0 * math.log10(math.log(n) / math.log(n / 10)) if n >= 100 else math.nan
        beside = f"; log² n has {logs:.2f} there" if n >= 100 else ""
        return f"Over the last decade regret grows like t to the power {self.exponent}{listed}{beside}."

    @property
    def _beyond(self) -> str:
        here = float(self.rounds[-1])
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
    """For LinMED with δ_t = 1/(t+1), as the theorems have it."""
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
    rounds = results.checkpoints
    curves = results.regret(policy.name)
    measured, error = results.mean(policy.name), np.nan_to_num(results.standard_error(policy.name))
    late = rounds >= found.horizon / 10
    p = resampled(slope(rounds, found.horizon / 10), curves)
    with np.errstate(divide="ignore", invalid="ignore"):  # no regret at all: no fit, NaN
        anchor = np.mean(np.log(measured[late]) - p.value * np.log(rounds[late]))
        fitted = np.exp(anchor + p.value * np.log(rounds[late]))
    here = Bounds.of(problem, rounds.astype(np.float64))
    far = np.unique(np.floor(np.geomspace(1.0, FAR, round(PER_DECADE * math.log10(FAR)))))
    theta = np.linalg.lstsq(block.arms, block.means, rcond=None)[0]
    orthogonal = K == d and np.array_equal(block.arms @ block.arms.T, np.eye(d))
    one_better = np.count_nonzero(block.means) == 1
    return Overlay(
        problem=problem,
        name=_words(problem, K),
        gaps=gaps,
        rounds=rounds,
        measured=measured,
        error=error,
        trials=len(results.run(policy.name).trials),
        lemma=here.lemma,
        instance=here.instance,
        minimax=here.minimax,
        trivial=here.trivial,
        exponent=p,
        late=rounds[late],
        fitted=fitted,
        decades={
            end: resampled(slope(rounds, end / 10, end), curves)
            for end in (10**k for k in range(2, 13))
            if 10 * end <= found.horizon
        },
        far=Bounds.of(problem, far),
        limit=mean_field(policy, block.arms, block.means, FAR),
        exp2=exp2_exploration_bound(far, block.arms, theta),
        spanner_igw=(
            spanner_igw_lower_bound(far, problem.B, d, delta=DELTA) if orthogonal and one_better else None
        ),
    )


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
