"""Coverage of every interval on logs of policies that learn.

    python benchmarks/ope_coverage.py --logs 2000 --out results/ope-coverage

Each log is its own problem: K = 10 arms in d = 4 with Bernoulli rewards of mean ⟨a, θ⟩ in [0.1, 0.9], played
10,000 rounds by LinMED-90, LinMED-50 or SquareCB. Targets are the uniform policy and the arm that is
greedy for θ. Intervals at level 95 % are checked at n = 100, 1,000 and 10,000, sequences also at every
n at once. Writes one CSV row per policy, target, interval, terms and n; prints the table.
"""

import argparse
import csv
import math
import sys
import time
from pathlib import Path

import numpy as np
from scipy.special import gammainc, gammaln

from linmed.kernels import sequences as kernels
from linmed.kernels.compile import kernel
from linmed.ope.estimators import DR, IPW, SNIPW, Sample
from linmed.ope.intervals import Bootstrap, StableVariance, normal
from linmed.ope.regression import Ridge
from linmed.ope.rounds import Rounds
from linmed.ope.sequences import LARGEST_RATE, BettingLower, ValueSequence, dr_terms, ipw_terms
from linmed.ope.sums import Moments
from linmed.policies.base import Policy
from linmed.policies.linmed import LinMED
from linmed.policies.square_cb import SquareCB

K, D, CONFIDENCE = 10, 4, 0.95
SIZES = (100, 1_000, 10_000)
POLICIES: dict[str, Policy] = {
    "LinMED-90": LinMED(sigma=0.5),
    "LinMED-50": LinMED(sigma=0.5, alpha_emp=0.5, alpha_opt=0.25),
    "SquareCB": SquareCB(sigma=0.5),
}


