"""`linmed bench`: run the benchmarks of a source checkout."""

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

import linmed


def run(words: Sequence[str]) -> int:
    """Run benchmarks/bench.py with `words` as its arguments; returns the exit status."""
    script = Path(linmed.__file__).resolve().parents[2] / "benchmarks" / "bench.py"
    if not script.is_file():
        raise ValueError("bench needs a source checkout of linmed: its programs live in benchmarks/")
    sys.argv = [str(script), *words]
    sys.path.insert(0, str(script.parent))
    runpy.run_path(str(script), run_name="__main__")
    return 0
