"""Grant every request of the API: one function for each, with the route that leads to it.

A function takes the server, the parts of the path and the body, already read and checked, and returns what
is to be answered. None of them knows of HTTP but `log`, whose answer is a file, and `create_bandit`, which
has two ways to succeed. `create_app` puts the routes behind the middleware.
"""

import contextlib
import functools
import json
import os
import re
import tempfile
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from importlib.resources import files
from typing import Any, BinaryIO, TypeVar

from pydantic import TypeAdapter
from pydantic_core import to_json
from sqlalchemy.engine import Connection
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from linmed.insight.drift import drift_of
from linmed.serve import reports, schemas, store
from linmed.serve.bandits import bandit_view
from linmed.serve.connections import WebServer
from linmed.serve.decisions import view
from linmed.serve.engine import unknown_decision
from linmed.serve.errors import Refused
from linmed.serve.fast_path import FastConnection
from linmed.serve.insights import (
    DriftView,
    VerdictQuery,
    VerdictRequest,
    VerdictView,
    catalogue_verdict,
    context_size,
    drift,
    given_verdict,
    mean_context,
    outlook,
    recent_arms,
)
from linmed.serve.items import page
from linmed.serve.middleware import (
    TAKE_BODIES,
    Caller,
    Json,
    Middleware,
    Receive,
    Scope,
    Send,
    allow,
    error_response,
)
from linmed.serve.openapi import PATH, Route, content, document
from linmed.serve.parsing import body_of, checked, read
from linmed.serve.scheduling import Left, encoded, unless_left
from linmed.serve.schemas import (
    PREFIX,
    EvaluateRequest,
    EvaluateView,
    OutlookView,
    StateView,
    StatisticsView,
    TrendRequest,
    TrendView,
)
from linmed.serve.server import Server

Grant = TypeVar("Grant", bound=Callable[..., Awaitable[Any]])

PARQUET = "application/vnd.apache.parquet"
LARGE = 64 * 1024
"""Bytes: smaller bodies are read faster than a thread wakes up."""
PIECE = 2**18
"""Bytes of a file that are sent at once."""


ROUTES: list[Route] = []
"""Every route; of those that match a path the first is taken."""


def route(tag: str, method: str, path: str, gives: Any = None, **more: Any) -> Callable[[Grant], Grant]:
    """Have a function grant the requests with this method and path; `more` are fields of `Route`."""

    def add(grant: Grant) -> Grant:
        ROUTES.append(Route(tag, method, path, grant, gives, **more))
        return grant

    return add


in_decisions = functools.partial(route, "decisions")
in_bandits = functools.partial(route, "bandits")
in_catalogues = functools.partial(route, "catalogues")
in_reports = functools.partial(route, "reports", scope="read")


# Decisions and rewards


@in_decisions("POST", "/{name}/decide", schemas.DecisionView, takes=schemas.DecideRequest, scope="decide")
async def decide(server: Server, name: str, wanted: schemas.DecideRequest) -> Any:
    """Take one decision. It is in the log when this answers."""
    return (await server.decide(name, [wanted]))[0]


@in_decisions(
    "POST",
    "/{name}/decide/batch",
    schemas.DecisionBatchView,
    takes=schemas.DecideBatch,
    scope="decide",
    long=True,
)
async def decide_batch(server: Server, name: str, wanted: schemas.DecideBatch) -> Any:
    """Take several decisions with the same state, all or none."""
    few("decisions", wanted.decisions, server)
    return {"decisions": await server.decide(name, wanted.decisions, "decisions[{}].")}


