"""A catalogue of very many items behind HTTP: how long it takes to send and to decide, and what it holds.

    python benchmarks/service_catalogue.py [ITEMS] [FEATURES]

By default 1,000,000 items of 64 numbers, which come in parts of at most 4 MiB, on SQLite, with the policy
CatalogueMED: each decision is asked for alone, over one connection, and waits for its commit. `neighbour` is
another bandit's decision among three arms that is asked for meanwhile. Beside the wall clock stands the time
of the processor that the server took (all its threads), and first what a bare scan takes: one query to
`linmed.features.Scan` over as many items in this process. On a machine that others use these are to be
compared, not the clock.
"""

import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from service_process import ARMS, Service, serving

from linmed.features import Catalogue, Scan

PART, DECISIONS, BATCH = 224_000, 60, 32
"""Numbers of a part; decisions one by one, and in a batch."""
TICK = os.sysconf("SC_CLK_TCK")
POLICY = {"policy": "CatalogueMED", "sigma": 0.5}


def resident(service: Service) -> int:
    """MiB of the server's process."""
    assert service.process is not None
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) // 1024


def processor(service: Service) -> float:
    """Milliseconds of the processor that the server's process has taken."""
    assert service.process is not None
    fields = Path(f"/proc/{service.process.pid}/stat").read_text().rpartition(")")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / TICK


def bare_scan(count: int, width: int) -> None:
    """One query to an exact index over as many items, in this process."""
    index, rng = Scan(), np.random.default_rng(1)
    index.follow(Catalogue(range(count), rng.standard_normal((count, width)) / np.sqrt(width)).snapshot())
    walls, busy = [], time.process_time()
    for _ in range(20):
        begun = time.perf_counter()
        index.top(rng.standard_normal((1, width)), 1)
        walls.append(1000 * (time.perf_counter() - begun))
    told("a bare scan", walls, 1000 * (time.process_time() - busy))


def call(client: Any, method: str, path: str, body: dict[str, Any]) -> tuple[Any, float]:
    """The answer, and the milliseconds it took."""
    begun = time.perf_counter()
    answer = client.request(method, f"/v1/bandits{path}", json=body)
    taken = 1000 * (time.perf_counter() - begun)
    assert answer.is_success, answer.text
    return answer.json(), taken


def told(name: str, milliseconds: list[float], busy: float | None = None, each: int = 1) -> None:
    """Of several calls for `each` decisions; `busy`: of the processor, for all of them."""
    ordered = sorted(time / each for time in milliseconds)
    line = f"{name:<28}median {statistics.median(ordered):8.2f} ms, "
    line += f"worst of {len(ordered)} {ordered[-1]:.2f} ms"
    print(line + ("" if busy is None else f", processor {busy / len(ordered) / each:.2f} ms"), flush=True)


def decisions(client: Any, name: str, body: dict[str, Any], number: int = DECISIONS) -> list[float]:
    return [call(client, "POST", f"/{name}/decide", body)[1] for _ in range(number)]


def main(count: int, width: int) -> None:
    bare_scan(count, width)
    rng = np.random.default_rng(0)
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder), "--snapshot-every", "1000") as service,
    ):
        with service.client() as client, service.client() as other:
            call(client, "POST", "", {"name": "shop", "dim": width, "policy": POLICY})
            call(other, "POST", "", {"name": "small", "dim": 2})
            parts, step, busy = [], PART // width, processor(service)
            for first in range(0, count, step):
                size = min(step, count - first)
                ids = [f"item-{k}" for k in range(first, first + size)]
                rows = (rng.normal(size=(size, width)) / np.sqrt(width)).round(5)
                parts.append(call(client, "PUT", "/shop/items", {"ids": ids, "features": rows.tolist()})[1])
            busy = (processor(service) - busy) / 1000
            print(f"{count:,} items of {width} numbers in {len(parts)} parts: {sum(parts) / 1000:.0f} s, "
                  f"processor {busy:.0f} s", flush=True)  # fmt: skip
            told("a part, among the first ten", parts[:10])
            told("a part, among the last ten", parts[-10:])
            print(f"resident after the upload: {resident(service):,} MiB")
            _, first_one = call(client, "POST", "/shop/decide", {})
            print(f"first decision: {first_one / 1000:.2f} s; resident {resident(service):,} MiB")
            many = {"decisions": [{}] * BATCH}
            taken = call(client, "POST", "/shop/decide/batch", many)[0]["decisions"]
            pairs = [{"decision_id": one["decision_id"], "reward": float(rng.random())} for one in taken]
            call(client, "POST", "/shop/reward/batch", {"rewards": pairs})
            busy = processor(service)
            told("a decision", decisions(client, "shop", {}), processor(service) - busy)
            busy = processor(service)
            batches = [call(client, "POST", "/shop/decide/batch", many)[1] for _ in range(3)]
            told(f"each of a batch of {BATCH}", batches, processor(service) - busy, BATCH)
            stop, beside = threading.Event(), list[float]()

            def neighbour() -> None:
                while not stop.is_set():
                    beside.append(call(other, "POST", "/small/decide", {"arms": ARMS})[1])

            thread = threading.Thread(target=neighbour)
            thread.start()
            told("a decision meanwhile", decisions(client, "shop", {}))
            stop.set()
            thread.join()
            told("the neighbour", beside)
            told("the neighbour, alone", decisions(other, "small", {"arms": ARMS}, 200))
            one = {"features": (rng.normal(size=width) / np.sqrt(width)).tolist()}
            told(
                "a change of one item",
                [call(client, "PUT", f"/shop/items/item-{k}", one)[1] for k in range(10)],
            )
            told("a decision after it", decisions(client, "shop", {}, 10))
            gone = {"ids": [f"item-{k}" for k in range(count // 10, count // 5)]}
            busy = processor(service)
            once, again = (call(client, "POST", "/shop/items/remove", gone)[1] / 1000 for _ in range(2))
            busy = (processor(service) - busy) / 1000
            print(f"{len(gone['ids']):,} items removed at once: {once:.1f} s, the same again {again:.1f} s, "
                  f"processor {busy:.1f} s")  # fmt: skip
            told("a decision after it", decisions(client, "shop", {}, 10))
            print(f"resident: {resident(service):,} MiB")
        begun = time.monotonic()
        service.stop()
        service.start("--snapshot-every", "1000")
        wall, busy = time.monotonic() - begun, processor(service) / 1000
        print(f"started again: {wall:.1f} s, processor {busy:.1f} s; resident {resident(service):,} MiB")
        size = sum(file.stat().st_size for file in Path(folder).glob("attack.db*"))
        print(f"database: {size / 2**20:,.0f} MiB")


if __name__ == "__main__":
    given = [int(word.replace(",", "")) for word in sys.argv[1:]]
    main(*(given + [1_000_000, 64][len(given) :]))
