"""Map a context and an item to the vector that a policy sees, declared once.

Every feature is one entry of the item times one of the context. Either entry may be the constant 1, which
stands last in both: e' = (e, 1), x' = (x, 1), and feature k of an arm is e'[i_k] · x'[j_k]. So an arm is
affine in the item, B_x e + c_x, whatever the interactions. One rounded product each, no sum and no BLAS: the
same bits on every processor.
"""

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linmed import validation
from linmed.features.columns import MOST_NUMBERS, Category, Column, Number, Vector
from linmed.features.rows import Table, as_python, key, row, table
from linmed.validation import LARGEST, BadType, BadValue, Floats, Ints

Span = tuple[int, int]
"""First place, and the place after the last."""


class Products(NamedTuple):
    """Which entries are multiplied, (d,) each."""

    item: Ints
    """Places in e' = (e, 1), …"""
    context: Ints
    """… and in x' = (x, 1)."""
    item_width: int
    context_width: int
    sizes: Floats | None = None
    """What each product is multiplied with, where that is not 1 everywhere."""

    @property
    def dim(self) -> int:
        """d."""
        return len(self.item)

    def spread(self, items: NDArray[np.floating]) -> Floats:
        """Repeat the items' entries as they are multiplied: (K, de) → (K, d), for any number of contexts."""
        extended = np.ones((len(items), self.item_width + 1))
        extended[:, :-1] = items
        return extended.take(self.item, axis=1)  # rows of one piece, which extended[:, …] would not be

    def factors(self, extended: Floats) -> Floats:
        """Take the factors of a context: x' = (x, 1) (dx + 1,) → (d,)."""
        found = extended.take(self.context)
        return found if self.sizes is None else found * self.sizes

    def join(self, items: NDArray[np.floating], context: Floats) -> Floats:
        """Make arms (K, d)."""
        arms = self.spread(items)
        arms *= self.factors(np.append(context, 1.0))
        return arms

    def lift(self, context: Floats) -> tuple[Floats, Floats]:
        """B_x (d, de) and c_x (d,) with arm = B_x e + c_x."""
        factors, constant = self.factors(np.append(context, 1.0)), self.item == self.item_width
        matrix = np.zeros((self.dim, self.item_width + 1))
        matrix[np.arange(self.dim), self.item] = factors
        return np.ascontiguousarray(matrix[:, :-1]), np.where(constant, factors, 0.0)


@lru_cache(maxsize=256)
def plain(item_width: int, context_width: int, intercept: bool = False) -> Products:
    """Join as (e, x), with a 1 if there is an intercept: every context ranks the items alike."""
    return chosen(item_width, context_width, (), intercept)


@lru_cache(maxsize=256)
def outer(item_width: int, context_width: int, intercept: bool = False) -> Products:
    """Join as e ⊗ x, with an intercept (e, 1) ⊗ (x, 1): every item has its own line in the context."""
    items, contexts = item_width + intercept, context_width + intercept
    pairs = np.repeat(np.arange(items), contexts), np.tile(np.arange(contexts), items)
    return Products(*pairs, item_width, context_width)


def chosen(
    item_width: int, context_width: int, pairs: Sequence[tuple[Span, Span]], intercept: bool
) -> Products:
    """Join as (e, x, 1), with e_i ⊗ x_c for each pair (c, i) of columns."""
    item = [*range(item_width), *[item_width] * (context_width + intercept)]
    context = [*[context_width] * item_width, *range(context_width), *[context_width] * intercept]
    for (c, c_end), (i, i_end) in pairs:
        item += [place for place in range(i, i_end) for _ in range(c, c_end)]
        context += [*range(c, c_end)] * (i_end - i)
    return Products(np.array(item, np.int64), np.array(context, np.int64), item_width, context_width)


