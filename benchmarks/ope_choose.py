"""Does `choose` drop the best candidate, how soon does it decide, and is its forecast of use?

    python benchmarks/ope_choose.py --logs 1000 --out results/ope-choose

Each log is its own problem: K = 6 arms in d = 4, Bernoulli rewards with means ⟨a, θ⟩ in [0.1, 0.9], 2,000
decisions. They were taken by a fixed random law ("fixed"), by LinMED, which learns ("adaptive"), or by
LinMED while halfway every arm takes over another arm's mean ("drift": the order of the candidates changes
with it). Candidates are M random laws over the arms; one is 0.9 of another and 0.1 of a third, so two are
close. `choose` is asked after 250, 500, 1,000 and 2,000 decisions with its defaults.

The rule, fixed before the first run:

1. A log is an error if at *any* of the looks the candidate with the highest average value so far is dropped.
   In every cell errors must be at most 5 % of the logs.
2. `decided` is the share of logs with one candidate left at the last look, `left` how many are then left on
   average; `by own intervals` is how many would be left if those in the table alone could drop one.
3. `forecast`: two arms whose means differ by 0.1, uniform logging, asked after 1,000 decisions. Of the logs
   without a verdict then, the share whose verdict comes at between a quarter and four times the forecast
   number of decisions (1,000 + more), by looks at n growing by a tenth, must be above one half.

Writes one CSV row a cell; prints the table. One process.
"""

import argparse
import csv
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from linmed.ope import DecisionLog, OPEWarning, Target, choose
from linmed.ope.scan import Problems, Rounds
from linmed.policies.linmed import LinMED

K, D, DECISIONS = 6, 4, 2_000
LOOKS = (250, 500, 1_000, 2_000)
CELLS = [(logging, size) for size in (2, 5, 10) for logging in ("fixed", "adaptive", "drift")]
FIRST, LONGEST = 1_000, 128_000


@dataclass(frozen=True)
class Law(Target):
    """The same probabilities of the arms in every decision."""

    name: str
    law: tuple[float, ...]

    def probabilities(self, rounds: Rounds, problems: Problems) -> np.ndarray:
        """The law, as often as there are decisions."""
        return np.tile(self.law, len(rounds))


def play(logging: str, logs: int, rng: np.random.Generator):
    """Arms (R, n), rewards (R, n), probabilities (R, n, K) and means (R, n, K) of R logs."""
    theta = rng.dirichlet(np.ones(D), size=logs)
    arms = rng.uniform(0.1, 0.9, size=(logs, K, D))
    first = np.einsum("rkd,rd->rk", arms, theta)
    later = np.roll(first, 1, axis=1) if logging == "drift" else first
    everyone = np.arange(logs)
    played = np.empty((logs, DECISIONS), dtype=np.int64)
    reward = np.empty((logs, DECISIONS))
    chance = np.empty((logs, DECISIONS, K))
    policy = LinMED(sigma=0.5, alpha_emp=0.5, alpha_opt=0.25)
    state, fixed = policy.start(logs, D), 0.8 * rng.dirichlet(np.ones(K), size=logs) + 0.2 / K
    for t in range(DECISIONS):
        means = first if t < DECISIONS // 2 else later
        if logging == "fixed":
            arm = (fixed.cumsum(axis=1) < rng.random((logs, 1))).sum(axis=1).clip(max=K - 1)
            chance[:, t] = fixed
        else:
            choice = policy.decide(state, arms / np.sqrt(D), rng.random((logs, policy.noise_size(D))))
            arm = choice.arm
            chance[:, t] = np.exp(choice.log_probabilities)
        played[:, t] = arm
        reward[:, t] = rng.random(logs) < means[everyone, arm]
        if logging != "fixed":
            policy.learn(state, choice.features, reward[:, t], everyone)
    return played, reward, chance, first, later


def laws(size: int, rng: np.random.Generator) -> np.ndarray:
    """Candidates (M, K), the last close to the first."""
    found = rng.dirichlet(np.full(K, 0.5), size=size)
    other = found[1] if size > 2 else rng.dirichlet(np.full(K, 0.5))
    found[-1] = 0.9 * found[0] + 0.1 * other
    return found


