"""Several servers on one machine behind one port, and the parent that keeps them running.

Python computes in one thread at a time, so one process serves with one core. Each worker is a whole server
with a connection of its own to the one database, as servers on several machines are; the kernel spreads the
connections over them (SO_REUSEPORT). A worker learns its settings from its standard input, which no listing
of processes shows, and ends when that closes: it does not outlive its parent.

`python -m linmed.serve.workers` is one worker; `supervise` starts them.
"""

import dataclasses
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

from linmed.serve.listening import address, bound
from linmed.serve.settings import Settings

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
        [sys.executable, "-P", "-m", "linmed.serve.workers"],  # nothing from the current directory
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
    from linmed.serve.listening import serve
    from linmed.serve.log_lines import log_to_stderr

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
