"""Serve the page, health and metrics."""

from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from linmed.insight.drift import drift_of
from linmed.serve.middleware import Json, allow
from linmed.serve.server import Server

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


def add_operation(router: Any, server: Server) -> None:
    """Add the page, health and metrics to the router."""

    def page(content: bytes, kind: str) -> Endpoint:
        async def show(request: Request) -> Response:
            return Response(content, media_type=kind)

        return show

    for path, (content, kind) in PAGE.items():
        router.add(path, "GET", page(content, kind))

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
