"""Play Figure 1: estimate what the uniform policy earns from logs of LinMED-50 and LinTS-Freq.

An M-sample Monte-Carlo estimate of a probability p counts X ~ Binomial(M, p) hits. So one exact
log suffices: the counts are drawn from it, and every way to turn them into a propensity is scored on the
same decisions.

A score is (1/n) Σ_t (1/K)/p̂_t · y_t, and of 5,000 scores one can carry the error: weights have heavy tails.
Beside it stands the score whose every term is replaced by its expectation over arm, reward and count given
the history: (1/n) Σ_t Σ_a (1/K) μ_a E[p_t(a)/p̂(X)]. Its mean over trials is the same (tower rule), and its
terms are bounded. The factors E[p/p̂(X)], X ~ Binomial(M, p), are 1 without a bias.
"""

import math
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline

from linmed.environments import FixedArms
from linmed.ope import ipw
from linmed.paper import drawing
from linmed.paper.experiment import Asked, Experiment, Findings, Numbers, Setting, Size
from linmed.paper.output import Output
from linmed.paper.roster import Variant, policies
from linmed.paper.statistics import Normal, deviation, mean
from linmed.policies import LinMED, LinTS, Policy
from linmed.report.figures import INK, POLICY
from linmed.report.progress import Bar
from linmed.report.tables import Table
from linmed.simulation import Store
from linmed.simulation.run import compute
from linmed.simulation.trials import Job, Outcome, Tick, TrialBatch
from linmed.streams import stream
from linmed.validation import Floats

ORACLE = 0.8
"""Mean reward of the uniform policy: (1 + 0.6)/2."""
SAMPLES = (1_000, 10_000, 100_000)
"""M."""
PUBLISHED = {1_000: (0.906, 0.099), 10_000: (0.819, 0.069), 100_000: (0.799, 0.039)}
"""M → mean and "standard deviation" of the paper's table."""
BATCH = 500

STEP = 0.01
"""Of the table, in log p: its relative error is below 1e-9."""
RARE = 1e-5
"""Up to this Mp, E[1/max(X, ½)] = 2 − Mp with a relative error of (Mp)²/8 < 2e-11."""
AXIS = (0.78, 0.92)
"""Of mean scores in the figure: 0.8 and the largest published bias, 0.106, side by side."""
KEPT = 2.0
"""As run, scores beyond ±2 are dropped from the histograms."""

LINMED_EXACT = "LinMED-50"
LINTS_EXACT = "LinTS-Freq, exact"
OMITTED = "LinTS-Bayes, floor 0.5/M, M=1000, expected"


def floor_column(M: int) -> str:
    """Name the scores of LinTS-Freq's log with propensities max(X, 0.5)/M, as in the public code."""
    return f"LinTS-Freq, floor 0.5/M, M={M}"


def expected(column: str) -> str:
    """Name the same scores with every term replaced by its expectation given the history."""
    return f"{column}, expected"


def zero_any_column(M: int) -> str:
    """Name the arms a round whose estimate is 0, expected; of two arms, the share of such rounds."""
    return f"LinTS-Freq, arms estimated at 0, expected, M={M}"


def zero_ever_column(M: int) -> str:
    """Name the chance, given the history, that LinTS-Freq's estimates give 0 to an arm at least once."""
    return f"LinTS-Freq, an arm estimated at 0 at least once, expected, M={M}"


# ---- factors


def zero_chance(M: int, log_p: Floats) -> Floats:
    """Compute P(X = 0) = (1 − p)^M."""
    chance: Floats = np.exp(M * _log_complement(log_p))
    return chance


def floor_factor(M: int, log_p: Floats) -> Floats:
    """Compute E[p/p̂] of p̂ = max(X, ½)/M: g(p) = p E[M/max(X, ½)], by a table over log p."""
    table = _table(M)
    factor: Floats = np.exp(table(np.clip(log_p, table.x[0], 0.0)))
    below = log_p < table.x[0]
    if below.any():
        hits = M * np.exp(log_p[below])
        factor[below] = hits * (2.0 - hits)
    return factor


