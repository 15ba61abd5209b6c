"""Where the kernels change method: plain loops or tiles for a set of arms.

Run it: python benchmarks/switch.py     (the constant FEW stands in linmed.kernels.linear)
"""

import os
import subprocess
import sys
import tempfile
import time

SETS = ((3, 2), (10, 4), (50, 2), (30, 4), (17, 8), (25, 8), (60, 4), (12, 20), (64, 8), (250, 2), (500, 2))


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


def measured(few):
    """The times with FEW set to a value: in a process of its own, whose kernels nobody else uses."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        words = [sys.executable, __file__, str(few)]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return [float(line) for line in done.stdout.split()]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        from linmed.kernels import linear

        linear.FEW = int(sys.argv[1])  # before anything imports it or compiles
        print(*whole_rounds(), sep="\n")
    else:
        print("    (K,d)  numbers  loops µs  tiles µs")
        for (K, d), loops, tiles in zip(SETS, measured(10**6), measured(0), strict=True):
            print(f"{f'({K},{d})':>9}  {K * d:7}  {loops:8.2f}  {tiles:8.2f}")
