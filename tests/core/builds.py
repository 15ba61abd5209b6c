"""Other builds of the core than the installed one: for other levels of instructions, by other compilers."""

import importlib.util
import os
import re
import sys
from pathlib import Path


def level_of(path: Path) -> int:
    """The level of x86-64 instructions that the module at this path was built for; 0 on other processors."""
    found = re.match(r"_core(?:_v(\d))?\.", path.name)
    if found is None:
        raise ValueError(f"{path} is no core")
    return int(found[1] or 0)


def load(path: Path) -> None:
    """`linmed.core` is the module at this path, if nothing of linmed has been imported before."""
    level = level_of(path)
    name = f"linmed._core_v{level}" if level else "linmed._core"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    os.environ["LINMED_LEVEL"] = str(level)
    from linmed.core import core

    assert core is module, f"this processor cannot run {path}"
