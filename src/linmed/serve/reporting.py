"""The processes that make reports (`reporter`), as the server sees them: a few, with a bounded queue."""

import asyncio
import contextlib
import json
import logging
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from linmed.serve.errors import Refused, stopping

COMMAND = [sys.executable, "-P", "-m", "linmed.serve.reporter"]
RETRY_AFTER = 5
"""Seconds: reports are long."""


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

    def stop(self) -> None:
        """End every process."""
        for reporter in self._all:
            reporter.stop()


@dataclass(eq=False)
class Asked:
    """One line for a process, and whether somebody still waits for what it answers."""

    line: bytes
    wanted: bool = True


class Reporter:
    """One process, started when it is needed: the first time, and after it had to be ended.

    The pipes are written and read in a thread of their own. What the thread and the event loop both touch,
    the process and `Asked.wanted`, is under the lock.
    """

    def __init__(self, database: str):
        self.database = database
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="linmed-reporter")
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = self._stopped = False

    async def ask(self, request: dict[str, Any]) -> Any:
        """The answer to one request."""
        asked = Asked(json.dumps(request).encode() + b"\n")
        try:
            return await asyncio.wrap_future(self._thread.submit(self._exchange, asked))
        except asyncio.CancelledError:
            self._end(asked)
            raise

    def stop(self) -> None:
        """End the process, if there is one."""
        self._stopped = True
        self._end()
        self._thread.shutdown(cancel_futures=True)
        self._bury(self._process)

    def _end(self, asked: Asked | None = None) -> None:
        """Kill the process; whoever reads from it will notice, in the thread."""
        with self._lock:
            if asked is not None:
                asked.wanted = False
            if self._process is not None:
                self._process.kill()
                self._killed = True

    def _exchange(self, asked: Asked) -> Any:
        process = self._ready(asked)
        assert process.stdin is not None
        assert process.stdout is not None
        answer = b""
        with contextlib.suppress(OSError):  # the process has ended
            process.stdin.write(asked.line)
            process.stdin.flush()
            answer = process.stdout.readline()
        if not answer.endswith(b"\n"):
            self._bury(process)
            text = "the process that made this report was ended, perhaps for want of memory: try again"
            raise Refused("unavailable", text, retry_after=RETRY_AFTER)
        return json.loads(answer)

    def _ready(self, asked: Asked) -> "subprocess.Popen[bytes]":
        """The process, a new one if need be."""
        old = self._process
        if old is not None and (self._killed or old.poll() is not None):
            self._bury(old)
        with self._lock:
            if not asked.wanted or self._stopped:
                raise stopping()
            if self._process is None:
                self._process = self._start()
            return self._process

    def _start(self) -> "subprocess.Popen[bytes]":
        try:
            process = subprocess.Popen(
                COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # a Ctrl-C is the server's, which ends its reporters itself
            )
        except OSError as error:
            text = f"no process can be started for this report ({error.strerror}): try again"
            raise Refused("unavailable", text, retry_after=RETRY_AFTER) from None
        level = logging.getLogger("linmed").getEffectiveLevel()
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.write(json.dumps({"database": self.database, "level": level}).encode() + b"\n")
        return process

    def _bury(self, process: "subprocess.Popen[bytes] | None") -> None:
        """Nobody speaks to it any more. What may take a moment is done without the lock."""
        with self._lock:
            self._process, self._killed = None, False
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    if pipe is not None:
                        pipe.close()
