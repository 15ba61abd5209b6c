"""The routes."""

import asyncio
import contextlib
import json
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from importlib.resources import files
from pathlib import Path as FilePath
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, FastAPI, HTTPException, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse
from fastapi.routing import APIRoute
from pydantic_core import from_json, to_json
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException as StarletteHTTPException

import linmed
from linmed.serve import models, store
from linmed.serve.database import Database
from linmed.serve.engine import Call, Refused, answer
from linmed.serve.gate import Gate, error_body
from linmed.serve.live_log import LiveSource, export
from linmed.serve.reports import overview
from linmed.serve.server import Server
from linmed.serve.settings import Settings

Name = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=64, examples=["colours"], description="Bandit.")
]
Identifier = Annotated[str, Path(min_length=1, max_length=64, examples=["18b0f0e7c2a4d1f06b1d9a64c3e2f801"])]
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": models.ErrorView, "description": text}
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


class StrictRequest(Request):
    """Reads JSON without NaN, infinities or bottomless nesting."""

    async def json(self) -> Any:
        """The body, or 400."""
        try:
            return from_json(await self.body(), allow_inf_nan=False)
        except ValueError as error:
            raise HTTPException(400, f"body: not JSON ({error})") from None


class StrictRoute(APIRoute):
    """A route whose requests are strict."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's own, with another request."""
        handler = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handler(StrictRequest(request.scope, request.receive))

        return strict


class Json(Response):
    """An answer that is JSON already validated by its making."""

    media_type = "application/json"

    def __init__(self, content: Any, status_code: int = 200):
        super().__init__(to_json(content), status_code)


def create_app(settings: Settings, database: Database) -> FastAPI:
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
    app.include_router(bandit_routes(server), prefix="/v1")
    app.include_router(decision_routes(server), prefix="/v1")
    app.include_router(report_routes(server), prefix="/v1")
    app.include_router(operation_routes(server))
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(StarletteHTTPException, _http_error)
    app.add_middleware(Gate, settings=settings, tokens=server.tokens, metrics=server.metrics)
    app.state.server = server
    _document_tokens(app)
    return app


def allow(request: Request, scope: str, bandit: str | None = None) -> None:
    """Refuse a caller whose token does not reach so far."""
    caller = request.scope["caller"]
    if not caller.may(scope, bandit):
        what = "" if bandit is None else f" for bandit {bandit!r}"
        raise Refused(403, f"this token does not have the scope {scope!r}{what}")


def bandit_routes(server: Server) -> APIRouter:
    """Bandits: create, read, change, archive."""
    router = APIRouter(route_class=StrictRoute, tags=["bandits"], responses=ERRORS)

    @router.post(
        "/bandits",
        response_model=models.BanditView,
        status_code=201,
        responses={200: {"model": models.BanditView, "description": "It exists with these settings"}},
    )
    async def create_bandit(new: models.NewBandit, request: Request) -> Response:
        """Create a bandit. The same request again changes nothing."""
        allow(request, "admin", new.name)
        created, row = await server.create(new)
        return Json(_view(row), 201 if created else 200)

    @router.get("/bandits", response_model=list[models.BanditLine])
    async def list_bandits(request: Request) -> Response:
        """Every bandit this caller may read."""

        def read() -> list[dict[str, Any]]:
            with server.database.reader.begin() as connection:
                return overview(connection)

        caller = request.scope["caller"]
        return Json([line for line in await asyncio.to_thread(read) if caller.may("read", line["name"])])

    @router.get("/bandits/{name}", response_model=models.BanditView)
    async def read_bandit(name: Name, request: Request) -> Response:
        """One bandit."""
        allow(request, "read", name)

        def read() -> Any:
            with server.database.reader.begin() as connection:
                return store.find_bandit(connection, name)

        return Json(_view(_found(await asyncio.to_thread(read), name)))

    @router.patch("/bandits/{name}", response_model=models.BanditView)
    async def change_bandit(name: Name, change: models.BanditChange, request: Request) -> Response:
        """Change the policy (a new version over the same log), the catalogue, the range, or archive."""
        allow(request, "admin", name)
        return Json(_view(await server.change(name, change)))

    @router.delete("/bandits/{name}", response_model=models.BanditView)
    async def archive_bandit(name: Name, request: Request) -> Response:
        """Archive: no more decisions; the log stays, and late rewards are taken."""
        allow(request, "admin", name)
        return Json(_view(await server.change(name, models.BanditChange(archived=True))))

    return router


