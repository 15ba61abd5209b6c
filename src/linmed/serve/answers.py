"""How bodies are read and answers written: one form for all, and errors that name the field."""

from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from linmed.serve.engine import Refused
from linmed.serve.gate import error_body

Body = TypeVar("Body", bound=BaseModel)


class Json(Response):
    """An answer that is JSON already validated by its making."""

    media_type = "application/json"

    def __init__(self, content: Any, status_code: int = 200):
        super().__init__(to_json(content), status_code)


class Invalid(Exception):
    """A field of the request that is wrong, by its place."""

    def __init__(self, place: tuple[int | str, ...], reason: str):
        super().__init__(reason)
        field = ""
        for part in place:
            field += f"[{part}]" if isinstance(part, int) else f".{part}" if field else part
        self.field, self.reason = field or "body", reason


async def read(request: Request, model: type[Body]) -> Body:
    """The body of a request. One pass over the bytes: checked while it is parsed, and never bottomless."""
    try:
        return model.model_validate_json(await request.body())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            raise Refused(400, f"body: {first['msg']}") from None
        raise Invalid(first["loc"], first["msg"]) from None


async def refused(request: Request, error: Exception) -> Response:
    """The reason; a 422 begins with the field."""
    assert isinstance(error, Refused)
    field = error.message.partition(":")[0].partition(" ")[0] if error.status == 422 else None
    body = error_body(error.status, error.message, field)
    headers = None if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    return Response(body, error.status, headers, "application/json")


async def invalid(request: Request, error: Exception) -> Response:
    """Name the field."""
    if isinstance(error, RequestValidationError):  # of the path
        first = error.errors()[0]
        error = Invalid(tuple(first["loc"][1:]), first["msg"])
    assert isinstance(error, Invalid)
    body = error_body(422, f"{error.field}: {error.reason}", error.field)
    return Response(body, 422, media_type="application/json")


async def http_error(request: Request, error: Exception) -> Response:
    """What Starlette itself refuses: unknown paths, methods, bodies that grow too large."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    return Response(
        error_body(error.status_code, str(error.detail)), error.status_code, headers, "application/json"
    )


async def failed(request: Request, error: Exception) -> Response:
    """Nothing of the inside; the gate logs the error."""
    return Response(error_body(500, "internal error"), 500, media_type="application/json")
