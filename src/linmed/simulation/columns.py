"""Parameters as columns: the same columns in every file, so that a directory opens as one table."""

import dataclasses
import json
import types
import typing
from typing import Any

import pyarrow as pa
from numpy.typing import ArrayLike

import linmed.policies  # noqa: F401  (its classes give the columns)
from linmed.environments import Environment
from linmed.policies.base import Policy
from linmed.registry import concrete_subclasses

KINDS = (("text", {str}, pa.string()), ("real", {float}, pa.float64()), ("whole", {int}, pa.int64()),
         ("flag", {bool}, pa.bool_()))  # fmt: skip
"""Parameter types in the order in which they win where classes disagree about a name."""


Columns = dict[str, tuple[pa.DataType, Any]]
"""Type, and value or None."""


def parameter_columns(policy: Policy, environment: Environment) -> Columns:
    """`policy.x` and `environment.y` for every parameter of every class known.

    A parameter that is no plain value (a matrix of arms) has no column; it is in `configuration`.
    """
    configuration = environment.identity()
    # A wrapped environment (Delayed) shows its own parameters and those of the one it wraps.
    inner = configuration.pop("env", None)
    if inner is not None:
        outer = configuration["environment"]
        configuration = {**inner, **configuration, "environment": f"{outer}({inner['environment']})"}
    columns: Columns = {
        "policy.class": (pa.string(), type(policy).__name__),
        "environment.class": (pa.string(), configuration["environment"]),
    }
    columns |= {f"policy.{name}": column for name, column in policy_columns(policy).items()}
    columns |= {
        f"environment.{name}": column for name, column in _columns(Environment, configuration).items()
    }
    return columns


def policy_columns(policy: Policy) -> Columns:
    """Every parameter of every policy known, with this policy's value, or that of the policy inside it."""
    configuration = policy.to_dict()
    return _columns(Policy, {**configuration.get("inside", {}), **configuration})


def _columns(base: type, config: dict[str, Any]) -> Columns:
    types = _types(concrete_subclasses(base))
    return {name: (type_, _fit(config.get(name), type_)) for name, type_ in types.items()}


def _types(classes: list[Any]) -> dict[str, pa.DataType]:
    """Column types of all plain parameters, by name in alphabetical order."""
    allowed: dict[str, set[type]] = {}
    for cls in classes:
        try:
            hints = typing.get_type_hints(cls)
        except Exception:  # an annotation that only a type checker can read: no columns of its own
            continue
        for field in dataclasses.fields(cls):
            if field.init:
                plain = _plain(hints[field.name])
                if len(plain) > 1 and not isinstance(field.default, str):
                    plain.discard(str)  # a number that may be "unknown": the word is in `configuration`
                allowed.setdefault(field.name, set()).update(plain)
    chosen: dict[str, pa.DataType] = {}
    for name in sorted(allowed):
        for _, members, type_ in KINDS:
            if allowed[name] & members:
                chosen[name] = type_
                break
    return chosen


def _plain(hint: Any) -> set[type]:
    """The plain types among what a hint allows."""
    if hint == ArrayLike:  # a union that has plain types among its members
        return set()
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return {type(value) for value in typing.get_args(hint)}
    if origin in (typing.Union, types.UnionType):
        return set().union(*map(_plain, typing.get_args(hint)))
    return {plain for plain in (str, float, int, bool) if hint is plain}


def _fit(value: Any, type_: pa.DataType) -> Any:
    """`value` for a column of this type, or None where it does not fit."""
    if value is None:
        return None
    if pa.types.is_string(type_) and not isinstance(value, str):
        value = json.dumps(value)
    if isinstance(value, bool) != pa.types.is_boolean(type_):
        return None
    try:
        return value if pa.scalar(value, type_).as_py() == value else None
    except (ValueError, TypeError, OverflowError):  # 2**70, or text for a number; it is in `configuration`
        return None