@in_decisions("GET", "/{name}/decisions/{decision_id}", schemas.StoredDecision, scope="read")
async def read_decision(server: Server, name: str, decision_id: str) -> Any:
    """Read one decision as the log has it."""
    bandit = await server.bandit(name)
    row = await server.reading(store.find_decision, bandit.id, decision_id)
    if row is None:
        raise unknown_decision(decision_id)
    more = ("time", "reward_time", "deadline", "arm_count", "absorbed")
    told = {
        "reward": row.assumed if bandit.ignores(row) else row.reward,
        "missing": row.assumed is not None,
        "outcomes": None if row.outcomes is None else json.loads(row.outcomes),
    }
    return {**view(row._mapping), **{name: getattr(row, name) for name in more}, **told}


@in_decisions("POST", "/{name}/reward", schemas.RewardView, takes=schemas.RewardRequest, scope="decide")
async def reward(server: Server, name: str, given: schemas.RewardRequest) -> Any:
    """Take the reward of one decision: once for each; the same again is no harm, another is a 409."""
    return (await server.reward(name, [given.given]))[0]


@in_decisions(
    "POST", "/{name}/reward/batch", schemas.RewardBatchView, takes=schemas.RewardBatch, scope="decide"
)
async def reward_batch(server: Server, name: str, given: schemas.RewardBatch) -> Any:
    """Take several rewards, all or none."""
    few("rewards", given.rewards, server)
    return {"rewards": await server.reward(name, [one.given for one in given.rewards], "rewards[{}].")}


def few(field: str, entries: Sequence[Any], server: Server) -> None:
    """Refuse a batch that is too long."""
    most = server.settings.max_batch
    if len(entries) > most:
        raise Refused("invalid", f"{field}: at most {most} in a batch, got {len(entries)}", field)


# Bandits


@in_bandits(
    "POST",
    "",
    schemas.BanditView,
    takes=schemas.NewBandit,
    status=201,
    also=content("It exists with these settings", schemas.BanditView),
)
async def create_bandit(server: Server, caller: Caller, new: schemas.NewBandit) -> Response:
    """Create a bandit. The same request again changes nothing."""
    allow(caller, "admin", new.name)
    created, view = await server.bandits.create(new)
    return Json(view, 201 if created else 200)


@in_bandits("GET", "", list[schemas.BanditLine])
async def list_bandits(server: Server, caller: Caller) -> Any:
    """List every bandit this caller may read."""
    return [line for line in await server.reading(reports.overview) if caller.may("read", line["name"])]


@in_bandits("GET", "/{name}", schemas.BanditView, scope="read")
async def read_bandit(server: Server, name: str) -> Any:
    """Describe one bandit."""
    return await server.reading(bandit_view, name)


@in_bandits("PATCH", "/{name}", schemas.BanditView, takes=schemas.BanditChange, scope="admin")
async def change_bandit(server: Server, name: str, change: schemas.BanditChange) -> Any:
    """Change the policy (a new version over the same log), the catalogue, the range, or archive."""
    return await server.bandits.change(name, change)


@in_bandits("DELETE", "/{name}", schemas.BanditView, scope="admin")
async def archive_bandit(server: Server, name: str) -> Any:
    """Archive: no more decisions; the log stays, and late rewards are taken."""
    return await server.bandits.change(name, schemas.BanditChange(archived=True))


# Catalogues


@in_catalogues(
    "GET", "/{name}/catalogue", schemas.CatalogueView, scope="read", asks=schemas.PageQuery, long=True
)
async def read_catalogue(server: Server, name: str, wanted: schemas.PageQuery) -> Any:
    """Read the items as they are now, in parts where they are many."""
    return await server.reading(catalogue_view, name, None, wanted)


@in_catalogues(
    "GET",
    "/{name}/catalogue/{version}",
    schemas.CatalogueView,
    scope="read",
    asks=schemas.PageQuery,
    long=True,
)
async def read_version(server: Server, name: str, version: int, wanted: schemas.PageQuery) -> Any:
    """Read the items as a decision saw them: `catalogue_version` says in which version."""
    return await server.reading(catalogue_view, name, version, wanted)


