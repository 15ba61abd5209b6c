"""One round of LinMED, decide and learn: linmed beside plain NumPy and a C++ loop, in one run.

python benchmarks/kernels.py [--quick]

All three play LinMED-90 on arms drawn from the unit sphere, a set of their own per replica. µs are per
replica and round. The C++ loop has one replica and recomputes all leverages in every round, as linmed does.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from environments import HOME
from plain import PlainLinMED
from report import CLOCKS, SHAPES, interleaved, short, show, spread, table

from linmed import Agent, LinMED
from linmed.simulation.trials import SUMS_AT_ONCE

REPLICAS = (1, 20, 180)
POLICY = LinMED()
Floats = np.ndarray


class Trials:
    """Arms and noise for R replicas."""

    def __init__(self, replicas: int, arms: int, dim: int, rounds: int) -> None:
        rng = np.random.default_rng(1)

        def directions(*shape: int) -> Floats:
            rows = rng.standard_normal((*shape, dim))
            return rows / np.linalg.norm(rows, axis=-1, keepdims=True)

        self.rounds, self.replicas, self.rows = rounds, replicas, np.arange(replicas)
        self.arms = directions(replicas, arms)  # (R,K,d)
        self.means = np.einsum("rkd,rd->rk", self.arms, directions(replicas))
        self.noise = rng.standard_normal((rounds, replicas))
        self.uniforms = rng.random((rounds, replicas, 1))

    def reward(self, t: int, arm: Any) -> Floats:
        rewards: Floats = self.means[self.rows, arm] + self.noise[t]
        return rewards

    def micros(self, play: Callable[[], None], clock: str) -> float:
        now = CLOCKS[clock]
        began = now()
        play()
        return (now() - began) / (self.rounds * self.replicas) * 1e6


def simulated(trials: Trials) -> None:
    """The loop of `linmed.simulate`, without its random streams and book-keeping."""
    R, K, dim = trials.arms.shape
    state = POLICY.start(R, dim)
    few = max(1, SUMS_AT_ONCE // (R * K))
    played = np.empty((trials.rounds, R), dtype=np.int64)
    for t in range(0, trials.rounds, few):
        now = slice(t, t + few)
        errors, uniforms = trials.noise[now], trials.uniforms[now]
        POLICY.play_with_errors(state, trials.arms[None], trials.means[None], errors, uniforms, played[now])


def live(trials: Trials) -> None:
    """One decision maker as a user has it."""
    agent = Agent(POLICY, dim=trials.arms.shape[2], seed=1)
    arms, means, noise = trials.arms[0], trials.means[0].tolist(), trials.noise[:, 0].tolist()
    for t in range(trials.rounds):
        decision = agent.decide(arms)
        agent.learn(decision, means[decision.arm] + noise[t])


def in_numpy(trials: Trials) -> None:
    plain = PlainLinMED(trials.replicas, trials.arms.shape[2])
    for t in range(trials.rounds):
        arm = plain.decide(trials.arms, trials.uniforms[t, :, 0])
        plain.learn(trials.arms[trials.rows, arm], trials.reward(t, arm))


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


def in_cpp(program: Path, arms: int, dim: int, rounds: int, clock: str) -> float:
    """µs per round, by the program's own clocks."""
    words = [str(program), str(arms), str(dim), str(rounds), "R", "1"]
    found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return 1e6 / float(found["median_cpu" if clock == "cpu" else "median"])


def check(arms: int, dim: int, rounds: int = 40) -> tuple[float, int]:
    """Largest difference between linmed's and NumPy's probabilities; greedy additions in the last round."""
    trials = Trials(2, arms, dim, rounds)
    plain, state = PlainLinMED(2, dim), POLICY.start(2, dim)
    worst = 0.0
    for t in range(rounds):
        p = np.exp(POLICY.log_probabilities(state, trials.arms))
        worst = max(worst, float(np.abs(p - plain.probabilities(trials.arms)).max()))
        arm = POLICY.choose(state, trials.arms, trials.uniforms[t])
        features, rewards = trials.arms[trials.rows, arm], trials.reward(t, arm)
        POLICY.learn(state, features, rewards, trials.rows)
        plain.learn(features, rewards)
    if worst > 1e-9:
        raise AssertionError(f"({arms},{dim}): linmed and NumPy differ by {worst:g} in a probability")
    return worst, plain.steps


