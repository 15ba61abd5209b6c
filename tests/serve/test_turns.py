"""What keeps requests out of each other's way, piece by piece, without HTTP."""

import asyncio
import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from linmed import streams
from linmed.policies import EXP2, LinMED, LinTS, Policy
from linmed.serve import api, schemas
from linmed.serve.bandit import Bandit
from linmed.serve.decisions import row
from linmed.serve.errors import Refused
from linmed.serve.items import Catalogue
from linmed.serve.scheduling import ROOM, Left, Pool, Scheduler, Shared, encoded, unless_left
from linmed.serve.schemas import TrendRequest
from linmed.serve.server import Server

from .serving import PATIENCE
from .test_routes import with_server

WORK = 4_000_000


def bandit_of(policy: Policy, arms: int = 300, dim: int = 6) -> Bandit:
    features = np.random.default_rng(3).normal(size=(arms, dim))
    catalogue = Catalogue.of(tuple(f"a{i}" for i in range(arms)), features, 1)
    bandit = Bandit(id=1, name="b", dim=dim, policy=policy, catalogue=catalogue)
    bandit.decider.draw_from(streams.bits(20, "agent"))
    return bandit


def drawing_of(monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    """Always with the same random numbers."""
    monkeypatch.setattr("linmed.serve.bandit.secure_bits", lambda: streams.bits(20, "agent"))

    def draw(
        bandit: Bandit, requests: Sequence[schemas.DecideRequest], where: Sequence[str]
    ) -> list[dict[str, Any]]:
        offers = [bandit.offer(None, None, None, 1000)] * len(requests)
        return [row(bandit, offers[0], one, "", None, None) for one in bandit.decide(offers)]

    return Scheduler(draw, WORK)


def told(rows: list[dict[str, Any]]) -> list[Any]:
    return [(row["arm"], row["log_probability"], row["kept"]) for row in rows]


@pytest.mark.parametrize("policy", [LinMED(), LinMED(design="warm"), EXP2(), LinTS()])
def test_a_long_request_is_drawn_as_it_would_be_at_once(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [schemas.DecideRequest()] * 40
    once = bandit_of(policy)
    rows = drawing_of(monkeypatch).now(once, requests, "")
    for pace in (1.0, 1e-9):  # in threads, and in the loop
        beside, drawing = bandit_of(policy), drawing_of(monkeypatch)
        beside.pace = pace
        assert told(asyncio.run(drawing.beside(beside, requests, ""))) == told(rows)
        for name, array in once.state.arrays().items():  # what a warm design notes, too
            assert np.array_equal(beside.state.arrays()[name], array)


def test_what_is_folded_meanwhile_stays_beside_what_decisions_note() -> None:
    bandit = bandit_of(LinMED(design="warm"))
    before, apart = bandit.state.copy(), bandit.apart()
    next(apart.decide([apart.offer(None, None, None, 1000)]))
    bandit.fold(np.eye(6), np.ones(6), np.zeros(6))
    bandit.take_notes(before, apart.state)
    assert (bandit.count, apart.count) == (6, 0)
    assert np.array_equal(bandit.state.support, apart.state.support)
    assert not np.array_equal(bandit.state.support, before.support)


def test_a_policy_that_is_slow_for_few_arms_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing, one = drawing_of(monkeypatch), [schemas.DecideRequest()]
    quick, slow = bandit_of(LinMED()), bandit_of(LinTS())
    for bandit in (quick, slow):
        for _ in range(10):
            drawing.now(bandit, one, "")
    work = drawing.work(quick, one)
    assert slow.pace > 10 * quick.pace
    assert not drawing.short(slow, one, work)
    assert drawing.short(quick, one, work)


def test_long_requests_are_refused_when_those_under_way_fill_the_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawing = drawing_of(monkeypatch)
    for _ in range(ROOM):
        drawing.hold(WORK)
    with pytest.raises(Refused) as refused:
        drawing.hold(1)
    assert (refused.value.kind, refused.value.retry_after) == ("overloaded", 1)
    drawing.release(WORK)
    drawing.hold(WORK)


def test_a_pool_refuses_what_exceeds_its_queue_and_never_begins_what_was_called_off() -> None:
    async def walk() -> None:
        pool, go, begun = Pool("tests", 1, 1), threading.Event(), list[int]()

        def work(number: int) -> int:
            begun.append(number)
            assert go.wait(300)
            return number

        first = asyncio.create_task(pool.run(work, 1))
        second = asyncio.create_task(pool.run(work, 2))
        await asyncio.sleep(0)
        with pytest.raises(Refused, match="2 requests that need tests are waiting already"):
            await pool.run(work, 3)
        second.cancel()
        await asyncio.wait({second})
        fourth = asyncio.create_task(pool.run(work, 4))
        await asyncio.sleep(0)
        go.set()
        assert (await first, await fourth, begun) == (1, 4, [1, 4])
        pool.stop(PATIENCE)

    asyncio.run(walk())


def test_what_several_wait_for_is_made_once_and_called_off_when_all_have_left() -> None:
    async def walk() -> None:
        shared, go, made = Shared(), asyncio.Event(), list[str]()

        async def make() -> str:
            made.append("begun")
            await go.wait()
            made.append("done")
            return "found"

        waiting = [asyncio.create_task(shared.get("page", make)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.wait({waiting[0]})
        go.set()
        assert await asyncio.gather(*waiting[1:]) == ["found", "found"]
        go.clear()
        alone = asyncio.create_task(shared.get("page", make))
        await asyncio.sleep(0)
        alone.cancel()
        await asyncio.wait({alone})
        go.set()
        assert await shared.get("page", make) == "found"
        assert made == ["begun", "done", "begun", "begun", "done"]

    asyncio.run(walk())


def test_work_is_called_off_when_its_caller_leaves() -> None:
    async def walk() -> None:
        called_off = asyncio.Event()

        async def work() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                called_off.set()

        messages = iter(["http.request", "http.disconnect"])

        async def receive() -> dict[str, str]:
            await asyncio.sleep(0)
            return {"type": next(messages)}

        with pytest.raises(Left):
            await unless_left(receive, work())
        assert called_off.is_set()

    asyncio.run(walk())


def test_pages_that_look_at_the_same_trend_cost_one_report(sqlite: str) -> None:
    async def walk(server: Server) -> None:
        asked = list[str]()

        async def ask(report: str, name: str, request: Any) -> tuple[dict[str, str], float]:
            asked.append(name)
            await asyncio.sleep(0.01)
            return {"of": name}, 0.01

        server.reporters.ask = ask  # type: ignore[method-assign, assignment]
        found = await asyncio.gather(*(api.trend(server, "b", TrendRequest()) for _ in range(5)))
        assert found == [{"of": "b"}] * 5
        assert await api.trend(server, "b", TrendRequest()) == {"of": "b"}  # a little old
        assert asked == ["b"]
        await api.trend(server, "b", TrendRequest(missing="skip"))  # another question
        assert asked == ["b", "b"]

    with_server(sqlite, walk)


def test_a_large_answer_is_encoded_while_others_are_served() -> None:
    async def walk() -> None:
        large = {"arrays": {"gram": np.random.default_rng(4).random((1, 300, 300))}, "none": [], "of": {}}
        large |= {
            "rows": [{"x": [1.0, float("nan")], "y": None}, {}],
            "text": 'é"',
            "empty": np.zeros((0, 2)),
        }
        encoding = asyncio.create_task(encoded(large))
        turns = 0
        while not encoding.done():
            await asyncio.sleep(0)
            turns += 1
        found = json.loads(await encoding)
        assert turns > 5
        assert found["rows"] == [{"x": [1.0, None], "y": None}, {}]
        assert found["arrays"] == {"gram": large["arrays"]["gram"].tolist()}  # type: ignore[call-overload]
        assert (found["none"], found["of"], found["text"], found["empty"]) == ([], {}, 'é"', [])

    asyncio.run(walk())


def test_nothing_shares_a_pool_with_everything_else(sqlite: str) -> None:
    class Nobodys(ThreadPoolExecutor):
        def submit(self, *args: Any, **kwargs: Any) -> Any:
            raise AssertionError("asyncio's own pool, which a caller could fill")

    async def walk(server: Server) -> None:
        asyncio.get_running_loop().set_default_executor(Nobodys(1))
        assert await server.status() in ("ready", "loading")
        await api.statistics(server, "b")
        await api.read_bandit(server, "b")
        await api.change_bandit(server, "b", schemas.BanditChange(policy={"policy": "Uniform"}))
        wanted = schemas.DecideBatch(decisions=[schemas.DecideRequest(arms=[[1.0, 0.0]])] * 2)
        await api.decide_batch(server, "b", wanted)

    with_server(sqlite, walk)