class Side:
    """What a row becomes: the numbers of each column, one column after the other."""

    def __init__(self, columns: Sequence[Column], where: str) -> None:
        self.columns, self.where = tuple(columns), where
        self.fields = frozenset(field for column in columns for field in column.fields)
        self.labels = tuple(label for column in columns for label in column.labels)
        self.width = len(self.labels)
        self._spans: dict[str, Span] = {}
        self._numbers: list[tuple[str, int, float, float, Number]] = []
        self._listed: list[tuple[str, dict[str, int]]] = []
        self._categories: list[tuple[str, int, Category]] = []
        self._rest: list[tuple[Column, int, int]] = []
        end = 0
        for column in columns:
            at, end = end, end + column.width
            self._spans[column.name] = at, end
            self._lay_out(column, at, end)
        self._zeros = [*[0.0] * self.width, 1.0]
        self._sizes = matrix_sizes(columns)

    def _lay_out(self, column: Column, at: int, end: int) -> None:
        if type(column) is Number:
            if column.line is not None:
                self._numbers.append((column.name, at, *column.line, column))
        elif type(column) is Category and column.values is not None and not column.other:
            self._listed.append((column.name, {value: at + i for value, i in column.table.items()}))
        elif type(column) is Category:
            self._categories.append((column.name, at, column))
        else:
            self._rest.append((column, at, end))

    def span(self, name: str) -> Span | None:
        """Look up the places of a column's numbers; None if there is no such column."""
        return self._spans.get(name)

    def encode(self, given: Any) -> Floats:
        """Encode one row as numbers (width,)."""
        return self.extended(given)[:-1]

    def extended(self, given: Any) -> Floats:
        """Encode one row, with a 1 after its numbers (width + 1,)."""
        fields: Mapping[str, Any] = given if type(given) is dict else row(self.where, given, self._sizes)
        if self.fields.isdisjoint(fields) and fields and self.fields:
            raise self._strange(fields)
        out, get = self._zeros.copy(), fields.get
        for name, at, centre, width, column in self._numbers:
            value = get(name)
            if type(value) is float or (type(value) is int and -LARGEST <= value <= LARGEST):
                scaled = (value - centre) / width
                # NaN is neither, and 0; too large a number is told so.
                out[at] = scaled if -LARGEST <= scaled <= LARGEST else column.scaled(value, self.where)
            elif value is not None:
                out[at] = column.scaled(value, self.where)
        for name, places in self._listed:
            value = get(name)
            if value is not None:
                word = value if type(value) is str else key(f"{self.where}[{name!r}]", value)
                place = places.get(word, -1)  # type: ignore[arg-type]  # None, if missing, is not there
                if place >= 0:
                    out[place] = 1.0
        for name, at, category in self._categories:
            place = category.place(key(f"{self.where}[{name!r}]", get(name)))
            if place >= 0:
                out[at + place] = 1.0
        for other, at, end in self._rest:
            out[at:end] = other.encode_row(get, self.where)
        return np.array(out, dtype=np.float64)

    def encode_all(self, given: Any) -> Floats:
        """Encode a table as numbers (n, width), with the bits of `encode`."""
        found = table(self.where, given, self._sizes)
        if found.of_dictionaries and found.names and self.fields.isdisjoint(found.names) and self.fields:
            raise self._strange(found.names)
        result = np.empty((found.rows, self.width))
        for column in self.columns:
            at, end = self._spans[column.name]
            result[:, at:end] = column.encode_table(found, self.where, found.rows)
        return result

    def _strange(self, fields: Iterable[str]) -> BadValue:
        wanted, have = ", ".join(sorted(map(repr, self.fields))), ", ".join(map(repr, fields))
        return BadValue(self.where, f"{self.where} has none of the fields {wanted}; it has {have}")


def matrix_sizes(columns: Sequence[Column]) -> dict[str, int] | None:
    """Count the columns of a matrix that each of these takes; None if a matrix cannot hold what they need."""
    if not all(type(column) in (Number, Vector) for column in columns):
        return None
    return {column.name: column.width for column in columns}


MOST_TEXTS = 50
"""More different texts than these are no category that anybody would have meant."""
NAMES = 20, 0.8
"""From so many rows on, a text that is another one in more than this share of them is a name."""


def guessed(table: Table, without: Collection[str | None]) -> tuple[Column, ...]:
    """Numbers as `Number`, booleans as 0 and 1, text as `Category`, lists as `Vector`; all but some fields.

    Text that is no category is left out, with a warning.
    """
    found = (_guess(table, name) for name in table.names if name not in without)
    return tuple(column for column in found if column is not None)


