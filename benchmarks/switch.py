"""Where the kernels change method: plain loops or BLAS for vᵀMv, plain loops or tiles for LinMED's weights.

Run it: python benchmarks/switch.py     (the values stand in linmed.kernels.linear and linmed.kernels.med)
"""

import os
import subprocess
import sys
import tempfile
import time

import numpy as np


def best_of(call, repeats=300, inner=5):
    call()
    return min(_seconds(call, inner) for _ in range(repeats)) * 1e6


def _seconds(call, inner):
    start = time.perf_counter()
    for _ in range(inner):
        call()
    return (time.perf_counter() - start) / inner


def lengths(threshold):
    """µs of one tile's vᵀMv when BLAS begins at `threshold`, for each dimension."""
    from linmed.kernels import linear

    linear.BLAS_DIM = threshold  # before the first call, which compiles
    for d in DIMS:
        tile, M, out = RNG.random((d, linear.TILE)), np.eye(d), np.empty(linear.TILE)
        image = np.empty_like(tile)
        print(best_of(lambda M=M, t=tile, i=image, o=out: linear.tile_lengths(t, M, i, o)))


def weights():
    from linmed.kernels import med
    from linmed.kernels.linear import tiles_of

    print("numbers  loops µs  tiles µs")
    for K, d in ((3, 2), (8, 2), (8, 4), (16, 4), (16, 8), (32, 8), (64, 8)):
        A, theta, M, log_f = RNG.random((1, K, d)), RNG.random((1, d)), np.eye(d)[None], np.empty(K)
        rows, ones = np.arange(K), np.ones(K)

        def tiled(A=A, theta=theta, M=M, log_f=log_f, rows=rows, ones=ones):
            med.log_weights(A[0], tiles_of(A[0], rows, ones), theta[0], M[0], 5.0, log_f)

        few = best_of(lambda A=A, t=theta, M=M, f=log_f: med.log_weights_few(A, 0, t, M, 0, 5.0, f))
        print(f"{K * d:7}  {few:8.2f}  {best_of(tiled):8.2f}")


DIMS = (4, 8, 12, 16, 24, 32)
RNG = np.random.default_rng(0)

if __name__ == "__main__":
    if len(sys.argv) > 1:
        lengths(int(sys.argv[1]))
    else:
        columns = []
        for threshold in ("999", "1"):
            with (
                tempfile.TemporaryDirectory() as cache
            ):  # a kernel compiled for another threshold must not serve
                environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "OPENBLAS_NUM_THREADS": "1"}
                done = subprocess.run(
                    [sys.executable, __file__, threshold],
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=True,
                )
            columns.append([float(line) for line in done.stdout.split()])
        print("dimension  loops µs  BLAS µs")
        for d, loops, blas in zip(DIMS, *columns, strict=True):
            print(f"{d:9}  {loops:8.2f}  {blas:7.2f}")
        weights()
