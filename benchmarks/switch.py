"""Where the kernels change method: plain loops or tiles for a set of arms, plain loops or BLAS for vᵀMv.

Run it: python benchmarks/switch.py     (the constants FEW and BLAS_DIM stand in linmed.kernels.linear)
"""

import os
import subprocess
import sys
import tempfile
import time

import numpy as np

SETS = ((3, 2), (10, 4), (50, 2), (30, 4), (17, 8), (25, 8), (60, 4), (12, 20), (64, 8), (250, 2), (500, 2))
DIMS = (4, 8, 12, 16, 24, 32)


def best_of(call, repeats=100, inner=5):
    call()
    return min(_seconds(call, inner) for _ in range(repeats)) * 1e6


def _seconds(call, inner):
    start = time.perf_counter()
    for _ in range(inner):
        call()
    return (time.perf_counter() - start) / inner


def whole_rounds():
    """µs of one round of LinMED, for each set."""
    from kernels import Trials, simulated

    for K, d in SETS:
        trials = Trials(20, K, d, 100)
        yield best_of(lambda trials=trials: simulated(trials), repeats=10, inner=1) / (100 * 20)


def lengths():
    """µs of one tile's vᵀMv, for each dimension."""
    from linmed.kernels import linear

    rng = np.random.default_rng(0)
    for d in DIMS:
        tile, M, out = rng.random((d, linear.TILE)), np.eye(d), np.empty(linear.TILE)
        image = np.empty_like(tile)
        yield best_of(lambda M=M, t=tile, i=image, o=out: linear.tile_lengths(t, M, i, o))


MEASURES = {"FEW": whole_rounds, "BLAS_DIM": lengths}


def measured(constant, value):
    """The times with a constant set to a value: in a process of its own, whose kernels nobody else uses."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "OPENBLAS_NUM_THREADS": "1"}
        words = [sys.executable, __file__, constant, str(value)]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return [float(line) for line in done.stdout.split()]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        from linmed.kernels import linear

        constant, value = sys.argv[1], int(sys.argv[2])
        setattr(linear, constant, value)  # before anything imports it or compiles
        print(*MEASURES[constant](), sep="\n")
    else:
        print("    (K,d)  numbers  loops µs  tiles µs")
        for (K, d), loops, tiles in zip(SETS, measured("FEW", 10**6), measured("FEW", 0), strict=True):
            print(f"{f'({K},{d})':>9}  {K * d:7}  {loops:8.2f}  {tiles:8.2f}")
        print("dimension  loops µs  BLAS µs")
        for d, loops, blas in zip(DIMS, measured("BLAS_DIM", 999), measured("BLAS_DIM", 1), strict=True):
            print(f"{d:9}  {loops:8.2f}  {blas:7.2f}")
