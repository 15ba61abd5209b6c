"""What the API does, one function for each request, and the table that says where each is reached.

A function takes the server, the parts of the path and the body, already read and checked, and returns what
is to be answered. None of them knows of HTTP but `log`, whose answer is a file, and `create_bandit`, which
has two ways to succeed.
"""

import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, BinaryIO

from fastapi import Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from sqlalchemy.engine import Connection

from linmed.serve import bodies, reports, store
from linmed.serve.answers import Json
from linmed.serve.decisions import view
from linmed.serve.drifts import DriftView, drift
from linmed.serve.engine import unknown_decision
from linmed.serve.errors import Refused
from linmed.serve.items import page
from linmed.serve.outlook import context_size, mean_context, outlook, recent_arms
from linmed.serve.report_bodies import (
    EvaluateRequest,
    EvaluateView,
    OutlookView,
    StateView,
    StatisticsView,
    TrendRequest,
    TrendView,
)
from linmed.serve.server import Server
from linmed.serve.tokens import Caller
from linmed.serve.updates import bandit_view
from linmed.serve.verdicts import VerdictQuery, VerdictRequest, VerdictView, catalogue_verdict, given_verdict

PARQUET = "application/vnd.apache.parquet"
PIECE = 2**18
"""Bytes of a file that are sent at once."""


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
    asks: type[BaseModel] | None = None
    """The model of what may stand behind the question mark."""
    long: bool = False
    """Whether it may take long, and is therefore called off when the caller leaves."""


def allow(caller: Caller, scope: str, bandit: str | None = None) -> None:
    """Refuse a caller whose token does not reach so far."""
    if not caller.may(scope, bandit):
        what = "" if bandit is None else f" for bandit {bandit!r}"
        raise Refused("forbidden", f"this token does not have the scope {scope!r}{what}")


# Bandits


async def create_bandit(server: Server, caller: Caller, new: bodies.NewBandit) -> Response:
    """Create a bandit. The same request again changes nothing."""
    allow(caller, "admin", new.name)
    created, view = await server.bandits.create(new)
    return Json(view, 201 if created else 200)


async def list_bandits(server: Server, caller: Caller) -> Any:
    """Every bandit this caller may read."""
    return [line for line in await server.reading(reports.overview) if caller.may("read", line["name"])]


async def read_bandit(server: Server, name: str) -> Any:
    """One bandit."""
    return await server.reading(bandit_view, name)


async def change_bandit(server: Server, name: str, change: bodies.BanditChange) -> Any:
    """Change the policy (a new version over the same log), the catalogue, the range, or archive."""
    return await server.bandits.change(name, change)


async def archive_bandit(server: Server, name: str) -> Any:
    """Archive: no more decisions; the log stays, and late rewards are taken."""
    return await server.bandits.change(name, bodies.BanditChange(archived=True))


async def read_catalogue(server: Server, name: str, wanted: bodies.PageQuery) -> Any:
    """The items as they are now, in parts where they are many."""
    return await server.reading(catalogue_view, name, None, wanted)


async def read_version(server: Server, name: str, version: int, wanted: bodies.PageQuery) -> Any:
    """The items as a decision saw them: `catalogue_version` says in which version."""
    return await server.reading(catalogue_view, name, version, wanted)


async def put_items(server: Server, name: str, given: bodies.CatalogueBody) -> Any:
    """Add items, or change their features: what is not named stays. Gives the next version.

    A large catalogue comes in parts, each of which costs what it has, not what the catalogue has.
    """
    return await server.bandits.change_items(name, given)


async def put_item(server: Server, name: str, item_id: str, given: bodies.ItemBody) -> Any:
    """Add one item, or change its features."""
    return await server.bandits.change_items(
        name, bodies.CatalogueBody(ids=[item_id], features=[given.features])
    )


async def delete_item(server: Server, name: str, item_id: str) -> Any:
    """Remove an item: it is played no more, and its late rewards are taken."""
    return await server.bandits.remove_item(name, item_id)


async def remove_items(server: Server, name: str, given: bodies.ItemIds) -> Any:
    """Remove items, all or none: they are played no more, and their late rewards are taken.

    Items that were removed before are passed over, so the same request again changes nothing.
    """
    return await server.bandits.remove_items(name, given.ids)


def catalogue_view(
    connection: Connection, name: str, version: int | None, wanted: bodies.PageQuery
) -> dict[str, Any]:
    """A part of a version of a catalogue, or of the present one, as the API shows it."""
    row = store.the_bandit(connection, name)
    if row.catalogue is None:
        raise Refused("unknown", f"bandit {name!r} has no catalogue")
    if version is not None and version > row.catalogue:
        text = f"version: the catalogue of bandit {name!r} is at version {row.catalogue}"
        raise Refused("unknown", text, "version")
    version = version or row.catalogue
    return {"version": version, **page(connection, row.id, version, wanted.limit, wanted.after)._asdict()}


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
    return await server.reading(reports.statistics, name)


