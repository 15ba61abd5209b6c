"""A server of one's own to attack: started, stopped and started again on one port and one database."""

import contextlib
import os
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

ARMS = [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]
ITEMS = {"ids": ["a", "b"], "features": [[1.0, 0.0], [0.0, 1.0]]}
Outcome = tuple[bool, str]


class Service:
    """`linmed serve` on a database in `folder`, on one port, to be stopped and started again."""

    def __init__(self, folder: Path, database: str | None = None, **environment: str):
        self.file, self.log = folder / "attack.db", folder / "server.log"
        self.database = database or f"sqlite:///{self.file}"
        self.environment = {**os.environ, **environment}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def command(self, *options: str) -> str:
        """What `linmed serve OPTIONS` prints."""
        words = [sys.executable, "-m", "linmed.cli", "serve", "--database", self.database, *options]
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True)
        return (
            done.stdout.strip() if done.returncode == 0 else f"exit {done.returncode}: {done.stderr[-300:]}"
        )

    def start(self, *options: str, most: int | None = None) -> None:
        """`most`: bytes that a file of this process may have, as if the disk were full."""
        words = [
            sys.executable,
            "-m",
            "linmed.cli",
            "serve",
            "--database",
            self.database,
            "--port",
            str(self.port),
        ]

        def limit() -> None:
            if most is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

        with open(os.devnull if most else self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*words, *options], env=self.environment, stdout=log, stderr=log, preexec_fn=limit
            )
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/readyz", timeout=60).status_code == 200:
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"the server did not start: {self.log.read_text()[-1000:] if not most else ''}")

    def stop(self, how: int = signal.SIGTERM) -> float:
        """The seconds it took."""
        begun = time.monotonic()
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(120)
        return time.monotonic() - begun

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=300, **options)

    def connect(self, content: bytes) -> socket.socket:
        """A bare connection that has sent `content`."""
        found = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        found.sendall(content)
        return found

    def sql(self, *statements: str) -> list[Any]:
        """Run on the SQLite file; the rows of the last statement."""
        with contextlib.closing(sqlite3.connect(self.file, timeout=60)) as connection, connection:
            return [connection.execute(one).fetchall() for one in statements][-1]


@contextlib.contextmanager
def serving(folder: Path, *options: str, **environment: str) -> Iterator[Service]:
    service = Service(folder, **environment)
    service.start(*options)
    try:
        yield service
    finally:
        if service.process is not None and service.process.poll() is None:
            service.stop(signal.SIGKILL)


def seconds(call: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def beside(work: Callable[[], Any], times: int = 1) -> list[threading.Thread]:
    """Threads that do `work`, begun."""
    threads = [threading.Thread(target=work) for _ in range(times)]
    for thread in threads:
        thread.start()
    return threads


def alive(threads: list[threading.Thread]) -> bool:
    return any(thread.is_alive() for thread in threads)
