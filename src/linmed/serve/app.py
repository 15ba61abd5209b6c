"""The routes."""

import asyncio
import contextlib
import json
import math
import os
import tempfile
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException as StarletteHTTPException

import linmed
from linmed.serve import models, store
from linmed.serve.answers import Invalid, Json, failed, http_error, invalid, read, refused
from linmed.serve.database import Database
from linmed.serve.drawing import view
from linmed.serve.engine import Refused
from linmed.serve.gate import Gate
from linmed.serve.live_log import LiveSource, export
from linmed.serve.reports import overview
from linmed.serve.server import Server
from linmed.serve.settings import Settings
from linmed.serve.shortcut import Shortcut

Name = Annotated[
    str,
    Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=64, examples=["colours"], description="Bandit."),
]
Identifier = Annotated[
    str, Path(pattern=r"^[^\x00]+$", max_length=64, examples=["18b0f0e7c2a4d1f06b1d9a64c3e2f801"])
]
PARQUET = "application/vnd.apache.parquet"
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


_BODIES = (
    models.NewBandit,
    models.BanditChange,
    models.DecideRequest,
    models.DecideBatch,
    models.RewardRequest,
    models.RewardBatch,
    models.EvaluateRequest,
)


def takes(model: type[BaseModel]) -> dict[str, Any]:
    """The OpenAPI entry of a route that reads this body."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


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
    decision_routes(app, server)
    bandit_routes(app, server)
    report_routes(app, server)
    operation_routes(app, server)
    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(Invalid, invalid)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(StarletteHTTPException, http_error)
    app.add_exception_handler(Exception, failed)
    _complete_document(app)
    return Gate(Shortcut(app, "decide", "reward"), settings, server.tokens, server.metrics)


def allow(request: Request, scope: str, bandit: str | None = None) -> None:
    """Refuse a caller whose token does not reach so far."""
    caller = request.scope["caller"]
    if not caller.may(scope, bandit):
        what = "" if bandit is None else f" for bandit {bandit!r}"
        raise Refused(403, f"this token does not have the scope {scope!r}{what}")


def bandit_routes(app: FastAPI, server: Server) -> None:
    """Bandits: create, read, change, archive."""
    shared: dict[str, Any] = {"tags": ["bandits"], "responses": ERRORS}

    @app.post(
        "/v1/bandits",
        response_model=models.BanditView,
        status_code=201,
        openapi_extra=takes(models.NewBandit),
        tags=["bandits"],
        responses={
            **ERRORS,
            200: {"model": models.BanditView, "description": "It exists with these settings"},
        },
    )
    async def create_bandit(request: Request) -> Response:
        """Create a bandit. The same request again changes nothing."""
        new = await read(request, models.NewBandit)
        allow(request, "admin", new.name)
        created, row = await server.create(new)
        return Json(_view(row), 201 if created else 200)

    @app.get("/v1/bandits", response_model=list[models.BanditLine], **shared)
    async def list_bandits(request: Request) -> Response:
        """Every bandit this caller may read."""

        def find() -> list[dict[str, Any]]:
            with server.database.reader.begin() as connection:
                return overview(connection)

        caller = request.scope["caller"]
        return Json([line for line in await asyncio.to_thread(find) if caller.may("read", line["name"])])

    @app.get("/v1/bandits/{name}", response_model=models.BanditView, **shared)
    async def read_bandit(name: Name, request: Request) -> Response:
        """One bandit."""
        allow(request, "read", name)

        def find() -> Any:
            with server.database.reader.begin() as connection:
                return store.find_bandit(connection, name)

        return Json(_view(_found(await asyncio.to_thread(find), name)))

    @app.patch(
        "/v1/bandits/{name}",
        response_model=models.BanditView,
        openapi_extra=takes(models.BanditChange),
        **shared,
    )
    async def change_bandit(name: Name, request: Request) -> Response:
        """Change the policy (a new version over the same log), the catalogue, the range, or archive."""
        allow(request, "admin", name)
        change = await read(request, models.BanditChange)
        return Json(_view(await server.change(name, change)))

    @app.delete("/v1/bandits/{name}", response_model=models.BanditView, **shared)
    async def archive_bandit(name: Name, request: Request) -> Response:
        """Archive: no more decisions; the log stays, and late rewards are taken."""
        allow(request, "admin", name)
        return Json(_view(await server.change(name, models.BanditChange(archived=True))))


def decision_routes(app: FastAPI, server: Server) -> None:
    """Decide and reward."""
    shared: dict[str, Any] = {"tags": ["decisions"], "responses": ERRORS}
    longest = server.settings.max_batch

    @app.post(
        "/v1/bandits/{name}/decide",
        response_model=models.DecisionView,
        openapi_extra=takes(models.DecideRequest),
        **shared,
    )
    async def decide(name: Name, request: Request) -> Response:
        """Take one decision. It is in the log when this answers."""
        allow(request, "decide", name)
        wanted = await read(request, models.DecideRequest)
        bandit = await server.bandit(name)
        return Json((await server.decide([server.draw(bandit, wanted)]))[0])

    @app.post(
        "/v1/bandits/{name}/decide/batch",
        response_model=models.DecisionBatchView,
        openapi_extra=takes(models.DecideBatch),
        **shared,
    )
    async def decide_batch(name: Name, request: Request) -> Response:
        """Take several decisions with the same state, all or none."""
        allow(request, "decide", name)
        wanted = await read(request, models.DecideBatch)
        if len(wanted.decisions) > longest:
            raise Refused(422, f"decisions: at most {longest} in a batch, got {len(wanted.decisions)}")
        bandit = await server.bandit(name)
        rows = [server.draw(bandit, one, f"decisions[{i}].") for i, one in enumerate(wanted.decisions)]
        return Json({"decisions": await server.decide(rows)})

    @app.get("/v1/bandits/{name}/decisions/{decision_id}", response_model=models.StoredDecision, **shared)
    async def read_decision(name: Name, decision_id: Identifier, request: Request) -> Response:
        """One decision as the log has it."""
        allow(request, "read", name)
        bandit = await server.bandit(name)

        def find() -> Any:
            with server.database.reader.begin() as connection:
                return store.find_decision(connection, bandit.id, decision_id)

        row = await asyncio.to_thread(find)
        if row is None:
            raise Refused(404, f"decision_id {decision_id!r} is no decision of this bandit")
        more = ("reward", "time", "reward_time", "arm_count", "absorbed")
        return Json({**view(row._mapping), **{name: getattr(row, name) for name in more}})

    @app.post(
        "/v1/bandits/{name}/reward",
        response_model=models.RewardView,
        openapi_extra=takes(models.RewardRequest),
        **shared,
    )
    async def reward(name: Name, request: Request) -> Response:
        """The reward of one decision: once for each; the same again is no harm, another is a 409."""
        allow(request, "decide", name)
        given = await read(request, models.RewardRequest)
        bandit = await server.bandit(name)
        return Json((await server.reward(bandit, [(given.decision_id, given.reward)]))[0])

    @app.post(
        "/v1/bandits/{name}/reward/batch",
        response_model=models.RewardBatchView,
        openapi_extra=takes(models.RewardBatch),
        **shared,
    )
    async def reward_batch(name: Name, request: Request) -> Response:
        """Several rewards, all or none."""
        allow(request, "decide", name)
        given = await read(request, models.RewardBatch)
        if len(given.rewards) > longest:
            raise Refused(422, f"rewards: at most {longest} in a batch, got {len(given.rewards)}")
        bandit = await server.bandit(name)
        pairs = [(one.decision_id, one.reward) for one in given.rewards]
        return Json({"rewards": await server.reward(bandit, pairs)})


def report_routes(app: FastAPI, server: Server) -> None:
    """Statistics, the log, and evaluation on it."""
    shared: dict[str, Any] = {"tags": ["reports"], "responses": ERRORS}

    @app.get("/v1/bandits/{name}/statistics", response_model=models.StatisticsView, **shared)
    async def statistics(name: Name, request: Request) -> Response:
        """Counts, shares and curves."""
        allow(request, "read", name)
        return Json(_found(await asyncio.to_thread(server.reports.statistics, name), name))

    @app.get("/v1/bandits/{name}/state", response_model=models.StateView, **shared)
    async def state(name: Name, request: Request) -> Response:
        """What this server has learned from the log so far."""
        allow(request, "read", name)
        bandit = await server.bandit(name)
        arrays = {key: _jsonable(array.tolist()) for key, array in bandit.state.arrays().items()}
        return Json(
            {
                "policy_version": bandit.version,
                "count": bandit.count,
                "seq": bandit.seq,
                "theta": arrays["theta"][0],
                "arrays": arrays,
            }
        )

    @app.get(
        "/v1/bandits/{name}/log",
        response_class=FileResponse,
        tags=["reports"],
        responses={**ERRORS, 200: {"content": {PARQUET: {}}, "description": "A Parquet file"}},
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
            media_type=PARQUET,
            filename=f"{name}.parquet",
            headers={"x-decisions": str(count)},
            background=BackgroundTask(os.unlink, path),
        )

    @app.post(
        "/v1/bandits/{name}/evaluate",
        response_model=models.EvaluateView,
        openapi_extra=takes(models.EvaluateRequest),
        **shared,
    )
    async def evaluate(name: Name, request: Request) -> Response:
        """What would other policies have earned? Off-policy estimates on the log as it is now."""
        allow(request, "read", name)
        wanted = await read(request, models.EvaluateRequest)
        try:
            found = await asyncio.to_thread(server.reports.evaluate, name, wanted.model_dump())
        except (ValueError, TypeError, ArithmeticError) as error:
            raise Refused(422, str(error)) from None
        return Json(_found(found, name))

    @app.get("/v1/bandits/{name}/estimates", include_in_schema=False)
    async def estimates(name: Name, request: Request) -> Response:
        """Uniform, greedy and the log's own value, for the page; at most a little old."""
        allow(request, "read", name)
        return Json(_found(await asyncio.to_thread(server.reports.estimates, name), name))


