"""Make reports in a few processes of their own, with a bounded queue before them.

Reports are long and use a whole core, so they are made where they hold up neither the event loop nor the
interpreter's lock, and with less right to the processor. `python -m linmed.serve.reporting` is one such
process: requests and answers are lines of JSON. The first line has the database's URL, which is not on the
command line because everyone on the machine could read its password there. The process ends with its input,
so also when the server is killed.
"""

import asyncio
import contextlib
import json
import logging
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO

from linmed.serve.errors import Refused, stopping
from linmed.serve.middleware import in_trouble

logger = logging.getLogger("linmed.serve")

COMMAND = [sys.executable, "-P", "-m", "linmed.serve.reporting"]
RETRY_AFTER = 5
"""Seconds: reports are long."""
LONGEST = 2**28
"""Bytes of an answer."""
NICE = 5
"""A quarter of a busy core: enough to get on, too little to be in the way."""


class Reporters:
    """Makes reports in the order they are asked for, `number` at a time."""

    def __init__(self, database: str, number: int, most_waiting: int):
        self.most_waiting = most_waiting
        self.waiting = 0
        self._all = [Reporter(database) for _ in range(number)]
        self._free: asyncio.LifoQueue[Reporter] = asyncio.LifoQueue()  # the last one remembers most
        for reporter in reversed(self._all):
            self._free.put_nowait(reporter)

    async def ask(self, report: str, **given: Any) -> tuple[Any, float]:
        """What `linmed.serve.reports.Reports` says, and how long it took.

        Cancelled, a report that waits is forgotten, and one that is being made ends with its process.
        """
        if self._free.empty() and self.waiting >= self.most_waiting:
            text = f"{self.waiting} reports are waiting already: try again"
            raise Refused("overloaded", text, retry_after=RETRY_AFTER)
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
    """One process, started when it is needed: the first time, and after it had to be ended."""

    def __init__(self, database: str):
        self.database = database
        self._process: asyncio.subprocess.Process | None = None
        self._stopped = False

    async def ask(self, request: dict[str, Any]) -> Any:
        """The answer to one request."""
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
            raise stopping() if self._stopped else Refused("unavailable", text, retry_after=RETRY_AFTER)
        return json.loads(answer)

    async def stop(self) -> None:
        """End the process, if there is one, and start no other."""
        self._stopped = True
        await self._end()

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            process = await asyncio.create_subprocess_exec(
                *COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # a Ctrl-C is the server's, which ends its reporters itself
                limit=LONGEST,
            )
        except OSError as error:
            text = f"no process can be started for this report ({error.strerror}): try again"
            raise Refused("unavailable", text, retry_after=RETRY_AFTER) from None
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


def main() -> None:
    """Answer one line after the other."""
    from linmed.serve.database import Database
    from linmed.serve.processes import log_to_stderr
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
