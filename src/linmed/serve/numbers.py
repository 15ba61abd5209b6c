"""Arrays as the database holds them."""

from collections.abc import Iterator, Sequence
from typing import TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from linmed.validation import Floats

CHUNK = 1000
"""Values in one IN (...): both databases take more."""
_LITTLE = np.dtype("<f8")
_KINDS = ("|i1", "<f2", "<f4", "<f8")

T = TypeVar("T")


@overload
def blob(array: Floats) -> bytes: ...
@overload
def blob(array: None) -> None: ...
def blob(array: Floats | None) -> bytes | None:
    """float64, little-endian."""
    return None if array is None else array.astype(_LITTLE, copy=False).tobytes()


def vector(content: bytes) -> Floats:
    """The inverse of `blob`."""
    return np.frombuffer(content, dtype="<f8").astype(np.float64)


def pack(array: Floats) -> bytes:
    """The same numbers in the narrowest form that holds them to the last bit, after a byte that names it.

    Contexts are mostly zeros, ones and small numbers: a byte each instead of eight.
    """
    whole = array.tobytes()
    with np.errstate(over="ignore", invalid="ignore"):
        for i, kind in enumerate(_KINDS):
            narrow = array.astype(kind)
            if narrow.astype(np.float64).tobytes() == whole:
                return bytes([i]) + narrow.tobytes()
    raise AssertionError("float64 holds every float64")


def unpack(content: bytes) -> Floats:
    """The inverse of `pack`."""
    return np.frombuffer(content, dtype=_KINDS[content[0]], offset=1).astype(np.float64)


def pack_places(places: NDArray[np.uint32], count: int) -> bytes:
    """Places among `count` items: a bit for each, if they are in order and that is shorter, or a list."""
    width = 1 if count <= 2**8 else 2 if count <= 2**16 else 4
    if (count + 7) // 8 < width * places.size and (places[1:] > places[:-1]).all():
        mask = np.zeros(count, dtype=bool)
        mask[places] = True
        return b"\0" + np.packbits(mask).tobytes()
    return bytes([width]) + places.astype(f"<u{width}").tobytes()


def unpack_places(content: bytes) -> NDArray[np.intp]:
    """The inverse of `pack_places`."""
    if content[0] == 0:
        return np.flatnonzero(np.unpackbits(np.frombuffer(content, dtype=np.uint8, offset=1)))
    return np.frombuffer(content, dtype=f"<u{content[0]}", offset=1).astype(np.intp)


def parts(values: Sequence[T], size: int = CHUNK) -> Iterator[Sequence[T]]:
    """`values` in pieces."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