def floor_factor_at(M: int, p: float) -> float:
    """Compute g(p) for one p: the sum over those counts that have any weight.

    The weights w(k) ∝ P(X = k) follow from w(k+1)/w(k) = (M − k)/(k + 1) · p/(1 − p), and their sum makes
    them probabilities: no factorials, whose logarithms would cost the last six digits at M = 10⁵.
    """
    if p >= 1.0:
        return 1.0
    centre, reach = M * p, 12.0 * math.sqrt(M * p * (1.0 - p)) + 60.0
    counts = np.arange(max(math.floor(centre - reach), 0), min(math.ceil(centre + reach), M) + 1)
    weights = np.ones(len(counts))
    np.cumprod((M - counts[:-1]) / counts[1:] * (p / (1.0 - p)), out=weights[1:])
    return float(M * p * (weights / np.maximum(counts, 0.5)).sum() / weights.sum())


@lru_cache(maxsize=16)
def _table(M: int) -> CubicSpline:
    """log g(p) over log p, from Mp = RARE to p = 1."""
    lowest = math.log(RARE / M)
    nodes = np.linspace(lowest, 0.0, math.ceil(-lowest / STEP) + 1)
    return CubicSpline(nodes, np.log([floor_factor_at(M, math.exp(node)) for node in nodes]))


def _log_complement(log_p: Floats) -> Floats:
    """log(1 − p); −∞ for p = 1."""
    with np.errstate(divide="ignore"):
        complement: Floats = np.log1p(-np.exp(np.minimum(log_p, 0.0)))
    return complement


# ---- logs and their scores


class Log(NamedTuple):
    """What a policy did in T trials of n rounds, and what it might have done."""

    reward: Floats  # (T, n)
    probability: Floats  # (T, n) of the arm played
    log_probabilities: Floats  # (T, n, K) of all arms


