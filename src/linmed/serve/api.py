"""The application: the routes over a server, behind the gate, with their OpenAPI document."""

import contextlib
import inspect
import logging
import os
import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, BinaryIO, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, TypeAdapter
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

import linmed
from linmed.serve import reports, schemas, store
from linmed.serve.concurrency import Left, encoded, unless_left
from linmed.serve.database import Database
from linmed.serve.decisions import view
from linmed.serve.drifts import DriftView, drift
from linmed.serve.engine import unknown_decision
from linmed.serve.errors import Refused
from linmed.serve.fast_path import Quick
from linmed.serve.items import page
from linmed.serve.middleware import TAKE_BODIES, Gate, Json, allow, error_response, in_trouble, refusal
from linmed.serve.openapi import complete_document
from linmed.serve.outlook import context_size, mean_context, outlook, recent_arms
from linmed.serve.pages import OPEN, Endpoint, add_operation
from linmed.serve.parsing import body_of, checked, read, read_large
from linmed.serve.report_bodies import (
    EvaluateRequest,
    EvaluateView,
    OutlookView,
    StateView,
    StatisticsView,
    TrendRequest,
    TrendView,
)
from linmed.serve.schemas import PREFIX
from linmed.serve.server import Server
from linmed.serve.settings import Settings
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


# Bandits


async def create_bandit(server: Server, caller: Caller, new: schemas.NewBandit) -> Response:
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


async def change_bandit(server: Server, name: str, change: schemas.BanditChange) -> Any:
    """Change the policy (a new version over the same log), the catalogue, the range, or archive."""
    return await server.bandits.change(name, change)


async def archive_bandit(server: Server, name: str) -> Any:
    """Archive: no more decisions; the log stays, and late rewards are taken."""
    return await server.bandits.change(name, schemas.BanditChange(archived=True))


async def read_catalogue(server: Server, name: str, wanted: schemas.PageQuery) -> Any:
    """The items as they are now, in parts where they are many."""
    return await server.reading(catalogue_view, name, None, wanted)


async def read_version(server: Server, name: str, version: int, wanted: schemas.PageQuery) -> Any:
    """The items as a decision saw them: `catalogue_version` says in which version."""
    return await server.reading(catalogue_view, name, version, wanted)


async def put_items(server: Server, name: str, given: schemas.CatalogueBody) -> Any:
    """Add items, or change their features: what is not named stays. Gives the next version.

    A large catalogue comes in parts, each of which costs what it has, not what the catalogue has.
    """
    return await server.bandits.change_items(name, given)


async def put_item(server: Server, name: str, item_id: str, given: schemas.ItemBody) -> Any:
    """Add one item, or change its features."""
    return await server.bandits.change_items(
        name, schemas.CatalogueBody(ids=[item_id], features=[given.features])
    )


async def delete_item(server: Server, name: str, item_id: str) -> Any:
    """Remove an item: it is played no more, and its late rewards are taken."""
    return await server.bandits.remove_item(name, item_id)


async def remove_items(server: Server, name: str, given: schemas.ItemIds) -> Any:
    """Remove items, all or none: they are played no more, and their late rewards are taken.

    Items that were removed before are passed over, so the same request again changes nothing.
    """
    return await server.bandits.remove_items(name, given.ids)


