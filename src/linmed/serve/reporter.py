"""A process that makes reports: `python -m linmed.serve.reporter`, started by a server (`reporting`).

Reports are long and use a whole core, so they are made where they hold up neither the event loop nor the
interpreter's lock, and with less right to the processor. Requests and answers are lines of JSON. The first
line has the database's URL, which is not on the command line because everyone on the machine could read
its password there. The process ends with its input, so also when the server is killed.
"""

import json
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO

from linmed.serve.database import Database
from linmed.serve.errors import Refused
from linmed.serve.middleware import in_trouble
from linmed.serve.processes import log_to_stderr
from linmed.serve.reports import Reports

logger = logging.getLogger("linmed.serve")

NICE = 5
"""A quarter of a busy core: enough to get on, too little to be in the way."""


def main() -> None:
    """Answer one line after the other."""
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
    """Pass on what is asked; the server's end is ours, in the middle of a report too."""
    for line in file:
        lines.put(line)
    os._exit(0)


def answer(report: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """What the report says and how long it took, or why there is none."""
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
    main()