@dataclass(frozen=True)
class Logs(Job):
    """Logs of both policies. `run` gives the uniform policy's IPW scores by how the propensity was found."""

    linmed: LinMED
    lints: LinTS
    omitted: LinTS | None
    """LinTS-Bayes, which the paper leaves out here."""
    first_known: bool
    """Whether the first round's 1/K is known, as in the authors' public code."""

    def log(self, policy: Policy, tick: Tick = lambda replica_rounds: None) -> Log:
        """Record rewards and exact probabilities."""
        batch = TrialBatch(policy, self.environment, self.horizon, self.seed, self.trials)
        shape = len(self.trials), self.horizon
        reward, log_probability = np.empty(shape), np.empty(shape)
        log_probabilities = np.empty((*shape, len(self._means)))
        for done, size, noise in batch.blocks():
            for t in range(size):
                choice = policy.decide(batch.state, batch.environments.arms(t), noise[t])
                rewards = batch.environments.rewards(t, batch.offset + choice.arm)
                policy.learn(batch.state, choice.features, rewards, batch.replicas)
                reward[:, done + t] = rewards
                log_probability[:, done + t] = choice.log_probability
                log_probabilities[:, done + t] = choice.log_probabilities
            tick(size * len(self.trials))
        return Log(reward, np.exp(log_probability), log_probabilities)

    def expected_score(self, factor: Floats) -> Floats:
        """Average (1/n) Σ_t Σ_a (1/K) μ_a factor_t(a).  factor (T, n, K) = E[p/p̂(X)] → (T,)."""
        score: Floats = (factor @ (self._means / len(self._means))).mean(axis=1)
        return score

    @property
    def _means(self) -> Floats:
        """μ (K,)."""
        problem: Any = self.environment
        means: Floats = np.asarray(problem.arms) @ np.asarray(problem.theta)
        return means

    @classmethod
    def of(cls, variant: Variant, horizon: int, seed: int, trials: int) -> "Logs":
        """Make the text's setting, or the one of the authors' public code."""
        if variant == "text":
            sigma = float(np.sqrt(0.1))
            arms, own_share = [[1.0, 0.0], [0.6, 0.8]], 0.25
        else:
            sigma = 0.1
            arms, own_share = [[0.6, 0.8], [1.0, 0.0]], 0.5
        made: Any = policies((LINMED_EXACT, "LinTS-Freq", "LinTS-Bayes"), sigma, horizon, variant)
        linmed, lints, omitted = made
        problem = FixedArms(arms, theta=[1.0, 0.0], sigma=sigma)
        linmed = replace(linmed, alpha_opt=own_share)
        every, text = tuple(range(trials)), variant == "text"
        return cls(problem, horizon, seed, every, linmed, lints, omitted if text else None, not text)

    @property
    def name(self) -> str:
        """Both policies."""
        return f"the logs of {self.linmed.name} and {self.lints.name}"

    @property
    def rounds(self) -> int:
        """Of two logs or three."""
        return (2 + (self.omitted is not None)) * super().rounds

    def columns(self) -> dict[str, tuple[str, Any]]:
        """Add nothing: scores are told apart by their names."""
        return {}

    def configuration(self) -> dict[str, Any]:
        """Return both policies, the numbers of samples, and what is made of them."""
        played = (self.linmed, self.lints, self.omitted)
        return {"policies": [one.to_dict() for one in played if one], "samples": list(SAMPLES)}

    def run(self, tick: Tick = lambda replica_rounds: None) -> Outcome:
        """Compute scores (trials,) by column, and the time."""
        began = time.perf_counter()
        found: Outcome = {}
        for column, policy in ((LINMED_EXACT, self.linmed), (LINTS_EXACT, self.lints)):
            log = self.log(policy, tick)
            target = 1.0 / log.log_probabilities.shape[-1]
            found[column] = ipw(log.reward, log.probability, target)
            # p/p̂ = 1 for every arm that can be played at all
            found[expected(column)] = self.expected_score((log.log_probabilities > -np.inf).astype(float))
        for M in SAMPLES:
            hits = self.counts(M, log.probability)
            found[floor_column(M)] = ipw(log.reward, np.maximum(hits, 0.5) / M, target)
            found[expected(floor_column(M))] = self.expected_score(floor_factor(M, log.log_probabilities))
            zero = zero_chance(M, log.log_probabilities).sum(axis=2)  # of two arms not both can have none
            found[zero_any_column(M)] = zero.mean(axis=1)
            with np.errstate(divide="ignore"):
                found[zero_ever_column(M)] = -np.expm1(np.log1p(-np.minimum(zero, 1.0)).sum(axis=1))
        if self.omitted is not None:
            log = self.log(self.omitted, tick)
            found[OMITTED] = self.expected_score(floor_factor(min(SAMPLES), log.log_probabilities))
        found["seconds"] = np.full(len(self.trials), (time.perf_counter() - began) / len(self.trials))
        return found

    def counts(self, M: int, probability: Floats) -> Floats:
        """Draw Monte-Carlo hits X ~ Binomial(M, p), from each trial's own stream.  → (trials, rounds)."""
        chances = np.minimum(probability, 1.0)
        rows = [
            stream(self.seed, "offline", trial, M).binomial(M, chances[row])
            for row, trial in enumerate(self.trials)
        ]
        hits = np.array(rows, dtype=np.float64)
        if self.first_known:
            hits[:, 0] = M * chances[:, 0]
        return hits


