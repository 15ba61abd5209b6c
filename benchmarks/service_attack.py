"""Attack the service as its users, their networks, clocks and disks would, and say what held.

    python benchmarks/service_attack.py                        # every attack, each on a server of its own
    python benchmarks/service_attack.py --only "disk|clock"    # some of them
    python benchmarks/service_attack.py --postgres             # those that need a database server too

Each attack says beforehand what must hold (its docstring), then what was seen. The exit status is 0 if all
held.
Numbers of seconds are generous: they tell a second from a minute on a machine that does other work as well.
"""

import argparse
import contextlib
import re
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
from service_faults import (
    backup_under_load,
    clock_steps_back,
    damaged_snapshots,
    database_stopped,
    full_disk,
    keys_after_changes,
    last_token,
    messages,
    restart,
)
from service_process import ARMS, Outcome, Service, alive, beside, seconds, serving

from linmed.ope import DecisionLog
from linmed.serve.client import Client
from linmed.serve.processes import allow_files

HALF = (
    b"POST /v1/bandits HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 500\r\n\r\n{"
)
"""A request that lacks the rest of its body."""

# One caller must not stop the others


def parallel_evaluations(folder: Path) -> Outcome:
    """Eight callers evaluate 60 000 decisions: 200 or 429; /readyz, others ≤ 2 s, a revoked token ≤ 3 s."""
    n, random = 60_000, np.random.default_rng(0)
    arms = random.normal(size=(n, 5, 4))
    chosen = random.integers(5, size=n)
    rows = {
        "arm": chosen,
        "probability": np.full(n, 0.2),
        "probabilities": np.full((n, 5), 0.2),
        "arms": arms,
    }
    rows |= {"features": arms[np.arange(n), chosen], "reward": random.random(n), "arm_count": np.full(n, 5)}
    DecisionLog.from_table({key: value.tolist() for key, value in rows.items()}).save(folder / "log")
    service = Service(folder)
    service.command("--import", str(folder / "log"), "--bandit", "large")
    admin, victim = (service.command("--create-token", scope) for scope in ("admin", "read"))
    service.start()
    statuses: list[int] = []
    stop = threading.Event()
    body = {"targets": ["uniform", "logged", "greedy"], "reward_range": [0, 1]}
    with service.client(headers={"Authorization": f"Bearer {admin}"}) as client:
        client.post("/v1/bandits", json={"name": "other", "dim": 2})

        def evaluate() -> None:
            while not stop.is_set():
                statuses.append(client.post("/v1/bandits/large/evaluate", json=body).status_code)

        threads, ready, other = beside(evaluate, 8), [0.0], [0.0]
        time.sleep(1.0)
        service.command("--revoke-token", victim.split("_")[1])
        revoked, valid = time.monotonic(), 0.0
        while time.monotonic() - revoked < 5:
            ready.append(seconds(lambda: httpx.get(f"{service.url}/readyz", timeout=300)))
            other.append(seconds(lambda: client.get("/v1/bandits/other/statistics")))
            answer = client.get("/v1/bandits/other", headers={"Authorization": f"Bearer {victim}"})
            valid = time.monotonic() - revoked if answer.status_code == 200 else valid
        stop.set()
        for thread in threads:
            thread.join()
    service.stop()
    held = set(statuses) <= {200, 429} and max(ready) <= 2 and max(other) <= 2 and valid <= 3
    seen = f"/readyz {max(ready):.2f} s, another bandit {max(other):.2f} s, revoked token valid {valid:.1f} s"
    return held, f"{seen}; {len(statuses)} answers {set(statuses)}"


def _small_and_big(service: Service, client: httpx.Client) -> Callable[[], float]:
    """Two bandits; the function asks the small one and takes the time."""
    features = np.random.default_rng(0).normal(size=(1000, 64)).tolist()
    items = {"ids": [f"i{i}" for i in range(1000)], "features": features}
    client.post("/v1/bandits", json={"name": "big", "dim": 64, "catalogue": items}).raise_for_status()
    client.post("/v1/bandits", json={"name": "small", "dim": 2}).raise_for_status()
    return lambda: seconds(lambda: client.post("/v1/bandits/small/decide", json={"arms": ARMS}))


def long_batch(folder: Path) -> Outcome:
    """1000 decisions among 1000 × 64 in one request: another bandit's p99 ≤ 5 × its quiet one (≥ 20 ms)."""
    with serving(folder) as service, service.client() as client, service.client() as dear:
        ask = _small_and_big(service, client)
        quiet = max(sorted(ask() for _ in range(100))[98], 0.02)
        before = sum(path.stat().st_size for path in folder.glob("attack.db*"))
        status: list[int] = []
        threads = beside(
            lambda: status.append(
                dear.post("/v1/bandits/big/decide/batch", json={"decisions": [{}] * 1000}).status_code
            )
        )
        times = [ask()]
        while alive(threads):
            times.append(ask())
        grown = sum(path.stat().st_size for path in folder.glob("attack.db*")) - before
        worst = sorted(times)[int(0.99 * (len(times) - 1))]
    seen = f"answer {status}, p99 {1000 * worst:.0f} ms against {1000 * quiet:.0f} quiet"
    return worst <= 5 * quiet, f"{seen}, log +{grown / 2**20:.1f} MiB"


