"""`linmed reproduce`: the command line of the experiments."""

import argparse
import os
import sys
from typing import Any

from linmed.paper import clicks, drift, robustness
from linmed.paper.catalogue import EXPERIMENTS
from linmed.paper.ledger import decided_first, tally
from linmed.paper.markup import SIGN
from linmed.paper.output import OutputError
from linmed.paper.run import DECISIVE_MINUTES, Report, chosen
from linmed.paper.run import run as reproduce
from linmed.simulation import StoreError

OWN = {
    "robustness": "what wrong guesses of σ and S cost",
    "clicks": "a logistic model beside a linear one",
    "drift": "what forgetting costs and gains",
}
"""Experiments of our own, which are no part of the paper's ledger and are run by themselves."""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add `reproduce` to the subcommands."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "reproduce",
        help="run the paper's experiments again and say which of its claims hold",
        description="Run the paper's experiments again, judge its claims and write a report. The "
        "same command again computes only what is missing.",
        epilog=f"Experiments: {', '.join(EXPERIMENTS)}. By themselves, with rules and a ledger of our own: "
        f"{'; '.join(f'{name}, {words}' for name, words in OWN.items())}.",
    )
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help="which ones (default: all)")
    parser.add_argument(
        "--scale",
        choices=("quick", "paper", "decisive"),
        default="quick",
        help="quick: a minute or two; paper: the paper's horizons and trials; decisive: trials are added "
        "where they decide a claim, which takes an hour or two (default: quick)",
    )
    parser.add_argument(
        "--variant",
        choices=("text", "as-run", "both"),
        default="text",
        help="as the paper's text has it, as the authors' public code runs it, or both beside each other "
        "(default: text)",
    )
    parser.add_argument("--workers", type=_count, metavar="N", help="processes (default: one per processor)")
    parser.add_argument(
        "--cluster", metavar="ADDRESS", help="dask scheduler to use instead, as in tcp://host:8786"
    )
    parser.add_argument(
        "--out", default="linmed-report", metavar="DIR", help="where the report goes (default: linmed-report)"
    )
    parser.add_argument("--trials", type=_count, metavar="N", help="trials, instead of the scale's")
    parser.add_argument("--horizon", type=_count, metavar="N", help="rounds, instead of the scale's")
    parser.add_argument(
        "--minutes",
        type=float,
        metavar="N",
        help="after so long no claim is given further trials; the same command with more of them goes on "
        f"(default: {DECISIVE_MINUTES:g} at the decisive scale)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default: 0")
    parser.add_argument(
        "--movielens",
        metavar="DIR",
        default=os.environ.get("LINMED_ML100K") or None,
        help="an ml-100k directory (default: $LINMED_ML100K; without one, generated features)",
    )
    parser.add_argument(
        "--open-bandit",
        metavar="DIR",
        default=os.environ.get("LINMED_OPEN_BANDIT") or None,
        help="clicks: the Open Bandit Dataset's folder (default: $LINMED_OPEN_BANDIT; without one, its part "
        "is left out)",
    )
    parser.add_argument(
        "--vowpal-wabbit",
        metavar="PYTHON",
        default=os.environ.get("LINMED_VOWPAL_WABBIT") or None,
        help="clicks: an interpreter that has vowpalwabbit, which is installed in an environment of its own "
        "(default: $LINMED_VOWPAL_WABBIT; without one, it is not played)",
    )
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Carry out the command; 0 if the report was written, 2 for a wrong request, 130 after Ctrl-C."""
    try:
        if any(name in OWN for name in args.experiments):
            _print(_our_own(args))
            return 0
        chosen(args.experiments)
        report = reproduce(
            args.experiments, args.scale, args.variant, args.out, args.workers, args.cluster,
            trials=args.trials, horizon=args.horizon, seed=args.seed, movielens=args.movielens,
            minutes=args.minutes,
        )  # fmt: skip
    except KeyboardInterrupt:
        kept = f"Interrupted. Finished trials are kept in {args.out}; the same command continues."
        print(kept, file=sys.stderr)
        return 130
    except (OutputError, StoreError, ConnectionError, ImportError, OSError, TypeError, ValueError) as error:
        print(f"linmed reproduce: {error}", file=sys.stderr)
        return 2
    _print(report)
    return 0


def _our_own(args: argparse.Namespace) -> Report:
    """An experiment that is no part of the paper's ledger."""
    name = next(name for name in args.experiments if name in OWN)
    if len(args.experiments) > 1:
        raise ValueError(f"{name} has a ledger of its own: run it by itself")
    if args.variant != "text":
        raise ValueError(f"{name} is not in the authors' public code: leave --variant out")
    where = args.scale, args.out, args.workers, args.cluster
    sizes = {"trials": args.trials, "horizon": args.horizon, "seed": args.seed}
    if name == "robustness":
        return robustness.run(*where, **sizes)
    if name == "drift":
        return drift.run(*where, **sizes)
    return clicks.run(*where, **sizes, open_bandit=args.open_bandit, vowpal_wabbit=args.vowpal_wabbit)


def _print(report: Report) -> None:
    for variant in dict.fromkeys(row.variant for row in report.ledger):
        rows = [row for row in report.ledger if row.variant == variant]
        print(f"{'As run: ' if variant == 'as-run' else ''}{tally(rows)} at this scale.")
        for row in decided_first(rows):
            if row.verdict != "undecided":
                print(f"  {SIGN[row.verdict]} {row.experiment}: {row.claim}")
    print(f"Report: {report.path}")
    sys.stdout.flush()


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number
