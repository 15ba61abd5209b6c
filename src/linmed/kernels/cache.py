"""Where compiled kernels are kept: one file for each kernel and signature, where numba would keep them.

numba's own cache has one index for each function. Two processes that add to it at once may leave an entry
that leads to the other's code, and it does not notice a change in another file that the kernel calls. Here a
file's name says all that its content depends on, and processes agree on nothing but who compiles.
"""

import contextlib
import functools
import hashlib
import inspect
import os
import pickle
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from numba.core import config
from numba.core.caching import (
    FunctionCache,
    InTreeCacheLocator,
    UserProvidedCacheLocator,
    UserWideCacheLocator,
)
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from linmed.kernels.cold_start import (
    PATIENCE,
    announce_compilations,
    logger,
    tell,
    title,
    without_checking_blas,
)

LONGEST_WAIT = 300.0
"""Seconds to wait for another process that compiles the same kernel, before it is compiled here as well."""


def keep_on_disk(compiled: Any) -> None:
    """Have the kernel looked for on disk before it is compiled, and kept there afterwards."""
    compiled._cache = KernelCache(compiled.py_func)


def folder() -> str | None:
    """Where linmed's own kernels are kept; None where no folder can be written."""
    return KernelCache(folder).cache_path


class KernelCache(FunctionCache):
    """numba asks `load_overload` before it compiles, and hands the result to `save_overload`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        # Nothing is looked up before the kernel is called: there are many, and a program uses few.
        self._py_func = function
        self._turns: list[contextlib.ExitStack] = []
        self.enable()

    @functools.cached_property
    def _folders(self) -> list[Path]:
        """Where to look, in this order; the last is the first that can be written to, if there is one.

        As numba has it: $NUMBA_CACHE_DIR, then beside the source, then the user's own folder of caches. But a
        folder that can only be read, as in an image, is read, and one that other users can write to is not:
        what is kept there is run. Beside the source Python keeps its own code, whoever can write there.
        """
        file = inspect.getfile(self._py_func)
        if not os.path.exists(file):
            return []
        locators: list[Any] = [InTreeCacheLocator, UserWideCacheLocator]
        if getattr(config, "CACHE_DIR", ""):
            locators.insert(0, UserProvidedCacheLocator)
        folders: list[Path] = []
        for locator in locators:
            found = Path(locator(self._py_func, file).get_cache_path())
            writes = _can_write(found)
            if locator is InTreeCacheLocator or _trusted(found):
                folders.append(found)
                if writes:
                    break
        return folders

    @property
    def cache_path(self) -> str | None:
        """The folder that is written to; None where there is none."""
        return str(self._folders[-1]) if self._folders and _can_write(self._folders[-1]) else None

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The kernel from disk. Where it is not there, the caller is the one to compile it."""
        without_checking_blas()
        announce_compilations()
        context.refresh()
        name, key = self._file(signature, context.codegen())
        found = self._read(name, key, context)
        if found is None and self.cache_path is not None:
            self.give_up()
            turn = contextlib.ExitStack()
            turn.enter_context(_turn(Path(self.cache_path, name).with_suffix(".lock"), self._py_func))
            self._turns.append(turn)
            found = self._read(name, key, context)
            if found is not None:
                self.give_up()
        return found

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep what was compiled. A disk that is full is no reason to fail."""
        try:
            if self.cache_path is not None and not result.library.has_dynamic_globals:
                name, key = self._file(signature, result.codegen)
                with contextlib.suppress(OSError):
                    data = dumps(result._reduce())
                    whole = pickle.dumps((key, hashlib.sha256(data).digest(), data))
                    self._write(Path(self.cache_path, name), whole)
        finally:
            self.give_up()

    def give_up(self) -> None:
        """Others may compile it: it is kept now, or this process has failed to."""
        while self._turns:
            self._turns.pop().close()

    def _file(self, signature: Any, codegen: Any) -> tuple[str, str]:
        """Its name, and what it is for: kernel, source, signature, processor, version of numba."""
        source = Path(inspect.getfile(self._py_func))
        content = source.read_bytes() if source.exists() else b""
        stamp = hashlib.sha256(content + _sources()).hexdigest()[:12]
        key = repr((stamp, numba.__version__, *self._index_key(signature, codegen)))
        own = hashlib.sha256(key.encode()).hexdigest()[:16]
        return f"{self._base()}-{stamp}-{own}.nbc", key

    def _base(self) -> str:
        module = Path(inspect.getfile(self._py_func)).stem
        name = self._py_func.__qualname__.replace("<", "").replace(">", "")
        return f"{module}.{name}.{sys.implementation.cache_tag}"

    def _read(self, name: str, key: str, context: Any) -> Any:
        """The kernel that is kept under this name, if the file is whole and for this key."""
        for folder in self._folders:
            # Whatever is wrong with a file, the kernel can be compiled again.
            with contextlib.suppress(Exception):
                found, digest, data = pickle.loads((folder / name).read_bytes())
                if found == key and hashlib.sha256(data).digest() == digest:
                    return CompileResult._rebuild(context, *pickle.loads(data))
        return None

    def _write(self, path: Path, content: bytes) -> None:
        """Whole or not at all; what was made from another state of the source goes."""
        mine = path.with_suffix(f".{os.getpid()}")
        try:
            mine.write_bytes(content)
            os.replace(mine, path)
        finally:
            mine.unlink(missing_ok=True)
        present = path.name.rpartition("-")[0]
        for old in path.parent.glob(f"{self._base()}-*"):
            if not old.name.startswith(present):
                old.unlink(missing_ok=True)


@functools.cache
def _can_write(folder: Path) -> bool:
    """Whether a file can be made there, tried out."""
    try:
        folder.mkdir(0o755, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


@functools.cache
def _trusted(folder: Path) -> bool:
    """Whether nobody but this user and root can put a file there; if somebody can, it is told once."""
    others = _others(folder.absolute())
    if others:
        logger.warning(
            "kernels are neither read from nor kept in %s, because %s: whoever can write there could have "
            "code run by this program. Give NUMBA_CACHE_DIR a folder that only you can write to (chmod go-w)",
            folder, others,
        )  # fmt: skip
    return not others


def _others(folder: Path) -> str:
    """Who else can write to a folder, or put another in its place; empty where nobody can."""
    if sys.platform == "win32":  # which has other rights, and users' folders are their own
        return ""
    real = folder.resolve()
    for place in dict.fromkeys((folder, *folder.parents, real, *real.parents)):
        try:
            found = place.lstat()
        except OSError:  # it is not there yet
            continue
        if found.st_uid not in (0, os.getuid()):
            return f"{place} belongs to another user (number {found.st_uid})"
        inside = place not in (folder, real)
        if stat.S_ISLNK(found.st_mode) or (inside and found.st_mode & stat.S_ISVTX):
            continue  # a sticky folder, as /tmp: nobody can take away what is another's
        if found.st_mode & stat.S_IWOTH:
            return f"every user can write to {place}"
        if found.st_mode & stat.S_IWGRP and not _own_group(found.st_gid):
            return f"the group number {found.st_gid} can write to {place}"
    return ""


def _own_group(number: int) -> bool:
    """Whether a group has no other member than this user, as where everybody has one of their own."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(number)
    except KeyError:
        return number == 0
    return number == 0 or (group.gr_name == user and set(group.gr_mem) <= {user})


@functools.cache
def _sources() -> bytes:
    """A digest of all kernels: each may be compiled into any other."""
    seen = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        seen.update(file.read_bytes())
    return seen.digest()


@contextlib.contextmanager
def _turn(path: Path, function: Callable[..., Any]) -> Iterator[None]:
    """Until this ends, no other process has its turn at compiling `function`.

    Kernels wait for those that they call and never the other way round, so nobody waits in a circle.
    """
    try:
        import fcntl

        file = path.open("wb")
    except (ImportError, OSError):  # where nothing can be locked, the same may be compiled twice
        yield
        return
    with file:
        began, told = time.monotonic(), False
        with contextlib.suppress(OSError):
            while (waited := time.monotonic() - began) < LONGEST_WAIT:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if waited > PATIENCE and not told:
                        tell(f"waiting for another process that compiles {title(function)}")
                        told = True
                    time.sleep(0.02)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