async def state(server: Server, name: str) -> Any:
    """What this server has learned from the log so far."""
    bandit = await server.bandit(name)
    arrays = {key: array.copy() for key, array in bandit.state.arrays().items()}
    counts = {"policy_version": bandit.version, "count": bandit.count, "seq": bandit.seq}
    return {**counts, "theta": bandit.state.theta[0].copy(), "arrays": arrays}


async def log(server: Server, name: str) -> Response:
    """The whole log in the schema of `linmed.ope.DecisionLog`."""
    handle, path = tempfile.mkstemp(suffix=".parquet")
    os.close(handle)
    try:
        count, _ = await server.reporters.ask("export", name=name, path=path)
    except BaseException:
        os.unlink(path)
        raise
    file = open(path, "rb")  # noqa: SIM115  (closed by whoever reads it)
    os.unlink(path)  # nothing is left behind, whatever becomes of the answer
    headers = {
        "x-decisions": str(count),
        "content-length": str(os.fstat(file.fileno()).st_size),
        "content-disposition": f'attachment; filename="{name}.parquet"',
    }
    return StreamingResponse(pieces(file), media_type=PARQUET, headers=headers)


async def pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    """A file bit by bit."""
    with file:
        while piece := file.read(PIECE):
            yield piece


async def evaluate(server: Server, name: str, wanted: EvaluateRequest) -> Any:
    """What would other policies have earned? Off-policy estimates on the log as it is now."""
    found, _ = await server.reporters.ask("evaluate", name=name, request=wanted.model_dump())
    return found


async def trend(server: Server, name: str, wanted: TrendRequest) -> Any:
    """Which policy is better, how sure that is, and whether the log is sound; at most a little old."""
    return await server.trend(name, wanted.model_dump())


async def arms(server: Server, name: str) -> Any:
    """The catalogue with every arm's estimate and interval, and how often each was played lately."""
    bandit = await server.bandit(name)
    state = bandit.state.copy()  # as it is now; the work is done beside the event loop

    def look(connection: Connection) -> dict[str, Any]:
        needed = bandit.catalogue is not None and context_size(bandit) > 0
        context = mean_context(connection, bandit) if needed else None
        return outlook(bandit, state, context, recent_arms(connection, bandit.id))

    return await server.reading(look)


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
CATALOGUE = (
    Route(
        "GET",
        "/{name}/catalogue",
        read_catalogue,
        bodies.CatalogueView,
        None,
        "read",
        asks=bodies.PageQuery,
        long=True,
    ),
    Route(
        "GET",
        "/{name}/catalogue/{version}",
        read_version,
        bodies.CatalogueView,
        None,
        "read",
        asks=bodies.PageQuery,
        long=True,
    ),
    Route("PUT", "/{name}/items", put_items, bodies.VersionView, bodies.CatalogueBody, "admin"),
    Route("POST", "/{name}/items/remove", remove_items, bodies.VersionView, bodies.ItemIds, "admin"),
    Route("PUT", "/{name}/items/{item_id:path}", put_item, bodies.VersionView, bodies.ItemBody, "admin"),
    Route("DELETE", "/{name}/items/{item_id:path}", delete_item, bodies.VersionView, None, "admin"),
)
DECISIONS = (
    Route("POST", "/{name}/decide", decide, bodies.DecisionView, bodies.DecideRequest, "decide"),
    Route(
        "POST",
        "/{name}/decide/batch",
        decide_batch,
        bodies.DecisionBatchView,
        bodies.DecideBatch,
        "decide",
        long=True,
    ),
    Route("GET", "/{name}/decisions/{decision_id}", read_decision, bodies.StoredDecision, None, "read"),
    Route("POST", "/{name}/reward", reward, bodies.RewardView, bodies.RewardRequest, "decide"),
    Route("POST", "/{name}/reward/batch", reward_batch, bodies.RewardBatchView, bodies.RewardBatch, "decide"),
)
REPORTS = (
    Route("GET", "/{name}/statistics", statistics, StatisticsView, None, "read", long=True),
    Route("GET", "/{name}/state", state, StateView, None, "read", long=True),
    Route("GET", "/{name}/log", log, None, None, "read", also={200: _FILE}, long=True),
    Route(
        "POST",
        "/{name}/evaluate",
        evaluate,
        EvaluateView,
        EvaluateRequest,
        "read",
        long=True,
    ),
    Route("POST", "/{name}/trend", trend, TrendView, TrendRequest, "read", long=True),
    Route("GET", "/{name}/arms", arms, OutlookView, None, "read", long=True),
    Route(
        "GET",
        "/{name}/verdict",
        catalogue_verdict,
        VerdictView,
        None,
        "read",
        asks=VerdictQuery,
        long=True,
    ),
    Route("GET", "/{name}/drift", drift, DriftView, None, "read"),
    Route("POST", "/{name}/verdict", given_verdict, VerdictView, VerdictRequest, "read", long=True),
)
