"""Taking turns in the event loop: work of many small pieces, none of which gives up the interpreter's lock.

In a thread it would delay the loop no less, for whoever holds the lock keeps the others out.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
from pydantic_core import to_json

S = TypeVar("S")
T = TypeVar("T")

TURN = 0.0005
"""Seconds after which other requests have theirs."""


async def in_turns(function: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """[function(item) for item in items], with other requests served in between."""
    found: list[T] = []
    began = time.perf_counter()
    for item in items:
        found.append(function(item))
        if time.perf_counter() - began > TURN:
            await asyncio.sleep(0)
            began = time.perf_counter()
    return found


async def encoded(content: Any) -> bytes:
    """`content` as JSON, however large it is; what is not finite becomes null, as in `answers.Json`."""
    return b"".join(await in_turns(bytes, _pieces(content)))


def _pieces(content: Any) -> Iterator[bytes]:
    """JSON down to rows of numbers, which come whole."""
    if isinstance(content, np.ndarray):
        content = content.tolist() if content.ndim < 2 else list(content)
    if isinstance(content, dict) and content:
        before = b"{"
        for key, value in content.items():
            yield before + to_json(key) + b":"
            yield from _pieces(value)
            before = b","
        yield b"}"
    elif isinstance(content, list) and content and isinstance(content[0], (dict, list, np.ndarray)):
        before = b"["
        for value in content:
            yield before
            yield from _pieces(value)
            before = b","
        yield b"]"
    else:
        yield to_json(content, inf_nan_mode="null")
