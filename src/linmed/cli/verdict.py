"""`linmed verdict LOG`: the command. `add_parser` plugs it into a parser, `run` does it."""

import argparse
import math
import warnings
from typing import Any

from linmed.cli.log_arguments import add_log, add_question, check_place, given_log
from linmed.cli.log_report import rows, tell, unread
from linmed.insight.best_arm import DELTA, VerdictWarning
from linmed.ope.learning import Arms, verdict
from linmed.policies import LinMED
from linmed.report.estimates import Report
from linmed.report.progress import Bar
from linmed.report.tables import Table

TITLE = "Which arm is the best?"
CAUTION = "sigma and norm_bound must not have been chosen by looking at these rewards."
TOLD = ("sigma", "norm_bound", "ridge", "confidence", "tails", "intercept")


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add `verdict` to the commands of a parser (what `add_subparsers` returned)."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "verdict",
        help="which arm is the best, and is that decided?",
        description="Which arm can still be the best, by a ridge estimate over the rewards of LOG? It does "
        "not matter who chose what was played. One may ask as often as one likes, as the log grows.",
    )
    add_log(parser)
    add = parser.add_argument
    add(
        "--arms-from", metavar="FILE",
        help="the arms to compare: CSV with a line `name, x1, x2, …` for each, or JSON; may be left out "
        "where every decision had the same",
    )  # fmt: skip
    add(
        "--sigma", type=number, required=True, metavar="NUMBER|unknown",
        help="how noisy a reward is, a standard deviation; 0.5 is never too small for rewards in [0, 1], and "
        "unknown is for Gaussian noise",
    )  # fmt: skip
    add(
        "--norm-bound", type=number, default=1.0, metavar="NUMBER|unknown",
        help="how long the true coefficients are at most; default: 1",
    )  # fmt: skip
    add("--ridge", type=number, metavar="NUMBER|learned", help="λ; default: sigma²/norm_bound²")
    add(
        "--confidence", choices=("paper", "mixture", "empirical"), default="paper",
        help="which confidence set; mixture is never larger than the paper's; default: paper",
    )  # fmt: skip
    add(
        "--tails", choices=("gaussian", "strict"), default="gaussian",
        help="of noise of unknown size: Gaussian, or such as uniform and ±1 noise has",
    )  # fmt: skip
    add("--intercept", action="store_true", help="rewards have a level of their own, learned apart")
    add("--delta", type=float, default=DELTA, help=f"how often a verdict may be wrong; default: {DELTA}")
    add(
        "--epsilon", type=float, default=0.0, help="how much worse than the best is good enough; default: 0"
    )  # fmt: skip
    add_question(parser, verdict)
    add("--json", action="store_true", help="print JSON")
    add("--html", metavar="FILE", help="write the report as a page")
    add("--progress", action=argparse.BooleanOptionalAction, default=True, help="a bar, on a terminal")
    parser.set_defaults(run=run)
    return parser


def number(text: str) -> float | str:
    """A number, or a word that the policy will judge."""
    try:
        return float(text)
    except ValueError:
        return text


def run(args: argparse.Namespace) -> int:
    """Do what the arguments say; the exit status."""
    check_place(args.html)
    policy = LinMED(**{name: getattr(args, name) for name in TOLD})
    arms = None if args.arms_from is None else Arms.read(args.arms_from)
    log = given_log(args)
    try:
        with Bar(args.progress, "decisions") as bar, warnings.catch_warnings():
            warnings.simplefilter("ignore", VerdictWarning)  # its words are the answer
            found = verdict(
                log, policy, arms, delta=args.delta, epsilon=args.epsilon, missing=args.missing,
                mature=args.mature, progress=bar.reach,
            )  # fmt: skip
    except ValueError as error:
        if getattr(error, "field", None) == "arms" and arms is None:
            raise ValueError(f"{error} with --arms-from FILE") from None
        if "has no features" in str(error):
            raise ValueError(f"{error}. If it has them, say where: --columns features=x1+x2") from None
        raise
    of, best = found.verdict, found.arms.names[found.verdict.best]
    meant = "" if of.proved else "meant for "
    report = Report(
        title=TITLE,
        answer=[str(found)],
        asked={
            "log": args.log,
            "rewards": f"{of.count:,}",
            "confidence": f"{meant}{100 * (1 - of.delta):.6g} % for all at once, at every look",
            "if": of.assumes,
            "below": f"how much less than {best} each arm pays, and the value of its own",
        },
        tables={f"How much less than {best} each arm pays": _shown(found.table)},
        meaning=_meaning(of.delta, of.assumes) if of.proved else f"This is no proof: {of.doubt}.",
        warnings=[] if of.proved else [f"this is no proof: {of.doubt}"],
        notes=unread(log) if args.skip_malformed else [],
        caution=CAUTION,
    )
    facts = {
        "best": best, "decided": of.decided, "candidates": [found.arms.names[i] for i in of.candidates],
        "margin": of.margin if math.isfinite(of.margin) else None, "contradicted": of.contradicted,
        "delta": of.delta, "epsilon": of.epsilon, "rewards": of.count, "decided_after": found.decided_after,
        "proved": of.proved, "doubt": of.doubt, "assumes": of.assumes, "sentence": str(found),
        "arms": rows(found.table),
    }  # fmt: skip
    tell(report, args.html, facts if args.json else None)
    return 0


def _meaning(delta: float, assumes: str) -> str:
    return (
        f"With probability {100 * (1 - delta):.6g} % or more all intervals hold and the best arm is not "
        f"ruled out, at every look at once, whoever chose what was played, if {assumes}."
    )


def _shown(table: Table) -> Table:
    """With values of three digits."""
    return Table({**row, "value": f"{row['value']:.3g}"} for row in table.to_pylist())
