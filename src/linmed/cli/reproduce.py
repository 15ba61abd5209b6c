"""Run the experiments again from the command line, and lay their ledgers side by side."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from linmed.paper.claims import Row
from linmed.paper.ledger import FORMAT, decided_first, side_by_side, tally
from linmed.paper.output import OutputError
from linmed.paper.page import SIGN
from linmed.paper.provenance import Origin, words
from linmed.paper.run import DECISIVE_MINUTES, EXPERIMENTS, OWN, Report
from linmed.paper.run import run as reproduce
from linmed.simulation import StoreError


def add_reproduce(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `reproduce`."""
    parser.description = (
        "Run the paper's experiments again, judge its claims and write a report. The "
        "same command again computes only what is missing."
    )
    parser.epilog = (
        f"Experiments: {', '.join(EXPERIMENTS)}. By themselves, with rules and a ledger of our own: "
        f"{'; '.join(f'{name}, {words}' for name, words in OWN.items())}."
    )
    add = parser.add_argument
    add("experiments", nargs="*", metavar="EXPERIMENT", help="which ones (default: all)")
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
    for flag, variable, metavar, what in (
        ("--movielens", "LINMED_ML100K", "DIR", "an ml-100k directory ({}; without one, generated features)"),
        ("--open-bandit", "LINMED_OPEN_BANDIT", "DIR", "clicks: the Open Bandit Dataset's folder ({}; "
         "without one, its part is left out)"),
        ("--vowpal-wabbit", "LINMED_VOWPAL_WABBIT", "PYTHON", "clicks: an interpreter that has vowpalwabbit, "
         "which is installed in an environment of its own ({}; without one, it is not played)"),
    ):  # fmt: skip
        given = os.environ.get(variable) or None
        add(flag, metavar=metavar, default=given, help=what.format(f"default: ${variable}"))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Carry out the command; 0 if the report was written, 2 for a wrong request, 130 after Ctrl-C."""
    try:
        report = reproduce(
            args.experiments, args.scale, args.variant, args.out, args.workers, args.cluster,
            trials=args.trials, horizon=args.horizon, seed=args.seed, movielens=args.movielens,
            open_bandit=args.open_bandit, vowpal_wabbit=args.vowpal_wabbit, minutes=args.minutes,
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


# ---- ledgers

HEADS = {"text": "as the text has it", "as-run": "as the public code runs it"}


class Ledger(NamedTuple):
    """What a report's `ledger.json` holds."""

    command: str
    runs: list[Origin]
    rows: list[Row]


def add_ledgers(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `ledgers`."""
    parser.description = (
        "Print the verdicts of reports that `linmed reproduce` wrote side by side, as Markdown."
    )
    parser.add_argument("reports", nargs="+", type=Path, metavar="DIR", help="as given to reproduce --out")
    parser.set_defaults(run=print_ledgers)


def print_ledgers(args: argparse.Namespace) -> int:
    """Print them."""
    print(markdown([read(path) for path in args.reports]), end="")
    return 0


def read(report: Path) -> Ledger:
    """Read the ledger of a report's directory."""
    path = report / "ledger.json" if report.is_dir() else report
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != FORMAT:
            raise ValueError(f"{path} has format {document['format']}, and {FORMAT} can be read")
        return Ledger(
            document["command"],
            [Origin(**record) for record in document["runs"]],
            [Row(**record) for record in document["claims"]],
        )
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a ledger that `linmed reproduce` wrote: {error!r}") from None


def markdown(ledgers: Sequence[Ledger]) -> str:
    """Write where the verdicts come from, then a line for each claim and a column for each variant."""
    rows = [row for ledger in ledgers for row in ledger.rows]
    variants = [variant for variant in HEADS if any(row.variant == variant for row in rows)]
    blocks = ["# The paper's claims, as written and as run", *(_source(ledger) for ledger in ledgers)]
    head = ["claim", *(HEADS[variant] for variant in variants)]
    for name in dict.fromkeys(row.experiment for row in rows):
        lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        for group in side_by_side([row for row in rows if row.experiment == name]):
            verdicts = {row.variant: row.verdict for row in group}
            cells = [group[0].claim, *(verdicts.get(variant, "—") for variant in variants)]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        blocks += [f"## {name}", "\n".join(lines)]
    return "\n\n".join(blocks) + "\n"


def _source(ledger: Ledger) -> str:
    variants = dict.fromkeys(row.variant for row in ledger.rows)
    said = "; ".join(
        f"{HEADS[variant]}: {tally([row for row in ledger.rows if row.variant == variant])}"
        for variant in variants
    )
    return f"    {ledger.command}\n\n{said[:1].upper()}{said[1:]}. {words(ledger.runs)}"