def dear_decisions(folder: Path) -> Outcome:
    """Four clients on K = 1000, d = 64: another bandit's p50 ≤ 5 × its quiet one (≥ 5 ms)."""
    with serving(folder) as service, service.client() as client, service.client() as dear:
        ask, stop = _small_and_big(service, client), threading.Event()
        quiet = max(statistics.median(ask() for _ in range(100)), 0.005)

        def load() -> None:
            while not stop.is_set():
                dear.post("/v1/bandits/big/decide", json={})

        threads = beside(load, 4)
        busy = statistics.median(ask() for _ in range(100))
        stop.set()
        for thread in threads:
            thread.join()
    return busy <= 5 * quiet, f"p50 {1000 * busy:.1f} ms against {1000 * quiet:.1f} quiet"


def first_bandit(folder: Path) -> Outcome:
    """The first bandit of a machine that has compiled nothing: created, and /healthz ≤ 5 s meanwhile."""
    with serving(folder) as service, Client(service.url) as client:
        spent: list[float] = []
        threads = beside(lambda: spent.append(seconds(lambda: client.create("b", 2))))
        waits = [0.0]
        while alive(threads):
            waits.append(seconds(lambda: httpx.get(f"{service.url}/healthz", timeout=300)))
            time.sleep(0.05)
    return bool(spent) and max(waits) <= 5, f"created after {spent}, /healthz at most {max(waits):.2f} s"


# The network


def endless_headers(folder: Path) -> Outcome:
    """Headers without end: the connection ends before 1 MiB of them."""
    sent, line = 0, b"X-Header: " + b"a" * 1000 + b"\r\n"
    with (
        serving(folder) as service,
        service.connect(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n") as flood,
        contextlib.suppress(OSError),
    ):
        while sent < 16 * 2**20:
            flood.sendall(line)
            sent += len(line)
    return sent < 2**20, f"{sent / 2**10:.0f} KiB taken"


def half_sent_at_the_end(folder: Path) -> Outcome:
    """SIGTERM while one request is half sent: ended within 10 s."""
    with serving(folder) as service, service.connect(HALF):
        time.sleep(0.5)
        spent = service.stop()
    return spent <= 10, f"ended after {spent:.1f} s"


def half_open(folder: Path) -> Outcome:
    """1000 connections that never finish their first line: closed within 30 s, others served meanwhile."""
    allow_files(1000)
    with serving(folder) as service, contextlib.ExitStack() as opened:
        held = [opened.enter_context(service.connect(b"GET /hea")) for _ in range(1000)]
        status = httpx.get(f"{service.url}/healthz", timeout=30).status_code
        begun = time.monotonic()
        while held and time.monotonic() - begun < 30:
            held = [one for one in held if not _ended(one)]
            time.sleep(0.2)
        spent = time.monotonic() - begun
    return (
        not held and status == 200,
        f"{len(held)} of 1000 left after {spent:.0f} s; /healthz answered {status}",
    )


def _ended(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        while connection.recv(65536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def leaving_mid_body(folder: Path) -> Outcome:
    """Clients that leave in the middle of a body: no error is counted, no traceback logged."""
    with serving(folder) as service:
        for _ in range(20):
            service.connect(HALF).close()
        time.sleep(1.0)
        counted = httpx.get(f"{service.url}/metrics").text
        service.stop()
        failed, traced = re.findall(r'linmed_requests_total\{.*status="5.*', counted), service.log.read_text()
    return (
        not failed and "Traceback" not in traced,
        f"counted {failed}, tracebacks {traced.count('Traceback')}",
    )


def host_names(folder: Path) -> Outcome:
    """Names of this machine are answered, however they are written; others get a 403."""
    with serving(folder) as service:
        hosts = ["localhost", "LOCALHOST", "127.0.0.1", "[::1]", "evil.example"]
        named = [host if i % 2 else f"{host}:{service.port}" for i, host in enumerate(hosts)]
        found = [httpx.get(f"{service.url}/healthz", headers={"Host": host}).status_code for host in named]
    return found == [200, 200, 200, 200, 403], str(dict(zip(named, found, strict=True)))


ATTACKS = [
    parallel_evaluations, long_batch, dear_decisions, first_bandit, endless_headers, half_sent_at_the_end,
    half_open, leaving_mid_body, host_names, last_token, damaged_snapshots, clock_steps_back, full_disk,
    backup_under_load, keys_after_changes, messages, restart,
]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a regular expression for the attacks' names")
    parser.add_argument("--postgres", action="store_true", help="the attacks that need PostgreSQL too")
    options = parser.parse_args()
    failed = 0
    for attack in ATTACKS + ([database_stopped] if options.postgres else []):
        if not re.search(options.only, attack.__name__):
            continue
        with tempfile.TemporaryDirectory(prefix="linmed-attack-", ignore_cleanup_errors=True) as folder:
            try:
                held, seen = attack(Path(folder))
            except Exception as error:
                held, seen = False, f"{type(error).__name__}: {error}"
        failed += not held
        print(
            f"{'held  ' if held else 'FAILED'} {attack.__name__}: {attack.__doc__}\n       {seen}", flush=True
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