def catalogue_view(
    connection: Connection, name: str, version: int | None, wanted: schemas.PageQuery
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


async def decide(server: Server, name: str, wanted: schemas.DecideRequest) -> Any:
    """Take one decision. It is in the log when this answers."""
    return (await server.decide(name, [wanted]))[0]


async def decide_batch(server: Server, name: str, wanted: schemas.DecideBatch) -> Any:
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


async def reward(server: Server, name: str, given: schemas.RewardRequest) -> Any:
    """The reward of one decision: once for each; the same again is no harm, another is a 409."""
    return (await server.reward(name, [(given.decision_id, given.reward)]))[0]


async def reward_batch(server: Server, name: str, given: schemas.RewardBatch) -> Any:
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


_EXISTS = {"model": schemas.BanditView, "description": "It exists with these settings"}
_FILE = {"content": {PARQUET: {}}, "description": "A Parquet file"}

BANDITS = (
    Route("POST", "", create_bandit, schemas.BanditView, schemas.NewBandit, status=201, also={200: _EXISTS}),
    Route("GET", "", list_bandits, list[schemas.BanditLine]),
    Route("GET", "/{name}", read_bandit, schemas.BanditView, None, "read"),
    Route("PATCH", "/{name}", change_bandit, schemas.BanditView, schemas.BanditChange, "admin"),
    Route("DELETE", "/{name}", archive_bandit, schemas.BanditView, None, "admin"),
)
CATALOGUE = (
    Route(
        "GET",
        "/{name}/catalogue",
        read_catalogue,
        schemas.CatalogueView,
        None,
        "read",
        asks=schemas.PageQuery,
        long=True,
    ),
    Route(
        "GET",
        "/{name}/catalogue/{version}",
        read_version,
        schemas.CatalogueView,
        None,
        "read",
        asks=schemas.PageQuery,
        long=True,
    ),
    Route("PUT", "/{name}/items", put_items, schemas.VersionView, schemas.CatalogueBody, "admin"),
    Route("POST", "/{name}/items/remove", remove_items, schemas.VersionView, schemas.ItemIds, "admin"),
    Route("PUT", "/{name}/items/{item_id:path}", put_item, schemas.VersionView, schemas.ItemBody, "admin"),
    Route("DELETE", "/{name}/items/{item_id:path}", delete_item, schemas.VersionView, None, "admin"),
)
DECISIONS = (
    Route("POST", "/{name}/decide", decide, schemas.DecisionView, schemas.DecideRequest, "decide"),
    Route(
        "POST",
        "/{name}/decide/batch",
        decide_batch,
        schemas.DecisionBatchView,
        schemas.DecideBatch,
        "decide",
        long=True,
    ),
    Route("GET", "/{name}/decisions/{decision_id}", read_decision, schemas.StoredDecision, None, "read"),
    Route("POST", "/{name}/reward", reward, schemas.RewardView, schemas.RewardRequest, "decide"),
    Route(
        "POST", "/{name}/reward/batch", reward_batch, schemas.RewardBatchView, schemas.RewardBatch, "decide"
    ),
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


logger = logging.getLogger("linmed.serve")

Body = TypeVar("Body", bound=BaseModel)


async def refused(request: Request, error: Exception) -> Response:
    """What a route refuses."""
    assert isinstance(error, Refused)
    return refusal(error)


async def http_error(request: Request, error: Exception) -> Response:
    """What Starlette itself refuses: unknown paths and methods."""
    assert isinstance(error, HTTPException)
    return error_response(error.status_code, str(error.detail), None, dict(error.headers or {}))


async def without_database(request: Request, error: Exception) -> Response:
    """What the database fails; where it is not in trouble, the mistake is ours."""
    refused = in_trouble(error)
    if refused is None:
        raise error
    return refusal(refused)


async def failed(request: Request, error: Exception) -> Response:
    """Nothing of the inside; the gate logs the error."""
    return refusal(Refused("failed", "internal error"))


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.ErrorView, "description": text}
    for status, text in {
        400: "Not JSON",
        401: "No valid token",
        403: "The token does not allow this",
        404: "No such bandit or decision",
        409: "Contradicts what is in the log",
        413: "Too large",
        415: "Not application/json",
        422: "A field is wrong: the message names it",
        429: "Too much at once: see Retry-After",
        503: "Not now: see Retry-After",
    }.items()
}
PATH: dict[str, TypeAdapter[Any]] = {
    "name": TypeAdapter(schemas.BanditName),
    "decision_id": TypeAdapter(schemas.DecisionId),
    "item_id": TypeAdapter(schemas.ArmId),
    "version": TypeAdapter(schemas.CatalogueNumber),
}
"""What may stand in a path."""
TAGS = {"decisions": DECISIONS, "bandits": BANDITS, "catalogues": CATALOGUE, "reports": REPORTS}


