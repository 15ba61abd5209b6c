"""The socket that a server listens on, and a server on it."""

import dataclasses
import gc
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

from linmed.serve.settings import Settings

YOUNG = 20_000
"""Objects made since the last search for garbage that lead to the next: those of many requests at once."""


def bound(settings: Settings) -> socket.socket:
    """A socket at the settings' address, which workers share; or say why it cannot be had."""
    shared = settings.workers > 1
    if shared and not hasattr(socket, "SO_REUSEPORT"):
        raise ValueError("workers: this system cannot share a port between processes; start one server")
    listener = socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        # A restart need not wait for the old connections to be forgotten. On Windows it need not anyway, and
        # the option would let two servers have the same port.
        if os.name != "nt":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise ValueError(f"cannot listen on {settings.host}:{settings.port} ({error.strerror})") from None
    return listener


def address(settings: Settings) -> str:
    """For people and browsers."""
    return f"http://{f'[{settings.host}]' if ':' in settings.host else settings.host}:{settings.port}/"


def serve(settings: Settings, database: Any, listener: socket.socket) -> None:
    """Until a signal."""
    from linmed.serve.api import create_app
    from linmed.serve.connections import WebServer

    allow_files(settings.max_connections)
    server = WebServer(create_app(settings, database), settings)
    # What is here now stays: to look through it for garbage again and again would make requests wait.
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)
    server.run(sockets=[listener])


def allow_files(connections: int) -> None:
    """Each connection is an open file, of which a process often may have only 1024 unless it asks."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + 256  # the database's, and whatever else
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard) if hard >= 0 else wanted, hard))


logger = logging.getLogger("linmed.serve")

PAUSE = 1.0
"""Seconds before a worker that has ended is started again."""
PATIENCE = 5.0
"""Seconds beyond `stop_seconds` after which a worker that has not ended is killed."""


def supervise(settings: Settings, log_level: str) -> int:
    """Keep `settings.workers` servers running until a signal; returns when all have ended."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with bound(settings) as reserved, tempfile.TemporaryDirectory(prefix="linmed-metrics-") as metrics:
        settings = dataclasses.replace(settings, port=reserved.getsockname()[1])
        print(f"linmed serves on {address(settings)}", flush=True)
        workers: list[subprocess.Popen[str] | None] = [None] * settings.workers
        begin = [0.0] * settings.workers
        while not stop.wait(0.1):
            for place, worker in enumerate(workers):
                if worker is None:
                    if time.monotonic() >= begin[place]:
                        workers[place] = _started(settings, log_level, metrics)
                elif worker.poll() is not None:
                    logger.warning(
                        "a worker has ended and is started again", extra={"code": worker.returncode}
                    )
                    _forget(worker, metrics)
                    workers[place], begin[place] = None, time.monotonic() + PAUSE
        running = [worker for worker in workers if worker is not None]
        for worker in running:
            worker.terminate()
        deadline = time.monotonic() + settings.stop_seconds + PATIENCE
        for worker in running:
            try:
                worker.wait(max(deadline - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
            _forget(worker, metrics)
    return 0


def _started(settings: Settings, log_level: str, metrics: str) -> "subprocess.Popen[str]":
    worker = subprocess.Popen(
        [sys.executable, "-P", "-m", "linmed.serve.processes"],  # nothing from the current directory
        stdin=subprocess.PIPE,
        text=True,
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": metrics},
    )
    assert worker.stdin is not None
    worker.stdin.write(json.dumps([dataclasses.asdict(settings), log_level]) + "\n")
    worker.stdin.flush()  # and stays open
    return worker


def _forget(worker: "subprocess.Popen[str]", metrics: str) -> None:
    """What the worker has counted stays in the sums; what it was just doing does not."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(worker.pid, metrics)  # type: ignore[no-untyped-call]
    assert worker.stdin is not None
    worker.stdin.close()


def work() -> int:
    """Serve as one of several."""
    from linmed.serve.database import Database
    from linmed.serve.log_lines import log_to_stderr
    from linmed.serve.processes import serve

    given, log_level = json.loads(sys.stdin.readline())
    settings = Settings(**given)

    def watch() -> None:
        sys.stdin.read()  # to its end
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
    log_to_stderr(log_level)
    database = Database(settings.database)
    database.open()
    with bound(settings) as listener:
        serve(settings, database, listener)
    return 0


if __name__ == "__main__":
    sys.exit(work())
