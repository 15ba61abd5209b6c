"""Read bodies, and say what is wrong with one: the field, what would be right, what was there.

pydantic finds the mistakes and names their kinds; its own words are for the one who wrote the model, not for
the one who wrote the request.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect, Request

from linmed.serve.errors import Refused, place
from linmed.serve.schemas import EXAMPLES, NAME, TEXT, TrainedTarget

Body = TypeVar("Body", bound=BaseModel)

PATTERNS: Mapping[str, str] = {
    NAME: "must be letters, digits, '.', '_' or '-', the first a letter or a digit, such as \"colours-2\"",
    TEXT: "must be a text of at least one character, without the character NUL",
}
"""What each regular expression demands."""
LONGEST = 60
"""Characters of a wrong value that are repeated."""

RULES: Mapping[str, str | Callable[[Mapping[str, Any]], str]] = {
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be finite",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "literal_error": lambda limits: f"must be {limits['expected']}",
    "greater_than": lambda limits: f"must be more than {limits['gt']:g}",
    "greater_than_equal": lambda limits: f"must be at least {limits['ge']:g}",
    "less_than": lambda limits: f"must be less than {limits['lt']:g}",
    "less_than_equal": lambda limits: f"must be at most {limits['le']:g}",
    "too_short": lambda limits: f"must have at least {_counted(limits['min_length'], 'entry', 'entries')}",
    "too_long": lambda limits: f"must have at most {_counted(limits['max_length'], 'entry', 'entries')}",
    "string_too_short": lambda limits: f"must have at least {_counted(limits['min_length'], 'character')}",
    "string_too_long": lambda limits: f"must have at most {_counted(limits['max_length'], 'character')}",
}
"""What each kind of mistake breaks."""
UNTYPED = ("list_type", "dict_type", "model_type", "model_attributes_type", "too_short", "too_long")
"""Mistakes that an example mends sooner than a rule."""


def _counted(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def explained(error: ValidationError, whole: str) -> tuple[str, str]:
    """Explain the first mistake: its field (`whole` if it is all of it), and a sentence that begins so."""
    first: Mapping[str, Any] = error.errors(include_url=False)[0]
    field, kind, limits = place(*first["loc"]) or whole, first["type"], first.get("ctx", {})
    if kind == "missing":
        return field, f"{field} is missing" + _example(first["loc"], "; it could be")
    if kind == "extra_forbidden":
        return field, f"{field} is not a field of this request"
    if kind == "wrong_target":
        return field, f"{field} {_target_rule(first['input'])}"
    rule = PATTERNS.get(limits.get("pattern", "")) or RULES.get(kind, first["msg"])
    text = f"{field} {rule if isinstance(rule, str) else rule(limits)}"
    if kind in UNTYPED and (kind, field) != ("dict_type", "features"):  # a map, not numbers of items
        text += _example(first["loc"], ", such as")
    return field, f"{text}, got {shown(first['input'])}"


def _target_rule(value: Any) -> str:
    """Say what a target could be, and why this is none."""
    example = json.dumps(EXAMPLES["targets"][1])
    if isinstance(value, dict):
        try:
            TrainedTarget.model_validate(value)
        except ValidationError as error:
            return f"must be such as {example}: {explained(error, 'it')[1]}"
    return (
        'must be "uniform", "logged", "greedy", an arm such as "arm:0", an item such as "item:red", or a '
        f"policy such as {example}: it is {shown(value)}"
    )


def _example(path: tuple[int | str, ...], such: str) -> str:
    """Find the example of a field, or of the entry of it that the path leads to, if there is one."""
    depth = 0
    while depth < len(path) and isinstance(path[-1 - depth], int):
        depth += 1
    found = EXAMPLES.get(str(path[-1 - depth])) if depth < len(path) else None
    for _ in range(depth):
        found = found[0] if isinstance(found, list) else None
    return "" if found is None else f"{such} {json.dumps(found)}"


def shown(value: Any) -> str:
    """Show a wrong value, or what it is where that would be long."""
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, float) and not math.isfinite(value):
        return "what is not finite"
    if isinstance(value, int) and value.bit_length() > LONGEST:
        return "a very large number"
    text = json.dumps(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(value)} characters)"


async def body_of(request: Request) -> bytes:
    """Wait for the body of a request, if it comes to its end."""
    try:
        return await request.body()
    except ClientDisconnect:
        raise Refused("left", "the caller left before the end of the request") from None


def parse(body: bytes | bytearray, model: type[Body]) -> Body:
    """Read a body in one pass over the bytes: checked while it is parsed, and never bottomless.

    Where no word in it is true or false, which NumPy takes for numbers, arms become arrays at once.
    """
    return model.model_validate_json(body, context=b"true" not in body and b"false" not in body)


def read(body: bytes, model: type[Body]) -> Body:
    """Read a body, or refuse it in words."""
    try:
        return parse(body, model)
    except ValidationError as error:
        raise _invalid(error, "body") from None


def checked(name: str, given: Any, kind: TypeAdapter[Any]) -> Any:
    """Check a part of the path, or all of the query."""
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
