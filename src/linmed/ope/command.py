"""`linmed ope LOG --target …`: the command. `add_parser` plugs it into a parser, `run` does it."""

import argparse
import json
import math
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from linmed.agent import Agent
from linmed.log import DecisionLog
from linmed.ope.diagnostics import diagnose
from linmed.ope.estimators import ESTIMATORS
from linmed.ope.evaluate import evaluate, sequence
from linmed.ope.intervals import VALID
from linmed.ope.plan import Progress
from linmed.ope.plot import plot_sequences
from linmed.ope.sequences import KINDS
from linmed.ope.targets import as_target

FORMATS = ("parquet", "open-bandit", "dsjson", "vw")


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add `ope` to the commands of a parser (what `add_subparsers` returned)."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "ope",
        help="evaluate policies on a decision log",
        description="What would other policies have earned on the decisions of LOG, and how sure are we?",
    )
    parser.add_argument(
        "log", metavar="LOG", help="a log's directory or Parquet file, CSV, DSJSON or VW text"
    )
    parser.add_argument("--format", choices=FORMATS, help="of LOG; guessed from its name unless given")
    parser.add_argument(
        "--target",
        action="append",
        dest="targets",
        metavar="TARGET",
        help="uniform, logged, arm:NUMBER, column:NAME or agent:FILE (a saved agent); may be repeated",
    )
    parser.add_argument(
        "--estimator",
        action="append",
        dest="estimators",
        choices=list(ESTIMATORS),
        help="may be repeated (ipw, snipw)",
    )
    parser.add_argument("--interval", choices=list(VALID), default="betting", help="default: betting")
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument(
        "--reward-range",
        nargs=2,
        type=float,
        default=(0.0, 1.0),
        metavar=("LOW", "HIGH"),
        help="default: 0 1",
    )
    parser.add_argument(
        "--missing", choices=("skip", "stop"), default="skip", help="decisions without a reward"
    )
    parser.add_argument("--drift", action="store_true", help="the value may change over time")
    parser.add_argument("--arms", type=int, help="number of arms, where the log does not say")
    parser.add_argument(
        "--skip-malformed", action="store_true", help="count unreadable lines instead of stopping"
    )
    parser.add_argument("--diagnose", action="store_true", help="also look at weights and overlap")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--plot", metavar="FILE", help="draw the estimates and their confidence sequences over time"
    )
    parser.add_argument("--cluster", metavar="ADDRESS", help="of a Dask scheduler that sees the same files")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Do what the arguments say; the exit status."""
    log = open_log(args.log, args.format, args.arms, "skip" if args.skip_malformed else "raise")
    targets = [_target(text) for text in args.targets or ["uniform"]]
    reward_range = (args.reward_range[0], args.reward_range[1])
    with _progress() as progress, _executor(args.cluster) as executor:
        table = evaluate(
            log,
            targets,
            args.estimators or ["ipw", "snipw"],
            interval=args.interval,
            confidence=args.confidence,
            reward_range=reward_range,
            missing=args.missing,
            drift=args.drift,
            progress=progress,
            executor=executor,
        )
        if args.plot:
            kind = args.interval if args.interval in KINDS else "betting"
            traces = {
                target.name: sequence(
                    log,
                    target,
                    "ipw",
                    kind,
                    args.confidence,
                    reward_range,
                    missing=args.missing,
                    drift=args.drift,
                )
                for target in targets
            }
            plot_sequences(traces, args.plot, f"{kind} sequences, confidence {args.confidence:g}")
    checks = [diagnose(log, target, args.missing) for target in targets] if args.diagnose else []
    meta: dict[str, Any] = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    meta |= {name: int(meta[name]) for name in ("decisions", "waiting")}
    meta["confidence"] = float(meta["confidence"])
    notes = [f"{one.target}: {warning}" for one in checks for warning in one.warnings]
    if meta["waiting"]:
        notes.append(
            f"{meta['waiting']} of {meta['decisions']} decisions have no reward yet and were not used"
        )
    if args.skip_malformed and log.malformed.count:
        line, reason = log.malformed.first[0]
        notes.append(f"{log.malformed.count} lines could not be read, the first is line {line}: {reason}")
    if args.json:
        print(json.dumps({**meta, "results": _plain(table), "notes": notes}, indent=2))
    else:
        _print(table, meta, notes)
    return 0


def open_log(
    path: str, kind: str | None = None, arms: int | None = None, errors: str = "raise"
) -> DecisionLog:
    """The log at `path`, whose format is guessed from its name unless given."""
    place = Path(path)
    guessed = {
        ".csv": "open-bandit",
        ".json": "dsjson",
        ".dsjson": "dsjson",
        ".vw": "vw",
        ".txt": "vw",
        ".dat": "vw",
    }
    kind = kind or ("parquet" if place.is_dir() else guessed.get(place.suffix, "parquet"))
    if kind == "open-bandit":
        return DecisionLog.from_open_bandit(place, arms, errors)
    if kind == "dsjson":
        return DecisionLog.from_dsjson(place, errors=errors)
    if kind == "vw":
        return DecisionLog.from_vw(place, arm_count=arms, errors=errors)
    return DecisionLog.open(place)


def _target(text: str) -> Any:
    if text.startswith("agent:"):
        return as_target(Agent.load(text.removeprefix("agent:")))
    return as_target(text)


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """Decisions read so far on a terminal, nothing otherwise."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (SpinnerColumn(), TextColumn("{task.completed:,} decisions"), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def _executor(address: str | None) -> Iterator[Executor | None]:
    if address is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError:
        raise ValueError("--cluster needs the package distributed: pip install 'linmed[cluster]'") from None
    client = Client(address, timeout=10)  # type: ignore[no-untyped-call]
    with client, client.get_executor() as executor:  # type: ignore[no-untyped-call]
        yield executor


def _plain(table: pa.Table) -> list[dict[str, Any]]:
    """Rows for JSON, which knows no NaN."""
    return [
        {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in row.items()}
        for row in table.to_pylist()
    ]


def _print(table: pa.Table, meta: dict[str, Any], notes: list[str]) -> None:
    title = f"{meta['interval']} interval, confidence {meta['confidence']:g}"
    shown = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in table.column_names:
        words = name in ("target", "estimator", "valid")
        shown.add_column(name, justify="left" if words else "right", no_wrap=True)
    for row in table.to_pylist():
        row["effective_n"] = f"{row['effective_n']:.1f}"
        shown.add_row(*(f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values()))
    console = Console() if sys.stdout.isatty() else Console(width=200)  # nothing is cut in a file
    console.print(shown)
    for note in notes:
        console.print(f"note: {note}", highlight=False, markup=False)
