"""Offline evaluation: what the uniform policy earns, estimated from logs of LinMED-50 and LinTS-Freq.

An M-sample Monte-Carlo estimate of a probability p counts X ~ Binomial(M, p) hits. So one exact
log suffices: the counts are drawn from it, and every way to turn them into a propensity is scored on the
same decisions.
"""

import time
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from linmed.checks import Floats
from linmed.environments import FixedArms
from linmed.experiments.claims import Claim, Part, Reproduces, of, scores
from linmed.experiments.experiment import Experiment, Findings, Numbers, Setting, Size
from linmed.experiments.lineup import DELTA, Variant
from linmed.experiments.output import Output
from linmed.experiments.statistics import Estimate, deviation, mean
from linmed.ope import ipw
from linmed.policies import LinMED, LinTS, Policy
from linmed.progress import Bar
from linmed.simulation import Store
from linmed.simulation.engine import compute
from linmed.simulation.jobs import Job, Outcome, Stage, Tick
from linmed.streams import stream

if TYPE_CHECKING:
    from linmed.experiments.drawing import Drawing

ORACLE = 0.8
"""Mean reward of the uniform policy: (1 + 0.6)/2."""
SAMPLES = (1_000, 10_000, 100_000)
"""M."""
PUBLISHED = {1_000: (0.906, 0.099), 10_000: (0.819, 0.069), 100_000: (0.799, 0.039)}
"""M → mean and "standard deviation" of the paper's table."""
BATCH = 500

LINMED_EXACT = "LinMED-50"
LINTS_EXACT = "LinTS-Freq, exact"


def floor_column(M: int) -> str:
    """LinTS-Freq's log with propensities max(X, 0.5)/M, as in the public code."""
    return f"LinTS-Freq, floor 0.5/M, M={M}"


def plus_one_column(M: int) -> str:
    """LinTS-Freq's log with propensities (X + 1)/(M + 1)."""
    return f"LinTS-Freq, plus one, M={M}"


@dataclass(frozen=True)
class Logs(Job):
    """Logs of both policies. `run` gives the uniform policy's IPW scores by how the propensity was found."""

    linmed: LinMED
    lints: LinTS

    @classmethod
    def of(cls, variant: Variant, horizon: int, seed: int, trials: int) -> "Logs":
        """The text's setting, or the one of the authors' public code."""
        if variant == "text":
            sigma = float(np.sqrt(0.1))
            arms, shares, scale, explore = [[1.0, 0.0], [0.6, 0.8]], (0.5, 0.25), "frequentist", True
        else:
            sigma = 0.1
            arms, shares, scale, explore = [[0.6, 0.8], [1.0, 0.0]], (0.5, 0.5), "squared-radius", False
        return cls(
            FixedArms(arms, theta=[1.0, 0.0], sigma=sigma), horizon, seed, tuple(range(trials)),
            LinMED(sigma=sigma, delta=DELTA, alpha_emp=shares[0], alpha_opt=shares[1], explore=explore,
                   label=LINMED_EXACT),
            LinTS(sigma=sigma, delta=DELTA, scale=scale, label="LinTS-Freq"),  # type: ignore[arg-type]
        )  # fmt: skip

    @property
    def name(self) -> str:
        """Both policies."""
        return f"the logs of {self.linmed.name} and {self.lints.name}"

    @property
    def rounds(self) -> int:
        """Of two logs."""
        return 2 * super().rounds

    def configuration(self) -> dict[str, Any]:
        """Both policies and the numbers of samples."""
        return {"policies": [self.linmed.to_dict(), self.lints.to_dict()], "samples": list(SAMPLES)}

    def columns(self) -> dict[str, tuple[pa.DataType, Any]]:
        """Scores are told apart by their names."""
        return {}

    def run(self, tick: Tick = lambda replica_rounds: None) -> Outcome:
        """Scores (trials,) by column, and the time."""
        began = time.perf_counter()
        target = 1.0 / len(np.asarray(self.environment.arms))  # type: ignore[attr-defined]
        reward, probability = self.log(self.linmed, tick)
        found = {LINMED_EXACT: ipw(reward, probability, target)}
        reward, probability = self.log(self.lints, tick)
        found[LINTS_EXACT] = ipw(reward, probability, target)
        for M in SAMPLES:
            hits = self.counts(M, probability)
            found[floor_column(M)] = ipw(reward, np.maximum(hits, 0.5) / M, target)
            found[plus_one_column(M)] = ipw(reward, (hits + 1.0) / (M + 1.0), target)
        found["seconds"] = np.full(len(self.trials), (time.perf_counter() - began) / len(self.trials))
        return found

    def log(self, policy: Policy, tick: Tick = lambda replica_rounds: None) -> tuple[Floats, Floats]:
        """Rewards and the played arms' exact probabilities, (trials, rounds) each."""
        stage = Stage(policy, self.environment, self.horizon, self.seed, self.trials)
        reward = np.empty((len(self.trials), self.horizon))
        log_probability = np.empty((len(self.trials), self.horizon))
        for done, size, noise in stage.blocks():
            for t in range(size):
                choice = policy.decide(stage.state, stage.worlds.arms(t), noise[t])
                rewards = stage.worlds.rewards(t, stage.offset + choice.arm)
                policy.learn(stage.state, choice.features, rewards, stage.replicas)
                reward[:, done + t] = rewards
                log_probability[:, done + t] = choice.log_probability
            tick(size * len(self.trials))
        return reward, np.exp(log_probability)

    def counts(self, M: int, probability: Floats) -> Floats:
        """Monte-Carlo hits X ~ Binomial(M, p), from each trial's own stream.  → (trials, rounds)."""
        chances = np.minimum(probability, 1.0)
        rows = [
            stream(self.seed, "offline", trial, M).binomial(M, chances[row])
            for row, trial in enumerate(self.trials)
        ]
        return np.array(rows, dtype=np.float64)


