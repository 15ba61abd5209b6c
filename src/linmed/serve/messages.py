"""What is wrong with a body, in the words of a colleague: the field, what would be right, what was there.

pydantic finds the mistakes and names their kinds; its own words are for the one who wrote the model, not for
the one who wrote the request.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from linmed.serve.errors import place

EXAMPLES: Mapping[str, Any] = {
    "arms": [[1.0, 0.0], [0.6, 0.8]],
    "arm_ids": ["red", "green"],
    "context": [0.2, 0.7],
    "policy": {"policy": "LinMED", "sigma": 0.5},
    "catalogue": {"ids": ["red", "green"], "features": [[1.0, 0.0], [0.0, 1.0]]},
    "ids": ["red", "green"],
    "features": [[1.0, 0.0], [0.0, 1.0]],
    "reward_range": [0, 1],
    "decisions": [{"arms": [[1.0, 0.0], [0.6, 0.8]], "key": "visit-1"}],
    "rewards": [{"decision_id": "18b0f0e7c2a4d1f06b1d9a64c3e2f801", "reward": 1.0}],
    "targets": ["uniform", {"name": "calmer", "policy": {"policy": "LinMED", "sigma": 0.3}}],
    "estimators": ["ipw", "snipw"],
}
"""What a field could hold, by its name."""
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
TEXT = r"^[^\x00]+$"  # PostgreSQL's text has no NUL
PATTERNS: Mapping[str, str] = {
    NAME: "must be letters, digits, '.', '_' or '-', the first a letter or a digit, such as \"colours-2\"",
    TEXT: "must be a text of at least one character, without the character NUL",
}
"""What each regular expression demands."""
TOLD = "told"
"""The kind of a mistake whose message says all there is to say."""
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
    """The first mistake: its field (`whole` if it is all of it), and a sentence that begins with it."""
    first: Mapping[str, Any] = error.errors(include_url=False)[0]
    field, kind, limits = place(*first["loc"]) or whole, first["type"], first.get("ctx", {})
    if kind == "missing":
        return field, f"{field} is missing" + _example(first["loc"], "; it could be")
    if kind == "extra_forbidden":
        return field, f"{field} is not a field of this request"
    if kind == TOLD:
        return field, f"{field} {first['msg']}"
    rule = PATTERNS.get(limits.get("pattern", "")) or RULES.get(kind, first["msg"])
    text = f"{field} {rule if isinstance(rule, str) else rule(limits)}"
    if kind in UNTYPED and (kind, field) != ("dict_type", "features"):  # a map, not numbers of items
        text += _example(first["loc"], ", such as")
    return field, f"{text}, got {shown(first['input'])}"


def _example(path: tuple[int | str, ...], such: str) -> str:
    """The example of a field, or of the entry of it that the path leads to, if there is one."""
    depth = 0
    while depth < len(path) and isinstance(path[-1 - depth], int):
        depth += 1
    found = EXAMPLES.get(str(path[-1 - depth])) if depth < len(path) else None
    for _ in range(depth):
        found = found[0] if isinstance(found, list) else None
    return "" if found is None else f"{such} {json.dumps(found)}"


def shown(value: Any) -> str:
    """A wrong value, or what it is where that would be long."""
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
