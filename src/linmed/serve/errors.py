"""Name the reasons why a request is not granted; `middleware` knows the HTTP status of each."""

from typing import Literal

Kind = Literal[
    "malformed",
    "unauthorised",
    "forbidden",
    "unknown",
    "conflict",
    "too slow",
    "too large",
    "wrong type",
    "invalid",
    "overloaded",
    "head too large",
    "left",
    "failed",
    "unavailable",
]

INPUT = (ValueError, TypeError, ArithmeticError)
"""What the library raises for a value that it cannot work with; `linmed.validation` adds the `field`."""


class Refused(Exception):
    """Refuse a request: of which kind, why, because of which field, and when to try again."""

    def __init__(self, kind: Kind, message: str, field: str | None = None, retry_after: int | None = None):
        super().__init__(message)
        self.kind, self.message, self.field, self.retry_after = kind, message, field, retry_after


def stopping() -> Refused:
    """Refuse what is asked of a server that is about to end."""
    return Refused("unavailable", "the server is shutting down: try again", retry_after=1)


class refusing:
    """Refuse what the library cannot work with; `where` leads to the part of the request at hand."""

    __slots__ = ("where",)

    def __init__(self, where: str = ""):
        self.where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, INPUT):
            field = self.where + (field_of(error) or "")
            raise Refused("invalid", f"{self.where}{error}", field.rstrip(".") or None) from None


def field_of(error: Exception) -> str | None:
    """Return the argument that an error of the library names, if it does."""
    return getattr(error, "field", None)


def place(*parts: int | str) -> str:
    """Write a place in a request: `decisions[3].arms` for ("decisions", 3, "arms")."""
    found = ""
    for part in parts:
        found += f"[{part}]" if isinstance(part, int) else f".{part}" if found else part
    return found
