"""Classes that are known by being defined: from a name and its parameters to the object and back."""

import ast
import dataclasses
import difflib
import inspect
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from linmed.validation import BadValue

T = TypeVar("T")
Makers = dict[str, tuple[type[T], dict[str, Any]]]
"""What people write → a class, and the parameters that this fixes."""


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
    for needed in dataclasses.fields(known[name]):
        given = needed.name in parameters or needed.default_factory is not dataclasses.MISSING
        if needed.init and not given and needed.default is dataclasses.MISSING:
            raise BadValue(needed.name, f"{name} needs the parameter {needed.name!r}")
    return known[name], parameters


def parse(kind: str, text: str, makers: Makers[T]) -> T:
    """`Name` or `Name(parameter=value, …)` with plain values, or another `Name(…)` inside."""
    match = re.fullmatch(r"\s*([\w-]+)\s*(?:\((.*)\))?\s*", text, flags=re.DOTALL)
    if match is None:
        raise ValueError(
            f"{kind} {text!r} is not a name with parameters in brackets, as in LinMED(sigma=0.5)"
        )
    name, inside = match.groups()
    # The paper's names, LinMED-90 among them, are none to Python.
    words = {other: f"maker_{i}" for i, other in enumerate(sorted(makers, key=len, reverse=True))}
    readable = _outside_quotes(inside or "", words)
    try:
        call = ast.parse(f"f({readable})", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise _Unreadable
        return _made(kind, name, call, makers, {known: other for other, known in words.items()})
    except (SyntaxError, _Unreadable):
        raise ValueError(
            f"the parameters of {kind} {text!r} cannot be read; write each once as name=value, with "
            "numbers, 'text', True, False, None or [lists]"
        ) from None


class _Unreadable(Exception):
    """What stands in brackets is no list of parameters."""


def _outside_quotes(text: str, words: Mapping[str, str]) -> str:
    """The text with these words exchanged where they stand before a bracket, but not in quotes."""
    parts = re.split(r"""('[^']*'|"[^"]*")""", text)
    for i in range(0, len(parts), 2):
        for word, other in words.items():
            parts[i] = re.sub(rf"(?<![\w-]){re.escape(word)}(?=\s*([(),]|$))", other, parts[i])
    return "".join(parts)


def _made(kind: str, name: str, call: ast.Call, makers: Makers[T], words: Mapping[str, str]) -> T:
    """The object that `name` and the arguments of `call` describe. Nothing is evaluated but literals."""
    if name not in makers:
        near = difflib.get_close_matches(name, makers, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"no {kind} is named {name!r}; there are {', '.join(makers)}{hint}")
    cls, fixed = makers[name]
    fields = [field for field in dataclasses.fields(cls) if field.init]  # type: ignore[arg-type]
    known = [field.name for field in fields]
    parameters = dict(fixed)
    by_place = [field.name for field in fields if not field.kw_only]
    given = [*zip(by_place, call.args, strict=False), *((word.arg, word.value) for word in call.keywords)]
    unnamed, names = len(call.args), [key for key, _ in given]
    if unnamed > min(1, len(by_place)) or len(set(names)) < len(names) or not all(names):
        raise _Unreadable
    for key, value in given:
        made = _nested(kind, value, makers, words)
        if call.args and value is call.args[0] and made is None:
            raise _Unreadable  # only another object stands without its parameter's name
        parameters[str(key)] = _literal(value) if made is None else made
    for parameter in parameters:
        if parameter not in known:
            raise ValueError(f"{name} has no parameter {parameter!r}; it has {', '.join(known)}")
    needed = [field.name for field in fields if field.default is field.default_factory is dataclasses.MISSING]
    missing = [field for field in needed if field not in parameters]
    if missing:
        raise ValueError(f"{name} needs {' and '.join(missing)}: write {name}({missing[0]}=…)")
    return cls(**parameters)


def _nested(kind: str, value: ast.expr, makers: Makers[T], words: Mapping[str, str]) -> T | None:
    """The object that a value names; None if it names none."""
    called = value if isinstance(value, ast.Call) else ast.Call(value, [], [])
    if not isinstance(called.func, ast.Name):
        return None
    name = words.get(called.func.id)
    if name is None:
        return None
    return _made(kind, name, called, makers, words)


def _literal(value: ast.expr) -> Any:
    try:
        return ast.literal_eval(value)
    except ValueError:
        raise _Unreadable from None
