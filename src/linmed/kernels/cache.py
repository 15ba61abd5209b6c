"""Where compiled kernels are kept: one file for each kernel and signature, in the folder that numba chooses.

numba's own cache has one index for each function. Two processes that add to it at once may leave an entry
that leads to the other's code, and it does not notice a change in another file that the kernel calls. Here a
file's name says all that its content depends on, and processes agree on nothing but who compiles.
"""

import contextlib
import functools
import hashlib
import os
import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.serialize import dumps

from linmed.kernels.cold_start import announce_compilations, without_checking_blas

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
        self._turns: dict[Path, contextlib.ExitStack] = {}
        self.enable()

    @functools.cached_property
    def _impl(self) -> Any:
        """What knows the folder and the form; None where no folder can be written."""
        try:
            return CompileResultCacheImpl(self._py_func)
        except RuntimeError:  # neither beside the source nor in the user's own folder of caches
            return None

    @property
    def cache_path(self) -> str | None:
        """The folder."""
        return None if self._impl is None else str(self._impl.locator.get_cache_path())

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The kernel from disk. Where it is not there, the caller is the one to compile it."""
        without_checking_blas()
        announce_compilations()
        context.refresh()
        if self._impl is None:
            return None
        path, key = self._place(signature, context.codegen())
        data = _read(path, key)
        if data is None:
            self.give_up()
            turn = contextlib.ExitStack()
            turn.enter_context(_turn(path.with_suffix(".lock")))
            data = _read(path, key)
            if data is None:
                self._turns[path] = turn
            else:
                turn.close()
        return None if data is None else self._impl.rebuild(context, data)

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep what was compiled. A disk that is full is no reason to fail."""
        if self._impl is None:
            return
        path, key = self._place(signature, result.codegen)
        try:
            if self._impl.check_cachable(result):
                with contextlib.suppress(OSError):
                    self._write(path, pickle.dumps((key, dumps(self._impl.reduce(result)))))
        finally:
            self.give_up()

    def give_up(self) -> None:
        """Others may compile it: it is kept now, or this process has failed to."""
        while self._turns:
            self._turns.popitem()[1].close()

    def _place(self, signature: Any, codegen: Any) -> tuple[Path, str]:
        """The file, and what it is for: kernel, source, signature, processor, version of numba."""
        stamp = hashlib.sha256(self._impl.locator.get_source_stamp() + _sources()).hexdigest()[:12]
        key = repr((stamp, numba.__version__, *self._index_key(signature, codegen)))
        own = hashlib.sha256(key.encode()).hexdigest()[:16]
        return Path(self.cache_path or "") / f"{self._impl.filename_base}-{stamp}-{own}.nbc", key

    def _write(self, path: Path, content: bytes) -> None:
        """Whole or not at all; what was made from another state of the source goes."""
        mine = path.with_suffix(f".{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            mine.write_bytes(content)
            os.replace(mine, path)
        finally:
            mine.unlink(missing_ok=True)
        present = path.name.rpartition("-")[0]
        for old in path.parent.glob(f"{self._impl.filename_base}-*"):
            if not old.name.startswith(present):
                old.unlink(missing_ok=True)


@functools.cache
def _sources() -> bytes:
    """A digest of all kernels: each may be compiled into any other."""
    seen = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        seen.update(file.read_bytes())
    return seen.digest()


def _read(path: Path, key: str) -> Any:
    """What is kept there, if it is whole and for this key."""
    try:
        found, data = pickle.loads(path.read_bytes())
        return pickle.loads(data) if found == key else None
    except Exception:  # whatever is wrong with a file, the kernel can be compiled again
        return None


@contextlib.contextmanager
def _turn(path: Path) -> Iterator[None]:
    """Until this ends, no other process has its turn.

    Kernels wait for those that they call and never the other way round, so nobody waits in a circle.
    """
    try:
        import fcntl

        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("wb")
    except (ImportError, OSError):  # where nothing can be locked, the same may be compiled twice
        yield
        return
    with file:
        deadline = time.monotonic() + LONGEST_WAIT
        with contextlib.suppress(OSError):
            while time.monotonic() < deadline:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(0.02)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
