"""The Python clients: the same answers, and retries that do no harm."""

import asyncio
import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from linmed.ope import DecisionLog
from linmed.serve.client import AsyncClient, Client, ServiceError, _Attempts
from linmed.serve.schemas import UNTOLD

from .serving import ARMS, Running, create


def test_the_client_does_everything_the_api_does(app: httpx.Client, tmp_path: Path) -> None:
    with Client(str(app.base_url)) as client:
        items = {"ids": ["x", "y"], "features": [[1, 0], [0, 1]]}
        client.create("b", 2, catalogue=items, reward_range=(0, 1))
        client.create("b", 2, UNTOLD, catalogue={"x": [1, 0], "y": [0, 1]}, reward_range=(0, 1))  # the same
        one = client.decide("b", np.array(ARMS))
        two = client.decide("b", arm_ids=["y"])
        assert (two.arm_id, two.probability, two.probabilities) == ("y", 1.0, (1.0,))
        several = client.decide_batch("b", [ARMS, ARMS[:2]])
        client.reward("b", one, 1)
        client.reward("b", one.id, 1)
        client.reward_batch("b", [(two, 0.0), (several[0], 0.5), (several[1].id, 0.5)])
        assert client.decision("b", one)["reward"] == 1.0
        assert client.state("b")["count"] == 4
        assert client.statistics("b")["pending"] == 0
        assert len(client.evaluate("b", ["uniform", "logged"])["results"]) == 2
        found = client.evaluate("b", ["logged"], ["ipw"], "asymptotic", 0.9, (0, 2), missing="skip", since=0)
        assert (found["judged"], found["results"][0]["valid"]) == (4, "asymptotic")
        with pytest.raises(ServiceError, match=r"422: .*mature") as refused:
            client.evaluate("b", ["logged"], missing=0)
        assert refused.value.field == "mature"
        with pytest.raises(ServiceError, match=r"422: .*smallest_probability=0\.999"):
            client.evaluate("b", ["logged"], smallest_probability=0.999, mature=0)
        client.export("b", tmp_path / "log.parquet")
        assert DecisionLog.open(tmp_path / "log.parquet").table().num_rows == 4
        assert client.change("b", policy={"policy": "Uniform"})["policy_version"] == 2
        assert client.change("b", catalogue={"z": [1, 1]})["catalogue"]["ids"] == ["z"]
        changed = client.change("b", catalogue={"ids": np.array(["z", "w"]), "features": np.eye(2)})
        assert changed["catalogue"] == {"ids": ["z", "w"], "features": [[1.0, 0.0], [0.0, 1.0]]}
        assert client.bandit("b")["policy"]["policy"] == "Uniform"
        with pytest.raises(ServiceError, match=r"409: .*reward"):
            client.reward("b", one, 0.0)
        assert [line["name"] for line in client.bandits()] == ["b"]
        assert client.archive("b")["archived"]


def test_a_batch_has_contexts_and_keys(app: httpx.Client) -> None:
    with Client(str(app.base_url)) as client:
        client.create("b", 3, catalogue={"x": [1, 0], "y": [0, 1]})
        contexts = np.array([[0.1], [0.2]])
        one, two = client.decide_batch("b", contexts=contexts, keys=["first", "second"])
        assert {one.arm_id, two.arm_id} <= {"x", "y"}
        again = client.decide_batch("b", contexts=contexts, keys=["first", "second"])
        assert [decision.id for decision in again] == [one.id, two.id]
        only = client.decide_batch("b", arm_ids=[["y"], None], contexts=contexts)
        assert only[0].probabilities == (1.0,)
        with pytest.raises(ValueError, match="2 contexts, 1 keys"):
            client.decide_batch("b", contexts=contexts, keys=["first"])
        with pytest.raises(ValueError, match="got nothing"):
            client.decide_batch("b")


def test_a_catalogue_that_is_no_mapping_is_refused_with_an_example(app: httpx.Client) -> None:
    with Client(str(app.base_url)) as client, pytest.raises(TypeError, match=r'"ids": \["a", "b"\]'):
        client.create("b", 2, catalogue=[[1.0, 0.0]])  # type: ignore[arg-type]


def test_the_async_client_does_the_same(app: httpx.Client, tmp_path: Path) -> None:
    async def walk() -> None:
        async with AsyncClient(str(app.base_url)) as client:
            await client.create("b", 2, reward_range=(0, 1))
            decisions = await asyncio.gather(*(client.decide("b", ARMS) for _ in range(20)))
            await asyncio.gather(*(client.reward("b", decision, 0.5) for decision in decisions))
            more = await client.decide_batch("b", [ARMS])
            await client.reward_batch("b", [(more[0], 1.0)])
            assert (await client.state("b"))["count"] == 21
            assert (await client.statistics("b"))["decisions"] == 21
            assert (await client.decision("b", more[0]))["reward"] == 1.0
            found = await client.evaluate("b", ["logged"], missing=0, mature=timedelta(0))
            assert found["results"][0]["n"] == found["judged"] == 21
            await client.export("b", tmp_path / "log.parquet")
            assert (await client.change("b", archived=True))["archived"]
            assert (await client.bandit("b"))["archived"]
            with pytest.raises(ServiceError, match="409"):
                await client.decide("b", ARMS)

    asyncio.run(walk())


