"""A catalogue of very many items behind HTTP: how long it takes to send and to decide, and what it holds.

    python benchmarks/service_catalogue.py [ITEMS] [FEATURES]

By default 1,000,000 items of 64 numbers, which come in parts of at most 4 MiB, on SQLite, with the policy
CatalogueMED: each decision is asked for alone, over one connection, and waits for its commit. `neighbour` is
another bandit's decision among three arms that is asked for meanwhile.
"""

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

PART, DECISIONS = 3500, 60
POLICY = {"policy": "CatalogueMED", "sigma": 0.5}


def resident(service: Service) -> int:
    """MiB of the server's process."""
    assert service.process is not None
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) // 1024


def call(client: Any, method: str, path: str, body: dict[str, Any]) -> tuple[Any, float]:
    """The answer, and the milliseconds it took."""
    begun = time.perf_counter()
    answer = client.request(method, f"/v1/bandits{path}", json=body)
    taken = 1000 * (time.perf_counter() - begun)
    assert answer.is_success, answer.text
    return answer.json(), taken


def told(name: str, milliseconds: list[float]) -> None:
    ordered = sorted(milliseconds)
    print(
        f"{name:<28}median {statistics.median(ordered):8.2f} ms, worst of {len(ordered)} {ordered[-1]:.2f} ms"
    )


def decisions(client: Any, name: str, body: dict[str, Any], number: int = DECISIONS) -> list[float]:
    return [call(client, "POST", f"/{name}/decide", body)[1] for _ in range(number)]


def main(count: int, width: int) -> None:
    rng = np.random.default_rng(0)
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder), "--snapshot-every", "1000") as service,
    ):
        with service.client() as client, service.client() as other:
            call(client, "POST", "", {"name": "shop", "dim": width, "policy": POLICY})
            call(other, "POST", "", {"name": "small", "dim": 2})
            parts = []
            for first in range(0, count, PART):
                size = min(PART, count - first)
                ids = [f"item-{k}" for k in range(first, first + size)]
                rows = rng.normal(size=(size, width)).round(4) / np.sqrt(width)
                parts.append(call(client, "PUT", "/shop/items", {"ids": ids, "features": rows.tolist()})[1])
            print(f"{count:,} items of {width} numbers in {len(parts)} parts: {sum(parts) / 1000:.0f} s")
            told("a part, among the first ten", parts[:10])
            told("a part, among the last ten", parts[-10:])
            print(f"resident after the upload: {resident(service):,} MiB")
            _, first_one = call(client, "POST", "/shop/decide", {})
            print(f"first decision: {first_one / 1000:.2f} s; resident {resident(service):,} MiB")
            told("a decision", decisions(client, "shop", {}))
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
        begun = time.monotonic()
        service.stop()
        service.start("--snapshot-every", "1000")
        print(f"started again: {time.monotonic() - begun:.1f} s; resident {resident(service):,} MiB")
        size = sum(file.stat().st_size for file in Path(folder).glob("attack.db*"))
        print(f"database: {size / 2**20:,.0f} MiB")


if __name__ == "__main__":
    given = [int(word.replace(",", "")) for word in sys.argv[1:]]
    main(*(given + [1_000_000, 64][len(given) :]))
