"""`linmed ope LOG --target …`: the command. `add_parser` plugs it into a parser, `run` does it."""

import argparse
import json
import math
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from linmed.files import write_atomically
from linmed.log import DecisionLog
from linmed.ope.arguments import (
    add_log,
    check_place,
    doubts,
    duration,
    executor,
    missing,
    open_log,
    parse_target,
)
from linmed.ope.bars import has_interval
from linmed.ope.diagnostics import diagnose
from linmed.ope.estimators import ESTIMATORS
from linmed.ope.evaluate import COMPARABLE, difference, evaluate, sequence
from linmed.ope.intervals import VALID
from linmed.ope.page import page
from linmed.ope.plot import plot_sequences
from linmed.ope.report import Report, meaning
from linmed.ope.request import CONFIDENCE, INTERVAL, USUAL
from linmed.ope.sequences import KINDS
from linmed.ope.targets import as_targets
from linmed.progress import Bar
from linmed.tables import Table

PICTURES = (".png", ".svg", ".pdf")
TITLE = "What would other policies have earned?"


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add `ope` to the commands of a parser (what `add_subparsers` returned)."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "ope",
        help="evaluate policies on a decision log",
        description="What would other policies have earned on the decisions of LOG, and how sure are we?",
    )
    add_log(parser)
    add = parser.add_argument
    add(
        "--target", action="append", dest="targets", metavar="TARGET",
        help="uniform, logged, arm:NUMBER, column:NAME or agent:FILE (a saved agent); may be repeated",
    )  # fmt: skip
    add("--diff", metavar="BASELINE", help="also how much more each target earns than this one")
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
    add(
        "--missing", type=missing, metavar="stop|skip|NUMBER",
        help="decisions without a reward: end the log at the first, leave them out, or count NUMBER for them",
    )  # fmt: skip
    add(
        "--mature", type=duration, metavar="DURATION",
        help="judge only decisions that old when the log ended: 90s, 15m, 6h, 2d, or seconds",
    )  # fmt: skip
    add(
        "--no-drift", dest="drift", action="store_false", default=None,
        help="the value does not change over time; otherwise the answer is its average so far",
    )  # fmt: skip
    add(
        "--smallest-probability", type=float, metavar="P",
        help="that the logging policy could give an arm",
    )  # fmt: skip
    add("--diagnose", action="store_true", help="also look at weights and overlap")
    add("--json", action="store_true", help="print JSON")
    add("--plot", metavar="FILE", help="draw the estimates and their confidence sequences over time")
    add("--html", metavar="FILE", help="write the report as a page")
    add("--progress", action=argparse.BooleanOptionalAction, default=True, help="a bar, on a terminal")
    add("--cluster", metavar="ADDRESS", help="of a Dask scheduler that sees the same files")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Do what the arguments say; the exit status."""
    check_place(args.plot, PICTURES)
    check_place(args.html)
    log = open_log(args.log, args.format, args.arms, "skip" if args.skip_malformed else "raise", args.columns)
    targets = as_targets([parse_target(text) for text in args.targets or ["uniform"]])
    baseline = None if args.diff is None else parse_target(args.diff)
    others = [target for target in targets if baseline is not None and target.name != baseline.name]
    if baseline is not None and not others:
        raise ValueError(f"--diff {args.diff} needs another --target to compare with {baseline.name}")
    asked = options(args)
    kind = args.interval if args.interval in KINDS else INTERVAL
    traces: dict[str, Table] = {}
    tables: dict[str, Table] = {}
    with Bar(args.progress, "decisions") as bar, executor(args.cluster) as workers, doubts() as found:
        table = evaluate(
            log, targets, args.estimators, args.interval, progress=bar.reach, executor=workers, **asked
        )
        tables["Value per decision"] = table
        if baseline is not None:
            bar.begin("differences")
            paired = args.interval if args.interval in COMPARABLE else INTERVAL
            gains = [difference(log, target, baseline, interval=paired, **asked) for target in others]
            heading = f"More than {baseline.name}" + (
                "" if paired == args.interval else f" ({paired} interval)"
            )
            tables[heading] = Table(pa.concat_tables([gain.to_arrow() for gain in gains]))
        if args.plot or (args.html and args.interval in KINDS):
            for target in targets:
                bar.begin(target.name)
                traces[target.name] = sequence(log, target, interval=kind, progress=bar.reach, **asked)
        if args.diagnose:
            said = {name: asked[name] for name in ("missing", "mature") if name in asked}
            for target in targets:
                found += [f"{target.name}: {doubt}" for doubt in diagnose(log, target, **said).warnings]
    about = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    facts: dict[str, Any] = {k: v if k == "interval" else json.loads(v) for k, v in about.items()}
    constant = args.drift is False or args.interval == "bernstein"
    report = Report(
        title=TITLE,
        asked=_asked(args, facts),
        tables=tables,
        meaning=meaning(args.interval, args.confidence, facts["reward_range"], constant),
        warnings=[*found, *unexplained(args.interval, tables.values(), found)],
        notes=_notes(log) if args.skip_malformed else [],
        traces=traces,
        traced=f"The {kind} sequence of each target's IPW estimate, confidence {args.confidence:.6g}.",
    )
    if args.plot:
        plot_sequences(traces, args.plot, f"{kind} sequences, confidence {args.confidence:g}")
    if args.html:
        write_atomically(Path(args.html), page(report).encode())
    if args.json:
        results = dict(zip(("results", "differences"), map(_plain, tables.values()), strict=False))
        print(json.dumps({**facts, **results, "warnings": report.warnings, "notes": report.notes}, indent=2))
    else:
        print(report.text(shutil.get_terminal_size().columns, sys.stdout.encoding or "utf-8"))
    return 0


def options(args: argparse.Namespace) -> dict[str, Any]:
    """What `evaluate`, `sequence` and `difference` are told alike; what was not said is left to them."""
    said = {
        "confidence": args.confidence,
        "reward_range": args.reward_range,
        "missing": args.missing,
        "mature": args.mature,
        "drift": args.drift,
        "smallest_probability": args.smallest_probability,
    }
    return {name: value for name, value in said.items() if value is not None}


def _asked(args: argparse.Namespace, facts: Mapping[str, Any]) -> dict[str, str]:
    """What was asked, in words."""
    waiting = f", {facts['waiting']:,} of them without a reward yet" if facts["waiting"] else ""
    asked = {
        "log": args.log,
        "decisions": f"{facts['decisions']:,}{waiting}",
        "interval": f"{args.interval}, confidence {100 * args.confidence:.6g} %",
    }
    if facts["reward_range"]:
        low, high = facts["reward_range"]
        asked["rewards"] = f"in [{low:g}, {high:g}]"
    if args.missing is not None:
        asked["missing"] = str(args.missing)
    if args.mature is not None:
        asked["mature"] = f"after {args.mature:,g} s"
    if args.drift is False:
        asked["value"] = "one that does not change"
    if args.smallest_probability is not None:
        asked["smallest probability"] = f"{args.smallest_probability:g}"
    return asked


def unexplained(interval: str, tables: Iterable[Table], found: Sequence[str]) -> Iterator[str]:
    """For every row without an interval of which no doubt speaks: that it has none."""
    for table in tables if interval != "none" else ():
        kind = table.column_names[0]
        for name in dict.fromkeys(row[kind] for row in table.to_pylist() if not has_interval(row)):
            if not any(repr(name) in doubt for doubt in found):
                yield f"{kind} {name!r} has no interval: nothing tells how far off its estimate may be"


def _notes(log: DecisionLog) -> list[str]:
    if not log.malformed.count:
        return []
    line, reason = log.malformed.first[0]
    return [f"{log.malformed.count} lines could not be read, the first is line {line}: {reason}"]


def _plain(table: Table) -> list[dict[str, Any]]:
    """Rows for JSON, which knows no NaN."""
    return [
        {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in row.items()}
        for row in table.to_pylist()
    ]
