"""`linmed ope LOG --target …`: the command. `add_parser` plugs it into a parser, `run` does it."""

import argparse
import json
import math
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from linmed.agent import Agent
from linmed.log import DecisionLog
from linmed.ope.diagnostics import diagnose
from linmed.ope.estimators import ESTIMATORS
from linmed.ope.evaluate import evaluate, sequence
from linmed.ope.intervals import VALID
from linmed.ope.plot import plot_sequences
from linmed.ope.request import CONFIDENCE, INTERVAL, USUAL
from linmed.ope.sequences import KINDS
from linmed.ope.targets import Target, as_target, as_targets
from linmed.progress import Bar
from linmed.tables import Table

FORMATS = ("parquet", "open-bandit", "dsjson", "vw")
SUFFIXES = {
    ".csv": "open-bandit", ".json": "dsjson", ".dsjson": "dsjson", ".vw": "vw", ".txt": "vw", ".dat": "vw"
}  # fmt: skip
"""What the name of a file says of its format; others are Parquet."""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add `ope` to the commands of a parser (what `add_subparsers` returned)."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "ope",
        help="evaluate policies on a decision log",
        description="What would other policies have earned on the decisions of LOG, and how sure are we?",
    )
    add = parser.add_argument
    add("log", metavar="LOG", help="a log's directory or Parquet file, CSV, DSJSON or VW text")
    add("--format", choices=FORMATS, help="of LOG; guessed from its name unless given")
    add(
        "--target", action="append", dest="targets", metavar="TARGET",
        help="uniform, logged, arm:NUMBER, column:NAME or agent:FILE (a saved agent); may be repeated",
    )  # fmt: skip
    add(
        "--estimator", action="append", dest="estimators", choices=list(ESTIMATORS),
        help=f"may be repeated; default: {', '.join(USUAL)} (dr where the log tells of every arm)",
    )  # fmt: skip
    add("--interval", choices=list(VALID), default=INTERVAL, help=f"default: {INTERVAL}")
    add("--confidence", type=float, default=CONFIDENCE, help=f"default: {CONFIDENCE}")
    add(
        "--reward-range", nargs=2, type=float, metavar=("LOW", "HIGH"),
        help="the lowest and highest possible reward; may be left out where all rewards lie in [0, 1]",
    )  # fmt: skip
    add("--missing", choices=("skip", "stop"), default="skip", help="decisions without a reward")
    add("--drift", action="store_true", help="the value may change over time")
    add("--arms", type=int, help="number of arms, where the log does not say")
    add("--skip-malformed", action="store_true", help="count unreadable lines instead of stopping")
    add("--diagnose", action="store_true", help="also look at weights and overlap")
    add("--json", action="store_true", help="print JSON")
    add("--plot", metavar="FILE", help="draw the estimates and their confidence sequences over time")
    add("--cluster", metavar="ADDRESS", help="of a Dask scheduler that sees the same files")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Do what the arguments say; the exit status."""
    log = open_log(args.log, args.format, args.arms, "skip" if args.skip_malformed else "raise")
    targets = as_targets([_target(text) for text in args.targets or ["uniform"]])
    same = {name: getattr(args, name) for name in ("confidence", "reward_range", "missing", "drift")}
    with Bar(True, "decisions") as bar, _executor(args.cluster) as executor:
        table = evaluate(
            log, targets, args.estimators, args.interval, progress=bar.reach, executor=executor, **same
        )
        if args.plot:
            kind = args.interval if args.interval in KINDS else INTERVAL
            traces = {target.name: sequence(log, target, interval=kind, **same) for target in targets}
            plot_sequences(traces, args.plot, f"{kind} sequences, confidence {args.confidence:g}")
        found = [diagnose(log, target, args.missing) for target in targets] if args.diagnose else []
    about: dict[str, Any] = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    about |= {name: json.loads(value) for name, value in about.items() if name != "interval"}
    notes = [f"{one.target}: {warning}" for one in found for warning in one.warnings]
    if about["waiting"]:
        notes.append(
            f"{about['waiting']} of {about['decisions']} decisions have no reward yet and were not used"
        )
    if args.skip_malformed and log.malformed.count:
        line, reason = log.malformed.first[0]
        notes.append(f"{log.malformed.count} lines could not be read, the first is line {line}: {reason}")
    if args.json:
        print(json.dumps({**about, "results": _plain(table), "notes": notes}, indent=2))
        return 0
    possible = about["reward_range"]
    rewards = f", rewards in [{possible[0]:g}, {possible[1]:g}]" if possible else ""
    print(f"{about['interval']} interval, confidence {about['confidence']:g}{rewards}", table, sep="\n\n")
    for note in notes:
        print(f"note: {note}")
    return 0


def open_log(
    path: str, kind: str | None = None, arms: int | None = None, errors: str = "raise"
) -> DecisionLog:
    """The log at `path`, whose format is guessed from its name unless given."""
    place = Path(path)
    kind = kind or ("parquet" if place.is_dir() else SUFFIXES.get(place.suffix, "parquet"))
    if kind == "open-bandit":
        return DecisionLog.from_open_bandit(place, arms, errors)
    if kind == "dsjson":
        return DecisionLog.from_dsjson(place, errors=errors)
    if kind == "vw":
        return DecisionLog.from_vw(place, arm_count=arms, errors=errors)
    return DecisionLog.open(place)


def _target(text: str) -> Target:
    return as_target(Agent.load(text.removeprefix("agent:")) if text.startswith("agent:") else text)


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


def _plain(table: Table) -> list[dict[str, Any]]:
    """Rows for JSON, which knows no NaN."""
    return [
        {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in row.items()}
        for row in table.to_pylist()
    ]
