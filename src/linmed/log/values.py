"""Other people's values as a log's: text, numbers, booleans and times.

Every reading is one of rows: a column can be read if and only if each of its rows can.
"""

import re

import pyarrow as pa
import pyarrow.compute as pc

from linmed.log.schema import FIRST, LAST, TIME

NUMBER = r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*$"
ZONE = r":[0-9]{2}.*(Z|[-+][0-9]{2}(:?[0-9]{2})?)\s*$"


def expected(kind: pa.DataType) -> str:
    """What a value of a column must be, in words."""
    if kind == TIME:
        return "a time (ISO 8601, or seconds since 1970, in the years 1 to 9999)"
    if pa.types.is_list(kind):
        return "a list of lists of numbers" if pa.types.is_list(kind.value_type) else "a list of numbers"
    if pa.types.is_boolean(kind):
        return "true or false"
    if pa.types.is_integer(kind):
        return "a whole number"
    return "a number" if pa.types.is_floating(kind) else f"a value of type {kind}"


def is_named(kind: pa.DataType) -> bool:
    """Whether values of this kind are names, not numbers."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return not (number or pa.types.is_null(kind))


def read_as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """`column` as `kind`; raises ValueError or one of pyarrow's errors where some value is none."""
    if column.type == kind:
        return column
    if column.null_count == len(column):
        return pa.nulls(len(column), kind)
    if pa.types.is_dictionary(column.type):
        return read_as(column.dictionary_decode(), kind)
    text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if kind == TIME:
        return _from_text(column) if text else _time(column)
    if pa.types.is_boolean(kind):
        return _truth(column.cast(pa.string()) if text else column)
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    boolean = text and numeric and _first(column).lower() in ("true", "false")
    try:
        return column.cast(pa.bool_()).cast(kind) if boolean else column.cast(kind)
    except pa.ArrowInvalid:
        if not (text and numeric):
            raise
    return _number(pc.utf8_trim_whitespace(column)).cast(kind)


def _first(text: pa.Array) -> str:
    """The first text there is. What it looks like is tried first: a cast that fails is slow."""
    present = text.slice(0, 1) if text.slice(0, 1).null_count == 0 else text.drop_null()
    return present[0].as_py() if len(present) else ""


def _truth(column: pa.Array) -> pa.Array:
    """true and false, or 1 and 0, as text or numbers: any other number is neither."""
    number = read_as(column, pa.float64())
    if pc.all(pc.or_(pc.equal(number, 0.0), pc.equal(number, 1.0))).as_py() is False:
        raise ValueError("neither true nor false")
    return number.cast(pa.bool_())


def _number(text: pa.Array) -> pa.Array:
    """Text as float64; true and false are 1 and 0."""
    small = pc.utf8_lower(text)
    digits = pc.if_else(pc.equal(small, "true"), "1", pc.if_else(pc.equal(small, "false"), "0", text))
    return digits.cast(pa.float64())


def _time(column: pa.Array) -> pa.Array:
    """Moments of any unit and zone (none is UTC), days, or numbers of seconds since 1970."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz), safe=False).cast(TIME)
    if pa.types.is_date(kind) or pa.types.is_null(kind):
        return column.cast(pa.timestamp("us")).cast(TIME)
    seconds = column.cast(pa.float64())
    possible = pc.and_(pc.greater_equal(seconds, FIRST / 1e6), pc.less_equal(seconds, LAST / 1e6))
    if pc.all(possible).as_py() is False:
        raise ValueError("seconds since 1970 must lie in the years 1 to 9999 (are these milliseconds?)")
    whole = pa.types.is_integer(kind)
    moments = pc.multiply(column.cast(pa.int64()), 10**6) if whole else pc.round(pc.multiply(seconds, 1e6))
    return moments.cast(pa.int64()).cast(TIME)


def _from_text(text: pa.Array) -> pa.Array:
    """ISO 8601 with a zone or without (UTC), or seconds since 1970; each row for itself."""
    first = _first(text)
    zone = "UTC" if re.search(ZONE, first) else None
    kind = pa.float64() if re.search(NUMBER, first) else pa.timestamp("us", zone)
    try:
        return _time(text.cast(kind))
    except ValueError:
        text = pc.utf8_trim_whitespace(text)
    number = pc.match_substring_regex(text, NUMBER)
    zoned = pc.match_substring_regex(text, ZONE)
    nothing = pa.scalar(None, text.type)
    seconds = _time(pc.if_else(number, text, nothing).cast(pa.float64()))
    with_zone = _parsed(pc.if_else(pc.and_(zoned, pc.invert(number)), text, nothing), "UTC")
    without = _parsed(pc.if_else(pc.or_(zoned, number), nothing, text), None)
    return pc.coalesce(seconds, with_zone, without)


def _parsed(text: pa.Array, zone: str | None) -> pa.Array:
    """Up to nine digits of a second, of which six are kept."""
    try:
        return text.cast(pa.timestamp("us", zone)).cast(TIME)
    except pa.ArrowInvalid:
        return _time(text.cast(pa.timestamp("ns", zone)))