class OfflineEvaluation(Experiment):
    """Figure 1 and the table of propensities."""

    name = "offline-evaluation"
    title = "Offline evaluation"
    place = "Figure 1, Appendix, Table 2"
    about = (
        "Two arms (1, 0) and (0.6, 0.8), θ* = (1, 0). The uniform policy earns 0.8 a round; how well "
        "does inverse-probability weighting recover that from the log of LinMED-50 or LinTS-Freq?"
    )
    paper, quick, decisive = Size(1_000, 5_000), Size(1_000, 1_000), Size(1_000, 5_000)
    differences = (
        "σ = σ* = 0.1 as a standard deviation, where the text has σ² = 0.1.",
        "LinTS-Freq draws with the squared radius β.",
        "Probabilities estimated as 0 are replaced by 0.5/M.",
        "LinMED-50 has (α_emp, α_opt) = (0.5, 0.5), no half-step, and the arms in reverse order.",
        "Both policies draw the first arm evenly, and LinTS-Freq's probability of it is not estimated.",
        "Scores beyond ±2 are dropped from the histograms, but not from the means.",
    )

    def settings(self, asked: Asked) -> list[Setting]:
        """Return none: it has logs, not regret."""
        return []

    def rounds(self, found: Findings) -> int:
        """Count those of the logs."""
        return _logs(found).rounds

    def run(self, found: Findings, output: Output, executor: Executor | None, bar: Bar) -> Findings:
        """The findings with scores."""
        (logs,) = compute([_logs(found)], BATCH, executor, store=Store(output.offline), progress=bar)
        columns = dict(logs.arrays)
        return replace(found, seconds=float(columns.pop("seconds").sum()), scores=columns)

    def drawings(self, found: Findings) -> Iterator[drawing.Drawing]:
        """Draw histograms of the scores, and their means by how the propensity was found."""
        yield _histograms(found)
        yield _propensities(found)

    def numbers(self, found: Findings) -> Iterator[Numbers]:
        """Tabulate means and spreads of the scores."""
        kinds = [("LinMED-50, exact", "", LINMED_EXACT), ("LinTS-Freq, exact", "", LINTS_EXACT)]
        kinds += [("LinTS-Freq, floor 0.5/M", f"{M:,}", floor_column(M)) for M in SAMPLES]
        spreads = {column: deviation(found.scores[column]).value for _, _, column in kinds}
        yield Numbers(
            "IPW score of the uniform policy (true value 0.8)",
            Table(
                {
                    "log and propensity": label,
                    "M": M,
                    "mean ± s.e.": _decimals(mean(found.scores[column])),
                    "by expectations": _decimals(mean(found.scores[expected(column)])),
                    "standard deviation": f"{spreads[column]:.3f}",
                    "variance": f"{spreads[column] ** 2:.4f}",
                }
                for label, M, column in kinds
            ),
            "“By expectations”: every term of a score is replaced by its expectation over arm, reward and "
            "Monte-Carlo count given the history. The mean is the same, and no single trial carries its "
            "error. The paper's table has means 0.906, 0.819, 0.799 for M = 1,000, 10,000, 100,000, and "
            "0.099, 0.069, 0.039 in the row “standard deviation”.",
        )


def _logs(found: Findings) -> Logs:
    return Logs.of(found.variant, found.horizon, found.seed, found.trials)


def _decimals(estimate: Normal) -> str:
    return f"{estimate.value:.4f} ± {estimate.error:.4f}"


# ---- figures


