"""How long a decision among a million items takes, and what ten million of them take in memory.

    python benchmarks/catalogue.py [--items 1000000] [--only scan|graph|ladder|memory]

Items of 64 features in single precision, on the unit sphere: drawn evenly, and in 1,000 clusters as
embeddings are (even directions are the worst case for a graph). CatalogueMED after 2,000 rewards; the items
are the arms. `scan` is the exact index, `graph` the one by usearch. A batch is 256 decisions at once in
different contexts, of an outer map with two numbers. Beside the wall clock stands the processor's time of
this process, over all threads: on a machine that is not idle it is the one to look at. Recall: how often
the graph's best item is the best one, over 1,000 queries. `memory` writes a file of ten million rows in
half precision, maps it, decides and tells the largest resident size; the file is deleted. `ladder` asks one
graph of each kind with more and more candidates (`search`).

The rule by which the default of `search` is chosen, written before the ladder was run: the smallest number
of LADDER whose recall over 4,000 queries among 100,000 items is at least 0.95 on items of both kinds.

Goals: scan at most 30 ms, in a batch at most 3 ms each, graph at most 3 ms at a recall of 0.95 or more; ten
million in at most 2 GB.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from linmed.catalogue_sampler import CatalogueSampler
from linmed.features import Catalogue, Features, Index, Number, Scan, Vector
from linmed.features.usearch import USearch
from linmed.policies import CatalogueMED

DIM, BATCH, REWARDS = 64, 256, 2000
CLUSTERS, WITHIN = 1000, 0.5
LADDER, ENOUGH = (64, 96, 128, 192, 256, 384, 512), 0.95


def drawn(rng: np.random.Generator, count: int, clustered: bool) -> Any:
    """Rows on the unit sphere (count, DIM) in single precision."""
    rows = rng.standard_normal((count, DIM), dtype=np.float32)
    if clustered:
        centres = rng.standard_normal((CLUSTERS, DIM), dtype=np.float32)
        rows = centres[rng.integers(CLUSTERS, size=count)] + np.float32(WITHIN) * rows
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def learned(policy: CatalogueMED, arms: Any, rng: np.random.Generator) -> Any:
    """A state after rewards of arms (REWARDS, d), for a θ* that is the first of them."""
    state = policy.start(1, arms.shape[1])
    arms = np.ascontiguousarray(arms, dtype=np.float64)
    rewards = arms @ arms[0] / np.sqrt(arms[0] @ arms[0]) + rng.standard_normal(len(arms))
    policy.learn(state, arms, rewards, np.zeros(len(arms), dtype=np.int64))
    return state


def timed(work: Callable[[], Any], repeats: int, pieces: int = 1) -> tuple[float, float]:
    """Milliseconds a piece: the median by the wall clock, and by the processor's time."""
    walls, processors = [], []
    for _ in range(repeats):
        wall, processor = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
    return 1e3 * float(np.median(walls)) / pieces, 1e3 * float(np.median(processors)) / pieces


def asked(catalogue: Catalogue, rng: np.random.Generator, number: int = 1000) -> tuple[Any, Any]:
    """Queries between an item and a direction (number, DIM), and the best item of each."""
    rows = np.asarray(catalogue.matrix[rng.integers(len(catalogue), size=number)], dtype=np.float64)
    queries = rows + rng.standard_normal(rows.shape) / np.sqrt(DIM)
    exact = Scan()
    exact.follow(catalogue.snapshot())
    return queries, answers(exact, queries)


def answers(index: Index, queries: Any) -> Any:
    """The best item of each query, as the index finds it."""
    return np.concatenate([index.top(queries[i : i + BATCH], 1) for i in range(0, len(queries), BATCH)])[:, 0]


def recall(index: Index, catalogue: Catalogue, rng: np.random.Generator) -> float:
    """How often the index's best item is the best."""
    queries, best = asked(catalogue, rng)
    return float((answers(index, queries) == best).mean())


