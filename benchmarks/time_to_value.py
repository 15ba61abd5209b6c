"""How long a newcomer waits: from `pip install linmed` to a decision, a plot and the service's first answer.

    python benchmarks/time_to_value.py                         # this checkout; some minutes, and an index
    python benchmarks/time_to_value.py --document README.md    # and puts the tables there

The environment is a new one of `python -m venv`; the caches of pip and matplotlib are empty folders. The
wheel is built beforehand, as an index would hold it. Three programs are run in an empty folder: the README's
example; a log of 500 decisions, its evaluation and a plot of it; `linmed serve`, a bandit created, a decision
asked for. Beside them, in the same run: what pip needs for the dependencies alone, the import of numpy, scipy
and matplotlib, and the same programs again.

Wall seconds are what one waits, and depend on the network and on whoever else uses the machine. Processor
seconds, summed over all processes of a step, depend on the machine and little else.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from report import document, machine, show, table

ROOT = Path(__file__).resolve().parent.parent
PLOT = """
import numpy as np
from linmed import Agent, LinMED
from linmed.ope import DecisionLog, evaluate, plot_sequences, sequence

rng = np.random.default_rng(0)
with Agent(LinMED(sigma=0.5, alpha_emp=0.5, alpha_opt=0.25), dim=4, seed=0, log="decisions") as agent:
    for _ in range(500):
        decision = agent.decide(rng.uniform(0, 0.5, size=(10, 4)))
        agent.learn(decision, float(rng.random() < 0.5 * decision.features.sum()))
log = DecisionLog.open("decisions")
print(evaluate(log, ["logged", "uniform"]))
plot_sequences({target: sequence(log, target) for target in ("logged", "uniform")}, "values.png")
"""
BANDIT = {
    "name": "colours",
    "dim": 2,
    "reward_range": [0, 1],
    "policy": {"policy": "LinMED", "sigma": 0.5},
    "catalogue": {"ids": ["red", "green"], "features": [[1, 0], [0.6, 0.8]]},
}


@dataclass
class Newcomer:
    """An empty folder with an empty environment, whose caches are empty too; and what has been waited for."""

    folder: Path
    steps: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Wall and processor seconds by step."""

    def __post_init__(self) -> None:
        self.run("making the environment", sys.executable, "-m", "venv", str(self.folder / "venv"))

    @property
    def programs(self) -> Path:
        return self.folder / "venv" / ("Scripts" if os.name == "nt" else "bin")

    def environment(self) -> dict[str, str]:
        """Nothing of ours; the settings of pip stay, because they say where packages come from."""
        ours = ("PYTHON", "XDG", "MPL")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        caches = {"XDG_CACHE_HOME": "caches", "PIP_CACHE_DIR": "pip"}
        places = {name: str(self.folder / folder) for name, folder in caches.items()}
        return {**inherited, **places, "MPLCONFIGDIR": str(self.folder / "mpl"), "MPLBACKEND": "Agg"}

    def run(self, step: str, *words: str) -> None:
        """One command, timed; its output only if it fails."""

        def command() -> None:
            done = subprocess.run(
                words, cwd=self.folder, env=self.environment(), text=True, capture_output=True
            )
            if done.returncode:
                sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")

        self.timed(step, command)

    def timed(self, step: str, action: Callable[[], None]) -> None:
        before, began = _children(), time.perf_counter()
        action()
        self.steps[step] = time.perf_counter() - began, _children() - before
        print(f"{step}: {self.steps[step][0]:.1f} s", file=sys.stderr, flush=True)

    def python(self, step: str, *words: str) -> None:
        self.run(step, str(self.programs / "python"), *words)

    def ask_the_service(self) -> None:
        """Start it, create a bandit, decide, stop."""
        words = [str(self.programs / "linmed"), "serve", "--port", "0", "--log-level", "error"]
        with subprocess.Popen(
            words, cwd=self.folder, env=self.environment(), text=True, stdout=subprocess.PIPE
        ) as server:
            assert server.stdout is not None
            try:
                address = server.stdout.readline().split()[-1]
                _post(f"{address}v1/bandits", BANDIT)
                decision = _post(f"{address}v1/bandits/colours/decide", {"key": "visit-1"})
                assert 0 < decision["probability"] <= 1, decision
            finally:
                server.terminate()
        (self.folder / "linmed.db").unlink()


def _children() -> float:
    """Processor seconds of all processes that were started from here and have ended."""
    times = os.times()
    return times.children_user + times.children_system


def _post(url: str, body: object) -> dict[str, float]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        found: dict[str, float] = json.load(answer)
    return found


def megabytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def built(folder: Path) -> Path:
    """This checkout as a wheel."""
    options = ["--quiet", "--no-deps", "--wheel-dir", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(ROOT)], check=True)
    (wheel,) = folder.glob("linmed-*.whl")
    return wheel


def example() -> str:
    """The README's."""
    found = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)
    assert found is not None
    return found[1]


def measure(wheel: Path, folder: Path) -> tuple[Newcomer, list[float]]:
    """Everything; the newcomer, and the megabytes of linmed's wheels, and of those that its extras add."""
    me = Newcomer(folder)
    wheels = folder / "wheels"
    (folder / "decide.py").write_text(example(), "utf-8")
    (folder / "plot.py").write_text(PLOT, "utf-8")
    pip = ("-m", "pip", "--disable-pip-version-check", "--quiet")
    fetch = (*pip, "download", "--prefer-binary", "--dest", str(wheels))
    install = (*pip, "install", "--no-index", "--find-links", str(wheels))
    me.python("fetch", *fetch, str(wheel))
    sizes = [megabytes(wheels)]
    me.python("dependencies", *install, *(str(one) for one in wheels.iterdir() if one.name != wheel.name))
    me.python("linmed", *install, "--no-deps", str(wheel))
    me.python("decide", "decide.py")
    me.python("decide again", "decide.py")

    def add(extra: str) -> None:
        me.python(f"fetch {extra}", *fetch, f"{wheel}[{extra}]")
        me.python(f"install {extra}", *install, f"{wheel}[{extra}]")
        sizes.append(megabytes(wheels) - sum(sizes))

    add("ope,plot")
    me.python("plot", "plot.py")
    me.python("imports", "-c", "import numpy, scipy, matplotlib")
    shutil.rmtree(folder / "decisions")  # a log grows otherwise
    me.python("plot again", "plot.py")
    add("serve")
    me.timed("answer", me.ask_the_service)
    me.timed("answer again", me.ask_the_service)
    return me, sizes


def waited(me: Newcomer, sizes: list[float]) -> str:
    """The table."""
    start = ["making the environment", "fetch", "dependencies", "linmed"]

    def line(what: str, before: list[str], steps: list[str], again: str = "") -> list[str]:
        """What these steps took, with all before them, and what the last of them took the second time."""
        wall, processor = (sum(me.steps[step][clock] for step in steps) for clock in (0, 1))
        since = sum(me.steps[step][0] for step in (*before, *steps))
        second = [f"{me.steps[again][clock]:.1f}" for clock in (0, 1)] if again else ["", ""]
        return [what, f"{wall:.1f}", f"{since:.0f}" if before else "", f"{processor:.1f}", *second]

    plain, tables, service = sizes
    draw, serve = (["fetch ope,plot", "install ope,plot"], ["fetch serve", "install serve"])
    rows = [
        line(f"`pip install linmed`: fetching {plain:.0f} MB", start[:1], ["fetch"]),
        line("… installing NumPy", start[:2], ["dependencies"]),
        line("… installing linmed itself", start[:3], ["linmed"]),
        line("**the first decision printed** (the example above)", start, ["decide"], "decide again"),
        line(f"`pip install 'linmed[ope,plot]'`: {tables:.0f} MB more", start, draw),
        line(
            "**the first plot** (500 decisions logged, evaluated, drawn)",
            [*start, *draw],
            ["plot"],
            "plot again",
        ),
        line(f"`pip install 'linmed[serve]'`: {service:.0f} MB more", [*start, *draw], serve),
        line(
            "**the service's first answer** (start, bandit, decision)",
            [*start, *draw, *serve],
            ["answer"],
            "answer again",
        ),
        line("beside it: `import numpy, scipy, matplotlib`", [], ["imports"]),
    ]
    head = ["", "wall s", "since the start", "processor s", "again: wall s", "processor s"]
    return table("From an empty environment to something of use", head, rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--wheel", type=Path, help="measure this one instead of the checkout's")
    parser.add_argument("--document", type=Path, help="a page with the marks <!-- time to value -->")
    args = parser.parse_args()
    before = machine()
    with tempfile.TemporaryDirectory(prefix="linmed-newcomer-") as folder:
        wheel = built(Path(folder) / "wheel") if args.wheel is None else args.wheel.resolve()
        (Path(folder) / "home").mkdir()
        found = measure(wheel, Path(folder) / "home")
    show(waited(*found))
    about = ", ".join(f"{name} {value}" for name, value in before.items())
    show(f"{about} before and {machine()['load average']} after the run.\n")
    if args.document is not None:
        document(args.document, "time to value")
    return 0


if __name__ == "__main__":
    sys.exit(main())
