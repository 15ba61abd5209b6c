"""Connections that misbehave in the middle cost nobody else an answer, and leave nothing behind."""

import contextlib
import json
import os
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from linmed.serve.middleware import Rates

from .serving import ARMS, PATIENCE, Running, application, create, decide
from .test_protocol import connection

BROKEN = b"POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n"


def request(path: str, body: Any, *lines: str) -> bytes:
    content = json.dumps(body).encode()
    head = [f"POST /v1/bandits/{path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *lines]
    return "\r\n".join([*head, f"Content-Length: {len(content)}", "", ""]).encode() + content


def everything(opened: socket.socket) -> bytes:
    """All that comes until the connection ends; with a reset, where the server has left something unread."""
    opened.settimeout(PATIENCE)
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := opened.recv(65536):
            found += piece
    return found


def test_a_broken_request_behind_a_good_one_costs_nobody_an_answer(running: Running) -> None:
    good = request("broken/decide", {"arms": ARMS})
    with running.client() as client:
        create(client, "broken")
        stop = threading.Event()
        served: list[str] = []

        def visit() -> None:
            with running.client() as other:
                while not stop.is_set():
                    served.append(decide(other, "broken")["decision_id"])  # one lost answer is a timeout

        others = [threading.Thread(target=visit) for _ in range(3)]
        for other in others:
            other.start()
        for _ in range(60):
            with connection(client) as opened:
                opened.sendall(good + BROKEN)
                found = everything(opened)
            assert found.startswith(b"HTTP/1.1 200")  # the good one's own answer, and nothing in its place
            assert found.count(b"HTTP/1.1 ") == 1
            with connection(client) as opened:  # leaves before any answer
                opened.sendall(good * 3 + BROKEN)
        stop.set()
        for other in others:
            other.join(300)
        assert len(served) > 10
    assert "Traceback" not in running.log.read_text()


def test_the_body_of_an_upgrade_is_not_the_next_request(app: httpx.Client) -> None:
    create(app)
    lines = ("Connection: Upgrade", "Upgrade: h2c")
    for path in ("b/decide", "b/decide/batch"):
        with connection(app) as opened:
            opened.sendall(request(path, {"arms": ARMS}, *lines))
            opened.sendall(b"GET /v1/bandits HTTP/1.1\r\nHost: localhost\r\n\r\n")
            found = everything(opened)
        assert found.startswith(b"HTTP/1.1 400")
        assert found.count(b"\r\n\r\n") == 1  # one answer
        assert b"Upgrade" in found
    with connection(app) as opened:  # without a body it is passed over
        opened.sendall(
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + "\r\n".join(lines).encode() + b"\r\n\r\n"
        )
        assert everything(opened).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("span", ["bytes=x", "bytes=9999999999-", "bytes=0-3"])
def test_an_export_leaves_no_file_behind(
    app: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, span: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    create(app)
    decide(app)
    before = set(os.listdir(tmp_path))
    answer = app.get("/v1/bandits/b/log", headers={"Range": span})
    assert (answer.status_code, answer.content[:4]) == (200, b"PAR1")
    assert set(os.listdir(tmp_path)) == before


def test_who_asks_before_sending_a_body_is_told_to_go_on(app: httpx.Client) -> None:
    create(app)
    head, _, content = request("b/decide", {"arms": ARMS}, "Expect: 100-continue").partition(b"\r\n\r\n")
    with connection(app) as opened:
        opened.settimeout(PATIENCE)
        opened.sendall(head + b"\r\n\r\n")
        assert opened.recv(100).startswith(b"HTTP/1.1 100")
        opened.sendall(content)
        assert opened.recv(100).startswith(b"HTTP/1.1 200")


def large_answer(opened: socket.socket, pause: float) -> int:
    """Bytes of a state that come, read bit by bit."""
    opened.sendall(b"GET /v1/bandits/b/state HTTP/1.1\r\nHost: localhost\r\n\r\n")
    opened.settimeout(PATIENCE)
    found, length = b"", 1 << 60
    while len(found) < length:
        piece = opened.recv(2**17)
        if not piece:
            break
        if not found:
            head, _, _ = piece.partition(b"\r\n\r\n")
            length = len(head) + 4 + int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        found += piece
        time.sleep(pause)
    return len(found) - length


def test_a_large_answer_that_is_read_steadily_comes_whole_and_then_the_connection_is_idle(
    sqlite: str,
) -> None:
    with application(sqlite, idle_seconds=0.5, body_seconds=2.0) as app:
        create(app, dim=300, policy={"policy": "Greedy"})
        with connection(app) as opened:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**14)
            started = time.monotonic()
            assert large_answer(opened, 0.1) == 0
            assert time.monotonic() - started > 2.0  # all of it took longer than a part of it may
            opened.settimeout(PATIENCE)
            assert opened.recv(1) == b""  # closed, though the answer had been held up


def test_above_the_rate_as_much_is_granted_as_the_rate_says(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    rates = Rates(20.0)
    granted = 0
    for _ in range(300):  # five seconds at 60 a second
        granted += rates.take("a")
        now[0] += 1 / 60
    assert granted in range(138, 142)  # 40 at once and 20 a second


def test_a_refusal_is_counted_once(sqlite: str) -> None:
    with application(sqlite, rate=1.0) as app:
        create(app)
        answers = [app.post("/v1/bandits/b/decide", json={"arms": ARMS}).status_code for _ in range(12)]
        time.sleep(2.1)
        text = app.get("/metrics").text
    assert f'linmed_refused_total{{reason="rate"}} {answers.count(429)}.0' in text