def rounds_for(replicas: int, arms: int, dim: int, seconds: float) -> int:
    """How many rounds the simulated loop plays in about `seconds`."""
    simulated(Trials(replicas, arms, dim, 2))  # compiled, or read from the cache
    rounds = 8
    while True:
        trials = Trials(replicas, arms, dim, rounds)
        spent = trials.micros(lambda: simulated(trials), "cpu") * rounds * replicas / 1e6  # noqa: B023
        if spent > 0.2 * seconds or rounds > 200_000:
            return max(8, int(rounds * min(seconds / spent, 8.0)))
        rounds *= 4


def run(shapes: Sequence[tuple[int, int]], repeats: int, seconds: float, clock: str) -> dict[str, Any]:
    """Measure, print, and return the figures: µs by (R, K, d) and contender."""
    program = yardstick()
    results: dict[str, Any] = {}
    rows = []
    for arms, dim in shapes:
        difference, _ = check(arms, dim)
        for replicas in REPLICAS:
            found = _compare(program, replicas, arms, dim, repeats, seconds, clock)
            results[f"{replicas}x{arms}x{dim}"] = {"difference": difference, **found}
            rows.append(_row(replicas, arms, dim, found))
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    title = f"µs per replica and round, LinMED-90 (median of {repeats}, ± half the range, {clock} clock)"
    header = ["(K,d)", "R", "Agent", "simulated", "NumPy", "C++", "NumPy / linmed", "C++ / linmed"]
    show(table(title, header, rows))
    results["design and decision"] = beside_blas(1000, 32, repeats, clock)
    return results


def _compare(
    program: Path | None, replicas: int, arms: int, dim: int, repeats: int, seconds: float, clock: str
) -> dict[str, list[float]]:
    trials = Trials(replicas, arms, dim, rounds_for(replicas, arms, dim, seconds / 3))
    brief = Trials(replicas, arms, dim, max(2, trials.rounds // 20))  # NumPy is that much slower
    tasks: dict[str, Callable[[], float]] = {
        "simulated": lambda: trials.micros(lambda: simulated(trials), clock)
    }
    if replicas == 1:
        live(Trials(1, arms, dim, 2))
        tasks["Agent"] = lambda: trials.micros(lambda: live(trials), clock)
    tasks["NumPy"] = lambda: brief.micros(lambda: in_numpy(brief), clock)
    if program is not None:
        tasks["C++"] = lambda: in_cpp(program, arms, dim, min(trials.rounds, 2000), clock)
    return interleaved(repeats, tasks)


def _row(replicas: int, arms: int, dim: int, found: dict[str, list[float]]) -> list[str]:
    def cell(name: str) -> str:
        return f"{short(median(found[name]))} ±{50 * spread(found[name]):.0f}%" if name in found else "—"

    def against(name: str) -> str:
        if name not in found:
            return "—"
        return short(median(other / own for other, own in zip(found[name], found["simulated"], strict=True)))

    cells = [cell(name) for name in ("Agent", "simulated", "NumPy", "C++")]
    return [f"({arms},{dim})", str(replicas), *cells, against("NumPy"), against("C++")]


def beside_blas(arms: int, dim: int, repeats: int, clock: str) -> dict[str, float]:
    """Design and decision against the diagonal of `arms V⁻¹ armsᵀ` by BLAS times the greedy steps."""
    _, steps = check(arms, dim)
    trials = Trials(1, arms, dim, 40)
    state = POLICY.start(1, dim)
    for t in range(trials.rounds):
        arm = POLICY.choose(state, trials.arms, trials.uniforms[t])
        POLICY.learn(state, trials.arms[trials.rows, arm], trials.reward(t, arm), trials.rows)
    matrix, inverse = trials.arms[0], np.ascontiguousarray(state.inverse[0])

    def timed(task: Callable[[], object], times: int = 50) -> float:
        now = CLOCKS[clock]
        began = now()
        for _ in range(times):
            task()
        return (now() - began) / times * 1e6

    found = interleaved(
        max(repeats, 5),
        {
            "decision": lambda: timed(lambda: POLICY.choose(state, trials.arms, trials.uniforms[0])),
            "diagonal": lambda: timed(lambda: np.einsum("ij,ij->i", matrix @ inverse, matrix)),
        },
    )
    decision, diagonal = median(found["decision"]), median(found["diagonal"])
    share = decision / (diagonal * steps)
    show(
        f"({arms},{dim}): design and decision {short(decision)} µs; the diagonal of arms V⁻¹ armsᵀ by BLAS "
        f"{short(diagonal)} µs × {steps} greedy steps = {short(diagonal * steps)} µs; ratio {share:.2f}\n"
    )
    return {"decision": decision, "diagonal": diagonal, "steps": steps, "ratio": share}


if __name__ == "__main__":
    quick = "--quick" in sys.argv[1:]
    run(SHAPES, 2 if quick else 5, 0.2 if quick else 1.0, "wall")
