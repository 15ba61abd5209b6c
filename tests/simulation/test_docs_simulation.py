"""The guide's code runs."""

import re
import subprocess
import sys
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "simulation.md"


def test_the_guides_code_runs(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.S)
    assert len(blocks) == 4
    # Processes import the program again, so what is not guarded runs in them too: run the last block alone.
    preamble = "\n".join(line for line in blocks[0].splitlines() if line.startswith("from"))
    for name, program in (("guide", "\n".join(blocks[:3])), ("pool", preamble + "\n" + blocks[3])):
        script = tmp_path / f"{name}.py"
        script.write_text(program)
        subprocess.run([sys.executable, "-W", "error", script], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "regret.png").exists()
    assert len(list((tmp_path / "regrets" / "trials").iterdir())) == 4
