"""Parameters as columns: the same columns in every file, so that a directory opens as one table."""

import dataclasses
import json
import types
import typing
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

import linmed.policies  # noqa: F401  (its classes give the columns)
from linmed.environments import Environment
from linmed.extras import Later
from linmed.policies.base import Policy
from linmed.registry import concrete_subclasses

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = Later("pyarrow", "a store of results", "log")

KINDS = {"string": str, "float64": float, "int64": int, "bool": bool}
"""Arrow's names of parameter types in the order in which they win where classes disagree about a name."""


Columns = dict[str, tuple[str, Any]]
"""Arrow's name of a type, and value or None."""


def arrow_type(kind: str) -> "pa.DataType":
    """By its name; `list<int64>` is one of lists."""
    inside = kind.removeprefix("list<").removesuffix(">")
    return pa.type_for_alias(kind) if kind == inside else pa.list_(pa.type_for_alias(inside))


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
        "policy.class": ("string", type(policy).__name__),
        "environment.class": ("string", configuration["environment"]),
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
    kinds = _kinds(concrete_subclasses(base))
    return {name: (kind, _fit(config.get(name), kind)) for name, kind in kinds.items()}


def _kinds(classes: list[Any]) -> dict[str, str]:
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
    chosen: dict[str, str] = {}
    for name in sorted(allowed):
        fitting = [kind for kind, member in KINDS.items() if member in allowed[name]]
        if fitting:
            chosen[name] = fitting[0]
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


def _fit(value: Any, kind: str) -> Any:
    """`value` for a column of this kind, or None where it does not fit: then it is in `configuration`."""
    if value is None:
        return None
    if kind == "string":
        return value if isinstance(value, str) else json.dumps(value)
    if isinstance(value, bool) or kind == "bool":
        return value if isinstance(value, bool) and kind == "bool" else None
    if kind == "int64":
        return value if isinstance(value, int) and -(2**63) <= value < 2**63 else None
    exact = isinstance(value, int) and abs(value) <= 2**53
    return value if exact or isinstance(value, float) else None
