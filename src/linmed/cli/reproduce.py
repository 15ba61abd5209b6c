"""Run the experiments again from the command line."""

import argparse
import os

from linmed.paper.ledger import decided_first, tally
from linmed.paper.page import SIGN
from linmed.paper.run import DECISIVE_MINUTES, EXPERIMENTS
from linmed.paper.run import run as reproduce


def add_reproduce(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `reproduce`."""
    parser.description = (
        "Run the paper's experiments again, judge its claims and write a report. The "
        "same command again computes only what is missing."
    )
    papers, own = ([name for name, e in EXPERIMENTS.items() if e.ours == ours] for ours in (False, True))
    parser.epilog = (
        f"Experiments: {', '.join(papers)}. Of our own, one at a time, with a ledger apart: {', '.join(own)}."
    )
    add = parser.add_argument
    add("experiments", nargs="*", metavar="EXPERIMENT", help="which ones (default: all of the paper's)")
    add(
        "--scale", choices=("quick", "paper", "decisive"), default="quick",
        help="quick: a minute or two; paper: the paper's horizons and trials; decisive: trials are added "
        "where they decide a claim, which takes an hour or two (default: quick)",
    )  # fmt: skip
    add(
        "--variant", choices=("text", "as-run", "both"), default="text",
        help="as the paper's text has it, as the authors' public code runs it, or both beside each other "
        "(default: text)",
    )  # fmt: skip
    add("--workers", type=_count, metavar="N", help="processes (default: one per processor)")
    add("--cluster", metavar="ADDRESS", help="dask scheduler to use instead, as in tcp://host:8786")
    add("--out", default="linmed-report", metavar="DIR", help="where the report goes (default: %(default)s)")
    add("--trials", type=_count, metavar="N", help="trials, instead of the scale's")
    add("--horizon", type=_count, metavar="N", help="rounds, instead of the scale's")
    add(
        "--minutes", type=float, metavar="N",
        help="after so long no claim is given further trials; the same command with more of them goes on "
        f"(default: {DECISIVE_MINUTES:g} at the decisive scale)",
    )  # fmt: skip
    add("--seed", type=int, default=0, metavar="N", help="default: 0")
    for flag, variable, what in (
        ("--movielens", "LINMED_ML100K", "an ml-100k directory ({}; without one, generated features)"),
        ("--open-bandit", "LINMED_OPEN_BANDIT", "clicks: the Open Bandit Dataset's folder ({}; "
         "without one, its part is left out)"),
    ):  # fmt: skip
        given = os.environ.get(variable) or None
        add(flag, metavar="DIR", default=given, help=what.format(f"default: ${variable}"))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Carry out the command; the exit status is 0."""
    report = reproduce(
        args.experiments, args.scale, args.variant, args.out, args.workers, args.cluster,
        trials=args.trials, horizon=args.horizon, seed=args.seed, movielens=args.movielens,
        open_bandit=args.open_bandit, minutes=args.minutes,
    )  # fmt: skip
    for variant in dict.fromkeys(row.variant for row in report.ledger):
        rows = [row for row in report.ledger if row.variant == variant]
        print(f"{'As run: ' if variant == 'as-run' else ''}{tally(rows)} at this scale.")
        for row in decided_first(rows):
            if row.verdict != "undecided":
                print(f"  {SIGN[row.verdict]} {row.experiment}: {row.claim}")
    print(f"Report: {report.path}")
    return 0


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number
