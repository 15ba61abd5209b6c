"""How bodies are read and answers written: one form for all, and errors that name the field."""

import json
from typing import Any, TypeVar

from fastapi import Request, Response
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from linmed.serve.errors import Kind, Refused, place

Body = TypeVar("Body", bound=BaseModel)

STATUS: dict[Kind, int] = {
    "malformed": 400,
    "unauthorised": 401,
    "forbidden": 403,
    "unknown": 404,
    "conflict": 409,
    "too large": 413,
    "wrong type": 415,
    "invalid": 422,
    "overloaded": 429,
    "failed": 500,
    "unavailable": 503,
}


class Json(Response):
    """An answer that is JSON already validated by its making. What is not finite becomes null."""

    media_type = "application/json"

    def __init__(self, content: Any, status_code: int = 200):
        super().__init__(to_json(content, inf_nan_mode="null"), status_code)


async def read(request: Request, model: type[Body]) -> Body:
    """The body of a request. One pass over the bytes: checked while it is parsed, and never bottomless."""
    try:
        return model.model_validate_json(await request.body())
    except ValidationError as error:
        raise _invalid(error, "body") from None


def checked(name: str, text: str, kind: TypeAdapter[str]) -> str:
    """A part of the path."""
    try:
        return kind.validate_python(text)
    except ValidationError as error:
        raise _invalid(error, name) from None


def _invalid(error: ValidationError, whole: str) -> Refused:
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return Refused("malformed", f"{whole}: {first['msg']}")
    field = place(*first["loc"]) or whole
    return Refused("invalid", f"{field}: {first['msg']}", field)


def refusal(error: Refused) -> Response:
    """The reason, the field if there is one, and when to try again."""
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    if error.kind == "unauthorised":
        headers["WWW-Authenticate"] = "Bearer"
    return _error(STATUS[error.kind], error.message, error.field, headers)


async def refused(request: Request, error: Exception) -> Response:
    """What a route refuses."""
    assert isinstance(error, Refused)
    return refusal(error)


async def http_error(request: Request, error: Exception) -> Response:
    """What Starlette itself refuses: unknown paths and methods."""
    assert isinstance(error, HTTPException)
    return _error(error.status_code, str(error.detail), None, dict(error.headers or {}))


async def failed(request: Request, error: Exception) -> Response:
    """Nothing of the inside; the gate logs the error."""
    return refusal(Refused("failed", "internal error"))


def _error(status: int, message: str, field: str | None, headers: dict[str, str]) -> Response:
    body = json.dumps({"error": {"status": status, "message": message, "field": field}})
    return Response(body, status, headers, "application/json")
