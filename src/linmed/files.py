"""Writing files so that a crash leaves the old content or the new, never half of either."""

import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

PARTIAL = ".part"
"""Ending of files that are still being written; their names begin with a dot."""


def write_atomically(
    target: Path, content: bytes | Callable[[BinaryIO], object], scratch: Path | None = None
) -> Path:
    """Write `content`, or what a function writes into the file it is given; durable when this returns.

    The bytes go to a hidden file beside `target` (or in `scratch`, a directory of the same file system, where
    readers of `target`'s would stumble over it), to the disk, and by a rename to their place.
    """
    partial = (target.parent if scratch is None else scratch) / f".{uuid.uuid4().hex}{PARTIAL}"
    try:
        with partial.open("wb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    except BaseException:
        with suppress(FileNotFoundError):
            partial.unlink()
        raise
    sync_directory(target.parent)
    return target


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable, where the system can (Windows cannot open a directory)."""
    if os.name == "nt":
        return
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
