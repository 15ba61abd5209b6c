"""Share what commands on a log have in common: how logs, targets and answers are asked for and told."""

import argparse
import inspect
import json
import math
import re
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.compute as pc

from linmed.agent import Agent
from linmed.files import PICTURES, check_place, write_atomically
from linmed.log import DecisionLog, parse_columns
from linmed.log.importers import csv_schema, csv_source
from linmed.log.mapping import parquet_source
from linmed.ope.catalogue_logs import complete
from linmed.ope.intervals import OPEWarning
from linmed.ope.log_facts import has_some
from linmed.ope.targets import Target, as_target
from linmed.policies.base import Policy
from linmed.policies.table import policy_makers
from linmed.question import DEFAULTS, OPTIONS, VALID, options_of
from linmed.registry import parse
from linmed.report.estimates_page import page
from linmed.report.progress import Bar
from linmed.report.tables import Table
from linmed.report.text_report import Report, has_interval
from linmed.simulation.executors import workers_of

FORMATS = ("parquet", "csv", "open-bandit", "dsjson", "vw")
SUFFIXES = {
    ".csv": "csv", ".json": "dsjson", ".dsjson": "dsjson", ".vw": "vw", ".txt": "vw", ".dat": "vw"
}  # fmt: skip
"""What the name of a file says of its format; others are Parquet."""
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
"""What the name of a CSV file may end with besides."""
OPEN_BANDIT = {"timestamp", "item_id", "position", "click"}
"""Columns by which a CSV file is known as one of the Open Bandit Dataset."""
COMPLETED = 256
"""Decisions that are completed before the bar moves."""


def add_log(parser: argparse.ArgumentParser) -> None:
    """Add what every command on a log takes: the log, and how to read it."""
    add = parser.add_argument
    add("log", metavar="LOG", help="a log's directory or Parquet file, CSV, DSJSON or VW text")
    add("--format", choices=FORMATS, help="of LOG; guessed from its name unless given")
    add(
        "--columns", metavar="NAME=COLUMN,...",
        help="where a CSV or Parquet file has the log's columns: reward=click,arm=item",
    )  # fmt: skip
    add("--delimiter", default=",", help="of a CSV file; default: a comma, tab for a tab")
    add("--distinct", action="store_true", help="of decisions that stand in LOG twice, the first counts")
    add("--arms", type=int, help="number of arms, where the log does not say")
    add("--skip-malformed", action="store_true", help="count unreadable lines instead of stopping")


def add_complete(parser: argparse.ArgumentParser) -> None:
    """Add what a command that weighs decisions takes: who can say how probable fallbacks were."""
    parser.add_argument(
        "--complete", metavar="AGENT",
        help="the saved agent of CatalogueMED that wrote LOG: it learns LOG again, and with a pass over its "
        "catalogue for each decision fallbacks have a weight too",
    )  # fmt: skip