def create_app(settings: Settings, database: Database) -> Gate:
    """The application over an opened database."""
    server = Server(settings, database)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with server.running():
            yield

    app = FastAPI(
        title="linmed",
        summary="Decisions with exact probabilities, rewards whenever they come, evaluation on the live log.",
        version=linmed.__version__,
        openapi_url="/v1/openapi.json",
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # it would send callers, with their tokens, to http:// and any Host
        lifespan=lifespan,
    )
    for tag, routes in TAGS.items():
        for route in routes:
            add(app, tag, route, endpoint(server, route))
    add_operation(app, server)
    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(SQLAlchemyError, without_database)
    app.add_exception_handler(Exception, failed)
    complete_document(app, [route.takes for routes in TAGS.values() for route in routes if route.takes])
    gate = Gate(app, settings, server.tokens, server.metrics, OPEN)
    gate.quick = Quick(server, gate)
    return gate


def endpoint(server: Server, route: Route) -> Endpoint:
    """A request read and checked, granted by the route's function, and answered as JSON."""

    async def answer(request: Request) -> Response:
        caller = request.scope["caller"]
        if route.asks is None:
            take_no_query(request)
        given: list[Any] = [checked(key, text, PATH[key]) for key, text in request.path_params.items()]
        if route.scope is None:
            given.append(caller)
        else:
            allow(caller, route.scope, given[0])
        if route.asks is not None:
            given.append(checked("query", dict(request.query_params), TypeAdapter(route.asks)))
        if route.takes is not None:
            body = await body_of(request)
            large = await read_large(body, route.takes, server.scheduler.threads)
            given.append(large or read(body, route.takes))
        work = route.grant(server, *given)
        try:
            found = await (unless_left(request.receive, work) if route.long else work)
        except Left:
            return Response(status_code=499)  # for the metrics: nobody reads it
        except Refused as error:
            if error.kind == "overloaded":
                server.metrics.refused.labels("load").inc()
            raise
        if isinstance(found, Response):
            return found
        return Response(await encoded(found), media_type=Json.media_type) if route.long else Json(found)

    return answer


def take_no_query(request: Request) -> None:
    """A parameter that nothing reads is a mistake, as an unknown field of a body is."""
    for name in request.query_params:
        known = (
            "its path and its body say it all" if request.method in TAKE_BODIES else "its path says it all"
        )
        text = f"query parameter {name[:100]!r} is unknown: {request.method} takes none here, {known}"
        raise Refused("invalid", text, name[:100])


def add(app: FastAPI, tag: str, route: Route, answer: Endpoint) -> None:
    """Tell FastAPI, which finds and documents the route."""
    extra: dict[str, Any] = {
        "parameters": [
            {"name": key, "in": "path", "required": True, "schema": kind.json_schema()}
            for key, kind in PATH.items()
            if re.search(rf"{{{key}\b", route.path)
        ]
    }
    if route.asks is not None:
        asked = route.asks.model_json_schema()["properties"]
        extra["parameters"] += [{"name": key, "in": "query", "schema": kind} for key, kind in asked.items()]
    if route.takes is not None:
        schema = {"$ref": f"#/components/schemas/{route.takes.__name__}"}
        extra["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    app.add_api_route(
        PREFIX + route.path,
        answer,
        methods=[route.method],
        name=route.grant.__name__,
        operation_id=route.grant.__name__,
        description=inspect.getdoc(route.grant),
        response_model=route.gives,
        response_class=Response if route.gives is None else JSONResponse,
        status_code=route.status,
        responses={**ERRORS, **route.also},
        tags=[tag],
        openapi_extra=extra,
        include_in_schema=route.shown,
    )
    if route.method == "GET":
        answer_head(app, PREFIX + route.path, answer)


def answer_head(app: FastAPI, path: str, answer: Endpoint) -> None:
    """HEAD as GET, but for the content, which the web server leaves out."""
    app.add_api_route(path, answer, methods=["HEAD"], include_in_schema=False)
