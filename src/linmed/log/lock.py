"""One writer at a time: a lock on a log's directory, which the system takes back however its holder ends."""

import os
import sys
import weakref
from pathlib import Path

from linmed.validation import BadValue

if sys.platform != "win32":
    import fcntl


class DirectoryLock:
    """Held from its making to `release`. Readers do not ask for it; nothing is left in the directory.

    Windows, which cannot open a directory, and file systems without locks let every writer through.
    """

    def __init__(self, path: Path):
        self._owner = os.getpid()
        self._handle: int | None = None
        if sys.platform == "win32":
            return
        handle = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if isinstance(error, BlockingIOError):
                raise BadValue(
                    "path",
                    f"the log at {path} has a writer already, in this process or another: close that one "
                    "first (or the agent it belongs to), or write to a directory of its own",
                ) from None
        else:
            self._handle = handle
            _held.add(self)

    @property
    def ours(self) -> bool:
        """False in a process forked from the one that took the lock."""
        return os.getpid() == self._owner

    def release(self) -> None:
        """Let the next writer in; twice does nothing."""
        if sys.platform != "win32" and self._handle is not None:
            if self.ours:
                fcntl.flock(self._handle, fcntl.LOCK_UN)
            os.close(self._handle)
            self._handle = None


_held: "weakref.WeakSet[DirectoryLock]" = weakref.WeakSet()


def _let_go() -> None:
    """A forked child has copies of its parent's locks, and would keep them when the parent is killed."""
    for lock in list(_held):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
