"""How LinMED's cost grows with arms and with features, and its memory.

python benchmarks/growth.py [--quick]
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from report import CLOCKS, short, show, table

from linmed import Agent, LinMED

ARMS_AT_D8 = (1_000, 10_000, 100_000, 1_000_000)
DIMS_AT_K4096 = (16, 32, 64, 128, 256, 512)
WARM = "fixed, warm design"

MILLION = """
import sys, time
import numpy as np
from linmed import Agent, LinMED

def resident(name):
    line = next(x for x in open("/proc/self/status") if x.startswith(name))
    return int(line.split()[1]) * 1024

K, d = int(sys.argv[1]), int(sys.argv[2])
now = time.process_time if sys.argv[4] == "cpu" else time.perf_counter
agent = Agent(LinMED(design=sys.argv[5]), dim=d, seed=1)
agent.learn(agent.decide(np.random.default_rng(0).standard_normal((3 * d, d))), 1.0)
before = resident("VmRSS")
arms = np.random.default_rng(1).standard_normal((K, d))
for k in range(0, K, 1000):
    arms[k : k + 1000] /= np.linalg.norm(arms[k : k + 1000], axis=1, keepdims=True)
open("/proc/self/clear_refs", "w").write("5")  # the peak starts from here
spent = []
agent.learn(agent.decide(arms), 1.0)
for _ in range(int(sys.argv[3])):
    began = now()
    decision = agent.decide(arms)
    spent.append(now() - began)
    agent.learn(decision, 1.0)
print(sorted(spent)[len(spent) // 2], before, resident("VmHWM"), arms.nbytes)
"""


def directions(rng: np.random.Generator, arms: int, dim: int) -> np.ndarray:
    rows = rng.standard_normal((arms, dim))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def seconds_per_round(arms: int, dim: int, kind: str, rounds: int, clock: str) -> float:
    """`Agent.decide` and `learn`; arm sets that change are drawn outside the time."""
    changing = kind == "changing"
    rng = np.random.default_rng(1)
    theta = directions(rng, 1, dim)[0]
    agent = Agent(LinMED(design="warm" if kind == WARM else "approx"), dim=dim, seed=1)
    offered = directions(rng, arms, dim)
    now = CLOCKS[clock]
    spent = 0.0
    for t in range(rounds + 1):
        if changing and t:
            offered = directions(rng, arms, dim)
        began = now()
        decision = agent.decide(offered)
        agent.learn(decision, float(offered[decision.arm] @ theta) + rng.standard_normal())
        if t:  # the first is for caches
            spent += now() - began
    return spent / rounds


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Slope of log time against log size over the larger half of the sizes."""
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half - 1 :]), np.log(seconds[half - 1 :]), 1)[0])


def grow(repeats: int, quick: bool, clock: str) -> dict[str, Any]:
    """Times over K at d = 8 and over d at K = 4096, for arm sets that stay and that change."""
    arms = ARMS_AT_D8[:-1] if quick else ARMS_AT_D8
    dims = DIMS_AT_K4096[:-2] if quick else DIMS_AT_K4096
    results: dict[str, Any] = {}
    for name, sizes, shape in (
        ("arms, d = 8", arms, lambda n: (n, 8)),
        ("features, K = 4096", dims, lambda n: (4096, n)),
    ):
        found: dict[str, list[float]] = {}
        for kind in ("fixed", "changing", WARM):
            found[kind] = [
                median(seconds_per_round(*shape(n), kind, _rounds(*shape(n)), clock) for _ in range(repeats))
                for n in sizes
            ]
        slopes = {kind: exponent(sizes, times) for kind, times in found.items()}
        results[name] = {"sizes": sizes, "seconds": found, "exponents": slopes}
        rows = [
            [kind, *(short(1e6 * t) for t in times), f"{slopes[kind]:.2f}"] for kind, times in found.items()
        ]
        header = ["arm set", *(f"{n:,}" for n in sizes), "exponent"]
        show(table(f"µs per decision with learning, growing {name} ({clock} clock)", header, rows))
    return results


def _rounds(arms: int, dim: int) -> int:
    return int(np.clip(2e8 / (arms * dim * min(dim, arms)), 2, 300))


def memory() -> dict[str, int]:
    """Bytes of state per replica."""
    sizes = {}
    for dim in (2, 20, 50, 512):
        state = LinMED().start(10, dim)
        sizes[f"d = {dim}"] = sum(array.nbytes for array in state.arrays().values()) // 10
    rows = [[name, f"{size:,}", f"{size / 8:,.0f}"] for name, size in sizes.items()]
    show(table("State of one replica", ["", "bytes", "numbers"], rows))
    return sizes


def million(repeats: int, quick: bool, clock: str) -> dict[str, float]:
    """One decision over a million arms of 64 features: time and memory."""
    arms, dim = (100_000 if quick else 1_000_000), 64
    found = {}
    for design in ("approx", "warm"):
        words = ["-c", MILLION, str(arms), str(dim), str(max(2, repeats // 2)), clock, design]
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
        found[design] = [float(word) for word in done.stdout.split()]
    seconds, before, peak, size = found["approx"]
    warm = found["warm"][0]
    rows = [
        ["arms", f"{arms:,} × {dim}, {size / 2**20:.0f} MiB"],
        ["one decision", f"{seconds:.2f} s"],
        ['the second and later with design="warm"', f"{warm:.2f} s"],
        ["peak memory with the arms / the arms", f"{(peak - before) / size:.2f}"],
    ]
    show(table("One decision over very many arms", ["", ""], rows))
    return {"arms": arms, "dim": dim, "s": seconds, "warm s": warm, "before": before, "peak": peak}


def run(repeats: int, quick: bool, clock: str) -> dict[str, Any]:
    """Everything in this file."""
    results: dict[str, Any] = {"growth": grow(min(repeats, 3), quick, clock), "memory": memory()}
    if Path("/proc/self/clear_refs").exists():
        results["million"] = million(repeats, quick, clock)
    return results


if __name__ == "__main__":
    run(2 if "--quick" in sys.argv[1:] else 5, "--quick" in sys.argv[1:], "wall")
