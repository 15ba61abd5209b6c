"""Evaluate other policies on a log: the command `linmed ope`."""

import argparse
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any

import pyarrow as pa

from linmed.cli.log_options import (
    add_complete,
    add_log,
    add_output,
    add_question,
    answer,
    facts_of,
    meaning,
    parse_target,
    query,
    rows,
)
from linmed.ope.diagnostics import Diagnosis, diagnose
from linmed.ope.estimators import ESTIMATORS
from linmed.ope.evaluate import COMPARABLE, HEIGHT, difference, evaluate, plot_sequences, sequence
from linmed.ope.plan import USUAL, recent
from linmed.ope.targets import as_targets
from linmed.question import INTERVAL, Question, options_of
from linmed.report.figures import axes, inline
from linmed.report.tables import Table

PAIRED = ("ipw", "dr")
"""Estimators that differences have, the usual one first."""
TITLE = "What would other policies have earned?"


def add_ope(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `ope`."""
    parser.description = "What would other policies have earned on the decisions of LOG, and how sure are we?"
    add_log(parser)
    add_complete(parser)
    add = parser.add_argument
    add(
        "--target", action="append", dest="targets", metavar="TARGET",
        help="uniform, logged, arm:NUMBER, item:ID, shadow:NAME, column:NAME or agent:FILE (a saved agent), "
        "NAME=TARGET to call it so; may be repeated",
    )  # fmt: skip
    add("--diff", metavar="BASELINE", help="also how much more each target earns than this one")
    add(
        "--estimator", action="append", dest="estimators", choices=list(ESTIMATORS),
        help=f"may be repeated; default: {', '.join(USUAL)} (dr where the log tells of every arm)",
    )  # fmt: skip
    add_question(parser, evaluate)
    add("--diagnose", action="store_true", help="also look at weights and overlap")
    add("--plot", metavar="FILE", help="draw the estimates and their confidence sequences over time")
    add_output(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the answer; the exit status is 0."""
    targets = as_targets([parse_target(text) for text in args.targets or ["uniform"]])
    baseline = None if args.diff is None else parse_target(args.diff)
    others = [target for target in targets if baseline is not None and target.name != baseline.name]
    if baseline is not None and not others:
        raise ValueError(f"--diff {args.diff} needs another --target to compare with {baseline.name}")
    traces: dict[str, Table] = {}
    tables: dict[str, Table] = {}
    diagnoses: list[Diagnosis] = []
    with query(args) as its:
        log, bar, asked = its.log, its.bar, its.options
        table = evaluate(log, targets, args.estimators, **asked, **its.work)
        tables["Value per decision"] = table
        if baseline is not None:
            bar.begin("differences")
            paired = args.interval if args.interval in COMPARABLE else INTERVAL
            by = next((name for name in args.estimators or () if name in PAIRED), PAIRED[0])
            alike = {**_taken(difference, asked), "interval": paired, "estimator": by}
            gains = [difference(log, target, baseline, **alike) for target in others]
            heading = f"More than {baseline.name}" + (
                "" if paired == args.interval else f" ({paired} interval)"
            )
            tables[heading] = Table(pa.concat_tables([gain.to_arrow() for gain in gains]))
        if args.plot or (args.html and args.interval == INTERVAL):
            for target in targets:
                bar.begin(target.name)
                alike = _taken(sequence, asked)
                traces[target.name] = sequence(log, target, progress=bar.reach, **alike)
        if args.diagnose:
            judged = recent(log, Question(**asked)).judged
            diagnoses = [diagnose(judged, target, **_taken(diagnose, asked)) for target in targets]
            its.doubts.extend(f"{one.target}: {doubt}" for one in diagnoses for doubt in one.warnings)
    facts = facts_of(table)
    if args.plot:
        title = f"{facts['value']}: {INTERVAL} sequences, confidence {args.confidence:g}"
        plot_sequences(traces, args.plot, title)
    told = dict(zip(("results", "differences"), map(rows, tables.values()), strict=False))
    if args.diagnose:
        told["diagnosis"] = [_finite(asdict(one)) for one in diagnoses]
    rewards, value = facts["reward_range"], facts["value"]
    left_out = [] if facts["left_out"] is None else [facts["left_out"]]
    answer(
        args, its, {**facts, **told}, title=TITLE, about=_about(facts), rewards=rewards,
        interval=args.interval, tables=tables, all_at_once=False,
        meaning=meaning(args.interval, args.confidence, rewards, value),
        notes=[*left_out, *map(_diagnosed, diagnoses)], course=_course(traces) if args.html else "",
        traced=f"The {INTERVAL} sequence of each target's IPW estimate, {value}, confidence "
        f"{args.confidence:.6g}. Lines are estimates, bands their intervals.",
    )  # fmt: skip
    return 0


def _course(traces: Mapping[str, Table]) -> str:
    """The sequences as a drawing for the page; nothing where matplotlib is missing."""
    if not traces or find_spec("matplotlib") is None:
        return ""
    drawn = plot_sequences(traces, ax=axes(None, HEIGHT, shown=False))
    return inline(drawn.figure, "course", "Estimates and intervals against the number of decisions")


def _taken(function: Callable[..., Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """The options that a function takes too."""
    return {name: asked[name] for name in options_of(function) if name in asked}


def _diagnosed(found: Diagnosis) -> str:
    """Its numbers in words."""
    overlap = "" if found.no_overlap is None else f", mass without overlap {found.no_overlap:.3g}"
    return (
        f"{found.target}: {found.n:,} decisions are worth {found.effective_n:,.1f} of the target's own, "
        f"largest weight {found.largest_weight:.4g}, mean weight {found.mean_weight:.4g} ± "
        f"{found.mean_weight_error:.2g} (1 if the probabilities are true){overlap}"
    )


def _finite(facts: dict[str, Any]) -> dict[str, Any]:
    """JSON knows neither NaN nor infinity: null instead."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in facts.items()}


def _about(facts: Mapping[str, Any]) -> dict[str, str]:
    """What was evaluated, in words."""
    waiting = f", {facts['waiting']:,} of them without a reward yet" if facts["waiting"] else ""
    fallbacks = f", {facts['fallbacks']:,} of them fallbacks without a weight" if facts["fallbacks"] else ""
    return {"decisions": f"{facts['decisions']:,}{waiting}{fallbacks}", "value": facts["value"]}