@in_catalogues("PUT", "/{name}/items", schemas.VersionView, takes=schemas.CatalogueBody, scope="admin")
async def put_items(server: Server, name: str, given: schemas.CatalogueBody) -> Any:
    """Add items, or change their features: what is not named stays. Gives the next version.

    A large catalogue comes in parts, each of which costs what it has, not what the catalogue has.
    """
    return await server.bandits.change_items(name, given)


@in_catalogues("POST", "/{name}/items/remove", schemas.VersionView, takes=schemas.ItemIds, scope="admin")
async def remove_items(server: Server, name: str, given: schemas.ItemIds) -> Any:
    """Remove items, all or none: they are played no more, and their late rewards are taken.

    Items that were removed before are passed over, so the same request again changes nothing.
    """
    return await server.bandits.remove_items(name, given.ids)


@in_catalogues(
    "PUT", "/{name}/items/{item_id:path}", schemas.VersionView, takes=schemas.ItemBody, scope="admin"
)
async def put_item(server: Server, name: str, item_id: str, given: schemas.ItemBody) -> Any:
    """Add one item, or change its features."""
    return await server.bandits.change_items(
        name, schemas.CatalogueBody(ids=[item_id], features=[given.features])
    )


@in_catalogues("DELETE", "/{name}/items/{item_id:path}", schemas.VersionView, scope="admin")
async def delete_item(server: Server, name: str, item_id: str) -> Any:
    """Remove an item: it is played no more, and its late rewards are taken."""
    return await server.bandits.remove_item(name, item_id)


def catalogue_view(
    connection: Connection, name: str, version: int | None, wanted: schemas.PageQuery
) -> dict[str, Any]:
    """Show a part of a version of a catalogue, or of the present one."""
    row = store.the_bandit(connection, name)
    if row.catalogue is None:
        raise Refused("unknown", f"bandit {name!r} has no catalogue")
    if version is not None and version > row.catalogue:
        text = f"version: the catalogue of bandit {name!r} is at version {row.catalogue}"
        raise Refused("unknown", text, "version")
    version = version or row.catalogue
    return {"version": version, **page(connection, row.id, version, wanted.limit, wanted.after)._asdict()}


# Reports


@in_reports("GET", "/{name}/statistics", StatisticsView, long=True)
async def statistics(server: Server, name: str) -> Any:
    """Give counts, shares and curves."""
    return await server.reading(reports.statistics, name)


@in_reports("GET", "/{name}/state", StateView, long=True)
async def state(server: Server, name: str) -> Any:
    """Give what this server has learned from the log so far."""
    bandit = await server.bandit(name)
    arrays = {key: array.copy() for key, array in bandit.arrays().items()}
    counts = {"policy_version": bandit.version, "count": bandit.count, "seq": bandit.seq}
    return {**counts, "theta": bandit.state.theta[0].copy(), "arrays": arrays}


@in_reports("GET", "/{name}/log", also={"content": {PARQUET: {}}, "description": "A Parquet file"}, long=True)
async def log(server: Server, name: str) -> Response:
    """Export the whole log in the schema of `linmed.ope.DecisionLog`."""
    handle, path = tempfile.mkstemp(suffix=".parquet")
    os.close(handle)
    try:
        count, _ = await server.reporters.ask("export", name=name, path=path)
    except BaseException:
        os.unlink(path)
        raise
    file = open(path, "rb")  # noqa: SIM115  (closed by `pieces`)
    os.unlink(path)  # nothing is left behind, whatever becomes of the answer
    headers = {
        "x-decisions": str(count),
        "content-length": str(os.fstat(file.fileno()).st_size),
        "content-disposition": f'attachment; filename="{name}.parquet"',
    }
    return StreamingResponse(pieces(file), media_type=PARQUET, headers=headers)


async def pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    """Read a file bit by bit."""
    with file:
        while piece := file.read(PIECE):
            yield piece