def add_question(parser: argparse.ArgumentParser, function: Callable[..., Any], **words: Any) -> None:
    """Add a flag for each option that `function` takes; `words`: those it knows, where they are fewer."""
    for name in options_of(function):
        option, flag = OPTIONS[name], name.replace("_", "-")
        default = inspect.signature(function).parameters[name].default
        sentences = re.split(r"\. ", option.meaning.replace("`", "").replace("%", "%%").rstrip("."))
        said = sentences[0][0].lower() + sentences[0][1:]
        told = said if default is None else f"{said}; default: {default}"
        if option.words and option.parse is str:
            choices = list(words.get(name, option.words))
            parser.add_argument(f"--{flag}", choices=choices, default=default, help=told)
        elif option.metavar:
            several: dict[str, Any] = {"nargs": 2} if isinstance(option.metavar, tuple) else {}
            parser.add_argument(
                f"--{flag}", type=option.parse, metavar=option.metavar, default=default, help=told, **several
            )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add how an answer is told, and who works on it."""
    add = parser.add_argument
    add("--json", action="store_true", help="print JSON")
    add("--html", metavar="FILE", help="write the report as a page")
    add("--progress", action=argparse.BooleanOptionalAction, default=True, help="a bar, on a terminal")
    add("--cluster", metavar="ADDRESS", help="of a Dask scheduler that sees the same files")


def options(args: argparse.Namespace) -> dict[str, Any]:
    """Collect the options that were given; the others are left to the function that is asked."""
    given = {name: getattr(args, name, None) for name in OPTIONS}
    return {name: value for name, value in given.items() if value is not None}


def conditions(args: argparse.Namespace, rewards: Sequence[float] | None) -> dict[str, str]:
    """Put them in words, for a report."""
    said = {"completed": args.completed} if getattr(args, "completed", None) else {}
    if rewards is not None:
        said["rewards"] = f"in [{rewards[0]:g}, {rewards[1]:g}]"
    for name, option in OPTIONS.items():
        value = getattr(args, name, None)
        if option.label and value is not None and value != DEFAULTS[name]:
            said[option.label] = option.shown(value)
    return said


def given_log(args: argparse.Namespace, groups: str | None = None) -> DecisionLog:
    """Open the log that a command's arguments name."""
    errors = "skip" if args.skip_malformed else "raise"
    delimiter = {"tab": "\t", "\\t": "\t"}.get(args.delimiter, args.delimiter)
    log = open_log(args.log, args.format, args.arms, errors, args.columns, groups, delimiter)
    if args.distinct:
        log = log.distinct()
    elif (repeated := log.duplicates()) is not None:
        raise ValueError(f"{log.name}: {repeated}. --distinct counts the first of each")
    if getattr(args, "complete", None) is not None:
        log, args.completed = completed(log, args.complete, args.progress)
    return log


def completed(log: DecisionLog, path: str, progress: bool = False) -> tuple[DecisionLog, str]:
    """Complete `log` by the agent saved at `path`, and say how much of it; refused where it is none."""
    done = complete(log, saved_agent(path, "--complete"))
    before = sum(pc.sum(batch.column(0)).as_py() or 0 for batch in log.batches(["fallback"]))
    left = rows = 0
    with Bar(progress, "decisions", "completing") as bar:
        for batch in done.batches(["fallback"], COMPLETED):
            left += pc.sum(batch.column(0)).as_py() or 0
            bar.reach(rows := rows + batch.num_rows)
    if left == before:
        why = f"has {left:,} fallbacks, all decided among catalogues that the agent does not know"
        raise ValueError(f"--complete {path}: {log.name} {('has no fallbacks', why)[left > 0]}")
    words = f"by {path}: {before - left:,} of {before:,} fallbacks have a weight"
    if left:
        words += ", the others were decided among a catalogue that it does not know"
    return done, words


def open_log(
    path: str,
    kind: str | None = None,
    arms: int | None = None,
    errors: str = "raise",
    columns: str | None = None,
    groups: str | None = None,
    delimiter: str = ",",
) -> DecisionLog:
    """Open the log at `path`. Its format is guessed from its name, and for CSV from its header, unless given.

    `groups`: a column that stands for the arms where a file has none, as that of an A/B test.
    """
    place = Path(path)
    if kind is None:
        kind = "parquet" if place.is_dir() else _format(place)
        if kind == "csv" and columns is None and OPEN_BANDIT <= set(csv_schema(place, delimiter).names):
            kind = "open-bandit"
    if columns is not None and kind not in ("csv", "parquet"):
        raise ValueError(f"--columns is for CSV and Parquet files, {path} is read as {kind}")
    if kind == "open-bandit":
        return DecisionLog.from_open_bandit(place, arms, errors)
    if kind == "dsjson":
        return DecisionLog.from_dsjson(place, errors=errors)
    if kind == "vw":
        return DecisionLog.from_vw(place, arm_count=arms, errors=errors)
    mapping = _columns(columns, arms)
    if groups is not None and place.exists():
        mapping = {**_visitors(place, kind, mapping, groups, delimiter), **mapping}
    try:
        if kind == "csv":
            return DecisionLog.from_csv(place, columns=mapping, errors=errors, delimiter=delimiter)
        return DecisionLog.open(place, columns=mapping) if mapping else DecisionLog.open(place)
    except ValueError as error:
        if "has no probability (" in str(error):
            raise ValueError(
                f"{error}: say where it is with --columns probability=COLUMN, or what it was, as in "
                "probability=1/3 (groups of an A/B test need none: linmed compare)"
            ) from None
        if columns is None and "needs the columns" in str(error):
            raise ValueError(f"{error}: say where they are with --columns reward=click,arm=item") from None
        raise


