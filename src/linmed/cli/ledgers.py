"""`linmed ledgers`: the verdicts of several reports side by side."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from linmed.paper.claims import Row
from linmed.paper.ledger import FORMAT, side_by_side, tally
from linmed.paper.provenance import Origin, words

HEADS = {"text": "as the text has it", "as-run": "as the public code runs it"}


class Ledger(NamedTuple):
    """What a report's `ledger.json` holds."""

    command: str
    runs: list[Origin]
    rows: list[Row]


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add `ledgers` to the subcommands."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "ledgers",
        help="the verdicts of several reports side by side",
        description="Print the verdicts of reports that `linmed reproduce` wrote side by side, as Markdown.",
    )
    parser.add_argument("reports", nargs="+", type=Path, metavar="DIR", help="as given to reproduce --out")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Carry out the command."""
    print(markdown([read(path) for path in args.reports]), end="")
    return 0


def read(report: Path) -> Ledger:
    """The ledger of a report's directory."""
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
    """Where the verdicts come from, then a line for each claim and a column for each variant."""
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