def decision_routes(server: Server) -> APIRouter:
    """Decide and reward."""
    router = APIRouter(route_class=StrictRoute, tags=["decisions"], responses=ERRORS)
    longest = server.settings.max_batch

    @router.post("/bandits/{name}/decide", response_model=models.DecisionView)
    async def decide(name: Name, wanted: models.DecideRequest, request: Request) -> Response:
        """Take one decision. It is in the log when this answers."""
        allow(request, "decide", name)
        bandit = await server.bandit(name)
        answers = await server.decide(bandit, [server.ask(bandit, wanted)])
        return Json(answers[0])

    @router.post("/bandits/{name}/decide/batch", response_model=models.DecisionBatchView)
    async def decide_batch(name: Name, wanted: models.DecideBatch, request: Request) -> Response:
        """Take several decisions with the same state, all or none."""
        allow(request, "decide", name)
        if len(wanted.decisions) > longest:
            raise Refused(422, f"decisions: at most {longest} in a batch, got {len(wanted.decisions)}")
        bandit = await server.bandit(name)
        asks = [server.ask(bandit, one, f"decisions[{i}].") for i, one in enumerate(wanted.decisions)]
        return Json({"decisions": await server.decide(bandit, asks)})

    @router.get("/bandits/{name}/decisions/{decision_id}", response_model=models.StoredDecision)
    async def read_decision(name: Name, decision_id: Identifier, request: Request) -> Response:
        """One decision as the log has it."""
        allow(request, "read", name)
        bandit = await server.bandit(name)

        def read() -> Any:
            with server.database.reader.begin() as connection:
                return store.find_decision(connection, bandit.id, decision_id)

        row = await asyncio.to_thread(read)
        if row is None:
            raise Refused(404, f"decision_id {decision_id!r} is no decision of this bandit")
        more = ("reward", "time", "reward_time", "arm_count", "absorbed")
        return Json({**answer(row._mapping, False), **{name: getattr(row, name) for name in more}})

    @router.post("/bandits/{name}/reward", response_model=models.RewardView)
    async def reward(name: Name, given: models.RewardRequest, request: Request) -> Response:
        """The reward of one decision: once for each; the same again is no harm, another is a 409."""
        allow(request, "decide", name)
        bandit = await server.bandit(name)
        return Json((await server.reward(bandit, [(given.decision_id, given.reward)]))[0])

    @router.post("/bandits/{name}/reward/batch", response_model=models.RewardBatchView)
    async def reward_batch(name: Name, given: models.RewardBatch, request: Request) -> Response:
        """Several rewards, all or none."""
        allow(request, "decide", name)
        if len(given.rewards) > longest:
            raise Refused(422, f"rewards: at most {longest} in a batch, got {len(given.rewards)}")
        bandit = await server.bandit(name)
        pairs = [(one.decision_id, one.reward) for one in given.rewards]
        return Json({"rewards": await server.reward(bandit, pairs)})

    return router


