"""What one connection may cost, and what becomes of it when the server stops. Raw sockets, real servers."""

import contextlib
import json
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from .serving import ARMS, PATIENCE, Running, application, create, decide, until

HEAD = b"POST /v1/bandits/b/decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BODY = json.dumps({"arms": ARMS}).encode()
WHOLE = HEAD + f"Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY
HALF = HEAD + b"Content-Length: 1000\r\n\r\n" + BODY


@contextlib.contextmanager
def connection(client: httpx.Client) -> Iterator[socket.socket]:
    url = client.base_url
    with socket.create_connection((url.host, url.port), timeout=PATIENCE) as opened:
        yield opened


def last_words(opened: socket.socket) -> bytes:
    """Everything until the server closes."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while part := opened.recv(65536):
            found += part
    return found


def answer(opened: socket.socket) -> bytes:
    """One answer, its head and its body."""
    found = b""
    while b"\r\n\r\n" not in found:
        found += opened.recv(65536) or pytest.fail(f"closed after {found!r}")
    head, _, body = found.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += opened.recv(65536)
    return head + b"\r\n\r\n" + body


def test_an_endless_head_is_refused_long_before_it_fills_the_memory(app: httpx.Client) -> None:
    with connection(app) as opened:
        opened.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 4 * 2**20:
                sent += opened.send(b"X-Filler: " + b"x" * 8000 + b"\r\n")
        assert sent < 4 * 2**20  # closed at the other end
    for head in (b"X-One: " + b"x" * 40_000, b"\r\n".join(b"X-%d: x" % i for i in range(5000))):
        with connection(app) as opened:
            opened.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n\r\n")
            said = last_words(opened)
            assert said == b"" or said.startswith(b"HTTP/1.1 431 ")
    with connection(app) as opened:
        opened.sendall(b"GET /" + b"x" * 40_000)
        said = last_words(opened)
    assert said.startswith(b"HTTP/1.1 431 ")
    assert json.loads(said.partition(b"\r\n\r\n")[2])["error"]["status"] == 431


def test_a_head_of_thirty_kilobytes_and_a_large_body_are_fine(app: httpx.Client) -> None:
    create(app)
    long = {"X-Filler": "x" * 30_000}
    body = {"arms": ARMS * 300}  # 900 arms in one request
    assert app.post("/v1/bandits/b/decide", json=body, headers=long).status_code == 200
    assert app.post("/v1/bandits/b/decide", json=body).status_code == 200


@pytest.mark.parametrize(
    "start", [b"", b"GET /hea", HEAD[:40]], ids=["nothing", "half a line", "half a head"]
)
def test_a_head_that_does_not_come_is_not_waited_for(sqlite: str, start: bytes) -> None:
    with application(sqlite, head_seconds=1.0) as app, connection(app) as opened:
        opened.sendall(start)
        said = last_words(opened)
    assert said.startswith(b"HTTP/1.1 408 ") if start else said == b""


def test_a_body_that_does_not_come_is_not_waited_for_and_is_no_error(sqlite: str) -> None:
    with application(sqlite, body_seconds=2.0) as app:
        create(app)
        with connection(app) as opened:
            opened.sendall(HALF)
            assert last_words(opened).startswith(b"HTTP/1.1 408 ")
        assert 'status="500"' not in app.get("/metrics").text


def test_one_byte_at_a_time_is_no_way_around_the_limit(sqlite: str) -> None:
    with application(sqlite, head_seconds=0.5) as app, connection(app) as opened:
        opened.settimeout(0.1)
        said = b""
        deadline = time.monotonic() + 300
        with contextlib.suppress(ConnectionError):
            opened.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
            while not said and time.monotonic() < deadline:
                opened.sendall(b"x")
                with contextlib.suppress(TimeoutError):
                    said = opened.recv(1000)
        assert time.monotonic() < deadline


def test_idle_connections_are_kept_for_a_while_and_then_closed(sqlite: str) -> None:
    with application(sqlite, idle_seconds=5.0, head_seconds=1.0) as app:
        create(app)
        with connection(app) as opened:
            for _ in range(2):  # longer than a head may take, shorter than it may be idle
                opened.sendall(WHOLE)
                assert answer(opened).startswith(b"HTTP/1.1 200 ")
                time.sleep(1.3)
            assert last_words(opened) == b""


def test_pipelined_requests_are_answered_in_order(app: httpx.Client) -> None:
    create(app)
    with connection(app) as opened:
        opened.sendall(WHOLE * 3 + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        said = last_words(opened)
    assert said.count(b"HTTP/1.1 200 ") == 4
    assert said.endswith(b'{"status":"ok"}')


def test_no_more_connections_than_allowed(sqlite: str) -> None:
    with application(sqlite, max_connections=5) as app, contextlib.ExitStack() as stack:
        assert app.get("/healthz").status_code == 200  # which stays open
        held = [stack.enter_context(connection(app)) for _ in range(4)]
        for opened in held:
            opened.sendall(b"GET")
        with connection(app) as extra:
            said = last_words(extra)
        assert said == b"" or said.startswith(b"HTTP/1.1 503 ")
        assert app.get("/healthz").status_code == 200  # those that are open are served
        held[0].close()
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            with connection(app) as again:
                again.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                with contextlib.suppress(ConnectionError):
                    if last_words(again).startswith(b"HTTP/1.1 200 "):
                        return
            time.sleep(0.02)
        pytest.fail("a place that became free was not given away")


def test_a_caller_that_leaves_in_the_middle_is_no_error(running: Running) -> None:
    with running.client() as client:
        create(client, "left")
        for _ in range(5):
            with connection(client) as opened:
                opened.sendall(HALF.replace(b"/b/", b"/left/"))
                time.sleep(0.02)
        decide(client, "left")
        until(lambda: 'status="499"' in client.get("/metrics").text)
        assert 'status="500"' not in client.get("/metrics").text
    log = running.log.read_text()
    assert "Traceback" not in log
    assert "a request failed" not in log


@pytest.mark.linux
def test_sigterm_does_not_wait_for_half_sent_requests_but_answers_whole_ones(
    sqlite: str, tmp_path: Path
) -> None:
    with Running(sqlite, tmp_path) as server, server.client() as client, contextlib.ExitStack() as stack:
        create(client)
        decide(client)
        halves = [stack.enter_context(connection(client)) for _ in range(3)]
        for opened, start in zip(halves, (b"", HEAD[:50], HALF), strict=True):
            opened.sendall(start)
        whole = stack.enter_context(connection(client))
        body = json.dumps({"decisions": [{"arms": ARMS * 100}] * 100}).encode()
        head = HEAD.replace(b"/decide", b"/decide/batch") + b"Content-Length: %d\r\n\r\n" % len(body)
        whole.sendall(head + body)
        begun = stack.enter_context(connection(client))
        begun.sendall(head + body + b"GET /heal")  # the next request has begun
        until(lambda: taken(whole) and taken(begun))
        server.end(signal.SIGTERM)
        for opened in (whole, begun):
            assert last_words(opened).startswith(b"HTTP/1.1 200 ")
        assert "timeout graceful shutdown exceeded" not in server.log.read_text()  # as half a request did


def taken(opened: socket.socket) -> bool:
    """The server has read all that was sent: nothing of it is in the system's buffers."""
    here, there = (f":{name[1]:04X}" for name in (opened.getsockname(), opened.getpeername()))
    waiting = {}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, queues, *_ = line.split()
        waiting[local[8:], remote[8:]] = queues
    sending, receiving = waiting[here, there].split(":")[0], waiting[there, here].split(":")[1]
    return int(sending, 16) == int(receiving, 16) == 0


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("[::1]", 200), ("[::1]:8000", 200), ("LOCALHOST", 200), ("LocalHost:80", 200), ("127.0.0.1", 200),
        ("localhost:", 200), ("[::1", 403), ("[::2]", 403), ("localhost.attacker.example", 403),
        ("attacker.example:localhost", 403), ("localhost:80@attacker.example", 403), ("", 403),
    ],
)  # fmt: skip
def test_every_spelling_of_this_machine_is_a_local_name(app: httpx.Client, host: str, status: int) -> None:
    assert app.get("/v1/bandits", headers={"Host": host}).status_code == status
