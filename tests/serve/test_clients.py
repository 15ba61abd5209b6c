"""The Python clients: the same answers, and retries that do no harm."""

import asyncio
import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from linmed.ope import DecisionLog
from linmed.serve.client import AsyncClient, Client, ServiceError

from .serving import ARMS


def test_the_client_does_everything_the_api_does(app: httpx.Client, tmp_path: Path) -> None:
    with Client(str(app.base_url)) as client:
        client.create("b", 2, {"policy": "LinMED"}, catalogue={"x": [1, 0], "y": [0, 1]}, reward_range=(0, 1))
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
        found = client.evaluate(
            "b", ["logged"], ["ipw"], "asymptotic", 0.9, (0, 2), missing="skip", drift=False
        )
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
        assert client.bandit("b")["policy"]["policy"] == "Uniform"
        with pytest.raises(ServiceError, match=r"409: .*reward"):
            client.reward("b", one, 0.0)


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


def test_attempts_end(unreliable: Unreliable) -> None:
    with Client(unreliable.url, attempts=1) as client, pytest.raises((ServiceError, httpx.TransportError)):
        client.decide("b", ARMS)
