"""Run servers: one in this process, or workers behind one port and the parent that keeps them running.

Python computes in one thread at a time, so one process serves with one core. Each worker is a whole server
with its own connection to the one database, as servers on several machines are; the kernel spreads the
connections over them (SO_REUSEPORT). A worker reads its settings from its standard input, which no listing of
processes shows, and ends when that closes: it does not outlive its parent. `python -m linmed.serve.processes`
is one worker; `supervise` starts them.
"""

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
from datetime import UTC, datetime
from typing import Any

from linmed.serve.settings import Settings

logger = logging.getLogger("linmed.serve")

PAUSE = 1.0
"""Seconds before a worker that has ended is started again."""
PATIENCE = 5.0
"""Seconds beyond `stop_seconds` after which a worker that has not ended is killed."""
YOUNG = 20_000
"""Objects made since the last search for garbage that lead to the next: those of many requests at once."""
_STANDARD = frozenset({*vars(logging.makeLogRecord({})), "color_message"})  # which uvicorn adds for terminals


def bound(settings: Settings) -> socket.socket:
    """Open the socket at the settings' address, which workers share; ValueError says why it cannot be had."""
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
    """Return the URL of a server."""
    return f"http://{f'[{settings.host}]' if ':' in settings.host else settings.host}:{settings.port}/"


def serve(settings: Settings, database: Any, listener: socket.socket) -> None:
    """Serve in this process until a signal comes."""
    from linmed.serve.api import web_server
    from linmed.serve.server import Server

    allow_files(settings.max_connections)
    server = web_server(Server(settings, database))
    # What is here now stays: to look through it for garbage again and again would make requests wait.
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)
    server.run(sockets=[listener])


def allow_files(connections: int) -> None:
    """Ask for as many open files as there may be connections: often a process has only 1024."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + 256  # the database's, and whatever else
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard) if hard >= 0 else wanted, hard))


class Seldom(logging.Filter):
    """Let the same warning through once a second: trouble repeats itself with every request."""

    def __init__(self) -> None:
        super().__init__()
        self._second, self._told = 0, set[str]()

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether to write a record."""
        message, second = record.getMessage(), int(record.created)
        if second != self._second:
            self._second, self._told = second, set()
        fresh = record.levelno < logging.WARNING or message not in self._told
        self._told.add(message)
        return fresh


class JsonLines(logging.Formatter):
    """Write one JSON object a line: time, level, message, and whatever was passed as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry.update({key: value for key, value in vars(record).items() if key not in _STANDARD})
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def log_to_stderr(level: str) -> None:
    """Send the service's and the web server's logs to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    handler.addFilter(Seldom())
    for name in ("linmed", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())


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
