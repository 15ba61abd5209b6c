"""A virtual environment for every peer, so that none of them touches the project's dependencies."""

import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".bench"
LONGEST = 1200  # seconds for one installation


@dataclass(frozen=True)
class Peer:
    """Its module in benchmarks/peers, and what pip is asked for."""

    module: str
    requirements: tuple[str, ...]
    unpinned: tuple[str, ...] = ()
    """Installed without regard to their own requirements."""


PEERS = (
    Peer("vowpalwabbit", ("numpy", "vowpalwabbit")),
    # obp 0.5.7 pins every dependency to releases of 2022 that newer Pythons cannot build. It runs with
    # today's, so the pins are set aside; the alternative is a release two years older.
    Peer(
        "obp",
        ("numpy", "scipy", "scikit-learn", "pandas", "pyyaml", "tqdm", "matplotlib", "seaborn", "torch"),
        ("obp==0.5.7",),
    ),
    Peer("river", ("numpy", "river")),
    Peer("coba", ("numpy", "coba")),
    Peer("bayesianbandits", ("numpy", "bayesianbandits")),
    Peer("contextualbandits", ("numpy", "contextualbandits")),
    Peer("mabwiser", ("numpy", "mabwiser")),
)


def interpreter(peer: Peer) -> Path:
    return HOME / peer.module / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def prepare(peer: Peer) -> str | None:
    """Make the peer's environment unless it is there already; the reason if that is impossible."""
    marker = HOME / peer.module / "installed"
    wanted = "\n".join([*peer.requirements, *peer.unpinned])
    if marker.is_file() and marker.read_text() == wanted:
        return None
    print(f"installing {peer.module} into {HOME.name}/{peer.module} ...", file=sys.stderr, flush=True)
    venv.create(HOME / peer.module, with_pip=True, clear=True)
    pip = [str(interpreter(peer)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    steps = [[*pip, *peer.requirements]]
    if peer.unpinned:
        steps.append([*pip, "--no-deps", "--ignore-requires-python", *peer.unpinned])
    for step in steps:
        try:
            done = subprocess.run(step, capture_output=True, text=True, timeout=LONGEST)
        except subprocess.TimeoutExpired:
            return f"pip took longer than {LONGEST} s"
        if done.returncode != 0:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            return (errors[-1] if errors else done.stderr.strip().splitlines()[-1])[:200]
    marker.write_text(wanted)
    return None
