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
from linmed.serve.errors import Kind, place
from linmed.serve.items import Catalogue
from linmed.serve.middleware import STATUS, Caller
from linmed.serve.server import Server
from linmed.serve.settings import Settings

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