def _histograms(found: Findings) -> drawing.Drawing:
    """Scores with M Monte-Carlo samples, beside those of exact probabilities."""
    figure, axes = drawing.new(10.5, 3.6, 1, len(SAMPLES), sharey=True)
    every = np.concatenate([found.scores[c] for c in (LINMED_EXACT, *map(floor_column, SAMPLES))])
    low, high = np.quantile(every, [0.001, 0.999])
    edges = np.linspace(max(math.floor(10 * low) / 10, 0.0), min(math.ceil(10 * high) / 10, 2.0), 61)
    own, other = POLICY["LinMED-50"], POLICY["LinTS-Freq"]
    for ax, M in zip(axes, SAMPLES, strict=True):
        for scores, line, label in (
            (found.scores[LINMED_EXACT], own, "LinMED-50, exact probability"),
            (found.scores[floor_column(M)], other, "LinTS-Freq, M Monte-Carlo samples, floor 0.5/M"),
        ):
            shown = kept(scores, found.variant)
            weights = np.full(len(shown), 1.0 / len(shown))
            ax.hist(shown, edges, weights=weights, color=line.light, alpha=0.45, label=label)
            ax.hist(shown, edges, weights=weights, color=line.light, histtype="step", linewidth=1.2)
            ax.axvline(float(scores.mean()), color=line.light, linestyle=line.dash, linewidth=1.6)
        ax.axvline(ORACLE, color=INK.light, linestyle=(0, (2, 2)), linewidth=1.2, label="true value 0.8")
        beyond = float((kept(found.scores[floor_column(M)], found.variant) > edges[-1]).mean())
        more = f"  ({100 * beyond:.1f} % beyond {edges[-1]:g})" if beyond >= 0.001 else ""
        ax.set_title(f"M = {M:,}{more}")
        ax.set_xlabel("IPW score of the uniform policy")
        ax.set_xlim(edges[0], edges[-1])
        ax.xaxis.set_major_locator(drawing.ticker.MaxNLocator(5, prune="both"))
    axes[0].set_ylabel("share of trials")
    drawing.legend(figure, axes[0], 3)
    return drawing.Drawing(
        found.experiment.name, "IPW scores of the uniform policy; lines mark the means.", figure
    )


def kept(scores: Floats, variant: Variant) -> Floats:
    """The scores that a histogram shows."""
    return scores[np.abs(scores) < KEPT] if variant == "as-run" else scores


def _propensities(found: Findings) -> drawing.Drawing:
    """Mean scores by how the propensity was found, on an axis that has room for the published bias."""
    figure, ax = drawing.new(6.4, 4.2)
    x = np.log10(SAMPLES)
    kinds = (
        ("LinTS-Freq, floor 0.5/M", list(map(floor_column, SAMPLES)), POLICY["LinTS-Freq"], "-", "o", -0.03),
        ("LinTS-Freq, exact", [LINTS_EXACT] * len(SAMPLES), POLICY["LinIMED-1"], "-", "D", 0.0),
        ("LinMED-50, exact", [LINMED_EXACT] * len(SAMPLES), POLICY["LinMED-50"], "-", "^", 0.06),
    )
    lowest, highest = AXIS
    for label, columns, line, dash, marker, shift in kinds:
        estimates = [mean(found.scores[expected(column)]) for column in columns]
        drawing.whiskers(
            ax, x + shift, estimates, line._replace(dash=dash, marker=marker), logarithmic=False,
            linewidth=None, label=label,
        )  # fmt: skip
        lowest = min(lowest, *(e.value - 0.01 for e in estimates))
        highest = max(highest, *(e.value + 0.01 for e in estimates))
    ax.plot(
        x, [PUBLISHED[M][0] for M in SAMPLES], color=POLICY["LinTS-Freq"].light, linestyle="none",
        marker="o", markersize=9, markerfacecolor="none", markeredgewidth=1.5, label="published, LinTS-Freq",
    )  # fmt: skip
    ax.axhline(ORACLE, color=INK.light, linestyle=(0, (2, 2)), linewidth=1.2, label="true value 0.8")
    ax.set_ylim(lowest, highest)
    ax.set_xticks(x, [f"{M:,}" for M in SAMPLES])
    ax.set_xlabel("Monte-Carlo samples M")
    ax.set_ylabel("mean IPW score")
    drawing.legend(figure, ax, 2)
    return drawing.Drawing(
        f"{found.experiment.name}-propensities",
        "Mean IPW score by how the propensity was found, by expectations, with 95 % intervals; hollow: the "
        "paper's table.",
        figure,
    )
