"""Run servers: one in this process, or workers behind one port and the parent that keeps them running.

Python computes in one thread at a time, so one process serves with one core. Each worker is a whole server
with its own connection to the one database, as servers on several machines are; the kernel spreads the
connections over them (SO_REUSEPORT). A worker reads its settings from its standard input, which no listing of
processes shows, and ends when that closes: it does not outlive its parent.

Reports are long and use a whole core, so each server has them made in a few processes of their own, where
they hold up neither its loop nor its lock, and with less right to the processor. What is asked
and answered are lines of JSON. `python -m linmed.serve.processes worker`, or `reporter`, is one such process.
"""

import asyncio
import contextlib
import dataclasses
import gc
import json
import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, BinaryIO

from linmed.serve.errors import Refused, stopping
from linmed.serve.settings import Settings

logger = logging.getLogger("linmed.serve")

_OURSELVES = [sys.executable, "-P", "-m", "linmed.serve.processes"]  # nothing from the current directory
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
        [*_OURSELVES, "worker"],
        stdin=subprocess.PIPE,
        text=True,
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": metrics},
    )
    assert worker.stdin is not None
    worker.stdin.write(json.dumps([dataclasses.asdict(settings), log_level]) + "\n")
    worker.stdin.flush()  # and stays open
    return worker


def _forget(worker: "subprocess.Popen[str]", metrics: str) -> None:
    """Keep what the worker has counted in the sums, but not what it was just doing."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(worker.pid, metrics)  # type: ignore[no-untyped-call]
    assert worker.stdin is not None
    worker.stdin.close()


def work() -> None:
    """Serve as one of several."""
    from linmed.serve.database import Database

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


# Reports

logger = logging.getLogger("linmed.serve")

REPORTER = [*_OURSELVES, "reporter"]
LATER = 5
"""Seconds after which to ask again: reports are long."""
LONGEST = 2**28
"""Bytes of an answer."""
NICE = 5
"""A quarter of a busy core: enough to get on, too little to be in the way."""


class Reporters:
    """Make reports in the order they are asked for, `number` at a time."""

    def __init__(self, database: str, number: int, most_waiting: int):
        self.most_waiting = most_waiting
        self.waiting = 0
        self._all = [Reporter(database) for _ in range(number)]
        self._free: asyncio.LifoQueue[Reporter] = asyncio.LifoQueue()  # the last one remembers most
        for reporter in reversed(self._all):
            self._free.put_nowait(reporter)

    async def ask(self, report: str, **given: Any) -> tuple[Any, float]:
        """Return what `linmed.serve.reports.Reports` says, and how long it took.

        Cancelled, a report that waits is forgotten, and one that is being made ends with its process.
        """
        if self._free.empty() and self.waiting >= self.most_waiting:
            text = f"{self.waiting} reports are waiting already: try again"
            raise Refused("overloaded", text, retry_after=LATER)
        self.waiting += 1
        try:
            reporter = await self._free.get()
        finally:
            self.waiting -= 1
        try:
            answer = await reporter.ask({"report": report, "with": given})
        finally:
            self._free.put_nowait(reporter)
        if "refused" in answer:
            raise Refused(*answer["refused"])
        return answer["found"], answer["seconds"]

    async def stop(self) -> None:
        """End every process."""
        for reporter in self._all:
            await reporter.stop()


class Reporter:
    """Speak to one process, started when it is needed: the first time, and after it had to be ended."""

    def __init__(self, database: str):
        self.database = database
        self._process: asyncio.subprocess.Process | None = None
        self._stopped = False

    async def ask(self, request: dict[str, Any]) -> Any:
        """Return the answer to one request."""
        if self._stopped:
            raise stopping()
        if self._process is not None and self._process.returncode is not None:
            await self._end()
        process = self._process = self._process or await self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        answer = b""
        try:
            with contextlib.suppress(OSError):  # the process has ended
                process.stdin.write(json.dumps(request).encode() + b"\n")
                await process.stdin.drain()
                answer = await process.stdout.readline()
        except BaseException:
            await self._end()
            raise
        if not answer.endswith(b"\n"):
            await self._end()
            text = "the process that made this report was ended, perhaps for want of memory: try again"
            raise stopping() if self._stopped else Refused("unavailable", text, retry_after=LATER)
        return json.loads(answer)

    async def stop(self) -> None:
        """End the process, if there is one, and start no other."""
        self._stopped = True
        await self._end()

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            process = await asyncio.create_subprocess_exec(
                *REPORTER,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # a Ctrl-C is the server's, which ends its reporters itself
                limit=LONGEST,
            )
        except OSError as error:
            text = f"no process can be started for this report ({error.strerror}): try again"
            raise Refused("unavailable", text, retry_after=LATER) from None
        level = logging.getLogger("linmed").getEffectiveLevel()
        assert process.stdin is not None
        process.stdin.write(json.dumps({"database": self.database, "level": level}).encode() + b"\n")
        return process

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def report() -> None:
    """Answer one line after the other."""
    from linmed.serve.database import Database
    from linmed.serve.reports import Reports

    if hasattr(os, "nice"):  # not on Windows
        os.nice(NICE)
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=listen, args=(sys.stdin.buffer, lines), daemon=True).start()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever else is printed is no answer
    settings = json.loads(lines.get())
    log_to_stderr("info")
    logging.getLogger("linmed").setLevel(settings["level"])
    reports = Reports(Database(settings["database"]))
    known: dict[str, Callable[..., Any]] = {
        "evaluate": reports.evaluate,
        "trend": reports.trend,
        "export": reports.export,
    }
    while True:
        asked = json.loads(lines.get())
        answers.write(json.dumps(answer(known[asked["report"]], asked["with"])).encode() + b"\n")
        answers.flush()


def listen(file: BinaryIO, lines: "queue.SimpleQueue[bytes]") -> None:
    """Pass on what is asked; end with the server, in the middle of a report too."""
    for line in file:
        lines.put(line)
    os._exit(0)


def answer(report: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """Make a report, and say how long it took, or why there is none."""
    from linmed.serve.middleware import in_trouble

    started = time.monotonic()
    try:
        return {"found": report(**given), "seconds": time.monotonic() - started}
    except Refused as refused:
        error = refused
    except Exception as unexpected:
        told = in_trouble(unexpected)
        if told is None:
            logger.exception("a report failed")
        error = told or Refused("failed", "internal error")
    return {"refused": [error.kind, error.message, error.field, error.retry_after]}


if __name__ == "__main__":
    {"worker": work, "reporter": report}[sys.argv[1]]()
