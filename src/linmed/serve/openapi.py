"""Make the OpenAPI document of the routes, their models, and the library's policies and features.

Policies and features in requests are checked by the library itself, whose messages name the parameter; the
document is for those who write requests, and for their tools.
"""

import inspect
import re
import typing
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema

import linmed
from linmed.features import Category, Features, Number
from linmed.features.columns import Column
from linmed.policies import ALL
from linmed.policies.base import Policy
from linmed.registry import concrete_subclasses
from linmed.serve import schemas


@dataclass(frozen=True)
class Route:
    """Describe one request: where it is sent, which function grants it, and to whom."""

    tag: str
    method: str
    path: str
    grant: Callable[..., Awaitable[Any]]
    gives: Any = None
    """The model of the answer, or list[model]; None where it is a file."""
    takes: type[BaseModel] | None = None
    """The model of the body."""
    scope: str | None = None
    """What the caller's token must allow for this bandit; where it is None, `grant` judges the caller."""
    asks: type[BaseModel] | None = None
    """The model of what may stand behind the question mark."""
    long: bool = False
    """Whether it may take long, and is therefore called off when the caller leaves."""
    status: int = 200
    also: dict[str, Any] | None = None
    """Another good answer, with status 200, for the document."""


PATH: dict[str, TypeAdapter[Any]] = {
    "name": TypeAdapter(schemas.BanditName),
    "decision_id": TypeAdapter(schemas.DecisionId),
    "item_id": TypeAdapter(schemas.ArmId),
    "version": TypeAdapter(schemas.CatalogueNumber),
}
"""What may stand in a path."""
SUMMARY = "Decisions with exact probabilities, rewards whenever they come, evaluation on the live log."
ERRORS = {
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
}
EXAMPLE = Features(
    context=[Category("device", ["phone", "desk"])], item=[Number("price", scale=(50.0, 20.0))]
).to_dict()
_PLACE = "#/components/schemas/"
_BASES: dict[type, tuple[str, list[type[Any]]]] = {
    Policy: ("policy", list(ALL)),
    Column: ("column", [cls for cls in concrete_subclasses(Column) if cls.__module__.startswith("linmed.")]),
}
"""A class → the field that names one below it, and those that there are."""


TYPED = (
    ("NewBandit", "policy", "Policy"),
    ("NewBandit", "features", "Features"),
    ("BanditChange", "policy", "Policy"),
    ("TrainedTarget", "policy", "Policy"),
)
"""Fields of bodies that are described by a schema of the library's classes (`schemas.library`)."""


def reference(name: str) -> dict[str, str]:
    """Refer to a schema of `library`."""
    return {"$ref": _PLACE + name}


def library() -> dict[str, Any]:
    """Describe the library, name → schema: `Policy`, `Column`, each of their classes, and `Features`."""
    found: dict[str, Any] = {}
    for base, (kind, classes) in _BASES.items():
        found |= {cls.__name__: _schema(cls, kind) for cls in classes}
        names = ", ".join(cls.__name__ for cls in classes)
        found[base.__name__] = {
            "description": f"One of {names}: its field `{kind}` says which.",
            "oneOf": [reference(cls.__name__) for cls in classes],
            "discriminator": {
                "propertyName": kind,
                "mapping": {cls.__name__: _PLACE + cls.__name__ for cls in classes},
            },
        }
    made = _schema(Features, "format")
    made["properties"]["format"] = {"const": 1}
    made |= {"required": list(made["properties"]), "examples": [EXAMPLE]}
    return {**found, "Features": made}


def _schema(cls: type[Any], kind: str) -> dict[str, Any]:
    """Describe an object with the parameters of a dataclass, and the field that names it."""
    made = TypeAdapter(cls).json_schema(ref_template=_PLACE + "{model}")
    return {
        "type": "object",
        "description": made["description"].partition("\n\n")[0],
        "properties": {kind: {"const": cls.__name__}, **made["properties"]},
        "required": [kind, *made.get("required", [])],
        "additionalProperties": False,
    }


def type_field(described: dict[str, Any], name: str) -> None:
    """Have an object without fields, or none, be what `schemas.library` has under a name."""
    for schema in (described, *described.get("anyOf", ())):
        if schema.pop("additionalProperties", False) and schema.pop("type", None):
            schema |= reference(name)


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """Make the OpenAPI document of the routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = schemas.PREFIX + route.path.replace(":path}", "}")
        paths.setdefault(path, {})[route.method.lower()] = _operation(route)
    given = [(one, "serialization") for route in routes for one in _models(route.gives)]
    taken = [(route.takes, "validation") for route in routes if route.takes is not None]
    found: dict[str, Any] = {}
    for models in ([*given, (schemas.ErrorView, "serialization")], taken):
        found |= models_json_schema(models, ref_template=_PLACE + "{model}")[1]["$defs"]  # type: ignore[arg-type]
    found |= library()
    for model, field, name in TYPED:
        type_field(found[model]["properties"][field], name)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "linmed",
            "summary": SUMMARY,
            "version": linmed.__version__,
        },
        "paths": paths,
        "components": {
            "schemas": found,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _operation(route: Route) -> dict[str, Any]:
    name = route.grant.__name__
    parameters = [
        {"name": key, "in": "path", "required": True, "schema": kind.json_schema()}
        for key, kind in PATH.items()
        if re.search(rf"{{{key}\b", route.path)
    ]
    if route.asks is not None:
        asked = route.asks.model_json_schema()["properties"]
        parameters += [{"name": key, "in": "query", "schema": kind} for key, kind in asked.items()]
    good = {str(route.status): content("Successful Response", route.gives)}
    if route.also is not None:
        good["200"] = route.also
    errors = {str(status): content(text, schemas.ErrorView) for status, text in ERRORS.items()}
    body: dict[str, Any] = {}
    if route.takes is not None:
        schema = {"schema": reference(route.takes.__name__)}
        body = {"requestBody": {"required": True, "content": {"application/json": schema}}}
    return {
        "tags": [route.tag],
        "summary": name.replace("_", " ").title(),
        "description": inspect.getdoc(route.grant),
        "operationId": name,
        "parameters": parameters,
        "responses": {**good, **errors},
        **body,
    }


def _models(gives: Any) -> Sequence[type[BaseModel]]:
    """Find the model of an answer, or of the entries of its list."""
    return () if gives is None else typing.get_args(gives) or (gives,)


def content(description: str, gives: Any) -> dict[str, Any]:
    """Describe an answer in JSON."""
    (model,) = _models(gives) or (None,)
    schema: dict[str, Any] = {} if model is None else reference(model.__name__)
    schema = schema if model is gives else {"type": "array", "items": schema}
    return {"description": description, "content": {"application/json": {"schema": schema}}}
