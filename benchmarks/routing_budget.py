"""A budget for calls of four language models: python benchmarks/routing_budget.py DATA [--document PAGE]

DATA is a folder with four-models.parquet (prompts, with the reward and dollars of four models for each) and
mmlu-two-models.parquet (other prompts). Features of a prompt come from the other prompts: TF-IDF, SVD, and
the logarithm of its length. 500 prompts are for choices: on them the expected dollars of every model are
fitted, and the rule of λ was chosen. On the 1,266 others the agent decides, in ten orders, each from the
start: it is told expected dollars, and what a call cost in truth once it is paid. The yardstick is the best
mixture of two models within the budget, which knows all rewards of these prompts.
"""

import argparse
from itertools import permutations
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from report import document, show, table
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from linmed import Agent, Budget, Disjoint, LinMED

BUDGETS = (1e-4, 3e-4, 6.6e-4, 2e-3, 1e-2)
FOR_CHOICES, ORDERS, CHECKED, COMPONENTS = 500, 10, 1000, 8
WAYS = {
    "a mean per model": {"features": False},
    "features of the prompt": {"features": True},
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="the folder with both tables")
    parser.add_argument("--document", type=Path, metavar="PAGE", help="write the tables into this page")
    parser.add_argument("--choices", action="store_true", help="on the prompts for choices, thrice over")
    args = parser.parse_args()
    features, rewards, dollars = read(args.data)
    places = np.random.default_rng(0).permutation(len(features))
    first, others = places[:FOR_CHOICES], places[FOR_CHOICES:]
    expected = fitted(features[first], dollars[first], features)
    pool = first if args.choices else others
    world = features, rewards, dollars, expected
    header = "budget", "best mixture", "reward", "spent after 1,000", "farthest", "spent in all", "λ · budget"
    for name, way in WAYS.items():
        show(table(name, header, [measured(world, pool, budget, **way) for budget in BUDGETS]))
    if args.document:
        document(args.document, "budget")


def read(folder: Path):
    """Features of the prompts (n,d), rewards and dollars (n,4)."""
    data = pq.read_table(folder / "four-models.parquet").to_pydict()
    other = pq.read_table(folder / "mmlu-two-models.parquet", columns=["prompt"]).to_pydict()["prompt"]
    words = TfidfVectorizer(sublinear_tf=True, min_df=3, max_features=20_000)
    parts = TruncatedSVD(COMPONENTS, random_state=0).fit(words.fit_transform(other))
    prompts = data["prompt"]
    columns = np.column_stack([parts.transform(words.transform(prompts)), np.log([*map(len, prompts)])])
    columns = (columns - columns.mean(axis=0)) / columns.std(axis=0) / 5.0
    found = [np.column_stack([v for k, v in data.items() if k.startswith(w)]) for w in ("reward", "cost")]
    features = np.column_stack([columns, np.ones(len(columns))])
    return features / np.maximum(1.0, np.linalg.norm(features, axis=1))[:, None], *found


def fitted(features, dollars, every):
    """Expected dollars of every model for every prompt (n,4): a ridge of their logarithms, to scale."""
    gram = features.T @ features + np.eye(features.shape[1])
    theta = np.linalg.solve(gram, features.T @ np.log(dollars))
    return np.exp(every @ theta) * (dollars.mean(axis=0) / np.exp(features @ theta).mean(axis=0))


def best_mixture(rewards, dollars, budget: float) -> float:
    """Reward of the best mixture of two models that costs the budget at most."""
    pay, cost = rewards.mean(axis=0), dollars.mean(axis=0)
    found = [pay[i] for i in range(4) if cost[i] <= budget]
    for i, j in permutations(range(4), 2):
        if cost[i] <= budget < cost[j]:
            share = (budget - cost[i]) / (cost[j] - cost[i])
            found.append((1.0 - share) * pay[i] + share * pay[j])
    return max(found)


def measured(world, pool, budget: float, **way):
    """A row of the table: the mean of all orders, and the interval of the reward."""
    runs = np.array([run(world, pool, budget, seed, **way) for seed in range(ORDERS)])
    reward, checked, spent, price = runs.mean(axis=0)
    half = 1.96 * runs[:, 0].std(ddof=1) / np.sqrt(ORDERS)
    farthest = runs[np.abs(runs[:, 1] - 1.0).argmax(), 1]
    return (
        f"{budget:g}", f"{best_mixture(world[1][pool], world[2][pool], budget):.4f}",
        f"{reward:.4f} ± {half:.4f}", f"{checked:.3f}", f"{farthest:.3f}", f"{spent:.3f}", f"{price:.2g}",
    )  # fmt: skip


def run(world, pool, budget: float, seed: int, features: bool):
    """One pass: mean reward; what was spent after 1,000 prompts, and in all, as a share of the budget; λb."""
    columns, rewards, dollars, expected = world
    columns = columns if features else np.ones((len(columns), 1))
    order = np.random.default_rng(seed)
    prompts = np.concatenate([order.permutation(pool) for _ in range(-(-1266 // len(pool)))])[:1266]
    arms = np.zeros((4, 1 + columns.shape[1]))
    arms[:, 0] = range(4)
    base = Disjoint(LinMED(sigma=0.2, norm_bound=1.0, explore=False))
    agent = Agent(Budget(base, per_decision=budget), dim=arms.shape[1], seed=seed)
    earned, checked = 0.0, np.nan
    for t, prompt in enumerate(prompts, 1):
        arms[:, 1:] = columns[prompt]
        decision = agent.decide(arms, costs=expected[prompt])
        reward, paid = rewards[prompt, decision.arm], dollars[prompt, decision.arm]
        agent.learn(decision, reward, consumed=paid)
        earned += reward
        if t == CHECKED:
            checked = agent.budget.spent / agent.budget.allowed
    account = agent.budget
    return earned / len(prompts), checked, account.spent / account.allowed, account.price * budget


if __name__ == "__main__":
    main()