def operation_routes(app: FastAPI, server: Server) -> None:
    """Health, metrics and the page."""
    pages = files("linmed.serve").joinpath("page")

    def static(path: str, file: str, kind: str) -> None:
        content = pages.joinpath(file).read_bytes()

        @app.get(path, include_in_schema=False)
        async def page() -> Response:
            return Response(content, media_type=kind)

    static("/", "index.html", "text/html; charset=utf-8")
    static("/page.js", "page.js", "text/javascript; charset=utf-8")
    static("/favicon.svg", "favicon.svg", "image/svg+xml")
    static("/page.css", "page.css", "text/css; charset=utf-8")

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> Response:
        """The process answers."""
        return Json({"status": "ok"})

    @app.get("/readyz", include_in_schema=False)
    async def readyz() -> Response:
        """Decisions can be taken: bandits are loaded, the engine runs, the database answers."""
        ready = server.ready and server.engine.alive and await asyncio.to_thread(server.check_database)
        return Json({"status": "ready" if ready else "not ready"}, 200 if ready else 503)

    @app.get("/metrics", include_in_schema=False)
    async def metrics(request: Request) -> Response:
        """For Prometheus."""
        allow(request, "read")
        return Response(server.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _found(value: Any, name: str) -> Any:
    if value is None:
        raise Refused(404, f"there is no bandit {name!r}")
    return value


def _jsonable(value: Any) -> Any:
    """JSON has no NaN and no infinities."""
    if isinstance(value, list):
        return [_jsonable(one) for one in value]
    return value if not isinstance(value, float) or math.isfinite(value) else None


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


def _complete_document(app: FastAPI) -> None:
    """Add to the OpenAPI document the bodies that `read` reads and how tokens are sent."""
    plain = app.openapi

    def documented() -> dict[str, Any]:
        document = plain()
        schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
        schemes["token"] = {"type": "http", "scheme": "bearer"}
        _, given = models_json_schema(
            [(model, "validation") for model in _BODIES], ref_template="#/components/schemas/{model}"
        )
        document["components"].setdefault("schemas", {}).update(given["$defs"])
        document["security"] = [{"token": []}, {}]
        return document

    app.openapi = documented  # type: ignore[method-assign]
