"""Classes that are known by being defined: from a name and its parameters to the object and back."""

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

from linmed.checks import BadValue


def concrete_subclasses(base: type) -> list[type[Any]]:
    """Every class below `base` that can be made, in the order in which they were defined."""
    found: list[type[Any]] = []
    children: list[type[Any]] = base.__subclasses__()
    for child in children:
        for cls in (child, *concrete_subclasses(child)):
            if not inspect.isabstract(cls) and cls not in found:
                found.append(cls)
    return found


def _is_ours(cls: type) -> bool:
    return cls.__module__.startswith("linmed.")


def described(base: type, kind: str, config: Mapping[str, Any]) -> tuple[type[Any], dict[str, Any]]:
    """The class that config[kind] names and the parameters beside it, both known to exist."""
    # Classes of ours come last: one of a user's that has the same name must not take their place.
    known = {cls.__name__: cls for cls in sorted(concrete_subclasses(base), key=_is_ours)}
    name = config.get(kind)
    if name not in known:
        raise BadValue(kind, f"unknown {kind} {name!r}; known are {', '.join(sorted(known))}")
    parameters = {key: value for key, value in config.items() if key != kind}
    fields = [f.name for f in dataclasses.fields(known[name]) if f.init]
    for key in sorted(set(parameters) - set(fields)):
        raise BadValue(key, f"{name} has no parameter {key!r}; it has {', '.join(fields) or 'none'}")
    return known[name], parameters
