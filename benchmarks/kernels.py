"""LinMED-90 one decision at a time, and in simulations beside a loop in C++, in one run.

python benchmarks/kernels.py [--quick]

All play on the same arms, drawn from the unit sphere, with rewards ⟨a,θ*⟩ + N(0,1). Processor time,
contenders in turns. The loop in C++ has one replica and computes leverages in every round, as linmed does.
"""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from environments import HOME
from report import SHAPES, interleaved, short, show, spread, table

from linmed import Agent, LinMED, simulate
from linmed.core import core
from linmed.environments import FixedArms

TRIALS = 100  # what one call of `simulate` costs, whatever is played, is then little
POLICY = LinMED()
Floats = np.ndarray


class World:
    """Arms (K,d), what they pay, and noise for `rounds` rounds."""

    def __init__(self, arms: Floats, rounds: int) -> None:
        rng = np.random.default_rng(1)
        self.arms, self.rounds = arms, rounds
        self.theta = rng.standard_normal(arms.shape[1])
        self.theta /= np.linalg.norm(self.theta)
        self.means, self.errors = (arms @ self.theta).tolist(), rng.standard_normal(rounds).tolist()

    def micros(self, play: Callable[["World"], int | None]) -> float:
        """Processor time of one round of a trial; `play` returns how many trials it played, None for one."""
        began = time.process_time()
        trials = play(self) or 1
        return (time.process_time() - began) / (self.rounds * trials) * 1e6


def drawn(arms: int, dim: int) -> Floats:
    """Arms from the unit sphere."""
    rows = np.random.default_rng(1).standard_normal((arms, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


# ---- one decision at a time


def in_core(world: World) -> None:
    """The core's part of a decision and of its reward."""
    dim = world.arms.shape[1]
    live = POLICY.live(POLICY.start(1, dim))
    noise = core.Noise(np.random.default_rng(2).random((world.rounds, 1, 1)))
    for t, error in enumerate(world.errors):
        arm, _, _, kept = live.draw(world.arms, noise, t)
        live.learn(kept, world.means[arm] + error)


def by(policy: LinMED | None, watched: bool = True) -> Callable[[World], None]:
    """An agent as a user has it, or one that does not look whether rewards refute what it assumes."""

    def play(world: World) -> None:
        agent = Agent(policy, dim=world.arms.shape[1], seed=1)
        if not watched:
            agent._watch = None
        for error in world.errors:
            decision = agent.decide(world.arms)
            agent.learn(decision, world.means[decision.arm] + error)

    return play


LIVE: dict[str, Callable[[World], None]] = {
    "the core alone": in_core,
    "`Agent(LinMED())`": by(POLICY),
    "… without a look at what is assumed": by(POLICY, watched=False),
    "`Agent()`": by(None),
}


def live(shapes: Sequence[tuple[int, int]], repeats: int, seconds: float) -> dict[str, Any]:
    """µs of `decide` and `learn`."""
    results: dict[str, Any] = {}
    rows = []
    for shape in shapes:
        world = World(drawn(*shape), _rounds(drawn(*shape), seconds / 4))
        tasks = {name: lambda play=play: world.micros(play) for name, play in LIVE.items()}  # noqa: B023
        found = results[f"{shape[0]}x{shape[1]}"] = interleaved(repeats, tasks)
        rows.append([_named(shape), *map(_cell, found.values())])
    show(table(f"µs of one decision and its reward ({_of(repeats)})", ["(K,d)", *LIVE], rows))
    return results


# ---- simulations


def simulated(world: World) -> int:
    """The whole of `simulate`, with one thread."""
    environment = FixedArms(world.arms, world.theta)
    simulate(POLICY, environment, world.rounds, TRIALS, progress=False, workers=1, batch=TRIALS)
    return TRIALS


def played(world: World) -> float:
    """µs of the core's part of it."""
    means = np.tile(world.means, (1, TRIALS, 1))
    rng, arm = np.random.default_rng(3), np.empty((world.rounds, TRIALS), dtype=np.int64)
    errors, noise = rng.standard_normal(arm.shape), rng.random((*arm.shape, 1))
    state = POLICY.start(TRIALS, world.arms.shape[1])
    arm.fill(0)  # so that the pages are there
    began = time.process_time()
    POLICY.play_with_errors(state, world.arms[None, None], means, errors, noise, arm)
    return (time.process_time() - began) / arm.size * 1e6


def yardstick() -> Path | None:
    """The C++ loop, compiled for this machine; None without a compiler."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        return None
    HOME.mkdir(exist_ok=True)
    program, source = HOME / "yardstick", Path(__file__).with_name("yardstick.cpp")
    if not program.is_file() or program.stat().st_mtime < source.stat().st_mtime:
        subprocess.run([compiler, "-O3", "-march=native", "-std=c++17", "-o", program, source], check=True)
    return program


def in_cpp(program: Path, arms: int, dim: int, rounds: int) -> float:
    """µs of a round, as the program measures it, and its arms in .bench/arms."""
    words = [str(program), str(arms), str(dim), str(rounds), str(HOME / "arms")]
    return 1e6 * float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def simulations(shapes: Sequence[tuple[int, int]], repeats: int, seconds: float) -> dict[str, Any]:
    """µs of a round of a trial."""
    results: dict[str, Any] = {}
    rows, program = [], yardstick()
    for shape in shapes:
        arms = drawn(*shape)
        if program is not None:
            in_cpp(program, *shape, 2)
            arms = np.fromfile(HOME / "arms").reshape(shape)
        world = World(arms, _rounds(arms, seconds / TRIALS))
        tasks: dict[str, Callable[[], float]] = {
            "simulate": lambda: world.micros(simulated),  # noqa: B023
            "core": lambda: played(world),  # noqa: B023
        }
        if program is not None:
            tasks["C++"] = lambda: in_cpp(program, *shape, world.rounds)  # noqa: B023
        found = results[f"{shape[0]}x{shape[1]}"] = interleaved(repeats, tasks)
        against = [
            median(cpp / own for cpp, own in zip(found["C++"], found[name], strict=True))
            for name in ("core", "simulate")
            if program is not None
        ]
        rows.append([_named(shape), *map(_cell, found.values()), *(f"{ratio:.2f}" for ratio in against)])
    header = ["(K,d)", "`simulate`", "its core", "C++", "C++ / core", "C++ / `simulate`"][: len(rows[0])]
    show(table(f"µs of a round of one of {TRIALS} trials ({_of(repeats)})", header, rows))
    return results


def _rounds(arms: Floats, seconds: float) -> int:
    """How many rounds the core plays in about `seconds`, from 100 to 5,000."""
    spent = World(arms, 100).micros(in_core) / 1e6
    return int(np.clip(seconds / spent, 100, 5_000))


def _named(shape: tuple[int, int]) -> str:
    return f"({shape[0]},{shape[1]})"


def _cell(found: list[float]) -> str:
    return f"{short(median(found))} ±{50 * spread(found):.0f}%"


def _of(repeats: int) -> str:
    return f"processor time, median of {repeats} ± half the range"


def run(shapes: Sequence[tuple[int, int]], repeats: int, seconds: float) -> dict[str, Any]:
    """Measure, print, and return the figures: µs by (K, d) and contender."""
    return {
        "live": live(shapes, repeats, seconds),
        "simulations": simulations(shapes, repeats, seconds),
    }


if __name__ == "__main__":
    quick = "--quick" in sys.argv[1:]
    run(SHAPES, 2 if quick else 5, 0.2 if quick else 1.0)
