"""Agents among a catalogue that changes: are their completed logs, and reward models on them, unbiased?

    python benchmarks/ope_catalogue_agent.py --logs 200 --out results/ope-catalogue-agent.csv

Every log is one of an agent of CatalogueMED (α_emp = 0.6, σ = 0.3) that learns in 150 decisions, in
contexts of one number, among 200 items of three features; after the 75th ten items go, ten come and one
changes. Rewards are 0 or 1, with the mean 0.5 + 0.3 e₁ + 0.15 x e₂ cut to [0.05, 0.95]. The agent is saved
and loaded, and completes its log; reward models are given its catalogue.

Targets: "uniform" over the items that are there, and "few" (five that stay, with unequal probabilities).
Errors are those of the estimates against the average over the log's own decisions and contexts of what the
target would have been paid, which is known. The rule, fixed before the first run: over all logs, for both
targets and for each of IPW as logged, IPW as completed, DR as logged and DR as completed, the mean of the
errors is within 3 of its standard errors of 0; every fallback of every log is completed; and the betting
interval (95 %) of IPW holds the truth in at least 95 % of the logs, as logged and as completed. Spreads are
shown beside it.
"""

import argparse
import math
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from ope_catalogue import told

from linmed import Agent, CatalogueMED
from linmed.features import Catalogue, Number
from linmed.ope import DecisionLog, OPEWarning, complete, evaluate

ROUNDS, ITEMS, FEW = 150, 200, 5
ERRORS, CONFIDENCE = 3.0, 0.95


class Found(NamedTuple):
    """How one log was judged for one target."""

    reading: str
    target: str
    error: float
    covered: bool | None
    left: int


def means(items: np.ndarray, context: float) -> np.ndarray:
    """What every item pays on average."""
    return np.clip(0.5 + 0.3 * items[:, 0] + 0.15 * context * items[:, 1], 0.05, 0.95)


def change(catalogue: Catalogue, rng: np.random.Generator) -> None:
    """Ten go, ten come, one changes; never one of the few."""
    several = rng.choice(np.arange(FEW, ITEMS), size=11, replace=False)
    catalogue.remove([int(item) for item in several[:10]])
    catalogue.add([{"id": ITEMS + i, "features": rng.normal(size=3).tolist()} for i in range(10)])
    catalogue.change({"id": int(several[10]), "features": rng.normal(size=3).tolist()})


def study(seed: int, folder: Path) -> list[Found]:
    """One log."""
    rng = np.random.default_rng(seed)
    catalogue = Catalogue(range(ITEMS), rng.normal(size=(ITEMS, 3)))
    law = np.arange(1.0, FEW + 1.0) / (FEW * (FEW + 1) / 2)
    paid: dict[str, list[float]] = {"uniform": [], "few": []}
    policy, age = CatalogueMED(alpha_emp=0.6, sigma=0.3), Number("age", scale=(0, 1))
    with Agent(policy, catalogue=catalogue, context=[age], seed=seed, log=folder / "log") as agent:
        for t in range(ROUNDS):
            if t == ROUNDS // 2:
                change(catalogue, rng)
            context = float(rng.normal())
            now = means(catalogue.matrix, context)
            paid["uniform"].append(float(now[catalogue.live].mean()))
            paid["few"].append(float(law @ now[:FEW]))
            decision = agent.decide(context={"age": context})
            agent.learn(decision, float(rng.random() < now[decision.arm]))
        agent.save(folder / "agent.npz")
    agent = Agent.load(folder / "agent.npz")
    log = DecisionLog.open(folder / "log")
    done = complete(log, agent)
    few = {str(item): float(chance) for item, chance in enumerate(law)}
    found = []
    for reading, one in (("as logged", log), ("as completed", done)):
        left = one.table(["fallback"])["fallback"].to_pylist().count(True)
        targets: dict[str, Any] = {"uniform": "uniform", "few": few}
        table = evaluate(one, targets, ["ipw", "dr"], catalogue=agent, confidence=CONFIDENCE, seed=seed)
        for row in table.to_pylist():
            truth = float(np.mean(paid[row["target"]]))
            by_ipw = row["estimator"] == "ipw"
            covered = bool(row["lower"] <= truth <= row["upper"]) if by_ipw else None
            name = f"{row['estimator']}, {reading}"
            found.append(Found(name, row["target"], row["estimate"] - truth, covered, left))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore", OPEWarning)
    begin, found = time.perf_counter(), []
    for i in range(args.logs):
        with tempfile.TemporaryDirectory() as folder:
            found += study(args.seed + i, Path(folder))
        if (i + 1) % 25 == 0:
            print(f"{i + 1} logs, {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    rows, right = [], True
    for reading, target in dict.fromkeys((one.reading, one.target) for one in found):
        own = [one for one in found if (one.reading, one.target) == (reading, target)]
        errors = np.array([one.error for one in own])
        z = errors.mean() / (errors.std(ddof=1) / math.sqrt(len(own)))
        covered = [one.covered for one in own if one.covered is not None]
        left = sum(one.left for one in own)
        right &= abs(z) <= ERRORS and (not covered or float(np.mean(covered)) >= CONFIDENCE)
        right &= reading.endswith("logged") or left == 0
        rows.append(
            {
                "reading": reading, "target": target, "logs": len(own), "bias": f"{errors.mean():.5f}",
                "standard errors": f"{z:.2f}", "spread": f"{errors.std(ddof=1):.4f}",
                "coverage": f"{np.mean(covered):.4f}" if covered else "", "fallbacks left": left,
            }
        )  # fmt: skip
    return told(rows, right, args.out)


if __name__ == "__main__":
    sys.exit(main())
