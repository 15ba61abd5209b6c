"""Offline evaluation: what the uniform policy earns, estimated from logs of LinMED-50 and LinTS-Freq.

An M-sample Monte-Carlo estimate of a probability p counts X ~ Binomial(M, p) hits. So one exact
log suffices: the counts are drawn from it, and every way to turn them into a propensity is scored on the
same decisions.

A score is (1/n) Σ_t (1/K)/p̂_t · y_t, and of 5,000 scores one can carry the error: weights have heavy tails.
Beside it stands the score whose every term is replaced by its expectation over arm, reward and count given
the history: (1/n) Σ_t Σ_a (1/K) μ_a E[p_t(a)/p̂(X)]. Its mean over trials is the same (tower rule), and its
terms are bounded.
"""

import time
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from linmed.environments import FixedArms
from linmed.ope import ipw
from linmed.paper.expected_weights import floor_factor, plus_one_factor, zero_chance
from linmed.paper.experiment import Experiment, Findings, Numbers, Setting, Size
from linmed.paper.lineup import DELTA, Variant, policies
from linmed.paper.output import Output
from linmed.paper.statistics import Normal, deviation, mean
from linmed.policies import LinMED, LinTS, Policy
from linmed.report.progress import Bar
from linmed.simulation import Store
from linmed.simulation.run import compute
from linmed.simulation.trials import Job, Outcome, Tick, TrialBatch
from linmed.streams import stream
from linmed.validation import Floats

if TYPE_CHECKING:
    from linmed.paper.drawing import Drawing

ORACLE = 0.8
"""Mean reward of the uniform policy: (1 + 0.6)/2."""
SAMPLES = (1_000, 10_000, 100_000)
"""M."""
PUBLISHED = {1_000: (0.906, 0.099), 10_000: (0.819, 0.069), 100_000: (0.799, 0.039)}
"""M → mean and "standard deviation" of the paper's table."""
BATCH = 500

Scaling = Literal["frequentist", "bayes", "squared-radius", "agrawal-goyal"]
SIGMA_READINGS = {"σ² = 0.1": float(np.sqrt(0.1)), "σ = 0.1": 0.1}
"""The text's variance, and the public code's standard deviation."""
LINTS_SCALES: dict[str, Scaling] = {
    "√β": "frequentist",
    "σ": "bayes",
    "β": "squared-radius",
    "Agrawal–Goyal": "agrawal-goyal",
}
"""What θ̃'s deviation is multiplied with: the text's radius, LinTS-Bayes's σ, the public code's, and the one
with proof."""
GRID_TRIALS = 500
"""Expected scores vary so little that these suffice for a standard error below 0.002."""

LINMED_EXACT = "LinMED-50"
LINTS_EXACT = "LinTS-Freq, exact"


def floor_column(M: int) -> str:
    """LinTS-Freq's log with propensities max(X, 0.5)/M, as in the public code."""
    return f"LinTS-Freq, floor 0.5/M, M={M}"


def plus_one_column(M: int) -> str:
    """LinTS-Freq's log with propensities (X + 1)/(M + 1)."""
    return f"LinTS-Freq, plus one, M={M}"


def expected(column: str) -> str:
    """The same score with every term replaced by its expectation given the history."""
    return f"{column}, expected"


def zero_played_column(M: int) -> str:
    """Share of rounds in which the arm that LinTS-Freq played was never met: X = 0."""
    return f"LinTS-Freq, played arm estimated at 0, M={M}"


def zero_any_column(M: int) -> str:
    """Arms a round that LinTS-Freq's estimate gives 0, expected; of two arms, the share of such rounds."""
    return f"LinTS-Freq, arms estimated at 0, expected, M={M}"


def zero_ever_column(M: int) -> str:
    """The chance, given the history, that LinTS-Freq's estimates give 0 to an arm once or more in a trial."""
    return f"LinTS-Freq, an arm estimated at 0 at least once, expected, M={M}"


def grid_column(reading: str, scale: str, M: int) -> str:
    """Expected score of LinTS's log with the floor, by what σ and the scale are taken for."""
    return f"LinTS, {reading}, scale {scale}, floor 0.5/M, M={M}, expected"


class Log(NamedTuple):
    """What a policy did in T trials of n rounds, and what it might have done."""

    reward: Floats  # (T, n)
    probability: Floats  # (T, n) of the arm played
    log_probabilities: Floats  # (T, n, K) of all arms


@dataclass(frozen=True)
class Logging(Job):
    """Logs of policies on arms that stay the same."""

    def columns(self) -> dict[str, tuple[pa.DataType, Any]]:
        """Scores are told apart by their names."""
        return {}

    def log(self, policy: Policy, tick: Tick = lambda replica_rounds: None) -> Log:
        """Rewards and exact probabilities."""
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
        """(1/n) Σ_t Σ_a (1/K) μ_a factor_t(a).  factor (T, n, K) = E[p/p̂(X)] → (T,)."""
        score: Floats = (factor @ (self._means / len(self._means))).mean(axis=1)
        return score

    @property
    def _means(self) -> Floats:
        """μ (K,)."""
        problem: Any = self.environment
        means: Floats = np.asarray(problem.arms) @ np.asarray(problem.theta)
        return means


