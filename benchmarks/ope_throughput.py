"""Throughput and memory of evaluation on a long log.

    python benchmarks/ope_throughput.py --rows 10000000

Writes a Parquet log of that many rows, then measures, each in a process of its own and in one run: reading
the needed columns with pyarrow alone, evaluating IPW with a normal interval and with the betting sequence,
and obp's IPW on the same arrays in memory (where obp is installed). Prints rows per second, peak memory and
the ratios.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

K = 10
COLUMNS = ["arm", "probability", "reward", "arm_count"]


def write(path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    path.mkdir(parents=True)
    for number, start in enumerate(range(0, rows, 1_000_000)):
        n = min(1_000_000, rows - start)
        arm = rng.integers(K, size=n)
        table = pa.table(
            {
                "arm": arm,
                "arm_count": np.full(n, K),
                "probability": rng.uniform(0.02, 0.2, size=n),
                "reward": (rng.random(n) < 0.3).astype(float),
            }
        )
        pq.write_table(table, path / f"decisions-{number:020d}-bench.parquet")


def measure(task: str, path: Path) -> dict[str, float]:
    from linmed.ope import DecisionLog, evaluate

    rows = 0
    if task == "read":
        begun = time.perf_counter()
        for file in sorted(path.glob("*.parquet")):
            for batch in pq.ParquetFile(file).iter_batches(batch_size=65_536, columns=COLUMNS):
                rows += batch.num_rows
    elif task == "obp":
        from obp.ope import InverseProbabilityWeighting

        table = DecisionLog.open(path).table(COLUMNS)
        reward, action = table["reward"].to_numpy(), table["arm"].to_numpy()
        pscore = table["probability"].to_numpy()
        rows = reward.size
        dist = np.broadcast_to(np.full((1, K, 1), 1 / K), (rows, K, 1))
        position = np.zeros(rows, dtype=int)
        begun = time.perf_counter()
        InverseProbabilityWeighting()._estimate_round_rewards(
            reward=reward, action=action, pscore=pscore, action_dist=dist, position=position
        ).mean()
    elif task == "arrays":
        from linmed.ope import ipw

        table = DecisionLog.open(path).table(COLUMNS)
        reward, pscore = table["reward"].to_numpy(), table["probability"].to_numpy()
        rows = reward.size
        begun = time.perf_counter()
        ipw(reward, pscore, 1 / K)
    else:
        small = DecisionLog.from_table({"arm": [0], "probability": [0.5], "reward": [1.0], "arm_count": [2]})
        evaluate(small, "uniform", "ipw", interval=task, reward_range=(0, 1))  # compiles
        log = DecisionLog.open(path)
        begun = time.perf_counter()
        table = evaluate(log, "uniform", "ipw", interval=task, reward_range=(0, 1))
        rows = table["n"][0].as_py()
    seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"rows": rows, "seconds": seconds, "rows_per_second": rows / seconds, "peak_mb": peak}


def main() -> None:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--task", help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.task:
        print(json.dumps(measure(args.task, args.path)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        write(path, args.rows)
        tasks = ["read", "none", "normal", "betting", "arrays", "obp"]
        runs: dict[str, list[dict[str, float]]] = {task: [] for task in tasks}
        for _ in range(args.repeats):  # in turn, so that a busy moment hits them all; the best of each counts
            for task in tasks:
                command = [sys.executable, __file__, "--task", task, "--path", str(path)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode == 0:
                    runs[task].append(json.loads(done.stdout))
                elif not runs[task]:
                    print(f"{task}: not measured ({done.stderr.strip().splitlines()[-1]})")
    found = {task: min(several, key=lambda run: run["seconds"]) for task, several in runs.items() if several}
    for task, best in found.items():
        speed, peak = best["rows_per_second"] / 1e6, best["peak_mb"]
        print(f"{task:<8} {speed:8.2f} million rows/s  peak {peak:.0f} MB")
    for task in ("none", "normal", "betting"):
        ratio = found[task]["rows_per_second"] / found["read"]["rows_per_second"]
        print(f"{task} against reading with pyarrow: {ratio:.2f}")
    if "obp" in found:
        ratio = found["arrays"]["rows_per_second"] / found["obp"]["rows_per_second"]
        print(f"ipw on arrays against obp on the same arrays: {ratio:.2f}")


if __name__ == "__main__":
    main()
