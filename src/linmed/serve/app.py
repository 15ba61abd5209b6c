"""The application: the routes over a server, behind the gate, with their OpenAPI document."""

import contextlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

import linmed
from linmed.serve import bodies
from linmed.serve.answers import Json, checked, failed, http_error, read, refused
from linmed.serve.database import Database
from linmed.serve.errors import Refused
from linmed.serve.gate import Gate, Receive, Scope, Send
from linmed.serve.routes import BANDITS, DECISIONS, PREFIX, REPORTS, Route, allow
from linmed.serve.server import Server
from linmed.serve.settings import Settings

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
PATH = {"name": TypeAdapter(bodies.BanditName), "decision_id": TypeAdapter(bodies.DecisionId)}
"""What may stand in a path."""
PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/favicon.svg": ("favicon.svg", "image/svg+xml"),
}

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
        lifespan=lifespan,
    )
    for tag, routes in {"decisions": DECISIONS, "bandits": BANDITS, "reports": REPORTS}.items():
        for route in routes:
            add(app, tag, route, endpoint(server, route))
    add_operation(app, server)
    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(Exception, failed)
    complete_document(app)
    return Gate(Shortcut(app, "decide", "reward"), settings, server.tokens, server.metrics)


def endpoint(server: Server, route: Route) -> Endpoint:
    """A request read and checked, granted by the route's function, and answered as JSON."""

    async def answer(request: Request) -> Response:
        caller = request.scope["caller"]
        given: list[Any] = [checked(key, text, PATH[key]) for key, text in request.path_params.items()]
        if route.scope is None:
            given.append(caller)
        else:
            allow(caller, route.scope, given[0])
        if route.takes is not None:
            given.append(await read(request, route.takes))
        found = await route.grant(server, *given)
        return found if isinstance(found, Response) else Json(found)

    return answer


def add(app: FastAPI, tag: str, route: Route, answer: Endpoint) -> None:
    """Tell FastAPI, which finds and documents the route."""
    extra: dict[str, Any] = {
        "parameters": [
            {"name": key, "in": "path", "required": True, "schema": kind.json_schema()}
            for key, kind in PATH.items()
            if f"{{{key}}}" in route.path
        ]
    }
    if route.takes is not None:
        schema = {"$ref": f"#/components/schemas/{route.takes.__name__}"}
        extra["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    app.add_api_route(
        PREFIX + route.path,
        answer,
        methods=[route.method],
        name=route.grant.__name__,
        description=inspect.getdoc(route.grant),
        response_model=route.gives,
        response_class=Response if route.gives is None else JSONResponse,
        status_code=route.status,
        responses={**ERRORS, **route.also},
        tags=[tag],
        openapi_extra=extra,
        include_in_schema=route.shown,
    )


def add_operation(app: FastAPI, server: Server) -> None:
    """Health, metrics and the page."""

    def page(content: bytes, kind: str) -> Endpoint:
        async def show(request: Request) -> Response:
            return Response(content, media_type=kind)

        return show

    for path, (file, kind) in PAGE.items():
        content = files("linmed.serve").joinpath("page", file).read_bytes()
        app.get(path, include_in_schema=False)(page(content, kind))

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> Response:
        """The process answers."""
        return Json({"status": "ok"})

    @app.get("/readyz", include_in_schema=False)
    async def readyz() -> Response:
        """Whether decisions of every bandit can be taken."""
        status = await server.status()
        return Json({"status": status}, 200 if status == "ready" else 503)

    @app.get("/metrics", include_in_schema=False)
    async def metrics(request: Request) -> Response:
        """For Prometheus."""
        allow(request.scope["caller"], "read")
        return Response(server.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def complete_document(app: FastAPI) -> None:
    """Add to the OpenAPI document the bodies that `read` reads and how tokens are sent."""
    plain = app.openapi
    taken = [route.takes for route in (*BANDITS, *DECISIONS, *REPORTS) if route.takes is not None]

    def documented() -> dict[str, Any]:
        document = plain()
        schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
        schemes["token"] = {"type": "http", "scheme": "bearer"}
        _, given = models_json_schema(
            [(model, "validation") for model in taken], ref_template="#/components/schemas/{model}"
        )
        document["components"].setdefault("schemas", {}).update(given["$defs"])
        document["security"] = [{"token": []}, {}]
        return document

    app.openapi = documented  # type: ignore[method-assign]


class Shortcut:
    """ASGI: `POST /v1/bandits/{name}/LAST`, the requests that come most, straight to their endpoints.

    FastAPI would solve dependencies that they do not have, and that costs more than the decision.
    """

    def __init__(self, app: FastAPI, *last: str):
        self.app = app
        paths = {f"{PREFIX}/{{name}}/{one}": one for one in last}
        found = [route for route in app.routes if isinstance(route, APIRoute) and route.path in paths]
        self.routes = {paths[route.path]: route for route in found}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The short way, or whatever FastAPI makes of it."""
        if scope["type"] == "http" and scope["method"] == "POST":
            start, _, last = scope["path"].rpartition("/")
            route = self.routes.get(last)
            name = start.removeprefix(f"{PREFIX}/")
            if route is not None and name != start and "/" not in name:
                scope["route"], scope["path_params"] = route, {"name": name}
                response = await route.endpoint(Request(scope, receive))
                await response(scope, receive, send)
                return
        await self.app(scope, receive, send)
