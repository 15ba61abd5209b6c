"""The compiled core: beliefs, confidence sets, rules and the loop over rounds, written in C++ (folder core/).

There is a module for each level of x86-64 instructions. The best one that this processor can run and that was
built is imported; all give the same bits. $LINMED_LEVEL (2, 3 or 4) asks for a lower one.
"""

import importlib
import os
from pathlib import Path
from typing import Any


def _load() -> Any:
    try:
        from linmed._level import level
    except ModuleNotFoundError:  # not x86, or nothing was built
        names = ["_core"]
    else:
        highest = min(int(os.environ.get("LINMED_LEVEL") or level), level)
        names = [f"_core_v{one}" for one in range(highest, 1, -1)]
    for name in names:
        try:
            return importlib.import_module(f"linmed.{name}")
        except ModuleNotFoundError:
            continue
    raise ImportError(
        f"linmed was built without a core for this processor ({' or '.join(names)} in "
        f"{Path(__file__).parent}): build it here, `pip install --no-binary linmed linmed`, "
        "or `pip install --editable .` in a source checkout"
    )


core: Any = _load()
