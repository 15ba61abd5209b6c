"""What the OpenAPI document says of policies and of maps of features: every class with its parameters.

Requests are checked by the library itself, whose messages name the parameter; this is for those who write
them, and for their tools.
"""

import dataclasses
import inspect
import typing
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema

from linmed.features import Category, Features, Number
from linmed.features.columns import Column
from linmed.policies import ALL
from linmed.policies.base import Policy
from linmed.registry import concrete_subclasses

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
    """To a schema of `library`."""
    return {"$ref": _PLACE + name}


def library() -> dict[str, Any]:
    """Name → schema: `Policy`, `Column`, each class of theirs, and `Features`."""
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
    """An object with the parameters of a dataclass, and the field that names it."""
    types = typing.get_type_hints(cls)
    properties: dict[str, Any] = {kind: {"const": cls.__name__}}
    fields = [field for field in dataclasses.fields(cls) if field.init]
    for field in fields:
        properties[field.name] = _of(types[field.name])
        if isinstance(field.default, (str, int, float, bool)) or field.default is None:
            properties[field.name] |= {"default": field.default}
    missing = dataclasses.MISSING
    needed = [field.name for field in fields if field.default is missing is field.default_factory]
    return {
        "type": "object",
        "description": (inspect.getdoc(cls) or "").partition("\n\n")[0],
        "properties": properties,
        "required": [kind, *needed],
        "additionalProperties": False,
    }


def _of(kind: Any) -> dict[str, Any]:
    """The schema of a parameter; those that are policies or columns are described by their own."""
    if kind in _BASES:
        return reference(kind.__name__)
    inside = [part for part in typing.get_args(kind) if part is not ...]
    if not any(base in _parts(kind) for base in _BASES):
        return TypeAdapter(kind).json_schema()
    if len(inside) == 1:
        return {"type": "array", "items": _of(inside[0])}
    return {"anyOf": [_of(part) for part in inside]}


def _parts(kind: Any) -> set[Any]:
    """A type and all that it is made of."""
    return {kind}.union(*(_parts(part) for part in typing.get_args(kind) if not isinstance(part, (str, int))))


def type_field(described: dict[str, Any], name: str) -> None:
    """Have an object without fields, or none, be what `schemas.library` has under a name."""
    for schema in (described, *described.get("anyOf", ())):
        if schema.pop("additionalProperties", False) and schema.pop("type", None):
            schema |= reference(name)


def complete_document(app: FastAPI, taken: Sequence[type[BaseModel]]) -> None:
    """Add to the OpenAPI document the bodies that `read` reads and how tokens are sent."""
    plain = app.openapi

    def documented() -> dict[str, Any]:
        document = plain()
        schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
        schemes["token"] = {"type": "http", "scheme": "bearer"}
        _, given = models_json_schema(
            [(model, "validation") for model in taken], ref_template="#/components/schemas/{model}"
        )
        schemas = document["components"].setdefault("schemas", {})
        schemas.update(given["$defs"], **library())
        for model, field, name in TYPED:
            type_field(schemas[model]["properties"][field], name)
        document["security"] = [{"token": []}, {}]
        return document

    app.openapi = documented  # type: ignore[method-assign]
