"""Writing files so that a crash leaves the old content or the new, never half of either."""

import io
import json
import os
import uuid
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

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


def write_arrays(target: Path, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays, and JSON beside them, to one file, atomically and without pickle."""
    text = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    write_atomically(target, lambda file: np.savez(file, allow_pickle=False, meta=text, **arrays))


def read_arrays(source: Path, otherwise: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What `write_arrays` wrote; of any other file `otherwise` says what it is not."""
    content = source.read_bytes()
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        meta = json.loads(arrays.pop("meta").tobytes())
        if "format" not in meta:
            raise ValueError("it has no format")
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError, OSError, TypeError, MemoryError) as error:
        raise ValueError(f"{source} {otherwise}, or it is damaged ({error})") from None
    return meta, arrays


PICTURES = (".png", ".svg", ".pdf")


def check_place(path: str | None, endings: tuple[str, ...] | None = None) -> None:
    """Check that a file can be written there, before any work is done for it."""
    if path is None:
        return
    place = Path(path)
    if not place.parent.is_dir():
        raise ValueError(f"there is no directory {place.parent} to write {place.name} into")
    if endings is not None and place.suffix.lower() not in endings:
        raise ValueError(f"a plot's name ends in {', '.join(endings[:-1])} or {endings[-1]}, got {path}")
