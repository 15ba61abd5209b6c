"""The short form of benchmarks/service_attack.py: attacks that take a moment, each on its own server."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "service_attack.py"
QUICK = ["host_names"]


def test_the_service_holds_against_an_attack_that_takes_a_moment() -> None:
    words = [sys.executable, str(SCRIPT), "--only", "|".join(QUICK)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=1200)
    assert re.findall(r"^held   (\w+)", done.stdout, flags=re.MULTILINE) == QUICK, done.stdout + done.stderr


@pytest.mark.parametrize("path", sorted(SCRIPT.parent.glob("service_*.py")), ids=lambda path: path.stem)
def test_a_benchmark_finds_what_it_shares_with_others(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    assert runpy.run_path(str(path), run_name="looked at")["__doc__"]