class OfflineEvaluation(Experiment):
    """Figure 1 and the table of propensities."""

    name = "offline-evaluation"
    title = "Offline evaluation"
    place = "Figure 1, Appendix, Table 2"
    about = (
        "Two arms (1, 0) and (0.6, 0.8), θ* = (1, 0). The uniform policy earns 0.8 a round; how well "
        "does inverse-probability weighting recover that from the log of LinMED-50 or LinTS-Freq?"
    )
    paper, quick = Size(1_000, 5_000), Size(1_000, 1_000)
    differences = (
        "σ = σ* = 0.1 as a standard deviation, where the text has σ² = 0.1.",
        "LinTS-Freq draws with the squared radius β.",
        "Probabilities estimated as 0 are replaced by 0.5/M.",
        "LinMED-50 has (α_emp, α_opt) = (0.5, 0.5), no half-step, and the arms in reverse order.",
    )
    missing = ("the dropping of |IPW| > 2 from the histograms",)

    def settings(self, variant: Variant, horizon: int, movielens: Path | None = None) -> list[Setting]:
        """None: it has logs, not regret."""
        return []

    def rounds(self, found: Findings) -> int:
        """Those of the logs."""
        return Logs.of(found.variant, found.horizon, found.seed, found.trials).rounds

    def run(self, found: Findings, output: Output, executor: Executor | None, bar: Bar) -> Findings:
        """The findings with scores."""
        job = Logs.of(found.variant, found.horizon, found.seed, found.trials)
        (done,) = compute([job], BATCH, executor, store=Store(output.offline), progress=bar)
        columns = dict(done.arrays)
        return replace(found, seconds=float(columns.pop("seconds").sum()), scores=columns)

    def claims(self, found: Findings) -> Iterator[Claim]:
        """LinMED's exact probabilities leave no bias; LinTS's estimated ones leave the published one."""
        decimals = "{0.value:.4f} ± {0.error:.4f}"
        yield Claim(
            "The uniform policy's mean IPW score from LinMED-50's log is 0.800 to two decimals",
            [Part(decimals, of(mean, scores(LINMED_EXACT)), Reproduces(ORACLE, 0.005))],
        )
        for M in SAMPLES:
            sample = scores(floor_column(M))
            yield Claim(
                f"From LinTS-Freq's log with M = {M:,} Monte-Carlo samples it is {PUBLISHED[M][0]:.3f}",
                [
                    Part(decimals, of(mean, sample), Reproduces(PUBLISHED[M][0], 0.0005)),
                    # Tails are heavy: one trial can carry the error.
                    Part("the largest score {0.value:.1f}", of(_largest, sample)),
                    Part(f"without it {decimals}", of(_without_largest, sample)),
                ],
            )
        yield Claim(
            "With LinTS-Freq's exact probabilities the score is unbiased: the bias is the estimates' "
            "(our addition)",
            [Part(decimals, of(mean, scores(LINTS_EXACT)), Reproduces(ORACLE, 0.0005))],
        )
        yield Claim(
            "The standard deviations of those scores are 0.099, 0.069 and 0.039",
            [
                part
                for M in SAMPLES
                for part in (
                    Part(
                        f"M = {M:,}: standard deviation {{0.value:.3f}} ± {{0.error:.3f}}",
                        of(deviation, scores(floor_column(M))),
                        Reproduces(PUBLISHED[M][1], 0.0005),
                    ),
                    Part("variance {0.value:.4f}", of(_variance, scores(floor_column(M)))),
                )
            ],
        )

    def drawings(self, found: Findings) -> "Iterator[Drawing]":
        """Histograms of the scores, and their means by how the propensity was found."""
        from linmed.experiments import offline_figures  # matplotlib takes a second to import

        yield offline_figures.histograms(found)
        yield offline_figures.propensities(found)

    def numbers(self, found: Findings) -> Numbers:
        """Means and spreads of the scores."""
        kinds = [("LinMED-50, exact", "", LINMED_EXACT), ("LinTS-Freq, exact", "", LINTS_EXACT)]
        kinds += [("LinTS-Freq, floor 0.5/M", f"{M:,}", floor_column(M)) for M in SAMPLES]
        kinds += [("LinTS-Freq, (X+1)/(M+1)", f"{M:,}", plus_one_column(M)) for M in SAMPLES]
        rows = []
        for label, M, column in kinds:
            estimate, spread = mean(found.scores[column]), deviation(found.scores[column]).value
            centre = f"{estimate.value:.4f} ± {estimate.error:.4f}"
            rows.append([label, M, centre, f"{spread:.3f}", f"{spread**2:.4f}"])
        return Numbers(
            "IPW score of the uniform policy (true value 0.8)",
            ["log and propensity", "M", "mean ± s.e.", "standard deviation", "variance"],
            rows,
            note="The paper's table has means 0.906, 0.819, 0.799 for M = 1,000, 10,000, 100,000, and 0.099, "
            "0.069, 0.039 in the row “standard deviation”.",
        )


def _largest(sample: Floats) -> Estimate:
    return Estimate(float(sample.max(initial=-np.inf)), np.nan, len(sample))


def _without_largest(sample: Floats) -> Estimate:
    return mean(np.delete(sample, sample.argmax()))


def _variance(sample: Floats) -> Estimate:
    spread = deviation(sample)
    return Estimate(spread.value**2, 2.0 * spread.value * spread.error, spread.trials)
