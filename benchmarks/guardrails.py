"""Guardrails of `choose`: how often "safe" is said falsely, and how soon it is said rightly.

    python benchmarks/guardrails.py --logs 1000 --document docs/guardrails.md

Logs of a policy that learns (softmax of the mean clicks so far, at least 5 % for each of four arms), looked
at after every quarter. Complaints come at rates of 5, 10, 5 and 10 %. Two guardrails, both missed by arms 1
and 3 by a hair: complaints at most 5 points above those of arm 0, and at most 10 %, each less 1e-9.

The rule, fixed before the first run: the logs in which at some look some guardrail of arm 1 or 3 is called
"safe" are to be no more than the 99.9 % quantile of Binomial(logs, 5 %).
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
from report import document, show, table
from scipy.stats import binom

from linmed.log import SCHEMA
from linmed.ope import DecisionLog, OPEWarning, choose

CLICKS = np.array([0.3, 0.5, 0.4, 0.6])
COMPLAINTS = np.array([0.05, 0.1, 0.05, 0.1])
HAIR = 1e-9
RAILS = [("complaint", "<=", "arm:0", 0.05 - HAIR), ("complaint", "<=", 0.1 - HAIR)]
CANDIDATES = ["arm:1", "arm:2", "arm:3"]
WRONG, RIGHT = ("arm 1", "arm 3"), "arm 2"


def logs(count: int, size: int) -> list[DecisionLog]:
    """Write them all at once, each with its own draws."""
    rng, every = np.random.default_rng(0), np.arange(count)
    seen, total = np.ones((count, 4)), np.full((count, 4), 0.5)
    columns: dict[str, list[np.ndarray]] = {name: [] for name in ("arm", "p", "click", "complaint")}
    for _ in range(size):
        score = np.exp(6.0 * total / seen)
        law = 0.8 * score / score.sum(axis=1, keepdims=True) + 0.05
        arm = (law.cumsum(axis=1) < rng.random((count, 1))).sum(axis=1).clip(max=3)
        click = (rng.random(count) < CLICKS[arm]).astype(float)
        seen[every, arm] += 1.0
        total[every, arm] += click
        told = (rng.random(count) < COMPLAINTS[arm]).astype(float)
        for name, values in zip(columns, (arm, law, click, told), strict=True):
            columns[name].append(values)
    arm, law, click, told = (np.stack(columns[name], axis=1) for name in columns)
    found = []
    for i in every:
        outcomes = [[("complaint", one)] for one in told[i]]
        rows = {
            "arm": arm[i], "probability": law[i][np.arange(size), arm[i]], "probabilities": law[i],
            "reward": click[i], "outcomes": pa.array(outcomes, SCHEMA.field("outcomes").type),
        }  # fmt: skip
        found.append(DecisionLog.from_table(rows))
    return found


def main() -> None:
    """Look, count, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--size", type=int, default=8000)
    parser.add_argument("--document", type=Path)
    args = parser.parse_args()
    looks = [args.size * quarter // 4 for quarter in (1, 2, 3, 4)]
    false, safe, leads = np.zeros(args.logs, bool), np.zeros((args.logs, 4)), np.zeros((args.logs, 4))
    warnings.simplefilter("ignore", OPEWarning)
    for i, log in enumerate(logs(args.logs, args.size)):
        for j, n in enumerate(looks):
            choice = choose(log[:n], CANDIDATES, subject_to=RAILS)
            assert choice.guardrails is not None
            false[i] |= any(
                row["candidate"] in WRONG and row["verdict"] == "safe"
                for row in choice.guardrails.to_pylist()
            )
            safe[i, j] = choice.verdicts[RIGHT] == "safe"
            leads[i, j] = choice.leader == RIGHT
    allowed = int(binom.isf(1e-3, args.logs, 0.05))
    rows = [[f"{n:,}", f"{safe[:, j].mean():.0%}", f"{leads[:, j].mean():.0%}"] for j, n in enumerate(looks)]
    show(table(f"{args.logs:,} logs", ["decisions", "a safe arm is called safe", "and leads"], rows))
    share = f"{false.sum()} of {args.logs:,} logs ({false.mean():.1%})"
    verdict = "held" if false.sum() <= allowed else "NOT held"
    show(f'An arm that is unsafe by a hair was called "safe" at some look in {share}; the rule is {verdict}.')
    if args.document:
        document(args.document, "guardrails")


if __name__ == "__main__":
    main()
