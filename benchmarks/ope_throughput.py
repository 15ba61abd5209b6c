"""Throughput and memory of evaluation on a long log, here and on a cluster.

    python benchmarks/ope_throughput.py --rows 100000000

Writes a log of that many rows (K = 10, a million a file, a distribution of its own in every row) unless it
is there, and measures, each in a process of its own and in turn, the best of several runs counting: reading
the needed columns with pyarrow alone, and `evaluate` of IPW without an interval, with `normal`, `asymptotic`
and `betting`; the same on a tenth of the files, for the memory; `betting` where every arm's probability is
logged, on a tenth, against reading that column too; and on a local Dask cluster of one worker and of two,
processes of one thread each. Where obp is installed, its IPW on arrays in memory beside ours.

The rule, fixed before the first run: against reading at least 0.5 of its rate with `normal` and 0.35 with
`betting`; peak memory on all files at most a tenth above that on a tenth of them; two workers at least 1.6
times one, and the same numbers to the last bit with two workers, one and none.
"""

import argparse
import json
import os
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
FILE = 1_000_000
COLUMNS = ["arm", "probability", "reward", "arm_count"]
EVALUATED = ("none", "normal", "asymptotic", "betting")


def write(path: Path, rows: int, every_arm: bool) -> None:
    """Files that are not there yet."""
    path.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, rows, FILE)):
        file = path / f"decisions-{number:020d}-bench.parquet"
        if file.exists():
            continue
        rng = np.random.default_rng([number, K])
        n = min(FILE, rows - start)
        chance = rng.standard_exponential((n, K))
        chance *= 0.8 / chance.sum(axis=1, keepdims=True)
        chance += 0.2 / K
        arm = (np.cumsum(chance, axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=K - 1)
        columns = {
            "arm": arm,
            "arm_count": np.full(n, K),
            "probability": chance[np.arange(n), arm],
            "reward": (rng.random(n) < 0.1 + 0.04 * arm).astype(float),
        }
        if every_arm:
            starts = pa.array(np.arange(0, n * K + 1, K, dtype=np.int32))
            columns["probabilities"] = pa.ListArray.from_arrays(starts, pa.array(chance.ravel()))
        unfinished = file.with_suffix(".part")
        pq.write_table(pa.table(columns), unfinished)
        unfinished.rename(file)


def first(path: Path, files: int) -> Path:
    """A log of the first files of another."""
    part = path / f"first-{files}"
    part.mkdir(exist_ok=True)
    for file in sorted(path.glob("*.parquet"))[:files]:
        if not (part / file.name).exists():
            os.link(file, part / file.name)
    return part


def measure(task: str, path: Path, workers: int) -> dict[str, object]:
    """One task in this process."""
    from linmed.ope import DecisionLog, evaluate

    found: dict[str, object] = {}
    if task == "read":
        names = pq.read_schema(next(iter(sorted(path.glob("*.parquet"))))).names
        columns = [*COLUMNS, *(["probabilities"] if "probabilities" in names else [])]
        rows = 0
        begun = time.perf_counter()
        for file in sorted(path.glob("*.parquet")):
            for batch in pq.ParquetFile(file).iter_batches(batch_size=65_536, columns=columns):
                rows += batch.num_rows
    elif task in ("obp", "arrays"):
        table = DecisionLog.open(path).table(COLUMNS)
        reward, action = table["reward"].to_numpy(), table["arm"].to_numpy()
        pscore = table["probability"].to_numpy()
        rows = reward.size
        if task == "obp":
            from obp.ope import InverseProbabilityWeighting

            dist = np.broadcast_to(np.full((1, K, 1), 1 / K), (rows, K, 1))
            position = np.zeros(rows, dtype=int)
            begun = time.perf_counter()
            InverseProbabilityWeighting()._estimate_round_rewards(
                reward=reward, action=action, pscore=pscore, action_dist=dist, position=position
            ).mean()
        else:
            from linmed.ope import ipw

            begun = time.perf_counter()
            ipw(reward, pscore, 1 / K)
    else:
        log = DecisionLog.open(path)
        names = log.columns
        one = {name: [value] for name, value in (("arm", 0), ("probability", 0.5), ("reward", 1.0))}
        one |= {"arm_count": [2]} | ({"probabilities": [[0.5, 0.5]]} if "probabilities" in names else {})
        evaluate(
            DecisionLog.from_table(one), "uniform", "ipw", interval=task, reward_range=(0, 1)
        )  # imports what it needs
        begun = time.perf_counter()
        if workers:
            from distributed import Client, LocalCluster

            options = {
                "n_workers": workers,
                "threads_per_worker": 1,
                "processes": True,
                "dashboard_address": None,
            }
            with (
                LocalCluster(**options) as cluster,
                Client(cluster) as client,
                client.get_executor() as executor,
            ):
                evaluate(
                    log_of_one(path), "uniform", "ipw", interval=task, reward_range=(0, 1), executor=executor
                )
                client.run(warm, task)
                begun = time.perf_counter()
                table = evaluate(log, "uniform", "ipw", interval=task, reward_range=(0, 1), executor=executor)
                seconds = time.perf_counter() - begun
        else:
            table = evaluate(log, "uniform", "ipw", interval=task, reward_range=(0, 1))
        rows = table["n"][0].as_py()
        found["numbers"] = [float(table[name][0].as_py()).hex() for name in ("estimate", "lower", "upper")]
    if not workers:
        seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**found, "rows": rows, "seconds": seconds, "peak_mb": peak}


