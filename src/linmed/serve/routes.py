"""What the API does, one function for each request, and the table that says where each is reached.

A function takes the server, the parts of the path and the body, already read and checked, and returns what
is to be answered. None of them knows of HTTP but `log`, whose answer is a file, and `create_bandit`, which
has two ways to succeed.
"""

import asyncio
import json
import os
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from fastapi import Response
from fastapi.responses import FileResponse
from pydantic import BaseModel
from sqlalchemy.engine import Row
from starlette.background import BackgroundTask

from linmed.serve import bodies, store
from linmed.serve.answers import Json
from linmed.serve.decisions import view
from linmed.serve.engine import unknown_decision
from linmed.serve.errors import Refused
from linmed.serve.live_log import LiveSource, export
from linmed.serve.reports import overview
from linmed.serve.server import Server
from linmed.serve.tokens import Caller

PARQUET = "application/vnd.apache.parquet"


@dataclass(frozen=True)
class Route:
    """One request: where it is sent, which function grants it, and to whom."""

    method: str
    path: str
    grant: Callable[..., Awaitable[Any]]
    gives: Any = None
    """The model of the answer; None where it is a file."""
    takes: type[BaseModel] | None = None
    """The model of the body."""
    scope: str | None = None
    """What the caller's token must allow for this bandit; where it is None, `grant` judges the caller."""
    _: KW_ONLY
    status: int = 200
    also: dict[int | str, Any] = field(default_factory=dict)
    """Other good answers, for the OpenAPI document."""
    shown: bool = True
    """Whether the document has this request at all."""


def allow(caller: Caller, scope: str, bandit: str | None = None) -> None:
    """Refuse a caller whose token does not reach so far."""
    if not caller.may(scope, bandit):
        what = "" if bandit is None else f" for bandit {bandit!r}"
        raise Refused("forbidden", f"this token does not have the scope {scope!r}{what}")


# Bandits


async def create_bandit(server: Server, caller: Caller, new: bodies.NewBandit) -> Response:
    """Create a bandit. The same request again changes nothing."""
    allow(caller, "admin", new.name)
    created, row = await server.create(new)
    return Json(bandit_view(row), 201 if created else 200)


async def list_bandits(server: Server, caller: Caller) -> Any:
    """Every bandit this caller may read."""
    return [line for line in await server.reading(overview) if caller.may("read", line["name"])]


async def read_bandit(server: Server, name: str) -> Any:
    """One bandit."""
    return bandit_view(await server.reading(store.the_bandit, name))


async def change_bandit(server: Server, name: str, change: bodies.BanditChange) -> Any:
    """Change the policy (a new version over the same log), the catalogue, the range, or archive."""
    return bandit_view(await server.change(name, change))


async def archive_bandit(server: Server, name: str) -> Any:
    """Archive: no more decisions; the log stays, and late rewards are taken."""
    return bandit_view(await server.change(name, bodies.BanditChange(archived=True)))


def bandit_view(row: Row[Any]) -> dict[str, Any]:
    """A bandit as the API shows it."""
    return {
        "name": row.name,
        "dim": row.dim,
        "policy": json.loads(row.config),
        "policy_name": row.policy_name,
        "policy_version": row.version,
        **json.loads(row.settings),
        "archived": row.archived,
        "created": row.created,
    }


# Decisions and rewards


async def decide(server: Server, name: str, wanted: bodies.DecideRequest) -> Any:
    """Take one decision. It is in the log when this answers."""
    return (await server.decide(name, [wanted]))[0]


async def decide_batch(server: Server, name: str, wanted: bodies.DecideBatch) -> Any:
    """Take several decisions with the same state, all or none."""
    few("decisions", wanted.decisions, server)
    return {"decisions": await server.decide(name, wanted.decisions, "decisions[{}].")}


async def read_decision(server: Server, name: str, decision_id: str) -> Any:
    """One decision as the log has it."""
    bandit = await server.bandit(name)
    row = await server.reading(store.find_decision, bandit.id, decision_id)
    if row is None:
        raise unknown_decision(decision_id)
    more = ("reward", "time", "reward_time", "arm_count", "absorbed")
    return {**view(row._mapping), **{name: getattr(row, name) for name in more}}


