"""How often θ* ever leaves the confidence sets, while LinMED chooses the arms with the very set.

    python benchmarks/confidence_coverage.py --out results/confidence.csv

Each log is its own problem: K = 5 arms and θ* uniform on the unit sphere of R³, so ‖θ*‖ is the S = 1 that
policies are told, σ* = 1. LinMED-90 with δ = 0.05, the same in all rounds, plays; after *every* reward
‖θ* − θ̂‖_V is compared with `policy.radius(state)`. A log counts as left if the radius is exceeded once.
Gaussian noise: 10,000 rounds. Other laws: 500.

The rule, fixed before the first run: a set whose assumptions hold must be left in at most 5 % of the logs.
They hold under Gaussian noise for all sets but the learned ridge, which has no proof, and under uniform noise
and signs for those that are told σ and for "strict". What else is shown is shown for information.
"""

import argparse
import csv
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from linmed.environments import UnitBall
from linmed.policies import LinMED
from linmed.simulation.environment_batch import EnvironmentBatch
from linmed.streams import stream

ARMS, DIM, DELTA, MOST = 5, 3, 0.05, 0.05
LONG, SHORT = 10_000, 500
UNKNOWN = "unknown"
TOLD: dict[str, dict[str, Any]] = {
    "paper": {},
    "mixture": {"confidence": "mixture"},
    "empirical": {"confidence": "empirical"},
    "mixture, S unknown": {"confidence": "mixture", "norm_bound": UNKNOWN},
    "empirical, S unknown": {"confidence": "empirical", "norm_bound": UNKNOWN},
}
STRICT: dict[str, dict[str, Any]] = {
    "σ unknown, strict": {"sigma": UNKNOWN, "tails": "strict"},
    "σ and S unknown, strict": {"sigma": UNKNOWN, "tails": "strict", "norm_bound": UNKNOWN},
}
GAUSSIAN: dict[str, dict[str, Any]] = {
    "σ unknown": {"sigma": UNKNOWN},
    "σ and S unknown": {"sigma": UNKNOWN, "norm_bound": UNKNOWN},
}
UNPROVED: dict[str, dict[str, Any]] = {"σ unknown, ridge learned": {"sigma": UNKNOWN, "ridge": "learned"}}
SETS = {**TOLD, **GAUSSIAN, **STRICT, **UNPROVED}
LAWS = ("gaussian", "uniform", "signs", "student-t")


class Cell(NamedTuple):
    """A set, a law of noise, and what came of them."""

    confidence: str
    noise: str
    rounds: int
    proved: bool
    logs: int = 0
    left: int = 0
    early: int = 0
    """Left within the first per cent of the rounds."""
    infinite: float = 0.0
    """Share of the rounds in which the radius says nothing."""


def cells(rounds: int, rounds_outside: int) -> Iterator[Cell]:
    """Everything that is measured."""
    for noise in LAWS:
        sub_gaussian = noise in ("uniform", "signs")
        for name in SETS:
            proved = name not in UNPROVED and noise == "gaussian"
            proved = proved or (sub_gaussian and name in {*TOLD, *STRICT})
            yield Cell(name, noise, rounds if noise == "gaussian" else rounds_outside, proved)


def play(cell: Cell, seed: int, logs: int) -> Cell:
    """The cell with its figures."""
    environment = UnitBall(ARMS, DIM, noise=cell.noise, degrees=3.0)  # type: ignore[arg-type]
    policy = LinMED(delta=DELTA, **SETS[cell.confidence])
    generators = [stream(seed, "environment", log) for log in range(logs)]
    drawing = stream(seed, "policy")
    worlds = EnvironmentBatch(environment, generators)
    worlds.advance()
    arms = worlds.arms(0)  # (logs, K, d)
    means = worlds.means.reshape(1, logs, ARMS)
    theta = np.linalg.solve(arms[:, :DIM], means[0, :, :DIM, None])[..., 0]
    state = policy.start(logs, DIM)
    left, early, infinite = np.zeros(logs, dtype=bool), 0, 0
    played = np.empty((1, logs), dtype=np.int64)
    for t in range(cell.rounds):
        at = t % worlds.rounds
        if t and at == 0:
            worlds.advance()
        noise = policy.draw_noise(drawing, (1, logs), DIM)
        policy.play_with_errors(state, arms[None], means, worlds.noise[at : at + 1], noise, played)
        radius = policy.radius(state)
        left |= distances(policy.estimate(state), theta) > radius
        infinite += int(np.isinf(radius).sum())
        if t == cell.rounds // 100:
            early = int(left.sum())
    return cell._replace(
        logs=logs, left=int(left.sum()), early=early, infinite=infinite / (logs * cell.rounds)
    )


def distances(belief: Any, theta: Any) -> Any:
    """‖θ* − θ̂‖_V of every log; V is kept as its lower triangle."""
    error = theta - belief.theta
    lower = np.tril(belief.gram)
    diagonal = np.einsum("rii->ri", lower)
    squares = 2.0 * np.einsum("ri,rij,rj->r", error, lower, error) - (diagonal * error**2).sum(axis=1)
    return np.sqrt(squares)


def main() -> int:
    """Run every cell; 1 if a set whose assumptions hold was left too often."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--logs", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=LONG)
    parser.add_argument("--rounds-outside", type=int, default=SHORT)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=None, help="a CSV file; cells it has are not run again")
    args = parser.parse_args()
    wanted = list(cells(args.rounds, args.rounds_outside))
    done = _read(args.out, args.logs)
    missing = [cell for cell in wanted if cell[:3] not in done]
    with ProcessPoolExecutor(args.workers) as pool:
        running = [pool.submit(play, cell, args.seed, args.logs) for cell in missing]
        for future in as_completed(running):
            cell = future.result()
            done[cell[:3]] = cell
            if args.out is not None:
                _write(args.out, done.values())
            print(cell, file=sys.stderr, flush=True)
    found = [done[cell[:3]] for cell in wanted]
    print(table(found))
    failed = [cell for cell in found if cell.proved and cell.left > MOST * cell.logs]
    for cell in failed:
        print(f"FAILED: {cell.confidence}, {cell.noise}: {cell.left} of {cell.logs} logs left")
    return 1 if failed else 0


def table(found: list[Cell]) -> str:
    """Markdown: a line per set, a column per law; proved cells in bold."""
    by = {(cell.confidence, cell.noise): cell for cell in found}
    lines = ["| set | " + " | ".join(LAWS) + " | rounds without a radius |", "|---" * (len(LAWS) + 2) + "|"]
    for name in SETS:
        shares = [by[name, noise] for noise in LAWS]
        texts = [f"{100 * cell.left / cell.logs:.2f} %" for cell in shares]
        marked = [f"**{text}**" if cell.proved else text for cell, text in zip(shares, texts, strict=True)]
        lines.append(f"| {name} | {' | '.join(marked)} | {100 * shares[0].infinite:.2f} % |")
    return "\n".join(lines)


def _read(path: Path | None, logs: int) -> dict[tuple[Any, ...], Cell]:
    if path is None or not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [
            Cell(row[0], row[1], int(row[2]), row[3] == "True", *map(int, row[4:7]), float(row[7]))
            for row in list(csv.reader(lines))[1:]
        ]
    return {row[:3]: row for row in rows if row.logs == logs}


def _write(path: Path, rows: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as lines:
        csv.writer(lines).writerows([Cell._fields, *rows])


if __name__ == "__main__":
    sys.exit(main())