def study(logging: str, size: int, logs: int, seed: int) -> dict[str, object]:
    """One cell."""
    rng = np.random.default_rng([seed, size, ("fixed", "adaptive", "drift").index(logging)])
    errors = decided = 0
    left, own = [], []
    played, reward, chance, first, later = play(logging, logs, rng)
    for i in range(logs):
        rows = np.arange(DECISIONS)
        log = DecisionLog.from_table(
            {
                "arm": played[i],
                "probability": chance[i, rows, played[i]],
                "reward": reward[i],
                "probabilities": chance[i],
            }
        )
        pi = laws(size, rng)
        candidates = [Law(str(j), tuple(law)) for j, law in enumerate(pi)]
        wrong = False
        for n in LOOKS:
            early = min(n, DECISIONS // 2) / n
            value = pi @ (early * first[i] + (1 - early) * later[i])
            choice = choose(log[:n], candidates)
            wrong |= str(int(np.argmax(value))) in choice.dropped
        errors += wrong
        decided += choice.decided
        left.append(len(choice.left))
        low, high = (choice.table[end].to_numpy() for end in ("lower", "upper"))
        own.append(np.count_nonzero(high >= low.max()))
    return {
        "logging": logging, "candidates": size, "logs": logs, "best dropped": errors / logs,
        "decided": decided / logs, "left": float(np.mean(left)), "by own intervals": float(np.mean(own)),
    }  # fmt: skip


def forecast(logs: int, seed: int) -> dict[str, object]:
    """How many times the forecast number of decisions a verdict took, of logs without one at first."""
    ratios = []
    for i in range(logs):
        rng = np.random.default_rng([seed, 99, i])
        arm = rng.integers(0, 2, LONGEST)
        reward = (rng.random(LONGEST) < np.array([0.5, 0.6])[arm]).astype(float)
        rows = {"arm": arm, "probability": np.full(LONGEST, 0.5), "reward": reward}
        log = DecisionLog.from_table(rows, {"arm_count": 2})
        choice = choose(log[:FIRST], [0, 1])
        if choice.decided:
            continue
        if choice.more is None or choice.leader == "arm 0":
            ratios.append(np.nan)  # a forecast about the wrong leader
            continue
        n, promised = FIRST, FIRST + choice.more
        while n < LONGEST and not choose(log[:n], [0, 1]).decided:
            n = min(int(1.1 * n), LONGEST)
        ratios.append(n / promised)
    good = sum(0.25 <= ratio <= 4.0 for ratio in ratios)
    return {
        "undecided": len(ratios), "within 4": good / len(ratios), "median": float(np.nanmedian(ratios)),
        "wrong leader": int(np.isnan(ratios).sum()),
    }  # fmt: skip


def main() -> None:
    """Run all cells."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--logs", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/ope-choose"))
    args = parser.parse_args()
    warnings.simplefilter("ignore", OPEWarning)
    args.out.mkdir(parents=True, exist_ok=True)
    foreseen = forecast(max(args.logs // 5, 1), args.seed)
    print("forecast:", ", ".join(f"{name} {value:.3g}" for name, value in foreseen.items()), flush=True)
    print("| logging | candidates | logs | best dropped | decided | left | by own intervals |")
    print("|---|---|---|---|---|---|---|", flush=True)
    with (args.out / "choose.csv").open("w", newline="") as file:
        writer = None
        for logging, size in CELLS:
            row = study(logging, size, args.logs, args.seed)
            writer = writer or csv.DictWriter(file, row)
            if file.tell() == 0:
                writer.writeheader()
            writer.writerow(row)
            file.flush()
            shares = f"{row['best dropped']:.1%} | {row['decided']:.0%}"
            counts = f"{row['left']:.2f} | {row['by own intervals']:.2f}"
            print(f"| {logging} | {size} | {args.logs} | {shares} | {counts} |", flush=True)


if __name__ == "__main__":
    main()