def log_of_one(path: Path):
    """The first file's log."""
    from linmed.ope import DecisionLog

    return DecisionLog.open(next(iter(sorted(path.glob("*.parquet")))))


def warm(task: str) -> None:
    """Let a worker import what it needs."""
    from linmed.ope import DecisionLog, evaluate

    one = {"arm": [0], "probability": [0.5], "reward": [1.0], "arm_count": [2]}
    evaluate(DecisionLog.from_table(one), "uniform", "ipw", interval=task, reward_range=(0, 1))


def run(runs: dict, label: str, task: str, path: Path, workers: int = 0) -> None:
    """One task in a process of its own."""
    command = [sys.executable, __file__, "--task", task, "--path", str(path), "--workers", str(workers)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        runs.setdefault(label, []).append(json.loads(done.stdout.splitlines()[-1]))
        last = runs[label][-1]
        print(
            f"  {label}: {last['rows'] / last['seconds'] / 1e6:.2f} million rows/s",
            file=sys.stderr,
            flush=True,
        )
    elif label not in runs:
        print(f"{label}: not measured ({done.stderr.strip().splitlines()[-1]})")


def main() -> None:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--path", type=Path, default=Path(tempfile.gettempdir()) / "ope-throughput")
    parser.add_argument("--only", nargs="*", default=["here", "memory", "every-arm", "cluster", "arrays"])
    parser.add_argument("--task", help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.task:
        print(json.dumps(measure(args.task, args.path, args.workers)))
        return
    whole, lists = args.path / "played", args.path / "every-arm"
    write(whole, args.rows, False)
    small = first(whole, max(args.rows // FILE // 10, 1))
    write(lists, max(args.rows // 10, 1), True)
    tasks = {
        "here": [(task, task, whole, 0) for task in ("read", *EVALUATED)],
        "memory": [(f"{task}, a tenth", task, small, 0) for task in ("read", "normal", "betting")],
        "every-arm": [(f"{task}, every arm's p", task, lists, 0) for task in ("read", "betting")],
        "cluster": [
            (f"{task}, {workers} worker{'s'[: workers - 1]}", task, whole, workers)
            for task in ("normal", "betting")
            for workers in (1, 2)
        ],
        "arrays": [(task, task, small, 0) for task in ("arrays", "obp")],
    }
    runs: dict[str, list[dict]] = {}
    for _ in range(args.repeats):  # in turn, so that a busy moment hits them all; the best of each counts
        for part in args.only:
            for one in tasks[part]:
                run(runs, *one)
    report({label: min(several, key=lambda each: each["seconds"]) for label, several in runs.items()})
    for label, several in runs.items():
        if len({json.dumps(each.get("numbers")) for each in several}) > 1:
            print(f"{label}: numbers differ between runs")


def report(found: dict[str, dict]) -> None:
    print("| | million rows/s | peak memory | against reading |\n|---|---|---|---|")
    for label, best in found.items():
        task, _, rest = label.partition(", ")
        base = found.get("read" + (f", {rest}" if rest else ""))
        speed = best["rows"] / best["seconds"]
        ratio = f"{speed * base['seconds'] / base['rows']:.2f}" if base else "—"
        print(f"| {label} | {speed / 1e6:.1f} | {best['peak_mb']:.0f} MB | {ratio} |")
        if rest == "2 workers":
            one, here = found[f"{task}, 1 worker"], found.get(task, best)
            same = best["numbers"] == one["numbers"] == here["numbers"]
            gain = f"{one['seconds'] / best['seconds']:.2f} ×"
            print(f"| {task}, two workers against one | {gain} | | {'same' if same else 'other'} numbers |")


if __name__ == "__main__":
    main()