def _columns(text: str | None, arms: int | None) -> dict[str, Any]:
    """Where the log's columns are, the number of arms among them."""
    mapping: dict[str, Any] = {}
    if text is not None:
        mapping.update(parse_columns(text))
    return mapping if arms is None else {**mapping, "arm_count": arms}


def _visitors(place: Path, kind: str, mapping: dict[str, Any], groups: str, delimiter: str) -> dict[str, Any]:
    """Groups for arms where a file has no arms, and one for the probabilities that it does not tell."""
    csv = kind == "csv"
    source = csv_source(place, mapping, "raise", delimiter) if csv else parquet_source(place, mapping)
    have = source.columns
    if groups not in have:
        raise ValueError(f"--groups must be one of the columns {', '.join(have)}, got {groups!r}")
    instead = {"arm": groups, "probability": 1.0}
    return {name: value for name, value in instead.items() if name not in have}


def _format(place: Path) -> str:
    """By the name of a file, which may say of a CSV that it is compressed."""
    last = place.suffix.lower()
    if last in COMPRESSED:
        return "csv" if place.with_suffix("").suffix.lower() == ".csv" else "parquet"
    return SUFFIXES.get(last, "parquet")


def parse_target(text: str) -> Target:
    """Find the target that an argument names: TARGET, or NAME=TARGET. An agent is loaded from its file."""
    name, text = _name(text)
    return as_target(_agent(text) if text.startswith("agent:") else text, name)


def _agent(text: str) -> Agent:
    """The agent in agent:FILE."""
    return saved_agent(text.removeprefix("agent:").strip(), f"target {text!r}")


def saved_agent(path: str, who: str) -> Agent:
    """Load the agent at `path`, which `who` names."""
    place = Path(path)
    if not place.is_file():
        there = "is a directory" if place.is_dir() else "does not exist"
        raise ValueError(f"{who} must name a file that agent.save wrote; {str(place)!r} {there}")
    return Agent.load(place)


def parse_candidate(text: str) -> tuple[str, Policy | Target]:
    """Find a candidate and its name: a target, or a policy that is to learn."""
    name, said = _name(text)
    found: Policy | Target
    if said.startswith("policy:"):
        found = parse("policy", said.removeprefix("policy:"), policy_makers())
    else:
        found = parse_target(said)
    return name or found.name, found


def _name(text: str) -> tuple[str | None, str]:
    """NAME and what follows in NAME=…, where the sign stands before all others that mean something."""
    match = re.fullmatch(r"([^=:()]+)=(.+)", text, flags=re.DOTALL)
    return (match[1].strip(), match[2].strip()) if match else (None, text)


