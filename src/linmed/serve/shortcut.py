"""A short way for the requests that come most."""

from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from linmed.serve.answers import Invalid, http_error, invalid, refused
from linmed.serve.engine import Refused
from linmed.serve.gate import Receive, Scope, Send


class Shortcut:
    """ASGI: the requests that come most go straight to their handlers.

    FastAPI's own routes, which document them, would solve dependencies that they do not have, and that costs
    more than the decision. The handlers read and check everything themselves.
    """

    def __init__(self, app: FastAPI, *last: str):
        self.app = app
        self.routes = {
            path: route
            for path in last
            for route in app.routes
            if isinstance(route, APIRoute) and route.path == f"/v1/bandits/{{name}}/{path}"
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`POST /v1/bandits/{name}/LAST`, or whatever FastAPI makes of it."""
        if scope["type"] == "http" and scope["method"] == "POST":
            start, _, last = scope["path"].rpartition("/")
            route = self.routes.get(last)
            name = start.removeprefix("/v1/bandits/")
            if route is not None and name != start and "/" not in name:
                scope["route"] = route
                request = Request(scope, receive)
                try:
                    response = await route.endpoint(name, request)
                except Refused as error:
                    response = await refused(request, error)
                except Invalid as error:
                    response = await invalid(request, error)
                except HTTPException as error:
                    response = await http_error(request, error)
                await response(scope, receive, send)
                return
        await self.app(scope, receive, send)