@dataclass(frozen=True)
class Logs(Logging):
    """Logs of both policies. `run` gives the uniform policy's IPW scores by how the propensity was found."""

    linmed: LinMED
    lints: LinTS
    first_known: bool
    """Whether the first round's 1/K is known, as in the authors' public code."""

    @classmethod
    def of(cls, variant: Variant, horizon: int, seed: int, trials: int) -> "Logs":
        """The text's setting, or the one of the authors' public code."""
        if variant == "text":
            sigma = float(np.sqrt(0.1))
            arms, own_share = [[1.0, 0.0], [0.6, 0.8]], 0.25
        else:
            sigma = 0.1
            arms, own_share = [[0.6, 0.8], [1.0, 0.0]], 0.5
        linmed: Any
        lints: Any
        linmed, lints = policies((LINMED_EXACT, "LinTS-Freq"), sigma, horizon, variant)
        problem = FixedArms(arms, theta=[1.0, 0.0], sigma=sigma)
        linmed = replace(linmed, alpha_opt=own_share)
        return cls(problem, horizon, seed, tuple(range(trials)), linmed, lints, variant == "as-run")

    @property
    def name(self) -> str:
        """Both policies."""
        return f"the logs of {self.linmed.name} and {self.lints.name}"

    @property
    def rounds(self) -> int:
        """Of two logs."""
        return 2 * super().rounds

    def configuration(self) -> dict[str, Any]:
        """Both policies, the numbers of samples, and what is made of them."""
        policies = [self.linmed.to_dict(), self.lints.to_dict()]
        return {"policies": policies, "samples": list(SAMPLES), "columns": "expectations, zeros"}

    def run(self, tick: Tick = lambda replica_rounds: None) -> Outcome:
        """Scores (trials,) by column, and the time."""
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
            found[plus_one_column(M)] = ipw(log.reward, (hits + 1.0) / (M + 1.0), target)
            found[expected(floor_column(M))] = self.expected_score(floor_factor(M, log.log_probabilities))
            found[expected(plus_one_column(M))] = self.expected_score(
                plus_one_factor(M, log.log_probabilities)
            )
            found[zero_played_column(M)] = (hits == 0.0).mean(axis=1)
            zero = zero_chance(M, log.log_probabilities).sum(axis=2)  # of two arms not both can have none
            found[zero_any_column(M)] = zero.mean(axis=1)
            with np.errstate(divide="ignore"):
                found[zero_ever_column(M)] = -np.expm1(np.log1p(-np.minimum(zero, 1.0)).sum(axis=1))
        found["seconds"] = np.full(len(self.trials), (time.perf_counter() - began) / len(self.trials))
        return found

    def counts(self, M: int, probability: Floats) -> Floats:
        """Monte-Carlo hits X ~ Binomial(M, p), from each trial's own stream.  → (trials, rounds)."""
        chances = np.minimum(probability, 1.0)
        rows = [
            stream(self.seed, "offline", trial, M).binomial(M, chances[row])
            for row, trial in enumerate(self.trials)
        ]
        hits = np.array(rows, dtype=np.float64)
        if self.first_known:
            hits[:, 0] = M * chances[:, 0]
        return hits


@dataclass(frozen=True)
class ExpectedScores(Logging):
    """Logs of one LinTS. `run` gives the expected scores with the floor, by M."""

    lints: LinTS

    @classmethod
    def of(cls, reading: str, scale: str, horizon: int, seed: int, trials: int) -> "ExpectedScores":
        """The text's arms with one reading of σ and one of the scale."""
        sigma = SIGMA_READINGS[reading]
        return cls(
            FixedArms([[1.0, 0.0], [0.6, 0.8]], theta=[1.0, 0.0], sigma=sigma), horizon, seed,
            tuple(range(trials)), LinTS(sigma=sigma, delta=DELTA, scale=LINTS_SCALES[scale]),
        )  # fmt: skip

    @property
    def name(self) -> str:
        """The policy's log."""
        return f"the log of {self.lints.name}"

    def configuration(self) -> dict[str, Any]:
        """The policy and the numbers of samples."""
        return {"expected scores of": self.lints.to_dict(), "samples": list(SAMPLES)}

    def run(self, tick: Tick = lambda replica_rounds: None) -> Outcome:
        """Scores (trials,) by column, and the time."""
        began = time.perf_counter()
        log_p = self.log(self.lints, tick).log_probabilities
        found = {expected(floor_column(M)): self.expected_score(floor_factor(M, log_p)) for M in SAMPLES}
        found["seconds"] = np.full(len(self.trials), (time.perf_counter() - began) / len(self.trials))
        return found


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

    def settings(self, variant: Variant, horizon: int, movielens: Path | None = None) -> list[Setting]:
        """None: it has logs, not regret."""
        return []

    def rounds(self, found: Findings) -> int:
        """Those of the logs."""
        return sum(job.rounds for job in (_logs(found), *_grid(found).values()))

    def run(self, found: Findings, output: Output, executor: Executor | None, bar: Bar) -> Findings:
        """The findings with scores."""
        grid = _grid(found)
        jobs = [_logs(found), *grid.values()]
        logs, *cells = compute(jobs, BATCH, executor, store=Store(output.offline), progress=bar)
        columns = dict(logs.arrays)
        seconds = [columns.pop("seconds"), *(cell.arrays["seconds"] for cell in cells)]
        for (reading, scale), cell in zip(grid, cells, strict=True):
            columns |= {
                grid_column(reading, scale, M): cell.arrays[expected(floor_column(M))] for M in SAMPLES
            }
        return replace(found, seconds=float(sum(part.sum() for part in seconds)), scores=columns)

    def drawings(self, found: Findings) -> "Iterator[Drawing]":
        """Histograms of the scores, and their means by how the propensity was found."""
        from linmed.paper import offline_figures  # matplotlib takes a second to import

        yield offline_figures.histograms(found)
        yield offline_figures.propensities(found)

    def numbers(self, found: Findings) -> Iterator[Numbers]:
        """Means and spreads of the scores; how often an estimate is 0; and what σ and the scale do."""
        yield _score_table(found)
        yield _zero_table(found)
        yield _grid_table(found)