@contextmanager
def doubts() -> Iterator[list[str]]:
    """Collect the doubts that are uttered inside, once each; other warnings go their usual way."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", OPEWarning)
        yield found
    for one in caught:
        if issubclass(one.category, OPEWarning):
            found.append(str(one.message))
        else:
            warnings.showwarning(one.message, one.category, one.filename, one.lineno)
    found[:] = dict.fromkeys(found)


class Query(NamedTuple):
    """What a command asks of a log, and what it works with."""

    log: DecisionLog
    options: dict[str, Any]
    work: dict[str, Any]
    """`progress` and `executor`, as the functions of linmed.ope take them."""
    bar: Bar
    doubts: list[str]
    """Those that were uttered; complete when the query is left."""


@contextmanager
def query(args: argparse.Namespace, unit: str = "decisions", groups: str | None = None) -> Iterator[Query]:
    """Open the log, check where answers go, and collect doubts while somebody works."""
    check_place(getattr(args, "plot", None), PICTURES)
    check_place(args.html)
    log, given = given_log(args, groups), options(args)
    with Bar(args.progress, unit) as bar, workers_of(1, args.cluster) as workers, doubts() as found:
        yield Query(log, given, {"progress": bar.reach, "executor": workers}, bar, found)


# ---- answers


def answer(
    args: argparse.Namespace, asked: Query, facts: Mapping[str, Any], *, about: Mapping[str, str],
    rewards: Sequence[float] | None, interval: str, tables: Mapping[str, Table], notes: Sequence[str] = (),
    all_at_once: bool = True, **words: Any,
) -> None:  # fmt: skip
    """Tell what was found, with what was asked, doubts about it and lines of the log that were not read.

    about: what the log is, in words, after its name; `words` go into the report as they are.
    """
    once = " for all at once" if all_at_once else ""
    report = Report(
        asked={
            "log": args.log,
            **about,
            "interval": f"{interval}, confidence {100 * args.confidence:.6g} %{once}",
            **conditions(args, rewards),
        },
        tables=tables,
        warnings=[*asked.doubts, *unexplained(interval, tables.values(), asked.doubts)],
        notes=[*notes, *absent(asked.log), *(unread(asked.log) if args.skip_malformed else [])],
        **words,
    )
    tell(report, args.html, facts if args.json else None)


def tell(report: Report, file: str | None, facts: Mapping[str, Any] | None) -> None:
    """Tell what a command found: as a page into `file`, if there is one, and as text, or `facts` as JSON."""
    if file is not None:
        write_atomically(Path(file), page(report).encode())
    if facts is not None:
        print(json.dumps({**facts, "warnings": report.warnings, "notes": report.notes}, indent=2))
    else:
        print(report.text(shutil.get_terminal_size().columns))


def meaning(
    interval: str,
    confidence: float,
    rewards: Sequence[float] | None,
    value: str = "average so far",
) -> str:
    """Say what an interval of that kind says, and on what condition; `value`: which average it is about."""
    if interval == "none":
        return "No interval was asked for: nothing is said of how far off the estimates may be."
    sure = f"{100 * confidence:.6g} %"
    value = f"the target's {value}"
    exact = "the logged probabilities are exact"
    if interval == "asymptotic":
        return (
            f"With probability about {sure} the interval holds {value} at every look at once, however the "
            f"logging policy learned, if decisions are many and {exact}."
        )
    if VALID[interval] == "any time":
        low, high = rewards or (0.0, 1.0)
        return (
            f"With probability {sure} or more the interval holds {value} at every look at once, however "
            f"often one looked and however the logging policy learned, if {exact} and every possible reward "
            f"lies in [{low:g}, {high:g}]."
        )
    policy = "learned slowly" if interval == "adaptive" else "did not learn"
    return (
        f"In about {sure} of such logs the interval holds the target's value if the logging policy {policy}, "
        f"decisions are many, their number was fixed beforehand and {exact}."
    )


def unexplained(interval: str, tables: Iterable[Table], found: Sequence[str]) -> Iterator[str]:
    """Say of every row without an interval that it has none, unless a doubt says so."""
    for table in tables if interval != "none" else ():
        kind = table.column_names[0]
        for name in dict.fromkeys(row[kind] for row in table.to_pylist() if not has_interval(row)):
            if not any(repr(name) in doubt for doubt in found):
                yield f"{kind} {name!r} has no interval: nothing tells how far off its estimate may be"


def unread(log: DecisionLog) -> list[str]:
    """Note the lines that were skipped."""
    if not log.malformed.count:
        return []
    line, reason = log.malformed.first[0]
    return [f"{log.malformed.count} lines could not be read, the first is line {line}: {reason}"]


def absent(log: DecisionLog) -> list[str]:
    """Note how many rewards of a log were assumed, since none had come by the deadline."""
    batches = log.batches(["missing"]) if has_some(log, "missing") else ()
    count = sum(pc.sum(batch.column(0)).as_py() or 0 for batch in batches)
    return (
        [f"no reward of {count:,} decisions came by its deadline: the one assumed then counts"]
        if count
        else []
    )


def facts_of(table: Table) -> dict[str, Any]:
    """Read what an evaluation says of itself, beside its rows."""
    about = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    return {key: value if key == "interval" else json.loads(value) for key, value in about.items()}


def rows(table: Table) -> list[dict[str, Any]]:
    """Make a table's rows for JSON, which knows no NaN."""
    return [
        {
            key: value if not isinstance(value, float) or math.isfinite(value) else None
            for key, value in row.items()
        }
        for row in table.to_pylist()
    ]
