"""The functions behind the routes, without HTTP, and how their refusals become statuses."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, get_args

import numpy as np
import pytest

from linmed.policies import LinMED
from linmed.serve import api, schemas
from linmed.serve.bandit import Bandit
from linmed.serve.database import Database
from linmed.serve.errors import Kind, Refused, place
from linmed.serve.items import Catalogue
from linmed.serve.middleware import STATUS, Caller
from linmed.serve.server import Server
from linmed.serve.settings import Settings

from .serving import ARMS

ADMIN, READER = Caller("a", frozenset({"admin"})), Caller("r", frozenset({"read"}), "b")


def with_server(url: str, walk: Callable[[Server], Awaitable[None]]) -> None:
    """Run `walk` on a server with one bandit called b, and no HTTP."""

    async def run() -> None:
        database = Database(url)
        database.open()
        server = Server(Settings(database=url, max_batch=2), database)
        async with server.running():
            await api.create_bandit(server, ADMIN, schemas.NewBandit(name="b", dim=2))
            await walk(server)

    asyncio.run(run())


async def refused(request: Awaitable[Any]) -> tuple[Kind, str | None]:
    with pytest.raises(Refused) as refusal:
        await request
    return refusal.value.kind, refusal.value.field


def test_a_route_is_a_function_of_the_server_and_its_request(sqlite: str) -> None:
    async def walk(server: Server) -> None:
        decision = await api.decide(server, "b", schemas.DecideRequest(arms=ARMS))
        given = schemas.RewardRequest(decision_id=decision["decision_id"], reward=1.0)
        assert not (await api.reward(server, "b", given))["repeated"]
        assert (await api.state(server, "b"))["count"] == 1
        stored = await api.read_decision(server, "b", decision["decision_id"])
        assert stored == {**decision, **{name: stored[name] for name in stored if name not in decision}}
        assert [line["name"] for line in await api.list_bandits(server, READER)] == ["b"]
        assert await api.list_bandits(server, Caller("s", frozenset({"read"}), "other")) == []

    with_server(sqlite, walk)


def test_a_refusal_says_its_kind_and_its_field_and_no_status(sqlite: str) -> None:
    async def walk(server: Server) -> None:
        wanted = schemas.DecideRequest(arms=[[1.0]])
        batch = schemas.DecideBatch(decisions=[wanted] * 3)
        new = schemas.NewBandit(name="c", dim=2)
        assert await refused(api.decide(server, "b", wanted)) == ("invalid", "arms")
        assert await refused(api.decide(server, "c", wanted)) == ("unknown", None)
        assert await refused(api.decide_batch(server, "b", batch)) == ("invalid", "decisions")
        assert await refused(api.read_decision(server, "b", "x")) == ("unknown", "decision_id")
        assert await refused(api.create_bandit(server, READER, new)) == ("forbidden", None)
        await api.archive_bandit(server, "b")
        assert await refused(api.decide(server, "b", wanted)) == ("conflict", None)

    with_server(sqlite, walk)


def test_every_kind_of_refusal_has_its_status() -> None:
    assert set(STATUS) == set(get_args(Kind))
    assert len(set(STATUS.values())) == len(STATUS)


def test_a_place_in_a_request_is_written_as_in_its_json() -> None:
    assert place("decisions", 3, "arms", 0, 1) == "decisions[3].arms[0][1]"
    assert place() == ""


@pytest.mark.parametrize(("map", "dim", "context"), [("plain", 3, [2.0]), ("outer", 4, [2.0, 3.0])])
@pytest.mark.parametrize("ids", [None, ["y"]])
def test_arms_of_the_catalogue_reach_the_kernels_in_their_one_form(
    map: Any, dim: int, context: list[float], ids: list[str] | None
) -> None:
    features = np.broadcast_to([0.6, 0.8], (2, 2))  # read-only, and not contiguous
    catalogue = Catalogue.of(("x", "y"), features)
    bandit = Bandit(id=1, name="b", dim=dim, policy=LinMED(), map=map, catalogue=catalogue)
    flags = bandit.offer(None, ids, context, 10).vectors.flags
    assert flags.c_contiguous
    assert flags.writeable
    assert flags.aligned
