"""The first call on a machine: it says what takes so long, and does without what is not needed."""

import functools
import logging
import sys
import threading
import time
from typing import Any

from numba.core import event

from linmed.notebooks import running

logger = logging.getLogger("linmed")

PATIENCE = 1.0
"""Seconds of compilation after which something is said."""


@functools.cache
def announce_compilations() -> None:
    """Say so, once, when kernels take more than a second to compile."""
    event.register("numba:compile", _Announcer())


class _Announcer(event.Listener):
    """Hears of every compilation. numba compiles one function at a time, and those it calls within it."""

    def __init__(self) -> None:
        self._depth = 0
        self._began = self._ended = 0.0
        self._spent = 0.0
        """Seconds of compilation, one kernel soon after the other."""
        self._timer: threading.Timer | None = None

    def on_start(self, event: Any) -> None:
        """A kernel within a kernel is no news."""
        if not _is_ours(event):
            return
        self._depth += 1
        if self._depth == 1:
            self._began = time.monotonic()
            if self._began - self._ended > PATIENCE:
                self._spent = 0.0
            if self._spent <= PATIENCE:
                kernel = event.data["dispatcher"]
                self._timer = threading.Timer(PATIENCE - self._spent, _say, [kernel])
                self._timer.daemon = True
                self._timer.start()

    def on_end(self, event: Any) -> None:
        """It is done, or has failed."""
        if not _is_ours(event):
            return
        kernel = event.data["dispatcher"]
        if tuple(event.data["args"]) not in kernel.overloads and hasattr(kernel._cache, "give_up"):
            kernel._cache.give_up()
        self._depth -= 1
        if self._depth == 0:
            self._ended = time.monotonic()
            self._spent += self._ended - self._began
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None


def _is_ours(event: Any) -> bool:
    return str(event.data["dispatcher"].py_func.__module__).startswith("linmed.")


def _say(kernel: Any) -> None:
    often = "once" if kernel._cache.cache_path else "in every process, for there is no place to keep it"
    tell(f"compiling for this machine, {often}: {title(kernel.py_func)}")


def title(function: Any) -> str:
    """How messages call a kernel: `rounds.play`, and for which rule."""
    module, name = function.__module__.removeprefix("linmed.kernels."), function.__qualname__
    name, _, made_for = name.rpartition("<locals>.")[2].partition(".")
    kinds = [word for word in made_for.split(".") if word and not word[0].isdigit() and word[0].isupper()]
    return f"{module}.{name}" + (f" for {', '.join(kinds)}" if kinds else "")


def tell(what: str) -> None:
    """One line on a terminal or in a notebook; a record where nobody watches, and in helping processes."""
    processes = sys.modules.get("multiprocessing.process")
    helper = processes is not None and processes.parent_process() is not None
    if sys.stderr is not None and (sys.stderr.isatty() or running()) and not helper:
        print(f"linmed: {what} …", file=sys.stderr, flush=True)
    else:
        logger.info(what)


@functools.cache
def without_checking_blas() -> None:
    """Load numba's arithmetic on arrays without scipy.linalg, which takes longer than a first decision.

    numba only asks whether there is a BLAS, and imports it anyway where one is called. linmed depends on
    scipy, so there is, and its kernels call none.
    """
    if "numba.np.arraymath" in sys.modules:
        return
    from numba.np import linalg

    check = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        linalg.ensure_blas = check
