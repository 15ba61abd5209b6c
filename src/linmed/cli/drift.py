"""`linmed drift LOG`: the command. `add_parser` plugs it into a parser, `run` does it."""

import argparse
import json
import shutil
import sys
from datetime import UTC, datetime
from typing import Any

from linmed.cli.log_arguments import add_log, add_question, given_log
from linmed.cli.log_report import unread
from linmed.cli.verdict import number
from linmed.insight.drift import Adoption, Alarm
from linmed.ope.learning import drift
from linmed.policies import GLMMED, Forgetful, LinMED, Policy
from linmed.policies.half_lives import written
from linmed.report.estimates import folded, told
from linmed.report.progress import Bar
from linmed.report.tables import Table
from linmed.validation import BadValue

CAUTION = "Neither sigma nor norm_bound may have been chosen by looking at these rewards."
DEFAULT = "inf,1000,200,50"
FAMILIES = ("logistic", "poisson")


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add `drift` to the commands of a parser (what `add_subparsers` returned)."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "drift",
        help="has the world changed while this log was written?",
        description="Can all rewards of LOG come from one model, and if not, since when? An alarm has "
        "a level: while nothing changes, one is ever raised with probability alpha at most.",
    )
    add_log(parser)
    add = parser.add_argument
    add(
        "--family", choices=("linear", *FAMILIES), default="linear",
        help="what rewards are: numbers linear in the features (the default), clicks (logistic), counts "
        "(poisson); the last two have a spread of their own, so --sigma is left out",
    )  # fmt: skip
    add(
        "--sigma", type=number, default="unknown", metavar="NUMBER|unknown",
        help="how noisy a reward is, a standard deviation; 0.5 is never too small for rewards in [0, 1]; "
        "default: unknown, proved for Gaussian noise",
    )  # fmt: skip
    add(
        "--norm-bound", type=number, default="unknown", metavar="NUMBER|unknown",
        help="how long the true coefficients are at most; default: unknown",
    )  # fmt: skip
    add("--ridge", type=number, metavar="NUMBER|learned", help="λ; default: 0.01, or sigma²/norm_bound²")
    add(
        "--half-lives", default=DEFAULT, metavar="LIST",
        help=f"memories that are weighed, in rewards or as durations (inf,7d,1d); default: {DEFAULT}",
    )  # fmt: skip
    add("--alpha", type=float, default=0.05, help="how often a false alarm may ever come; default: 0.05")
    add_question(parser, drift)
    add("--json", action="store_true", help="print JSON")
    add("--progress", action=argparse.BooleanOptionalAction, default=True, help="a bar, on a terminal")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Do what the arguments say; the exit status."""
    known: dict[str, Any] = {"norm_bound": args.norm_bound, "ridge": args.ridge}
    if args.family == "linear":
        inside: Policy = LinMED(sigma=args.sigma, **known)
    elif args.sigma == "unknown":
        inside = GLMMED(family=args.family, **known)
    else:
        raise BadValue("sigma", f"--sigma goes with --family linear: {args.family} rewards tell their spread")
    memories: Any = [number(one.strip()) for one in args.half_lives.split(",")]
    policy = Forgetful(inside, half_lives=memories, alarm=args.alpha)
    log = given_log(args)
    with Bar(args.progress, "decisions") as bar:
        found = drift(log, policy, missing=args.missing, mature=args.mature, progress=bar.reach)
    of = found.drift
    if args.json:
        print(json.dumps(of.to_dict(), indent=2))
        return 0
    width = shutil.get_terminal_size().columns
    weights = Table(
        {"memory": written(half_life), "weight": f"{weight:.2g}"} for half_life, weight in of.weights.items()
    )
    said = [str(of), f"An alarm may be trusted if {of.assumes}. {CAUTION}"]
    said += [f"note: {note}" for note in (unread(log) if args.skip_malformed else [])]
    encoding = sys.stdout.encoding or "utf-8"
    for words in said:
        print("\n".join(folded(told(words, encoding), width)), end="\n\n")
    events = _events(of.alarms, of.adoptions)
    for line in [*repr(weights).splitlines(), *([] if events is None else ["", *repr(events).splitlines()])]:
        print(told(line, encoding))
    return 0


def _events(alarms: tuple[Alarm, ...], adoptions: tuple[Adoption, ...]) -> Table | None:
    """Alarms and adoptions, in their order; None if there were none."""
    happened: list[tuple[Alarm | Adoption, str]] = [(one, f"alarm (log E {one.log_e:.3g})") for one in alarms]
    happened += [
        (one, f"memory {written(one.half_life)} restarted from memory {written(one.source)}")
        for one in adoptions
    ]
    happened.sort(key=lambda pair: pair[0].reward)
    if not happened:
        return None
    return Table({"what": what, "reward": f"{one.reward:,}", **_when(one.time)} for one, what in happened)


def _when(time: float | None) -> dict[str, str]:
    return {} if time is None else {"decision of": f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S}"}
