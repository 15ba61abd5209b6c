"""The commands and the Python of docs/service.md and docs/tutorial-service.md, against a real server."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from linmed.ope import DecisionLog

from .serving import Running

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "service.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_walk_with_curl_does_what_it_says(running: Running, tmp_path: Path) -> None:
    shell = [block for block in blocks("sh") if "pip install" not in block]
    script = "set -eu\n" + "echo\n".join(shell)
    script = script.replace("http://127.0.0.1:8000", running.url).replace("python3", sys.executable)
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"decision_id"') >= 3
    assert '"repeated":true' in done.stdout
    assert '"status": 409' in done.stdout
    assert '"pending":0' in done.stdout
    assert '"target":"uniform"' in done.stdout
    assert '"policy_version":2' in done.stdout
    assert DecisionLog.open(tmp_path / "colours.parquet").table().num_rows == 1


def test_the_python_examples_run(running: Running, tmp_path: Path) -> None:
    code = "".join(blocks("py")).replace("http://127.0.0.1:8000", running.url)
    code = code.replace('"articles"', '"guide"')
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, uniform, logged, *_ = done.stdout.splitlines()
    arm, probability = first.split()
    assert int(arm) in range(3)
    assert 0 < float(probability) <= 1
    for line, name in ((uniform, "uniform"), (logged, "logged")):
        target, _, lower, upper = line.split()
        assert target == name
        assert 0 <= float(lower) <= float(upper) <= 1


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_tutorial_works_from_the_first_block_to_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tutorial = (DOCS / "tutorial-service.md").read_text()
    in_order = re.findall(r"^```(py|sh)\n(.*?)^```", tutorial, flags=re.MULTILINE | re.DOTALL)
    assert "linmed serve" in in_order[0][1]
    monkeypatch.chdir(tmp_path)
    said, space = [], {}
    with Running("sqlite:///linmed.db", tmp_path) as server:
        for kind, block in in_order[1:]:
            code = block.replace("http://127.0.0.1:8000", server.url)
            if kind == "py":
                exec(code, space)
            else:
                code = "set -euo pipefail\n" + code.replace(
                    "linmed serve", f"{sys.executable} -m linmed.cli serve"
                )
                said.append(
                    subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True).stdout
                )
    printed = capsys.readouterr().out
    assert printed.startswith("600\n")
    assert "The world has changed" in printed
    assert printed.endswith("1200\n")
    assert re.search(r"^linmed_drift_alarms.* [1-9]", said[0], flags=re.MULTILINE), said[0]
    assert (tmp_path / "copy.db").exists()
