"""Errors that name the argument that is wrong."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from linmed.validation import BadType, BadValue


@contextmanager
def blames(field: str, match: str) -> Iterator[None]:
    """What happens inside is refused in these words, and `field` is said to be wrong."""
    with pytest.raises((BadValue, BadType), match=match) as refused:
        yield
    assert refused.value.field == field
