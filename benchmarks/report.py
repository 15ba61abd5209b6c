"""Printing tables, and the small statistics of repeated measurements."""

import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
SHOWN: list[str] = []
SHAPES = ((3, 2), (10, 4), (10, 50), (500, 2), (100, 20), (1000, 32))  # (K, d)


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """A Markdown table; the first `words` columns are left-aligned."""
    widths = [max(len(line[i]) for line in [header, *rows]) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = [c.ljust(w) if i < words else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths))]  # noqa: B905
        return "| " + " | ".join(padded) + " |"

    rule = "|" + "|".join("-" * (w + 2) if i < words else "-" * (w + 1) + ":" for i, w in enumerate(widths))
    return "\n".join([f"### {title}", "", line(header), rule + "|", *map(line, rows), ""])


def show(text: str) -> None:
    """Print, and keep for the documentation."""
    print(text, flush=True)
    SHOWN.append(text)


def stamp() -> str:
    """The line that a measured table carries: the day, the commit that was measured, and the command."""
    root = Path(__file__).resolve().parent.parent

    def git(*words: str) -> str:
        return subprocess.run(("git", *words), cwd=root, capture_output=True, text=True).stdout.strip()

    commit = git("rev-parse", "--short=7", "HEAD")
    where = f"at commit {commit}" if commit else "outside a checkout"
    if commit and git("status", "--porcelain", "--", "src", "benchmarks"):
        where += " and changes that were not committed"
    words = [
        f"benchmarks/{Path(sys.argv[0]).name}",
        *(word.removeprefix(f"{root}/") for word in sys.argv[1:]),
    ]
    return f"Measured {datetime.now(UTC):%Y-%m-%d} {where} by `python {shlex.join(words)}`."


def document(page: Path, part: str) -> None:
    """Put what was shown between the marks <!-- PART --> and <!-- /PART --> of a page, stamped."""
    text = page.read_text(encoding="utf-8")
    begin, end = f"<!-- {part} -->\n", f"<!-- /{part} -->\n"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"{page} must hold {begin.strip()} and {end.strip()}, each once")
    head, rest = text.split(begin)
    shown = f"{stamp()}\n\n" + "\n".join(SHOWN).strip() + "\n"
    page.write_text(head + begin + "\n" + shown + "\n" + end + rest.split(end)[1], encoding="utf-8")


def short(x: float) -> str:
    """Three significant digits, no exponent."""
    if x >= 1000:
        return f"{round(x, 3 - len(str(int(x)))):,.0f}"
    return f"{x:.3g}" if x >= 0.001 else f"{x:.1e}"


def spread(values: Sequence[float]) -> float:
    """How far apart the repeats are: (largest − smallest) / median."""
    return (max(values) - min(values)) / median(values)


def interleaved(repeats: int, tasks: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Each task `repeats` times, in turn, so that a noisy neighbour hits all of them."""
    results: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            results[name].append(task())
    return results


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [
            x.split(":")[1].strip()
            for x in cpuinfo.read_text(encoding="utf-8").splitlines()
            if x.startswith("model name")
        ]
        model = names[0] if names else model
    load = f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown"
    return {
        "processor": model,
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "system": platform.system(),
        "load average": load,
    }
