"""How close one round of LinMED comes to what this machine can do.

python benchmarks/roofline.py [--quick]

Counted is what the algorithm cannot do without; K arms, d features, g greedy additions to the design:

- products of matrices (as fast as GEMM): the quadratic forms ‖a‖², ‖â − a‖² in V⁻¹ and, if K > 2d, the first
  leverages of the design. By symmetry each is d(d+1)/2 multiply-adds and d more: d² + 3d flops per arm.
  The second follows from the first and from ⟨V⁻¹â, a⟩, so it is counted as 2d. The inverse of the design's
  matrix is 2d³.
- products of a matrix and a vector (as fast as GEMV on a matrix of this size): the means, ⟨V⁻¹â, a⟩, the d
  directions of Betke–Henk and the g additions, 2Kd flops each; V⁻¹a and the rank-one update of
  `learn`, 2d² each, and the same for every addition.
- bytes: every pass over arms that do not fit into the cache moves 8Kd bytes. There are 2 passes to decide,
  and 1 + d + g for the design. In the cache, GEMV's own rate stands for them.

bound = flops/GEMM rate + flops/GEMV rate, or bytes/bandwidth if that is more.
"""

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from kernels import Trials, check, simulated
from report import SHAPES, short, show, table

CACHE = 1 << 21  # bytes; a matrix up to this size is read from a cache


def rate(task: Callable[[], object], amount: float, seconds: float) -> float:
    """`amount` per second, best of what fits into `seconds`: a bound is what the machine can do."""
    task()  # pages are touched
    best, began = np.inf, time.perf_counter()
    times, done = 1, 0
    while done < 5 or time.perf_counter() - began < seconds:
        done += 1
        start = time.perf_counter()
        for _ in range(times):
            task()
        spent = (time.perf_counter() - start) / times
        best = min(best, spent)
        times = max(1, int(1e-3 / spent))
    return float(amount / best)


def bandwidth(seconds: float) -> dict[str, float]:
    """Bytes per second from memory: an inner product reads, a copy reads and writes, a triad c = a + 3b."""
    n = 1 << 24  # 128 MiB an array, beyond any cache
    a, b, c = np.ones(n), np.ones(n), np.empty(n)

    def triad() -> None:
        np.multiply(b, 3.0, out=c)
        np.add(a, c, out=c)

    return {
        "read": rate(lambda: a @ b, 16.0 * n, seconds),
        "copy": rate(lambda: np.copyto(c, a), 16.0 * n, seconds),
        "triad": rate(triad, 40.0 * n, seconds),  # in two sweeps: 2 reads, 1 read, 2 writes
    }


def gemm(seconds: float) -> float:
    """Flops per second of a product of matrices that stay in the cache."""
    n = 384
    a, b, c = np.ones((n, n)), np.ones((n, n)), np.empty((n, n))
    return rate(lambda: np.matmul(a, b, out=c), 2.0 * n**3, seconds)


def gemv(arms: int, dim: int, seconds: float) -> float:
    """Flops per second of a product of a (K,d) matrix and a vector, in the better of the two layouts."""
    rows = max(arms, 20_000 // dim)  # more rows, still in a near cache, hide the cost of the call
    a, x, out = np.ones((rows, dim)), np.ones(dim), np.empty(rows)
    turned = np.ones((dim, rows))
    return max(
        rate(lambda: np.matmul(a, x, out=out), 2.0 * a.size, seconds / 2),
        rate(lambda: np.matmul(x, turned, out=out), 2.0 * a.size, seconds / 2),
    )


def necessary(arms: int, dim: int, steps: float) -> dict[str, float]:
    """Flops of both kinds and bytes of one round, counted as this file's description says."""
    K, d = arms, dim
    designed = K > 2 * d
    square = K * (d * d + 3 * d) * (2 if designed else 1) + 2 * K * d + (2 * d**3 if designed else 0)
    passes = 2 + (d + steps if designed else 0)
    linear = 2 * K * d * passes + 4 * d * d * (1 + (steps if designed else 0))
    return {
        "gemm flops": float(square),
        "gemv flops": float(linear),
        "bytes": 8.0 * K * d * (passes + (1 if designed else 0)) if 8 * K * d > CACHE else 0.0,
    }


def bound(counted: dict[str, float], machine: dict[str, float], gemv_rate: float) -> float:
    """Seconds below which one round cannot be done."""
    compute = counted["gemm flops"] / machine["gemm"] + counted["gemv flops"] / gemv_rate
    return max(compute, counted["bytes"] / machine["read"])


def limits(seconds: float) -> dict[str, float]:
    """The machine's rates, one thread."""
    return {**bandwidth(seconds), "gemm": gemm(seconds)}


def run(shapes: Sequence[tuple[int, int]], repeats: int, seconds: float, clock: str) -> dict[str, Any]:
    """Measure the machine, then every shape against its bound; print and return both."""
    machine = limits(seconds)
    rates = [[f"memory, {name}", f"{machine[name] / 1e9:.1f} GB/s"] for name in ("read", "copy", "triad")]
    rates.append(["GEMM 384×384", f"{machine['gemm'] / 1e9:.1f} Gflop/s"])
    results: dict[str, Any] = {"machine": machine, "rounds": {}}
    rows = []
    for arms, dim in shapes:
        _, steps = check(arms, dim)
        gemv_rate = gemv(arms, dim, seconds)
        rates.append([f"GEMV ({arms},{dim})", f"{gemv_rate / 1e9:.1f} Gflop/s"])
        counted = necessary(arms, dim, steps)
        floor = bound(counted, machine, gemv_rate) * 1e6
        trials = Trials(20, arms, dim, max(4, int(seconds * 2e6 / (20 * (5 + 50 * floor)))))
        simulated(Trials(20, arms, dim, 2))
        times = [trials.micros(partial(simulated, trials), clock) for _ in range(repeats)]
        micros = median(times)
        flops = counted["gemm flops"] + counted["gemv flops"]
        work = [str(steps), short(counted["gemm flops"]), short(counted["gemv flops"])]
        speed = [short(floor), short(micros), f"{flops / micros / 1e3:.2f}", f"{floor / micros:.2f}"]
        rows.append([f"({arms},{dim})", *work, *speed])
        results["rounds"][f"{arms}x{dim}"] = {**counted, "steps": steps, "bound": floor, "us": times}
    show(table("What the machine can do, one thread", ["", "measured"], rates))
    header = ["(K,d)", "g", "GEMM flops", "GEMV flops", "bound µs", "linmed µs", "Gflop/s", "share of bound"]
    show(table("One simulated round of LinMED, R = 20, against its bound", header, rows))
    return results


if __name__ == "__main__":
    quick = "--quick" in sys.argv[1:]
    run(SHAPES, 2 if quick else 5, 0.2 if quick else 1.0, "wall")