class Unreliable:
    """Passes requests on to the service, but drops every second answer or says 503 in its place."""

    def __init__(self, behind: httpx.Client, how: str):
        outer = self
        self.seen: list[dict[str, Any]] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.seen.append(json.loads(body))
                answer = behind.post(self.path, content=body, headers={"Content-Type": "application/json"})
                if len(outer.seen) % 2 == 1:  # the service has written, the client does not learn of it
                    if how == "drop":
                        self.close_connection = True
                        return
                    self.send_response(503)
                    self.send_header("Retry-After", "0")
                    content = b"busy"
                else:
                    self.send_response(answer.status_code)
                    content = answer.content
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture(params=["drop", "503"])
def unreliable(app: httpx.Client, request: pytest.FixtureRequest) -> Iterator[Unreliable]:
    app.post("/v1/bandits", json={"name": "b", "dim": 2})
    proxy = Unreliable(app, request.param)
    yield proxy
    proxy.close()


def test_a_retry_neither_decides_nor_rewards_twice(unreliable: Unreliable, app: httpx.Client) -> None:
    with Client(unreliable.url, backoff=0.01) as client:
        decision = client.decide("b", ARMS)
        assert decision.repeated  # the first attempt had been written
        client.reward("b", decision, 1.0)
    assert unreliable.seen[0] == unreliable.seen[1]
    counts = app.get("/v1/bandits/b/statistics").json()
    assert (counts["decisions"], counts["rewards"]) == (1, 1)


def test_an_async_retry_does_not_either(unreliable: Unreliable, app: httpx.Client) -> None:
    async def walk() -> None:
        async with AsyncClient(unreliable.url, backoff=0.01) as client:
            await client.reward("b", await client.decide("b", ARMS), 1.0)

    asyncio.run(walk())
    counts = app.get("/v1/bandits/b/statistics").json()
    assert (counts["decisions"], counts["rewards"]) == (1, 1)


def test_patience_ends(unreliable: Unreliable) -> None:
    with Client(unreliable.url, patience=0) as client, pytest.raises((ServiceError, httpx.TransportError)):
        client.decide("b", ARMS)
    assert len(unreliable.seen) == 1


def test_nothing_is_waited_for_where_the_address_is_wrong() -> None:
    with Client("127.0.0.1:8000") as client, pytest.raises(httpx.UnsupportedProtocol):
        client.bandits()


def test_pauses_grow_up_to_two_seconds_and_heed_the_service() -> None:
    with Client("http://127.0.0.1:9", patience=1e9) as client:
        attempts = _Attempts(client)
        lost = [attempts.pause(httpx.ConnectError("refused")) for _ in range(2000)]
        assert 0 < max(lost[:3]) <= 0.4
        assert 1.9 < max(lost) <= 2.0
        busy = [_Attempts(client).pause(httpx.Response(503, headers={"Retry-After": "7"})) for _ in range(50)]
        assert 7.0 <= min(busy) < max(busy) <= 7.1  # not all at once
        assert _Attempts(client).pause(httpx.Response(500)) is None


def test_a_client_outlasts_a_server_that_was_killed(
    sqlite: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    taken: list[str] = []
    stop = threading.Event()

    def visit(client: Client) -> None:
        while not stop.is_set():
            decision = client.decide("b", ARMS)
            client.reward("b", decision, 1.0)
            taken.append(decision.id)

    first = Running(sqlite, tmp_path, "--port", port)
    # a restart takes 5 s, and may take longer where other work is done
    with Client(first.url) as usual:
        assert usual.patience >= 30
    with Client(first.url, patience=300) as client, ThreadPoolExecutor(3) as visitors:
        client.create("b", 2)
        visits = [visitors.submit(visit, client) for _ in range(3)]
        try:
            while len(taken) < 10 and not any(one.done() for one in visits):
                time.sleep(0.01)
            first.end(signal.SIGKILL)
            before = len(taken)
            time.sleep(1)
            with Running(sqlite, tmp_path, "--port", port):
                while len(taken) < before + 10 and not any(one.done() for one in visits):
                    time.sleep(0.01)
                stop.set()
                for one in visits:
                    one.result()
                counts = client.statistics("b")
        finally:
            stop.set()
            first.end(signal.SIGKILL)
    assert len(set(taken)) == len(taken) == counts["decisions"] == counts["rewards"]
    assert "does not serve now" in caplog.text


def test_the_client_waits_for_reports_which_are_called_off_when_it_leaves(
    app: httpx.Client, tmp_path: Path
) -> None:
    create(app)
    with Client(str(app.base_url), timeout=0.2, patience=0) as client:
        client.export("b", tmp_path / "log.parquet")  # a process has to be started first
    assert (tmp_path / "log.parquet").read_bytes()[:4] == b"PAR1"


def test_an_empty_key_is_not_taken_for_none(app: httpx.Client) -> None:
    """A variable that was never set: with a key of the client's own, a retry would decide twice."""
    create(app)
    with Client(str(app.base_url)) as client, pytest.raises(ServiceError, match="key") as refused:
        client.decide("b", ARMS, key="")
    assert refused.value.status == 422