def _guess(table: Table, name: str) -> Column | None:
    values = table(name)
    if isinstance(values, np.ndarray):
        if values.ndim == 2:
            return Vector(name, values.shape[1])
        return Number(name, scale=None) if values.dtype.kind == "b" else Number(name)
    found = [value for value in map(_value, values) if value is not None]
    if found and all(isinstance(value, bool) for value in found):
        return Number(name, scale=None)
    if found and all(isinstance(value, (int, float, Decimal)) for value in found):
        return Number(name)
    if found and all(isinstance(value, str) for value in found):
        different, rows = len(set(found)), len(found)
        if different > MOST_TEXTS or (rows >= NAMES[0] and different > NAMES[1] * rows):
            warnings.warn(
                f"{table.where}[{name!r}] is left out: {different} different texts in {rows} rows are no "
                f"category; if they say something of the item, Category({name!r}, hashed=16) in features= or "
                "a Vector of their embeddings has it",
                stacklevel=6,
            )
            return None
        return Category(name)
    sizes = {len(value) for value in found if isinstance(value, (Sequence, np.ndarray))}
    if len(sizes) == 1 and not any(isinstance(value, (str, bytes, int, float)) for value in found):
        return Vector(name, sizes.pop())
    raise _undecided(
        table, name, "is neither numbers nor text nor vectors of one size" if found else "is empty"
    )


def _value(value: Any) -> Any:
    return value if isinstance(value, (str, Sequence, np.ndarray)) else as_python(value)


def _undecided(table: Table, name: str, why: str) -> BadValue:
    text = (
        f"{table.where}[{name!r}] {why}; say what it is: features=Features(item=[Category({name!r}, …), …])"
    )
    return BadValue("features", text)


FORMAT = 1
"""Version of the JSON that `Features.to_dict` makes."""
Interactions = Literal["plain", "outer", "shrunk"] | Sequence[tuple[str, str]]
SHRINK = 0.1
"""Size of a product in a map with interactions="shrunk", by the rule of benchmarks/guessed_maps.py."""


