"""Compare groups of visitors, as in an A/B test: the command `linmed compare`."""

import argparse
import math
from collections.abc import Sequence
from fractions import Fraction

from linmed.cli.log_options import add_log, add_output, add_question, answer, facts_of, query, rows
from linmed.ope.choose import brief, decisions_to_go, listed
from linmed.ope.compare import compare, named_arms
from linmed.ope.evaluate import COMPARABLE
from linmed.question import OPTIONS, VALID
from linmed.report.tables import Table
from linmed.report.text_report import has_interval

TITLE = "What do the groups earn?"
CAUTION = "Groups into which visitors were not put at random differ from the start."


def add_compare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `compare`."""
    parser.description = (
        "An A/B test: what do groups of visitors earn, and how much more than the first? LOG may "
        "be any table with one row a visitor. One may look as often as one likes."
    )
    add_log(parser)
    add = parser.add_argument
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--groups", metavar="COLUMN", help="which group a visitor was put into, at random")
    which.add_argument(
        "--by", choices=("control",), help="what an agent's policy decided, with what its control group did"
    )
    add(
        "--unit", metavar="COLUMN",
        help="whose row it is, where those who were put into groups have several rows: each counts once, "
        "with the mean of its rewards",
    )  # fmt: skip
    add("--baseline", metavar="GROUP", help="the group that others are compared with; default: the first")
    add(
        "--shares", type=shares, metavar="GROUP=SHARE,...",
        help="of the visitors, as they were assigned: a=0.5,b=1/4,c=1/4; equal unless given",
    )  # fmt: skip
    add("--reward", choices=("utility",), help=OPTIONS["reward"].meaning.partition(". ")[0])
    add_question(parser, compare, interval=COMPARABLE)
    add_output(parser)
    parser.set_defaults(run=run)


def shares(text: str) -> dict[str, float]:
    """Each group's share of the visitors, by its name."""
    found: dict[str, float] = {}
    for entry in text.split(","):
        name, _, share = (part.strip() for part in entry.rpartition("="))
        try:
            number = float(Fraction(share))
        except (ValueError, ZeroDivisionError):
            number = math.nan
        if not name or name in found or not number > 0:
            raise argparse.ArgumentTypeError(f"it must be like a=0.5,b=1/2, each once, got {entry.strip()!r}")
        found[name] = number
    return found


def run(args: argparse.Namespace) -> int:
    """Print the answer; the exit status is 0."""
    with query(args, "visitors", args.groups) as asked:
        own = args.groups in asked.log.columns and args.groups != "arm"
        column = "arm" if args.by else args.groups if own else named_arms(asked.log)
        told = {"unit": args.unit, "baseline": args.baseline, "shares": args.shares, **asked.options}
        both = compare(asked.log, column, by=args.by, **told, **asked.work)
    size = (len(both) + 1) // 2
    arrow = both.to_arrow().rename_columns(["group", *both.column_names[1:]])
    groups, gains = Table(arrow.slice(0, size)), Table(arrow.slice(size).drop_columns(["effective_n"]))
    names = groups["group"].to_pylist()
    base = both["target"].to_pylist()[size].rpartition(" − ")[2]
    tables = {"Value per visitor": groups, f"More than {base}": gains}
    facts = facts_of(both)
    waiting = f", {facts['waiting']:,} of them without a reward yet" if facts["waiting"] else ""
    others = [name for name in names if name != base]
    once = "one look" in groups["valid"].to_pylist()
    counted = f"{facts['decisions']:,}{waiting}"
    if args.unit is not None:
        counted = f"{facts['decisions']:,} by {args.unit}, in {facts['rows']:,} rows{waiting}"
    answer(
        args, asked, {**facts, "groups": rows(groups), "differences": rows(gains)}, title=TITLE,
        answer=_verdicts(others, base, gains, args.interval),
        about={"visitors": f"{counted}, grouped by {args.groups or args.by}"}, rewards=facts["reward_range"],
        interval=args.interval, tables=tables, meaning=_meaning(args, facts["reward_range"], once),
        caution=CAUTION,
    )  # fmt: skip
    return 0


def _verdicts(others: Sequence[str], base: str, gains: Table, interval: str) -> list[str]:
    """What each difference says, in a sentence."""
    said = []
    found = gains.to_pylist()
    more = [name for name, row in zip(others, found, strict=True) if row["lower"] > 0]
    less = [name for name, row in zip(others, found, strict=True) if row["upper"] < 0]
    for winners, word in ((more, "more"), (less, "less")):
        if winners:
            verb = "earns" if len(winners) == 1 else "earn"
            said.append(f"{listed(winners)} {verb} {word} than {base}.")
    for name, row in zip(others, found, strict=True):
        if name in (*more, *less) or interval == "none":
            continue
        if not has_interval(row):
            said.append(f"{name} against {base} cannot be judged.")
            continue
        bounds = row["estimate"], row["lower"], row["upper"]
        ahead = bounds if row["estimate"] > 0 else (-row["estimate"], -row["upper"], -row["lower"])
        wait = decisions_to_go(*ahead, row["n"])
        when = "" if wait is None else f", likely for about {brief(wait):,} more visitors"
        said.append(f"{name} against {base} is undecided{when}.")
    return said


def _meaning(args: argparse.Namespace, rewards: Sequence[float] | None, once: bool) -> str:
    """What an interval says, and on what condition; `once`: at one look, since units may still get rows."""
    if args.interval == "none":
        return "No interval was asked for: nothing is said of how far off the estimates may be."
    sure = f"{100 * args.confidence:.6g} %"
    held = (
        "all differences of the groups' average values so far lie in their intervals, and with the same one "
        "all groups do"
    )
    looks = "at every look at once, however often one looked, if visitors were put into groups at random"
    if once:
        looks = "at this one look, if it was not chosen by looking, visitors were put into groups at random"
    if VALID[args.interval] == "any time":
        low, high = rewards or (0.0, 1.0)
        possible = f"every possible reward lies in [{low:g}, {high:g}]"
        return f"With probability {sure} or more {held}, {looks} and {possible}."
    if args.interval == "asymptotic":
        return f"With probability about {sure} {held}, {looks} and are many."
    return (
        f"With probability about {sure} {held}, if visitors were put into groups at random, are many, and "
        "their number was fixed beforehand."
    )