async def reward(server: Server, name: str, given: bodies.RewardRequest) -> Any:
    """The reward of one decision: once for each; the same again is no harm, another is a 409."""
    return (await server.reward(name, [(given.decision_id, given.reward)]))[0]


async def reward_batch(server: Server, name: str, given: bodies.RewardBatch) -> Any:
    """Several rewards, all or none."""
    few("rewards", given.rewards, server)
    pairs = [(one.decision_id, one.reward) for one in given.rewards]
    return {"rewards": await server.reward(name, pairs, "rewards[{}].")}


def few(field: str, entries: Sequence[Any], server: Server) -> None:
    """Refuse a batch that is too long."""
    most = server.settings.max_batch
    if len(entries) > most:
        raise Refused("invalid", f"{field}: at most {most} in a batch, got {len(entries)}", field)


# Reports


async def statistics(server: Server, name: str) -> Any:
    """Counts, shares and curves."""
    return await asyncio.to_thread(server.reports.statistics, name)


async def state(server: Server, name: str) -> Any:
    """What this server has learned from the log so far."""
    bandit = await server.bandit(name)
    arrays = {key: array.tolist() for key, array in bandit.state.arrays().items()}
    counts = {"policy_version": bandit.version, "count": bandit.count, "seq": bandit.seq}
    return {**counts, "theta": arrays["theta"][0], "arrays": arrays}


async def log(server: Server, name: str) -> Response:
    """The whole log in the schema of `linmed.ope.DecisionLog`."""
    bandit = await server.bandit(name)
    handle, path = tempfile.mkstemp(suffix=".parquet")
    os.close(handle)
    try:
        count = await server.reading(lambda connection: export(LiveSource(connection, bandit), Path(path)))
    except BaseException:
        os.unlink(path)
        raise
    headers, later = {"x-decisions": str(count)}, BackgroundTask(os.unlink, path)
    return FileResponse(
        path, media_type=PARQUET, filename=f"{name}.parquet", headers=headers, background=later
    )


async def evaluate(server: Server, name: str, wanted: bodies.EvaluateRequest) -> Any:
    """What would other policies have earned? Off-policy estimates on the log as it is now."""
    return await asyncio.to_thread(server.reports.evaluate, name, wanted.model_dump())


async def estimates(server: Server, name: str) -> Any:
    """Uniform, greedy and the log's own value, for the page; at most a little old."""
    return await asyncio.to_thread(server.reports.estimates, name)


_EXISTS = {"model": bodies.BanditView, "description": "It exists with these settings"}
_FILE = {"content": {PARQUET: {}}, "description": "A Parquet file"}

PREFIX = "/v1/bandits"
BANDITS = (
    Route("POST", "", create_bandit, bodies.BanditView, bodies.NewBandit, status=201, also={200: _EXISTS}),
    Route("GET", "", list_bandits, list[bodies.BanditLine]),
    Route("GET", "/{name}", read_bandit, bodies.BanditView, None, "read"),
    Route("PATCH", "/{name}", change_bandit, bodies.BanditView, bodies.BanditChange, "admin"),
    Route("DELETE", "/{name}", archive_bandit, bodies.BanditView, None, "admin"),
)
DECISIONS = (
    Route("POST", "/{name}/decide", decide, bodies.DecisionView, bodies.DecideRequest, "decide"),
    Route(
        "POST", "/{name}/decide/batch", decide_batch, bodies.DecisionBatchView, bodies.DecideBatch, "decide"
    ),
    Route("GET", "/{name}/decisions/{decision_id}", read_decision, bodies.StoredDecision, None, "read"),
    Route("POST", "/{name}/reward", reward, bodies.RewardView, bodies.RewardRequest, "decide"),
    Route("POST", "/{name}/reward/batch", reward_batch, bodies.RewardBatchView, bodies.RewardBatch, "decide"),
)
REPORTS = (
    Route("GET", "/{name}/statistics", statistics, bodies.StatisticsView, None, "read"),
    Route("GET", "/{name}/state", state, bodies.StateView, None, "read"),
    Route("GET", "/{name}/log", log, None, None, "read", also={200: _FILE}),
    Route("POST", "/{name}/evaluate", evaluate, bodies.EvaluateView, bodies.EvaluateRequest, "read"),
    Route("GET", "/{name}/estimates", estimates, dict[str, Any], None, "read", shown=False),
)