def report_routes(server: Server) -> APIRouter:
    """Statistics, the log, and evaluation on it."""
    router = APIRouter(route_class=StrictRoute, tags=["reports"], responses=ERRORS)

    @router.get("/bandits/{name}/statistics", response_model=models.StatisticsView)
    async def statistics(name: Name, request: Request) -> Response:
        """Counts, shares and curves."""
        allow(request, "read", name)
        return Json(_found(await asyncio.to_thread(server.reports.statistics, name), name))

    @router.get("/bandits/{name}/state", response_model=models.StateView)
    async def state(name: Name, request: Request) -> Response:
        """What this server has learned from the log so far."""
        allow(request, "read", name)
        bandit = await server.bandit(name)

        def read() -> dict[str, Any]:
            current = server.engine.bandits[bandit.id]
            arrays = {key: array.tolist() for key, array in current.state.arrays().items()}
            return {
                "policy_version": current.version,
                "count": current.count,
                "seq": current.seq,
                "theta": [value if np.isfinite(value) else None for value in current.state.theta[0].tolist()],
                "arrays": arrays,
            }

        call = Call(read)
        server.engine.submit(call)
        return Json(await asyncio.wrap_future(call.answer))

    @router.get(
        "/bandits/{name}/log",
        response_class=FileResponse,
        responses={200: {"content": {"application/vnd.apache.parquet": {}}, "description": "A Parquet file"}},
    )
    async def log(name: Name, request: Request) -> Response:
        """The whole log in the schema of `linmed.ope.DecisionLog`."""
        allow(request, "read", name)
        bandit = await server.bandit(name)
        handle, path = tempfile.mkstemp(suffix=".parquet")
        os.close(handle)

        def write() -> int:
            with server.database.reader.begin() as connection:
                return export(LiveSource(connection, bandit), FilePath(path))

        try:
            count = await asyncio.to_thread(write)
        except BaseException:
            os.unlink(path)
            raise
        return FileResponse(
            path,
            media_type="application/vnd.apache.parquet",
            filename=f"{name}.parquet",
            headers={"x-decisions": str(count)},
            background=BackgroundTask(os.unlink, path),
        )

    @router.post("/bandits/{name}/evaluate", response_model=models.EvaluateView)
    async def evaluate(name: Name, wanted: models.EvaluateRequest, request: Request) -> Response:
        """What would other policies have earned? Off-policy estimates on the log as it is now."""
        allow(request, "read", name)
        try:
            found = await asyncio.to_thread(server.reports.evaluate, name, wanted.model_dump())
        except (ValueError, TypeError, ArithmeticError) as error:
            raise Refused(422, str(error)) from None
        return Json(_found(found, name))

    @router.get("/bandits/{name}/estimates", include_in_schema=False)
    async def estimates(name: Name, request: Request) -> Response:
        """Uniform, greedy and the log's own value, for the page; at most a little old."""
        allow(request, "read", name)
        return Json(_found(await asyncio.to_thread(server.reports.estimates, name), name))

    return router


def operation_routes(server: Server) -> APIRouter:
    """Health, metrics and the page."""
    router = APIRouter(include_in_schema=False)
    pages = files("linmed.serve").joinpath("page")

    def static(path: str, file: str, kind: str) -> None:
        content = pages.joinpath(file).read_bytes()

        @router.get(path)
        async def page() -> Response:
            return Response(content, media_type=kind)

    static("/", "index.html", "text/html; charset=utf-8")
    static("/page.js", "page.js", "text/javascript; charset=utf-8")
    static("/page.css", "page.css", "text/css; charset=utf-8")

    @router.get("/healthz")
    async def healthz() -> Response:
        """The process answers."""
        return Json({"status": "ok"})

    @router.get("/readyz")
    async def readyz() -> Response:
        """Decisions can be taken: bandits are loaded, the engine runs, the database answers."""
        ready = server.ready and server.engine.alive and await asyncio.to_thread(server.check_database)
        return Json({"status": "ready" if ready else "not ready"}, 200 if ready else 503)

    @router.get("/metrics")
    async def metrics(request: Request) -> Response:
        """For Prometheus."""
        allow(request, "read")
        return Response(server.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router


def _found(value: Any, name: str) -> Any:
    if value is None:
        raise Refused(404, f"there is no bandit {name!r}")
    return value


def _view(row: Any) -> dict[str, Any]:
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


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    field = error.message.partition(":")[0].partition(" ")[0] if error.status == 422 else None
    body = error_body(error.status, error.message, field)
    headers = None if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    return Response(body, error.status, headers, "application/json")


async def _invalid(request: Request, error: Exception) -> Response:
    """The first field that is wrong, by its place in the request."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = first["loc"][1:] if len(first["loc"]) > 1 else first["loc"]
    field = ""
    for part in place:
        field += f"[{part}]" if isinstance(part, int) else f".{part}" if field else str(part)
    return Response(error_body(422, f"{field}: {first['msg']}", field), 422, media_type="application/json")


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    headers = dict(error.headers or {})
    return Response(
        error_body(error.status_code, str(error.detail)), error.status_code, headers, "application/json"
    )


def _document_tokens(app: FastAPI) -> None:
    """Say in the OpenAPI document how tokens are sent."""
    plain = app.openapi

    def documented() -> dict[str, Any]:
        document = plain()
        schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
        schemes["token"] = {"type": "http", "scheme": "bearer"}
        document["security"] = [{"token": []}, {}]
        return document

    app.openapi = documented  # type: ignore[method-assign]
