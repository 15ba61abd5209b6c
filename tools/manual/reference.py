"""The pages of the reference: which public names stand where, and the fields of each class as a table.

mkdocstrings fills in signatures and docstrings. It would give every field a heading of its own; policies
share so many of them that a table, with the inherited ones in it, reads better.
"""

import ast
import dataclasses
import functools
import inspect
import textwrap
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

from tables import table

from linmed.log.list_log import LIST_MEANING, LIST_SCHEMA
from linmed.log.schema import MEANING, SCHEMA
from linmed.policies import ALL, Policy


class Page(NamedTuple):
    """One page of the reference."""

    title: str
    module: str
    text: str = ""
    """What the page says before its names: where to read more."""
    also: tuple[str, ...] = ()
    """Names of private modules that readers of this page need."""


PAGES = {
    "reference-linmed.md": Page("linmed", "linmed"),
    "reference-policies.md": Page(
        "linmed.policies",
        "linmed.policies",
        "[Policies](policies.md) compares them and says what their parameters mean for a decision; "
        "`linmed policies` prints the table. The tables here have every parameter, the inherited ones too.",
    ),
    "reference-features.md": Page(
        "linmed.features", "linmed.features", "[News clicks from two tables](tutorial-clicks.md) uses them."
    ),
    "reference-log.md": Page("linmed.log", "linmed.log", "[Decision logs](logs.md) says how they are used."),
    "reference-ope.md": Page(
        "linmed.ope", "linmed.ope", "[Off-policy evaluation](ope.md) says how they are used."
    ),
    "reference-environments.md": Page(
        "linmed.environments", "linmed.environments", "[Simulation](simulation.md) plays policies on them."
    ),
    "reference-simulation.md": Page(
        "linmed.simulation", "linmed.simulation", "[Simulation](simulation.md) says how it is used."
    ),
    "reference-theory.md": Page("linmed.theory", "linmed.theory"),
    "reference-design.md": Page("linmed.design", "linmed.design"),
    "reference-insight.md": Page(
        "linmed.insight",
        "linmed.insight",
        "[Plots](plots.md), [the verdict](verdict.md) and [drift](drift.md) say how they are used.",
    ),
    "reference-client.md": Page(
        "linmed.serve.client",
        "linmed.serve.client",
        "`pip install 'linmed[serve]'`. The methods of both clients are those of `Requests` below: where one "
        "gives a `Call[T]`, `Client` returns the T and `AsyncClient` a coroutine of it. "
        "`options` of both are `token`, `patience` (seconds for which a request without an answer is sent "
        "again), `timeout` of one attempt, and `backoff` between them. "
        "[The service](service.md) has a tour.",
        ("linmed.serve.client.Requests",),
    ),
}


def public_names(module: str) -> list[str]:
    """What a module exports: `__all__`, else the classes and functions it defines."""
    found = import_module(module)
    if names := getattr(found, "__all__", None):
        first = [policy.__name__ for policy in ALL] if module == "linmed.policies" else []
        return [*first, *sorted(set(names) - set(first), key=str.lower)]
    return [
        name
        for name, value in vars(found).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module
    ]


@functools.cache
def homes() -> dict[int, str]:
    """The path under which every public object is documented: in the module that it comes from."""
    found: dict[int, str] = {}
    for page in PAGES.values():
        for name in public_names(page.module):
            value = getattr(import_module(page.module), name)
            own = (
                getattr(value, "__module__", page.module).startswith(page.module) and page.module != "linmed"
            )
            if own or id(value) not in found:
                found[id(value)] = f"{page.module}.{name}"
    return found


def page(uri: str) -> str:
    """A page as Markdown for mkdocstrings."""
    title, module, text, also = PAGES[uri]
    about = inspect.getdoc(import_module(module)) or ""
    sections, elsewhere = "", []
    for path in (*(f"{module}.{name}" for name in public_names(module)), *also):
        value = _value(path)
        home = homes().get(id(value), path)
        if home == path:
            sections += _section(path, value)
        else:
            elsewhere.append(f"[`{path.rpartition('.')[2]}`][{home}]")
    parts = [f"# {title}", about, text]
    if elsewhere:
        parts.append(f"Exported here too: {', '.join(elsewhere)}.")
    return "\n\n".join(filter(None, parts)) + "\n" + sections


def log_schema() -> str:
    """The columns of a decision log."""
    rows = [(f"`{field.name}`", f"`{field.type}`", MEANING[field.name]) for field in SCHEMA]
    lists = [(f"`{field.name}`", f"`{field.type}`", LIST_MEANING[field.name]) for field in LIST_SCHEMA]
    return (
        "# The log's schema\n\nA row is a decision (`linmed.log.SCHEMA`). [Decision logs](logs.md) says how "
        "they are written and read, and which of these columns another's log needs to have.\n\n"
        + table(("column", "type", ""), rows)
        + "\n\n## Lists\n\nA row is a list (`linmed.log.LIST_SCHEMA`, [Lists](lists.md)).\n\n"
        + table(("column", "type", ""), lists)
    )


