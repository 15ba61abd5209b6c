"""The reference of the HTTP API, from the service's own OpenAPI document."""

import json
import re
from typing import Any

from tables import table

from linmed.serve import openapi
from linmed.serve.api import ROUTES

Schema = dict[str, Any]
INTRODUCTION = """# HTTP API

What `linmed serve` answers, made from its own OpenAPI document (`/v1/openapi.json`, for generators of clients
and for tools). [The service](service.md) says how it is run and what it promises; Python programs have
[clients](reference-client.md).

Requests and answers are JSON (`Content-Type: application/json`); unknown fields and query parameters are
refused. Where the service has tokens, send `Authorization: Bearer TOKEN`.
"""


def document() -> Schema:
    """The OpenAPI document."""
    return openapi.document(ROUTES)


def page(api: Schema) -> str:
    """Every request with its parameters, body, answers and an example; then every body by name."""
    schemas = api["components"]["schemas"]
    every = [
        (method.upper(), path, operation)
        for path, operations in api["paths"].items()
        for method, operation in operations.items()
    ]
    text = INTRODUCTION + "\n"
    text += table(
        ("request", ""),
        [(f"[`{method} {path}`](#{_anchor(method, path)})", _first(o)) for method, path, o in every],
    )
    text += "\n" + _failures(every[0][2])
    tag = None
    for method, path, operation in every:
        if operation["tags"][0] != tag:
            tag = operation["tags"][0]
            text += f"\n## {tag.capitalize()}\n"
        text += _operation(method, path, operation, schemas)
    text += "\n## Bodies\n"
    for name in sorted(schemas):
        text += _body(name, schemas[name])
    return text


def _anchor(method: str, path: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", f"{method} {path}".lower()).strip("-")


def _first(operation: Schema) -> str:
    return str(operation.get("description", operation["summary"])).split("\n\n")[0]


def _failures(operation: Schema) -> str:
    text = "Any request may fail, with an [`ErrorView`](#errorview):\n\n"
    rows = [(code, a["description"]) for code, a in operation["responses"].items() if not _good(code)]
    return text + table(("status", ""), rows)


def _good(code: str) -> bool:
    return code.startswith("2")


def _operation(method: str, path: str, operation: Schema, schemas: Schema) -> str:
    text = f"\n### {operation['summary'].capitalize()} {{ #{_anchor(method, path)} }}\n\n`{method} {path}`\n"
    text += f"\n{operation.get('description', '')}\n"
    rows = [
        (f"`{given['name']}`", given["in"], _type(given["schema"]), given["schema"].get("description", ""))
        for given in operation.get("parameters", [])
    ]
    if rows:
        text += "\n" + table(("parameter", "in", "type", ""), rows)
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        text += f"\nBody: {_type(schema)}, for example\n"
        example = schemas[_name(schema)]["examples"][0]
        text += f"\n```json\n{json.dumps(example, ensure_ascii=False)}\n```\n"
    for code, answer in operation["responses"].items():
        if _good(code):
            text += f"\nAnswer {code}: {_answer(answer)}\n"
    return text


def _answer(answer: Schema) -> str:
    contents = [
        _type(content["schema"]) if kind == "application/json" and "schema" in content else f"`{kind}`"
        for kind, content in answer.get("content", {}).items()
    ]
    said = "" if answer["description"] == "Successful Response" else answer["description"]
    return ", ".join(filter(None, [said, *contents])) or "nothing"


def _body(name: str, schema: Schema) -> str:
    text = f"\n### {name}\n\n{schema.get('description', '')}\n"
    required = schema.get("required", [])
    rows = [
        (
            f"`{field}`" + (" (required)" if field in required and "examples" in schema else ""),
            _type(kind),
            _meaning(kind),
        )
        for field, kind in schema.get("properties", {}).items()
    ]
    return text + ("\n" + table(("field", "type", ""), rows) if rows else "")


def _meaning(kind: Schema) -> str:
    default = kind.get("default")
    said = str(kind.get("description", ""))
    return said if default is None else f"{said} Default: `{json.dumps(default)}`".strip()


def _name(schema: Schema) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _type(schema: Schema) -> str:
    """What a value is, in words, with links to the bodies that have names."""
    if "$ref" in schema:
        return f"[{_name(schema)}](#{_name(schema).lower()})"
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " or ".join(dict.fromkeys(_type(one) for one in schema[union]))
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    kind = str(schema.get("type", "anything"))
    if kind == "array":
        items = _type(schema.get("items", {}))
        size = _bounds(schema, "minItems", "maxItems")
        return f"array of {items}" + (size and f"{size} of them")
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    length = _bounds(schema, "minLength", "maxLength")
    return kind + _bounds(schema, "minimum", "maximum") + (length and f"{length} characters")


def _bounds(schema: Schema, least: str, most: str) -> str:
    low, high = schema.get(least), schema.get(most)
    if low is None and high is None:
        return ""
    if low is None:
        return f", at most {high}"
    return f", at least {low}" if high is None else f", {low} to {high}" if low != high else f", {low}"