@in_reports("POST", "/{name}/evaluate", EvaluateView, takes=EvaluateRequest, long=True)
async def evaluate(server: Server, name: str, wanted: EvaluateRequest) -> Any:
    """Estimate what other policies would have earned, on the log as it is now."""
    found, _ = await server.reporters.ask("evaluate", name=name, request=wanted.model_dump())
    return found


@in_reports("POST", "/{name}/trend", TrendView, takes=TrendRequest, long=True)
async def trend(server: Server, name: str, wanted: TrendRequest) -> Any:
    """Say which policy is better, how sure that is, and whether the log is sound; at most a little old."""
    return await server.trend(name, wanted.model_dump())


@in_reports("GET", "/{name}/arms", OutlookView, long=True)
async def arms(server: Server, name: str) -> Any:
    """List the catalogue with every arm's estimate and interval, and how often each was played lately."""
    bandit = await server.bandit(name)
    state = bandit.state.copy()  # as it is now; the work is done beside the event loop

    def look(connection: Connection) -> dict[str, Any]:
        needed = bandit.catalogue is not None and context_size(bandit) > 0
        context = mean_context(connection, bandit) if needed else None
        return outlook(bandit, state, context, recent_arms(connection, bandit.id))

    return await server.reading(look)


in_reports("GET", "/{name}/verdict", VerdictView, asks=VerdictQuery, long=True)(catalogue_verdict)
in_reports("GET", "/{name}/drift", DriftView)(drift)
in_reports("POST", "/{name}/verdict", VerdictView, takes=VerdictRequest, long=True)(given_verdict)


# The page, health and metrics

_FOLDER = files("linmed.serve").joinpath("page")
_KINDS = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}


def _path(name: str) -> str:
    return "/" if name == "index.html" else f"/{name}"


PAGE = {
    _path(file.name): (file.read_bytes(), _KINDS[file.name.rpartition(".")[2]])
    for file in _FOLDER.iterdir()
    if file.name.rpartition(".")[2] in _KINDS
}
"""Path → content and its type."""


OPEN = frozenset({*PAGE, "/healthz", "/readyz", "/v1/openapi.json"})
"""Shows nothing of anyone's data."""

Endpoint = Callable[[Request], Awaitable[Response]]


