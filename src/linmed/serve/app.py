"""The application: the routes over a server, behind the gate, with their OpenAPI document."""

import contextlib
import functools
import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import TypeAdapter
from pydantic.json_schema import models_json_schema
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

import linmed
from linmed.insight.drift import drift_of
from linmed.policies import Forgetful
from linmed.serve import bodies
from linmed.serve.answers import Json, body_of, checked, failed, http_error, read, refused, without_database
from linmed.serve.assets import PAGE
from linmed.serve.database import Database
from linmed.serve.errors import Refused
from linmed.serve.gate import TAKE_BODIES, Gate
from linmed.serve.large import read_large
from linmed.serve.leaving import Left, unless_left
from linmed.serve.quick import Quick
from linmed.serve.routes import BANDITS, CATALOGUE, DECISIONS, PREFIX, REPORTS, Route, allow
from linmed.serve.schemas import library, reference
from linmed.serve.server import Server
from linmed.serve.settings import Settings
from linmed.serve.turns import encoded

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": bodies.ErrorView, "description": text}
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
    "name": TypeAdapter(bodies.BanditName),
    "decision_id": TypeAdapter(bodies.DecisionId),
    "item_id": TypeAdapter(bodies.ArmId),
    "version": TypeAdapter(bodies.CatalogueNumber),
}
"""What may stand in a path."""
TYPED = (
    ("NewBandit", "policy", "Policy"),
    ("NewBandit", "features", "Features"),
    ("BanditChange", "policy", "Policy"),
    ("TrainedTarget", "policy", "Policy"),
)
"""Fields of bodies that are described by a schema of the library's classes (`schemas.library`)."""
TAGS = {"decisions": DECISIONS, "bandits": BANDITS, "catalogues": CATALOGUE, "reports": REPORTS}

Endpoint = Callable[[Request], Awaitable[Response]]


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
    complete_document(app)
    gate = Gate(app, settings, server.tokens, server.metrics)
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


def add_operation(app: FastAPI, server: Server) -> None:
    """Health, metrics and the page."""

    def page(content: bytes, kind: str) -> Endpoint:
        async def show(request: Request) -> Response:
            return Response(content, media_type=kind)

        return show

    looked_at = functools.partial(app.api_route, methods=["GET", "HEAD"], include_in_schema=False)
    for path, (content, kind) in PAGE.items():
        looked_at(path)(page(content, kind))

    @looked_at("/healthz")
    async def healthz(request: Request) -> Response:
        """The process answers."""
        return Json({"status": "ok"})

    @looked_at("/readyz")
    async def readyz(request: Request) -> Response:
        """Whether decisions of every bandit can be taken."""
        status = await server.status()
        body: dict[str, Any] = {"status": status}
        if broken := sorted(server.memory.broken):
            body["broken"] = len(broken) if len(server.tokens) else broken  # anyone may ask this
        return Json(body, 200 if status == "ready" else 503)

    @looked_at("/v1/status")
    async def status(request: Request) -> Response:
        """The same for the page, always with status 200."""
        return Json({"status": await server.status()})

    @looked_at("/metrics")
    async def metrics(request: Request) -> Response:
        """For Prometheus."""
        allow(request.scope["caller"], "read")
        server.metrics.waiting.set(server.engine.waiting)
        server.metrics.reports.set(server.reporters.waiting)
        server.metrics.broken.set(len(server.memory.broken))
        for bandit in list(server.memory.by_name.values()):
            server.metrics.known(bandit.name)
            if isinstance(bandit.policy, Forgetful):
                server.metrics.drifted(bandit.name, drift_of(bandit.policy, bandit.state))
        return Response(server.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def type_field(described: dict[str, Any], name: str) -> None:
    """Have an object without fields, or none, be what `schemas.library` has under a name."""
    for schema in (described, *described.get("anyOf", ())):
        if schema.pop("additionalProperties", False) and schema.pop("type", None):
            schema |= reference(name)


def complete_document(app: FastAPI) -> None:
    """Add to the OpenAPI document the bodies that `read` reads and how tokens are sent."""
    plain = app.openapi
    taken = [route.takes for routes in TAGS.values() for route in routes if route.takes is not None]

    def documented() -> dict[str, Any]:
        document = plain()
        schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
        schemes["token"] = {"type": "http", "scheme": "bearer"}
        _, given = models_json_schema(
            [(model, "validation") for model in taken], ref_template="#/components/schemas/{model}"
        )
        schemas = document["components"].setdefault("schemas", {})
        schemas.update(given["$defs"], **library())
        for model, field, name in TYPED:
            type_field(schemas[model]["properties"][field], name)
        document["security"] = [{"token": []}, {}]
        return document

    app.openapi = documented  # type: ignore[method-assign]
