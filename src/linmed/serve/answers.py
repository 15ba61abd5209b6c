"""How bodies are read and answers written: one form for all, and errors that name the field."""

import json
import logging
from typing import Any, TypeVar

from fastapi import Request, Response
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from linmed.serve.database import cause, trouble
from linmed.serve.errors import Kind, Refused
from linmed.serve.messages import explained

logger = logging.getLogger("linmed.serve")

Body = TypeVar("Body", bound=BaseModel)

STATUS: dict[Kind, int] = {
    "malformed": 400,
    "unauthorised": 401,
    "forbidden": 403,
    "unknown": 404,
    "too slow": 408,
    "conflict": 409,
    "too large": 413,
    "wrong type": 415,
    "invalid": 422,
    "overloaded": 429,
    "head too large": 431,
    "left": 499,  # as nginx counts callers who did not wait for their answer
    "failed": 500,
    "unavailable": 503,
}


class Json(Response):
    """An answer that is JSON already validated by its making. What is not finite becomes null."""

    media_type = "application/json"

    def __init__(self, content: Any, status_code: int = 200):
        super().__init__(to_json(content, inf_nan_mode="null"), status_code)


async def body_of(request: Request) -> bytes:
    """The body of a request, if it comes to its end."""
    try:
        return await request.body()
    except ClientDisconnect:
        raise Refused("left", "the caller left before the end of the request") from None


def read(body: bytes, model: type[Body]) -> Body:
    """What a body says. One pass over the bytes: checked while it is parsed, and never bottomless."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise _invalid(error, "body") from None


def checked(name: str, given: Any, kind: TypeAdapter[Any]) -> Any:
    """A part of the path, or all of the query."""
    try:
        return kind.validate_python(given)
    except ValidationError as error:
        raise _invalid(error, name) from None


def _invalid(error: ValidationError, whole: str) -> Refused:
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return Refused("malformed", f"{whole}: {first['msg']}")
    field, message = explained(error, whole)
    return Refused("invalid", message, field)


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


def in_trouble(error: Exception) -> Refused | None:
    """What to answer where the database is the reason: it comes back, and so should the caller."""
    if not trouble(error):
        return None
    logger.warning("the database does not answer", extra={"error": cause(error)})
    return Refused("unavailable", "the database does not answer: try again", retry_after=1)


async def without_database(request: Request, error: Exception) -> Response:
    """What the database fails; where it is not in trouble, the mistake is ours."""
    refused = in_trouble(error)
    if refused is None:
        raise error
    return refusal(refused)


async def failed(request: Request, error: Exception) -> Response:
    """Nothing of the inside; the gate logs the error."""
    return refusal(Refused("failed", "internal error"))


def _error(status: int, message: str, field: str | None, headers: dict[str, str]) -> Response:
    body = json.dumps({"error": {"status": status, "message": message, "field": field}})
    return Response(body, status, headers, "application/json")
