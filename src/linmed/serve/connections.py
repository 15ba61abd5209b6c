"""Limit what one connection may cost: the length and time of its requests, and their number.

uvicorn reads a head of any length for as long as it takes, and waits for the end of a half-sent request when
it is told to stop. Here every connection has one moment at which something must have happened (`due`), and
the server's tick ends those that are late; no request pays for a timer of its own.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from linmed.serve.errors import Refused
from linmed.serve.middleware import header_lines, refusal
from linmed.serve.settings import Settings

MAX_HEAD = 32 * 2**10
"""Bytes of a request line and its headers."""
ANSWERING = 0.6
"""Share of the time to stop in which requests under way are answered."""
FAREWELL = 5.0
"""Seconds for the other side to take the last bytes of a connection that is being closed."""

# uvicorn's names of the moments of a request: begun, headers complete, message complete, response complete.


class Connection(HttpToolsProtocol):
    """Keep one connection within the limits of `settings`."""

    def __init__(self, settings: Settings, **given: Any):
        super().__init__(**given)
        self.settings = settings
        self.due = math.inf
        """When (`loop.time()`) the connection ends unless the other side has done its part."""
        self._receiving = False  # a request has begun and is not complete
        self._arrived = 0  # its bytes, but for those that came together with an earlier request's
        self._chunk = 0  # bytes of the piece at hand
        self._head = True  # its head is not complete
        self._answering: Any = None  # the request whose turn it is (a cycle); others: `pipeline`
        self._why: Refused | None = None  # that parsing ended
        self._ending = False  # what comes now is not read
        self._unsent = 0  # bytes of answers when the other side was last found to be late in taking them

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, or say that there are too many."""
        most = self.settings.max_connections
        if len(self.connections) >= most:
            self.transport = transport
            self._refuse(Refused("unavailable", f"{most} connections are open: try again", retry_after=1))
            return
        super().connection_made(transport)
        self._expect(self.settings.head_seconds)

    def data_received(self, data: bytes) -> None:
        """Read on, unless the request has become too long."""
        if self._ending:
            return
        self._chunk = len(data)
        self._arrived += len(data)
        super().data_received(data)
        # Chunked bodies may have as much again around their content; the middleware counts that.
        most = MAX_HEAD if self._head else MAX_HEAD + 2 * self.settings.max_body
        if self._receiving and self._arrived > most and not self.transport.is_closing():
            self._refuse(_LONG_HEAD if self._head else Refused("too large", "the request's body is too long"))

    def on_message_begin(self) -> None:
        """Note the first byte of a request."""
        super().on_message_begin()
        self._begin_head()

    def _begin_head(self) -> None:
        self._receiving = self._head = True
        self._expect(self.settings.head_seconds)

    def on_headers_complete(self) -> None:
        """Hand a request whose head is complete to the application."""
        self._end_head()
        self._start_request()

    def _end_head(self) -> None:
        """Count the head where it may be too long, and wait for the body."""
        if max(self._chunk, self._arrived) > MAX_HEAD:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > MAX_HEAD:
                self._end_parsing(_LONG_HEAD)
        bodied = any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers)
        if bodied and self.parser.should_upgrade():
            self._end_parsing(_UPGRADE)  # the parser would take its body for the next request
        self._head = False
        self._expect(self.settings.body_seconds)

    def _start_request(self) -> None:
        super().on_headers_complete()
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False

    def _end_parsing(self, why: Refused) -> None:
        self._why = why
        raise why

    def on_message_complete(self) -> None:
        """Note that a request is complete: now it is our turn."""
        self._receiving, self._arrived = False, 0
        self.due = math.inf
        super().on_message_complete()
        if self.cycle.response_complete:  # refused before its end
            self._expect(self.settings.idle_seconds)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Begin with a request whose turn has come."""
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """Note that a request is answered: the next one may take its time."""
        self._unsent = 0
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        if self._receiving:  # a pipelined request, unread until now
            self._expect(self.settings.body_seconds)
        elif not self.pipeline:
            self._expect(self.settings.idle_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that nobody is there to be answered any more."""
        super().connection_lost(exc)
        for cycle in self._unanswered():
            cycle.disconnected = True
            cycle.message_event.set()

    def pause_writing(self) -> None:
        """Note that the other side does not take its answer."""
        super().pause_writing()
        self._expect(self.settings.body_seconds)

    def resume_writing(self) -> None:
        """Note that the other side takes its answer: what is due now is what was before."""
        super().resume_writing()
        if self._receiving:
            self._expect(self.settings.head_seconds if self._head else self.settings.body_seconds)
        elif self._unanswered():
            self.due = math.inf
        else:
            self._expect(self.settings.idle_seconds)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, or too much of it."""
        if self._head and max(self._chunk, self._arrived) > MAX_HEAD:
            self._refuse(_LONG_HEAD)
        else:
            self._refuse(self._why or Refused("malformed", "this is not an HTTP request"))

    def shutdown(self) -> None:
        """End with the server: what is complete is answered, what is half-sent is not waited for."""
        if self._receiving:
            self._end_after_complete()
        else:
            super().shutdown()

    def _unanswered(self) -> list[Any]:
        """List the requests that have no whole answer yet, oldest first."""
        own = [] if self._answering is None else [self._answering]
        known: list[Any] = [*own, *(cycle for cycle, _ in reversed(self.pipeline))]
        return [cycle for cycle in known if not cycle.response_complete]

    def _end_after_complete(self) -> bool:
        """Read no more and close, after answers to complete requests; say whether there were any."""
        if self.pipeline and self.pipeline[0][0].more_body:
            self.pipeline.popleft()
        complete = [cycle for cycle in self._unanswered() if not cycle.more_body]
        if not complete:
            self.transport.close()
            return False
        complete[-1].keep_alive = False
        self._receiving, self._ending, self.due = False, True, math.inf
        return True

    def expire(self) -> None:
        """End a connection whose other side is late, unless it takes a long answer bit by bit."""
        unsent = self.transport.get_write_buffer_size()
        if unsent and (not self._unsent or unsent < self._unsent):
            self._unsent = unsent
            self._expect(self.settings.body_seconds)
        elif self.transport.is_closing():
            self.transport.abort()
        elif self.flow.read_paused:  # it could not go on
            self._expect(self.settings.body_seconds)
        elif self._receiving:
            part = "head" if self._head else "body"
            self._refuse(Refused("too slow", f"the request's {part} did not arrive in time"))
        else:
            self.transport.close()
            self._expect(FAREWELL)

    def _expect(self, seconds: float) -> None:
        self.due = self.loop.time() + seconds

    def _refuse(self, why: Refused) -> None:
        """Say why, where no other answer is under way, and close; answers that are, come first."""
        if any(not cycle.more_body for cycle in self._unanswered()):
            self._end_after_complete()
            return
        cycle = self.cycle
        if cycle is None or (cycle.response_complete if self._head else not cycle.response_started):
            answer = refusal(why)
            lines = header_lines([(b"connection", b"close"), *answer.raw_headers])
            self.transport.write(STATUS_LINE[answer.status_code] + lines + b"\r\n" + bytes(answer.body))
        self.transport.close()
        self._expect(FAREWELL)


_UPGRADE = Refused("malformed", "Upgrade: this server speaks HTTP/1.1 and nothing else: leave the header out")
_LONG_HEAD = Refused("head too large", f"a request's line and headers may have at most {MAX_HEAD} bytes")


class WebServer(uvicorn.Server):
    """Run uvicorn for an application, within the limits of `settings`; `connection` makes each connection."""

    def __init__(self, app: Any, settings: Settings, connection: Callable[..., Connection]):
        super().__init__(
            uvicorn.Config(
                app,
                http=connection,  # type: ignore[arg-type]
                ws="none",
                access_log=False,
                log_config=None,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=ANSWERING * settings.stop_seconds,  # type: ignore[arg-type]
            )
        )

    async def on_tick(self, counter: int) -> bool:
        """End the connections that are late, ten times a second."""
        now = asyncio.get_running_loop().time()
        for connection in list(self.server_state.connections):
            if isinstance(connection, Connection) and connection.due <= now:
                connection.expire()
        return await super().on_tick(counter)
