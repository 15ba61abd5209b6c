"""How soon the two confidence sets for clicks decide which arm is the best, and how often wrongly.

    python benchmarks/clicks_verdict.py

100 problems: six arms uniform on the unit sphere of R³, θ* uniform on the sphere of radius 3, intercept −2,
the arms played in turn. `Verdicts` looks after every 250 rewards, δ = 0.05; policies with a norm_bound are
told 3. Shown: problems decided within so many rewards, and those decided wrongly.
"""

import argparse

import numpy as np

from linmed import Agent, LogisticMED, Verdicts

POLICIES = (
    LogisticMED(norm_bound=3.0, confidence="certified"), LogisticMED(norm_bound=3.0), LogisticMED(),
)  # fmt: skip
LOOK = 250


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--rewards", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    after = np.full((len(POLICIES), args.problems), np.inf)
    wrong = np.zeros(len(POLICIES), dtype=int)
    for problem in range(args.problems):
        rng = np.random.default_rng([args.seed, problem])
        arms, theta = rng.standard_normal((6, 3)), rng.standard_normal(3)
        arms /= np.linalg.norm(arms, axis=1, keepdims=True)
        z = -2.0 + np.einsum("kd,d->k", arms, 3.0 * theta / np.linalg.norm(theta))
        played = np.arange(args.rewards) % 6
        clicks = (rng.random(args.rewards) < 1 / (1 + np.exp(-z[played]))).astype(float)
        for i, policy in enumerate(POLICIES):
            agent, verdicts = Agent(policy, dim=3), Verdicts(arms, delta=0.05)
            for first in range(0, args.rewards, LOOK):
                part = slice(first, first + LOOK)
                agent.observe(arms[played[part]], clicks[part])
                verdict = verdicts.look(agent)
                if verdict.decided:
                    after[i, problem] = first + LOOK
                    wrong[i] += verdict.best != int(z.argmax())
                    break
    for i, policy in enumerate(POLICIES):
        within = " ".join(f"{n}: {(after[i] <= n).sum()}" for n in (2500, 5000, 10_000, 20_000))
        print(f"{policy.name:60} decided of {args.problems} within {within}; wrong {wrong[i]}")


if __name__ == "__main__":
    main()