def add_operation(router: "Router", server: Server) -> None:
    """Add the page, health and metrics to the router."""

    def page(content: bytes, kind: str) -> Endpoint:
        async def show(request: Request) -> Response:
            return Response(content, media_type=kind)

        return show

    for path, (file, kind) in PAGE.items():
        router.add(path, "GET", page(file, kind))

    async def healthz(request: Request) -> Response:
        """Say that the process answers."""
        return Json({"status": "ok"})

    async def readyz(request: Request) -> Response:
        """Say whether decisions of every bandit can be taken."""
        status = await server.status()
        body: dict[str, Any] = {"status": status}
        if broken := sorted(server.memory.broken):
            body["broken"] = len(broken) if len(server.tokens) else broken  # anyone may ask this
        return Json(body, 200 if status == "ready" else 503)

    async def status(request: Request) -> Response:
        """Say the same to the page, always with status 200."""
        return Json({"status": await server.status()})

    async def metrics(request: Request) -> Response:
        """Give the metrics to Prometheus."""
        allow(request.scope["caller"], "read")
        server.metrics.waiting.set(server.engine.waiting)
        server.metrics.reports.set(server.reporters.waiting)
        server.metrics.broken.set(len(server.memory.broken))
        for bandit in list(server.memory.by_name.values()):
            server.metrics.known(bandit.name)
            if bandit.policy.capabilities.drift:
                server.metrics.drifted(bandit.name, drift_of(bandit.policy, bandit.state))
        return Response(server.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    router.add("/healthz", "GET", healthz)
    router.add("/readyz", "GET", readyz)
    router.add("/v1/status", "GET", status)
    router.add("/metrics", "GET", metrics)


# The application


def web_server(server: Server) -> WebServer:
    """Make the web server of a server: the application, and the fast path beside it."""
    app = create_app(server)
    return WebServer(app, server.settings, functools.partial(FastConnection, app, server))


def create_app(server: Server) -> Middleware:
    """Make the application of a server."""
    router = Router(server.running)
    for each in ROUTES:
        router.add(PREFIX + each.path, each.method, endpoint(server, each))
    add_operation(router, server)

    @functools.cache
    def documented() -> bytes:
        return to_json(document(ROUTES))

    async def openapi(request: Request) -> Response:
        return Response(documented(), media_type=Json.media_type)

    router.add("/v1/openapi.json", "GET", openapi)
    return Middleware(router, server.settings, server.tokens, server.metrics, OPEN)


class Router:
    """Find the function that answers a path and a method; `lifespan` is entered while the server runs."""

    def __init__(self, lifespan: Callable[[], contextlib.AbstractAsyncContextManager[None]]):
        self._lifespan = lifespan
        self._table: dict[str, tuple[re.Pattern[str], dict[str, Endpoint]]] = {}

    def add(self, path: str, method: str, answer: Endpoint) -> None:
        """Have `answer` answer a path such as `/v1/bandits/{name}`; GET answers HEAD too."""
        form = re.sub(r"{(\w+):path}", r"(?P<\1>.*)", path)
        pattern = re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", form))
        _, methods = self._table.setdefault(path, (pattern, {}))
        for one in (method, "HEAD") if method == "GET" else (method,):
            methods[one] = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or run from the start of the web server to its end."""
        if scope["type"] == "lifespan":
            await self._run(receive, send)
            return
        allowed: set[str] = set()
        for path, (pattern, methods) in self._table.items():
            found = pattern.fullmatch(scope["path"])
            if found is None:
                continue
            scope["route"], scope["path_params"] = path, found.groupdict()
            if scope["method"] in methods:
                response = await methods[scope["method"]](Request(scope, receive, send))
                await response(scope, receive, send)
                return
            allowed |= set(methods)
        if not allowed:
            raise Refused("unknown", "Not Found")
        refused = error_response(405, "Method Not Allowed", None, {"Allow": ", ".join(sorted(allowed))})
        await refused(scope, receive, send)

    async def _run(self, receive: Receive, send: Send) -> None:
        await receive()  # that it starts
        state = "startup"
        try:
            async with self._lifespan():
                await send({"type": "lifespan.startup.complete"})
                state = "shutdown"
                await receive()  # that it ends
        except BaseException:
            await send({"type": f"lifespan.{state}.failed", "message": traceback.format_exc()})
            raise
        await send({"type": "lifespan.shutdown.complete"})


def endpoint(server: Server, route: Route) -> Endpoint:
    """Make the function that reads and checks a request, has it granted and answers it as JSON."""

    asked = None if route.asks is None else TypeAdapter(route.asks)

    async def answer(request: Request) -> Response:
        caller = request.scope["caller"]
        if asked is None:
            take_no_query(request)
        given: list[Any] = [checked(key, text, PATH[key]) for key, text in request.path_params.items()]
        if route.scope is None:
            given.append(caller)
        else:
            allow(caller, route.scope, given[0])
        if asked is not None:
            given.append(checked("query", dict(request.query_params), asked))
        if route.takes is not None:
            body = await body_of(request)
            large = len(body) >= LARGE
            made = await server.scheduler.threads.run(read, body, route.takes) if large else None
            given.append(made or read(body, route.takes))
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
    """Refuse a parameter that nothing reads, as an unknown field of a body is."""
    for name in request.query_params:
        known = (
            "its path and its body say it all" if request.method in TAKE_BODIES else "its path says it all"
        )
        text = f"query parameter {name[:100]!r} is unknown: {request.method} takes none here, {known}"
        raise Refused("invalid", text, name[:100])
