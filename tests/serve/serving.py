"""Servers for the tests: the application in this process, and real processes on loopback."""

import asyncio
import collections
import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from linmed import streams
from linmed.serve import bandit
from linmed.serve.api import web_server
from linmed.serve.database import Database
from linmed.serve.errors import Refused
from linmed.serve.processes import answer
from linmed.serve.reports import Reports
from linmed.serve.server import Server
from linmed.serve.settings import Settings

ARMS = [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]
SETTINGS = '{"map": "plain", "reward_range": null, "log_arms": true}'
"""Of a bandit that is put into a database by hand."""
PATIENCE = 300.0
"""Seconds after which something that should happen does not: long, since a machine may be busy."""


class NearReporters:
    """Reports in threads of this process: the same JSON, without processes that take seconds to start."""

    waiting = 0

    def __init__(self, database: Database):
        self.reports = Reports(database)
        self._threads = ThreadPoolExecutor(2)

    async def ask(self, report: str, **given: Any) -> tuple[Any, float]:
        asked = json.loads(json.dumps(given))
        made = self._threads.submit(answer, getattr(self.reports, report), asked)
        found = json.loads(json.dumps(await asyncio.wrap_future(made)))
        if "refused" in found:
            raise Refused(*found["refused"])
        return found["found"], found["seconds"]

    async def stop(self) -> None:
        self._threads.shutdown()


_serving: list[Database] = []
_begun: collections.Counter[str] = collections.Counter()


def bits_of_test() -> np.random.PCG64:
    """Random numbers that depend on the test alone, and those of shared fixtures on their file alone."""
    test, _, phase = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")
    name = test.split("::")[0] if phase == "(setup)" else test
    _begun[name] += 1
    return streams.bits(zlib.crc32(name.encode()), "agent", _begun[name])


bandit.secure_bits = bits_of_test


@functools.cache
def empty_database() -> bytes:
    """The file of a SQLite database with its tables, which take longer to make than to copy."""
    with tempfile.TemporaryDirectory() as folder:
        made = Database(f"sqlite:///{folder}/empty.db")
        made.open()
        made.checkpoint("TRUNCATE")
        made.close()
        return made.file.read_bytes()


@contextlib.contextmanager
def application(database: str, processes: bool = False, **settings: Any) -> Iterator[httpx.Client]:
    """The application on a socket, in a thread of this process; its reports there too, or in `processes`.

    Its bandits draw with fixed seeds: what a test sees is no matter of chance.
    """
    opened = Database(database)
    if opened.sqlite and not opened.file.exists():
        opened.file.write_bytes(empty_database())
    opened.open()
    chosen = Settings(database=database, **settings)
    behind = Server(chosen, opened)
    if not processes:
        behind.reporters = NearReporters(opened)
    _serving.append(opened)
    server = web_server(behind)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive(), "the application did not start"
                time.sleep(0.005)
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            with httpx.Client(base_url=url, timeout=PATIENCE, verify=False) as client:  # plain HTTP
                yield client
        finally:
            server.should_exit = True
            thread.join()
            _serving.remove(opened)


def create(client: Any, name: str = "b", dim: int = 2, **more: Any) -> dict[str, Any]:
    body = {"name": name, "dim": dim, "policy": {"policy": "LinMED", "sigma": 0.5}, **more}
    answer = client.post("/v1/bandits", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def decide(client: Any, name: str = "b", **body: Any) -> dict[str, Any]:
    answer = client.post(f"/v1/bandits/{name}/decide", json=body or {"arms": ARMS})
    assert answer.status_code == 200, answer.text
    return answer.json()


def reward(client: Any, decision: dict[str, Any], value: float, name: str = "b") -> dict[str, Any]:
    body = {"decision_id": decision["decision_id"], "reward": value}
    answer = client.post(f"/v1/bandits/{name}/reward", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def row(identifier: str, key: str | None = None) -> dict[str, Any]:
    """A decision of bandit 1 for the engine to write."""
    blob = np.ones(2).tobytes()
    return {
        "id": identifier, "bandit": 1, "key": key, "digest": key and b"same arms", "version": 1,
        "absorbed": 0, "time": 0, "arm": 0, "arm_id": None, "arm_count": 1, "best": 0,
        "log_probability": 0.0, "control": None, "control_share": None, "shadow": None, "fallback": None,
        "value": None, "cost": None, "every_value": None, "every_cost": None,
        "features": blob, "kept": None, "log_probabilities": None,
        "arms": None, "catalogue": None, "item": None, "offered": None, "context": None,
    }  # fmt: skip


def until(condition: Callable[[], Any], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


class Running:
    """`linmed serve` as a process on a port of its own."""

    def __init__(self, database: str, folder: Path, *options: str):
        if sys.platform == "win32":
            pytest.skip("servers are ended by signals, which Windows has not")
        self.log = folder / f"server-{time.time_ns()}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "linmed.cli",
                    "serve",
                    "--database",
                    database,
                    "--port",
                    "0",
                    *options,
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert "http://" in line, self.log.read_text()
        self.url = line.split()[-1].rstrip("/")
        deadline = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/healthz", timeout=5):
                break
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, "the server did not answer in time"
            time.sleep(0.05)

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=PATIENCE, verify=False, **options)

    def end(self, how: int = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            os.kill(self.process.pid, how)
        self.process.wait(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: Any) -> None:
        self.end()