@dataclass(frozen=True)
class Features:
    """A map from (context, item) to the features of an arm. Immutable, and JSON by `to_dict`.

    >>> from linmed.features import Category, Features, Number
    >>> map = Features(context=[Category("device", ["phone", "desk"])], item=[Number("price", scale=(10, 5))])
    >>> map.names
    ('price×device=phone', 'price×device=desk', 'price', 'device=phone', 'device=desk', '1')
    >>> map.arms([{"price": 5}, {"price": 20}], {"device": "phone"})[1].tolist()
    [2.0, 0.0, 2.0, 1.0, 0.0, 1.0]
    >>> map.dim, map.item_width, map.context_width, map.unknown, Features.from_dict(map.to_dict()) == map
    (6, 1, 2, (), True)
    >>> E, x = map.encode_items({"price": [5, 20]}), map.encode_context({"device": "phone"})
    >>> E.tolist(), x.tolist(), map.encode_contexts([{"device": "fridge"}]).tolist()
    ([[-1.0], [2.0]], [1.0, 0.0], [[0.0, 0.0]])
    >>> B, c = map.lift(x)
    >>> bool((map.join(E, x) == E @ B.T + c).all())
    True

    With e the numbers of the item's columns and x those of the context's, `interactions` says what is made of
    them. "outer" (the default): (e, 1) ⊗ (x, 1), so that every feature of an item has a line of its own in
    the context. "shrunk", the choice of a map that is guessed: the same with all products of e and x times
    0.1, so that less is expected of them than of either alone. "plain": (e, x, 1): whatever the context, the
    ranking of the items is the same. Pairs [("device", "price"), …] of a context's column and an item's:
    (e, x, 1) and the products of these. `intercept=False` leaves the 1s out.

    What is unknown (a category that nobody listed) or missing has a defined answer: see each column.
    """

    context: Sequence[Column] = ()
    item: Sequence[Column] = ()
    interactions: Interactions = "outer"
    intercept: bool = True

    def __post_init__(self) -> None:
        for side in ("context", "item"):
            object.__setattr__(self, side, _columns(side, getattr(self, side)))
        validation.flag("intercept", self.intercept)
        object.__setattr__(self, "interactions", self._checked(self.interactions))
        if not self.item and not self.context:
            raise BadValue("item", "item and context are both empty: there is nothing to make features of")

    def _checked(self, given: Any) -> Interactions:
        if isinstance(given, str):
            named: Interactions = validation.option("interactions", given, ("plain", "outer", "shrunk"))
            return named
        if not isinstance(given, Sequence):
            text = f"interactions must be 'plain', 'outer', 'shrunk' or a list of pairs, got {given!r}"
            raise BadType("interactions", text)
        sides = {column.name for column in self.context}, {column.name for column in self.item}
        pairs = []
        for pair in given:
            if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
                text = f"interactions must hold pairs (a context's column, an item's), got {pair!r}"
                raise BadType("interactions", text)
            for name, known, side in zip(pair, sides, ("context", "item"), strict=True):
                if name not in known:
                    have = ", ".join(sorted(map(repr, known))) or "none"
                    text = f"interactions has {pair!r}: {name!r} is no column of {side}, which has {have}"
                    raise BadValue("interactions", text)
            pairs.append((pair[0], pair[1]))
        if len(set(pairs)) < len(pairs):
            raise BadValue("interactions", f"interactions has a pair twice: {pairs}")
        return tuple(pairs)

    def fit(self, contexts: Any = None, items: Any = None) -> "Features":
        """Learn from tables the categories and scales that this map lacks."""
        fitted: dict[str, Any] = {}
        for side, argument, given in (("context", "contexts", contexts), ("item", "items", items)):
            if given is not None:
                found = table(argument, given, matrix_sizes(getattr(self, side)))
                fitted[side] = tuple(column.fit(found, argument) for column in getattr(self, side))
        return replace(self, **fitted)

    @property
    def unknown(self) -> tuple[str, ...]:
        """What `fit` has still to learn, in words."""
        return tuple(column.unknown for column in (*self.context, *self.item) if column.unknown)

    @property
    def dim(self) -> int:
        """d: the features of an arm."""
        return self.products.dim

    @property
    def item_width(self) -> int:
        """de: the numbers of an item."""
        return self.item_side.width

    @property
    def context_width(self) -> int:
        """dx: the numbers of a context."""
        return self.context_side.width

    @property
    def names(self) -> tuple[str, ...]:
        """What each feature of an arm is, (d,)."""
        items, contexts = (*self.item_side.labels, ""), (*self.context_side.labels, "")
        pairs = zip(self.products.item.tolist(), self.products.context.tolist(), strict=True)
        return tuple("×".join(filter(None, (items[i], contexts[j]))) or "1" for i, j in pairs)

    def __str__(self) -> str:
        """d, and what it is made of.

        >>> from linmed.features import Category, Features, Number
        >>> print(Features([Category("device", ["phone", "desk"])], [Number("price", scale=None)]))
        6 features: 1 of the item (price 1), 2 of the context (device 2), 2 products (outer), 1 constant
        """
        parts, made = [], self.products
        of = made.item < self.item_width, made.context < self.context_width
        for words, columns, count in (
            ("of the item", self.item, of[0] & ~of[1]), ("of the context", self.context, ~of[0] & of[1])
        ):  # fmt: skip
            if count.any():
                told = ", ".join(f"{column.name} {column.width}" for column in columns)
                parts.append(f"{count.sum()} {words} ({told})")
        how = self.interactions if isinstance(self.interactions, str) else f"{len(self.interactions)} pairs"
        products, constant = (of[0] & of[1]).sum(), (~of[0] & ~of[1]).sum()
        parts += [f"{products} products ({how})"] if products else []
        return f"{self.dim} features: {', '.join([*parts, *(['1 constant'] if constant else [])])}"

    def encode_context(self, context: Any) -> Floats:
        """x (dx,): a dictionary, a row of any table, or, where all columns are numbers, an array."""
        self._check_known(self.context, "context")
        return self.context_side.encode(context)

    def encode_contexts(self, contexts: Any) -> Floats:
        """Encode a table, or a list of rows (n, dx)."""
        self._check_known(self.context, "contexts")
        return self.context_side.encode_all(contexts)

    def encode_items(self, items: Any) -> Floats:
        """E (K, de): a table, or a list of rows."""
        self._check_known(self.item, "items")
        return self.item_side.encode_all(items)

    def join(self, items: NDArray[np.floating], context: Floats) -> Floats:
        """Make arms (K, d) from E (K, de) and x (dx,)."""
        return self.products.join(*self._shaped(items, context))

    def lift(self, context: ArrayLike) -> tuple[Floats, Floats]:
        """B (d, de) and c (d,) with `join(E, x)` = E Bᵀ + c: what an arm is in the space of items."""
        return self.products.lift(self._shaped(np.empty((0, self.item_width)), context)[1])

    def arms(self, items: Any, context: Any) -> Floats:
        """Make arms (K, d) from tables and rows as they come."""
        return self.products.join(self.encode_items(items), self.encode_context(context))

    def _shaped(self, items: Any, context: Any) -> tuple[NDArray[np.floating], Floats]:
        matrix, vector = np.asarray(items), validation.floats("context", context)
        if matrix.ndim != 2 or matrix.shape[1] != self.item_width:
            text = f"items must have shape (K, {self.item_width}) as from encode_items, got {matrix.shape}"
            raise BadValue("items", text)
        if vector.shape != (self.context_width,):
            wanted = f"({self.context_width},) as from encode_context"
            raise BadValue("context", f"context must have shape {wanted}, got {vector.shape}")
        return matrix, vector

    def _check_known(self, columns: Sequence[Column], argument: str) -> None:
        for column in columns:
            if column.unknown is not None:
                text = f"{column.unknown} is not known yet: use the map that fit({argument}=…) returns"
                raise BadValue("features", text)

    @cached_property
    def context_side(self) -> Side:
        """The context's columns, laid out."""
        return Side(self.context, "context")

    @cached_property
    def item_side(self) -> Side:
        """The items' columns, laid out."""
        return Side(self.item, "items")

    @cached_property
    def products(self) -> Products:
        """Which entries of item and context each feature is the product of."""
        widths = self.item_width, self.context_width
        if self.interactions in ("outer", "shrunk"):
            _check_size((widths[0] + self.intercept) * (widths[1] + self.intercept))
            made = outer(*widths, self.intercept)
            if self.interactions == "shrunk":
                both = (made.item < widths[0]) & (made.context < widths[1])
                made = made._replace(sizes=np.where(both, SHRINK, 1.0))
        elif isinstance(self.interactions, str):
            made = plain(*widths, self.intercept)
        else:
            spans: list[tuple[Span, Span]] = []
            for c, i in self.interactions:
                of_context, of_item = self.context_side.span(c), self.item_side.span(i)
                assert of_context is not None
                assert of_item is not None
                spans.append((of_context, of_item))
            _check_size(sum((c[1] - c[0]) * (i[1] - i[0]) for c, i in spans))
            made = chosen(*widths, spans, self.intercept)
        if made.dim == 0:
            text = f"interactions {self.interactions!r} without an intercept needs columns of both sides"
            raise BadValue("interactions", text)
        return made

    def to_dict(self) -> dict[str, Any]:
        """Give the map as JSON-ready values."""
        pairs = self.interactions if isinstance(self.interactions, str) else [*map(list, self.interactions)]
        return {
            "format": FORMAT,
            "context": [column.to_dict() for column in self.context],
            "item": [column.to_dict() for column in self.item],
            "interactions": pairs,
            "intercept": self.intercept,
        }

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> "Features":
        """Make the map that `to_dict` described."""
        if not isinstance(config, Mapping):
            raise BadType("features", f"features must be a dictionary from to_dict, got {config!r}")
        if config.get("format") != FORMAT:
            text = f"features have format {config.get('format')!r}; this release of linmed reads {FORMAT}"
            raise BadValue("format", text)
        given = {key: value for key, value in config.items() if key != "format"}
        for name in sorted(set(given) ^ {"context", "item", "interactions", "intercept"}):
            raise BadValue(
                name, f"features must have context, item, interactions and intercept; see {name!r}"
            )
        return cls(**{key: _read(key, value) for key, value in given.items()})


def _check_size(count: int) -> None:
    if count > MOST_NUMBERS:
        text = f"interactions would give an arm {count} features, at most {MOST_NUMBERS} can be learned from"
        raise BadValue("interactions", f"{text}; name the pairs of columns that matter")


def _columns(side: str, given: Any) -> tuple[Column, ...]:
    if isinstance(given, (str, Column, Mapping)) or not hasattr(given, "__iter__"):
        raise BadType(side, f"{side} must be a list of columns such as [Number('age')], got {given!r}")
    columns = tuple(given)
    for column in columns:
        if not isinstance(column, Column):
            hint = f"; write Number({column!r}) or Category({column!r})" if isinstance(column, str) else ""
            raise BadType(side, f"{side} must be a list of columns, got {column!r} in it{hint}")
    names = [column.name for column in columns]
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise BadValue(side, f"{side} has two columns called {twice!r}")
    return columns


def _read(key: str, value: Any) -> Any:
    if key in ("context", "item"):
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise BadType(key, f"{key} must be a list of columns, got {value!r}")
        return [Column.from_dict(each) for each in value]
    return value