def _logs(found: Findings) -> Logs:
    return Logs.of(found.variant, found.horizon, found.seed, found.trials)


def _grid(found: Findings) -> dict[tuple[str, str], ExpectedScores]:
    """By reading of σ and scale."""
    trials = min(found.trials, GRID_TRIALS)
    return {
        (reading, scale): ExpectedScores.of(reading, scale, found.horizon, found.seed, trials)
        for reading in SIGMA_READINGS
        for scale in LINTS_SCALES
    }


def _score_table(found: Findings) -> Numbers:
    kinds = [("LinMED-50, exact", "", LINMED_EXACT), ("LinTS-Freq, exact", "", LINTS_EXACT)]
    kinds += [("LinTS-Freq, floor 0.5/M", f"{M:,}", floor_column(M)) for M in SAMPLES]
    kinds += [("LinTS-Freq, (X+1)/(M+1)", f"{M:,}", plus_one_column(M)) for M in SAMPLES]
    rows = []
    for label, M, column in kinds:
        spread = deviation(found.scores[column]).value
        means = [_decimals(mean(found.scores[name])) for name in (column, expected(column))]
        rows.append([label, M, *means, f"{spread:.3f}", f"{spread**2:.4f}"])
    return Numbers(
        "IPW score of the uniform policy (true value 0.8)",
        ["log and propensity", "M", "mean ± s.e.", "by expectations", "standard deviation", "variance"],
        rows,
        note="“By expectations”: every term of a score is replaced by its expectation over arm, reward and "
        "Monte-Carlo count given the history. The mean is the same, and no single trial carries its error. "
        "The paper's table has means 0.906, 0.819, 0.799 for M = 1,000, 10,000, 100,000, and 0.099, "
        "0.069, 0.039 in the row “standard deviation”.",
    )


def _zero_table(found: Findings) -> Numbers:
    rows = []
    for M in SAMPLES:
        either, played = found.scores[zero_any_column(M)], found.scores[zero_played_column(M)]
        shares = [mean(either), mean(played), mean((played > 0.0).astype(float))]
        rows.append([f"{M:,}", *(f"{share.value:.3%} ± {share.error:.3%}" for share in shares)])
    return Numbers(
        "How often LinTS-Freq's Monte-Carlo estimate of a probability is 0",
        ["M", "rounds with an arm estimated at 0", "rounds whose played arm was", "trials with such a round"],
        rows,
        note="Share ± standard error over trials. An estimate of 0 for the arm that is played is what the "
        "floor of 0.5/M replaces.",
    )


def _grid_table(found: Findings) -> Numbers:
    return Numbers(
        "Mean IPW score from LinTS's log with the floor 0.5/M, by what σ and the scale are taken for",
        ["σ, and LinTS's scale", *(f"M = {M:,}" for M in SAMPLES)],
        [
            [
                f"{reading}, {scale}",
                *(_decimals(mean(found.scores[grid_column(reading, scale, M)])) for M in SAMPLES),
            ]
            for reading in SIGMA_READINGS
            for scale in LINTS_SCALES
        ]
        + [["the paper's table", *(f"{PUBLISHED[M][0]:.3f}" for M in SAMPLES)]],
        note=f"By expectations, over {min(found.trials, GRID_TRIALS):,} trials. The text has σ² = 0.1 and "
        "the scale √β, the public code σ = 0.1 and the scale β.",
    )


def _decimals(estimate: Normal) -> str:
    return f"{estimate.value:.4f} ± {estimate.error:.4f}"
