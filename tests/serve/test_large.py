"""Bodies with many arms are read in another way, and understood alike."""

import asyncio
import json
from typing import Any

import httpx
import numpy as np
import pytest

from linmed.serve.concurrency import Pool
from linmed.serve.parsing import LARGE, read_large
from linmed.serve.schemas import DecideBatch, DecideRequest

from .serving import PATIENCE, Running, create


def complaint(answer: httpx.Response) -> Any:
    """But for the place of a syntax error, which moves with the length."""
    error = answer.json()["error"]
    return error["field"], error["message"].partition(" at line")[0]


@pytest.mark.parametrize(
    "body",
    [
        '{"arms": [[1, 0.5], [2e0, -3]], "key": "k"}',
        '{"arms": [[1, 0], [0, 1]], "arm_ids": ["x", "y"], "key": null}',
        '{"arms": [[1, 0], [0, 1]], "arm_ids": ["x"]}',
        '{"arms": [[1, NaN]]}',
        '{"arms": [[1, null]]}',
        '{"arms": [[1, "2"]]}',
        '{"arms": [[1, 2], [1]]}',
        '{"arms": [[1, 2, 3]]}',
        '{"arms": [[]]}',
        '{"arms": []}',
        '{"arms": [[1, 2]], "key": 5}',
        '{"arms": [[1, 2]], "key": "\\u0000"}',
        '{"arms": [[1, 2]], "context": [null]}',
        '{"arms": [[1, 2]], "more": 1}',
        '{"arms": [[1e13, 2]]}',
        '{"arms": [[1, 2]]',
        '{"arms": [[1, 2]]} {"arms": [[1, 2]]}',
        "[" * 100_000,
        "{}",
    ],
)
@pytest.mark.parametrize("batch", [False, True])
def test_a_large_body_is_understood_as_a_small_one_is(running: Running, body: str, batch: bool) -> None:
    path = "/v1/bandits/large/decide" + ("/batch" if batch else "")
    body = f'{{"decisions": [{body}, {body.replace("k", "l")}]}}' if batch else body
    kind = {"Content-Type": "application/json"}
    with running.client() as client:
        if client.get("/v1/bandits/large").status_code == 404:
            create(client, "large")
        small, large = (client.post(path, content=body + space, headers=kind) for space in ("", " " * LARGE))
    assert small.status_code == large.status_code
    if small.status_code != 200:
        assert complaint(small) == complaint(large)


def test_many_arms_are_read_exactly_and_into_one_array() -> None:
    arms = np.random.default_rng(6).normal(size=(200, 64))
    body = json.dumps({"arms": arms.tolist(), "key": "k"}).encode()
    batch = json.dumps({"decisions": [{"arms": arms[:2].tolist()}, {"arms": arms[2:].tolist()}]}).encode()
    threads = Pool("tests", 1, 1)

    async def walk() -> None:
        one = await read_large(body, DecideRequest, threads)
        two = await read_large(batch, DecideBatch, threads)
        assert one is not None
        assert two is not None
        assert one.key == "k"
        assert np.array_equal(np.asarray(one.arms), arms)
        assert [len(np.asarray(each.arms)) for each in two.decisions] == [2, 198]
        assert isinstance(two.decisions[1].arms, np.ndarray)
        assert await read_large(b"{}", DecideRequest, threads) is None  # small

    asyncio.run(walk())
    threads.stop(PATIENCE)