def problems(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Arms (R, K, d) in the unit ball and their mean rewards (R, K) in [0.1, 0.9]."""
    theta = rng.dirichlet(np.ones(D), size=count)
    arms = rng.uniform(0.1, 0.9, size=(count, K, D))
    means = np.einsum("rkd,rd->rk", arms, theta)
    return arms / math.sqrt(D), means


def simulate(policy: Policy, arms: np.ndarray, means: np.ndarray, rounds: int, rng: np.random.Generator):
    """Arms played (R, n), rewards (R, n) and every arm's probability (R, n, K)."""
    replicas = arms.shape[0]
    state = policy.start(replicas, D)
    everyone = np.arange(replicas)
    played = np.empty((replicas, rounds), dtype=np.int64)
    reward = np.empty((replicas, rounds))
    probability = np.empty((replicas, rounds, K))
    for t in range(rounds):
        choice = policy.decide(state, arms, rng.random((replicas, policy.noise_size(D))))
        played[:, t] = choice.arm
        probability[:, t] = np.exp(choice.log_probabilities)
        reward[:, t] = rng.random(replicas) < means[everyone, choice.arm]
        policy.learn(state, choice.features, reward[:, t], everyone)
    return played, reward, probability


class Tally:
    """Hits and widths by (target, interval, terms, n)."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str, str, str], list[tuple[bool, float]]] = {}

    def add(self, target: str, interval: str, terms: str, n: int | str, bounds, truth: float) -> None:
        low, high = bounds
        covered = low <= truth <= high
        self.rows.setdefault((target, interval, terms, str(n)), []).append((covered, high - low))


def study_log(
    tally: Tally,
    target: str,
    pi: np.ndarray,
    truth: float,
    rounds: Rounds,
    model: np.ndarray,
    bootstrap: bool,
    seed: int,
) -> None:
    n = len(rounds)
    flat = np.tile(pi, n)
    weight = pi[rounds.arm] / rounds.probability
    sample = Sample(weight, rounds.reward, model[rounds.chosen], rounds.sum_over_arms(flat * model))
    proxy = rounds.sum_over_arms(flat**2 / rounds.logged)
    scores = {"ipw": IPW().terms(sample)[0], "dr": DR().terms(sample)[0]}
    stable = {name: StableVariance() for name in scores}
    floors = ValueSequence("betting", CONFIDENCE, (0, 1)).floors(n)
    outcomes = {
        "ipw": (*ipw_terms(weight, rounds.reward), np.zeros(n)),
        "dr": (*dr_terms(rounds, flat, weight, rounds.reward, np.clip(model, 0, 1), floors), floors),
    }
    sequences = {
        (kind, form): ValueSequence(kind, CONFIDENCE, (0, 1))
        for kind in ("betting", "bernstein", "mixture")
        for form in ("ipw", "dr")
        if (kind, form) != ("mixture", "dr")
    }
    done = 0
    for size in SIZES:
        part = slice(done, size)
        for estimator in (IPW(), SNIPW(), DR()):
            cut = Sample(*(None if column is None else column[:size] for column in sample))
            moments = Moments()
            moments.add(*estimator.terms(cut))
            try:
                bounds = normal(moments, CONFIDENCE)
            except ValueError:  # the target's arm was never played: no value, counted as a miss
                bounds = (math.nan, math.nan)
            tally.add(target, "normal", estimator.name, size, bounds, truth)
        if bootstrap:
            resampled = Bootstrap(200, seed)
            resampled.add(scores["ipw"][:size], None, None)
            tally.add(target, "bootstrap", "ipw", size, resampled.interval(CONFIDENCE), truth)
        for name, weights in stable.items():
            weights.add(scores[name][part], proxy[part])
            tally.add(target, "adaptive", name, size, weights.interval(CONFIDENCE), truth)
        for (kind, form), sequence in sequences.items():
            below, above, floor = (column[part] for column in outcomes[form])
            sequence.add(scores[form][part], below, above, floor)
            tally.add(target, kind, form, size, sequence.bounds, truth)
        done = size
    for kind, form in sequences:
        below, above, floor = outcomes[form]
        level = 2.0 / (1.0 - CONFIDENCE)
        missed = ever_missed(kind, below, floor, truth, level) or ever_missed(
            kind, above, floor, 1 - truth, level
        )
        tally.add(target, kind, form, "every n", (math.nan, math.nan) if missed else (truth, truth), truth)


@kernel
def bernstein_ever_above(x, floor, mean, log_level, largest_rate):
    state = np.zeros(kernels.FIELDS)
    for i in range(x.size):
        kernels.bernstein(state, x[i : i + 1], floor[i], log_level, largest_rate)
        bound = (state[kernels.CENTRE] - log_level - state[kernels.PENALTY]) / state[kernels.WEIGHT]
        if bound > mean:
            return True
    return False


def ever_missed(kind: str, x: np.ndarray, floor: np.ndarray, mean: float, level: float) -> bool:
    """Whether the lower sequence for x ever exceeds the mean."""
    log_level = math.log(level)
    if kind == "betting":
        bets = BettingLower.BETS
        return kernels.largest_wealth(bets, np.full(bets.size, 1 / bets.size), x, floor, mean) >= level
    if kind == "bernstein":
        return bernstein_ever_above(x, floor, mean, log_level, LARGEST_RATE)
    t = np.arange(1, x.size + 1)
    guess = np.minimum(np.concatenate([[0.5], (0.5 + np.cumsum(x)[:-1]) / t[1:]]), 1.0)
    s, v = np.cumsum(x) - t * mean, np.cumsum((x - guess) ** 2)
    rising = s > 0  # where the sum is below its mean no bet on more has won
    a, b = v[rising] + 1, s[rising] + v[rising] + 1
    normaliser = math.log(gammainc(1, 1))
    wealth = s[rising] + v[rising] - a * np.log(b) + np.log(gammainc(a, b)) + gammaln(a) - normaliser
    return bool((wealth >= log_level).any())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--logs", type=int, default=2000)
    parser.add_argument("--block", type=int, default=50, help="logs simulated at once")
    parser.add_argument("--bootstrap-logs", type=int, default=100, help="logs on which the bootstrap is run")
    parser.add_argument("--policies", nargs="*", default=list(POLICIES), choices=list(POLICIES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/ope-coverage"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    tallies: dict[str, Tally] = {}
    for name in args.policies:
        tally, begun = tallies.setdefault(name, Tally()), time.perf_counter()
        for start in range(0, args.logs, args.block):
            rng = np.random.default_rng([args.seed, list(POLICIES).index(name), start])
            count = min(args.block, args.logs - start)
            arms, means = problems(count, rng)
            log = simulate(POLICIES[name], arms, means, SIZES[-1], rng)
            for r in range(count):
                rounds = as_rounds(arms[r], *(column[r] for column in log))
                model = Ridge().predict_learn(rounds)
                greedy = np.zeros(K)
                greedy[means[r].argmax()] = 1.0
                number = start + r
                for target, pi in (("uniform", np.full(K, 1 / K)), ("greedy", greedy)):
                    truth = float(pi @ means[r])
                    study_log(tally, target, pi, truth, rounds, model, number < args.bootstrap_logs, number)
            seconds = time.perf_counter() - begun
            print(f"{name}: {start + count} logs, {seconds:.0f} s", file=sys.stderr, flush=True)
            lines = report(tallies, args.out / "coverage.csv")
    (args.out / "coverage.md").write_text(markdown(lines))
    print(markdown(lines))


def as_rounds(arms: np.ndarray, played: np.ndarray, reward: np.ndarray, probability: np.ndarray) -> Rounds:
    n = played.size
    return Rounds(
        row=np.arange(n),
        arm=played,
        probability=probability[np.arange(n), played],
        reward=reward,
        arm_count=np.full(n, K),
        logged=probability.ravel(),
        arms=np.tile(arms, (n, 1)),
    )


def report(tallies: dict[str, Tally], path: Path) -> list[tuple[object, ...]]:
    """Write what is known so far, so that an interrupted study leaves its results."""
    lines: list[tuple[object, ...]] = [
        ("policy", "target", "interval", "terms", "n", "logs", "coverage", "median width")
    ]
    for name, tally in tallies.items():
        for key, results in tally.rows.items():
            covered, width = np.array([hit for hit, _ in results]), np.array([size for _, size in results])
            widths = "" if key[3] == "every n" else f"{np.nanmedian(width):.4f}"
            lines.append((name, *key, len(covered), f"{covered.mean():.4f}", widths))
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(lines)
    return lines


def markdown(lines: list[tuple[object, ...]]) -> str:
    """One table of coverage and one of widths per target; a cell holds the three sizes and, last, every n."""
    names = [str(name) for name in lines[0]]
    rows = [dict(zip(names, map(str, line), strict=True)) for line in lines[1:]]
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    text = []
    for column in ("coverage", "median width"):
        for target in dict.fromkeys(row["target"] for row in rows):
            text += [f"{column.capitalize()}, target {target}:", ""]
            text += [f"| interval | terms | {' | '.join(policies)} |", "|---|---|" + "---|" * len(policies)]
            kinds = dict.fromkeys((row["interval"], row["terms"]) for row in rows if row["target"] == target)
            for kind in kinds:
                cells = []
                for policy in policies:
                    same = [row for row in rows if (row["policy"], row["target"]) == (policy, target)]
                    own = [row for row in same if (row["interval"], row["terms"]) == kind and row[column]]
                    values = [float(row[column]) for row in own]
                    cells.append(
                        " / ".join(f"{v:.1%}" if column == "coverage" else f"{v:.3f}" for v in values)
                    )
                text.append(f"| {' | '.join((*kind, *cells))} |")
            text.append("")
    return "\n".join(text)


if __name__ == "__main__":
    main()