def _value(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def _section(path: str, value: Any) -> str:
    if not inspect.isclass(value):
        return f"\n::: {path}\n"
    rows = list(parameters(value))
    members = _members(value, {name for name, *_ in rows})
    signature = "" if not rows else "\n      show_signature: false\n      separate_signature: false"
    text = f"\n::: {path}\n    options:\n      members: false{signature}\n"
    if rows:
        text += "\n" + table(("parameter" if _made_by_users(value) else "field", ""), map(_row, rows))
    if members:
        text += '\n<div class="members" markdown>\n\n'
        for member in members:
            text += f"::: {path}.{member}\n    options:\n      heading_level: 3\n\n"
        text += "</div>\n"
    return text


def _row(parameter: tuple[str, str, str, str]) -> tuple[str, str]:
    """A parameter's name; its type and default as a signature has them, and its meaning below."""
    name, kind, default, meaning = parameter
    return f"`{name}`", f"`{kind}{default and f' = {default}'}`<br>{meaning}"


def parameters(cls: type) -> Iterator[tuple[str, str, str, str]]:
    """Name, type, default and meaning of a class's fields: its own first, then those it inherits."""
    if dataclasses.is_dataclass(cls):
        defaults = {field.name: _written(field.default) for field in dataclasses.fields(cls)}
    elif issubclass(cls, tuple) and hasattr(cls, "_fields"):
        given: dict[str, Any] = getattr(cls, "_field_defaults", {})
        defaults = {name: _written(given.get(name, dataclasses.MISSING)) for name in cls._fields}
    else:
        return
    declared = _declared(cls)
    if dataclasses.is_dataclass(cls):  # an option of `linmed.question` has its meaning in the metadata
        for field in dataclasses.fields(cls):
            if option := field.metadata.get("option"):
                declared[field.name] = (*declared[field.name][:2], option.meaning)
    for name in sorted(defaults, key=lambda name: declared[name][0]):
        if not name.startswith("_"):
            _, kind, meaning = declared[name]
            yield name, kind, defaults[name], meaning


def _written(default: Any) -> str:
    """A default as one would write it; nothing where there is none."""
    if default is dataclasses.MISSING:
        return ""
    plain = isinstance(default, Policy) and default == type(default)()
    return f"{type(default).__name__}()" if plain else repr(default)


def _declared(cls: type) -> dict[str, tuple[int, str, str]]:
    """Fields by name: how far up they are declared, their type as written, and the text below it."""
    found: dict[str, tuple[int, str, str]] = {}
    for depth, owner in enumerate(cls.__mro__):
        if not owner.__module__.startswith("linmed"):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0].body  # type: ignore[attr-defined]
        for statement, below in zip(body, [*body[1:], None], strict=True):
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                text = below.value if isinstance(below, ast.Expr) else None
                meaning = str(text.value) if isinstance(text, ast.Constant) else ""
                kind = ast.unparse(statement.annotation)
                found.setdefault(statement.target.id, (depth, kind, inspect.cleandoc(meaning)))
    return found


def _made_by_users(cls: type) -> bool:
    """Whether a class's fields are what one gives it; of others they are what one reads."""
    return "__post_init__" in {name for owner in cls.__mro__ for name in vars(owner)}


def _members(cls: type, fields: set[str]) -> list[str]:
    """The methods and properties that are a class's own news: those of documented bases stand there."""
    documented = homes()
    bases = [base for base in cls.__mro__[1:] if id(base) in documented or issubclass(cls, Policy)]
    told = {name for base in bases for name in vars(base)}
    owners = [owner for owner in cls.__mro__ if owner not in bases and owner.__module__.startswith("linmed")]
    names = dict.fromkeys(name for owner in owners for name in vars(owner))
    return [
        name
        for name in names
        if not name.startswith("_")
        and name not in told | fields
        and inspect.getdoc(inspect.getattr_static(cls, name))
        and _defined_in(cls, inspect.getattr_static(cls, name))
    ]


def _defined_in(cls: type, value: Any) -> bool:
    """Whether it is a property or a method, and not another class's under a new name."""
    if inspect.isfunction(value):
        return value.__qualname__.rpartition(".")[0] in {owner.__qualname__ for owner in cls.__mro__}
    return isinstance(value, (property, functools.cached_property, classmethod, staticmethod))
