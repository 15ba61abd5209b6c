"""Settings and skips for all tests."""

import os
import signal
import sys
from pathlib import Path

import pytest

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a core for each test: more threads would wait

from tests.core.builds import load

if "LINMED_CORE" in os.environ:  # another build than the installed one: make sanitize
    load(Path(os.environ["LINMED_CORE"]).resolve())

# A shell without job control starts what it puts into the background with Ctrl-C ignored, and children
# inherit that: the tests that interrupt a process would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if sys.platform == "win32" and item.get_closest_marker("unix") is not None:
        pytest.skip("needs signals, locks or files that Windows has not")
    if sys.platform != "linux" and item.get_closest_marker("linux") is not None:
        pytest.skip("looks at other processes as only Linux lets one")