def ladder(count: int, rng: np.random.Generator) -> None:
    """Recall by the number of candidates, and what a query takes; the first that is enough for both kinds."""
    print("| items | candidates | recall | one query, ms | cpu |")
    print("|---|---:|---:|---:|---:|", flush=True)
    enough = set(LADDER)
    for data in ("even", "clusters"):
        catalogue = Catalogue(range(count), drawn(rng, count, data == "clusters"))
        graph = USearch()
        graph.follow(catalogue.snapshot())
        queries, best = asked(catalogue, rng, 4000)
        with tempfile.TemporaryDirectory() as folder:
            graph.save(folder)
            for search in LADDER:
                index = USearch.open(folder, search=search)
                found = float((answers(index, queries) == best).mean())
                each = iter(queries)
                wall, processor = timed(lambda index=index, each=each: index.top(next(each)[None], 1), 400)
                print(f"| {data} | {search} | {found:.4f} | {wall:.3f} | {processor:.3f} |", flush=True)
                if found < ENOUGH:
                    enough.discard(search)
    print(f"\nsmallest with at least {ENOUGH} on both: {min(enough, default=None)}")


def speed(name: str, data: str, catalogue: Catalogue, index: Index, rng: np.random.Generator) -> None:
    """One decision, and one of many."""
    began = time.perf_counter()
    index.follow(catalogue.snapshot())
    built = time.perf_counter() - began
    policy = CatalogueMED()
    rows = catalogue.matrix[np.sort(rng.integers(len(catalogue), size=REWARDS))]
    state = learned(policy, rows, rng)
    routes = CatalogueSampler(policy, catalogue, index)
    began = time.perf_counter()
    routes.follow()
    core = time.perf_counter() - began
    routes.decide(state, rng.random(4))
    one = timed(lambda: routes.decide(state, rng.random(4)), 25)

    map_ = Features(
        context=[Number("a", scale=(0, 1)), Number("b", scale=(0, 1))],
        item=[Vector("features", DIM)],
        intercept=False,
    )
    contexts = rng.standard_normal((BATCH, 2))
    arms = np.stack(
        [
            map_.join(np.asarray(row, dtype=np.float64)[None], contexts[i % BATCH])[0]
            for i, row in enumerate(rows)
        ]
    )
    crossed = CatalogueSampler(policy, catalogue, index, map_.lift, routes.coreset)
    state2 = learned(policy, arms, rng)
    crossed.decide_each(state2, rng.random((2, 4)), contexts[:2])
    many = timed(lambda: crossed.decide_each(state2, rng.random((BATCH, 4)), contexts), 3, BATCH)
    found = 1.0 if isinstance(index, Scan) else recall(index, catalogue, rng)
    cells = name, data, f"{one[0]:.2f}", f"{one[1]:.2f}", f"{many[0]:.2f}", f"{many[1]:.2f}", f"{found:.3f}"
    print(
        "|",
        " | ".join((*cells, f"{built:.1f}", f"{core:.1f}", str(len(routes.coreset.places)))),
        "|",
        flush=True,
    )


def memory(rng: np.random.Generator, count: int) -> None:
    """Ten times as many items, mapped from a file of half precision."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "items.npy"
        file = np.lib.format.open_memmap(path, "w+", np.float16, (count, DIM))
        for first in range(0, count, 1 << 18):
            file[first : first + (1 << 18)] = drawn(rng, min(1 << 18, count - first), False)
        file.flush()
        del file
        catalogue = Catalogue(range(count), np.load(path, mmap_mode="r"))
        policy = CatalogueMED()
        state = learned(policy, catalogue.matrix[rng.integers(count, size=REWARDS)], rng)
        routes = CatalogueSampler(policy, catalogue)
        routes.decide(state, rng.random(4))
        wall, processor = timed(lambda: routes.decide(state, rng.random(4)), 5)
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\n{count:,} × {DIM} in half precision, mapped: {size:.2f} GiB resident at most, "
          f"{wall:.0f} ms a decision by exact scan ({processor:.0f} ms of the processor)")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--only", choices=("scan", "graph", "ladder", "memory"))
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    if given.only == "ladder":
        ladder(given.items, rng)
    elif given.only != "memory":
        print("| index | items | one, ms | cpu | of 256, ms | cpu | recall | built, s | coreset, s | size |")
        print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
        for data in ("even", "clusters"):
            catalogue = Catalogue(range(given.items), drawn(rng, given.items, data == "clusters"))
            if given.only != "graph" and data == "even":
                speed("scan", data, catalogue, Scan(), rng)
            if given.only != "scan":
                speed("graph", data, catalogue, USearch(), rng)
    if given.only in (None, "memory"):
        memory(rng, 10 * given.items)


if __name__ == "__main__":
    main()
